package handler_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/handler/dispatch"
	"berth/shared/operation"
	"berth/shared/state"
)

// newLostOutbox returns a world with a task to start whose outbox row has not reached dispatch: the row's
// record was lost.
func newLostOutbox(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.instances("i", 1, 4096, 8192)
	w.dispatchAsleep = true
	w.create("web", "web", 1)
	w.pump()
	w.act, w.dispatchAsleep = nil, false
	return w
}

// agree checks that ECS runs exactly what the rows say, each task once.
func (w *world) agree(t testing.TB, tasks int) {
	t.Helper()
	running := map[string]bool{}
	for _, task := range w.with(cluster.TaskRunning) {
		if task.ECSID == "" || running[task.ECSID] {
			t.Fatalf("task %s has ECS task %q", task.ID, task.ECSID)
		}
		running[task.ECSID] = true
	}
	live := w.ecs.live()
	for _, id := range live {
		if !running[id] {
			t.Fatalf("ECS runs %s, which no row wants: %s", id, show(w.tasks()))
		}
	}
	want(t, "rows that run", len(running), tasks)
	wantCount(t, "ECS tasks", live, tasks)
	wantCount(t, "outbox rows", w.outbox(), 0)
}

// failing makes calls of StartTask fail, in order.
func failing(faults ...fault) func(int, cluster.StartCall) fault {
	return func(n int, _ cluster.StartCall) fault {
		if n > len(faults) {
			return fault{}
		}
		return faults[n-1]
	}
}

