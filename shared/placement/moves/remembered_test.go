package moves_test

import (
	"fmt"
	"testing"

	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/placement"
	"berth/shared/placement/moves"
	"berth/shared/snapshot"
	"berth/shared/state"
	"berth/tests/oracle"
)

// A small problem is solved once. Whatever changes that a search reads, it is solved again.
func TestSolvedProblemsAreRemembered(t *testing.T) {
	put := func(row state.Row) func(*snapshot.Snapshot, *moves.Request) {
		return func(s *snapshot.Snapshot, _ *moves.Request) { s.Put(row) }
	}
	owner := func(change func(*moves.Owner)) func(*snapshot.Snapshot, *moves.Request) {
		return func(_ *snapshot.Snapshot, m *moves.Request) {
			o := m.Owners["web"]
			change(&o)
			m.Owners = map[string]moves.Owner{"web": o}
		}
	}
	instance := func(id string, options ...oracle.Option) *cluster.Instance {
		return oracle.Instance(id, append(options, oracle.GPUs(2), func(i *cluster.Instance) { i.Rev = 2 })...)
	}
	device := func(n int) oracle.TaskOption {
		return func(t *cluster.Task) { t.Needs, t.GPUs = cluster.Resources{GPUs: 1}, []int{n} }
	}
	for name, change := range map[string]func(*snapshot.Snapshot, *moves.Request){
		"Nothing":     func(*snapshot.Snapshot, *moves.Request) {},
		"Load":        put(oracle.Task("x", "b", oracle.Owner("other"), oracle.Load(1))),
		"CPU":         put(oracle.Task("x", "b", oracle.Owner("other"))),
		"AnotherTask": put(oracle.Task("t3", "b", oracle.Load(0))),
		"AnotherID":   put(oracle.Task("t9", "a", oracle.Load(20))),
		"AnotherTaskInItsPlace": func(s *snapshot.Snapshot, _ *moves.Request) {
			gone := oracle.Task("t1", "a", oracle.Load(20))
			s.ApplyRecord(state.Record{Op: state.Remove, Key: state.KeyOf(gone), Old: gone})
			s.Put(oracle.Task("t0", "a", oracle.Load(20)))
		},
		"Configuration": put(&cluster.Configuration{Head: cluster.Head{Cluster: "c", Rev: 7}}),
		"Capacity":      put(instance("b", oracle.Metric("m", 50))),
		"Row":           put(instance("b", oracle.Metric("m", 100), oracle.Attribute("disk", "ssd"))),
		"Instance":      put(oracle.Instance("c")),
		"Ending":        put(oracle.Task("x", "b", oracle.Load(0), oracle.Stopping)),
		"Port":          put(oracle.Task("x", "b", oracle.Owner("other"), oracle.Load(0), oracle.Ports(oracle.HTTP))),
		"Device":        put(oracle.Task("x", "b", oracle.Owner("other"), device(1))),
		"AtNoDevice": put(oracle.Task("x", "b", oracle.Owner("other"), oracle.Needs(cluster.Resources{GPUs: 1}),
			func(t *cluster.Task) { t.Foreign = true })),
		"Budget":     func(_ *snapshot.Snapshot, m *moves.Request) { m.Most = 5 },
		"Target":     owner(func(o *moves.Owner) { o.Target++ }),
		"StartFirst": owner(func(o *moves.Owner) { o.StartFirst = true }),
		"Spec":       owner(func(o *moves.Owner) { o.Spec = anyTask("web") }),
		"Keep": func(_ *snapshot.Snapshot, m *moves.Request) {
			m.Keep = func(t *cluster.Task) bool { return t.ID == "t2" }
		},
		"Cost": func(_ *snapshot.Snapshot, m *moves.Request) {
			m.Cost = func(*cluster.Task) cluster.MoveCost { return cluster.CostHigh }
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := oracle.SnapshotOf(oracle.Configuration(cluster.Configuration{}),
				oracle.Instance("a", oracle.Metric("m", 10)), oracle.Instance("b", oracle.Metric("m", 100),
					oracle.GPUs(2)), oracle.Task("t1", "a", oracle.Load(20)), oracle.Task("t2", "b", oracle.Load(1)))
			p, m := moves.NewPlanner(placement.New(s)), movers(anyTask("web"))
			first := p.PlanAgain(m)
			expectMoves(t, first, "t1: a > b")
			change(s, &m)
			again := p.PlanAgain(m)
			if isSame := again == first; isSame != (name == "Nothing") {
				t.Errorf("the plan is the same: %v", isSame)
			}
			if fresh := moves.NewPlanner(placement.New(s)).PlanAgain(m); summary(fresh) != summary(again) {
				t.Errorf("moves are %q, and by a new planner %q", summary(again), summary(fresh))
			}
			if name != "Nothing" && p.PlanAgain(m) != again {
				t.Error("it is solved once more after nothing has changed")
			}
		})
	}
}

