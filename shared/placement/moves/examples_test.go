package moves_test

import (
	"fmt"
	"slices"
	"testing"

	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/placement"
	"berth/shared/placement/moves"
	"berth/shared/state"
	"berth/tests/oracle"
)

// A plan without moves is returned again, without a look at the tasks, as long as nothing has
// changed. What a request with functions or with another limit gives says nothing about others.
func TestEmptyPlansAreRemembered(t *testing.T) {
	s := oracle.SnapshotOf(oracle.Instance("a", oracle.Metric("m", 10)), oracle.Task("t", "a", oracle.Load(20)))
	p, m := moves.NewPlanner(placement.New(s)), movers(anyTask("web"))
	first := p.PlanMoves(m)
	if len(first.Moves) > 0 || len(first.Unrepaired) != 1 {
		t.Fatalf("%+v", first)
	}
	if n := testing.AllocsPerRun(10, func() { p.PlanMoves(m) }); n > 10 || p.PlanMoves(m) != first {
		t.Errorf("the same request is planned again, with %g allocations", n)
	}
	s.Put(oracle.Instance("b"))
	keep, most := m, m
	keep.Keep, most.Most = func(*cluster.Task) bool { return true }, 1
	for range 2 {
		if p := p.PlanMoves(keep); len(p.Moves) > 0 {
			t.Errorf("a task moves that is kept: %+v", p)
		}
		for _, request := range []moves.Request{m, most} {
			if p := p.PlanMoves(request); len(p.Moves) != 1 {
				t.Errorf("with an instance that has room: %+v", p)
			}
		}
	}
}

// After an owner has gone, plans without moves are remembered again.
func TestEmptyPlansAreRememberedAfterAnOwnerHasGone(t *testing.T) {
	s := oracle.SnapshotOf(oracle.Instance("a", oracle.Metric("m", 10)), oracle.Task("t", "a", oracle.Load(20)))
	p, spec := moves.NewPlanner(placement.New(s)), anyTask("web")
	p.PlanMoves(movers(spec, anyTask("other")))
	left := movers(spec)
	first := p.PlanMoves(left)
	if n := testing.AllocsPerRun(10, func() { p.PlanMoves(left) }); n > 10 || p.PlanMoves(left) != first {
		t.Errorf("the same request is planned again, with %g allocations", n)
	}
}

// Each violation says where it is, how much is there, and what the limit is.
func TestViolationsHaveTheirNumbers(t *testing.T) {
	distinct, fast := anyTask("web"), anyTask("db")
	distinct.PerInstance, fast.Attributes = 1, []string{"disk=ssd"}
	rows := []state.Row{oracle.Instance("a"), oracle.Task("t1", "a"), oracle.Task("t2", "a"), oracle.Task("t3", "a"),
		oracle.Task("t4", "a", oracle.Owner("db"))}
	p := plan(rows, movers(distinct, fast))
	want := []moves.Violation{{Rule: placement.RuleOccupied, Instance: "a", Owner: "web", Have: 3, Limit: 1},
		{Rule: placement.RulePlacement, Instance: "a", Owner: "db", Task: "t4"}}
	for _, list := range [][]moves.Violation{p.Violations, p.Unrepaired} {
		if len(list) != 2 || !slices.Contains(list, want[0]) || !slices.Contains(list, want[1]) {
			t.Errorf("%+v, expected %+v", list, want)
		}
	}
	p = plan(append(rows, oracle.Instance("b")), movers(distinct))
	if len(p.Moves) != 1 || len(p.Unrepaired) != 1 || p.Unrepaired[0].Have != 2 ||
		p.Moves[0].Why != "tasks of web on a go from 3 to 2, at most 1 may share an instance" {
		t.Errorf("%+v", p)
	}
}

