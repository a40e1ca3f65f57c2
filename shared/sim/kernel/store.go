package kernel

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"berth/shared/datafile"
)

// Row is a resource that the file keeps.
type Row interface {
	// StoredRow returns where the resource is stored, and what encoding/json stores of it.
	StoredRow() (bucket, key string, value any)
}

// Tables is the part of a simulated service that deals with the file.
type Tables interface {
	// Buckets are the names of the service's buckets, which no other service has.
	Buckets() []string
	// Load reads the rows of the service's buckets. Those of the services before it are loaded, so
	// that a row can refer to another service's.
	Load(tx *bbolt.Tx) error
	// Resume sets timers for what the loaded resources do next. It is a step.
	Resume(now time.Time)
}

// Table is a [Tables] of one bucket, for services whose rows need no others and no timers.
type Table[T Row] struct {
	// Rows are the resources by their key in the file. They are touched only in a step.
	Rows   map[string]T
	bucket string
}

// NewTable returns an empty table, whose rows are stored in a bucket.
func NewTable[T Row](bucket string) Table[T] { return Table[T]{map[string]T{}, bucket} }

// Buckets implements [Tables].
func (t Table[T]) Buckets() []string { return []string{t.bucket} }

// Load implements [Tables].
func (t Table[T]) Load(tx *bbolt.Tx) error {
	return ForEachRow(tx, t.bucket, func(key string, row T) error { t.Rows[key] = row; return nil })
}

// Resume implements [Tables].
func (t Table[T]) Resume(time.Time) {}

// meta is the bucket of the counters.
const meta, countersKey = "meta", "counters"

// flushDelay is how long a step of [Kernel.Advance] may be only in memory.
const flushDelay = time.Second

