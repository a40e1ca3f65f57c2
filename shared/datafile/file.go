package datafile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"berth/shared/cluster"
)

// ErrInUse is the error for a file that another process has open.
var ErrInUse = errors.New("in use by another process")

// lockTimeout is how long opening waits for another process, which may be about to end.
const lockTimeout = 500 * time.Millisecond

// File is an open file. It may be used by several goroutines.
type File struct {
	path   string
	report func(err error)

	mu      sync.Mutex  // held by one Update at a time, and by Close
	db      *bolt.DB    // nil once the outcome of a write is unknown
	lost    error       // why db is nil
	failing bool        // the last write failed
	largest int         // see LimitSize
	info    os.FileInfo // as of the last use
}

// Open opens the file, or creates it if there is none. It reads all of an existing file first, and
// refuses one that it cannot read. The report, which may be nil, is called with the error of the
// first write that fails, and with nil by the first one after it that succeeds.
func Open(path string, report func(err error)) (*File, error) {
	info, err := os.Stat(path)
	fresh := errors.Is(err, os.ErrNotExist) || err == nil && info.Size() == 0
	if !fresh {
		if err := checkPages(path); err != nil {
			return nil, err
		}
	}
	db, err := openDatabase(path, false)
	if err == nil && fresh {
		err = SyncFolder(filepath.Dir(path))
	}
	if err != nil {
		return nil, err
	}
	if report == nil {
		report = func(error) {}
	}
	return &File{path: path, report: report, db: db}, nil
}

// openDatabase opens the database. Its freelist is kept in memory only: a commit writes less, and
// opening finds the free pages by a scan.
func openDatabase(path string, readOnly bool) (db *bolt.DB, err error) {
	defer func() {
		if p := recover(); p != nil { // the scan found pages that contradict each other
			db, err = nil, Damaged(path, pageError(p))
		}
	}()
	db, err = bolt.Open(path, 0o600, &bolt.Options{
		Timeout: lockTimeout, FreelistType: bolt.FreelistMapType, NoFreelistSync: true, ReadOnly: readOnly,
	})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("%s is %w: stop that one, or choose another folder", path, ErrInUse)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrVersionMismatch),
		errors.Is(err, bolterrors.ErrChecksum):
		return nil, Damaged(path, err)
	case errors.As(err, new(*fs.PathError)): // the file could not be opened or read
		return nil, fmt.Errorf("opening %s: %w", path, err)
	case err != nil:
		return nil, Damaged(path, err)
	}
	return db, nil
}

// SyncFolder makes the names of new files in a folder durable: syncing a file does not sync its folder.
func SyncFolder(path string) error {
	f, err := os.Open(path) //nolint:gosec // the user's choice
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Path returns the path that the file was opened with.
func (f *File) Path() string { return f.path }

// IsFailing reports whether the last write failed.
func (f *File) IsFailing() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failing
}

// LimitSize makes a write fail that would make the file larger than so many bytes, as on a full
// disk, for tests. 0 is no limit.
func (f *File) LimitSize(bytes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.largest = bytes
	if f.db != nil {
		f.db.MaxSize = bytes
	}
}

// View reads the file. If it was damaged since it was opened, the error is that of [File.Update].
func (f *File) View(read func(*bolt.Tx) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.use(func() error { return f.db.View(read) })
}

// use calls a function that needs the database. Where the file has no page any more, or one without
// sense, the database panics, perhaps with its locks held: then it is given up, not even closed.
func (f *File) use(call func() error) (err error) {
	if f.db == nil {
		return f.lost
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = f.giveUp(Damaged(f.path, pageError(p)))
		}
	}()
	if err := f.checkPlace(); err != nil {
		return f.giveUp(err)
	}
	return call()
}

// giveUp leaves the database as it is, because to use or to close it may end the process.
func (f *File) giveUp(cause error) error {
	f.db, f.failing = nil, true
	f.lost = &cluster.UnwritableError{Path: f.path, Cause: fmt.Errorf("%w: %w", cause, cluster.ErrAmbiguous)}
	f.report(f.lost)
	return f.lost
}

// checkPlace makes sure that the path still leads to the file that was opened, and that the file has
// become no shorter: what is written to one that was replaced or removed is lost.
func (f *File) checkPlace() error {
	info, err := os.Stat(f.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s was removed while it was open: restore the folder from a backup, or choose another one "+
			"to begin anew", f.path)
	case err != nil:
		return nil //nolint:nilerr // whether it can be written is found out next
	case f.info != nil && !os.SameFile(f.info, info):
		return fmt.Errorf("%s was replaced while it was open: start Berth again to use what is there now", f.path)
	case f.info != nil && info.Size() < f.info.Size():
		return Damaged(f.path, fmt.Errorf("it was %d bytes long and is %d now", f.info.Size(), info.Size()))
	}
	f.info = info
	return nil
}

// Update changes the file, on disk before it returns. An error of change is returned as it is. If
// the file cannot be written, the error is a [cluster.UnwritableError], and nothing is changed. If
// even that is unknown, because the file cannot be read again or was damaged, the error is also
// [cluster.ErrAmbiguous], and every later call returns it.
func (f *File) Update(change func(*bolt.Tx) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.use(func() error { return f.update(change) })
}

func (f *File) update(change func(*bolt.Tx) error) error {
	tx, err := f.db.Begin(true)
	if err != nil {
		return err
	}
	// Not [bolt.DB.Update]: after a panic that one rolls back, which reads all pages in a goroutine of
	// its own, and so ends the process if there is damage.
	id := tx.ID()
	if err := change(tx); err != nil {
		_ = tx.Rollback() // it fails for transactions that have ended
		return err
	}
	if err = tx.Commit(); err != nil {
		err = f.reopen(id, err)
	}
	if failing := err != nil; failing != f.failing {
		f.failing = failing
		f.report(err)
	}
	return err
}

// reopen finds out whether a transaction is in the file although writing it failed, and returns nil
// if it is.
func (f *File) reopen(id int, failure error) error {
	closing := f.db.Close()
	f.db = nil
	db, err := openDatabase(f.path, false)
	if err = errors.Join(closing, err); err != nil {
		cause := fmt.Errorf("%w: %w: %w", failure, err, cluster.ErrAmbiguous)
		f.lost = &cluster.UnwritableError{Path: f.path, Cause: cause}
		return f.lost
	}
	f.db, db.MaxSize = db, f.largest
	last := 0
	if err := db.View(func(tx *bolt.Tx) error { last = tx.ID(); return nil }); err != nil || last >= id {
		return err
	}
	return &cluster.UnwritableError{Path: f.path, Cause: failure}
}

// Close closes the file. Every later call fails. Closing twice is no error.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.db == nil {
		return nil
	}
	err := f.db.Close()
	f.db, f.lost = nil, errClosed
	return err
}

var errClosed = errors.New("the file is closed")