func TestDispatch_Starts(t *testing.T) {
	t.Run("ClaimsThenStartsTenPerCall", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 25, 256, 512)
		w.ecs.onStart = func(_ int, c cluster.StartCall) fault {
			for _, id := range c.Instances {
				task := w.task(cluster.TaskID(c.StartedBy, id))
				want(t, "attempt before the call", task.Attempt, 1)
				want(t, "claimed at", task.ClaimedAt.Time(), w.clock.now)
			}
			return fault{}
		}
		w.create("web", "web", 25)
		w.pump()
		var sizes []int
		for _, c := range w.ecs.starts {
			sizes = append(sizes, len(c.Instances))
			want(t, "task definition", c.TaskDefinition, "web:1")
		}
		if !slices.Equal(sizes, []int{10, 10, 5}) {
			t.Fatalf("calls of %v tasks", sizes)
		}
		w.agree(t, 25)
		for _, task := range w.tasks() {
			want(t, "attempts", task.Attempt, 1)
		}
	})
	t.Run("DrainsMoreRowsThanAPage", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 40960, 81920)
		w.create("web", "web", 45)
		w.pump()
		w.agree(t, 45)
		wantCount(t, "calls", w.ecs.starts, 45)
	})
	t.Run("GoesOnWhenThereAreTokensAgain", func(t *testing.T) {
		w := newWorld(t, func(s *handler.Settings) { s.StartBurst, s.StartRate = 2, 1 })
		w.instances("i", 50, 256, 512)
		w.create("web", "web", 50)
		w.pump()
		wantCount(t, "calls", w.ecs.starts, 2)
		wantCount(t, "due rows", w.dues(), 1)
		want(t, "kind", w.dues()[0].Kind, state.DueOutbox)
		want(t, "due", w.dues()[0].At, epoch.Add(time.Second))
		w.advance(2 * time.Second)
		wantCount(t, "calls", w.ecs.starts, 4)
		w.advance(3 * time.Second)
		w.agree(t, 50)
	})
	t.Run("KeepsToTheRate", func(t *testing.T) {
		w := newWorld(t, func(s *handler.Settings) { s.StartBurst, s.StartRate = 5, 5 })
		w.instances("i", 1, 40960, 81920)
		w.create("web", "web", 100)
		for n := range 15 {
			w.pump()
			if most := 5 + 5*n; len(w.ecs.starts) > most {
				t.Fatalf("%d calls after %d s, at most %d are allowed", len(w.ecs.starts), n, most)
			}
			w.advance(time.Second)
		}
		w.advance(10 * time.Second)
		w.agree(t, 100)
	})
	t.Run("RecordsWhatECSRefuses", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 3, 256, 512)
		w.ecs.onStart = failing(fault{refuse: map[string]string{"i001": "RESOURCE:MEMORY"}})
		r := w.run(t, operation.SubmitTasks{Count: 3})
		stopped := w.with(cluster.TaskStopped)
		wantCount(t, "stopped tasks", stopped, 1)
		want(t, "instance", stopped[0].Instance, "i001")
		want(t, "code", stopped[0].StopCode, cluster.StopRefused)
		want(t, "reason", stopped[0].Reason, "TaskFailedToStart: RESOURCE:MEMORY")
		wantCount(t, "tasks", r.Tasks, 3)
		w.agree(t, 2)
	})
	t.Run("RecordsACallThatIsRefused", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 3, 256, 512)
		w.ecs.onStart = failing(fault{err: denied})
		w.run(t, operation.SubmitTasks{Count: 3})
		wantCount(t, "stopped tasks", w.with(cluster.TaskStopped), 3)
		for _, task := range w.tasks() {
			want(t, "reason", task.Reason, "TaskFailedToStart: ClientException: TaskDefinition is inactive")
		}
		w.advance(time.Hour / 2)
		wantCount(t, "calls", w.ecs.starts, 1)
		w.agree(t, 0)
	})
	t.Run("TriesAgainAtOnceWhenThrottled", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 15, 256, 512)
		w.ecs.onStart = failing(fault{err: throttled}, fault{err: throttled}, fault{err: throttled})
		w.create("web", "web", 15)
		w.pump()
		wantCount(t, "running tasks", w.with(cluster.TaskRunning), 0)
		w.advance(3 * time.Second)
		w.agree(t, 15)
	})
	t.Run("WaitsWithoutPermissionToStartTasks", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 15, 256, 512)
		forbidden := fault{err: cluster.Errorf(cluster.CodeAccessDenied, "not authorized to perform: ecs:StartTask")}
		w.ecs.onStart = failing(forbidden, forbidden)
		w.create("web", "web", 15)
		w.advance(29 * time.Second)
		wantCount(t, "calls", w.ecs.starts, 2)
		wantCount(t, "pending tasks", w.with(cluster.TaskPending), 15)
		w.advance(3 * time.Second)
		wantCount(t, "calls", w.ecs.starts, 4)
		w.agree(t, 15)
	})
	t.Run("SettlesIfAnotherWasThrottled", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 256, 512)
		w.ecs.onStart = failing(fault{err: throttled})
		w.create("web", "web", 1)
		w.pump()
		w.dispatch = &dispatch.Handler{State: w.store, ECS: w.ecs, Clock: w.clock, Settings: w.dispatch.Settings}
		w.advance(59 * time.Second)
		wantCount(t, "calls", w.ecs.starts, 1)
		w.advance(3 * time.Second)
		w.agree(t, 1)
	})
	t.Run("SettlesAnUnknownOutcomeAfterBeingThrottled", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 256, 512)
		w.ecs.onStart = failing(fault{err: throttled}, fault{err: errTimedOut, late: 30 * time.Second})
		w.create("web", "web", 1)
		w.advance(5 * time.Second)
		wantCount(t, "calls", w.ecs.starts, 2)
		w.advance(2 * time.Minute)
		wantCount(t, "calls", w.ecs.starts, 2)
		w.agree(t, 1)
	})
	t.Run("ClaimsAgainWhatItCouldNotClaim", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 3, 256, 512)
		spy := &spyState{Store: w.store}
		w.dispatch.State = spy
		failed := false
		spy.beforeWrite = func(write state.Write) error {
			if write.Claim != nil && !failed {
				failed = true
				return errStore
			}
			return nil
		}
		w.create("web", "web", 3)
		w.pump()
		wantCount(t, "running tasks", w.with(cluster.TaskRunning), 2)
		w.advance(2 * time.Second)
		w.agree(t, 3)
	})
}

