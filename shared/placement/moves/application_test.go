package moves_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/placement/moves"
	"berth/shared/state"
	"berth/tests/oracle"
)

// Where an application has reserved more than the instance has, nothing is broken as long as there is
// no load of others.
func TestReservationsAboveTheCapacityAreNoLoad(t *testing.T) {
	rows := []state.Row{
		oracle.Configuration(cluster.Configuration{Applications: map[string]cluster.Application{"shop": {
			Metrics: map[string]cluster.ApplicationMetric{"m": {Reservation: 8}}}}}),
		&cluster.Service{Head: cluster.Head{Cluster: "c", Rev: 1},
			ServiceIdentity: cluster.ServiceIdentity{Name: "shop", Short: "shop"},
			ServiceSpec:     cluster.ServiceSpec{Rules: cluster.Rules{Application: "shop"}}},
		oracle.Instance("i-1", oracle.Metric("m", 5)), oracle.Instance("i-2", oracle.Metric("m", 5)),
		oracle.Task("shop-1", "i-1", oracle.Owner("shop"), func(t *cluster.Task) { t.Reported = nil }),
	}
	owners := movers(anyTask("web"), &placement.Spec{Owner: "shop", Application: "shop"})
	p := moves.NewPlanner(placement.New(oracle.SnapshotOf(rows...)))
	if broken := p.Violations(owners); len(broken) > 0 || !p.FindsNothing(owners) {
		t.Errorf("broken is %+v, and the watch finds nothing: %v", broken, p.FindsNothing(owners))
	}
	expectMoves(t, plan(append(rows, oracle.Task("web-1", "i-1", oracle.Load(1))), owners), "web-1: i-1 > i-2")
}

// No set of moves is better than the plan where services share limits.
func TestPlansOfApplicationsEqualTryingEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := oracle.GenApplicationWorld(t, 4, 5)
		if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
			w.Newcomers = 1 + rapid.IntRange(0, 1).Draw(t, "more")
		}
		expectBestPlan(t, w)
	})
}

// A local search, and a plan of the affected tasks only, make nothing worse, and the watch overlooks no
// limit that is exceeded.
func TestApplicationsInLargeClusters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := oracle.GenApplicationWorld(t, 5, 6)
		m := moves.Request{Owners: w.Owners}
		planner := func() *moves.Planner { return moves.NewPlanner(placement.New(w.Snapshot(1))) }
		if e := planner(); e.FindsNothing(m) && len(e.Violations(m)) > 0 {
			t.Fatalf("overlooked: %+v\n%s", e.Violations(m), w.Describe())
		}
		for _, p := range []*moves.Plan{moves.PlanMovesLocally(planner(), m), planner().Scoped().PlanMoves(m)} {
			o := oracle.NewMoveOracle(w)
			before, _ := o.Score()
			after := o.CarryOut(t, p)
			if _, allowed := o.Score(); !allowed[3] {
				t.Fatalf("a rule that binds is broken further: %+v\n%s", p, w.Describe())
			}
			if c := slices.Compare(o.Order(after), o.Order(before)); c > 0 || c == 0 && len(p.Moves) > 0 {
				t.Fatalf("from %v to %v: %+v\n%s", before, after, p, w.Describe())
			}
		}
	})
}

// inShop returns the rows of a cluster with limits of the application shop, which services of these
// names belong to.
func inShop(limits cluster.Application, services []string, rows ...state.Row) []state.Row {
	out := []state.Row{oracle.Configuration(cluster.Configuration{
		Applications: map[string]cluster.Application{"shop": limits}})}
	for _, name := range services {
		out = append(out, &cluster.Service{Head: cluster.Head{Cluster: "c", Rev: 1},
			ServiceIdentity: cluster.ServiceIdentity{Name: name, Short: name},
			ServiceSpec:     cluster.ServiceSpec{Rules: cluster.Rules{Application: "shop"}}})
	}
	return append(out, rows...)
}

func shopTask(owner string) *placement.Spec {
	return &placement.Spec{Owner: owner, Application: "shop"}
}

