package nodegroup_test

import (
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
)

// begunAt returns an update in a phase, of a group of two nodes in one zone that had sizes 1, 4, 2.
func begunAt(phase cluster.UpdatePhase, change func(*cluster.Update)) *cluster.Update {
	u := &cluster.Update{
		ID: "u-1", NodeGroup: "g", Status: cluster.UpdateInProgress,
		UpdateSpec: cluster.UpdateSpec{
			Target: cluster.UpdateTarget{Image: newImage},
			Timeouts: cluster.UpdateTimeouts{Launch: 15 * time.Minute, Drain: 15 * time.Minute, Stop: 5 * time.Minute,
				Cordon: time.Minute, Terminate: 65 * time.Minute, Health: 10 * time.Minute},
		},
		UpdateProgress: cluster.UpdateProgress{Phase: phase, ReconciledAt: noon},
	}
	u.Template, u.OriginalTemplate, u.Surge, u.MaxUnavailable = "lt:2", "lt:1", 2, 1
	u.OriginalSizes, u.Zones = &cluster.Sizes{Min: 1, Max: 4, Desired: 2}, map[string]int{"a": 2}
	u.KnownMaxima = []int{4, 6}
	change(u)
	return u
}

func groupOf(desired int) nodegroup.Group {
	return nodegroup.Group{Name: "asg", Template: "lt:2", PreparedTemplate: "lt:2", Zones: []string{"a"},
		Sizes: cluster.Sizes{Min: 1, Max: 6, Desired: desired}}
}

// node returns a node made from the old template (or the new one) that is Ready.
func node(id string, isNew bool, change ...func(*nodegroup.Instance)) nodegroup.Instance {
	image, template := oldImage, "lt:1"
	if isNew {
		image, template = newImage, "lt:2"
	}
	i := nodegroup.Instance{ID: id, Zone: "a", Template: template, Lifecycle: nodegroup.InService,
		Row: nodeRow("ci-"+id, id, func(i *cluster.Instance) {
			i.Attributes[nodegroup.LabelImage], i.Attributes[nodegroup.LabelNodeGroup] = image, "g"
		})}
	for _, c := range change {
		c(&i)
	}
	return i
}

func marked(by string) func(*nodegroup.Instance) {
	return func(i *nodegroup.Instance) { i.Row.Attributes[cluster.AttributeUnschedulable] = by }
}

func draining(i *nodegroup.Instance)      { i.Row.Status = cluster.InstanceDraining }
func registering(i *nodegroup.Instance)   { i.Row.Status = cluster.InstanceRegistering }
func leaving(i *nodegroup.Instance)       { i.Lifecycle = nodegroup.Terminating }
func notRegistered(i *nodegroup.Instance) { i.Row = nil }
func disconnected(i *nodegroup.Instance)  { i.Row.AgentConnected = false }
func unlabelled(i *nodegroup.Instance)    { delete(i.Row.Attributes, nodegroup.LabelImage) }

func running(id, service string, change ...func(*nodegroup.Task)) func(*nodegroup.Instance) {
	return func(i *nodegroup.Instance) {
		t := nodegroup.Task{Task: taskRow(id, i.Row.ID, service)}
		t.Task.CreatedAt = cluster.At(noon.Add(-time.Hour))
		for _, c := range change {
			c(&t)
		}
		i.Tasks = append(i.Tasks, t)
	}
}

func removing(instance string, step cluster.NodeStep, since time.Duration) func(*cluster.Update) {
	return func(u *cluster.Update) {
		w := cluster.NodeRemoval{Instance: instance, Node: "ci-" + instance, Step: step, StepSince: noon.Add(-since)}
		if step != cluster.StepRelease {
			w.DrainingAt = w.StepSince
		}
		u.Removals = append(u.Removals, w)
	}
}

func actionsOf(actions []nodegroup.Action) string {
	var out []string
	for _, a := range actions {
		out = append(out, a.String())
	}
	return strings.Join(out, ", ")
}

