package nodegroup_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
)

// says fails the test unless the update has failed with the code and the text.
func says(t *testing.T, u *cluster.Update, code cluster.UpdateErrorCode, what string) cluster.UpdateError {
	t.Helper()
	for _, e := range u.Errors {
		if e.Code == code && strings.Contains(e.Message, what) && len(e.Resources) > 0 {
			if u.Status != cluster.UpdateFailed {
				t.Errorf("status %s", u.Status)
			}
			return e
		}
	}
	t.Fatalf("%s, errors %+v, want %s with %q", u.Status, u.Errors, code, what)
	return cluster.UpdateError{}
}

// succeeds runs the update again, without faults.
func succeeds(t *testing.T, w *world) {
	t.Helper()
	w.failing, w.blocked, w.group.Failures, w.group.IsGrowing = nil, map[string]bool{}, nil, false
	for _, v := range w.vms {
		for _, x := range v.Tasks {
			x.Protected = false
		}
	}
	w.begin()
	if u := w.run(); u.Status != cluster.UpdateSuccessful {
		t.Errorf("run again: %s %+v", u.Status, u.Errors)
	}
	w.check()
}

func TestNewNodesThatNeverBecomeReady(t *testing.T) {
	for name, c := range map[string]struct {
		failing failure
		want    string
	}{
		"Capacity": {failure{code: "InsufficientInstanceCapacity"},
			"not enough capacity for the instance types (InsufficientInstanceCapacity): zone-a"},
		"CapacityOfOneZone": {failure{code: "InsufficientInstanceCapacity", zone: "zone-b"},
			"(InsufficientInstanceCapacity): zone-b: Launching"},
		"Limit":             {failure{code: "VcpuLimitExceeded"}, "account's limit is reached (VcpuLimitExceeded)"},
		"NoCode":            {failure{code: "-"}, "Instances could not be launched: zone-a: Launching"},
		"AnotherReason":     {failure{code: "InvalidAMIID.NotFound"}, "could not be launched (InvalidAMIID.NotFound)"},
		"UserData":          {failure{state: "absent"}, "no agent registered. See the user data"},
		"UserDataOfOneZone": {failure{state: "absent", zone: "zone-c"}, "no agent registered. See the user data"},
		"Labels": {failure{state: "unlabelled"},
			"lack the labels of the node group, " + nodegroup.LabelImage + "=" + newImage + " " + nodegroup.LabelNodeGroup + "=g"},
		"NeverHealthy":     {failure{state: "disconnected"}, "are not Ready: their agent is disconnected"},
		"ZoneWithoutANode": {failure{state: "disconnected", zone: "zone-a"}, "No new node is Ready in zone-a"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3, 3, cluster.UpdateConfig{MaxUnavailable: 2})
			w.failing = &c.failing
			w.begin()
			u := w.run()
			w.check()
			e := says(t, u, cluster.NodeCreationFailure, c.want)
			if c.failing.state != "" && name != "ZoneWithoutANode" && !strings.HasPrefix(e.Resources[0], "i-") {
				t.Errorf("resources %v", e.Resources)
			}
			if drained := strings.Contains(strings.Join(w.log, " "), "drain"); c.failing.code != "" &&
				c.failing.zone == "" && drained {
				t.Errorf("nodes were drained for a surplus that never came: %v", w.log)
			}
			if n := len(w.vms); w.group.Template != "lt:1" || n != 9 ||
				slices.ContainsFunc(w.sorted(), func(v *vm) bool { return v.Row == nil }) {
				t.Errorf("%d nodes, template %s", n, w.group.Template)
			}
			if waited := u.EndedAt.Sub(noon); waited < 15*time.Minute || waited > 40*time.Minute {
				t.Errorf("it ended after %v", waited)
			}
			succeeds(t, w)
		})
	}
}

