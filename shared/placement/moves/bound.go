package moves

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// lowerBound returns a score at least as good as anything that can still come of the assignment:
// violations that no undecided task can repair remain, and what must be repaired to match the best
// solution costs the cheapest tasks that could do it. A branch whose bound is no better than the
// best solution is cut off.
func (s *branchSearch) lowerBound() score {
	out := s.outside
	out.cost, out.moves = s.score.cost, s.score.moves
	for _, v := range s.focus {
		addUnavoidable(s, v, &out)
	}
	for _, v := range s.focus {
		if v.kind == scatteredApplication {
			cost, moves := gatheringCost(s, v, out)
			if out.cost, out.moves = out.cost+cost, out.moves+moves; moves > 0 {
				break
			}
		}
		if need := requiredRelief(s, v, out); need > 0 {
			cost, moves := coverCost(s, v, need, s.bestScore.cost-out.cost)
			out.cost += cost
			out.moves += moves
			break
		}
	}
	return out
}

// scoreOutside returns the violations that are not among those of the search. No move of the search
// repairs them, so they count in every bound.
func scoreOutside(s *branchSearch) score {
	out := s.score
	var mine score
	for _, v := range s.focus {
		addCurrent(s, v, &mine)
	}
	out.unplaced -= mine.unplaced
	for level := range out.rules {
		out.rules[level].addViolations(-mine.rules[level].count, -mine.rules[level].excess)
	}
	out.buffer.addViolations(-mine.buffer.count, -mine.buffer.excess)
	return out
}

// addCurrent adds what the violation counts at present.
func addCurrent(s *branchSearch, v openViolation, out *score) {
	switch v.kind {
	case unplacedTask:
		if s.at[v.task] < 0 {
			out.unplaced++
		}
	case mismatchedTask:
		if isStillBroken(s.assignment, v) {
			out.rules[s.problem.levels.placement].addViolations(1, 0)
		}
	case separatedTask:
		if isApart(s.assignment, v.task) {
			out.rules[s.problem.levels.affinity].addViolations(1, 0)
		}
	case sharedInstance:
		out.rules[alwaysBinding].addViolations(s.surplusOn(v.owner, v.instance), 0)
	case overloadedCell:
		addCellExcess(s, out, v, 0, 1)
	case scatteredApplication:
		if surplus := surplusNodes(s.assignment, v.application); surplus > 0 {
			out.rules[alwaysBinding].addViolations(surplus, tasksBeyondPlan(s.assignment, v.application, surplus))
		}
	case faultDomains, upgradeDomains:
		out.rules[violationPriority(s.assignment, v)].addViolations(s.domainExcess(v), 0)
	}
}

// addUnavoidable adds what remains of the violation, regardless of where the undecided tasks go.
func addUnavoidable(s *branchSearch, v openViolation, out *score) {
	switch v.kind {
	case unplacedTask, mismatchedTask:
		if !s.isUndecided(v.task) {
			addCurrent(s, v, out)
		}
	case separatedTask:
		if parent := s.problem.owners[v.owner].parent; !s.isUndecided(v.task) && s.undecidedCount[parent] == 0 {
			addCurrent(s, v, out)
		}
	case sharedInstance:
		n := s.surplusOn(v.owner, v.instance)
		for _, t := range s.problem.instances[v.instance].tasks {
			if s.problem.tasks[t].owner == v.owner && s.isUndecided(t) {
				n--
			}
		}
		out.rules[alwaysBinding].addViolations(max(0, n), 0)
	case overloadedCell:
		addCellExcess(s, out, v, removableLoad(s, v), 1)
	case scatteredApplication:
		most := s.problem.applications[v.application].maximumNodes
		nodes := max(unavoidableNodes(s, v.application), leastNodes(s, v.application))
		out.rules[alwaysBinding].addViolations(max(0, nodes-most), 0)
	case faultDomains, upgradeDomains:
		if s.undecidedCount[v.owner] == 0 {
			addCurrent(s, v, out)
		}
	}
}

