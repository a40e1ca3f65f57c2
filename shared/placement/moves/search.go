package moves

import (
	"math"
	"slices"
)

// A branchSearch looks for the best way to repair its violations, by branch and bound. At each node
// it takes one violation and one task whose move could help, tries all destinations of the task,
// and then keeps it where it is. A move that breaks something adds a violation. So all moves of a
// solution follow from what is broken, and nothing else is tried.
type branchSearch struct {
	*assignment
	stage       searchStage
	focus       []openViolation // violations to repair
	local       *localSearch    // nil if every instance is a destination
	forRoom     bool            // newcomers are to be placed, not rules repaired
	outside     score           // violations that are not in focus
	budget      int
	steps       int           // left
	displaced   int           // moves on the path that make room for others
	movesBefore int           // moves made before the search
	leastNodes  map[int32]int // per application: see [leastNodes]

	bestScore score
	found     []plannedMove // the best solution
	cut       bool          // the steps ran out, or not everything was tried
}

// A plannedMove is one move of a solution.
type plannedMove struct {
	task, to int32
	cause    openViolation
}

// runSearch searches and leaves the assignment as it was. Moves made before stay. Run again, it
// looks for something better still.
func (s *branchSearch) runSearch() {
	s.outside, s.movesBefore = scoreOutside(s), len(s.movedTasks)
	if s.found == nil {
		s.bestScore = s.score
	}
	s.searchDeeper()
}

// isWorthwhile reports whether the best solution found is worth carrying out, when the present
// state scores a.
func (s *branchSearch) isWorthwhile(a *score) bool {
	if s.forRoom {
		return s.bestScore.unplaced < a.unplaced
	}
	return s.stage.isWorthwhile(a, &s.bestScore)
}

// compareScores is the order of solutions.
func (s *branchSearch) compareScores(a, b *score) int {
	if s.forRoom {
		return a.compareForRoom(b)
	}
	return a.compare(b)
}

// searchDeeper is one node of the search:
//
//  1. Something that the moves made worse, and that may not stay so, must be repaired first. If no
//     task is left that could, the branch is dead.
//  2. If the lower bound is no better than the best solution, nothing below this node can win.
//  3. Otherwise it branches on what is worse, or on the next violation to repair. If there is
//     none, the moves so far are a solution.
func (s *branchSearch) searchDeeper() {
	if s.steps--; s.steps < 0 {
		s.cut = true
		return
	}
	violation, must, found := findWorsened(s.assignment, s.stage)
	if found && must && bestTaskToMove(s.assignment, violation) < 0 {
		return
	}
	if bound := s.lowerBound(); s.compareScores(&bound, &s.bestScore) >= 0 {
		return
	}
	if !found {
		violation, found = s.nextViolation()
	}
	if !found {
		s.recordSolution()
		return
	}
	s.branchOnViolation(violation, must)
}

// nextViolation returns a violation of the search that remains and that some task could help with.
func (s *branchSearch) nextViolation() (openViolation, bool) {
	for _, v := range s.focus {
		if isStillBroken(s.assignment, v) && bestTaskToMove(s.assignment, v) >= 0 && !isExhausted(s, v) {
			return v, true
		}
	}
	return openViolation{}, false
}

// isExhausted reports whether a local search has tried enough tasks of an owner for a domain rule,
// or of a parent for affinity. Any of the owner's tasks may help with such a rule, and there may be
// hundreds.
func isExhausted(s *branchSearch, v openViolation) bool {
	owner := v.owner
	switch {
	case s.local == nil:
		return false
	case v.kind == separatedTask:
		owner = s.problem.owners[v.owner].parent
	case v.kind == scatteredApplication:
		return hasKeptEnough(s, v.application)
	case v.kind != faultDomains && v.kind != upgradeDomains:
		return false
	}
	exhausted := s.local.kept[owner] >= nearTasks
	s.cut = s.cut || exhausted
	return exhausted
}

// recordSolution keeps the moves so far if they are a better solution and can be carried out.
// Constraints that depend on other tasks are checked only here, because every move may change what
// they see.
func (s *branchSearch) recordSolution() {
	now := s.score
	if now.exchanges = 0; s.compareScores(&now, &s.bestScore) >= 0 || !constraintsAgree(s.assignment) {
		return
	}
	possible := false
	if now.exchanges, possible = countExchanges(s.assignment, s.stage, s.movesBefore); !possible ||
		s.compareScores(&now, &s.bestScore) >= 0 {
		return
	}
	s.bestScore, s.found = now, s.found[:0]
	for n, t := range s.movedTasks {
		s.found = append(s.found, plannedMove{t, s.at[t], s.causes[n]})
	}
}

