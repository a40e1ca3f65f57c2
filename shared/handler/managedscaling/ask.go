package managedscaling

import (
	"context"
	"time"

	"berth/shared/cluster"
	"berth/shared/decide"
	"berth/shared/scaling"
	"berth/shared/snapshot"
)

// ScalingInput is what a decision about a capacity provider rests on, in the cluster as the snapshot has it, but for
// whether the group's nodes are being upgraded. history is nil where nothing is remembered.
func ScalingInput(
	snap *snapshot.Snapshot, p *cluster.CapacityProvider, g *cluster.AutoScalingGroup, history *cluster.ScalingHistory, now time.Time,
) scaling.Input {
	r := &scalingRound{Handler: &Handler{Clock: frozen(now)}, snap: snap, specs: decide.NewSpecs(snap)}
	if history == nil {
		history = &cluster.ScalingHistory{Provider: p.Name}
	}
	r.waiting, r.daemons = r.waitingOf(), r.daemonsOf()
	in := r.input(p, g, *history)
	in.Movers = decide.MoversOf(snap, r.specs, p.Name, r.owners(g)) // who asks wants to know what consolidation would do, too
	return in
}

// frozen is a clock that shows one time.
type frozen time.Time

func (f frozen) Now() time.Time { return time.Time(f) }

func (frozen) Sleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }
