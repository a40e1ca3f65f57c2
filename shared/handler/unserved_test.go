package handler_test

import (
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// A service is deleted by force and created again under its name while tasks of the first one still
// exist.
func TestPlacement_Unserved(t *testing.T) {
	begin := func(t *testing.T) (*world, *cluster.Task) {
		w := newWorld(t)
		w.instances("i", 2, 4096, 8192)
		w.behind(1, nil)
		w.advance(time.Minute)
		old := w.tasks()[0]
		w.dispatchAsleep = true
		if _, err := w.api.Services.DeleteService(ctx, prod, "web", true); err != nil {
			t.Fatal(err)
		}
		w.pump()
		w.behind(0, nil)
		return w, old
	}
	t.Run("EndWithTheirInstance", func(t *testing.T) {
		w, old := begin(t)
		i := *w.instance(old.Instance)
		i.Status, i.AgentConnected, i.Version, i.Rev = cluster.InstanceInactive, false, i.Version+1, i.Rev+1
		if _, err := w.store.Write(ctx, state.Write{Put: &i}); err != nil {
			t.Fatal(err)
		}
		w.pump()
		want(t, "status", w.task(old.ID).Status(), cluster.TaskStopped)
	})
	t.Run("AreTakenOutOfTheirTargetGroups", func(t *testing.T) {
		w, old := begin(t)
		n := len(w.items())
		w.ecs.report(old.ECSID, func(t *cluster.ECSTask) { t.Last, t.Stopped = cluster.TaskStopped, w.clock.now })
		w.pump()
		wantCount(t, "outbox items", w.items(), n+1)
	})
}
