package porttest

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth/shared/cluster"
	"berth/shared/state"
)

// TestStore tests an adapter of [state.Store]. open returns the store for one test. It may be the
// same store for all, because every test uses clusters of its own.
func TestStore(t *testing.T, open func(t *testing.T) state.Store) {
	for _, part := range []struct {
		name string
		test func(t *testing.T, s state.Store)
	}{
		{"PutNeedsNextRevision", testPutNeedsNextRevision},
		{"PutAnyCountsOn", testPutAnyCountsOn},
		{"DeleteIsIdempotent", testDeleteIsIdempotent},
		{"StopNeedsTaskThatMayRun", testStopNeedsTaskThatMayRun},
		{"ClaimTakesNextAttempt", testClaimTakesNextAttempt},
		{"ObserveTakesNewerVersion", testObserveTakesNewerVersion},
		{"TaskWritesRefuseOtherRows", testTaskWritesRefuseOtherRows},
		{"WriteLimits", testWriteLimits},
		{"CommitMakesAllChanges", testCommitMakesAllChanges},
		{"CommitMovesVersion", testCommitMovesVersion},
		{"CommitConflictChangesNothing", testCommitConflictChangesNothing},
		{"CommitLimits", testCommitLimits},
		{"ListReadsRange", testListReadsRange},
		{"ListSelectsTasks", testListSelectsTasks},
		{"VisitReadsWhatListReads", testVisitReadsWhatListReads},
		{"DueByReadsDueRows", testDueByReadsDueRows},
		{"RowsSurviveRoundTrip", testRowsSurviveRoundTrip},
		{"UnusualKeys", testUnusualKeys},
		{"SharesNoMemory", testStoreSharesNoMemory},
		{"MatchesModel", testStoreMatchesModel},
		{"ConcurrentWriters", testConcurrentWriters},
		{"CanceledContextIsRefused", testCanceledContextIsRefused},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, open(t)) })
	}
}

// testCanceledContextIsRefused expects an error of every call, and no change: a function whose time
// is up must not go on writing.
func testCanceledContextIsRefused(t *testing.T, s state.Store) {
	name := uniqueCluster()
	mustPut(t, s, metaRow(name, 0))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, writeErr := s.Write(ctx, state.Write{Put: taskRow(name, "a")})
	_, getErr := s.Get(ctx, state.KeyOf(metaRow(name, 0)))
	_, listErr := s.List(ctx, state.Prefix(name, ""))
	visitErr := s.Visit(ctx, state.Prefix(name, ""), func(state.Row) error { return nil })
	commitErr := s.Commit(ctx, state.Commit{Cluster: name, Writes: []state.Write{{Put: taskRow(name, "b")}}})
	for what, err := range map[string]error{"Write": writeErr, "Get": getErr, "List": listErr, "Visit": visitErr,
		"Commit": commitErr} {
		if err == nil {
			t.Errorf("%s succeeds on a canceled context", what)
		}
	}
	if rows := mustList(t, s, state.Prefix(name, "")); len(rows) != 1 {
		t.Errorf("%d rows, want only the one written before", len(rows))
	}
}

// testStoreSharesNoMemory changes rows that were given to the store or came from it, and expects
// what is stored to be unaffected. A store in memory is where this goes wrong: a handler that
// completes a row it has read would change what others read.
func testStoreSharesNoMemory(t *testing.T, s state.Store) {
	name := uniqueCluster()
	made := func() *cluster.Task {
		code := 1
		return taskRow(name, "a", func(t *cluster.Task) {
			t.Tags, t.GPUs, t.ExitCode = map[string]string{"k": "v"}, []int{1, 2}, &code
			t.Overrides = &cluster.Overrides{Containers: []cluster.ContainerOverride{{Name: "c",
				Command: []string{"x"}}}}
		})
	}
	spoil := func(row state.Row) {
		t := row.(*cluster.Task)
		t.Rev, t.Reason, t.Tags["k"], t.GPUs[0], *t.ExitCode = 99, "spoilt", "spoilt", 99, 99
		t.Overrides.Containers[0].Command[0], t.Overrides.CPU = "spoilt", "spoilt"
	}
	key := state.KeyOf(made())
	holds := func(what string, rev int64) {
		t.Helper()
		want := made()
		want.Rev = rev
		if diff := cmp.Diff(encodedText(want), encodedText(mustGet(t, s, key))); diff != "" {
			t.Fatalf("after changing %s (-want +got):\n%s", what, diff)
		}
	}
	given := made()
	mustPut(t, s, given)
	spoil(given)
	holds("the row given to Put", 1)
	spoil(mustGet(t, s, key))
	holds("the row from Get", 1)
	spoil(mustList(t, s, state.Prefix(name, ""))[0])
	holds("the row from List", 1)
	if row, err := s.Peek(context.Background(), key); err == nil && row != nil {
		spoil(row)
	}
	holds("the row from Peek", 1)
	_, err := s.Write(context.Background(), state.Write{Put: made()})
	spoil(rowInConflict(err))
	holds("the row of a conflict", 1)
	given = made()
	given.Rev = 2
	mustCommit(t, s, name, state.NoVersion, state.Write{Put: given}, state.Write{Put: taskRow(name, "b")})
	spoil(given)
	holds("the row given to Commit", 2)
	code := 5
	o := &state.Observation{Task: key, Version: 1, Last: cluster.TaskStopped, ExitCode: &code}
	spoil(mustWrite(t, s, state.Write{Observe: o}))
	code = 6
	if got := mustGet(t, s, key).(*cluster.Task); *got.ExitCode != 5 || got.Tags["k"] != "v" || got.GPUs[0] != 1 {
		t.Errorf("after changing the row of an observation: %s", encodedText(got))
	}
}
