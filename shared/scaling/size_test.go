package scaling_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/scaling"
)

// launched sets when all instances were launched.
func launched(ago time.Duration) option {
	return func(w *world) {
		for n := range w.group.Instances {
			w.group.Instances[n].LaunchedAt = w.now.Add(-ago)
		}
	}
}

var untilRegistered = setting(func(s *cluster.ManagedScaling) { s.UntilRegistered = true })

// An instance in its warm-up blocks scaling out (C3).
func TestWarmup(t *testing.T) {
	half := cluster.Resources{CPU: 1024 * cluster.CPUUnit, Memory: 512}
	for name, c := range map[string]struct {
		options []option
		desired int
	}{
		"Blocks": {[]option{launched(299 * time.Second)}, 2},
		"IsOver": {[]option{launched(300 * time.Second)}, 5},
		"OfNoLength": {[]option{launched(0),
			setting(func(s *cluster.ManagedScaling) { s.Warmup = 0 })}, 5},
		"OfOneIsEnough":  {[]option{func(w *world) { w.group.Instances[1].LaunchedAt = noon.Add(-time.Minute) }}, 2},
		"OfOneLaunching": {[]option{func(w *world) { w.machine(9, "Pending").LaunchedAt = noon }}, 3},
		"OfOneLeavingDoesNot": {[]option{func(w *world) {
			w.machine(9,
				"Terminating:Wait").LaunchedAt = noon
		}}, 5},
		"EndsWithTheRegistration": {[]option{launched(time.Minute), untilRegistered}, 5},
		"BlocksUntilTheRegistration": {[]option{func(w *world) { w.machine(9, "InService").LaunchedAt = noon },
			untilRegistered}, 3},
		"DoesNotWaitForItForEver": {[]option{func(w *world) {
			w.machine(9,
				"InService").LaunchedAt = noon.Add(-300 * time.Second)
		}, untilRegistered}, 6},
		"OfOneYetToBeLaunched": {[]option{scaledOut(299 * time.Second), func(w *world) { w.group.Desired++ }},
			3},
		"NotOfOneThatIsNotLaunched": {[]option{scaledOut(300 * time.Second), func(w *world) { w.group.Desired++ }},
			5},
		// an hour ago
		"WithoutALaunchTimeRegistered": {[]option{func(w *world) { w.group.Instances[0].LaunchedAt = time.Time{} }},
			5},
		"WithoutALaunchTimeNeverSeenIs": {[]option{func(w *world) {
			w.machine(9, "InService").LaunchedAt,
				w.history.UnregisteredSince = time.Time{}, nil
		}}, 3},
		"WithoutALaunchTimeFirstSeen": {[]option{func(w *world) {
			w.machine(9, "InService").LaunchedAt = time.Time{}
			w.history.UnregisteredSince = map[string]time.Time{"i-9": noon.Add(-300 * time.Second)}
		}}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(append([]option{instances(2, 0), full, waits(5, half)}, c.options...)...)
			d := w.decide()
			expect(t, "desired", d.Desired, c.desired)
			if d.Desired == w.group.Desired {
				contains(t, "why", d.Why, " scaling out")
			}
		})
	}
	for name, after := range map[string]time.Duration{"BeforeItIsWarm": 200 * time.Second,
		"OnceItIsWarm": 400 * time.Second, "LongAfter": time.Hour} {
		t.Run("WithoutALaunchTimeDoesNotRestartAtRegistration/"+name, func(t *testing.T) {
			w := newWorld(instances(2, 0), launched(0), full, waits(5, half))
			w.machine(9, "InService")
			for n := range w.group.Instances {
				w.group.Instances[n].LaunchedAt = time.Time{}
			}
			w.history.UnregisteredSince = nil
			expect(t, "desired at first", w.decide().Desired, 3)
			w.now = noon.Add(299 * time.Second)
			expect(t, "desired while it warms up", w.decide().Desired, 3)
			w.now = noon.Add(max(after, 300*time.Second))
			w.rows = append(w.rows, row(9, func(i *cluster.Instance) { i.RegisteredAt = cluster.At(noon.Add(after)) }))
			for n := range 4 {
				w.task(fmt.Sprintf("t9-%d", n), 9)
			}
			expect(t, "desired", w.decide().Desired, 6)
			w.now = w.now.Add(time.Minute)
			d := w.decide()
			expect(t, "desired a minute later", d.Desired, 6)
			expect(t, "instances that have yet to register", len(d.History.UnregisteredSince), 0)
			w.group.Instances = w.group.Instances[:2]
			expect(t, "launches that are remembered once it has left", len(w.decide().History.LaunchTimes), 2)
		})
	}
	t.Run("StillProtects", func(t *testing.T) {
		w := newWorld(instances(2, 0), launched(time.Minute), protection)
		expect(t, "protected", len(w.decide().Protect), 2)
	})
}

