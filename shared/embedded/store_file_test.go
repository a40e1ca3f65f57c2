package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/state"
)

func instance(id string, rev int64) *cluster.Instance {
	return &cluster.Instance{
		Head: cluster.Head{Cluster: "c", Rev: rev}, ID: id, Status: cluster.InstanceActive, AgentConnected: true,
		Registered: cluster.Capacity{CPU: cluster.VCPU, Memory: 1024},
		Attributes: map[string]string{"ecs.availability-zone": "eu-central-1a", "ecs.instance-type": "m5.large"},
	}
}

func write(t testing.TB, s *embedded.Store, w state.Write) state.Row {
	t.Helper()
	row, err := s.Write(context.Background(), w)
	if err != nil {
		t.Fatalf("Write: %v", err)
	}
	return row
}

func reopen(t *testing.T, s *embedded.Store, path string, consumers ...string) *embedded.Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	return openStore(t, path, consumers...)
}

func allRows(t *testing.T, s *embedded.Store) []state.Row {
	t.Helper()
	rows, err := s.List(context.Background(), state.Prefix("c", ""))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func TestRestartKeepsRowsAndRecords(t *testing.T) {
	path := tempPath(t)
	s := openStore(t, path)
	for i := range 50 {
		write(t, s, state.Write{Put: instance(fmt.Sprint(i), 1)})
	}
	key := state.KeyOf(instance("7", 0))
	write(t, s, state.Write{Delete: &key})
	gone := instance("gone", 1)
	gone.Expires = 100
	write(t, s, state.Write{Put: gone})
	want, hash := allRows(t, s), s.HistoryHash()
	s = reopen(t, s, path)
	if diff := cmp.Diff(want, allRows(t, s)); diff != "" {
		t.Errorf("rows after a restart (-want +got):\n%s", diff)
	}
	if s.HistoryHash() != hash {
		t.Error("the hash is another after a restart")
	}
	if n := s.ExpireRows(time.Unix(100, 0)); n != 1 {
		t.Errorf("%d rows expired after a restart, want 1", n)
	}
	if s = reopen(t, s, path); len(allRows(t, s)) != 49 {
		t.Errorf("%d rows, want 49: what expired came back", len(allRows(t, s)))
	}
}

func TestOpenStoreRefusesOtherFiles(t *testing.T) {
	database := func(t *testing.T, bucket, format string) string {
		path := tempPath(t)
		db, err := bolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		err = db.Update(func(tx *bolt.Tx) error {
			b, err := tx.CreateBucket([]byte(bucket))
			return errors.Join(err, b.Put([]byte("format"), []byte(format)))
		})
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct {
		path func(t *testing.T) string
		says string
	}{
		"SecondOpening": {func(t *testing.T) string { path := tempPath(t); openStore(t, path); return path },
			"in use by another process"},
		"LaterFormat": {func(t *testing.T) string { return database(t, "store", "2") },
			`has format "2" and this version reads "1"`},
		"OtherDatabase": {func(t *testing.T) string { return database(t, "other", "1") },
			"a database of something else"},
		"MissingFolder": {func(t *testing.T) string { return filepath.Join(t.TempDir(), "no", "file") },
			"no such file or directory"},
		"NoDatabaseAtAll": {func(t *testing.T) string {
			path := tempPath(t)
			if err := os.WriteFile(path, []byte(strings.Repeat("not a database. ", 1000)), 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}, "is damaged, or no file of Berth's"},
	} {
		t.Run(name, func(t *testing.T) {
			path := c.path(t)
			s, err := embedded.OpenStore(embedded.StoreOptions{Path: path})
			if err == nil {
				_ = s.Close()
				t.Fatal("it opened")
			}
			if !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %q, want it to say %q and to name the file", err, c.says)
			}
		})
	}
}

func TestClosedStoreRefusesCalls(t *testing.T) {
	for name, path := range map[string]string{"Ephemeral": "", "File": tempPath(t)} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, path)
			write(t, s, state.Write{Put: instance("a", 1)})
			for range 2 {
				if err := s.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			}
			_, getErr := s.Get(context.Background(), state.KeyOf(instance("a", 1)))
			_, writeErr := s.Write(context.Background(), state.Write{Put: instance("b", 1)})
			for _, err := range []error{getErr, writeErr} {
				if err == nil || !strings.Contains(err.Error(), "closed") {
					t.Errorf("error %v, want one that says the store is closed", err)
				}
			}
		})
	}
}

func sorts(records []state.Record) (out []string) {
	for _, r := range records {
		out = append(out, r.Key.Sort)
	}
	return out
}

