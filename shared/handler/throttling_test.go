package handler_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/handler/throttling"
	"berth/shared/service"
	"berth/shared/state"
)

// failedStarts is a world with a service whose deployment is "ecs-svc/1", and tasks that the test
// creates.
type failedStarts struct {
	*world
	service *cluster.Service
	h       *throttling.Handler
	reports []cluster.ECSTask
}

func newFailedStarts(t *testing.T) *failedStarts {
	t.Helper()
	w := &failedStarts{world: newWorld(t)}
	w.service = w.create("web", "web", 0)
	w.pump()
	w.placementAsleep, w.dispatchAsleep, w.observerAsleep = true, true, true
	w.h = &throttling.Handler{State: w.store, Clock: w.clock, Settings: handler.DefaultSettings(), Telemetry: &handler.Telemetry{}}
	return w
}

// fails lets a task of the service begin now and stop after d without having been RUNNING. Its row
// says so only if written is set.
func (w *failedStarts) fails(d time.Duration, written bool) cluster.ECSTask {
	w.t.Helper()
	n := len(w.reports)
	batch := cluster.StartedBy(w.service.Short, int64(n+1), 0)
	e := cluster.ECSTask{
		Cluster: prod, ID: fmt.Sprintf("%032x", n+1), Instance: "i000", StartedBy: batch, TaskDefinition: "web:1", Last: cluster.TaskStopped,
		Desired: cluster.TaskStopped, Version: 4, Stopped: w.clock.now.Add(d), StopCode: cluster.StopFailedToStart, Reason: "CannotPullContainerError",
	}
	row := &cluster.Task{
		Head: cluster.Head{Cluster: prod},
		TaskSpec: cluster.TaskSpec{
			ID: cluster.TaskID(batch, "i000"), Owner: w.service.Short, Service: "web",
			Revision: w.service.Deployment.ID, TaskDefinition: "web:1", CreatedAt: cluster.At(w.clock.now),
		},
		TaskAssignment: cluster.TaskAssignment{
			Batch: batch, Instance: "i000", Desired: cluster.TaskRunning, ClaimedAt: cluster.At(w.clock.now),
		},
		TaskReport: cluster.TaskReport{Attempt: 1},
	}
	if written {
		row.Last, row.Stopped, row.StopCode, row.Reason, row.Version, row.ECSID = cluster.TaskStopped, cluster.At(e.Stopped), e.StopCode, e.Reason, 4, e.ID
	}
	if _, err := w.store.Write(ctx, state.Write{Put: row, Any: true}); err != nil {
		w.t.Fatal(err)
	}
	w.reports = append(w.reports, e)
	w.clock.now = w.clock.now.Add(d)
	return e
}

func (w *failedStarts) throttle() *cluster.Throttle {
	w.t.Helper()
	row, err := w.store.Get(ctx, state.ThrottleKey(prod, w.service.Short))
	if err != nil {
		w.t.Fatal(err)
	}
	throttle, _ := row.(*cluster.Throttle)
	return throttle
}

func (w *failedStarts) hears(reports ...cluster.ECSTask) {
	w.t.Helper()
	var bodies [][]byte
	for _, r := range reports {
		bodies = append(bodies, taskEvent(r))
	}
	if again := w.h.HandleMessages(ctx, messages(bodies...)); len(again) > 0 {
		w.t.Fatalf("wanted again: %v", again)
	}
}

func (w *failedStarts) backoff() cluster.Backoff {
	return w.throttle().Revisions[w.service.Deployment.ID]
}

