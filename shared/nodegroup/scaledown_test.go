package nodegroup_test

import (
	"slices"
	"strings"
	"testing"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
)

// Scaling out ends the scale-down at once, and the update says why the sizes are what they are
// (N5).
func TestScalingOutEndsTheScaleDown(t *testing.T) {
	w := newWorld(t, 3, 3, cluster.UpdateConfig{})
	w.begin()
	w.until(func(u *cluster.Update) bool {
		return u.Phase == cluster.PhaseScaleDown && w.group.Desired == 12 && len(u.Removals) > 0 &&
			u.Removals[0].Step == cluster.StepDrain
	})
	w.group.IsGrowing = true
	w.group.Desired++
	w.log = nil
	u := w.run()
	w.check()
	if u.Status != cluster.UpdateSuccessful ||
		u.SizesReason != "Managed scaling is growing the group: it stays at maximum 14 and desired 13, originally 11 and 9" {
		t.Errorf("%s: %q", u.Status, u.SizesReason)
	}
	for _, a := range w.log {
		if strings.HasPrefix(a, "resize") || strings.HasPrefix(a, "terminate") || strings.HasPrefix(a, "drain") {
			t.Error(a)
		}
	}
	if w.group.Max != 14 || w.group.Desired != 13 {
		t.Errorf("sizes %+v", w.group.Sizes)
	}
	t.Run("NextUpdateKnowsTheOriginalMaximum", func(t *testing.T) {
		w.group.IsGrowing = false
		w.tick()
		w.begin()
		u := w.run()
		if u.Status != cluster.UpdateSuccessful || w.group.Max != 11 {
			t.Errorf("%s, sizes %+v", u.Status, w.group.Sizes)
		}
	})
}

// So does a change by a target tracking policy or the group's owner, which nobody reports.
func TestEnlargingEndsTheScaleDown(t *testing.T) {
	w := newWorld(t, 3, 3, cluster.UpdateConfig{})
	w.begin()
	w.until(func(u *cluster.Update) bool {
		return u.Phase == cluster.PhaseScaleDown && w.group.Desired == 12 && len(u.Removals) > 0 &&
			u.Removals[0].Step == cluster.StepDrain
	})
	w.group.Desired++
	u := w.run()
	w.check()
	if u.Status != cluster.UpdateSuccessful ||
		u.SizesReason != "The group was enlarged by someone else: it stays at maximum 14 and desired 13, originally 11 and 9" || w.group.Desired != 13 {
		t.Errorf("%s: %q, sizes %+v", u.Status, u.SizesReason, w.group.Sizes)
	}
}

// Nodes that managed scaling added while nodes were replaced are not removed.
func TestNodesAddedMeanwhileStay(t *testing.T) {
	w := newWorld(t, 3, 3, cluster.UpdateConfig{})
	w.group.Max = 30
	w.begin()
	w.until(func(u *cluster.Update) bool { return u.Phase == cluster.PhaseUpgrade })
	w.group.Desired += 2
	u := w.run()
	w.check()
	if u.Status != cluster.UpdateSuccessful || w.group.Desired != 11 || w.group.Max != 30 ||
		!strings.Contains(u.SizesReason, "desired 11, originally 1, 30 and 9") {
		t.Errorf("%s, sizes %+v: %q", u.Status, w.group.Sizes, u.SizesReason)
	}
}

// Nodes that were added before the update had enlarged the group are not removed either, whenever
// they came between two reconciliations.
func TestNodesAddedBeforeTheSurplusStay(t *testing.T) {
	for looks := range 6 {
		w := newWorld(t, 3, 3, cluster.UpdateConfig{})
		w.group.Max = 30
		w.begin()
		if looks == 0 {
			w.checker.original.Desired, w.checker.faulty = 11, true // it was so before the update looked
		}
		for range looks {
			w.look(everything)
			w.tick()
		}
		w.group.Desired += 2
		u := w.run()
		w.check()
		if u.Status != cluster.UpdateSuccessful || w.group.Desired != 11 || w.group.Max != 30 {
			t.Errorf("after %d looks: %s, sizes %+v: %q", looks, u.Status, w.group.Sizes, u.SizesReason)
		}
	}
}

