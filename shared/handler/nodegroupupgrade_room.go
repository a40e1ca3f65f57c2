package handler

import (
	"context"
	"maps"
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/scaling"
	"berth/shared/snapshot"
)

// room answers whether the rest of the cluster has room for nodes' load (N7). It reads the cluster when first asked: only
// updates of nodes with upgrade domains ask. What cannot be read is an answer, too: the update waits.
func (n *NodeGroupUpgrade) room(ctx context.Context, clusterName string) func(leaving []string) string {
	var snap *snapshot.Snapshot
	var movers map[string]placement.Mover
	said := map[string]string{}
	return func(leaving []string) string {
		key := strings.Join(slices.Sorted(slices.Values(leaving)), " ")
		if why, known := said[key]; known {
			return why
		}
		if snap == nil {
			loaded, err := loadSnapshot(ctx, n.State, clusterName)
			if err != nil {
				return "the cluster could not be read: " + err.Error()
			}
			snap, movers = loaded, moversOf(loaded, newSpecs(loaded), "", nil)
		}
		said[key] = scaling.Room(snap, movers, leaving)
		return said[key]
	}
}

// moversOf are the cluster's REPLICA services as placement would start their tasks, by short key; those with the capacity
// provider in their strategy start them there. No provider is the empty name: then they start them where there is room. Where
// owners are named, by short key, only those count.
func moversOf(snap *snapshot.Snapshot, specs *specs, provider string, owners map[string]bool) map[string]placement.Mover {
	out := map[string]placement.Mover{}
	for _, name := range slices.Sorted(maps.Keys(snap.Services)) {
		s := snap.Services[name]
		def := snap.Definitions[s.Deployment.TaskDefinition]
		if s.Status != cluster.ServiceActive || def == nil || s.Strategy == cluster.Daemon || owners != nil && !owners[s.Short] {
			continue
		}
		out[s.Short] = placement.Mover{
			Name: "service " + s.Name, Spec: specs.with(shareOf(s.Providers, provider), s, def, snap.Configuration.DomainPolicy), Target: s.Desired,
		}
	}
	return out
}
