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

// writers is how many act at the same time.
const writers = 8

// race has all writers do the same at once and returns how many had no conflict.
func race(t *testing.T, do func(writer int) error) int {
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

func testConcurrent(t *testing.T, s state.Store) {
	ctx := context.Background()
	t.Run("OneVersionHasOneWinner", func(t *testing.T) {
		name := unique()
		put(t, s, meta(name, 0))
		for v := range int64(10) {
			won := race(t, func(i int) error {
				return try(s, name, v,
					state.Write{Put: task(name, fmt.Sprint(v, "-", i))})
			})
			if won != 1 {
				t.Fatalf("%d writers committed on version %d, want 1", won, v)
			}
			metaIs(t, s, name, v+1)
		}
		if rows := list(t, s, state.Prefix(name, state.PrefixTask)); len(rows) != 10 {
			t.Errorf("%d rows, want one of each version", len(rows))
		}
	})
	t.Run("OneCreator", func(t *testing.T) {
		name := unique()
		if won := race(t, func(int) error { return writeError(s, task(name, "a")) }); won != 1 {
			t.Errorf("%d writers created the row, want 1", won)
		}
	})
	t.Run("OneClaim", func(t *testing.T) {
		row := task(unique(), "a")
		put(t, s, row)
		won := race(t, func(int) error {
			_, err := s.Write(ctx, state.Write{Claim: &state.Claim{Task: state.KeyOf(row), Attempt: 1, At: t0}})
			return err
		})
		if won != 1 {
			t.Errorf("%d writers have the claim, want 1", won)
		}
	})
	t.Run("BlindWritesAllCount", func(t *testing.T) {
		name := unique()
		won := race(t, func(int) error {
			_, err := s.Write(ctx, state.Write{Put: instance(name, "i", 0), Any: true})
			return err
		})
		if rev := get(t, s, state.InstanceKey(name, "i")).Header().Rev; won != writers || rev != writers {
			t.Errorf("%d writes held and the row has revision %d, want %d", won, rev, writers)
		}
	})
	t.Run("NoUpdateIsLost", func(t *testing.T) { testCounter(t, s) })
	t.Run("CrossedCommits", func(t *testing.T) { testCrossed(t, s) })
	t.Run("ReadsSeeWhatWasAcknowledged", func(t *testing.T) { testFreshReads(t, s) })
}

// testCounter has all writers move one cluster on, each deciding again after a conflict.
func testCounter(t *testing.T, s state.Store) {
	name := unique()
	put(t, s, meta(name, 0), instance(name, "counter", 1))
	const each = 5
	race(t, func(i int) error {
		for done := 0; done < each; {
			m, err := s.Get(context.Background(), state.KeyOf(meta(name, 0)))
			if err != nil {
				return err
			}
			c, err := s.Get(context.Background(), state.InstanceKey(name, "counter"))
			if err != nil {
				return err
			}
			next := instance(name, "counter", c.Header().Rev+1)
			next.Version = c.(*cluster.Instance).Version + 1
			err = try(s, name, m.(*state.Meta).Version, state.Write{Put: next},
				state.Write{Put: task(name, fmt.Sprint(i, "-", done))})
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
	metaIs(t, s, name, writers*each)
	if got := get(t, s, state.InstanceKey(name, "counter")).(*cluster.Instance).Version; got != writers*each {
		t.Errorf("counted %d, want %d", got, writers*each)
	}
	if rows := list(t, s, state.Prefix(name, state.PrefixTask)); len(rows) != writers*each {
		t.Errorf("%d rows, want %d", len(rows), writers*each)
	}
}

// testCrossed has commits name the same two rows in either order: each takes both or none, and none
// waits for ever.
func testCrossed(t *testing.T, s state.Store) {
	name := unique()
	for round := range int64(10) {
		won := race(t, func(i int) error {
			pair := []state.Write{{Put: instance(name, "a", round+1)}, {Put: instance(name, "b", round+1)}}
			for _, w := range pair {
				w.Put.(*cluster.Instance).Version = int64(i)
			}
			if i%2 == 1 {
				pair[0], pair[1] = pair[1], pair[0]
			}
			return try(s, name, state.NoVersion, pair...)
		})
		a := get(t, s, state.InstanceKey(name, "a")).(*cluster.Instance)
		b := get(t, s, state.InstanceKey(name, "b")).(*cluster.Instance)
		if won != 1 || a.Version != b.Version || a.Rev != round+1 || b.Rev != round+1 {
			t.Fatalf("round %d: %d won, rows of writers %d and %d", round, won, a.Version, b.Version)
		}
	}
}

// testFreshReads has one writer write and the others read: none may miss what was acknowledged
// before it asked.
func testFreshReads(t *testing.T, s state.Store) {
	name := unique()
	put(t, s, instance(name, "i", 1))
	var acknowledged atomic.Int64
	acknowledged.Store(1)
	const last = 40
	race(t, func(i int) error {
		if i == 0 {
			for rev := int64(2); rev <= last; rev++ {
				if err := writeError(s, instance(name, "i", rev)); err != nil {
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
