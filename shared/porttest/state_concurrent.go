package porttest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"berth/shared/cluster"
	"berth/shared/state"
)

// writers is how many goroutines act at the same time.
const writers = 8

// runWriters lets all writers start at once and returns how many of them succeeded. A conflict is
// no failure of the test; any other error is.
func runWriters(t *testing.T, do func(writer int) error) int {
	t.Helper()
	var won atomic.Int64
	var start, all sync.WaitGroup
	start.Add(1)
	for i := range writers {
		all.Go(func() {
			start.Wait()
			err := do(i)
			var conflict *state.Conflict
			switch {
			case err == nil:
				won.Add(1)
			case !errors.As(err, &conflict):
				t.Errorf("writer %d: %v, want a conflict", i, err)
			}
		})
	}
	start.Done()
	all.Wait()
	return int(won.Load())
}

// testConcurrentWriters: of writers with the same condition one wins, and the others get a
// conflict. Writes without a condition all count.
func testConcurrentWriters(t *testing.T, s state.Store) {
	ctx := context.Background()
	// Two placements that decide on the same snapshot: one commits, the others read again.
	t.Run("OneVersionHasOneWinner", func(t *testing.T) {
		name := uniqueCluster()
		mustPut(t, s, metaRow(name, 0))
		for v := range int64(10) {
			won := runWriters(t, func(i int) error {
				return tryCommit(s, name, v,
					state.Write{Put: taskRow(name, fmt.Sprint(v, "-", i))})
			})
			if won != 1 {
				t.Fatalf("%d writers committed on version %d, want 1", won, v)
			}
			expectVersion(t, s, name, v+1)
		}
		if rows := mustList(t, s, state.Prefix(name, state.PrefixTask)); len(rows) != 10 {
			t.Errorf("%d rows, want one of each version", len(rows))
		}
	})
	// A row of revision 1 is created once, by the first writer.
	t.Run("OneCreator", func(t *testing.T) {
		name := uniqueCluster()
		if won := runWriters(t, func(int) error { return tryPut(s, taskRow(name, "a")) }); won != 1 {
			t.Errorf("%d writers created the row, want 1", won)
		}
	})
	// The claim is what keeps two dispatches from starting a task twice.
	t.Run("OneClaim", func(t *testing.T) {
		row := taskRow(uniqueCluster(), "a")
		mustPut(t, s, row)
		won := runWriters(t, func(int) error {
			_, err := s.Write(ctx, state.Write{Claim: &state.Claim{Task: state.KeyOf(row), Attempt: 1, At: t0}})
			return err
		})
		if won != 1 {
			t.Errorf("%d writers have the claim, want 1", won)
		}
	})
	// Writes without a condition never conflict: each must be counted in the revision.
	t.Run("BlindWritesAllCount", func(t *testing.T) {
		name := uniqueCluster()
		won := runWriters(t, func(int) error {
			_, err := s.Write(ctx, state.Write{Put: instanceRow(name, "i", 0), Any: true})
			return err
		})
		if rev := mustGet(t, s, state.InstanceKey(name, "i")).Header().Rev; won != writers || rev != writers {
			t.Errorf("%d writes held and the row has revision %d, want %d", won, rev, writers)
		}
	})
	t.Run("NoUpdateIsLost", func(t *testing.T) { testNoUpdateIsLost(t, s) })
	t.Run("CrossedCommits", func(t *testing.T) { testCrossedCommitsFinish(t, s) })
	t.Run("ReadsSeeWhatWasAcknowledged", func(t *testing.T) { testReadsSeeAcknowledgedWrites(t, s) })
}

