package simulation

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/sim/autoscaling"
	"berth/tests/simulation/model"
)

// Capacity providers and services that go by them (S14), in runs with such services.

// providerNames are also those of their Auto Scaling groups.
var providerNames = []string{"on-demand", "spot"}

// providerStrategies are capacity provider strategies of services.
var providerStrategies = [][]cluster.ProviderShare{
	{{Provider: "on-demand", Base: 1, Weight: 1}, {Provider: "spot", Weight: 2}},
	{{Provider: "on-demand", Base: 2}, {Provider: "spot", Weight: 1}},
	{{Provider: "spot", Weight: 1}},
	{{Provider: "on-demand", Weight: 1}, {Provider: "spot", Weight: 1}},
}

// usesProviders reports whether services go by capacity providers in this run.
func (w *World) usesProviders() bool {
	return slices.ContainsFunc(w.Actions, func(a Action) bool { return a.Kind == "create-provided" })
}

// allowsFallback reports whether a task may have another provider of its strategy, once it has waited for its own.
func (w *World) allowsFallback() bool { return w.usesProviders() && w.Seed%2 == 0 }

// createProviders makes the capacity providers, with groups that nobody scales.
func (w *World) createProviders() error {
	ctx := context.Background()
	for n, name := range providerNames {
		arn, err := w.AWS.Groups.AddGroup(autoscaling.GroupSpec{Name: name, Cluster: clusterName, Machine: machine, Max: 3, Desired: 1 + n})
		if err != nil {
			return err
		}
		if _, err := w.API.CapacityProviders.CreateCapacityProvider(ctx, &cluster.CapacityProvider{Name: name, Group: name, GroupARN: arn, Scaling: cluster.DefaultScaling}); err != nil {
			return err
		}
	}
	_, err := w.API.ClusterProviders.PutClusterProviders(ctx, clusterName, providerNames, nil)
	return err
}

// createServiceWithProviders makes a service with a capacity provider strategy, and without rules of placement.
func (c *apiClient) createServiceWithProviders(a Action) {
	name := fmt.Sprint("p", a.Pick%2)
	if slices.ContainsFunc(c.services, func(o *expectedService) bool { return o.name == name }) {
		return
	}
	s := &expectedService{name: name, desired: 1 + a.N, exists: true, busy: true, hasProviders: true, definition: []string{"small:1", "checked:1", "big:1"}[a.Pick/2%3]}
	s.rules = &cluster.Rules{DomainPolicy: cluster.PolicyNone}
	c.services = append(c.services, s)
	spec := operation.CreateService{
		Cluster: clusterName, Name: name, TaskDefinition: s.definition, Desired: &s.desired, Token: fmt.Sprint("create", a.Pick), Params: fmt.Sprint(a.Pick),
		Rules: *s.rules, ServiceParameters: operation.ServiceParameters{Providers: &providerStrategies[a.Pick/6%uint64(len(providerStrategies))], ZoneRebalancing: new(bool)},
	}
	c.world.logf("create %s: %d of %s, by %+v", name, s.desired, s.definition, *spec.Providers)
	c.callUntilAnswered("create "+name, func(ctx context.Context) error {
		_, err := c.world.API.Services.CreateService(ctx, spec)
		return err
	}, func(err error) {
		if s.busy = false; err != nil {
			c.world.checker.fail("invariant 9: creating service %s says %v", name, err)
		}
	})
}

// changeProviderStrategy gives a service another capacity provider strategy, by a forced deployment.
func (c *apiClient) changeProviderStrategy(a Action) {
	for _, s := range c.services {
		if s.hasProviders && s.exists && !s.busy {
			next := providerStrategies[a.Pick/5%uint64(len(providerStrategies))]
			c.world.logf("share %s anew: %+v", s.name, next)
			c.startDeployment(s, operation.UpdateService{Force: true, ServiceParameters: operation.ServiceParameters{Providers: &next}})
			return
		}
	}
}

