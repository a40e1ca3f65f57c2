package console

import (
	"context"
	"slices"
	"time"

	"berth/cmd/berth/listing"
	"berth/cmd/berth/problem"
	"berth/cmd/berth/whatif"
	"berth/shared/snapshot"
)

// World is one cluster as a page shows it.
type World struct {
	Cluster  string
	Snapshot *snapshot.Snapshot
	Capacity *whatif.Capacity // nil if unknown
	Report   *problem.Report
	Now      time.Time
	// Generation changes with the cluster.
	Generation string
	// Balance remembers how far the cluster is from balanced.
	Balance *Balance
	// Events returns the events of a service, or of all services if the name is empty, the oldest first.
	// Those of all may be a moment old; then the generation changes when they can be read again.
	Events func(ctx context.Context, service string) ([]listing.Event, error)
}

// Balance is how far a cluster was from balanced when that was last measured. To measure it takes
// tens of milliseconds in a large cluster, so an older measure is shown for a while: measuring takes
// at most one part of [measureShare] of the time.
type Balance struct {
	state      whatif.BalanceState
	generation string // of the cluster that was measured
	at         time.Time
	took       time.Duration
	plan       balancePlan
}

// balancePlan is the moves that were worth it when they were last planned, and of which cluster.
type balancePlan struct {
	answer     *whatif.BalanceAnswer // nil if none was planned
	generation string
	of         time.Time // by the cluster's clock
	at         time.Time
	took       time.Duration
}

const measureShare = 20

// measure returns how far the cluster is from balanced, or was a moment ago, and the generation that
// this is about.
func (b *Balance) measure(w *World) (state whatif.BalanceState, generation string) {
	if b.generation != w.Generation && time.Since(b.at) >= measureShare*b.took {
		b.at, b.generation = time.Now(), w.Generation
		b.state = whatif.MeasureBalance(w.Snapshot, w.Now)
		b.took = time.Since(b.at)
	}
	return b.state, b.generation
}

// planFor is how long a plan is shown while the cluster does not change: what may move also depends on
// the time.
const planFor = time.Minute

// planMoves returns the moves that are worth it, or were when they were last planned: to plan takes longer than
// to measure, and has the same share of the time.
func (b *Balance) planMoves(w *World, search whatif.BalanceSearch) (*balancePlan, error) {
	p := &b.plan
	age := time.Since(p.at)
	if p.answer != nil && (age < measureShare*p.took || age < planFor && p.generation == w.Generation) {
		return p, nil
	}
	begin := time.Now()
	answer, err := whatif.PlanBalance(w.Snapshot, search)
	if err != nil {
		return nil, err
	}
	*p = balancePlan{answer: answer, generation: w.Generation, of: w.Now, at: time.Now(), took: time.Since(begin)}
	return p, nil
}

// Source reads clusters.
type Source interface {
	// ClusterNames returns the names of all clusters, sorted.
	ClusterNames(ctx context.Context) ([]string, error)
	// View calls show with a cluster, which no other goroutine uses meanwhile. show must not keep it. The
	// error is a *whatif.NotFound for a cluster that does not exist.
	View(ctx context.Context, clusterName string, show func(*World) error) error
	// Generation returns what changes with the cluster. It is cheap, and asked for every second
	// while a page is open.
	Generation(ctx context.Context, clusterName string) (string, error)
}

// allEvents are the events of all services of a cluster as they were last read. To read them takes
// long where there are many services, so it is done for at most one part in [readShare] of the time.
type allEvents struct {
	events     []listing.Event
	generation string // of the cluster when they were read
	readAt     time.Time
	took       time.Duration
	// outdatedUntil is when they can be read again, if a page shows them although the cluster has
	// changed since; zero otherwise.
	outdatedUntil time.Time
}

// load returns the events, and reads them unless that would be too soon.
func (a *allEvents) load(
	generation string, now func() time.Time, read func() ([]listing.Event, error),
) ([]listing.Event, error) {
	begin := now()
	if readableAt := a.readAt.Add(readShare * a.took); begin.Before(readableAt) {
		if a.generation != generation {
			a.outdatedUntil = readableAt
		}
		return slices.Clone(a.events), nil
	}
	events, err := read()
	if err != nil {
		return nil, err
	}
	*a = allEvents{events: events, generation: generation, readAt: now(), took: now().Sub(begin)}
	return slices.Clone(events), nil
}

// endOutdated reports, once, that events which a page shows can be read again.
func (a *allEvents) endOutdated(now time.Time) bool {
	if a.outdatedUntil.IsZero() || now.Before(a.outdatedUntil) {
		return false
	}
	a.outdatedUntil = time.Time{}
	return true
}
