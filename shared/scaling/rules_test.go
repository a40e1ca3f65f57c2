package scaling_test

import (
	"fmt"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/placement"
)

// While the group is made smaller, no instance is emptied as well: the group may take just the one
// that the tasks were to go to.
func TestConsolidationWaitsForAScaleIn(t *testing.T) {
	w := newWorld(lightlyUsed, web("web", 5, ""), consolidating(100, time.Minute),
		setting(func(s *cluster.ManagedScaling) { s.LowDatapoints = 1 }))
	w.instance(4, 0)
	d := w.decide()
	expect(t, "desired", d.Desired, 3)
	expect(t, "drain", fmt.Sprint(d.Drain), "[]")
	contains(t, "why", why(d, "i-2"), "the group is being scaled in")
}

// Instances are named in the order of their ids, not in that of the group.
func TestDecisionsNameInstancesInOrder(t *testing.T) {
	w := newWorld(web("web", 3, ""), consolidating(100, time.Minute))
	w.movers["web"].Spec.Strategies = []cluster.PlacementStrategy{{Type: cluster.StrategyBinpack, Field: "memory"}}
	w.instance(1, 0)
	full := cluster.Resources{CPU: 512 * cluster.CPUUnit, Memory: 2560}
	w.task("alone", 1, of(""), needing(full)) // it stays, and leaves room for three
	w.instance(2, 2)
	w.instance(3, 1)
	d := w.decide()
	expect(t, "plan", plan(d.Consolidation), "i-1 0 keep; i-3 1 drain t3-0>c-1; i-2 2 drain t2-0>c-1 t2-1>c-1")
	expect(t, "drain", fmt.Sprint(d.Drain), "[c-2 c-3]")
}

// Tasks whose constraints differ in their order alone need the same: they share instances.
func TestOrderOfConstraintsMakesNoDifference(t *testing.T) {
	constraints := []cluster.PlacementConstraint{
		{Type: cluster.MemberOf, Expression: "attribute:ecs.instance-type == m5.large"},
		{Type: cluster.MemberOf, Expression: "attribute:ecs.availability-zone == a"},
	}
	half := cluster.Resources{CPU: 1024 * cluster.CPUUnit, Memory: 512}
	bound := func(n int) func(*placement.Spec) {
		rules := &cluster.Rules{Constraints: []cluster.PlacementConstraint{constraints[n], constraints[1-n]}}
		spec, err := placement.NewSpec(&cluster.TaskDefinition{Needs: half}, fmt.Sprintf("w%d", n), "", rules)
		if err != nil {
			t.Fatal(err)
		}
		return func(s *placement.Spec) { *s = *spec }
	}
	w := newWorld(instances(1, 0), waits(1, half, bound(0)), waits(1, half, bound(1)))
	w.task("full", 1, needing(cluster.Resources{CPU: 1536 * cluster.CPUUnit, Memory: 512}))
	d := w.decide()
	expect(t, "desired", d.Desired, 2)
	expect(t, "groups of tasks that need the same", len(d.Demands), 1)
}

// An agent that has registered again is the newer container instance, whichever is read first.
func TestTheNewerRegistrationCounts(t *testing.T) {
	for range 20 { // instances are read in a random order
		w := newWorld()
		w.instance(1, 1)
		old := row(9)
		old.EC2InstanceID, old.RegisteredAt, old.AgentConnected = "i-1", cluster.At(noon.Add(-2*time.Hour)), false
		w.rows = append(w.rows, old)
		contains(t, "why", why(w.decide(), "i-1"), "it runs 1 non-daemon task")
	}
}

// A task that was moved in the plan counts with the load that it has reported, and so does the one that
// would follow it: beside 3 of 10 there is room for twice 3, and not for twice 4.
func TestMovedTasksCountWithTheirReportedLoad(t *testing.T) {
	expectDrain := func(defaults []cluster.Metric, reported int64, want string) {
		w := newWorld(web("web", 3, ""), consolidating(100, time.Minute))
		w.movers["web"].Spec.Loads = defaults
		disk := with(func(c *cluster.Capacity) { c.Metrics = map[string]int64{"disk": 10} })
		w.instance(1, 0, disk)
		w.instance(2, 0, disk)
		load := func(n int64) taskOption {
			return func(t *cluster.Task) { t.Reported = map[string]int64{"disk": n} }
		}
		w.task("a", 1, load(3))
		w.task("alone", 1, of(""))
		w.task("b", 2, load(reported))
		w.task("c", 2, load(reported))
		expect(t, fmt.Sprintf("drain with loads of %d and %v by default", reported, defaults),
			fmt.Sprint(w.decide().Drain), want)
	}
	for _, defaults := range [][]cluster.Metric{{{Name: "disk", Load: 1}}, nil} {
		expectDrain(defaults, 3, "[c-2]")
		expectDrain(defaults, 4, "[]")
	}
}

// Tasks that need more devices are placed first: the others take what is left.
func TestTasksWithMoreDevicesArePlacedFirst(t *testing.T) {
	w := newWorld(web("one", 1, ""), web("two", 1, ""), consolidating(100, time.Minute))
	devices := func(n int) size {
		return with(func(c *cluster.Capacity) {
			for g := range n {
				c.GPUs = append(c.GPUs, fmt.Sprint("gpu-", g))
			}
		})
	}
	w.instance(1, 0, devices(2))
	w.instance(2, 0, devices(1))
	w.instance(3, 0, devices(3))
	for n, name := range []string{"one", "two"} {
		needs := cluster.Resources{Memory: 512, GPUs: n + 1}
		w.movers[name].Spec.Needs = needs
		w.movers[name].Spec.Scoring = ""
		w.movers[name].Spec.Strategies = []cluster.PlacementStrategy{{Type: cluster.StrategyBinpack, Field: "memory"}}
		w.task(name, 3, of(name), needing(needs), func(t *cluster.Task) { t.GPUs = []int{n, 2 * n}[:n+1] })
	}
	w.task("alone-1", 1, of(""), needing(cluster.Resources{Memory: 2048}))
	w.task("alone-2", 2, of(""), needing(cluster.Resources{Memory: 512}))
	d := w.decide()
	expect(t, "drain", fmt.Sprint(d.Drain), "[c-3]")
}