func TestGrow(t *testing.T) {
	half := cluster.Resources{CPU: 1024 * cluster.CPUUnit, Memory: 512}
	t.Run("AsksOnce", func(t *testing.T) {
		w := newWorld(instances(2, 0), full, waits(5, half))
		w.group.Desired = 5
		d := w.decide()
		expect(t, "desired", d.Desired, 5)
		expect(t, "why", d.Why, "the group is on its way to 5 instances")
		expect(t, "scaled out at", d.History.LastScaleOut.IsZero(), true)
	})
	t.Run("ReportsThatTheGroupIsFull", func(t *testing.T) {
		w := newWorld(instances(2, 0), full, waits(5, half), bounds(0, 2))
		contains(t, "event", messages(w.decide()),
			"5 instances are needed, but the group is at its maximum of 2. 5 tasks of service w0 need 3 instances, 2 fit on one at most (insufficient CPU (needs 1024 units, best free 0)).")
	})
	// eventKeys are the keys of the emitted events, without their texts
	eventKeys := func(d scaling.Decision, owner string) (out []string) {
		for _, e := range d.Events {
			if e.Owner == owner {
				out = append(out, e.Key)
			}
		}
		return out
	}
	t.Run("ReportsAFullGroupToWaitingServices", func(t *testing.T) {
		left := cluster.Resources{Memory: 5000}
		w := newWorld(instances(2, 0), full, waits(5, half), waits(3, half), waits(1, left),
			waits(2, small, func(s *placement.Spec) { s.Owner = "w0" }), bounds(0, 2))
		d := w.decide()
		contains(t, "event", messages(d),
			"service w0: (service w0) tasks wait for capacity provider spot: 6 instances are needed, but the group is at its maximum of 2.")
		expect(t, "of w0", strings.Join(eventKeys(d, "service w0"), ", "), "at maximum service w0")
		expect(t, "of w1", strings.Join(eventKeys(d, "service w1"), ", "), "at maximum service w1")
		expect(t, "of what is left out", strings.Join(eventKeys(d, "service w2"), ", "), "left out spot service w2")
	})
	t.Run("ReportsWarmingInstancesToWaitingServices", func(t *testing.T) {
		w := newWorld(instances(2, 0), full, waits(5, half), launched(time.Minute))
		d := w.decide()
		contains(t, "event", messages(d),
			"service w0: (service w0) tasks wait for capacity provider spot: 5 instances are needed; instance i-1 is warming up until 2026-11-21T12:04:00Z and blocks scaling out.")
		expect(t, "topic", strings.Join(eventKeys(d, "service w0"), ", "), "warms up service w0")
		w = newWorld(instances(2, 0), full, waits(5, half), scaledOut(time.Minute),
			func(w *world) { w.group.Desired++ })
		d = w.decide()
		contains(t, "event", messages(d), "are not launched yet and block scaling out.")
		expect(t, "topic", strings.Join(eventKeys(d, "service w0"), ", "), "warms up service w0")
	})
	t.Run("ByTheLargestStepEachTime", func(t *testing.T) {
		w := newWorld(instances(2, 0), full, waits(50, half), steps(1, 4))
		d := w.decide()
		expect(t, "desired", d.Desired, 6)
		expect(t, "scaled out at", d.History.LastScaleOut, noon)
		expect(t, "scale-outs", d.History.ScaleOuts, 1)
	})
}