func TestThrottling(t *testing.T) {
	t.Run("WritesTheStepAndTheTimerForTheNextAttempt", func(t *testing.T) {
		w := newFailedStarts(t)
		w.hears(w.fails(20*time.Second, true))
		b := w.backoff()
		want(t, "step", b.Step, 1)
		want(t, "reason", b.Reason, "CannotPullContainerError")
		if wait := b.NextAttemptAt.Sub(w.clock.now); wait < 54*time.Second || wait > 66*time.Second {
			t.Errorf("the next attempt is in %s", wait)
		}
		dues := slices.DeleteFunc(w.dues(), func(d *state.Due) bool { return !d.At.Equal(b.NextAttemptAt) })
		wantCount(t, "due rows", dues, 1)
		want(t, "kind", dues[0].Kind, state.DueService)
		want(t, "subject", dues[0].Subject, "web")
	})
	t.Run("DoesNotWaitForTheRowToSayIt", func(t *testing.T) {
		w := newFailedStarts(t)
		w.hears(w.fails(20*time.Second, false))
		want(t, "step", w.backoff().Step, 1)
	})
	t.Run("ClimbsTheLadder", func(t *testing.T) {
		w := newFailedStarts(t)
		for step, delay := range []time.Duration{time.Minute, 3 * time.Minute, 9 * time.Minute, 27 * time.Minute, 27 * time.Minute} {
			w.hears(w.fails(20*time.Second, true))
			b := w.backoff()
			want(t, "step", b.Step, step+1)
			if wait := b.NextAttemptAt.Sub(w.clock.now); wait < delay*9/10 || wait > delay*11/10 {
				t.Errorf("step %d waits %s", b.Step, wait)
			}
			w.clock.now = b.NextAttemptAt.Add(time.Second)
		}
	})
	t.Run("ChangesNothingTwice", func(t *testing.T) {
		w := newFailedStarts(t)
		e := w.fails(20*time.Second, true)
		w.hears(e)
		before := w.units()
		w.hears(e, e)
		w.hears(e)
		want(t, "write units", w.units(), before)
	})
	t.Run("SurvivesADeathBeforeItsCommit", func(t *testing.T) {
		w := newFailedStarts(t)
		e := w.fails(20*time.Second, true)
		spy := &spyState{Store: w.store}
		spy.beforeCommit = func(state.Commit) error { return errStore }
		w.h.State = spy
		if again := w.h.HandleMessages(ctx, messages(taskEvent(e))); !slices.Equal(again, []string{"m0"}) {
			t.Fatalf("wanted again: %v", again)
		}
		w.h.State = w.store
		w.hears(e)
		want(t, "step", w.backoff().Step, 1)
	})
	t.Run("LosesARaceAgainstAnother", func(t *testing.T) {
		w := newFailedStarts(t)
		one := w.fails(20*time.Second, true)
		two := w.fails(20*time.Second, true)
		spy := &spyState{Store: w.store}
		raced := false
		spy.beforeCommit = func(state.Commit) error {
			if !raced {
				raced = true
				(&failedStarts{world: w.world, service: w.service, h: &throttling.Handler{State: w.store, Clock: w.clock, Settings: w.h.Settings}}).hears(one)
			}
			return nil
		}
		w.h.State = spy
		w.hears(two)
		want(t, "failures", w.backoff().Failures, 2)
	})
	t.Run("DropsWhatIsNoFailedStart", func(t *testing.T) {
		w := newFailedStarts(t)
		e := w.fails(20*time.Second, true)
		ran, foreign, running := e, e, e
		ran.Started = e.Stopped
		foreign.StartedBy = "ecs-svc/1"
		running.Last = cluster.TaskRunning
		w.hears(ran, foreign, running)
		if w.throttle() != nil {
			t.Errorf("%+v", w.throttle())
		}
		if _, dropped := w.h.Telemetry.Collect(); dropped["irrelevant:"] != 3 {
			t.Errorf("dropped %v", dropped)
		}
	})
	t.Run("ForgetsRevisionsThatAreNoMore", func(t *testing.T) {
		w := newFailedStarts(t)
		w.hears(w.fails(20*time.Second, true))
		row, err := w.store.Get(ctx, state.ServiceKey(prod, "web"))
		if err != nil {
			t.Fatal(err)
		}
		s := *row.(*cluster.Service)
		s.Deployment.ID = "ecs-svc/7"
		if _, err := w.store.Write(ctx, state.Write{Put: &s, Any: true}); err != nil {
			t.Fatal(err)
		}
		w.service = &s
		w.hears(w.fails(20*time.Second, true))
		want(t, "revisions", len(w.throttle().Revisions), 1)
		want(t, "step", w.backoff().Step, 1)
	})
	t.Run("StandaloneTasksBelongToNoService", func(t *testing.T) {
		w := newFailedStarts(t)
		e := w.fails(20*time.Second, true)
		e.StartedBy = cluster.StartedBy("0123456789ab", 1, 0)
		w.hears(e)
		if w.throttle() != nil {
			t.Errorf("%+v", w.throttle())
		}
	})
}

// TestThrottling_InAnyOrder: the same failures in any order and any batches, some of them twice,
// leave the same row, and it is what follows from the tasks.
func TestThrottling_InAnyOrder(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 1))
		w := newFailedStarts(t)
		for range 6 {
			w.fails(time.Duration(1+random.IntN(90))*time.Second, true)
			w.clock.now = w.clock.now.Add(time.Duration(random.IntN(240)) * time.Second)
		}
		events := append(slices.Clone(w.reports), w.reports[random.IntN(6)], w.reports[random.IntN(6)])
		random.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		for len(events) > 0 {
			n := 1 + random.IntN(len(events))
			w.hears(events[:n]...)
			events = events[n:]
		}
		wanted := service.Backoffs(nil, w.tasks(), service.Limits{BackoffLadder: handler.DefaultSettings().BackoffLadder},
			w.clock.Now())
		if diff := cmp.Diff(wanted, w.throttle().Revisions); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
	}
}
