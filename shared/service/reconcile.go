package service

import (
	"slices"
	"time"

	"berth/shared/cluster"
)

// Reconcile compares a service's tasks with what was asked for (S1) and plans the difference: tasks
// that are missing, too many, unhealthy, on an instance that they have to leave, or of an older
// revision. The plan keeps within the deployment percentages: maximumPercent of the desired count,
// rounded down, bounds what is started; minimumHealthyPercent, rounded up, bounds what is stopped.
// It holds starts back that keep failing, and it ends deployments: completed, failed or rolled back
// (S8). Once a plan is carried out, reconciling again plans nothing more.
//
// Each task set of a service with the deployment controller EXTERNAL is planned by itself (S15).
func Reconcile(in Input) Plan {
	if in.Service.HasTaskSets() && in.Service.Status == cluster.ServiceActive {
		return reconcileTaskSets(in)
	}
	// 1. Sort the tasks, once.
	sorted := sortTasks(&in)
	findings := reportUnhealthy(&in, sorted.revisions)

	// 2. Assess the rollout: the circuit breaker, alarms or a request may end it, and change which
	// revision is the PRIMARY one.
	next, assessed := assessRollout(&in, copyService(&in), sorted)

	// 3. Decide about tasks, policy by policy.
	v := newView(&in, &next, sorted)
	v, d := inTurn(v, policiesOf(v)...)

	// 4. Complete the deployment if nothing is left to do, and report where the service stands.
	changes := changesOf(sorted.targets, in.Now)
	reported := completeAndReport(v, d, changes)
	return planOf(v, sorted, slices.Concat(findings, assessed), d.plus(reported), changes)
}

// completeAndReport completes the deployment if nothing is left to do, and reports where the
// service stands.
func completeAndReport(v view, d decision, changes registrationChanges) decision {
	var completed, reported decision
	*v.next, completed = completeDeployment(v, d)
	_, reported = inTurn(v,
		func(view) decision { return completed },
		reportThrottle,
		reportMissingAlarms,
		func(v view) decision { return reportDistrusted(v, d.distrusted) },
		reportStuck,
		func(v view) decision { return reportTargets(v.Service.Name, changes) },
	)
	return reported
}

// policiesOf returns what is decided about a service's tasks, in this order. What one policy stops
// or starts is no longer there, or no longer missing, for those after it.
func policiesOf(v view) []policy {
	switch {
	case v.Service.Status != cluster.ServiceActive:
		return []policy{stopAll}
	case v.Service.Strategy == cluster.Daemon:
		return daemonPolicies(v)
	}
	return replicaPolicies(len(v.revisions))
}

// replicaPolicies are the policies of a REPLICA service with so many revisions, of which the
// PRIMARY one is the first. Stops come first, so that starts can use the room they make.
func replicaPolicies(revisions int) []policy {
	policies := []policy{
		stopProvisioning, // what maximumPercent leaves no room for
		stopUseless,      // what will never run where it is
		rollOut,          // older tasks that the PRIMARY's replace
	}
	for i := revisions - 1; i > 0; i-- {
		policies = append(policies, stopPolicies(i)...)
	}
	policies = append(policies, scaleInFailedPrimary, finishReplacements)
	policies = append(policies, stopPolicies(0)...)
	for i := range revisions {
		// the PRIMARY first: tasks that took its room would be stopped again
		policies = append(policies, startMissing(i))
	}
	return append(policies, limitMoves, reconsiderStabilizing, reportSteady)
}

// stopPolicies stop what one revision has too many of.
func stopPolicies(i int) []policy {
	return []policy{
		scaleIn(i),             // more tasks than desired
		stopReplaced(i),        // unhealthy or draining, and replaced
		makeRoom(i),            // unhealthy or draining, and in the way of tasks that find no instance
		stopBeforeReplacing(i), // unhealthy or draining, where nothing may start first
	}
}

// reportSteady says whether the PRIMARY deployment has exactly the tasks it should have, none of
// them waits for an instance, and no other has any.
func reportSteady(v view) decision {
	p := v.primary()
	return decision{steady: p.steadyCount() == v.desired && v.onlyPrimaryLeft() && p.failingCount() == 0 &&
		p.count(provisioning) == 0}
}

// copyService returns a copy of the service's row that the plan may change. The desired count of a
// DAEMON service is how many instances are eligible.
func copyService(in *Input) cluster.Service {
	next := *in.Service
	if next.Release != nil {
		next.Release = new(*next.Release)
	}
	if next.Strategy == cluster.Daemon && next.Status == cluster.ServiceActive {
		next.Desired = len(in.Eligible)
	}
	return next
}

// newView returns the service before anything is decided about its tasks.
func newView(in *Input, next *cluster.Service, sorted sortedTasks) view {
	v := view{
		Input: in, next: next, revisions: groupByDeployment(next, sorted.revisions),
		backoffs: Backoffs(in.Throttle, in.Tasks, in.Limits, in.Now),
		desired:  desiredCount(next), acted: len(sorted.lost) > 0, occupied: sorted.occupied,
		coolingDown: sorted.coolingDown,
	}
	var retryRefused time.Time
	v.refused, retryRefused = refusedInstances(in.Tasks, in.Limits, in.Now)
	v.reconsiderAt = earliest(sorted.reconsiderAt, retryRefused)
	v.floor, v.ceiling = in.Service.TaskBounds(v.desired)
	v.revisions = markAbandoned(v)
	if next.Strategy == cluster.Daemon {
		v.ceiling = v.desired
	} else {
		v.revisions = shareDesiredCount(v)
	}
	return v
}

// planOf puts everything together that was decided.
func planOf(v view, sorted sortedTasks, before []keyedEvent, d decision, changes registrationChanges) Plan {
	next := nextService(v)
	p := Plan{
		Next: next, Starts: d.starts, RefusedInstances: v.refused, MakesRoom: d.makesRoom, LostTasks: sorted.lost,
		CountedFailures: sorted.failures, RegisterTargets: sorted.register, DeregisterTargets: sorted.deregister,
		ThrottleCleared: v.Throttle != nil && len(v.Throttle.Revisions) > 0 && len(v.backoffs) == 0,
		EmittedTargets:  changes.reported, Moves: d.moves, EndedPairs: d.endedPairs,
		ReconsiderAt: earliest(v.reconsiderAt, d.reconsiderAt),
		Steady:       d.steady && v.next.Status == cluster.ServiceActive && !v.acted,
	}
	p.Stops, p.Choices = stopsOf(d.stops)
	for _, id := range d.held {
		if p.HeldRevisions == nil {
			p.HeldRevisions = map[string]bool{}
		}
		p.HeldRevisions[id] = true
	}
	p.EventsBefore = dueEvents(next, before, v.Now)
	p.EventsAfter = dueEvents(next, d.events, v.Now)
	next.EmittedKeys = lastingKeys(next.EmittedKeys, slices.Concat(before, d.events))
	return p
}

// stopsOf separates tasks to stop from choices among tasks.
func stopsOf(sets []stopSet) (stops []Stop, choices []Choice) {
	for _, s := range sets {
		if s.count < len(s.tasks) {
			choices = append(choices, Choice{Count: s.count, Candidates: rowsOf(s.tasks), Reason: s.reason})
			continue
		}
		for _, row := range rowsOf(s.tasks) {
			stops = append(stops, Stop{Task: row, Reason: s.reason})
		}
	}
	return stops, choices
}

func rowsOf(tasks []*task) []*cluster.Task {
	rows := make([]*cluster.Task, len(tasks))
	for i, t := range tasks {
		rows[i] = t.row
	}
	return rows
}
