package porttest

import (
	"context"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// expectWrite stores old (nil leaves the row absent), makes the write, and expects the row after,
// in the answer and in the store. If after is nil it expects a conflict that reports old, and old
// to be unchanged.
func expectWrite(t *testing.T, s state.Store, old, after state.Row, w state.Write) {
	t.Helper()
	if old != nil {
		mustPut(t, s, old)
	}
	row, err := s.Write(context.Background(), w)
	if after == nil {
		expectConflict(t, err, w.Key(), old)
		after = old
	} else if err != nil {
		t.Fatalf("Write: %v", err)
	} else {
		expectSameRow(t, "the row returned", after, row)
	}
	expectSameRow(t, "the row stored", after, mustGet(t, s, w.Key()))
}

// testPutNeedsNextRevision: a put holds only if the row's revision is the next one, so that no
// writer overwrites what he has not read.
func testPutNeedsNextRevision(t *testing.T, s state.Store) {
	with := func(name string, rev int64, zone string) *cluster.Instance {
		i := instanceRow(name, "i", rev)
		i.Attributes = map[string]string{cluster.AttributeZone: zone}
		return i
	}
	for _, c := range []struct {
		name     string
		old, new int64 // revisions, 0 for an absent row
		holds    bool
	}{
		{"Creates", 0, 1, true},
		{"Replaces", 1, 2, true},
		{"RefusesToCreateTwice", 1, 1, false},
		// Two writers that have read the same revision: the second one comes too late.
		{"RefusesStale", 3, 3, false},
		{"RefusesOlder", 3, 2, false},
		// A revision that no caller can have read is a bug of the caller.
		{"RefusesToSkip", 1, 3, false},
		{"RefusesToReplaceNothing", 0, 2, false},
		// 0 is what a row has that was never put: it must not pass for a revision.
		{"RefusesRevisionZero", 0, 0, false},
		{"RefusesRevisionZeroOverARow", 1, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := uniqueCluster()
			var old, after state.Row
			for rev := int64(1); rev < c.old; rev++ {
				mustPut(t, s, with(name, rev, "earlier"))
			}
			if c.old > 0 {
				old = with(name, c.old, "old")
			}
			w := state.Write{Put: with(name, c.new, "new")}
			if c.holds {
				after = with(name, c.new, "new")
			}
			expectWrite(t, s, old, after, w)
		})
	}
	// A put replaces the row: attributes that the new one does not have must go.
	t.Run("LeavesNothingOfTheOldRow", func(t *testing.T) {
		name := uniqueCluster()
		full := taskRow(name, "a", func(t *cluster.Task) {
			t.Reason, t.Attempt, t.Tags = "r", 3,
				map[string]string{"k": "v"}
		})
		expectWrite(t, s, full, taskRow(name, "a", withRevision(2)),
			state.Write{Put: taskRow(name, "a", withRevision(2))})
	})
}

// testPutAnyCountsOn: a put of any revision always holds. The store counts the revision on, so that
// a conditional put can follow it.
func testPutAnyCountsOn(t *testing.T, s state.Store) {
	t.Run("Creates", func(t *testing.T) {
		name := uniqueCluster()
		expectWrite(t, s, nil, taskRow(name, "a", withRevision(1)),
			state.Write{Put: taskRow(name, "a", withRevision(0)), Any: true})
	})
	t.Run("Replaces", func(t *testing.T) {
		name := uniqueCluster()
		mustPut(t, s, taskRow(name, "a", withRevision(1)))
		old := taskRow(name, "a", withRevision(2), func(t *cluster.Task) { t.Reason, t.Attempt = "r", 3 })
		next := taskRow(name, "a", func(t *cluster.Task) { t.Tags = map[string]string{"k": "v"} })
		after := *next
		after.Rev = 3
		expectWrite(t, s, old, &after, state.Write{Put: next, Any: true})
	})
	// The writer need not know the row, so its revision is ignored.
	t.Run("CountsOnFromTheRowWhateverItSays", func(t *testing.T) {
		name := uniqueCluster()
		expectWrite(t, s, taskRow(name, "a"), taskRow(name, "a", withRevision(2)),
			state.Write{Put: taskRow(name, "a", withRevision(99)), Any: true})
	})
	// The answer has the revision that the next writer needs.
	t.Run("IsFollowedByAPlainPut", func(t *testing.T) {
		name := uniqueCluster()
		row := mustWrite(t, s, state.Write{Put: taskRow(name, "a", withRevision(0)), Any: true})
		mustPut(t, s, taskRow(name, "a", withRevision(row.Header().Rev+1)))
	})
}

