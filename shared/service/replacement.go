package service

import (
	"cmp"
	"slices"
)

// A task that a rule makes leave its instance is replaced there first: the replacement names it
// ([cluster.Task.Replaces]). The two of them are a pair and count as one task, until either ends.

// pair is a task and the one started to take its place on another instance.
type pair struct {
	task, replacement *task // task is nil once the replacement was given up
	broken            bool  // one of them is stopped
}

// inProgress reports whether the replacement has not taken over yet and both could stay otherwise.
func (p pair) inProgress() bool {
	stays := func(t *task) bool { return !t.onDraining && !t.isFailing() }
	return !p.broken && p.task != nil && stays(p.task) && stays(p.replacement)
}

// pairsInProgress returns how many replacements have not taken over yet.
func (r *revisionTasks) pairsInProgress() (n int) {
	for _, p := range r.pairs {
		if p.inProgress() {
			n++
		}
	}
	return n
}

// findPairs finds the replacements whose task is still there, sorted by the task's id. If several
// replace one task, the first by id counts; no task is in two pairs.
func findPairs(tasks []*task) (pairs []pair) {
	if !slices.ContainsFunc(tasks, func(t *task) bool { return t.row.Replaces != "" }) {
		return nil
	}
	byID := make(map[string]*task, len(tasks))
	for _, t := range tasks {
		byID[t.row.ID] = t
	}
	paired := map[*task]bool{}
	for _, t := range tasks {
		old := byID[t.row.Replaces]
		if old != nil && old != t && !paired[old] && !paired[t] {
			paired[old], paired[t] = true, true
			pairs = append(pairs, pair{task: old, replacement: t})
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Compare(a.task.row.ID, b.task.row.ID) })
	return pairs
}

// pairedTasks returns the tasks that are in a pair.
func (r *revisionTasks) pairedTasks() map[*task]bool {
	paired := map[*task]bool{}
	for _, p := range r.pairs {
		paired[p.task], paired[p.replacement] = true, true
	}
	return paired
}

// finishReplacements ends pairs of the PRIMARY revision. If tasks are missing, both stay as
// ordinary tasks. Otherwise the old one stops once its replacement is healthy; the replacement
// stops if it fails, or if there are too many tasks anyway.
func finishReplacements(v view) (d decision) {
	p := v.primary()
	if len(p.pairs) == 0 {
		return d
	}
	parted := max(0, min(v.desired-p.stayingCount(), len(p.pairs)))
	for _, pair := range p.pairs[:parted] {
		d.endedPairs = append(d.endedPairs, pair.replacement.row)
	}
	v = v.afterDecision(decision{pairs: append([]pair{}, p.pairs[parted:]...)})
	p = v.primary()
	tooMany := p.stayingCount() > v.desired
	b := v.stopBudget()
	d.pairs = []pair{}
	for _, pair := range p.pairs {
		var step decision
		switch {
		case pair.broken:
		case pair.replacement.condition == healthy:
			b, step = b.tryStop(pair.task, "Replaced on another instance.")
			if len(step.stops) > 0 {
				d = d.plus(step)
				continue
			}
		case tooMany || pair.replacement.isFailing() && !v.DistrustChecks:
			b, step = b.tryStop(pair.replacement, p.scalingReason(pair.replacement))
			if len(step.stops) > 0 {
				pair.task = nil
			}
		}
		d = d.plus(step)
		d.pairs = append(d.pairs, pair)
	}
	return d
}

// limitMoves says how many tasks may move to other instances: none while anything else is to be
// done or starts are held back, also because a replacement ended soon after its start (S6), and one
// at a time after a failed start (S7). A move may be what a blocked task waits for: one that repairs a
// domain rule lets the task start.
func limitMoves(v view) (d decision) {
	p := v.primary()
	d.moves.InProgress = p.pairsInProgress()
	distrusted := p.failingCount() - toReplaceCount(v, p) // they stay, and count as tasks that work
	if len(v.refused) > 0 || !v.onlyPrimaryLeft() || v.acted || p.justEnded > 0 ||
		p.stayingCount()+distrusted != v.desired || toReplaceCount(v, p)+p.drainingCount() > 0 {
		return d
	}
	most := v.desired
	switch b := v.backoffs[p.deployment.ID]; {
	case b.Step > 0 && b.NextAttemptAt.After(v.Now):
		d.reconsiderAt = b.NextAttemptAt
		return d
	case b.Step > 0:
		most = max(0, 1-p.count(starting))
		if v.Service.Blocked == nil { // otherwise those that wait find no room, and are no attempt (S7)
			most = max(0, most-p.count(provisioning))
		}
	}
	left := v.stopBudget()
	d.moves.StartFirst = min(most, v.roomToStart())
	d.moves.StopFirst = min(most, max(0, min(left.healthy, left.serving)-v.floor))
	return d
}
