package porttest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/state"
)

// model is what the rows of one cluster should be, by sort key, computed with [state.Write.Apply]
// alone. It is the specification that every store is compared with.
type model map[string]state.Row

// applyCommit makes a commit's changes and returns nil, or changes nothing and returns the
// conflicts that a store may report, by sort key, with the rows held. A store reports one of them,
// whichever it finds first.
func (m model) applyCommit(c state.Commit) map[string]state.Row {
	next, conflicts := model{}, map[string]state.Row{}
	if c.Version >= 0 {
		old, _ := m[state.PrefixMeta].(*state.Meta)
		if old == nil || old.Version != c.Version {
			conflicts[state.PrefixMeta] = m[state.PrefixMeta]
		} else {
			moved := *old
			moved.Version++
			moved.Rev++
			next[state.PrefixMeta] = &moved
		}
	}
	for _, w := range c.Writes {
		sort := w.Key().Sort
		if w.Put != nil {
			w.Put = asStored(w.Put)
		}
		row, ok := w.Apply(m[sort])
		if !ok {
			conflicts[sort] = m[sort]
		}
		next[sort] = row
	}
	if len(conflicts) > 0 {
		return conflicts
	}
	for sort, row := range next {
		if m[sort] = row; row == nil {
			delete(m, sort)
		}
	}
	return nil
}

// sortedRows returns the rows in the order in which a store lists them.
func (m model) sortedRows() []state.Row {
	var out []state.Row
	for _, row := range m {
		out = append(out, row)
	}
	slices.SortFunc(out, compareSortKeys)
	return out
}

// testStoreMatchesModel draws changes of a few rows of a cluster and expects after each what the
// model says: the same answer, and the same rows. It finds what no list of cases names, such as an
// observation of a row that was deleted and created again.
func testStoreMatchesModel(t *testing.T, s state.Store) {
	rapid.Check(t, func(rt *rapid.T) {
		name := uniqueCluster()
		m := model{}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			if rapid.Bool().Draw(rt, "commit") {
				m.compareCommit(rt, s, drawCommit(rt, name, m))
			} else {
				m.compareWrite(rt, s, drawWrite(rt, name, rapid.SampledFrom(modelRows).Draw(rt, "row"), m))
			}
			expectSameRows(rt, m.sortedRows(), mustList(rt, s, state.Prefix(name, "")))
		}
	})
}

// modelRows are few, so that most writes meet an earlier one: tasks, an instance, the meta row.
var modelRows = []string{"a", "b", "c", "instance", "meta"}

// compareWrite makes one write in the store and in the model.
func (m model) compareWrite(t *rapid.T, s state.Store, w state.Write) {
	key := w.Key()
	conflicts := m.applyCommit(state.Commit{Version: state.NoVersion, Writes: []state.Write{w}})
	row, err := s.Write(context.Background(), w)
	if conflicts != nil {
		expectConflict(t, err, key, conflicts[key.Sort])
		return
	}
	if err != nil {
		t.Fatalf("Write: %v", err)
	}
	expectSameRow(t, "the row returned", m[key.Sort], row)
}

// compareCommit makes one commit in the store and in the model. Of the conflict over a version the
// row may be missing.
func (m model) compareCommit(t *rapid.T, s state.Store, c state.Commit) {
	conflicts := m.applyCommit(c)
	err := s.Commit(context.Background(), c)
	if conflicts == nil {
		if err != nil {
			t.Fatalf("Commit: %v", err)
		}
		return
	}
	var conflict *state.Conflict
	if !errors.As(err, &conflict) {
		t.Fatalf("Commit: %v, want a conflict", err)
	}
	held, ok := conflicts[conflict.Key.Sort]
	if !ok {
		t.Fatalf("conflict over %s, but that write holds", conflict.Key.Sort)
	}
	if conflict.Version != (c.Version >= 0 && conflict.Key.Sort == state.PrefixMeta) {
		t.Errorf("conflict over %s with Version %v", conflict.Key.Sort, conflict.Version)
	}
	if !conflict.Version {
		expectSameRow(t, "the conflict's row", held, conflict.Row)
	}
}

