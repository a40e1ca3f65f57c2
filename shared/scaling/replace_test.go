package scaling_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/scaling"
)

// unregistered adds instances that were launched some time ago and have not registered.
func unregistered(n int, ago time.Duration) option {
	return func(w *world) {
		for range n {
			w.machine(len(w.group.Instances)+1, "InService").LaunchedAt = w.now.Add(-ago)
		}
	}
}

// replacing turns on the replacement of unregistered instances.
var replacing = setting(func(s *cluster.ManagedScaling) { s.ReplaceUnregistered = true })

// An instance that never registers counts in N. With the setting it is replaced; without, waiting
// tasks get another one beside it.
func TestReplace(t *testing.T) {
	half := cluster.Resources{CPU: 1024 * cluster.CPUUnit, Memory: 512}
	waiting := func(n int) option { return waits(n, half) }
	warmup := func(d time.Duration) option { return setting(func(s *cluster.ManagedScaling) { s.Warmup = d }) }
	replacedAgo := func(d time.Duration) option {
		return func(w *world) { w.history.LastReplacement = w.now.Add(-d) }
	}
	for name, c := range map[string]struct {
		options  []option
		replaced string
		desired  int
	}{
		"WhatTasksWaitFor": {[]option{instances(2, 0), full, unregistered(1, 5*time.Minute), waiting(2)},
			"i-3", 3},
		"AndMoreWhereMoreAreNeeded": {[]option{instances(2, 0), full, unregistered(1, 5*time.Minute), waiting(5)},
			"i-3", 5},
		"NotInItsWarmup": {[]option{instances(2, 0), full, unregistered(1, 5*time.Minute-1), waiting(2)},
			"", 3},
		"NotInALongerWarmup": {[]option{instances(2, 0), full, unregistered(1, 9*time.Minute), waiting(2),
			warmup(10 * time.Minute)}, "", 3},
		"NotAtOnceWithoutAWarmup": {[]option{instances(2, 0), full, unregistered(1, 4*time.Minute), waiting(2),
			warmup(0)}, "", 3},
		"NotWhereNothingWaits": {[]option{instances(2, 0), unregistered(1, time.Hour)}, "", 3},
		"ForTheMinimum":        {[]option{instances(2, 0), unregistered(1, time.Hour), bounds(3, 9)}, "i-3", 3},
		"ForTheTarget":         {[]option{instances(2, 0), unregistered(1, time.Hour), target(67)}, "i-3", 3},
		"WhereMinimumIsMaximum": {[]option{instances(2, 0), unregistered(2, time.Hour), bounds(4, 4)}, "i-3 i-4",
			4},
		"HalfOfTheGroupAtOnce": {[]option{unregistered(8, time.Hour), bounds(8, 8)}, "i-1 i-2 i-3 i-4", 8},
		"AsManyAsMayGoInAMinute": {[]option{unregistered(8, time.Hour), bounds(8, 8),
			setting(func(s *cluster.ManagedScaling) { s.MaxScaleInPercent = 25 })}, "i-1 i-2", 8},
		"OneAtLeast": {[]option{unregistered(2, time.Hour), bounds(2, 2),
			setting(func(s *cluster.ManagedScaling) { s.MaxScaleInPercent = 1 })}, "i-1", 2},
		"OneOfTwoWhereNoneIsKnown": {[]option{unregistered(2, 5*time.Minute), waiting(5)}, "i-1", 2},
		"NotSoonAfterOthers": {[]option{instances(2, 0), full, unregistered(1, time.Hour), waiting(2),
			replacedAgo(5*time.Minute - 1)}, "", 3},
		"AWarmupAfterOthers": {[]option{instances(2, 0), full, unregistered(1, time.Hour), waiting(2),
			replacedAgo(5 * time.Minute)}, "i-3", 3},
		"InAnUpgradeOneBesideIt": {[]option{instances(2, 0), full, unregistered(1, time.Hour), waiting(2),
			func(w *world) { w.upgrade = true }}, "", 4},
		"NotWhatSomebodyElseProtects": {[]option{instances(2, 0), full, unregistered(1, time.Hour), waiting(2),
			protected}, "", 4},
		"NotWhatIsStillProtected": {[]option{instances(2, 0), full, unregistered(1, time.Hour), waiting(2),
			protection, protected}, "", 3},
		"ReleasedByTheProvider": {[]option{instances(2, 0), full, unregistered(1, time.Hour), waiting(2),
			protection}, "i-3", 3},
		"NotWhatWasThereBefore": {[]option{instances(2, 0), full, unregistered(1, time.Hour), waiting(2),
			since(time.Hour)}, "", 4},
		"NotAtTheFirstLook": {[]option{instances(2, 0), full, unregistered(1, time.Hour), waiting(2),
			neverReconciled}, "", 4},
		"NotBeforeItWasSeenForLong": {[]option{instances(2, 0), full, unregistered(1, time.Hour), waiting(2),
			func(w *world) { w.history.UnregisteredSince["i-3"] = noon.Add(time.Second - 5*time.Minute) }}, "", 3},
		"NotOfAnotherCluster": {[]option{instances(2, 0), full, unregistered(1, time.Hour), waiting(2),
			func(w *world) { w.elsewhere = map[string]string{"i-3": "dev"} }}, "", 4},
		"WhereAPolicySizesTheGroup": {[]option{instances(2, 0), full, unregistered(1, time.Hour), waiting(2),
			setting(func(s *cluster.ManagedScaling) { s.TargetTracking = true })}, "i-3", 3},
		"NotWhereManagedScalingIsOff": {[]option{instances(2, 0), full, unregistered(1, time.Hour), waiting(2),
			setting(func(s *cluster.ManagedScaling) { s.Enabled = false })}, "", 3},
		"NotWhatIsStillBeingLaunched": {[]option{instances(2, 0), full, waiting(2),
			func(w *world) { w.machine(3, "Pending") }}, "", 3},
		"NotWhatIsBeingTerminatedOnce": {[]option{instances(2, 0), full, waiting(2),
			func(w *world) { w.machine(3, "Terminating:Wait"); w.group.Desired = 3 }}, "", 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(append([]option{replacing}, c.options...)...)
			d := w.decide()
			expect(t, "replaced", strings.Join(d.Replace, " "), c.replaced)
			expect(t, "desired", d.Desired, c.desired)
			expect(t, "event", strings.Contains(messages(d), "did not register"), c.replaced != "")
			expect(t, "remembered", d.History.LastReplacement.Equal(noon), c.replaced != "")
		})
	}
	t.Run("ReportsToWaitingServices", func(t *testing.T) {
		d := newWorld(replacing, instances(2, 0), full, unregistered(5, time.Hour), bounds(7, 7), waiting(2),
			setting(func(s *cluster.ManagedScaling) { s.MaxScaleInPercent = 100 })).decide()
		contains(t, "event", messages(d),
			"service w0: (service w0) tasks wait: 5 instances of capacity provider spot did not register with the cluster within 5m0s, and are replaced: i-3, i-4, i-5, 2 more.")
		contains(t, "why", why(d, "i-4"), "it never registered with the cluster, so it is replaced")
	})
	t.Run("ReportsWhyNot", func(t *testing.T) {
		d := newWorld(replacing, instances(2, 0), full, unregistered(1, time.Hour), waiting(2),
			replacedAgo(time.Minute)).decide()
		contains(t, "why", why(d, "i-3"),
			"it never registered with the cluster; it is not replaced yet: other instances were replaced at 2026-11-21T11:59:00Z; the next replacement waits for 5m0s")
	})
}

