package scaling_test

import (
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/placement"
)

// CapacityProviderReservation is M ÷ N × 100 (C1), and the desired capacity follows from it (C2,
// C3).
func TestMetric(t *testing.T) {
	big := cluster.Resources{CPU: 1024 * cluster.CPUUnit, Memory: 512} // 2 on an instance
	for name, c := range map[string]struct {
		options       []option
		needed        int
		running       int
		metric        float64
		desired, from int
	}{
		// N = 0.
		"NothingRunsNothingWaits":         {nil, 0, 0, 100, 0, 0},
		"NothingRunsNothingWaitsTarget50": {[]option{target(50)}, 0, 0, 50, 0, 0},
		"FromZeroTwo":                     {[]option{waits(1, big)}, 1, 0, 200, 2, 0},
		"FromZeroTwoHoweverMany":          {[]option{waits(50, big)}, 1, 0, 200, 2, 0},
		"FromZeroTwoWithTarget50":         {[]option{waits(1, big), target(50)}, 1, 0, 200, 2, 0},
		"FromZeroWithinTheMaximum":        {[]option{waits(1, big), bounds(0, 1)}, 1, 0, 200, 1, 0},
		"FromZeroWithinTheLargestStep":    {[]option{waits(1, big), steps(1, 1)}, 1, 0, 200, 1, 0},
		// The smallest step makes M 5; the metric of an empty group is 200 whatever M is, and 200 %
		// of none are two. The step counts from the next time on.
		"FromZeroTwoWhateverTheSmallestStep": {[]option{waits(1, big), steps(5, 10)}, 5, 0, 200, 2, 0},
		"FromZeroWithAnotherLaunchTemplate": {[]option{remembered("lt-1:1"), launchTemplate("lt-1:2"),
			waits(1, cluster.Resources{Memory: 5000})}, 1, 0, 200, 2, 0},
		"FromZeroNoneThatFitsTheLastOnes": {[]option{remembered("lt-1:1"), launchTemplate("lt-1:1"),
			waits(1, cluster.Resources{Memory: 5000})}, 0, 0, 100, 0, 0},
		"FromZeroNothingWithoutAMaximum": {[]option{waits(1, big), bounds(0, 0)}, 1, 0, 200, 0, 0},
		// M = N: each runs a task, or all that wait are left out.
		"AllInUse":             {[]option{instances(4, 0)}, 4, 4, 100, 4, 4},
		"AllInUseTarget80":     {[]option{instances(4, 0), target(80)}, 4, 4, 100, 5, 4},
		"AllInUseTarget90Of10": {[]option{instances(10, 0), target(90)}, 10, 10, 100, 12, 10},
		"OneFreeOfTenTarget90": {[]option{instances(9, 1), target(90)}, 9, 10, 90, 10, 10},
		"LeftOutAddsNothing": {[]option{instances(4, 0), waits(3, cluster.Resources{Memory: 5000})}, 4, 4, 100, 4,
			4},
		"LeftOutKeepsNoEmptyOnes": {[]option{instances(2, 2), waits(3, cluster.Resources{Memory: 5000})}, 2, 4, 50, 4,
			4},
		// M < N: some are empty.
		"TwoOfTenEmpty": {[]option{instances(8, 2)}, 8, 10, 80, 10, 10},
		"AllEmpty":      {[]option{instances(0, 3)}, 0, 3, 0, 3, 3},
		// M > N: N + ceil(5 tasks ÷ 2 on each) = 2 + 3.
		"TasksWait":         {[]option{instances(2, 0), full, waits(5, big)}, 5, 2, 250, 5, 2},
		"TasksWaitTarget50": {[]option{instances(2, 0), full, waits(5, big), target(50)}, 5, 2, 250, 10, 2},
		"AtLeastTheSmallestStep": {[]option{instances(2, 0), full, waits(5, big), steps(7, 10)}, 9, 2, 450, 9,
			2},
		"AtMostTheLargestStep": {[]option{instances(2, 0), full, waits(5, big), steps(1, 2)}, 4, 2, 200, 4, 2},
		"LargestStepWithTarget50": {[]option{instances(2, 0), full, waits(5, big), steps(1, 2), target(50)}, 4, 2,
			200, 4, 2},
		"WithinTheMaximum": {[]option{instances(2, 0), full, waits(5, big), bounds(0, 3)}, 5, 2, 250, 3,
			2},
		"TheLargestGroupCounts": {[]option{instances(2, 0), full, waits(5, big),
			waits(2, cluster.Resources{Memory: 4096})}, 5, 2, 250, 5, 2},
		"EmptyOnesOfNoHelpAreNeeded": {[]option{instances(1, 1), waits(1, big, inZone("b")), zoneB}, 4, 3, 400. / 3,
			4, 3},
		"WhatFitsOnlyWaitsForPlacement": {[]option{instances(1, 1), waits(3, big)}, 2, 2, 100, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(c.options...)
			d := w.decide()
			expect(t, "published", d.Published, true)
			expect(t, "M", d.Needed, c.needed)
			expect(t, "N", d.Running, c.running)
			expect(t, "metric", d.Reservation, c.metric)
			expect(t, "desired before", w.group.Desired, c.from)
			expect(t, "desired", d.Desired, c.desired)
		})
	}
}

// remembered makes the last instances, of 4,096 MiB, be of a launch template version;
// launchTemplate sets the group's.
func remembered(version string) option {
	return func(w *world) {
		w.history.Samples = []cluster.InstanceSample{{Registered: row(1).Registered, Attributes: map[string]string{},
			Template: version}}
	}
}

