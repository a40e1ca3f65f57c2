package embedded

import (
	"context"
	"errors"
	"fmt"

	"berth/shared/cluster"
	"berth/shared/state"
)

// commitRequest is what one writer asks for: a commit, or the deletion of all rows that expire by a
// time. The writer that settles it sets the outcome, under Store.committing.
type commitRequest struct {
	commit state.Commit
	expire int64 // Unix seconds, 0 for a commit

	done    bool
	changes []rowChange // what it changed; deleting an absent row changes nothing
	err     error
}

// commitGroup is a list of requests that become durable together. Each request sees the changes of
// those before it; no other reader sees any until all are durable.
type commitGroup struct {
	store   *Store
	changes []rowChange
	// overlay has the rows that the group has changed, nil for a deleted one. It is nil in a group
	// of one request, whose rows are all different.
	overlay  map[state.Key]*storedRow
	sequence uint64   // of the last record, this group's included
	hash     [32]byte // this group's changes included
}

// newCommitRequest copies the rows to be put, so that the caller may go on changing his.
func newCommitRequest(c state.Commit) *commitRequest {
	writes := make([]state.Write, len(c.Writes))
	for i, w := range c.Writes {
		if w.Put != nil {
			w.Put = copyStoredRow(w.Put)
			w.Put.Header().Cluster = state.KeyOf(w.Put).Cluster
		}
		writes[i] = w
	}
	c.Writes = writes
	return &commitRequest{commit: c}
}

// submitCommit waits until the request is settled. A writer that gets the lock settles all requests
// that wait, so a group has grown for as long as the one before it took: one write is one sync, and
// a hundred at the same time are few.
func (s *Store) submitCommit(ctx context.Context, r *commitRequest) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.pending.Lock()
	s.pending.requests = append(s.pending.requests, r)
	s.pending.Unlock()

	s.committing.Lock()
	defer s.committing.Unlock()
	if !r.done {
		s.pending.Lock()
		batch := s.pending.requests
		s.pending.requests = nil
		s.pending.Unlock()
		s.settleRequests(batch)
	}
	return r.err
}

// settleRequests decides the requests in order. It makes those that hold durable, then visible, and
// then tells the stream's reader: no handler acts on a change that a crash could undo.
func (s *Store) settleRequests(batch []*commitRequest) {
	g := &commitGroup{store: s, sequence: s.sequence, hash: s.hash}
	if len(batch) > 1 {
		g.overlay = map[state.Key]*storedRow{}
	}
	for _, r := range batch {
		r.done = true
		if r.err = s.failed; r.err == nil {
			r.err = g.addRequest(r)
		}
	}
	if len(g.changes) == 0 {
		return
	}
	g.sealRows()
	if s.disk != nil {
		if err := s.disk.saveCommitGroup(g); err != nil {
			s.failWrites(err, batch)
			return
		}
	}
	records := s.publishRecords(g)
	if s.onRecords != nil {
		s.onRecords(records)
	}
}

// failWrites answers all requests with why the file was not written. Later ones try again, unless
// it is not known any more what the file holds: that ends all use of the store, and a restart may
// find the group written.
func (s *Store) failWrites(err error, batch []*commitRequest) {
	for _, r := range batch {
		r.err = err
	}
	if errors.Is(err, cluster.ErrAmbiguous) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.failed = err
	}
}

