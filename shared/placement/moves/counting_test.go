package moves_test

import (
	"testing"

	"pgregory.net/rapid"

	"berth/shared/cluster"
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
	return trialIn(t, w), w
}

// trialIn draws the rest of a trial in the world.
func trialIn(t *rapid.T, w *oracle.MoveWorld) *moves.Trial {
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
	return moves.NewTrial(e, moves.Request{Owners: w.Owners}, r)
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

// An attempt to order moves that ends without success leaves nothing behind, even if it has taken a
// task off its instance. Here A stops, B goes to its place, and then neither D nor E can start first,
// nor can A start beside D.
func TestOrdersThatFailLeaveNothing(t *testing.T) {
	m := func(capacity int64) oracle.Option { return oracle.Metric("m", capacity) }
	task := func(id, on, owner string, load int64) *cluster.Task {
		return oracle.Task(id, on, oracle.Owner(owner), oracle.Load(load))
	}
	request := movers(anyTask("stops"), anyTask("stays"))
	request.Owners["stays"] = moves.Owner{Spec: anyTask("stays"), StartFirst: true}
	x := moves.NewTrial(moves.NewPlanner(placement.New(oracle.SnapshotOf(oracle.Instance("i1", m(11)),
		oracle.Instance("i2", m(20)), oracle.Instance("i3", m(12)), task("A", "i1", "stops", 11),
		task("B", "i2", "stops", 8), task("D", "i2", "stays", 12), task("E", "i3", "stays", 9)))), request, nil)
	start := x.State()
	for _, move := range [][2]string{{"A", "i2"}, {"B", "i1"}, {"D", "i3"}, {"E", "i2"}} {
		x.MoveTo(move[0], move[1])
	}
	if before := x.State(); x.Sequence() || x.State() != before {
		t.Errorf("putting the moves in order succeeds, or changes\n%sto\n%s", before, x.State())
	}
	for range 4 {
		x.Undo()
	}
	if x.State() != start {
		t.Errorf("undone, the moves leave\n%sinstead of\n%s", x.State(), start)
	}
}

// A task may not stay where a device, a port or a load is too much, and where all of them suffice it
// may, regardless of what the others there use.
func TestWhereTasksMayStay(t *testing.T) {
	one := cluster.Resources{GPUs: 1}
	pinned := func(t *cluster.Task) { t.GPUs = []int{0} }
	x := moves.NewTrial(moves.NewPlanner(placement.New(oracle.SnapshotOf(
		oracle.Instance("from", oracle.GPUs(1)), oracle.Instance("full", oracle.GPUs(1), oracle.Metric("m", 10)),
		oracle.Instance("free", oracle.GPUs(1), oracle.Metric("m", 10)),
		oracle.Task("there", "full", oracle.Owner("other"), oracle.Load(5), oracle.Needs(one), pinned,
			oracle.Ports(oracle.HTTP)), oracle.Task("device", "from", oracle.Needs(one), pinned),
		oracle.Task("port", "from", oracle.Ports(oracle.HTTP)), oracle.Task("load", "from", oracle.Load(6)),
		oracle.Task("small", "from", oracle.Load(5))))), movers(anyTask("web")), nil)
	for task, mayStay := range map[string]bool{"device": false, "port": false, "load": false, "small": true} {
		for instance, want := range map[string]bool{"full": mayStay, "free": true} {
			if x.MoveTo(task, instance); x.MayStay(task) != want {
				t.Errorf("whether %s may stay on %s is %v", task, instance, !want)
			}
			x.Undo()
		}
	}
}

func expectCounts(t *rapid.T, x *moves.Trial, w *oracle.MoveWorld) {
	if counted, defined := x.Counts(); counted != defined {
		t.Fatalf("counted is\n%s, defined is\n%s\n%s\n%s", counted, defined, x.State(), w.Describe())
	}
}
