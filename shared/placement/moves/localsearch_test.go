package moves_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"berth/shared/constraint"
	"berth/shared/placement"
	"berth/shared/placement/moves"
	"berth/shared/state"
	"berth/tests/oracle"
)

// A plan of a local search keeps the rules that an exhaustive one keeps. It repairs something or
// moves nothing.
func TestLocalSearchMakesNothingWorse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := oracle.GenMoveWorld(t, 5, 6)
		s := w.Snapshot(rapid.Uint64().Draw(t, "order of rows"))
		p := moves.PlanMovesLocally(moves.NewPlanner(placement.New(s)), moves.Request{Owners: w.Owners})
		o := oracle.NewMoveOracle(w)
		before, _ := o.Score()
		after := o.CarryOut(t, p)
		_, allowed := o.Score()
		if !allowed[3] {
			t.Fatalf("a rule that binds is broken further: %+v\n%s", p, w.Describe())
		}
		if c := slices.Compare(o.Order(after), o.Order(before)); c > 0 || c == 0 && len(p.Moves) > 0 {
			t.Fatalf("from %v to %v: %+v\n%s", before, after, p, w.Describe())
		}
		if again := moves.PlanMovesLocally(moves.NewPlanner(placement.New(w.Snapshot(1))),
			moves.Request{Owners: w.Owners}); summary(again) != summary(p) {
			t.Fatalf("the order of rows decides: %s, or %s", summary(p), summary(again))
		}
	})
}

// In most small worlds a local search finds a plan as good as the best.
func TestLocalSearchSeldomMissesTheBestPlan(t *testing.T) {
	worlds, missed := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := oracle.GenMoveWorld(t, 5, 6)
		s := w.Snapshot(1)
		e := moves.NewPlanner(placement.New(s))
		best := e.PlanMoves(moves.Request{Owners: w.Owners})
		if len(best.Violations) == 0 {
			return
		}
		worlds++
		near := moves.PlanMovesLocally(e, moves.Request{Owners: w.Owners})
		if len(near.Unrepaired) > len(best.Unrepaired) || len(near.Unrepaired) == len(best.Unrepaired) &&
			near.Cost > best.Cost {
			missed++
		}
	})
	if missed*5 > worlds {
		t.Fatalf("missed in %d of %d worlds", missed, worlds)
	}
	t.Logf("missed in %d of %d worlds", missed, worlds)
}

// What a search tries for one violation does not hide from the next one where there is room. The task of q
// goes to c only if that of w leaves it for a, and that of y leaves a. On that path c has no room for y's.
// It has once the path is given up.
func TestLocalSearchForgetsThePathsItGivesUp(t *testing.T) {
	ssd, err := constraint.ParseQuery("attribute:disk == ssd")
	if err != nil {
		t.Fatal(err)
	}
	rows := []state.Row{
		oracle.Instance("a", oracle.Attribute("disk", "ssd"), oracle.Metric("m", 45)),
		oracle.Instance("c", oracle.Attribute("disk", "ssd"), oracle.Metric("m", 45)), oracle.Instance("d"),
		oracle.Task("t-q", "d", oracle.Owner("q"), oracle.Load(30)),
		oracle.Task("t-w", "c", oracle.Owner("w"), oracle.Load(20)),
		oracle.Task("t-y", "a", oracle.Owner("y"), oracle.Load(20)),
		oracle.Task("t-z", "a", oracle.Owner("z"), oracle.Load(30)),
	}
	var specs []*placement.Spec
	for _, owner := range []string{"q", "w", "y"} {
		specs = append(specs, &placement.Spec{Owner: owner, Constraints: []*constraint.Expression{ssd}})
	}
	p := moves.PlanMovesLocally(moves.NewPlanner(placement.New(oracle.SnapshotOf(rows...))), movers(specs...))
	expectMoves(t, p, "t-y: a > c")
}

// Moves that may begin at once have room at their destinations, all of them together. Carried out
// in order, each move has room when its turn comes.
func TestMovesCanBeCarriedOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := oracle.GenMoveWorld(t, 4, 6)
		w.Config.Priorities.Capacity = 0
		s := w.Snapshot(rapid.Uint64().Draw(t, "order of rows"))
		expectOrder(t, w, moves.NewPlanner(placement.New(s)).PlanMoves(moves.Request{Owners: w.Owners}))
	})
}

// The same holds for any moves to where tasks may be, which need an exchange more often than plans do.
// Each is made once.
func TestAnyMovesCanBeCarriedOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range often {
			w := oracle.GenMoveWorld(t, 4, 6)
			w.Config.Priorities.Capacity = 0
			x := moves.NewTrial(moves.NewPlanner(placement.New(w.Snapshot(1))), moves.Request{Owners: w.Owners}, nil)
			n := 0
			for n < 5 && x.Move(func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "drawn") }) {
				n++
			}
			if p := x.Plan(); p != nil {
				if len(p.Moves) != n {
					t.Fatalf("of %d moves, the plan has %+v", n, p.Moves)
				}
				expectOrder(t, w, p)
			}
		}
	})
}