// publishRecords makes the group visible to readers, all its rows at once, and returns its stream
// records if anyone needs them.
func (s *Store) publishRecords(g *commitGroup) []state.Record {
	var records []state.Record
	if s.onRecords != nil || s.stream.kept {
		records = g.newRecords()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range g.changes {
		if c.old != nil && c.old.row.Header().Expires > 0 {
			s.expiring.Delete(c.old)
		}
		if s.rows.replace(c.old, c.new); c.new == nil {
			continue
		}
		c.new.data = nil
		if c.new.row.Header().Expires > 0 {
			s.expiring.Set(c.new)
		}
	}
	s.sequence, s.hash = g.sequence, g.hash
	s.stream.appendRecords(records)
	return records
}

// currentRow returns the row as the group's next request finds it.
func (g *commitGroup) currentRow(key state.Key) *storedRow {
	if e, ok := g.overlay[key]; ok {
		return e
	}
	return g.store.findStoredRow(key)
}

// addRequest adds what the request changes, or returns why it changes nothing.
func (g *commitGroup) addRequest(r *commitRequest) error {
	var err error
	if r.expire > 0 {
		r.changes = g.expiredRows(r.expire)
	} else if r.changes, err = g.evaluateCommit(r.commit); err != nil {
		return err
	}
	g.changes = append(g.changes, r.changes...)
	if g.overlay != nil {
		for _, c := range r.changes {
			g.overlay[c.changedKey()] = c.new
		}
	}
	return nil
}

// expiredRows returns the deletions of all rows that expire by t and were not changed in this
// group, which may have moved their expiry.
func (g *commitGroup) expiredRows(t int64) []rowChange {
	var out []rowChange
	g.store.expiring.Scan(func(e *storedRow) bool {
		if e.row.Header().Expires > t {
			return false
		}
		if g.currentRow(e.key) == e {
			out = append(out, rowChange{old: e})
		}
		return true
	})
	return out
}

// evaluateCommit returns what the commit changes, or why it changes nothing. DynamoDB charges for
// both.
func (g *commitGroup) evaluateCommit(c state.Commit) ([]rowChange, error) {
	b := g.newBill()
	changes := make([]rowChange, 0, len(c.Writes)+1)
	if c.Version >= 0 {
		moved, err := g.movePlacementVersion(c)
		if err != nil {
			return nil, g.billRefused(c, err)
		}
		b.countWrite(moved.changedKey(), moved)
		changes = append(changes, moved)
	}
	for _, w := range c.Writes {
		made, err := g.applyWrite(w)
		if err != nil {
			return nil, g.billRefused(c, err)
		}
		if b.countWrite(w.Key(), made); made.old != nil || made.new != nil {
			changes = append(changes, made)
		}
	}
	if b.size > maxTransaction {
		return nil, fmt.Errorf("the rows of a commit have %d bytes, at most %d are allowed", b.size, maxTransaction)
	}
	if err := g.store.throughput.takeUnits(b.partitionUnits(), nil); err != nil {
		return nil, err
	}
	g.store.usage.countCommit(b)
	return changes, nil
}

// movePlacementVersion returns the next state of the cluster's meta row, or a conflict if the
// commit was decided on another version.
func (g *commitGroup) movePlacementVersion(c state.Commit) (rowChange, error) {
	key := state.Key{Cluster: c.Cluster, Sort: state.PrefixMeta}
	old := g.currentRow(key)
	meta, ok := old.rowOrNil().(*state.Meta)
	if !ok || meta.Version != c.Version {
		return rowChange{}, &state.Conflict{Key: key, Row: old.copyOrNil(), Version: true}
	}
	next := *meta
	next.Version++
	next.Rev++
	e, err := newStoredRow(&next)
	return rowChange{old: old, new: e}, err
}

// applyWrite returns the change of one write, by the rules of [state.Write.Apply].
func (g *commitGroup) applyWrite(w state.Write) (rowChange, error) {
	key := w.Key()
	old := g.currentRow(key)
	next, ok := w.Apply(old.rowOrNil())
	if !ok {
		return rowChange{}, &state.Conflict{Key: key, Row: old.copyOrNil()}
	}
	if next == nil {
		return rowChange{old: old}, nil
	}
	if w.Put == nil {
		next = copyStoredRow(next) // it shares parts with the old row, or with what the writer gave
	}
	e, err := newStoredRow(next)
	return rowChange{old: old, new: e}, err
}

// newBill returns the bill of a commit that has done nothing yet.
func (g *commitGroup) newBill() (b commitBill) {
	if g.store.throughput != nil {
		b.byPartition = map[string]int64{}
	}
	return b
}

// billRefused bills a commit that a condition refused, which takes as many units as one that holds
// ("Understanding condition expressions"); one that breaks a limit is free. It returns the refusal, or
// [ErrThroughput] if there are no units for it.
func (g *commitGroup) billRefused(c state.Commit, refusal error) error {
	var conflict *state.Conflict
	if !errors.As(refusal, &conflict) {
		return refusal
	}
	b := g.newBill()
	count := func(key state.Key) { b.countWrite(key, rowChange{old: g.currentRow(key)}) }
	if c.Version >= 0 {
		count(state.Key{Cluster: c.Cluster, Sort: state.PrefixMeta})
	}
	for _, w := range c.Writes {
		count(w.Key())
	}
	if err := g.store.throughput.takeUnits(b.partitionUnits(), nil); err != nil {
		return err
	}
	g.store.usage.countCommit(b)
	return refusal
}
