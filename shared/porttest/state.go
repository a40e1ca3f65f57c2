// Package porttest is what every adapter of a port must do, whatever it is made of: one suite, run
// over each of them. It knows nothing of their insides, and a table that many tests share is good
// enough for it.
package porttest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/state"
)

// TestStore tests an adapter of [handler.State]. open gives the state for one test; it may be the
// same for all, as every test has clusters of its own.
func TestStore(t *testing.T, open func(t *testing.T) state.Store) {
	for _, part := range []struct {
		name string
		test func(t *testing.T, s state.Store)
	}{
		{"Put", testPutNeedsNextRevision},
		{"PutAny", testPutAnyCountsOn},
		{"Delete", testDeleteIsIdempotent},
		{"Stop", testStopNeedsTaskThatMayRun},
		{"Claim", testClaimTakesNextAttempt},
		{"Observe", testObserveTakesNewerVersion},
		{"TaskWritesRefuseOtherRows", testTaskWritesRefuseOtherRows},
		{"BadWrites", testWriteLimits},
		{"Commit", testCommitMakesAllChanges},
		{"CommitVersion", testCommitMovesVersion},
		{"CommitConflict", testCommitConflictChangesNothing},
		{"CommitLimits", testCommitLimits},
		{"List", testListReadsRange},
		{"DueBy", testDueByReadsDueRows},
		{"RoundTrip", testRowsSurviveRoundTrip},
		{"OddKeys", testUnusualKeys},
		{"Copies", testStoreSharesNoMemory},
		{"Model", testStoreMatchesModel},
		{"Concurrent", testConcurrentWriters},
		{"CanceledContext", testCanceledContextIsRefused},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, open(t)) })
	}
}

// uniqueCluster is a cluster name that no other test has, in this run or an earlier one.
func uniqueCluster() string { return "test-" + rand.Text() }

// t0 is a time that needs all digits that a row can keep.
var t0 = time.Date(2026, 11, 21, 10, 0, 0, 123456789, time.UTC)

// owner is a task owner like any other.
const owner = "0123456789ab"

func rowHead(name string, rev int64) cluster.Head { return cluster.Head{Cluster: name, Rev: rev} }

// taskRow is a task row of revision 1 that wants RUNNING, changed as each of edits says.
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

func instanceRow(name, id string, rev int64) *cluster.Instance {
	return &cluster.Instance{
		Head: rowHead(name, rev), ID: id, Status: cluster.InstanceActive, AgentConnected: true,
		RegisteredAt: cluster.At(t0),
		Registered:   cluster.Capacity{CPU: cluster.VCPU, Memory: 1024}, Attributes: map[string]string{"a": "b"},
	}
}

func metaRow(name string, version int64) *state.Meta {
	return &state.Meta{Head: rowHead(name, 1), Version: version, CreatedAt: t0, Short: owner}
}

func mustWrite(t rapid.TB, s state.Store, w state.Write) state.Row {
	t.Helper()
	row, err := s.Write(context.Background(), w)
	if err != nil {
		t.Fatalf("Write(%v): %v", w.Key(), err)
	}
	return row
}

func mustPut(t rapid.TB, s state.Store, rows ...state.Row) {
	t.Helper()
	for _, row := range rows {
		mustWrite(t, s, state.Write{Put: row})
	}
}

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

// expectSameRow compares rows as far as they can be stored.
func expectSameRow(t rapid.TB, what string, want, got state.Row) {
	t.Helper()
	if diff := cmp.Diff(encodedText(want), encodedText(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// encodedText is the row's JSON: nil and empty collections, and times in any zone, are the same
// there.
func encodedText(row state.Row) string {
	if row == nil {
		return "none"
	}
	data, err := state.EncodeRow(asStored(row))
	if err != nil {
		return fmt.Sprintf("%v (%+v)", err, row)
	}
	return string(data)
}

// expectConflict expects a conflict over the row at key, with what the store holds there.
func expectConflict(t rapid.TB, err error, key state.Key, holds state.Row) {
	t.Helper()
	var conflict *state.Conflict
	if !errors.As(err, &conflict) {
		t.Fatalf("error %v, want a conflict over row %s", err, key.Sort)
	}
	if conflict.Key != key || conflict.Version {
		t.Errorf("conflict over %v (version: %v), want it over %v", conflict.Key, conflict.Version, key)
	}
	expectSameRow(t, "the conflict's row", holds, conflict.Row)
}

// expectInvalid expects an error that is not a conflict: trying again cannot help.
func expectInvalid(t rapid.TB, err error) {
	t.Helper()
	var conflict *state.Conflict
	if err == nil || errors.As(err, &conflict) {
		t.Errorf("error %v, want one that is not a conflict", err)
	}
}

// asStored is the row as it comes back from a store: its times in UTC, its empty collections nil.
func asStored(row state.Row) state.Row {
	sort := state.KeyOf(row).Sort
	data, err := state.EncodeRow(row)
	if err != nil {
		return row
	}
	back, err := state.DecodeRow(sort, data)
	if err != nil {
		return row
	}
	convertToUTC(back)
	return back
}
