package moves

import "slices"

// Limits of the work on one plan, in steps: a task sent somewhere or kept, or some instances looked
// at.
const (
	exactSize  = 600     // tasks that may move × instances, up to which every way is tried
	exactSteps = 50_000  // per stage
	nearSteps  = 2000    // per violation and stage
	moreSteps  = 200     // once there is some solution
	planSteps  = 600_000 // for all violations
)

// solution is a set of moves and how good it is.
type solution struct {
	steps []plannedMove
	score score
	stage searchStage
	exact bool
}

func solveProblem(p *problem) *Plan {
	s := newAssignment(p)
	violations := findViolations(s)
	if len(violations) == 0 {
		return &Plan{Exact: true}
	}
	forRoom := s.score.unplaced > 0
	if forRoom { // only newcomers matter
		violations = violations[:s.score.unplaced]
	}
	start := s.score
	best := solution{score: start}
	if p.isSmall() {
		best = searchExhaustively(s, violations, forRoom)
	}
	if !best.exact {
		if near := searchLocally(s, violations, forRoom); near.isBetter(&best, forRoom) {
			best = near
		}
	}
	return newPlan(s, violations, best)
}

func (m *solution) isBetter(o *solution, forRoom bool) bool {
	if forRoom {
		return m.score.compareForRoom(&o.score) < 0
	}
	return m.score.compare(&o.score) < 0
}

// searchExhaustively tries every way, stage by stage.
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
		best.exact = best.exact && !search.cut
		if g == stageKeep || search.isWorthwhile(&best.score) {
			best.score, best.steps, best.stage = search.bestScore, search.found, g
		}
	}
	return best
}

// searchLocally repairs one violation after the other by what is near it, and leaves the state as it
// was.
func searchLocally(s *assignment, violations []openViolation, forRoom bool) solution {
	out := solution{}
	start := s.score
	work := &repairWork{steps: planSteps}
	exhausted := map[int32]bool{} // shapes of newcomers
	for range 2 {
		before := len(s.movedTasks)
		for _, v := range violations {
			if v.kind == unplacedTask && exhausted[s.problem.tasks[v.task].shape] {
				continue
			}
			for isBroken(s, v) && work.steps > 0 {
				so, measure := len(s.movedTasks), s.score
				g, gained := repairViolation(s, v, forRoom, work)
				if gained && !canBeCarriedOut(s, max(out.stage, g)) {
					s.undoTo(so)
					s.score, gained = measure, false
				}
				if !gained {
					exhausted[newcomerShape(s, v)] = true
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
	for n, t := range s.movedTasks {
		out.steps = append(out.steps, plannedMove{t, s.at[t], s.causes[n]})
	}
	out.score = s.score
	out.score.exchanges, _ = countExchanges(s, out.stage, 0)
	s.undoTo(0)
	s.score = start
	return out
}

// canBeCarriedOut reports whether the moves so far can be carried out together. Where tasks may be
// stopped first all can.
func canBeCarriedOut(s *assignment, stage searchStage) bool {
	if !slices.ContainsFunc(s.problem.owners, func(o problemOwner) bool { return o.mover.StartFirst }) {
		return true
	}
	_, possible := countExchanges(s, stage, 0)
	return possible
}

func newcomerShape(s *assignment, v openViolation) int32 {
	if v.kind != unplacedTask {
		return -1
	}
	return s.problem.tasks[v.task].shape
}

// repairWork is what is left to do, and known, while violations are repaired one after the other.
type repairWork struct {
	steps    int
	searches [stages]*localSearch
}

// repairViolation does the best it finds for one violation, and reports whether that was anything.
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

// findLocalMoves are the best moves that it finds for the violation: first to where there is room,
// then those that make some, and for a newcomer at last as many as it takes to clear an instance.
// The state stays as it is.
func findLocalMoves(s *branchSearch, v openViolation, work *repairWork) []plannedMove {
	for _, depth := range []int{0, nearDepth} {
		limit := nearSteps
		if s.found != nil { // only something cheaper can be missing
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

// spendSteps has some of the work's steps spent, on a search in which so many tasks may make room.
func spendSteps(s *branchSearch, work *repairWork, limit, depth int, on func()) {
	s.local.depth, s.steps = depth, min(work.steps, limit)
	work.steps -= s.steps
	on()
	work.steps += s.steps
}
