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

// mixes are capacity provider strategies of services.
var mixes = [][]cluster.ProviderShare{
	{{Provider: "on-demand", Base: 1, Weight: 1}, {Provider: "spot", Weight: 2}},
	{{Provider: "on-demand", Base: 2}, {Provider: "spot", Weight: 1}},
	{{Provider: "spot", Weight: 1}},
	{{Provider: "on-demand", Weight: 1}, {Provider: "spot", Weight: 1}},
}

// provided reports whether services go by capacity providers in this run.
func (w *World) provided() bool {
	return slices.ContainsFunc(w.Actions, func(a Action) bool { return a.Kind == "create-provided" })
}

// fallsBack reports whether a task may have another provider of its strategy, once it has waited for its own.
func (w *World) fallsBack() bool { return w.provided() && w.Seed%2 == 0 }

// provide makes the capacity providers, with groups that nobody scales.
func (w *World) provide() error {
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

// createProvided makes a service with a capacity provider strategy, and without rules of placement.
func (c *customer) createProvided(a Action) {
	name := fmt.Sprint("p", a.Pick%2)
	if slices.ContainsFunc(c.services, func(o *wanted) bool { return o.name == name }) {
		return
	}
	s := &wanted{name: name, desired: 1 + a.N, exists: true, busy: true, provided: true, definition: []string{"small:1", "checked:1", "big:1"}[a.Pick/2%3]}
	s.rules = &cluster.Rules{DomainPolicy: cluster.PolicyNone}
	c.services = append(c.services, s)
	spec := operation.CreateService{
		Cluster: clusterName, Name: name, TaskDefinition: s.definition, Desired: &s.desired, Token: fmt.Sprint("create", a.Pick), Params: fmt.Sprint(a.Pick),
		Rules: *s.rules, ServiceParameters: operation.ServiceParameters{Providers: &mixes[a.Pick/6%uint64(len(mixes))], ZoneRebalancing: new(bool)},
	}
	c.world.note("create %s: %d of %s, by %+v", name, s.desired, s.definition, *spec.Providers)
	c.call("create "+name, func(ctx context.Context) error {
		_, err := c.world.API.Services.CreateService(ctx, spec)
		return err
	}, func(err error) {
		if s.busy = false; err != nil {
			c.world.checker.fail("invariant 9: creating service %s says %v", name, err)
		}
	})
}

// shareAnew gives a service another capacity provider strategy, by a forced deployment.
func (c *customer) shareAnew(a Action) {
	for _, s := range c.services {
		if s.provided && s.exists && !s.busy {
			next := mixes[a.Pick/5%uint64(len(mixes))]
			c.world.note("share %s anew: %+v", s.name, next)
			c.release(s, operation.UpdateService{Force: true, ServiceParameters: operation.ServiceParameters{Providers: &next}})
			return
		}
	}
}

// shares is a service's strategy as the model sees it.
func shares(s *cluster.Service) (out []model.Share) {
	for _, p := range s.Providers {
		out = append(out, model.Share{Provider: p.Provider, Base: p.Base, Weight: p.Weight})
	}
	return out
}

// providers are those that the next task of a service's revision may go to; nil where it may go anywhere.
func (l *ledger) providers(s *cluster.Service, revision string) (out []string) {
	if len(s.Providers) == 0 {
		return nil
	}
	if !l.fallback {
		for name, n := range model.Allot(shares(s), l.providerCounts(s, revision, nil), 1) {
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

// movedWith are the capacity providers of the tasks that the service has in the zones with most: a task keeps its provider where
// it moves. Nil where it may go anywhere.
func (l *ledger) movedWith(s *cluster.Service) (out []string) {
	if len(s.Providers) == 0 {
		return nil
	}
	in := map[string]int{}
	for _, t := range l.owned[s.Short] {
		if i := l.known[t.Instance]; t.IsActive() && i != nil {
			in[i.Zone()]++
		}
	}
	for _, t := range l.owned[s.Short] {
		if i := l.known[t.Instance]; t.IsActive() && i != nil && in[i.Zone()] == slices.Max(slices.Collect(maps.Values(in))) {
			out = append(out, i.CapacityProvider())
		}
	}
	return out
}

// providerCounts are how many tasks of a revision each provider has, without some.
func (l *ledger) providerCounts(s *cluster.Service, revision string, without map[string]bool) map[string]int {
	out := map[string]int{}
	for _, t := range l.owned[s.Short] {
		if i := l.known[t.Instance]; t.IsActive() && t.HoldsCapacity() && i != nil && t.Revision == revision && !without[t.ID] {
			out[i.CapacityProvider()]++
		}
	}
	return out
}

// shared checks that a task goes to a capacity provider of its service's strategy: to the next, where nothing about the others
// has changed lately. later are those that the same commit placed after it, and itself.
func (c *checker) shared(t *cluster.Task, i *cluster.Instance) {
	s := c.service(t)
	if s == nil || len(s.Providers) == 0 {
		return
	}
	c.mark(MarkProvided)
	at := i.CapacityProvider()
	if !slices.ContainsFunc(s.Providers, func(p cluster.ProviderShare) bool { return p.Provider == at }) {
		c.fail("invariant 5: task %s of service %s was placed on instance %s, whose capacity provider %q is none of %+v", t.ID, s.Name, i.ID, at, s.Providers)
		return
	}
	if t.Replaces != "" || t.Revision != s.Deployment.ID || len(s.Older) > 0 || len(s.MoveTargets) > 0 {
		return
	}
	fresh, placed, n := map[string]bool{}, 0, 0
	for key, o := range c.owned[s.Short] {
		if o.IsActive() && (o.IsProvisioning() || c.placedAt[o.ID].Equal(c.now())) {
			n++ // wanted: placed, or left to wait
		}
		switch {
		case o.IsProvisioning():
		case c.placedAt[o.ID].Equal(c.now()):
			fresh[o.ID] = true
			if host := c.known[o.Instance]; host != nil && host.CapacityProvider() == at {
				placed++
			}
		case !c.settled(key) || !c.steadyHost(o):
			return
		}
	}
	have := c.providerCounts(s, t.Revision, fresh)
	switch due := model.Allot(shares(s), have, n)[at]; {
	case c.fallback:
		if placed > model.Allot(shares(s), have, len(fresh))[at] {
			c.mark(MarkFellBack)
		}
	case placed > due:
		c.fail("invariant 5: service %s has %v, and %d tasks were placed with %s, which is due %d of %d", s.Name, have, placed, at, due, n)
	}
}
