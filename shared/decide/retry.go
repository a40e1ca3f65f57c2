package decide

import (
	"cmp"
	"slices"

	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/decide/specs"
	"berth/shared/placement"
)

// addAffectedServices adds the services that a changed instance affects even if it has no room:
// DAEMON services, and services whose zones it may unbalance.
func addAffectedServices(view *clusterView, changes *Changes) {
	for _, s := range view.snap.DaemonServices() {
		if changes.allDaemons || isMismatched(view, changes, s) {
			changes.services[s.Name] = true
		}
	}
	addUnbalancedServices(view, changes)
}

// isMismatched reports whether the constraints of a DAEMON service, which may depend on the tasks
// of an instance, now want a task on a changed instance that has none, or none on one that has.
func isMismatched(view *clusterView, changes *Changes, s *cluster.Service) bool {
	def := view.snap.Definitions[s.Deployment.TaskDefinition]
	if def == nil || s.Status != cluster.ServiceActive {
		return false
	}
	startSpec, runningSpec := view.specs.ForService(s, def, ""), view.specs.ForRunningDaemon(s, def)
	if !dependsOnTasks(startSpec) && !dependsOnTasks(runningSpec) {
		return false
	}
	mismatched := func(id string) bool {
		v := view.snap.Instances[id]
		if v == nil || v.Instance == nil || !v.IsAvailable() {
			return false
		}
		if view.hasTaskOf(s.Short, id) {
			return !view.engine.MatchesInstance(v, runningSpec)
		}
		return view.engine.MatchesInstance(v, startSpec)
	}
	return anyKey(changes.freed, mismatched) || anyKey(changes.joined, mismatched)
}

// dependsOnTasks reports whether the tasks of an instance decide if it is feasible.
func dependsOnTasks(spec *placement.Spec) bool {
	return spec.Affinity != "" || spec.Application != "" || slices.ContainsFunc(spec.Constraints,
		func(x *constraint.Expression) bool { return !x.Static() })
}

// retryableServices returns blocked services whose next task may fit on an instance that changed,
// sorted by name. It compares plain resources only: most services fail that, and [canUnblock]
// costs more.
func retryableServices(view *clusterView, changes *Changes, strategy cluster.SchedulingStrategy) []*cluster.Service {
	if len(changes.freed)+len(changes.joined) == 0 {
		return nil
	}
	fits := map[string]bool{} // by task definition: many services may share one
	definitionFits := func(name string) bool {
		known, ok := fits[name]
		if !ok {
			known = definitionFitsChanged(view, changes, name)
			fits[name] = known
		}
		return known
	}
	var out []*cluster.Service
	for _, s := range view.snap.BlockedServices() {
		if s.Strategy != strategy || changes.services[s.Name] {
			continue
		}
		if strategy == cluster.Daemon || definitionFits(s.Deployment.TaskDefinition) ||
			slices.ContainsFunc(s.Older,
				func(older cluster.Deployment) bool { return definitionFits(older.TaskDefinition) }) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *cluster.Service) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// definitionFitsChanged reports whether an instance that changed has as much left as a task of the
// definition needs.
func definitionFitsChanged(view *clusterView, changes *Changes, name string) bool {
	def := view.snap.Definitions[name]
	if def == nil {
		return false
	}
	hasFree := func(id string) bool {
		v := view.snap.Instances[id]
		return v != nil && v.HasFree(def.Needs)
	}
	return anyKey(changes.freed, hasFree) || anyKey(changes.joined, hasFree)
}

// canUnblock reports whether a task of any of the service's revisions fits on one of the instances
// that changed.
func canUnblock(view *clusterView, changes *Changes, s *cluster.Service) bool {
	if s.Strategy == cluster.Daemon && anyKey(changes.freed,
		func(id string) bool { return hasReservedRoom(view, s, id) }) {
		return true
	}
	for _, revision := range s.Revisions() {
		def := view.snap.Definitions[revision.TaskDefinition]
		if def == nil {
			continue
		}
		of := s.OfRevision(revision.ID)
		for _, provider := range specs.ProvidersOf(of) {
			if fitsChanged(view, changes, providerRequest(view, of, def, provider, 1)) {
				return true
			}
		}
	}
	return false
}

// fitsChanged reports whether one of the instances that changed is feasible for the request.
func fitsChanged(view *clusterView, changes *Changes, r placement.Request) bool {
	fits := func(id string) bool {
		v := view.snap.Instances[id]
		// most instances fail the first check, which is cheap
		return v != nil && v.HasFree(r.Spec.Needs) && isFeasible(view, v, r)
	}
	return anyKey(changes.freed, fits) || dependsOnTasks(r.Spec) && anyKey(changes.joined, fits)
}