// The same holds where services share the limits of an application: after each move it is on no more
// instances than it may be on, not only after all of them.
func TestMovesOfApplicationsCanBeCarriedOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range often {
			w := oracle.GenApplicationWorld(t, 4, 6)
			w.Config.Priorities.Capacity = 0
			m := moves.Request{Owners: w.Owners}
			planner := func() *moves.Planner { return moves.NewPlanner(placement.New(w.Snapshot(1))) }
			for _, p := range []*moves.Plan{planner().PlanMoves(m), moves.PlanMovesLocally(planner(), m)} {
				expectOrder(t, w, p)
			}
		}
	})
}

// expectOrder checks that the plan's moves have room in their order.
func expectOrder(t *rapid.T, w *oracle.MoveWorld, p *moves.Plan) {
	o := oracle.NewMoveOracle(w)
	// Replacements that start first are there beside the tasks that they replace.
	for _, m := range p.Moves {
		to := m.To
		if m.Mode == moves.Via {
			to = m.Via
		}
		if len(m.After) == 0 && m.Mode != moves.StopFirst {
			o.AddCopy(m.Task, to)
		}
	}
	expectRoom(t, o, p, "at once")
	inTurn := oracle.NewMoveOracle(w)
	for n, m := range p.Moves {
		for _, before := range m.After {
			if before >= n {
				t.Fatalf("move %d waits for %d: %+v", n, before, p.Moves)
			}
			if b := p.Moves[before]; b.From != m.To && b.Owner != m.Owner {
				t.Fatalf("move %d waits for %d, which makes no room for it: %+v", n, before, p.Moves)
			}
		}
		if m.Mode == moves.StopFirst || m.Mode == moves.Via {
			inTurn.PutTask(m.Task, "")
			continue
		}
		inTurn.PutTask(m.Task, m.To)
		expectRoom(t, inTurn, p, m.Task)
		if problem := inTurn.Scattered(); problem != "" {
			t.Fatalf("%s: %s: %+v\n%s", m.Task, problem, p.Moves, w.Describe())
		}
	}
}

// expectRoom checks that no instance has more than it takes in all, unless it had at the start.
func expectRoom(t *rapid.T, o *oracle.MoveOracle, p *moves.Plan, when string) {
	if problem := o.Overfull(); problem != "" {
		t.Fatalf("%s: %s: %+v\n%s", when, problem, p.Moves, o.Describe())
	}
}

// The watch overlooks no violation. If there is none, it usually knows that without looking at
// every task.
func TestWatchOverlooksNothing(t *testing.T) {
	sound, known := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := oracle.GenMoveWorld(t, 5, 6)
		m := moves.Request{Owners: w.Owners}
		e := moves.NewPlanner(placement.New(w.Snapshot(1)))
		broken := e.Violations(m)
		if len(broken) == 0 {
			sound++
		}
		if e.FindsNothing(m) {
			known++
			if len(broken) > 0 {
				t.Fatalf("overlooked: %+v\n%s", broken, w.Describe())
			}
		}
	})
	if 2*known < sound {
		t.Errorf("of %d clusters without violations the watch knows %d", sound, known)
	}
	t.Logf("of %d clusters without violations the watch knows %d", sound, known)
}

// A plan made of the affected tasks only keeps the rules that a plan of all tasks keeps, and is
// seldom worse.
func TestScopedPlansAreSeldomWorse(t *testing.T) {
	worlds, missed := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := oracle.GenMoveWorld(t, 5, 6)
		s := w.Snapshot(rapid.Uint64().Draw(t, "order of rows"))
		m := moves.Request{Owners: w.Owners}
		p, best := moves.NewPlanner(placement.New(s)).Scoped().PlanMoves(m),
			moves.NewPlanner(placement.New(s)).PlanMoves(m)
		if len(p.Violations) != len(best.Violations) {
			t.Fatalf("broken are %v, and of all %v\n%s", p.Violations, best.Violations, w.Describe())
		}
		o := oracle.NewMoveOracle(w)
		before, _ := o.Score()
		after := o.CarryOut(t, p)
		if _, allowed := o.Score(); !allowed[3] {
			t.Fatalf("a rule that binds is broken further: %+v\n%s", p, w.Describe())
		}
		if c := slices.Compare(o.Order(after), o.Order(before)); c > 0 || c == 0 && len(p.Moves) > 0 {
			t.Fatalf("from %v to %v: %+v\n%s", before, after, p, w.Describe())
		}
		if len(best.Violations) > 0 {
			worlds++
		}
		if len(p.Unrepaired) > len(best.Unrepaired) || len(p.Unrepaired) == len(best.Unrepaired) && p.Cost > best.Cost {
			missed++
		}
	})
	if missed*5 > worlds {
		t.Fatalf("missed in %d of %d worlds", missed, worlds)
	}
	t.Logf("missed in %d of %d worlds", missed, worlds)
}
