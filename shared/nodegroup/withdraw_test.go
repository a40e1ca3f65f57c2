package nodegroup_test

import (
	"slices"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
)

// Actions that were not tried are no longer asked for: those of that kind on that instance.
func TestWithdraw(t *testing.T) {
	asked := func(kind nodegroup.ActionKind, instance string) cluster.AskedChange {
		return cluster.AskedChange{Kind: string(kind), Instance: instance, At: noon}
	}
	u := &cluster.Update{}
	u.Asked = []cluster.AskedChange{asked(nodegroup.Terminate, "i-1"), asked(nodegroup.Drain, "i-1"),
		asked(nodegroup.Terminate, "i-2"), asked(nodegroup.Drain, "i-2")}
	next := nodegroup.Withdraw(u, []nodegroup.Action{{Kind: nodegroup.Terminate, Instance: "i-1"},
		{Kind: nodegroup.Drain, Instance: "i-2"}, {Kind: nodegroup.Drain, Instance: "i-3"}})
	if want := []cluster.AskedChange{u.Asked[1], u.Asked[2]}; !slices.Equal(next.Asked, want) {
		t.Errorf("%+v are asked for, expected %+v", next.Asked, want)
	}
	if len(u.Asked) != 4 {
		t.Errorf("the update itself has %+v now", u.Asked)
	}
	if next := nodegroup.Withdraw(u, nil); !slices.Equal(next.Asked, u.Asked) {
		t.Errorf("%+v are asked for without an action", next.Asked)
	}
}

// Each wait of a phase ends after its time, in whole milliseconds. A wait without a time never
// ends, and one that was known before is not told again.
func TestNewWaitEnds(t *testing.T) {
	limits := cluster.UpdateTimeouts{Launch: time.Minute, Drain: 2 * time.Minute, Terminate: 3 * time.Minute,
		Domain: 4 * time.Minute, Health: 5 * time.Minute}
	for phase, want := range map[cluster.UpdatePhase][]int{ // minutes
		cluster.PhaseSetup: nil, cluster.PhaseScaleUp: {101}, cluster.PhaseUpgrade: {102, 201, 302, 303, 404, 409},
		cluster.PhaseScaleDown: {102, 502},
	} {
		u := &cluster.Update{}
		u.Phase, u.Timeouts = phase, limits
		if ends := nodegroup.NewWaitEnds(nil, u); len(ends) > 0 {
			t.Errorf("%s: nothing has begun, and waits end at %v", phase, ends)
		}
		at := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
		u.WaitingSince, u.Shortage.Since, u.StalledSince = at(100), at(200), at(300)
		u.DomainReplacedAt, u.ReleasingSince = at(400), at(500)
		var expected []time.Time
		for _, m := range want {
			expected = append(expected, at(m))
		}
		if got := nodegroup.NewWaitEnds(nil, u); !slices.EqualFunc(got, expected, time.Time.Equal) {
			t.Errorf("%s: waits end at %v, expected %v", phase, got, expected)
		}
		if got := nodegroup.NewWaitEnds(u, u); len(got) > 0 {
			t.Errorf("%s: %v are told again", phase, got)
		}
		u.WaitingSince = at(100).Add(time.Microsecond)
		if got := nodegroup.NewWaitEnds(nil, u); len(want) > 0 && got[0] != expected[0].Add(time.Millisecond) {
			t.Errorf("%s: the wait ends at %v, expected a millisecond later", phase, got[0])
		}
		if u.Timeouts = (cluster.UpdateTimeouts{}); len(nodegroup.NewWaitEnds(nil, u)) > 0 {
			t.Errorf("%s: waits without a time end at %v", phase, nodegroup.NewWaitEnds(nil, u))
		}
	}
}

// What the caller of CreateNodegroup names is kept.
func TestMadeGroupsKeepTheirTypes(t *testing.T) {
	g := madeGroup(t, func(g *cluster.NodeGroup) { g.Machines.InstanceTypes = []string{"c7i.large", "m7i.large"} })
	if want := []string{"c7i.large", "m7i.large"}; !slices.Equal(g.Machines.InstanceTypes, want) {
		t.Errorf("types are %v, expected %v", g.Machines.InstanceTypes, want)
	}
	if g := madeGroup(t, nil); len(g.Machines.InstanceTypes) != 1 {
		t.Errorf("without types: %v", g.Machines.InstanceTypes)
	}
}

// No call that creates something begins when the node group could be forgotten before its effect is
// seen.
func TestNothingIsForgottenThatMayComeYet(t *testing.T) {
	g := madeGroup(t, func(g *cluster.NodeGroup) { g.Machines.CreatingSince = noon })
	last := 0
	for second := range 600 {
		now := noon.Add(time.Duration(second) * time.Second)
		if nodegroup.MayCreate(g, now) {
			if last = second; nodegroup.MayForget(g, now) {
				t.Fatalf("after %d s a call may begin, and the group be forgotten", second)
			}
		}
	}
	if !nodegroup.MayForget(g, noon.Add(600*time.Second)) || last == 0 || nodegroup.MayCreate(g, noon.Add(time.Hour)) {
		t.Errorf("calls begin for %d s; later the group may be forgotten: %v", last,
			nodegroup.MayForget(g, noon.Add(600*time.Second)))
	}
}