// testDeleteIsIdempotent: deleting a row that is not there succeeds. With a revision only that
// revision is deleted.
func testDeleteIsIdempotent(t *testing.T, s state.Store) {
	name := uniqueCluster()
	row := taskRow(name, "a")
	key := state.KeyOf(row)
	mustPut(t, s, row, taskRow(name, "b"))
	for _, step := range []string{"a row", "an absent row"} {
		if got := mustWrite(t, s, state.Write{Delete: &key}); got != nil {
			t.Errorf("deleting %s returns %v, want nil", step, got)
		}
		if got := mustGet(t, s, key); got != nil {
			t.Errorf("after deleting %s there is %v", step, got)
		}
	}
	if got := mustList(t, s, state.Prefix(name, "")); len(got) != 1 {
		t.Errorf("%d rows are left, want 1", len(got))
	}
	// Revisions are a row's own. What must survive a deletion needs a generation in the key.
	t.Run("ARowCreatedAgainCountsFromOne", func(t *testing.T) { mustPut(t, s, taskRow(name, "a")) })
	// Deleting a row only as it was read: what another writer has put meanwhile must stay.
	t.Run("OfOneRevision", func(t *testing.T) {
		row := taskRow(uniqueCluster(), "a")
		key := state.KeyOf(row)
		w := state.Write{Delete: &key, Rev: 1}
		expectWrite(t, s, nil, nil, w)
		mustPut(t, s, row, taskRow(row.Cluster, "a", withRevision(2)))
		_, err := s.Write(t.Context(), w)
		expectConflict(t, err, key, taskRow(row.Cluster, "a", withRevision(2)))
		w.Rev = 2
		mustWrite(t, s, w)
		if got := mustGet(t, s, key); got != nil {
			t.Errorf("after deleting revision 2 there is %v", got)
		}
	})
}

// taskCase is a write that changes a part of a task, on one state of the task.
type taskCase struct {
	name  string
	old   func(*cluster.Task) // nil: the row is absent
	after func(*cluster.Task) // what the write changes besides Rev; nil: it is refused
}

// unchanged is the edit of a task row as [taskRow] makes it.
func unchanged(*cluster.Task) {}

// runTaskCases makes the write that w returns, on each case's row.
func runTaskCases(t *testing.T, s state.Store, cases []taskCase, w func(key state.Key, name string) state.Write) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			name := uniqueCluster()
			key := state.TaskKey(name, owner, "a")
			var old, after state.Row
			if c.old != nil {
				old = taskRow(name, "a", c.old)
			}
			if c.after != nil {
				after = taskRow(name, "a", c.old, withRevision(2), c.after)
			}
			expectWrite(t, s, old, after, w(key, c.name))
		})
	}
}

