package moves

import "slices"

// The limits of the work on one plan, in steps. A step is a task moved or kept in a search, or the
// evaluation of 64 instances.
const (
	// exactSize is the largest product of movable tasks and instances for which every way is tried,
	// such as 30 tasks on 20 instances. A plan then takes milliseconds.
	exactSize  = 600
	exactSteps = 50_000  // per stage
	nearSteps  = 2000    // per violation and stage
	moreSteps  = 200     // after a first solution
	planSteps  = 600_000 // for all violations
)

// A solution is a list of moves with its score.
type solution struct {
	steps []plannedMove
	score score
	stage searchStage
	work  int // steps spent
	exact bool
}

// solveProblem finds the violations and plans the moves. A small problem is searched exhaustively.
// If that ends at its limit of steps, a local search may still find something better.
func solveProblem(p *problem) *Plan {
	s := newAssignment(p)
	violations := findViolations(s)
	if len(violations) == 0 {
		return &Plan{Exact: true}
	}
	forRoom := s.score.unplaced > 0
	if forRoom { // newcomers come first in the list
		violations = violations[:s.score.unplaced]
	}
	start := s.score
	best := solution{score: start}
	if p.isSmallEnough() {
		best = searchExhaustively(s, violations, forRoom)
	}
	if !best.exact {
		near, work := searchLocally(s, violations, forRoom), best.work
		if near.isBetterThan(&best, forRoom) {
			best = near
		}
		best.work = work + near.work
	}
	return planOfSolution(s, violations, best)
}

// isBetterThan compares solutions in the order of their purpose.
func (m *solution) isBetterThan(o *solution, forRoom bool) bool {
	if forRoom {
		return m.score.compareForRoom(&o.score) < 0
	}
	return m.score.compare(&o.score) < 0
}

// searchExhaustively tries every way, stage by stage. Each stage starts again from the first
// assignment: what repairs a rule without giving anything up is preferred, even if a later stage
// finds it cheaper. A later stage is tried only while rules are broken.
func searchExhaustively(s *assignment, violations []openViolation, forRoom bool) solution {
	best := solution{score: s.score, exact: true}
	for g := stageKeep; g < stages; g++ {
		if !stageDiffers(s.problem, g) || g > stageKeep && best.score.compareRules(&score{}, lowestLevel) == 0 {
			continue
		}
		search := &branchSearch{
			assignment: s, stage: g, focus: violations, forRoom: forRoom, budget: s.problem.budget, steps: exactSteps,
		}
		search.runSearch()
		best.work += exactSteps - search.steps
		best.exact = best.exact && !search.cut
		if g == stageKeep || search.isWorthwhile(&best.score) {
			best.score, best.steps, best.stage = search.bestScore, search.found, g
		}
	}
	return best
}

// searchLocally repairs one violation after the other with moves near it, and leaves the assignment
// as it was.
func searchLocally(s *assignment, violations []openViolation, forRoom bool) solution {
	out := solution{}
	start := s.score
	work := &repairWork{steps: planSteps}
	exhausted := map[int32]bool{} // shapes of newcomers
	for range 2 {                 // a later repair may make room for an earlier one that failed
		before := len(s.movedTasks)
		for _, v := range violations {
			if v.kind == unplacedTask && exhausted[s.problem.tasks[v.task].shape] {
				continue
			}
			for isStillBroken(s, v) && work.steps > 0 {
				done, score := len(s.movedTasks), s.score
				g, gained := repairViolation(s, v, forRoom, work)
				if gained && !canBeCarriedOut(s, max(out.stage, g)) {
					s.undoMovesTo(done)
					s.score, gained = score, false
				}
				if !gained {
					if v.kind == unplacedTask {
						exhausted[s.problem.tasks[v.task].shape] = true
					}
					break
				}
				out.stage = max(out.stage, g)
			}
		}
		if len(s.movedTasks) == before {
			break
		}
		clear(exhausted)
	}
	out.steps, out.score, out.work = s.movesSince(0), s.score, planSteps-work.steps
	out.score.exchanges, _ = countExchanges(s, out.stage, 0)
	s.undoMovesTo(0)
	s.score = start
	return out
}

// canBeCarriedOut reports whether the moves so far can be carried out together. If tasks may be
// stopped first, they can: any exchange begins with a stop.
func canBeCarriedOut(s *assignment, stage searchStage) bool {
	if !slices.ContainsFunc(s.problem.owners, func(o problemOwner) bool { return o.mover.StartFirst }) {
		return true
	}
	_, possible := countExchanges(s, stage, 0)
	return possible
}

// repairWork is what remains of the budget of steps, and what is known, while violations are
// repaired one by one.
type repairWork struct {
	steps    int
	searches [stages]*localSearch
}

// repairViolation makes the best moves that it finds for one violation, and reports whether it
// found any.
func repairViolation(s *assignment, v openViolation, forRoom bool, work *repairWork) (searchStage, bool) {
	for g := stageKeep; g < stages; g++ {
		if !stageDiffers(s.problem, g) {
			continue
		}
		if work.searches[g] == nil {
			work.searches[g] = newLocalSearch(s.problem)
		}
		search := &branchSearch{
			assignment: s, stage: g, focus: []openViolation{v}, local: work.searches[g], forRoom: forRoom,
			budget: s.problem.budget,
		}
		steps := findLocalMoves(search, v, work)
		for _, m := range steps {
			s.moveTask(m.task, m.to, m.cause)
		}
		if len(steps) > 0 {
			return g, true
		}
	}
	return 0, false
}

// findLocalMoves returns the best moves that it finds for the violation: first to instances with
// room, which is enough for most; then with a few tasks that make room and, for a newcomer, finally
// as many as it takes to clear an instance. It leaves the assignment as it was.
func findLocalMoves(s *branchSearch, v openViolation, work *repairWork) []plannedMove {
	for _, depth := range []int{0, nearDepth} {
		limit := nearSteps
		if s.found != nil { // then only a cheaper solution can be missing
			limit = moreSteps
		}
		spendSteps(s, work, limit, depth, s.runSearch)
	}
	done := len(s.movedTasks)
	if len(s.found) > done && (s.stage == stageKeep || s.isWorthwhile(&s.score)) {
		return s.found[done:]
	}
	var path []plannedMove
	if v.kind == unplacedTask {
		spendSteps(s, work, nearSteps, 0, func() { path = clearInstance(s, v.task) })
	}
	return path
}

// spendSteps spends some of the steps on a search in which depth tasks may move to make room. Steps
// that it leaves over go to the other violations, so that one hard violation does not use up the
// whole budget.
func spendSteps(s *branchSearch, work *repairWork, limit, depth int, search func()) {
	s.local.depth, s.steps = depth, min(work.steps, limit)
	work.steps -= s.steps
	search()
	work.steps += s.steps
}