// Open loads the services, in order, from the file at path, which is created if it does not exist,
// and resumes them. It is an error if another process has the file open. Tasks and launches have
// gone on while the file was closed: the clock's next callbacks bring them up to date and emit what
// they would have sent.
func (k *Kernel) Open(path string, services ...Tables) error {
	f, err := datafile.Open(path, k.Unwritable)
	if err == nil {
		err = f.Update(func(tx *bbolt.Tx) (err error) { k.counters, err = loadServices(tx, services); return err })
		if err != nil {
			err = errors.Join(datafile.Damaged(path, err), f.Close())
		}
	}
	if err != nil {
		return fmt.Errorf("opening the fleet's file %s: %w", path, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.file = file{disk: f, dirty: map[Row]bool{}}
	now := k.Clock.Now().UTC().Truncate(time.Millisecond)
	for _, s := range services {
		s.Resume(now)
	}
	k.flushLater()
	return nil
}

// loadServices makes the buckets that are missing, and reads the services and the counters.
func loadServices(tx *bbolt.Tx, services []Tables) (counters map[string]int64, err error) {
	buckets := []string{meta}
	for _, s := range services {
		buckets = append(buckets, s.Buckets()...)
	}
	for _, b := range buckets {
		if _, err := tx.CreateBucketIfNotExists([]byte(b)); err != nil {
			return nil, err
		}
	}
	counters = map[string]int64{}
	err = ForEachRow(tx, meta, func(_ string, c map[string]int64) error { counters = c; return nil })
	for _, s := range services {
		if err == nil {
			err = s.Load(tx)
		}
	}
	return counters, err
}

// ForEachRow reads the rows of a bucket sorted by key.
func ForEachRow[T any](tx *bbolt.Tx, bucket string, take func(key string, row T) error) error {
	return tx.Bucket([]byte(bucket)).ForEach(func(k, v []byte) error {
		var row T
		err := json.Unmarshal(v, &row)
		if err == nil {
			err = take(string(k), row)
		}
		if err != nil {
			return fmt.Errorf("reading %s %s: %w", bucket, k, err)
		}
		return nil
	})
}

// Close writes what is not yet written and closes the file. Tasks of a stored fleet go on in their
// own time.
func (k *Kernel) Close() error {
	k.writing.Lock()
	defer k.writing.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.file.disk == nil {
		return nil
	}
	err := k.file.writeDirtyRows(&k.mu, k.counters)
	err = errors.Join(err, k.file.disk.Close())
	k.file = file{}
	return err
}

// WriteBackup writes a copy of the file to w, with every change so far. It is an error if there is
// no file.
func (k *Kernel) WriteBackup(w io.Writer) error {
	k.writing.Lock()
	defer k.writing.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.file.disk == nil {
		return errors.New("the fleet has no file")
	}
	if err := k.file.writeDirtyRows(&k.mu, k.counters); err != nil {
		return err
	}
	_, err := k.file.disk.WriteTo(w)
	return err
}

// SaveRow writes the row with the next flush. It belongs in a step.
func (k *Kernel) SaveRow(r Row) { k.file.markDirty(r, false) }

// DeleteRow deletes the row with the next flush. It belongs in a step.
func (k *Kernel) DeleteRow(r Row) { k.file.markDirty(r, true) }

// file is the file and what is not yet written to it. The zero value is no file.
type file struct {
	disk  *datafile.File
	dirty map[Row]bool // true for rows to delete
}

func (f *file) markDirty(r Row, deleted bool) {
	if f.disk != nil {
		f.dirty[r] = deleted
	}
}

// encodedRow is a row as the file has it, without data for a row to delete.
type encodedRow struct {
	bucket, key string
	data        []byte
}

// writeDirtyRows writes all changes in one transaction. What could not be written is tried again
// with the next. It is called with both of the kernel's locks, and releases mu while it writes: the
// rows are encoded before, so that steps may go on changing them.
func (f *file) writeDirtyRows(mu *sync.Mutex, counters map[string]int64) error {
	if f.disk == nil || len(f.dirty) == 0 {
		return nil
	}
	rows, err := f.encodeDirtyRows(counters)
	if err != nil {
		return err
	}
	disk, dirty := f.disk, f.dirty
	f.dirty = map[Row]bool{}
	mu.Unlock()
	err = disk.Update(func(tx *bbolt.Tx) error { return writeRows(tx, rows) })
	mu.Lock()
	if err != nil {
		for r, deleted := range dirty {
			if _, changed := f.dirty[r]; !changed {
				f.dirty[r] = deleted
			}
		}
	}
	return err
}

// encodeDirtyRows returns the rows to write, and the counters.
func (f *file) encodeDirtyRows(counters map[string]int64) ([]encodedRow, error) {
	rows := make([]encodedRow, 0, len(f.dirty)+1)
	add := func(bucket, key string, value any) error {
		data, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("encoding %s %s: %w", bucket, key, err)
		}
		rows = append(rows, encodedRow{bucket, key, data})
		return nil
	}
	for r, deleted := range f.dirty {
		bucket, key, value := r.StoredRow()
		if deleted {
			rows = append(rows, encodedRow{bucket: bucket, key: key})
			continue
		}
		if err := add(bucket, key, value); err != nil {
			return nil, err
		}
	}
	return rows, add(meta, countersKey, counters)
}

func writeRows(tx *bbolt.Tx, rows []encodedRow) error {
	for _, r := range rows {
		b := tx.Bucket([]byte(r.bucket))
		err := error(nil)
		if r.data == nil {
			err = b.Delete([]byte(r.key))
		} else {
			err = b.Put([]byte(r.key), r.data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// flushLater gathers what changes within a second into one transaction.
func (k *Kernel) flushLater() {
	if len(k.file.dirty) == 0 || k.flushQueued {
		return
	}
	k.flushQueued = true
	k.After(flushDelay, func() {
		k.writing.Lock()
		defer k.writing.Unlock()
		k.mu.Lock()
		defer k.mu.Unlock()
		k.flushQueued = false
		if k.file.writeDirtyRows(&k.mu, k.counters) != nil {
			k.flushLater()
		}
	})
}
