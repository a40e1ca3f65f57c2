package handler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// Placement is the function that decides: it reads the stream of the state, reconciles the services and requests that
// changed, places tasks, and commits intents under the cluster's placement version. It acts on nothing but the state.
type Placement struct {
	State    state.State
	Clock    Clock
	Wake     Queue // of dispatch: wakes due rows on time
	Settings Settings
	Log      *slog.Logger
	// Figures gather what operators watch; nil gathers nothing.
	Figures *Figures
	// Environment names this execution environment; no other has the same.
	Environment string

	warm map[string]*warmSnapshot
}

// warmSnapshot is what an environment remembers of a cluster, good only if it handled the cluster's previous batch.
type warmSnapshot struct {
	snap   *snapshot.Snapshot
	engine *placement.Engine // on snap
	specs  *specs
	batch  int64
	// dues are the timers that are set, winding the registrations that dispatch has been told to wind up.
	dues    map[timer]time.Time
	winding map[state.Key]bool
	// reserved reports that what DAEMON services will need is kept free.
	reserved bool
}

func newWarmSnapshot(snap *snapshot.Snapshot) *warmSnapshot {
	return &warmSnapshot{
		snap: snap, engine: placement.New(snap), specs: newSpecs(snap), dues: map[timer]time.Time{}, winding: map[state.Key]bool{},
	}
}

