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
	if u.WaitingFor != "" || u.SizesReason != "The changes could not be reverted: denied" {
		t.Errorf("after its end it waits for %q, and says %q", u.WaitingFor, u.SizesReason)
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

// An hour in which nobody called does not count as one in which AWS denied something.
func TestPausesDoNotMakeAnUpdateGiveUp(t *testing.T) {
	u := nodegroup.GiveUp(begunAt(cluster.PhaseRestore, func(*cluster.Update) {}), "denied", nil, noon)
	now := noon.Add(time.Hour)
	if u = nodegroup.GiveUp(u, "denied", nil, now); u.SizesReason != "" {
		t.Errorf("after a pause it says %q", u.SizesReason)
	}
	for range 15 {
		now = now.Add(time.Minute)
		u = nodegroup.GiveUp(u, "denied", nil, now)
	}
	if u.SizesReason == "" {
		t.Error("after 15 more minutes of denials it still tries to restore the sizes")
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

// What an update left is surplus as long as managed scaling has not enlarged the group since. If it
// has, the nodes are its own, though the sizes are the same again by chance (N5). Of what an earlier
// version left, only the sizes are known.
func TestNodesThatManagedScalingAddedSinceAreNoSurplus(t *testing.T) {
	seen := groupOf(4)
	seen.ScaleOuts = 3
	last := begunAt(cluster.PhaseRestore, surging(2))
	for now := noon; !last.HasEnded(); now = now.Add(time.Minute) {
		last = nodegroup.GiveUp(last, "denied", &seen, now)
	}
	for scaleOuts, c := range map[int]struct {
		forget bool
		want   int
	}{3: {want: 2}, 4: {want: 4}, 2: {want: 2}, 5: {want: 2, forget: true}} {
		left := *last
		if c.forget {
			left.FinalScaleOuts = nil
		}
		u, err := nodegroup.StartUpdate(&cluster.NodeGroup{Name: "g"}, nodegroup.Request{ID: "u-2",
			Target: cluster.UpdateTarget{Image: "ami-3"}}, &left, noon)
		if err != nil {
			t.Fatal(err)
		}
		g := groupOf(4)
		g.ScaleOuts = scaleOuts
		u, _ = nodegroup.Next(u, g, []nodegroup.Instance{node("i-3", true), node("i-4", true), node("i-5", true),
			node("i-6", true)}, noon)
		if u.OriginalSizes.Desired != c.want {
			t.Errorf("after %d scale-outs, 3 of them before (forgotten: %v), %d nodes are to stay, not %d", scaleOuts,
				c.forget, u.OriginalSizes.Desired, c.want)
		}
	}
}

// Texts list services and labels in order.
func TestTextsAreInOrder(t *testing.T) {
	u := begunAt(cluster.PhaseUpgrade, func(u *cluster.Update) {
		u.ByDomain, u.CurrentDomain, u.DomainReplacedAt, u.RequiredNodes = true, "ud1", noon, 4
		u.Timeouts.Domain = 5 * time.Minute
	})
	g := groupOf(4)
	g.Unhealthy = map[string]string{"1": "d", "2": "b", "3": "e", "4": "a", "5": "c"}
	next, _ := nodegroup.Next(u, g, []nodegroup.Instance{node("i-2", false, inDomain("ud2")), node("i-3", true),
		node("i-4", true), node("i-5", true)}, noon)
	if !strings.HasSuffix(next.WaitingFor, ": a; b; c; d; e") {
		t.Errorf("it waits for %q", next.WaitingFor)
	}
	u = begunAt(cluster.PhaseScaleUp, func(u *cluster.Update) {
		u.WaitingSince, u.Target.SourceTemplate = noon.Add(-15*time.Minute), "lt-1"
		u.Target.SourceVersion = "4"
	})
	want := "eks.amazonaws.com/nodegroup-image=ami-new eks.amazonaws.com/nodegroup=g " +
		"eks.amazonaws.com/sourceLaunchTemplateId=lt-1 eks.amazonaws.com/sourceLaunchTemplateVersion=4."
	nodes := []nodegroup.Instance{node("i-1", false), node("i-2", false), node("i-3", true, unlabelled),
		node("i-4", true, unlabelled)}
	for range 20 { // a map has its labels in another order each time
		if next, _ = nodegroup.Next(u, groupOf(4), nodes, noon); len(next.Errors) == 0 ||
			!strings.Contains(next.Errors[0].Message, want) {
			t.Fatalf("errors are %+v, expected the labels %s", next.Errors, want)
		}
	}
}

// If there is less surplus than nodes being removed, the one taken last is released, and no more
// than there are too many. A group with more nodes than it wants is not enlarged (N5).
func TestNoMoreIsReleasedThanTooMuch(t *testing.T) {
	u := begunAt(cluster.PhaseScaleDown, surging(3, removing("i-3", cluster.StepDrain, time.Minute),
		removing("i-4", cluster.StepDrain, time.Minute)))
	for k := range u.Removals {
		u.Removals[k].Surplus = true
	}
	busy := func(id string) nodegroup.Instance {
		return node(id, true, marked("u-1"), draining, running("t-"+id, "web"))
	}
	next, _ := nodegroup.Next(u, groupOf(4), []nodegroup.Instance{busy("i-3"), busy("i-4"), node("i-5", true),
		node("i-6", true)}, noon)
	if len(next.Removals) != 2 || next.Removals[0].Step != cluster.StepDrain ||
		next.Removals[1].Step != cluster.StepRelease {
		t.Errorf("removals are %+v, expected that i-4 alone is released", next.Removals)
	}
	u = begunAt(cluster.PhaseScaleDown, surging(2))
	_, actions := nodegroup.Next(u, groupOf(3), []nodegroup.Instance{node("i-3", true), node("i-4", true),
		node("i-5", true), node("i-6", true)}, noon)
	if got := actionsOf(actions); !strings.HasPrefix(got, "resize to maximum 5, desired 3") {
		t.Errorf("actions are %q", got)
	}
}

// An update restores what the last one should have: its zones too, a minimum that was raised since,
// and at most a maximum that somebody has set since.
func TestWhatTheLastUpdateLeft(t *testing.T) {
	u := begunAt(cluster.PhaseSetup, func(u *cluster.Update) {
		u.OriginalSizes, u.Zones, u.KnownMaxima = nil, map[string]int{"b": 2}, nil
		u.UnrestoredSizes = &cluster.Sizes{Min: 1, Max: 4, Desired: 2}
		u.LeftSizes = &cluster.Sizes{Min: 1, Max: 6, Desired: 4}
	})
	next, _ := nodegroup.Next(u, groupOf(4), []nodegroup.Instance{node("i-1", false), node("i-2", false),
		node("i-3", false), node("i-4", false)}, noon)
	if next.Zones["b"] != 2 || len(next.Zones) != 1 || *next.OriginalSizes != *u.UnrestoredSizes {
		t.Errorf("zones %v and sizes %+v are restored", next.Zones, next.OriginalSizes)
	}
	for most, want := range map[int]cluster.Sizes{0: {Min: 3, Max: 4, Desired: 3}, 5: {Min: 3, Max: 5, Desired: 3},
		9: {Min: 3, Max: 6, Desired: 3}} {
		last := begunAt(cluster.PhaseScaleDown, func(u *cluster.Update) {
			u.Status, u.FinalSizes = cluster.UpdateFailed, &cluster.Sizes{Min: 3, Max: 6, Desired: 4}
			if most > 0 {
				u.UserMax = new(most)
			}
		})
		next, err := nodegroup.StartUpdate(&cluster.NodeGroup{Name: "g"}, nodegroup.Request{ID: "u-2",
			Target: cluster.UpdateTarget{Image: "ami-3"}}, last, noon)
		if err != nil || next.UnrestoredSizes == nil || *next.UnrestoredSizes != want {
			t.Errorf("with a maximum of %d: %+v, %v, expected %+v", most, next.UnrestoredSizes, err, want)
		}
	}
}

// Each step of a removal ends after its time.
func TestWhenAStepEnds(t *testing.T) {
	for step, want := range map[cluster.NodeStep]time.Duration{cluster.StepDrain: 15 * time.Minute,
		cluster.StepStop: 5 * time.Minute, cluster.StepCordon: time.Minute, cluster.StepTerminate: 65 * time.Minute} {
		u := begunAt(cluster.PhaseUpgrade, removing("i-1", step, 0))
		if ends := nodegroup.NewWaitEnds(nil, u); len(ends) != 1 || !ends[0].Equal(noon.Add(want)) {
			t.Errorf("%s ends at %v, expected after %s", step, ends, want)
		}
	}
}

// A node of which the update takes no more care, and which is still there, was put back into service. One
// that has gone was not.
func TestEndsRelease(t *testing.T) {
	u := begunAt(cluster.PhaseRestore, func(u *cluster.Update) {
		u.Removals = []cluster.NodeRemoval{{Instance: "i-1", Step: cluster.StepRelease}, {Instance: "i-2", Step: cluster.StepDrain}}
	})
	only := func(id string) *cluster.Update {
		next := *u
		next.Removals = slices.DeleteFunc(slices.Clone(u.Removals),
			func(w cluster.NodeRemoval) bool { return w.Instance != id })
		return &next
	}
	both := []nodegroup.Instance{node("i-1", false), node("i-2", false)}
	for name, c := range map[string]struct {
		next *cluster.Update
		now  []nodegroup.Instance
		want bool
	}{
		"AllContinue": {u, both, false}, "OneIsBack": {only("i-2"), both, true}, "OneHasGone": {only("i-2"), both[1:], false},
	} {
		if got := nodegroup.EndsRelease(u, c.next, c.now); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// An update knows which nodes it has drained while they are there, also after its end: a node that its user
// has drained is not among them.
func TestUpdatesKnowWhatTheyDrained(t *testing.T) {
	u := begunAt(cluster.PhaseUpgrade, func(u *cluster.Update) {
		u.RequiredNodes, u.MaxUnavailable, u.DrainedNodes = 4, 3, []string{"i-9"}
		u.Removals = []cluster.NodeRemoval{{Instance: "i-1", Node: "ci-i-1", Step: cluster.StepDrain},
			{Instance: "i-2", Node: "ci-i-2", Step: cluster.StepDrain, Foreign: true},
			{Instance: "i-3", Node: "ci-i-3", Step: cluster.StepDrain, DrainingAt: noon, StepSince: noon}}
	})
	next, actions := nodegroup.Next(u, groupOf(4), []nodegroup.Instance{node("i-1", false, running("a", "web")),
		node("i-2", false, draining, running("b", "web")), node("i-3", false, draining, running("c", "web")),
		node("i-4", true)}, noon)
	if !slices.ContainsFunc(actions, func(a nodegroup.Action) bool {
		return a.Kind == nodegroup.Drain && a.Instance == "i-1"
	}) {
		t.Fatalf("actions %v", actions)
	}
	if slices.Sort(next.DrainedNodes); !slices.Equal(next.DrainedNodes, []string{"i-1", "i-3"}) {
		t.Errorf("it has drained %v", next.DrainedNodes)
	}
	next = nodegroup.EndWithoutGroup(next, "asg", noon)
	for id, want := range map[string]bool{"i-1": true, "i-2": false, "i-3": true} {
		row := &cluster.Instance{EC2InstanceID: id, Status: cluster.InstanceDraining}
		if nodegroup.IsDrainedBy(next, row) != want {
			t.Errorf("%s: drained by the update is %v", id, !want)
		}
		if row.Status = cluster.InstanceActive; nodegroup.IsDrainedBy(next, row) {
			t.Errorf("%s is ACTIVE, and drained", id)
		}
	}
}

// A mark is stale once its update has ended, unless ECS has refused to remove it.
func TestStaleMarks(t *testing.T) {
	ended := &cluster.Update{ID: "u-1", Status: cluster.UpdateFailed}
	ended.AbandonedNodes = []string{"i-2"}
	marked := func(id, by string) *cluster.Instance {
		return &cluster.Instance{EC2InstanceID: id, Attributes: map[string]string{cluster.AttributeUnschedulable: by}}
	}
	for name, c := range map[string]struct {
		u    *cluster.Update
		node *cluster.Instance
		want bool
	}{
		"Left":         {ended, marked("i-1", "u-1"), true},
		"OfAnother":    {ended, marked("i-1", "u-2"), false},
		"Unmarked":     {ended, &cluster.Instance{EC2InstanceID: "i-1"}, false},
		"GivenUp":      {ended, marked("i-2", "u-1"), false},
		"StillWorking": {&cluster.Update{ID: "u-1", Status: cluster.UpdateInProgress}, marked("i-1", "u-1"), false},
	} {
		if got := nodegroup.HasStaleMark(c.u, c.node); got != c.want {
			t.Errorf("%s: HasStaleMark is %v", name, got)
		}
	}
}
