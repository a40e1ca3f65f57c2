package managedscaling

import (
	"fmt"
	"slices"

	"berth/shared/cluster"
	"berth/shared/scaling"
	"berth/shared/state"
)

// decide decides about a provider, once more where the first decision takes an instance for of no use that some cluster has.
// Before anything is done about one ECS is asked, too: events that said of a registration may be lost.
func (r *scalingRound) decide(p *cluster.CapacityProvider, g *cluster.AutoScalingGroup, old *cluster.ScalingHistory) (scaling.Decision, error) {
	in := r.input(p, g, *old)
	d := scaling.Decide(in)
	if len(d.Silent) == 0 {
		return d, nil
	}
	names, err := state.ClusterNames(r.ctx, r.State)
	if err != nil {
		return d, err
	}
	in.Elsewhere = map[string]string{}
	if err := r.elsewhere(names, d.Silent, in.Elsewhere); err != nil {
		return d, err
	}
	released := slices.ContainsFunc(d.Release, func(id string) bool { return slices.Contains(d.Silent, id) })
	if released || len(d.Replace) > 0 || d.Desired < g.Desired {
		for _, name := range names {
			if err := r.registered(name, d.Silent, in.Elsewhere); err != nil {
				return d, err
			}
		}
	}
	if len(in.Elsewhere) == 0 {
		return d, nil
	}
	return scaling.Decide(in), nil
}

// elsewhere finds those of the instances that another cluster has, as Berth knows it.
func (r *scalingRound) elsewhere(names, ids []string, found map[string]string) error {
	for _, name := range names {
		for _, id := range ids {
			if name == r.of.Cluster {
				continue
			}
			known, err := r.known(name, id)
			if err != nil {
				return err
			}
			if known {
				found[id] = name
			}
		}
	}
	return nil
}

// known reports whether an EC2 instance has registered with a cluster, as Berth knows it, and is still there.
func (r *scalingRound) known(name, ec2 string) (bool, error) {
	row, err := r.State.Get(r.ctx, state.AliasKey(name, ec2))
	if err != nil {
		return false, fmt.Errorf("looking for instance %s in cluster %s: %w", ec2, name, err)
	}
	alias, ok := row.(*state.Alias)
	if !ok || alias == nil {
		return false, nil
	}
	row, err = r.State.Get(r.ctx, state.InstanceKey(name, alias.ID))
	if err != nil {
		return false, fmt.Errorf("reading instance %s: %w", alias.ID, err)
	}
	i, ok := row.(*cluster.Instance)
	return ok && i != nil && !i.Gone(), nil
}

// registered finds those of the instances that have registered with a cluster, as ECS says itself.
func (r *scalingRound) registered(name string, wanted []string, found map[string]string) error {
	ids, err := r.ECS.ListInstances(r.ctx, name)
	if cluster.ErrorCode(err) == cluster.CodeClusterNotFound {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing the instances of cluster %s: %w", name, err)
	}
	for batch := range slices.Chunk(ids, cluster.DescribeBatch) {
		got, err := r.ECS.DescribeInstances(r.ctx, name, batch)
		if err != nil {
			return fmt.Errorf("describing instances of cluster %s: %w", name, err)
		}
		for _, i := range got {
			if slices.Contains(wanted, i.EC2InstanceID) {
				found[i.EC2InstanceID] = name
			}
		}
	}
	return nil
}
