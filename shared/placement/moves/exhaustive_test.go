package moves_test

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"berth/shared/placement"
	"berth/shared/placement/moves"
	"berth/tests/oracle"
)

// expectBestPlan checks that no other way to move the tasks is better than the plan.
func expectBestPlan(t *rapid.T, w *oracle.MoveWorld) {
	s := w.Snapshot(rapid.Uint64().Draw(t, "order of rows"))
	e := moves.NewPlanner(placement.New(s))
	planned := moves.Request{Owners: w.Owners}
	var p *moves.Plan
	if w.Newcomers > 0 {
		first := w.Owners["o0"]
		p = e.MakeRoom(placement.Request{Spec: first.Spec, Target: first.Target, Count: w.Newcomers}, planned)
	} else {
		p = e.PlanMoves(planned)
	}
	if !p.Exact {
		t.Fatalf("the search did not end")
	}
	if isSound := len(p.Violations) == 0; isSound != (p.Steps == 0) || p.Steps < len(p.Moves) {
		t.Fatalf("%d steps for %+v", p.Steps, p)
	}
	o := oracle.NewMoveOracle(w)
	want := o.BestScore()
	if got := o.CarryOut(t, p); !slices.Equal(o.Order(got), o.Order(want)) {
		t.Fatalf("the plan is %v, the best is %v\n%+v\n%s", got, want, p, w.Describe())
	}
}

// No set of moves is better than the plan.
func TestPlanMovesEqualsTryingEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { expectBestPlan(t, oracle.GenMoveWorld(t, 4, 5)) })
}

// If tasks may not be stopped first, the plan still has the moves that need no stop, and no others.
func TestPlanMovesWithoutStops(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := oracle.GenMoveWorld(t, 4, 5)
		free := moves.NewPlanner(placement.New(w.Snapshot(1))).PlanMoves(moves.Request{Owners: maps.Clone(w.Owners)})
		for name, m := range w.Owners {
			m.StartFirst = rapid.Bool().Draw(t, name+" starts first")
			w.Owners[name] = m
		}
		s := w.Snapshot(1)
		p := moves.NewPlanner(placement.New(s)).PlanMoves(moves.Request{Owners: w.Owners})
		stops := func(p *moves.Plan) bool {
			return slices.ContainsFunc(p.Moves, func(m moves.Move) bool {
				return m.Mode == moves.StopFirst && w.Owners[m.Owner].StartFirst
			})
		}
		if stops(p) {
			t.Fatalf("a task is stopped first that may not: %+v\n%s", p.Moves, w.Describe())
		}
		o := oracle.NewMoveOracle(w)
		got, without := o.Order(o.CarryOut(t, p)), o.Order(o.CarryOut(t, free))
		if !stops(free) && slices.Compare(got, without) != 0 {
			t.Fatalf("no stop was needed for %v, and the plan is %v\n%s", without, got, w.Describe())
		}
		if best := o.BestOfOneMove(); slices.Compare(got, best) > 0 {
			t.Fatalf("one move leads to %v, the plan to %v\n%+v\n%s", best, got, p, w.Describe())
		}
	})
}

// No set of moves places more of the tasks, or as many at a lower cost.
func TestMakeRoomEqualsTryingEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := oracle.GenMoveWorld(t, 4, 4)
		w.Newcomers = rapid.IntRange(1, 2).Draw(t, "newcomers")
		expectBestPlan(t, w)
	})
}
