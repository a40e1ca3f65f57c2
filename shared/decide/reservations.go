package decide

import (
	"maps"
	"slices"

	"berth/shared/cluster"
	"berth/shared/decide/specs"
	"berth/shared/placement"
	"berth/shared/snapshot"
)

// An instance keeps room free for each DAEMON service that should have a task there and has none of
// its current revision: the start is throttled, there is no room, or a task of an older revision
// still runs (S4). Every decision about the service derives its reservations anew from the rows.

// reserveForDaemons makes the reservations of all DAEMON services, except those about to be
// reconciled, which make their own. A snapshot needs that once, after it was loaded.
func reserveForDaemons(view *clusterView, warm *WarmSnapshot, except map[string]bool) {
	if warm.reserved {
		return
	}
	warm.reserved = true
	daemons := view.snap.DaemonServices()
	for _, name := range slices.Sorted(maps.Keys(daemons)) {
		if !except[name] {
			reserveForDaemon(view, daemons[name])
		}
	}
}

// ReserveForDaemons makes the reservations of all DAEMON services in a snapshot that questions are
// asked of: placement has them when it decides. The engine must be of this snapshot.
func ReserveForDaemons(snap *snapshot.Snapshot, engine *placement.Engine) {
	if len(snap.DaemonServices()) == 0 {
		return
	}
	reserveForDaemons(&clusterView{snap: snap, engine: engine, specs: specs.NewCache(snap)}, &WarmSnapshot{}, nil)
}

// WithOwnReservation calls f while what instances keep free for the owner counts as free, as it does
// when placement decides about the owner's tasks (S4).
func WithOwnReservation(snap *snapshot.Snapshot, owner string, f func()) {
	kept := snap.Reservations(owner)
	snap.Reserve(owner, nil)
	f()
	snap.Reserve(owner, kept)
}

// reserveForDaemon replaces the service's reservations: on each instance that its next task may go
// to, what the task needs less what the service's tasks hold there already.
func reserveForDaemon(view *clusterView, s *cluster.Service) {
	deployment, def := startableDeployment(view, s)
	if def == nil || s.Status != cluster.ServiceActive {
		view.snap.Reserve(s.Short, nil)
		return
	}
	held, current := map[string]cluster.Resources{}, map[string]bool{}
	for _, t := range view.snap.TasksOf(s.Short) {
		if !t.HoldsCapacity() {
			continue
		}
		h := held[t.Instance]
		h.CPU, h.Memory, h.ENIs = h.CPU+t.Needs.CPU, h.Memory+t.Needs.Memory, h.ENIs+t.Needs.ENIs
		held[t.Instance] = h
		current[t.Instance] = current[t.Instance] || t.IsActive() && t.Revision == deployment.ID
	}
	reservations := map[*snapshot.InstanceView]cluster.Resources{}
	startSpec := view.specs.ForService(s, def, "")
	for _, id := range eligibleInstances(view, s) {
		v, h := view.snap.Instances[id], held[id]
		if current[id] || !view.engine.MatchesInstance(v, startSpec) || !fitsWhenEmpty(view, v, s, def) {
			continue
		}
		need := cluster.Resources{
			CPU: max(0, def.Needs.CPU-h.CPU), Memory: max(0, def.Needs.Memory-h.Memory),
			ENIs: max(0, def.Needs.ENIs-h.ENIs),
		}
		if need != (cluster.Resources{}) {
			reservations[v] = need
		}
	}
	view.snap.Reserve(s.Short, reservations)
}

// eligibleInstances returns the instances that a DAEMON service should have a task on. The PRIMARY
// deployment's task definition says which, even if the deployment has failed.
func eligibleInstances(view *clusterView, s *cluster.Service) []string {
	def := view.snap.Definitions[s.Deployment.TaskDefinition]
	if def == nil {
		return nil
	}
	return view.engine.EligibleInstances(view.specs.ForService(s, def, ""))
}

// addReleased adds the instances that have less reserved than before, on which blocked services may
// find room.
func addReleased(freed map[string]bool, before, after map[*snapshot.InstanceView]cluster.Resources) {
	for v, was := range before {
		is := after[v]
		if is.CPU < was.CPU || is.Memory < was.Memory || is.ENIs < was.ENIs {
			freed[v.ID] = true
		}
	}
}

// startableDeployment returns the newest deployment of a DAEMON service that has not failed, and so
// starts tasks, with its task definition. The definition is nil if there is none.
func startableDeployment(view *clusterView, s *cluster.Service) (*cluster.Deployment, *cluster.TaskDefinition) {
	next := &s.Deployment
	for k := 0; next.State == cluster.RolloutFailed && k < len(s.Older); k++ {
		next = &s.Older[k]
	}
	if next.State == cluster.RolloutFailed {
		return next, nil
	}
	return next, view.snap.Definitions[next.TaskDefinition]
}

// fitsWhenEmpty reports whether the instance has the capacity for a task of the service when
// nothing else is on it. Otherwise a reservation is useless.
func fitsWhenEmpty(view *clusterView, v *snapshot.InstanceView, s *cluster.Service, def *cluster.TaskDefinition) bool {
	need, has := def.Needs, v.Registered
	if need.CPU > has.CPU || need.Memory > has.Memory || need.GPUs > len(has.GPUs) || has.ENIs != nil &&
		int(need.ENIs) > *has.ENIs {
		return false
	}
	for _, m := range s.Rules.Metrics {
		if m.Load > v.Limit(view.snap.MetricIndex(m.Name)).Total {
			return false
		}
	}
	return true
}

// hasReservedRoom reports whether an instance has as much room as a task of the DAEMON service
// needs, counting what is reserved for that service as free.
func hasReservedRoom(view *clusterView, s *cluster.Service, id string) bool {
	v := view.snap.Instances[id]
	_, def := startableDeployment(view, s)
	own, reserved := view.snap.Reservations(s.Short)[v]
	if !reserved || def == nil {
		return false
	}
	need, others := def.Needs, v.ReservedCapacity()
	return v.CPU-others.CPU+own.CPU >= need.CPU && v.Memory-others.Memory+own.Memory >= need.Memory &&
		v.ENIs-int(others.ENIs)+int(own.ENIs) >= int(need.ENIs)
}
