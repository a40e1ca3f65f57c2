package placement

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/decide"
	"berth/shared/handler"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// Handler is the placement function: its ports, its settings, and the snapshots that this execution
// environment keeps warm.
type Handler struct {
	State    state.Store
	Clock    handler.Clock
	Wake     handler.Queue // of dispatch: wakes due rows on time
	Settings handler.Settings
	Log      *slog.Logger
	// Telemetry counts what operators watch; nil counts nothing.
	Telemetry *handler.Telemetry
	// Environment names this execution environment; no other has the same.
	Environment string
	// HoldCallers makes callers of the API leave the cluster's placement version alone until release
	// is called. It is nil where they are in other processes.
	HoldCallers func(ctx context.Context, clock handler.Clock, clusterName string) (release func())

	warm map[string]*decide.WarmSnapshot
}

// HandleRecords handles one batch of the stream, cluster by cluster in the order of their first
// records. It returns the sequence of the first record to deliver again, which means all records
// behind it too; empty if the batch is done. Failures of one cluster do not hold up the others.
func (h *Handler) HandleRecords(ctx context.Context, records []state.Record) (retryFrom string, err error) {
	h.Telemetry.AddCount(handler.RecordsHandled, len(records))
	var order []string
	batches := map[string][]state.Record{}
	for _, r := range records {
		if _, ok := batches[r.Key.Cluster]; !ok {
			order = append(order, r.Key.Cluster)
		}
		batches[r.Key.Cluster] = append(batches[r.Key.Cluster], r)
	}
	failed := map[string]bool{}
	for _, name := range order {
		if name == state.Directory {
			continue
		}
		if err := cluster.IgnoreDrop(h.handleCluster(ctx, name, batches[name])); err != nil {
			handler.Logger(h.Log).Error("deciding", "cluster", name, "error", err)
			failed[name] = true
			delete(h.warm, name) // it may not have seen these records, and they may be given up
		}
	}
	for _, r := range records {
		if failed[r.Key.Cluster] {
			return r.Sequence, nil
		}
	}
	return "", nil
}

// handleCluster decides what the records of one cluster change, and commits it. If another commit
// comes first, it decides again on a fresh snapshot.
func (h *Handler) handleCluster(ctx context.Context, name string, records []state.Record) error {
	if err := h.wakeDispatch(ctx, records); err != nil {
		return err
	}
	records, err := h.openInbox(ctx, records)
	if err != nil {
		return err
	}
	if h.HoldCallers != nil {
		defer h.HoldCallers(ctx, h.Clock, name)()
	}
	if slices.ContainsFunc(records, isOverdueSweepRow) {
		delete(h.warm, name)
	}
	warmBefore := h.warm[name]
	warm, err := h.claimSnapshot(ctx, name)
	if err != nil {
		return err
	}
	delete(h.warm, name) // trusted again only when this batch is done
	begin := h.Clock.Now()
	warm.Snap.DropExpired(begin)
	changes := warm.ObserveRecords(records)
	rows := rowsOf(records)
	rows.wasReloaded = warm != warmBefore
	for races := range state.MaxRaces {
		if err := h.loadDefinitions(ctx, warm.Snap, changes.TaskDefinitions(warm.Snap)); err != nil {
			return err
		}
		if err := h.loadConsolidation(ctx, warm.Snap, changes); err != nil {
			return err
		}
		now := h.Clock.Now()
		commits := decide.Decide(warm, changes, now, h.Settings.Settings)
		h.recordIdleHops(name, decide.CountIdleHops(records, commits, warm.Snap, now))
		err := h.commitChain(ctx, warm.Snap, commits, rows)
		var c *state.Conflict
		if errors.As(err, &c) {
			h.Telemetry.AddCount(handler.CommitsLost, 1)
			if races >= racesBeforeHold {
				h.holdCallers(ctx, name, h.Clock.Now().Sub(begin))
			}
			begin = h.Clock.Now()
			batch := warm.Batch // the last use of the old snapshot: its memory is free while another is read
			snap, err := snapshot.Load(ctx, h.State, name)
			if err != nil {
				return err
			}
			warm = decide.NewWarmSnapshot(snap)
			warm.Batch, rows.wasReloaded = batch, true
			continue
		}
		if err != nil {
			return err
		}
		h.writeChangeSet(ctx, warm, rows)
		h.warm[name] = warm
		return nil
	}
	return fmt.Errorf("deciding: lost %d races", state.MaxRaces)
}

