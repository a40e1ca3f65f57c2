package handler_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/handler/api"
	"berth/shared/handler/healthcheck"
	"berth/shared/operation"
	"berth/shared/state"
)

var errCutOff = errors.New("cut off")

// nthFails counts writes, and fails from the n-th on.
func nthFails(count *int, n int) error {
	if *count++; *count >= n {
		return errCutOff
	}
	return nil
}

// A containerWorld has health-check, its queue, and task definitions with and without a health check: checked
// and web.
type containerWorld struct {
	*world
	queue *wakeQueue
}

func newContainerWorld(t *testing.T) *containerWorld {
	t.Helper()
	w := &containerWorld{world: newWorld(t)}
	w.queue = &wakeQueue{t: t, clock: w.clock}
	w.observer.Health = w.queue
	def := definition("checked", 1, 64, 64)
	def.HealthChecked = true
	w.ecs.define(def)
	w.instances("i", 2, 16384, 32768)
	return w
}

// newReadyWorld has n tasks of the service api that ECS finds HEALTHY. Nobody has asked it yet.
func newReadyWorld(t *testing.T, n int) *containerWorld {
	t.Helper()
	w := newContainerWorld(t)
	w.create("api", "checked", n)
	w.pump()
	w.turnSilently(cluster.Healthy, w.ecs.live()...)
	return w
}

// turnSilently changes the health of tasks without a question for it.
func (w *containerWorld) turnSilently(health cluster.Health, ids ...string) {
	for _, id := range ids {
		w.ecs.tasks[id].Health = health
	}
}

// deliver lets time pass until the next message of the queue, and delivers it. It returns what has to be delivered
// again; done is true if there is none within the time.
func (w *containerWorld) deliver(within time.Duration) (again []string, done bool) {
	w.t.Helper()
	m, ok := w.queue.take(w.clock.now.Add(within))
	if !ok {
		return nil, true
	}
	w.clock.now = m.at
	again = w.health.HandleMessages(ctx, messages(m.body))
	w.pump()
	return again, false
}

// healths counts the running tasks by their health.
func (w *containerWorld) healths() map[cluster.Health]int {
	out := map[cluster.Health]int{}
	for _, t := range w.with(cluster.TaskRunning) {
		out[t.Health]++
	}
	return out
}

func (w *containerWorld) schedule() {
	w.t.Helper()
	w.looks()
	w.pump()
}

