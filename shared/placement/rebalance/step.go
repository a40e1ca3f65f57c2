package rebalance

import "math"

// What a step tries, in percent. The rest are exchanges of any two tasks.
const (
	shiftShare   = 50 // one task moves
	similarShare = 20 // a large task and one of about its size change places
	sameShare    = 10 // two tasks of a service change places
)

const (
	similarRanks    = 20   // how far apart the sizes of similar tasks are
	rearrangePeriod = 1000 // steps between two rearrangements, on average
)

// tryStep tries one change. In a descent, half of the changes are moves to the best of some
// instances, and a quarter save moves.
func (s *annealing) tryStep(descend bool) {
	if descend {
		switch s.random.below(4) {
		case 0, 1:
			s.shiftToBest(s.drawTask())
			return
		case 2:
			s.bringHome(s.drawTask())
			return
		}
	}
	if s.random.below(rearrangePeriod) == 0 {
		s.rearrange()
		return
	}
	t := s.drawTask()
	switch kind := s.random.below(100); {
	case kind < shiftShare/2:
		s.shift(t, s.drawInstance())
	case kind < shiftShare:
		s.shift(s.drawLargeTask(), s.drawInstance())
	case kind < shiftShare+similarShare:
		t = s.drawLargeTask()
		rank := int(s.tasks.rank[t]) + s.random.below(2*similarRanks+1) - similarRanks
		s.exchange(t, s.tasks.bySize[min(max(rank, 0), len(s.at)-1)])
	case kind < shiftShare+similarShare+sameShare:
		same := s.tasks.ofService[s.serviceOf[t]]
		s.exchange(t, same[s.random.below(len(same))])
	default:
		s.exchange(t, s.drawTask())
	}
}

// shift tries to move one task.
func (s *annealing) shift(t, to int32) {
	from := s.at[t]
	if to == from {
		return
	}
	if dependents := s.dependentsOf(t); len(dependents) > 0 {
		s.shiftTogether(t, dependents, to)
		return
	}
	if change, ok := s.tryShift(t, to); ok && s.accepts(change) {
		s.moveTask(t, to)
		s.journal.note(t, from)
	}
}

// comparedInstances is how many instances shiftToBest compares.
const comparedInstances = 8

// shiftToBest tries to move one task to the best of some instances.
func (s *annealing) shiftToBest(t int32) {
	if dependents := s.dependentsOf(t); len(dependents) > 0 {
		for range comparedInstances {
			if to := s.drawInstance(); to != s.at[t] {
				s.shiftTogether(t, dependents, to)
			}
		}
		return
	}
	from, best, least := s.at[t], int32(nowhere), int64(math.MaxInt64)
	for range comparedInstances {
		to := s.drawInstance()
		if to == from {
			continue
		}
		if change, ok := s.tryShift(t, to); ok && change < least {
			best, least = to, change
		}
	}
	if best != nowhere && s.accepts(least) {
		s.moveTask(t, best)
		s.journal.note(t, from)
	}
}

// bringHome tries to bring a moved task back to where it started: alone, or while another moved
// task takes its place, which is of the same service or has moved to where the first one started.
// Either way one task less has moved.
func (s *annealing) bringHome(t int32) {
	here, home := s.at[t], s.start[t]
	if here == home {
		return
	}
	s.shift(t, home)
	same, there := s.tasks.ofService[s.serviceOf[t]], s.on[home]
	for n := 0; n < comparedInstances && s.at[t] == here; n++ {
		list := same
		if n%2 == 1 && len(there) > 0 {
			list = there
		}
		if u := list[s.random.below(len(list))]; u != t && s.at[u] != s.start[u] && s.at[u] != here {
			s.replace(t, home, u)
		}
	}
	if s.at[t] == here {
		s.moveOneForTwo(t)
	}
}

// moveOneForTwo tries to bring a moved task back together with another one that has come the same way, while a
// task that has not moved goes there in their place. One task less has moved: a task of 5 for two of 2 and 3.
func (s *annealing) moveOneForTwo(t int32) {
	here, home := s.at[t], s.start[t]
	if len(s.on[here]) < 2 || len(s.on[home]) == 0 || s.problem.Together {
		return
	}
	u := s.on[here][s.pairing.below(len(s.on[here]))]
	x := s.on[home][s.pairing.below(len(s.on[home]))]
	if u == t || s.start[u] != home || s.start[x] != home || s.fixed != nil && s.fixed[x] {
		return
	}
	before, moves := s.cost, [3]int32{t, u, x}
	for n, task := range moves {
		to := home
		if task == x {
			to = here
		}
		_, ok := s.tryShift(task, to)
		if ok {
			s.moveTask(task, to)
		}
		if !ok || n == 2 && s.cost >= before {
			for k := n; k >= 0; k-- {
				if k < n || ok {
					s.moveTask(moves[k], home+here-s.at[moves[k]])
				}
			}
			return
		}
	}
	s.journal.note(t, here)
	s.journal.note(u, here)
	s.journal.note(x, home)
}

// replace tries to move a task, and another one to where it was.
func (s *annealing) replace(t, to, u int32) {
	before, here, from := s.cost, s.at[t], s.at[u]
	if s.fixed != nil && s.fixed[u] || !s.rules.mayLeave(s.serviceOf[u], from) {
		return
	}
	s.liftTask(u)
	_, ok := s.tryShift(t, to)
	if ok {
		s.moveTask(t, to)
		ok = s.mayPut(u, here)
	}
	if ok {
		s.putTask(u, here)
		ok = s.accepts(s.cost - before)
	}
	if ok {
		s.journal.note(t, here)
		s.journal.note(u, from)
		return
	}
	if s.at[u] != nowhere {
		s.liftTask(u)
	}
	if s.at[t] != here {
		s.moveTask(t, here)
	}
	s.putTask(u, from)
}

// exchange tries to let two tasks change places.
func (s *annealing) exchange(t, u int32) {
	i, j := s.at[t], s.at[u]
	if i == j {
		return
	}
	if change, ok := s.tryExchange(t, u); ok && s.accepts(change) {
		s.liftTask(t)
		s.liftTask(u)
		s.putTask(t, j)
		s.putTask(u, i)
		s.journal.note(t, i)
		s.journal.note(u, j)
	}
}