func TestDispatch_UnknownStarts(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault fault
		calls int
		extra int // ECS tasks that had to be stopped
	}{
		{"AppliedIsAdopted", fault{err: errTimedOut, applied: true}, 1, 0},
		{"NotAppliedIsStartedAgainOnce", fault{err: errTimedOut}, 2, 0},
		{"AppliedLateIsAdopted", fault{err: errTimedOut, late: 30 * time.Second}, 1, 0},
		{"AppliedAfterTheSettlingTimeIsStopped", fault{err: errTimedOut, late: 90 * time.Second}, 2, 1},
		{"AServerErrorIsInDoubt", fault{err: cluster.Errorf(cluster.CodeServer, "oops"), applied: true}, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.instances("i", 1, 4096, 8192)
			w.ecs.onStart = failing(c.fault)
			w.create("web", "web", 1)
			w.advance(5 * time.Minute)
			wantCount(t, "StartTask calls", w.ecs.starts, c.calls)
			wantCount(t, "StopTask calls", w.ecs.stops, c.extra)
			w.agree(t, 1)
			wantCount(t, "task rows", w.tasks(), 1)
		})
		if c.extra > 0 {
			continue
		}
		t.Run(c.name+"WithoutEvents", func(t *testing.T) {
			w := newWorld(t)
			w.instances("i", 1, 4096, 8192)
			w.ecs.onStart = failing(c.fault)
			w.ecs.mute = true
			w.create("web", "web", 1)
			w.advance(59 * time.Second)
			wantCount(t, "StartTask calls before it has settled", w.ecs.starts, 1)
			w.advance(time.Minute)
			w.sweep()
			w.advance(5 * time.Minute)
			wantCount(t, "StartTask calls", w.ecs.starts, c.calls)
			w.agree(t, 1)
		})
	}
	t.Run("RunningTasksAreNotStartedAgain", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 256, 512) // room for one
		w.ecs.onStart = failing(fault{err: errTimedOut, late: 61 * time.Second}, fault{err: throttled})
		w.create("web", "web", 1)
		w.advance(5 * time.Minute)
		wantOneTask(t, w)
	})
	t.Run("ThatTakeTheRoomOfTheSecond", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 256, 512) // room for one
		w.ecs.onStart = func(n int, _ cluster.StartCall) fault {
			if n == 1 {
				return fault{err: errTimedOut}
			}
			w.ecs.begin(w.ecs.starts[0], nil) // the first is carried out now
			return fault{}
		}
		w.create("web", "web", 1)
		w.advance(5 * time.Minute)
		wantOneTask(t, w)
	})
	t.Run("OfTenTasksAtOnce", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 10, 256, 512)
		w.ecs.onStart = failing(fault{err: errTimedOut, applied: true, refuse: map[string]string{"i003": "AGENT", "i007": "AGENT"}})
		w.ecs.mute = true
		w.create("web", "web", 10)
		w.advance(3 * time.Minute)
		w.ecs.mute = false
		w.sweep()
		w.pump()
		w.agree(t, 10)
		wantCount(t, "StartTask calls", w.ecs.starts, 2)
		wantCount(t, "tasks in the second call", w.ecs.starts[1].Instances, 2)
	})
	t.Run("FindsWhatHasStoppedAlready", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.ecs.onStart = failing(fault{err: errTimedOut, applied: true})
		w.ecs.mute = true
		r := w.run(t, operation.SubmitTasks{})
		w.ecs.exit(w.ecs.live()[0], 3)
		w.advance(2 * time.Minute)
		task := w.task(r.Tasks[0])
		want(t, "status", task.Status(), cluster.TaskStopped)
		want(t, "exit code", *task.ExitCode, 3)
		wantCount(t, "StartTask calls", w.ecs.starts, 1)
		w.agree(t, 0)
	})
	t.Run("WaitsUntilECSAnswers", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.ecs.onStart = failing(fault{err: errTimedOut, applied: true})
		w.ecs.mute = true
		n := 0
		w.ecs.onList = func() error {
			if n++; n <= 3 {
				return throttled
			}
			return nil
		}
		w.create("web", "web", 1)
		w.advance(3 * time.Minute)
		wantCount(t, "StartTask calls", w.ecs.starts, 1)
		wantCount(t, "tasks with an ECS task", slices.DeleteFunc(w.tasks(), func(t *cluster.Task) bool { return t.ECSID == "" }), 1)
	})
}

