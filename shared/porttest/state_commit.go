package porttest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"berth/shared/cluster"
	"berth/shared/state"
)

// writesOfEveryKind stores some rows and returns a write of each kind, each of a row of its own,
// and the rows after them; nil for the one deleted.
func writesOfEveryKind(t *testing.T, s state.Store, name string) (writes []state.Write, after map[state.Key]state.Row) {
	t.Helper()
	mustPut(t, s, taskRow(name, "replace"), taskRow(name, "any"), taskRow(name, "delete"), taskRow(name, "stop"),
		taskRow(name, "claim"),
		taskRow(name, "observe"))
	key := func(id string) state.Key { return state.TaskKey(name, owner, id) }
	gone := key("delete")
	writes = []state.Write{
		{Put: taskRow(name, "create")},
		{Put: taskRow(name, "replace", withRevision(2), func(t *cluster.Task) { t.Reason = "new" })},
		{Put: taskRow(name, "any", withRevision(0), func(t *cluster.Task) { t.Reason = "new" }), Any: true},
		{Delete: &gone},
		{Stop: &state.Stop{Task: key("stop"), Code: "C", Reason: "R"}},
		{Claim: &state.Claim{Task: key("claim"), Attempt: 1, At: t0}},
		{Observe: &state.Observation{Task: key("observe"), Version: 2, ECSID: "e", Last: cluster.TaskRunning,
			Started: t0}},
	}
	after = map[state.Key]state.Row{
		key("create"): taskRow(name, "create"), gone: nil,
		key("replace"): taskRow(name, "replace", withRevision(2), func(t *cluster.Task) { t.Reason = "new" }),
		key("any"):     taskRow(name, "any", withRevision(2), func(t *cluster.Task) { t.Reason = "new" }),
		key("stop"): taskRow(name, "stop", withRevision(2), func(t *cluster.Task) {
			t.Desired, t.StopCode, t.Reason = cluster.TaskStopped, "C", "R"
		}),
		key("claim"): taskRow(name, "claim", withRevision(2),
			func(t *cluster.Task) { t.Attempt, t.ClaimedAt = 1, cluster.At(t0) }),
		key("observe"): taskRow(name, "observe", withRevision(2), func(t *cluster.Task) {
			t.Version, t.ECSID, t.Last, t.Started = 2, "e", cluster.TaskRunning, cluster.At(t0)
		}),
	}
	return writes, after
}

// testCommitMakesAllChanges: a commit makes every kind of change at once, also in several clusters,
// with or without moving the placement version.
func testCommitMakesAllChanges(t *testing.T, s state.Store) {
	// Each row after the commit is what the write alone would have made of it.
	t.Run("MakesAllChanges", func(t *testing.T) {
		name := uniqueCluster()
		mustPut(t, s, metaRow(name, 0))
		writes, after := writesOfEveryKind(t, s, name)
		mustCommit(t, s, name, 0, writes...)
		for key, row := range after {
			expectSameRow(t, key.Sort, row, mustGet(t, s, key))
		}
		expectVersion(t, s, name, 1)
	})
	// Observations and claims do not decide anything: they leave the version as it is.
	t.Run("WithoutVersionMovesNone", func(t *testing.T) {
		name := uniqueCluster()
		mustPut(t, s, metaRow(name, 0))
		mustCommit(t, s, name, state.NoVersion, state.Write{Put: taskRow(name, "a")},
			state.Write{Put: taskRow(name, "b")})
		expectVersion(t, s, name, 0)
		mustCommit(t, s, uniqueCluster(), state.NoVersion, state.Write{Put: taskRow(name, "c")}) // needs no meta row
		if rows := mustList(t, s, state.Prefix(name, state.PrefixTask)); len(rows) != 3 {
			t.Errorf("%d rows, want 3", len(rows))
		}
	})
	t.Run("OfNothingSucceeds", func(t *testing.T) { mustCommit(t, s, uniqueCluster(), state.NoVersion) })
	// A commit writes rows of the directory beside those of its cluster.
	t.Run("AcrossClusters", func(t *testing.T) {
		one, other := uniqueCluster(), uniqueCluster()
		entry := &state.Entry{Head: rowHead(state.Directory, 1), Name: one}
		mustPut(t, s, metaRow(one, 0))
		mustCommit(t, s, one, 0, state.Write{Put: taskRow(one, "a")}, state.Write{Put: taskRow(other, "a")},
			state.Write{Put: entry})
		for _, row := range []state.Row{taskRow(one, "a"), taskRow(other, "a"), entry} {
			expectSameRow(t, "row", row, mustGet(t, s, state.KeyOf(row)))
		}
	})
	// A commit that is repeated after a lost answer must not fail for what it has deleted already.
	t.Run("DeletesWhatIsNotThere", func(t *testing.T) {
		name := uniqueCluster()
		key := state.TaskKey(name, owner, "a")
		mustCommit(t, s, name, state.NoVersion, state.Write{Delete: &key}, state.Write{Put: taskRow(name, "b")})
		expectSameRow(t, "the other row", taskRow(name, "b"), mustGet(t, s, state.TaskKey(name, owner, "b")))
	})
}

