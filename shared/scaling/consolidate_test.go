package scaling_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/placement/moves"
	"berth/shared/scaling"
	"berth/shared/snapshot"
)

// web adds a REPLICA service of the name whose tasks may be moved.
func web(name string, desired int, cost cluster.MoveCost, options ...func(*cluster.Service)) option {
	return func(w *world) {
		s := &cluster.Service{
			Head:            cluster.Head{Cluster: "c", Rev: 1},
			ServiceIdentity: cluster.ServiceIdentity{Name: name, Short: name},
			ServiceSpec: cluster.ServiceSpec{
				Strategy: cluster.Replica, Desired: desired, MinHealthy: 100, MaxPercent: 200,
			},
			ServiceStatus: cluster.ServiceStatus{Status: cluster.ServiceActive},
		}
		for _, o := range options {
			o(s)
		}
		w.rows = append(w.rows, s)
		w.movers[name] = moves.Owner{Name: "service " + name, Target: desired, Spec: &placement.Spec{
			Needs: small, Owner: name, Group: "service:" + name, MoveCost: cost, Scoring: placement.BestFit,
		}}
	}
}

func consolidating(share int, window time.Duration) option {
	return setting(func(s *cluster.ManagedScaling) {
		s.Consolidation = cluster.Consolidation{Enabled: true, BudgetPercent: share, BudgetWindow: window}
	})
}

// lightlyUsed has three instances with 3, 1 and 1 tasks; 4 fit on each.
func lightlyUsed(w *world) {
	w.instance(1, 3)
	w.instance(2, 1)
	w.instance(3, 1)
}

// plan returns the candidates as text: "i-2 1 drain: why" each.
func plan(all []scaling.Candidate) string {
	var out []string
	for _, c := range all {
		verb := "keep"
		if c.Fits {
			verb = "fits"
		}
		if c.Drain {
			verb = "drain"
		}
		var to []string
		for _, m := range c.Moves {
			to = append(to, m.Task+">"+m.To)
		}
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %d %s %s", c.EC2InstanceID, c.Cost, verb,
			strings.Join(to, " "))))
	}
	return strings.Join(out, "; ")
}