// Fewer nodes than the surplus are enough if each zone has a new one.
func TestFewerNewNodesAreEnough(t *testing.T) {
	w := newWorld(t, 2, 3, cluster.UpdateConfig{})
	w.failing = &failure{code: "InsufficientInstanceCapacity", after: 8}
	w.begin()
	u := w.until(func(u *cluster.Update) bool { return u.Phase == cluster.PhaseUpgrade })
	if u.RequiredNodes != 8 || w.launched != 8 || w.now.Sub(noon) < 15*time.Minute {
		t.Errorf("%d nodes in place, %d launched, after %v", u.RequiredNodes, w.launched, w.now.Sub(noon))
	}
	w.failing = nil
	w.tick()
	w.slow = 10 * time.Minute // what comes late counts, too
	u = w.run()
	w.check()
	if u.Status != cluster.UpdateSuccessful {
		t.Errorf("%s %+v", u.Status, u.Errors)
	}
}

// The zone with the most nodes gets no new one, because the group balances its zones.
func TestFullestZoneNeedsNoNewNode(t *testing.T) {
	w := newWorld(t, 2, 3, cluster.UpdateConfig{})
	for _, v := range w.sorted()[:5] {
		v.Zone = "zone-a"
	}
	w.vms["i-0006"].Zone = "zone-b"
	w.begin()
	w.checker.faulty = true // the group goes on to balance
	u := w.run()
	w.check()
	if u.Status != cluster.UpdateSuccessful {
		t.Errorf("%s %+v", u.Status, u.Errors)
	}
}

func TestReplacementsThatNeverBecomeReady(t *testing.T) {
	for name, c := range map[string]struct {
		failing  failure
		strategy cluster.UpdateStrategy
		want     string
		template string // in the end
	}{
		"Capacity": {failure{code: "InsufficientInstanceCapacity"}, cluster.UpdateDefault,
			"not enough capacity", "lt:2"},
		"UserData":             {failure{state: "absent"}, cluster.UpdateDefault, "no agent registered", "lt:2"},
		"MinimalAndUserData":   {failure{state: "absent"}, cluster.UpdateMinimal, "no agent registered", "lt:1"},
		"MinimalWithoutAnyNew": {failure{state: "disconnected"}, cluster.UpdateMinimal, "are not Ready", "lt:1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3, 3, cluster.UpdateConfig{MaxUnavailable: 2, Strategy: c.strategy})
			w.begin()
			w.until(func(u *cluster.Update) bool { return u.Phase == cluster.PhaseUpgrade })
			w.failing = &c.failing
			u := w.run()
			w.check()
			says(t, u, cluster.NodeCreationFailure, c.want)
			if w.group.Template != c.template {
				t.Errorf("the group launches from %s", w.group.Template)
			}
			w.failing = nil
			for range 10 {
				w.tick()
			}
			absent := slices.ContainsFunc(w.sorted(), func(v *vm) bool { return v.Row == nil })
			if len(w.vms) != 9 || absent && c.template == "lt:1" {
				t.Errorf("%d nodes, one that never registered %v", len(w.vms), absent)
			}
			succeeds(t, w)
		})
	}
}

// each gives every node of the world a task.
func (w *world) each(change func(*nodegroup.Task)) {
	for _, v := range w.sorted() {
		w.start(v, change)
	}
}

func TestTasksThatBlockADrain(t *testing.T) {
	for name, c := range map[string]struct {
		plant func(*world)
		want  string
	}{
		"Percentages": {func(w *world) { w.blocked["web"] = true },
			"the deployment configuration of service web (2 tasks)"},
		"PercentagesAndWhy": {func(w *world) {
			w.blocked["api"] = true
			w.each(func(x *nodegroup.Task) { x.Task.Service, x.BlockedReason = "api", "0/12: 5 insufficient memory" })
		}, "the deployment configuration of service api (0/12: 5 insufficient memory)"},
		"Protected": {func(w *world) { w.each(func(x *nodegroup.Task) { x.Task.Service, x.Protected = "api", true }) },
			"of service api is protected"},
		"Standalone": {func(w *world) { w.each(func(*nodegroup.Task) {}) }, "standalone task t-0"},
		"SomebodyElses": {func(w *world) {
			w.each(func(x *nodegroup.Task) { x.Task.Foreign = true })
		}, "was not started by Berth"},
		"Stopping": {func(w *world) { w.each(func(x *nodegroup.Task) { x.Task.Last = cluster.TaskStopping }) },
			"is still stopping"},
		"Daemon": {func(w *world) { w.blocked["log"] = true }, "service log is a daemon"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, 3, cluster.UpdateConfig{})
			c.plant(w)
			w.begin()
			u := w.run()
			e := says(t, u, cluster.PodEvictionFailure, c.want)
			if !strings.HasPrefix(e.Resources[0], "i-") || w.group.Template != "lt:2" {
				t.Errorf("resources %v, template %s", e.Resources, w.group.Template)
			}
			w.check()
		})
	}
}

