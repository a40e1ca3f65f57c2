package service

import (
	"cmp"
	"maps"
	"slices"

	"berth/shared/cluster"
)

// A DAEMON service has exactly one task on each eligible instance (S4). An instance whose task is
// being stopped gets the next one when that has STOPPED: there are never two.

// daemonPolicies are the policies of a DAEMON service.
func daemonPolicies(v view) []policy {
	kept, extra := sortDaemons(v)
	return []policy{
		reportDaemonCount,
		stopExtraDaemons(extra),
		renewDaemons(kept), // stops those of older revisions and unhealthy ones
		startDaemons(kept),
		reconsiderDaemons,
		reportDaemonsSteady(kept),
	}
}

// reportDaemonCount reports that the number of eligible instances has changed.
func reportDaemonCount(v view) decision {
	if v.Service.Desired == v.desired {
		return decision{}
	}
	return decision{events: []keyedEvent{{Event: Event{Name: "SERVICE_DESIRED_COUNT_UPDATED"}}}}
}

// sortDaemons returns the one task that each instance keeps, and the others: those that may not be
// where they are, and the worse one where there are two.
func sortDaemons(v view) (kept map[string]*task, extra []*task) {
	kept = map[string]*task{}
	for i := range v.revisions {
		for _, t := range v.revisions[i].all {
			other := kept[t.row.Instance]
			switch {
			case !mayStayAsDaemon(v, t):
				extra = append(extra, t)
			case other == nil:
				kept[t.row.Instance] = t
			case compareDaemons(t, other) < 0:
				kept[t.row.Instance] = t
				extra = append(extra, other)
			default:
				extra = append(extra, t)
			}
		}
	}
	return kept, extra
}

// stopExtraDaemons stops tasks that are not the one of their instance.
func stopExtraDaemons(extra []*task) policy {
	return func(v view) (d decision) {
		if slices.ContainsFunc(extra, func(t *task) bool { return violatesConstraints(v, t) }) {
			d.events = []keyedEvent{{"constraint", Event{Name: "SERVICE_DAEMON_PLACEMENT_CONSTRAINT_VIOLATED"}}}
		}
		slices.SortFunc(extra, func(a, b *task) int {
			return cmp.Or(cmp.Compare(stopRank(a), stopRank(b)),
				compareIDs(a, b))
		})
		return d.plus(stopInOrder(v, extra, len(extra),
			func(t *task) string { return v.revisionOf(t).scalingReason(t) }))
	}
}

// mayStayAsDaemon reports whether a task may be the one of its instance. On a draining instance it
// stays until the other tasks have left.
func mayStayAsDaemon(v view, t *task) bool {
	switch {
	case t.row.Instance == "" || violatesConstraints(v, t):
		return false
	case t.onDraining:
		return v.HasOtherTasks != nil && v.HasOtherTasks(t.row.Instance)
	}
	return true
}

// violatesConstraints reports whether a task's instance meets neither the constraints that its
// deployment was made with nor today's, by which it could be started there.
func violatesConstraints(v view, t *task) bool {
	if t.row.Instance == "" || v.MeetsConstraints == nil || v.MeetsConstraints(t.row.Instance) {
		return false
	}
	_, eligible := slices.BinarySearch(v.Eligible, t.row.Instance)
	return !eligible
}

// compareDaemons orders the tasks of one instance by which is kept: the one in the better
// condition, then the oldest.
func compareDaemons(a, b *task) int {
	keepRank := func(t *task) condition {
		if t.condition == stabilizing { // to have been RUNNING for longer makes no task better
			return healthy
		}
		return stopRank(t)
	}
	return cmp.Or(cmp.Compare(keepRank(b), keepRank(a)), a.row.CreatedAt.Compare(b.row.CreatedAt), compareIDs(a, b))
}

// stopRank orders tasks by condition. That an instance is disconnected makes its task no better
// than an unhealthy one.
func stopRank(t *task) condition {
	if t.condition == disconnected {
		return unhealthy
	}
	return t.condition
}

