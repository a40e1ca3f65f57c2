package decide

import (
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/decide/specs"
	"berth/shared/placement"
	"berth/shared/snapshot"
	"berth/shared/spelling"
)

// serviceRequest asks for n tasks of the service, with any capacity provider of its strategy, or on
// any instance if it has none.
func serviceRequest(view *clusterView, s *cluster.Service, def *cluster.TaskDefinition, n int) placement.Request {
	return providerRequest(view, s, def, anyProvider(s), n)
}

// providerRequest asks for n tasks of the service with one capacity provider, or on any instance if
// the provider is empty. Domains count the tasks of all task sets of a service, so the target is
// what they should have together.
func providerRequest(
	view *clusterView, s *cluster.Service, def *cluster.TaskDefinition, provider string, n int,
) placement.Request {
	target := s.Desired
	if row := view.snap.Services[s.Name]; row != nil && row.HasTaskSets() {
		target = row.WantedTasks()
	}
	return placement.Request{
		Spec: view.specs.ForProvider(provider, s, def, view.snap.Configuration.DomainPolicy), Count: n,
		Target: target,
	}
}

// anyProvider stands for all capacity providers of the service's strategy.
func anyProvider(s *cluster.Service) string { return strings.Join(specs.ProvidersOf(s), "|") }

// isFeasible reports whether the instance could take one task of the request.
func isFeasible(view *clusterView, v *snapshot.InstanceView, r placement.Request) bool {
	_, rejected := view.engine.CheckInstance(v, r)
	return rejected == nil
}

// canPlace reports whether one task of the request would find an instance. It asks for no
// diagnosis, which costs more.
func canPlace(view *clusterView, r placement.Request) bool {
	r.Unexplained = true
	return len(view.engine.Place(r).Placed) > 0
}

// placeForProvider places tasks of a capacity provider, or of none if it is empty. If the provider
// has no instance at all, the diagnosis says so.
func placeForProvider(view *clusterView, provider string, r placement.Request) placement.Result {
	result := view.engine.Place(r)
	if provider == "" || result.Diagnosis == nil {
		return result
	}
	for _, v := range view.snap.Instances {
		if v.Instance != nil && !v.IsDeregistered() && v.CapacityProvider() == provider {
			return result
		}
	}
	result.Diagnosis.Empty = provider
	return result
}

// nameUnknown adds to a diagnosis the names in the rules' constraints that no instance has, if
// constraints have rejected instances.
func nameUnknown(view *clusterView, rules *cluster.Rules, d *cluster.Diagnosis) {
	if d == nil || rules == nil || d.Feasible > 0 || !slices.ContainsFunc(d.Rejected, func(r cluster.Rejection) bool {
		return r.Filter == cluster.FilterConstraint
	}) {
		return
	}
	d.Unknown = spelling.List(spelling.CheckConstraints(view.snap, *rules))
}
