package porttest

import (
	"context"
	"crypto/rand"
	"time"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/state"
)

// uniqueCluster returns a cluster name that no other test uses, in this run or an earlier one: a
// table outlives the tests.
func uniqueCluster() string { return "test-" + rand.Text() }

// t0 is a time that needs all digits that a row can keep: nanoseconds.
var t0 = time.Date(2026, 11, 21, 10, 0, 0, 123456789, time.UTC)

// owner is the short key of a service, as task rows have it.
const owner = "0123456789ab"

func rowHead(name string, rev int64) cluster.Head { return cluster.Head{Cluster: name, Rev: rev} }

// taskRow returns a task row of revision 1 whose desired status is RUNNING, changed by each of the
// edits in order.
func taskRow(name, id string, edits ...func(*cluster.Task)) *cluster.Task {
	t := &cluster.Task{
		Head: rowHead(name, 1),
		TaskSpec: cluster.TaskSpec{
			ID: id, Owner: owner, TaskDefinition: "web:1",
			Needs: cluster.Resources{CPU: 256 * cluster.CPUUnit, Memory: 512}, CreatedAt: cluster.At(t0),
		},
		TaskAssignment: cluster.TaskAssignment{Instance: "i-1", Desired: cluster.TaskRunning},
	}
	for _, edit := range edits {
		edit(t)
	}
	return t
}

// withRevision is an edit of [taskRow].
func withRevision(n int64) func(*cluster.Task) { return func(t *cluster.Task) { t.Rev = n } }

// instanceRow returns an instance row of a revision: 0 for one that is put unconditionally.
func instanceRow(name, id string, rev int64) *cluster.Instance {
	return &cluster.Instance{
		Head: rowHead(name, rev), ID: id, Status: cluster.InstanceActive, AgentConnected: true,
		RegisteredAt: cluster.At(t0),
		Registered:   cluster.Capacity{CPU: cluster.VCPU, Memory: 1024}, Attributes: map[string]string{"a": "b"},
	}
}

// metaRow returns the first revision of a cluster's meta row, at a placement version.
func metaRow(name string, version int64) *state.Meta {
	return &state.Meta{Head: rowHead(name, 1), Version: version, CreatedAt: t0, Short: owner}
}

// mustWrite makes a write that holds, and returns the row after it.
func mustWrite(t rapid.TB, s state.Store, w state.Write) state.Row {
	t.Helper()
	row, err := s.Write(context.Background(), w)
	if err != nil {
		t.Fatalf("Write(%v): %v", w.Key(), err)
	}
	return row
}

// mustPut puts rows one after the other.
func mustPut(t rapid.TB, s state.Store, rows ...state.Row) {
	t.Helper()
	for _, row := range rows {
		mustWrite(t, s, state.Write{Put: row})
	}
}

// tryPut returns the error of putting the row.
func tryPut(s state.Store, row state.Row) error {
	_, err := s.Write(context.Background(), state.Write{Put: row})
	return err
}

// mustGet returns the row at key, nil if there is none.
func mustGet(t rapid.TB, s state.Store, key state.Key) state.Row {
	t.Helper()
	row, err := s.Get(context.Background(), key)
	if err != nil {
		t.Fatalf("Get(%v): %v", key, err)
	}
	return row
}

func mustList(t rapid.TB, s state.Store, r state.Range) []state.Row {
	t.Helper()
	rows, err := s.List(context.Background(), r)
	if err != nil {
		t.Fatalf("List(%v): %v", r, err)
	}
	return rows
}

// mustCommit makes a commit that holds. The version may be [state.NoVersion].
func mustCommit(t rapid.TB, s state.Store, name string, version int64, writes ...state.Write) {
	t.Helper()
	if err := tryCommit(s, name, version, writes...); err != nil {
		t.Fatalf("Commit: %v", err)
	}
}

// tryCommit returns the error of a commit. The version may be [state.NoVersion].
func tryCommit(s state.Store, name string, version int64, writes ...state.Write) error {
	return s.Commit(context.Background(), state.Commit{Cluster: name, Version: version, Writes: writes})
}