// drawCommit names no row twice, and the meta row only in a commit that does not move its version:
// both are invalid, see testCommitLimits.
func drawCommit(t *rapid.T, name string, m model) state.Commit {
	c := state.Commit{Cluster: name, Version: state.NoVersion}
	rows := rapid.Permutation(modelRows).Draw(t, "rows")[:rapid.IntRange(0, 4).Draw(t, "writes")]
	if rapid.Bool().Draw(t, "with version") {
		rows = slices.DeleteFunc(slices.Clone(rows), func(row string) bool { return row == "meta" })
		c.Version = 0
		if old, ok := m[state.PrefixMeta].(*state.Meta); ok {
			c.Version = max(0, old.Version+rapid.SampledFrom([]int64{0, 0, 0, -1, 1}).Draw(t, "version"))
		}
	}
	for _, row := range rows {
		c.Writes = append(c.Writes, drawWrite(t, name, row, m))
	}
	return c
}

// drawWrite draws a write of a row. Revisions and versions are mostly the right ones, so that most
// writes hold and the rows get a history. The writes that concern only tasks are drawn for the
// instance, too, where they must be refused.
func drawWrite(t *rapid.T, name, row string, m model) state.Write {
	var next state.Row
	switch row {
	case "meta":
		next = metaRow(name, rapid.Int64Range(0, 2).Draw(t, "version"))
	case "instance":
		next = instanceRow(name, "i", 0)
	default:
		next = drawTask(t, name, row)
	}
	key := state.KeyOf(next)
	if old := m[key.Sort]; old != nil {
		next.Header().Rev = old.Header().Rev
	}
	next.Header().Rev += rapid.SampledFrom([]int64{1, 1, 1, 0, 2}).Draw(t, "rev")
	some := rapid.SampledFrom([]string{"", "x", "y"})
	// 5 and 6, and the kinds that the row cannot have, are conditional puts, the most frequent
	// write.
	kind := rapid.IntRange(0, 6).Draw(t, "kind")
	switch {
	case kind == 0:
		return state.Write{Put: next, Any: true}
	case kind == 1:
		return state.Write{Delete: &key, Rev: rapid.SampledFrom([]int64{0, 0, 1, 2}).Draw(t, "of")}
	case kind == 2 && row != "meta":
		return state.Write{Stop: &state.Stop{Task: key, Code: some.Draw(t, "code"), Reason: some.Draw(t, "reason")}}
	case kind == 3 && row != "meta":
		return state.Write{Claim: &state.Claim{Task: key, Attempt: rapid.Int32Range(1, 3).Draw(t, "attempt"),
			At: drawTime(t, "at")}}
	case kind == 4 && row != "meta":
		return state.Write{Observe: drawObservation(t, key)}
	}
	return state.Write{Put: next}
}

// drawTask returns a task row without a revision, in a state that other writes could have led to,
// or could not.
func drawTask(t *rapid.T, name, id string) *cluster.Task {
	return taskRow(name, id, func(row *cluster.Task) {
		some := rapid.SampledFrom([]string{"", "x", "y"})
		row.Rev = 0
		row.Desired = rapid.SampledFrom([]cluster.TaskStatus{cluster.TaskRunning, cluster.TaskRunning,
			cluster.TaskStopped}).Draw(t, "desired")
		row.Attempt, row.ClaimedAt = rapid.Int32Range(0, 2).Draw(t, "attempt"), cluster.At(drawTime(t, "claimed"))
		row.Last, row.Version = drawStatus(t, "last"), rapid.Int64Range(0, 2).Draw(t, "version")
		row.ECSID, row.Health = some.Draw(t, "ECS id"), drawHealth(t)
		row.StopCode, row.Reason = some.Draw(t, "code"), some.Draw(t, "reason")
		row.Started, row.Stopped = cluster.At(drawTime(t, "started")), cluster.At(drawTime(t, "stopped"))
		row.Tags = map[string]string{"k": strings.Repeat("v", rapid.IntRange(0, 3).Draw(t, "tag"))}
	})
}

// drawObservation draws reports that fit the row and reports that do not: other versions, other ECS
// ids, all statuses.
func drawObservation(t *rapid.T, key state.Key) *state.Observation {
	some := rapid.SampledFrom([]string{"", "x", "y"})
	o := &state.Observation{
		Task: key, Version: rapid.Int64Range(0, 4).Draw(t, "version"), ECSID: some.Draw(t, "ECS id"),
		Last: drawStatus(t, "last"), Health: drawHealth(t), Started: drawTime(t, "started"),
		Stopped: drawTime(t, "stopped"), StopCode: some.Draw(t, "code"), Reason: some.Draw(t, "reason"),
		Expires: rapid.SampledFrom([]int64{0, 7_000_000_000}).Draw(t, "expires"),
	}
	if code := rapid.IntRange(-1, 2).Draw(t, "exit code"); code >= 0 {
		o.ExitCode = &code
	}
	return o
}