func TestApplicationsAreRepaired(t *testing.T) {
	perNode := func(n int64) cluster.Application {
		return cluster.Application{Metrics: map[string]cluster.ApplicationMetric{"m": {NodeCapacity: n}}}
	}
	reserved := func(n int64) cluster.Application {
		return cluster.Application{Metrics: map[string]cluster.ApplicationMetric{"m": {Reservation: n}}}
	}
	instance := func(id string) *cluster.Instance { return oracle.Instance(id, oracle.Metric("m", 50)) }
	task := func(id, owner, on string, load int64) *cluster.Task {
		return oracle.Task(id, on, oracle.Owner(owner), oracle.Load(load))
	}
	for name, c := range map[string]struct {
		limits    cluster.Application
		rows      []state.Row
		want, why string
	}{
		// The instance with the fewest tasks gives them up, to those that have some already.
		"FewestMovesToFewerInstances": {cluster.Application{MaximumNodes: 2}, []state.Row{instance("a"), instance("b"),
			instance("c"), instance("d"), task("t1", "cart", "a", 1), task("t2", "pay", "a", 1),
			task("t3", "cart", "b", 1),
			task("t4", "cart", "c", 1), task("t5", "cart", "c", 1)}, "t3: b > a",
			"application shop goes from 3 to 2 instances, at most 2 are allowed"},
		"NoRoomOnTheOthers": {cluster.Application{MaximumNodes: 1}, []state.Row{instance("a"), instance("b"),
			task("t1", "cart", "a", 40), task("t2", "pay", "b", 40)}, "", ""},
		"BothOnAThirdInstance": {cluster.Application{MaximumNodes: 1}, []state.Row{instance("a"), instance("b"),
			oracle.Instance("c", oracle.Metric("m", 100)), task("t1", "cart", "a", 40), task("t2", "pay", "b", 40)},
			"t1: a > c, t2: b > c", ""},
		"LoadPerInstance": {perNode(30), []state.Row{instance("a"), instance("b"), task("t1", "cart", "a", 20),
			task("t2", "pay", "a", 15)}, "t1: a > b", "m of application shop on a goes from 35 to 15 of 30; " +
			"m of application shop on b goes from 0 to 20 of 30"},
		// On b there would be 35 of 30.
		"NotWhereTheApplicationHasTooMuch": {perNode(30), []state.Row{instance("a"), instance("b"), instance("c"),
			task("x1", "web", "a", 30), task("t1", "cart", "a", 25), task("t2", "pay", "b", 10),
			task("y1", "web", "c", 20)}, "t1: a > c", ""},
		// 31 would fit beside the 5 on b, where 40 are reserved.
		"NotIntoAReservation": {reserved(40), []state.Row{instance("a"), instance("b"), task("x1", "web", "a", 31),
			task("t1", "cart", "a", 30), task("t2", "pay", "b", 5)}, "t1: a > b", ""},
		// Of c's 30 nothing is in use, but 40 are to be reserved.
		"NotWhereTheReservationIsTooMuch": {reserved(40), []state.Row{instance("a"), instance("b"),
			oracle.Instance("c", oracle.Metric("m", 30)), task("x1", "web", "a", 31), task("t1", "cart", "a", 30),
			task("x2", "web", "b", 9)}, "t1: a > b", ""},
		// With the last task of the application its reservation goes, too.
		"TheReservationLeavesWithTheLastTask": {reserved(40), []state.Row{instance("a"), instance("b"), instance("c"),
			task("x1", "web", "a", 31), task("t1", "cart", "a", 1), task("x2", "web", "b", 31)}, "t1: a > c",
			"m on a goes from 32 to 31 of 50; m on c goes from 0 to 1 of 11"},
	} {
		t.Run(name, func(t *testing.T) {
			rows := inShop(c.limits, []string{"cart", "pay"}, c.rows...)
			owners := movers(shopTask("cart"), shopTask("pay"), &placement.Spec{Owner: "web", MoveCost: cluster.CostHigh})
			p := plan(rows, owners)
			expectMoves(t, p, c.want)
			if c.why != "" && p.Moves[0].Why != c.why {
				t.Errorf("it moves because %s", p.Moves[0].Why)
			}
			scoped := moves.NewPlanner(placement.New(oracle.SnapshotOf(rows...))).Scoped()
			expectMoves(t, scoped.PlanMoves(owners), c.want)
		})
	}
}

