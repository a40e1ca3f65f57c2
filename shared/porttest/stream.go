package porttest

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth/shared/cluster"
	"berth/shared/state"
)

// StreamState is a state whose stream can be read.
type StreamState interface {
	state.Store
	// Records are the first n stream records of a cluster, waited for where they take time; the
	// test fails where they do not come.
	Records(t *testing.T, clusterName string, n int) []state.Record
	// Expire deletes what has expired by now, and reports false where it cannot be made to.
	Expire(t *testing.T, now time.Time) bool
}

// Stream tests the records that an adapter's changes leave. open is as in [State].
func Stream(t *testing.T, open func(t *testing.T) StreamState) {
	for _, part := range []struct {
		name string
		test func(t *testing.T, s StreamState)
	}{
		{"OldAndNewRows", testImages},
		{"OrderOfOneRow", testOrder},
		{"NothingWithoutChange", testSilence},
		{"Commit", testCommitRecords},
		{"EveryKindOfRow", testKindsInStream},
		{"Expiry", testExpiry},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, open(t)) })
	}
}

// last is a row whose record is the last of a test's cluster: what has not come before it does not
// come.
func last(t *testing.T, s StreamState, name string) {
	t.Helper()
	put(t, s, &state.Checkpoint{Head: head(name, 1)})
}

