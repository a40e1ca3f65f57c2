package porttest

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth/shared/cluster"
	"berth/shared/state"
)

// StreamState is a store whose stream can be read.
type StreamState interface {
	state.Store
	// Records returns at least the first n stream records of a cluster, all that there are by now.
	// It waits for them if they take time, and fails the test if they do not come.
	Records(t *testing.T, clusterName string, n int) []state.Record
	// Expire deletes what has expired by now. It reports false if the store does so in its own
	// time.
	Expire(t *testing.T, now time.Time) bool
}

// TestStream tests the stream records that an adapter's changes leave. open is as in [TestStore].
func TestStream(t *testing.T, open func(t *testing.T) StreamState) {
	for _, part := range []struct {
		name string
		test func(t *testing.T, s StreamState)
	}{
		{"RecordsHaveOldAndNewRow", testRecordsHaveOldAndNewRow},
		{"RecordsKeepOrderOfRow", testRecordsKeepOrderOfRow},
		{"NoRecordWithoutChange", testNoRecordWithoutChange},
		{"CommitLeavesRecords", testCommitRecords},
		{"EveryKindOfRow", testEveryKindOfRowInStream},
		{"ExpiryLeavesRecords", testExpiryLeavesRecords},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, open(t)) })
	}
}

// putLastRow puts a row whose record is the last of a test's cluster. A record that has not come
// before it will not come.
func putLastRow(t *testing.T, s StreamState, name string) {
	t.Helper()
	mustPut(t, s, &state.Checkpoint{Head: rowHead(name, 1)})
}

// expectRecords compares the records of one cluster. Those of one row must be in order; DynamoDB's
// shards promise no order between rows. Each record has a sequence of its own.
func expectRecords(t *testing.T, s StreamState, name string, want ...state.Record) []state.Record {
	t.Helper()
	got := s.Records(t, name, len(want))
	if diff := cmp.Diff(describeRecords(want), describeRecords(got)); diff != "" {
		t.Fatalf("records (-want +got):\n%s", diff)
	}
	seen := map[string]bool{}
	for _, r := range got {
		if r.Sequence == "" || seen[r.Sequence] {
			t.Errorf("sequence %q is empty or not the only one", r.Sequence)
		}
		seen[r.Sequence] = true
	}
	return got
}

// describeRecords returns the records as text, in order, by sort key.
func describeRecords(records []state.Record) map[string][]string {
	out := map[string][]string{}
	for _, r := range records {
		out[r.Key.Sort] = append(out[r.Key.Sort], string(r.Op)+"\nold "+encodedText(r.Old)+"\nnew "+encodedText(r.New))
	}
	return out
}

// insertRecord, modifyRecord and removeRecord return the records that a test expects.
func insertRecord(row state.Row) state.Record {
	return state.Record{Op: state.Insert, Key: state.KeyOf(row), New: row}
}

func modifyRecord(old, next state.Row) state.Record {
	return state.Record{Op: state.Modify, Key: state.KeyOf(old), Old: old, New: next}
}

func removeRecord(row state.Row) state.Record {
	return state.Record{Op: state.Remove, Key: state.KeyOf(row), Old: row}
}

// testRecordsHaveOldAndNewRow makes each kind of write of one row. A write that changes only the
// revision leaves a record, too.
func testRecordsHaveOldAndNewRow(t *testing.T, s StreamState) {
	name := uniqueCluster()
	one := taskRow(name, "a")
	key := state.KeyOf(one)
	mustPut(t, s, one)
	two := mustWrite(t, s, state.Write{Claim: &state.Claim{Task: key, Attempt: 1, At: t0}})
	three := mustWrite(t, s, state.Write{Observe: &state.Observation{Task: key, Version: 1, ECSID: "e",
		Last: cluster.TaskRunning, Started: t0}})
	four := mustWrite(t, s, state.Write{Stop: &state.Stop{Task: key, Code: "C", Reason: "R"}})
	five := taskRow(name, "a", withRevision(5))
	mustPut(t, s, five)
	// The same content again: only the revision differs.
	six := taskRow(name, "a", withRevision(6))
	mustWrite(t, s, state.Write{Put: taskRow(name, "a", withRevision(0)), Any: true})
	mustWrite(t, s, state.Write{Delete: &key})
	mustPut(t, s, one)
	expectRecords(t, s, name, insertRecord(one), modifyRecord(one, two), modifyRecord(two, three),
		modifyRecord(three, four),
		modifyRecord(four, five), modifyRecord(five, six), removeRecord(six), insertRecord(one))
}

