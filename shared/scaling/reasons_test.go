package scaling_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/scaling"
)

var halfInstance = cluster.Resources{CPU: 1024 * cluster.CPUUnit, Memory: 512}

// A demand is described with its owners, what it needs and why.
func TestDemandInWords(t *testing.T) {
	for _, c := range []struct {
		demand scaling.Demand
		want   string
	}{
		{scaling.Demand{Owners: []string{"service a"}, Count: 2, ExcludedBecause: "it is large", Instances: 1,
			Fitting: 1},
			"2 tasks of service a: ignored, because it is large"},
		{scaling.Demand{Owners: []string{"service a", "service b"}, Count: 1, Fitting: 1},
			"1 task of service a, service b: there is room, and placement has not used it yet"},
		{scaling.Demand{Owners: []string{"service a"}, Count: 1, Instances: 1},
			"1 task of service a needs 1 instance at least: no instance of the group is known yet"},
		{scaling.Demand{Owners: []string{"service a"}, Count: 9, Fitting: 2, Instances: 4, PerInstance: 2},
			"7 tasks of service a need 4 instances, 2 fit on one at most"},
		{scaling.Demand{Owners: []string{"service a"}, Count: 9, Instances: 4, PerInstance: 2, Limit: "no CPU"},
			"9 tasks of service a need 4 instances, 2 fit on one at most (no CPU)"},
	} {
		expect(t, "demand", c.demand.String(), c.want)
	}
}

// Tasks that need the same are one demand, in any order of their ports, attributes and
// constraints are written. Different owners are apart only if a task may not share an instance with
// others of its owner.
func TestEqualNeedsAreOneDemand(t *testing.T) {
	ports := func(numbers ...int) func(*placement.Spec) {
		return func(s *placement.Spec) {
			for _, n := range numbers {
				s.Ports = append(s.Ports, cluster.Port{Number: n, Protocol: "tcp"})
			}
		}
	}
	attributes := func(names ...string) func(*placement.Spec) {
		return func(s *placement.Spec) { s.Attributes = names }
	}
	alone := func(s *placement.Spec) { s.PerInstance = 1 }
	bound := func(to string) func(*placement.Spec) {
		spec, err := placement.NewSpec(&cluster.TaskDefinition{Needs: small}, "w", "", &cluster.Rules{
			Constraints: []cluster.PlacementConstraint{{Type: cluster.MemberOf, Expression: "attribute:x == " + to}}})
		if err != nil {
			t.Fatal(err)
		}
		return func(s *placement.Spec) { *s = *spec }
	}
	for name, c := range map[string]struct {
		a, b func(*placement.Spec)
		want int
	}{
		"Ports":           {ports(80, 443), ports(443, 80), 1},
		"OtherPorts":      {ports(80, 443), ports(80, 444), 2},
		"Attributes":      {attributes("x", "y"), attributes("y", "x"), 1},
		"OtherAttributes": {attributes("x", "y"), attributes("y", "z"), 2},
		"OnePerInstance":  {alone, alone, 2},
		"Constraints":     {bound("1"), bound("1"), 1},
		"OtherConstraint": {bound("1"), bound("2"), 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(instances(1, 0), waits(1, small, c.a), waits(1, small, c.b))
			expect(t, "demands", len(w.decide().Demands), c.want)
		})
	}
	t.Run("WithoutTasks", func(t *testing.T) {
		expect(t, "demands", len(newWorld(instances(1, 0), waits(0, small), waits(1, small)).decide().Demands), 1)
	})
}

// Tasks that have room need no instance: only placement has to act.
func TestTasksWithRoomNeedNoInstance(t *testing.T) {
	w := newWorld(instances(1, 0), waits(3, small)) // one of four is there
	d := w.decide()
	expect(t, "demand", [3]int{d.Demands[0].Count, d.Demands[0].Fitting, d.Demands[0].Instances}, [3]int{3, 3, 0})
	expect(t, "desired", d.Desired, 1)
	expect(t, "metric", d.Reservation, 100)
}