// openInbox returns the records with one for each task of an inbox row in the place of that row. It
// leaves out tasks that no longer exist.
func (h *Handler) openInbox(ctx context.Context, records []state.Record) ([]state.Record, error) {
	out := make([]state.Record, 0, len(records))
	for _, r := range records {
		inbox, ok := r.New.(*state.Inbox)
		if !ok {
			out = append(out, r)
			continue
		}
		tasks, err := inbox.Tasks()
		if err != nil {
			return nil, &cluster.Drop{Reason: err.Error()}
		}
		for _, u := range inbox.Unread {
			t, err := state.ReadRow[*cluster.Task](
				ctx, h.State, state.TaskKey(inbox.Cluster, u.Owner, u.ID), "task "+u.ID)
			if err != nil {
				return nil, err
			}
			if t != nil {
				tasks = append(tasks, t)
			}
		}
		for _, t := range tasks {
			out = append(out, state.Record{Sequence: r.Sequence, Op: state.Modify, Key: state.KeyOf(t), New: t})
		}
	}
	return out, nil
}

// racesBeforeHold is how many races a decision may lose before callers have to wait for it.
const racesBeforeHold = 2

// A hold lasts for several times what the last attempt took, from minHold to [state.MaxHold].
const (
	minHold    = 50 * time.Millisecond
	holdFactor = 4
)

// holdCallers makes callers of the API leave the placement version alone while the decision is made
// again. took is how long the attempt took that has lost the race. Without the hold the decision
// may still win, so an error is only logged.
func (h *Handler) holdCallers(ctx context.Context, name string, took time.Duration) {
	d := min(max(holdFactor*took, minHold), state.MaxHold)
	if err := state.HoldNarrowing(ctx, h.State, h.Clock, name, d); err != nil {
		handler.Logger(h.Log).Warn("callers are not held", "cluster", name, "error", err)
	}
}

// isOverdueSweepRow reports whether the record is the deletion of a due row that a sweep had
// written. It means that placement missed something, perhaps because the stream gave up records.
// Then the warm snapshot may have missed the same and is not used.
func isOverdueSweepRow(r state.Record) bool {
	due, ok := r.Old.(*state.Due)
	return ok && r.Op == state.Remove && due.Generation == decide.SweepGeneration
}

// claimSnapshot moves the cluster's checkpoint on to a new batch, and returns the snapshot for it:
// the warm one if this environment handled the batch before, otherwise one loaded now.
func (h *Handler) claimSnapshot(ctx context.Context, name string) (*decide.WarmSnapshot, error) {
	if h.warm == nil {
		h.warm = map[string]*decide.WarmSnapshot{}
	}
	row, err := h.State.Get(ctx, state.Key{Cluster: name, Sort: state.PrefixCheckpoint})
	if err != nil {
		return nil, fmt.Errorf("reading the checkpoint: %w", err)
	}
	next := state.Checkpoint{Head: cluster.Head{Cluster: name}}
	if old, ok := row.(*state.Checkpoint); ok && old != nil {
		next = *old
	}
	warm := h.warm[name]
	trusted := warm != nil && next.Environment == h.Environment && next.Batch == warm.Batch
	next.Rev++
	next.Batch++
	next.Environment = h.Environment
	if _, err := h.State.Write(ctx, state.Write{Put: &next}); err != nil {
		delete(h.warm, name)
		return nil, fmt.Errorf("claiming the checkpoint: %w", err)
	}
	if trusted {
		warm.Batch = next.Batch
		return warm, nil
	}
	snap, err := snapshot.Load(ctx, h.State, name)
	if err != nil {
		return nil, err
	}
	warm = decide.NewWarmSnapshot(snap)
	warm.Batch = next.Batch
	return warm, nil
}

