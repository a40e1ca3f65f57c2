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

// No set of moves is better than the plan where services are attached to others.
func TestPlansWithAffinityEqualTryingEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := oracle.GenAffinityWorld(t, 4, 5)
		if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
			w.Newcomers = 1
		}
		expectBestPlan(t, w)
	})
}

// A local search, and a plan of the affected tasks only, take no task away from the service that it
// should be beside, and the watch overlooks none that is apart.
func TestAffinityInLargeClusters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := oracle.GenAffinityWorld(t, 5, 6)
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

// attached returns a spec of tasks that are to be beside those of another owner.
func attached(owner, parent string) *placement.Spec {
	return &placement.Spec{Owner: owner, Affinity: parent, Strategies: packed(owner).Strategies}
}

// Children of a parent without any task break no rule, and may leave an instance that they overload. A new one
// waits for the parent.
func TestChildrenWithoutAParentAreFree(t *testing.T) {
	rows := []state.Row{oracle.Instance("a", oracle.CPU(8192), oracle.Memory(16384), oracle.Metric("m", 100)),
		oracle.Instance("b", oracle.CPU(8192), oracle.Memory(16384), oracle.Metric("m", 100))}
	for id, load := range map[string]int64{"t1": 60, "t2": 50} {
		rows = append(rows, oracle.Task(id, "a", func(t *cluster.Task) {
			t.Owner, t.Reported = "child", map[string]int64{"m": load}
		}))
	}
	m, child := movers(packed("web"), attached("child", "web")), attached("child", "web")
	p := moves.NewPlanner(placement.New(oracle.SnapshotOf(rows...))).PlanMoves(m)
	if len(p.Violations) != 1 || p.Violations[0].Rule != placement.RuleCapacity || len(p.Moves) != 1 {
		t.Errorf("%+v, expected that one task leaves a, and that no affinity is broken", p)
	}
	room := moves.NewPlanner(placement.New(oracle.SnapshotOf(rows...))).MakeRoom(
		placement.Request{Spec: child, Count: 1, Target: 3}, m)
	if len(room.Places) > 0 {
		t.Errorf("a new task comes to %v, expected that it waits", room.Places)
	}
}