// 15 datapoints in a row, then half of the group a minute, at least one (C5).
func TestShrink(t *testing.T) {
	shrink := func(w *world) []int {
		var out []int
		for range 40 {
			d := w.decide()
			if w.now = w.now.Add(time.Minute); d.Desired == w.group.Desired {
				continue
			}
			out = append(out, d.Desired)
			for w.group.Desired > d.Desired { // the last are empty
				w.group.Instances = w.group.Instances[:len(w.group.Instances)-1]
				w.group.Desired--
			}
		}
		return out
	}
	for name, c := range map[string]struct {
		options []option
		want    []int
	}{
		"ByHalf":                    {[]option{instances(1, 9)}, []int{5, 3, 2, 1}},
		"OneAtLeast":                {[]option{instances(0, 3)}, []int{2, 1, 0}},
		"ToTheMinimum":              {[]option{instances(1, 9), bounds(4, 20)}, []int{5, 4}},
		"ToWhatIsInUse":             {[]option{instances(7, 3)}, []int{7}},
		"ToWhatTheTargetLeavesFree": {[]option{instances(4, 6), target(70)}, []int{6}},
		"ByTheShareThatIsSet": {[]option{instances(5, 5),
			setting(func(s *cluster.ManagedScaling) { s.MaxScaleInPercent = 20 })}, []int{8, 7, 6, 5}},
		"ByOneWhereTheShareIsLess": {[]option{instances(1, 3),
			setting(func(s *cluster.ManagedScaling) { s.MaxScaleInPercent = 1 })}, []int{3, 2, 1}},
		"NotWhereAllAreInUse": {[]option{instances(4, 0)}, nil},
		"NotInAnUpgrade":      {[]option{instances(1, 9), func(w *world) { w.upgrade = true }}, nil},
		"NotByTwoScalers": {[]option{instances(1, 9),
			setting(func(s *cluster.ManagedScaling) { s.TargetTracking = true })}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := shrink(newWorld(c.options...))
			expect(t, "steps", len(got), len(c.want))
			for n := range min(len(got), len(c.want)) {
				expect(t, "desired", got[n], c.want[n])
			}
		})
	}
	for name, c := range map[string]struct {
		options []option
		minutes int
	}{
		"After15Minutes":      {nil, 15},
		"AfterAsManyAsAreSet": {[]option{setting(func(s *cluster.ManagedScaling) { s.LowDatapoints = 3 })}, 3},
		"AtOnceWhereSetTo1":   {[]option{setting(func(s *cluster.ManagedScaling) { s.LowDatapoints = 1 })}, 1},
		"After15MinutesOfOut": {[]option{scaledOut(10 * time.Minute),
			setting(func(s *cluster.ManagedScaling) { s.LowDatapoints = 1 })}, 6},
		"After15MinutesOfOutThatLiesAhead": {[]option{scaledOut(-time.Hour),
			setting(func(s *cluster.ManagedScaling) { s.LowDatapoints = 1 })}, 16},
		"AfterALowMinuteThatLiesAhead": {[]option{func(w *world) {
			w.history.LowMinutes, w.history.LastLowMinute = 3, w.now.Add(time.Hour)
		}}, 13},
		"AfterTheCooldownThatSet": {[]option{scaledOut(10 * time.Minute),
			setting(func(s *cluster.ManagedScaling) { s.LowDatapoints, s.Cooldown = 1, 12*time.Minute })}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			n, d := newWorld(append([]option{instances(2, 8)}, c.options...)...).minutes(40)
			expect(t, "minutes", n, c.minutes)
			expect(t, "desired", d.Desired, 5)
		})
	}
}

func scaledOut(ago time.Duration) option {
	return func(w *world) { w.history.LastScaleOut = w.now.Add(-ago) }
}