// testCommitMovesVersion: a commit on a placement version holds only if that is the cluster's, and
// moves it by one. That is how two decisions at the same time are told apart.
func testCommitMovesVersion(t *testing.T, s state.Store) {
	// A chain of commits, as one decision may need: each is decided on the version that the one
	// before has led to.
	t.Run("MovesOncePerCommit", func(t *testing.T) {
		name := uniqueCluster()
		mustPut(t, s, metaRow(name, 0))
		for v := range int64(5) {
			mustCommit(t, s, name, v, state.Write{Put: taskRow(name, fmt.Sprint(v))})
			expectVersion(t, s, name, v+1)
		}
		if rows := mustList(t, s, state.Prefix(name, state.PrefixTask)); len(rows) != 5 {
			t.Errorf("%d rows, want 5", len(rows))
		}
	})
	// Moving the version alone makes every other decision in progress start over.
	t.Run("MovesWithoutWrites", func(t *testing.T) {
		name := uniqueCluster()
		mustPut(t, s, metaRow(name, 0))
		mustCommit(t, s, name, 0)
		expectVersion(t, s, name, 1)
		expectVersionConflict(t, tryCommit(s, name, 0), name,
			mustGet(t, s, state.Key{Cluster: name, Sort: state.PrefixMeta}))
		expectVersion(t, s, name, 1)
	})
	for _, c := range []struct {
		name    string
		version int64
	}{{"RefusesOlder", 1}, {"RefusesNewer", 3}, {"RefusesZero", 0}} {
		t.Run(c.name, func(t *testing.T) {
			name := uniqueCluster()
			mustPut(t, s, metaRow(name, 0))
			mustCommit(t, s, name, 0)
			mustCommit(t, s, name, 1)
			m := mustGet(t, s, state.Key{Cluster: name, Sort: state.PrefixMeta})
			expectVersionConflict(t, tryCommit(s, name, c.version, state.Write{Put: taskRow(name, "a")}), name, m)
			expectVersion(t, s, name, 2)
			if row := mustGet(t, s, state.TaskKey(name, owner, "a")); row != nil {
				t.Error("the row was written although the version was refused")
			}
		})
	}
	// A cluster without a meta row has been deleted: no decision about it may be written.
	t.Run("RefusesWithoutMeta", func(t *testing.T) {
		name := uniqueCluster()
		expectVersionConflict(t, tryCommit(s, name, 0, state.Write{Put: taskRow(name, "a")}), name, nil)
		if rows := mustList(t, s, state.Prefix(name, "")); len(rows) != 0 {
			t.Errorf("%d rows were written although there is no meta row", len(rows))
		}
	})
	// Which of the two a store reports is its own choice.
	t.Run("ConditionAndVersionBothFail", func(t *testing.T) {
		name := uniqueCluster()
		mustPut(t, s, metaRow(name, 0), taskRow(name, "a"))
		var conflict *state.Conflict
		if err := tryCommit(s, name, 7, state.Write{Put: taskRow(name, "a")}); !errors.As(err, &conflict) {
			t.Errorf("error %v, want a conflict", err)
		}
		expectVersion(t, s, name, 0)
	})
}

