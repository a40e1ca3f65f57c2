package handler

import (
	"context"
	"iter"
	"time"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
	"berth/shared/placement"
	"berth/shared/scaling"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// What managed-scaling and node-group-upgrade decide on, for those who only ask what they would do.

// ScalingInput is what a decision about a capacity provider rests on, in the cluster as the snapshot has it, but for
// whether the group's nodes are being upgraded. history is nil where nothing is remembered.
func ScalingInput(
	snap *snapshot.Snapshot, p *cluster.CapacityProvider, g *cluster.AutoScalingGroup, history *cluster.ScalingHistory, now time.Time,
) scaling.Input {
	r := &scalingRound{ManagedScaling: &ManagedScaling{Clock: frozen(now)}, snap: snap, specs: newSpecs(snap)}
	if history == nil {
		history = &cluster.ScalingHistory{Provider: p.Name}
	}
	r.waiting, r.daemons = r.waitingOf(), r.daemonsOf()
	in := r.input(p, g, *history)
	in.Movers = moversOf(snap, r.specs, p.Name, r.owners(g)) // who asks wants to know what consolidation would do, too
	return in
}

// Movers are the cluster's REPLICA services as placement would start their tasks anywhere, by short key.
func Movers(snap *snapshot.Snapshot) map[string]placement.Mover {
	return moversOf(snap, newSpecs(snap), "", nil)
}

// NextProvider is the capacity provider that a REPLICA service's next task goes to, as its strategy says (S14); empty for any
// instance.
func NextProvider(snap *snapshot.Snapshot, s *cluster.Service) string {
	if len(s.Providers) == 0 || s.Strategy == cluster.Daemon {
		return ""
	}
	return allot(s.Providers, byProvider(snap, s.Short, s.Deployment.ID), 1)[0]
}

// frozen is a clock that shows one time.
type frozen time.Time

func (f frozen) Now() time.Time                                 { return time.Time(f) }
func (frozen) Sleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }

// NodesOf are the instances of an Auto Scaling group with what is on them, as the rows of their cluster say.
func NodesOf(g *cluster.AutoScalingGroup, rows iter.Seq[state.Row], now time.Time) (out []nodegroup.Instance) {
	w := newNodeWorld()
	for row := range rows {
		w.add(row, now)
	}
	for k := range g.Instances {
		out = append(out, w.member(&g.Instances[k]))
	}
	return out
}