// What an update does next and what it waits for, phase by phase (N1 to N5).
func TestNextStep(t *testing.T) {
	as := func(changes ...func(*cluster.Update)) func(*cluster.Update) {
		return func(u *cluster.Update) {
			for _, c := range changes {
				c(u)
			}
		}
	}
	floor := func(n int) func(*cluster.Update) {
		return func(u *cluster.Update) { u.DesiredFloor, u.ObservedDesired, u.ScaleDownSince = new(n), 4, noon }
	}
	required := func(u *cluster.Update) { u.RequiredNodes = 4 }
	upgrading := func(change ...func(*cluster.Update)) *cluster.Update {
		return begunAt(cluster.PhaseUpgrade, as(append([]func(*cluster.Update){required}, change...)...))
	}
	for name, c := range map[string]struct {
		u       *cluster.Update
		g       nodegroup.Group
		nodes   []nodegroup.Instance
		actions string
		waits   string
		phase   cluster.UpdatePhase
	}{
		"MakesATemplate": {begunAt(cluster.PhaseSetup, func(u *cluster.Update) { u.Template = "" }),
			nodegroup.Group{Template: "lt:1", Sizes: cluster.Sizes{Min: 1, Max: 4, Desired: 2}},
			[]nodegroup.Instance{node("i-1", false)}, "create template", "the launch template version",
			cluster.PhaseSetup},
		"UsesIt": {begunAt(cluster.PhaseSetup, func(*cluster.Update) {}),
			nodegroup.Group{Template: "lt:1", Sizes: cluster.Sizes{Min: 1, Max: 4, Desired: 2}},
			[]nodegroup.Instance{node("i-1", false)}, "use template lt:2", "the launch template version",
			cluster.PhaseSetup},
		"Enlarges": {begunAt(cluster.PhaseScaleUp, func(*cluster.Update) {}),
			nodegroup.Group{Template: "lt:2", Zones: []string{"a"}, Sizes: cluster.Sizes{Min: 1, Max: 4, Desired: 2}},
			[]nodegroup.Instance{node("i-1", false), node("i-2", false)}, "resize to maximum 6, desired 4",
			"the Auto Scaling group to be enlarged", cluster.PhaseScaleUp},
		"EnlargesTheMaximumAlone": {begunAt(cluster.PhaseScaleUp, func(*cluster.Update) {}),
			nodegroup.Group{Template: "lt:2", Zones: []string{"a"}, Sizes: cluster.Sizes{Min: 1, Max: 5, Desired: 5}},
			[]nodegroup.Instance{node("i-1", false)}, "resize to maximum 6, desired 5",
			"new nodes to be Ready: 4 not launched; a",
			cluster.PhaseScaleUp},
		"EnlargesBelowAMaximumThatOthersRaised": {begunAt(cluster.PhaseScaleUp, func(*cluster.Update) {}),
			nodegroup.Group{Template: "lt:2", Zones: []string{"a"}, Sizes: cluster.Sizes{Min: 1, Max: 6, Desired: 2}},
			[]nodegroup.Instance{node("i-1", false), node("i-3", true)}, "resize to maximum 6, desired 4",
			"the Auto Scaling group to be enlarged", cluster.PhaseScaleUp},
		"EnlargesBesideOthers": {begunAt(cluster.PhaseScaleUp, func(u *cluster.Update) { u.ObservedDesired = 2 }),
			nodegroup.Group{Template: "lt:2", Zones: []string{"a"}, Sizes: cluster.Sizes{Min: 1, Max: 4, Desired: 3}},
			[]nodegroup.Instance{node("i-1", false), node("i-2", false)}, "resize to maximum 6, desired 5",
			"the Auto Scaling group to be enlarged", cluster.PhaseScaleUp},
		"WaitsForNewNodes": {begunAt(cluster.PhaseScaleUp, func(u *cluster.Update) { u.WaitingSince = noon }),
			groupOf(4),
			[]nodegroup.Instance{node("i-1", false), node("i-2", false), node("i-3", true, unlabelled),
				node("i-9", false, leaving)}, "",
			"new nodes to be Ready: 1 not launched; i-3; a", cluster.PhaseScaleUp},
		"WaitsForNodesThatRegister": {begunAt(cluster.PhaseScaleUp, func(u *cluster.Update) { u.WaitingSince = noon }),
			groupOf(4),
			[]nodegroup.Instance{node("i-1", false), node("i-2", false), node("i-3", true, registering),
				node("i-4", true, registering)}, "", "new nodes to be Ready: i-3; i-4; a", cluster.PhaseScaleUp},
		"Upgrades": {begunAt(cluster.PhaseScaleUp, func(*cluster.Update) {}), groupOf(4),
			[]nodegroup.Instance{node("i-1", false), node("i-2", false), node("i-3", true), node("i-4", true)},
			"mark i-1, mark i-2", "2 old nodes to be unschedulable", cluster.PhaseUpgrade},
		"DrainsOne": {upgrading(), groupOf(3),
			[]nodegroup.Instance{node("i-1", false, marked("u-1")), node("i-3", true), node("i-4", true),
				node("i-5", true)},
			"drain i-1", "i-1 to be DRAINING", cluster.PhaseUpgrade},
		"DrainsOneWithTasks": {upgrading(), groupOf(3),
			[]nodegroup.Instance{node("i-1", false, marked("u-1"), running("t", "web")), node("i-3", true),
				node("i-4", true), node("i-5", true)},
			"drain i-1", "i-1 to be DRAINING", cluster.PhaseUpgrade},
		"WaitsForTasks": {upgrading(removing("i-1", cluster.StepDrain, time.Minute)), groupOf(4),
			[]nodegroup.Instance{node("i-1", false, marked("u-1"), draining, running("t", "web")), node("i-3", true),
				node("i-4", true),
				node("i-5", true)}, "", "tasks to leave i-1: the deployment configuration of service web",
			cluster.PhaseUpgrade},
		"Cordons": {upgrading(removing("i-1", cluster.StepDrain, time.Minute)), groupOf(4),
			[]nodegroup.Instance{node("i-1", false, marked("u-1"), draining), node("i-3", true), node("i-4", true),
				node("i-5", true)},
			"", "i-1 to have had no task for 60 s", cluster.PhaseUpgrade},
		"TerminatesNearlyInTime": {upgrading(removing("i-1", cluster.StepCordon, 54*time.Second)), groupOf(4),
			[]nodegroup.Instance{node("i-1", false, marked("u-1"), draining), node("i-3", true), node("i-4", true),
				node("i-5", true)},
			"terminate i-1", "i-1 to be terminated", cluster.PhaseUpgrade},
		"TerminatesNotTooSoon": {upgrading(removing("i-1", cluster.StepCordon, 53*time.Second)), groupOf(4),
			[]nodegroup.Instance{node("i-1", false, marked("u-1"), draining), node("i-3", true), node("i-4", true),
				node("i-5", true)},
			"", "i-1 to have had no task for 60 s", cluster.PhaseUpgrade},
		"StopsByForce": {upgrading(removing("i-1", cluster.StepDrain, 15*time.Minute),
			func(u *cluster.Update) { u.Force = true }),
			groupOf(4), []nodegroup.Instance{node("i-1", false, marked("u-1"), draining, running("t", "web"),
				running("s", "web")),
				node("i-3", true), node("i-4", true), node("i-5", true)}, "stop tasks s t on i-1",
			"2 tasks stopped on i-1",
			cluster.PhaseUpgrade},
		"WaitsForItsReplacement": {upgrading(), groupOf(4),
			[]nodegroup.Instance{node("i-1", false, marked("u-1")), node("i-3", true), node("i-4", true),
				node("i-5", true, notRegistered)},
			"", "1 new node to be Ready", cluster.PhaseUpgrade},
		"OneDomainAtATime": {upgrading(removing("i-1", cluster.StepDrain, time.Minute),
			func(u *cluster.Update) { u.ByDomain, u.CurrentDomain = true, "i-1" }), groupOf(4),
			[]nodegroup.Instance{node("i-1", false, marked("u-1"), draining, running("t", "web")), node("i-2", false),
				node("i-4", true),
				node("i-5", true)}, "", "tasks to leave i-1: the deployment configuration of service web",
			cluster.PhaseUpgrade},
		"NothingToDrain": {upgrading(removing("i-1", cluster.StepDrain, 0)), groupOf(4),
			[]nodegroup.Instance{node("i-1", false, notRegistered), node("i-3", true), node("i-4", true),
				node("i-5", true)},
			"", "i-1 to have had no task for 60 s", cluster.PhaseUpgrade},
		"RemovesTheSurplus": {begunAt(cluster.PhaseScaleDown, floor(2)), groupOf(4),
			[]nodegroup.Instance{node("i-3", true), node("i-4", true), node("i-5", true),
				node("i-6", true, disconnected)},
			"mark i-6, drain i-6", "i-6 to be DRAINING", cluster.PhaseScaleDown},
		"CancelsLaunches": {begunAt(cluster.PhaseScaleDown, floor(2)), groupOf(4),
			[]nodegroup.Instance{node("i-3", true), node("i-4", true)}, "resize to maximum 4, desired 2", "",
			cluster.PhaseScaleDown},
		"PutsBack": {begunAt(cluster.PhaseRestore, as(floor(4), removing("i-1", cluster.StepRelease, 0))), groupOf(4),
			[]nodegroup.Instance{node("i-1", false, marked("u-1"), draining), node("i-2", false), node("i-3", true),
				node("i-4", true)},
			"resize to maximum 4, desired 4, activate i-1, clear i-1", "i-1 to be back in service",
			cluster.PhaseRestore},
		"ClearsItsMarks": {begunAt(cluster.PhaseRestore, floor(4)), groupOf(4),
			[]nodegroup.Instance{node("i-1", false, marked("u-1")), node("i-2", false, marked("somebody")),
				node("i-3", true),
				node("i-4", true)}, "clear i-1, resize to maximum 4, desired 4", "", cluster.PhaseRestore},
	} {
		t.Run(name, func(t *testing.T) {
			next, actions := nodegroup.Next(c.u, c.g, c.nodes, noon)
			if got := actionsOf(actions); got != c.actions || next.Phase != c.phase || next.WaitingFor != c.waits {
				t.Errorf("%s: %q, waits for %q\nwant %s: %q, %q", next.Phase, got, next.WaitingFor, c.phase, c.actions,
					c.waits)
			}
			if len(next.Errors) > 0 {
				t.Errorf("errors are %+v", next.Errors)
			}
		})
	}
}

