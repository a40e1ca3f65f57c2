package moves_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/placement"
	"berth/shared/placement/moves"
	"berth/shared/snapshot"
	"berth/shared/state"
	"berth/tests/oracle"
)

// movers returns a request to move the tasks of these specs' owners.
func movers(specs ...*placement.Spec) moves.Request {
	out := moves.Request{Owners: map[string]moves.Owner{}}
	for _, s := range specs {
		out.Owners[s.Owner] = moves.Owner{Spec: s, Target: 2}
	}
	return out
}

func anyTask(owner string) *placement.Spec { return &placement.Spec{Owner: owner} }

// summary returns each move as "task: from > to".
func summary(p *moves.Plan) string {
	var out []string
	for _, m := range p.Moves {
		out = append(out, m.Task+": "+m.From+" > "+m.To)
	}
	return strings.Join(out, ", ")
}

func expectMoves(t *testing.T, p *moves.Plan, want string) {
	t.Helper()
	if got := summary(p); got != want {
		t.Fatalf("moves are %q, want %q; left: %v", got, want, p.Unrepaired)
	}
}

func plan(rows []state.Row, m moves.Request) *moves.Plan {
	return moves.NewPlanner(placement.New(oracle.SnapshotOf(rows...))).PlanMoves(m)
}

func TestPlanMoves(t *testing.T) {
	t.Run("NothingWhereNothingIsBroken", func(t *testing.T) {
		p := plan([]state.Row{oracle.Instance("a", oracle.Metric("m", 100)), oracle.Task("t", "a", oracle.Load(100))},
			movers(anyTask("web")))
		if len(p.Moves)+len(p.Violations) > 0 || !p.Exact {
			t.Fatalf("%+v", p)
		}
	})
	t.Run("RelievesTheInstanceByTheCheapestTasks", func(t *testing.T) {
		dear, cheap := &placement.Spec{Owner: "dear", MoveCost: cluster.CostHigh}, &placement.Spec{Owner: "cheap"}
		rows := []state.Row{
			oracle.Instance("a", oracle.Metric("m", 100)), oracle.Instance("b", oracle.Metric("m", 100)),
			oracle.Task("t1", "a", oracle.Owner("dear"), oracle.Load(60)),
			oracle.Task("t2", "a", oracle.Owner("cheap"), oracle.Load(30)),
			oracle.Task("t3", "a", oracle.Owner("cheap"), oracle.Load(30)),
		}
		p := plan(rows, movers(dear, cheap))
		expectMoves(t, p, "t2: a > b")
		if want := "m on a goes from 120 to 90 of 100; m on b goes from 0 to 30 of 100"; p.Moves[0].Why != want ||
			p.Cost != 1 {
			t.Fatalf("%d, %q", p.Cost, p.Moves[0].Why)
		}
	})
	t.Run("TheBufferIsAViolationAndMayBeUsedToRepairWorse", func(t *testing.T) {
		rows := []state.Row{
			oracle.Configuration(cluster.Configuration{Buffer: map[string]float64{"m": 0.2}}),
			oracle.Instance("a", oracle.Metric("m", 100)), oracle.Instance("b", oracle.Metric("m", 100)),
			oracle.Task("t1", "a", oracle.Load(90)), oracle.Task("t2", "a", oracle.Load(20)),
			oracle.Task("t3", "b", oracle.Load(70)),
		}
		p := plan(rows, movers(anyTask("web")))
		expectMoves(t, p, "t2: a > b")
		if p.Moves[0].Mode != moves.IntoBuffer {
			t.Fatalf("mode is %s", p.Moves[0].Mode)
		}
		p = plan([]state.Row{rows[0], rows[1], rows[2], oracle.Task("t1", "a", oracle.Load(90))},
			movers(anyTask("web")))
		if len(p.Violations) != 1 || len(p.Moves) > 0 {
			t.Fatalf("90 of 80 without the buffer: %+v", p)
		}
	})
	t.Run("UnavailableInstancesNeitherTakeNorLoseTasks", func(t *testing.T) {
		spec := anyTask("web")
		spec.Avoid = []string{"avoided"}
		rows := []state.Row{
			oracle.Instance("a", oracle.Metric("m", 10)), oracle.Instance("avoided", oracle.Metric("m", 10)),
			oracle.Instance("drains", oracle.Status(cluster.InstanceDraining), oracle.Metric("m", 10)),
			oracle.Instance("cordoned", oracle.Attribute(cluster.AttributeUnschedulable, "true"),
				oracle.Metric("m", 10)),
			oracle.Instance("gone", oracle.Disconnected),
			oracle.Task("t1", "a", oracle.Load(20)), oracle.Task("t2", "avoided", oracle.Load(20)),
			oracle.Task("t3", "drains", oracle.Load(20)), oracle.Task("t4", "cordoned", oracle.Load(20)),
		}
		if p := plan(rows, movers(spec)); len(p.Moves) > 0 || len(p.Violations) != 3 {
			t.Fatalf("%+v", p)
		}
		p := plan(append(rows, oracle.Instance("z")), movers(spec))
		expectMoves(t, p, "t1: a > z, t4: cordoned > z")
	})
	t.Run("KeepsWhatMustStay", func(t *testing.T) {
		m := movers(anyTask("web"))
		m.Keep = func(t *cluster.Task) bool { return t.ID == "t1" }
		rows := []state.Row{
			oracle.Instance("a", oracle.Metric("m", 10)), oracle.Instance("b"),
			oracle.Task("t1", "a", oracle.Load(8)), oracle.Task("t2", "a", oracle.Load(7)),
			oracle.Task("t3", "a", oracle.Owner("others"), oracle.Load(1)),
		}
		expectMoves(t, plan(rows, m), "t2: a > b")
	})
	t.Run("DoesNotRelieveWhatIsEndingAnyway", func(t *testing.T) {
		next := oracle.Task("t2", "b", oracle.Load(15))
		next.Replaces = "t1"
		rows := []state.Row{
			oracle.Instance("a", oracle.Metric("m", 10)), oracle.Instance("b", oracle.Metric("m", 20)),
			oracle.Instance("c"),
			oracle.Task("t0", "a", oracle.Load(5)), oracle.Task("t1", "a", oracle.Load(15)), next,
			oracle.Task("t3", "c", oracle.Load(3), oracle.Stopping),
		}
		if p := plan(rows, movers(anyTask("web"))); len(p.Violations) > 0 {
			t.Fatalf("%+v", p)
		}
	})
	t.Run("MovesAReplacementAfterTheReplacedTaskHasGone", func(t *testing.T) {
		next := oracle.Task("t2", "b", oracle.Load(15))
		next.Replaces = "t1"
		gone := oracle.Task("t1", "a", oracle.Load(15), func(t *cluster.Task) {
			t.Last, t.Desired = cluster.TaskStopped,
				cluster.TaskStopped
		})
		rows := []state.Row{oracle.Instance("a", oracle.Metric("m", 20)), oracle.Instance("b", oracle.Metric("m", 10)),
			next}
		expectMoves(t, plan(append(rows, gone), movers(anyTask("web"))), "t2: b > a")
		expectMoves(t, plan(rows, movers(anyTask("web"))), "t2: b > a")
		expectMoves(t, plan(append(rows, oracle.Task("t1", "a", oracle.Load(15))), movers(anyTask("web"))), "")
	})
	t.Run("RepairsTheHardRuleAtTheCostOfTheSoftOne", func(t *testing.T) {
		rows := func(p cluster.Priorities) []state.Row {
			return []state.Row{
				oracle.Configuration(cluster.Configuration{Priorities: p}),
				oracle.Instance("a", oracle.Metric("m", 100)),
				oracle.Instance("b", oracle.Attribute("disk", "ssd"), oracle.Metric("m", 10)),
				oracle.Task("t", "a", oracle.Load(50)),
			}
		}
		spec := anyTask("web")
		spec.Attributes = []string{"disk=ssd"}
		expectMoves(t, plan(rows(cluster.Priorities{}), movers(spec)), "")
		expectMoves(t, plan(rows(cluster.Priorities{Capacity: 1}), movers(spec)), "t: a > b")
		expectMoves(t, plan(rows(cluster.Priorities{Placement: 1}), movers(spec)), "")
		if p := plan(rows(cluster.Priorities{Placement: -1}), movers(spec)); len(p.Violations) > 0 {
			t.Fatalf("an ignored rule is broken: %v", p.Violations)
		}
	})
	t.Run("MovesTheTaskThatHoldsThePort", func(t *testing.T) {
		fast := &placement.Spec{Owner: "fast", Attributes: []string{"disk=ssd"}, Ports: []cluster.Port{oracle.HTTP}}
		other := &placement.Spec{Owner: "other", Ports: []cluster.Port{oracle.HTTP}}
		rows := []state.Row{
			oracle.Instance("a"), oracle.Instance("b", oracle.Attribute("disk", "ssd")),
			oracle.Task("t1", "a", oracle.Owner("fast"), oracle.Ports(oracle.HTTP)),
			oracle.Task("t2", "b", oracle.Owner("other"), oracle.Ports(oracle.HTTP)),
		}
		p := plan(rows, movers(fast, other))
		expectMoves(t, p, "t1: a > b, t2: b > a")
	})
	t.Run("ToWhereConstraintsDoNotHoldIfThoseAreIgnored", func(t *testing.T) {
		x, err := constraint.ParseQuery("attribute:disk == ssd")
		if err != nil {
			t.Fatal(err)
		}
		spec := &placement.Spec{Owner: "web", Constraints: []*constraint.Expression{x}}
		rows := []state.Row{
			oracle.Configuration(cluster.Configuration{}), oracle.Instance("a", oracle.Attribute("disk", "ssd"),
				oracle.Metric("m", 10)), oracle.Instance("b"), oracle.Task("t1", "a", oracle.Load(20)),
		}
		expectMoves(t, plan(rows, movers(spec)), "")
		rows[0] = oracle.Configuration(cluster.Configuration{Priorities: cluster.Priorities{Placement: -1}})
		expectMoves(t, plan(rows, movers(spec)), "t1: a > b")
		spec.Attributes = []string{"disk=ssd"} // what the task definition requires, not a rule
		expectMoves(t, plan(rows, movers(spec)), "")
	})
	t.Run("NothingWhereCapacityIsSwitchedOff", func(t *testing.T) {
		rows := []state.Row{oracle.Configuration(cluster.Configuration{}), oracle.Instance("a", oracle.Metric("m", 10)),
			oracle.Instance("b", oracle.Metric("m", 100)), oracle.Task("t1", "a", oracle.Load(20))}
		expectMoves(t, plan(rows, movers(anyTask("web"))), "t1: a > b")
		rows[0] = oracle.Configuration(cluster.Configuration{Priorities: cluster.Priorities{Capacity: -1}})
		if p := plan(rows, movers(anyTask("web"))); len(p.Violations)+len(p.Moves) > 0 {
			t.Fatalf("an ignored rule is broken: %+v", p)
		}
	})
	t.Run("ToWhereTasksAreThatDoNotRunYet", func(t *testing.T) {
		x, err := constraint.ParseQuery("runningTasksCount < 1")
		if err != nil {
			t.Fatal(err)
		}
		spec := &placement.Spec{Owner: "web", Constraints: []*constraint.Expression{x}}
		for last, want := range map[cluster.TaskStatus]string{cluster.TaskRunning: "", "": "t1: a > b"} {
			rows := []state.Row{oracle.Instance("a", oracle.Metric("m", 10)), oracle.Instance("b"),
				oracle.Task("t1", "a", oracle.Load(20)), oracle.Task("o1", "b", oracle.Owner("other"), oracle.Load(0),
					func(t *cluster.Task) { t.Last = last })}
			expectMoves(t, plan(rows, movers(spec)), want)
		}
	})
	t.Run("ToWhereInterfacesAreFree", func(t *testing.T) {
		interfaces := func(n int) oracle.Option { return func(i *cluster.Instance) { i.Registered.ENIs = &n } }
		needs := oracle.Needs(cluster.Resources{ENIs: 1})
		rows := []state.Row{oracle.Instance("a", interfaces(1)), oracle.Instance("b", interfaces(0)),
			oracle.Instance("c", interfaces(1)), oracle.Task("t1", "a", needs), oracle.Task("t2", "a", needs),
			oracle.Task("t3", "c", needs)}
		expectMoves(t, plan(rows, movers(anyTask("web"))), "")
		p := plan(append(rows, oracle.Instance("d")), movers(anyTask("web"))) // d has no limit
		expectMoves(t, p, "t1: a > d")
		if len(p.Unrepaired) > 0 {
			t.Fatalf("left: %v", p.Unrepaired)
		}
	})
	t.Run("ToTheFirstOfThoseWithoutLimits", func(t *testing.T) {
		expectMoves(t, plan([]state.Row{oracle.Instance("a", oracle.Metric("m", 10)), oracle.Instance("b"),
			oracle.Instance("c"), oracle.Task("t1", "a", oracle.Load(20)),
			oracle.Task("o1", "b", oracle.Owner("other"), oracle.Load(50))}, movers(anyTask("web"))), "t1: a > b")
	})
	t.Run("LeavesWhatGroupsForbid", func(t *testing.T) {
		x, err := constraint.ParseQuery("not(task:group == service:db)")
		if err != nil {
			t.Fatal(err)
		}
		spec := &placement.Spec{Owner: "web", Constraints: []*constraint.Expression{x}}
		rows := []state.Row{
			oracle.Instance("a", oracle.Metric("m", 10)), oracle.Instance("b"), oracle.Instance("c"),
			oracle.Task("t1", "a", oracle.Load(20)), oracle.Task("t2", "b", oracle.Owner("db"),
				oracle.Group("service:db"),
				oracle.Load(0)),
		}
		expectMoves(t, plan(rows, movers(spec)), "t1: a > c")
	})
	t.Run("StaysWithinTheBudget", func(t *testing.T) {
		rows := []state.Row{oracle.Instance("a", oracle.Metric("m", 10)), oracle.Instance("b")}
		for n := range 10 {
			rows = append(rows, oracle.Task(fmt.Sprintf("t%d", n), "a", oracle.Load(5)))
		}
		m := movers(anyTask("web"))
		m.Most = 3
		if p := plan(rows, m); len(p.Moves) != 3 || len(p.Unrepaired) != 1 || p.Unrepaired[0].Have != 35 {
			t.Fatalf("%+v", p)
		}
	})
}