// renewDaemons stops unhealthy tasks and, unless the new revision's tasks keep failing, those of
// older revisions: as many at once as ReplacePercent allows.
func renewDaemons(kept map[string]*task) policy {
	return func(v view) (d decision) {
		unhealthyLeft := replaceAtOnce(v, len(v.Eligible)) - v.stoppingCount()
		olderLeft, d := renewableCount(v, kept)
		b := v.stopBudget()
		for _, id := range rotateInstances(v, v.primary(), slices.Sorted(maps.Keys(kept))) {
			t := kept[id]
			r := v.revisionOf(t)
			var step decision
			switch {
			case t.onDraining: // none may be started there: it stays until the others have left
			case !r.primary && olderLeft > 0:
				b, step = b.tryStop(t, r.scalingReason(t))
				olderLeft -= step.stopCount()
			case t.condition != unhealthy:
			case v.DistrustChecks:
				step.distrusted = 1
			case unhealthyLeft > 0:
				b, step = b.tryStop(t, unhealthyReason(v, r)(t))
				unhealthyLeft -= step.stopCount()
			}
			d = d.plus(step)
		}
		return d
	}
}

// renewableCount returns how many tasks may stop for being of an older revision. After a failed
// attempt of the new revision it is one at a time, and only once its backoff is over and no other
// instance is there to try it on.
func renewableCount(v view, kept map[string]*task) (int, decision) {
	p := v.primary()
	b := v.backoffs[p.deployment.ID]
	switch {
	case p.isFailed():
		return 0, decision{}
	case b.Step == 0:
		return len(kept), decision{}
	case b.NextAttemptAt.After(v.Now):
		return 0, decision{reconsiderAt: b.NextAttemptAt}
	case v.stoppingCount() > 0 || p.count(starting) > 0:
		return 0, decision{}
	case v.Service.Blocked != nil: // instances without a task have no room
		return 1, decision{}
	case slices.ContainsFunc(v.Eligible, func(id string) bool { return kept[id] == nil }):
		return 0, decision{}
	}
	return 1, decision{}
}

// rotateInstances returns instances in an order that differs from one failed attempt of a revision
// to the next.
func rotateInstances(v view, r *revisionTasks, instances []string) []string {
	step := v.backoffs[r.deployment.ID].Step
	if step == 0 || len(instances) == 0 {
		return instances
	}
	first := int(drawNumber(uint64(step), r.deployment.ID) % uint64(len(instances)))
	return slices.Concat(instances[first:], instances[:first])
}

// startDaemons starts a task on each eligible instance that has none, within its throttle:
// after a failed attempt on one of them, on another each time.
func startDaemons(kept map[string]*task) policy {
	return func(v view) decision {
		short := slices.DeleteFunc(slices.Clone(v.Eligible), func(id string) bool {
			_, refused := slices.BinarySearch(v.refused, id)
			return kept[id] != nil || v.occupied[id] || v.coolingDown[id] || refused
		})
		r := startedRevision(v)
		if len(short) == 0 || r.isFailed() {
			return decision{}
		}
		n, d := startableCount(v, r, len(short))
		if n <= 0 {
			return d
		}
		if n < len(short) { // some of the instances may never have room
			short = rotateInstances(v, r, short)
		}
		d.starts = []Start{{Revision: &r.deployment.Revision, Count: n, Instances: short}}
		return d
	}
}

// startedRevision returns the revision that missing tasks are started of: the PRIMARY one, or while
// that starts none the newest older one that is of any use.
func startedRevision(v view) *revisionTasks {
	p := v.primary()
	b := v.backoffs[p.deployment.ID]
	if !p.isFailed() && (b.Step == 0 || !b.NextAttemptAt.After(v.Now)) {
		return p
	}
	for i := range v.revisions[1:] {
		if r := &v.revisions[1+i]; !r.abandoned {
			return r
		}
	}
	return p
}

// reconsiderDaemons reconsiders the service when a stabilizing task counts as healthy, if anything
// waits for that.
func reconsiderDaemons(v view) (d decision) {
	if len(v.revisions) > 1 || v.floorReached {
		d.reconsiderAt = nextStabilized(v)
	}
	return d
}

// reportDaemonsSteady says whether each eligible instance has a RUNNING task of the PRIMARY
// deployment, and no other deployment has any.
func reportDaemonsSteady(kept map[string]*task) policy {
	return func(v view) decision {
		running := 0
		for _, id := range v.Eligible {
			if t := kept[id]; t != nil && t.row.Last == cluster.TaskRunning && v.revisionOf(t).primary &&
				v.revisionOf(t).hasTask(t) {
				running++
			}
		}
		return decision{steady: running == len(v.Eligible) && v.onlyPrimaryLeft()}
	}
}
