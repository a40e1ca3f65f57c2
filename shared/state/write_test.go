package state_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/state"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func edit(t *cluster.Task, change func(*cluster.Task)) *cluster.Task {
	next := *t
	change(&next)
	return &next
}

func TestApplyPut(t *testing.T) {
	for _, c := range []struct {
		name     string
		old      state.Row
		rev      int64
		any      bool
		holds    bool
		revAfter int64
	}{
		{"Creates", nil, 1, false, true, 1},
		{"CreatesOnlyWhatIsAbsent", running("t", "i", 4), 1, false, false, 1},
		{"Replaces", running("t", "i", 4), 5, false, true, 5},
		{"NotAnotherState", running("t", "i", 5), 5, false, false, 5},
		{"NotWhatIsGone", nil, 5, false, false, 5},
		{"AnyCreates", nil, 0, true, true, 1},
		{"AnyReplaces", running("t", "i", 7), 1, true, true, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := state.Write{Put: running("t", "j", c.rev), Any: c.any}
			got, holds := w.Apply(c.old)
			expect(t, "holds", holds, c.holds)
			expect(t, "rev", got.Header().Rev, c.revAfter)
			expect(t, "key", w.Key(), state.KeyOf(running("t", "", 0)))
		})
	}
}

func TestApplyDelete(t *testing.T) {
	key := state.TaskKey("c", "web", "t")
	w := state.Write{Delete: &key}
	for _, old := range []state.Row{nil, running("t", "i", 4)} {
		got, holds := w.Apply(old)
		if got != nil || !holds {
			t.Errorf("deleting %v gives %v, %v", old, got, holds)
		}
	}
	expect(t, "key", w.Key(), key)
	w.Rev = 4
	for old, holds := range map[state.Row]bool{nil: false, running("t", "i", 3): false, running("t", "i", 4): true} {
		_, got := w.Apply(old)
		expect(t, "holds", got, holds)
	}
}

func TestApplyStop(t *testing.T) {
	w := state.Write{Stop: &state.Stop{Task: state.KeyOf(running("t", "", 0)), Code: cluster.StopUserInitiated,
		Reason: "why"}}
	old := running("t", "i", 4)
	got, holds := w.Apply(old)
	want := edit(old, func(t *cluster.Task) {
		t.Rev, t.Desired, t.StopCode, t.Reason = 5, cluster.TaskStopped, cluster.StopUserInitiated, "why"
	})
	if diff := cmp.Diff(want, got); diff != "" || !holds {
		t.Errorf("%v\n%s", holds, diff)
	}
	expect(t, "the old row's rev", old.Rev, 4)
	refuses(t, w, map[string]state.Row{
		"absent":          nil,
		"of another kind": &cluster.Service{},
		"stopping":        edit(old, func(t *cluster.Task) { t.Desired = cluster.TaskStopped }),
		"stopped":         edit(old, func(t *cluster.Task) { t.Last = cluster.TaskStopped }),
	})
}

func TestApplyClaim(t *testing.T) {
	old := edit(running("t", "i", 4), func(t *cluster.Task) { t.Last, t.Attempt = "", 1 })
	w := state.Write{Claim: &state.Claim{Task: state.KeyOf(old), Attempt: 2, At: noon}}
	got, holds := w.Apply(old)
	want := edit(old, func(t *cluster.Task) { t.Rev, t.Attempt, t.ClaimedAt = 5, 2, cluster.At(noon) })
	if diff := cmp.Diff(want, got); diff != "" || !holds {
		t.Errorf("%v\n%s", holds, diff)
	}
	refuses(t, w, map[string]state.Row{
		"absent":     nil,
		"claimed":    edit(old, func(t *cluster.Task) { t.Attempt = 2 }),
		"never":      edit(old, func(t *cluster.Task) { t.Attempt = 0 }),
		"not wanted": edit(old, func(t *cluster.Task) { t.Desired = cluster.TaskStopped }),
		"running":    edit(old, func(t *cluster.Task) { t.Last = cluster.TaskRunning }),
		"stopped":    edit(old, func(t *cluster.Task) { t.Last = cluster.TaskStopped }),
	})
}

func refuses(t *testing.T, w state.Write, olds map[string]state.Row) {
	t.Helper()
	for name, old := range olds {
		if _, holds := w.Apply(old); holds {
			t.Errorf("holds on a row that is %s", name)
		}
	}
}