func TestConsolidation(t *testing.T) {
	often := consolidating(100, time.Minute)
	t.Run("DrainsInstancesWhoseTasksFitElsewhere", func(t *testing.T) {
		w := newWorld(lightlyUsed, web("web", 5, ""), often)
		d := w.decide()
		expect(t, "plan", plan(d.Consolidation), "i-2 1 drain t2-0>c-1; i-3 1 keep; i-1 3 keep")
		expect(t, "drain", fmt.Sprint(d.Drain), "[c-2]")
		contains(t, "event", messages(d),
			"(capacity provider spot) instance i-2 is being drained: there is room for its 1 task elsewhere, at a cost of 1.")
		contains(t, "why not i-3", why(d, "i-3"),
			"it runs 1 non-daemon task (t3-0 of service web); task t3-0 of service web fits nowhere else: 0/3")
		contains(t, "why not i-1", why(d, "i-1"), "it receives tasks of i-2")
	})
	t.Run("NotIntoRoomReservedForDrains", func(t *testing.T) {
		w := newWorld(web("web", 5, ""), often)
		w.instance(1, 3)
		w.instance(2, 1)
		w.rows = append(w.rows, row(9, status(cluster.InstanceDraining))) // of another group
		w.task("t9", 9)
		d := w.decide()
		expect(t, "drain", fmt.Sprint(d.Drain), "[]")
		contains(t, "why", why(d, "i-2"), "task t2-0 of service web fits nowhere else")
	})
	t.Run("WithTheLoadThatATaskHasReported", func(t *testing.T) {
		for reported, want := range map[int64]string{20: "[c-2]", 21: "[]"} {
			w := newWorld(web("web", 4, ""), often)
			hundred := with(func(c *cluster.Capacity) { c.Metrics = map[string]int64{"m": 100} })
			w.instance(1, 3, hundred)
			w.instance(2, 1, hundred)
			mover := w.movers["web"]
			mover.Spec.Loads = []cluster.Metric{{Name: "m", Load: 5}}
			for _, r := range w.rows {
				if task, ok := r.(*cluster.Task); ok {
					task.Reported = map[string]int64{"m": 20}
					if task.ID == "t1-0" {
						task.Reported = map[string]int64{"m": 40}
					}
					if task.ID == "t2-0" {
						task.Reported = map[string]int64{"m": reported}
					}
				}
			}
			expect(t, fmt.Sprint("drain with ", reported), fmt.Sprint(w.decide().Drain), want)
			expect(t, "the service's own load", mover.Spec.Loads[0].Load, 5)
		}
	})
	t.Run("ThatReceiveNoTasksOfDrainingInstances", func(t *testing.T) {
		w := newWorld(web("web", 8, ""), often)
		w.instance(1, 3) // each has room for one more
		w.instance(2, 3)
		for n := 8; n < 10; n++ { // of another group
			w.rows = append(w.rows, row(n, status(cluster.InstanceDraining)))
			w.task(fmt.Sprint("t", n), n)
		}
		for range 20 { // in whichever order the snapshot lists the instances
			d := w.decide()
			contains(t, "why", why(d, "i-1"), "i-8")
			contains(t, "why", why(d, "i-2"), "i-9")
		}
	})
	t.Run("NotUnlessEnabled", func(t *testing.T) {
		w := newWorld(lightlyUsed, web("web", 5, ""))
		d := w.decide()
		expect(t, "drain", len(d.Drain)+len(d.Consolidation), 0)
		expect(t, "plan that is asked for", plan(scaling.PlanConsolidation(w.input())),
			"i-2 1 drain t2-0>c-1; i-3 1 keep; i-1 3 keep")
	})
	t.Run("CheapestFirst", func(t *testing.T) {
		w := newWorld(lightlyUsed, web("web", 4, cluster.CostLow), web("dear", 1, cluster.CostHigh), often)
		w.rows[4].(*cluster.Task).Owner, w.rows[4].(*cluster.Task).Service = "web", "web"
		for _, r := range w.rows {
			if task, ok := r.(*cluster.Task); ok && task.ID == "t2-0" {
				of("dear")(task)
			}
		}
		expect(t, "plan", plan(w.decide().Consolidation), "i-3 1 drain t3-0>c-1; i-1 3 keep; i-2 40 keep")
	})
	t.Run("NotToEmptyInstances", func(t *testing.T) {
		w := newWorld(often, web("web", 2, ""))
		w.instance(1, 2)
		w.instance(2, 0)
		d := w.decide()
		contains(t, "why", why(d, "i-1"), "would go to c-2, which is empty")
		expect(t, "drain", len(d.Drain), 0)
	})
	t.Run("LeavesTheSnapshotUnchanged", func(t *testing.T) {
		w := newWorld(lightlyUsed, web("web", 5, ""), often, waits(9, small))
		for _, waiting := range []bool{true, false} {
			if !waiting {
				w.waiting = nil
			}
			in := w.input()
			scaling.Decide(in)
			if diff := cmp.Diff(described(w.snapshot()), described(in.Snapshot)); diff != "" {
				t.Error(diff)
			}
		}
	})
}

// described returns what a snapshot says about its instances and tasks.
func described(s *snapshot.Snapshot) map[string]string {
	out := map[string]string{}
	for id, v := range s.Instances {
		tasks := map[string]bool{}
		for _, t := range v.Tasks {
			tasks[t.ID] = true
		}
		out[id] = fmt.Sprint(v.Status, v.Rev, v.CPU, v.Memory, v.GPUs, v.ENIs, v.Ports, v.Loads, tasks)
	}
	for t := range s.Tasks() {
		out["task "+t.ID] = fmt.Sprintf("%+v", *t)
	}
	return out
}

