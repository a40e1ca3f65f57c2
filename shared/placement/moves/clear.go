package moves

import (
	"cmp"
	"slices"
)

// clearTries is how many instances are cleared for one newcomer, those first that promise to cost
// least.
const clearTries = 16

// clearAttempt is one instance that is cleared for a newcomer: tasks leave it, what relieves it most
// for its cost first, each to where there is room. It is what is left where so many have to leave
// that not all their combinations can be tried.
type clearAttempt struct {
	search             *branchSearch
	newcomer, instance int32
	movesBefore        int   // moves before
	scoreBefore        score // and what there was then
	movesLeft          int   // moves that the budget still has
}

// clearInstance are the moves that clear the instance which costs least for a newcomer, the
// newcomer's own the last; nil where no instance can be cleared. The state stays as it is.
func clearInstance(s *branchSearch, newcomer int32) (best []plannedMove) {
	start, begun := s.score, len(s.movedTasks)
	var least score
	for _, i := range clearableInstances(s, newcomer) {
		c := &clearAttempt{s, newcomer, i, begun, start, s.budget - start.moves}
		if c.placeNewcomer() && (best == nil || s.score.compareForRoom(&least) < 0) {
			best, least = c.movesMade(), s.score
		}
		s.undoTo(begun)
		s.score = start
		for _, t := range s.problem.instances[i].tasks { // those that had nowhere to go
			if s.decision[t] == pinned {
				s.setDecision(t, undecided)
			}
		}
		if s.steps < 0 {
			break
		}
	}
	return best
}

// clearableInstances are the instances that could be cleared for the newcomer, those first that
// promise to cost least.
func clearableInstances(s *branchSearch, newcomer int32) []int32 {
	type promise struct {
		at    int32
		price float64
	}
	var all []promise
	owner := s.problem.tasks[newcomer].owner
	for i := range int32(len(s.problem.instances)) {
		if !s.isDestination(owner, i) || s.problem.owners[owner].maxPerInstance > 0 &&
			s.tasksOn(owner, i) >= s.taskLimit(newcomer, i) {
			continue
		}
		if price, ok := (&clearAttempt{search: s, newcomer: newcomer, instance: i}).minimumCost(); ok {
			all = append(all, promise{i, price})
		}
	}
	s.steps -= len(s.problem.instances) / 64
	slices.SortFunc(all, func(a, b promise) int {
		return cmp.Or(cmp.Compare(a.price, b.price),
			cmp.Compare(a.at, b.at))
	})
	var out []int32
	for _, p := range all[:min(len(all), clearTries)] {
		out = append(out, p.at)
	}
	return out
}

// missingAmount is how much more of a dimension has to come free for the newcomer.
func (c *clearAttempt) missingAmount(a resourceAmount) int64 {
	cell := c.search.problem.cellIndex(c.instance, a.dim)
	return excessOver(c.search.load[cell]+a.amount, c.search.loadLimit(c.search.stage, c.newcomer, cell, a.dim))
}

// minimumCost is no more than what it costs to clear the instance, a little for each move included; not
// ok where it cannot be.
func (c *clearAttempt) minimumCost() (price float64, ok bool) {
	for _, a := range c.search.problem.tasks[c.newcomer].amounts {
		lack := c.missingAmount(a)
		if lack == 0 {
			continue
		}
		var leave []int32
		for _, t := range c.search.problem.instances[c.instance].tasks {
			if c.search.isUndecided(t) && c.search.problem.tasks[t].amountOf(a.dim) > 0 {
				leave = append(leave, t)
			}
		}
		each := func(t int32) float64 {
			return (float64(c.search.problem.tasks[t].cost) + 1e-3) / float64(c.search.problem.tasks[t].amountOf(a.dim))
		}
		slices.SortFunc(leave, func(t, o int32) int { return cmp.Compare(each(t), each(o)) })
		sum := 0.0
		for _, t := range leave {
			relief := min(lack, c.search.problem.tasks[t].amountOf(a.dim))
			sum += each(t) * float64(relief)
			if lack -= relief; lack == 0 {
				break
			}
		}
		if lack > 0 {
			return 0, false
		}
		price = max(price, sum)
	}
	return price, true
}

// placeNewcomer clears the instance and puts the newcomer there, and reports whether that could be done.
func (c *clearAttempt) placeNewcomer() bool {
	for !c.search.hasRoomFor(c.search.stage, c.newcomer, c.instance) {
		t, cause := c.nextToLeave()
		if t < 0 || c.search.steps < 0 || len(c.search.movedTasks)-c.movesBefore >= c.movesLeft {
			return false
		}
		if !c.moveElsewhere(t, cause) {
			c.search.setDecision(t, pinned)
		}
	}
	c.dropUnneeded()
	cause := openViolation{kind: unplacedTask, instance: -1, owner: c.search.problem.tasks[c.newcomer].owner,
		task: c.newcomer}
	c.search.moveTask(c.newcomer, c.instance, cause)
	return mayStay(c.search.assignment, c.search.stage, c.newcomer) && constraintsAgree(c.search.assignment)
}