func TestAffinityIsRepaired(t *testing.T) {
	instance := func(id string, options ...oracle.Option) *cluster.Instance {
		return oracle.Instance(id, append([]oracle.Option{oracle.Metric("m", 100)}, options...)...)
	}
	for name, c := range map[string]struct {
		rows  []state.Row
		owned []*placement.Spec
		want  string
		why   string
	}{
		// The parent stays where it is: it costs less to move its child.
		"TheChildFollows": {[]state.Row{instance("a"), instance("b"), oracle.Task("p1", "b", oracle.Owner("parent")),
			oracle.Task("c1", "a", oracle.Owner("child"))},
			[]*placement.Spec{anyTask("parent"), attached("child", "parent")},
			"c1: a > b", "task c1 is to be beside a task of parent: a has none, b has one"},
		// The parent's instance has no room for the child, which may not be moved, either.
		"TheParentFollows": {[]state.Row{instance("a"), instance("b", oracle.CPU(256)),
			oracle.Task("p1", "b", oracle.Owner("parent"), oracle.Needs(oracle.Small)),
			oracle.Task("c1", "a", oracle.Owner("child"), oracle.Needs(oracle.Small))},
			[]*placement.Spec{anyTask("parent"), attached("child", "parent")}, "p1: b > a",
			"task c1 is to be beside a task of parent: a has none, a has one"},
		// The parent has to leave, and takes its child along.
		"BothMove": {[]state.Row{instance("a"), instance("b", oracle.Attribute("disk", "ssd")),
			oracle.Task("p1", "a", oracle.Owner("parent")), oracle.Task("c1", "a", oracle.Owner("child"))},
			[]*placement.Spec{{Owner: "parent", Attributes: []string{"disk=ssd"}}, attached("child", "parent")},
			"p1: a > b, c1: a > b", "a no longer meets the placement constraint, b does"},
		// Affinity that may be given up is kept as long as the child can follow.
		"BothMoveAlthoughTheyNeedNot": {[]state.Row{oracle.Configuration(cluster.Configuration{
			Priorities: cluster.Priorities{Affinity: 1}}), instance("a"), instance("b", oracle.Attribute("disk", "ssd")),
			oracle.Task("p1", "a", oracle.Owner("parent")), oracle.Task("c1", "a", oracle.Owner("child"))},
			[]*placement.Spec{{Owner: "parent", Attributes: []string{"disk=ssd"}}, attached("child", "parent")},
			"p1: a > b, c1: a > b", "a no longer meets the placement constraint, b does"},
		// A second task of the parent keeps the child where it is.
		"AnotherTaskOfTheParentIsThere": {[]state.Row{instance("a"), instance("b"),
			oracle.Task("p1", "a", oracle.Owner("parent"), oracle.Load(90)),
			oracle.Task("p2", "a", oracle.Owner("parent"), oracle.Load(20)),
			oracle.Task("c1", "a", oracle.Owner("child"))},
			[]*placement.Spec{anyTask("parent"), attached("child", "parent")}, "p1: a > b",
			"m on a goes from 110 to 20 of 100; m on b goes from 0 to 90 of 100"},
		// With priority -1 affinity does not count.
		"SwitchedOff": {[]state.Row{oracle.Configuration(cluster.Configuration{
			Priorities: cluster.Priorities{Affinity: -1}}), instance("a"), instance("b"),
			oracle.Task("p1", "b", oracle.Owner("parent")), oracle.Task("c1", "a", oracle.Owner("child"))},
			[]*placement.Spec{anyTask("parent"), attached("child", "parent")}, "", ""},
		// The parent's tasks may not move. The child follows all the same.
		"TheParentMayNotMove": {[]state.Row{instance("a"), instance("b"),
			oracle.Task("p1", "b", oracle.Owner("parent")),
			oracle.Task("c1", "a", oracle.Owner("child"))}, []*placement.Spec{attached("child", "parent")}, "c1: a > b",
			""},
	} {
		t.Run(name, func(t *testing.T) {
			p := plan(c.rows, movers(c.owned...))
			expectMoves(t, p, c.want)
			if len(p.Unrepaired) > 0 || c.why != "" && p.Moves[0].Why != c.why {
				t.Errorf("left: %v; it moves because %+v", p.Unrepaired, p.Moves)
			}
		})
	}
}

// A task leaves an instance for its own rule, whatever else is apart there: only its own children are
// left behind by the move.
func TestAffinityConcernsOwnChildrenAlone(t *testing.T) {
	rack := func(name string) oracle.Option { return oracle.Attribute("rack", name) }
	bound := attached("child", "other")
	bound.Attributes = []string{"rack=1"}
	p := plan([]state.Row{oracle.Instance("a", rack("1")), oracle.Instance("b", oracle.Attribute("disk", "ssd")),
		oracle.Instance("c", rack("2")), oracle.Task("p1", "a", oracle.Owner("parent")),
		oracle.Task("c1", "a", oracle.Owner("child")), oracle.Task("o1", "c", oracle.Owner("other"))},
		movers(&placement.Spec{Owner: "parent", Attributes: []string{"disk=ssd"}}, bound,
			&placement.Spec{Owner: "other", Attributes: []string{"rack=2"}}, attached("second", "parent")))
	expectMoves(t, p, "p1: a > b")
	if len(p.Unrepaired) != 1 {
		t.Errorf("left: %v, expected that c1 stays apart", p.Unrepaired)
	}
}

// If affinity is given up for a child that cannot follow, the others follow all the same, before it or
// after it in the order of ids.
func TestChildrenFollowWhereOneCannot(t *testing.T) {
	bound := attached("bound", "parent")
	bound.Attributes = []string{"rack=1"}
	for _, free := range []string{"c0", "c2"} {
		p := plan([]state.Row{oracle.Configuration(cluster.Configuration{Priorities: cluster.Priorities{Affinity: 1}}),
			oracle.Instance("a", oracle.Attribute("rack", "1")), oracle.Instance("b", oracle.Attribute("disk", "ssd")),
			oracle.Task("p1", "a", oracle.Owner("parent")), oracle.Task("c1", "a", oracle.Owner("bound")),
			oracle.Task(free, "a", oracle.Owner("free"))}, movers(bound, attached("free", "parent"),
			&placement.Spec{Owner: "parent", Attributes: []string{"disk=ssd"}}))
		expectMoves(t, p, "p1: a > b, "+free+": a > b")
	}
}

