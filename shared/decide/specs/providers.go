package specs

import (
	"berth/shared/cluster"
	"berth/shared/snapshot"
)

// A capacity provider strategy (S14) sends the first tasks to the provider with a base, and the
// rest to all providers in proportion to their weights. A task that fits nowhere with its provider
// waits for it. Beyond ECS, an installation may let the strategy's other providers have it after a
// while.

// AssignProviders returns the providers that the next n tasks go to, when the counts are already
// there.
func AssignProviders(strategy []cluster.ProviderShare, counts map[string]int, n int) []string {
	total := map[string]int{}
	for name, k := range counts {
		total[name] = k
	}
	assigned := make([]string, 0, n)
	for range n {
		best := -1
		for i, p := range strategy {
			if total[p.Provider] < p.Base {
				best = i
				break
			}
			if p.Weight > 0 && (best < 0 || isFurtherBehind(p, strategy[best], total)) {
				best = i
			}
		}
		name := strategy[max(0, best)].Provider
		total[name]++
		assigned = append(assigned, name)
	}
	return assigned
}

// isFurtherBehind reports whether provider a has less of its weight's share than b, counting the
// next task for either.
func isFurtherBehind(a, b cluster.ProviderShare, total map[string]int) bool {
	x, y := max(0, total[a.Provider]-a.Base)+1, max(0, total[b.Provider]-b.Base)+1
	return x*b.Weight < y*a.Weight
}

// FirstProvider returns the capacity provider that a standalone task with these rules goes to, or
// the empty string for any instance.
func FirstProvider(rules *cluster.Rules) string {
	if rules == nil || len(rules.Providers) == 0 {
		return ""
	}
	return AssignProviders(rules.Providers, nil, 1)[0]
}

// NextProvider returns the capacity provider that a REPLICA service's next task goes to, or the
// empty string for any instance.
func NextProvider(snap *snapshot.Snapshot, s *cluster.Service) string {
	if len(s.Providers) == 0 || s.Strategy == cluster.Daemon {
		return ""
	}
	return AssignProviders(s.Providers, CountByProvider(snap, s.Short, s.Deployment.ID), 1)[0]
}

// CountByProvider counts the tasks of a service's revision that hold capacity, by their capacity
// provider.
func CountByProvider(snap *snapshot.Snapshot, owner, revision string) map[string]int {
	counts := map[string]int{}
	for _, t := range snap.TasksOf(owner) {
		if v := snap.Instances[t.Instance]; t.IsActive() && t.HoldsCapacity() && t.Revision == revision && v != nil &&
			v.Instance != nil {
			counts[v.CapacityProvider()]++
		}
	}
	return counts
}

// ProvidersOf returns the capacity providers of the service's strategy, or one empty name, for any
// instance, if it has none.
func ProvidersOf(s *cluster.Service) []string {
	if len(s.Providers) == 0 {
		return []string{""}
	}
	names := make([]string, len(s.Providers))
	for i, p := range s.Providers {
		names[i] = p.Provider
	}
	return names
}

// WithFirstProvider returns the rules of a task that goes to one provider of its strategy. The
// other providers come after it.
func WithFirstProvider(rules *cluster.Rules, provider string) *cluster.Rules {
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
