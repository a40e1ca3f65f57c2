package datafile

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
)

// WriteTo writes a whole, consistent copy of the file to w. Writers wait until it is written.
func (f *File) WriteTo(w io.Writer) (n int64, err error) {
	err = f.View(func(tx *bolt.Tx) error {
		n, err = tx.WriteTo(w)
		return err
	})
	return n, err
}

// Create makes a file with the content that another one's [File.WriteTo] has written. An existing
// file is an error, and damaged content leaves no file.
func Create(path string, content io.Reader) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the user's choice
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	for _, step := range []func() error{f.Sync, f.Close, func() error { return checkPages(path) },
		func() error { return SyncFolder(filepath.Dir(path)) }} {
		if err == nil {
			err = step()
		}
	}
	if err != nil {
		_ = f.Close()
		_ = os.Remove(path)
		return fmt.Errorf("making %s: %w", path, err)
	}
	return nil
}
