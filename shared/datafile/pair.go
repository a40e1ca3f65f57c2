package datafile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
)

// BucketPair is the bucket that every file of a pair has beside its own: it holds the id that both
// files have in common.
const BucketPair = "pair"

var keyPair, keyNextPair = []byte("id"), []byte("next")

// A pairing is what a file knows of its pair. An id is random, and a new one at each opening, so that
// an older copy of one file is told from the present one.
type pairing struct {
	size     int64  // of the file, 0 if there is none
	id, next string // next is the id that is about to be given to both
}

// Pair makes sure that two files belong together, and creates both if neither exists. It is an
// error if only one of them is there, so that an empty file never takes the place of a lost one, or
// if one is from another folder, or from an earlier opening. Files of an earlier version, which have
// no id, get one.
func Pair(first, second string) error {
	one, err := readPairing(first)
	if err != nil {
		return err
	}
	two, err := readPairing(second)
	if err != nil {
		return err
	}
	switch {
	case one.size == 0 && two.size > 0:
		return missing(first, second)
	case one.id != "" && two.size == 0:
		return missing(second, first)
	case one.id != "" && two.id != "" && one.id != two.id && one.id != two.next:
		return fmt.Errorf("%s and %s do not belong together: they are from two data folders, or one is older than the "+
			"other: restore both from one backup, or choose another folder to begin anew", first, second)
	}
	if one.size == 0 { // a crash after this looks like a folder that is just begun
		if err := writePairing(first, pairing{}); err != nil {
			return err
		}
	}
	// Whichever write is the last, the first file's id is then the second one's id or its next.
	id := rand.Text()
	err = writePairing(second, pairing{id: two.id, next: id})
	if err == nil {
		err = writePairing(first, pairing{id: id})
	}
	if err == nil {
		err = writePairing(second, pairing{id: id})
	}
	return err
}

func missing(path, other string) error {
	return fmt.Errorf("%s is missing or empty, and %s is there: restore the folder from a backup, or choose another "+
		"one to begin anew", path, other)
}

// readPairing returns what a file knows of its pair.
func readPairing(path string) (p pairing, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) || err == nil && info.Size() == 0 {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	if err := checkPages(path); err != nil {
		return p, err
	}
	db, err := openDatabase(path, true)
	if err != nil {
		return p, err
	}
	p.size = info.Size()
	err = db.View(func(tx *bolt.Tx) error {
		if b := tx.Bucket([]byte(BucketPair)); b != nil {
			p.id, p.next = string(b.Get(keyPair)), string(b.Get(keyNextPair))
		}
		return nil
	})
	return p, errors.Join(err, db.Close())
}

// writePairing creates the file if there is none. It writes no id that is empty. Unlike [Open] it does
// not read the whole file, which [readPairing] has done.
func writePairing(path string, p pairing) error {
	db, err := openDatabase(path, false)
	if err != nil {
		return err
	}
	if p.id+p.next != "" {
		err = db.Update(func(tx *bolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte(BucketPair))
			if err != nil {
				return err
			}
			if p.id != "" {
				err = b.Put(keyPair, []byte(p.id))
			}
			if p.next == "" {
				return errors.Join(err, b.Delete(keyNextPair))
			}
			return errors.Join(err, b.Put(keyNextPair, []byte(p.next)))
		})
	}
	return errors.Join(err, db.Close(), SyncFolder(filepath.Dir(path)))
}
