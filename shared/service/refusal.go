package service

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
)

// refusal counts how often in a row ECS refused the service's tasks on one instance, for a reason
// that no row shows.
type refusal struct {
	attempts int
	until    time.Time // no task of the service is tried there
}

// refusedInstances returns the instances that are not tried now because ECS refused a task there,
// sorted by id, and when the first of them may be tried again.
//
// A refused start is no failed start (S7): it says something about the instance, and the service
// continues elsewhere. A refusal of an attempt that began after the last delay doubles the delay. A
// task that was RUNNING there since ends it.
func refusedInstances(tasks []*cluster.Task, l Limits, now time.Time) (instances []string, next time.Time) {
	var refused []*cluster.Task
	for _, t := range tasks {
		if t.WasRefused() && !cluster.IsAhead(t.Stopped.Time(), now) {
			refused = append(refused, t)
		}
	}
	if len(refused) == 0 {
		return nil, time.Time{}
	}
	slices.SortFunc(refused, func(a, b *cluster.Task) int {
		return cmp.Or(cmp.Compare(a.Stopped, b.Stopped), cmp.Compare(a.ID, b.ID))
	})
	ran := map[string]cluster.Instant{}
	for _, t := range tasks {
		ran[t.Instance] = max(ran[t.Instance], t.Started)
	}
	by := map[string]refusal{}
	for _, t := range refused {
		r := by[t.Instance]
		if t.Stopped <= ran[t.Instance] || cmp.Or(t.ClaimedAt, t.CreatedAt).Time().Before(r.until) {
			continue
		}
		wait := min(l.RetryRefused<<min(r.attempts, 10), l.RetryRefusedMax)
		by[t.Instance] = refusal{r.attempts + 1, t.Stopped.Time().Add(wait)}
	}
	for _, id := range slices.Sorted(maps.Keys(by)) {
		if until := by[id].until; until.After(now) {
			instances = append(instances, id)
			if next.IsZero() || until.Before(next) {
				next = until
			}
		}
	}
	return instances, next
}
