package handler_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/state"
)

// reported is a world with tasks of a service, of a request that had waited, and of somebody else,
// and all events that ECS has emitted of them and their instances, oldest first. None was
// delivered.
func reported(t *rapid.T, w *world, foreign bool) [][]byte {
	w.run(w.t, operation.SubmitTasks{Count: 2, Wait: "1h"})
	w.ecs.frozen = true
	w.instances("i", 3, 4096, 8192)
	w.create("web", "web", 4)
	w.pump()
	if foreign {
		w.ecs.add(cluster.ECSTask{Cluster: prod, Instance: "i000", TaskDefinition: "other:1", Group: "family:other"})
		w.ecs.add(cluster.ECSTask{Cluster: prod, Instance: "i001", TaskDefinition: "other:1", Group: "family:other"})
	}
	w.observerAsleep = true
	steps := rapid.IntRange(1, 25).Draw(t, "changes")
	for n := range steps {
		w.clock.now = w.clock.now.Add(time.Second)
		if rapid.IntRange(0, 5).Draw(t, "an instance changes") == 0 {
			id := rapid.SampledFrom([]string{"i000", "i001", "i002"}).Draw(t, "instance")
			w.ecs.change(id, func(i *cluster.Instance) {
				i.AgentConnected = rapid.Bool().Draw(t, "connected")
				i.Status = rapid.SampledFrom([]cluster.InstanceStatus{cluster.InstanceActive, cluster.InstanceDraining}).Draw(t, "status")
				i.Attributes["n"] = fmt.Sprint(n)
			})
			continue
		}
		if live := w.ecs.live(); len(live) > 0 {
			w.ecs.report(rapid.SampledFrom(live).Draw(t, "task"), func(e *cluster.ECSTask) { progress(t, w, e) })
		}
	}
	events := w.ecs.events
	w.ecs.events = nil
	return events
}

// progress returns what ECS may report of a task next.
func progress(t *rapid.T, w *world, e *cluster.ECSTask) {
	switch rapid.IntRange(0, 3).Draw(t, "report") {
	case 0:
		e.Last, e.Desired, e.StopCode = cluster.TaskStopped, cluster.TaskStopped, cluster.StopContainerExited
		e.ExitCode, e.Reason = new(rapid.IntRange(0, 2).Draw(t, "exit code")), "over"
	case 1:
		e.Health = rapid.SampledFrom([]cluster.Health{cluster.Healthy, cluster.Unhealthy, cluster.UnknownHealth}).Draw(t, "health")
		fallthrough
	default:
		e.Last = cluster.TaskRunning
		if e.Started.IsZero() {
			e.Started = w.clock.now
		}
	}
}

// observed returns the rows that the observer writes, without what counts writes.
func (w *world) observed() []state.Row {
	var out []state.Row
	for _, t := range w.tasks() {
		t.Head = cluster.Head{Cluster: t.Cluster}
		out = append(out, t)
	}
	for _, i := range rows[*cluster.Instance](w, state.PrefixInstance) {
		i.Head = cluster.Head{Cluster: i.Cluster}
		out = append(out, i)
	}
	return out
}

// scrambled returns the events in any order, each at least once.
func scrambled(t *rapid.T, events [][]byte) [][]byte {
	out := slices.Clone(events)
	for range rapid.IntRange(0, 10).Draw(t, "duplicates") {
		if len(events) > 0 {
			out = append(out, rapid.SampledFrom(events).Draw(t, "duplicate"))
		}
	}
	return rapid.Permutation(out).Draw(t, "order")
}

func TestTaskStateChange_OrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(bench{t, rt})
		events := reported(rt, w, false)
		before := copyOf(w)
		w.observe(events...)
		want := w.observed()
		other := before(bench{t, rt})
		other.observe(scrambled(rt, events)...)
		if diff := cmp.Diff(want, other.observed()); diff != "" {
			rt.Fatalf("in order (-), otherwise (+):\n%s", diff)
		}
	})
}

func TestTaskStateChange_OrderDoesNotMatterAfterASweep(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(bench{t, rt})
		events := reported(rt, w, true)
		before := copyOf(w)
		w.observe(events...)
		w.sweep()
		want := w.live()
		other := before(bench{t, rt})
		part := scrambled(rt, events)
		other.observe(part[:rapid.IntRange(0, len(part)).Draw(rt, "delivered")]...) // the rest is lost
		other.sweep()
		if diff := cmp.Diff(want, other.live()); diff != "" {
			rt.Fatalf("in order (-), otherwise (+):\n%s", diff)
		}
	})
}

// live returns the observed rows without foreign tasks that have stopped: a task of which only that
// was reported has no row.
func (w *world) live() []state.Row {
	return slices.DeleteFunc(w.observed(), func(r state.Row) bool {
		t, ok := r.(*cluster.Task)
		return ok && t.Foreign && t.HasEnded()
	})
}

// copyOf remembers the rows and ECS as they are, and builds worlds from them.
func copyOf(w *world) func(bench) *world {
	var all []state.Row
	for _, prefix := range []string{
		state.PrefixMeta, state.PrefixTask, state.PrefixInstance, state.PrefixAlias, state.PrefixService, state.PrefixDefinition,
	} {
		all = append(all, rows[state.Row](w, prefix)...)
	}
	entries, err := w.store.List(ctx, state.Prefix(state.Directory, state.PrefixEntry))
	if err != nil {
		w.t.Fatal(err)
	}
	return func(t bench) *world {
		next := emptyWorld(t)
		next.ecs = w.ecs
		next.observer.ECS = w.ecs
		*next.clock = manualClock{now: w.clock.now}
		for _, row := range append(entries, all...) {
			if _, err := next.store.Write(ctx, state.Write{Put: row, Any: true}); err != nil {
				t.Fatal(err)
			}
		}
		return next
	}
}

// bench is a property's test as a world reports to it.
type bench struct {
	testing.TB
	t *rapid.T
}

func (b bench) Fatal(args ...any)                 { b.t.Fatal(args...) }
func (b bench) Fatalf(format string, args ...any) { b.t.Fatalf(format, args...) }
func (b bench) Errorf(format string, args ...any) { b.t.Errorf(format, args...) }
func (b bench) Cleanup(f func())                  { b.t.Cleanup(f) }