// Four problems are remembered, the latest ones.
func TestFourProblemsAreRemembered(t *testing.T) {
	s := oracle.SnapshotOf(oracle.Instance("a", oracle.Metric("m", 10)), oracle.Instance("b"),
		oracle.Task("t1", "a", oracle.Load(20)))
	p := moves.NewPlanner(placement.New(s))
	with := func(most int) *moves.Plan {
		m := movers(anyTask("web"))
		m.Most = most
		return p.PlanAgain(m)
	}
	spec := anyTask("web")
	ask := func(most int) *moves.Plan {
		m := movers(spec)
		m.Most = most
		return p.PlanAgain(m)
	}
	if first := with(1); with(1) == first {
		t.Error("another spec is taken for the same")
	}
	var plans []*moves.Plan
	for most := range 5 {
		plans = append(plans, ask(1+most))
	}
	for most := 4; most >= 1; most-- {
		if ask(1+most) != plans[most] {
			t.Errorf("the problem of %d moves is solved again", 1+most)
		}
	}
	if ask(1) == plans[0] {
		t.Error("more than four problems are remembered")
	}
}

// A problem that is too large to try every way, or has constraints that depend on tasks, is not
// remembered.
func TestProblemsThatAreNotRemembered(t *testing.T) {
	x, err := constraint.ParseQuery("runningTasksCount < 5")
	if err != nil {
		t.Fatal(err)
	}
	rows := []state.Row{oracle.Instance("a", oracle.Metric("m", 10)), oracle.Instance("b"),
		oracle.Task("t1", "a", oracle.Load(20))}
	dynamic := movers(&placement.Spec{Owner: "web", Constraints: []*constraint.Expression{x}})
	p := moves.NewPlanner(placement.New(oracle.SnapshotOf(rows...)))
	if first := p.PlanAgain(dynamic); p.PlanAgain(dynamic) == first {
		t.Error("a problem with a constraint that depends on tasks is remembered")
	}
	for n := range 24 {
		rows = append(rows, oracle.Instance(fmt.Sprintf("c%02d", n)),
			oracle.Task(fmt.Sprintf("u%02d", n), fmt.Sprintf("c%02d", n)))
	}
	large := movers(anyTask("web"))
	p = moves.NewPlanner(placement.New(oracle.SnapshotOf(rows...)))
	if first := p.PlanAgain(large); p.PlanAgain(large) == first {
		t.Error("a problem of 25 tasks and 26 instances is remembered")
	}
}

// The watch notices what breaks a rule without a change of the owner's tasks: an instance that
// loses an attribute, and one that comes in a new domain. Constraints that depend on tasks bind new
// tasks alone.
func TestWatchNoticesInstances(t *testing.T) {
	x, err := constraint.ParseQuery("runningTasksCount < 1")
	if err != nil {
		t.Fatal(err)
	}
	ssd := oracle.Attribute("disk", "ssd")
	in := func(name string) oracle.Option { return oracle.Attribute(cluster.AttributeFaultDomain, "fd:/"+name) }
	fast, governed := anyTask("fast"), &placement.Spec{Owner: "governed", DomainPolicy: cluster.PolicyDifference}
	few := &placement.Spec{Owner: "few", Constraints: []*constraint.Expression{x}}
	fast.Attributes = []string{"disk=ssd"}
	rows := []state.Row{oracle.Instance("a", ssd, in("x")), oracle.Instance("b", in("x")),
		oracle.Task("t1", "a", oracle.Owner("fast")), oracle.Task("t2", "a", oracle.Owner("governed")),
		oracle.Task("t3", "b", oracle.Owner("governed")), oracle.Task("t4", "a", oracle.Owner("few"))}
	again := func(i *cluster.Instance) { i.Rev = 2 }
	for name, change := range map[string]state.Row{"LosesAnAttribute": oracle.Instance("a", in("x"), again),
		"NewDomain": oracle.Instance("c", in("y"))} {
		s := oracle.SnapshotOf(rows...)
		p, m := moves.NewPlanner(placement.New(s)), movers(fast, governed, few)
		if !p.FindsNothing(m) {
			t.Fatalf("%s: nothing is broken at first, but %+v", name, p.Violations(m))
		}
		s.Put(change)
		if p.FindsNothing(m) {
			t.Errorf("%s: it finds nothing", name)
		}
	}
}

