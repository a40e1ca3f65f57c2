package service

import (
	"cmp"
	"fmt"
	"slices"

	"berth/shared/cluster"
)

// maxUnhealthyEvents bounds how many unhealthy tasks of a service have an event at once: its row
// remembers each.
const maxUnhealthyEvents = 20

// reportUnhealthy emits an event for each unhealthy task, before anything is done about it; none
// while checks are distrusted.
func reportUnhealthy(in *Input, revisions []revisionTasks) (events []keyedEvent) {
	if in.DistrustChecks {
		return nil
	}
	for i := range revisions {
		for _, t := range revisions[i].all {
			if t.condition == unhealthy && len(events) < maxUnhealthyEvents {
				events = append(events, keyedEvent{"unhealthy/" + t.row.ID, unhealthyEvent(in.Service.Name, t)})
			}
		}
	}
	return events
}

// toReplaceCount returns how many of a revision's failing tasks are to be replaced. While checks
// are distrusted, these are only the tasks whose instance is draining or disconnected.
func toReplaceCount(v view, r *revisionTasks) int {
	if v.DistrustChecks {
		return r.count(disconnected) + r.onDraining[unhealthy].count()
	}
	return r.failingCount()
}

// stopFailing stops up to n failing tasks, first those that have to leave their instance anyway,
// otherwise at random.
func stopFailing(v view, r *revisionTasks, n int, reason func(*task) string) decision {
	atRandom := func(lists ...[]*task) []*task {
		tasks := slices.Concat(lists...)
		slices.SortFunc(tasks, func(a, b *task) int {
			return cmp.Or(cmp.Compare(drawNumber(v.Seed, a.row.ID), drawNumber(v.Seed, b.row.ID)), compareIDs(a, b))
		})
		return tasks
	}
	leaving := atRandom(r.staying[disconnected].tasks, r.onDraining[unhealthy].tasks)
	return stopInOrder(v, append(leaving, atRandom(r.staying[unhealthy].tasks)...), n, reason)
}

// stopReplaced stops failing tasks, and tasks on draining instances, while enough other tasks
// are known to be healthy.
//
// With 4 desired, 4 healthy and 1 unhealthy tasks, the unhealthy one stops. While one of the 4 is
// still stabilizing, the unhealthy one stays: the stabilizing task may turn out unhealthy, too.
func stopReplaced(i int) policy {
	return func(v view) decision {
		r := &v.revisions[i]
		extra := r.stayingCount() + r.failingCount() + r.drainingCount() - r.desired - r.undecidedCount()
		if extra <= 0 {
			return decision{}
		}
		failing := stopFailing(v, r, extra, unhealthyReason(v, r))
		v = v.afterDecision(failing)
		return failing.plus(stopDraining(v, &v.revisions[i], extra-failing.stopCount()))
	}
}

// stopBeforeReplacing stops one unhealthy task, and tasks on draining instances, where
// maximumPercent leaves no room to start their replacements first (S5, S6, S11).
func stopBeforeReplacing(i int) policy {
	return func(v view) decision {
		r := &v.revisions[i]
		missing := r.desired - r.stayingCount()
		if r.isFailed() && !r.primary { // nothing would start in their place
			return decision{}
		}
		startedFirst := max(0, missing-r.failingCount()-r.drainingCount()) // see startMissing
		room := v.roomToStart()
		// A replacement of an earlier one is not undecided any more once it is healthy. The task
		// that it replaced may still be stopping, for as long as its targets take to deregister.
		var d decision
		if r.undecidedCount() == 0 && room == 0 && toReplaceCount(v, r) > 0 {
			d = stopFailing(v, r, 1, unhealthyReason(v, r))
			missing -= d.stopCount()
			v = v.afterDecision(d)
			r = &v.revisions[i]
		}
		return d.plus(stopDraining(v, r, min(missing, r.drainingCount()-max(0, room-startedFirst))))
	}
}

// unhealthyReason returns why an unhealthy task stops, in ECS's words.
func unhealthyReason(v view, r *revisionTasks) func(*task) string {
	return func(t *task) string {
		registration := unhealthyRegistration(t)
		switch {
		case t.condition == disconnected:
			return "The agent of its container instance has been disconnected for too long."
		case v.DistrustChecks && t.onDraining:
			return drainingReason
		case v.DistrustChecks: // it stops because there is one too many
			return r.scalingReason(t)
		case t.row.Health == cluster.Unhealthy:
			return "Task failed container health checks"
		case registration != nil && !registration.Registry:
			return fmt.Sprintf("Task failed ELB health checks in (%s)", balancerWords(registration.ARN))
		}
		return "Task failed Cloud Map health checks"
	}
}

// unhealthyEvent says that a task is unhealthy.
func unhealthyEvent(service string, t *task) Event {
	r := unhealthyRegistration(t)
	switch {
	case t.row.Health == cluster.Unhealthy || r == nil:
		return Event{Message: UnhealthyContainerMessage(service, t.row.ID)}
	case r.Registry:
		return Event{Message: UnhealthyTargetMessage(service, t.row.ID, r),
			Name: "SERVICE_DISCOVERY_INSTANCE_UNHEALTHY"}
	}
	return Event{Message: UnhealthyTargetMessage(service, t.row.ID, r)}
}

// unhealthyRegistration returns the first registration of a task that is unhealthy, or nil.
func unhealthyRegistration(t *task) *cluster.Registration {
	if t.target == nil {
		return nil
	}
	for i, r := range t.target.Registrations {
		if r.Health == cluster.Unhealthy {
			return &t.target.Registrations[i]
		}
	}
	return nil
}