// These keep an instance from being emptied.
func TestConsolidationKeeps(t *testing.T) {
	often := consolidating(100, time.Minute)
	for name, c := range map[string]struct {
		service func(*cluster.Service)
		change  option
		why     string // of i-2
	}{
		"AtTheMinimum": {change: bounds(3, 9), why: "the group must keep at least 3 instances"},
		"InAnUpgrade": {change: func(w *world) { w.upgrade = true },
			why: "the group's nodes are being upgraded"},
		"UnderATargetTracking": {change: setting(func(s *cluster.ManagedScaling) { s.TargetTracking = true }),
			why: "a target tracking policy sizes the group"},
		"SoonAfterAScaleOut": {change: scaledOut(14 * time.Minute),
			why: "the group was scaled out at 2026-11-21T11:46:00Z; it is not scaled in for 15m0s"},
		"WhileTasksWait": {change: waits(9, small), why: "tasks wait for instances"},
		"StandaloneTasks": {change: func(w *world) { w.task("a", 2, of("")) },
			why: "task a belongs to no service: nothing would replace it"},
		"ForeignTasks": {change: func(w *world) {
			w.task("a", 2, of(""),
				func(t *cluster.Task) { t.Foreign = true })
		}, why: "task a was not started by Berth"},
		"UnknownServices": {change: func(w *world) { w.task("a", 2, of("other")) },
			why: "service other does not allow its tasks to move"},
		"ProtectedTasks": {change: protectTask(noon.Add(time.Second)),
			why: "task t2-0 of service web is protected until 2026-11-21T12:00:01Z"},
		"NoRoomInThePercentage": {service: func(s *cluster.Service) { s.MaxPercent = 100 },
			why: "minimumHealthyPercent 100 and maximumPercent 100 leave service web no room to move a task"},
		"Deployments": {service: func(s *cluster.Service) { s.Older = make([]cluster.Deployment, 1) },
			why: "a deployment of service web is under way"},
		"ServicesShortOfTasks": {service: func(s *cluster.Service) { s.Desired = 6 },
			why: "service web has 5 of 6 tasks healthy"},
		"WhatIsNew": {change: func(w *world) { w.group.Instances[1].LaunchedAt = noon.Add(-time.Minute) },
			why: "it is warming up"},
		"WhatSomebodyProtects": {change: func(w *world) { w.group.Instances[1].Protected = true },
			why: "it is protected from scale-in"},
		"WhatIsDisconnected": {change: func(w *world) { w.rows[5].(*cluster.Instance).AgentConnected = false },
			why: "it cannot receive tasks: it is disconnected"},
		"WhatEmptiesItself": {change: func(w *world) {
			w.rows[6].(*cluster.Task).Desired = cluster.TaskStopped
			w.rows[9].(*cluster.Service).Desired = 4
		}, why: "its last tasks are being stopped"},
		"WhatWasTriedBefore": {change: func(w *world) { w.history.DeferredUntil = map[string]time.Time{"c-2": noon.Add(time.Second)} }, why: "it could not be drained before, and is not tried again until 2026-11-21T12:00:01Z"},
	} {
		t.Run(name, func(t *testing.T) {
			service := c.service
			if service == nil {
				service = func(*cluster.Service) {}
			}
			w := newWorld(lightlyUsed, often, web("web", 5, "", service))
			if c.change != nil {
				c.change(w)
			}
			d := w.decide()
			contains(t, "why", why(d, "i-2"), c.why)
			if strings.Contains(fmt.Sprint(d.Drain), "c-2") {
				t.Error("it is drained")
			}
		})
	}
	t.Run("AWaitThatLiesAheadDoesNotCount", func(t *testing.T) { // an hour is the longest, two minutes a clock's error
		w := newWorld(lightlyUsed, often, web("web", 5, ""),
			func(w *world) {
				w.history.DeferredUntil = map[string]time.Time{"c-2": noon.Add(time.Hour + 2*time.Minute + 1)}
			})
		expect(t, "drain", fmt.Sprint(w.decide().Drain), "[c-2]")
	})
	t.Run("ExpiredReasonsDoNotCount", func(t *testing.T) {
		w := newWorld(lightlyUsed, often, web("web", 5, ""), protectTask(noon),
			func(w *world) { w.history.DeferredUntil = map[string]time.Time{"c-2": noon} })
		w.task("daemon", 2, of("log"))
		w.task("alone", 3, of(""))
		w.task("stopping", 2, of(""), func(t *cluster.Task) { t.Desired = cluster.TaskStopped })
		expect(t, "drain", fmt.Sprint(w.decide().Drain), "[c-2]")
	})
	t.Run("AProtectionOfAClockThatJumpedDoesNotCount", func(t *testing.T) {
		w := newWorld(lightlyUsed, often, web("web", 5, ""), protectTask(noon.Add(75*time.Hour)))
		expect(t, "drain", fmt.Sprint(w.decide().Drain), "[c-2]")
	})
	t.Run("OneAtATimeWithoutABudget", func(t *testing.T) {
		w := newWorld(often, web("web", 5, "", func(s *cluster.Service) { s.MinHealthy, s.MaxPercent = 80, 100 }),
			lightlyUsed)
		expect(t, "drain", fmt.Sprint(w.decide().Drain), "[c-2]") // one of five may stop first
	})
}