func TestPendingRecordsAreThoseNotAcknowledged(t *testing.T) {
	path := tempPath(t)
	s := openStore(t, path, "one", "two")
	for _, id := range []string{"a", "b", "c", "d"} {
		write(t, s, state.Write{Put: instance(id, 1)})
	}
	expect := func(consumer string, want ...string) {
		t.Helper()
		for i, id := range want {
			want[i] = state.PrefixInstance + id
		}
		if diff := cmp.Diff(want, sorts(s.PendingRecords(consumer))); diff != "" {
			t.Errorf("pending for %s (-want +got):\n%s", consumer, diff)
		}
	}
	sequence := func(i int) string { return fmt.Sprintf("%020d", i) }
	expect("one", "a", "b", "c", "d")
	s.AckRecords("one", s.PendingRecords("one")[2].Sequence)
	expect("one", "d")
	expect("two", "a", "b", "c", "d")
	s.AckRecords("two", sequence(1))
	s.AckRecords("one", sequence(2)) // a position never moves back
	s.AckRecords("three", sequence(4))
	s.AckRecords("two", "nonsense")
	expect("one", "d")
	expect("two", "b", "c", "d")
	expect("three")

	s = reopen(t, s, path, "one", "two")
	expect("one", "d")
	expect("two", "b", "c", "d")
	write(t, s, state.Write{Put: instance("e", 1)})
	if got := s.PendingRecords("one")[1].Sequence; got != sequence(5) {
		t.Errorf("sequence %s after a restart, want %s", got, sequence(5))
	}
	s.AckRecords("one", sequence(99)) // at most the last
	expect("one")
	write(t, s, state.Write{Put: instance("f", 1)})
	expect("one", "f")

	s = reopen(t, s, path, "one", "new") // "two" is no consumer any more
	expect("one", "f")
	expect("new", "b", "c", "d", "e", "f")
	expect("two")
	s.AckRecords("new", sequence(6))
	s.AckRecords("one", sequence(6))
	s = reopen(t, s, path, "one", "new", "late")
	expect("late") // all was trimmed
	write(t, s, state.Write{Put: instance("g", 1)})
	expect("late", "g")
}

// A consumer that has fallen behind acknowledges thousands of records at once. The write that deletes
// them from the file takes a fraction of the time that writing them took: every other writer waits
// for it.
func TestManyRecordsAreTrimmedInLittleTime(t *testing.T) {
	const commits = 250
	s := openStore(t, tempPath(t), "one")
	commit := func(n int) {
		writes := make([]state.Write, 0, 99)
		for i := range cap(writes) {
			writes = append(writes, state.Write{Put: instance(fmt.Sprintf("%d-%d", n, i), 1)})
		}
		if err := s.Commit(t.Context(), state.Commit{Cluster: "c", Version: state.NoVersion, Writes: writes}); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	for n := range commits {
		commit(n)
	}
	wrote := time.Since(began)
	records := s.PendingRecords("one")
	s.AckRecords("one", records[len(records)-1].Sequence)
	began = time.Now()
	commit(commits)
	trimmed := time.Since(began)
	t.Logf("writing %d records took %s, deleting them %s", len(records), wrote, trimmed)
	if trimmed > wrote/3 {
		t.Errorf("deleting %d records took %s, want at most a third of the %s of writing them", len(records), trimmed, wrote)
	}
}

func TestRecordsAreCopies(t *testing.T) {
	s := openStore(t, tempPath(t), "one")
	s.OnRecords(func(records []state.Record) {
		for _, r := range records {
			r.New.(*cluster.Instance).Attributes["ecs.instance-type"] = "spoilt"
			if r.Old != nil {
				r.Old.Header().Rev = 99
			}
		}
	})
	for rev := int64(1); rev <= 3; rev++ {
		write(t, s, state.Write{Put: instance("a", rev)})
	}
	if diff := cmp.Diff([]state.Row{instance("a", 3)}, allRows(t, s)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// The file does not grow with the number of records that were acknowledged.
func TestStreamIsTrimmed(t *testing.T) {
	path := tempPath(t)
	s := openStore(t, path, "one")
	size := func() int64 {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	var after100 int64
	for i := range int64(2000) {
		write(t, s, state.Write{Put: instance("a", i+1)})
		for _, r := range s.PendingRecords("one") {
			s.AckRecords("one", r.Sequence)
		}
		if i == 100 {
			after100 = size()
		}
	}
	if size() > 2*after100 {
		t.Errorf("the file has %d bytes, and had %d after 100 records", size(), after100)
	}
}

func TestHistoryHashDependsOnOrderAndContent(t *testing.T) {
	history := func(path string, edit func(s *embedded.Store)) string {
		s := openStore(t, path)
		ctx := context.Background()
		write(t, s, state.Write{Put: &state.Meta{Head: cluster.Head{Cluster: "c", Rev: 1}}})
		write(t, s, state.Write{Put: instance("a", 1)})
		_, _ = s.Write(ctx, state.Write{Put: instance("a", 1)}) // refused, so not part of the history
		if err := s.Commit(ctx, state.Commit{Cluster: "c", Version: 0,
			Writes: []state.Write{{Put: instance("b", 1)}}}); err != nil {
			t.Fatal(err)
		}
		edit(s)
		return s.HistoryHash()
	}
	same := func(*embedded.Store) {}
	base := history("", same)
	if base != history("", same) || base != history(tempPath(t), same) {
		t.Error("the same history gives another hash")
	}
	key := state.KeyOf(instance("a", 1))
	for name, edit := range map[string]func(s *embedded.Store){
		"OneMoreWrite": func(s *embedded.Store) { write(t, s, state.Write{Put: instance("a", 2)}) },
		"Deletion":     func(s *embedded.Store) { write(t, s, state.Write{Delete: &key}) },
		"SameRowsByOtherWay": func(s *embedded.Store) {
			write(t, s, state.Write{Delete: &key})
			write(t, s, state.Write{Put: instance("a", 1)})
		},
	} {
		if history("", edit) == base {
			t.Errorf("%s: the hash is the same", name)
		}
	}
}