func TestDispatch_Stops(t *testing.T) {
	t.Run("TasksNeverClaimed", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 3, 4096, 8192)
		w.dispatchAsleep = true
		w.create("web", "web", 3)
		w.pump()
		w.scale("web", 0)
		w.pump()
		wantCount(t, "tasks being stopped", slices.DeleteFunc(w.tasks(), func(t *cluster.Task) bool { return t.Desired != cluster.TaskStopped }), 3)
		w.dispatchAsleep = false
		w.pump()
		wantCount(t, "stopped tasks", w.with(cluster.TaskStopped), 3)
		wantCount(t, "StartTask calls", w.ecs.starts, 0)
		wantCount(t, "StopTask calls", w.ecs.stops, 0)
		w.agree(t, 0)
	})
	t.Run("TasksNotReportedYet", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.ecs.frozen = true
		r := w.run(t, operation.SubmitTasks{})
		want(t, "ECS's id", w.task(r.Tasks[0]).ECSID, "")
		if _, err := w.api.Tasks.StopTask(ctx, prod, r.Tasks[0], "enough"); err != nil {
			t.Fatal(err)
		}
		w.pump()
		wantCount(t, "StopTask calls", w.ecs.stops, 1)
		w.ecs.frozen = false
		w.pump()
		task := w.task(r.Tasks[0])
		want(t, "status", task.Status(), cluster.TaskStopped)
		want(t, "code", task.StopCode, cluster.StopUserInitiated)
		want(t, "reason", task.Reason, "enough")
		w.agree(t, 0)
	})
	t.Run("TasksThatECSNeverStarted", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.ecs.onStart = failing(fault{err: errTimedOut})
		w.create("web", "web", 1)
		w.pump()
		w.scale("web", 0)
		w.advance(59 * time.Second)
		want(t, "status", w.tasks()[0].Status(), cluster.TaskPending)
		w.advance(5 * time.Second)
		want(t, "status", w.tasks()[0].Status(), cluster.TaskStopped)
		wantCount(t, "StartTask calls", w.ecs.starts, 1)
		w.agree(t, 0)
	})
	t.Run("TasksThatECSStartsAfterAll", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.ecs.onStart = failing(fault{err: errTimedOut, late: 90 * time.Second})
		w.create("web", "web", 1)
		w.pump()
		w.scale("web", 0)
		w.advance(2 * time.Minute)
		wantCount(t, "StartTask calls", w.ecs.starts, 1)
		w.agree(t, 0)
	})
	t.Run("TasksReportedWhileTheyAreGivenUp", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.ecs.onStart = failing(fault{err: errTimedOut, late: time.Hour})
		w.create("web", "web", 1)
		w.pump()
		w.scale("web", 0)
		w.advance(30 * time.Second)
		spy := &spyState{Store: w.store}
		w.dispatch.State = spy
		raced := false
		spy.beforeWrite = func(write state.Write) error {
			if write.Observe != nil && !raced {
				raced = true
				w.ecs.delayed[0].at = w.clock.now
				w.ecs.step()
				w.ecs.step()
				w.observe(w.ecs.events...)
				w.ecs.events = nil
			}
			return nil
		}
		w.advance(2 * time.Minute)
		want(t, "raced", raced, true)
		w.agree(t, 0)
	})
	t.Run("RunningTasks", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.create("web", "web", 2)
		w.pump()
		w.ecs.onStop = func(n int, _ string) error {
			if n == 1 {
				return throttled
			}
			return nil
		}
		w.scale("web", 0)
		w.pump()
		wantCount(t, "stopped tasks", w.with(cluster.TaskStopped), 1)
		w.advance(time.Second)
		wantCount(t, "StopTask calls", w.ecs.stops, 3)
		w.agree(t, 0)
	})
	t.Run("TasksThatECSHasForgotten", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.create("web", "web", 1)
		w.pump()
		delete(w.ecs.tasks, w.ecs.live()[0])
		w.scale("web", 0)
		w.pump()
		want(t, "status", w.tasks()[0].Status(), cluster.TaskStopped)
		want(t, "code", w.tasks()[0].StopCode, cluster.StopByScheduler)
		w.agree(t, 0)
	})
	t.Run("AsTokensAllow", func(t *testing.T) {
		w := newWorld(t, func(s *handler.Settings) { s.StartBurst, s.StartRate = 10, 10 })
		w.instances("i", 20, 256, 512)
		w.create("web", "web", 20)
		w.advance(10 * time.Second)
		w.scale("web", 0)
		w.pump()
		wantCount(t, "StopTask calls", w.ecs.stops, 10)
		w.advance(2 * time.Second)
		wantCount(t, "StopTask calls", w.ecs.stops, 20)
		w.agree(t, 0)
	})
}

