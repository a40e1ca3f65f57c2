package placement

// PlanMovesNearby is [Engine.PlanMoves] as it is where there is too much to try every way.
func PlanMovesNearby(e *Engine, m Moves) *Plan {
	s := newMoveState(e.newMoveProblem(m, nil))
	duties := s.duties()
	return s.explain(duties, s.surroundings(duties, false))
}

// MakeRoomNearby is [Engine.MakeRoom] as it is where there is too much to try every way.
func MakeRoomNearby(e *Engine, r Request, m Moves) *Plan {
	s := newMoveState(e.newMoveProblem(m, &r))
	duties := s.duties()[:s.measure.unplaced]
	return s.explain(duties, s.surroundings(duties, true))
}