// What is about to happen, and why nothing does, is said of the group (C3, C5).
func TestWhyThisSize(t *testing.T) {
	for name, c := range map[string]struct {
		options []option
		desired int
		why     string
	}{
		"Grows": {[]option{instances(1, 0), full, waits(2, halfInstance)}, 2,
			"desired capacity from 1 to 2. 2 tasks of service w0 need 1 instance, 2 fit on one at most"},
		"AtItsMaximum": {[]option{instances(2, 0), full, bounds(0, 2), waits(2, halfInstance)}, 2,
			"3 instances are needed, but the group is at its maximum of 2"},
		"EmptyAtItsMaximum": {[]option{bounds(0, 0), waits(1, small)}, 0,
			"2 instances are needed, but the group is at its maximum of 0"},
		"JustEnoughAtItsMaximum": {[]option{instances(2, 0), full, bounds(0, 3), waits(2, halfInstance),
			func(w *world) { w.group.Desired = 3; w.machine(3, "Pending"); w.group.Desired = 3 }}, 3,
			"the group is on its way to 3 instances"},
		"HasTheRightSize": {[]option{instances(2, 0)}, 2,
			"the group has the right size: 2 of 2 running instances are needed, the target is 100 %"},
		"NeedsNone": {[]option{bounds(0, 9)}, 0, "the group needs no instance, and has none"},
		"CannotRunWhatWaits": {[]option{instances(2, 0), waits(3, cluster.Resources{Memory: 1 << 20})}, 2,
			"the group has the right size: 2 of 2 running instances are needed, the target is 100 %; 3 tasks of service " +
				"w0: ignored, because a task does not fit on any of the group's instance types, not even the largest"},
		"AtItsMinimum": {[]option{instances(0, 1), bounds(1, 9)}, 1, "the group is at its minimum of 1"},
		"KeepsFreeCapacity": {[]option{instances(2, 3), target(50), bounds(0, 9)}, 5,
			"the metric has been low for 1 minute of 15"},
		"IsFreeEnough": {[]option{instances(3, 2), target(67), bounds(0, 9)}, 5,
			"free capacity is needed: 3 of 5 running instances are needed, the target is 67 %"},
		"IsUpgraded": {[]option{instances(1, 1), func(w *world) { w.upgrade = true }}, 2,
			"the group's nodes are being upgraded"},
		"TracksATarget": {[]option{instances(1, 1),
			setting(func(s *cluster.ManagedScaling) { s.TargetTracking = true })}, 2,
			"a target tracking policy sizes the group"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newWorld(c.options...).decide()
			expect(t, "desired", d.Desired, c.desired)
			contains(t, "why", d.Why, c.why)
		})
	}
	t.Run("DrainingInstancesReceiveTasksFirst", func(t *testing.T) {
		w := newWorld(consolidating(100, time.Hour), waits(2, halfInstance))
		w.instance(1, 4)
		w.instance(2, 0, status(cluster.InstanceDraining))
		w.history.Drains = []cluster.Drain{{Instance: "c-2", At: noon.Add(-time.Minute)}}
		d := w.decide()
		expect(t, "desired", d.Desired, 2)
		expect(t, "why", d.Why, "3 instances are needed; instances that were draining receive tasks again first")
		contains(t, "why i-2", why(d, "i-2"), "it can receive tasks again: more instances are needed")
	})
}

// Events about a change of the size are true only once it is made; others at once. Each owner
// whose tasks need instances learns why there are no more, once.
func TestEventsOfTheSize(t *testing.T) {
	after := func(d scaling.Decision) (out []bool) {
		for _, e := range d.Events {
			out = append(out, e.AfterResize)
		}
		return out
	}
	d := newWorld(instances(1, 0), full, waits(2, halfInstance)).decide()
	expect(t, "growing", fmt.Sprint(after(d)), "[true]")
	contains(t, "message", messages(d), "(capacity provider spot) desired capacity from 1 to 2.")

	w := newWorld(instances(1, 2))
	w.history.LowMinutes, w.history.LastLowMinute = 14, noon.Add(-time.Minute)
	d = w.decide()
	expect(t, "desired", d.Desired, 2)
	expect(t, "shrinking", fmt.Sprint(after(d)), "[true]")
	contains(t, "message", messages(d), "(capacity provider spot) desired capacity from 3 to 2: 1 of 3 running")

	huge := cluster.Resources{CPU: 9 * cluster.VCPU, Memory: 512}
	w = newWorld(instances(1, 0), full, bounds(0, 1), waits(2, halfInstance), waits(2, halfInstance,
		func(s *placement.Spec) { s.Ports = []cluster.Port{{Number: 80, Protocol: "tcp"}}; s.Owner = "w0" }),
		waits(1, huge))
	w.waiting[1].Name = "service w0"
	d = w.decide()
	var told []string
	for _, e := range d.Events {
		if strings.Contains(e.Message, "tasks wait for capacity provider") {
			told = append(told, e.Owner)
		}
	}
	expect(t, "owners that wait", strings.Join(told, ", "), "service w0")
	expect(t, "at the maximum", slices.Contains(after(d), true), false)
}

