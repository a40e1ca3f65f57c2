package nodegroup_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
)

func inZone(name string) func(*nodegroup.Instance) {
	return func(i *nodegroup.Instance) { i.Zone = name }
}

func inDomain(name string) func(*nodegroup.Instance) {
	return func(i *nodegroup.Instance) { i.Row.Attributes[cluster.AttributeUpgrade] = name }
}

// surging changes an update that removes the surplus of a group of four, so that it leaves as many
// nodes as floor.
func surging(floor int, change ...func(*cluster.Update)) func(*cluster.Update) {
	return func(u *cluster.Update) {
		u.DesiredFloor, u.ObservedDesired, u.ScaleDownSince = new(floor), 4, noon
		for _, c := range change {
			c(u)
		}
	}
}

// What an update has asked for shows in the state of the node or the group. Until then the update
// does nothing. A node that is gone, is leaving or has no container instance has nothing to show,
// except that it must still be terminated.
func TestWhenAChangeShows(t *testing.T) {
	for _, c := range []struct {
		asked cluster.AskedChange
		node  nodegroup.Instance
		shows bool
	}{
		{cluster.AskedChange{Kind: "mark"}, node("i-1", false), false},
		{cluster.AskedChange{Kind: "mark"}, node("i-1", false, draining), false},
		{cluster.AskedChange{Kind: "mark"}, node("i-1", false, marked("u-1")), true},
		{cluster.AskedChange{Kind: "clear"}, node("i-1", false, marked("u-1")), false},
		{cluster.AskedChange{Kind: "clear"}, node("i-1", false, marked("u-1"), draining), false},
		{cluster.AskedChange{Kind: "clear"}, node("i-1", false, marked("somebody")), true},
		{cluster.AskedChange{Kind: "clear"}, node("i-1", false), true},
		{cluster.AskedChange{Kind: "drain"}, node("i-1", false, marked("u-1")), false},
		{cluster.AskedChange{Kind: "drain"}, node("i-1", false, draining), true},
		{cluster.AskedChange{Kind: "drain"}, node("i-1", false, notRegistered), true},
		{cluster.AskedChange{Kind: "drain"}, node("i-1", false, leaving), true},
		{cluster.AskedChange{Kind: "activate"}, node("i-1", false, draining), false},
		{cluster.AskedChange{Kind: "activate"}, node("i-1", false, draining, marked("u-1")), false},
		{cluster.AskedChange{Kind: "activate"}, node("i-1", false), true},
		{cluster.AskedChange{Kind: "terminate"}, node("i-1", false, draining, marked("u-1")), false},
		{cluster.AskedChange{Kind: "terminate"}, node("i-1", false, notRegistered), false},
		{cluster.AskedChange{Kind: "terminate"}, node("i-1", false, leaving), true},
		{cluster.AskedChange{Kind: "terminate"}, node("i-2", false), true},
		{cluster.AskedChange{Kind: "resize", Max: 6, Desired: 4}, node("i-1", false), true},
		{cluster.AskedChange{Kind: "resize", Max: 7, Desired: 4}, node("i-1", false), false},
		{cluster.AskedChange{Kind: "resize", Max: 6, Desired: 5}, node("i-1", false), false},
		{cluster.AskedChange{Kind: "use template", Template: "lt:2"}, node("i-1", false), true},
		{cluster.AskedChange{Kind: "use template", Template: "lt:3"}, node("i-1", false), false},
	} {
		c.asked.At = noon
		if c.asked.Max == 0 && c.asked.Template == "" {
			c.asked.Instance = "i-1"
		}
		u := begunAt(cluster.PhaseUpgrade, func(u *cluster.Update) {
			u.RequiredNodes, u.Asked = 4, []cluster.AskedChange{c.asked}
		})
		nodes := []nodegroup.Instance{c.node, node("i-3", true), node("i-4", true), node("i-5", true)}
		next, actions := nodegroup.Next(u, groupOf(4), nodes, noon.Add(time.Second))
		if shows := next != u; shows != c.shows || !shows && len(actions) > 0 {
			t.Errorf("%+v with %+v: it shows %v, and the update asks for %v", c.asked, c.node, shows, actions)
		}
	}
}

