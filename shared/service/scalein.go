package service

import (
	"slices"

	"berth/shared/cluster"
)

// stopAll stops every task: the service is being deleted (S10).
func stopAll(v view) (d decision) {
	b := v.stopBudget()
	for i := range v.revisions {
		r := &v.revisions[i]
		for _, t := range r.all {
			var step decision
			b, step = b.tryStop(t, r.scalingReason(t))
			d = d.plus(step)
		}
	}
	return d
}

// stopProvisioning stops tasks that wait for an instance and that maximumPercent leaves no room
// for: fewer are desired than when they were created.
func stopProvisioning(v view) (d decision) {
	b := v.stopBudget()
	tooMany := v.activeCount() - v.ceiling
	for i := range v.revisions {
		r := &v.revisions[i]
		for _, t := range r.staying[provisioning].tasks {
			if tooMany <= 0 {
				return d
			}
			var step decision
			b, step = b.tryStop(t, r.scalingReason(t))
			tooMany -= step.stopCount()
			d = d.plus(step)
		}
	}
	return d
}

// scaleIn stops the tasks that a revision has too many of. Tasks in a pair are left to
// [finishReplacements].
func scaleIn(i int) policy {
	return func(v view) decision {
		r := &v.revisions[i]
		return stopSurplus(v, i, r.stayingCount()-r.desired)
	}
}

// stopSurplus stops n tasks that could stay, in order of condition: tasks that wait for an instance
// first, healthy ones last.
func stopSurplus(v view, i, n int) (d decision) {
	if n <= 0 {
		return d
	}
	paired := v.revisions[i].pairedTasks()
	var surplus []*task
	for c := range condition(conditions) {
		if c == unhealthy || c == disconnected {
			continue
		}
		r := &v.revisions[i]
		single := slices.DeleteFunc(slices.Clone(r.staying[c].tasks), func(t *task) bool { return paired[t] })
		surplus = append(surplus, single...)
		step := stopAnyOf(v, single, n, r.scalingReason(nil))
		n -= step.stopCount()
		v, d = v.afterDecision(step), d.plus(step)
	}
	return d.plus(reportProtected(v, &v.revisions[i], surplus, n))
}

// scaleInFailedPrimary scales a failed PRIMARY deployment in. It starts nothing and its older
// deployments keep what they have, so only maximumPercent says how many of its tasks have to go.
// Tasks that have to go anyway stop first.
func scaleInFailedPrimary(v view) decision {
	p := v.primary()
	tooMany := func(v view) int { return v.activeCount() - v.ceiling }
	if tooMany(v) <= 0 || !p.isFailed() {
		return decision{}
	}
	_, d := inTurn(v,
		func(v view) decision { return stopFailing(v, v.primary(), tooMany(v), p.scalingReason) },
		func(v view) decision {
			return stopDraining(v, v.primary(), min(tooMany(v), v.primary().drainingCount()))
		},
		func(v view) decision { return stopSurplus(v, 0, tooMany(v)) },
	)
	return d
}

// reportProtected says that up to n of a revision's tasks should have stopped and are protected.
func reportProtected(v view, r *revisionTasks, tasks []*task, n int) decision {
	protected := 0
	for _, t := range tasks {
		if t.isProtected() {
			protected++
		}
	}
	if protected = min(n, protected); protected <= 0 {
		return decision{}
	}
	e := Event{Message: TasksProtectedMessage(v.Service.Name, r.deployment.ID, protected)}
	return decision{events: []keyedEvent{{"protected", e}}}
}

// shareDesiredCount spreads the service's desired count over its deployments. When it grows during
// a rollout, the newest deployment that still works grows by as much, because the PRIMARY one has
// yet to take over. A deployment that was replaced before it had taken over wants no more than the
// older ones leave to it; an abandoned one no more than it has.
//
// With 10 desired, 4 tasks still wanted of the oldest deployment and 8 of the next, the next gets
// 6.
func shareDesiredCount(v view) []revisionTasks {
	revisions := slices.Clone(v.revisions)
	growth := 0
	if was := revisions[0].desired; was > 0 {
		growth = v.desired - was
	}
	revisions[0].desired = v.desired
	for i := range revisions[1:] {
		r := &revisions[1+i]
		if growth > 0 && r.desired > 0 && !r.isFailed() {
			r.desired += growth
			growth = 0
		}
		if r.abandoned {
			r.desired = min(r.desired, r.totalCount())
		}
	}
	left := v.desired
	for i := len(revisions) - 1; i > 0; i-- {
		revisions[i].desired = min(revisions[i].desired, left)
		left -= revisions[i].desired
	}
	return revisions
}

// markAbandoned marks the older deployments of which no more tasks are started.
func markAbandoned(v view) []revisionTasks {
	revisions := slices.Clone(v.revisions)
	for i := range revisions[1:] {
		r := &revisions[1+i]
		r.abandoned = r.isFailed() || isAbandoned(v, r)
	}
	return revisions
}

// isAbandoned reports whether an older deployment never completed, has no task that works, and has
// already failed to start one. To retry it cannot help.
func isAbandoned(v view, r *revisionTasks) bool {
	return r.deployment.State == cluster.RolloutInProgress && !slices.ContainsFunc(r.all, (*task).isUp) &&
		(v.backoffs[r.deployment.ID].Step > 0 || !v.DistrustChecks && r.count(unhealthy) > 0)
}