// Two tasks that leave one instance see each other where they go.
func TestConstraintsSeeTasksThatMoveTogether(t *testing.T) {
	x, err := constraint.ParseQuery("runningTasksCount < 1")
	if err != nil {
		t.Fatal(err)
	}
	spec := &placement.Spec{Owner: "web", Constraints: []*constraint.Expression{x}}
	rows := []state.Row{oracle.Instance("a", oracle.Metric("m", 10)), oracle.Instance("b", oracle.Metric("m", 100)),
		oracle.Instance("c", oracle.Metric("m", 100)),
		oracle.Task("t1", "a", oracle.Load(20)), oracle.Task("t2", "a", oracle.Load(20))}
	p := plan(rows, movers(spec))
	if len(p.Moves) != 2 || p.Moves[0].To == p.Moves[1].To {
		t.Errorf("moves are %q, expected two to different instances", summary(p))
	}
	if p := plan(slices.Delete(rows, 2, 3), movers(spec)); len(p.Moves) != 1 {
		t.Errorf("moves are %q, expected one as b takes one task", summary(p))
	}
	full := []state.Row{oracle.Instance("a", oracle.Metric("m", 100)), oracle.Instance("b", oracle.Metric("m", 10)),
		oracle.Task("t1", "a", oracle.Load(30), oracle.Owner("other"))}
	r := placement.Request{Count: 1, Spec: &placement.Spec{Owner: "new", Constraints: spec.Constraints,
		Loads: []cluster.Metric{{Name: "m", Load: 80}}}}
	got := moves.NewPlanner(placement.New(oracle.SnapshotOf(full...))).MakeRoom(r, movers(anyTask("other")))
	if len(got.Places) > 0 {
		t.Errorf("%+v, expected no place: no move empties a", got)
	}
	full[1] = oracle.Instance("b", oracle.Metric("m", 30))
	got = moves.NewPlanner(placement.New(oracle.SnapshotOf(full...))).MakeRoom(r, movers(anyTask("other")))
	if summary(got) != "t1: a > b" || !slices.Equal(got.Places, []string{"a"}) {
		t.Errorf("%+v, expected a place on a after t1 has left", got)
	}
}

// A constraint about groups holds where one task of several has the group, whichever comes first.
func TestConstraintsSeeEachGroup(t *testing.T) {
	x, err := constraint.ParseQuery("task:group == service:db")
	if err != nil {
		t.Fatal(err)
	}
	of := func(group string) oracle.TaskOption {
		return func(t *cluster.Task) { t.Owner, t.Group = "other", group }
	}
	for _, groups := range [][]string{{"service:db", "service:log"}, {"service:log", "service:db"}} {
		expectMoves(t, plan([]state.Row{oracle.Instance("a", oracle.Metric("m", 10)),
			oracle.Instance("b", oracle.Metric("m", 100)), oracle.Instance("c", oracle.Metric("m", 100)),
			oracle.Task("t1", "a", oracle.Load(20)), oracle.Task("u1", "b", of(groups[0])),
			oracle.Task("u2", "b", of(groups[1])), oracle.Task("u3", "c", of("service:log"))},
			movers(&placement.Spec{Owner: "web", Constraints: []*constraint.Expression{x}})), "t1: a > b")
	}
}

// Of two tasks that change places on full instances, one waits on a third: one that its rules
// allow, that has room without the buffer, and that no task of the plan leaves. If there is none, the
// exchange takes place only where a task may stop first.
func TestWhereATaskOfAnExchangeWaits(t *testing.T) {
	in := func(domain int) oracle.Option {
		return oracle.Attribute(cluster.AttributeFaultDomain, fmt.Sprint("fd:/", domain))
	}
	m, ssd := oracle.Metric("m", 10), oracle.Attribute("disk", "ssd")
	leaves := anyTask("z")
	leaves.Attributes = []string{"disk=ssd"}
	for name, c := range map[string]struct {
		more  []state.Row
		avoid string // by the tasks that may wait
		via   string // "" if none may wait
	}{
		"OnAnInstanceWithRoom": {[]state.Row{oracle.Instance("e", in(0), oracle.Metric("m", 9))}, "", "e"},
		"OnTheFirstInstance":   {[]state.Row{oracle.Instance("0", in(0), oracle.Metric("m", 9))}, "", "0"},
		"NoRoom":               {[]state.Row{oracle.Instance("e", in(0), oracle.Metric("m", 8))}, "", ""},
		"Avoided":              {[]state.Row{oracle.Instance("e", in(0), m), oracle.Instance("f", in(0), m)}, "e", "f"},
		"Cordoned": {[]state.Row{oracle.Instance("e", in(0), m, oracle.Attribute(cluster.AttributeUnschedulable, ""))},
			"",
			""},
		"NotInTheBuffer": {[]state.Row{oracle.Configuration(cluster.Configuration{Buffer: map[string]float64{"m": 0.1}}),
			oracle.Instance("e", in(0), oracle.Metric("m", 9)), oracle.Instance("f", in(0), m)}, "", "f"},
		"NotWhereATaskLeaves": {[]state.Row{oracle.Instance("e", in(0), oracle.Metric("m", 20)),
			oracle.Instance("f", in(0), m), oracle.Instance("g", in(2), ssd, oracle.Metric("m", 1)),
			oracle.Task("z", "e", oracle.Owner("z"), oracle.Load(1))}, "", "f"},
	} {
		t.Run(name, func(t *testing.T) {
			rows := slices.Clone(c.more)
			for n, id := range []string{"a", "b", "c", "d"} { // both tasks of a service are in one domain
				rows = append(rows, oracle.Instance(id, in(n/2), m),
					oracle.Task("t"+id, id, oracle.Owner([]string{"x", "y"}[n/2]), oracle.Load(9)))
			}
			x := &placement.Spec{Owner: "x", DomainPolicy: cluster.PolicyDifference, Avoid: []string{c.avoid, "g"}}
			y := &placement.Spec{Owner: "y", DomainPolicy: cluster.PolicyDifference, Avoid: []string{"0", "e", "f", "g"}}
			for _, startFirst := range []bool{false, true} {
				owners := movers(x, y, leaves)
				for name, o := range owners.Owners {
					o.StartFirst = startFirst
					owners.Owners[name] = o
				}
				p := plan(rows, owners)
				via := ""
				for _, m := range p.Moves {
					if via += m.Via; m.Via != "" && (m.Mode != moves.Via || m.Owner != "x") {
						t.Errorf("%+v", m)
					}
				}
				if isPossible := !startFirst || c.via != ""; via != c.via || isPossible != (len(p.Moves) >= 2) {
					t.Errorf("a task waits on %q, expected %q: %+v; it starts first: %v", via, c.via, p.Moves, startFirst)
				}
			}
		})
	}
}

