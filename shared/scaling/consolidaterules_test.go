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

// While no instance may be emptied, the plan still names each one in use, with the reason (C5).
func TestDeferredConsolidationIsExplained(t *testing.T) {
	w := newWorld(lightlyUsed, web("web", 5, ""), consolidating(100, time.Minute), waits(9, small))
	d := w.decide()
	expect(t, "plan", plan(d.Consolidation), "i-2 1 keep; i-3 1 keep; i-1 3 keep")
	for _, c := range d.Consolidation {
		expect(t, "why", c.Why, "tasks wait for instances")
	}
	w.provider.Scaling.Consolidation.Enabled = false
	expect(t, "without consolidation", len(w.decide().Consolidation), 0)
}

// Only RUNNING tasks that are not unhealthy count for whether a service may lose one (C5).
func TestServicesShortOfHealthyTasksKeepTheirs(t *testing.T) {
	for name, change := range map[string]func(*cluster.Task){
		"Unhealthy": func(t *cluster.Task) { t.Health = cluster.Unhealthy },
		"Pending":   func(t *cluster.Task) { t.Last = "" },
		"Stopping":  func(t *cluster.Task) { t.Desired = cluster.TaskStopped },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(lightlyUsed, web("web", 5, ""), consolidating(100, time.Minute))
			for _, r := range w.rows {
				if task, ok := r.(*cluster.Task); ok && task.ID == "t1-0" {
					change(task)
				}
			}
			d := w.decide()
			expect(t, "drain", len(d.Drain), 0)
			contains(t, "why", why(d, "i-2"), "service web has 4 of 5 tasks healthy")
		})
	}
}

// A decision tries to empty at most 50 instances, the cheapest first, and says so of the others.
func TestTriesAreBounded(t *testing.T) {
	w := newWorld(consolidating(100, time.Minute), web("web", 156, ""))
	for n := range 52 {
		w.instance(n+1, 3)
	}
	w.group.Max = 100
	large := small
	large.CPU *= 2 // none fits beside three others
	for _, r := range w.rows {
		if task, ok := r.(*cluster.Task); ok {
			task.Needs = large
		}
		if i, ok := r.(*cluster.Instance); ok {
			i.Registered.CPU = 6 * 512 * cluster.CPUUnit
		}
	}
	mover := w.movers["web"]
	spec := *mover.Spec
	spec.Needs = large
	mover.Spec = &spec
	w.movers["web"] = mover
	tried, left := 0, 0
	for _, c := range w.decide().Consolidation {
		switch {
		case strings.Contains(c.Why, "fits nowhere else"):
			tried++
		case c.Why == "50 other instances cost less to drain and were tried first":
			left++
		}
	}
	expect(t, "tried and left", [2]int{tried, left}, [2]int{50, 2})
}

// Tasks of a draining instance that are being stopped, or that may not move, reserve no room
// elsewhere (C5).
func TestOnlyMovingTasksReserveRoom(t *testing.T) {
	drained := func(change ...taskOption) scaling.Decision {
		w := newWorld(web("web", 4, ""), consolidating(100, time.Minute))
		w.instance(1, 3)
		w.instance(2, 1)
		w.rows = append(w.rows, row(9, status(cluster.InstanceDraining))) // of another group
		w.task("t9", 9, change...)
		return w.decide()
	}
	expect(t, "of a service that moves", fmt.Sprint(drained().Drain), "[]")
	expect(t, "of another service", fmt.Sprint(drained(of("other")).Drain), "[c-2]")
	stopping := func(t *cluster.Task) { t.Desired = cluster.TaskStopped }
	expect(t, "that is stopping", fmt.Sprint(drained(stopping).Drain), "[c-2]")
}

// Instances that could not be drained are left alone for an hour each, also those that are needed
// after all.
func TestDrainsThatEndAreDeferred(t *testing.T) {
	w := newWorld(consolidating(100, time.Hour), web("web", 5, ""), bounds(3, 9))
	w.instance(1, 3)
	for n := 2; n <= 3; n++ {
		w.instance(n, 0, status(cluster.InstanceDraining))
		w.history.Drains = append(w.history.Drains, cluster.Drain{Instance: fmt.Sprintf("c-%d", n),
			At: noon.Add(-time.Minute)})
	}
	w.history.DeferredUntil = map[string]time.Time{"c-8": noon.Add(time.Minute), "c-9": noon}
	d := w.decide()
	contains(t, "why", why(d, "i-2"), "it can receive tasks again: it is needed as free capacity")
	expect(t, "deferred", fmt.Sprint(len(w.history.DeferredUntil)), "3")
	for id, until := range map[string]time.Duration{"c-2": time.Hour, "c-3": time.Hour, "c-8": time.Minute} {
		expect(t, id, w.history.DeferredUntil[id], noon.Add(until))
	}
}

// An instance that someone else protects says so, in its warm-up too; a container instance that has
// deregistered is none.
func TestProtectedAndDeregisteredInstances(t *testing.T) {
	w := newWorld(instances(1, 1))
	w.group.Instances[1].Protected, w.group.Instances[1].LaunchedAt = true, noon.Add(-time.Minute)
	contains(t, "why", why(w.decide(), "i-2"), "it is protected from scale-in by someone else")
	for _, r := range w.rows {
		if i, ok := r.(*cluster.Instance); ok && i.ID == "c-2" {
			i.Status = cluster.InstanceInactive
		}
	}
	w.group.Instances[1].Protected = false
	contains(t, "why", why(w.decide(), "i-2"), "has not registered yet")
}

// Only owners whose tasks need instances learn that there are none: not those whose tasks have
// room, and not those whose tasks are ignored.
func TestOwnersWithRoomAreNotTold(t *testing.T) {
	w := newWorld(instances(1, 0), bounds(0, 1), waits(1, small), waits(4, halfInstance), waits(1,
		cluster.Resources{CPU: 9 * cluster.VCPU, Memory: 512}, func(*placement.Spec) {}))
	var told []string
	for _, e := range w.decide().Events {
		if strings.Contains(e.Message, "tasks wait for capacity provider") {
			told = append(told, e.Owner)
		}
	}
	expect(t, "owners", strings.Join(told, ", "), "service w1")
}