// A child that has to leave takes its parent along, which moves first: until it is there, the child
// may not start beside it.
func TestParentsMoveBeforeTheirChildren(t *testing.T) {
	bound := attached("child", "parent")
	bound.Attributes = []string{"disk=ssd"}
	p := plan([]state.Row{oracle.Instance("a"), oracle.Instance("b", oracle.Attribute("disk", "ssd")),
		oracle.Task("p1", "a", oracle.Owner("parent")), oracle.Task("c1", "a", oracle.Owner("child"))},
		movers(anyTask("parent"), bound))
	expectMoves(t, p, "p1: a > b, c1: a > b")
}

// A parent that should leave stays while affinity binds and its child cannot follow.
func TestParentsStayWhereAChildCannotFollow(t *testing.T) {
	bound := attached("child", "parent")
	bound.Attributes = []string{"rack=1"}
	p := plan([]state.Row{oracle.Instance("a", oracle.Attribute("rack", "1")),
		oracle.Instance("b", oracle.Attribute("disk", "ssd")), oracle.Task("p1", "a", oracle.Owner("parent")),
		oracle.Task("c1", "a", oracle.Owner("child"))},
		movers(&placement.Spec{Owner: "parent", Attributes: []string{"disk=ssd"}}, bound))
	if expectMoves(t, p, ""); len(p.Unrepaired) != 1 || p.Unrepaired[0].Task != "p1" {
		t.Errorf("left: %v, expected that p1 is not where it should be", p.Unrepaired)
	}
}

// A plan of the affected tasks knows all places of the parent of a task that is apart, also where
// nothing is scarce.
func TestScopedPlansKnowWhereParentsAre(t *testing.T) {
	s := oracle.SnapshotOf(oracle.Instance("a", oracle.Metric("m", 100)), oracle.Instance("b"),
		oracle.Task("p1", "b", oracle.Owner("parent")), oracle.Task("c1", "a", oracle.Owner("child")))
	p := moves.NewPlanner(placement.New(s)).Scoped()
	expectMoves(t, p.PlanMoves(movers(anyTask("parent"), attached("child", "parent"))), "c1: a > b")
}

// What balances a cluster moves a task of a parent together with those of its children, which could
// not stay behind, and brings no child to where the parent is not.
func TestBalanceMovesParentsWithTheirChildren(t *testing.T) {
	rows := []state.Row{oracle.Configuration(cluster.Configuration{}), oracle.Instance("a", oracle.Metric("m", 1000)),
		oracle.Instance("b", oracle.Metric("m", 1000))}
	for n := range 4 {
		rows = append(rows, oracle.Task(fmt.Sprintf("p%d", n), "a", oracle.Owner(fmt.Sprintf("parent%d", n)),
			oracle.Load(20)), oracle.Task(fmt.Sprintf("c%d", n), "a", oracle.Owner(fmt.Sprintf("child%d", n)),
			oracle.Load(30)))
	}
	var specs []*placement.Spec
	for n := range 4 {
		specs = append(specs, packed(fmt.Sprintf("parent%d", n)),
			attached(fmt.Sprintf("child%d", n), fmt.Sprintf("parent%d", n)))
	}
	p := planBalance(t, rows, movers(specs...), 20_000, 1)
	if len(p.Moves) != 4 {
		t.Fatalf("%+v, expected that two parents move with their children", p.Moves)
	}
	for n := 0; n < 4; n += 2 {
		parent, child := p.Moves[n], p.Moves[n+1]
		if parent.Owner[:6] != "parent" || child.Owner != "child"+parent.Owner[6:] || child.To != parent.To {
			t.Errorf("%s goes to %s, and then %s to %s", parent.Owner, parent.To, child.Owner, child.To)
		}
		want := fmt.Sprintf("task %s is to be beside a task of %s: a has none, b has one", child.Task, parent.Owner)
		if child.Why != want {
			t.Errorf("%s moves because %q", child.Owner, child.Why)
		}
	}
	// Neither moves without the other: of three moves that are allowed, two are made.
	for most, want := range []int{4, 0, 2, 2} {
		m := movers(specs...)
		m.Most = most
		if p := planBalance(t, rows, m, 20_000, 1); len(p.Moves) != want {
			t.Errorf("%d moves of at most %d, expected %d", len(p.Moves), most, want)
		}
	}
	m := movers(specs...)
	m.Keep = func(task *cluster.Task) bool { return task.Owner[:5] == "child" }
	if p := planBalance(t, rows, m, 20_000, 1); len(p.Moves) > 0 {
		t.Errorf("%+v, although the children must stay", p.Moves)
	}
}

