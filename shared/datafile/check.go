package datafile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	bolt "go.etcd.io/bbolt"
)

// Damaged is the error for a file that cannot be read, or whose content has no sense. It says what to
// do.
func Damaged(path string, cause error) error {
	return fmt.Errorf("%s is damaged, or no file of Berth's: restore the folder from a backup, or choose another one "+
		"to begin anew (%w)", path, cause)
}

// pageError is the damage that reading a page has met, from the panic that it caused.
func pageError(p any) error {
	if _, ok := p.(runtime.Error); ok {
		return fmt.Errorf("a page is missing or has no sense: %v", p)
	}
	return fmt.Errorf("%v", p)
}

// Check reads a whole file, and changes nothing. It is an error if there is no file, or if it is
// empty, damaged or in use.
func Check(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Size() == 0 {
		return Damaged(path, errors.New("it is empty"))
	}
	return checkPages(path)
}

// minEntry is the least number of bytes that a key takes in the file.
const minEntry = 16

// checkPages reads every page that the database uses. Opening it for writing would scan them as
// well, but a truncated or overwritten page ends the process there.
func checkPages(path string) (err error) {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // what a truncated file maps to nothing
	defer func() {
		if p := recover(); p != nil {
			err = Damaged(path, pageError(p))
		}
	}()
	db, err := openDatabase(path, true)
	if err != nil {
		return err
	}
	left := info.Size() / minEntry
	walk := func(_ []byte, b *bolt.Bucket) error { return countKeys(b, &left) }
	if err := db.View(func(tx *bolt.Tx) error { return tx.ForEach(walk) }); err != nil {
		_ = db.Close() // the damage is what matters
		return Damaged(path, err)
	}
	return db.Close()
}

var errCycle = errors.New("its pages lead to each other in a circle")

// countKeys reads all keys of a bucket. Pages of a damaged file may lead in a circle, so it gives
// up once there are more keys than the file has room for.
func countKeys(b *bolt.Bucket, left *int64) error {
	c := b.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if *left--; *left < 0 {
			return errCycle
		}
		_ = bytes.Clone(v) // read, also where it takes several pages
	}
	return nil
}