func TestExchangeAmongFullInstances(t *testing.T) {
	// Both tasks of each service are in one data center, and no instance has room for another.
	rows := []state.Row{
		oracle.Instance("a", oracle.Attribute(cluster.AttributeFaultDomain, "fd:/0"), oracle.Metric("m", 10)),
		oracle.Instance("b", oracle.Attribute(cluster.AttributeFaultDomain, "fd:/0"), oracle.Metric("m", 10)),
		oracle.Instance("c", oracle.Attribute(cluster.AttributeFaultDomain, "fd:/1"), oracle.Metric("m", 10)),
		oracle.Instance("d", oracle.Attribute(cluster.AttributeFaultDomain, "fd:/1"), oracle.Metric("m", 10)),
		oracle.Task("t1", "a", oracle.Owner("x"), oracle.Load(9)),
		oracle.Task("t2", "b", oracle.Owner("x"), oracle.Load(9)),
		oracle.Task("t3", "c", oracle.Owner("y"), oracle.Load(9)),
		oracle.Task("t4", "d", oracle.Owner("y"), oracle.Load(9)),
	}
	specs := []*placement.Spec{
		{Owner: "x", DomainPolicy: cluster.PolicyDifference}, {Owner: "y", DomainPolicy: cluster.PolicyDifference},
	}
	p := plan(rows, movers(specs...))
	if len(p.Moves) != 2 || len(p.Unrepaired) > 0 || !p.Exact {
		t.Fatalf("%+v", p)
	}
	first, second := p.Moves[0], p.Moves[1]
	if first.From != second.To || first.To != second.From || first.Mode != moves.StopFirst ||
		second.Mode != moves.StartFirst ||
		len(first.After) > 0 || !slices.Equal(second.After, []int{0}) {
		t.Fatalf("%+v", p.Moves)
	}
	t.Run("NotWhereNeitherMayStopFirst", func(t *testing.T) {
		m := movers(specs...)
		for name, o := range m.Owners {
			o.StartFirst = true
			m.Owners[name] = o
		}
		e := moves.NewPlanner(placement.New(oracle.SnapshotOf(rows...)))
		if p := e.PlanMoves(m); len(p.Moves) > 0 || len(p.Unrepaired) != 2 || !p.Exact {
			t.Fatalf("%+v", p)
		}
		m.Owners["y"] = moves.Owner{Spec: specs[1], Target: 2}
		if p := e.PlanMoves(m); len(p.Moves) != 2 || p.Moves[0].Owner != "y" || p.Moves[0].Mode != moves.StopFirst {
			t.Fatalf("what may stop first has changed: %+v", p)
		}
	})
	t.Run("TheBufferHelpsOne", func(t *testing.T) {
		overbooked := oracle.Configuration(cluster.Configuration{Overbooking: map[string]float64{"m": 1}})
		p := plan(append([]state.Row{overbooked}, rows...), movers(specs...))
		if len(p.Moves) != 2 || p.Moves[0].Mode != moves.IntoBuffer || len(p.Moves[0].After)+len(p.Moves[1].After) > 0 {
			t.Fatalf("%+v", p.Moves)
		}
	})
	t.Run("AThirdInstanceIsBetter", func(t *testing.T) {
		spare := oracle.Instance("e", oracle.Attribute(cluster.AttributeFaultDomain, "fd:/1"), oracle.Metric("m", 10))
		p := plan(append([]state.Row{spare}, rows...), movers(specs...))
		for _, m := range p.Moves {
			if m.Mode != moves.StartFirst {
				t.Fatalf("%+v", p.Moves)
			}
		}
	})
	t.Run("OneWaitsElsewhereMeanwhile", func(t *testing.T) {
		spare := oracle.Instance("e", oracle.Attribute(cluster.AttributeFaultDomain, "fd:/0"), oracle.Metric("m", 10))
		narrow := make([]*placement.Spec, 2)
		for n, s := range specs { // only the four may have them, but for x, which may wait on the fifth
			c := *s
			c.Avoid = []string{"e"}
			if n == 0 {
				c.Avoid = nil
			}
			narrow[n] = &c
		}
		p := plan(append([]state.Row{spare}, rows...), movers(narrow...))
		if p.Moves[0].Mode != moves.Via || p.Moves[0].Via != "e" || !slices.Equal(p.Moves[1].After, []int{0}) {
			t.Fatalf("%+v", p.Moves)
		}
	})
}