// A plan without moves is made again once room becomes free somewhere, or an instance changes where
// the task could go.
func TestPlansAreMadeAgainWhenRoomComes(t *testing.T) {
	full := oracle.Task("x", "b", oracle.Owner("other"), oracle.Load(30))
	fast := anyTask("web")
	fast.Attributes = []string{"disk=ssd"}
	ssd := oracle.Attribute("disk", "ssd")
	again := func(i *cluster.Instance) { i.Rev = 2 }
	for name, c := range map[string]struct {
		b    *cluster.Instance
		come func(*snapshot.Snapshot)
	}{
		"ATaskEnds": {oracle.Instance("b", oracle.Metric("m", 30), ssd),
			func(s *snapshot.Snapshot) { s.ApplyRecord(state.Record{Op: state.Remove, Old: full}) }},
		"AnAttributeComes": {oracle.Instance("b", oracle.Metric("m", 60)),
			func(s *snapshot.Snapshot) { s.Put(oracle.Instance("b", oracle.Metric("m", 60), ssd, again)) }},
	} {
		rows := []state.Row{oracle.Instance("a", oracle.Metric("m", 10), ssd), c.b, full,
			oracle.Task("t", "a", oracle.Load(20))}
		for n := range 40 { // too large for its plan to be remembered otherwise
			rows = append(rows, oracle.Instance(fmt.Sprintf("z%02d", n), ssd, oracle.Metric("m", 1)),
				oracle.Task(fmt.Sprintf("u%02d", n), fmt.Sprintf("z%02d", n)))
		}
		s := oracle.SnapshotOf(rows...)
		p, m := moves.NewPlanner(placement.New(s)), movers(fast)
		first := p.PlanMoves(m)
		if len(first.Moves) > 0 || p.PlanMoves(m) != first {
			t.Fatalf("%s: moves are %q at first; the plan is remembered: %v", name, summary(first),
				p.PlanMoves(m) == first)
		}
		s.Put(oracle.Task("y", "z00", oracle.Owner("other"))) // takes room, and gives none
		if p.PlanMoves(m) != first {
			t.Errorf("%s: a task that comes makes it plan again", name)
		}
		c.come(s)
		expectMoves(t, p.PlanMoves(m), "t: a > b")
	}
}

// Owners with different constraints are not taken for each other.
func TestOwnersWithDifferentConstraints(t *testing.T) {
	on := func(owner, disk string) *placement.Spec {
		x, err := constraint.ParseQuery("attribute:disk == " + disk)
		if err != nil {
			t.Fatal(err)
		}
		return &placement.Spec{Owner: owner, Constraints: []*constraint.Expression{x}}
	}
	p := plan([]state.Row{oracle.Instance("a", oracle.Attribute("disk", "ssd")),
		oracle.Instance("b", oracle.Attribute("disk", "hdd")), oracle.Task("t1", "b", oracle.Owner("fast")),
		oracle.Task("t2", "a", oracle.Owner("slow"))}, movers(on("fast", "ssd"), on("slow", "hdd")))
	if len(p.Violations) != 2 || len(p.Moves) != 2 || len(p.Unrepaired) > 0 {
		t.Errorf("violations are %v, moves %q", p.Violations, summary(p))
	}
}

// Owners with different tolerations are not taken for each other.
func TestOwnersWithDifferentTolerations(t *testing.T) {
	spec := func(owner, tolerations string) *placement.Spec {
		read, err := cluster.ReadTolerations(tolerations)
		if err != nil {
			t.Fatal(err)
		}
		return &placement.Spec{Owner: owner, Attributes: []string{"disk=ssd"}, Tolerations: read}
	}
	ssd, m := oracle.Attribute("disk", "ssd"), oracle.Metric("m", 10)
	tainted := func(id, value string) state.Row {
		return oracle.Instance(id, ssd, m, oracle.Attribute(cluster.AttributeTaints, "for:"+value+":NO_SCHEDULE"))
	}
	p := plan([]state.Row{oracle.Instance("a", m), tainted("b", "x"), tainted("c", "y"), oracle.Instance("d", ssd, m),
		oracle.Task("t1", "a", oracle.Owner("x"), oracle.Load(6)), oracle.Task("t2", "a", oracle.Owner("y"),
			oracle.Load(6)), oracle.Task("t3", "a", oracle.Owner("z"), oracle.Load(6)),
		oracle.Task("other", "d", oracle.Owner("other"), oracle.Load(6))},
		movers(spec("x", "for=x"), spec("y", "for=y"), spec("z", "")))
	if summary(p) != "t1: a > b, t2: a > c" || len(p.Unrepaired) == 0 {
		t.Errorf("moves are %q, and left is %v; expected each where its toleration allows, and t3 nowhere", summary(p),
			p.Unrepaired)
	}
}