// An instance with tasks names three of them and counts the others. A task that is not RUNNING has
// its status, a standalone one no service.
func TestTasksOfAnInstanceAreNamed(t *testing.T) {
	w := newWorld()
	w.instance(1, 3)
	contains(t, "three", why(w.decide(), "i-1"),
		"it runs 3 non-daemon tasks (t1-0 of service web, t1-1 of service web, t1-2 of service web); ")
	w.task("a", 1, of(""), func(t *cluster.Task) { t.Last = "" })
	contains(t, "four", why(w.decide(), "i-1"),
		"it runs 4 non-daemon tasks (a (PENDING), t1-0 of service web, t1-1 of service "+
			"web, 1 more)")
	w.task("b", 1, of("log"))
	contains(t, "a daemon is none", why(w.decide(), "i-1"), "it runs 4 non-daemon tasks")
}

// An instance without tasks has a reason to stay, in this order (C5, C6).
func TestWhyAnEmptyInstanceStays(t *testing.T) {
	for name, c := range map[string]struct {
		change option
		why    string
	}{
		"ItMayGo": {func(*world) {}, "it runs no task; the metric has been low for 1 minute of 15"},
		"OnlyDaemons": {func(w *world) { w.task("d", 2, of("log")) },
			"it runs only daemon tasks; the metric has been low"},
		"ProtectedElse": {func(w *world) { w.group.Instances[1].Protected = true },
			"it is protected from scale-in by someone else"},
		"WarmsUp": {func(w *world) {
			protection(w)
			w.group.Instances[1].Protected, w.group.Instances[1].LaunchedAt = true, noon.Add(-time.Minute)
		}, "it is protected from scale-in while it warms up, until 2026-11-21T12:04:00Z"},
		"Released": {func(w *world) {
			protection(w)
			w.group.Instances[1].Protected = true
		}, "its scale-in protection is about to end"},
		"MoreAreNeeded": {waits(2, cluster.Resources{CPU: 2 * cluster.VCPU, Memory: 4096}),
			"it runs no task; 3 instances are needed, 2 are running"},
		"IsLaunched": {func(w *world) { w.group.Instances[1].Lifecycle = "Pending" },
			"the group is still launching it"},
		"IsLeaving": {func(w *world) { w.group.Instances[1].Lifecycle = "Terminating" },
			"it is not counted in the group: it is Terminating"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newWorld(instances(1, 1), c.change).decide()
			contains(t, "why", why(d, "i-2"), c.why)
			expect(t, "container instance", d.Verdicts[1].Instance, "c-2")
		})
	}
	t.Run("WithoutAContainerInstance", func(t *testing.T) {
		d := newWorld(instances(1, 0), unregistered(1, time.Minute)).decide()
		contains(t, "why", why(d, "i-2"), "it was launched at 2026-11-21T11:59:00Z and has not registered yet")
		expect(t, "container instance", d.Verdicts[1].Instance, "")
	})
}

// The lists of a decision are sorted by id, for any order of the group's instances (10 comes
// before 9).
func TestDecisionsAreSorted(t *testing.T) {
	w := newWorld(protection)
	for _, n := range []int{11, 9, 10} {
		w.instance(n, 0).Protected = true
	}
	d := w.decide()
	expect(t, "marked", fmt.Sprint(d.MarkReleasable), "[c-10 c-11 c-9]")
	noted(w)
	w.provider.Protection = false
	w.history.Protecting = true
	d = w.decide()
	expect(t, "unmarked", fmt.Sprint(d.UnmarkReleasable), "[c-10 c-11 c-9]")
	expect(t, "released", fmt.Sprint(d.Release), "[i-10 i-11 i-9]")
	w.provider.Scaling.Enabled = false
	w.history.Protecting = true
	for _, id := range []string{"c-9", "c-11", "c-10"} {
		w.history.Drains = append(w.history.Drains, cluster.Drain{Instance: id, At: w.now})
	}
	for _, r := range w.rows {
		if i, ok := r.(*cluster.Instance); ok {
			i.Status = cluster.InstanceDraining
		}
	}
	d = w.decide()
	expect(t, "unmarked while scaling is off", fmt.Sprint(d.UnmarkReleasable), "[c-10 c-11 c-9]")
	expect(t, "put back while scaling is off", fmt.Sprint(d.Undrain), "[c-10 c-11 c-9]")
}

