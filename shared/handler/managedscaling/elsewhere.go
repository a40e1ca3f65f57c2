package managedscaling

import (
	"context"
	"fmt"
	"slices"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/scaling"
	"berth/shared/state"
)

// decideProvider decides about one provider. An Auto Scaling group may feed several clusters, so
// before an instance is treated as unregistered the other clusters are searched, and it decides
// again if one of them has it. Before such an instance is released or replaced, ECS is asked too,
// because the event of a registration may be lost.
func (r *round) decideProvider(
	ctx context.Context, p *cluster.CapacityProvider, g *cluster.AutoScalingGroup, old *cluster.ScalingHistory,
) (scaling.Decision, error) {
	history := *old
	history.Launches = r.launchTypes(ctx, p, g, old.Launches)
	in := r.decisionInput(p, g, history)
	d := scaling.Decide(in)
	if len(d.Unregistered) == 0 {
		return d, nil
	}
	names, err := state.ClusterNames(ctx, r.State)
	if err != nil {
		return d, err
	}
	if in.RegisteredElsewhere, err = findElsewhere(ctx, r.State, names, r.of.Cluster, d.Unregistered); err != nil {
		return d, err
	}
	// Only these consequences cannot be undone, so only they are worth asking ECS.
	releases := slices.ContainsFunc(d.Release, func(id string) bool { return slices.Contains(d.Unregistered, id) })
	if releases || len(d.Replace) > 0 || d.Desired < g.Desired {
		for _, name := range names {
			if err := findRegistered(ctx, r.ECS, name, d.Unregistered, in.RegisteredElsewhere); err != nil {
				return d, err
			}
		}
	}
	if len(in.RegisteredElsewhere) == 0 {
		return d, nil
	}
	return scaling.Decide(in), nil
}

// findElsewhere returns those of the EC2 instances that a cluster other than own has according to
// the state, with that cluster's name.
func findElsewhere(
	ctx context.Context, store state.Store, names []string, own string, ids []string,
) (map[string]string, error) {
	found := map[string]string{}
	for _, name := range names {
		if name == own {
			continue
		}
		for _, id := range ids {
			registered, err := handler.HasRegistered(ctx, store, name, id)
			if err != nil {
				return nil, err
			}
			if registered {
				found[id] = name
			}
		}
	}
	return found, nil
}

// findRegistered adds to found those of the wanted EC2 instances that are registered with a cluster
// according to ECS. A cluster that ECS does not know has none.
func findRegistered(ctx context.Context, ecs handler.ECS, name string, wanted []string, found map[string]string) error {
	ids, err := ecs.ListInstances(ctx, name)
	if cluster.ErrorCode(err) == cluster.CodeClusterNotFound {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing the instances of cluster %s: %w", name, err)
	}
	for batch := range slices.Chunk(ids, cluster.DescribeBatch) {
		instances, err := ecs.DescribeInstances(ctx, name, batch)
		if err != nil {
			return fmt.Errorf("describing instances of cluster %s: %w", name, err)
		}
		for _, i := range instances {
			if slices.Contains(wanted, i.EC2InstanceID) {
				found[i.EC2InstanceID] = name
			}
		}
	}
	return nil
}