// Four devices, or ports, become free where each of four tasks has one: the reason names the newcomer.
// Tasks that have none of them stay, although it would cost nothing to move them.
func TestInstancesAreClearedOfDevices(t *testing.T) {
	one := cluster.Resources{GPUs: 1}
	for _, ports := range []bool{false, true} {
		rows := []state.Row{oracle.Instance("a", oracle.GPUs(4), oracle.Attribute("disk", "ssd")),
			oracle.Instance("b", oracle.GPUs(2)), oracle.Instance("c", oracle.GPUs(2))}
		spec := &placement.Spec{Owner: "new", Attributes: []string{"disk=ssd"}, Needs: cluster.Resources{GPUs: 4}}
		if ports {
			spec.Needs = cluster.Resources{}
			rows = append(rows, oracle.Task("s1", "a", oracle.Owner("free"), oracle.Needs(one),
				func(t *cluster.Task) { t.GPUs = []int{0} }))
		}
		rows = append(rows, oracle.Task("s2", "a", oracle.Owner("free")),
			oracle.Task("s3", "a", oracle.Owner("free"), oracle.Ports(cluster.Port{Number: 70, Protocol: cluster.TCP})))
		for n := range 4 {
			at := func(t *cluster.Task) {
				if t.Needs, t.GPUs = one, []int{n}; ports {
					port := cluster.Port{Number: 80 + n, Protocol: cluster.TCP}
					t.Needs, t.GPUs, t.Ports = cluster.Resources{}, nil, []cluster.Port{port}
				}
			}
			task := oracle.Task(fmt.Sprint("t", n), "a", at)
			spec.Ports = append(spec.Ports, task.Ports...)
			rows = append(rows, task)
		}
		r := placement.Request{Spec: spec, Count: 1}
		p := moves.MakeRoomLocally(moves.NewPlanner(placement.New(oracle.SnapshotOf(rows...))), r,
			movers(anyTask("web"), &placement.Spec{Owner: "free", MoveCost: cluster.CostZero}))
		if len(p.Moves) != 4 || !slices.Equal(p.Places, []string{"a"}) {
			t.Fatalf("%+v", p)
		}
		for _, m := range p.Moves {
			if m.From != "a" || m.Why != "to make room for a task of new that has no instance yet on a" {
				t.Errorf("ports %v: %+v", ports, m)
			}
		}
	}
}