// Of the surplus, the node goes whose removal costs least: in the fullest zone, one that is not
// connected, then with the fewest tasks that would not leave, the fewest tasks, not up to date
// (N5).
func TestCheapestNodeOfTheSurplusGoes(t *testing.T) {
	zoneB := func(i *nodegroup.Instance) { i.Zone = "b" }
	protect := func(t *nodegroup.Task) { t.Protected = true }
	foreign := func(t *nodegroup.Task) { t.Task.Foreign = true }
	daemon := func(t *nodegroup.Task) { t.Daemon = true }
	stopping := func(t *nodegroup.Task) { t.Task.Desired = cluster.TaskStopped }
	for name, c := range map[string]struct{ a, b nodegroup.Instance }{ // a goes
		"InTheFullestZone": {node("i-1", true, running("t", "web")), node("i-2", true, zoneB)},
		"NotConnected":     {node("i-2", true, disconnected, running("t", "web")), node("i-1", true)},
		"WithoutProtected": {node("i-2", true, running("t", "web"), running("s", "web")),
			node("i-1", true, running("r", "web", protect))},
		"WithoutStandalone": {node("i-2", true, running("t", "web"), running("s", "web")),
			node("i-1", true, running("r", ""))},
		"WithoutForeign": {node("i-2", true, running("t", "web"), running("s", "web")),
			node("i-1", true, running("r", "web", foreign))},
		"StoppingIsNone": {node("i-2", true, running("t", "web", protect, stopping)),
			node("i-1", true, running("s", "web"), running("r", "web"))},
		"FewerTasks": {node("i-2", true, running("t", "web")),
			node("i-1", true, running("s", "web"), running("r", "web"))},
		"DaemonsAreNone": {node("i-2", true, running("t", "log", daemon)), node("i-1", true, running("s", "web"))},
		"NotUpToDate":    {node("i-2", false), node("i-1", true)},
	} {
		t.Run(name, func(t *testing.T) {
			others := []nodegroup.Instance{node("i-8", true, running("x", "web", protect),
				running("y", "web", protect)),
				node("i-9", true, running("z", "web", protect), running("w", "web", protect))}
			u := begunAt(cluster.PhaseScaleDown, func(u *cluster.Update) {
				u.DesiredFloor, u.ObservedDesired, u.ScaleDownSince = new(3), 4, noon
				u.Zones = map[string]int{"a": 2, "b": 2}
			})
			for _, nodes := range [][]nodegroup.Instance{{c.a, c.b}, {c.b, c.a}} {
				next, _ := nodegroup.Next(u, groupOf(4), append(nodes, others...), noon)
				if len(next.Removals) != 1 || next.Removals[0].Instance != c.a.ID || !next.Removals[0].Surplus {
					t.Errorf("removals are %+v, want %s", next.Removals, c.a.ID)
				}
			}
		})
	}
}

