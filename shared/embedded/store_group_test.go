package embedded

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"berth/shared/cluster"
	"berth/shared/state"
)

func openFile(t *testing.T, consumers ...string) *Store {
	t.Helper()
	s, err := OpenStore(StoreOptions{Path: filepath.Join(t.TempDir(), "berth.db"), Consumers: consumers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func row(id string, rev, expires int64) *cluster.Instance {
	return &cluster.Instance{Head: cluster.Head{Cluster: "c", Rev: rev, Expires: expires}, ID: id}
}

func putRow(t *testing.T, s *Store, r state.Row) {
	t.Helper()
	if _, err := s.Write(context.Background(), state.Write{Put: r}); err != nil {
		t.Fatal(err)
	}
}

// together makes all calls in this order as one group, and returns their errors.
func together(s *Store, calls ...func() error) []error {
	errs, done := make([]error, len(calls)), make(chan int)
	s.committing.Lock()
	for i, call := range calls {
		go func() {
			errs[i] = call()
			done <- i
		}()
		for waiting := 0; waiting <= i; runtime.Gosched() {
			s.pending.Lock()
			waiting = len(s.pending.requests)
			s.pending.Unlock()
		}
	}
	s.committing.Unlock()
	for range calls {
		<-done
	}
	return errs
}

// transactions returns how many transactions the file has had.
func transactions(t *testing.T, s *Store) (n int) {
	t.Helper()
	if err := s.disk.View(func(tx *bolt.Tx) error { n = tx.ID(); return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestGroupedRequestsSeeEachOther(t *testing.T) {
	ctx := context.Background()
	for _, kind := range []string{"Ephemeral", "File"} {
		t.Run(kind, func(t *testing.T) {
			s := openFile(t)
			if kind == "Ephemeral" {
				s, _ = OpenStore(StoreOptions{})
			}
			var groups [][]state.Record
			putRow(t, s, row("expired", 1, 5))
			putRow(t, s, row("saved", 1, 5))
			putRow(t, s, &state.Meta{Head: cluster.Head{Cluster: "c", Rev: 1}})
			s.OnRecords(func(r []state.Record) { groups = append(groups, r) })
			before := 0
			if s.disk != nil {
				before = transactions(t, s)
			}
			key, expired := state.KeyOf(row("a", 0, 0)), 0
			write := func(w state.Write) func() error {
				return func() error { _, err := s.Write(ctx, w); return err }
			}
			commit := func(v int64, writes ...state.Write) func() error {
				return func() error { return s.Commit(ctx, state.Commit{Cluster: "c", Version: v, Writes: writes}) }
			}
			errs := together(s,
				write(state.Write{Put: row("a", 1, 0)}),
				write(state.Write{Put: row("a", 2, 0)}),
				write(state.Write{Put: row("a", 2, 0)}), // refused, by what this group wrote
				write(state.Write{Delete: &key}),
				write(state.Write{Put: row("a", 3, 0)}), // refused, by what this group deleted
				commit(0, state.Write{Put: row("a", 1, 0)}),
				// refused, by the version
				commit(0, state.Write{Put: row("b", 1, 0)}),
				commit(1, state.Write{Put: row("c", 1, 0)}, state.Write{Put: row("a", 1, 0)}), // refused, whole
				commit(1, state.Write{Put: row("saved", 2, 0)}),
				func() error { expired = s.ExpireRows(time.Unix(9, 0)); return nil },
			)
			var refusals []int
			for i, err := range errs {
				var conflict *state.Conflict
				if errors.As(err, &conflict) {
					refusals = append(refusals, i)
				} else if err != nil {
					t.Errorf("call %d: %v", i, err)
				}
				if i == 2 && (conflict == nil || conflict.Row == nil || conflict.Row.Header().Rev != 2) {
					t.Errorf("call 2: %v, want the conflict to know revision 2", err)
				}
			}
			if diff := cmp.Diff([]int{2, 4, 6, 7}, refusals); diff != "" {
				t.Errorf("refused calls (-want +got):\n%s", diff)
			}
			if expired != 1 {
				t.Errorf("%d rows expired, want 1", expired)
			}
			var got []string
			for _, r := range groups[0] {
				got = append(got, string(r.Op)+" "+r.Key.Sort)
			}
			want := []string{
				"INSERT instance#a", "MODIFY instance#a", "REMOVE instance#a", "MODIFY meta", "INSERT instance#a",
				"MODIFY meta",
				"MODIFY instance#saved", "REMOVE instance#expired",
			}
			if diff := cmp.Diff(want, got); diff != "" || len(groups) != 1 {
				t.Errorf("%d groups of records, (-want +got):\n%s", len(groups), diff)
			}
			if n := s.expiring.Len(); n != 0 {
				t.Errorf("%d rows are still to expire, want none", n)
			}
			if s.disk != nil && transactions(t, s) != before+1 {
				t.Errorf("%d transactions of the file, want 1", transactions(t, s)-before)
			}
		})
	}
}

// What the stream's reader gets is in the file and in memory. What could not be written to the file
// is in neither.
func TestChangesAreDurableBeforeTheyAreVisible(t *testing.T) {
	s := openFile(t, "one")
	seen := 0
	s.OnRecords(func(records []state.Record) {
		for _, r := range records {
			seen++
			_ = s.disk.View(func(tx *bolt.Tx) error {
				if tx.Bucket(bucketRows).Get([]byte("c"+keySeparator+r.Key.Sort)) == nil {
					t.Errorf("row %s is not in the file", r.Key.Sort)
				}
				return nil
			})
			if got, err := s.Get(context.Background(), r.Key); got == nil || err != nil {
				t.Errorf("row %s is not in memory: %v", r.Key.Sort, err)
			}
			if len(s.PendingRecords("one")) != seen {
				t.Errorf("%d records are pending, want %d", len(s.PendingRecords("one")), seen)
			}
		}
	})
	putRow(t, s, row("a", 1, 0))
	putRow(t, s, row("b", 1, 0))
	if seen != 2 {
		t.Errorf("%d records, want 2", seen)
	}
}

// On a full disk, writes are refused with the reason and change nothing, reads go on, and writes
// are taken again as soon as there is space.
func TestFullDiskRefusesWritesAndServesReads(t *testing.T) {
	ctx := context.Background()
	var reports []error
	path := filepath.Join(t.TempDir(), "state.db")
	s, err := OpenStore(StoreOptions{Path: path, Consumers: []string{"one"},
		Unwritable: func(err error) { reports = append(reports, err) }})
	if err != nil {
		t.Fatal(err)
	}
	putRow(t, s, row("a", 1, 0))
	acknowledged, hash := s.PendingRecords("one"), s.HistoryHash()
	heard := 0
	s.OnRecords(func([]state.Record) { heard++ })
	s.disk.LimitSize(1)
	big := row("big", 1, 0)
	big.EC2InstanceID = strings.Repeat("x", 300<<10)
	errs := together(s,
		func() error { _, err := s.Write(ctx, state.Write{Put: big}); return err },
		func() error { _, err := s.Write(ctx, state.Write{Put: row("b", 1, 0)}); return err },
		func() error { _, err := s.Write(ctx, state.Write{Put: row("a", 1, 0)}); return err },
	)
	_, later := s.Write(ctx, state.Write{Put: big})
	for i, err := range append(errs, later) {
		var unwritable *cluster.UnwritableError
		if !errors.As(err, &unwritable) || unwritable.Path != path || errors.Is(err, cluster.ErrAmbiguous) {
			t.Errorf("call %d: %v, want the file that cannot be written", i, err)
		}
	}
	if rows, err := s.List(ctx, state.Prefix("c", "")); err != nil || len(rows) != 1 {
		t.Errorf("while the disk is full: %d rows, %v; want 1", len(rows), err)
	}
	if heard != 0 || s.HistoryHash() != hash || len(s.PendingRecords("one")) != len(acknowledged) {
		t.Error("what was not written is seen")
	}
	if len(reports) != 1 || reports[0] == nil {
		t.Errorf("reports %v, want one error", reports)
	}
	s.disk.LimitSize(0)
	putRow(t, s, big)
	if len(reports) != 2 || reports[1] != nil {
		t.Errorf("reports %v, want the end of it", reports)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := OpenStore(StoreOptions{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if rows, err := again.List(ctx, state.Prefix("c", "")); err != nil || len(rows) != 2 {
		t.Errorf("after a restart: %d rows, %v; want what was acknowledged", len(rows), err)
	}
}

// Once a file cannot be read again after a failure, nothing is known of it, and the store ends.
func TestLostFileEndsTheStore(t *testing.T) {
	ctx := context.Background()
	s := openFile(t)
	putRow(t, s, row("a", 1, 0))
	s.disk.LimitSize(1)
	if err := os.Rename(s.disk.Path(), s.disk.Path()+".gone"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.disk.Path(), []byte(strings.Repeat("no database. ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	big := row("big", 1, 0)
	big.EC2InstanceID = strings.Repeat("x", 300<<10)
	_, failed := s.Write(ctx, state.Write{Put: big})
	_, getErr := s.Get(ctx, state.KeyOf(row("a", 0, 0)))
	_, listErr := s.List(ctx, state.Prefix("c", ""))
	_, writeErr := s.Write(ctx, state.Write{Put: row("c", 1, 0)})
	for i, err := range []error{failed, getErr, listErr, writeErr} {
		if !errors.Is(err, cluster.ErrAmbiguous) || !strings.Contains(err.Error(), s.disk.Path()) {
			t.Errorf("call %d: %v, want an unknown outcome and the file's name", i, err)
		}
	}
}
