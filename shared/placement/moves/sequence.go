package moves

// moveOrder is the moves of a solution, put in an order in which they can be carried out.
type moveOrder struct {
	state   *moveState
	stage   moveStage
	pending []moveStep
	out     []orderedStep
}

type orderedStep struct {
	moveStep
	mode  Mode
	via   int32 // -1 for none
	after []int
}

// sequenceMoves puts the moves in order; the state is where they begin, and becomes where they end.
// Each takes a place that is free by then, without the buffer if it can. Where none can go on, one
// waits on a third instance or, if no other has room, is stopped first; done is false where that
// may not be: then as many moves are done as could be.
func sequenceMoves(s *moveState, stage moveStage, steps []moveStep) (out []orderedStep, done bool) {
	o := &moveOrder{state: s, stage: max(stage, stageBuffer), pending: append([]moveStep(nil), steps...)}
	for len(o.pending) > 0 {
		if n, mode := o.ready(); n >= 0 {
			o.take(n, orderedStep{moveStep: o.pending[n], mode: mode, via: -1})
		} else if !o.release() {
			for _, step := range o.out {
				if s.at[step.task] < 0 {
					s.reinstate(step.task)
				}
			}
			return nil, false
		}
	}
	return o.out, true
}

// ready is the next move that has room where it goes, -1 where none has.
func (o *moveOrder) ready() (best int, mode Mode) {
	best = -1
	rank := 0
	for n, step := range o.pending {
		m, r := StartFirst, 0
		switch {
		case o.state.fits(stageKeep, step.task, step.to):
		case o.state.fits(stageBuffer, step.task, step.to):
			m, r = IntoBuffer, 2
		case o.state.fits(o.stage, step.task, step.to):
			r = 4
		default:
			continue
		}
		d := o.state.problem.owners[o.state.problem.tasks[step.task].owner].domains
		if from := o.state.at[step.task]; d != nil && from >= 0 && !d.MayMove(int(from), int(step.to)) {
			r++
		}
		if best < 0 || r < rank {
			best, mode, rank = n, m, r
		}
	}
	return best, mode
}

func (o *moveOrder) take(n int, step orderedStep) {
	o.pending = append(o.pending[:n], o.pending[n+1:]...)
	step.after = o.waits(step.moveStep)
	if len(step.after) == 0 {
		step.after = o.heeds(step.moveStep)
	}
	o.state.move(step.task, step.to, step.cause)
	for at := range o.out { // a move that was begun out of turn ends now
		if o.out[at].task == step.task {
			return
		}
	}
	o.out = append(o.out, step)
}

// waits are the moves before this one without which there would be no room for it.
func (o *moveOrder) waits(step moveStep) []int {
	task := &o.state.problem.tasks[step.task]
	var gone []int
	for n, m := range o.out {
		if o.state.problem.tasks[m.task].at == step.to {
			gone = append(gone, n)
		}
	}
	if len(gone) == 0 || len(task.ports) > 0 || task.needs.GPUs > 0 {
		return gone
	}
	for _, a := range task.amounts {
		c := o.state.problem.cell(step.to, a.dim)
		load := o.state.now[c] + a.n
		for _, n := range gone {
			load += o.state.problem.tasks[o.out[n].task].amount(a.dim)
		}
		if load > o.state.roof(o.stage, step.task, c, a.dim) {
			return gone
		}
	}
	for _, n := range gone {
		if o.state.problem.tasks[o.out[n].task].owner == task.owner && o.state.problem.owners[task.owner].most > 0 {
			return gone
		}
	}
	return nil
}