// An update that has ended needs nothing done; one that fails or is refused afterwards stays as it
// is.
func TestEndedUpdatesStay(t *testing.T) {
	u := begunAt(cluster.PhaseUpgrade, func(u *cluster.Update) { u.Status = cluster.UpdateFailed })
	next, actions := nodegroup.Next(u, groupOf(4), []nodegroup.Instance{node("i-1", false)}, noon)
	if next != u || len(actions) > 0 {
		t.Errorf("got %+v, %v", next, actions)
	}
	for name, same := range map[string]*cluster.Update{
		"Fail": nodegroup.Fail(u, cluster.UpdateError{}), "GiveUp": nodegroup.GiveUp(u, "no", nil, noon),
		"Refusals": nodegroup.RecordRefusals(u, map[string]string{"i-1": "no"}),
		"Target":   nodegroup.ResolveTarget(u, cluster.UpdateTarget{Image: "x"}),
	} {
		if same != u {
			t.Errorf("%s: it changed", name)
		}
	}
	open := begunAt(cluster.PhaseUpgrade, func(u *cluster.Update) { u.Refusals = map[string]string{"i-1": "no"} })
	if nodegroup.RecordRefusals(open, map[string]string{"i-1": "no"}) != open {
		t.Error("a refusal that is known changes the row")
	}
	more := nodegroup.RecordRefusals(open, map[string]string{"i-2": "never"})
	if more == open || len(more.Refusals) != 2 || len(open.Refusals) != 1 {
		t.Errorf("got %v, and the row that was given has %v", more.Refusals, open.Refusals)
	}
}

