package simulation

import (
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// Once the faults have ended, what a clock that had jumped has written holds nothing up for long:
// each wait that begins then ends within this time, the longest of which is that for a start whose
// outcome is unknown.
const promptEnd = 12 * time.Minute

// checkNothingHeldUp checks that nothing waits for a time that a wrong clock has written: each task
// that was placed while faults struck has been started, and each outbox row has been carried out.
// Connections that drain may take longer.
func (w *World) checkNothingHeldUp() {
	if w.LoseEvents {
		return // the sweep alone is slower
	}
	ended := w.Loop.Now().Add(-promptEnd)
	for key, row := range w.checker.Rows {
		switch r := row.(type) {
		case *cluster.Task:
			at, placed := w.checker.PlacedAt(r.ID)
			if placed && at.Before(ended) && r.Last == "" && r.Desired == cluster.TaskRunning && !r.Foreign &&
				!w.started[r.Batch+" "+r.Instance] {
				w.checker.Fail("invariant 8: task %s, claimed at %s, was not started %s after the last fault", r.ID,
					r.ClaimedAt, promptEnd)
			}
		case *state.Outbox:
			if at := w.checker.Changes[key].At; at.Before(ended) && len(r.Starts) > 0 {
				w.checker.Fail("invariant 8: outbox row %s waits %s after the last fault, until %s", r.ID, promptEnd,
					r.NotBefore)
			}
		}
	}
}