// Each time that an update asks again, it waits again.
func TestEachRequestIsWaitedFor(t *testing.T) {
	u := begunAt(cluster.PhaseSetup, func(u *cluster.Update) { u.Template = "" })
	group := nodegroup.Group{Template: "lt:1", Sizes: cluster.Sizes{Min: 1, Max: 4, Desired: 2}}
	var asks []int
	for second := range 200 {
		next, actions := nodegroup.Next(u, group, []nodegroup.Instance{node("i-1", false)},
			noon.Add(time.Duration(second)*time.Second))
		if u = next; len(actions) > 0 {
			asks = append(asks, second)
		}
	}
	if want := []int{0, 54, 108, 162}; !slices.Equal(asks, want) {
		t.Errorf("it asks after %v seconds, expected %v", asks, want)
	}
}

// Refusals of nodes that are gone are forgotten; an update that has ended keeps its own.
func TestRefusalsOfNodesThatAreGone(t *testing.T) {
	u := begunAt(cluster.PhaseUpgrade, func(u *cluster.Update) {
		u.RequiredNodes, u.Refusals = 4, map[string]string{"i-1": "no", "i-9": "never"}
	})
	next, _ := nodegroup.Next(u, groupOf(4), []nodegroup.Instance{node("i-1", false), node("i-3", true),
		node("i-4", true), node("i-5", true)}, noon)
	if want := map[string]string{"i-1": "no"}; !maps.Equal(next.Refusals, want) || len(u.Refusals) != 2 {
		t.Errorf("refusals are %v, expected %v; those before are %v", next.Refusals, want, u.Refusals)
	}
}

// A node that has not registered is an upgrade domain of its own, named like the node.
func TestUnregisteredNodeIsADomain(t *testing.T) {
	u := begunAt(cluster.PhaseSetup, func(u *cluster.Update) { u.ByDomain = true })
	nodes := []nodegroup.Instance{node("x-1", false, notRegistered), node("i-2", false, inDomain("ud1")),
		node("i-1", false, notRegistered)}
	if got := nodegroup.ReplacementOrder(u, nodes); !slices.Equal(got, []string{"i-1", "i-2", "x-1"}) {
		t.Errorf("the order is %v", got)
	}
}

// Over many seeds, each order of three nodes is as frequent as any other.
func TestOrderIsRandom(t *testing.T) {
	nodes := []nodegroup.Instance{node("i-1", false), node("i-2", false), node("i-3", false)}
	count := map[string]int{}
	for seed := range uint64(6000) {
		u := begunAt(cluster.PhaseSetup, func(u *cluster.Update) { u.Seed = seed })
		count[strings.Join(nodegroup.ReplacementOrder(u, nodes), " ")]++
	}
	for order, n := range count {
		if n < 850 || n > 1150 {
			t.Errorf("of 6000 seeds, %d replace %s; expected about 1000", n, order)
		}
	}
}

