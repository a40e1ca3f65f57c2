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
// the note gone and protects the instance itself. If the group refuses, it is terminating the
// instance already; the task starts all the same and is replaced with the instance.
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
		err := r.Groups.SetInstanceProtection(ctx, name, released[name], true)
		if err == nil {
			continue
		}
		code := cluster.ErrorCode(err)
		handler.Logger(r.Log).Warn("protecting instances before tasks start there", "cluster", r.cluster, "group", name,
			"error", err)
		if code == cluster.CodeServer || code == cluster.CodeThrottling || code == cluster.CodeAccessDenied {
			return false
		}
	}
	return true
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
