package scaling_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/state"
)

// What the group grows for is said without the tasks that have room and those that are ignored.
func TestOnlyNeedsAreSaid(t *testing.T) {
	w := newWorld(instances(1, 0), waits(1, small), waits(4, halfInstance), waits(1,
		cluster.Resources{CPU: 9 * cluster.VCPU, Memory: 512}))
	d := w.decide()
	if !strings.HasPrefix(d.Why, "desired capacity from 1 to ") || strings.Contains(d.Why, "w0") ||
		!strings.Contains(d.Why, "service w1 need") || strings.Contains(d.Why, "w2") {
		t.Errorf("got %q", d.Why)
	}
}

// No further instance is emptied while the group grows to its target, also if no task waits. At its
// maximum it cannot grow: then an instance whose tasks fit elsewhere is emptied, and stays as free
// capacity (C5).
func TestNoConsolidationBelowTheTarget(t *testing.T) {
	w := newWorld(lightlyUsed, web("web", 5, ""), consolidating(100, time.Minute), target(50), bounds(0, 4))
	d := w.decide()
	expect(t, "drain", len(d.Drain), 0)
	contains(t, "why", why(d, "i-2"), "more instances are needed")

	w = newWorld(lightlyUsed, web("web", 5, ""), consolidating(100, time.Minute), target(50), bounds(0, 3))
	d = w.decide()
	expect(t, "drain at the maximum", fmt.Sprint(d.Drain), "[c-2]")
	expect(t, "desired", d.Desired, 3)
	w.rows = slices.DeleteFunc(w.rows, func(r state.Row) bool {
		task, ok := r.(*cluster.Task)
		return ok && task.ID == "t2-0"
	})
	for _, r := range w.rows {
		if i, ok := r.(*cluster.Instance); ok && i.ID == "c-2" {
			i.Status = cluster.InstanceDraining
		}
	}
	w.task("t1-3", 1)
	w.now = w.now.Add(time.Minute)
	d = w.decide()
	expect(t, "once it is empty", fmt.Sprint(d.Undrain, d.Terminate, d.Desired), "[c-2] [] 3")
	contains(t, "why", why(d, "i-2"), "it is needed as free capacity")
}

// Tasks that wait need the instances that are being emptied, at the maximum as below it (C5).
func TestWaitingTasksEndDrainsAtTheMaximum(t *testing.T) {
	w := newWorld(lightlyUsed, web("web", 5, ""), consolidating(100, time.Minute), target(50), bounds(0, 3))
	w.decide()
	w.waiting = newWorld(waits(9, small)).waiting
	w.now = w.now.Add(time.Minute)
	expect(t, "undrain", fmt.Sprint(w.decide().Undrain), "[c-2]")
}

// A drain uses the disruption budget for its window, also while it goes on. The instances that are
// being emptied count for the minimum, and each drain is remembered and reported.
func TestDrainsUseTheBudget(t *testing.T) {
	begun := func(ago time.Duration, options ...option) (*world, func() string) {
		w := newWorld(append([]option{consolidating(1, 10*time.Minute), web("web", 4, "")}, options...)...)
		w.instance(1, 1)
		w.instance(2, 1)
		w.instance(3, 1)
		w.instance(4, 1, status(cluster.InstanceDraining))
		w.history.Drains = []cluster.Drain{{Instance: "c-4", At: noon.Add(-ago)}}
		return w, func() string { return fmt.Sprint(w.decide().Drain) }
	}
	_, drained := begun(9 * time.Minute)
	expect(t, "within the window", drained(), "[]")
	w, drained := begun(10 * time.Minute)
	expect(t, "after it", drained(), "[c-2]")
	expect(t, "remembered", fmt.Sprint(len(w.history.Drains), w.history.Drains[1]),
		fmt.Sprint(2, cluster.Drain{Instance: "c-2", At: noon}))
	_, drained = begun(10*time.Minute, bounds(3, 9))
	expect(t, "at the minimum less the one that leaves", drained(), "[]")
	_, drained = begun(10*time.Minute, bounds(2, 9))
	expect(t, "above it", drained(), "[c-2]")

	w = newWorld(lightlyUsed, web("web", 5, ""), consolidating(100, time.Minute))
	w.group.Instances[2].LaunchedAt = noon.Add(-time.Minute)
	d := w.decide()
	expect(t, "plan", plan(d.Consolidation), "i-2 1 drain t2-0>c-1; i-3 1 keep; i-1 3 keep")
	expect(t, "why i-3", d.Consolidation[1].Why, "it is warming up")
	expect(t, "reported", strings.Count(messages(d), "is being drained"), 1)
}