// More tasks than one plan may move leave an instance plan after plan: the one with the fewest.
func TestApplicationsAreGatheredPlanAfterPlan(t *testing.T) {
	for _, onA := range []int{3, 4} {
		rows := []state.Row{oracle.Instance("a"), oracle.Instance("b")}
		for n := range 7 {
			on := "a"
			if n >= onA {
				on = "b"
			}
			rows = append(rows, oracle.Task(string(rune('c'+n)), on, oracle.Owner("cart"), oracle.Load(int64(n))))
		}
		m := movers(shopTask("cart"))
		m.Most = 2
		p := plan(inShop(cluster.Application{MaximumNodes: 1}, []string{"cart"}, rows...), m)
		if fewest := map[int]string{3: "a", 4: "b"}[onA]; len(p.Moves) == 0 || p.Moves[0].From != fewest {
			t.Fatalf("%+v, expected moves from %s", p, fewest)
		}
	}
}

// Among more instances than a search near a task looks at, it goes to one with tasks of its
// application, if there may be no more, however full that is.
func TestTasksFindTheirApplicationAmongManyInstances(t *testing.T) {
	for mostNodes, want := range map[int]string{0: "t1: a > e00", 2: "t1: a > p", 3: "t1: a > e00"} {
		rows := []state.Row{oracle.Instance("a", oracle.Metric("m", 10)), oracle.Instance("p", oracle.Metric("m", 100)),
			oracle.Task("t1", "a", oracle.Owner("cart"), oracle.Load(10)),
			oracle.Task("t2", "a", oracle.Owner("cart"), oracle.Load(5)),
			oracle.Task("t3", "p", oracle.Owner("cart"), oracle.Load(90))}
		for n := range 40 {
			rows = append(rows, oracle.Instance(fmt.Sprintf("e%02d", n), oracle.Metric("m", 100)))
		}
		owners := movers(shopTask("cart"))
		owners.Keep = func(t *cluster.Task) bool { return t.ID != "t1" }
		rows = inShop(cluster.Application{MaximumNodes: mostNodes}, []string{"cart"}, rows...)
		expectMoves(t, moves.PlanMovesLocally(moves.NewPlanner(placement.New(oracle.SnapshotOf(rows...))), owners), want)
	}
}

// A plan of the affected tasks knows all tasks of an application that is on too many instances, also
// where nothing is scarce.
func TestScopedPlansKnowScatteredApplications(t *testing.T) {
	rows := inShop(cluster.Application{MaximumNodes: 1}, []string{"cart"}, oracle.Instance("a"), oracle.Instance("b"),
		oracle.Task("t1", "a", oracle.Owner("cart")), oracle.Task("t2", "a", oracle.Owner("cart")),
		oracle.Task("t3", "b", oracle.Owner("cart")))
	p := moves.NewPlanner(placement.New(oracle.SnapshotOf(rows...))).Scoped()
	expectMoves(t, p.PlanMoves(movers(shopTask("cart"))), "t3: b > a")
}

// A task that fits nowhere gets room as far as the limits of its application allow.
func TestRoomIsMadeForApplications(t *testing.T) {
	rows := inShop(cluster.Application{Metrics: map[string]cluster.ApplicationMetric{"m": {TotalCapacity: 70}}},
		[]string{"cart"}, oracle.Instance("a", oracle.Metric("m", 50)), oracle.Instance("b", oracle.Metric("m", 50)),
		oracle.Task("x1", "a", oracle.Load(20)), oracle.Task("x2", "b", oracle.Load(20)))
	owners := movers(shopTask("cart"), &placement.Spec{Owner: "web"})
	want := placement.Request{Count: 2, Spec: &placement.Spec{Owner: "cart", Application: "shop",
		Loads: []cluster.Metric{{Name: "m", Load: 40}}}}
	p := moves.NewPlanner(placement.New(oracle.SnapshotOf(rows...))).MakeRoom(want, owners)
	if len(p.Moves) != 1 || len(p.Places) != 1 {
		t.Fatalf("%+v, expected room for one task: in all they may have 70, and two would have 80", p)
	}
}

