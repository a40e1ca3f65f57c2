package datafile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"

	bolt "go.etcd.io/bbolt"
)

// BucketPair is the bucket that every file of a pair has beside its own: it holds the id that both
// files have in common.
const BucketPair = "pair"

var keyPair = []byte("id")

// Pair makes sure that two files belong together, and creates both if neither exists. It is an
// error if only one of them is there, so that an empty file never takes the place of a lost one, or
// if they come from two folders. Files of an earlier version, which have no id, get one.
func Pair(first, second string) error {
	one, oneSize, err := pairID(first)
	if err != nil {
		return err
	}
	two, twoSize, err := pairID(second)
	if err != nil {
		return err
	}
	switch {
	case oneSize == 0 && twoSize > 0:
		return missing(first, second)
	case one != "" && twoSize == 0:
		return missing(second, first)
	case one != "" && two != "" && one != two:
		return fmt.Errorf("%s and %s are from two data folders: restore both from one backup, or choose another "+
			"folder to begin anew", first, second)
	case one != "" && one == two:
		return nil
	}
	id := one + two // one of them is empty
	if id == "" {
		id = rand.Text()
	}
	// The first file gets the id last: a crash before that looks like a folder that is just begun.
	if oneSize == 0 {
		if err := writePairID(first, ""); err != nil {
			return err
		}
	}
	return errors.Join(writePairID(second, id), writePairID(first, id))
}

func missing(path, other string) error {
	return fmt.Errorf("%s is missing or empty, and %s is there: restore the folder from a backup, or choose another "+
		"one to begin anew", path, other)
}

// pairID returns a file's id and size, which are empty and 0 if there is no such file.
func pairID(path string) (id string, size int64, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) || err == nil && info.Size() == 0 {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, err
	}
	if err := checkPages(path); err != nil {
		return "", 0, err
	}
	db, err := openDatabase(path, true)
	if err != nil {
		return "", 0, err
	}
	err = db.View(func(tx *bolt.Tx) error {
		if b := tx.Bucket([]byte(BucketPair)); b != nil {
			id = string(b.Get(keyPair))
		}
		return nil
	})
	return id, info.Size(), errors.Join(err, db.Close())
}

// writePairID creates the file if there is none. Without an id it writes none.
func writePairID(path, id string) error {
	f, err := Open(path, nil)
	if err != nil {
		return err
	}
	if id != "" {
		err = f.Update(func(tx *bolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte(BucketPair))
			if err != nil {
				return err
			}
			return b.Put(keyPair, []byte(id))
		})
	}
	return errors.Join(err, f.Close())
}
