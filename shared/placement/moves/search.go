package moves

import (
	"math"
	"slices"
)

// branchSearch looks for the best way to settle its duties. At each node it takes one thing that is
// broken and one task that could help by leaving, and tries all ways to send that task elsewhere,
// then to keep it. A move that breaks something adds a duty. So the moves of a solution all follow
// from what is broken, and nothing else is looked at.
type branchSearch struct {
	*assignment
	stage       searchStage
	focus       []openViolation
	local       *localSearch // nil: every instance is a destination
	forRoom     bool         // tasks are to be placed, not rules repaired
	outside     score
	budget      int
	steps       int // left
	displaced   int // moves on the path that make room for others
	movesBefore int // moves before the search

	bestScore score
	found     []plannedMove // the best solution
	cut       bool          // the steps ran out, or not everything was looked at
}

// plannedMove is one move of a solution.
type plannedMove struct {
	task, to int32
	cause    openViolation
}

// runSearch searches, and leaves the state as it was. What was moved before stays moved. Run again it
// looks for what is better still.
func (s *branchSearch) runSearch() {
	s.outside, s.movesBefore = scoreOutside(s), len(s.movedTasks)
	if s.found == nil {
		s.bestScore = s.score
	}
	s.searchDeeper()
}

// isWorthwhile reports whether what was found is worth what the stage gives up, where a is what there was
// without.
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
	s.branchOn(violation, must)
}

// nextViolation is a duty of the search that is still open and that something can be done about.
func (s *branchSearch) nextViolation() (openViolation, bool) {
	for _, v := range s.focus {
		if isBroken(s.assignment, v) && bestTaskToMove(s.assignment, v) >= 0 && !isExhausted(s, v) {
			return v, true
		}
	}
	return openViolation{}, false
}

// isExhausted reports that a search of the surroundings has tried enough tasks of an owner for a
// domain rule.
func isExhausted(s *branchSearch, v openViolation) bool {
	if s.local == nil || v.kind != faultDomains && v.kind != upgradeDomains {
		return false
	}
	tired := s.local.kept[v.owner] >= nearTasks
	s.cut = s.cut || tired
	return tired
}

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

// branchOn sends the task that can help most everywhere it may go, then keeps it where it is.
func (s *branchSearch) branchOn(v openViolation, must bool) {
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
		measure := s.score
		for _, to := range s.rankDestinations(t, v) {
			s.moveTask(t, to, v)
			s.searchDeeper()
			s.undoLast(measure)
			room = true
		}
		if must {
			s.displaced--
		}
	}
	s.keepTask(t, v, room)
}

// canImprove reports whether a search of the surroundings goes on to make room.
func (n *localSearch) canImprove(s *branchSearch, v openViolation, t int32) bool {
	if s.displaced >= n.depth || n.kept[s.problem.tasks[t].owner] >= nearTasks {
		return false
	}
	if v.kind != overloadedCell {
		return true
	}
	c := s.problem.cellIndex(v.instance, v.dim)
	return canRelieve(s.assignment, v.instance, v.dim, s.load[c]-s.loadLimit(s.stage, v.task, c, v.dim),
		n.depth-s.displaced)
}

// keepTask leaves the task where it is, and with it those there that are like it: they could do no
// better.
func (s *branchSearch) keepTask(t int32, v openViolation, tried bool) {
	var kept []int32
	for _, o := range tasksAtSamePlace(s, t) {
		if s.isUndecided(o) && (s.problem.tasks[o].shape == s.problem.tasks[t].shape || tried && s.local != nil &&
			isDominated(s, o, t, v)) {
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

// tasksAtSamePlace are the tasks that are where the task is: on its instance, or nowhere.
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

// isDominated reports whether the other task costs no less to move and relieves the cell no more:
// where the task can go and stays, there is little hope in that one.
func isDominated(s *branchSearch, o, t int32, v openViolation) bool {
	return v.kind == overloadedCell && s.problem.tasks[o].cost >= s.problem.tasks[t].cost &&
		s.problem.tasks[o].amountOf(v.dim) <= s.problem.tasks[t].amountOf(v.dim)
}

// bestTaskToMove is the task whose leaving helps most with the duty, -1 where none may leave any more:
// the least cost for what it relieves, then the most relief, then the first.
func bestTaskToMove(s *assignment, v openViolation) int32 {
	best := int32(-1)
	var bestKey [2]float64
	for _, t := range repairCandidates(s, v) {
		if !s.isUndecided(t) || !canHelp(s, v, t) || v.kind == portConflict && !sharesPort(s, v, t) {
			continue
		}
		key := repairCost(s, v, t)
		if best < 0 || key[0] < bestKey[0] || key[0] == bestKey[0] && key[1] < bestKey[1] {
			best, bestKey = t, key
		}
	}
	return best
}

// sharesPort reports whether the task has a port that the one which moved here wants.
func sharesPort(s *assignment, v openViolation, t int32) bool {
	for _, p := range s.problem.tasks[t].ports {
		if slices.Contains(s.problem.tasks[v.task].ports, p) {
			return true
		}
	}
	return false
}

func repairCost(s *assignment, v openViolation, t int32) [2]float64 {
	task := &s.problem.tasks[t]
	switch v.kind {
	case overloadedCell:
		n := task.amountOf(v.dim)
		_, beyond := s.excessOf(s.problem.cellIndex(v.instance, v.dim))
		return [2]float64{float64(task.cost) / float64(min(n, max(beyond, 1))), -float64(n)}
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