func TestDatapoints(t *testing.T) {
	half := cluster.Resources{CPU: 1024 * cluster.CPUUnit, Memory: 512}
	// after is how many more minutes it takes when something happens after 14 low ones.
	after := func(t *testing.T, happens func(*world)) int {
		w := newWorld(instances(2, 8))
		if n, _ := w.minutes(14); n != 14 {
			t.Fatalf("scaled in after %d minutes", n)
		}
		happens(w)
		n, _ := w.minutes(40)
		return n
	}
	t.Run("AScaleOutCancels", func(t *testing.T) {
		w := newWorld(instances(2, 8), setting(func(s *cluster.ManagedScaling) { s.Cooldown = 0 }))
		w.minutes(14)
		waits(3, half, inZone("b"))(w) // none of the empty ones is there
		w.rows = append(w.rows, row(11, zone("b"), status(cluster.InstanceActive)))
		w.machine(11, "InService")
		w.task("b", 11, needing(cluster.Resources{CPU: 2 * cluster.VCPU}))
		d := w.decide()
		expect(t, "scaled out to", d.Desired, 13)
		w.waiting = nil
		n, _ := w.minutes(40)
		expect(t, "minutes until it is scaled in", n, 15)
	})
	t.Run("AMinuteCountsOnce", func(t *testing.T) {
		expect(t, "minutes", after(t, func(w *world) {
			w.now = w.now.Add(-time.Minute)
			for range 20 {
				w.now = w.now.Add(2 * time.Second)
				expect(t, "desired", w.decide().Desired, 10)
			}
			w.now = w.now.Add(20 * time.Second)
		}), 1)
	})
	t.Run("OneMissedMinuteDoesNotMatter", func(t *testing.T) {
		expect(t, "minutes", after(t, func(w *world) { w.now = w.now.Add(time.Minute) }), 1)
	})
	t.Run("ALongerGapRestartsTheCount", func(t *testing.T) {
		expect(t, "minutes", after(t, func(w *world) { w.now = w.now.Add(2 * time.Minute) }), 15)
	})
	t.Run("AMetricAtItsTargetRestartsTheCount", func(t *testing.T) {
		expect(t, "minutes", after(t, func(w *world) {
			for n := range 8 {
				w.task("x", 3+n, func(t *cluster.Task) { t.ID += t.Instance })
			}
			w.decide()
			w.rows = w.rows[:len(w.rows)-8]
		}), 15)
	})
	t.Run("AnUpgradeRestartsTheCount", func(t *testing.T) {
		expect(t, "minutes", after(t, func(w *world) {
			w.upgrade = true
			contains(t, "why", why(w.decide(), "i-9"), "the group's nodes are being upgraded")
			w.upgrade = false
		}), 15)
	})
	t.Run("OneStepPerMinute", func(t *testing.T) {
		w := newWorld(instances(0, 8), setting(func(s *cluster.ManagedScaling) { s.LowDatapoints = 1 }))
		expect(t, "first", w.decide().Desired, 4)
		w.group.Desired, w.group.Instances, w.now = 4, w.group.Instances[:4], w.now.Add(20*time.Second)
		expect(t, "second", w.decide().Desired, 4)
		contains(t, "why", w.decide().Why, "it was already scaled in this minute")
		w.now = w.now.Add(40 * time.Second)
		expect(t, "third", w.decide().Desired, 2)
	})
}

// An empty cluster with a target below 100 stays empty however often it is reconciled (C8).
func TestEmptyGroupDoesNotFlap(t *testing.T) {
	for _, percent := range []int{1, 50, 99, 100} {
		w := newWorld(target(percent))
		for range 60 {
			d := w.decide()
			expect(t, "desired", d.Desired, 0)
			expect(t, "metric", d.Reservation, float64(percent)) // what a target tracking policy leaves alone, too
			w.now = w.now.Add(time.Minute)
		}
		w = newWorld(target(percent), instances(0, 2))
		n, d := w.minutes(40)
		expect(t, "minutes with two empty ones", n, 15)
		expect(t, "desired", d.Desired, 1)
	}
}