// A move that alone would leave two tasks in one domain waits for the one that makes room there.
func TestMovesKeepDomainRulesAtEveryStep(t *testing.T) {
	domain := func(name string) oracle.Option { return oracle.Attribute(cluster.AttributeFaultDomain, "fd:/"+name) }
	for _, first := range []string{"x", "a"} { // first is also tried as the first of all instances
		expectDomainOrder(t, first, domain)
	}
}

func expectDomainOrder(t *testing.T, first string, domain func(string) oracle.Option) {
	t.Helper()
	p := plan([]state.Row{
		oracle.Instance(first, domain("a"), oracle.Metric("m", 0)),
		oracle.Instance("y1", domain("b"), oracle.Metric("m", 5)),
		oracle.Instance("y2", domain("b"), oracle.Metric("m", 20)),
		oracle.Instance("z", domain("c"), oracle.Metric("m", 5)),
		oracle.Instance("other", domain("c"), oracle.Metric("m", 5)),
		oracle.Task("t1", first, oracle.Owner("s"), oracle.Load(10)),
		oracle.Task("t2", "y1", oracle.Owner("s"), oracle.Load(1)),
	}, movers(&placement.Spec{Owner: "s", DomainPolicy: cluster.PolicyDifference}))
	if len(p.Moves) != 2 || len(p.Unrepaired) > 0 || p.Moves[0].Task != "t2" || p.Moves[1].To != "y2" {
		t.Fatalf("%+v", p)
	}
	if first, second := p.Moves[0], p.Moves[1]; len(first.After) > 0 || !slices.Equal(second.After, []int{0}) {
		t.Fatalf("%+v", p.Moves)
	}
}

