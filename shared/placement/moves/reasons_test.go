package moves_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/placement"
	"berth/shared/placement/moves"
	"berth/shared/state"
	"berth/tests/oracle"
)

// A move says which violation it repairs, with the numbers before and after, the limits in the
// user's units and without the buffer.
func TestWhyATaskMoves(t *testing.T) {
	buffer := oracle.Configuration(cluster.Configuration{Buffer: map[string]float64{"m": 0.2}})
	p := plan([]state.Row{buffer, oracle.Instance("a", oracle.Metric("m", 100)),
		oracle.Instance("b", oracle.Metric("m", 100)),
		oracle.Task("t1", "a", oracle.Load(60), oracle.Owner("others")), oracle.Task("t2", "a", oracle.Load(30))},
		movers(anyTask("web")))
	expectMoves(t, p, "t2: a > b")
	if want := "m on a goes from 90 to 60 of 80 without the buffer; m on b goes from 0 to 30 of 80 without the buffer"; p.Moves[0].Why != want {
		t.Errorf("got %q, want %q", p.Moves[0].Why, want)
	}
	p = plan([]state.Row{oracle.Instance("a", oracle.Metric("m", 10)), oracle.Instance("b"),
		oracle.Task("t1", "a", oracle.Load(20))},
		movers(anyTask("web")))
	if want := "m on a goes from 20 to 0 of 10; m on b goes from 0 to 20 of no limit"; len(p.Moves) != 1 ||
		p.Moves[0].Why != want {
		t.Errorf("got %+v, want %q", p.Moves, want)
	}
	p = plan([]state.Row{oracle.Instance("a", oracle.CPU(1024)), oracle.Instance("b", oracle.CPU(2048)),
		oracle.Task("t1", "a", oracle.Needs(cluster.Resources{CPU: 1536 * cluster.CPUUnit}))}, movers(anyTask("web")))
	if want := "CPU on a goes from 1536 to 0 of 1024; CPU on b goes from 0 to 1536 of 2048"; len(p.Moves) != 1 ||
		p.Moves[0].Why != want {
		t.Errorf("got %+v, want %q", p.Moves, want)
	}
	for attribute, want := range map[string]string{
		cluster.AttributeFaultDomain: "fault domain", cluster.AttributeUpgrade: "upgrade domain",
	} {
		at := func(name string) oracle.Option {
			if attribute == cluster.AttributeFaultDomain {
				name = "fd:/" + name
			}
			return oracle.Attribute(attribute, name)
		}
		p := plan([]state.Row{oracle.Instance("a", at("x")), oracle.Instance("b", at("x")),
			oracle.Instance("c", at("y")),
			oracle.Task("t1", "a", oracle.Owner("s")), oracle.Task("t2", "b", oracle.Owner("s"))},
			movers(&placement.Spec{Owner: "s", DomainPolicy: cluster.PolicyDifference}))
		if len(p.Moves) != 1 || !strings.Contains(p.Moves[0].Why, want) ||
			!strings.Contains(p.Moves[0].Why, "tasks beyond it go from 1 to 0") ||
			!strings.HasSuffix(p.Moves[0].Why, "x to "+map[bool]string{true: "fd:/y",
				false: "y"}[attribute == cluster.AttributeFaultDomain]) {
			t.Errorf("%s: %+v", attribute, p.Moves)
		}
	}
}

// What moves break on the way to repair a rule of higher priority is in the plan as left
// unrepaired.
func TestWhatIsGivenUpIsListed(t *testing.T) {
	spec := anyTask("web")
	spec.Attributes = []string{"disk=ssd"}
	p := plan([]state.Row{
		oracle.Configuration(cluster.Configuration{Priorities: cluster.Priorities{Capacity: 1}}),
		oracle.Instance("a", oracle.Metric("m", 100)),
		oracle.Instance("b", oracle.Attribute("disk", "ssd"), oracle.Metric("m", 10)),
		oracle.Task("t", "a", oracle.Load(50)),
	}, movers(spec))
	expectMoves(t, p, "t: a > b")
	if len(p.Unrepaired) != 1 || p.Unrepaired[0].Rule != placement.RuleCapacity || p.Unrepaired[0].Instance != "b" ||
		p.Unrepaired[0].Have != 50 || p.Unrepaired[0].Limit != 10 {
		t.Errorf("left are %+v", p.Unrepaired)
	}
}

