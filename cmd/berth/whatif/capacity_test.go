package whatif_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
	"berth/shared/state"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// fleet returns a group of four instances in two zones, which is a capacity provider and a node
// group. Service web has a task on three of them; the fourth is empty.
func fleet(change ...func(*cluster.CapacityProvider)) ([]state.Row, *whatif.Capacity) {
	p := &cluster.CapacityProvider{Name: "spot", Group: "group", Scaling: cluster.DefaultScaling, Draining: true}
	p.Scaling.Enabled, p.Scaling.Warmup = true, 0
	for _, f := range change {
		f(p)
	}
	g := &cluster.AutoScalingGroup{Name: "group", Max: 6, Desired: 4, Zones: []string{"a", "b"}, Template: "lt-1:1"}
	out := []state.Row{
		definition("web", cluster.Resources{CPU: 256 * units, Memory: 512}), service("web", 3, cluster.Rules{}),
		task("web", 1, "n-1"), task("web", 2, "n-2"), task("web", 3, "n-3"),
	}
	s := out[1].(*cluster.Service)
	s.MinHealthy, s.MaxPercent = 100, 200
	for n, zone := range []string{"a", "a", "b", "b"} {
		id := string(rune('1' + n))
		i := instance("n-"+id, zone, nil)
		i.EC2InstanceID, i.RegisteredAt = "i-"+id, cluster.At(noon.Add(-time.Hour))
		out = append(out, i)
		g.Instances = append(g.Instances, cluster.GroupInstance{
			ID: "i-" + id, Zone: zone, Lifecycle: "InService", Template: "lt-1:1", LaunchedAt: noon.Add(-time.Hour),
		})
	}
	return out, &whatif.Capacity{
		Providers: map[string]*cluster.CapacityProvider{"spot": p},
		Groups:    map[string]*cluster.AutoScalingGroup{"group": g},
		NodeGroups: map[string]*cluster.NodeGroup{"workers": {Name: "workers", AutoScalingGroup: "group",
			Update: "u-1"}},
		Histories: map[string]*cluster.ScalingHistory{}, Updates: map[string]*cluster.Update{},
	}
}

// used is fleet with a task on each instance. An empty instance would receive all moves.
func used(change ...func(*cluster.CapacityProvider)) ([]state.Row, *whatif.Capacity) {
	rows, k := fleet(change...)
	rows[1].(*cluster.Service).Desired = 4
	return append(rows, task("web", 4, "n-4")), k
}