func TestMakeRoom(t *testing.T) {
	scattered := []state.Row{
		oracle.Instance("a", oracle.Metric("m", 10)), oracle.Instance("b", oracle.Metric("m", 10)),
		oracle.Instance("c", oracle.Metric("m", 10)),
		oracle.Task("t1", "a", oracle.Load(4)), oracle.Task("t2", "b", oracle.Load(5)),
		oracle.Task("t3", "c", oracle.Load(5)),
	}
	large := placement.Request{Spec: &placement.Spec{Owner: "big", Loads: []cluster.Metric{{Name: "m", Load: 9}}},
		Count: 1}
	t.Run("MovesTheLeast", func(t *testing.T) {
		s := oracle.SnapshotOf(scattered...)
		if r := placement.New(s).Place(large); len(r.Placed) > 0 {
			t.Fatal("it fits already")
		}
		p := moves.NewPlanner(placement.New(s)).MakeRoom(large, movers(anyTask("web")))
		if len(p.Moves) != 1 || p.Moves[0].From != p.Places[0] || len(p.Unrepaired) > 0 {
			t.Fatalf("%+v", p)
		}
		if !strings.Contains(p.Moves[0].Why, "to make room for a task of big that has no instance yet") {
			t.Fatal(p.Moves[0].Why)
		}
	})
	// One of the tasks has room at once, which is no move and comes first: t2 needs the buffer of c.
	// The moves that the other one needs are numbered without it.
	t.Run("MovesAreNumberedWithoutNewcomers", func(t *testing.T) {
		p := moves.NewPlanner(placement.New(oracle.SnapshotOf(
			oracle.Configuration(cluster.Configuration{Buffer: map[string]float64{"m": 0.2}}),
			oracle.Instance("a", oracle.Metric("m", 12)), oracle.Instance("b", oracle.Metric("m", 8)),
			oracle.Instance("c", oracle.Metric("m", 5)), oracle.Instance("d", oracle.Metric("m", 12)),
			oracle.Task("t1", "a", oracle.Load(6)), oracle.Task("t2", "b", oracle.Load(5))))).MakeRoom(
			placement.Request{Spec: large.Spec, Count: 2}, movers(anyTask("web")))
		expectMoves(t, p, "t2: b > c, t1: a > b")
		if len(p.Places) != 2 || len(p.Moves[0].After) > 0 || !slices.Equal(p.Moves[1].After, []int{0}) {
			t.Errorf("%+v, expected that the second move waits for the first", p)
		}
	})
	t.Run("NoMovesWhereItIsImpossible", func(t *testing.T) {
		p := moves.NewPlanner(placement.New(oracle.SnapshotOf(scattered...))).MakeRoom(
			placement.Request{Spec: &placement.Spec{Owner: "big", Loads: []cluster.Metric{{Name: "m", Load: 11}}},
				Count: 1}, movers(anyTask("web")))
		if len(p.Moves)+len(p.Places) > 0 || len(p.Unrepaired) != 1 || p.Unrepaired[0].Rule != placement.RuleRoom ||
			!p.Exact {
			t.Fatalf("%+v", p)
		}
	})
	t.Run("NoMovesWhereTasksStayInPlace", func(t *testing.T) {
		kept := oracle.Configuration(cluster.Configuration{KeepInPlace: true})
		p := moves.NewPlanner(placement.New(oracle.SnapshotOf(append([]state.Row{kept},
			scattered...)...))).MakeRoom(large, movers(anyTask("web")))
		if len(p.Moves)+len(p.Places) > 0 {
			t.Fatalf("%+v", p)
		}
	})
	t.Run("NoMovesForWhatFits", func(t *testing.T) {
		p := moves.NewPlanner(placement.New(oracle.SnapshotOf(append([]state.Row{oracle.Instance("d")},
			scattered...)...))).MakeRoom(large, movers(anyTask("web")))
		if len(p.Moves) > 0 || !slices.Equal(p.Places, []string{"d"}) {
			t.Fatalf("%+v", p)
		}
	})
	t.Run("ForWholeDevices", func(t *testing.T) {
		one := cluster.Resources{GPUs: 1}
		pinned := func(g int) oracle.TaskOption { return func(t *cluster.Task) { t.GPUs = []int{g} } }
		rows := []state.Row{
			oracle.Instance("a", oracle.GPUs(2)), oracle.Instance("b", oracle.GPUs(2)),
			oracle.Task("t1", "a", oracle.Needs(one), pinned(0)), oracle.Task("t2", "b", oracle.Needs(one), pinned(1)),
		}
		both := placement.Request{Spec: &placement.Spec{Owner: "big", Needs: cluster.Resources{GPUs: 2}}, Count: 1}
		if p := moves.NewPlanner(placement.New(oracle.SnapshotOf(rows...))).MakeRoom(both,
			movers(anyTask("web"))); len(p.Moves) != 1 || len(p.Places) != 1 {
			t.Fatalf("%+v", p)
		}
	})
}

