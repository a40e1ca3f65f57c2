package simulation

import (
	"time"

	"berth/shared/cluster"
)

// wasRefusedLately reports whether ECS has refused a task of the owner on the instance so lately that none is tried there: for 1, 2,
// 4 ... 10 minutes, by how often in a row that was so (S7).
func (h *rowHistory) wasRefusedLately(owner, instance string) bool {
	var ran cluster.Instant
	for _, t := range h.byOwner[owner] {
		if t.Instance == instance {
			ran = max(ran, t.Started)
		}
	}
	attempts, last := map[cluster.Instant]bool{}, cluster.Instant(0)
	for _, t := range h.byOwner[owner] {
		if t.Instance == instance && t.Service != "" && t.StopCode == cluster.StopRefused && t.Stopped > ran {
			attempts[t.Stopped], last = true, max(last, t.Stopped)
		}
	}
	if len(attempts) == 0 {
		return false
	}
	wait := min(time.Minute<<min(len(attempts)-1, 4), 10*time.Minute)
	return h.now().Before(last.Time().Add(wait + h.staleness))
}