// nextToLeave is the task that should leave next, and why; -1 where none can help.
func (c *clearAttempt) nextToLeave() (best int32, cause openViolation) {
	best = -1
	least, most := 0.0, 0.0
	for _, t := range c.search.problem.instances[c.instance].tasks {
		if !c.search.isUndecided(t) {
			continue
		}
		relief, why := c.reliefBy(t)
		if relief == 0 {
			continue
		}
		if each := (float64(c.search.problem.tasks[t].cost) + 1e-3) / relief; best < 0 || each < least ||
			each == least && relief > most {
			best, cause, least, most = t, why, each, relief
		}
	}
	return best, cause
}

// reliefBy is which part of what the newcomer lacks the task would leave behind, summed over the
// dimensions, and what it would help with most; where only ports or devices are in the way, 1 for
// one that has such.
func (c *clearAttempt) reliefBy(t int32) (relief float64, cause openViolation) {
	cause = openViolation{kind: overloadedCell, instance: c.instance, owner: -1, task: c.newcomer}
	lacking, most := false, 0.0
	for _, a := range c.search.problem.tasks[c.newcomer].amounts {
		lack := c.missingAmount(a)
		if lack == 0 {
			continue
		}
		lacking = true
		part := float64(min(lack, c.search.problem.tasks[t].amountOf(a.dim))) / float64(lack)
		if relief += part; part > most {
			cause.dim, most = a.dim, part
		}
	}
	switch {
	case lacking:
		return relief, cause
	case sharesPort(c.search.assignment, openViolation{task: c.newcomer}, t):
		cause.kind = portConflict
	case c.search.problem.tasks[c.newcomer].needs.GPUs > 0 &&
		c.search.problem.tasks[t].needs.GPUs > 0:
		cause.kind = missingGPU
	default:
		return 0, cause
	}
	return 1, cause
}

// moveElsewhere moves the task to the best instance that has room for it, if any.
func (c *clearAttempt) moveElsewhere(t int32, cause openViolation) bool {
	measure := c.search.score
	for _, to := range c.search.rankDestinations(t, cause) {
		if to == c.instance {
			continue
		}
		c.search.moveTask(t, to, cause)
		if mayStay(c.search.assignment, c.search.stage, t) {
			return true
		}
		c.search.undoLast(measure)
	}
	return false
}

// movesMade is the moves that clear the instance.
func (c *clearAttempt) movesMade() (out []plannedMove) {
	for n := c.movesBefore; n < len(c.search.movedTasks); n++ {
		out = append(out, plannedMove{c.search.movedTasks[n], c.search.at[c.search.movedTasks[n]],
			c.search.causes[n]})
	}
	return out
}

// dropUnneeded takes those of the moves back that proved not to be needed, the costliest first.
func (c *clearAttempt) dropUnneeded() {
	newcomer := &c.search.problem.tasks[c.newcomer]
	if len(newcomer.ports) > 0 || newcomer.needs.GPUs > 0 {
		return
	}
	all, start := c.movesMade(), c.search.score
	kept := slices.Clone(all)
	spare := func(t int32) bool {
		for _, a := range newcomer.amounts {
			cell, back := c.search.problem.cellIndex(c.instance, a.dim),
				c.search.problem.tasks[t].amountOf(a.dim)
			if c.search.load[cell]+a.amount+back > c.search.loadLimit(c.search.stage, c.newcomer, cell,
				a.dim) {
				return false
			}
		}
		return true
	}
	order := slices.Clone(all)
	slices.SortStableFunc(order, func(a, b plannedMove) int {
		return cmp.Compare(c.search.problem.tasks[b.task].cost, c.search.problem.tasks[a.task].cost)
	})
	for _, step := range order {
		if !spare(step.task) {
			continue
		}
		kept = slices.DeleteFunc(kept, func(m plannedMove) bool { return m.task == step.task })
		if !c.replayMoves(kept) {
			c.replayMoves(all)
			c.search.score = start
			return
		}
	}
}

// replayMoves makes these moves instead of those made, and reports whether all may stay so.
func (c *clearAttempt) replayMoves(steps []plannedMove) bool {
	c.search.undoTo(c.movesBefore)
	c.search.score = c.scoreBefore
	for _, m := range steps {
		c.search.moveTask(m.task, m.to, m.cause)
	}
	return !slices.ContainsFunc(steps, func(m plannedMove) bool {
		return !mayStay(c.search.assignment, c.search.stage,
			m.task)
	})
}