func TestPlanConsolidation(t *testing.T) {
	plan := func(t *testing.T, rows []state.Row, k *whatif.Capacity) whatif.ProviderPlan {
		t.Helper()
		snap := snapshotOf(t, rows)
		before := hash(t, snap)
		got, err := whatif.PlanConsolidation(snap, k, "spot", noon)
		if err != nil || len(got.Providers) != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		if hash(t, snap) != before {
			t.Error("the snapshot has changed")
		}
		return got.Providers[0]
	}
	t.Run("TheCheapestFirstWithinTheBudget", func(t *testing.T) {
		rows, k := used()
		got := plan(t, rows, k)
		var drain, later int
		for _, e := range got.Instances {
			switch {
			case e.Drain:
				drain++
				if len(e.Moves) != 1 || e.Moves[0].Service != "web" || e.Moves[0].To == e.Instance {
					t.Errorf("%s: moves %+v", e.Instance, e.Moves)
				}
			case e.Fits:
				later++
				if !strings.Contains(e.Why, "budget of 10 % in 10m0s is used up") {
					t.Errorf("%s: %s", e.Instance, e.Why)
				}
			}
		}
		if got.Enabled || drain != 1 || later != 1 || len(got.Instances) != 4 {
			t.Errorf("%d would be emptied now, %d later: %+v", drain, later, got)
		}
	})
	t.Run("NotWithoutRoomInThePercentages", func(t *testing.T) {
		rows, k := used()
		rows[1].(*cluster.Service).MaxPercent = 100
		for _, e := range plan(t, rows, k).Instances {
			if e.Fits || !strings.Contains(e.Why,
				"minimumHealthyPercent 100 and maximumPercent 100 leave service web no room to move a task") {
				t.Errorf("%+v", e)
			}
		}
	})
	t.Run("NotWhatIsProtected", func(t *testing.T) {
		rows, k := used()
		rows = append(rows, &cluster.Protection{Head: head(), Owner: "web-short", Task: "t-2",
			Until: noon.Add(time.Hour)})
		for _, e := range plan(t, rows, k).Instances {
			if e.Instance == "n-2" && (e.Fits || !strings.Contains(e.Why, "is protected until 2026-11-21T13:00:00Z")) {
				t.Errorf("%+v", e)
			}
		}
	})
	t.Run("NotDuringAnUpgrade", func(t *testing.T) {
		rows, k := used()
		k.NodeGroups["workers"].Status = cluster.NodeGroupUpdating
		for _, e := range plan(t, rows, k).Instances {
			if e.Fits || e.Why != "the group's nodes are being upgraded" {
				t.Errorf("%+v", e)
			}
		}
	})
	t.Run("NotWithoutManagedScaling", func(t *testing.T) {
		rows, k := used(func(p *cluster.CapacityProvider) { p.Scaling.Enabled = false })
		if got := plan(t, rows, k); got.Why != "managed scaling is off" || len(got.Instances) > 0 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("InWords", func(t *testing.T) {
		rows, k := used()
		got, err := whatif.PlanConsolidation(snapshotOf(t, rows), k, "", noon)
		if err != nil {
			t.Fatal(err)
		}
		out := text(t, got.Print)
		for _, want := range []string{
			"Capacity provider spot (Auto Scaling group group): consolidation is off, with 10 % of the group in 10m0s.",
			"would be emptied now: there is room for its 1 task elsewhere", "    task t-", "would be emptied later",
			"stays: it receives tasks of i-",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("%q is not said:\n%s", want, out)
			}
		}
	})
	t.Run("UnknownProvider", func(t *testing.T) {
		rows, k := used()
		_, err := whatif.PlanConsolidation(snapshotOf(t, rows), k, "sport", noon)
		if want := `capacity provider "sport" is not in the cluster, expected one of: spot; did you mean "spot"?`; err == nil ||
			err.Error() != want {
			t.Errorf("%v", err)
		}
	})
}

// waiting is fleet at its maximum size, with five waiting tasks of service big. Each instance has
// room for one.
func waiting() ([]state.Row, *whatif.Capacity) {
	rows, k := fleet()
	k.Groups["group"].Max = 4
	big := service("big", 5, cluster.Rules{})
	big.Providers = []cluster.ProviderShare{{Provider: "spot", Weight: 1}}
	rows = append(rows, definition("big", cluster.Resources{CPU: 512 * units, Memory: 3000}), big)
	for n := range 5 {
		x := task("big", 10+n, "")
		x.Last, x.ECSID, x.Revision = cluster.TaskProvisioning, "", big.Deployment.ID
		rows = append(rows, x)
	}
	for _, r := range rows {
		if i, ok := r.(*cluster.Instance); ok {
			i.Provider = "spot"
		}
	}
	return rows, k
}

func TestExplainServiceThatWaitsForInstances(t *testing.T) {
	rows, k := waiting()
	s := snapshotOf(t, rows)
	before := hash(t, s)
	a, err := whatif.ExplainService(s, k, "big", noon)
	if err != nil || len(a.Scaling) != 1 {
		t.Fatalf("%+v, %v", a, err)
	}
	if hash(t, s) != before {
		t.Error("the snapshot has changed")
	}
	if got := a.Scaling[0]; got.Provider != "spot" || got.Group != "group" || got.Current != 4 || got.Desired != 4 {
		t.Errorf("got %+v", got)
	}
	out := text(t, a.Print)
	for _, want := range []string{
		"Managed scaling (capacity provider spot, Auto Scaling group group of 4): 5 instances are needed, but the group is at its maximum of 4.\n",
		"  1 task of service big needs 1 instance, 1 fit on one at most (insufficient memory ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not said:\n%s", want, out)
		}
	}
	if a, err := whatif.ExplainService(s, k, "web", noon); err != nil || len(a.Scaling) > 0 {
		t.Errorf("a service without capacity providers has %+v, %v", a.Scaling, err)
	}
}

