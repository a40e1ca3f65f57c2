package simulation

import (
	"context"
	"errors"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/state"
)

// A Bug is a mistake that the simulation must find. It is planted in a port around the real code,
// so the code that users run contains none of it.
type Bug string

// The bugs.
const (
	NoBug Bug = ""
	// DropVersionCheck accepts every report, however old.
	DropVersionCheck Bug = "drop the event version check"
	// CommitStale commits a decision after a lost race instead of deciding again.
	CommitStale Bug = "commit without deciding again after a lost race"
	// CountStopped counts STOPPED tasks as running, IgnoreStarting does not count tasks that are
	// starting.
	CountStopped   Bug = "count a STOPPED task as holding"
	IgnoreStarting Bug = "do not count a STARTING task"
	// AcknowledgeFirst answers before the write, which may then not happen.
	AcknowledgeFirst Bug = "acknowledge before the write"
	// StartUnclaimed starts tasks even if the claim failed.
	StartUnclaimed Bug = "start without claiming"
	// NarrowSilently makes narrowing writes that do not move the placement version.
	NarrowSilently Bug = "a narrowing write that does not bump the version"
	// TrustStale trusts the warm snapshot even if another environment handled the last batch.
	TrustStale Bug = "trust a stale snapshot"
	// FenceOnePartition commits the rows of other partition keys than the cluster's own whether or not
	// the placement version is the one of the decision.
	FenceOnePartition Bug = "the fence is checked on one partition only"
	// MergeOlder lets the record of an older version of a task replace a newer one in the snapshot. In
	// histories of seeds newer records, or the sweep, soon mend what it breaks; TestOlderRecordsChangeNothing
	// finds it.
	MergeOlder Bug = "the snapshot is merged with an older record"
	// NoDueNet switches dispatch's schedule off, so that only wake-ups end what waits for a time.
	NoDueNet Bug = "the schedule of due rows is off"
	// IgnoreStartsShare lets stops have all calls of the account while starts wait. Histories of
	// seeds have too few tasks for it; TestStartsKeepTheirShare finds it.
	IgnoreStartsShare Bug = "starts' share ignored"
)

// Bugs lists the bugs of the general kind of run.
var Bugs = []Bug{
	DropVersionCheck, CommitStale, CountStopped, IgnoreStarting, AcknowledgeFirst, StartUnclaimed, NarrowSilently,
	TrustStale, FenceOnePartition, NoDueNet,
	FloorBase, QuorumOffByOne, UndefinedTrue, UseBuffer, PhantomDomain, FreePortTwice, CountPairTwice, IgnoreLoads,
	IgnoreCordon, BalanceUnasked, IgnoreTaint, TolerateOtherKey, KeepEvicted,
	IgnoreMaximumNodes, IgnoreNodeCapacity, IgnoreTotalCapacity, IgnoreReservation,
	CeilForFloor, StopEarly, KeepThrottle, DaemonOnDraining, RollBackToFailed, ChooseProtected, IgnoreGrace,
	IgnoreMassUnhealthiness,
	IgnoreThrottle, IgnoreGap, NeverResetThrottle,
	IgnoreScale, FloorShare, ReplaceOthers, KeepDeleted,
}

// BalanceBugs lists the bugs of runs with balancing.
var BalanceBugs = []Bug{LimitEachPlan}

// wrapStore plants the bug in a function's store.
func (b Bug) wrapStore(w *World, function string, s state.Store) state.Store {
	if UpgradeBugs[b] != "" {
		return b.wrapUpgradeStore(w, function, s)
	}
	if show := b.distortion(); show != nil && function == "placement" {
		return &distortedStore{s, w, show}
	}
	if b == NoBug || slices.Contains([]Bug{IgnoreMassUnhealthiness, IgnoreThrottle, IgnoreGap, NoDueNet, MergeOlder}, b) ||
		b.distortion() != nil {
		return s
	}
	return &buggyStore{Store: s, world: w, bug: b, function: function}
}

type buggyStore struct {
	state.Store
	world    *World
	bug      Bug
	function string
	// The last checkpoint that this environment wrote.
	batch       int64
	environment string
}