// An owner with an affinity is looked at again after the last task of its parent has gone.
func TestWatchNoticesThatAParentHasGone(t *testing.T) {
	parent := oracle.Task("p1", "a", oracle.Owner("parent"))
	s := oracle.SnapshotOf(oracle.Instance("a"), oracle.Instance("b"), parent,
		oracle.Task("p2", "b", oracle.Owner("parent")), oracle.Task("c1", "a", oracle.Owner("child")))
	p, m := moves.NewPlanner(placement.New(s)), movers(anyTask("parent"), attached("child", "parent"))
	if !p.FindsNothing(m) {
		t.Fatalf("nothing is broken at first, but %+v", p.Violations(m))
	}
	s.ApplyRecord(state.Record{Op: state.Remove, Key: state.KeyOf(parent), Old: parent})
	if p.FindsNothing(m) {
		t.Error("it finds nothing, although c1 is apart")
	}
}

// A violation without moves is planned again once a task comes that others have to be beside: they may then
// leave an instance that they overload.
func TestWatchNoticesThatAParentHasCome(t *testing.T) {
	s := oracle.SnapshotOf(oracle.Instance("a", oracle.Metric("m", 5)), oracle.Instance("b", oracle.Metric("m", 10)),
		oracle.Task("p", "a", oracle.Owner("parent"), oracle.Load(0)), oracle.Task("c", "a", oracle.Owner("child"),
			oracle.Load(6)))
	p, m := moves.NewPlanner(placement.New(s)), movers(attached("child", "parent"))
	expectMoves(t, p.PlanMoves(m), "")
	s.Put(oracle.Task("q", "b", oracle.Owner("parent"), oracle.Load(0)))
	expectMoves(t, p.PlanMoves(m), "c: a > b")
}

// An instance that has nothing left is not overloaded.
func TestWatchFindsNothingOnFullInstances(t *testing.T) {
	needs := cluster.Resources{CPU: 2 * cluster.VCPU, Memory: 4096, ENIs: 1}
	full := oracle.Instance("a", oracle.CPU(2048), oracle.Memory(4096), oracle.Metric("m", 5),
		func(i *cluster.Instance) { i.Registered.ENIs = new(1) })
	for load, want := range map[int64]bool{5: true, 6: false} {
		s := oracle.SnapshotOf(full, oracle.Task("t", "a", oracle.Load(load), oracle.Needs(needs)))
		if got := moves.NewPlanner(placement.New(s)).FindsNothing(movers(anyTask("web"))); got != want {
			t.Errorf("with a load of %d of 5, and all else used, the watch finds nothing: %v", load, got)
		}
	}
}

// Without owners nothing may move, also to make room.
func TestNobodysTasksMove(t *testing.T) {
	s := oracle.SnapshotOf(oracle.Instance("a", oracle.Metric("m", 10)), oracle.Instance("b", oracle.Metric("m", 10)),
		oracle.Task("t", "a", oracle.Owner("other"), oracle.Load(6)),
		oracle.Task("u", "b", oracle.Owner("other"), oracle.Load(4)))
	r := placement.Request{Spec: &placement.Spec{Owner: "new", Loads: []cluster.Metric{{Name: "m", Load: 7}}}, Count: 1}
	if p := moves.NewPlanner(placement.New(s)).MakeRoom(r, moves.Request{}); len(p.Moves)+len(p.Places) > 0 {
		t.Errorf("%+v", p)
	}
}