// Like ECS, without the setting: unregistered instances stay, and waiting tasks get others beside
// them up to the group's maximum.
func TestReplaceNotUnlessEnabled(t *testing.T) {
	half := cluster.Resources{CPU: 1024 * cluster.CPUUnit, Memory: 512}
	upgrading := func(w *world) { w.upgrade = true }
	for name, c := range map[string]struct {
		options         []option
		needed, desired int
	}{
		"OneMoreForThoseThatWait": {[]option{instances(2, 0), full, unregistered(1, time.Hour), waits(2, half)}, 4,
			4},
		"AsManyAsTheyNeed": {[]option{instances(2, 0), full, unregistered(2, time.Hour), waits(5, half)}, 7,
			7},
		"OneMoreInAnUpgrade": {[]option{instances(2, 0), full, unregistered(1, time.Hour), waits(2, half),
			upgrading}, 4, 4},
		"OneMoreWhereNoneIsKnown": {[]option{unregistered(2, time.Hour), waits(5, half)}, 3, 3},
		"NoMoreThanTheMaximum": {[]option{instances(2, 0), full, unregistered(1, time.Hour), waits(2, half),
			bounds(0, 3)}, 4, 3},
		"NotBeforeItHasHadItsTime": {[]option{instances(2, 0), full, unregistered(1, 5*time.Minute-1), waits(2, half),
			setting(func(s *cluster.ManagedScaling) { s.Warmup = 0 })}, 3, 3},
		"ItIsEmptyWhereNothingWaits": {[]option{instances(2, 0), unregistered(1, time.Hour)}, 2, 3},
		"NorForTheMinimum":           {[]option{instances(2, 0), unregistered(1, time.Hour), bounds(3, 9)}, 2, 3},
		"NorWhereMinimumIsMaximum":   {[]option{unregistered(2, time.Hour), bounds(2, 2), waits(2, half)}, 3, 2},
	} {
		t.Run(name, func(t *testing.T) {
			d := newWorld(c.options...).decide()
			expect(t, "replaced", strings.Join(d.Replace, " "), "")
			expect(t, "M", d.Needed, c.needed)
			expect(t, "desired", d.Desired, c.desired)
		})
	}
	t.Run("GroupOfOneThatBootsSlowly", func(t *testing.T) {
		w := newWorld(bounds(0, 1), waits(2, half))
		w.group.Desired = w.decide().Desired
		expect(t, "from zero", w.group.Desired, 1)
		w.group.Desired = 0
		m := w.machine(1, "InService")
		m.LaunchedAt = w.now
		delete(w.history.UnregisteredSince, "i-1")
		for range 6 { // it takes six minutes, and the warm-up is over after five
			w.now = w.now.Add(time.Minute)
			d := w.decide()
			expect(t, "replaced", len(d.Replace), 0)
			expect(t, "desired", d.Desired, 1)
		}
		w.rows, w.waiting = append(w.rows, row(1)), nil
		w.task("t", 1)
		d := w.decide()
		expect(t, "metric", d.Reservation, 100)
	})
	t.Run("UpgradeDoesNotDelay", func(t *testing.T) {
		for _, options := range [][]option{nil, {replacing}} {
			w := newWorld(append([]option{instances(2, 0), full, unregistered(1, time.Hour), waits(2, half), upgrading},
				options...)...)
			n, d := w.minutes(300)
			expect(t, "minutes", n, 1)
			expect(t, "desired", d.Desired, 4)
		}
	})
	t.Run("ReportsNothingBeforeTheTimeout", func(t *testing.T) {
		for _, c := range []struct {
			age      time.Duration
			reported bool
		}{{10 * time.Second, false}, {5*time.Minute - 1, false}, {5 * time.Minute, true}} {
			for _, options := range [][]option{nil, {replacing}} {
				w := newWorld(append([]option{instances(2, 0), unregistered(1, c.age),
					setting(func(s *cluster.ManagedScaling) { s.Warmup = 0 })}, options...)...)
				d := w.decide()
				expect(t, "reported", strings.Contains(messages(d), "has not registered"), c.reported)
				expect(t, "M", d.Needed, 3-b2i(c.reported))
			}
		}
	})
	t.Run("ReportsIt", func(t *testing.T) {
		d := newWorld(instances(2, 0), full, unregistered(1, time.Hour), waits(2, half)).decide()
		contains(t, "event", messages(d),
			"instance i-3 has not registered with the cluster 1h0m0s after it was launched: it counts as empty, and the group gets another instance if tasks wait")
		contains(t, "event", messages(d), "with the tag berth:replace-unregistered it would be replaced")
	})
}