// heeds are the moves of the owner before this one without which it would break a domain rule
// further.
func (o *moveOrder) heeds(step moveStep) (before []int) {
	owner, from := o.state.problem.tasks[step.task].owner, o.state.at[step.task]
	d := o.state.problem.owners[owner].domains
	if d == nil || from < 0 || !d.MayMove(int(from), int(step.to)) {
		return nil
	}
	for n, m := range o.out {
		if o.state.problem.tasks[m.task].owner == owner && o.state.at[m.task] >= 0 &&
			o.state.problem.tasks[m.task].at >= 0 {
			before = append(before, n)
		}
	}
	redo := func(sign int) {
		for _, n := range before {
			t := o.out[n].task
			d.Add(int(o.state.problem.tasks[t].at), -sign)
			d.Add(int(o.state.at[t]), sign)
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

// release lets a task off its instance before there is room where it goes, the first whose place
// another waits for. False means that none may be.
func (o *moveOrder) release() bool {
	n, via, here := -1, int32(-1), false
	for at, step := range o.pending {
		from := o.state.at[step.task]
		here = here || from >= 0
		if from < 0 || n >= 0 && !o.awaited(from) {
			continue
		}
		refuge := o.refuge(step)
		if refuge < 0 && o.state.problem.owners[o.state.problem.tasks[step.task].owner].mover.StartFirst {
			continue
		}
		if n, via = at, refuge; o.awaited(from) {
			break
		}
	}
	switch {
	case !here: // all are off already
		o.take(0, orderedStep{moveStep: o.pending[0], mode: StopFirst, via: -1})
		return true
	case n < 0:
		return false
	}
	out := orderedStep{moveStep: o.pending[n], mode: StopFirst, via: via}
	if via >= 0 {
		out.mode = Via
	}
	o.state.remove(out.task, o.state.at[out.task])
	o.out = append(o.out, out)
	return true
}

func (o *moveOrder) awaited(i int32) bool {
	for _, step := range o.pending {
		if step.to == i {
			return true
		}
	}
	return false
}

// refuge is an instance with room where the task can wait, that nobody leaves and nobody else waits
// on; -1 for none.
func (o *moveOrder) refuge(step moveStep) int32 {
	owner, from := o.state.problem.tasks[step.task].owner, o.state.at[step.task]
	d := o.state.problem.owners[owner].domains
	for i := range int32(len(o.state.problem.instances)) {
		if i != step.to && i != from && o.state.problem.takes(owner, i) && !o.involved(i) &&
			o.state.fits(stageKeep, step.task, i) &&
			o.below(step.task, i) && (d == nil || d.MayMove(int(from), int(i))) {
			return i
		}
	}
	return -1
}

// involved reports whether the plan has a task leave the instance or wait there.
func (o *moveOrder) involved(i int32) bool {
	for _, m := range o.out {
		if m.via == i || o.state.problem.tasks[m.task].at == i {
			return true
		}
	}
	for _, m := range o.pending {
		if o.state.problem.tasks[m.task].at == i {
			return true
		}
	}
	return false
}

// below reports whether the task leaves the instance within what it takes.
func (o *moveOrder) below(t, i int32) bool {
	for _, a := range o.state.problem.tasks[t].amounts {
		if c := o.state.problem.cell(i, a.dim); o.state.now[c]+a.n > o.state.problem.unbuffered[c] {
			return false
		}
	}
	return true
}

// exchangesFrom is how many of the moves from the given one on cannot simply start where they go:
// an exchange among full instances. possible is false where they cannot be carried out.
func exchangesFrom(s *moveState, stage moveStage, from int) (n int, possible bool) {
	if len(s.moving) < from+2 {
		return 0, true
	}
	var steps []moveStep
	for at := from; at < len(s.moving); at++ {
		steps = append(steps, moveStep{s.moving[at], s.at[s.moving[at]], s.causes[at]})
	}
	measure := s.measure
	s.unwind(from)
	ordered, possible := sequenceMoves(s, stage, steps)
	for _, m := range ordered {
		if m.mode == Via || m.mode == StopFirst {
			n++
		}
	}
	s.unwind(from)
	for _, m := range steps {
		s.move(m.task, m.to, m.cause)
	}
	s.measure = measure
	return n, possible
}

// unwind undoes moves until so many are left. The measure is not kept.
func (s *moveState) unwind(left int) {
	for len(s.moving) > left {
		s.back(s.measure)
	}
}