func launchTemplate(version string) option {
	return func(w *world) { w.group.Template = version }
}

// full adds tasks that use up what is left of the instances so far.
func full(w *world) {
	for n := range w.group.Instances {
		w.task("full-"+w.group.Instances[n].ID, n+1, needing(cluster.Resources{CPU: 1536 * cluster.CPUUnit,
			Memory: 512}))
	}
}

// zoneB adds a third, full instance in zone b.
func zoneB(w *world) {
	w.instance(3, 0, zone("b"))
	w.task("b", 3, needing(cluster.Resources{CPU: 2 * cluster.VCPU, Memory: 512}))
}

// inZone restricts tasks to one zone.
func inZone(name string) func(*placement.Spec) {
	return func(s *placement.Spec) { s.Attributes = []string{cluster.AttributeZone + "=" + name} }
}

func TestRunning(t *testing.T) {
	t.Run("CountsInstancesOfTheGroup", func(t *testing.T) {
		w := newWorld(instances(2, 0))
		for n, lifecycle := range []string{"Pending", "Pending:Wait", "Terminating", "Terminating:Wait", "Terminated",
			"Standby", "Detaching", "Warmed:Stopped"} {
			w.machine(10+n, lifecycle)
		}
		d := w.decide()
		expect(t, "N", d.Running, 2)
		expect(t, "M", d.Needed, 2)
		contains(t, "leaving", why(d, "i-13"), "it is not counted in the group: it is Terminating:Wait")
		contains(t, "launching", why(d, "i-10"), "and has not registered yet")
	})
	t.Run("CountsInstancesThatRegisterBeforeInService", func(t *testing.T) {
		w := newWorld(instances(2, 0))
		w.instance(3, 1)
		w.group.Instances[2].Lifecycle = "Pending:Wait"
		expect(t, "N", w.decide().Running, 3)
	})
	t.Run("DaemonsDoNotCount", func(t *testing.T) {
		w := newWorld(instances(1, 1))
		w.task("d1", 1, of("log"))
		w.task("d2", 2, of("log"))
		d := w.decide()
		expect(t, "M", d.Needed, 1)
		contains(t, "why", why(d, "i-2"), "it runs only daemon tasks")
	})
	t.Run("StandaloneForeignAndStoppingTasksCount", func(t *testing.T) {
		w := newWorld(instances(0, 4))
		w.task("alone", 1, of(""))
		w.task("foreign", 2, of(""), func(t *cluster.Task) { t.Foreign = true })
		w.task("stopping", 3, func(t *cluster.Task) { t.Desired = cluster.TaskStopped })
		w.task("stopped", 4, func(t *cluster.Task) { t.Last = cluster.TaskStopped })
		expect(t, "M", w.decide().Needed, 3)
	})
	t.Run("UnregisteredInstancesCountForWaitingTasks", func(t *testing.T) {
		big := cluster.Resources{CPU: 1024 * cluster.CPUUnit, Memory: 512}
		w := newWorld(instances(2, 0), full, waits(5, big))
		for n := range 2 {
			w.machine(3+n, "InService").LaunchedAt = noon.Add(-time.Minute)
		}
		d := w.decide()
		expect(t, "N", d.Running, 4)
		expect(t, "M", d.Needed, 5) // two full ones, three for the tasks
	})
	t.Run("UnregisteredInstanceCountsAsEmpty", func(t *testing.T) {
		w := newWorld(instances(2, 0))
		w.machine(3, "InService")
		d := w.decide()
		expect(t, "M", d.Needed, 2)
		expect(t, "N", d.Running, 3)
		contains(t, "event", messages(d),
			"instance i-3 has not registered with the cluster 1h0m0s after it was launched")
		contains(t, "why", why(d, "i-3"),
			"it never registered with the cluster; the metric has been low for 1 minute of 15")
	})
	t.Run("InstancesAreUnknown", func(t *testing.T) {
		w := newWorld(waits(9, small))
		w.machine(1, "InService").LaunchedAt = noon.Add(-time.Minute)
		d := w.decide()
		expect(t, "M", d.Needed, 1) // nobody knows what fits on one until the first has registered
		expect(t, "desired", d.Desired, 1)
	})
	t.Run("NotLowForAPolicyDuringAnUpgrade", func(t *testing.T) {
		for _, c := range []struct {
			policy bool
			want   float64
		}{{true, 80}, {false, 40}} {
			w := newWorld(instances(4, 6), target(80),
				setting(func(s *cluster.ManagedScaling) { s.TargetTracking = c.policy }))
			w.upgrade = true
			d := w.decide()
			expect(t, "metric", d.Reservation, c.want)
			expect(t, "M", d.Needed, 4)
		}
		w := newWorld(instances(4, 0), full, target(80), waits(4, small),
			setting(func(s *cluster.ManagedScaling) { s.TargetTracking = true }))
		w.upgrade = true
		expect(t, "metric where more are needed", w.decide().Reservation > 100, true)
	})
	t.Run("NothingIfManagedScalingIsOff", func(t *testing.T) {
		w := newWorld(instances(2, 2), waits(9, small), protection,
			setting(func(s *cluster.ManagedScaling) { s.Enabled = false }))
		d := w.decide()
		expect(t, "published", d.Published, false)
		expect(t, "desired", d.Desired, 4)
		expect(t, "changes", len(d.Protect)+len(d.Release)+len(d.Events), 0)
		expect(t, "why", why(d, "i-3"), "managed scaling is off")
	})
}