// since says how long ago the group was first reconciled; neverReconciled makes this the first
// time.
func since(ago time.Duration) option {
	return func(w *world) { w.history.FirstReconciledAt = w.now.Add(-ago) }
}

func neverReconciled(w *world) {
	w.history.FirstReconciledAt, w.history.UnregisteredSince = time.Time{}, nil
}

// Instances of the group that are in another cluster, or older than the capacity provider, may run
// tasks that Berth does not see. They count as used and are never removed.
func TestReplaceIgnoresUnknownInstances(t *testing.T) {
	for name, c := range map[string]struct {
		option
		why string
	}{
		"OfAnotherCluster": {func(w *world) {
			w.elsewhere = map[string]string{}
			for _, i := range w.group.Instances {
				w.elsewhere[i.ID] = "dev"
			}
		}, "it has registered with cluster dev: it counts as used and is not touched"},
		"FromBefore": {neverReconciled,
			"it has not registered with the cluster, and was in the group before the capacity provider was created: it counts as used and is not touched"},
	} {
		for _, guarded := range []bool{false, true} {
			t.Run(fmt.Sprint(name, "/Protected:", guarded), func(t *testing.T) {
				w := newWorld(protection, unregistered(6, time.Hour), waits(40, small), c.option)
				for n := range w.group.Instances {
					w.group.Instances[n].Protected = guarded
				}
				w.history.Samples = []cluster.InstanceSample{{Registered: cluster.Capacity{CPU: 2 * cluster.VCPU,
					Memory: 4096}, Attributes: map[string]string{}}}
				d := w.decide()
				contains(t, "event", messages(d), "(capacity provider spot) instance i-1: "+c.why)
				expect(t, "why", why(d, "i-1"), c.why)
				expect(t, "desired", d.Desired, 16)
				w.waiting = nil
				for range 60 {
					w.now = w.now.Add(time.Minute)
					if d = w.decide(); len(d.Replace)+len(d.Release)+len(d.Terminate) > 0 || d.Desired < 6 {
						t.Fatalf("desired %d, replaced %v, released %v", d.Desired, d.Replace, d.Release)
					}
				}
			})
		}
	}
}