func TestDispatch_TwoAtOnce(t *testing.T) {
	second := func(w *world) *dispatch.Handler {
		return &dispatch.Handler{State: w.store, ECS: w.ecs, Clock: w.clock, Settings: w.dispatch.Settings}
	}
	for n := 1; n <= 30; n++ {
		t.Run(fmt.Sprint("WhereTheSecondComesAtWrite", n), func(t *testing.T) {
			w := newWorld(t)
			w.instances("i", 12, 4096, 8192)
			w.dispatchAsleep = true
			w.create("web", "web", 14)
			w.pump()
			records := w.act
			w.act, w.dispatchAsleep = nil, false
			two, writes := second(w), 0
			spy := &spyState{Store: w.store}
			spy.beforeWrite = func(state.Write) error {
				if writes++; writes == n {
					w.acts(two, records)
				}
				return nil
			}
			w.dispatch.State = spy
			w.acts(w.dispatch, records)
			w.advance(5 * time.Minute)
			w.agree(t, 14)
			started := 0
			for _, c := range w.ecs.starts {
				started += len(c.Instances)
			}
			want(t, "tasks started", started, 14)
		})
	}
	t.Run("WhereTheFirstIsInTheMiddleOfItsCall", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 12, 4096, 8192)
		two := second(w)
		w.ecs.onStart = func(n int, _ cluster.StartCall) fault {
			if n == 1 {
				w.acts(two, w.changed[len(w.changed)-1:])
			}
			return fault{}
		}
		w.create("web", "web", 12)
		w.advance(5 * time.Minute)
		w.agree(t, 12)
		wantCount(t, "StartTask calls", w.ecs.starts, 2)
	})
}

// wantOneTask checks that two calls of StartTask have left one task, which was not started twice.
func wantOneTask(t *testing.T, w *world) {
	t.Helper()
	wantCount(t, "StartTask calls", w.ecs.starts, 2)
	wantCount(t, "StopTask calls", w.ecs.stops, 0)
	wantCount(t, "task rows", w.tasks(), 1)
	w.agree(t, 1)
}

// An invocation that is suspended in its call for a minute finds that another one has started the
// task. Its refusal, for want of the room that the task has taken, says nothing about the task.
func TestDispatch_RefusalOfAnEarlierAttempt(t *testing.T) {
	w := newWorld(t)
	w.instances("i", 1, 256, 512) // room for one
	two := &dispatch.Handler{State: w.store, ECS: w.ecs, Clock: w.clock, Settings: w.dispatch.Settings}
	w.ecs.onStart = func(n int, _ cluster.StartCall) fault {
		if n == 1 {
			w.clock.now = w.clock.now.Add(61 * time.Second)
			w.acts(two, w.changed)
		}
		return fault{}
	}
	w.create("web", "web", 1)
	w.advance(5 * time.Minute)
	wantOneTask(t, w)
}

func TestDispatch_Due(t *testing.T) {
	put := func(w *world, kind state.DueKind, subject string, in time.Duration) {
		due := &state.Due{Head: cluster.Head{Cluster: prod}, At: w.clock.now.Add(in), Kind: kind, Subject: subject}
		if _, err := w.store.Write(ctx, state.Write{Put: due, Any: true}); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("DeletesWhatIsDueAndLeavesTheRest", func(t *testing.T) {
		w := newWorld(t)
		for _, kind := range []state.DueKind{state.DueService, state.DueWaiting, state.DueRequest, state.DueOutbox, state.DueInstance} {
			put(w, kind, "x", 0)
			put(w, kind, "x", time.Minute)
		}
		w.decide, w.placementAsleep = nil, true
		w.minute()
		wantCount(t, "due rows", w.dues(), 5)
		wantCount(t, "records", w.decide, 5)
		for _, r := range w.decide {
			want(t, "record", r.Op, state.Remove)
		}
	})
	t.Run("OfAnOutboxWhoseRecordWasLost", func(t *testing.T) {
		w := newLostOutbox(t)
		w.minute()
		w.agree(t, 1)
	})
	t.Run("OfAnUnansweredRequest", func(t *testing.T) {
		w := newWorld(t)
		r := w.submit(t, operation.SubmitTasks{Wait: "1h"})
		w.decide = nil
		w.placement = w.newPlacement("env-2", w.placement.Settings)
		put(w, state.DueRequest, r.ID, time.Second)
		w.advance(time.Second)
		want(t, "answered", w.request(t, r.ID).Answered, true)
	})
	t.Run("OfASweepsFindings", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		r := w.submit(t, operation.SubmitTasks{})
		w.decide = nil // and the environment does not know
		w.clock.now = w.clock.now.Add(time.Minute)
		w.sweep()
		w.advance(time.Second)
		want(t, "answered", w.request(t, r.ID).Answered, true)
		w.agree(t, 1)
	})
	t.Run("KnowsNoOtherSchedule", func(t *testing.T) {
		w := newWorld(t)
		if err := w.dispatch.RunSchedule(ctx, "sweep"); err == nil || !strings.Contains(err.Error(), `"sweep"`) {
			t.Fatalf("got %v", err)
		}
	})
	t.Run("DropsMessagesItCannotRead", func(t *testing.T) {
		w := newWorld(t)
		if again := w.dispatch.HandleMessages(ctx, messages([]byte("{"), []byte("{}"), []byte(`{"cluster":"nowhere"}`))); len(again) > 0 {
			t.Fatalf("again: %v", again)
		}
	})
	t.Run("DeliversAgainWhatFailed", func(t *testing.T) {
		w := newWorld(t)
		put(w, state.DueService, "x", 0)
		spy := &spyState{Store: w.store, beforeWrite: func(state.Write) error { return errStore }}
		w.dispatch.State = spy
		again := w.dispatch.HandleMessages(ctx, messages([]byte(`{"cluster":"prod"}`), []byte(`{"cluster":"elsewhere"}`)))
		if !slices.Equal(again, []string{"m0"}) {
			t.Fatalf("again: %v", again)
		}
	})
}