// After an upgrade domain the update says what it waits for: the time that was set, services that
// have become unhealthy since the domain began, or room for the load of the next one (N7).
func TestWhatADomainWaitsFor(t *testing.T) {
	var leaving [][]string
	noRoom := func(nodes []string) string {
		leaving = append(leaving, nodes)
		return "12 GiB are missing"
	}
	for name, c := range map[string]struct {
		after time.Duration // since the last domain was replaced
		group func(*nodegroup.Group)
		waits string
		phase cluster.UpdatePhase
		nodes []nodegroup.Instance
	}{
		"Time": {time.Minute, func(*nodegroup.Group) {}, "upgrade domain ud1 to settle", cluster.PhaseUpgrade,
			[]nodegroup.Instance{node("i-2", false, inDomain("ud2"))}},
		"Services": {time.Minute, func(g *nodegroup.Group) {
			g.Unhealthy = map[string]string{"web": "web has 3 of 8", "db": "db has 1 of 2"}
		}, "services to recover that are unhealthy since upgrade domain ud1: web has 3 of 8", cluster.PhaseUpgrade,
			[]nodegroup.Instance{node("i-2", false, inDomain("ud2"))}},
		"Room": {5 * time.Minute, func(g *nodegroup.Group) { g.WhyNoRoom = noRoom },
			"room for the load of upgrade domain ud2: 12 GiB are missing", cluster.PhaseUpgrade,
			[]nodegroup.Instance{node("i-2", false, inDomain("ud2"))}},
		"NothingAfterTheLast": {5 * time.Minute, func(g *nodegroup.Group) { g.WhyNoRoom = noRoom },
			"", cluster.PhaseScaleDown, []nodegroup.Instance{node("i-2", true)}},
	} {
		t.Run(name, func(t *testing.T) {
			u := begunAt(cluster.PhaseUpgrade, func(u *cluster.Update) {
				u.ByDomain, u.CurrentDomain, u.DomainReplacedAt, u.RequiredNodes = true, "ud1", noon, 4
				u.UnhealthyBefore, u.Timeouts.Domain, u.ReconciledAt = []string{"db"}, 5*time.Minute, noon.Add(c.after)
			})
			g := groupOf(4)
			c.group(&g)
			leaving = nil
			next, _ := nodegroup.Next(u, g, append(c.nodes, node("i-3", true), node("i-4", true), node("i-5", true)),
				noon.Add(c.after))
			if next.Phase == cluster.PhaseUpgrade && next.WaitingFor != c.waits || next.Phase != c.phase {
				t.Errorf("in phase %s it waits for %q, expected %s, %q", next.Phase, next.WaitingFor, c.phase, c.waits)
			}
			for _, nodes := range leaving {
				if !slices.Equal(nodes, []string{"ci-i-2"}) {
					t.Errorf("the load of %v is to be moved", nodes)
				}
			}
		})
	}
}

// A node that does not become DRAINING in time fails the update, with the words of the refusal.
func TestNodeThatIsNeverDraining(t *testing.T) {
	u := begunAt(cluster.PhaseUpgrade, func(u *cluster.Update) {
		removing("i-1", cluster.StepDrain, 65*time.Minute)(u)
		u.RequiredNodes, u.Removals[0].DrainingAt, u.Refusals = 4, time.Time{}, map[string]string{"i-1": "denied"}
	})
	next, _ := nodegroup.Next(u, groupOf(4), []nodegroup.Instance{node("i-1", false, marked("u-1"),
		running("t", "web")), node("i-3", true), node("i-4", true), node("i-5", true)}, noon)
	if len(next.Errors) != 1 || next.Errors[0].Message != "Node i-1 does not become DRAINING (denied)" ||
		next.Errors[0].Code != cluster.PodEvictionFailure {
		t.Errorf("errors are %+v", next.Errors)
	}
}

// A text names five things at most, and counts the others.
func TestTextsNameFiveThings(t *testing.T) {
	for n, want := range map[int]string{5: "i-5 to be DRAINING", 6: "i-5 to be DRAINING and 1 more",
		8: "i-5 to be DRAINING and 3 more"} {
		u := begunAt(cluster.PhaseUpgrade, func(u *cluster.Update) { u.MaxUnavailable, u.RequiredNodes = n, n })
		var nodes []nodegroup.Instance
		for k := range n {
			id := fmt.Sprintf("i-%d", k+1)
			nodes = append(nodes, node(id, false, marked("u-1")))
			u.Removals = append(u.Removals, cluster.NodeRemoval{Instance: id, Node: "ci-" + id,
				Step: cluster.StepDrain, StepSince: noon})
		}
		next, _ := nodegroup.Next(u, groupOf(n), nodes, noon)
		if !strings.HasPrefix(next.WaitingFor, "i-1 to be DRAINING; i-2") || !strings.HasSuffix(next.WaitingFor, want) {
			t.Errorf("of %d nodes: %q, expected %q at the end", n, next.WaitingFor, want)
		}
	}
}

