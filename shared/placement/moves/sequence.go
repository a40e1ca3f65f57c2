package moves

// sequencer is the moves of a solution, put in an order in which they can be carried out.
type sequencer struct {
	state   *assignment
	stage   searchStage
	pending []plannedMove
	out     []sequencedMove
}

type sequencedMove struct {
	plannedMove
	mode  Mode
	via   int32 // -1 for none
	after []int
}

// sequenceMoves puts the moves in order; the state is where they begin, and becomes where they end.
// Each takes a place that is free by then, without the buffer if it can. Where none can go on, one
// waits on a third instance or, if no other has room, is stopped first; done is false where that
// may not be: then as many moves are done as could be.
func sequenceMoves(s *assignment, stage searchStage, steps []plannedMove) (out []sequencedMove, done bool) {
	q := &sequencer{state: s, stage: max(stage, stageBuffer), pending: append([]plannedMove(nil), steps...)}
	for len(q.pending) > 0 {
		if n, mode := q.nextReady(); n >= 0 {
			q.carryOut(n, sequencedMove{plannedMove: q.pending[n], mode: mode, via: -1})
		} else if !q.releaseTask() {
			for _, step := range q.out {
				if s.at[step.task] < 0 {
					s.restoreTask(step.task)
				}
			}
			return nil, false
		}
	}
	return q.out, true
}

// nextReady is the next move that has room where it goes, -1 where none has.
func (q *sequencer) nextReady() (best int, mode Mode) {
	best = -1
	rank := 0
	for n, step := range q.pending {
		m, r := StartFirst, 0
		switch {
		case q.state.hasRoomFor(stageKeep, step.task, step.to):
		case q.state.hasRoomFor(stageBuffer, step.task, step.to):
			m, r = IntoBuffer, 2
		case q.state.hasRoomFor(q.stage, step.task, step.to):
			r = 4
		default:
			continue
		}
		d := q.state.problem.owners[q.state.problem.tasks[step.task].owner].domains
		if from := q.state.at[step.task]; d != nil && from >= 0 && !d.MayMove(int(from), int(step.to)) {
			r++
		}
		if best < 0 || r < rank {
			best, mode, rank = n, m, r
		}
	}
	return best, mode
}

func (q *sequencer) carryOut(n int, step sequencedMove) {
	q.pending = append(q.pending[:n], q.pending[n+1:]...)
	step.after = q.movesAwaited(step.plannedMove)
	if len(step.after) == 0 {
		step.after = q.domainPredecessors(step.plannedMove)
	}
	q.state.moveTask(step.task, step.to, step.cause)
	for at := range q.out { // a move that was begun out of turn ends now
		if q.out[at].task == step.task {
			return
		}
	}
	q.out = append(q.out, step)
}

// movesAwaited are the moves before this one without which there would be no room for it.
func (q *sequencer) movesAwaited(step plannedMove) []int {
	task := &q.state.problem.tasks[step.task]
	var gone []int
	for n, m := range q.out {
		if q.state.problem.tasks[m.task].initial == step.to {
			gone = append(gone, n)
		}
	}
	if len(gone) == 0 || len(task.ports) > 0 || task.needs.GPUs > 0 {
		return gone
	}
	for _, a := range task.amounts {
		c := q.state.problem.cellIndex(step.to, a.dim)
		load := q.state.load[c] + a.amount
		for _, n := range gone {
			load += q.state.problem.tasks[q.out[n].task].amountOf(a.dim)
		}
		if load > q.state.loadLimit(q.stage, step.task, c, a.dim) {
			return gone
		}
	}
	for _, n := range gone {
		if q.state.problem.tasks[q.out[n].task].owner == task.owner &&
			q.state.problem.owners[task.owner].maxPerInstance > 0 {
			return gone
		}
	}
	return nil
}