// An update whose restore is refused ends after twice the time that tasks have to leave a node,
// with the group's sizes, or those that it set last.
func TestSizesOfAnUpdateThatGivesUp(t *testing.T) {
	giveUp := func(seen *nodegroup.Group, change func(*cluster.Update)) *cluster.Update {
		u := begunAt(cluster.PhaseRestore, change)
		for now := noon; !u.HasEnded(); now = now.Add(time.Minute) {
			if now.Sub(noon) > time.Hour {
				t.Fatal("it has not ended")
			}
			u = nodegroup.GiveUp(u, "denied", seen, now)
			if took := now.Sub(noon); u.HasEnded() && (took < 30*time.Minute || took > 32*time.Minute) {
				t.Errorf("it ended after %s", took)
			}
		}
		if len(u.Denied)+len(u.Asked) > 0 {
			t.Errorf("it has ended, and keeps what was denied, %v, and asked for, %v", u.Denied, u.Asked)
		}
		if u.Status != cluster.UpdateFailed || !strings.HasPrefix(u.SizesReason,
			"The changes could not be reverted: denied") {
			t.Errorf("%s: %s", u.Status, u.SizesReason)
		}
		return u
	}
	seen := &nodegroup.Group{Sizes: cluster.Sizes{Max: 9, Desired: 7}, ScaleOuts: 5}
	if u := giveUp(seen, func(*cluster.Update) {}); *u.FinalSizes != seen.Sizes || *u.FinalScaleOuts != 5 {
		t.Errorf("sizes are %+v after %d scale-outs", *u.FinalSizes, *u.FinalScaleOuts)
	}
	if u := giveUp(nil, func(*cluster.Update) {}); *u.FinalSizes != (cluster.Sizes{Min: 1, Max: 6, Desired: 4}) ||
		u.FinalScaleOuts != nil {
		t.Errorf("sizes are %+v after %v scale-outs", *u.FinalSizes, u.FinalScaleOuts)
	}
	if got := *giveUp(nil, func(u *cluster.Update) {
		u.OriginalSizes = nil
		u.Asked = []cluster.AskedChange{{Kind: string(nodegroup.Resize)}}
		u.Denied = []cluster.AskedChange{{Kind: string(nodegroup.Terminate), Instance: "i-1"}}
	}).FinalSizes; got != (cluster.Sizes{}) {
		t.Errorf("sizes are %+v", got)
	}
	if u := giveUp(nil, removing("i-1", cluster.StepRelease, 0)); !strings.HasSuffix(u.SizesReason,
		"; these nodes may still be out of service: i-1") {
		t.Errorf("got %q", u.SizesReason)
	}
}