// Nodes that are not made from a launch template of the user's own have no labels that name one.
func TestLabelsWithoutATemplate(t *testing.T) {
	labels := nodegroup.TargetLabels(begunAt(cluster.PhaseSetup, func(*cluster.Update) {}))
	if want := map[string]string{nodegroup.LabelImage: newImage, nodegroup.LabelNodeGroup: "g"}; !maps.Equal(labels,
		want) {
		t.Errorf("labels are %v, expected %v", labels, want)
	}
}

// A node that somebody else terminates while it is emptied is waited for as one that the update
// terminates, also if it has tasks.
func TestNodeTerminatedByOthers(t *testing.T) {
	for _, step := range []cluster.NodeStep{cluster.StepDrain, cluster.StepCordon, cluster.StepTerminate} {
		u := begunAt(cluster.PhaseUpgrade, func(u *cluster.Update) {
			removing("i-1", step, 30*time.Second)(u)
			u.RequiredNodes = 4
		})
		next, actions := nodegroup.Next(u, groupOf(4), []nodegroup.Instance{node("i-1", false, marked("u-1"), draining,
			leaving, running("t", "web")), node("i-3", true), node("i-4", true), node("i-5", true)}, noon)
		if len(next.Removals) != 1 || next.Removals[0].Step != cluster.StepTerminate || len(actions) > 0 {
			t.Errorf("at %s: removals are %+v, actions %v", step, next.Removals, actions)
		}
	}
}

// A termination names the container instance, which must have no tasks then, unless an update by
// force has waited for its tasks in vain.
func TestTerminationOfANodeWithTasks(t *testing.T) {
	for name, c := range map[string]struct {
		node   nodegroup.Instance
		forced bool
		want   string
	}{
		"Empty":  {node("i-1", false, marked("u-1"), draining), false, "ci-i-1"},
		"Forced": {node("i-1", false, marked("u-1"), draining, running("t", "web")), true, ""},
	} {
		u := begunAt(cluster.PhaseUpgrade, func(u *cluster.Update) {
			removing("i-1", cluster.StepTerminate, time.Minute)(u)
			u.RequiredNodes, u.Force, u.Removals[0].Forced = 4, c.forced, c.forced
		})
		_, actions := nodegroup.Next(u, groupOf(4), []nodegroup.Instance{c.node, node("i-3", true), node("i-4", true),
			node("i-5", true)}, noon)
		if len(actions) != 1 || actions[0].Kind != nodegroup.Terminate || actions[0].Node != c.want {
			t.Errorf("%s: actions are %+v, expected one on %q", name, actions, c.want)
		}
	}
}

// After a failure, new nodes that never came into service are terminated: those of the surplus at
// once, and the others when the group launches from its original template again (N6).
func TestBrokenNodesAfterAFailure(t *testing.T) {
	for template, want := range map[string]string{"lt:2": "i-3 true, i-4 true, ",
		"lt:1": "i-3 true, i-4 true, i-5 false, "} {
		u := begunAt(cluster.PhaseRestore, surging(2, func(u *cluster.Update) { u.RevertTemplate = true }))
		g := groupOf(4)
		g.Template = template
		next, _ := nodegroup.Next(u, g, []nodegroup.Instance{node("i-1", false), node("i-3", true, notRegistered),
			node("i-4", true, disconnected), node("i-5", true, notRegistered),
			node("i-6", true, disconnected, running("t", "web")), node("i-7", true)}, noon)
		got := ""
		for _, w := range next.Removals {
			if got += fmt.Sprintf("%s %v, ", w.Instance, w.Surplus); w.Step != cluster.StepTerminate ||
				!w.NeverInService || !w.StepSince.Equal(noon) {
				t.Errorf("removal %+v", w)
			}
		}
		if got != want {
			t.Errorf("while the group launches from %s, %s are removed, expected %s", template, got, want)
		}
	}
}

