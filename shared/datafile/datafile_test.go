package datafile_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"berth/shared/cluster"
	"berth/shared/datafile"
)

var bucket = []byte("rows")

// open opens the file, which is closed when the test ends.
func open(t *testing.T, path string, report func(error)) *datafile.File {
	t.Helper()
	f, err := datafile.Open(path, report)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// put writes a row of so many bytes.
func put(f *datafile.File, key string, size int) error {
	return f.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(bucket)
		if err != nil {
			return err
		}
		return b.Put([]byte(key), bytes.Repeat([]byte("x"), size))
	})
}

// has reports whether the file has the row.
func has(t *testing.T, f *datafile.File, key string) (found bool) {
	t.Helper()
	if err := f.View(func(tx *bolt.Tx) error {
		found = tx.Bucket(bucket).Get([]byte(key)) != nil
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

func TestFullDiskRefusesAndRecovers(t *testing.T) {
	var reports []error
	path := filepath.Join(t.TempDir(), "f.db")
	f := open(t, path, func(err error) { reports = append(reports, err) })
	if err := put(f, "a", 10); err != nil {
		t.Fatal(err)
	}
	f.LimitSize(1)
	for range 3 {
		var unwritable *cluster.UnwritableError
		if err := put(f, "big", 1<<20); !errors.As(err, &unwritable) || unwritable.Path != path {
			t.Fatalf("%v, want an error of the file", err)
		}
	}
	if !f.IsFailing() || !has(t, f, "a") || has(t, f, "big") {
		t.Error("what was not written is read, or what was is not")
	}
	f.LimitSize(0)
	if err := put(f, "big", 1<<20); err != nil || f.IsFailing() || !has(t, f, "big") {
		t.Errorf("with space again: %v", err)
	}
	if len(reports) != 2 || reports[0] == nil || reports[1] != nil {
		t.Errorf("reports %v, want one error and its end", reports)
	}
}

// Whoever damages an open file gets an error that says what to do, at once and at every later call,
// and the report that ends the program.
func TestDamageOfAnOpenFileIsReported(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"Truncated": func(path string) error { return os.Truncate(path, 8192) },
		"Overwritten": func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt(bytes.Repeat([]byte{0xA5}, 16*4096), 0)
			return errors.Join(err, f.Close())
		},
		"Rows": func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt(bytes.Repeat([]byte{0xA5}, 16*4096), 2*4096) // behind the two pages of its own
			return errors.Join(err, f.Close())
		},
		"Removed":  os.Remove,
		"Replaced": func(path string) error { return errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600)) },
	} {
		for use, call := range map[string]func(f *datafile.File) error{
			"Update": func(f *datafile.File) error { return put(f, "b", 1<<16) },
			"View": func(f *datafile.File) error {
				return f.View(func(tx *bolt.Tx) error {
					if len(tx.Bucket(bucket).Get([]byte("a"))) == 0 {
						return errors.New("the row is missing")
					}
					return nil
				})
			},
		} {
			t.Run(name+use, func(t *testing.T) {
				says := "restore the folder"
				if name == "Replaced" {
					says = "start Berth again"
				}
				var reported error
				path := filepath.Join(t.TempDir(), "f.db")
				f, err := datafile.Open(path, func(err error) { reported = err })
				if err := errors.Join(err, put(f, "a", 1<<16), damage(path)); err != nil {
					t.Fatal(err)
				}
				err = call(f)
				if !errors.Is(err, cluster.ErrAmbiguous) || !strings.Contains(err.Error(), says) ||
					!strings.Contains(err.Error(), path) {
					t.Fatalf("%v: want the file, and what to do", err)
				}
				if reported != err || !f.IsFailing() {
					t.Errorf("reported %v", reported)
				}
				if again := put(f, "c", 1); again != err {
					t.Errorf("the next write: %v", again)
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// A change that its caller refuses is no failure of the file.
func TestRefusedChangeIsNoFailure(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "f.db"), func(err error) { t.Errorf("report %v", err) })
	refused := errors.New("no")
	if err := f.Update(func(*bolt.Tx) error { return refused }); err != refused || f.IsFailing() {
		t.Errorf("%v, failing %t", err, f.IsFailing())
	}
}

// fill makes a file of several pages, with an id of a pair.
func fill(t *testing.T, path, other string) {
	t.Helper()
	if err := datafile.Pair(path, other); err != nil {
		t.Fatal(err)
	}
	f := open(t, path, nil)
	err := f.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(bucket)
		for i := range 200 {
			err = errors.Join(err, b.Put(fmt.Appendf(nil, "row-%03d", i), bytes.Repeat([]byte("x"), 1000)))
		}
		return err
	})
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// However a file is damaged, opening it is an error that names it and what to do, and leaves it as
// it is.
func TestDamagedFileIsRefused(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "whole.db")
	fill(t, whole, whole+".other")
	data, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	used := len(bytes.TrimRight(data, "\x00"))
	damage := map[string][]byte{"NoDatabase": []byte(strings.Repeat("not a database. ", 1000)), "Short": data[:100],
		"OnePage": data[:4096]}
	for _, part := range []int{4, 3, 2} {
		damage[fmt.Sprintf("TruncatedTo1Of%d", part)] = data[:used/part/4096*4096]
	}
	for from := 0; from+4096 <= used; from += 8192 {
		over := bytes.Clone(data)
		copy(over[from:], bytes.Repeat([]byte{0xA5}, 8192))
		damage[fmt.Sprintf("OverwrittenAt%d", from)] = over
	}
	refused := 0
	for name, content := range damage {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f.db")
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := datafile.Open(path, nil)
			if err == nil {
				_ = f.Close() // the damage is in a page that nothing uses
				return
			}
			refused++
			if err := datafile.Check(path); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("Check: %v, want an error that names the file", err)
			}
			if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "restore the folder") {
				t.Errorf("%v: want the file and what to do", err)
			}
			if err := datafile.Check(path); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("Check: %v", err)
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, content) {
				t.Error("the file was changed")
			}
		})
	}
	if refused < len(damage)/2 {
		t.Errorf("%d of %d damaged files were refused", refused, len(damage))
	}
}

func TestFileInUseIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	open(t, path, nil)
	if err := datafile.Check(path); !errors.Is(err, datafile.ErrInUse) {
		t.Errorf("Check: %v, want %v", err, datafile.ErrInUse)
	}
	if _, err := datafile.Open(path, nil); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("%v", err)
	}
}

func TestPairedFilesBelongTogether(t *testing.T) {
	folder := func(t *testing.T) (state, fleet string) {
		at := t.TempDir()
		state, fleet = filepath.Join(at, "state.db"), filepath.Join(at, "fleet.db")
		fill(t, state, fleet)
		return state, fleet
	}
	replace := func(t *testing.T, path, by string) {
		if err := os.Rename(by, path); err != nil {
			t.Fatal(err)
		}
	}
	// earlier returns a copy of a file that was made before both were opened again.
	earlier := func(t *testing.T, path, state, fleet string) string {
		old := filepath.Join(t.TempDir(), "old.db")
		data, err := os.ReadFile(path)
		if err := errors.Join(err, os.WriteFile(old, data, 0o600), datafile.Pair(state, fleet)); err != nil {
			t.Fatal(err)
		}
		return old
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, state, fleet string)
		says   string // nothing if the files are taken
	}{
		"AsTheyWere":   {func(*testing.T, string, string) {}, ""},
		"StateMissing": {func(_ *testing.T, state, _ string) { _ = os.Remove(state) }, "state.db is missing or empty"},
		"FleetMissing": {func(_ *testing.T, _, fleet string) { _ = os.Remove(fleet) }, "fleet.db is missing or empty"},
		"StateEmpty": {func(_ *testing.T, state, _ string) { _ = os.Truncate(state, 0) },
			"state.db is missing or empty"},
		"OfAnotherFolder": {func(t *testing.T, _, fleet string) { _, other := folder(t); replace(t, fleet, other) },
			"from two data folders"},
		"StateOfAnEarlierOpening": {func(t *testing.T, state, fleet string) {
			replace(t, state, earlier(t, state, state, fleet))
		}, "one is older than the other"},
		"FleetOfAnEarlierOpening": {func(t *testing.T, state, fleet string) {
			replace(t, fleet, earlier(t, fleet, state, fleet))
		}, "one is older than the other"},
		"OfAnEarlierVersion": {func(t *testing.T, state, _ string) {
			old := filepath.Join(t.TempDir(), "old.db")
			f := open(t, old, nil)
			if err := errors.Join(put(f, "a", 1), f.Close(), os.Remove(state)); err != nil {
				t.Fatal(err)
			}
			replace(t, state, old)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			state, fleet := folder(t)
			c.change(t, state, fleet)
			err := datafile.Pair(state, fleet)
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%v, want %q", err, c.says)
			}
			if again := datafile.Pair(state, fleet); (again == nil) != (err == nil) {
				t.Errorf("the second time: %v", again)
			}
		})
	}
}

// Whichever write of an opening is the last before a crash, the next opening takes the files. An id of
// "-" is none.
func TestPairingMayBeCutOff(t *testing.T) {
	for _, c := range []struct {
		firstID, secondID, secondNext string
		refused                       bool
	}{
		{"5", "5", "-", false}, {"5", "5", "6", false}, {"6", "5", "6", false}, {"6", "6", "-", false},
		{"-", "-", "6", false}, {"6", "-", "6", false},
		{"6", "5", "-", true}, {"5", "6", "-", true}, {"5", "6", "7", true},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			state, fleet := filepath.Join(t.TempDir(), "state.db"), filepath.Join(t.TempDir(), "fleet.db")
			fill(t, state, fleet)
			set := func(path, id, next string) {
				f := open(t, path, nil)
				err := f.Update(func(tx *bolt.Tx) error {
					b := tx.Bucket([]byte(datafile.BucketPair))
					failed := errors.Join(b.Delete([]byte("id")), b.Delete([]byte("next")))
					for key, value := range map[string]string{"id": id, "next": next} {
						if value != "-" {
							failed = errors.Join(failed, b.Put([]byte(key), []byte(value)))
						}
					}
					return failed
				})
				if err := errors.Join(err, f.Close()); err != nil {
					t.Fatal(err)
				}
			}
			set(state, c.firstID, "-")
			set(fleet, c.secondID, c.secondNext)
			if err := datafile.Pair(state, fleet); (err != nil) != c.refused {
				t.Errorf("%v, want it refused: %t", err, c.refused)
			}
		})
	}
}