// A gap of five minutes without a reconciliation moves the start of every wait; a
// shorter one moves none (N6).
func TestGapsMoveTheWaits(t *testing.T) {
	for _, gap := range []time.Duration{-time.Minute, time.Second, time.Minute, 5*time.Minute - 1, 5 * time.Minute,
		time.Hour} {
		u := begunAt(cluster.PhaseUpgrade, func(u *cluster.Update) {
			removing("i-1", cluster.StepDrain, 30*time.Second)(u)
			u.RequiredNodes = 4
		})
		next, _ := nodegroup.Next(u, groupOf(4), []nodegroup.Instance{node("i-1", false, marked("u-1"), draining,
			running("t", "web")),
			node("i-3", true), node("i-4", true), node("i-5", true)}, noon.Add(gap))
		want := noon.Add(-30 * time.Second)
		if gap >= 5*time.Minute {
			want = want.Add(gap)
		}
		if len(next.Removals) != 1 || !next.Removals[0].StepSince.Equal(want) ||
			!next.Removals[0].DrainingAt.Equal(want) {
			t.Errorf("after %s: %+v, want since %s", gap, next.Removals, want)
		}
		reconciled := noon
		if gap >= time.Minute || gap < 0 { // a clock that was set back counts no gap
			reconciled = noon.Add(gap)
		}
		if !next.ReconciledAt.Equal(reconciled) {
			t.Errorf("after %s it was reconciled at %s, want %s", gap, next.ReconciledAt, reconciled)
		}
	}
}

// Waits that a clock began which was an hour ahead begin again: they would otherwise last an hour
// longer. Two minutes are the ordinary error of a clock (N6).
func TestWaitsBegunAheadBeginAgain(t *testing.T) {
	for ahead, want := range map[time.Duration]time.Time{
		2 * time.Minute: noon.Add(2 * time.Minute), 2*time.Minute + 1: noon, time.Hour: noon,
	} {
		u := begunAt(cluster.PhaseUpgrade, func(u *cluster.Update) {
			removing("i-1", cluster.StepDrain, -ahead)(u)
			u.RequiredNodes, u.ReconciledAt = 4, noon.Add(ahead)
		})
		next, _ := nodegroup.Next(u, groupOf(4), []nodegroup.Instance{node("i-1", false, marked("u-1"), draining,
			running("t", "web")),
			node("i-3", true), node("i-4", true), node("i-5", true)}, noon)
		if len(next.Removals) != 1 || !next.Removals[0].StepSince.Equal(want) ||
			!next.Removals[0].DrainingAt.Equal(want) || !next.ReconciledAt.Equal(noon) {
			t.Errorf("ahead by %s: %+v, reconciled at %s; want since %s", ahead, next.Removals, next.ReconciledAt, want)
		}
	}
	u := begunAt(cluster.PhaseRestore, func(u *cluster.Update) { u.ReleasingSince = noon.Add(time.Hour) })
	next := nodegroup.GiveUp(u, "no", &nodegroup.Group{Sizes: cluster.Sizes{Min: 1, Max: 4, Desired: 2}}, noon)
	if next.ReleasingSince.After(noon) {
		t.Errorf("the nodes are released since %s", next.ReleasingSince)
	}
}

