package handler_test

import (
	"strings"
	"testing"

	"berth/shared/cluster"
	"berth/shared/state"
)

// Registrations and events depend on no placement version, so their outbox rows hinder nobody while
// dispatch is behind.
func TestPlacement_OutboxWhileDispatchIsBehind(t *testing.T) {
	begin := func(t *testing.T, n int) *world {
		w := newWorld(t)
		w.instances("i", 20, 8192, 16384)
		w.ecs.frozen = true
		w.behind(n, nil)
		w.dispatchAsleep = true
		return w
	}
	runs := func(w *world) {
		for _, id := range w.ecs.live() {
			w.ecs.report(id, func(t *cluster.ECSTask) { t.Last, t.Started = cluster.TaskRunning, w.clock.now })
		}
	}
	t.Run("OneTaskAfterTheOther", func(t *testing.T) {
		w := begin(t, 2)
		for _, id := range w.ecs.live() {
			w.ecs.report(id, func(t *cluster.ECSTask) { t.Last, t.Started = cluster.TaskRunning, w.clock.now })
			w.pump()
		}
		wantCount(t, "registrations", w.targets(), 2)
		wantCount(t, "outbox items", w.items(), 2)
	})
	t.Run("MoreThanOneCommitTakes", func(t *testing.T) {
		w := begin(t, 150)
		w.placementAsleep = true
		runs(w)
		w.pump()
		w.placementAsleep = false
		w.pump()
		wantCount(t, "registrations", w.targets(), 150)
		wantCount(t, "outbox items", w.items(), 150)
	})
	t.Run("EndedBeforeTheyWereMade", func(t *testing.T) {
		w := begin(t, 2)
		runs(w)
		w.pump()
		for _, id := range w.ecs.live() {
			w.ecs.report(id, func(t *cluster.ECSTask) { t.Last, t.Stopped = cluster.TaskStopped, w.clock.now })
			w.pump()
		}
		wantCount(t, "outbox items", w.items(), 4)
	})
	t.Run("BeforeStartsAndStops", func(t *testing.T) {
		w := begin(t, 2)
		w.scale("web", 4)
		w.pump()
		runs(w)
		w.pump()
		var order []bool
		for _, o := range w.outbox() {
			beside := len(o.Starts)+len(o.Stops) == 0
			want(t, "id "+o.ID+" comes first", strings.HasPrefix(o.ID, state.OutboxFirst), beside)
			order = append(order, beside)
		}
		wantCount(t, "rows", order, 2)
		want(t, "registrations first", order[0], true)
	})
}
