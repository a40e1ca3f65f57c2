package nodegroup_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
)

// An old node that its user has put into Standby is neither in service nor gone. The update says so
// and ends.
func TestNodeInStandbyTimesOut(t *testing.T) {
	w := newWorld(t, 2, 2, cluster.UpdateConfig{})
	w.begin()
	first := w.sorted()[0]
	w.until(func(u *cluster.Update) bool { return u.Phase == cluster.PhaseUpgrade })
	first.Lifecycle = nodegroup.Terminating // handler.lifecycle maps Standby and Detaching to this
	w.stopNodes[first.ID] = true            // it stays
	for range 3 * 24 * 60 * 5 {             // five looks a minute... steps of 20 s: 5 days
		if u := w.look(everything); u.HasEnded() {
			says(t, u, cluster.OperationNotPermitted, "Instances are neither in service nor terminated: "+first.ID)
			return
		}
		w.tick()
	}
	u := w.update()
	t.Errorf("after %s the update is %s in %s, waits for %q", w.now.Sub(noon), u.Status, u.Phase, u.WaitingFor)
}

// A maximum that the user raises during an update stays.
func TestMaximumRaisedMeanwhileStays(t *testing.T) {
	w := newWorld(t, 2, 2, cluster.UpdateConfig{})
	w.begin()
	before := w.group.Max
	w.until(func(u *cluster.Update) bool { return u.Phase == cluster.PhaseUpgrade })
	w.group.Max = before + 100
	u := w.run()
	if w.group.Max != before+100 {
		t.Errorf("the user set the maximum to %d while the update ran; it ended %s with %d, stopped %q, errors %v",
			before+100, u.Status, w.group.Max, u.SizesReason, u.Errors)
	}
}

// A minimum that is raised above the original sizes holds: the update tries nothing that Auto
// Scaling must refuse.
func TestMinimumRaisedDuringScaleDownHolds(t *testing.T) {
	w := newWorld(t, 2, 2, cluster.UpdateConfig{})
	w.begin()
	w.until(func(u *cluster.Update) bool { return u.Phase == cluster.PhaseScaleDown && u.DesiredFloor != nil })
	w.group.Min = w.group.Desired
	start := w.now
	refused := 0
	for w.now.Sub(start) < 48*time.Hour {
		u := w.look(func(as []nodegroup.Action) (out []nodegroup.Action) {
			for _, a := range as {
				// AWS: terminating with decrement below the minimum, or sizes out of order, is a
				// ValidationError.
				if a.Kind == nodegroup.Terminate && a.Decrement && w.group.Desired-1 < w.group.Min ||
					a.Kind == nodegroup.Resize && (a.Desired < w.group.Min || a.Max < w.group.Min) {
					refused++
					continue
				}
				out = append(out, a)
			}
			return out
		})
		if u.HasEnded() {
			t.Logf("ended after %s with %d refusals: %s %v stopped %q", w.now.Sub(start), refused, u.Status, u.Errors,
				u.SizesReason)
			if refused > 0 {
				t.Errorf("%d calls that Auto Scaling must refuse in %s", refused, w.now.Sub(start))
			}
			return
		}
		w.tick()
	}
	t.Errorf("not ended after %s, %d refusals", w.now.Sub(start), refused)
}

// A launch template version is used again only if it was made from what the group launches now.
func TestOldTemplateVersionIsNotUsedAgain(t *testing.T) {
	w := newWorld(t, 1, 2, cluster.UpdateConfig{})
	w.begin()
	if u := w.run(); u.Status != cluster.UpdateSuccessful {
		t.Fatal(u.Errors)
	}
	stale := w.group.Template
	// The user makes a version with other user data and the old image for the group, and nodes are
	// made from it.
	w.group.Template = "lt:77"
	for _, v := range w.vms {
		v.Template, v.image = "lt:77", oldImage
		row := *v.Row
		row.Attributes = map[string]string{cluster.AttributeZone: v.Zone, nodegroup.LabelImage: oldImage,
			nodegroup.LabelNodeGroup: "g"}
		v.Row = &row
	}
	w.begin()
	w.run()
	if w.group.Template == stale {
		t.Errorf("the group launched lt:77 and now launches %s, made months ago from lt:1: the user's changes since are lost", stale)
	}
}