// A launch that EC2 gives no time for began when the instance was first seen, or registered, if
// that was sooner. The time is remembered.
func TestTimeOfALaunch(t *testing.T) {
	w := newWorld(instances(1, 0))
	w.group.Instances[0].LaunchedAt = time.Time{}
	w.history.UnregisteredSince = nil
	w.rows[1].(*cluster.Instance).RegisteredAt = cluster.At(noon.Add(-10 * time.Minute))
	w.decide()
	expect(t, "registered before", w.history.LaunchTimes["i-1"], noon.Add(-10*time.Minute))
	w.rows[1].(*cluster.Instance).RegisteredAt = cluster.At(noon.Add(-time.Minute))
	w.decide()
	expect(t, "remembered", w.history.LaunchTimes["i-1"], noon.Add(-10*time.Minute))
	w.history.LaunchTimes = nil
	w.history.UnregisteredSince = map[string]time.Time{"i-1": noon.Add(-3 * time.Minute)}
	w.decide()
	expect(t, "seen before", w.history.LaunchTimes["i-1"], noon.Add(-3*time.Minute))
	w.history.LaunchTimes, w.rows[1].(*cluster.Instance).RegisteredAt = nil, 0
	w.history.UnregisteredSince = nil
	w.decide()
	expect(t, "never before", w.history.LaunchTimes["i-1"], noon)
	w = newWorld(unregistered(1, time.Hour))
	w.history.FirstReconciledAt, w.history.UnregisteredSince = time.Time{}, nil
	w.decide()
	expect(t, "there when managed scaling began", w.history.UnregisteredSince["i-1"], noon)
}

// An instance that did not register says what becomes of it, to the operator and once to each
// service that waits.
func TestUnregisteredInstancesInWords(t *testing.T) {
	waiting := []option{instances(2, 0), full, waits(2, halfInstance)}
	replaced := func(n int, more ...option) scaling.Decision {
		options := slices.Concat(waiting, []option{replacing, unregistered(n, time.Hour), bounds(n+2, 99),
			setting(func(s *cluster.ManagedScaling) { s.MaxScaleInPercent = 100 })}, more)
		return newWorld(options...).decide()
	}
	contains(t, "one", messages(replaced(1)),
		"1 instance of capacity provider spot did not register with the cluster within "+
			"5m0s, and is replaced: i-3.")
	d := replaced(3, waits(0, small), waits(1, small))
	contains(t, "three", messages(d), "and are replaced: i-3, i-4, i-5.")
	expect(t, "in the list of those that never registered", fmt.Sprint(d.Unregistered), "[i-3 i-4 i-5]")
	var told []string
	for _, e := range d.Events {
		if strings.Contains(e.Message, "tasks wait: 3 instances") {
			told = append(told, e.Owner)
		}
	}
	expect(t, "services", strings.Join(told, ", "), "service w0, service w2")

	d = newWorld(append(waiting, unregistered(1, time.Hour))...).decide()
	contains(t, "without the setting", messages(d),
		"it counts as empty, and the group gets another instance if tasks wait; with the tag")
	d = newWorld(append(waiting, unregistered(1, time.Hour), replacing, protection, protected)...).decide()
	contains(t, "protected", why(d, "i-3"), "its scale-in protection must end before it is replaced")
	contains(t, "with the setting", messages(d), "it counts as empty, and is replaced if tasks wait.")
	d = newWorld(instances(2, 0), unregistered(1, time.Hour), replacing, protection, protected).decide()
	expect(t, "where none is needed", strings.Contains(why(d, "i-3"), "must end"), false)
}
