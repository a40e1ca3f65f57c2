package moves

import "slices"

// A sequencer puts the moves of a solution in an order in which they can be carried out.
//
// A move whose destination has room simply starts its replacement there. Moves into room that
// others leave come after those. An exchange among full instances has no such order: if A on i-1
// and B on i-2 swap places, neither can start first. Then one of them waits on a third instance
// with room (A starts on i-3, B moves to i-1, A moves on to i-2), or is stopped first if its owner
// allows that.
type sequencer struct {
	*assignment
	stage   searchStage
	pending []plannedMove
	out     []sequencedMove
}

// A sequencedMove is a move with how it is carried out; after has the positions of the moves that
// it waits for.
type sequencedMove struct {
	plannedMove
	mode  Mode
	via   int32 // -1 for none
	after []int
}

// sequenceMoves puts the moves in order. The assignment must be where they begin, and ends where
// they end. Each move goes to a place that is free by then, without the buffer if possible. If none
// can go, one task waits on a third instance, or is stopped first if none has room. done is false
// if that is not allowed: then some have moved, others not, and those that were to wait are nowhere.
func sequenceMoves(s *assignment, stage searchStage, steps []plannedMove) (out []sequencedMove, done bool) {
	q := &sequencer{assignment: s, stage: max(stage, stageBuffer), pending: slices.Clone(steps)}
	for len(q.pending) > 0 {
		if n, mode := q.nextReady(); n >= 0 {
			q.carryOutMove(n, sequencedMove{plannedMove: q.pending[n], mode: mode, via: -1})
		} else if !q.releaseTask() {
			return nil, false
		}
	}
	return q.out, true
}

// nextReady returns the next move whose destination has room, on which the application is not on too many
// instances, or -1.
func (q *sequencer) nextReady() (best int, mode Mode) {
	best = -1
	rank := 0
	for n, step := range q.pending {
		m, r := StartFirst, 0 // the lower r, the better: without the buffer, and keeping the domain rules
		switch {
		case !keepsNodes(q.assignment, step.task, step.to):
			continue
		case q.hasRoomFor(stageKeep, step.task, step.to):
		case q.hasRoomFor(stageBuffer, step.task, step.to):
			m, r = IntoBuffer, 2
		case q.hasRoomFor(q.stage, step.task, step.to):
			r = 4
		default:
			continue
		}
		d := q.problem.owners[q.problem.tasks[step.task].owner].domains
		if !mayJoinParent(q.assignment, stageKeep, step.task, step.to) {
			r += 8 // the parent comes first
		}
		if from := q.at[step.task]; d != nil && from >= 0 && !d.MayMove(int(from), int(step.to)) {
			r++
		}
		if best < 0 || r < rank {
			best, mode, rank = n, m, r
		}
	}
	return best, mode
}

// carryOutMove makes the n-th pending move. It notes the moves that it waits for: those that free
// its room, or else those that keep its domain rule.
func (q *sequencer) carryOutMove(n int, step sequencedMove) {
	q.pending = slices.Delete(q.pending, n, n+1)
	step.after = q.movesAwaited(step.plannedMove)
	if len(step.after) == 0 {
		step.after = q.domainPredecessors(step.plannedMove)
	}
	q.moveTask(step.task, step.to, step.cause)
	released := func(m sequencedMove) bool { return m.task == step.task }
	if !slices.ContainsFunc(q.out, released) { // otherwise the move that began earlier ends now
		q.out = append(q.out, step)
	}
}

// movesAwaited returns the earlier moves without which this one would have no room.
func (q *sequencer) movesAwaited(step plannedMove) []int {
	task := &q.problem.tasks[step.task]
	var leaving []int // moves that leave the destination
	for n, m := range q.out {
		if q.problem.tasks[m.task].initial == step.to {
			leaving = append(leaving, n)
		}
	}
	if len(leaving) == 0 || len(task.ports) > 0 || task.needs.GPUs > 0 {
		return leaving
	}
	for _, a := range task.amounts {
		c := q.problem.cellIndex(step.to, a.dim)
		load := usedWith(q.assignment, step.task, step.to, a)
		for _, n := range leaving {
			load += q.problem.tasks[q.out[n].task].amountOf(a.dim)
		}
		load += q.reservedUntilLeft(step, a, leaving)
		if load > q.loadLimit(q.stage, step.task, c, a.dim) {
			return leaving
		}
	}
	for _, n := range leaving {
		if q.problem.tasks[q.out[n].task].owner == task.owner &&
			q.problem.owners[task.owner].maxPerInstance > 0 {
			return leaving
		}
	}
	return nil
}

// reservedUntilLeft returns how much more of the destination applications reserve, beside the loads of
// their tasks, while the moves that leave it have not ended: an application keeps its reservation until
// its last task has left, and less of it is unused while more of its tasks are there.
func (q *sequencer) reservedUntilLeft(step plannedMove, a resourceAmount, leaving []int) (more int64) {
	byApplication := map[int32]int64{} // loads of the tasks that leave
	for _, n := range leaving {
		t := q.out[n].task
		if app := q.problem.applicationOf(t); app != noApplication && q.problem.levels.capacity >= 0 {
			byApplication[app] += q.problem.tasks[t].amountOf(a.dim)
		}
	}
	for app, load := range byApplication {
		for l, r := range q.problem.applications[app].reservations {
			if r.dim != a.dim {
				continue
			}
			now, there := unusedReservation(q.assignment, app, step.to, l), q.uses[app].loads[l][step.to]
			if q.problem.applicationOf(step.task) == app {
				there += a.amount
				now = max(0, r.onInstance[step.to]-there)
			}
			more += max(0, r.onInstance[step.to]-there-load) - now
		}
	}
	return more
}