// testStopNeedsTaskThatMayRun: a task is stopped once, with one reason, and not after ECS has
// reported it STOPPED.
func testStopNeedsTaskThatMayRun(t *testing.T, s state.Store) {
	stopped := func(t *cluster.Task) { t.Desired, t.StopCode, t.Reason = cluster.TaskStopped, "C", "R" }
	runTaskCases(t, s, []taskCase{
		{"NeverStarted", unchanged, stopped},
		{"Running", func(t *cluster.Task) { t.Last, t.Version, t.ECSID = cluster.TaskRunning, 4, "e" }, stopped},
		{"Pending", func(t *cluster.Task) { t.Last = cluster.TaskPending }, stopped},
		{"ReplacesReason", func(t *cluster.Task) { t.StopCode, t.Reason = "old", "old" }, stopped},
		{"RefusesAbsent", nil, nil},
		// The first decision to stop a task gives the reason.
		{"RefusesTwice", func(t *cluster.Task) { t.Desired, t.Reason = cluster.TaskStopped, "first" }, nil},
		{"RefusesStopped", func(t *cluster.Task) { t.Last = cluster.TaskStopped }, nil},
	}, func(key state.Key, _ string) state.Write {
		return state.Write{Stop: &state.Stop{Task: key, Code: "C", Reason: "R"}}
	})
	// The reason belongs to the stop, so an older one must not remain.
	t.Run("WithoutReasonClearsIt", func(t *testing.T) {
		name := uniqueCluster()
		old := taskRow(name, "a", func(t *cluster.Task) { t.StopCode, t.Reason = "old", "old" })
		after := taskRow(name, "a", withRevision(2), func(t *cluster.Task) { t.Desired = cluster.TaskStopped })
		expectWrite(t, s, old, after, state.Write{Stop: &state.Stop{Task: state.KeyOf(old)}})
	})
}

// testClaimTakesNextAttempt: of two dispatches that would start the same task, one gets the claim.
// A second attempt takes over from the first, and none is skipped.
func testClaimTakesNextAttempt(t *testing.T, s state.Store) {
	for _, n := range []int32{1, 2} {
		claimed := func(t *cluster.Task) { t.Attempt, t.ClaimedAt = n, cluster.At(t0) }
		at := func(attempt int32, edits ...func(*cluster.Task)) func(*cluster.Task) {
			return func(t *cluster.Task) {
				if t.Attempt = attempt; attempt > 0 {
					t.ClaimedAt = cluster.At(t0.Add(-time.Minute))
				}
				for _, edit := range edits {
					edit(t)
				}
			}
		}
		t.Run([]string{"First", "Second"}[n-1], func(t *testing.T) {
			runTaskCases(t, s, []taskCase{
				{"Holds", at(n - 1), claimed},
				{"RefusesAbsent", nil, nil},
				{"RefusesTwice", at(n), nil},
				{"RefusesEarlier", at(n + 1), nil},
				// A task that was stopped or has been reported needs no start.
				{"RefusesWhatShallStop", at(n-1, func(t *cluster.Task) { t.Desired = cluster.TaskStopped }), nil},
				{"RefusesRunning", at(n-1, func(t *cluster.Task) { t.Last = cluster.TaskRunning }), nil},
				{"RefusesStopped", at(n-1, func(t *cluster.Task) { t.Last = cluster.TaskStopped }), nil},
			}, func(key state.Key, _ string) state.Write {
				return state.Write{Claim: &state.Claim{Task: key, Attempt: n, At: t0}}
			})
		})
	}
	// Attempt 2 takes over from attempt 1, which must have been made.
	t.Run("RefusesToSkip", func(t *testing.T) {
		old := taskRow(uniqueCluster(), "a")
		expectWrite(t, s, old, nil, state.Write{Claim: &state.Claim{Task: state.KeyOf(old), Attempt: 2, At: t0}})
	})
}

// testObserveTakesNewerVersion: reports come twice, late and out of order. Only a newer version of
// the same ECS task changes the row, or the same version with another health, and nothing does after STOPPED.
func testObserveTakesNewerVersion(t *testing.T, s state.Store) {
	t.Run("Running", func(t *testing.T) { testObserveRunning(t, s) })
	t.Run("Stopped", func(t *testing.T) { testObserveStopped(t, s) })
}