func protectTask(until time.Time) option {
	return func(w *world) {
		w.rows = append(w.rows, &cluster.Protection{Head: cluster.Head{Cluster: "c", Rev: 1}, Owner: "web",
			Task: "t2-0", Until: until})
	}
}

// Consolidation says while instances are being emptied, or are about to be, so that balancing waits.
func TestConsolidationProgress(t *testing.T) {
	const off, idle, emptying = cluster.ConsolidationProgress(""), cluster.ConsolidationIdle,
		cluster.ConsolidationEmptying
	often := consolidating(100, time.Minute)
	full := func(w *world) {
		w.instance(1, 3)
		w.instance(2, 3)
	}
	oneEmpty := func(w *world) {
		w.instance(1, 4)
		w.instance(2, 0)
	}
	lowFor := func(minutes int) option {
		return func(w *world) {
			w.history.LowMinutes, w.history.LastLowMinute = minutes, w.now.Add(-time.Minute)
		}
	}
	drained := func(cancelled bool) option {
		return func(w *world) {
			w.instance(1, 3)
			w.instance(2, 3, status(cluster.InstanceDraining))
			w.history.Drains = []cluster.Drain{{Instance: "c-2", At: noon, Cancelled: cancelled}}
		}
	}
	for name, c := range map[string]struct {
		options []option
		want    cluster.ConsolidationProgress
	}{
		"Off":               {[]option{lightlyUsed}, off},
		"BeginsADrain":      {[]option{often, lightlyUsed}, emptying},
		"WaitsForBudget":    {[]option{consolidating(10, time.Hour), lightlyUsed, budgetUsed}, emptying},
		"Drains":            {[]option{often, drained(false)}, emptying},
		"Cancels":           {[]option{often, drained(true), scaledOut(time.Hour)}, idle},
		"NothingFits":       {[]option{often, full}, idle},
		"CoolsDown":         {[]option{often, full, scaledOut(14 * time.Minute)}, emptying},
		"CooledDown":        {[]option{often, full, scaledOut(15 * time.Minute)}, idle},
		"RemovesAnEmptyOne": {[]option{often, oneEmpty}, emptying},
		"RemovesItAtLast":   {[]option{often, oneEmpty, noted, lowFor(30)}, emptying},
		"AtTheMinimum":      {[]option{often, oneEmpty, bounds(2, 9)}, idle},
		// It is protected, or the group refuses to remove it.
		"DoesNotRemoveTheEmptyOne": {[]option{often, oneEmpty, lowFor(30), protected}, idle},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(append(c.options, web("web", 5, ""))...)
			expect(t, "progress", w.decide().History.Progress, c.want)
		})
	}
	t.Run("IsRenewed", func(t *testing.T) {
		w := newWorld(often, full, scaledOut(0), web("web", 6, ""))
		until := w.decide().History.EmptyingUntil
		expect(t, "until", until, noon.Add(cluster.EmptyingTime))
		w.now = noon.Add(cluster.EmptyingTime/2 - time.Second)
		expect(t, "until, with more than half of the time left", w.decide().History.EmptyingUntil, until)
		w.now = noon.Add(cluster.EmptyingTime / 2)
		expect(t, "until, with half of it left", w.decide().History.EmptyingUntil, w.now.Add(cluster.EmptyingTime))
		w.now = noon.Add(15 * time.Minute)
		expect(t, "until, once nothing is emptied", w.decide().History.EmptyingUntil, time.Time{})
	})
	t.Run("StaysBetweenTheMinutes", func(t *testing.T) {
		for _, was := range []cluster.ConsolidationProgress{off, idle, emptying} {
			w := newWorld(often, full, web("web", 6, ""))
			w.history.Progress = was
			in := w.input()
			in.Between = true
			expect(t, "progress", scaling.Decide(in).History.Progress, max(was, idle))
		}
	})
}