// testCommitConflictChangesNothing puts one write that does not hold among two that do, at every
// position, with and without a version. DynamoDB's transactions give this for free; a store that
// applies one write after the other does not.
func testCommitConflictChangesNothing(t *testing.T, s state.Store) {
	for _, c := range []struct {
		name string
		bad  func(name string) state.Write
	}{
		{"Create", func(name string) state.Write { return state.Write{Put: taskRow(name, "there")} }},
		{"Replace", func(name string) state.Write { return state.Write{Put: taskRow(name, "there", withRevision(3))} }},
		{"ReplaceAbsent", func(name string) state.Write {
			return state.Write{Put: taskRow(name, "absent",
				withRevision(2))}
		}},
		{"Stop", func(name string) state.Write {
			return state.Write{Stop: &state.Stop{Task: state.TaskKey(name, owner, "there")}}
		}},
		{"Claim", func(name string) state.Write {
			return state.Write{Claim: &state.Claim{Task: state.TaskKey(name, owner, "there"), Attempt: 2, At: t0}}
		}},
		{"Observe", func(name string) state.Write {
			return state.Write{Observe: &state.Observation{Task: state.TaskKey(name, owner, "there"), Version: 1,
				Last: cluster.TaskRunning}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for position := range 3 {
				name := uniqueCluster()
				there := taskRow(name, "there", func(t *cluster.Task) {
					t.Version, t.Desired, t.Attempt = 1,
						cluster.TaskStopped, 1
				})
				mustPut(t, s, metaRow(name, 0), there, taskRow(name, "stays"))
				stays := state.TaskKey(name, owner, "stays")
				writes := []state.Write{{Put: taskRow(name, "new")}, {Delete: &stays}}
				bad := c.bad(name)
				writes = append(writes[:position:position], append([]state.Write{bad}, writes[position:]...)...)
				before := mustList(t, s, state.Prefix(name, ""))
				for _, version := range []int64{0, state.NoVersion} {
					var holds state.Row
					if bad.Key() == state.KeyOf(there) {
						holds = there
					}
					expectConflict(t, tryCommit(s, name, version, writes...), bad.Key(), holds)
					expectSameRows(t, before, mustList(t, s, state.Prefix(name, "")))
				}
			}
		})
	}
}

// taskWrites returns n writes that create a task each, of about size bytes.
func taskWrites(name string, n, size int) []state.Write {
	writes := make([]state.Write, n)
	for i := range writes {
		writes[i].Put = taskRow(name, fmt.Sprintf("%03d", i),
			func(t *cluster.Task) { t.Reason = strings.Repeat("x", size) })
	}
	return writes
}

// testCommitLimits holds every store to DynamoDB's limits: 100 statements in a transaction, the
// version check being one; 400 KB an item; 4 MB a transaction; no item twice. A commit that only
// the store in memory accepted would fail in production.
func testCommitLimits(t *testing.T, s state.Store) {
	name := uniqueCluster()
	mustPut(t, s, metaRow(name, 0))
	key := state.TaskKey(name, owner, "000")
	for _, c := range []struct {
		name    string
		version int64
		writes  []state.Write
	}{
		// The check of the version is the hundredth statement.
		{"TooManyWithVersion", 0, taskWrites(name, state.MaxWrites+1, 0)},
		{"TooMany", state.NoVersion, taskWrites(name, state.MaxWrites+2, 0)},
		{"SameRowTwice", 0, append(taskWrites(name, 2, 0), state.Write{Delete: &key})},
		{"SameRowTwiceWithoutVersion", state.NoVersion,
			append(taskWrites(name, 2, 0), state.Write{Stop: &state.Stop{Task: key}})},
		// Moving the version is a write of the meta row already.
		{"MetaBesideVersion", 0, []state.Write{{Put: metaRow(name, 5), Any: true}}},
		{"SaysNothing", 0, []state.Write{{Put: taskRow(name, "a")}, {}}},
		{"RowTooBig", 0, taskWrites(name, 1, 401<<10)},
		{"CommitTooBig", 0, taskWrites(name, 11, 390<<10)},
	} {
		t.Run(c.name, func(t *testing.T) {
			expectInvalid(t, tryCommit(s, name, c.version, c.writes...))
			expectVersion(t, s, name, 0)
			if rows := mustList(t, s, state.Prefix(name, state.PrefixTask)); len(rows) != 0 {
				t.Fatalf("%d rows of an invalid commit were written", len(rows))
			}
		})
	}
	// The most that a commit can have: 99 writes and the check of the version.
	t.Run("MostWithVersion", func(t *testing.T) {
		mustCommit(t, s, name, 0, taskWrites(name, state.MaxWrites, 100)...)
		if rows := mustList(t, s, state.Prefix(name, state.PrefixTask)); len(rows) != state.MaxWrites {
			t.Fatalf("%d rows, want %d", len(rows), state.MaxWrites)
		}
	})
	t.Run("JustSmallEnough", func(t *testing.T) {
		name := uniqueCluster()
		mustCommit(t, s, name, state.NoVersion, taskWrites(name, 10, 390<<10)...)
	})
}