// Tasks that left an instance in vain return: if 60 must become free, four tasks of 10 leave first,
// as they are the cheapest, then two of 15, and one of the first can return.
func TestClearingMovesNoMoreThanItTakes(t *testing.T) {
	at := func(disk string) oracle.Option { return oracle.Attribute(disk, "") }
	rows := []state.Row{oracle.Instance("a", oracle.Metric("m", 100), at("new"), at("small"), at("large"))}
	owners := movers()
	add := func(name, disk string, load int64, cost cluster.MoveCost) {
		rows = append(rows, oracle.Task("t-"+name, "a", oracle.Owner(name), oracle.Load(load)))
		owners.Owners[name] = moves.Owner{Spec: &placement.Spec{Owner: name, MoveCost: cost,
			Attributes: []string{disk}},
			Target: 1}
	}
	for n := range 4 {
		add(fmt.Sprint("small", n), "small", 10, cluster.CostZero)
		rows = append(rows, oracle.Instance(fmt.Sprint("z", n), oracle.Metric("m", 10), at("small")))
	}
	for n := range 4 { // more than a local search would move
		add(fmt.Sprint("large", n), "large", 15, cluster.CostHigh)
		rows = append(rows, oracle.Instance(fmt.Sprint("y", n), oracle.Metric("m", 15), at("large")))
	}
	// To clear another instance costs more than the two large tasks, and less than these twice.
	rows = append(rows, oracle.Instance("b", oracle.Metric("m", 100), at("new"), at("large")),
		oracle.Task("t-rest", "b", oracle.Owner("rest"), oracle.Load(40)))
	for n := range 4 {
		name := fmt.Sprint("dear", n)
		rows = append(rows, oracle.Task("t-"+name, "b", oracle.Owner(name), oracle.Load(15)))
		owners.Owners[name] = moves.Owner{Spec: &placement.Spec{Owner: name, MoveCost: cluster.CostHigh,
			Attributes: []string{"large"}}, Target: 1}
	}
	r := placement.Request{Count: 1, Spec: &placement.Spec{Owner: "new", Attributes: []string{"new"},
		Loads: []cluster.Metric{{Name: "m", Load: 60}}}}
	p := moves.MakeRoomLocally(moves.NewPlanner(placement.New(oracle.SnapshotOf(rows...))), r, owners)
	freed, least := 0, 60
	for _, m := range p.Moves {
		load := map[bool]int{true: 15, false: 10}[m.Cost > 0]
		freed, least = freed+load, min(least, load)
	}
	if !slices.Equal(p.Places, []string{"a"}) || freed < 60 || freed-least >= 60 || len(p.Moves) < 4 {
		t.Errorf("%s, places %v: %d are freed, expected 60 and no move that can return", summary(p), p.Places, freed)
	}
}

// The task that leaves first is the cheapest for what it frees, also if it is the first of all: with
// the one of 20, which costs nothing, three others have to leave, and without it four.
func TestTheCheapestTaskLeavesFirst(t *testing.T) {
	at := func(disk string) oracle.Option { return oracle.Attribute(disk, "") }
	rows := []state.Row{oracle.Instance("a", oracle.Metric("m", 100), at("new"), at("small"), at("large")),
		oracle.Task("t0", "a", oracle.Owner("o0"), oracle.Load(20)), oracle.Task("rest", "a", oracle.Owner("rest"),
			oracle.Load(20)), oracle.Instance("z", oracle.Metric("m", 20), at("small"))}
	owners := movers(&placement.Spec{Owner: "o0", MoveCost: cluster.CostZero, Attributes: []string{"small"}})
	for n := 1; n <= 4; n++ {
		name := fmt.Sprint("o", n)
		rows = append(rows, oracle.Task(fmt.Sprint("t", n), "a", oracle.Owner(name), oracle.Load(15)),
			oracle.Instance(fmt.Sprint("y", n), oracle.Metric("m", 15), at("large")))
		owners.Owners[name] = moves.Owner{Spec: &placement.Spec{Owner: name, MoveCost: cluster.CostHigh,
			Attributes: []string{"large"}}, Target: 1}
	}
	r := placement.Request{Count: 1, Spec: &placement.Spec{Owner: "new", Attributes: []string{"new"},
		Loads: []cluster.Metric{{Name: "m", Load: 60}}}}
	p := moves.MakeRoomLocally(moves.NewPlanner(placement.New(oracle.SnapshotOf(rows...))), r, owners)
	if len(p.Moves) != 4 || p.Cost != 3*cluster.CostHigh.Units() {
		t.Errorf("%s at a cost of %d, expected t0 and three others", summary(p), p.Cost)
	}
}
