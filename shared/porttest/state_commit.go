package porttest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/state"
)

func commit(t rapid.TB, s state.Store, name string, version int64, writes ...state.Write) {
	t.Helper()
	if err := try(s, name, version, writes...); err != nil {
		t.Fatalf("Commit: %v", err)
	}
}

func try(s state.Store, name string, version int64, writes ...state.Write) error {
	return s.Commit(context.Background(), state.Commit{Cluster: name, Version: version, Writes: writes})
}

// metaIs expects the cluster's placement version, and as many changes of its row.
func metaIs(t rapid.TB, s state.Store, name string, version int64) {
	t.Helper()
	m, _ := get(t, s, state.Key{Cluster: name, Sort: state.PrefixMeta}).(*state.Meta)
	if m == nil || m.Version != version || m.Rev != version+1 || !m.CreatedAt.Equal(t0) || m.Short != owner {
		t.Fatalf("meta row %+v, want version %d and the rest as it was", m, version)
	}
}

// versionMoved expects a conflict over the placement version.
func versionMoved(t rapid.TB, err error, name string, holds state.Row) {
	t.Helper()
	var conflict *state.Conflict
	if !errors.As(err, &conflict) || !conflict.Version {
		t.Fatalf("error %v, want a conflict over the version", err)
	}
	if want := (state.Key{Cluster: name, Sort: state.PrefixMeta}); conflict.Key != want {
		t.Errorf("conflict over %v, want %v", conflict.Key, want)
	}
	if conflict.Row != nil { // whether a store says what it holds is its own affair here
		same(t, "the conflict's row", holds, conflict.Row)
	}
}

// everyKind is a write of each kind, each on a row of its own, and the rows after them. The rows
// stand in the state.
func everyKind(t *testing.T, s state.Store, name string) (writes []state.Write, after map[state.Key]state.Row) {
	t.Helper()
	put(t, s, task(name, "replace"), task(name, "any"), task(name, "delete"), task(name, "stop"), task(name, "claim"),
		task(name, "observe"))
	key := func(id string) state.Key { return state.TaskKey(name, owner, id) }
	gone := key("delete")
	writes = []state.Write{
		{Put: task(name, "create")},
		{Put: task(name, "replace", rev(2), func(t *cluster.Task) { t.Reason = "new" })},
		{Put: task(name, "any", rev(0), func(t *cluster.Task) { t.Reason = "new" }), Any: true},
		{Delete: &gone},
		{Stop: &state.Stop{Task: key("stop"), Code: "C", Reason: "R"}},
		{Claim: &state.Claim{Task: key("claim"), Attempt: 1, At: t0}},
		{Observe: &state.Observation{Task: key("observe"), Version: 2, ECSID: "e", Last: cluster.TaskRunning,
			Started: t0}},
	}
	after = map[state.Key]state.Row{
		key("create"): task(name, "create"), gone: nil,
		key("replace"): task(name, "replace", rev(2), func(t *cluster.Task) { t.Reason = "new" }),
		key("any"):     task(name, "any", rev(2), func(t *cluster.Task) { t.Reason = "new" }),
		key("stop"): task(name, "stop", rev(2), func(t *cluster.Task) {
			t.Desired, t.StopCode, t.Reason = cluster.TaskStopped, "C", "R"
		}),
		key("claim"): task(name, "claim", rev(2), func(t *cluster.Task) { t.Attempt, t.ClaimedAt = 1, cluster.At(t0) }),
		key("observe"): task(name, "observe", rev(2), func(t *cluster.Task) {
			t.Version, t.ECSID, t.Last, t.Started = 2, "e", cluster.TaskRunning, cluster.At(t0)
		}),
	}
	return writes, after
}

