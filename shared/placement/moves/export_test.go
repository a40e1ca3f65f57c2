package moves

import "berth/shared/placement"

// SortTasks sorts tasks as problems have them.
var SortTasks = sortTasks

// PlanMovesLocally is [Planner.PlanMoves] as if the problem were too large to try every way.
func PlanMovesLocally(e *Planner, m Request) *Plan {
	s := newAssignment(e.newProblem(m, nil))
	violations := findViolations(s)
	return planOfSolution(s, violations, searchLocally(s, violations, false))
}

// MakeRoomLocally is [Planner.MakeRoom] as if the problem were too large to try every way.
func MakeRoomLocally(e *Planner, r placement.Request, m Request) *Plan {
	s := newAssignment(e.newProblem(m, &r))
	violations := findViolations(s)[:s.score.unplaced]
	return planOfSolution(s, violations, searchLocally(s, violations, true))
}

// Scoped makes the planner plan as if there were many tasks.
func (p *Planner) Scoped() *Planner {
	p.wholeTasks = 0
	return p
}

// FindsNothing reports whether the watch knows that there is no violation.
func (p *Planner) FindsNothing(m Request) bool {
	p.engine.Sync()
	return p.findsNothing(&m)
}

// PlanAgain plans without a look at what the watch knows.
func (p *Planner) PlanAgain(m Request) *Plan {
	p.engine.Sync()
	return p.planForProblem(p.newProblem(m, nil))
}

// Violations returns the violations that a look at every task finds.
func (p *Planner) Violations(m Request) []Violation {
	return solveProblem(p.newProblem(m, nil)).Violations
}