func (s *buggyStore) Get(ctx context.Context, key state.Key) (state.Row, error) {
	row, err := s.Store.Get(ctx, key)
	if c, ok := row.(*state.Checkpoint); ok && c != nil && s.bug == TrustStale && s.batch > 0 {
		// It looks like this environment's own, whoever wrote it.
		mine := *c
		mine.Batch, mine.Environment = s.batch, s.environment
		return &mine, err
	}
	return s.distort(row), err
}

func (s *buggyStore) Peek(ctx context.Context, key state.Key) (state.Row, error) {
	row, err := s.Store.Peek(ctx, key)
	return s.distort(row), err
}

// distort returns a row as the bug makes it look.
func (s *buggyStore) distort(row state.Row) state.Row {
	switch r := row.(type) {
	case *cluster.Instance:
		if r != nil && s.bug == DropVersionCheck {
			next := *r
			next.Version = 0
			return &next
		}
	case *state.Bucket:
		if r != nil && s.bug == IgnoreStartsShare {
			next := *r
			now, limits := s.world.Loop.Now(), handler.DefaultSettings()
			next.Tokens = min(limits.StartBurst/2, r.Tokens+now.Sub(r.At).Seconds()*limits.StartRate)
			next.At, next.Starts, next.StartsWait = now, 0, time.Time{} // all that flowed in is the stops'
			return &next
		}
	case *cluster.Task:
		if r != nil && s.bug == CountStopped && r.Last == cluster.TaskStopped && s.function == "placement" {
			next := *r
			next.Last = cluster.TaskRunning
			return &next
		}
	}
	return row
}

func (s *buggyStore) List(ctx context.Context, r state.Range) ([]state.Row, error) {
	rows, err := s.Store.List(ctx, r)
	var out []state.Row
	for _, row := range rows {
		t, ok := row.(*cluster.Task)
		if ok && s.bug == IgnoreStarting && s.function == "placement" && t.Instance != "" && t.Last == "" {
			continue
		}
		out = append(out, s.distort(row))
	}
	return out, err
}

func (s *buggyStore) Write(ctx context.Context, w state.Write) (state.Row, error) {
	switch {
	case s.bug == AcknowledgeFirst && s.function == "task-state-change" && w.Observe != nil && s.world.bugStrikes(),
		s.bug == AcknowledgeFirst && s.function == "api" && w.Put != nil && s.world.bugStrikes():
		return w.Put, nil
	case s.bug == StartUnclaimed && w.Claim != nil:
		row, err := s.Store.Write(ctx, w)
		var c *state.Conflict
		if errors.As(err, &c) && c.Row != nil {
			return c.Row, nil
		}
		return row, err
	case s.bug == TrustStale:
		row, err := s.Store.Write(ctx, w)
		if c, ok := row.(*state.Checkpoint); ok && err == nil && c != nil {
			s.batch, s.environment = c.Batch, c.Environment
		}
		return row, err
	}
	return s.Store.Write(ctx, w)
}

func (s *buggyStore) Commit(ctx context.Context, c state.Commit) error {
	switch {
	case s.bug == AcknowledgeFirst && s.function == "api" && s.world.bugStrikes():
		return nil
	case s.bug == NarrowSilently && s.function != "placement" && c.Version >= 0:
		c.Version = state.NoVersion
		return s.Store.Commit(ctx, c)
	case s.bug == FenceOnePartition && s.function == "placement":
		return s.commitByPartition(ctx, c)
	case s.bug == CommitStale && s.function == "placement":
		return s.commitAnyway(ctx, c)
	}
	return s.Store.Commit(ctx, c)
}

// commitAnyway repeats the commit under the current version.
func (s *buggyStore) commitAnyway(ctx context.Context, c state.Commit) error {
	err := s.Store.Commit(ctx, c)
	var conflict *state.Conflict
	for errors.As(err, &conflict) && conflict.Version {
		row, failed := s.Store.Get(ctx, state.Key{Cluster: c.Cluster, Sort: state.PrefixMeta})
		meta, ok := row.(*state.Meta)
		if failed != nil || !ok {
			return err
		}
		c.Version = meta.Version
		err = s.Store.Commit(ctx, c)
		conflict = nil
	}
	return err
}

// bugStrikes draws whether a bug that shows only now and then shows.
func (w *World) bugStrikes() bool { return w.faults.active && w.rng.Float64() < 0.2 }
