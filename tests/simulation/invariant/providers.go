package invariant

import (
	"maps"
	"slices"

	"berth/shared/cluster"
	"berth/tests/simulation/coverage"
	"berth/tests/simulation/model"
)

// checkProvider checks that a task was placed with a capacity provider of its service's strategy,
// and with the one whose turn it was, if nothing about the service's other tasks has changed
// recently (S14).
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
	placedNow, placed, n := map[string]bool{}, 0, 0
	for key, o := range c.ByOwner[s.Short] {
		if o.IsActive() && (o.IsProvisioning() || c.placedAt[o.ID].Equal(c.now())) {
			n++ // wanted now: placed, or left waiting
		}
		switch {
		case o.IsProvisioning():
		case c.placedAt[o.ID].Equal(c.now()):
			placedNow[o.ID] = true
			if host := c.InstanceRows[o.Instance]; host != nil && host.CapacityProvider() == at {
				placed++
			}
		case !c.isSettled(key) || !c.isInstanceSettled(o):
			return
		}
	}
	have := c.providerCounts(s, t.Revision, placedNow)
	switch expected := model.AssignProviders(modelShares(s), have, n)[at]; {
	case c.Fallback:
		if placed > model.AssignProviders(modelShares(s), have, len(placedNow))[at] {
			c.cover(coverage.FellBack)
		}
	case placed > expected:
		c.Fail("invariant 5: service %s has %v, and %d tasks were placed with %s, which should have got %d of %d",
			s.Name, have, placed, at, expected, n)
	}
}

// allowedProviders returns the providers that the next task of a service's revision may use, or nil
// for any.
func (h *RowHistory) allowedProviders(s *cluster.Service, revision string) (out []string) {
	if len(s.Providers) == 0 {
		return nil
	}
	if !h.Fallback && len(s.Providers) > 1 {
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

// ProvidersInFullestZones returns the capacity providers of the service's tasks in its fullest
// zones: a moved task keeps its provider. It returns nil if the service has no strategy.
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
		if i := h.InstanceRows[t.Instance]; t.IsActive() && i != nil &&
			in[i.Zone()] == slices.Max(slices.Collect(maps.Values(in))) {
			out = append(out, i.CapacityProvider())
		}
	}
	return out
}

// providerCounts counts the tasks of a revision per provider, except those in without.
func (h *RowHistory) providerCounts(s *cluster.Service, revision string, without map[string]bool) map[string]int {
	out := map[string]int{}
	for _, t := range h.ByOwner[s.Short] {
		if i := h.InstanceRows[t.Instance]; t.IsActive() && t.HoldsCapacity() && i != nil && t.Revision == revision &&
			!without[t.ID] {
			out[i.CapacityProvider()]++
		}
	}
	return out
}

// modelShares returns a service's strategy for the model.
func modelShares(s *cluster.Service) (out []model.Share) {
	for _, p := range s.Providers {
		out = append(out, model.Share{Provider: p.Provider, Base: p.Base, Weight: p.Weight})
	}
	return out
}
