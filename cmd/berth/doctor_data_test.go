package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"berth/cmd/berth/installation"
	"berth/shared/sim/ec2"
)

// newFolder makes a data folder with a cluster of two machines, which nobody has open.
func newFolder(t *testing.T) string {
	t.Helper()
	path := t.TempDir()
	i, err := installation.Open(installation.Options{Data: path})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); i.Loop.Run(ctx) }()
	_, err = i.EnsureCluster(ctx, "home", 2, ec2.Machine{Type: "m5.large"})
	stop()
	<-ended
	if err := errors.Join(err, i.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// readFolder returns the files of a folder with what is in them.
func readFolder(t *testing.T, path string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for _, name := range installation.DataFiles {
		text, err := os.ReadFile(filepath.Join(path, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		out[name] = text
	}
	return out
}

// A damaged data folder is found as such, with what to do, and stays as it is.
func TestDoctorOfADataFolder(t *testing.T) {
	state := func(path string) string { return filepath.Join(path, "state.db") }
	fleet := func(path string) string { return filepath.Join(path, "fleet.db") }
	for name, c := range map[string]struct {
		damage func(t *testing.T, path string) error
		flags  []string
		code   int
		want   []string
	}{
		"Whole": {code: 0, want: []string{"ok       files: state.db (", "ok       pair", "ok       contents",
			"all is well."}},
		"FleetMissing": {func(_ *testing.T, path string) error { return os.Remove(fleet(path)) }, nil, 1,
			[]string{"fail     files", "fleet.db: it does not exist", "berth restore BACKUP --data ",
				"unknown  contents"}},
		"StateEmpty": {func(_ *testing.T, path string) error { return os.Truncate(state(path), 0) }, nil, 1,
			[]string{"fail     files", "it is empty"}},
		"StateTruncated": {func(_ *testing.T, path string) error { return os.Truncate(state(path), 8192) }, nil, 1,
			[]string{"fail     files", "state.db is damaged"}},
		"FleetOverwritten": {func(_ *testing.T, path string) error {
			return os.WriteFile(fleet(path), bytes.Repeat([]byte("no "), 20000), 0o600)
		}, nil, 1, []string{"fail     files", "fleet.db is damaged"}},
		"OfTwoFolders": {func(t *testing.T, path string) error { return os.Rename(fleet(newFolder(t)), fleet(path)) },
			nil, 1,
			[]string{"ok       files", "fail     pair", "from two data folders", "unknown  contents"}},
		"OfALaterVersion": {func(_ *testing.T, path string) error {
			return changeDatabase(state(path), "store", "format", "99")
		}, nil, 1, []string{"ok       pair", "fail     contents", `it has format "99"`}},
		"ARowWithoutSense": {func(_ *testing.T, path string) error {
			return changeDatabase(state(path), "rows", "home\x00task#1", "{")
		}, nil, 1, []string{"ok       pair", "fail     contents"}},
		"OfAnotherRegion": {nil, []string{"--region", "eu-west-1"}, 1,
			[]string{"fail     contents", "another account or Region",
				"give --account and --region"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := newFolder(t)
			if c.damage != nil {
				if err := c.damage(t, path); err != nil {
					t.Fatal(err)
				}
			}
			before := readFolder(t, path)
			code, out, errs := berth(append([]string{"doctor", "--data", path}, c.flags...)...)
			for _, want := range c.want {
				if code != c.code || errs != "" || !strings.Contains(out, want) {
					t.Errorf("exit code %d, %q, want %d and %q in:\n%s", code, errs, c.code, want, out)
				}
			}
			if strings.Contains(out, os.TempDir()+"/berth-inspect-") {
				t.Errorf("it names a file of the copy, which is gone:\n%s", out)
			}
			for name, text := range readFolder(t, path) {
				if !bytes.Equal(text, before[name]) {
					t.Errorf("%s has changed", name)
				}
			}
			if left, err := os.ReadDir(path); err != nil || len(left) > len(before) {
				t.Errorf("the folder has %v, %v", left, err)
			}
		})
	}
}

// changeDatabase writes a value into a file of a data folder.
func changeDatabase(path, bucket, key, value string) error {
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bolt.Tx) error { return tx.Bucket([]byte(bucket)).Put([]byte(key), []byte(value)) })
	return errors.Join(err, db.Close())
}

// The folder of a running Berth is not checked, which is no failure.
func TestDoctorOfAFolderInUse(t *testing.T) {
	path := newFolder(t)
	i, err := installation.Open(installation.Options{Data: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = i.Close() })
	code, out, errs := berth("doctor", "--data", path)
	if code != 0 || errs != "" || !strings.Contains(out, "unknown  files") || !strings.Contains(out,
		"fleet.db, state.db: not checked: a process has it open") ||
		!strings.Contains(out, "berth backup backup.tar && ") {
		t.Errorf("exit code %d, %q:\n%s", code, errs, out)
	}
}