// Records handles one batch of the stream. It returns the sequence of the first record to deliver again, all after it
// included; empty when all are done.
func (h *Placement) Records(ctx context.Context, records []state.Record) (retryFrom string, err error) {
	h.Figures.Add(RecordsHandled, len(records))
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
		if err := ignoreDrop(h.cluster(ctx, name, batches[name])); err != nil {
			logger(h.Log).Error("deciding", "cluster", name, "error", err)
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

func (h *Placement) cluster(ctx context.Context, name string, records []state.Record) error {
	if err := h.wake(ctx, records); err != nil {
		return err
	}
	if slices.ContainsFunc(records, missed) {
		delete(h.warm, name)
	}
	warm, err := h.snapshot(ctx, name)
	if err != nil {
		return err
	}
	delete(h.warm, name) // trusted again only when this batch is done
	warm.snap.Prune(h.Clock.Now())
	w := newWork()
	for _, r := range records {
		warm.snap.See(r)
		w.add(r, warm.snap)
		if t, ok := r.Row().(*cluster.Target); ok && r.Op == state.Remove {
			delete(warm.winding, state.KeyOf(t))
		}
	}
	for _, t := range w.fired {
		delete(warm.dues, t)
	}
	for range maxRaces {
		if err := h.defined(ctx, warm.snap, w); err != nil {
			return err
		}
		now := h.Clock.Now()
		chain := decide(warm, w, now, h.Settings.DecisionSettings)
		h.turned(name, turns(records, chain, warm.snap, now))
		err := h.commit(ctx, warm.snap, chain)
		var c *state.Conflict
		if errors.As(err, &c) {
			h.Figures.Add(CommitsLost, 1)
			snap, err := loadSnapshot(ctx, h.State, name)
			if err != nil {
				return err
			}
			batch := warm.batch
			warm = newWarmSnapshot(snap)
			warm.batch = batch
			continue
		}
		if err != nil {
			return err
		}
		h.warm[name] = warm
		return nil
	}
	return fmt.Errorf("deciding: lost %d races", maxRaces)
}

// missed reports whether the record is a sweep's due row that has fallen due: something was left undone, perhaps because
// the stream gave up records, so what is remembered is not to be relied on.
func missed(r state.Record) bool {
	due, ok := r.Old.(*state.Due)
	return ok && r.Op == state.Remove && due.Generation == sweepGeneration
}

// snapshot claims the cluster's checkpoint and gives the warm snapshot if this environment handled the batch before,
// else a fresh one. Its batch is the one now begun.
func (h *Placement) snapshot(ctx context.Context, name string) (*warmSnapshot, error) {
	if h.warm == nil {
		h.warm = map[string]*warmSnapshot{}
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
	trusted := warm != nil && next.Environment == h.Environment && next.Batch == warm.batch
	next.Rev++
	next.Batch++
	next.Environment = h.Environment
	if _, err := h.State.Write(ctx, state.Write{Put: &next}); err != nil {
		delete(h.warm, name)
		return nil, fmt.Errorf("claiming the checkpoint: %w", err)
	}
	if trusted {
		warm.batch = next.Batch
		return warm, nil
	}
	snap, err := loadSnapshot(ctx, h.State, name)
	if err != nil {
		return nil, err
	}
	warm = newWarmSnapshot(snap)
	warm.batch = next.Batch
	return warm, nil
}

// loadSnapshot reads the whole cluster. The placement version is read first: whatever narrows meanwhile moves it on,
// and a commit decided on what was read fails.
func loadSnapshot(ctx context.Context, store state.State, name string) (*snapshot.Snapshot, error) {
	meta, err := store.Get(ctx, state.Key{Cluster: name, Sort: state.PrefixMeta})
	if err != nil {
		return nil, fmt.Errorf("reading cluster %s: %w", name, err)
	}
	if meta == nil {
		return nil, &cluster.Drop{Reason: fmt.Sprintf("cluster %q is not known", name)}
	}
	snap := snapshot.NewSnapshot()
	snap.Put(meta)
	for _, prefix := range []string{
		state.PrefixConfiguration, state.PrefixInstance, state.PrefixDefinition, state.PrefixService, state.PrefixTask,
		state.PrefixRequest, state.PrefixTarget, state.PrefixProtection, state.PrefixThrottle, state.PrefixAlarms,
	} {
		rows, err := store.List(ctx, state.Prefix(name, prefix))
		if err != nil {
			return nil, fmt.Errorf("reading the %s rows of cluster %s: %w", prefix, name, err)
		}
		for _, r := range rows {
			snap.Put(r)
		}
	}
	return snap, nil
}

// defined reads the task definitions that the work needs and the snapshot lacks: their rows wake nobody.
func (h *Placement) defined(ctx context.Context, snap *snapshot.Snapshot, w *work) error {
	var missing []string
	for name := range w.services {
		if s := snap.Services[name]; s != nil {
			for _, r := range s.Revisions() {
				missing = append(missing, r.TaskDefinition)
			}
			if s.Last != nil {
				missing = append(missing, s.Last.TaskDefinition)
			}
		}
	}
	for id := range w.requests {
		if r := snap.Requests[id]; r != nil {
			missing = append(missing, r.TaskDefinition)
		}
	}
	for _, name := range missing {
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

// commit makes the chain of commits and moves the snapshot's version on with them.
func (h *Placement) commit(ctx context.Context, snap *snapshot.Snapshot, chain []state.Commit) error {
	for _, c := range chain {
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

// WakeUp is the message that wakes dispatch for one cluster.
type WakeUp struct {
	Cluster string `json:"cluster"`
}

// wake sends dispatch a message for each new due row, to arrive when it is due. Rows further away than a message can be
// delayed are found by the schedule.
func (h *Placement) wake(ctx context.Context, records []state.Record) error {
	sent := map[time.Duration]bool{}
	for _, r := range records {
		due, ok := r.New.(*state.Due)
		if !ok || due == nil || r.Op != state.Insert {
			continue
		}
		wait := max(0, due.At.Sub(h.Clock.Now()))
		wait = (wait + time.Second - 1).Truncate(time.Second)
		if wait > MaxWake || sent[wait] {
			continue
		}
		sent[wait] = true
		body, err := json.Marshal(WakeUp{Cluster: due.Cluster})
		if err != nil {
			return err
		}
		if err := h.Wake.Send(ctx, body, wait); err != nil {
			return fmt.Errorf("waking dispatch for %s: %w", state.KeyOf(due).Sort, err)
		}
	}
	return nil
}