// Constraints about an instance's tasks are evaluated as the moves leave them.
func TestConstraintsSeeTheMovesBefore(t *testing.T) {
	for query, mayGoToB := range map[string]bool{
		"runningTasksCount < 1":           false,
		"runningTasksCount < 2":           true,
		"not(task:group == service:db)":   false,
		"not(task:group == service:mail)": true,
	} {
		x, err := constraint.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		spec := &placement.Spec{Owner: "web", Constraints: []*constraint.Expression{x}}
		rows := []state.Row{
			oracle.Instance("a", oracle.Metric("m", 10)), oracle.Instance("b", oracle.Metric("m", 40)),
			oracle.Instance("c", oracle.Metric("m", 20)),
			oracle.Task("t1", "a", oracle.Load(20), oracle.Group("service:web")),
			oracle.Task("t2", "b", oracle.Owner("db"), oracle.Group("service:db"), oracle.Load(0)),
		}
		p := plan(rows, movers(spec))
		if len(p.Moves) != 1 || p.Moves[0].To == "b" && !mayGoToB {
			t.Errorf("%s: moves are %q", query, summary(p))
		}
		rows[2] = oracle.Instance("c", oracle.Metric("m", 5)) // only b is left
		if p := plan(rows, movers(spec)); (len(p.Moves) == 1) != mayGoToB {
			t.Errorf("%s, with b alone: moves are %q", query, summary(p))
		}
	}
}

// A planner that remembers problems makes room as a new one does, after any change.
func TestRoomIsMadeAsByANewPlanner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range 3 {
			h := planning{History: oracle.NewHistory(t)}
			h.planner = moves.NewPlanner(h.Engine)
			r := h.DrawRequest(t)
			r.Count, r.Instances = 1, nil
			t.Repeat(map[string]func(*rapid.T){
				"task":          h.ChangeTask,
				"end":           h.EndTask,
				"instance":      h.ChangeInstance,
				"configuration": h.ChangeConfiguration,
				"room": func(t *rapid.T) {
					m := moves.Request{Owners: map[string]moves.Owner{}}
					for _, owner := range slices.Sorted(maps.Keys(h.Movers)) {
						m.Owners[owner] = moves.Owner{Spec: h.Movers[owner], Target: 3}
					}
					got, want := h.planner.MakeRoom(r, m), moves.NewPlanner(placement.New(h.Snap)).MakeRoom(r, m)
					if summary(got) != summary(want) || !slices.Equal(got.Places, want.Places) ||
						!slices.Equal(got.Unrepaired, want.Unrepaired) {
						t.Fatalf("%q in %q, and a new planner %q in %q", summary(got), got.Places, summary(want),
							want.Places)
					}
				},
			})
		}
	})
}

// Instances that a spec avoids and that are not there do not matter: a task may move to any other.
func TestAvoidedInstancesThatAreGone(t *testing.T) {
	spec := anyTask("web")
	spec.Avoid = []string{"gone"}
	p := plan([]state.Row{oracle.Instance("a"), oracle.Instance("b", oracle.Metric("m", 10)),
		oracle.Task("t", "b", oracle.Load(20))},
		movers(spec))
	expectMoves(t, p, "t: b > a")
}

// A rule of domains that a move breaks for one of higher priority is left, too.
func TestDomainRulesThatAreGivenUpAreListed(t *testing.T) {
	for attribute, rule := range map[string]placement.Rule{cluster.AttributeFaultDomain: placement.RuleFault,
		cluster.AttributeUpgrade: placement.RuleUpgrade} {
		rows := []state.Row{oracle.Configuration(cluster.Configuration{
			Priorities: cluster.Priorities{FaultDomain: 1, UpgradeDomain: 1}}),
			oracle.Task("t1", "a", oracle.Load(50)), oracle.Task("t2", "c", oracle.Load(1))}
		for n, id := range []string{"a", "b", "c"} { // b and c are in one domain
			domains := map[string]string{cluster.AttributeFaultDomain: "fd:/x", cluster.AttributeUpgrade: "x"}
			domains[attribute] = []string{"fd:/1", "fd:/2", "fd:/2"}[n]
			rows = append(rows, oracle.Instance(id, oracle.Metric("m", []int64{10, 100, 10}[n]),
				oracle.Attribute(cluster.AttributeFaultDomain, domains[cluster.AttributeFaultDomain]),
				oracle.Attribute(cluster.AttributeUpgrade, domains[cluster.AttributeUpgrade])))
		}
		m := movers(&placement.Spec{Owner: "web", DomainPolicy: cluster.PolicyDifference})
		m.Keep = func(t *cluster.Task) bool { return t.ID == "t2" }
		p := plan(rows, m)
		expectMoves(t, p, "t1: a > b")
		if len(p.Unrepaired) != 1 || p.Unrepaired[0].Rule != rule || p.Unrepaired[0].Have != 1 {
			t.Errorf("left are %+v, expected the rule of %s", p.Unrepaired, attribute)
		}
	}
}
