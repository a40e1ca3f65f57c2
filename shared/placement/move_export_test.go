package placement

// PlanMovesNearby is [Engine.PlanMoves] as it is where there is too much to try every way.
func PlanMovesNearby(e *Engine, m Moves) *Plan {
	s := newMoveState(e.newMoveProblem(m, nil))
	duties := s.duties()
	return s.explain(duties, s.surroundings(duties, false))
}
