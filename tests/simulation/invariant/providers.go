package invariant

import (
	"maps"
	"slices"

	"berth/shared/cluster"
	"berth/tests/simulation/coverage"
	"berth/tests/simulation/model"
)

// checkProvider checks that a task goes to a capacity provider of its service's strategy: to the next, where nothing about the others
// has changed lately. later are those that the same commit placed after it, and itself.
func (c *Checker) checkProvider(t *cluster.Task, i *cluster.Instance) {
	s := c.ServiceOf(t)
	if s == nil || len(s.Providers) == 0 {
		return
	}
	c.cover(coverage.Provided)
	at := i.CapacityProvider()
	if !slices.ContainsFunc(s.Providers, func(p cluster.ProviderShare) bool { return p.Provider == at }) {
		c.Fail("invariant 5: task %s of service %s was placed on instance %s, whose capacity provider %q is none of %+v", t.ID, s.Name, i.ID, at, s.Providers)
		return
	}
	if t.Replaces != "" || t.Revision != s.Deployment.ID || len(s.Older) > 0 || len(s.MoveTargets) > 0 {
		return
	}
	fresh, placed, n := map[string]bool{}, 0, 0
	for key, o := range c.ByOwner[s.Short] {
		if o.IsActive() && (o.IsProvisioning() || c.placedAt[o.ID].Equal(c.now())) {
			n++ // wanted: placed, or left to wait
		}
		switch {
		case o.IsProvisioning():
		case c.placedAt[o.ID].Equal(c.now()):
			fresh[o.ID] = true
			if host := c.InstanceRows[o.Instance]; host != nil && host.CapacityProvider() == at {
				placed++
			}
		case !c.isSettled(key) || !c.isInstanceSettled(o):
			return
		}
	}
	have := c.providerCounts(s, t.Revision, fresh)
	switch due := model.AssignProviders(modelShares(s), have, n)[at]; {
	case c.Fallback:
		if placed > model.AssignProviders(modelShares(s), have, len(fresh))[at] {
			c.cover(coverage.FellBack)
		}
	case placed > due:
		c.Fail("invariant 5: service %s has %v, and %d tasks were placed with %s, which is due %d of %d", s.Name, have, placed, at, due, n)
	}
}

// allowedProviders are those that the next task of a service's revision may go to; nil where it may go anywhere.
func (h *RowHistory) allowedProviders(s *cluster.Service, revision string) (out []string) {
	if len(s.Providers) == 0 {
		return nil
	}
	if !h.Fallback {
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

// ProvidersInFullestZones are the capacity providers of the tasks that the service has in the zones with most: a task keeps its provider where
// it moves. Nil where it may go anywhere.
func (h *RowHistory) ProvidersInFullestZones(s *cluster.Service) (out []string) {
	if len(s.Providers) == 0 {
		return nil
	}
	in := map[string]int{}
	for _, t := range h.ByOwner[s.Short] {
		if i := h.InstanceRows[t.Instance]; t.IsActive() && i != nil {
			in[i.Zone()]++
		}
	}
	for _, t := range h.ByOwner[s.Short] {
		if i := h.InstanceRows[t.Instance]; t.IsActive() && i != nil && in[i.Zone()] == slices.Max(slices.Collect(maps.Values(in))) {
			out = append(out, i.CapacityProvider())
		}
	}
	return out
}

// providerCounts are how many tasks of a revision each provider has, without some.
func (h *RowHistory) providerCounts(s *cluster.Service, revision string, without map[string]bool) map[string]int {
	out := map[string]int{}
	for _, t := range h.ByOwner[s.Short] {
		if i := h.InstanceRows[t.Instance]; t.IsActive() && t.HoldsCapacity() && i != nil && t.Revision == revision && !without[t.ID] {
			out[i.CapacityProvider()]++
		}
	}
	return out
}

// modelShares is a service's strategy as the model sees it.
func modelShares(s *cluster.Service) (out []model.Share) {
	for _, p := range s.Providers {
		out = append(out, model.Share{Provider: p.Provider, Base: p.Base, Weight: p.Weight})
	}
	return out
}