// budgetUsed is a drain that has ended and still counts for the budget.
func budgetUsed(w *world) {
	w.history.Drains = []cluster.Drain{{Instance: "c-9", At: w.now.Add(-time.Minute), Finished: true}}
}

// The disruption budget holds for any window of time.
func TestConsolidationBudget(t *testing.T) {
	w := newWorld(consolidating(20, 10*time.Minute), web("web", 20, ""))
	for n := range 10 { // 2 of 4 that fit on each: every second can go, 2 within 10 minutes
		w.instance(n+1, 2)
	}
	d := w.decide()
	expect(t, "first", fmt.Sprint(d.Drain), "[c-1 c-2]") // in order of their EC2 ids 1, 10, 2 ...
	fits := 0
	for _, c := range d.Consolidation {
		fits += b2i(c.Fits)
		if c.Fits && !c.Drain {
			contains(t, "why", c.Why, "the disruption budget of 20 % in 10m0s is used up until 2026-11-21T12:10:00Z")
		}
	}
	expect(t, "would go", fits, 5)
}

// A drain: the instance is emptied, then terminated, unless the drain is cancelled.
func TestDrains(t *testing.T) {
	often := consolidating(100, time.Hour)
	// begun says since when i-2 has been draining
	begun := func(ago time.Duration, tasks int, options ...option) *world {
		w := newWorld(append([]option{often, web("web", 3+tasks, "")}, options...)...)
		w.instance(1, 3)
		w.instance(2, tasks, status(cluster.InstanceDraining))
		w.history.Drains = []cluster.Drain{{Instance: "c-2", At: noon.Add(-ago)}}
		return w
	}
	over := func(w *world) bool { d := w.history.Drains; return len(d) == 0 || d[0].Finished }
	t.Run("TerminatesWhenEmpty", func(t *testing.T) {
		d := begun(time.Minute, 0).decide()
		expect(t, "terminate", fmt.Sprint(d.Terminate), "[i-2]")
		expect(t, "desired", d.Desired, 1)
	})
	t.Run("IsReleasedFirst", func(t *testing.T) {
		w := begun(time.Minute, 0, protection)
		w.group.Instances[1].Protected = true
		d := w.decide()
		expect(t, "note", fmt.Sprint(d.MarkReleasable), "[c-2]")
		expect(t, "terminate before it is noted", len(d.Terminate), 0)
		noted(w)
		d = w.decide()
		expect(t, "release", fmt.Sprint(d.Release), "[i-2]")
		expect(t, "terminate", fmt.Sprint(d.Terminate), "[i-2]")
	})
	t.Run("StaysIfProtectedByOthers", func(t *testing.T) {
		w := begun(time.Minute, 0)
		w.group.Instances[1].Protected = true
		expect(t, "terminate", len(w.decide().Terminate), 0)
	})
	t.Run("TerminatesWithItsDaemons", func(t *testing.T) {
		w := begun(time.Minute, 0)
		w.task("d", 2, of("log"))
		expect(t, "terminate", len(w.decide().Terminate), 1)
	})
	t.Run("WaitsForItsTasks", func(t *testing.T) {
		w := begun(time.Minute, 1)
		d := w.decide()
		expect(t, "changes", len(d.Terminate)+len(d.Undrain)+len(d.Drain), 0)
		contains(t, "why", why(d, "i-2"),
			"it runs 1 non-daemon task (t2-0 of service web); it has been draining since 2026-11-21T11:59:00Z and waits for its tasks to stop")
	})
	t.Run("WaitsForTheScaleInOfTheMinute", func(t *testing.T) {
		w := begun(time.Minute, 0)
		w.instance(3, 0)
		w.history.LowMinutes, w.history.LastLowMinute = 14, noon.Add(-time.Minute)
		d := w.decide()
		expect(t, "desired", d.Desired, 2) // of three, half may go in a minute
		expect(t, "terminate", len(d.Terminate), 0)
		contains(t, "why", why(d, "i-2"), "it is drained, and will be terminated after this minute's scale-in")
	})
	t.Run("WaitsForTheNextMinute", func(t *testing.T) {
		w := begun(time.Minute, 0, func(w *world) { w.history.LastScaleIn = noon.Add(time.Second) })
		w.now = noon.Add(2 * time.Second)
		expect(t, "terminate", len(w.decide().Terminate), 0)
		w.now = noon.Add(time.Minute)
		expect(t, "terminate", len(w.decide().Terminate), 1)
	})
	t.Run("GivesUpAfterAWhile", func(t *testing.T) {
		w := begun(15*time.Minute, 1)
		d := w.decide()
		expect(t, "undrain", fmt.Sprint(d.Undrain), "[c-2]")
		contains(t, "event", messages(d),
			"instance i-2: it can receive tasks again: after 15m0s it still has 1 non-daemon task (t2-0 of service web).")
		expect(t, "spared until", w.history.DeferredUntil["c-2"], noon.Add(time.Hour))
	})
	t.Run("IsCancelledIfInstancesAreNeeded", func(t *testing.T) {
		w := begun(time.Minute, 0, waits(1, cluster.Resources{CPU: 1024 * cluster.CPUUnit, Memory: 512}))
		d := w.decide()
		expect(t, "undrain", fmt.Sprint(d.Undrain), "[c-2]")
		expect(t, "terminate", len(d.Terminate), 0)
		expect(t, "desired", d.Desired, 2) // first it takes them
		w.rows = append(w.rows, row(2, func(i *cluster.Instance) { i.Rev = 2 }))
		w.now = w.now.Add(time.Minute)
		expect(t, "metric a minute later", w.decide().Reservation, 100)
	})
	for name, change := range map[string]option{
		"TakesTasksAgainInAnUpgrade":              func(w *world) { w.upgrade = true },
		"TakesTasksAgainWhereConsolidationIsOff":  setting(func(s *cluster.ManagedScaling) { s.Consolidation.Enabled = false }),
		"TakesTasksAgainWhereManagedScalingIsOff": setting(func(s *cluster.ManagedScaling) { s.Enabled = false }),
		"TakesTasksAgainUnderAPolicy":             setting(func(s *cluster.ManagedScaling) { s.TargetTracking = true }),
		"TakesTasksAgainAtTheMinimum":             bounds(2, 9),
		"TakesTasksAgainAsAFreeOne":               target(50),
	} {
		t.Run(name, func(t *testing.T) {
			w := begun(time.Minute, 0, change)
			d := w.decide()
			expect(t, "undrain", fmt.Sprint(d.Undrain), "[c-2]")
			expect(t, "terminate", len(d.Terminate), 0)
			for range 3 { // until it is seen to
				w.now = w.now.Add(time.Minute)
				expect(t, "undrain again", fmt.Sprint(w.decide().Undrain), "[c-2]")
			}
			w.rows = append(w.rows, row(2, func(i *cluster.Instance) { i.Rev = 2 }))
			expect(t, "undrain no more", len(w.decide().Undrain), 0)
			expect(t, "over", over(w), true)
		})
	}
	t.Run("IsRequestedAgain", func(t *testing.T) {
		w := begun(time.Minute, 1)
		w.rows = append(w.rows, row(2, func(i *cluster.Instance) { i.Rev = 2 }))
		expect(t, "drain", fmt.Sprint(w.decide().Drain), "[c-2]")
		w.now = w.now.Add(time.Minute)
		d := w.decide()
		expect(t, "over", over(w), true)
		contains(t, "why", why(d, "i-2"),
			"it could not be drained before, and is not tried again until 2026-11-21T13:01:00Z")
	})
	t.Run("CountsForTheBudgetAfterItsEnd", func(t *testing.T) {
		w := begun(59*time.Minute, 0, consolidating(1, time.Hour))
		w.group.Instances[1].Lifecycle = "Terminating"
		w.group.Desired = 1
		w.decide()
		expect(t, "kept", len(w.history.Drains), 1)
		w.now = w.now.Add(time.Minute)
		w.decide()
		expect(t, "kept", len(w.history.Drains), 0)
	})
	t.Run("ReservesRoomForItsTasks", func(t *testing.T) {
		w := begun(time.Minute, 1) // goes to c-1, which then is full
		w.rows[1].(*cluster.Service).Desired = 5
		w.instance(3, 1)
		contains(t, "why", why(w.decide(), "i-3"), "fits nowhere else")
	})
}