// A foreign task holds devices at unknown positions, so none of those that look free may be
// assigned.
func TestDevicesOfForeignTasksAreNotAssigned(t *testing.T) {
	one := cluster.Resources{GPUs: 1}
	foreign := oracle.Task("f", "b", oracle.Owner("others"), oracle.Needs(one),
		func(t *cluster.Task) { t.Foreign = true })
	spec := &placement.Spec{Owner: "web", Attributes: []string{"disk=ssd"}, Needs: one}
	for devices, want := range map[int]string{1: "", 2: "t: a > b"} {
		rows := []state.Row{
			oracle.Instance("a", oracle.GPUs(1)), oracle.Instance("b", oracle.Attribute("disk", "ssd"),
				oracle.GPUs(devices)), foreign,
			oracle.Task("t", "a", oracle.Needs(one), func(t *cluster.Task) { t.GPUs = []int{0} }),
		}
		expectMoves(t, plan(rows, movers(spec)), want)
	}
}

// Shares of devices that fit in some order are found to fit, in any order of the tasks: the
// share of 500 has to go where 500 is left, and both of 300 where 600 is left.
func TestLargeSharesAreAssignedFirst(t *testing.T) {
	share := func(milli int32, devices ...int) oracle.TaskOption {
		return func(t *cluster.Task) { t.Needs, t.GPUs = cluster.Resources{GPUs: 1, GPUMilli: milli}, devices }
	}
	for largest := range 3 {
		rows := []state.Row{oracle.Instance("a", oracle.GPUs(3)),
			oracle.Instance("b", oracle.GPUs(2), oracle.Attribute("disk", "ssd")),
			oracle.Task("o1", "b", oracle.Owner("other"), share(400, 0)),
			oracle.Task("o2", "b", oracle.Owner("other"), share(500, 1))}
		for n := range 3 {
			milli := int32(300)
			if n == largest {
				milli = 500
			}
			rows = append(rows, oracle.Task(fmt.Sprint("t", n), "a", share(milli, n)))
		}
		p := plan(rows, movers(&placement.Spec{Owner: "web", Attributes: []string{"disk=ssd"}}))
		if len(p.Moves) != 3 || len(p.Unrepaired) > 0 {
			t.Errorf("t%d has 500: moves are %q, left: %+v", largest, summary(p), p.Unrepaired)
		}
	}
}