func TestExplainInstance(t *testing.T) {
	explained := func(t *testing.T, rows []state.Row, k *whatif.Capacity, id string) (*whatif.InstanceAnswer, string) {
		t.Helper()
		snap := snapshotOf(t, rows)
		before := hash(t, snap)
		got, err := whatif.ExplainInstance(snap, k, id, noon)
		if err != nil {
			t.Fatal(err)
		}
		if hash(t, snap) != before {
			t.Error("the snapshot has changed")
		}
		return got, text(t, got.Print)
	}
	t.Run("WhatIsOnItAndFree", func(t *testing.T) {
		rows, k := fleet()
		for _, id := range []string{"n-1", "i-1", "arn:aws:ecs:eu-west-1:123456789012:container-instance/prod/n-1"} {
			got, out := explained(t, rows, k, id)
			want := []whatif.Amount{{Name: "CPU", Total: 2048, Free: 1792}, {Name: "MEMORY", Total: 4200, Free: 3688}}
			if diff := cmp.Diff(want, got.Resources); diff != "" || got.Instance != "n-1" || got.EC2 != "i-1" {
				t.Errorf("%s is %s, %s: %s", id, got.Instance, got.EC2, diff)
			}
			for _, want := range []string{
				"Instance n-1 (i-1) in a: ACTIVE.", "Free: CPU 1792 of 2048, MEMORY 3688 of 4200.",
				"  t-1 RUNNING, of service web",
				"Managed scaling (capacity provider spot, Auto Scaling group group): it runs 1 non-daemon task (t-1 of service web)",
				"  Consolidation: ",
			} {
				if !strings.Contains(out, want) {
					t.Errorf("%q is not said:\n%s", want, out)
				}
			}
		}
	})
	t.Run("WhyAnEmptyOneStays", func(t *testing.T) {
		rows, k := fleet()
		k.Groups["group"].Instances[3].Protected = true
		got, out := explained(t, rows, k, "n-4")
		if got.Scaling.Why != "it runs no task; it is protected from scale-in by someone else" ||
			!strings.Contains(out, "ACTIVE, protected from scale-in.\n") {
			t.Errorf("%s\n%s", got.Scaling.Why, out)
		}
	})
	t.Run("WhichConstraintExcludesIt", func(t *testing.T) {
		rows, k := fleet()
		rows[1].(*cluster.Service).Rules.Constraints = []cluster.PlacementConstraint{{Type: cluster.MemberOf,
			Expression: "attribute:disk == ssd"}}
		got, out := explained(t, rows, k, "n-4")
		if len(got.Excluded) != 1 || got.Excluded[0].Service != "web" || len(got.Excluded[0].Refused) == 0 {
			t.Fatalf("%+v", got.Excluded)
		}
		if want := "The next task of service web would not go here: " + got.Excluded[0].Text; !strings.Contains(out,
			want) ||
			!strings.Contains(out, "attribute:disk == ssd") {
			t.Errorf("%q is not said:\n%s", want, out)
		}
	})
	t.Run("WhatAnUpdateDoesWithIt", func(t *testing.T) {
		rows, k := fleet()
		rows[6].(*cluster.Instance).Attributes[cluster.AttributeUnschedulable] = "u-1"
		rows[6].(*cluster.Instance).Status = cluster.InstanceDraining
		k.Updates["workers"] = &cluster.Update{
			ID: "u-1", NodeGroup: "workers", Status: cluster.UpdateInProgress,
			UpdateProgress: cluster.UpdateProgress{Phase: cluster.PhaseUpgrade, WaitingFor: "tasks to leave i-2"},
			NodeReplacement: cluster.NodeReplacement{Removals: []cluster.NodeRemoval{{Instance: "i-2", Node: "n-2",
				Step: cluster.StepDrain, StepSince: noon}}},
		}
		got, out := explained(t, rows, k, "i-2")
		if !got.Unschedulable || got.Upgrade == nil || got.Upgrade.Step != "drain" || !got.Upgrade.Since.Equal(noon) {
			t.Errorf("%+v", got.Upgrade)
		}
		for _, want := range []string{
			"DRAINING, unschedulable: it keeps its tasks and accepts no new ones.",
			"Update u-1 of node group workers, in phase upgrade: drain.",
			"It waits for tasks to leave i-2.", "The next task of service web would not go here: ",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("%q is not said:\n%s", want, out)
			}
		}
	})
	t.Run("OneThatHasNotRegistered", func(t *testing.T) {
		rows, k := fleet()
		g := k.Groups["group"]
		g.Instances = append(g.Instances, cluster.GroupInstance{ID: "i-9", Zone: "a", Lifecycle: "Pending",
			LaunchedAt: noon})
		_, out := explained(t, rows, k, "i-9")
		if want := "EC2 instance i-9 in a has not registered with the cluster.\nManaged scaling (capacity provider spot, Auto Scaling group group): " +
			"it was launched at 2026-11-21T12:00:00Z and has not registered yet.\n"; out != want {
			t.Errorf("%q, want %q", out, want)
		}
	})
	t.Run("OneThatIsGone", func(t *testing.T) {
		rows, k := fleet()
		rows[8].(*cluster.Instance).Status = cluster.InstanceInactive
		k.Groups["group"].Instances = k.Groups["group"].Instances[:3]
		if _, out := explained(t, rows, k, "i-4"); out != "Instance n-4 (i-4) has left the cluster.\n" {
			t.Errorf("%q", out)
		}
	})
	t.Run("Unknown", func(t *testing.T) {
		rows, k := fleet()
		_, err := whatif.ExplainInstance(snapshotOf(t, rows), k, "i-99", noon)
		if missing := new(whatif.NotFound); !errors.As(err, &missing) || missing.Kind != "instance" {
			t.Errorf("%v", err)
		}
	})
}

// Tasks of a service with a capacity provider go only to its instances.
func TestAskOfAProvidersService(t *testing.T) {
	rows, _ := fleet()
	rows[1].(*cluster.Service).Providers = []cluster.ProviderShare{{Provider: "spot", Weight: 1}}
	rows[8].(*cluster.Instance).Provider = "spot"
	got, err := whatif.Ask(snapshotOf(t, rows), &whatif.Question{Service: "web", Count: 3})
	if err != nil || got.Unplaced > 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, p := range got.Placed {
		if p.Instance != "n-4" {
			t.Errorf("to %s", p.Instance)
		}
	}
}
