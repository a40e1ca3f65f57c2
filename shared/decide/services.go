package decide

import (
	"maps"
	"slices"

	"berth/shared/cluster"
	"berth/shared/decide/plan"
	"berth/shared/state"
)

// reconcileServices reconciles the services touched by this batch, then retries blocked services
// while freed capacity lasts. Each service that takes some leaves fewer to retry. It reports
// whether it started tasks that a rule could move.
func reconcileServices(
	view *clusterView, commits *plan.Builder, changes *Changes, strategy cluster.SchedulingStrategy,
) (placedGoverned bool) {
	reconcile := func(name string) {
		s := view.snap.Services[name]
		if s == nil || s.Strategy != strategy {
			return
		}
		reserved := view.snap.Reservations(s.Short)
		placed := reconcileService(view, commits, changes, s)
		placedGoverned = placedGoverned || placed && view.snap.GovernedServices()[name] != nil
		addReleased(changes.freed, reserved, view.snap.Reservations(s.Short))
	}
	for _, name := range slices.Sorted(maps.Keys(changes.services)) {
		reconcile(name)
	}
	for retried := true; retried; {
		retried = false
		for _, s := range retryableServices(view, changes, strategy) {
			if canUnblock(view, changes, s) {
				changes.services[s.Name], retried = true, true
				reconcile(s.Name)
			}
		}
	}
	return placedGoverned
}

// scheduleDisconnectTimeouts wakes placement when the agents that are disconnected now will have
// been so for too long.
func scheduleDisconnectTimeouts(view *clusterView, commits *plan.Builder, changes *Changes) {
	for _, id := range slices.Sorted(maps.Keys(changes.agents)) {
		v := view.snap.Instances[id]
		if v == nil || !slices.ContainsFunc(v.Tasks, func(t *cluster.Task) bool { return t.Service != "" }) {
			continue
		}
		if at := view.disconnectDeadline(v); cluster.RemainingWait(at, view.now, view.settings.DisconnectTimeout) > 0 {
			commits.ScheduleDue(state.DueHost, id, at)
		}
	}
}