// A task that starts on a node although it is DRAINING matches every filter.
func TestTaskPlacedOnADrainingNode(t *testing.T) {
	w := newWorld(t, 2, 2, cluster.UpdateConfig{})
	w.begin()
	u := w.until(func(u *cluster.Update) bool {
		return len(u.Removals) > 0 &&
			u.Removals[0].Step == cluster.StepCordon
	})
	v := w.vms[u.Removals[0].Instance]
	w.tick()
	w.start(v, func(x *nodegroup.Task) { x.Task.Group = "family:job" })
	began := u.Removals[0].DrainingAt
	w.until(func(u *cluster.Update) bool { return u.Phase == cluster.PhaseRestore })
	if waited := w.now.Sub(began); waited != 15*time.Minute {
		t.Errorf("it was given up after %v", waited)
	}
	e := says(t, w.run(), cluster.PodEvictionFailure,
		"of family:job was started on the DRAINING node: it tolerates draining")
	if !slices.Equal(e.Resources, []string{v.ID}) {
		t.Errorf("resources %v, want %s", e.Resources, v.ID)
	}
	w.check()
}

// After a failure with nodes still launching, the sizes are restored, replaced nodes stay replaced,
// and running the update again does the rest (N3, which the checker watches).
func TestRunAgainAfterAFailure(t *testing.T) {
	w := newWorld(t, 3, 4, cluster.UpdateConfig{MaxUnavailable: 2})
	w.begin()
	w.until(func(*cluster.Update) bool { return w.launched >= 12+6+3 })
	w.blocked["web"] = true
	u := w.run()
	says(t, u, cluster.PodEvictionFailure, "deployment configuration of service web")
	updated := 0
	for _, v := range w.vms {
		if v.image == newImage {
			updated++
		}
	}
	if updated == 0 || updated == 12 {
		t.Errorf("%d of 12 are up to date", updated)
	}
	succeeds(t, w)
	if len(w.made) != 1 {
		t.Errorf("%d launch template versions for one target", len(w.made))
	}
}

// The next update restores what a failed one could not, whether or not it needs a surplus itself.
func TestRunAgainRemovesTheSurplus(t *testing.T) {
	for name, next := range map[string]struct {
		strategy cluster.UpdateStrategy
		old      int
	}{"NothingToReplace": {cluster.UpdateDefault, 0}, "Default": {cluster.UpdateDefault, 1},
		"Minimal": {cluster.UpdateMinimal, 1}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, 3, cluster.UpdateConfig{})
			original := w.group.Sizes
			w.begin()
			w.until(func(u *cluster.Update) bool { return u.Phase == cluster.PhaseScaleDown })
			for _, v := range w.sorted() {
				if v.Row != nil {
					w.start(v, func(*nodegroup.Task) {})
				}
			}
			u := w.run()
			e := says(t, u, cluster.PodEvictionFailure,
				"The group keeps 4 more nodes than the 6 it had, because no more could be drained: i-")
			if len(e.Resources) != 5 || w.group.Desired != 10 || w.group.Max != 12 {
				t.Errorf("%v are named, sizes %+v", e.Resources, w.group.Sizes)
			}
			w.check()
			for k, v := range w.sorted() {
				v.Tasks = nil
				if k < next.old {
					v.Template, v.image, v.Row.Attributes[nodegroup.LabelImage] = "lt:1", oldImage, oldImage
				}
			}
			w.node.Config.Strategy = next.strategy
			w.begin()
			u = w.run()
			w.check()
			if u.Status != cluster.UpdateSuccessful || w.group.Sizes != original {
				t.Errorf("run again: %s %+v, sizes %+v", u.Status, u.Errors, w.group.Sizes)
			}
		})
	}
}

