package moves

import (
	"slices"
	"sort"
)

// The bounds of a search that gathers an application on fewer instances. Without them it would try every
// way to put all tasks of an application on one instance that holds only some of them.

// leastNodes returns on how many instances the application has to be at least, because fewer do not hold
// what its tasks use of some resource, or more tasks of a service than there may be on one. It is the same
// for the whole search.
func leastNodes(s *branchSearch, a int32) int {
	if s.leastNodes == nil {
		s.leastNodes = map[int32]int{}
	}
	least, known := s.leastNodes[a]
	if known {
		return least
	}
	var staying []int32 // tasks that have an instance, and will have one
	for _, t := range s.problem.applications[a].tasks {
		if i := s.problem.tasks[t].initial; i >= 0 && s.problem.instances[i].givesTasks {
			staying = append(staying, t)
		}
	}
	for dim := range int32(s.problem.dimensionCount()) {
		total := int64(0)
		for _, t := range staying {
			total += s.problem.tasks[t].amountOf(dim)
		}
		if total > 0 {
			least = max(least, fewestThatHold(total, roomPerInstance(s, a, dim, total)))
		}
	}
	for o := range s.problem.owners {
		owner := &s.problem.owners[o]
		if owner.application != a || owner.maxPerInstance == 0 {
			continue
		}
		total, rooms := int64(0), make([]int64, len(s.problem.instances))
		for i := range rooms {
			here := int64(s.initialTasksOn(int32(o), int32(i)))
			rooms[i] = max(int64(owner.maxPerInstance), here)
			if s.problem.instances[i].givesTasks {
				total += here
			}
		}
		least = max(least, fewestThatHold(total, rooms))
	}
	s.leastNodes[a] = least
	return least
}

// roomPerInstance returns how much of a dimension the application's tasks can use on each instance if
// everything else that may leave it leaves: at most total, and nothing where it cannot have tasks.
func roomPerInstance(s *branchSearch, a, dim int32, total int64) []int64 {
	out := make([]int64, len(s.problem.instances))
	for i := range out {
		if !s.problem.instances[i].takesTasks && s.problem.applications[a].initial.counted[i] == 0 {
			continue
		}
		c := s.problem.cellIndex(int32(i), dim)
		limit := s.problem.total[c]
		switch {
		case !s.stage.bindsLevel(s.capacityLevel(dim)):
			limit = unlimited
		case s.stage == stageKeep:
			limit = s.problem.unbuffered[c]
		}
		if limit = max(limit, s.problem.usedOf(c)); limit == unlimited {
			out[i] = total
			continue
		}
		remaining := s.problem.load[c] // of what stays
		for _, t := range s.problem.instances[i].tasks {
			if s.problem.tasks[t].movable || s.problem.applicationOf(t) == a {
				remaining -= s.problem.tasks[t].amountOf(dim)
			}
		}
		out[i] = min(total, max(0, limit-remaining))
	}
	return out
}

// fewestThatHold returns how many of the rooms, the largest first, hold the total. If all of them do not,
// no bound follows, and it returns 0.
func fewestThatHold(total int64, rooms []int64) int {
	slices.Sort(rooms)
	for n, at := 0, len(rooms)-1; at >= 0; n, at = n+1, at-1 {
		if total <= 0 {
			return n
		}
		total -= rooms[at]
	}
	if total > 0 {
		return 0
	}
	return len(rooms)
}

// unavoidableNodes returns how many instances have a task of the application that no move of the
// search takes away.
func unavoidableNodes(s *branchSearch, a int32) int {
	return s.uses[a].nodes - len(emptyingCosts(s, a))
}

// An emptyingCost is what it takes to empty an instance of an application's tasks.
type emptyingCost struct{ cost, moves int }

// emptyingCosts returns the cost per instance of which the search may still move all tasks of the
// application away.
func emptyingCosts(s *branchSearch, a int32) (out []emptyingCost) {
	leaving := make(map[int32]emptyingCost, len(s.problem.applications[a].tasks))
	for _, t := range s.problem.applications[a].tasks {
		if i := s.at[t]; i >= 0 && s.isUndecided(t) {
			sum := leaving[i]
			leaving[i] = emptyingCost{sum.cost + s.problem.tasks[t].cost, sum.moves + 1}
		}
	}
	for i, sum := range leaving {
		if n := s.uses[a].counted[i]; n > 0 && int(n) <= sum.moves {
			out = append(out, sum)
		}
	}
	return out
}

// gatheringCost returns the least cost, and the fewest moves, with which an application is on as few
// instances as in the best solution. bound is the bound so far, in which it is on as few as can be.
//
// For example, it is on instances with 1, 3 and 5 of its tasks that cost 1 each, and on one instance in the
// best solution. At least two have to be emptied, which takes 4 moves.
func gatheringCost(s *branchSearch, v openViolation, bound score) (cost, moves int) {
	costs, most := emptyingCosts(s, v.application), s.problem.applications[v.application].maximumNodes
	nodes := s.uses[v.application].nodes
	fewest := max(nodes-len(costs), leastNodes(s, v.application))
	isEnough := func(emptied int) bool {
		with := bound
		more := max(0, max(fewest, nodes-emptied)-most) - max(0, fewest-most)
		with.rules[alwaysBinding].addViolations(more, 0)
		return with.compareRules(&s.bestScore, lowestLevel) <= 0
	}
	emptied := sort.Search(len(costs), isEnough)
	if !isEnough(emptied) {
		return 0, 0
	}
	slices.SortFunc(costs, func(x, y emptyingCost) int { return x.cost - y.cost })
	for _, c := range costs[:emptied] {
		cost += c.cost
	}
	slices.SortFunc(costs, func(x, y emptyingCost) int { return x.moves - y.moves })
	for _, c := range costs[:emptied] {
		moves += c.moves
	}
	return cost, moves
}