// branchOnViolation moves the task that can help most to each destination in turn, and then keeps
// it where it is.
func (s *branchSearch) branchOnViolation(v openViolation, must bool) {
	t := bestTaskToMove(s.assignment, v)
	if must && s.local != nil && !s.local.canImprove(s, v, t) {
		s.cut = true
		return
	}
	room := false
	if s.problem.tasks[t].initial < 0 || s.score.moves < s.budget {
		if must {
			s.displaced++
		}
		before := s.score
		for _, to := range s.rankDestinations(t, v) {
			s.moveTask(t, to, v)
			s.searchDeeper()
			s.undoLastMove(before)
			room = true
		}
		if must {
			s.displaced--
		}
	}
	s.keepTaskInPlace(t, v, room)
}

// canImprove reports whether a local search should go on to make room: it may displace few tasks,
// and for an overloaded cell these few must be large enough.
func (n *localSearch) canImprove(s *branchSearch, v openViolation, t int32) bool {
	if s.displaced >= n.depth || n.kept[s.problem.tasks[t].owner] >= nearTasks {
		return false
	}
	if v.kind != overloadedCell {
		return true
	}
	c := s.problem.cellIndex(v.instance, v.dim)
	return canRelieve(s.assignment, v.instance, v.dim, usedOf(s.assignment, c)-s.loadLimit(s.stage, v.task, c, v.dim),
		n.depth-s.displaced)
}

// keepTaskInPlace decides that the task stays, and with it the equal tasks there, which could do no
// better. In a local search dominated tasks stay as well: that may miss a solution, but keeps the
// search short.
func (s *branchSearch) keepTaskInPlace(t int32, v openViolation, tried bool) {
	var kept []int32
	for _, o := range tasksAtSamePlace(s, t) {
		if s.isUndecided(o) && (s.problem.tasks[o].shape == s.problem.tasks[t].shape ||
			tried && s.local != nil && isDominated(s, o, t, v)) {
			kept = append(kept, o)
			s.setDecision(o, pinned)
		}
	}
	if s.local != nil {
		s.local.kept[s.problem.tasks[t].owner]++
	}
	s.searchDeeper()
	if s.local != nil {
		s.local.kept[s.problem.tasks[t].owner]--
	}
	for _, o := range kept {
		s.setDecision(o, undecided)
	}
}

// tasksAtSamePlace returns the tasks on the instance of the task, or all newcomers of its owner.
func tasksAtSamePlace(s *branchSearch, t int32) []int32 {
	if at := s.problem.tasks[t].initial; at >= 0 {
		return s.problem.instances[at].tasks
	}
	var out []int32
	for _, o := range s.problem.owners[s.problem.tasks[t].owner].tasks {
		if s.problem.tasks[o].initial < 0 {
			out = append(out, o)
		}
	}
	return out
}

// isDominated reports whether the other task costs at least as much to move and relieves the cell
// by no more. If the task could move and stays, the other one has little to offer.
func isDominated(s *branchSearch, o, t int32, v openViolation) bool {
	return v.kind == overloadedCell && s.problem.tasks[o].cost >= s.problem.tasks[t].cost &&
		s.problem.tasks[o].amountOf(v.dim) <= s.problem.tasks[t].amountOf(v.dim)
}

// bestTaskToMove returns the undecided task that is best moved for the violation, or -1: the least
// cost for its relief, then the most relief, then the first.
func bestTaskToMove(s *assignment, v openViolation) int32 {
	best := int32(-1)
	var bestKey [2]float64
	for _, t := range repairCandidates(s, v) {
		if !s.isUndecided(t) || !canHelpRepair(s, v, t) || v.kind == portConflict && !sharesPort(s, v, t) {
			continue
		}
		key := repairCost(s, v, t)
		if best < 0 || key[0] < bestKey[0] || key[0] == bestKey[0] && key[1] < bestKey[1] {
			best, bestKey = t, key
		}
	}
	return best
}

// sharesPort reports whether the task has a port that the task which moved here needs.
func sharesPort(s *assignment, v openViolation, t int32) bool {
	for _, p := range s.problem.tasks[t].ports {
		if slices.Contains(s.problem.tasks[v.task].ports, p) {
			return true
		}
	}
	return false
}

// repairCost returns what tasks are compared by as repairs of a violation: the lower the better.
func repairCost(s *assignment, v openViolation, t int32) [2]float64 {
	task := &s.problem.tasks[t]
	switch v.kind {
	case overloadedCell:
		n := max(1, task.amountOf(v.dim))
		_, beyond := s.cellExcessOf(s.problem.cellIndex(v.instance, v.dim))
		return [2]float64{float64(task.cost) / float64(min(n, max(beyond, 1))), -float64(n)}
	case scatteredApplication:
		return gatherCost(s, v.application, t)
	case faultDomains, upgradeDomains:
		domains := s.problem.owners[v.owner].domains
		if task.initial < 0 {
			return [2]float64{math.Inf(1), 0}
		}
		domains.AddTasks(int(task.initial), -1)
		fault, upgrade := domains.Excess()
		domains.AddTasks(int(task.initial), 1)
		return [2]float64{float64(fault + upgrade), float64(task.cost)}
	}
	return [2]float64{float64(task.cost), 0}
}