// loadConsolidation reads the progress of consolidation in the cluster if it is time to look at the
// balance: that of the group that has the most left to do. Those rows wake no function.
func (h *Handler) loadConsolidation(ctx context.Context, snap *snapshot.Snapshot, changes *decide.Changes) error {
	if !changes.LooksAtBalance() {
		return nil
	}
	rows, err := h.State.List(ctx, state.Prefix(snap.Meta.Cluster, state.PrefixScaling))
	if err != nil {
		return fmt.Errorf("reading what managed scaling remembers: %w", err)
	}
	snap.Consolidation = ""
	for _, row := range rows {
		if history, ok := row.(*cluster.ScalingHistory); ok {
			snap.Consolidation = max(snap.Consolidation, history.ProgressAt(h.Clock.Now()))
		}
	}
	return nil
}

// loadDefinitions reads the task definitions that the snapshot lacks. They are cached by the API
// before any service names them, and their rows wake no function.
func (h *Handler) loadDefinitions(ctx context.Context, snap *snapshot.Snapshot, names []string) error {
	for _, name := range names {
		if snap.Definitions[name] != nil {
			continue
		}
		row, err := h.State.Get(ctx, state.TaskDefinitionKey(snap.Meta.Cluster, name))
		if err != nil {
			return fmt.Errorf("reading task definition %s: %w", name, err)
		}
		if row != nil {
			snap.Put(row)
		}
	}
	return nil
}

// commitChain makes the commits of a decision one after the other, and moves the snapshot's version
// on with each. It adds to rows what it writes. Cut off anywhere, what is committed so far is
// safe by itself.
func (h *Handler) commitChain(
	ctx context.Context, snap *snapshot.Snapshot, chain []state.Commit, rows *batchRows,
) error {
	for _, c := range chain {
		c, err := state.WithInbox(c, h.Clock) // so that it looks again at tasks that it ends without ECS
		if err != nil {
			return err
		}
		for _, w := range c.Writes {
			rows.add(w.Key())
		}
		if c.Version == state.NoVersion && len(c.Writes) == 1 {
			if _, err := h.State.Write(ctx, c.Writes[0]); err != nil {
				return err
			}
			continue
		}
		if err := h.State.Commit(ctx, c); err != nil {
			return err
		}
		if c.Version != state.NoVersion {
			snap.Meta.Version = c.Version + 1
		}
	}
	return nil
}

// wakeDispatch sends dispatch one message for each new due time, delayed until then. What is due
// later than a message can be delayed (15 minutes) is found by dispatch's schedule.
func (h *Handler) wakeDispatch(ctx context.Context, records []state.Record) error {
	sent := map[time.Duration]bool{}
	for _, r := range records {
		due, ok := r.New.(*state.Due)
		if !ok || due == nil || r.Op != state.Insert {
			continue
		}
		wait := max(0, due.At.Sub(h.Clock.Now()))
		wait = (wait + time.Second - 1).Truncate(time.Second)
		if wait > handler.MaxWake || sent[wait] {
			continue
		}
		sent[wait] = true
		body, err := json.Marshal(handler.WakeUp{Cluster: due.Cluster})
		if err != nil {
			return err
		}
		if err := h.Wake.Send(ctx, body, wait); err != nil {
			return fmt.Errorf("waking dispatch for %s: %w", state.KeyOf(due).Sort, err)
		}
	}
	return nil
}

// recordIdleHops publishes how many idle hops the longest cycle has. A growing number means that
// decisions go round in circles.
func (h *Handler) recordIdleHops(name string, hops int) {
	h.Telemetry.SetMax(handler.IdleRounds, float64(hops))
	if hops > 0 && hops%100 == 0 {
		handler.Logger(h.Log).Warn("decisions repeat without progress", "cluster", name, "generation", hops)
	}
}