// refusing drops the actions of a kind on one node, as if ECS refused them for good: an attribute
// beyond its 10, or a status that cannot become DRAINING.
func refusing(t *testing.T, kind nodegroup.ActionKind) {
	w := newWorld(t, 2, 2, cluster.UpdateConfig{})
	w.begin()
	node := w.sorted()[0].ID
	for range 3 * 60 * 24 * 5 {
		u := w.look(func(as []nodegroup.Action) (out []nodegroup.Action) {
			for _, a := range as {
				if a.Kind != kind || a.Instance != node {
					out = append(out, a)
				}
			}
			return out
		})
		if u.HasEnded() {
			return
		}
		w.tick()
	}
	u := w.update()
	t.Errorf("%q of one node is refused: after %s the update is %s in %s and waits for %q", kind, w.now.Sub(noon),
		u.Status, u.Phase, u.WaitingFor)
}

func TestRefusedMarkTimesOut(t *testing.T)  { refusing(t, nodegroup.Cordon) }
func TestRefusedDrainTimesOut(t *testing.T) { refusing(t, nodegroup.Drain) }

// A node that ECS refuses to put back into service does not keep a failed update from ending, and
// is named.
func TestRefusedReleaseTimesOut(t *testing.T) {
	for _, kind := range []nodegroup.ActionKind{nodegroup.Uncordon, nodegroup.Activate} {
		t.Run(string(kind), func(t *testing.T) {
			w := newWorld(t, 2, 3, cluster.UpdateConfig{})
			w.blocked["web"] = true
			w.begin()
			refused := map[string]string{}
			for range 3 * 60 * 24 {
				u := w.look(func(as []nodegroup.Action) []nodegroup.Action {
					return slices.DeleteFunc(as, func(a nodegroup.Action) bool {
						if a.Kind == kind && (refused[a.Instance] != "" || len(refused) == 0) {
							refused[a.Instance] = "ClientException: no"
							return true
						}
						return false
					})
				})
				w.store(nodegroup.RecordRefusals(u, refused))
				if !u.HasEnded() {
					w.tick()
					continue
				}
				last := u.Errors[len(u.Errors)-1]
				if len(refused) != 1 || last.Code != cluster.OperationNotPermitted ||
					refused[last.Resources[0]] == "" || !strings.Contains(last.Message, "ClientException: no") {
					t.Errorf("refused %v, errors %+v", refused, u.Errors)
				}
				return
			}
			t.Errorf("it waits for %q", w.update().WaitingFor)
		})
	}
}

// A maximum that an earlier update has left higher is restored even if nothing has to be replaced.
func TestMaximumLeftByAnUpdateIsRestored(t *testing.T) {
	w := newWorld(t, 2, 2, cluster.UpdateConfig{})
	had := w.group.Sizes
	w.begin()
	w.until(func(u *cluster.Update) bool { return u.Phase == cluster.PhaseScaleDown && u.DesiredFloor != nil })
	w.group.IsGrowing = true
	if u := w.run(); u.FinalSizes.Max <= had.Max {
		t.Fatalf("it ended with %+v", u.FinalSizes)
	}
	w.group.IsGrowing, w.group.Desired = false, had.Desired
	for _, v := range w.sorted()[had.Desired:] {
		delete(w.vms, v.ID)
	}
	w.begin()
	if u := w.run(); *u.FinalSizes != had || u.SizesReason != "" {
		t.Errorf("it ended with %+v, stopped %q, want %+v", u.FinalSizes, u.SizesReason, had)
	}
}

// A new node that only lacks its labels accepts tasks. A failed update empties it before
// terminating it, even if it has none now.
func TestNodeWithoutLabelsIsEmptiedFirst(t *testing.T) {
	w := newWorld(t, 2, 2, cluster.UpdateConfig{})
	w.failing = &failure{state: "unlabelled"}
	w.begin()
	u := w.until(func(u *cluster.Update) bool {
		for _, v := range w.vms {
			if v.image == newImage {
				v.Tasks = nil
			}
		}
		return u.HasEnded()
	})
	says(t, u, cluster.NodeCreationFailure, "lack the labels")
	w.check()
}