func TestApplyObservation(t *testing.T) {
	old := edit(running("t", "i", 4), func(t *cluster.Task) { t.Last, t.Version, t.ECSID = "", 3, "e" })
	code := 137
	see := func(o state.Observation) state.Write {
		o.Task = state.KeyOf(old)
		return state.Write{Observe: &o}
	}
	t.Run("Running", func(t *testing.T) {
		w := see(state.Observation{Version: 4, ECSID: "e", Last: cluster.TaskRunning, Health: cluster.Healthy,
			Started: noon})
		got, holds := w.Apply(old)
		want := edit(old, func(t *cluster.Task) {
			t.Rev, t.Version, t.Last, t.Health, t.Started = 5, 4, cluster.TaskRunning, cluster.Healthy, cluster.At(noon)
		})
		if diff := cmp.Diff(want, got); diff != "" || !holds {
			t.Errorf("%v\n%s", holds, diff)
		}
		expect(t, "key", w.Key(), state.KeyOf(old))
	})
	t.Run("Stopped", func(t *testing.T) {
		ran := edit(old, func(t *cluster.Task) { t.Started = cluster.At(noon) })
		w := see(state.Observation{Version: 9, Last: cluster.TaskStopped, Stopped: noon.Add(time.Minute),
			StopCode: cluster.StopContainerExited,
			Reason:   "exit", ExitCode: &code, Expires: 77})
		got, holds := w.Apply(ran)
		want := edit(ran, func(t *cluster.Task) {
			t.Rev, t.Version, t.Last, t.Stopped, t.ExitCode, t.Expires = 5, 9, cluster.TaskStopped,
				cluster.At(noon.Add(time.Minute)), &code, 77
			t.StopCode, t.Reason = cluster.StopContainerExited, "exit"
		})
		if diff := cmp.Diff(want, got); diff != "" || !holds {
			t.Errorf("%v\n%s", holds, diff)
		}
	})
	t.Run("KeepsBerthsStopReason", func(t *testing.T) {
		mine := edit(old, func(t *cluster.Task) {
			t.Desired, t.StopCode, t.Reason = cluster.TaskStopped, cluster.StopByScheduler, "mine"
		})
		got, _ := see(state.Observation{Version: 9, Last: cluster.TaskStopped, StopCode: "x",
			Reason: "theirs"}).Apply(mine)
		expect(t, "code", got.(*cluster.Task).StopCode, cluster.StopByScheduler)
		expect(t, "reason", got.(*cluster.Task).Reason, "mine")
	})
	t.Run("StoresTheECSTaskID", func(t *testing.T) {
		fresh := edit(old, func(t *cluster.Task) { t.ECSID = "" })
		got, holds := see(state.Observation{Version: 9, ECSID: "e2", Last: cluster.TaskRunning}).Apply(fresh)
		expect(t, "holds", holds, true)
		expect(t, "ecs id", got.(*cluster.Task).ECSID, "e2")
	})
	for version := range int64(4) {
		refuses(t, see(state.Observation{Version: version, ECSID: "e", Last: cluster.TaskRunning}),
			map[string]state.Row{
				fmt.Sprintf("at version 3, %d reported", version): old})
	}
	t.Run("HealthHasNoVersion", func(t *testing.T) {
		ill := edit(old, func(t *cluster.Task) { t.Last, t.Health = cluster.TaskRunning, cluster.Unhealthy })
		of := func(version int64, last cluster.TaskStatus, health cluster.Health) state.Write {
			return see(state.Observation{Version: version, ECSID: "e", Last: last, Health: health})
		}
		got, holds := of(3, cluster.TaskRunning, cluster.Healthy).Apply(ill)
		expect(t, "holds", holds, true)
		expect(t, "health", got.(*cluster.Task).Health, cluster.Healthy)
		got, _ = of(4, cluster.TaskRunning, cluster.UnknownHealth).Apply(ill)
		expect(t, "health after a report without one", got.(*cluster.Task).Health, cluster.Unhealthy)
		got, _ = of(4, cluster.TaskStopped, cluster.Healthy).Apply(ill)
		expect(t, "health of a task that has stopped", got.(*cluster.Task).Health, cluster.UnknownHealth)
		for name, w := range map[string]state.Write{
			"the same":              of(3, cluster.TaskRunning, cluster.Unhealthy),
			"none":                  of(3, cluster.TaskRunning, cluster.UnknownHealth),
			"of an earlier version": of(2, cluster.TaskRunning, cluster.Healthy),
			"of another task": see(state.Observation{Version: 3, ECSID: "x", Last: cluster.TaskRunning,
				Health: cluster.Healthy}),
		} {
			refuses(t, w, map[string]state.Row{"UNHEALTHY, reported was " + name: ill})
		}
	})
	t.Run("OfAnAttempt", func(t *testing.T) {
		w := see(state.Observation{Version: 9, Attempt: 2, Last: cluster.TaskStopped, StopCode: cluster.StopRefused})
		_, holds := w.Apply(edit(old, func(t *cluster.Task) { t.Attempt = 2 }))
		expect(t, "holds", holds, true)
		refuses(t, w, map[string]state.Row{"at a later one": edit(old, func(t *cluster.Task) { t.Attempt = 3 })})
	})
	refuses(t, see(state.Observation{Version: 9, ECSID: "other", Last: cluster.TaskRunning}), map[string]state.Row{
		"absent": nil, "another ECS task": old,
		"stopped": edit(old, func(t *cluster.Task) { t.Last, t.ECSID = cluster.TaskStopped, "other" }),
	})
}