// Of equal tasks a search tries one. Tasks are equal if their loads are, reported or not.
func TestEqualTasksAreTriedOnce(t *testing.T) {
	steps := func(reported map[string]int64) int {
		rows := []state.Row{&cluster.Service{Head: cluster.Head{Cluster: "c", Rev: 1},
			ServiceIdentity: cluster.ServiceIdentity{Name: "web", Short: "web"}, ServiceSpec: cluster.ServiceSpec{
				Rules: cluster.Rules{Metrics: []cluster.Metric{{Name: "m", Load: 5}, {Name: "n", Load: 5}}}}}}
		for _, id := range []string{"a", "b", "c"} { // no other takes a task
			rows = append(rows, oracle.Instance(id, oracle.Metric("m", 4), oracle.Metric("n", 40)))
		}
		for n := range 4 {
			task := oracle.Task(fmt.Sprint("t", n), "a")
			task.Service, task.Reported = "web", map[string]int64{"m": 5, "n": 5}
			if n%2 == 0 {
				task.Reported = reported
			}
			rows = append(rows, task)
		}
		p := plan(rows, movers(anyTask("web")))
		if len(p.Moves) > 0 || len(p.Unrepaired) != 1 {
			t.Errorf("%+v, expected no moves", p)
		}
		return p.Steps
	}
	all := steps(map[string]int64{"m": 5, "n": 5})
	for _, reported := range []map[string]int64{nil, {"m": 5}, {"n": 5}} {
		if n := steps(reported); n != all {
			t.Errorf("with %v reported the search takes %d steps, and %d with all", reported, n, all)
		}
	}
}