// An update leaves the group with its launch template version, unless that was taken back.
func TestLeftTemplate(t *testing.T) {
	for _, c := range []struct {
		original string
		reverted bool
		reason   string
		want     string
	}{
		{"lt:1", false, "", "lt:2"}, {"lt:1", false, "growing", "lt:2"}, {"lt:1", true, "", "lt:1"},
		{"lt:1", true, "denied", ""}, {"", false, "", ""},
	} {
		u := begunAt(cluster.PhaseRestore, func(u *cluster.Update) {
			u.Template, u.OriginalTemplate, u.RevertTemplate, u.SizesReason = "lt:2", c.original, c.reverted, c.reason
		})
		if got := nodegroup.LeftTemplate(u); got != c.want {
			t.Errorf("%+v: the group is left with %q", c, got)
		}
	}
}

// Once an update leaves the sizes to others, its reason stays, and the nodes that it was removing
// return to service; the wait of one that returns already goes on (N5).
func TestSizesLeftToOthers(t *testing.T) {
	u := begunAt(cluster.PhaseScaleDown, surging(4, func(u *cluster.Update) {
		u.SizesReason = "first"
		removing("i-3", cluster.StepDrain, time.Minute)(u)
		removing("i-4", cluster.StepRelease, time.Minute)(u)
	}))
	g := groupOf(4)
	g.IsGrowing = true
	next, actions := nodegroup.Next(u, g, []nodegroup.Instance{node("i-3", true, marked("u-1"), draining),
		node("i-4", true, marked("u-1"), draining), node("i-5", true), node("i-6", true)}, noon)
	if got := actionsOf(actions); next.SizesReason != "first" || len(next.Removals) != 2 ||
		got != "activate i-3, clear i-3, activate i-4, clear i-4" {
		t.Fatalf("%q, removals %+v, actions %s", next.SizesReason, next.Removals, got)
	}
	for k, since := range []time.Time{noon, noon.Add(-time.Minute)} {
		if w := next.Removals[k]; w.Step != cluster.StepRelease || !w.StepSince.Equal(since) {
			t.Errorf("removal %+v, expected a release since %s", w, since)
		}
	}
}

// The desired capacity to restore is the original one, with what others have added before the
// surplus and beyond it (N5).
func TestDesiredCapacityToRestore(t *testing.T) {
	for desired, want := range map[int]int{3: 3, 4: 3, 5: 3, 6: 4, 8: 6} { // of 2, with 1 added before and 2 of surplus
		u := begunAt(cluster.PhaseScaleDown, func(u *cluster.Update) { u.AddedByOthers = 1 })
		nodes := []nodegroup.Instance{}
		for k := range desired {
			nodes = append(nodes, node(fmt.Sprintf("i-%d", k), true))
		}
		next, _ := nodegroup.Next(u, groupOf(desired), nodes, noon)
		if next.DesiredFloor == nil || *next.DesiredFloor != want {
			t.Errorf("of a group of %d nodes, %v stay, expected %d", desired, next.DesiredFloor, want)
		}
	}
}

// When each node of the surplus was tried in vain, the update ends and says that they are left.
func TestEachNodeOfTheSurplusTried(t *testing.T) {
	u := begunAt(cluster.PhaseScaleDown, surging(2, func(u *cluster.Update) {
		u.RetainedNodes, u.RetainedReasons = []string{"i-3", "i-4", "i-5", "i-6"}, []string{"i-3: busy"}
	}))
	next, actions := nodegroup.Next(u, groupOf(4), []nodegroup.Instance{node("i-3", true), node("i-4", true),
		node("i-5", true), node("i-6", true)}, noon)
	if next.Status != cluster.UpdateFailed || len(actions) > 0 || len(next.Errors) != 1 ||
		!strings.Contains(next.Errors[0].Message, "keeps 2 more nodes than the 2 it had") {
		t.Errorf("%s, %v, errors %+v", next.Status, actions, next.Errors)
	}
}