// inOrder moves tasks of an application that is on two instances, and returns the moves in the order in
// which they are carried out. Each starts first.
func inOrder(t *testing.T, mostNodes int, rows []state.Row, to ...[2]string) *moves.Plan {
	t.Helper()
	owners := movers(shopTask("cart"), anyTask("web"))
	for name, o := range owners.Owners {
		o.StartFirst = true
		owners.Owners[name] = o
	}
	rows = inShop(cluster.Application{MaximumNodes: mostNodes}, []string{"cart"}, rows...)
	x := moves.NewTrial(moves.NewPlanner(placement.New(oracle.SnapshotOf(rows...))), owners, nil)
	for _, move := range to {
		x.MoveTo(move[0], move[1])
	}
	p := x.Plan()
	if p == nil {
		t.Fatal("the moves have no order")
	}
	return p
}

// The moves of an application come in an order in which it is at no time on more instances than it may
// be on: the task that leaves b empty moves before the one that leaves another behind on a.
func TestMovesOfAnApplicationKeepToItsInstances(t *testing.T) {
	rows := []state.Row{oracle.Instance("a"), oracle.Instance("b"), oracle.Instance("c"),
		oracle.Task("t1", "a", oracle.Owner("cart")), oracle.Task("t2", "a", oracle.Owner("cart")),
		oracle.Task("t3", "b", oracle.Owner("cart"))}
	for mostNodes, want := range map[int]string{0: "t1: a > c, t3: b > c", 2: "t3: b > c, t1: a > c",
		3: "t1: a > c, t3: b > c"} {
		expectMoves(t, inOrder(t, mostNodes, rows, [2]string{"t1", "c"}, [2]string{"t3", "c"}), want)
	}
}

// Of two tasks that change places on full instances, one waits on a third: not the one whose
// application would then be on too many.
func TestApplicationsWaitOnTheirInstances(t *testing.T) {
	m := oracle.Metric("m", 10)
	rows := []state.Row{oracle.Instance("a", m), oracle.Instance("b", m), oracle.Instance("c", m),
		oracle.Task("t1", "a", oracle.Owner("cart"), oracle.Load(5)),
		oracle.Task("t2", "a", oracle.Owner("cart"), oracle.Load(5)),
		oracle.Task("t3", "b", oracle.Owner("cart"), oracle.Load(5)), oracle.Task("x1", "b", oracle.Load(5))}
	for mostNodes, want := range map[int]string{0: "t1", 2: "x1", 3: "t1"} {
		p := inOrder(t, mostNodes, rows, [2]string{"t1", "b"}, [2]string{"x1", "a"})
		if w := p.Moves[0]; len(p.Moves) != 2 || w.Task != want || w.Mode != moves.Via || w.Via != "c" {
			t.Errorf("at most %d instances: %+v, expected that %s waits on c", mostNodes, p.Moves, want)
		}
	}
}

// Where an application is on more instances than it may be on, as many may stay. A new task comes to one
// of them all the same, if another one makes room, and to no further instance.
func TestNewTasksScatterNoApplication(t *testing.T) {
	rows := inShop(cluster.Application{MaximumNodes: 1}, []string{"cart"}, oracle.Instance("a", oracle.Metric("m", 50)),
		oracle.Instance("b", oracle.Metric("m", 50)), oracle.Instance("c", oracle.Metric("m", 50)),
		oracle.Task("t1", "a", oracle.Owner("cart"), oracle.Load(20)), oracle.Task("x1", "a", oracle.Load(20)),
		oracle.Task("t2", "b", oracle.Owner("cart"), oracle.Load(40)))
	owners := movers(anyTask("web"))
	want := placement.Request{Count: 1, Spec: &placement.Spec{Owner: "cart", Application: "shop",
		Loads: []cluster.Metric{{Name: "m", Load: 20}}}}
	planner := func() *moves.Planner { return moves.NewPlanner(placement.New(oracle.SnapshotOf(rows...))) }
	for _, p := range []*moves.Plan{planner().MakeRoom(want, owners), moves.MakeRoomLocally(planner(), want, owners)} {
		if summary(p) != "x1: a > c" || !slices.Equal(p.Places, []string{"a"}) {
			t.Errorf("%s, places %v, expected a place on a after x1 has left", summary(p), p.Places)
		}
	}
}

