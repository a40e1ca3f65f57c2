package handler_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/quota"
	"berth/shared/state"
)

// fillQuickly lets tasks start at any rate, and then sets the account's rate to what ECS allows: 40
// calls a second, 100 at once.
func fillQuickly(w *world, fill func()) {
	w.t.Helper()
	rate, burst := w.dispatch.Settings.StartRate, w.dispatch.Settings.StartBurst
	w.dispatch.Settings.StartRate, w.dispatch.Settings.StartBurst = 1e6, 1e6
	fill()
	w.advance(10 * time.Second)
	w.dispatch.Settings.StartRate, w.dispatch.Settings.StartBurst = rate, burst
	full := quota.NewBucket("start", w.clock.now, quota.Limits{Rate: rate, Burst: burst})
	full.Cluster = state.Directory
	if _, err := w.store.Write(ctx, state.Write{Put: &full, Any: true}); err != nil {
		w.t.Fatal(err)
	}
}

// Stops and starts share ECS's calls so that neither waits for all of the other.
func TestDispatch_StartsAndStopsShareTheRate(t *testing.T) {
	t.Run("AStartWhile5000TasksStop", func(t *testing.T) {
		w := newWorld(t, func(s *handler.Settings) { s.ProvisioningLimit = 10_000 })
		w.instances("i", 500, 1<<20, 1<<20)
		fillQuickly(w, func() { w.create("mass", "web", 5000) })
		wantCount(t, "running tasks", w.with(cluster.TaskRunning), 5000)
		w.scale("mass", 0)
		w.advance(10 * time.Second)
		before := len(w.ecs.starts)
		w.create("other", "web", 1)
		for n := 0; len(w.ecs.starts) == before; n++ {
			if n >= 5 {
				t.Fatalf("no start after %d s, %d stops so far", n, len(w.ecs.stops))
			}
			w.advance(time.Second)
		}
		w.advance(2 * time.Minute)
		w.agree(t, 1)
		want(t, "stops", len(w.ecs.stops), 5000)
	})
	t.Run("AScaleUpOf2000BesideADrainOf500Nodes", func(t *testing.T) {
		w := newWorld(t, func(s *handler.Settings) { s.ProvisioningLimit = 10_000 })
		drained := w.instances("d", 500, 2048, 4096)
		fillQuickly(w, func() { w.create("old", "web", 4000) })
		w.instances("n", 500, 1<<20, 1<<20)
		for _, id := range drained {
			w.ecs.change(id, func(i *cluster.Instance) { i.Status = cluster.InstanceDraining })
		}
		w.pump()
		w.advance(40 * time.Second)
		w.create("new", "web", 2000)
		starts, stops := len(w.ecs.starts), len(w.ecs.stops)
		const seconds = 5
		w.advance(seconds * time.Second)
		starts, stops = len(w.ecs.starts)-starts, len(w.ecs.stops)-stops
		t.Logf("%d calls of StartTask and %d of StopTask", starts, stops)
		if half := seconds * 20; starts < half || stops < half || starts+stops > 2*half+100 {
			t.Errorf("%d calls of StartTask and %d of StopTask in %d s, want %d of each", starts, stops, seconds, half)
		}
	})
	t.Run("AStopThatACallerWaitsFor", func(t *testing.T) {
		w := newWorld(t, func(s *handler.Settings) { s.ProvisioningLimit = 10_000 })
		w.instances("i", 500, 1<<20, 1<<20)
		const services = 200 // of which each has its turn before a service has its second
		names := func(do func(name string)) {
			for n := range services {
				do(fmt.Sprint("mass", n))
			}
		}
		fillQuickly(w, func() { names(func(name string) { w.create(name, "web", 10) }) })
		w.create("other", "web", 1)
		w.advance(5 * time.Second)
		var other, atECS string
		for _, task := range w.with(cluster.TaskRunning) {
			if task.Owner == w.service("other").Service.Short {
				other, atECS = task.ID, task.ECSID
			}
		}
		names(func(name string) { w.scale(name, 0) })
		w.advance(2 * time.Second)
		before := len(w.ecs.stops)
		if _, err := w.api.Tasks.StopTask(ctx, prod, other, "by hand"); err != nil {
			t.Fatal(err)
		}
		w.advance(2 * time.Second)
		// The calls of one second may be under way.
		if at := slices.Index(w.ecs.stops, atECS); at < 0 || at > before+40 {
			t.Errorf("of %d tasks it is the one at %d, and %d were stopped before the call", len(w.ecs.stops), at,
				before)
		}
	})
	t.Run("AServiceBesideALargerOne", func(t *testing.T) {
		w := newWorld(t, func(s *handler.Settings) { s.ProvisioningLimit, s.StartBurst = 10_000, 40 })
		w.instances("i", 1, 1<<30, 1<<30) // a call for each task
		w.create("large", "web", 1000)
		w.advance(2 * time.Second)
		w.create("small", "web", 5)
		w.advance(2 * time.Second)
		small := w.service("small").Service
		running := 0
		for _, task := range w.with(cluster.TaskRunning) {
			if task.Owner == small.Short {
				running++
			}
		}
		want(t, "tasks of the small service", running, 5)
	})
	t.Run("AnotherCluster", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 1<<30, 1<<30)
		fillQuickly(w, func() { w.create("mass", "web", 1000) })
		w.scale("mass", 0)
		w.advance(3 * time.Second)
		const other = "other"
		w.ecs.clusters[other] = true
		if err := w.api.Clusters.ClusterCreated(ctx, other); err != nil {
			t.Fatal(err)
		}
		row := &state.Outbox{Head: cluster.Head{Cluster: other, Rev: 1}, ID: "0000000000001-00",
			TaskDefinition: "web:1",
			Batch:          "berth/x/1", Owner: "x", CreatedAt: w.clock.now, Starts: []state.StartItem{{ID: "t", Instance: "o"}}}
		task := &cluster.Task{Head: cluster.Head{Cluster: other, Rev: 1},
			TaskSpec:       cluster.TaskSpec{ID: "t", Owner: "x", TaskDefinition: "web:1"},
			TaskAssignment: cluster.TaskAssignment{Desired: cluster.TaskRunning, Instance: "o", Batch: "berth/x/1"}}
		before := len(w.ecs.starts)
		for _, r := range []state.Row{task, row} {
			if _, err := w.store.Write(ctx, state.Write{Put: r}); err != nil {
				t.Fatal(err)
			}
		}
		w.advance(4 * time.Second)
		want(t, "calls of StartTask", fmt.Sprint(len(w.ecs.starts)-before), "1")
	})
}
