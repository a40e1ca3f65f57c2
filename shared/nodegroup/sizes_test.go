package nodegroup_test

import (
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
)

// A maximum that somebody else sets while an update runs stays, and the update says so.
func TestMaximumSetByOthersStays(t *testing.T) {
	for _, phase := range []cluster.UpdatePhase{cluster.PhaseScaleUp, cluster.PhaseUpgrade, cluster.PhaseScaleDown} {
		for name, by := range map[string]int{"Raised": 100, "Lowered": -1} {
			t.Run(string(phase)+name, func(t *testing.T) {
				w := newWorld(t, 2, 2, cluster.UpdateConfig{})
				w.begin()
				w.until(func(u *cluster.Update) bool {
					return u.Phase == phase && (phase != cluster.PhaseScaleDown || u.DesiredFloor != nil)
				})
				w.tick()
				w.group.Max += by
				set := w.group.Max
				u := w.run()
				if w.group.Max != set || u.Status != cluster.UpdateSuccessful || u.SizesReason == "" {
					t.Errorf("the maximum was set to %d; the update ended %s with %d, stopped %q", set, u.Status,
						w.group.Max, u.SizesReason)
				}
				w.check()
				w.begin(func(r *nodegroup.Request) { r.Target.Image = "ami-third" })
				if again := w.update(); again.UnrestoredSizes != nil && again.UnrestoredSizes.Max != set {
					t.Errorf("the next update is to come back to %+v", again.UnrestoredSizes)
				}
			})
		}
	}
}

// The scale-down ends at a minimum that is raised meanwhile, because Auto Scaling would refuse to
// go below it.
func TestMinimumRaisedDuringTheScaleDown(t *testing.T) {
	w := newWorld(t, 2, 2, cluster.UpdateConfig{})
	w.begin()
	w.until(func(u *cluster.Update) bool { return u.Phase == cluster.PhaseScaleDown && len(u.Removals) > 0 })
	w.group.Min = w.group.Desired
	w.checker.original.Min = w.group.Min
	w.checker.faulty = true // the surplus stays
	start := w.now
	w.plant.act = func(w *world, _ *cluster.Update, all []nodegroup.Action) []nodegroup.Action {
		for _, a := range all {
			if a.Decrement && w.group.Desired <= w.group.Min || a.Kind == nodegroup.Resize && a.Desired < w.group.Min {
				t.Errorf("with a minimum of %d: %v", w.group.Min, a)
			}
		}
		return all
	}
	u := w.run()
	if u.Status != cluster.UpdateSuccessful || u.SizesReason == "" || w.now.Sub(start) > 10*time.Minute {
		t.Errorf("%s after %s, stopped %q, errors %v", u.Status, w.now.Sub(start), u.SizesReason, u.Errors)
	}
	w.check()
}