// Why new nodes are missing is in the error: what launches failed with, and what each new node
// lacks (N2).
func TestWhyNewNodesAreMissing(t *testing.T) {
	fails := func(g nodegroup.Group, nodes ...nodegroup.Instance) string {
		u := begunAt(cluster.PhaseScaleUp, func(u *cluster.Update) { u.WaitingSince = noon.Add(-15 * time.Minute) })
		next, _ := nodegroup.Next(u, g, nodes, noon)
		var out []string
		for _, e := range next.Errors {
			if e.Code != cluster.NodeCreationFailure {
				t.Errorf("code %s", e.Code)
			}
			out = append(out, strings.Join(e.Resources, " ")+": "+e.Message)
		}
		return strings.Join(out, "\n")
	}
	old := []nodegroup.Instance{node("i-1", false), node("i-2", false)}
	g := groupOf(4)
	if got, want := fails(g, old...),
		"asg: The Auto Scaling group has launched 2 of 4 instances and reports no failed launch\n"+
			"asg: No new node is Ready in a"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	g.Failures = []nodegroup.LaunchFailure{{Zone: "a", Code: "InsufficientInstanceCapacity", Message: "none"},
		{Zone: "a", Code: "InsufficientInstanceCapacity", Message: "none"}, {Code: "VcpuLimitExceeded", Message: "few"},
		{Message: "odd"}}
	want := "asg: Instances could not be launched: odd\nasg: The account's limit is reached (VcpuLimitExceeded): few\n" +
		"asg: There is not enough capacity for the instance types (InsufficientInstanceCapacity): a: none\nasg: No new node is Ready in a"
	if got := fails(g, old...); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	got := fails(groupOf(4), append(old, node("i-3", true, notRegistered), node("i-4", true, unlabelled))...)
	for _, part := range []string{"i-3: Instances failed to join the cluster",
		"i-4: Instances lack the labels of the node group"} {
		if !strings.Contains(got, part) {
			t.Errorf("got %q, want %q", got, part)
		}
	}
	got = fails(groupOf(5), append(old, node("i-3", true, disconnected), node("i-4", true, leaving),
		node("i-5", true, leaving, unlabelled))...)
	if !strings.Contains(got, "i-3: Instances joined the cluster but are not Ready") || strings.Contains(got, "i-4") ||
		strings.Contains(got, "i-5") {
		t.Errorf("got %q", got)
	}
}

// Zones without a new node are named once each, in order.
func TestZonesAreNamedInOrder(t *testing.T) {
	zone := func(name string) func(*nodegroup.Instance) { return func(i *nodegroup.Instance) { i.Zone = name } }
	u := begunAt(cluster.PhaseScaleUp, func(u *cluster.Update) { u.WaitingSince = noon.Add(-15 * time.Minute) })
	next, _ := nodegroup.Next(u, groupOf(4), []nodegroup.Instance{node("i-1", false, zone("b")),
		node("i-2", false, zone("a")),
		node("i-3", false, zone("b")), node("i-4", false, zone("c"))}, noon)
	if len(next.Errors) != 1 || next.Errors[0].Message != "No new node is Ready in a, b, c" {
		t.Errorf("errors are %+v", next.Errors)
	}
}

