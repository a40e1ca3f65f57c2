package dispatch

import (
	"fmt"
	"maps"
	"slices"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/state"
)

// protect has the instances of these starts protected from scale-in that managed scaling has let go of (C6), and reports
// whether the starts may be made. The note that they may be taken is taken back first: managed scaling, which may just be about to
// let go of them, finds it gone and protects them again. A group that refuses is taking the instance already: the task is replaced with it.
func (d *drainer) protect(group []state.StartItem) bool {
	released := map[string][]string{}
	for _, s := range group {
		if s.ReleasedIn != "" && d.Groups != nil {
			if err := d.takeBack(s.Instance); err != nil {
				handler.Logger(d.Log).Warn("taking back that an instance may be taken", "cluster", d.cluster, "instance", s.Instance, "error", err)
				return false
			}
			released[s.ReleasedIn] = append(released[s.ReleasedIn], s.EC2InstanceID)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(released)) {
		err := d.Groups.SetInstanceProtection(d.ctx, name, released[name], true)
		if err == nil {
			continue
		}
		code := cluster.ErrorCode(err)
		handler.Logger(d.Log).Warn("protecting instances before tasks start there", "cluster", d.cluster, "group", name, "error", err)
		if code == cluster.CodeServer || code == cluster.CodeThrottling || code == cluster.CodeAccessDenied {
			return false
		}
	}
	return true
}

// takeBack writes down that no group may take the instance.
func (d *drainer) takeBack(id string) error {
	return state.RetryRaces("protecting instance "+id, func() error {
		row, err := d.State.Get(d.ctx, state.InstanceKey(d.cluster, id))
		if err != nil {
			return fmt.Errorf("reading instance %s: %w", id, err)
		}
		i, ok := row.(*cluster.Instance)
		if !ok || i == nil || i.ReleasedIn == "" {
			return nil
		}
		next := *i
		next.Rev++
		next.Stamp, next.ReleasedIn = 0, ""
		_, err = d.State.Write(d.ctx, state.Write{Put: &next})
		return err
	})
}
