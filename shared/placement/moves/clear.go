package moves

import (
	"cmp"
	"slices"
)

// clearTries is how many instances are tried for one newcomer, the most promising first.
const clearTries = 16

// A clearAttempt clears one instance for a newcomer. Tasks leave it in the order of relief for
// their cost, each to an instance with room. This greedy search is the last resort, if so many
// tasks have to leave that their combinations are too many to try.
//
// For example, on instances with a capacity of 100 and six tasks of 10 each, a newcomer of 80 needs
// four tasks to leave one of them.
type clearAttempt struct {
	search             *branchSearch
	newcomer, instance int32
	movesBefore        int   // moves made before the attempt
	scoreBefore        score // before those
	movesLeft          int   // in the budget
}

// clearInstance returns the moves that clear the cheapest instance for the newcomer, the newcomer's
// own last, or nil if no instance can be cleared. It leaves the assignment as it was.
func clearInstance(s *branchSearch, newcomer int32) (best []plannedMove) {
	start, movesBefore := s.score, len(s.movedTasks)
	var least score
	for _, i := range clearableInstances(s, newcomer) {
		c := &clearAttempt{s, newcomer, i, movesBefore, start, s.budget - start.moves}
		if c.placeNewcomer() && (best == nil || s.score.compareForRoom(&least) < 0) {
			best, least = c.movesMade(), s.score
		}
		s.undoMovesTo(movesBefore)
		s.score = start
		for _, t := range s.problem.instances[i].tasks { // pinned because they had nowhere to go
			if s.decision[t] == pinned {
				s.setDecision(t, undecided)
			}
		}
	}
	return best
}

// clearableInstances returns the instances that could be cleared for the newcomer, the most
// promising first.
func clearableInstances(s *branchSearch, newcomer int32) []int32 {
	type promise struct {
		at    int32
		price float64
	}
	var all []promise
	owner := s.problem.tasks[newcomer].owner
	for i := range int32(len(s.problem.instances)) {
		if !s.isDestination(owner, i) || !mayJoinParent(s.assignment, s.stage, newcomer, i) ||
			s.problem.owners[owner].maxPerInstance > 0 && s.ownerTasksOn(owner, i) >= s.taskLimit(newcomer, i) {
			continue
		}
		if price, ok := (&clearAttempt{search: s, newcomer: newcomer, instance: i}).minimumCost(); ok {
			all = append(all, promise{i, price})
		}
	}
	s.steps -= len(s.problem.instances) / 64
	slices.SortFunc(all, func(a, b promise) int {
		return cmp.Or(cmp.Compare(a.price, b.price), cmp.Compare(a.at, b.at))
	})
	var out []int32
	for _, p := range all[:min(len(all), clearTries)] {
		out = append(out, p.at)
	}
	return out
}

// missingAmount returns how much more of a dimension has to become free for the newcomer.
func (c *clearAttempt) missingAmount(a resourceAmount) int64 {
	return missingRoom(c.search.assignment, c.search.stage, c.newcomer, c.instance, a)
}

// minimumCost returns a lower bound of the cost of clearing the instance, with a little for each
// move. ok is false if it cannot be cleared.
func (c *clearAttempt) minimumCost() (price float64, ok bool) {
	s := c.search
	for _, a := range s.problem.tasks[c.newcomer].amounts {
		missing := c.missingAmount(a)
		if missing == 0 {
			continue
		}
		var leave []int32
		for _, t := range s.problem.instances[c.instance].tasks {
			if s.isUndecided(t) && s.problem.tasks[t].amountOf(a.dim) > 0 {
				leave = append(leave, t)
			}
		}
		each := func(t int32) float64 {
			task := &s.problem.tasks[t]
			return (float64(task.cost) + 1e-3) / float64(task.amountOf(a.dim))
		}
		slices.SortFunc(leave, func(t, o int32) int { return cmp.Compare(each(t), each(o)) })
		sum := 0.0
		for _, t := range leave {
			relief := min(missing, s.problem.tasks[t].amountOf(a.dim))
			sum += each(t) * float64(relief)
			if missing -= relief; missing == 0 {
				break
			}
		}
		if missing > 0 {
			return 0, false
		}
		price = max(price, sum)
	}
	return price, true
}

// placeNewcomer clears the instance and puts the newcomer there, and reports whether that
// succeeded.
func (c *clearAttempt) placeNewcomer() bool {
	s := c.search
	for !s.hasRoomFor(s.stage, c.newcomer, c.instance) {
		t, cause := c.nextToLeave()
		if t < 0 || s.steps < 0 || len(s.movedTasks)-c.movesBefore >= c.movesLeft {
			return false
		}
		if !c.moveElsewhere(t, cause) { // it has nowhere to go, and is not tried again
			s.setDecision(t, pinned)
		}
	}
	c.dropUnneeded()
	owner := s.problem.tasks[c.newcomer].owner
	s.moveTask(c.newcomer, c.instance, openViolation{kind: unplacedTask, instance: -1, owner: owner, task: c.newcomer})
	return mayStay(s.assignment, s.stage, c.newcomer) && constraintsAgree(s.assignment)
}