// testNoUpdateIsLost lets all writers increment one counter in commits on the placement version, as
// placement does: each reads and decides again after a conflict. In the end the counter, the
// version and the tasks must all count every commit.
func testNoUpdateIsLost(t *testing.T, s state.Store) {
	name := uniqueCluster()
	mustPut(t, s, metaRow(name, 0), instanceRow(name, "counter", 1))
	const each = 5
	runWriters(t, func(i int) error {
		for done := 0; done < each; {
			m, err := s.Get(context.Background(), state.KeyOf(metaRow(name, 0)))
			if err != nil {
				return err
			}
			c, err := s.Get(context.Background(), state.InstanceKey(name, "counter"))
			if err != nil {
				return err
			}
			next := instanceRow(name, "counter", c.Header().Rev+1)
			next.Version = c.(*cluster.Instance).Version + 1
			err = tryCommit(s, name, m.(*state.Meta).Version, state.Write{Put: next},
				state.Write{Put: taskRow(name, fmt.Sprint(i, "-", done))})
			var conflict *state.Conflict
			if err != nil && !errors.As(err, &conflict) {
				return err
			}
			if err == nil {
				done++
			}
		}
		return nil
	})
	expectVersion(t, s, name, writers*each)
	if got := mustGet(t, s, state.InstanceKey(name, "counter")).(*cluster.Instance).Version; got != writers*each {
		t.Errorf("counted %d, want %d", got, writers*each)
	}
	if rows := mustList(t, s, state.Prefix(name, state.PrefixTask)); len(rows) != writers*each {
		t.Errorf("%d rows, want %d", len(rows), writers*each)
	}
}

// testCrossedCommitsFinish makes commits that name the same two rows, half of them in the other
// order. Each changes both rows or none, and none may wait for ever (with locks per row they
// would).
func testCrossedCommitsFinish(t *testing.T, s state.Store) {
	name := uniqueCluster()
	for round := range int64(10) {
		won := runWriters(t, func(i int) error {
			pair := []state.Write{{Put: instanceRow(name, "a", round+1)}, {Put: instanceRow(name, "b", round+1)}}
			for _, w := range pair {
				w.Put.(*cluster.Instance).Version = int64(i)
			}
			if i%2 == 1 {
				pair[0], pair[1] = pair[1], pair[0]
			}
			return tryCommit(s, name, state.NoVersion, pair...)
		})
		a := mustGet(t, s, state.InstanceKey(name, "a")).(*cluster.Instance)
		b := mustGet(t, s, state.InstanceKey(name, "b")).(*cluster.Instance)
		if won != 1 || a.Version != b.Version || a.Rev != round+1 || b.Rev != round+1 {
			t.Fatalf("round %d: %d won, rows of writers %d and %d", round, won, a.Version, b.Version)
		}
	}
}

// testReadsSeeAcknowledgedWrites lets one writer write while the others read. Get and List must
// show what was acknowledged before they were called; only Peek may be late.
func testReadsSeeAcknowledgedWrites(t *testing.T, s state.Store) {
	name := uniqueCluster()
	mustPut(t, s, instanceRow(name, "i", 1))
	var acknowledged atomic.Int64
	acknowledged.Store(1)
	const last = 40
	runWriters(t, func(i int) error {
		if i == 0 {
			for rev := int64(2); rev <= last; rev++ {
				if err := tryPut(s, instanceRow(name, "i", rev)); err != nil {
					return err
				}
				acknowledged.Store(rev)
			}
			return nil
		}
		for seen := int64(0); seen < last; {
			least := max(seen, acknowledged.Load())
			row, err := s.Get(context.Background(), state.InstanceKey(name, "i"))
			if err != nil {
				return err
			}
			if seen = row.Header().Rev; seen < least {
				return fmt.Errorf("read revision %d when %d was acknowledged", seen, least)
			}
			rows, err := s.List(context.Background(), state.Prefix(name, ""))
			if err != nil || len(rows) != 1 || rows[0].Header().Rev < seen {
				return fmt.Errorf("listed %v after revision %d was read: %w", rows, seen, err)
			}
			seen = rows[0].Header().Rev
		}
		return nil
	})
}