// Nodes that others remove meanwhile are not replaced, and not removed a second time.
func TestNodesRemovedByOthers(t *testing.T) {
	for name, is := range map[string]func(*cluster.Update) bool{
		"InTheUpgrade": func(u *cluster.Update) bool { return u.Phase == cluster.PhaseUpgrade && len(u.Removals) > 0 },
		"InTheScaleDown": func(u *cluster.Update) bool {
			return u.Phase == cluster.PhaseScaleDown && len(u.Removals) > 0 && u.Removals[0].Step == cluster.StepDrain
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 4, cluster.UpdateConfig{})
			w.begin()
			took := 0
			if w.until(is).Phase == cluster.PhaseScaleDown {
				took = 1
			}
			w.checker.faulty = true
			for _, v := range w.sorted() {
				if v.image == newImage && v.Row.Status == cluster.InstanceActive && w.group.Desired > 5-took {
					delete(w.vms, v.ID)
					w.group.Desired--
				}
			}
			u := w.run()
			w.check()
			if u.Status != cluster.UpdateSuccessful || w.group.Desired != 4 {
				t.Errorf("%s %+v, sizes %+v", u.Status, u.Errors, w.group.Sizes)
			}
		})
	}
}

// Of the surplus, nodes with a disconnected agent are removed first.
func TestScaleDownRemovesDisconnectedNodesFirst(t *testing.T) {
	w := newWorld(t, 1, 6, cluster.UpdateConfig{})
	w.begin()
	w.until(func(u *cluster.Update) bool { return u.Phase == cluster.PhaseUpgrade })
	u := w.until(func(u *cluster.Update) bool { return u.Phase == cluster.PhaseScaleDown })
	for _, v := range w.sorted() {
		if u.RemovalOf(v.ID) == nil {
			v.Row.AgentConnected = false
			w.start(v, func(x *nodegroup.Task) { x.Task.Service = "web" })
			u = w.run()
			w.check()
			if u.Status != cluster.UpdateSuccessful || w.vms[v.ID] != nil {
				t.Errorf("%s, it is there: %v", u.Status, w.vms[v.ID] != nil)
			}
			return
		}
	}
}

// A surplus node with a task that does not leave is put back into service, and another one is
// removed.
func TestScaleDownRemovesAnotherNode(t *testing.T) {
	w := newWorld(t, 1, 3, cluster.UpdateConfig{})
	w.begin()
	u := w.until(func(u *cluster.Update) bool { return u.Phase == cluster.PhaseScaleDown && len(u.Removals) > 0 })
	v := w.vms[u.Removals[0].Instance]
	w.start(v, func(*nodegroup.Task) {})
	u = w.run()
	w.check()
	if u.Status != cluster.UpdateSuccessful || len(u.RetainedNodes) != 1 || u.RetainedNodes[0] != v.ID ||
		w.vms[v.ID] == nil || w.group.Desired != 3 {
		t.Errorf("%s, kept %v, sizes %+v", u.Status, u.RetainedNodes, w.group.Sizes)
	}
}

// An instance whose termination never ends does not keep the sizes from being restored.
func TestScaleDownTimesOut(t *testing.T) {
	w := newWorld(t, 1, 2, cluster.UpdateConfig{})
	w.begin()
	u := w.until(func(u *cluster.Update) bool { return u.Phase == cluster.PhaseScaleDown && len(u.Removals) > 0 })
	w.stopNodes[u.Removals[0].Instance] = true
	if u = w.run(); u.Status != cluster.UpdateSuccessful || w.group.Desired != 2 {
		t.Errorf("%s, sizes %+v", u.Status, w.group.Sizes)
	}
	w.check()
}