// domainPredecessors are the moves of the owner before this one without which it would break a domain rule
// further.
func (q *sequencer) domainPredecessors(step plannedMove) (before []int) {
	owner, from := q.state.problem.tasks[step.task].owner, q.state.at[step.task]
	d := q.state.problem.owners[owner].domains
	if d == nil || from < 0 || !d.MayMove(int(from), int(step.to)) {
		return nil
	}
	for n, m := range q.out {
		if q.state.problem.tasks[m.task].owner == owner && q.state.at[m.task] >= 0 &&
			q.state.problem.tasks[m.task].initial >= 0 {
			before = append(before, n)
		}
	}
	redo := func(sign int) {
		for _, n := range before {
			t := q.out[n].task
			d.AddTasks(int(q.state.problem.tasks[t].initial), -sign)
			d.AddTasks(int(q.state.at[t]), sign)
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

// releaseTask lets a task off its instance before there is room where it goes, the first whose place
// another waits for. False means that none may be.
func (q *sequencer) releaseTask() bool {
	n, via, here := -1, int32(-1), false
	for at, step := range q.pending {
		from := q.state.at[step.task]
		here = here || from >= 0
		if from < 0 || n >= 0 && !q.isAwaited(from) {
			continue
		}
		waiting := q.waitingInstance(step)
		if waiting < 0 && q.state.problem.owners[q.state.problem.tasks[step.task].owner].mover.StartFirst {
			continue
		}
		if n, via = at, waiting; q.isAwaited(from) {
			break
		}
	}
	switch {
	case !here: // all are off already
		q.carryOut(0, sequencedMove{plannedMove: q.pending[0], mode: StopFirst, via: -1})
		return true
	case n < 0:
		return false
	}
	out := sequencedMove{plannedMove: q.pending[n], mode: StopFirst, via: via}
	if via >= 0 {
		out.mode = Via
	}
	q.state.removeTask(out.task, q.state.at[out.task])
	q.out = append(q.out, out)
	return true
}

func (q *sequencer) isAwaited(i int32) bool {
	for _, step := range q.pending {
		if step.to == i {
			return true
		}
	}
	return false
}

// waitingInstance is an instance with room where the task can wait, that nobody leaves and nobody else waits
// on; -1 for none.
func (q *sequencer) waitingInstance(step plannedMove) int32 {
	owner, from := q.state.problem.tasks[step.task].owner, q.state.at[step.task]
	d := q.state.problem.owners[owner].domains
	for i := range int32(len(q.state.problem.instances)) {
		if i != step.to && i != from && q.state.problem.canHost(owner, i) && !q.isInvolved(i) &&
			q.state.hasRoomFor(stageKeep, step.task, i) &&
			q.fitsUnbuffered(step.task, i) && (d == nil || d.MayMove(int(from), int(i))) {
			return i
		}
	}
	return -1
}

// isInvolved reports whether the plan has a task leave the instance or wait there.
func (q *sequencer) isInvolved(i int32) bool {
	for _, m := range q.out {
		if m.via == i || q.state.problem.tasks[m.task].initial == i {
			return true
		}
	}
	for _, m := range q.pending {
		if q.state.problem.tasks[m.task].initial == i {
			return true
		}
	}
	return false
}

// fitsUnbuffered reports whether the task leaves the instance within what it takes.
func (q *sequencer) fitsUnbuffered(t, i int32) bool {
	for _, a := range q.state.problem.tasks[t].amounts {
		if c := q.state.problem.cellIndex(i, a.dim); q.state.load[c]+a.amount > q.state.problem.unbuffered[c] {
			return false
		}
	}
	return true
}

// countExchanges is how many of the moves from the given one on cannot simply start where they go:
// an exchange among full instances. possible is false where they cannot be carried out.
func countExchanges(s *assignment, stage searchStage, from int) (n int, possible bool) {
	if len(s.movedTasks) < from+2 {
		return 0, true
	}
	var steps []plannedMove
	for at := from; at < len(s.movedTasks); at++ {
		steps = append(steps, plannedMove{s.movedTasks[at], s.at[s.movedTasks[at]], s.causes[at]})
	}
	measure := s.score
	s.undoTo(from)
	ordered, possible := sequenceMoves(s, stage, steps)
	for _, m := range ordered {
		if m.mode == Via || m.mode == StopFirst {
			n++
		}
	}
	s.undoTo(from)
	for _, m := range steps {
		s.moveTask(m.task, m.to, m.cause)
	}
	s.score = measure
	return n, possible
}

// undoTo undoes moves until so many are left. The measure is not kept.
func (s *assignment) undoTo(left int) {
	for len(s.movedTasks) > left {
		s.undoLast(s.score)
	}
}
