package placement

// PlanMovesNearby is [Engine.PlanMoves] as it is where there is too much to try every way.
func PlanMovesNearby(e *Engine, m Moves) *Plan {
	s := newMoveState(e.newMoveProblem(m, nil))
	duties := s.duties()
	return s.explain(duties, s.surroundings(duties, false))
}

// Scoped has the engine plan moves as it does where there are many tasks.
func (e *Engine) Scoped() *Engine {
	e.wholeTasks = 0
	return e
}

// Sound reports whether the engine sees at a glance that nothing is broken.
func (e *Engine) Sound(m Moves) bool {
	e.sync()
	return e.sound(&m)
}

// Violations are those that a look at every task finds.
func (e *Engine) Violations(m Moves) []Violation { return e.newMoveProblem(m, nil).plan().Violations }

// MakeRoomNearby is [Engine.MakeRoom] as it is where there is too much to try every way.
func MakeRoomNearby(e *Engine, r Request, m Moves) *Plan {
	s := newMoveState(e.newMoveProblem(m, &r))
	duties := s.duties()[:s.measure.unplaced]
	return s.explain(duties, s.surroundings(duties, true))
}