// A node that an earlier update left without labels is waited for, not replaced. A disconnected
// node with its labels delays nothing.
func TestRunAgainWithUnreadyNodes(t *testing.T) {
	w := newWorld(t, 1, 4, cluster.UpdateConfig{})
	w.made[nodegroup.TemplateDescription(w.begin(), w.group.Template)] = "lt:2"
	unlabelled, disconnected := w.vms["i-0001"], w.vms["i-0002"]
	unlabelled.Template, unlabelled.image = "lt:2", newImage
	disconnected.Template, disconnected.image, disconnected.Row.Attributes[nodegroup.LabelImage],
		disconnected.Row.AgentConnected = "lt:2", newImage, newImage, false
	w.until(func(u *cluster.Update) bool { return strings.Contains(u.WaitingFor, unlabelled.ID) })
	unlabelled.Row.Attributes[nodegroup.LabelImage] = newImage
	u := w.run()
	w.check()
	if u.Status != cluster.UpdateSuccessful || w.vms[unlabelled.ID] == nil {
		t.Errorf("%s %+v, unlabelled %v, disconnected %v", u.Status, u.Errors, w.vms[unlabelled.ID] != nil,
			w.vms[disconnected.ID] != nil)
	}
}

// Running the same update again ends at once although a node that was added since has no labels
// yet.
func TestRunAgainAfterAScaleOut(t *testing.T) {
	w := newWorld(t, 3, 1, cluster.UpdateConfig{})
	w.begin()
	first := w.run()
	w.sorted()[2].Row.Attributes = map[string]string{cluster.AttributeZone: "zone-a"}
	w.begin()
	u := w.look(everything)
	if first.Status != cluster.UpdateSuccessful || u.Status != cluster.UpdateSuccessful || len(w.vms) != 3 ||
		*u.FinalSizes != *first.FinalSizes {
		t.Errorf("%s, then %s in %s with %+v, waits for %s", first.Status, u.Status, u.Phase, w.group.Sizes,
			u.WaitingFor)
	}
}

// A node that comes into service after all is removed like any other.
func TestNodesThatBecomeReadyDuringTheRestore(t *testing.T) {
	w := newWorld(t, 1, 3, cluster.UpdateConfig{MaxUnavailable: 1})
	w.failing, w.plant.act = &failure{state: "absent"}, without(nodegroup.Terminate)
	w.begin()
	w.until(func(u *cluster.Update) bool { return u.Phase == cluster.PhaseRestore && len(u.Removals) > 0 })
	w.failing, w.plant.act = nil, nil
	for _, v := range w.sorted() {
		if v.Row == nil {
			w.register(v)
		}
	}
	says(t, w.run(), cluster.NodeCreationFailure, "no agent registered")
	w.check()
}

func TestFailRestoresTheGroup(t *testing.T) {
	denied := cluster.UpdateError{Code: cluster.UpdateAccessDenied, Message: "no", Resources: []string{groupName}}
	for _, phase := range []cluster.UpdatePhase{cluster.PhaseSetup, cluster.PhaseScaleUp, cluster.PhaseUpgrade,
		cluster.PhaseScaleDown, cluster.PhaseRestore} {
		t.Run(string(phase), func(t *testing.T) {
			w := newWorld(t, 2, 3, cluster.UpdateConfig{})
			w.begin()
			u := w.update()
			w.blocked["web"] = phase == cluster.PhaseRestore
			if phase != cluster.PhaseSetup {
				u = w.until(func(u *cluster.Update) bool { return u.Phase == phase })
			}
			if got := nodegroup.Fail(u, denied); got == u || u.Phase != phase || len(got.Errors) != len(u.Errors)+1 {
				t.Errorf("%+v became %+v", u.Errors, got.Errors)
			} else {
				w.store(got)
			}
			u = w.run()
			says(t, u, cluster.UpdateAccessDenied, "no")
			if nodegroup.Fail(u, denied) != u {
				t.Error("an update that has ended failed once more")
			}
			w.check()
		})
	}
}

