package embedded

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"
	"time"

	"github.com/tidwall/btree"

	"berth/shared/datafile"
	"berth/shared/state"
)

// Store keeps the state of all clusters in this process. All rows are in memory; unless the store
// is ephemeral, every change is in one file before it is acknowledged or seen by anyone. Writers
// who come at the same time share one transaction of the file, because its sync costs milliseconds.
//
// It may be used by several goroutines. It takes copies of rows and gives copies. Conditions,
// limits and prices are those of DynamoDB.
type Store struct {
	pending struct {
		sync.Mutex
		requests []*commitRequest
	}

	// committing is held by the writer that settles requests. Only it changes anything below, so it
	// reads the rows without mu.
	committing sync.Mutex
	disk       *stateFile // nil where ephemeral
	digest     hash.Hash
	onRecords  func([]state.Record)

	// mu guards what readers see. It is never held during a write to the file, so that reads do not
	// wait for the disk.
	mu       sync.RWMutex
	rows     rowIndex
	expiring *btree.BTreeG[*storedRow] // by expiry, those that have one
	sequence uint64                    // of the last stream record
	hash     [32]byte                  // over all changes so far
	stream   recordLog
	failed   error // what every later call returns

	usage      usageCounter
	throughput *Throughput
}

// StoreOptions say where a store keeps its rows, and who reads its stream.
type StoreOptions struct {
	// Path is the file, which is created if it does not exist. Empty keeps everything in memory.
	Path string
	// Consumers are the readers of the stream: the file keeps a record until all of them have
	// acknowledged it.
	Consumers []string
	// Unwritable is called with the error when writing the file fails, and with nil when it
	// succeeds again. It may be nil, and must not call the store.
	Unwritable func(err error)
}

// OpenStore opens a store. It is an error if another process has the file open, or if the file is
// not a state file or one of a later format.
func OpenStore(o StoreOptions) (*Store, error) {
	s := &Store{
		rows:     newRowIndex(),
		expiring: btree.NewBTreeGOptions(lessByExpiry, btree.Options{NoLocks: true}),
		digest:   sha256.New(),
	}
	if o.Path == "" {
		return s, nil
	}
	s.stream = newRecordLog(o.Consumers)
	d, err := openStateFile(o.Path, o.Unwritable)
	if err != nil {
		return nil, err
	}
	if err := d.loadStore(s); err != nil {
		_ = d.Close()
		return nil, fmt.Errorf("reading the state file: %w", datafile.Damaged(o.Path, err))
	}
	s.disk = d
	return s, nil
}

var errClosed = errors.New("the state store is closed")

// Close saves what has been acknowledged of the stream and closes the file. Every later call fails.
// Closing twice is no error.
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
	return errors.Join(err, s.disk.Close())
}

// WriteBackup writes a copy of the file to w, with every change that has returned. It is an error
// where the store is ephemeral.
func (s *Store) WriteBackup(w io.Writer) error {
	if s.disk == nil {
		return errors.New("an ephemeral store has no file")
	}
	_, err := s.disk.WriteTo(w)
	return err
}

// LimitThroughput gives the store the throughput of a table of DynamoDB from now on. No call may be
// in progress.
func (s *Store) LimitThroughput(t *Throughput) { s.throughput = t }

// Get returns one row as last written, nil if there is none.
func (s *Store) Get(ctx context.Context, key state.Key) (state.Row, error) {
	return s.readStoredRow(ctx, key, consistentRead)
}

// Peek is Get at half the price. On DynamoDB it may miss the last second's writes; here it does
// not.
func (s *Store) Peek(ctx context.Context, key state.Key) (state.Row, error) {
	return s.readStoredRow(ctx, key, eventualRead)
}

// readStoredRow reads under the lock and copies after it. An absent row costs as much as a small
// one.
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
	size := 0
	if e != nil {
		size = e.size
	}
	s.usage.countRead(size, price)
	if s.throughput != nil {
		reads := map[string]int64{key.PartitionKey(): billedUnits(size, 4<<10)}
		if err := s.throughput.takeUnits(nil, reads); err != nil {
			return nil, fmt.Errorf("reading row %s of cluster %s: %w", key.Sort, key.Cluster, err)
		}
	}
	if e == nil {
		return nil, nil
	}
	return copyStoredRow(e.row), nil
}

// Write makes one change and returns the row after it, nil after a deletion. The error is a
// *state.Conflict with the row that is there if the change's condition does not hold.
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

// Commit makes all changes or none. The error is a *state.Conflict if a condition or the version
// does not hold, and another one if there are too many writes or a row is named twice.
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

// ExpireRows deletes the rows that have expired by now and returns how many there were. It takes no
// time if none has. As in DynamoDB it has no price.
func (s *Store) ExpireRows(now time.Time) int {
	s.mu.RLock()
	first, ok := s.expiring.Min()
	s.mu.RUnlock()
	if !ok || first.row.Header().Expires > now.Unix() {
		return 0
	}
	r := &commitRequest{expire: now.Unix()}
	if err := s.submitCommit(context.Background(), r); err != nil {
		return 0 // the store has failed, which the next call returns
	}
	return len(r.changes)
}

// HistoryHash returns a digest in hex over every change ever made, in order: the same history gives
// the same hash. Two runs of one seed are compared by it.
func (s *Store) HistoryHash() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return hex.EncodeToString(s.hash[:])
}