func testCommit(t *testing.T, s state.Store) {
	t.Run("MakesAllChanges", func(t *testing.T) {
		name := unique()
		put(t, s, meta(name, 0))
		writes, after := everyKind(t, s, name)
		commit(t, s, name, 0, writes...)
		for key, row := range after {
			same(t, key.Sort, row, get(t, s, key))
		}
		metaIs(t, s, name, 1)
	})
	t.Run("WithoutVersionMovesNone", func(t *testing.T) {
		name := unique()
		put(t, s, meta(name, 0))
		commit(t, s, name, state.NoVersion, state.Write{Put: task(name, "a")}, state.Write{Put: task(name, "b")})
		metaIs(t, s, name, 0)
		commit(t, s, unique(), state.NoVersion, state.Write{Put: task(name, "c")}) // needs no meta row
		if rows := list(t, s, state.Prefix(name, state.PrefixTask)); len(rows) != 3 {
			t.Errorf("%d rows, want 3", len(rows))
		}
	})
	t.Run("OfNothing", func(t *testing.T) { commit(t, s, unique(), state.NoVersion) })
	t.Run("AcrossClusters", func(t *testing.T) {
		one, other := unique(), unique()
		entry := &state.Entry{Head: head(state.Directory, 1), Name: one}
		put(t, s, meta(one, 0))
		commit(t, s, one, 0, state.Write{Put: task(one, "a")}, state.Write{Put: task(other, "a")},
			state.Write{Put: entry})
		for _, row := range []state.Row{task(one, "a"), task(other, "a"), entry} {
			same(t, "row", row, get(t, s, state.KeyOf(row)))
		}
	})
	t.Run("DeletesWhatIsNotThere", func(t *testing.T) {
		name := unique()
		key := state.TaskKey(name, owner, "a")
		commit(t, s, name, state.NoVersion, state.Write{Delete: &key}, state.Write{Put: task(name, "b")})
		same(t, "the other row", task(name, "b"), get(t, s, state.TaskKey(name, owner, "b")))
	})
}

func testCommitVersion(t *testing.T, s state.Store) {
	t.Run("Chain", func(t *testing.T) {
		name := unique()
		put(t, s, meta(name, 0))
		for v := range int64(5) {
			commit(t, s, name, v, state.Write{Put: task(name, fmt.Sprint(v))})
			metaIs(t, s, name, v+1)
		}
		if rows := list(t, s, state.Prefix(name, state.PrefixTask)); len(rows) != 5 {
			t.Errorf("%d rows, want 5", len(rows))
		}
	})
	t.Run("Alone", func(t *testing.T) {
		name := unique()
		put(t, s, meta(name, 0))
		commit(t, s, name, 0)
		metaIs(t, s, name, 1)
		versionMoved(t, try(s, name, 0), name, get(t, s, state.Key{Cluster: name, Sort: state.PrefixMeta}))
		metaIs(t, s, name, 1)
	})
	for _, c := range []struct {
		name    string
		version int64
	}{{"RefusesOlder", 1}, {"RefusesNewer", 3}, {"RefusesZero", 0}} {
		t.Run(c.name, func(t *testing.T) {
			name := unique()
			put(t, s, meta(name, 0))
			commit(t, s, name, 0)
			commit(t, s, name, 1)
			m := get(t, s, state.Key{Cluster: name, Sort: state.PrefixMeta})
			versionMoved(t, try(s, name, c.version, state.Write{Put: task(name, "a")}), name, m)
			metaIs(t, s, name, 2)
			if row := get(t, s, state.TaskKey(name, owner, "a")); row != nil {
				t.Error("the row was written all the same")
			}
		})
	}
	t.Run("RefusesWithoutMeta", func(t *testing.T) {
		name := unique()
		versionMoved(t, try(s, name, 0, state.Write{Put: task(name, "a")}), name, nil)
		if rows := list(t, s, state.Prefix(name, "")); len(rows) != 0 {
			t.Errorf("%d rows were written all the same", len(rows))
		}
	})
	t.Run("ConditionAndVersionBothFail", func(t *testing.T) {
		name := unique()
		put(t, s, meta(name, 0), task(name, "a"))
		var conflict *state.Conflict
		if err := try(s, name, 7, state.Write{Put: task(name, "a")}); !errors.As(err, &conflict) {
			t.Errorf("error %v, want a conflict", err)
		}
		metaIs(t, s, name, 0)
	})
}

