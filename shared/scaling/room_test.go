package scaling_test

import (
	"testing"

	"berth/shared/cluster"
	"berth/shared/scaling"
)

func TestRoom(t *testing.T) {
	// Each instance takes 4 tasks.
	w := newWorld(web("web", 5, cluster.CostLow), func(w *world) {
		w.instance(1, 3)
		w.instance(2, 1)
		w.instance(3, 1)
		w.task("log-1", 3, of("log"))
	})
	snap := w.snapshot()
	room := func(leaving ...string) string { return scaling.WhyNoRoom(snap, w.movers, leaving) }
	t.Run("FitsOneTask", func(t *testing.T) { expect(t, "why not", room("c-1"), "") })
	t.Run("DoesNotFitTwoTogether", func(t *testing.T) {
		expect(t, "why not", room("c-2", "c-3"),
			"task t3-0 of service web fits nowhere else: 0/3: 2 not active (DRAINING), 1 insufficient CPU (needs 512 units, best free 0)")
	})
	t.Run("LeavesTheSnapshotUnchanged", func(t *testing.T) {
		expect(t, "status", snap.Instances["c-2"].Status, cluster.InstanceActive)
		expect(t, "tasks", len(snap.Instances["c-1"].Tasks), 3)
	})
	t.Run("IgnoresEndedTasks", func(t *testing.T) { expect(t, "why not", room("c-9"), "") })
}