// A parent stays while affinity binds and its child may not be moved at all, although its move would
// repair two rules for one that it breaks.
func TestParentsStayWhereAChildMayNotMove(t *testing.T) {
	m := movers(&placement.Spec{Owner: "parent", Attributes: []string{"disk=ssd"}}, attached("child", "parent"))
	m.Keep = func(t *cluster.Task) bool { return t.Owner == "child" }
	p := plan([]state.Row{oracle.Instance("a", oracle.Metric("m", 10)),
		oracle.Instance("b", oracle.Attribute("disk", "ssd")),
		oracle.Task("p1", "a", oracle.Owner("parent"), oracle.Load(20)),
		oracle.Task("c1", "a", oracle.Owner("child"))}, m)
	if expectMoves(t, p, ""); len(p.Unrepaired) != 2 {
		t.Errorf("left: %v, expected that p1 is not where it should be, and that a is overloaded", p.Unrepaired)
	}
}

// Among more instances than a search near the task looks at, it goes to the one with its parent, however
// full that is. A task that was apart goes elsewhere if that one has no room.
func TestChildrenFindTheirParentAmongManyInstances(t *testing.T) {
	m := func(capacity int64) oracle.Option { return oracle.Metric("m", capacity) }
	task := func(id, on, owner string, load int64) *cluster.Task {
		return oracle.Task(id, on, oracle.Owner(owner), oracle.Load(load))
	}
	for name, c := range map[string]struct {
		rows []state.Row
		want string
	}{
		"Apart": {[]state.Row{oracle.Instance("a", m(100)), task("c1", "a", "child", 10),
			task("p1", "p", "parent", 90)}, "c1: a > p"},
		"Together": {[]state.Row{oracle.Instance("a", m(10)), task("p0", "a", "parent", 5),
			task("c1", "a", "child", 10), task("p1", "p", "parent", 90)}, "c1: a > p"},
		"ApartWithoutRoom": {[]state.Row{oracle.Instance("a", m(9)), task("c1", "a", "child", 10),
			task("p1", "p", "parent", 91)}, "c1: a > e00"},
	} {
		t.Run(name, func(t *testing.T) {
			rows := append(c.rows, oracle.Instance("p", m(100)))
			for n := range 40 {
				rows = append(rows, oracle.Instance(fmt.Sprintf("e%02d", n), m(100)))
			}
			p := moves.PlanMovesLocally(moves.NewPlanner(placement.New(oracle.SnapshotOf(rows...))),
				movers(attached("child", "parent")))
			expectMoves(t, p, c.want)
		})
	}
}

// A task that stays apart is named with its service and the one beside which it has to run.
func TestTextOfAnUnrepairedAffinity(t *testing.T) {
	p := plan([]state.Row{oracle.Instance("a"), oracle.Instance("b", oracle.CPU(256)),
		oracle.Task("p1", "b", oracle.Owner("parent"), oracle.Needs(oracle.Small)),
		oracle.Task("c1", "a", oracle.Owner("child"), oracle.Needs(oracle.Small))},
		movers(attached("child", "parent")))
	const want = "task c1 of child is on instance a, which has no task of parent"
	if len(p.Unrepaired) != 1 || p.Unrepaired[0].String() != want {
		t.Errorf("%v, want %s", p.Unrepaired, want)
	}
}