// testCommitConflict puts one write that does not hold among others, at every position.
func testCommitConflict(t *testing.T, s state.Store) {
	for _, c := range []struct {
		name string
		bad  func(name string) state.Write
	}{
		{"Create", func(name string) state.Write { return state.Write{Put: task(name, "there")} }},
		{"Replace", func(name string) state.Write { return state.Write{Put: task(name, "there", rev(3))} }},
		{"ReplaceAbsent", func(name string) state.Write { return state.Write{Put: task(name, "absent", rev(2))} }},
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
				name := unique()
				there := task(name, "there", func(t *cluster.Task) {
					t.Version, t.Desired, t.Attempt = 1,
						cluster.TaskStopped, 1
				})
				put(t, s, meta(name, 0), there, task(name, "stays"))
				stays := state.TaskKey(name, owner, "stays")
				writes := []state.Write{{Put: task(name, "new")}, {Delete: &stays}}
				bad := c.bad(name)
				writes = append(writes[:position:position], append([]state.Write{bad}, writes[position:]...)...)
				before := list(t, s, state.Prefix(name, ""))
				for _, version := range []int64{0, state.NoVersion} {
					var holds state.Row
					if bad.Key() == state.KeyOf(there) {
						holds = there
					}
					refused(t, try(s, name, version, writes...), bad.Key(), holds)
					sameRows(t, before, list(t, s, state.Prefix(name, "")))
				}
			}
		})
	}
}

func sameRows(t rapid.TB, want, got []state.Row) {
	t.Helper()
	if len(want) != len(got) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	for i := range want {
		same(t, state.KeyOf(want[i]).Sort, want[i], got[i])
	}
}

func tasks(name string, n, size int) []state.Write {
	writes := make([]state.Write, n)
	for i := range writes {
		writes[i].Put = task(name, fmt.Sprintf("%03d", i),
			func(t *cluster.Task) { t.Reason = strings.Repeat("x", size) })
	}
	return writes
}

func testCommitLimits(t *testing.T, s state.Store) {
	name := unique()
	put(t, s, meta(name, 0))
	key := state.TaskKey(name, owner, "000")
	for _, c := range []struct {
		name    string
		version int64
		writes  []state.Write
	}{
		{"TooManyWithVersion", 0, tasks(name, state.MaxWrites+1, 0)},
		{"TooMany", state.NoVersion, tasks(name, state.MaxWrites+2, 0)},
		{"SameRowTwice", 0, append(tasks(name, 2, 0), state.Write{Delete: &key})},
		{"SameRowTwiceWithoutVersion", state.NoVersion,
			append(tasks(name, 2, 0), state.Write{Stop: &state.Stop{Task: key}})},
		{"MetaBesideVersion", 0, []state.Write{{Put: meta(name, 5), Any: true}}},
		{"SaysNothing", 0, []state.Write{{Put: task(name, "a")}, {}}},
		{"RowTooBig", 0, tasks(name, 1, 401<<10)},
		{"CommitTooBig", 0, tasks(name, 11, 390<<10)},
	} {
		t.Run(c.name, func(t *testing.T) {
			invalid(t, try(s, name, c.version, c.writes...))
			metaIs(t, s, name, 0)
			if rows := list(t, s, state.Prefix(name, state.PrefixTask)); len(rows) != 0 {
				t.Fatalf("%d rows were written all the same", len(rows))
			}
		})
	}
	t.Run("MostWithVersion", func(t *testing.T) {
		commit(t, s, name, 0, tasks(name, state.MaxWrites, 100)...)
		if rows := list(t, s, state.Prefix(name, state.PrefixTask)); len(rows) != state.MaxWrites {
			t.Fatalf("%d rows, want %d", len(rows), state.MaxWrites)
		}
	})
	t.Run("JustSmallEnough", func(t *testing.T) {
		name := unique()
		commit(t, s, name, state.NoVersion, tasks(name, 10, 390<<10)...)
	})
}