// ECS sends no event when the health of a task changes, so health-check asks: soon for the first health, then on
// its schedule.
func TestHealthCheck_Containers(t *testing.T) {
	t.Run("FirstHealthIsAskedForSoon", func(t *testing.T) {
		w := newContainerWorld(t)
		w.create("api", "checked", 3)
		w.pump()
		want(t, "state", w.service("api").Service.Deployment.State, cluster.RolloutInProgress)
		all := w.ecs.live()
		for _, ready := range []int{0, 2, 3} {
			w.turnSilently(cluster.Healthy, all[:ready]...)
			if _, done := w.deliver(10 * time.Second); done {
				t.Fatalf("nothing asks after %d tasks were healthy", ready)
			}
			want(t, "HEALTHY tasks", w.healths()[cluster.Healthy], ready)
		}
		want(t, "state", w.service("api").Service.Deployment.State, cluster.RolloutCompleted)
		want(t, "last asked about the one left", w.ecs.describedTasks[len(w.ecs.describedTasks)-1], 1)
		calls := len(w.ecs.describedTasks)
		_, done := w.deliver(time.Hour)
		want(t, "a message is left", done, false)
		want(t, "calls once all is known", len(w.ecs.describedTasks)-calls, 0)
	})
	t.Run("FirstHealthIsLeftToTheScheduleAfterAMinute", func(t *testing.T) {
		w := newContainerWorld(t)
		w.create("api", "checked", 1)
		w.pump()
		asked := 0
		for done := false; !done; asked++ {
			_, done = w.deliver(time.Hour)
		}
		want(t, "questions", asked-1, len(handler.FirstHealthDelays))
		w.turnSilently(cluster.Healthy, w.ecs.live()...)
		w.schedule()
		want(t, "HEALTHY tasks", w.healths()[cluster.Healthy], 1)
	})
	t.Run("NothingIsAskedWithoutAHealthCheck", func(t *testing.T) {
		w := newContainerWorld(t)
		w.create("web", "web", 3)
		w.ecs.add(cluster.ECSTask{Cluster: prod, Instance: "i000", StartedBy: "somebody", TaskDefinition: "checked:1"})
		w.pump()
		w.schedule()
		wantCount(t, "messages", w.queue.messages, 0)
		wantCount(t, "calls of DescribeTasks", w.ecs.describedTasks, 0)
	})
	t.Run("TheScheduleAsksAHundredAtATime", func(t *testing.T) {
		w := newContainerWorld(t)
		w.create("api", "checked", 150)
		w.create("web", "web", 3)
		w.pump()
		w.turnSilently(cluster.Healthy, w.ecs.live()...)
		w.ecs.describedTasks = nil
		w.schedule()
		want(t, "HEALTHY tasks", w.healths()[cluster.Healthy], 153-3)
		if asked := w.ecs.describedTasks; len(asked) != 2 || asked[0] != 100 || asked[1] != 50 {
			t.Errorf("it asked about %v tasks, want 100 and 50", asked)
		}
		w.schedule() // the decisions about their health have changed the service
		before := w.store.Usage()
		w.schedule()
		after := w.store.Usage()
		want(t, "write units where nothing changes", after.WriteUnits, before.WriteUnits)
		if units := after.ReadUnits - before.ReadUnits; units > 5 {
			t.Errorf("%g read units where nothing changes: the tasks are read again", units)
		}
		w.clock.now = w.clock.now.Add(time.Hour)
		w.schedule()
		if units := w.store.Usage().ReadUnits - after.ReadUnits; units < 10 {
			t.Errorf("%g read units an hour later: the tasks are not read again", units)
		}
	})
	t.Run("AnUnhealthyTaskIsReplaced", func(t *testing.T) {
		w := newContainerWorld(t)
		w.create("api", "checked", 2)
		w.pump()
		all := w.ecs.live()
		w.turnSilently(cluster.Healthy, all...)
		w.schedule()
		w.turnSilently(cluster.Unhealthy, all[0])
		w.schedule()
		w.turnSilently(cluster.Healthy, w.ecs.live()[len(w.ecs.live())-1])
		w.schedule()
		want(t, "unhealthy task runs", w.ecs.tasks[all[0]].Last == cluster.TaskRunning, false)
		want(t, "HEALTHY tasks", w.healths()[cluster.Healthy], 2)
	})
	t.Run("UnknownHealthKeepsWhatWasKnown", func(t *testing.T) {
		w := newReadyWorld(t, 2)
		w.schedule()
		w.turnSilently(cluster.UnknownHealth, w.ecs.live()...) // as while an agent is disconnected
		w.schedule()
		w.ecs.report(w.ecs.live()[0], func(*cluster.ECSTask) {}) // events say nothing of it
		w.pump()
		want(t, "HEALTHY tasks", w.healths()[cluster.Healthy], 2)
	})
	t.Run("IsToldToPlacementWhereverItIsCutOff", func(t *testing.T) {
		for _, byMessage := range []bool{false, true} {
			for _, anew := range []bool{false, true} {
				for n := 1; ; n++ {
					w := newReadyWorld(t, 2)
					writes := 0
					spy := &spyState{Store: w.store}
					spy.beforeWrite = func(state.Write) error { return nthFails(&writes, n) }
					spy.beforeCommit = func(state.Commit) error { return nthFails(&writes, n) }
					w.health.State = spy
					look := func() (failed bool) {
						if !byMessage {
							return w.health.RunSchedule(ctx, "health") != nil
						}
						m, _ := w.queue.take(w.clock.now.Add(time.Hour))
						w.clock.now = m.at
						return len(w.health.HandleMessages(ctx, messages(m.body))) > 0
					}
					cutOff := look()
					w.pump()
					w.health.State = w.store
					if anew {
						w.health = &healthcheck.Handler{State: w.store, ECS: w.ecs, Clock: w.clock,
							Settings: handler.DefaultSettings(), Telemetry: &handler.Telemetry{}}
					}
					look()
					w.pump()
					want(t, fmt.Sprintf("state after write %d failed", n), w.service("api").Service.Deployment.State,
						cluster.RolloutCompleted)
					if !cutOff {
						break
					}
				}
			}
		}
	})
	t.Run("AnotherEnvironmentHasLookedMeanwhile", func(t *testing.T) {
		w := newReadyWorld(t, 1)
		w.schedule()
		w.placementAsleep = true // it would replace the task
		w.schedule()
		first := w.health
		w.health = &healthcheck.Handler{State: w.store, ECS: w.ecs, Clock: w.clock, Settings: handler.DefaultSettings(),
			Telemetry: &handler.Telemetry{}}
		w.clock.now = w.clock.now.Add(time.Minute)
		w.turnSilently(cluster.Unhealthy, w.ecs.live()...)
		w.schedule()
		w.clock.now = w.clock.now.Add(time.Minute)
		w.turnSilently(cluster.Healthy, w.ecs.live()...)
		w.health = first
		w.schedule()
		want(t, "HEALTHY tasks", w.healths()[cluster.Healthy], 1)
	})
	t.Run("OfAClusterThatWasCreatedAgain", func(t *testing.T) {
		w := newContainerWorld(t)
		w.schedule()
		row, err := w.store.Get(ctx, state.Key{Cluster: prod, Sort: state.PrefixMeta})
		if err != nil {
			t.Fatal(err)
		}
		w.create("api", "checked", 1)
		w.pump()
		w.turnSilently(cluster.Healthy, w.ecs.live()...)
		again := *row.(*state.Meta)
		again.Short = "0123456789ab"
		if _, err := w.store.Write(ctx, state.Write{Put: &again, Any: true}); err != nil {
			t.Fatal(err)
		}
		w.schedule()
		want(t, "HEALTHY tasks", w.healths()[cluster.Healthy], 1)
	})
	t.Run("ATaskThatStopsIsLeftToItsEvents", func(t *testing.T) {
		w := newReadyWorld(t, 1)
		w.ecs.tasks[w.ecs.live()[0]].Last = cluster.TaskStopping
		w.schedule()
		want(t, "HEALTHY tasks", w.healths()[cluster.Healthy], 0)
		want(t, "status", w.with(cluster.TaskRunning)[0].Last, cluster.TaskRunning)
	})
	t.Run("ARowThatHasChangedIsReadAgain", func(t *testing.T) {
		w := newContainerWorld(t)
		w.create("api", "checked", 2)
		w.pump()
		all := w.ecs.live()
		w.turnSilently(cluster.Healthy, all...)
		spy := &spyState{Store: w.store}
		spy.beforeCommit = func(state.Commit) error {
			spy.beforeCommit = nil
			w.ecs.report(all[0], func(*cluster.ECSTask) {})
			w.observe(w.ecs.events...)
			w.ecs.events = nil
			return nil
		}
		w.health.State = spy
		w.schedule()
		want(t, "HEALTHY tasks at first", w.healths()[cluster.Healthy], 1)
		w.schedule()
		want(t, "HEALTHY tasks then", w.healths()[cluster.Healthy], 2)
	})
	t.Run("ARowThatHasChangedSinceItWasRememberedIsReadAgain", func(t *testing.T) {
		w := newReadyWorld(t, 2)
		for range 3 { // until no decision about the service is left
			w.schedule()
		}
		row := *w.with(cluster.TaskRunning)[0]
		row.Rev++
		row.Tags = map[string]string{"a": "b"} // TagResource changes nothing else
		if _, err := w.store.Write(ctx, state.Write{Put: &row}); err != nil {
			t.Fatal(err)
		}
		w.placementAsleep = true // it would replace the task
		w.turnSilently(cluster.Unhealthy, row.ECSID)
		w.looks()
		w.looks()
		want(t, "health", w.task(row.ID).Health, cluster.Unhealthy)
	})
	t.Run("OfAStandaloneTask", func(t *testing.T) {
		w := newContainerWorld(t)
		r := w.run(t, operation.SubmitTasks{TaskDefinition: "checked"})
		w.turnSilently(cluster.Healthy, w.ecs.live()...)
		w.deliver(time.Minute)
		want(t, "health", w.task(r.Tasks[0]).Health, cluster.Healthy)
		w.turnSilently(cluster.Unhealthy, w.ecs.live()...)
		w.sweep()
		want(t, "health after a sweep", w.task(r.Tasks[0]).Health, cluster.Unhealthy)
	})
	t.Run("ThatCannotBeAskedChangesNothing", func(t *testing.T) {
		for _, c := range []struct {
			err   error
			again int
		}{{errStore, 1}, {throttled, 0}} {
			w := newReadyWorld(t, 1)
			w.ecs.onDescribeTasks = func() error { return c.err }
			again, _ := w.deliver(time.Minute)
			wantCount(t, "messages again", again, c.again)
			if err := w.health.RunSchedule(ctx, "health"); (err != nil) != (c.again > 0) {
				t.Errorf("the schedule ends with %v", err)
			}
			want(t, "HEALTHY tasks", w.healths()[cluster.Healthy], 0)
		}
	})
	t.Run("ARunThatEndsInTheMiddleGoesOn", func(t *testing.T) {
		w := newContainerWorld(t)
		w.instances("j", 8, 16384, 32768)
		w.create("api", "checked", 900)
		w.pump()
		w.turnSilently(cluster.Healthy, w.ecs.live()...)
		start := w.clock.now
		limited, cancel := context.WithDeadline(ctx, time.Now().Add(time.Hour))
		defer cancel()
		w.clock.now = time.Now()
		w.ecs.onDescribeTasks = func() error { // the time ends with the first calls
			w.clock.now = time.Now().Add(time.Hour)
			return nil
		}
		if err := w.health.RunSchedule(limited, "health"); err != nil {
			t.Fatal(err)
		}
		want(t, "HEALTHY tasks", w.healths()[cluster.Healthy], 800)
		w.clock.now, w.ecs.onDescribeTasks = start, nil
		w.looks()
		want(t, "HEALTHY tasks", w.healths()[cluster.Healthy], 900)
		w.clock.now = start
	})
	t.Run("OfATaskThatWaitedForAnInstance", func(t *testing.T) {
		w := newContainerWorld(t)
		for id := range w.ecs.instances {
			w.ecs.change(id, func(i *cluster.Instance) { i.Status = cluster.InstanceDraining })
		}
		r := w.run(t, operation.SubmitTasks{TaskDefinition: "checked", Wait: api.WaitForever})
		wantCount(t, "tasks that wait", w.with(cluster.TaskProvisioning), 1)
		w.instances("j", 1, 1024, 1024)
		w.turnSilently(cluster.Healthy, w.ecs.live()...)
		w.deliver(time.Minute)
		want(t, "health", w.task(r.Tasks[0]).Health, cluster.Healthy)
	})
	t.Run("MessagesOfOtherShapes", func(t *testing.T) {
		w := newContainerWorld(t)
		wantCount(t, "messages again", w.health.HandleMessages(ctx, messages(
			[]byte(`{"cluster":"prod","tasks":[]}`), []byte(`{"tasks":[{"o":"a","i":"b"}]}`),
			[]byte(`{"cluster":"prod","tasks":[{"o":"a","i":"b"}]}`), []byte(`{"cluster":1}`))), 0)
		wantCount(t, "calls of DescribeTasks", w.ecs.describedTasks, 0)
	})
}
