package decide

import (
	"berth/shared/cluster"
	"berth/shared/decide/plan"
	"berth/shared/decide/specs"
	"berth/shared/placement"
	"berth/shared/placement/moves"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// A WarmSnapshot is what an environment of placement keeps of a cluster from one batch to the next:
// the snapshot, placement's index of it, and what was asked for already. It may be used only while
// no other environment has handled a batch of the cluster.
type WarmSnapshot struct {
	Snap *snapshot.Snapshot
	// Batch is the number of the batch in hand, or handled last.
	Batch int64

	engine      *placement.Engine // on Snap
	movePlanner *moves.Planner    // on engine
	specs       *specs.Cache
	requested   *plan.Requested
	reserved    bool // for all DAEMON services
}

// NewWarmSnapshot indexes the snapshot for decisions.
func NewWarmSnapshot(snap *snapshot.Snapshot) *WarmSnapshot {
	engine := placement.New(snap)
	return &WarmSnapshot{
		Snap: snap, engine: engine, movePlanner: moves.NewPlanner(engine), specs: specs.NewCache(snap),
		requested: plan.NewRequested(),
	}
}

// ObserveRecords applies a batch of stream records to the snapshot and returns what they ask to be
// reconsidered.
func (w *WarmSnapshot) ObserveRecords(records []state.Record) *Changes {
	changes := newChanges()
	for _, r := range records {
		if t, ok := r.New.(*cluster.Task); ok && r.Old == nil {
			// An inbox row has a task as it is now. The snapshot has what it was before.
			if known := w.Snap.Task(t.Owner, t.ID); known != nil && known.Rev < t.Rev {
				r.Old = known
			}
		}
		w.Snap.ApplyRecord(r)
		changes.add(r, w.Snap)
		if t, ok := r.Row().(*cluster.Target); ok && r.Op == state.Remove {
			delete(w.requested.Deregistrations, state.KeyOf(t))
		}
	}
	for _, t := range changes.fired {
		delete(w.requested.Timers, t)
	}
	return changes
}