// An update takes the version that is prepared for it once, while it is set up. One that failed before
// that takes none: what is launched until its sizes are restored is not its own (N1).
func TestTemplateIsTakenOnce(t *testing.T) {
	for phase, want := range map[cluster.UpdatePhase]string{cluster.PhaseSetup: "lt:2", cluster.PhaseRestore: ""} {
		u := begunAt(phase, func(u *cluster.Update) { u.Template = "" })
		g := groupOf(2)
		if g.Template = "lt:1"; nodegroup.LaunchTemplateOf(u, g) != want {
			t.Errorf("in phase %s it launches %q, want %q", phase, nodegroup.LaunchTemplateOf(u, g), want)
		}
		if u.Template = "lt:7"; nodegroup.LaunchTemplateOf(u, g) != "lt:7" {
			t.Errorf("in phase %s it launches %q instead of what it has taken", phase, nodegroup.LaunchTemplateOf(u, g))
		}
	}
}

// The first look records the sizes and zones to restore. A target without an image uses no
// template, although one is prepared (N1).
func TestFirstLook(t *testing.T) {
	u := begunAt(cluster.PhaseSetup, func(u *cluster.Update) {
		u.OriginalSizes, u.Zones, u.Template, u.KnownMaxima, u.Surge = nil, nil, "", nil, 0
		u.Target.Image = ""
	})
	g := groupOf(2)
	g.Template = "lt:1"
	if got := nodegroup.LaunchTemplateOf(u, g); got != "" {
		t.Errorf("without an image it launches %s", got)
	}
	next, actions := nodegroup.Next(u, g, []nodegroup.Instance{node("i-1", false), node("i-2", false)}, noon)
	if len(actions) > 0 || next.OriginalSizes == nil || *next.OriginalSizes != g.Sizes || next.Zones["a"] != 2 ||
		len(next.Zones) != 1 {
		t.Errorf("%v, sizes %+v, zones %v", actions, next.OriginalSizes, next.Zones)
	}
	u.Target.Image = newImage
	if got := nodegroup.LaunchTemplateOf(u, g); got != "lt:2" {
		t.Errorf("with an image it launches %q", got)
	}
}

// A group that somebody enlarges while an update that scales down fails stays enlarged (N5).
func TestGrowthDuringAFailureStays(t *testing.T) {
	u := begunAt(cluster.PhaseScaleDown, func(u *cluster.Update) {
		u.DesiredFloor, u.ObservedDesired, u.ScaleDownSince = new(2), 4, noon
	})
	u = nodegroup.Fail(u, cluster.UpdateError{Code: cluster.OperationNotPermitted})
	next, actions := nodegroup.Next(u, groupOf(5), []nodegroup.Instance{node("i-3", true), node("i-4", true),
		node("i-5", true)}, noon)
	if !strings.HasPrefix(next.SizesReason, "The group was enlarged by someone else") || len(actions) > 0 {
		t.Errorf("%q, %v", next.SizesReason, actions)
	}
}

// Upgrade domains are replaced in the order of their numbers: ud2 comes before ud10 (N7).
func TestDomainsInOrderOfTheirNumbers(t *testing.T) {
	for _, c := range [][]string{
		{"ud2", "ud10"}, {"ud1", "ud1a"}, {"ud1-9", "ud1-10"}, {"ud02", "ud3"}, {"1", "a1"}, {"a", "b"},
		{"rack", "rack1"}, {"a2", "b1"},
		{"2", "10"}, {"9", "10"}, {"ud2-b", "ud10-a"},
	} {
		domain := func(id, name string) nodegroup.Instance {
			return node(id, false, func(i *nodegroup.Instance) { i.Row.Attributes[cluster.AttributeUpgrade] = name })
		}
		u := begunAt(cluster.PhaseSetup, func(u *cluster.Update) { u.ByDomain = true })
		for _, nodes := range [][]nodegroup.Instance{{domain("i-1", c[0]), domain("i-2", c[1])},
			{domain("i-2", c[1]), domain("i-1", c[0])}} {
			for seed := range uint64(4) {
				u.Seed = seed
				if got := strings.Join(nodegroup.ReplacementOrder(u, nodes), " "); got != "i-1 i-2" {
					t.Errorf("%v: %s", c, got)
				}
			}
		}
	}
}