// Balancing brings an application to as many instances as it may be on, and to no more.
func TestBalanceUsesTheInstancesThatAnApplicationMayHave(t *testing.T) {
	for mostNodes, want := range map[int]int{0: 3, 1: 1, 2: 2, 3: 3} {
		var rows []state.Row
		for n, id := range []string{"a", "b", "c"} {
			rows = append(rows, oracle.Instance(id, oracle.Metric("m", 100)),
				oracle.Task(fmt.Sprint("t", n), "a", oracle.Owner("cart"), oracle.Load(30)))
		}
		spec := packed("cart")
		spec.Application = "shop"
		rows = inShop(cluster.Application{MaximumNodes: mostNodes}, []string{"cart"}, rows...)
		on := map[string]bool{"a": true}
		for _, move := range planBalance(t, rows, movers(spec), 20_000, 1).Moves {
			on[move.To] = true
		}
		if len(on) != want {
			t.Errorf("with at most %d instances the tasks are on %d", mostNodes, len(on))
		}
	}
}

// On a, the application's reservation and a task of another service exceed what a takes: 24 and 1 of 24. The
// application's task can leave. After that no other task of the application goes there, although a would be
// no fuller than it was.
func TestBalanceDoesNotReturnToAnExceededReservation(t *testing.T) {
	reported := func(m, n int64) oracle.TaskOption {
		return func(t *cluster.Task) { t.Needs, t.Reported = cluster.Resources{}, map[string]int64{"m": m, "n": n} }
	}
	rows := inShop(cluster.Application{Metrics: map[string]cluster.ApplicationMetric{"m": {Reservation: 24}}},
		[]string{"cart"},
		oracle.Instance("a", oracle.Metric("m", 24), oracle.Metric("n", 100)),
		oracle.Instance("b", oracle.Metric("n", 100)), oracle.Instance("c", oracle.Metric("n", 100)),
		oracle.Task("other", "a", oracle.Owner("web"), reported(1, 0)),
		oracle.Task("leaves", "a", oracle.Owner("cart"), reported(4, 40)),
		oracle.Task("t1", "b", oracle.Owner("cart"), reported(2, 13)),
		oracle.Task("t2", "b", oracle.Owner("cart"), reported(2, 13)),
		oracle.Task("t3", "b", oracle.Owner("cart"), reported(2, 14)))
	spec := packed("cart")
	spec.Application = "shop"
	on := map[string]string{"leaves": "a"}
	p := planBalance(t, rows, movers(spec), 20_000, 1)
	for _, m := range p.Moves {
		if on[m.Task] = m.To; m.To == "a" {
			t.Errorf("%s moves to a, which has no room for the reservation", m.Task)
		}
	}
}

// The application has reserved all of a until its task has left, so the task of web that takes its place
// waits for that, although the application's task takes nothing there.
func TestMovesWaitForAReservationToEnd(t *testing.T) {
	web := &placement.Spec{Owner: "web", PerInstance: 1}
	rows := inShop(cluster.Application{Metrics: map[string]cluster.ApplicationMetric{"m": {Reservation: 8}}},
		[]string{"cart"},
		oracle.Instance("a", oracle.Metric("m", 6)), oracle.Instance("b"), oracle.Instance("c"),
		oracle.Task("cart-1", "a", oracle.Owner("cart"), func(t *cluster.Task) { t.Reported = nil }),
		oracle.Task("web-1", "b", oracle.Load(1)), oracle.Task("web-2", "b", oracle.Load(1)),
		oracle.Task("web-3", "c", oracle.Load(1)))
	p := plan(rows, movers(web, &placement.Spec{Owner: "cart", PerInstance: 1, Application: "shop"}))
	if len(p.Moves) != 2 || p.Moves[0].Task != "cart-1" || p.Moves[1].To != "a" ||
		!slices.Equal(p.Moves[1].After, []int{0}) {
		t.Errorf("moves are %+v", p.Moves)
	}
}
