package moves

import (
	"cmp"
	"fmt"
	"slices"
)

// A BoundTrial is a node of a search that tries every way: some tasks have moved, others stay, and
// few are undecided.
type BoundTrial struct {
	search *branchSearch
}

// NewBoundTrial returns the first node of the trial's search.
func NewBoundTrial(x *Trial) *BoundTrial {
	s := &branchSearch{assignment: x.assignment, focus: findViolations(x.assignment), bestScore: x.score}
	if s.forRoom = x.score.unplaced > 0; s.forRoom {
		s.focus = s.focus[:x.score.unplaced]
	}
	s.outside = scoreOutside(s)
	return &BoundTrial{search: s}
}

// Keep decides that tasks stay until so many are undecided.
func (b *BoundTrial) Keep(most int, draw func(n int) int) {
	for {
		left := b.undecided()
		if len(left) <= most {
			return
		}
		b.search.setDecision(left[draw(len(left))], pinned)
	}
}

func (b *BoundTrial) undecided() (out []int32) {
	for t := range b.search.at {
		if b.search.isUndecided(int32(t)) {
			out = append(out, int32(t))
		}
	}
	return out
}

// completions returns the scores of all ways to go on in which nothing that binds is worse than it was: each
// undecided task stays or goes anywhere.
func (b *BoundTrial) completions() (all []score) {
	s := b.search
	var place func(rest []int32)
	place = func(rest []int32) {
		if len(rest) == 0 {
			if _, must, worse := findWorsened(s.assignment, s.stage); !worse || !must {
				all = append(all, s.score)
			}
			return
		}
		s.setDecision(rest[0], pinned)
		place(rest[1:])
		s.setDecision(rest[0], undecided)
		for i := range int32(len(s.problem.instances)) {
			if i == s.at[rest[0]] || !s.problem.instances[i].takesTasks {
				continue
			}
			before := s.score
			s.moveTask(rest[0], i, openViolation{kind: mismatchedTask, task: rest[0]})
			place(rest[1:])
			s.undoLastMove(before)
		}
	}
	place(b.undecided())
	return all
}

// TakeBest makes one of the ways to go on the best solution so far.
func (b *BoundTrial) TakeBest(draw func(n int) int) {
	all := append(b.completions(), b.search.bestScore)
	slices.SortFunc(all, func(x, y score) int { return b.search.compareScores(&x, &y) })
	b.search.bestScore = all[draw(len(all))]
}

// MissedByCut describes a way to go on that is better than the best solution, if the bound cuts it
// off.
func (b *BoundTrial) MissedByCut() (cut bool, missed string) {
	s := b.search
	bound := s.lowerBound()
	if s.compareScores(&bound, &s.bestScore) < 0 {
		return false, ""
	}
	for _, c := range b.completions() {
		if s.compareScores(&c, &s.bestScore) < 0 {
			return true, fmt.Sprintf("bound %+v, best %+v, but %+v is possible", bound, s.bestScore, c)
		}
	}
	return true, ""
}

// CompareRelief compares the effort in the bound with that of all sets of tasks which could leave the
// only overloaded cell, when the best solution repairs all that can be repaired. It reports false if
// the node is not of that kind.
func (b *BoundTrial) CompareRelief() (applies bool, problem string) {
	s := b.search
	if s.forRoom || len(s.focus) != 1 || s.focus[0].kind != overloadedCell {
		return false, ""
	}
	v, c := s.focus[0], s.problem.cellIndex(s.focus[0].instance, s.focus[0].dim)
	var here []int32
	for _, t := range b.undecided() {
		if s.at[t] == v.instance {
			here = append(here, t)
		}
	}
	type effort struct {
		total, unbuffered int64
		cost, moves       int
	}
	var sets []effort
	dearest := 0
	for set := range 1 << len(here) {
		e := effort{}
		left := s.load[c] - s.problem.endingLoad[c]
		for n, t := range here {
			if set>>n&1 == 1 {
				left -= s.problem.tasks[t].amountOf(v.dim)
				e.cost += s.problem.tasks[t].cost
				e.moves++
				dearest = max(dearest, s.problem.tasks[t].cost)
			}
		}
		e.total, e.unbuffered = excessOver(left, s.problem.total[c]), excessOver(left, s.problem.unbuffered[c])
		sets = append(sets, e)
	}
	least := func(by func(e effort) int) effort {
		return slices.MinFunc(sets, func(x, y effort) int {
			return cmp.Or(cmp.Compare(x.total, y.total), cmp.Compare(x.unbuffered, y.unbuffered), cmp.Compare(by(x), by(y)))
		})
	}
	cheapest, fewest := least(func(e effort) int { return e.cost }), least(func(e effort) int { return e.moves })
	s.bestScore = s.lowerBound() // what it repairs: all that can be
	s.bestScore.cost = 1 << 20
	bound, level := s.lowerBound(), s.capacityLevel(v.dim)
	total := bound.rules[level].excess - s.outside.rules[level].excess
	if unbuffered := bound.buffer.excess - s.outside.buffer.excess; total != cheapest.total ||
		unbuffered != cheapest.unbuffered {
		return true, fmt.Sprintf("the bound leaves %d and %d, the least are %d and %d", total, unbuffered,
			cheapest.total, cheapest.unbuffered)
	}
	cost, moves := bound.cost-s.score.cost, bound.moves-s.score.moves
	if cost > cheapest.cost || cost < cheapest.cost-dearest || moves != fewest.moves || (cost > 0) != (cheapest.cost > 0) {
		return true, fmt.Sprintf("the bound has %d moves of cost %d, the least are %d moves, and cost %d",
			moves, cost, fewest.moves, cheapest.cost)
	}
	return true, ""
}