// nextToLeave returns the task that should leave next, and why, or -1 if none can help.
func (c *clearAttempt) nextToLeave() (best int32, cause openViolation) {
	s := c.search
	best = -1
	least, most := 0.0, 0.0
	for _, t := range s.problem.instances[c.instance].tasks {
		if !s.isUndecided(t) {
			continue
		}
		relief, why := c.reliefByLeaving(t)
		if relief == 0 {
			continue
		}
		if each := (float64(s.problem.tasks[t].cost) + 1e-3) / relief; best < 0 || each < least ||
			each == least && relief > most {
			best, cause, least, most = t, why, each, relief
		}
	}
	return best, cause
}

// reliefByLeaving returns which part of what the newcomer misses the task would free, summed over
// the dimensions, and what it helps with most. If only ports or devices are missing, a task that
// has such counts 1.
func (c *clearAttempt) reliefByLeaving(t int32) (relief float64, cause openViolation) {
	s := c.search
	cause = openViolation{kind: overloadedCell, instance: c.instance, owner: -1, task: c.newcomer}
	isMissing, most := false, 0.0
	for _, a := range s.problem.tasks[c.newcomer].amounts {
		missing := c.missingAmount(a)
		if missing == 0 {
			continue
		}
		isMissing = true
		part := float64(min(missing, s.problem.tasks[t].amountOf(a.dim))) / float64(missing)
		if relief += part; part > most {
			cause.dim, most = a.dim, part
		}
	}
	switch {
	case isMissing:
		return relief, cause
	case sharesPort(s.assignment, openViolation{task: c.newcomer}, t):
		cause.kind = portConflict
	case s.problem.tasks[c.newcomer].needs.GPUs > 0 && s.problem.tasks[t].needs.GPUs > 0:
		cause.kind = missingGPU
	default:
		return 0, cause
	}
	return 1, cause
}

// moveElsewhere moves the task to the best instance with room for it, if there is one.
func (c *clearAttempt) moveElsewhere(t int32, cause openViolation) bool {
	s := c.search
	before := s.score
	for _, to := range s.rankDestinations(t, cause) {
		if to == c.instance {
			continue
		}
		s.moveTask(t, to, cause)
		if mayStay(s.assignment, s.stage, t) {
			return true
		}
		s.undoLastMove(before)
	}
	return false
}

// movesMade returns the moves of this attempt.
func (c *clearAttempt) movesMade() []plannedMove {
	s := c.search
	return s.movesSince(c.movesBefore)
}

// dropUnneeded undoes moves that turned out not to be needed, the costliest first: if 40 must
// become free and tasks of 10, 20 and 40 have left, the first two can return. With ports or devices
// it keeps all moves, because what is needed is no sum there.
func (c *clearAttempt) dropUnneeded() {
	s := c.search
	newcomer := &s.problem.tasks[c.newcomer]
	if len(newcomer.ports) > 0 || newcomer.needs.GPUs > 0 {
		return
	}
	all, start := c.movesMade(), s.score
	kept := slices.Clone(all)
	canReturn := func(t int32) bool {
		for _, a := range newcomer.amounts {
			cell, back := s.problem.cellIndex(c.instance, a.dim), s.problem.tasks[t].amountOf(a.dim)
			if usedWith(s.assignment, c.newcomer, c.instance, a)+back > s.loadLimit(s.stage, c.newcomer, cell, a.dim) {
				return false
			}
		}
		return true
	}
	order := slices.Clone(all)
	slices.SortStableFunc(order, func(a, b plannedMove) int {
		return cmp.Compare(s.problem.tasks[b.task].cost, s.problem.tasks[a.task].cost)
	})
	for _, step := range order {
		if !canReturn(step.task) {
			continue
		}
		kept = slices.DeleteFunc(kept, func(m plannedMove) bool { return m.task == step.task })
		if !c.replayMoves(kept) {
			c.replayMoves(all)
			s.score = start
			return
		}
	}
}

// replayMoves makes these moves instead of the ones made, and reports whether all tasks may stay
// where they go.
func (c *clearAttempt) replayMoves(steps []plannedMove) bool {
	s := c.search
	s.undoMovesTo(c.movesBefore)
	s.score = c.scoreBefore
	for _, m := range steps {
		s.moveTask(m.task, m.to, m.cause)
	}
	return !slices.ContainsFunc(steps, func(m plannedMove) bool {
		return !mayStay(s.assignment, s.stage, m.task)
	})
}