// A node that stays although it was terminated is put back into service, and another one is
// removed.
func TestScaleDownWithoutTermination(t *testing.T) {
	w := newWorld(t, 1, 2, cluster.UpdateConfig{})
	w.begin()
	u := w.until(func(u *cluster.Update) bool { return u.Phase == cluster.PhaseScaleDown && len(u.Removals) > 0 })
	id := u.Removals[0].Instance
	w.plant.act = func(_ *world, _ *cluster.Update, all []nodegroup.Action) []nodegroup.Action {
		return slices.DeleteFunc(all, func(a nodegroup.Action) bool {
			return a.Kind == nodegroup.Terminate &&
				a.Instance == id
		})
	}
	if u = w.run(); u.Status != cluster.UpdateSuccessful || w.group.Desired != 2 ||
		!slices.Equal(u.RetainedNodes, []string{id}) || w.vms[id] == nil {
		t.Errorf("%s, sizes %+v, kept %v", u.Status, w.group.Sizes, u.RetainedNodes)
	}
}

// During the upgrade, an instance whose termination never ends is an error that names it.
func TestTerminationThatNeverEnds(t *testing.T) {
	w := newWorld(t, 1, 2, cluster.UpdateConfig{})
	w.begin()
	u := w.until(func(u *cluster.Update) bool { return len(u.Removals) > 0 })
	id := u.Removals[0].Instance
	w.stopNodes[id] = true
	u = w.run()
	if e := says(t, u, cluster.UnknownUpdateError, "were terminated but still exist"); e.Resources[0] != id {
		t.Errorf("resources %v", e.Resources)
	}
}

func TestMinimalNeedsNoMoreNodes(t *testing.T) {
	w := newWorld(t, 3, 3, cluster.UpdateConfig{MaxUnavailablePercentage: 25, Strategy: cluster.UpdateMinimal})
	w.begin()
	most, marked := 0, 0
	u := w.until(func(u *cluster.Update) bool {
		here := 0
		for _, v := range w.vms {
			if v.Row != nil && v.Row.Attributes[cluster.AttributeUnschedulable] != "" &&
				v.Lifecycle != nodegroup.Terminating {
				here++
			}
		}
		most, marked = max(most, w.group.Desired), max(marked, here)
		return u.HasEnded()
	})
	w.check()
	if u.Status != cluster.UpdateSuccessful || most != 9 || u.MaxUnavailable != 2 || marked != 2 {
		t.Errorf("%s, desired up to %d, %d at a time, %d unschedulable: %+v", u.Status, most, u.MaxUnavailable, marked,
			u.Errors)
	}
}

func TestNothingToReplace(t *testing.T) {
	for name, nodes := range map[string]int{"EmptyGroup": 0, "UpToDate": 2} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, nodes, cluster.UpdateConfig{})
			for _, v := range w.vms {
				v.image = newImage
				v.Row.Attributes[nodegroup.LabelImage] = newImage
			}
			w.begin()
			u := w.run()
			w.check()
			if u.Status != cluster.UpdateSuccessful || w.launched != 2*nodes {
				t.Errorf("%s, %d launched", u.Status, w.launched)
			}
		})
	}
}

// Marks and DRAINING that others have set stay.
func TestMarksOfOthersStay(t *testing.T) {
	w := newWorld(t, 2, 3, cluster.UpdateConfig{MaxUnavailable: 6})
	all := w.sorted()
	all[0].Row.Attributes[cluster.AttributeUnschedulable] = "maintenance"
	all[1].Row.Status = cluster.InstanceDraining
	w.blocked["web"] = true
	w.begin()
	says(t, w.run(), cluster.PodEvictionFailure, "deployment configuration of service web")
	w.check()
	if got := all[0].Row.Attributes[cluster.AttributeUnschedulable]; got != "maintenance" {
		t.Errorf("the mark is %q", got)
	}
	if all[1].Row.Status != cluster.InstanceDraining {
		t.Errorf("the instance is %s", all[1].Row.Status)
	}
}
