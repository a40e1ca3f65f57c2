package rebalance

import (
	"cmp"
	"math"
	"slices"
)

const (
	largeShare   = 80 // rearrangements that make room for a large task, in percent
	mostLifted   = 16 // tasks that make room for one, or that are taken from a few instances
	wholeCluster = 64 // instances, up to which all are tried for each lifted task
)

// rearrange lifts some tasks and puts each back where it costs least, the largest ones first. A
// task for which no instance has room so finds some: single moves cannot get there, as every step
// between would be worse or break a rule.
func (s *annealing) rearrange() {
	before, ok := s.cost, true
	if s.random.below(100) < largeShare {
		ok = s.makeRoom(s.drawLargeTask(), s.drawInstance())
	} else {
		s.liftSome()
	}
	if ok && s.putLifted() && s.accepts(s.cost-before) {
		for _, m := range s.lifted {
			s.journal.note(m.task, m.from)
		}
	} else {
		s.returnLifted()
	}
	s.lifted = s.lifted[:0]
	clear(s.following)
}

// returnLifted puts the lifted tasks back where they were.
func (s *annealing) returnLifted() {
	for _, m := range s.lifted {
		if s.at[m.task] != nowhere {
			s.liftTask(m.task)
		}
	}
	for _, m := range s.lifted {
		s.putTask(m.task, m.from)
	}
}

// makeRoom puts a task on the instance, after lifting tasks there until it has room.
func (s *annealing) makeRoom(t, to int32) bool {
	if s.at[t] == to || !s.lift(t) {
		return false
	}
	for range mostLifted {
		if s.mayPut(t, to) {
			s.put(t, to)
			return true
		}
		if len(s.on[to]) == 0 {
			return false
		}
		s.lift(s.on[to][s.random.below(len(s.on[to]))])
	}
	return false
}

// liftSome lifts tasks of two to four instances, preferably of such whose load costs much.
func (s *annealing) liftSome() {
	instances := 2 + s.random.below(3)
	each := 2 + s.random.below(mostLifted/instances)
	for range instances {
		i, j := s.drawInstance(), s.drawInstance()
		if s.loadCosts[j] > s.loadCosts[i] {
			i = j
		}
		for range min(each, len(s.on[i])) {
			s.lift(s.on[i][s.random.below(len(s.on[i]))])
		}
	}
}

// lift lifts a task, unless another service depends on it where it is, and reports whether it did.
func (s *annealing) lift(t int32) bool {
	from, service := s.at[t], s.serviceOf[t]
	if s.fixed != nil && s.fixed[t] || !s.rules.mayLeave(service, from) {
		return false
	}
	s.liftTask(t)
	s.lifted = append(s.lifted, undoneMove{t, from})
	s.following[service]++
	return true
}

// put puts a lifted task on an instance and counts it as no longer lifted.
func (s *annealing) put(t, to int32) {
	s.putTask(t, to)
	s.following[s.serviceOf[t]]--
}

// putLifted puts the lifted tasks on instances, and reports whether all have found one.
func (s *annealing) putLifted() bool {
	if s.random.below(4) > 0 {
		rank := s.tasks.rank
		slices.SortFunc(s.lifted, func(a, b undoneMove) int { return cmp.Compare(rank[a.task], rank[b.task]) })
	}
	for again := true; again; {
		put, missing := 0, 0
		for _, m := range s.lifted {
			if s.at[m.task] != nowhere {
				continue
			}
			to := s.cheapestInstance(m.task)
			switch {
			case to != nowhere:
				s.put(m.task, to)
				put++
			case len(s.rules.needs[s.serviceOf[m.task]]) == 0:
				return false
			default: // perhaps what it depends on is put somewhere first
				missing++
			}
		}
		if again = missing > 0; again && put == 0 {
			return false
		}
	}
	return true
}

// cheapestInstance returns the instance where the lifted task costs least, among all of a small
// cluster and some of a large one. Now and then it passes over one by chance.
func (s *annealing) cheapestInstance(t int32) int32 {
	best, least := int32(nowhere), int64(math.MaxInt64)
	consider := func(i int32) {
		if s.random.below(64) == 0 || !s.mayPut(t, i) {
			return
		}
		if cost := s.loadCost(i, s.needsOf(t), s.nothing) - s.loadCosts[i] + s.moveCost(t, i) +
			s.spreadCost(s.serviceOf[t], i); cost < least {
			best, least = i, cost
		}
	}
	if n := len(s.on); n <= wholeCluster {
		for i := range n {
			consider(int32(i))
		}
		return best
	}
	for _, m := range s.lifted {
		consider(m.from)
	}
	consider(s.start[t])
	for range wholeCluster {
		consider(s.drawInstance())
	}
	return best
}

// mayPut reports whether the rules allow the lifted task on the instance.
func (s *annealing) mayPut(t, i int32) bool {
	service := s.serviceOf[t]
	return s.allows(t, i) && !s.rules.isOccupied(service, i) && s.hasRoom(i, s.heldNeedsOf(t, i), s.nothing) &&
		s.rules.reachesZones(service, i, s.following[service]-1) && s.rules.mayJoin(service, i)
}
