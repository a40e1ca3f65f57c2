package moves

import "berth/shared/placement"

// PlanMovesNearby is [Planner.PlanMoves] as it is where there is too much to try every way.
func PlanMovesNearby(e *Planner, m Request) *Plan {
	s := newAssignment(e.newProblem(m, nil))
	violations := findViolations(s)
	return planOfSolution(s, violations, searchLocally(s, violations, false))
}

// Scoped has the engine plan moves as it does where there are many tasks.
func (e *Planner) Scoped() *Planner {
	e.wholeTasks = 0
	return e
}

// Sound reports whether the engine sees at a glance that nothing is broken.
func (e *Planner) Sound(m Request) bool {
	e.engine.Sync()
	return e.findsNothing(&m)
}

// Violations are those that a look at every task finds.
func (e *Planner) Violations(m Request) []Violation {
	return solveProblem(e.newProblem(m, nil)).Violations
}

// MakeRoomNearby is [Planner.MakeRoom] as it is where there is too much to try every way.
func MakeRoomNearby(e *Planner, r placement.Request, m Request) *Plan {
	s := newAssignment(e.newProblem(m, &r))
	violations := findViolations(s)[:s.score.unplaced]
	return planOfSolution(s, violations, searchLocally(s, violations, true))
}
