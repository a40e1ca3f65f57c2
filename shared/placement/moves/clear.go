package moves

import (
	"cmp"
	"slices"
)

// clearTries is how many instances are cleared for one newcomer, those first that promise to cost
// least.
const clearTries = 16

// clearing is one instance that is cleared for a newcomer: tasks leave it, what relieves it most
// for its cost first, each to where there is room. It is what is left where so many have to leave
// that not all their combinations can be tried.
type clearing struct {
	search       *moveSearch
	newcomer, at int32
	begun        int         // moves before
	before       moveMeasure // and what there was then
	left         int         // moves that the budget still has
}

// clearInstance are the moves that clear the instance which costs least for a newcomer, the
// newcomer's own the last; nil where no instance can be cleared. The state stays as it is.
func clearInstance(s *moveSearch, newcomer int32) (best []moveStep) {
	start, begun := s.measure, len(s.moving)
	var least moveMeasure
	for _, i := range clearableInstances(s, newcomer) {
		c := &clearing{s, newcomer, i, begun, start, s.budget - start.moves}
		if c.run() && (best == nil || s.measure.compareThrifty(&least) < 0) {
			best, least = c.path(), s.measure
		}
		s.unwind(begun)
		s.measure = start
		for _, t := range s.problem.instances[i].tasks { // those that had nowhere to go
			if s.decision[t] == pinned {
				s.decide(t, undecided)
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
func clearableInstances(s *moveSearch, newcomer int32) []int32 {
	type promise struct {
		at    int32
		price float64
	}
	var all []promise
	owner := s.problem.tasks[newcomer].owner
	for i := range int32(len(s.problem.instances)) {
		if !s.admits(owner, i) || s.problem.owners[owner].most > 0 && s.on(owner, i) >= s.quota(newcomer, i) {
			continue
		}
		if price, ok := (&clearing{search: s, newcomer: newcomer, at: i}).price(); ok {
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

// lacks is how much more of a dimension has to come free for the newcomer.
func (c *clearing) lacks(a moveAmount) int64 {
	cell := c.search.moveState.problem.cell(c.at, a.dim)
	return excess(c.search.moveState.now[cell]+a.n, c.search.moveState.roof(c.search.stage, c.newcomer, cell, a.dim))
}

// price is no more than what it costs to clear the instance, a little for each move included; not
// ok where it cannot be.
func (c *clearing) price() (price float64, ok bool) {
	for _, a := range c.search.moveState.problem.tasks[c.newcomer].amounts {
		lack := c.lacks(a)
		if lack == 0 {
			continue
		}
		var leave []int32
		for _, t := range c.search.moveState.problem.instances[c.at].tasks {
			if c.search.moveState.free(t) && c.search.moveState.problem.tasks[t].amount(a.dim) > 0 {
				leave = append(leave, t)
			}
		}
		each := func(t int32) float64 {
			return (float64(c.search.moveState.problem.tasks[t].cost) + 1e-3) / float64(c.search.moveState.problem.tasks[t].amount(a.dim))
		}
		slices.SortFunc(leave, func(t, o int32) int { return cmp.Compare(each(t), each(o)) })
		sum := 0.0
		for _, t := range leave {
			relief := min(lack, c.search.moveState.problem.tasks[t].amount(a.dim))
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

// run clears the instance and puts the newcomer there, and reports whether that could be done.
func (c *clearing) run() bool {
	for !c.search.moveState.fits(c.search.stage, c.newcomer, c.at) {
		t, cause := c.next()
		if t < 0 || c.search.steps < 0 || len(c.search.moveState.moving)-c.begun >= c.left {
			return false
		}
		if !c.send(t, cause) {
			c.search.moveState.decide(t, pinned)
		}
	}
	c.thin()
	cause := moveDuty{kind: dutyUnplaced, instance: -1, owner: c.search.moveState.problem.tasks[c.newcomer].owner,
		task: c.newcomer}
	c.search.moveState.move(c.newcomer, c.at, cause)
	return mayStay(c.search.moveState, c.search.stage, c.newcomer) && constraintsAgree(c.search.moveState)
}

// next is the task that should leave next, and why; -1 where none can help.
func (c *clearing) next() (best int32, cause moveDuty) {
	best = -1
	least, most := 0.0, 0.0
	for _, t := range c.search.moveState.problem.instances[c.at].tasks {
		if !c.search.moveState.free(t) {
			continue
		}
		relief, why := c.relief(t)
		if relief == 0 {
			continue
		}
		if each := (float64(c.search.moveState.problem.tasks[t].cost) + 1e-3) / relief; best < 0 || each < least ||
			each == least && relief > most {
			best, cause, least, most = t, why, each, relief
		}
	}
	return best, cause
}

// relief is which part of what the newcomer lacks the task would leave behind, summed over the
// dimensions, and what it would help with most; where only ports or devices are in the way, 1 for
// one that has such.
func (c *clearing) relief(t int32) (relief float64, cause moveDuty) {
	cause = moveDuty{kind: dutyCell, instance: c.at, owner: -1, task: c.newcomer}
	lacking, most := false, 0.0
	for _, a := range c.search.moveState.problem.tasks[c.newcomer].amounts {
		lack := c.lacks(a)
		if lack == 0 {
			continue
		}
		lacking = true
		part := float64(min(lack, c.search.moveState.problem.tasks[t].amount(a.dim))) / float64(lack)
		if relief += part; part > most {
			cause.dim, most = a.dim, part
		}
	}
	switch {
	case lacking:
		return relief, cause
	case sharesPort(c.search.moveState, moveDuty{task: c.newcomer}, t):
		cause.kind = dutyPort
	case c.search.moveState.problem.tasks[c.newcomer].needs.GPUs > 0 &&
		c.search.moveState.problem.tasks[t].needs.GPUs > 0:
		cause.kind = dutyGPU
	default:
		return 0, cause
	}
	return 1, cause
}

// send moves the task to the best instance that has room for it, if any.
func (c *clearing) send(t int32, cause moveDuty) bool {
	measure := c.search.moveState.measure
	for _, to := range c.search.destinations(t, cause) {
		if to == c.at {
			continue
		}
		c.search.moveState.move(t, to, cause)
		if mayStay(c.search.moveState, c.search.stage, t) {
			return true
		}
		c.search.moveState.back(measure)
	}
	return false
}

// path is the moves that clear the instance.
func (c *clearing) path() (out []moveStep) {
	for n := c.begun; n < len(c.search.moveState.moving); n++ {
		out = append(out, moveStep{c.search.moveState.moving[n], c.search.moveState.at[c.search.moveState.moving[n]],
			c.search.moveState.causes[n]})
	}
	return out
}

// thin takes those of the moves back that proved not to be needed, the costliest first.
func (c *clearing) thin() {
	newcomer := &c.search.moveState.problem.tasks[c.newcomer]
	if len(newcomer.ports) > 0 || newcomer.needs.GPUs > 0 {
		return
	}
	all, start := c.path(), c.search.moveState.measure
	kept := slices.Clone(all)
	spare := func(t int32) bool {
		for _, a := range newcomer.amounts {
			cell, back := c.search.moveState.problem.cell(c.at, a.dim),
				c.search.moveState.problem.tasks[t].amount(a.dim)
			if c.search.moveState.now[cell]+a.n+back > c.search.moveState.roof(c.search.stage, c.newcomer, cell,
				a.dim) {
				return false
			}
		}
		return true
	}
	order := slices.Clone(all)
	slices.SortStableFunc(order, func(a, b moveStep) int {
		return cmp.Compare(c.search.moveState.problem.tasks[b.task].cost, c.search.moveState.problem.tasks[a.task].cost)
	})
	for _, step := range order {
		if !spare(step.task) {
			continue
		}
		kept = slices.DeleteFunc(kept, func(m moveStep) bool { return m.task == step.task })
		if !c.redo(kept) {
			c.redo(all)
			c.search.moveState.measure = start
			return
		}
	}
}

// redo makes these moves instead of those made, and reports whether all may stay so.
func (c *clearing) redo(steps []moveStep) bool {
	c.search.moveState.unwind(c.begun)
	c.search.moveState.measure = c.before
	for _, m := range steps {
		c.search.moveState.move(m.task, m.to, m.cause)
	}
	return !slices.ContainsFunc(steps, func(m moveStep) bool {
		return !mayStay(c.search.moveState, c.search.stage,
			m.task)
	})
}