// expectRecords compares the records of one cluster, in order per row; rows are read in any order.
func expectRecords(t *testing.T, s StreamState, name string, want ...state.Record) []state.Record {
	t.Helper()
	got := s.Records(t, name, len(want))
	if diff := cmp.Diff(describe(want), describe(got)); diff != "" {
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

func describe(records []state.Record) map[string][]string {
	out := map[string][]string{}
	for _, r := range records {
		out[r.Key.Sort] = append(out[r.Key.Sort], string(r.Op)+"\nold "+text(r.Old)+"\nnew "+text(r.New))
	}
	return out
}

func inserted(row state.Row) state.Record {
	return state.Record{Op: state.Insert, Key: state.KeyOf(row), New: row}
}

func modified(old, next state.Row) state.Record {
	return state.Record{Op: state.Modify, Key: state.KeyOf(old), Old: old, New: next}
}

func removed(row state.Row) state.Record {
	return state.Record{Op: state.Remove, Key: state.KeyOf(row), Old: row}
}

func testImages(t *testing.T, s StreamState) {
	name := unique()
	one := task(name, "a")
	key := state.KeyOf(one)
	put(t, s, one)
	two := write(t, s, state.Write{Claim: &state.Claim{Task: key, Attempt: 1, At: t0}})
	three := write(t, s, state.Write{Observe: &state.Observation{Task: key, Version: 1, ECSID: "e",
		Last: cluster.TaskRunning, Started: t0}})
	four := write(t, s, state.Write{Stop: &state.Stop{Task: key, Code: "C", Reason: "R"}})
	five := task(name, "a", rev(5))
	put(t, s, five)
	six := task(name, "a", rev(6)) // says the same
	write(t, s, state.Write{Put: task(name, "a", rev(0)), Any: true})
	write(t, s, state.Write{Delete: &key})
	put(t, s, one)
	expectRecords(t, s, name, inserted(one), modified(one, two), modified(two, three), modified(three, four),
		modified(four, five), modified(five, six), removed(six), inserted(one))
}

func testOrder(t *testing.T, s StreamState) {
	name := unique()
	var want []state.Record
	for _, id := range []string{"a", "b", "c"} {
		want = append(want, inserted(instance(name, id, 1)))
	}
	for rev := int64(2); rev <= 20; rev++ {
		for _, id := range []string{"a", "b", "c"} {
			want = append(want, modified(instance(name, id, rev-1), instance(name, id, rev)))
		}
	}
	for _, r := range want {
		put(t, s, stored(r.New))
	}
	expectRecords(t, s, name, want...)
}

func testSilence(t *testing.T, s StreamState) {
	name := unique()
	row, absent := task(name, "a"), state.TaskKey(name, owner, "absent")
	put(t, s, row, meta(name, 0))
	write(t, s, state.Write{Delete: &absent})
	_, err := s.Write(context.Background(), state.Write{Put: task(name, "a",
		func(t *cluster.Task) { t.Reason = "refused" })})
	refused(t, err, state.KeyOf(row), row)
	if err := try(s, name, 5, state.Write{Put: task(name, "b")}); err == nil {
		t.Fatal("a commit on the wrong version holds")
	}
	if err := try(s, name, 0, state.Write{Put: task(name, "b")}, state.Write{Put: task(name, "a")}); err == nil {
		t.Fatal("a commit with a condition that does not hold holds")
	}
	commit(t, s, name, state.NoVersion, state.Write{Delete: &absent})
	last(t, s, name)
	expectRecords(t, s, name, inserted(row), inserted(meta(name, 0)), inserted(&state.Checkpoint{Head: head(name, 1)}))
}

func testCommitRecords(t *testing.T, s StreamState) {
	name := unique()
	put(t, s, meta(name, 0))
	before := map[state.Key]state.Row{}
	writes, after := everyKind(t, s, name)
	for key := range after {
		before[key] = get(t, s, key)
	}
	commit(t, s, name, 0, writes...)
	moved := meta(name, 1)
	moved.Rev = 2
	want := []state.Record{inserted(meta(name, 0)), modified(meta(name, 0), moved)}
	for key, row := range after {
		old := before[key]
		if old != nil {
			want = append(want, inserted(old))
		}
		switch {
		case old == nil:
			want = append(want, inserted(row))
		case row == nil:
			want = append(want, removed(old))
		default:
			want = append(want, modified(old, row))
		}
	}
	expectRecords(t, s, name, want...)
}

func testKindsInStream(t *testing.T, s StreamState) {
	name := unique()
	rows := []state.Row{
		meta(name, 3), instance(name, "i", 1), task(name, "a"),
		&cluster.Service{
			Head:            head(name, 1),
			ServiceIdentity: cluster.ServiceIdentity{Name: "s"},
			ServiceSpec:     cluster.ServiceSpec{Tags: map[string]string{"k": "ü"}},
			ServiceStatus:   cluster.ServiceStatus{Blocked: &cluster.Diagnosis{Evaluated: 3}},
		},
		&cluster.TaskDefinition{Head: head(name, 1), Family: "web", Revision: 1,
			Ports: []cluster.Port{{Number: 80, Protocol: cluster.TCP}}},
		&state.Outbox{Head: head(name, 1), ID: "o", CreatedAt: t0,
			Stops:   []state.StopItem{{Owner: owner, ID: "x", Drain: true}},
			Targets: []state.TargetItem{{Owner: owner, ID: "x"}}},
		&cluster.Target{Head: head(name, 1), Task: "x", Owner: owner,
			Registrations: []cluster.Registration{{ARN: "arn", Address: "i-1", Port: 80, Health: cluster.Unhealthy,
				DrainedAt: t0}}},
		&cluster.Throttle{Head: head(name, 1), Owner: owner,
			Revisions: map[string]cluster.Backoff{"ecs-svc/1": {Step: 2, NextAttemptAt: t0}}},
		&cluster.AlarmWatch{Head: head(name, 1), Owner: owner, Deployment: "ecs-svc/1", InAlarm: []string{"errors"},
			Bake: time.Minute},
		&cluster.Protection{Head: head(name, 1), Task: "x", Owner: owner, Until: t0},
		&cluster.ServiceRevision{Head: head(name, 1), Short: owner,
			Revision: cluster.Revision{ID: "ecs-svc/1", CreatedAt: t0}},
		&cluster.ServiceDeployment{Head: head(name, 1), Short: owner,
			Release: cluster.Release{ID: "d", CreatedAt: t0, UpdatedAt: t0, Status: cluster.DeploymentPending}},
		&state.Request{Head: head(name, 1), ID: "r", Kind: cluster.RunTask, CreatedAt: t0, Count: 2, Wait: true},
		&state.Due{Head: head(name, 1), At: t0, Kind: state.DueService, Subject: "s", Generation: 2},
		&cluster.ServiceEvent{Head: head(name, 1), ID: "e", Service: owner, CreatedAt: t0, Message: "\"m\""},
		&state.Alias{Head: head(name, 1), Derived: "d", Owner: owner, ID: "x"},
		&state.Checkpoint{Head: head(name, 1), Environment: "e", Batch: 1 << 60},
	}
	var want []state.Record
	for _, row := range rows {
		put(t, s, stored(row))
		want = append(want, inserted(row))
	}
	expectRecords(t, s, name, want...)
}

func testExpiry(t *testing.T, s StreamState) {
	name := unique()
	expires := func(id string, at int64) *cluster.Task {
		return task(name, id, func(t *cluster.Task) { t.Expires = at })
	}
	now := t0.Unix()
	never, past, due, later := expires("never", 0), expires("past", now-1), expires("due", now), expires("later", now+1)
	put(t, s, never, past, due, later)
	put(t, s, expires("extended", now-1))
	extended := expires("extended", now+10)
	extended.Rev = 2
	put(t, s, extended)
	put(t, s, expires("gone", now-1))
	gone := state.TaskKey(name, owner, "gone")
	write(t, s, state.Write{Delete: &gone})
	if !s.Expire(t, t0) {
		t.Skip("this state expires rows in its own time")
	}
	want := []state.Record{
		inserted(never), inserted(past), inserted(due), inserted(later), inserted(expires("extended", now-1)),
		modified(expires("extended", now-1), extended), inserted(expires("gone", now-1)),
		removed(expires("gone", now-1)),
		removed(past), removed(due),
	}
	expectRecords(t, s, name, want...)
	sameRows(t, []state.Row{extended, later, never}, list(t, s, state.Prefix(name, "")))
}
