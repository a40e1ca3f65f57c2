package rebalance

// With [Problem.Together], a task on which others in its neighborhood depend moves together with
// them: neither could move alone.

// dependentsOf returns the tasks that depend on this one alone, or nil.
func (a *assignment) dependentsOf(t int32) (out []int32) {
	s, r := a.serviceOf[t], &a.rules
	if !a.problem.Together || len(r.neededBy[s]) == 0 || a.at[t] < 0 {
		return nil
	}
	hood := r.hoodOf[a.at[t]]
	if r.hoodCount(s, hood) > 1 {
		return nil
	}
	for _, x := range r.neededBy[s] {
		for _, u := range a.on[a.at[t]] {
			if a.serviceOf[u] == x {
				out = append(out, u)
			}
		}
	}
	return out
}

// moveTogether moves a task and those that depend on it, one after the other, if the rules allow
// each move. Otherwise all stay.
func (a *assignment) moveTogether(t int32, dependents []int32, to int32) bool {
	from := a.at[t]
	a.rules.mayAbandon = true
	_, ok := a.tryShift(t, to)
	a.rules.mayAbandon = false
	if !ok {
		return false
	}
	a.moveTask(t, to)
	for n, u := range dependents {
		if _, ok := a.tryShift(u, to); !ok {
			a.returnTogether(t, dependents[:n], from)
			return false
		}
		a.moveTask(u, to)
	}
	return true
}

// returnTogether takes the tasks back to an instance that they were on.
func (a *assignment) returnTogether(t int32, dependents []int32, from int32) {
	for _, u := range dependents {
		a.moveTask(u, from)
	}
	a.moveTask(t, from)
}

// shiftTogether tries to move a task and those that depend on it.
func (s *annealing) shiftTogether(t int32, dependents []int32, to int32) {
	before, from := s.cost, s.at[t]
	if !s.moveTogether(t, dependents, to) {
		return
	}
	if !s.accepts(s.cost - before) {
		s.returnTogether(t, dependents, from)
		return
	}
	s.journal.note(t, from)
	for _, u := range dependents {
		s.journal.note(u, from)
	}
}

// makeTogether makes the move of a task and of those that depend on it, if all of them go to the
// same instance, and reports whether it did.
func (s *sequence) makeTogether(t int32) bool {
	dependents, from, to, before := s.dependentsOf(t), s.at[t], s.target[t], s.cost
	for _, u := range dependents {
		if s.target[u] != to {
			return false
		}
	}
	if len(dependents) == 0 || !s.moveTogether(t, dependents, to) {
		return false
	}
	gain := before - s.cost
	s.returnTogether(t, dependents, from)
	all := append([]int32{t}, dependents...)
	if s.guard != nil && !s.guard.MakeMoves(all, to) {
		return false
	}
	for n, u := range all {
		s.makeMove(u, to, gain)
		s.plan.Moves[len(s.plan.Moves)-1].Together = n > 0
		gain = 0 // of all of them, noted with the first one
	}
	return true
}
