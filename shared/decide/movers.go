package decide

import (
	"maps"
	"slices"

	"berth/shared/cluster"
	"berth/shared/placement/moves"
	"berth/shared/snapshot"
)

// Movers are the cluster's REPLICA services as placement would start their tasks anywhere, by short
// key.
func Movers(snap *snapshot.Snapshot) map[string]moves.Owner {
	return MoversOf(snap, NewSpecs(snap), "", nil)
}

// MoversOf are the cluster's REPLICA services as placement would start their tasks, by short key;
// those with the capacity provider in their strategy start them there. No provider is the empty
// name: then they start them where there is room. Where owners are named, by short key, only those
// count.
func MoversOf(snap *snapshot.Snapshot, specs *Specs, provider string, owners map[string]bool) map[string]moves.Owner {
	out := map[string]moves.Owner{}
	for _, name := range slices.Sorted(maps.Keys(snap.Services)) {
		s := snap.Services[name]
		def := snap.Definitions[s.Deployment.TaskDefinition]
		if s.Status != cluster.ServiceActive || def == nil || s.Strategy == cluster.Daemon || owners != nil &&
			!owners[s.Short] {
			continue
		}
		out[s.Short] = moves.Owner{
			Name: "service " + s.Name, Spec: specs.With(providerInStrategy(s.Providers, provider), s, def,
				snap.Configuration.DomainPolicy), Target: s.Desired,
		}
	}
	return out
}