// An update whose Auto Scaling group was deleted ends at once in every phase, also in the middle of
// a removal and if others had changed the group's sizes. It has each of its errors once.
func TestAnUpdateEndsWithoutItsGroup(t *testing.T) {
	for _, phase := range []cluster.UpdatePhase{cluster.PhaseSetup, cluster.PhaseScaleUp, cluster.PhaseUpgrade,
		cluster.PhaseScaleDown, cluster.PhaseRestore} {
		u := begunAt(phase, removing("i-1", cluster.StepDrain, 0))
		u.UserMax, u.AddedByOthers, u.WaitingFor = new(3), 2, "tasks"
		u.Errors = []cluster.UpdateError{{Code: cluster.UpdateAccessDenied, Message: "no"}}
		next := nodegroup.EndWithoutGroup(u, "asg", noon)
		if next.Status != cluster.UpdateFailed || !next.EndedAt.Equal(noon) || next.WaitingFor != "" ||
			len(next.Removals) > 0 || next.FinalSizes != nil || u.HasEnded() {
			t.Errorf("%s: %+v", phase, next)
		}
		if want := append(slices.Clone(u.Errors), nodegroup.GroupGoneError("asg")); !reflect.DeepEqual(next.Errors, want) {
			t.Errorf("%s: errors %+v, want %+v", phase, next.Errors, want)
		}
		if nodegroup.EndWithoutGroup(next, "asg", noon.Add(time.Minute)) != next {
			t.Errorf("%s: an update that has ended ended once more", phase)
		}
	}
}

// An error that an update has already is not added again.
func TestErrorsAreAddedOnce(t *testing.T) {
	e := cluster.UpdateError{Code: cluster.UpdateAccessDenied, Message: "no", Resources: []string{"asg"}}
	other := e
	other.Resources = []string{"i-1"}
	u := nodegroup.Fail(nodegroup.Fail(begunAt(cluster.PhaseRestore, func(*cluster.Update) {}), e), e)
	if u = nodegroup.Fail(u, other); len(u.Errors) != 2 {
		t.Errorf("errors %+v", u.Errors)
	}
}

// What cannot be put back into service is retried for as long as a drain may take. Then the sizes
// stay as they are, then the rest, and the update reports each.
func TestRestoreThatIsRefused(t *testing.T) {
	w := newWorld(t, 2, 2, cluster.UpdateConfig{MaxUnavailable: 1})
	w.begin()
	u := nodegroup.Fail(w.until(func(u *cluster.Update) bool {
		return u.Phase == cluster.PhaseUpgrade &&
			len(u.Removals) > 0
	}), cluster.UpdateError{
		Code: cluster.UpdateAccessDenied, Message: "no", Resources: []string{groupName},
	})
	for _, c := range []struct {
		name string
		in   time.Duration
		ends bool
		says string
	}{
		{"First", 0, false, ""},
		{"Soon", 14 * time.Minute, false, ""},
		{"LeavesTheSizes", 2 * time.Minute, false, "could not be reverted: denied"},
		{"AgainFirst", time.Minute, false, "could not be reverted: denied"},
		{"LeavesTheRest", 16 * time.Minute, true, "these nodes may still be out of service: " + u.Removals[0].Instance},
	} {
		for range int(c.in / time.Minute) {
			w.now = w.now.Add(time.Minute)
			if u = nodegroup.GiveUp(u, "denied", nil, w.now); u.HasEnded() {
				break
			}
		}
		u = nodegroup.GiveUp(u, "denied", nil, w.now)
		if u.HasEnded() != c.ends || !strings.Contains(u.SizesReason, c.says) || c.says == "" && u.SizesReason != "" {
			t.Fatalf("%s: %s, stopped %q", c.name, u.Status, u.SizesReason)
		}
	}
	if want := (cluster.Sizes{Min: u.OriginalSizes.Min, Max: u.OriginalSizes.Max + u.Surge,
		Desired: u.OriginalSizes.Desired + u.Surge}); *u.FinalSizes != want || u.Status != cluster.UpdateFailed {
		t.Errorf("%s with %+v, want the sizes that it was given last, %+v", u.Status, u.FinalSizes, want)
	}
	w.store(u)
	w.begin()
	if again := w.run(); again.Status != cluster.UpdateSuccessful || *again.FinalSizes != *u.OriginalSizes {
		t.Errorf("run again: %s with %+v, want %+v (errors %+v)", again.Status, again.FinalSizes, u.OriginalSizes,
			again.Errors)
	}
}
