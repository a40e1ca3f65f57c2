package decide

import (
	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/snapshot"
	"berth/shared/state"
	"slices"
	"time"
) // Capacity provider strategies (S14): the first tasks go to the provider with a base, the others to all in the proportion of
// their weights. What fits nowhere with its provider waits for it; beyond ECS, where the installation says so, the others of
// the strategy may have it after a while.

// Allot says which providers the next n tasks go to, where there are so many already.
func Allot(shares []cluster.ProviderShare, have map[string]int, n int) []string {
	count := map[string]int{}
	for name, k := range have {
		count[name] = k
	}
	out := make([]string, 0, n)
	for range n {
		best := -1
		for i, s := range shares {
			if count[s.Provider] < s.Base {
				best = i
				break
			}
			if s.Weight > 0 && (best < 0 || before(s, shares[best], count)) {
				best = i
			}
		}
		if best < 0 {
			best = 0
		}
		name := shares[best].Provider
		count[name]++
		out = append(out, name)
	}
	return out
}

// before reports whether a provider is to have the next task sooner than another, as it is further from its share.
func before(a, b cluster.ProviderShare, count map[string]int) bool {
	x, y := max(0, count[a.Provider]-a.Base)+1, max(0, count[b.Provider]-b.Base)+1
	return x*b.Weight < y*a.Weight
}

// providersOf are the capacity providers of the service's strategy; an empty name, for any instance, where it has none.
func providersOf(s *cluster.Service) []string {
	if len(s.Providers) == 0 {
		return []string{""}
	}
	out := make([]string, len(s.Providers))
	for i, p := range s.Providers {
		out[i] = p.Provider
	}
	return out
}

// next are the capacity providers of the wish's tasks, one each.
func (d *decider) next(s *cluster.Service, w *wish) []string {
	if len(s.Providers) == 0 {
		return make([]string, w.count())
	}
	have := map[string]int{}
	for _, t := range d.snap.Owned(s.Short) {
		if t.Active() && t.Holds() && t.Revision == w.revision.ID {
			have[d.providerOf(s, t)]++
		}
	}
	return Allot(s.Providers, have, w.count())
}

// providerOf is the capacity provider that the task runs with; empty where its service has no strategy.
func (d *decider) providerOf(s *cluster.Service, t *cluster.Task) string {
	v := d.snap.Instances[t.Instance]
	if len(s.Providers) == 0 || v == nil || v.Instance == nil {
		return ""
	}
	return v.CapacityProvider()
}

// placeWith places tasks of a capacity provider, empty for any instance; the diagnosis says where that has none.
func (d *decider) placeWith(provider string, r placement.Request) placement.Result {
	result := d.engine.Place(r)
	if provider == "" || result.Diagnosis == nil {
		return result
	}
	for _, v := range d.snap.Instances {
		if v.Instance != nil && !v.Gone() && v.CapacityProvider() == provider {
			return result
		}
	}
	result.Diagnosis.Empty = provider
	return result
}

// fallBack starts tasks with any provider of the strategy that have waited for theirs for too long, and has those looked at
// again that have not yet.
func (d *decider) fallBack(s *cluster.Service, def *cluster.TaskDefinition, w *wish, log *eventLog) {
	if len(s.Providers) < 2 || d.settings.ProviderFallback <= 0 || w.count() == 0 {
		return
	}
	late := 0
	for _, t := range w.waiting { // the oldest first
		if d.late(t) {
			late++
		}
	}
	if late < w.count() {
		since := d.now
		if late < len(w.waiting) {
			since = w.waiting[late].CreatedAt.Time()
		}
		d.plan.due(state.DueService, s.Name, since.Add(d.settings.ProviderFallback))
	}
	for _, provider := range providersOf(s) {
		if late == 0 {
			return
		}
		r := d.requestWith(provider, s, def, late)
		r.Unexplained = true
		placed := d.engine.Place(r).Placed
		d.startPlaced(s, def, w, placed, log)
		late -= len(placed)
	}
}

// late reports whether a task has waited so long for its capacity provider that another may have it.
func (d *decider) late(t *cluster.Task) bool {
	return d.settings.ProviderFallback > 0 && !t.CreatedAt.Time().Add(d.settings.ProviderFallback).After(d.now)
}

// FirstProvider is the capacity provider that a standalone task under the rules goes to; empty for any instance.
func FirstProvider(rules *cluster.Rules) string {
	if rules == nil || len(rules.Providers) == 0 {
		return ""
	}
	return Allot(rules.Providers, nil, 1)[0]
}

// assigned are the rules of a task that goes to one provider of its strategy; the others come after it.
func assigned(rules *cluster.Rules, provider string) *cluster.Rules {
	if rules == nil || len(rules.Providers) == 0 {
		return rules
	}
	next := *rules
	next.Providers = []cluster.ProviderShare{{Provider: provider, Base: 1}}
	for _, p := range rules.Providers {
		if p.Provider != provider {
			next.Providers = append(next.Providers, cluster.ProviderShare{Provider: p.Provider, Weight: p.Weight})
		}
	}
	return &next
}

// shapes are what placement may be asked for a standalone task that waits: with its own capacity provider, and if it has
// waited for long enough, with the others of its strategy.
func (d *decider) shapes(t *cluster.Task) []shape {
	out := []shape{ShapeOf(t)}
	if t.Rules == nil || len(t.Rules.Providers) < 2 || !d.late(t) {
		return out
	}
	for _, p := range t.Rules.Providers {
		other := shape{t.TaskDefinition, t.Needs, t.Group, encoded(assigned(t.Rules, p.Provider))}
		if !slices.Contains(out, other) {
			out = append(out, other)
		}
	}
	return out
}

// fallsBack has tasks looked at again that wait for their capacity provider, when another may have them.
func (d *decider) fallsBack(r *state.Request, began time.Time) {
	if d.settings.ProviderFallback > 0 && r.Rules != nil && len(r.Rules.Providers) > 1 {
		d.plan.due(state.DueWaiting, "", began.Add(d.settings.ProviderFallback))
	}
}

// NextProvider is the capacity provider that a REPLICA service's next task goes to, as its strategy says (S14); empty for any
// instance.
func NextProvider(snap *snapshot.Snapshot, s *cluster.Service) string {
	if len(s.Providers) == 0 || s.Strategy == cluster.Daemon {
		return ""
	}
	return Allot(s.Providers, ByProvider(snap, s.Short, s.Deployment.ID), 1)[0]
}

// shareOf is the provider's name if the strategy has it, else empty.
func shareOf(shares []cluster.ProviderShare, name string) string {
	if slices.ContainsFunc(shares, func(s cluster.ProviderShare) bool { return s.Provider == name }) {
		return name
	}
	return ""
}

// ByProvider counts a service's tasks of a revision that hold capacity, by the capacity provider that has them.
func ByProvider(snap *snapshot.Snapshot, short, revision string) map[string]int {
	have := map[string]int{}
	for _, t := range snap.Owned(short) {
		if v := snap.Instances[t.Instance]; t.Active() && t.Holds() && t.Revision == revision && v != nil && v.Instance != nil {
			have[v.CapacityProvider()]++
		}
	}
	return have
}