func TestDispatch_Recheck(t *testing.T) {
	// looks are the times, after d, at which due rows made dispatch check instances.
	looks := func(w *world, d time.Duration) (at []time.Duration) {
		before, start := w.ecs.describe, w.clock.now
		for w.clock.now.Before(start.Add(d)) {
			w.advance(time.Second)
			for ; before < w.ecs.describe; before++ {
				at = append(at, w.clock.now.Sub(start))
			}
		}
		return at
	}
	minutes := func(n ...int) (out []time.Duration) {
		for _, m := range n {
			out = append(out, time.Duration(m)*time.Minute)
		}
		return out
	}
	disconnect := func(i *cluster.Instance) { i.AgentConnected = false }
	t.Run("ChecksLessAndLessOften", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.ecs.change("i000", disconnect)
		w.pump()
		got := looks(w, 40*time.Minute)
		wanted := []time.Duration{10 * time.Second}
		for _, m := range minutes(1, 3, 7, 15, 25, 35) {
			wanted = append(wanted, wanted[0]+m)
		}
		if !slices.Equal(got, wanted) {
			t.Fatalf("looked after %v, want %v", got, wanted)
		}
		wantCount(t, "due rows", w.dues(), 1)
		want(t, "generation", w.dues()[0].Generation, 7)
	})
	t.Run("RecordsThatItIsBack", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.ecs.change("i000", disconnect)
		w.create("web", "web", 1)
		w.pump()
		wantCount(t, "provisioning tasks", w.with(cluster.TaskProvisioning), 1)
		w.ecs.mute = true
		w.ecs.change("i000", func(i *cluster.Instance) { i.AgentConnected = true })
		w.ecs.mute = false
		w.advance(10 * time.Second) // agents reconnect several times an hour
		w.agree(t, 1)
		wantCount(t, "due rows", w.dues(), 0)
	})
	t.Run("RecordsThatItIsDeregistered", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.ecs.change("i000", disconnect)
		w.pump()
		delete(w.ecs.instances, "i000")
		w.advance(time.Minute)
		want(t, "status", w.instance("i000").Status, cluster.InstanceInactive)
		wantCount(t, "due rows", w.dues(), 0)
	})
	t.Run("HasOneDueRowHoweverOftenItChanges", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		for range 5 {
			w.ecs.change("i000", disconnect)
			w.advance(7 * time.Second)
			w.ecs.change("i000", func(i *cluster.Instance) { i.Status = cluster.InstanceDraining })
			w.advance(7 * time.Second)
			w.ecs.change("i000", func(i *cluster.Instance) { i.AgentConnected = true })
			w.advance(7 * time.Second)
		}
		w.advance(20 * time.Minute)
		wantCount(t, "due rows", w.dues(), 1)
	})
	t.Run("TwoSeriesBecomeOne", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.ecs.change("i000", disconnect)
		w.advance(150 * time.Second)
		w.ecs.change("i000", func(i *cluster.Instance) { i.AgentConnected = true })
		w.ecs.change("i000", disconnect)
		w.pump()
		wantCount(t, "due rows", w.dues(), 2)
		w.advance(30 * time.Minute)
		wantCount(t, "due rows", w.dues(), 1)
		wantCount(t, "checks in half an hour", looks(w, 30*time.Minute), 3)
	})
	t.Run("ChecksAnInstanceWithTwoDueRowsOnce", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.ecs.change("i000", disconnect)
		w.pump()
		w.clock.now = w.clock.now.Add(5 * time.Second)
		w.ecs.change("i000", func(i *cluster.Instance) { i.AgentConnected = true })
		w.ecs.change("i000", disconnect)
		w.pump()
		wantCount(t, "due rows", w.dues(), 2)
		w.clock.now = w.clock.now.Add(2 * time.Minute)
		w.minute()
		wantCount(t, "due rows", w.dues(), 1)
		want(t, "calls", w.ecs.describe, 1)
	})
	t.Run("ChecksManyInOneCall", func(t *testing.T) {
		w := newWorld(t)
		ids := w.instances("i", 130, 4096, 8192)
		for _, id := range ids {
			w.ecs.change(id, disconnect)
		}
		w.pump()
		before := w.ecs.describe
		w.advance(time.Minute)
		want(t, "calls", w.ecs.describe-before, 2)
	})
}

