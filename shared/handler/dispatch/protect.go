package dispatch

import (
	"context"
	"maps"
	"slices"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/state"
)

// protectInstances protects the released instances among these starts from scale-in again (C6), and
// reports whether the starts may be made. It first clears the row's note that the instance is
// released: managed scaling, which may be about to remove the protection at this moment, then finds
// the note gone and protects the instance itself. If the group refuses for an instance, it is terminating it
// already; the task starts all the same and is replaced with the instance.
func protectInstances(ctx context.Context, r *round, group []state.StartItem) bool {
	released := map[string][]string{}
	for _, s := range group {
		if s.ReleasedIn != "" && r.Groups != nil {
			if err := clearReleased(ctx, r, s.Instance); err != nil {
				handler.Logger(r.Log).Warn("clearing the release of an instance", "cluster", r.cluster, "instance",
					s.Instance, "error", err)
				return false
			}
			released[s.ReleasedIn] = append(released[s.ReleasedIn], s.EC2InstanceID)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(released)) {
		refused, again := protectIn(ctx, r, name, released[name])
		if refused && len(released[name]) > 1 { // for one of them: a group refuses for all
			for _, id := range released[name] {
				_, failed := protectIn(ctx, r, name, []string{id})
				again = again || failed
			}
		}
		if again {
			return false
		}
	}
	return true
}

// protectIn protects instances of a group. refused means that the group does not protect all of them, again
// that the call failed and may succeed later.
func protectIn(ctx context.Context, r *round, group string, instances []string) (refused, again bool) {
	err := r.Groups.SetInstanceProtection(ctx, group, instances, true)
	if err == nil {
		return false, false
	}
	handler.Logger(r.Log).Warn("protecting instances before tasks start there", "cluster", r.cluster, "group", group,
		"instances", instances, "error", err)
	switch cluster.ErrorCode(err) {
	case cluster.CodeServer, cluster.CodeThrottling, cluster.CodeAccessDenied:
		return false, true
	}
	return true, false
}

// clearReleased records that no Auto Scaling group may terminate the instance.
func clearReleased(ctx context.Context, r *round, id string) error {
	return state.RetryRaces(ctx, r.Clock, "protecting instance "+id, func() error {
		i, err := state.ReadRow[*cluster.Instance](ctx, r.State, state.InstanceKey(r.cluster, id), "instance "+id)
		if err != nil || i == nil || i.ReleasedIn == "" {
			return err
		}
		next := *i
		next.Rev++
		next.Stamp, next.ReleasedIn = 0, ""
		_, err = r.State.Write(ctx, state.Write{Put: &next})
		return err
	})
}