// A task waits for the task that holds its port or its device, and for no other.
func TestMovesWaitForPortsAndDevices(t *testing.T) {
	device := func(t *cluster.Task) { t.Needs, t.GPUs = cluster.Resources{GPUs: 1}, []int{0} }
	for name, c := range map[string]struct {
		holds oracle.TaskOption
		needs cluster.Resources
		waits bool
	}{
		"Port":    {oracle.Ports(oracle.HTTP), cluster.Resources{}, true},
		"Device":  {device, cluster.Resources{GPUs: 1}, true},
		"Nothing": {func(*cluster.Task) {}, cluster.Resources{}, false},
	} {
		fast := &placement.Spec{Owner: "fast", Attributes: []string{"disk=ssd"}, Needs: c.needs}
		slow := &placement.Spec{Owner: "slow", Attributes: []string{"disk=hdd"}, Needs: c.needs}
		p := plan([]state.Row{oracle.Instance("a", oracle.GPUs(1)),
			oracle.Instance("b", oracle.GPUs(1), oracle.Attribute("disk", "ssd")),
			oracle.Instance("c", oracle.GPUs(1), oracle.Attribute("disk", "hdd")),
			oracle.Task("t1", "a", oracle.Owner("fast"), c.holds), oracle.Task("t2", "b", oracle.Owner("slow"), c.holds)},
			movers(fast, slow))
		if len(p.Moves) != 2 {
			t.Fatalf("%s: %q", name, summary(p))
		}
		for n, m := range p.Moves {
			waits := m.Task == "t1" && c.waits
			if (len(m.After) == 1) != waits || waits && p.Moves[m.After[0]].Task != "t2" {
				t.Errorf("%s: move %d of %s waits for %v", name, n, m.Task, m.After)
			}
		}
	}
}

// A move does not wait for another one that makes no difference to it: of two tasks of a service that
// may share instances, or stay within their domains, each moves for a reason of its own.
func TestMovesThatDoNotWait(t *testing.T) {
	loads := func(m, n int64) oracle.TaskOption {
		return func(t *cluster.Task) {
			t.Needs, t.Reported = cluster.Resources{}, map[string]int64{"m": m, "n": n}
		}
	}
	in := func(domain int) oracle.Option {
		return oracle.Attribute(cluster.AttributeFaultDomain, fmt.Sprint("fd:/", domain))
	}
	// t1 has to leave a for its load n, t2 to leave c for its load m, for which only a has room.
	crossing := []state.Row{oracle.Instance("a", oracle.Metric("m", 100), oracle.Metric("n", 10)),
		oracle.Instance("b", oracle.Metric("m", 10), oracle.Metric("n", 100)),
		oracle.Instance("c", oracle.Metric("m", 10), oracle.Metric("n", 10)),
		oracle.Task("t1", "a", loads(0, 20)), oracle.Task("t2", "c", loads(50, 0))}
	var within []state.Row
	for n, id := range []string{"a", "b", "c", "d"} {
		within = append(within, oracle.Instance(id, in(n/2), oracle.Metric("m", int64(10+90*(n%2)))))
	}
	within = append(within, oracle.Task("t1", "a", oracle.Load(20)), oracle.Task("t2", "c", oracle.Load(20)))
	for name, c := range map[string]struct {
		rows []state.Row
		spec *placement.Spec
		want string
	}{
		"SharingIsAllowed": {crossing, anyTask("web"), "t1: a > b, t2: c > a"},
		"WithinTheirDomains": {within, &placement.Spec{Owner: "web", DomainPolicy: cluster.PolicyDifference},
			"t1: a > b, t2: c > d"},
	} {
		p := plan(c.rows, movers(c.spec))
		if expectMoves(t, p, c.want); len(p.Moves[0].After)+len(p.Moves[1].After) > 0 {
			t.Errorf("%s: a move waits: %+v", name, p.Moves)
		}
	}
}

// A task that holds a device which its instance lacks frees none.
func TestDevicesThatAreNotThere(t *testing.T) {
	one := cluster.Resources{GPUs: 1}
	fast, slow := &placement.Spec{Owner: "fast", Attributes: []string{"disk=ssd"}, Needs: one},
		&placement.Spec{Owner: "slow", Attributes: []string{"disk=hdd"}, Needs: one}
	at := func(n int) oracle.TaskOption { return func(t *cluster.Task) { t.Needs, t.GPUs = one, []int{n} } }
	rows := []state.Row{oracle.Instance("a", oracle.GPUs(1), oracle.Attribute("disk", "ssd")),
		oracle.Instance("b", oracle.GPUs(2), oracle.Attribute("disk", "hdd")),
		oracle.Task("t1", "a", oracle.Owner("slow"), at(1)), oracle.Task("t2", "b", oracle.Owner("fast"), at(0))}
	if p := plan(rows, movers(fast, slow)); len(p.Moves) != 2 || len(p.Unrepaired) > 0 {
		t.Errorf("moves are %q, left: %v", summary(p), p.Unrepaired)
	}
}
