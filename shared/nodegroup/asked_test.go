package nodegroup_test

import (
	"slices"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
)

// An update that has asked for a change neither asks again nor goes on before the change shows: a
// call whose answer was lost may be carried out later. After a minute it asks again.
func TestUpdateWaitsForWhatItHasAskedFor(t *testing.T) {
	began := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	g := &cluster.NodeGroup{Name: "web", AutoScalingGroup: "a"}
	u, err := nodegroup.StartUpdate(g, nodegroup.Request{ID: "u", Target: cluster.UpdateTarget{Image: "ami-2"}}, nil,
		began)
	if err != nil {
		t.Fatal(err)
	}
	group := nodegroup.Group{Name: "a", Sizes: cluster.Sizes{Max: 3, Desired: 1}, Zones: []string{"z"},
		Template: "lt:1"}
	nodes := []nodegroup.Instance{{ID: "i-1", Zone: "z", Template: "lt:1"}}
	asks := func(after time.Duration) (kinds []nodegroup.ActionKind, changed bool) {
		next, actions := nodegroup.Next(u, group, nodes, began.Add(after))
		changed, u = next != u, next
		for _, a := range actions {
			kinds = append(kinds, a.Kind)
		}
		return kinds, changed
	}
	for _, step := range []struct {
		name    string
		after   time.Duration
		change  func()
		asks    nodegroup.ActionKind
		changes bool
	}{
		{"it asks for a template", 0, nil, nodegroup.CreateTemplate, true},
		{"the same instant gives the same answer", 0, nil, nodegroup.CreateTemplate, false},
		{"a second wake-up changes nothing", time.Second, nil, "", false},
		{"nor does a third", 50 * time.Second, nil, "", false},
		{"a minute later it asks again", time.Minute, nil, nodegroup.CreateTemplate, true},
		{"it sees the template and goes on", 61 * time.Second,
			func() { group.PreparedTemplate = "lt:2" }, nodegroup.UseTemplate, true},
		{"it waits for that to show", 62 * time.Second, nil, "", false},
		{"it enlarges the group", 63 * time.Second, func() { group.Template = "lt:2" }, nodegroup.Resize, true},
		{"the sizes are still as they were", 64 * time.Second, nil, "", false},
		{"the sizes show", 65 * time.Second, func() { group.Sizes = cluster.Sizes{Max: 5, Desired: 3} }, "", true},
		{"nothing has changed", 66 * time.Second, nil, "", false},
	} {
		if step.change != nil {
			step.change()
		}
		kinds, changed := asks(step.after)
		asked := nodegroup.ActionKind("")
		if len(kinds) == 1 {
			asked = kinds[0]
		}
		if len(kinds) > 1 || asked != step.asks || changed != step.changes {
			t.Fatalf("%s: it asks for %q, changed %v; want %q, %v", step.name, kinds, changed, step.asks, step.changes)
		}
	}
	if ends := nodegroup.NewWaitEnds(nil, u); len(ends) != 1 ||
		!ends[0].Equal(began.Add(65*time.Second+15*time.Minute)) {
		t.Errorf("the launches have until %v", ends)
	}
	if ends := nodegroup.NewWaitEnds(u, u); len(ends) > 0 {
		t.Errorf("waits that are known already end at %v", ends)
	}
}

// A call of an earlier change that arrives late may set another launch template version, whose nodes
// would be replaced forever: the update sets its own again, while it enlarges the group and while it
// replaces nodes.
func TestUpdateKeepsItsTemplate(t *testing.T) {
	for _, phase := range []cluster.UpdatePhase{cluster.PhaseScaleUp, cluster.PhaseUpgrade} {
		u := begunAt(phase, func(*cluster.Update) {})
		late := groupOf(4)
		late.Template = "lt:1"
		for wanted, group := range map[int]nodegroup.Group{1: late, 0: groupOf(4)} {
			nodes := []nodegroup.Instance{node("i-1", false), node("i-2", false), node("i-3", true), node("i-4", true)}
			_, actions := nodegroup.Next(u, group, nodes, noon)
			sets := slices.DeleteFunc(actions, func(a nodegroup.Action) bool { return a.Kind != nodegroup.UseTemplate })
			if len(sets) != wanted || wanted == 1 && sets[0].Template != "lt:2" {
				t.Errorf("%s: a group that launches from %s is to use %v", phase, group.Template, sets)
			}
		}
	}
}

// What an update waits for between two looks ends at a known time: the effect of what it has asked
// for shows within 54 s, or is asked for again.
func TestWhenAWaitEnds(t *testing.T) {
	u := begunAt(cluster.PhaseSetup, func(u *cluster.Update) {
		u.Asked = []cluster.AskedChange{{Kind: "resize", At: noon.Add(2 * time.Second)}, {Kind: "drain", At: noon}}
	})
	for after, want := range map[time.Duration]time.Duration{
		0: 54 * time.Second, 53 * time.Second: 54 * time.Second, 54 * time.Second: 56 * time.Second,
	} {
		if at := nodegroup.SettledAt(u, noon.Add(after)); !at.Equal(noon.Add(want)) {
			t.Errorf("%s after noon it goes on at %s, want %s after noon", after, at, want)
		}
	}
	if at := nodegroup.SettledAt(u, noon.Add(56*time.Second)); !at.IsZero() {
		t.Errorf("with nothing to wait for it goes on at %s", at)
	}
	if at := nodegroup.SettledAt(u, noon.Add(-time.Hour)); !at.IsZero() {
		t.Errorf("by a clock an hour behind, it continues at %s", at)
	}
	u = begunAt(cluster.PhaseUpgrade, removing("i-1", cluster.StepCordon, 300*time.Microsecond))
	if ends := nodegroup.NewWaitEnds(nil, u); len(ends) != 1 || !ends[0].Equal(noon.Add(time.Minute)) {
		t.Errorf("the minute without tasks ends at %v, in whole milliseconds", ends)
	}
}
