package handler_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/handler/taskstatechange"
	"berth/shared/operation"
	"berth/shared/state"
)

// all returns the sort keys of a cluster's rows that would stay for ever.
func (w *world) all(name string) (keys []string) {
	w.t.Helper()
	got, err := w.store.List(ctx, state.Range{Cluster: name, To: "\xff"})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, row := range got {
		if row.Header().Expires == 0 {
			keys = append(keys, state.KeyOf(row).Sort)
		}
	}
	return keys
}

func (w *world) listed() []string {
	w.t.Helper()
	got, err := w.store.List(ctx, state.Prefix(state.Directory, state.PrefixEntry))
	if err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, row := range got {
		names = append(names, row.(*state.Entry).Name)
	}
	return names
}

// used returns a world whose cluster has had something of everything, and is empty again.
func used(t *testing.T) *world {
	w := newWorld(t)
	w.instances("i", 2, 4096, 8192)
	w.create("web", "web", 2)
	w.run(t, operation.SubmitTasks{TaskDefinition: "web"})
	w.advance(time.Minute)
	if _, err := w.api.Services.DeleteService(ctx, prod, "web", true); err != nil {
		t.Fatal(err)
	}
	w.advance(time.Minute)
	for _, id := range w.ecs.live() {
		w.ecs.exit(id, 0)
	}
	w.advance(time.Minute)
	return w
}

func TestForget(t *testing.T) {
	t.Run("ADeletedClusterLeavesNoRows", func(t *testing.T) {
		w := used(t)
		if n := len(w.all(prod)); n < 5 {
			t.Fatalf("only %d rows to begin with", n)
		}
		delete(w.ecs.clusters, prod)
		if err := w.api.Clusters.ClusterDeleted(ctx, prod); err != nil {
			t.Fatal(err)
		}
		w.pump()
		wantCount(t, "rows", w.all(prod), 0)
		wantCount(t, "clusters", w.listed(), 0)
	})
	t.Run("TheSweepEndsADeletionThatWasInterrupted", func(t *testing.T) {
		w := used(t)
		key := state.Key{Cluster: prod, Sort: state.PrefixMeta}
		if _, err := w.store.Write(ctx, state.Write{Delete: &key}); err != nil {
			t.Fatal(err)
		}
		w.sweep()
		wantCount(t, "rows", w.all(prod), 0)
		wantCount(t, "clusters", w.listed(), 0)
	})
	t.Run("AClusterDeletedAtECSIsForgotten", func(t *testing.T) {
		w := used(t)
		w.ecs.mute = true
		clear(w.ecs.instances)
		w.ecs.clusters[prod] = false
		w.sweep()
		w.pump()
		wantCount(t, "rows", w.all(prod), 0)
		wantCount(t, "clusters", w.listed(), 0)
	})
	t.Run("NotWhileServicesAreWanted", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 2, 4096, 8192)
		w.create("web", "web", 2)
		w.advance(time.Minute)
		w.ecs.mute = true
		clear(w.ecs.instances)
		clear(w.ecs.tasks)
		w.ecs.clusters[prod] = false
		w.sweep()
		w.pump()
		want(t, "desired", w.service("web").Service.Desired, 2)
		want(t, "running", w.service("web").Service.Running, 0)
		for _, i := range rows[*cluster.Instance](w, state.PrefixInstance) {
			want(t, "gone", i.IsDeregistered(), true)
		}
		figures, _ := w.observer.Telemetry.Collect()
		want(t, "clusters missing", figures[handler.ClustersMissing], 1)
		w.ecs.clusters[prod] = true
		w.ecs.mute = false
		w.instances("j", 2, 4096, 8192)
		w.advance(time.Minute)
		want(t, "running when the cluster is back", w.service("web").Service.Running, 2)
	})
	t.Run("NeedsTwoOperationsToAgree", func(t *testing.T) {
		w := used(t)
		w.ecs.clusters[prod] = false
		w.sweep()
		wantCount(t, "instances", rows[*cluster.Instance](w, state.PrefixInstance), 2)
		wantCount(t, "clusters", w.listed(), 1)
	})
	t.Run("ANewClusterThatECSDoesNotShowYetIsLeftAlone", func(t *testing.T) {
		w := emptyWorld(t)
		w.ecs.clusters[prod] = true
		if err := w.api.Clusters.ClusterCreated(ctx, prod); err != nil {
			t.Fatal(err)
		}
		delete(w.ecs.clusters, prod)
		w.sweep()
		wantCount(t, "clusters", w.listed(), 1)
		w.advance(handler.DefaultSettings().Settle)
		w.sweep()
		wantCount(t, "clusters a while later", w.listed(), 0)
	})
	t.Run("ItComesBackEmpty", func(t *testing.T) {
		w := used(t)
		if err := w.api.Clusters.ClusterDeleted(ctx, prod); err != nil {
			t.Fatal(err)
		}
		if err := w.api.Clusters.ClusterCreated(ctx, prod); err != nil {
			t.Fatal(err)
		}
		wantCount(t, "clusters", w.listed(), 1)
		wantCount(t, "outbox rows", w.outbox(), 0)
		w.create("web", "web", 2)
		w.advance(time.Minute)
		want(t, "running", w.service("web").Service.Running, 2)
	})
}

// TestRotation: the next invocation begins with the clusters that one had no time for.
func TestRotation(t *testing.T) {
	w := emptyWorld(t)
	var names []string
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		w.ecs.clusters[name] = true
		names = append(names, name)
		if err := w.api.Clusters.ClusterCreated(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	var swept []string
	w.ecs.onList = func() error {
		w.clock.now = w.clock.now.Add(20 * time.Second)
		return nil
	}
	state := &spyState{Store: w.store}
	h := &taskstatechange.Handler{
		State: watched{state, func(name string) { swept = append(swept, name) }}, ECS: w.ecs, Clock: w.clock, Settings: handler.DefaultSettings(),
	}
	w.clock.now = time.Now().Add(time.Hour) // a context's deadline is by the machine's clock
	for range 5 {
		limited, cancel := context.WithDeadline(ctx, w.clock.now.Add(60*time.Second))
		before := len(swept)
		if err := h.RunSchedule(limited, "sweep"); err != nil {
			t.Fatal(err)
		}
		cancel()
		if n := len(swept) - before; n < 1 || n > 8 {
			t.Fatalf("%d clusters were swept in one minute: %v", n, swept)
		}
	}
	swept = slices.Compact(swept) // a sweep reads it more than once
	for i := 1; i < len(swept); i++ {
		if at := slices.Index(names, swept[i-1]); swept[i] != names[(at+1)%len(names)] {
			t.Fatalf("order %s", strings.Join(swept, " "))
		}
	}
	for _, name := range names {
		if !slices.Contains(swept, name) {
			t.Errorf("%s was never swept: %v", name, swept)
		}
	}
}

// watched reports each cluster whose row is read for a sweep.
type watched struct {
	*spyState
	see func(name string)
}

func (s watched) Get(ctx context.Context, key state.Key) (state.Row, error) {
	if key.Sort == state.PrefixMeta {
		s.see(key.Cluster)
	}
	return s.spyState.Get(ctx, key)
}