// An update with no node to replace adds no surplus: it has only what an earlier one left.
func TestSurplusWithNothingToReplace(t *testing.T) {
	u := begunAt(cluster.PhaseSetup, func(*cluster.Update) {})
	next, _ := nodegroup.Next(u, groupOf(3), []nodegroup.Instance{node("i-3", true), node("i-4", true),
		node("i-5", true)}, noon)
	if next.Phase != cluster.PhaseScaleDown || next.Surge != 1 {
		t.Fatalf("in phase %s the surplus is %d, expected 1", next.Phase, next.Surge)
	}
	for now := noon; !next.HasEnded(); now = now.Add(time.Minute) {
		next = nodegroup.GiveUp(nodegroup.Fail(next, cluster.UpdateError{}), "denied", nil, now)
	}
	if want := (cluster.Sizes{Min: 1, Max: 5, Desired: 3}); *next.FinalSizes != want {
		t.Errorf("it ends with %+v, expected %+v", *next.FinalSizes, want)
	}
}

// Next writes nothing into the memory of the update that it is given, even behind its lists.
func TestNextLeavesItsArgumentAlone(t *testing.T) {
	u := begunAt(cluster.PhaseScaleDown, surging(2, removing("i-3", cluster.StepDrain, time.Hour)))
	nodes, reasons, maxima := make([]string, 4), make([]string, 4), make([]int, 4)
	u.RetainedNodes, u.RetainedReasons, u.KnownMaxima = nodes[:0], reasons[:0], append(maxima[:0], 4)
	next, _ := nodegroup.Next(u, groupOf(4), []nodegroup.Instance{node("i-3", true, marked("u-1"), draining,
		running("t", "web")), node("i-4", true), node("i-5", true), node("i-6", true)}, noon)
	if len(next.RetainedNodes) != 1 || len(next.RetainedReasons) != 1 || len(next.KnownMaxima) != 2 {
		t.Fatalf("it retains %v (%v), maxima %v", next.RetainedNodes, next.RetainedReasons, next.KnownMaxima)
	}
	if nodes[0] != "" || reasons[0] != "" || maxima[1] != 0 {
		t.Errorf("behind the lists there are %q, %q and %d now", nodes[0], reasons[0], maxima[1])
	}
}

// A shortage that has ended does not count for the next one.
func TestEachShortageHasItsTime(t *testing.T) {
	u := begunAt(cluster.PhaseUpgrade, func(u *cluster.Update) {
		u.RequiredNodes, u.Shortage = 4, cluster.NodeShortage{Since: noon.Add(-14 * time.Minute), Ready: 3}
	})
	nodes := []nodegroup.Instance{node("i-1", false, marked("u-1"), draining, running("t", "web")),
		node("i-3", true), node("i-4", true), node("i-5", true)}
	u, _ = nodegroup.Next(u, groupOf(4), nodes, noon)
	if u.Shortage != (cluster.NodeShortage{}) {
		t.Errorf("with all nodes Ready the shortage is %+v", u.Shortage)
	}
	nodes[3] = node("i-5", true, disconnected)
	u.Asked = nil
	if u, _ = nodegroup.Next(u, groupOf(4), nodes, noon.Add(time.Minute)); len(u.Errors) > 0 ||
		!u.Shortage.Since.Equal(noon.Add(time.Minute)) {
		t.Errorf("the next shortage is %+v, errors %+v", u.Shortage, u.Errors)
	}
}

// A zone whose old nodes are all leaving needs no new node before the upgrade begins (N2).
func TestZoneThatIsLeft(t *testing.T) {
	u := begunAt(cluster.PhaseScaleUp, func(u *cluster.Update) { u.WaitingSince = noon })
	next, _ := nodegroup.Next(u, groupOf(4), []nodegroup.Instance{node("i-1", false), node("i-2", false),
		node("i-9", false, inZone("b"), leaving), node("i-3", true), node("i-4", true)}, noon)
	if next.Phase != cluster.PhaseUpgrade {
		t.Errorf("in phase %s it waits for %q", next.Phase, next.WaitingFor)
	}
}