// testRecordsKeepOrderOfRow interleaves the histories of three rows.
func testRecordsKeepOrderOfRow(t *testing.T, s StreamState) {
	name := uniqueCluster()
	var want []state.Record
	for _, id := range []string{"a", "b", "c"} {
		want = append(want, insertRecord(instanceRow(name, id, 1)))
	}
	for rev := int64(2); rev <= 20; rev++ {
		for _, id := range []string{"a", "b", "c"} {
			want = append(want, modifyRecord(instanceRow(name, id, rev-1), instanceRow(name, id, rev)))
		}
	}
	for _, r := range want {
		mustPut(t, s, asStored(r.New))
	}
	expectRecords(t, s, name, want...)
}

// testNoRecordWithoutChange: writes that are refused, and deletions of what is not there, leave no
// record. Otherwise a function that writes what its own records ask for could trigger itself for
// ever.
func testNoRecordWithoutChange(t *testing.T, s StreamState) {
	name := uniqueCluster()
	row, absent := taskRow(name, "a"), state.TaskKey(name, owner, "absent")
	mustPut(t, s, row, metaRow(name, 0))
	mustWrite(t, s, state.Write{Delete: &absent})
	_, err := s.Write(context.Background(), state.Write{Put: taskRow(name, "a",
		func(t *cluster.Task) { t.Reason = "refused" })})
	expectConflict(t, err, state.KeyOf(row), row)
	// A commit that is refused leaves no record of the writes that would have held.
	if err := tryCommit(s, name, 5, state.Write{Put: taskRow(name, "b")}); err == nil {
		t.Fatal("a commit on the wrong version holds")
	}
	if err := tryCommit(s, name, 0, state.Write{Put: taskRow(name, "b")},
		state.Write{Put: taskRow(name, "a")}); err == nil {
		t.Fatal("a commit with a condition that does not hold holds")
	}
	mustCommit(t, s, name, state.NoVersion, state.Write{Delete: &absent})
	putLastRow(t, s, name)
	expectRecords(t, s, name, insertRecord(row), insertRecord(metaRow(name, 0)),
		insertRecord(&state.Checkpoint{Head: rowHead(name, 1)}))
}

// testCommitRecords: a commit leaves one record for each row that it changes, the meta row
// included.
func testCommitRecords(t *testing.T, s StreamState) {
	name := uniqueCluster()
	mustPut(t, s, metaRow(name, 0))
	before := map[state.Key]state.Row{}
	writes, after := writesOfEveryKind(t, s, name)
	for key := range after {
		before[key] = mustGet(t, s, key)
	}
	mustCommit(t, s, name, 0, writes...)
	moved := metaRow(name, 1)
	moved.Rev = 2
	// Records of one row are compared in order, so those of its creation come first.
	want := []state.Record{insertRecord(metaRow(name, 0)), modifyRecord(metaRow(name, 0), moved)}
	for key, row := range after {
		old := before[key]
		if old != nil {
			want = append(want, insertRecord(old))
		}
		switch {
		case old == nil:
			want = append(want, insertRecord(row))
		case row == nil:
			want = append(want, removeRecord(old))
		default:
			want = append(want, modifyRecord(old, row))
		}
	}
	expectRecords(t, s, name, want...)
}

