package nodegroup_test

import (
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
)

func force(r *nodegroup.Request)          { r.Force = true }
func forceProtected(r *nodegroup.Request) { r.Force, r.ForceProtected = true, true }

// Force stops tasks that do not leave in 15 minutes, and protected ones only if it says so.
func TestForce(t *testing.T) {
	standalone := func(*nodegroup.Task) {}
	protected := func(x *nodegroup.Task) { x.Task.Service, x.Protected = "api", true }
	for name, c := range map[string]struct {
		task  func(*nodegroup.Task)
		force func(*nodegroup.Request)
		fails string
	}{
		"StopsStandaloneTasks": {standalone, force, ""},
		"SparesProtectedTasks": {protected, force, "of service api is protected"},
		"StopsProtectedTasks":  {protected, forceProtected, ""},
		"ProtectedAloneForcesNone": {protected, func(r *nodegroup.Request) { r.ForceProtected = true },
			"of service api is protected"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, 2, cluster.UpdateConfig{MaxUnavailable: 4})
			w.each(c.task)
			w.begin(c.force)
			u := w.run()
			if c.fails != "" {
				says(t, u, cluster.PodEvictionFailure, c.fails)
			} else if u.Status != cluster.UpdateSuccessful {
				t.Errorf("%s %+v", u.Status, u.Errors)
			}
			for _, a := range w.log {
				if c.fails != "" && len(a) > 10 && a[:10] == "stop tasks" {
					t.Error(a)
				}
			}
			w.check()
		})
	}
}

// A task that ignores its stop does not delay a forced update for ever.
func TestForceTimesOut(t *testing.T) {
	w := newWorld(t, 1, 2, cluster.UpdateConfig{})
	w.each(func(*nodegroup.Task) {})
	w.plant.act = func(_ *world, _ *cluster.Update, actions []nodegroup.Action) []nodegroup.Action {
		for k := range actions {
			actions[k].Tasks = nil // no stop arrives
		}
		return actions
	}
	w.begin(force)
	if u := w.run(); u.Status != cluster.UpdateSuccessful {
		t.Errorf("%s %+v", u.Status, u.Errors)
	}
	if took := w.now.Sub(noon); took < 40*time.Minute {
		t.Errorf("two nodes after %v", took)
	}
}

// Time in which nobody reconciled the update does not count: no task could have been replaced in
// it.
func TestNoTaskIsStoppedAfterAPause(t *testing.T) {
	w := newWorld(t, 1, 2, cluster.UpdateConfig{})
	w.blocked["web"] = true
	w.begin(force)
	w.until(func(u *cluster.Update) bool { return len(u.Removals) > 0 && !u.Removals[0].DrainingAt.IsZero() })
	w.now = w.now.Add(6 * time.Hour)
	began := w.now
	w.until(func(u *cluster.Update) bool { return u.Removals[0].Step == cluster.StepStop })
	if waited := w.now.Sub(began); waited < 14*time.Minute || waited > 16*time.Minute {
		t.Errorf("tasks are stopped %v after waking", waited)
	}
}

// Such time fails no update either.
func TestNothingFailsAfterAPause(t *testing.T) {
	for name, is := range map[string]func(*cluster.Update) bool{
		"WhileNodesComeUp": func(u *cluster.Update) bool {
			return u.Phase == cluster.PhaseScaleUp &&
				!u.WaitingSince.IsZero()
		},
		"WhileNodesAreReplaced": func(u *cluster.Update) bool { return !u.Shortage.Since.IsZero() },
		"WhileTasksLeave": func(u *cluster.Update) bool {
			return len(u.Removals) > 0 &&
				!u.Removals[0].DrainingAt.IsZero()
		},
		"WhileNodesAreTerminated": func(u *cluster.Update) bool {
			return len(u.Removals) > 0 && u.Removals[0].Step == cluster.StepTerminate
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 2, cluster.UpdateConfig{})
			w.begin()
			w.until(is)
			w.now = w.now.Add(6 * time.Hour)
			if u := w.run(); u.Status != cluster.UpdateSuccessful {
				t.Errorf("%s %+v", u.Status, u.Errors)
			}
			w.check()
		})
	}
}

// The time for tasks to leave counts from when the node is DRAINING, not from when that was
// requested.
func TestTimeCountsFromDraining(t *testing.T) {
	w := newWorld(t, 1, 2, cluster.UpdateConfig{})
	w.plant.act = without(nodegroup.Drain)
	w.begin()
	w.until(func(u *cluster.Update) bool { return len(u.Removals) > 0 })
	taken := w.now
	w.until(func(*cluster.Update) bool { return w.now.Sub(taken) > time.Hour })
	w.plant.act = nil
	if u := w.run(); u.Status != cluster.UpdateSuccessful {
		t.Errorf("%s %+v", u.Status, u.Errors)
	}
	w.check()
}

// A task that becomes protected while the others are being stopped is spared.
func TestForceSparesTasksThatBecomeProtected(t *testing.T) {
	w := newWorld(t, 1, 2, cluster.UpdateConfig{})
	w.blocked["web"] = true
	w.begin(force)
	w.until(func(u *cluster.Update) bool { return len(u.Removals) > 0 && !u.Removals[0].DrainingAt.IsZero() })
	w.plant.act = without(nodegroup.StopTasks)
	u := w.until(func(u *cluster.Update) bool { return u.Removals[0].Step == cluster.StepStop })
	v := w.vms[u.Removals[0].Instance]
	v.Tasks[0].Protected = true
	says(t, w.run(), cluster.PodEvictionFailure, "is protected")
	if w.vms[v.ID] == nil {
		t.Errorf("%s is gone", v.ID)
	}
}