// Reports of one ECS task may come late, twice and in any order. The row ends as the newest says,
// and never leaves STOPPED.
func TestNewestObservationWins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		last := rapid.IntRange(1, 5).Draw(t, "reports")
		var reports []state.Observation
		for v := 1; v <= last; v++ {
			o := state.Observation{Version: int64(v), ECSID: "e", Last: cluster.TaskRunning, Started: noon,
				Health: cluster.Health(v % 3)}
			if v == last && rapid.Bool().Draw(t, "stops") {
				o.Last, o.Stopped, o.StopCode = cluster.TaskStopped, noon.Add(time.Minute), cluster.StopContainerExited
			}
			reports = append(reports, o)
		}
		var row state.Row = running("t", "i", 1)
		for _, o := range rapid.Permutation(append(slices.Clone(reports), reports...)).Draw(t, "order") {
			before := row.(*cluster.Task)
			next, holds := state.Write{Observe: &o}.Apply(row)
			if holds {
				row = next
			}
			if before.Last == cluster.TaskStopped && holds {
				t.Fatalf("version %d changed a task that had STOPPED", o.Version)
			}
		}
		got, want := row.(*cluster.Task), reports[last-1]
		if want.Health == cluster.UnknownHealth && want.Last == cluster.TaskRunning {
			want.Health = got.Health // of an earlier one
		}
		if want.Last == cluster.TaskStopped {
			want.Health = cluster.UnknownHealth
		}
		if got.Version != want.Version || got.Last != want.Last || got.Health != want.Health ||
			got.Started != cluster.At(noon) || got.Stopped != cluster.At(want.Stopped) {
			t.Fatalf("ends as %+v, the newest says %+v", got, want)
		}
	})
}

// In any order of claims, stops and reports, each attempt is claimed once, and none after a stop or
// a report.
func TestClaimsAreExclusive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var row state.Row = edit(running("t", "i", 1), func(t *cluster.Task) { t.Last = "" })
		key, claimed, over := state.KeyOf(row), map[int]bool{}, false
		for range rapid.IntRange(1, 30).Draw(t, "writes") {
			var w state.Write
			attempt := rapid.IntRange(1, 3).Draw(t, "attempt")
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				w.Stop = &state.Stop{Task: key}
			case 1:
				w.Observe = &state.Observation{Task: key, Version: int64(attempt), Last: cluster.TaskRunning}
			default:
				w.Claim = &state.Claim{Task: key, Attempt: int32(attempt)}
			}
			next, holds := w.Apply(row)
			if holds && next.Header().Rev != row.Header().Rev+1 {
				t.Fatalf("rev %d follows %d", next.Header().Rev, row.Header().Rev)
			}
			if holds && w.Claim != nil {
				if claimed[attempt] || over || attempt > 1 && !claimed[attempt-1] {
					t.Fatalf("attempt %d claimed; claimed before: %v, over: %v", attempt, claimed, over)
				}
				claimed[attempt] = true
			}
			if holds {
				row = next
				over = over || w.Claim == nil
			}
		}
	})
}

func TestRecordRow(t *testing.T) {
	old, now := running("t", "i", 1), running("t", "i", 2)
	for _, c := range []struct {
		name   string
		record state.Record
		want   state.Row
	}{
		{"Insert", state.Record{Op: state.Insert, New: now}, now},
		{"Modify", state.Record{Op: state.Modify, Old: old, New: now}, now},
		{"Remove", state.Record{Op: state.Remove, Old: old}, old},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, "row", c.record.Row(), c.want) })
	}
}