// testEveryKindOfRowInStream: each kind of row can be read back from its record.
func testEveryKindOfRowInStream(t *testing.T, s StreamState) {
	name := uniqueCluster()
	rows := []state.Row{
		metaRow(name, 3), instanceRow(name, "i", 1), taskRow(name, "a"),
		&cluster.Service{
			Head:            rowHead(name, 1),
			ServiceIdentity: cluster.ServiceIdentity{Name: "s"},
			ServiceSpec:     cluster.ServiceSpec{Tags: map[string]string{"k": "ü"}},
			ServiceStatus:   cluster.ServiceStatus{Blocked: &cluster.Diagnosis{Evaluated: 3}},
		},
		&cluster.TaskDefinition{Head: rowHead(name, 1), Family: "web", Revision: 1,
			Ports: []cluster.Port{{Number: 80, Protocol: cluster.TCP}}},
		&state.Outbox{Head: rowHead(name, 1), ID: "o", CreatedAt: t0,
			Stops:   []state.StopItem{{Owner: owner, ID: "x", Drain: true}},
			Targets: []state.TargetItem{{Owner: owner, ID: "x"}}},
		&cluster.Target{Head: rowHead(name, 1), Task: "x", Owner: owner,
			Registrations: []cluster.Registration{{ARN: "arn", Address: "i-1", Port: 80, Health: cluster.Unhealthy,
				DrainedAt: t0}}},
		&cluster.Throttle{Head: rowHead(name, 1), Owner: owner,
			Revisions: map[string]cluster.Backoff{"ecs-svc/1": {Step: 2, NextAttemptAt: t0}}},
		&cluster.AlarmWatch{Head: rowHead(name, 1), Owner: owner, Deployment: "ecs-svc/1", InAlarm: []string{"errors"},
			Bake: time.Minute},
		&cluster.Protection{Head: rowHead(name, 1), Task: "x", Owner: owner, Until: t0},
		&cluster.ServiceRevision{Head: rowHead(name, 1), Short: owner,
			Revision: cluster.Revision{ID: "ecs-svc/1", CreatedAt: t0}},
		&cluster.ServiceDeployment{Head: rowHead(name, 1), Short: owner,
			Release: cluster.Release{ID: "d", CreatedAt: t0, UpdatedAt: t0, Status: cluster.DeploymentPending}},
		&state.Request{Head: rowHead(name, 1), ID: "r", Kind: cluster.RunTask, CreatedAt: t0, Count: 2, Wait: true},
		&state.Due{Head: rowHead(name, 1), At: t0, Kind: state.DueService, Subject: "s", Generation: 2},
		&cluster.ServiceEvent{Head: rowHead(name, 1), ID: "e", Service: owner, CreatedAt: t0, Message: "\"m\""},
		&state.Alias{Head: rowHead(name, 1), Derived: "d", Owner: owner, ID: "x"},
		&state.Checkpoint{Head: rowHead(name, 1), Environment: "e", Batch: 1 << 60},
	}
	var want []state.Record
	for _, row := range rows {
		mustPut(t, s, asStored(row))
		want = append(want, insertRecord(row))
	}
	expectRecords(t, s, name, want...)
}

// testExpiryLeavesRecords: a row goes in the second in which it expires, with a record as if it
// were deleted. One whose expiry was moved stays.
func testExpiryLeavesRecords(t *testing.T, s StreamState) {
	name := uniqueCluster()
	expires := func(id string, at int64) *cluster.Task {
		return taskRow(name, id, func(t *cluster.Task) { t.Expires = at })
	}
	now := t0.Unix()
	// DynamoDB's time to live is in whole seconds; a row may go once its second has come.
	never, past, due, later := expires("never", 0), expires("past", now-1), expires("due", now), expires("later", now+1)
	mustPut(t, s, never, past, due, later)
	mustPut(t, s, expires("extended", now-1))
	extended := expires("extended", now+10)
	extended.Rev = 2
	mustPut(t, s, extended)
	mustPut(t, s, expires("gone", now-1))
	gone := state.TaskKey(name, owner, "gone")
	mustWrite(t, s, state.Write{Delete: &gone})
	if !s.Expire(t, t0) {
		t.Skip("this state expires rows in its own time")
	}
	want := []state.Record{
		insertRecord(never), insertRecord(past), insertRecord(due), insertRecord(later),
		insertRecord(expires("extended", now-1)),
		modifyRecord(expires("extended", now-1), extended), insertRecord(expires("gone", now-1)),
		removeRecord(expires("gone", now-1)),
		removeRecord(past), removeRecord(due),
	}
	expectRecords(t, s, name, want...)
	expectSameRows(t, []state.Row{extended, later, never}, mustList(t, s, state.Prefix(name, "")))
}