// testObserveRunning: a report of a task that has not stopped changes version, status, health, id
// and start, and nothing that only a stopped task has.
func testObserveRunning(t *testing.T, s state.Store) {
	started := t0.Add(time.Second)
	running := func(t *cluster.Task) {
		t.Version, t.ECSID, t.Last, t.Health, t.Started = 5, "e", cluster.TaskRunning, cluster.Healthy,
			cluster.At(started)
	}
	ecs := func(version int64, id string) func(*cluster.Task) {
		return func(t *cluster.Task) { t.Version, t.ECSID = version, id }
	}
	runTaskCases(t, s, []taskCase{
		{"First", unchanged, running},
		{"Newer", ecs(4, "e"), running},
		// The event may come before the answer of StartTask, which has the id.
		{"RowWithoutID", ecs(4, ""), running},
		{"OfATaskThatShallStop", func(t *cluster.Task) { t.Desired = cluster.TaskStopped }, running},
		{"RefusesAbsent", nil, nil},
		// ECS counts no version for a change of health.
		{"AnotherHealth", func(t *cluster.Task) { running(t); t.Health = cluster.Unhealthy }, running},
		{"FirstHealth", func(t *cluster.Task) { running(t); t.Health = cluster.UnknownHealth }, running},
		{"RefusesDuplicate", running, nil},
		{"RefusesStale", ecs(6, "e"), nil},
		// After a StartTask of unknown outcome two ECS tasks can have the same startedBy.
		{"RefusesOtherTask", ecs(4, "other"), nil},
		{"RefusesStopped", func(t *cluster.Task) { t.Last, t.Version = cluster.TaskStopped, 4 }, nil},
	}, func(key state.Key, _ string) state.Write {
		return state.Write{Observe: &state.Observation{
			Task: key, Version: 5, ECSID: "e", Last: cluster.TaskRunning, Health: cluster.Healthy, Started: started,
			// What only a stopped task has is left out.
			Stopped: t0.Add(time.Hour), StopCode: "C", Reason: "R", ExitCode: new(int),
		}}
	})
	// A later report may leave out what an earlier one had.
	t.Run("WithoutIDStartOrHealthKeepsThem", func(t *testing.T) {
		name := uniqueCluster()
		old := taskRow(name, "a", running, func(t *cluster.Task) { t.Expires = 7_000_000_000 })
		after := taskRow(name, "a", running, withRevision(2), func(t *cluster.Task) {
			t.Version, t.Expires = 6, 7_000_000_000
		})
		expectWrite(t, s, old, after, state.Write{Observe: &state.Observation{Task: state.KeyOf(old), Version: 6,
			Last: cluster.TaskRunning}})
	})
}

// testObserveStopped: the report of the end is the last one. The reason for which Berth stopped the
// task wins over ECS's.
func testObserveStopped(t *testing.T, s state.Store) {
	ended, code := t0.Add(time.Hour), 137
	stopped := func(t *cluster.Task) {
		t.Version, t.ECSID, t.Last, t.Stopped, t.Expires = 5, "e", cluster.TaskStopped, cluster.At(ended), 7_000_000_000
		t.ExitCode, t.Health = &code, cluster.UnknownHealth
	}
	theirs := func(t *cluster.Task) { stopped(t); t.StopCode, t.Reason = "C", "R" }
	runTaskCases(t, s, []taskCase{
		{"NeverRan", unchanged, theirs},
		{"Ran", func(t *cluster.Task) {
			t.Version, t.Last, t.Started, t.Health = 4, cluster.TaskRunning, cluster.At(t0), cluster.Healthy
		}, theirs},
		// ECS reports "Task stopped by user" for what Berth has stopped.
		{"KeepsBerthsReason", func(t *cluster.Task) {
			t.Desired, t.StopCode, t.Reason = cluster.TaskStopped, "mine",
				"mine"
		}, stopped},
		{"KeepsACodeAlone", func(t *cluster.Task) { t.StopCode = "mine" },
			func(t *cluster.Task) { stopped(t); t.Reason = "R" }},
		{"RefusesTwice", func(t *cluster.Task) { t.Last, t.Version = cluster.TaskStopped, 4 }, nil},
		{"RefusesStale", func(t *cluster.Task) { t.Last, t.Version = cluster.TaskRunning, 9 }, nil},
	}, func(key state.Key, _ string) state.Write {
		return state.Write{Observe: &state.Observation{
			Task: key, Version: 5, ECSID: "e", Last: cluster.TaskStopped, Stopped: ended, StopCode: "C", Reason: "R",
			ExitCode: &code, Expires: 7_000_000_000,
		}}
	})
	// Nothing follows STOPPED, not even a newer version.
	t.Run("InTurn", func(t *testing.T) {
		name := uniqueCluster()
		mustPut(t, s, taskRow(name, "a"))
		key := state.TaskKey(name, owner, "a")
		observe := func(version int64, last cluster.TaskStatus) state.Write {
			return state.Write{Observe: &state.Observation{Task: key, Version: version, ECSID: "e", Last: last}}
		}
		mustWrite(t, s, observe(2, cluster.TaskRunning))
		held := mustWrite(t, s, observe(3, cluster.TaskStopped))
		for _, version := range []int64{2, 3, 4} {
			_, err := s.Write(context.Background(), observe(version, cluster.TaskRunning))
			expectConflict(t, err, key, held)
		}
	})
}

