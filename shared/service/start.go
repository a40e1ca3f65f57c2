package service

import "time"

// startMissing starts the tasks that a revision is short of, within maximumPercent, its throttle
// and the limit on replacing unhealthy tasks.
func startMissing(i int) policy {
	return func(v view) decision {
		r := &v.revisions[i]
		switch {
		case r.isFailed() || r.abandoned:
			return decision{held: []string{r.deployment.ID}} // a protected task may still wait
		case r.primary && reachedThreshold(v.Input, v.next):
			// The next decision fails the deployment.
			return decision{held: []string{r.deployment.ID}, reconsiderAt: v.Now}
		}
		wanted := countStarts(v, r)
		n, d := startableCount(v, r, wanted.total-r.justEnded)
		d.distrusted = wanted.distrusted
		if n = min(n, v.ceiling-v.activeCount()); n > 0 {
			d.starts = []Start{{Revision: &r.deployment.Revision, Count: n,
				ReplacesUnhealthy: min(n, wanted.unhealthy)}}
		}
		return d
	}
}

// startCounts are how many tasks of a revision should start.
type startCounts struct {
	total      int
	unhealthy  int // of them, in place of unhealthy tasks
	distrusted int // unhealthy tasks that get no replacement because checks are distrusted
}

// countStarts counts what a revision is short of: first tasks that are missing, then replacements
// for tasks on draining instances, then for disconnected ones, then for unhealthy ones, of which
// only ReplacePercent are replaced at once.
func countStarts(v view, r *revisionTasks) startCounts {
	failing := r.failingCount()
	short := r.desired - r.stayingCount()
	missing := max(0, short-failing-r.drainingCount())
	// While checks are distrusted, an unhealthy task counts as working. If its replacement already
	// runs, that one is surplus.
	draining := max(0, min(r.drainingCount(), short-(failing-toReplaceCount(v, r))))
	toReplace := max(0, min(failing, short-draining))
	replaced := failing - toReplace
	distrusted := max(0, toReplace-max(0, toReplaceCount(v, r)-replaced))
	toReplace -= distrusted
	// A disconnected instance says nothing about its tasks: they are replaced first, and all at
	// once.
	lost := min(toReplace, max(0, r.count(disconnected)-replaced))
	atOnce := replaceAtOnce(v, r.desired) - max(0, replaced-r.count(disconnected))
	unhealthy := max(0, min(toReplace-lost, atOnce))
	return startCounts{total: missing + draining + lost + unhealthy, unhealthy: unhealthy, distrusted: distrusted}
}

// replaceAtOnce returns how many of n tasks may be replaced for being unhealthy at a time:
// ReplacePercent, at least one.
func replaceAtOnce(v view, n int) int { return max(1, (n*v.Limits.ReplacePercent+99)/100) }

// startableCount returns how many of n starts of a revision may be made now: none while its backoff
// lasts, and one at a time after a failed attempt (S6, S7).
func startableCount(v view, r *revisionTasks, n int) (int, decision) {
	b := v.backoffs[r.deployment.ID]
	n = max(0, n)
	switch {
	case b.Step == 0:
		return n, decision{}
	case b.NextAttemptAt.After(v.Now):
		return 0, decision{held: []string{r.deployment.ID}, reconsiderAt: b.NextAttemptAt}
	}
	return min(n, max(0, 1-r.count(provisioning)-r.count(starting))), decision{}
}

// reconsiderStabilizing reconsiders a REPLICA service when a stabilizing task counts as healthy, if
// anything waits for that.
func reconsiderStabilizing(v view) decision {
	p := v.primary()
	if len(v.revisions) > 1 || v.floorReached || v.Service.Moving || p.pairsInProgress() > 0 ||
		p.failingCount()+p.drainingCount() > 0 {
		return decision{reconsiderAt: nextStabilized(v)}
	}
	return decision{}
}

// nextStabilized returns when the next of the stabilizing tasks counts as healthy.
func nextStabilized(v view) (at time.Time) {
	for i := range v.revisions {
		r := &v.revisions[i]
		for _, b := range []bucket{r.staying[stabilizing], r.onDraining[stabilizing]} {
			for _, t := range b.tasks {
				at = earliest(at, t.row.Started.Time().Add(v.Limits.StabilizeFor))
			}
		}
	}
	return at
}