// A row that a clock has set which had jumped an hour ahead is due at once, whatever it is for. The
// others wait for their time.
func TestDispatch_DueRowsOfAClockThatJumped(t *testing.T) {
	const jump = time.Hour
	put := func(w *world, kind state.DueKind, subject string, ahead time.Duration) {
		now := w.clock.now.Add(ahead)
		due := state.NewDue(prod, kind, subject, now.Add(10*time.Second), now)
		if _, err := w.store.Write(ctx, state.Write{Put: due, Any: true}); err != nil {
			t.Fatal(err)
		}
	}
	kinds := []state.DueKind{state.DueService, state.DueWaiting, state.DueRequest, state.DueOutbox, state.DueLoads,
		state.DueHost, state.DueBalance, state.DueLoadScaling, state.DueScaling, state.DueInstance, state.DueNodeGroup}
	t.Run("AreDueOnTheNextSchedule", func(t *testing.T) {
		w := newWorld(t)
		w.placementAsleep = true
		for _, kind := range kinds {
			put(w, kind, "x", jump)
			put(w, kind, "y", 0)
			put(w, kind, "z", cluster.MaxClockError) // clocks may differ by so much
		}
		w.minute()
		left := map[string]int{}
		for _, d := range w.dues() {
			left[d.Subject]++
		}
		want(t, "rows of each clock that are left", fmt.Sprint(left), fmt.Sprintf("map[y:%[1]d z:%[1]d]", len(kinds)))
	})
	t.Run("StayWhereAnEarlierVersionWroteThem", func(t *testing.T) {
		w := newWorld(t)
		old := &state.Due{Head: cluster.Head{Cluster: prod}, At: w.clock.now.Add(jump), Kind: state.DueService, Subject: "x"}
		if _, err := w.store.Write(ctx, state.Write{Put: old, Any: true}); err != nil {
			t.Fatal(err)
		}
		w.minute()
		wantCount(t, "due rows", w.dues(), 1)
	})
	t.Run("AreTakenAHundredAtATime", func(t *testing.T) {
		w := newWorld(t)
		w.placementAsleep = true
		for n := range 150 {
			put(w, state.DueService, fmt.Sprint("s", n), jump)
		}
		w.minute()
		wantCount(t, "due rows", w.dues(), 50)
		w.minute()
		wantCount(t, "due rows", w.dues(), 0)
	})
	t.Run("ApplyTheLoadsOfTheirWindow", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		task := w.metered(1, 10)[0]
		w.clock.now = w.clock.now.Add(jump)
		want(t, "error", w.report(task.ID, 30), nil)
		w.clock.now = w.clock.now.Add(-jump)
		w.minute()
		want(t, "reported", w.task(task.ID).Reported["connections"], 30)
		want(t, "pending", len(rows[*state.PendingLoad](w, state.PrefixLoad)), 0)
	})
}
