package moves_test

import (
	"testing"

	"pgregory.net/rapid"

	"berth/shared/placement"
	"berth/shared/placement/moves"
	"berth/tests/oracle"
)

// drawTrial draws a cluster, whose services may be attached to others, may not stop tasks first, or
// have tasks without an instance.
func drawTrial(t *rapid.T) (*moves.Trial, *oracle.MoveWorld) {
	w := oracle.GenMoveWorld(t, 4, 6)
	if rapid.Bool().Draw(t, "attached") {
		w = oracle.GenAffinityWorld(t, 4, 6)
	}
	startFirst := rapid.Bool().Draw(t, "start first")
	for name, m := range w.Owners {
		m.StartFirst = startFirst
		w.Owners[name] = m
	}
	var r *placement.Request
	if first := w.Owners["o0"]; rapid.IntRange(0, 2).Draw(t, "newcomers") == 0 {
		w.Newcomers = rapid.IntRange(1, 2).Draw(t, "count")
		r = &placement.Request{Spec: first.Spec, Target: first.Target, Count: w.Newcomers}
	}
	e := moves.NewPlanner(placement.New(w.Snapshot(1)))
	return moves.NewTrial(e, moves.Request{Owners: w.Owners}, r), w
}

// Whatever tasks move, the score is what its definition says. Undone, the moves leave nothing
// behind, nor does a search, or an attempt to put the moves in order.
func TestScoresOfMovesEqualTheirDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range often {
			x, w := drawTrial(t)
			draw := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "drawn") }
			expectCounts(t, x, w)
			states := []string{x.State()}
			for range rapid.IntRange(1, 5).Draw(t, "moves") {
				if !x.Move(draw) {
					break
				}
				expectCounts(t, x, w)
				states = append(states, x.State())
			}
			last := len(states) - 1
			if x.Sequence(); x.State() != states[last] {
				t.Fatalf("putting the moves in order changed\n%sto\n%s%s", states[last], x.State(), w.Describe())
			}
			for ; last > 0; last-- {
				if x.Undo(); x.State() != states[last-1] {
					t.Fatalf("undone, a move leaves\n%sinstead of\n%s%s", x.State(), states[last-1], w.Describe())
				}
			}
			if x.Search(); x.State() != states[0] {
				t.Fatalf("searching changed\n%sto\n%s%s", states[0], x.State(), w.Describe())
			}
		}
	})
}

func expectCounts(t *rapid.T, x *moves.Trial, w *oracle.MoveWorld) {
	if counted, defined := x.Counts(); counted != defined {
		t.Fatalf("counted is\n%s, defined is\n%s\n%s\n%s", counted, defined, x.State(), w.Describe())
	}
}