// Tasks of one owner that use other ports are not equal: where one cannot go, another may.
func TestTasksWithOtherPortsAreTriedToo(t *testing.T) {
	port := func(n int) oracle.TaskOption { return oracle.Ports(cluster.Port{Number: n, Protocol: cluster.TCP}) }
	m := oracle.Metric("m", 10)
	for _, free := range []int{80, 81} {
		taken := 80 + 81 - free
		rows := []state.Row{oracle.Instance("a", m), oracle.Instance("b", m),
			oracle.Task("t1", "a", oracle.Load(6), port(80)), oracle.Task("t2", "a", oracle.Load(6), port(81)),
			oracle.Task("x", "b", oracle.Owner("other"), oracle.Load(1), port(taken))}
		expectMoves(t, plan(rows, movers(anyTask("web"))), map[int]string{80: "t1: a > b", 81: "t2: a > b"}[free])
	}
}

// Violations in a few places of a large cluster move nothing far from them.
func TestMovesInALargeClusterAreLocal(t *testing.T) {
	s := snapshot.NewSnapshot()
	m := moves.Request{Owners: map[string]moves.Owner{}}
	for o := range 20 {
		name := fmt.Sprintf("s%02d", o)
		spec := &placement.Spec{Owner: name, MoveCost: cluster.MoveCosts[o%4], DomainPolicy: cluster.PolicyAdaptive}
		m.Owners[name] = moves.Owner{Spec: spec, Target: 200}
	}
	for n := range 500 {
		fault := oracle.Attribute(cluster.AttributeFaultDomain, fmt.Sprintf("fd:/%d/%d", n%3, n/3%4))
		s.Put(oracle.Instance(fmt.Sprintf("i%04d", n), fault,
			oracle.Attribute(cluster.AttributeUpgrade, fmt.Sprint(n%5)), oracle.Metric("m", 100)))
	}
	for o := range 20 {
		for n := range 200 {
			t := oracle.Task(fmt.Sprintf("t%02d-%03d", o, n), fmt.Sprintf("i%04d", (o*25+n)%500),
				oracle.Owner(fmt.Sprintf("s%02d", o)), oracle.Load(8))
			if (n+o*11)%197 == 7 {
				t.Reported["m"] = 70
			}
			s.Put(t)
		}
	}
	hot := map[string]bool{}
	for _, v := range s.Instances {
		if v.Load(s.MetricIndex("m")) > 100 {
			hot[v.ID] = true
		}
	}
	p := moves.NewPlanner(placement.New(s)).PlanMoves(m)
	if len(hot) == 0 || len(p.Violations) < len(hot) || len(p.Unrepaired) > 0 {
		t.Fatalf("%d of %d are left", len(p.Unrepaired), len(p.Violations))
	}
	concerned := map[string]bool{}
	for _, out := range p.Violations {
		concerned[out.Owner] = true
	}
	for _, move := range p.Moves {
		if !hot[move.From] && !concerned[move.Owner] {
			t.Fatalf("%+v", move)
		}
	}
	if again := moves.NewPlanner(placement.New(s)).PlanMoves(m); summary(again) != summary(p) {
		t.Fatal("another time, another plan")
	}
}