// C6.
func TestProtect(t *testing.T) {
	newInput := func(options ...option) *world {
		w := newWorld(append([]option{instances(3, 3), protection, noted}, options...)...)
		for _, n := range []int{1, 3, 4} {
			w.group.Instances[n].Protected = true
		}
		return w
	}
	ids := func(ids []string) string {
		out := ""
		for _, id := range ids {
			out += id + " "
		}
		return out
	}
	t.Run("InstancesWithTasks", func(t *testing.T) {
		d := newInput().decide()
		expect(t, "protect", ids(d.Protect), "i-1 i-3 ")
		expect(t, "release", ids(d.Release), "i-4 i-5 ")
	})
	t.Run("BeforeTheFirstTaskStarts", func(t *testing.T) {
		w := newInput()
		w.task("new", 6, func(t *cluster.Task) { t.Last = "" })
		expect(t, "protect", ids(w.decide().Protect), "i-1 i-3 i-6 ")
	})
	t.Run("UntilTheLastTaskHasStopped", func(t *testing.T) {
		w := newInput()
		w.task("old", 4, func(t *cluster.Task) { t.Desired = cluster.TaskStopped })
		expect(t, "release", ids(w.decide().Release), "i-5 ")
	})
	t.Run("NotForDaemonsAlone", func(t *testing.T) {
		w := newInput()
		w.task("d", 4, of("log"))
		expect(t, "release", ids(w.decide().Release), "i-4 i-5 ")
	})
	t.Run("NewInstancesStayAsLaunched", func(t *testing.T) {
		w := newInput()
		expect(t, "release", ids(w.decide().Release), "i-4 i-5 ")
		launched(time.Minute)(w)
		expect(t, "release", ids(w.decide().Release), "")
		contains(t, "why", why(w.decide(), "i-4"),
			"it is protected from scale-in while it warms up, until 2026-11-21T12:04:00Z")
	})
	t.Run("OnlyAfterTheReleaseIsRecorded", func(t *testing.T) {
		w := newWorld(instances(1, 3), protection, setting(func(s *cluster.ManagedScaling) { s.LowDatapoints = 1 }))
		w.group.Instances[0].Protected, w.group.Instances[1].Protected = true, true
		d := w.decide()
		expect(t, "note", ids(d.MarkReleasable), "c-2 c-3 c-4 ") // two of them were launched without protection
		expect(t, "release", ids(d.Release), "")
		expect(t, "desired", d.Desired, 4)
		noted(w)
		d = w.decide()
		expect(t, "note", ids(d.MarkReleasable), "")
		expect(t, "release", ids(d.Release), "i-2 ")
		expect(t, "desired", d.Desired, 2)
	})
	t.Run("NoScaleInWhileOneIsNeitherProtectedNorReleased", func(t *testing.T) {
		w := newWorld(instances(1, 2), protection, noted,
			setting(func(s *cluster.ManagedScaling) { s.LowDatapoints = 1 }))
		w.rows[len(w.rows)-1].(*cluster.Instance).ReleasedIn = ""
		w.group.Instances[0].Protected = true
		d := w.decide()
		expect(t, "desired", d.Desired, 3)
		contains(t, "why", why(d, "i-2"), "instances that may be terminated must be recorded first")
	})
	t.Run("EndsForAllInstancesAtOnce", func(t *testing.T) {
		for _, off := range []option{func(w *world) { w.provider.Protection = false }, func(w *world) {
			w.provider.Protection, w.provider.Scaling.Enabled = false, false
		}} {
			w := newInput()
			w.decide()
			off(w)
			d := w.decide()
			expect(t, "forget", ids(d.UnmarkReleasable), "c-1 c-2 c-3 c-4 c-5 c-6 ")
			expect(t, "release", ids(d.Release), "i-2 i-4 i-5 ")
			expect(t, "release until it is done", ids(w.decide().Release), "i-2 i-4 i-5 ")
			for n := range w.group.Instances {
				w.group.Instances[n].Protected = false
			}
			w.decide()
			w.group.Instances[0].Protected = true
			expect(t, "release of what its owner protects", ids(w.decide().Release), "")
		}
	})
	t.Run("NotBeforeItIsInService", func(t *testing.T) {
		w := newInput()
		w.group.Instances[0].Lifecycle = "Pending:Wait"
		expect(t, "protect", ids(w.decide().Protect), "i-3 ")
	})
	t.Run("NotIfItIsOff", func(t *testing.T) {
		w := newInput(func(w *world) { w.provider.Protection = false })
		d := w.decide()
		expect(t, "changes", len(d.Protect)+len(d.Release), 0)
		contains(t, "why", why(d, "i-4"), "it is protected from scale-in by someone else")
	})
	t.Run("InstancesOutOfServiceAreNotRemoved", func(t *testing.T) {
		w := newWorld(instances(1, 1), protection, noted,
			setting(func(s *cluster.ManagedScaling) { s.LowDatapoints = 1 }))
		w.group.Instances[0].Protected = true
		expect(t, "desired", w.decide().Desired, 1)
		w.history = cluster.ScalingHistory{}
		w.group.Instances[1].Lifecycle = "Pending:Wait"
		expect(t, "desired", w.decide().Desired, 2)
		expect(t, "why", why(w.decide(), "i-2"), "it runs no task; the group is still launching it")
	})
	t.Run("RemovesNoMoreThanAreReleased", func(t *testing.T) {
		w := newWorld(instances(2, 8), protection, noted,
			setting(func(s *cluster.ManagedScaling) { s.LowDatapoints, s.Cooldown = 1, 0 }))
		for n := 2; n < 8; n++ { // these warm up
			w.group.Instances[n].LaunchedAt, w.group.Instances[n].Protected = noon.Add(-time.Minute), true
		}
		expect(t, "desired", w.decide().Desired, 8)
	})
}

