package nodegroup_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
)

// A zone is named as one without a new node only while the group scales up, and only if it is one.
func TestZonesThatAreNotToBlame(t *testing.T) {
	late := noon.Add(-15 * time.Minute)
	up := begunAt(cluster.PhaseScaleUp, func(u *cluster.Update) { u.WaitingSince = late })
	during := begunAt(cluster.PhaseUpgrade, func(u *cluster.Update) {
		u.RequiredNodes, u.Shortage = 4, cluster.NodeShortage{Since: late, Ready: 1}
	})
	for name, c := range map[string]struct {
		u     *cluster.Update
		nodes []nodegroup.Instance
		want  string
	}{
		"ScaleUp": {up, []nodegroup.Instance{node("i-1", false), node("i-2", false), node("i-3", true),
			node("i-4", true, notRegistered)}, "Instances failed to join the cluster"},
		"Upgrade": {during, []nodegroup.Instance{node("i-1", false, inZone("b")), node("i-3", true)},
			"The Auto Scaling group has launched 2 of 4 instances"},
	} {
		next, _ := nodegroup.Next(c.u, groupOf(4), c.nodes, noon)
		if len(next.Errors) != 1 || !strings.HasPrefix(next.Errors[0].Message, c.want) {
			t.Errorf("%s: errors are %+v, expected one with %q", name, next.Errors, c.want)
		}
	}
}

// A failure ends the waits of the upgrade. Nodes that are not being terminated return to service;
// one that returns already goes on to.
func TestFailureEndsTheUpgrade(t *testing.T) {
	u := begunAt(cluster.PhaseUpgrade, func(u *cluster.Update) {
		u.Shortage, u.StalledSince, u.UnhealthyBefore = cluster.NodeShortage{Since: noon, Ready: 1}, noon,
			[]string{"web"}
		u.CurrentDomain, u.DomainReplacedAt = "ud1", noon
		for k, step := range []cluster.NodeStep{cluster.StepDrain, cluster.StepStop, cluster.StepCordon,
			cluster.StepTerminate, cluster.StepRelease} {
			removing(fmt.Sprint("i-", k), step, time.Minute)(u)
		}
	})
	next := nodegroup.Fail(u, cluster.UpdateError{Code: cluster.OperationNotPermitted})
	if next.Shortage != (cluster.NodeShortage{}) || !next.StalledSince.IsZero() || next.UnhealthyBefore != nil ||
		next.CurrentDomain != "" || !next.DomainReplacedAt.IsZero() || next.Phase != cluster.PhaseRestore {
		t.Errorf("after the failure: %+v", next)
	}
	for k, w := range next.Removals {
		want := cluster.StepRelease
		if k == 3 {
			want = cluster.StepTerminate
		}
		if kept := w.StepSince.Equal(noon.Add(-time.Minute)); w.Step != want || kept != (k >= 3) {
			t.Errorf("node %d: step %s since %s, expected %s", k, w.Step, w.StepSince, want)
		}
	}
}

// An update that waits for permission says so, and one that has ended waits for nothing.
func TestWhatAnUpdateThatGivesUpWaitsFor(t *testing.T) {
	u := begunAt(cluster.PhaseRestore, func(*cluster.Update) {})
	for now := noon; !u.HasEnded(); now = now.Add(time.Minute) {
		u = nodegroup.GiveUp(u, "denied", nil, now)
		if want := "permission to revert the changes: denied"; !u.HasEnded() && u.WaitingFor != want {
			t.Fatalf("it waits for %q, expected %q", u.WaitingFor, want)
		}
	}
	if u.WaitingFor != "" {
		t.Errorf("after its end it waits for %q", u.WaitingFor)
	}
	u = begunAt(cluster.PhaseScaleDown, surging(4, func(u *cluster.Update) { u.WaitingFor = "nodes" }))
	g := groupOf(4)
	g.Max = 4
	next, _ := nodegroup.Next(u, g, []nodegroup.Instance{node("i-3", true), node("i-4", true), node("i-5", true),
		node("i-6", true)}, noon)
	if !next.HasEnded() || next.WaitingFor != "" {
		t.Errorf("%s, it waits for %q", next.Status, next.WaitingFor)
	}
}