// modelShares is a service's strategy as the model sees it.
func modelShares(s *cluster.Service) (out []model.Share) {
	for _, p := range s.Providers {
		out = append(out, model.Share{Provider: p.Provider, Base: p.Base, Weight: p.Weight})
	}
	return out
}

// allowedProviders are those that the next task of a service's revision may go to; nil where it may go anywhere.
func (h *rowHistory) allowedProviders(s *cluster.Service, revision string) (out []string) {
	if len(s.Providers) == 0 {
		return nil
	}
	if !h.fallback {
		for name, n := range model.AssignProviders(modelShares(s), h.providerCounts(s, revision, nil), 1) {
			if n > 0 {
				return []string{name}
			}
		}
	}
	for _, p := range s.Providers {
		out = append(out, p.Provider)
	}
	return out
}

// providersInFullestZones are the capacity providers of the tasks that the service has in the zones with most: a task keeps its provider where
// it moves. Nil where it may go anywhere.
func (h *rowHistory) providersInFullestZones(s *cluster.Service) (out []string) {
	if len(s.Providers) == 0 {
		return nil
	}
	in := map[string]int{}
	for _, t := range h.byOwner[s.Short] {
		if i := h.instanceRows[t.Instance]; t.IsActive() && i != nil {
			in[i.Zone()]++
		}
	}
	for _, t := range h.byOwner[s.Short] {
		if i := h.instanceRows[t.Instance]; t.IsActive() && i != nil && in[i.Zone()] == slices.Max(slices.Collect(maps.Values(in))) {
			out = append(out, i.CapacityProvider())
		}
	}
	return out
}

// providerCounts are how many tasks of a revision each provider has, without some.
func (h *rowHistory) providerCounts(s *cluster.Service, revision string, without map[string]bool) map[string]int {
	out := map[string]int{}
	for _, t := range h.byOwner[s.Short] {
		if i := h.instanceRows[t.Instance]; t.IsActive() && t.HoldsCapacity() && i != nil && t.Revision == revision && !without[t.ID] {
			out[i.CapacityProvider()]++
		}
	}
	return out
}

// checkProvider checks that a task goes to a capacity provider of its service's strategy: to the next, where nothing about the others
// has changed lately. later are those that the same commit placed after it, and itself.
func (c *checker) checkProvider(t *cluster.Task, i *cluster.Instance) {
	s := c.serviceOf(t)
	if s == nil || len(s.Providers) == 0 {
		return
	}
	c.cover(CoverProvided)
	at := i.CapacityProvider()
	if !slices.ContainsFunc(s.Providers, func(p cluster.ProviderShare) bool { return p.Provider == at }) {
		c.fail("invariant 5: task %s of service %s was placed on instance %s, whose capacity provider %q is none of %+v", t.ID, s.Name, i.ID, at, s.Providers)
		return
	}
	if t.Replaces != "" || t.Revision != s.Deployment.ID || len(s.Older) > 0 || len(s.MoveTargets) > 0 {
		return
	}
	fresh, placed, n := map[string]bool{}, 0, 0
	for key, o := range c.byOwner[s.Short] {
		if o.IsActive() && (o.IsProvisioning() || c.placedAt[o.ID].Equal(c.now())) {
			n++ // wanted: placed, or left to wait
		}
		switch {
		case o.IsProvisioning():
		case c.placedAt[o.ID].Equal(c.now()):
			fresh[o.ID] = true
			if host := c.instanceRows[o.Instance]; host != nil && host.CapacityProvider() == at {
				placed++
			}
		case !c.isSettled(key) || !c.isInstanceSettled(o):
			return
		}
	}
	have := c.providerCounts(s, t.Revision, fresh)
	switch due := model.AssignProviders(modelShares(s), have, n)[at]; {
	case c.fallback:
		if placed > model.AssignProviders(modelShares(s), have, len(fresh))[at] {
			c.cover(CoverFellBack)
		}
	case placed > due:
		c.fail("invariant 5: service %s has %v, and %d tasks were placed with %s, which is due %d of %d", s.Name, have, placed, at, due, n)
	}
}