// What consolidation terminates in a minute counts towards the percentage that may go in one (C5).
func TestDrainsEndWithinTheScaleInPercent(t *testing.T) {
	w := newWorld(consolidating(100, time.Minute),
		setting(func(s *cluster.ManagedScaling) { s.MaxScaleInPercent = 25 }))
	w.instance(1, 1)
	for n := 2; n <= 10; n++ {
		w.instance(n, 0, status(cluster.InstanceDraining))
		w.history.Drains = append(w.history.Drains, cluster.Drain{Instance: fmt.Sprintf("c-%d", n),
			At: noon.Add(-3 * time.Minute)})
	}
	for minute, gone := range []int{2, 2, 1, 1, 1, 1, 1, 0} {
		d := w.decide()
		expect(t, fmt.Sprintf("terminated in minute %d", minute), len(d.Terminate), gone)
		expect(t, "desired", d.Desired, w.group.Desired-gone)
		expect(t, "terminated again in the same minute", len(w.decide().Terminate), 0)
		w.group.Desired = d.Desired
		w.group.Instances = slices.DeleteFunc(w.group.Instances,
			func(i cluster.GroupInstance) bool { return slices.Contains(d.Terminate, i.ID) })
		w.now = w.now.Add(time.Minute)
	}
}

// When an update of the group's nodes begins, drains of consolidation are cancelled, except on
// nodes that the update has marked: it empties those itself.
func TestUpdateTakesOverDrainsThatItMarked(t *testing.T) {
	w := newWorld(instances(3, 0), consolidating(50, 10*time.Minute))
	for n := range 2 {
		w.history.Drains = append(w.history.Drains, cluster.Drain{Instance: fmt.Sprintf("c-%d", n+1),
			At: noon.Add(-2 * time.Minute)})
		w.rows[1+2*n].(*cluster.Instance).Status = cluster.InstanceDraining
	}
	one, other := w.rows[1].(*cluster.Instance), w.rows[3].(*cluster.Instance)
	mark := func(i *cluster.Instance) { i.Attributes[cluster.AttributeUnschedulable] = "u-1" }
	mark(one)
	w.upgrade = true
	expect(t, "those to take tasks again at first", fmt.Sprint(w.decide().Undrain), "[c-2]")
	other.Status = cluster.InstanceActive
	w.decide()
	mark(other)
	other.Status = cluster.InstanceDraining
	for range 15 {
		w.now = w.now.Add(time.Minute)
		expect(t, "those to take tasks again during the update", fmt.Sprint(w.decide().Undrain), "[]")
	}
}
