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

// wakeGap is the least time between two wake-ups of a function for one cluster and cause. It is
// less than the time for which records are gathered, so it delays only what comes in whole batches,
// such as a thousand instances that register together.
const wakeGap = 900 * time.Millisecond

// maxArrival bounds how long a wake-up that was sent is on its way.
const maxArrival = cluster.ScaleOutIdle + 2*time.Second

// A sentWakeUp is a wake-up of the function with that number among the sleepers.
type sentWakeUp struct {
	sleeper int
	wakeUp  handler.WakeUp
}

// delayWakeUp returns after which delay to send a wake-up that should arrive after wait, and false if
// one that was sent before has not arrived yet and arrives no sooner: it finds the same. A change by
// the API waits for no other. Delays are whole seconds, as those of SQS.
func (h *Handler) delayWakeUp(w sentWakeUp, wait time.Duration) (delay time.Duration, send bool) {
	if w.wakeUp.Cause == handler.WakeChange {
		return wait, true
	}
	now := h.Clock.Now()
	// Those that would arrive much later were sent before this environment's clock went back.
	maps.DeleteFunc(h.arrivals, func(_ sentWakeUp, at time.Time) bool {
		return cluster.RemainingWait(at.Add(wakeGap), now, maxArrival+wakeGap) == 0
	})
	last, sent := h.arrivals[w]
	if sent && last.After(now) && !last.Before(now.Add(wait)) {
		return 0, false
	}
	if sent {
		wait = max(wait, last.Add(wakeGap).Sub(now))
	}
	delay = (wait + time.Second - 1).Truncate(time.Second)
	if h.arrivals == nil {
		h.arrivals = map[sentWakeUp]time.Time{}
	}
	h.arrivals[w] = now.Add(delay)
	return delay, true
}

// wakeFunctions wakes the functions that wait for what the records change, once for each cluster
// and cause. If it cannot be found out whether a function waits, the function is woken.
func (h *Handler) wakeFunctions(ctx context.Context, records []state.Record) {
	sleepers := slices.DeleteFunc(h.sleepers(), func(s sleeper) bool { return s.queue == nil })
	if len(sleepers) == 0 {
		return
	}
	changed := h.clustersWithChangedInstances(ctx, records)
	for n, s := range sleepers {
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
			wait, waits, err := s.confirm(ctx, w)
			if err != nil {
				handler.Logger(h.Log).Error("asking whether a function waits", "cluster", w.Cluster, "error", err)
			}
			if !waits && err == nil {
				continue
			}
			key := sentWakeUp{n, w}
			if delay, send := h.delayWakeUp(key, wait); send && !handler.SendWakeUp(ctx, s.queue, h.Log, w, delay) {
				delete(h.arrivals, key)
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