// Whether an instance was in the group before the capacity provider does not follow from the times
// that clocks wrote which had jumped: one that managed scaling has not seen when it began is new.
func TestClocksThatJumpMakeNoInstanceUnknown(t *testing.T) {
	const before = "was in the group before the capacity provider was created"
	t.Run("FirstSeenByAClockBehind", func(t *testing.T) {
		w := newWorld(unregistered(2, time.Hour), waits(40, small), since(time.Minute))
		w.history.UnregisteredSince = map[string]time.Time{"i-2": w.history.FirstReconciledAt}
		w.now = noon.Add(-40 * time.Minute)
		w.decide()
		w.now = noon.Add(time.Minute)
		d := w.decide()
		if strings.Contains(why(d, "i-1"), before) {
			t.Errorf("i-1 is new, and %s", why(d, "i-1"))
		}
		contains(t, "why", why(d, "i-2"), before)
	})
	t.Run("AllAhead", func(t *testing.T) {
		w := newWorld(unregistered(2, time.Hour), waits(40, small), since(-time.Hour))
		began := w.history.FirstReconciledAt
		w.history.UnregisteredSince = map[string]time.Time{"i-1": began.Add(time.Minute), "i-2": began}
		d := w.decide()
		if strings.Contains(why(d, "i-1"), before) {
			t.Errorf("i-1 is new, and %s", why(d, "i-1"))
		}
		contains(t, "why", why(d, "i-2"), before)
	})
}

func protected(w *world) {
	for n := range w.group.Instances {
		w.group.Instances[n].Protected = true
	}
}

// In any state, replaced instances have never registered, have had their time, and are no more than
// may go at once.
func TestReplaceIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := genWorld(t)
		d := scaling.Decide(w.input())
		known := map[string]bool{}
		for _, r := range w.rows {
			if i, ok := r.(*cluster.Instance); ok {
				known[i.EC2InstanceID] = true
			}
		}
		for _, id := range d.Replace {
			if m := w.find(id); known[id] || m.Protected || m.Lifecycle != "InService" ||
				noon.Sub(m.LaunchedAt) < 5*time.Minute {
				t.Fatalf("%s is replaced: %+v", id, *m)
			}
		}
		if len(d.Replace) > 0 && !w.provider.Scaling.ReplaceUnregistered {
			t.Fatalf("%v are replaced, and nobody asked for it", d.Replace)
		}
		if n := len(d.Replace); n > max(1, d.Running*w.provider.Scaling.MaxScaleInPercent/100) || n > 0 && w.upgrade {
			t.Fatalf("%d of %d are replaced: %s", n, d.Running, fmt.Sprint(d.Replace))
		}
	})
}
