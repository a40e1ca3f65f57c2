package specs

import (
	"maps"
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/placement/moves"
	"berth/shared/snapshot"
)

// Movers returns the cluster's REPLICA services by short key, with specs that allow any instance.
func Movers(snap *snapshot.Snapshot) map[string]moves.Owner {
	return MoversTo(snap, NewCache(snap), "", nil)
}

// MoversTo returns the cluster's REPLICA services by short key, without those of task sets: their
// tasks do not move. Those with the capacity provider in their strategy start their tasks there,
// the others on any instance. If owners are given, by short key, it returns only those.
func MoversTo(snap *snapshot.Snapshot, cache *Cache, provider string, owners map[string]bool) map[string]moves.Owner {
	movers := map[string]moves.Owner{}
	for _, name := range slices.Sorted(maps.Keys(snap.Services)) {
		s := snap.Services[name]
		def := snap.Definitions[s.Deployment.TaskDefinition]
		if s.Status != cluster.ServiceActive || def == nil || s.Strategy == cluster.Daemon || s.HasTaskSets() ||
			owners != nil && !owners[s.Short] {
			continue
		}
		own := ""
		if slices.ContainsFunc(s.Providers, func(p cluster.ProviderShare) bool { return p.Provider == provider }) {
			own = provider
		}
		movers[s.Short] = moves.Owner{
			Name: "service " + s.Name, Spec: cache.ForProvider(own, s, def, snap.Configuration.DomainPolicy),
			Target: s.Desired,
		}
	}
	return movers
}

// MoverOf returns the service as the planner of moves needs it. If its percentages never allow a
// move, its tasks stay where they are, so that planned moves do not wait for it. gaveUp is set if a
// task that was stopped first has found no room in time; then its tasks move only by starting the
// replacement first.
func MoverOf(s *cluster.Service, spec *placement.Spec, gaveUp bool) moves.Owner {
	least, most := s.TaskBounds(s.Desired)
	startFirst := gaveUp || least >= s.Desired
	return moves.Owner{Name: "service " + s.Name, Spec: spec, Target: s.Desired, StartFirst: startFirst,
		Fixed: startFirst && most <= s.Desired}
}

// Balancers returns the REPLICA services whose tasks may move to balance the cluster, by short key;
// the others' tasks stay. Unless all are asked for, these are the services for which balancing is
// switched on. Tasks stay while their service is deployed or lacks tasks, and if its percentages do
// not let a replacement start before a task stops.
func Balancers(snap *snapshot.Snapshot, cache *Cache, all bool) map[string]moves.Owner {
	out := map[string]moves.Owner{}
	for short, owner := range MoversTo(snap, cache, "", nil) {
		s := snap.Services[strings.TrimPrefix(owner.Name, "service ")]
		on := all || snap.Configuration.Rebalances()
		if s.Rules.Rebalancing != "" {
			on = s.Rules.Rebalancing == cluster.SwitchOn
		}
		_, most := s.TaskBounds(s.Desired)
		owner.Fixed = !on || !s.Steady || !s.Deployment.IsCompleted() || len(s.Older) > 0 || most <= s.Desired ||
			s.Rules.MoveCost == cluster.CostVeryHigh
		owner.StartFirst, owner.KeepProvider = true, len(s.Providers) > 0
		out[short] = owner
	}
	return out
}

// UnsteadyServices returns the names of the services of [Balancers] whose tasks stay until the service
// is steady, in order. Those for which balancing is switched off stay in any case.
func UnsteadyServices(snap *snapshot.Snapshot, balancers map[string]moves.Owner) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(snap.Services)) {
		s := snap.Services[name]
		if _, known := balancers[s.Short]; known && !s.Steady && s.Rules.Rebalancing != cluster.SwitchOff {
			names = append(names, name)
		}
	}
	return names
}
