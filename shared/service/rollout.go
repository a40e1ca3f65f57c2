package service

import "berth/shared/cluster"

// rollOut stops tasks of older revisions: as many as healthy tasks of the PRIMARY replace. Where
// maximumPercent leaves no room to start those, it stops as many first as minimumHealthyPercent
// allows. A failed deployment replaces nothing.
//
// With 4 desired, 100 % and 150 %: 2 new tasks start; once they are healthy, 2 old ones stop and 2
// more start.
func rollOut(v view) decision {
	p := v.primary()
	old, all := 0, 0
	for i := range v.revisions[1:] {
		r := &v.revisions[1+i]
		all += r.totalCount()
		// one that has to go and the one that starts in its place are one
		old += min(r.totalCount(), max(r.desired, r.stayingCount()))
	}
	if all == 0 || p.isFailed() {
		return decision{}
	}
	n := old - max(0, v.desired-p.staying[healthy].count())
	startable, d := startableCount(v, p, v.desired-p.stayingCount()-p.justEnded)
	n = max(n, startable-v.roomToStart())
	if reachedEarlySuccess(v) {
		n = all // the rest of the PRIMARY's tasks may come later
	}
	blocked := blockedCount(v, p)
	if blocked > 0 && !lacksRoom(v, p) {
		blocked = 0
	}
	for i := len(v.revisions) - 1; i > 0; i-- {
		step := rollOutRevision(v, i, n, provisioning)
		n -= step.stopCount()
		blocked -= step.freedCount()
		v, d = v.afterDecision(step), d.plus(step)
	}
	for i := len(v.revisions) - 1; i > 0 && blocked > 0; i-- {
		step := rollOutRevision(v, i, blocked, starting) // what has no instance makes no room
		blocked -= step.stopCount()
		v, d = v.afterDecision(step), d.plus(step)
	}
	n = max(n, blocked)
	for i := range v.revisions[1:] {
		r := &v.revisions[1+i]
		d = d.plus(reportProtected(v, r, r.all, n))
	}
	return d
}

// rollOutRevision stops up to n tasks of an older revision, in order of condition beginning with least,
// and lowers its desired count by as many.
func rollOutRevision(v view, i, n int, least condition) (d decision) {
	for c := least; c < conditions; c++ {
		steps := []policy{
			func(v view) decision {
				r := &v.revisions[i]
				return stopAnyOf(v, r.onDraining[c].tasks, n, r.scalingReason(nil))
			},
			func(v view) decision {
				r := &v.revisions[i]
				return stopAnyOf(v, r.staying[c].tasks, n, r.scalingReason(nil))
			},
		}
		switch c {
		case unhealthy:
			steps = []policy{func(v view) decision {
				return stopFailing(v, &v.revisions[i], n,
					v.revisions[i].scalingReason)
			}}
		case disconnected:
			continue // stopFailing has stopped these, too
		}
		for _, stop := range steps {
			step := stop(v)
			n -= step.stopCount()
			v, d = v.afterDecision(step), d.plus(step)
		}
	}
	for j := range d.stops {
		d.stops[j].lowersDesired = true
	}
	return d
}

// reachedEarlySuccess reports whether as many of the PRIMARY's tasks are up as the criteria for
// early success ask for.
func reachedEarlySuccess(v view) bool {
	e := v.Service.Early
	return e.Enable && v.primary().steadyCount() >= (v.desired*e.Percent+99)/100
}

// onlyPrimaryLeft reports whether no older deployment has or wants tasks any more.
func (v view) onlyPrimaryLeft() bool {
	for i := range v.revisions[1:] {
		if !isOver(v, &v.revisions[1+i]) {
			return false
		}
	}
	return true
}

// isOver reports whether an older deployment has no tasks any more and is to have none. Tasks that
// are being stopped on a disconnected instance do not keep it. An abandoned one leaves the service's
// row at once: the throttle forgets after some hours that its tasks failed to start.
func isOver(v view, r *revisionTasks) bool {
	p := v.primary()
	return len(r.all)+r.stopping == 0 &&
		(r.desired == 0 || r.abandoned || v.next.Deployment.State != cluster.RolloutFailed &&
			p.steadyCount() >= v.desired)
}