// removableLoad returns the part of a cell's load that belongs to undecided tasks. With the last one of
// an application its reservation goes, too.
func removableLoad(s *branchSearch, v openViolation) (n int64) {
	if s.reserved != nil {
		n = s.reserved[s.problem.cellIndex(v.instance, v.dim)]
	}
	for _, t := range s.problem.instances[v.instance].tasks {
		if s.isUndecided(t) {
			n += s.problem.tasks[t].amountOf(v.dim)
		}
	}
	return n
}

// addCellExcess adds (sign 1) or removes (-1) what a cell is beyond its limits if it had that much
// less load.
func addCellExcess(s *branchSearch, out *score, v openViolation, less int64, sign int) {
	total, unbuffered := s.cellExcessOf(s.problem.cellIndex(v.instance, v.dim))
	if total -= less; total > 0 {
		out.rules[s.capacityLevel(v.dim)].addViolations(sign, int64(sign)*total)
	}
	if unbuffered -= less; unbuffered > 0 {
		out.buffer.addViolations(sign, int64(sign)*unbuffered)
	}
}

// requiredRelief returns the least load that has to leave a cell for a solution to repair as much as
// the best one, or 0 if the cell may stay as it is, or all that can leave is not enough. bound is the
// bound so far, in which all of that leaves.
func requiredRelief(s *branchSearch, v openViolation, bound score) int64 {
	if v.kind != overloadedCell || !isStillBroken(s.assignment, v) {
		return 0
	}
	removable := removableLoad(s, v)
	addCellExcess(s, &bound, v, removable, -1)
	isEnough := func(relief int64) bool {
		with := bound
		addCellExcess(s, &with, v, relief, 1)
		return cmp.Or(with.compareRules(&s.bestScore, lowestLevel), with.buffer.compare(s.bestScore.buffer)) <= 0
	}
	if isEnough(0) || !isEnough(removable) {
		return 0
	}
	return int64(sort.Search(int(removable), func(relief int) bool { return isEnough(int64(relief)) }))
}

// coverCost returns the least cost, and the fewest moves, of tasks that together take at least need
// off a cell. The cost is that of the fractional knapsack, which is never above the true one. Tasks
// that cost more than allowed need not be considered: at that cost, only a solution that repairs more
// is better than the best one, and a bound that repairs more is better at any cost.
//
// For example, 50 must leave, and there are tasks of 30 that costs 1 and of 40 that costs 15. Two
// moves are needed. The cheapest relief is the first task and half of the second: 1 + 7.5, so that
// no solution costs less than 9.
func coverCost(s *branchSearch, v openViolation, need int64, allowed int) (cost, moves int) {
	type item struct {
		relief int64
		cost   int
	}
	var items []item
	for _, t := range s.problem.instances[v.instance].tasks {
		if n := s.problem.tasks[t].amountOf(v.dim); n > 0 && s.isUndecided(t) && s.problem.tasks[t].cost <= allowed {
			items = append(items, item{min(n, need), s.problem.tasks[t].cost})
		}
	}
	slices.SortFunc(items, func(a, b item) int { return cmp.Compare(b.relief, a.relief) })
	if s.reserved != nil { // may go with tasks of any size
		need = max(0, need-s.reserved[s.problem.cellIndex(v.instance, v.dim)])
	}
	for rest := need; rest > 0 && moves < len(items); moves++ {
		rest -= items[moves].relief
	}
	slices.SortFunc(items, func(a, b item) int { return cmp.Compare(int64(a.cost)*b.relief, int64(b.cost)*a.relief) })
	price, rest := 0.0, need
	for _, i := range items {
		part := min(i.relief, rest)
		price += float64(i.cost) * float64(part) / float64(i.relief)
		rest -= part
	}
	if rest > 0 {
		return allowed + 1, moves
	}
	return int(math.Ceil(price - 1e-6)), moves
}
