// Package embedded is the tier that needs nothing but this process: the state on disk or in memory,
// and queues, streams, schedules and time in process. It connects the functions as template.yaml
// says and decides nothing itself.
package embedded

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"sync"
	"time"

	"github.com/tidwall/btree"

	"berth/shared/state"
)

// Store keeps the state of all clusters in this process: all rows in memory and, unless it is
// ephemeral, every change in one file before it is acknowledged or seen by anyone. Writers who come
// at the same time share one transaction of the file. It may be used by several goroutines; it
// takes copies of rows and gives copies.
type Store struct {
	pending struct {
		sync.Mutex
		requests []*commitRequest
	}

	// committing is held by whoever settles requests: the only one to change anything below.
	committing sync.Mutex
	disk       *stateFile // nil where ephemeral
	digest     hash.Hash
	onRecords  func([]state.Record)

	// mu guards what readers see; it is never held during a write to the file.
	mu       sync.RWMutex
	rows     *btree.BTreeG[*storedRow] // by key
	expiring *btree.BTreeG[*storedRow] // by expiry, those that have one
	sequence uint64                    // of the last stream record
	hash     [32]byte                  // over all changes so far
	stream   recordLog
	failed   error // every later call gives it

	usage usageCounter
}

// StoreOptions says where a store keeps its rows, and who reads its stream.
type StoreOptions struct {
	// Path is the file, made where there is none; empty keeps everything in memory alone.
	Path string
	// Consumers are the readers of the stream: the file keeps a record until all of them have
	// acknowledged it.
	Consumers []string
}

// OpenStore opens a store. It fails where another process has the file open, and where the file is
// not a state file or one of a later format.
func OpenStore(o StoreOptions) (*Store, error) {
	unlocked := btree.Options{NoLocks: true}
	s := &Store{
		rows:     btree.NewBTreeGOptions(lessByKey, unlocked),
		expiring: btree.NewBTreeGOptions(lessByExpiry, unlocked),
		digest:   newDigest(),
	}
	if o.Path == "" {
		return s, nil
	}
	s.stream = newRecordLog(o.Consumers)
	d, err := openStateFile(o.Path)
	if err != nil {
		return nil, err
	}
	if err := d.loadStore(s); err != nil {
		_ = d.db.Close()
		return nil, fmt.Errorf("reading state file %s: %w", o.Path, err)
	}
	s.disk = d
	return s, nil
}

var errClosed = errors.New("the state store is closed")

// Close writes down what has been acknowledged of the stream and lets go of the file. Every later
// call fails.
func (s *Store) Close() error {
	s.committing.Lock()
	defer s.committing.Unlock()
	s.mu.Lock()
	failed := s.failed
	s.failed = errClosed
	s.mu.Unlock()
	if s.disk == nil || errors.Is(failed, errClosed) {
		return nil
	}
	var err error
	if failed == nil {
		err = s.disk.saveCommitGroup(&commitGroup{store: s, sequence: s.sequence, hash: s.hash})
	}
	return errors.Join(err, s.disk.db.Close())
}

// Get reads one row as last written; nil where there is none.
func (s *Store) Get(ctx context.Context, key state.Key) (state.Row, error) {
	return s.readStoredRow(ctx, key, consistentRead)
}

// Peek is Get at half the price.
func (s *Store) Peek(ctx context.Context, key state.Key) (state.Row, error) {
	return s.readStoredRow(ctx, key, eventualRead)
}

func (s *Store) readStoredRow(ctx context.Context, key state.Key, price int64) (state.Row, error) {
	if err := errors.Join(ctx.Err(), checkKey(key)); err != nil {
		return nil, fmt.Errorf("reading row %s of cluster %s: %w", key.Sort, key.Cluster, err)
	}
	s.mu.RLock()
	e, failed := s.findStoredRow(key), s.failed
	s.mu.RUnlock()
	if failed != nil {
		return nil, failed
	}
	if e == nil {
		s.usage.countRead(0, price)
		return nil, nil
	}
	s.usage.countRead(e.size, price)
	return copyStoredRow(e.row), nil
}

// List reads a range as last written, in order of sort key.
func (s *Store) List(ctx context.Context, r state.Range) ([]state.Row, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("listing rows %s of cluster %s: %w", r.From, r.Cluster, err)
	}
	found, err := s.findStoredRows(r)
	if err != nil {
		return nil, err
	}
	size := 0
	rows := make([]state.Row, len(found))
	for i, e := range found {
		size += e.size
		rows[i] = copyStoredRow(e.row)
	}
	s.usage.countRead(size, consistentRead)
	return rows, nil
}

func (s *Store) findStoredRows(r state.Range) ([]*storedRow, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.failed != nil || r.From >= r.To {
		return nil, s.failed
	}
	var found []*storedRow
	from := &storedRow{key: state.Key{Cluster: r.Cluster, Sort: r.From}}
	s.rows.Ascend(from, func(e *storedRow) bool {
		if e.key.Cluster != r.Cluster || e.key.Sort >= r.To {
			return false
		}
		found = append(found, e)
		return len(found) != r.Limit
	})
	return found, nil
}

// Write makes one change and returns the row after it, nil after a deletion. A condition that does
// not hold gives *state.Conflict with the row that is there.
func (s *Store) Write(ctx context.Context, w state.Write) (state.Row, error) {
	if err := checkWrite(w); err != nil {
		return nil, err
	}
	r := newCommitRequest(state.Commit{Version: state.NoVersion, Writes: []state.Write{w}})
	if err := s.submitCommit(ctx, r); err != nil {
		key := w.Key()
		return nil, fmt.Errorf("writing row %s of cluster %s: %w", key.Sort, key.Cluster, err)
	}
	switch {
	case w.Delete != nil:
		return nil, nil
	case w.Put != nil:
		w.Put.Header().Rev = r.changes[0].new.row.Header().Rev
		return w.Put, nil
	}
	return copyStoredRow(r.changes[0].new.row), nil
}

// Commit makes all changes or none. A condition or a version that does not hold gives
// *state.Conflict, too many writes or a row named twice an error.
func (s *Store) Commit(ctx context.Context, c state.Commit) error {
	err := checkCommit(c)
	if err == nil && (len(c.Writes) > 0 || c.Version >= 0) {
		err = s.submitCommit(ctx, newCommitRequest(c))
	}
	if err != nil {
		return fmt.Errorf("committing to cluster %s: %w", c.Cluster, err)
	}
	return nil
}

// ExpireRows deletes the rows that may be deleted at now and returns how many there were. It costs
// nothing where none is due. As in DynamoDB it has no price.
func (s *Store) ExpireRows(now time.Time) int {
	s.mu.RLock()
	first, ok := s.expiring.Min()
	s.mu.RUnlock()
	if !ok || first.row.Header().Expires > now.Unix() {
		return 0
	}
	r := &commitRequest{expire: now.Unix()}
	if err := s.submitCommit(context.Background(), r); err != nil {
		return 0 // the next call that can say so does
	}
	return len(r.changes)
}

// HistoryHash is a digest over every change ever made, in order: the same history gives the same
// hash.
func (s *Store) HistoryHash() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return hex.EncodeToString(s.hash[:])
}