// A group remembers one instance of each type and zone, at most 60.
func TestSamples(t *testing.T) {
	w := newWorld()
	for n := range 4 {
		w.instance(n+1, 1, kind([]string{"m5.large", "c5.large"}[n%2]), zone([]string{"a", "a", "a", "b"}[n]))
	}
	w.decide()
	expect(t, "samples", len(w.history.Samples), 3)
	w = newWorld()
	for n := range 62 {
		w.instance(n+1, 1, kind(fmt.Sprint("type", n)))
	}
	w.decide()
	expect(t, "samples of many types", len(w.history.Samples), 60)
}

// A service with several waiting revisions learns once that instances are replaced.
func TestServicesLearnOnce(t *testing.T) {
	w := newWorld(instances(2, 0), full, waits(2, halfInstance), waits(2, halfInstance), replacing,
		unregistered(1, time.Hour))
	w.waiting[1].Name = w.waiting[0].Name
	expect(t, "events", strings.Count(messages(w.decide()), "tasks wait: 1 instance of capacity provider"), 1)
}

// The group keeps its size, and says why, if each instance without tasks is protected (C5, C6).
func TestProtectedEmptyInstancesStay(t *testing.T) {
	w := newWorld(instances(1, 1))
	w.group.Instances[1].Protected = true
	w.history.LowMinutes, w.history.LastLowMinute = 14, noon.Add(-time.Minute)
	d := w.decide()
	expect(t, "desired", d.Desired, 2)
	contains(t, "why", d.Why, "every instance without tasks is protected from scale-in")
	expect(t, "last scale-in", w.history.LastScaleIn.IsZero(), true)
}

// The time at which the budget has room again is that of the oldest drain in its window.
func TestBudgetEndsWithTheOldestDrain(t *testing.T) {
	w := newWorld(consolidating(20, 10*time.Minute), web("web", 20, ""))
	for n := range 10 {
		w.instance(n+1, 2)
	}
	w.history.Drains = []cluster.Drain{{Instance: "c-gone", At: noon.Add(-4 * time.Minute), Finished: true}}
	d := w.decide()
	expect(t, "drains", len(d.Drain), 1)
	waiting := 0
	for _, c := range d.Consolidation {
		if c.Fits && !c.Drain {
			waiting++
			contains(t, "why", c.Why, "is used up until 2026-11-21T12:06:00Z")
		}
	}
	expect(t, "waiting for it", waiting > 0, true)
}

// The smallest size has each metric that any type limits: tasks beyond one of them are ignored
// (C2).
func TestSmallestSizeHasEveryMetric(t *testing.T) {
	load := func(name string) option {
		return waits(1, small, func(s *placement.Spec) { s.Loads = []cluster.Metric{{Name: name, Load: 2}} })
	}
	w := newWorld(load("m1"), load("m2"), load("m3"))
	w.instance(1, 4)
	w.instance(2, 4, kind("c5.large"), with(func(c *cluster.Capacity) {
		c.Metrics = map[string]int64{"m1": 1, "m2": 1,
			"m3": 2}
	}))
	for _, d := range w.decide().Demands {
		expect(t, d.Owners[0]+" is ignored", d.ExcludedBecause != "", d.Owners[0] != "service w2")
	}
}

// A type that has registered is as it registered, not as EC2 describes it: the agent keeps some of
// its memory (C2).
func TestRegisteredTypesAreAsTheyRegistered(t *testing.T) {
	quarter := cluster.Resources{CPU: 1, Memory: 1024}
	w := newWorld(instances(1, 0), full, waits(40, quarter))
	w.history.Launches = cluster.LaunchTypes{Source: w.group.LaunchSource(), ReadAt: noon,
		Types: []cluster.InstanceType{{Name: "m5.large", VCPUs: 2, Memory: 8192, Interfaces: 3}}}
	expect(t, "tasks on an instance", w.decide().Demands[0].PerInstance, 4)
}