// Protected instances are not removed, whoever protects them: the desired capacity does not fall
// below their number.
func TestShrinkStopsAtProtectedInstances(t *testing.T) {
	w := newWorld(instances(2, 8))
	for n := range w.group.Instances {
		w.group.Instances[n].Protected = n != 9
	}
	for range 60 {
		d := w.decide()
		w.group.Desired = d.Desired
		w.now = w.now.Add(time.Minute)
	}
	expect(t, "desired", w.group.Desired, 9)
	contains(t, "why", why(w.decide(), "i-5"), "it is protected from scale-in by someone else")
	t.Run("ButNotAtInstancesNeverLaunched", func(t *testing.T) {
		w := newWorld(instances(2, 0), setting(func(s *cluster.ManagedScaling) {
			s.LowDatapoints, s.Cooldown,
				s.MaxScaleInPercent = 1, 0, 100
		}))
		w.group.Instances[0].Protected, w.group.Instances[1].Protected = true, true
		w.task("t", 1)
		w.group.Desired = 5
		w.rows = append(w.rows, row(3))
		w.machine(3, "InService")
		expect(t, "desired", w.decide().Desired, 2)
	})
}

// Why an instance is not removed, in words.
func TestWhyNotRemovable(t *testing.T) {
	for name, c := range map[string]struct {
		options  []option
		instance string
		want     string
	}{
		"Tasks": {[]option{instances(1, 1)}, "i-1",
			"it runs 1 non-daemon task (t1-0 of service web); consolidation is off"},
		"Minutes": {[]option{instances(1, 1)}, "i-2", "it runs no task; the metric has been low for 1 minute of 15"},
		"Minimum": {[]option{instances(1, 1), bounds(2, 9)}, "i-2",
			"it runs no task; the group is at its minimum of 2"},
		"Target": {[]option{instances(1, 1), target(50)}, "i-2", "it runs no task; the group has the right size"},
		"Free": {[]option{instances(9, 1), target(95)}, "i-10",
			"it runs no task; free capacity is needed: 9 of 10 running instances are needed, the target is 95 %"},
		"ScaledOut": {[]option{instances(1, 1), scaledOut(time.Minute),
			setting(func(s *cluster.ManagedScaling) { s.LowDatapoints = 1 })}, "i-2",
			"it runs no task; the group was scaled out at 2026-11-21T11:59:00Z; it is not scaled in for 15m0s"},
		"Policy": {[]option{instances(1, 1), setting(func(s *cluster.ManagedScaling) { s.TargetTracking = true })},
			"i-2", "it runs no task; a target tracking policy sizes the group"},
		"MayGo": {[]option{instances(1, 1), setting(func(s *cluster.ManagedScaling) { s.LowDatapoints = 1 })},
			"i-2", "it runs no task; desired capacity from 2 to 1: 1 of 2 running instances are needed"},
	} {
		t.Run(name, func(t *testing.T) {
			contains(t, "why", why(newWorld(c.options...).decide(), c.instance), c.want)
		})
	}
}