// testTaskWritesRefuseOtherRows makes the writes that concern tasks on rows of other kinds, which
// use the same short attribute names for other things.
func testTaskWritesRefuseOtherRows(t *testing.T, s state.Store) {
	name := uniqueCluster()
	service := &cluster.Service{
		Head:            rowHead(name, 1),
		ServiceIdentity: cluster.ServiceIdentity{Name: "s", CreatedAt: t0},
		ServiceStatus:   cluster.ServiceStatus{Status: cluster.ServiceActive},
	}
	row := instanceRow(name, "i", 1)
	mustPut(t, s, row, service)
	for _, row := range []state.Row{row, service} {
		for _, w := range []state.Write{
			{Stop: &state.Stop{Task: state.KeyOf(row)}},
			{Claim: &state.Claim{Task: state.KeyOf(row), Attempt: 1, At: t0}},
			{Observe: &state.Observation{Task: state.KeyOf(row), Version: 9, Last: cluster.TaskRunning}},
		} {
			_, err := s.Write(context.Background(), w)
			expectConflict(t, err, state.KeyOf(row), row)
		}
	}
}

// testWriteLimits: a single write is invalid if it changes nothing, has no cluster, or makes a row
// of more than 400 KB, which is DynamoDB's limit of an item.
func testWriteLimits(t *testing.T, s state.Store) {
	name := uniqueCluster()
	try := func(w state.Write) error {
		_, err := s.Write(context.Background(), w)
		return err
	}
	t.Run("SaysNothing", func(t *testing.T) { expectInvalid(t, try(state.Write{})) })
	t.Run("NoCluster", func(t *testing.T) { expectInvalid(t, try(state.Write{Put: instanceRow("", "i", 1)})) })
	t.Run("TooBig", func(t *testing.T) {
		row := taskRow(name, "big", func(t *cluster.Task) { t.Reason = strings.Repeat("x", 401<<10) })
		expectInvalid(t, try(state.Write{Put: row}))
		if got := mustGet(t, s, state.KeyOf(row)); got != nil {
			t.Error("it was stored")
		}
	})
	t.Run("JustSmallEnough", func(t *testing.T) {
		mustPut(t, s, taskRow(name, "big", func(t *cluster.Task) { t.Reason = strings.Repeat("x", 398<<10) }))
	})
	// The limit is one of the row after the write, not of what is written.
	t.Run("GrowsTooBig", func(t *testing.T) {
		key := state.TaskKey(name, owner, "big")
		expectInvalid(t, try(state.Write{Stop: &state.Stop{Task: key, Reason: strings.Repeat("x", 401<<10)}}))
		if got := mustGet(t, s, key); got.Header().Rev != 1 {
			t.Error("it was stored")
		}
	})
}
