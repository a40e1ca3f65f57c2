package moves_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"berth/shared/placement"
	"berth/shared/placement/moves"
)

// TestSurroundingsNeverMakeAnythingWorse: a plan that looks only at the surroundings of each
// violation keeps to the rules of the one that looks at everything, and repairs something or moves
// nothing.
func TestSurroundingsNeverMakeAnythingWorse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawMoveWorld(t, 5, 6)
		s := w.moveSnapshot(rapid.Uint64().Draw(t, "order of rows"))
		p := moves.PlanMovesNearby(moves.NewPlanner(placement.New(s)), moves.Request{Owners: w.owners})
		o := newMoveOracle(w, s)
		before, _ := o.score()
		after := o.carry(t, p)
		_, allowed := o.score()
		if !allowed[3] {
			t.Fatalf("a rule that binds is broken further: %+v\n%s", p, w.describe())
		}
		if c := slices.Compare(o.order(after), o.order(before)); c > 0 || c == 0 && len(p.Moves) > 0 {
			t.Fatalf("from %v to %v: %+v\n%s", before, after, p, w.describe())
		}
		if again := moves.PlanMovesNearby(moves.NewPlanner(placement.New(w.moveSnapshot(1))),
			moves.Request{Owners: w.owners}); summary(again) != summary(p) {
			t.Fatalf("the order of rows decides: %s, or %s", summary(p), summary(again))
		}
	})
}

// TestSurroundingsSeldomMissTheBest: in most small worlds they do as well as trying everything.
func TestSurroundingsSeldomMissTheBest(t *testing.T) {
	worlds, missed := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := drawMoveWorld(t, 5, 6)
		s := w.moveSnapshot(1)
		e := moves.NewPlanner(placement.New(s))
		best := e.PlanMoves(moves.Request{Owners: w.owners})
		if len(best.Violations) == 0 {
			return
		}
		worlds++
		near := moves.PlanMovesNearby(e, moves.Request{Owners: w.owners})
		if len(near.Unrepaired) > len(best.Unrepaired) || len(near.Unrepaired) == len(best.Unrepaired) &&
			near.Cost > best.Cost {
			missed++
		}
	})
	if missed*5 > worlds {
		t.Fatalf("%d of %d", missed, worlds)
	}
	t.Logf("%d of %d", missed, worlds)
}

// TestMovesCanBeCarriedOut: moves that may begin at once find room where they go, all of them
// together; and one after the other, each finds it when its turn comes.
func TestMovesCanBeCarriedOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawMoveWorld(t, 4, 6)
		w.configuration.Priorities.Capacity = 0
		s := w.moveSnapshot(rapid.Uint64().Draw(t, "order of rows"))
		p := moves.NewPlanner(placement.New(s)).PlanMoves(moves.Request{Owners: w.owners})
		o := newMoveOracle(w, s)
		number := func(task string) int {
			for n, x := range o.tasks {
				if x.ID == task {
					return n
				}
			}
			return -1
		}
		instances := map[string]int{}
		for i, v := range o.Instances {
			instances[v.ID] = i
		}
		// The copies that start first are tasks beside those that are there.
		for _, m := range p.Moves {
			to := m.To
			if m.Mode == moves.Via {
				to = m.Via
			}
			if len(m.After) == 0 && m.Mode != moves.StopFirst {
				c := *o.tasks[number(m.Task)]
				o.tasks, o.at, o.start = append(o.tasks, &c), append(o.at, instances[to]),
					append(o.start, instances[to])
			}
		}
		expectRoom(t, o, p, "at once")
		fresh := newMoveOracle(w, s)
		for n, m := range p.Moves {
			for _, before := range m.After {
				if before >= n {
					t.Fatalf("move %d waits for %d: %+v", n, before, p.Moves)
				}
			}
			if m.Mode == moves.StopFirst || m.Mode == moves.Via {
				fresh.at[number(m.Task)] = -1
				continue
			}
			fresh.at[number(m.Task)] = instances[m.To]
			expectRoom(t, fresh, p, m.Task)
		}
	})
}

// expectRoom checks that no cell is above what it takes in all, unless it was at the start.
func expectRoom(t *rapid.T, o *moveOracle, p *moves.Plan, when string) {
	possible, figures := o.figures()
	if !possible {
		t.Fatalf("%s: a port or a device is not free: %+v", when, p.Moves)
	}
	for place, f := range figures {
		if len(place) > 4 && place[:4] == "cell" && f.value > f.roof(f.total, o.first[place]) {
			t.Fatalf("%s: %s is %d of %d: %+v\n%s", when, place, f.value, f.total, p.Moves, o.describe())
		}
	}
}

// TestSoundAtAGlance: where nothing is broken PlanMoves sees it without a look at every task, and
// it never overlooks what is.
func TestSoundAtAGlance(t *testing.T) {
	sound, seen := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := drawMoveWorld(t, 5, 6)
		m := moves.Request{Owners: w.owners}
		e := moves.NewPlanner(placement.New(w.moveSnapshot(1)))
		broken := e.Violations(m)
		if len(broken) == 0 {
			sound++
		}
		if e.Sound(m) {
			seen++
			if len(broken) > 0 {
				t.Fatalf("overlooked: %+v\n%s", broken, w.describe())
			}
		}
	})
	if 2*seen < sound {
		t.Errorf("of %d sound clusters it saw %d", sound, seen)
	}
	t.Logf("of %d sound clusters it saw %d", sound, seen)
}

// TestScopedPlans: a plan made of the tasks that matter alone keeps to the rules of the one made of
// all, and is seldom worse.
func TestScopedPlans(t *testing.T) {
	worlds, missed := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := drawMoveWorld(t, 5, 6)
		s := w.moveSnapshot(rapid.Uint64().Draw(t, "order of rows"))
		m := moves.Request{Owners: w.owners}
		p, best := moves.NewPlanner(placement.New(s)).Scoped().PlanMoves(m),
			moves.NewPlanner(placement.New(s)).PlanMoves(m)
		if len(p.Violations) != len(best.Violations) {
			t.Fatalf("broken are %v, and of all %v\n%s", p.Violations, best.Violations, w.describe())
		}
		o := newMoveOracle(w, s)
		before, _ := o.score()
		after := o.carry(t, p)
		if _, allowed := o.score(); !allowed[3] {
			t.Fatalf("a rule that binds is broken further: %+v\n%s", p, w.describe())
		}
		if c := slices.Compare(o.order(after), o.order(before)); c > 0 || c == 0 && len(p.Moves) > 0 {
			t.Fatalf("from %v to %v: %+v\n%s", before, after, p, w.describe())
		}
		if len(best.Violations) > 0 {
			worlds++
		}
		if len(p.Unrepaired) > len(best.Unrepaired) || len(p.Unrepaired) == len(best.Unrepaired) && p.Cost > best.Cost {
			missed++
		}
	})
	if missed*5 > worlds {
		t.Fatalf("%d of %d", missed, worlds)
	}
	t.Logf("%d of %d", missed, worlds)
}