// domainPredecessors returns the owner's earlier moves without which this one would break a domain
// rule further.
func (q *sequencer) domainPredecessors(step plannedMove) (before []int) {
	owner, from := q.problem.tasks[step.task].owner, q.at[step.task]
	d := q.problem.owners[owner].domains
	if d == nil || from < 0 || !d.MayMove(int(from), int(step.to)) {
		return nil
	}
	for n, m := range q.out {
		if q.problem.tasks[m.task].owner == owner && q.at[m.task] >= 0 &&
			q.problem.tasks[m.task].initial >= 0 {
			before = append(before, n)
		}
	}
	redo := func(sign int) { // -1 undoes these moves
		for _, n := range before {
			t := q.out[n].task
			d.AddTasks(int(q.problem.tasks[t].initial), -sign)
			d.AddTasks(int(q.at[t]), sign)
		}
	}
	redo(-1)
	alone := d.MayMove(int(from), int(step.to))
	redo(1)
	if alone {
		return nil
	}
	return before
}

// releaseTask takes a task off its instance before its destination has room: the first one whose
// place another move awaits. It reports false if no task may be taken off.
func (q *sequencer) releaseTask() bool {
	n, via, here := -1, int32(-1), false // here: some task is on its instance
	for at, step := range q.pending {
		from := q.at[step.task]
		here = here || from >= 0
		if from < 0 || n >= 0 && !q.isAwaited(from) {
			continue
		}
		waiting := q.waitingInstance(step)
		if waiting < 0 && q.problem.owners[q.problem.tasks[step.task].owner].mover.StartFirst {
			continue
		}
		if n, via = at, waiting; q.isAwaited(from) {
			break
		}
	}
	switch {
	case !here: // all are off their instances
		q.carryOutMove(0, sequencedMove{plannedMove: q.pending[0], mode: StopFirst, via: -1})
		return true
	case n < 0:
		return false
	}
	out := sequencedMove{plannedMove: q.pending[n], mode: StopFirst, via: via}
	if via >= 0 {
		out.mode = Via
	}
	q.removeTask(out.task, q.at[out.task])
	q.out = append(q.out, out)
	return true
}

// isAwaited reports whether a pending move goes to the instance.
func (q *sequencer) isAwaited(i int32) bool {
	return slices.ContainsFunc(q.pending, func(m plannedMove) bool { return m.to == i })
}

// waitingInstance returns an instance with room where the task can wait, which no task leaves and
// on which none other waits, or -1.
func (q *sequencer) waitingInstance(step plannedMove) int32 {
	owner, from := q.problem.tasks[step.task].owner, q.at[step.task]
	d := q.problem.owners[owner].domains
	for i := range int32(len(q.problem.instances)) {
		if i != step.to && i != from && q.problem.canHostTaskOf(owner, i) && !q.isInvolved(i) &&
			!q.problem.lacksReservation(owner, i) && mayJoinParent(q.assignment, stageKeep, step.task, i) &&
			keepsNodes(q.assignment, step.task, i) && q.hasRoomFor(stageKeep, step.task, i) &&
			q.fitsUnbuffered(step.task, i) &&
			(d == nil || d.MayMove(int(from), int(i))) {
			return i
		}
	}
	return -1
}

// isInvolved reports whether a task of the plan leaves the instance or waits there.
func (q *sequencer) isInvolved(i int32) bool {
	leaves := func(m plannedMove) bool { return q.problem.tasks[m.task].initial == i }
	return slices.ContainsFunc(q.pending, leaves) ||
		slices.ContainsFunc(q.out, func(m sequencedMove) bool { return m.via == i || leaves(m.plannedMove) })
}

// fitsUnbuffered reports whether the instance stays within its limits without the buffer.
func (q *sequencer) fitsUnbuffered(t, i int32) bool {
	for _, a := range q.problem.tasks[t].amounts {
		if c := q.problem.cellIndex(i, a.dim); usedWith(q.assignment, t, i, a) > q.problem.unbuffered[c] {
			return false
		}
	}
	return true
}

// countExchanges returns how many of the moves from a position on cannot simply start at their
// destination, because they are an exchange among full instances. possible is false if they cannot
// be carried out.
func countExchanges(s *assignment, stage searchStage, from int) (n int, possible bool) {
	if len(s.movedTasks) < from+2 {
		return 0, true
	}
	steps, before := s.movesSince(from), s.score
	s.undoMovesTo(from)
	ordered, possible := sequenceMoves(s, stage, steps)
	for _, m := range ordered {
		if m.mode == Via || m.mode == StopFirst {
			n++
		}
	}
	s.undoMovesTo(from)
	for _, m := range steps {
		s.moveTask(m.task, m.to, m.cause)
	}
	s.score = before
	return n, possible
}

// undoMovesTo undoes moves until so many are left. It does not maintain the score.
func (s *assignment) undoMovesTo(left int) {
	for len(s.movedTasks) > left {
		s.undoLastMove(s.score)
	}
}
