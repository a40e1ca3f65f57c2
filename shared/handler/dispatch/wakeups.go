package dispatch

import (
	"context"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/state"
)

// maxInstanceReads is how many instances of a cluster are read per batch to find one that drains.
// If tasks have stopped on more, the waiting functions are woken unasked.
const maxInstanceReads = 20

// A sleeper is a function that dispatch wakes through its queue. A wake-up that is lost is made up
// for by the function's schedule of each minute.
type sleeper struct {
	queue handler.Queue
	// wakeUps returns the wake-ups for a change of a row that the function waits for.
	wakeUps func(state.Record) []handler.WakeUp
	// confirm returns after which delay a wake-up is sent. It is asked once per wake-up and batch,
	// and returns false if the function waits for nothing of the kind in that cluster.
	confirm func(context.Context, handler.WakeUp) (delay time.Duration, waits bool, err error)
}

// sleepers returns the functions that dispatch wakes.
func (h *Handler) sleepers() []sleeper {
	return []sleeper{
		{h.Scaling, scalingWakeUps, h.confirmScaling},
		{h.Upgrades, upgradeWakeUps, h.confirmUpgrade},
	}
}

// wakeFunctions wakes the functions that wait for what the records change, once for each cluster
// and cause. If it cannot be found out whether a function waits, the function is woken.
func (h *Handler) wakeFunctions(ctx context.Context, records []state.Record) {
	sleepers := slices.DeleteFunc(h.sleepers(), func(s sleeper) bool { return s.queue == nil })
	if len(sleepers) == 0 {
		return
	}
	changed := h.clustersWithChangedInstances(ctx, records)
	for _, s := range sleepers {
		var found []handler.WakeUp
		for _, r := range records {
			found = append(found, s.wakeUps(r)...)
		}
		for _, name := range changed {
			found = append(found, handler.WakeUp{Cluster: name, Cause: handler.WakeInstance})
		}
		seen := map[handler.WakeUp]bool{}
		for _, w := range found {
			if seen[w] {
				continue
			}
			seen[w] = true
			delay, waits, err := s.confirm(ctx, w)
			if err != nil {
				handler.Logger(h.Log).Error("asking whether a function waits", "cluster", w.Cluster, "error", err)
			}
			if waits || err != nil {
				handler.SendWakeUp(ctx, s.queue, h.Log, w, delay)
			}
		}
	}
}

// clustersWithChangedInstances returns the clusters in which an instance has registered, is
// available again, drains, has lost a task while draining, or has left.
func (h *Handler) clustersWithChangedInstances(ctx context.Context, records []state.Record) (changed []string) {
	isChanged := map[string]bool{}
	left := map[string]map[string]bool{} // instances whose tasks have ended, by cluster
	for _, r := range records {
		name := r.Key.Cluster
		switch row := r.Row().(type) {
		case *cluster.Instance:
			old, _ := r.Old.(*cluster.Instance)
			if r.New != nil && !isChanged[name] &&
				(old == nil || old.Status != row.Status || row.IsAvailable() && !old.IsAvailable()) {
				isChanged[name] = true
				changed = append(changed, name)
			}
		case *cluster.Task:
			if !hasLeftRoom(r) {
				continue
			}
			if left[name] == nil {
				left[name] = map[string]bool{}
			}
			left[name][row.Instance] = true
		}
	}
	for _, r := range records { // in the order of the batch
		name := r.Key.Cluster
		if left[name] != nil && !isChanged[name] && h.anyDraining(ctx, name, left[name]) {
			isChanged[name] = true
			changed = append(changed, name)
		}
		delete(left, name)
	}
	return changed
}

// hasLeftRoom reports whether a task has ended on an instance.
func hasLeftRoom(r state.Record) bool {
	next, _ := r.New.(*cluster.Task)
	old, _ := r.Old.(*cluster.Task)
	return next != nil && next.Instance != "" && next.HasEnded() && (old == nil || !old.HasEnded())
}

// anyDraining reports whether one of the instances drains. It answers yes if there are too many to
// read, or one cannot be read.
func (h *Handler) anyDraining(ctx context.Context, clusterName string, ids map[string]bool) bool {
	if len(ids) > maxInstanceReads {
		return true
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		i, err := state.ReadRow[*cluster.Instance](ctx, h.State, state.InstanceKey(clusterName, id), "instance "+id)
		if err != nil || i != nil && i.Status == cluster.InstanceDraining {
			return true
		}
	}
	return false
}