// Labels that were removed from a node group are removed from the nodes that have them.
func TestLabelsToRemove(t *testing.T) {
	g := &cluster.NodeGroup{Name: "g", NodeLabels: cluster.NodeLabels{RemovedLabels: []string{"a", "b", "c"}}}
	n := node("i-1", true, func(i *nodegroup.Instance) { i.Row.Attributes["a"], i.Row.Attributes["c"] = "", "1" })
	if got := nodegroup.RemovableLabels(g, n.Row); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("labels to remove are %v", got)
	}
	if got := nodegroup.RemovableLabels(g, node("i-2", true).Row); len(got) > 0 {
		t.Errorf("labels to remove are %v, of a node that has none of them", got)
	}
}

// A name of 128 characters is accepted, and one of 129 is not.
func TestLongestNameOfANodeGroup(t *testing.T) {
	for length, isLegal := range map[int]bool{128: true, 129: false} {
		g := &cluster.NodeGroup{ID: "7", Machines: &cluster.Machines{}}
		err := nodegroup.InitMade(g, strings.Repeat("x", length-len(cluster.MadeName("", "7"))))
		if len(g.AutoScalingGroup) != length || (err == nil) != isLegal {
			t.Errorf("a name of %d characters: %v", len(g.AutoScalingGroup), err)
		}
	}
}

// A node that ECS refuses to put back is given up when it alone has kept the update from ending for
// as long as tasks have to leave a node. While anything else is under way, that time does not run.
func TestWhenARefusedNodeIsGivenUp(t *testing.T) {
	for name, c := range map[string]struct {
		since   time.Duration
		change  func(*cluster.Update, *nodegroup.Group)
		givenUp bool
	}{
		"Late":    {15 * time.Minute, func(*cluster.Update, *nodegroup.Group) {}, true},
		"NotLate": {14 * time.Minute, func(*cluster.Update, *nodegroup.Group) {}, false},
		"Sizes":   {15 * time.Minute, func(_ *cluster.Update, g *nodegroup.Group) { g.Max = 6 }, false},
		"Template": {15 * time.Minute, func(u *cluster.Update, _ *nodegroup.Group) { u.RevertTemplate = true },
			false},
		"AnotherNode": {15 * time.Minute, func(u *cluster.Update, _ *nodegroup.Group) {
			removing("i-4", cluster.StepDrain, time.Minute)(u)
		}, false},
		"NotRefused": {15 * time.Minute, func(u *cluster.Update, _ *nodegroup.Group) { u.Refusals = nil }, false},
	} {
		u := begunAt(cluster.PhaseRestore, surging(4, removing("i-3", cluster.StepRelease, time.Hour)))
		u.Refusals, u.ReleasingSince = map[string]string{"i-3": "no"}, noon.Add(-c.since)
		g := groupOf(4)
		g.Max = 4
		c.change(u, &g)
		next, _ := nodegroup.Next(u, g, []nodegroup.Instance{node("i-3", true, marked("u-1"), draining),
			node("i-4", true, marked("u-1"), draining, running("t", "web")), node("i-5", true), node("i-6", true)},
			noon)
		if givenUp := slices.Contains(next.AbandonedNodes, "i-3"); givenUp != c.givenUp {
			t.Errorf("%s: the node is given up: %v; errors %+v", name, givenUp, next.Errors)
		}
		if runs := name == "NotLate"; !c.givenUp && next.ReleasingSince.IsZero() == runs {
			t.Errorf("%s: the time runs since %s", name, next.ReleasingSince)
		}
	}
}

// What others have added during an update is no surplus for the next one.
func TestGrowthIsNoSurplusOfTheNextUpdate(t *testing.T) {
	u := begunAt(cluster.PhaseScaleDown, surging(2))
	g := groupOf(4)
	g.IsGrowing = true
	u, _ = nodegroup.Next(u, g, []nodegroup.Instance{node("i-3", true), node("i-4", true), node("i-5", true),
		node("i-6", true)}, noon)
	if !u.HasEnded() {
		t.Fatalf("%s: it waits for %q", u.Status, u.WaitingFor)
	}
	next, err := nodegroup.StartUpdate(&cluster.NodeGroup{Name: "g"}, nodegroup.Request{ID: "u-2",
		Target: cluster.UpdateTarget{Image: "ami-3"}}, u, noon)
	if err != nil {
		t.Fatal(err)
	}
	if s := next.UnrestoredSizes; s != nil && s.Desired != 4 {
		t.Errorf("the next update restores %+v, expected 4 nodes", *s)
	}
}
