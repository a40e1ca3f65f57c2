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

// moveSolution is a set of moves and how good it is.
type moveSolution struct {
	steps   []moveStep
	measure moveMeasure
	stage   moveStage
	exact   bool
}

func solveProblem(p *moveProblem) *Plan {
	s := newMoveState(p)
	duties := findDefects(s)
	if len(duties) == 0 {
		return &Plan{Exact: true}
	}
	thrifty := s.measure.unplaced > 0
	if thrifty { // only newcomers matter
		duties = duties[:s.measure.unplaced]
	}
	start := s.measure
	best := moveSolution{measure: start}
	if p.whole() {
		best = searchExhaustively(s, duties, thrifty)
	}
	if !best.exact {
		if near := searchNearby(s, duties, thrifty); near.better(&best, thrifty) {
			best = near
		}
	}
	return planOf(s, duties, best)
}

func (m *moveSolution) better(o *moveSolution, thrifty bool) bool {
	if thrifty {
		return m.measure.compareThrifty(&o.measure) < 0
	}
	return m.measure.compare(&o.measure) < 0
}

// searchExhaustively tries every way, stage by stage.
func searchExhaustively(s *moveState, duties []moveDuty, thrifty bool) moveSolution {
	best := moveSolution{measure: s.measure, exact: true}
	for g := stageKeep; g < stages; g++ {
		if !stageDiffers(s.problem, g) || g > stageKeep && best.measure.compareRules(&moveMeasure{}, lowest) == 0 {
			continue
		}
		search := &moveSearch{
			moveState: s, stage: g, focus: duties, thrifty: thrifty, budget: s.problem.budget, steps: exactSteps,
		}
		search.run()
		best.exact = best.exact && !search.cut
		if g == stageKeep || search.gains(&best.measure) {
			best.measure, best.steps, best.stage = search.best, search.found, g
		}
	}
	return best
}

// searchNearby repairs one violation after the other by what is near it, and leaves the state as it
// was.
func searchNearby(s *moveState, duties []moveDuty, thrifty bool) moveSolution {
	out := moveSolution{}
	start := s.measure
	work := &moveWork{steps: planSteps}
	hopeless := map[int32]bool{} // shapes of newcomers
	for range 2 {
		before := len(s.moving)
		for _, d := range duties {
			if d.kind == dutyUnplaced && hopeless[s.problem.tasks[d.task].shape] {
				continue
			}
			for isBroken(s, d) && work.steps > 0 {
				so, measure := len(s.moving), s.measure
				g, gained := repairDefect(s, d, thrifty, work)
				if gained && !canBeCarriedOut(s, max(out.stage, g)) {
					s.unwind(so)
					s.measure, gained = measure, false
				}
				if !gained {
					hopeless[newcomerShape(s, d)] = true
					break
				}
				out.stage = max(out.stage, g)
			}
		}
		if len(s.moving) == before {
			break
		}
		clear(hopeless)
	}
	for n, t := range s.moving {
		out.steps = append(out.steps, moveStep{t, s.at[t], s.causes[n]})
	}
	out.measure = s.measure
	out.measure.awkward, _ = exchangesFrom(s, out.stage, 0)
	s.unwind(0)
	s.measure = start
	return out
}

// canBeCarriedOut reports whether the moves so far can be carried out together. Where tasks may be
// stopped first all can.
func canBeCarriedOut(s *moveState, stage moveStage) bool {
	if !slices.ContainsFunc(s.problem.owners, func(o moveOwner) bool { return o.mover.StartFirst }) {
		return true
	}
	_, possible := exchangesFrom(s, stage, 0)
	return possible
}

func newcomerShape(s *moveState, d moveDuty) int32 {
	if d.kind != dutyUnplaced {
		return -1
	}
	return s.problem.tasks[d.task].shape
}

// moveWork is what is left to do, and known, while violations are repaired one after the other.
type moveWork struct {
	steps int
	near  [stages]*moveNear
}

// repairDefect does the best it finds for one violation, and reports whether that was anything.
func repairDefect(s *moveState, d moveDuty, thrifty bool, work *moveWork) (moveStage, bool) {
	for g := stageKeep; g < stages; g++ {
		if !stageDiffers(s.problem, g) {
			continue
		}
		if work.near[g] == nil {
			work.near[g] = newMoveNear(s.problem)
		}
		search := &moveSearch{
			moveState: s, stage: g, focus: []moveDuty{d}, near: work.near[g], thrifty: thrifty,
			budget: s.problem.budget,
		}
		steps := nearestMoves(search, d, work)
		for _, m := range steps {
			s.move(m.task, m.to, m.cause)
		}
		if len(steps) > 0 {
			return g, true
		}
	}
	return 0, false
}

// nearestMoves are the best moves that it finds for the violation: first to where there is room,
// then those that make some, and for a newcomer at last as many as it takes to clear an instance.
// The state stays as it is.
func nearestMoves(s *moveSearch, d moveDuty, work *moveWork) []moveStep {
	for _, depth := range []int{0, nearDepth} {
		limit := nearSteps
		if s.found != nil { // only something cheaper can be missing
			limit = moreSteps
		}
		spendSteps(s, work, limit, depth, s.run)
	}
	done := len(s.moving)
	if len(s.found) > done && (s.stage == stageKeep || s.gains(&s.measure)) {
		return s.found[done:]
	}
	var path []moveStep
	if d.kind == dutyUnplaced {
		spendSteps(s, work, nearSteps, 0, func() { path = clearInstance(s, d.task) })
	}
	return path
}

// spendSteps has some of the work's steps spent, on a search in which so many tasks may make room.
func spendSteps(s *moveSearch, work *moveWork, limit, depth int, on func()) {
	s.near.depth, s.steps = depth, min(work.steps, limit)
	work.steps -= s.steps
	on()
	work.steps += s.steps
}
