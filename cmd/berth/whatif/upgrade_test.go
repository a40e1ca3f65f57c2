package whatif_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
	"berth/shared/nodegroup"
	"berth/shared/state"
)

// update returns an update of node group workers that has not started.
func update(t *testing.T, change func(*cluster.NodeGroup, *nodegroup.Request)) *cluster.Update {
	t.Helper()
	g := &cluster.NodeGroup{Name: "workers", AutoScalingGroup: "group"}
	r := nodegroup.Request{ID: "u-2", Seed: 7, Target: cluster.UpdateTarget{Image: "ami-2", ReleaseVersion: "ami-2"}}
	change(g, &r)
	u, err := nodegroup.StartUpdate(g, r, nil, noon)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func planned(t *testing.T, rows []state.Row, k *whatif.Capacity, u *cluster.Update) (*whatif.UpgradeAnswer, string) {
	t.Helper()
	got, err := whatif.PlanUpgrade(snapshotOf(t, rows), k, u, noon)
	if err != nil {
		t.Fatal(err)
	}
	return got, text(t, got.Print)
}

func TestPlanUpgrade(t *testing.T) {
	t.Run("InTheOrderOfTheUpdate", func(t *testing.T) {
		rows, k := fleet()
		u := update(t, func(g *cluster.NodeGroup, _ *nodegroup.Request) { g.Config.MaxUnavailable = 3 })
		got, out := planned(t, rows, k, u)
		var order []string
		var turns []int
		for _, n := range got.Nodes {
			order, turns = append(order, n.EC2), append(turns, n.Turn)
		}
		var members []nodegroup.Instance
		for _, i := range k.Groups["group"].Instances {
			members = append(members, nodegroup.Instance{ID: i.ID, Zone: i.Zone, Template: i.Template})
		}
		if diff := cmp.Diff(nodegroup.ReplacementOrder(u, members), order); diff != "" ||
			!slices.Equal(turns, []int{1, 1, 1, 2}) {
			t.Errorf("turns %v of\n%s", turns, diff)
		}
		if !got.WouldSucceed() || got.Surge != 4 || got.MaxUnavailable != 3 || got.UpToDate != 0 {
			t.Errorf("%+v", got)
		}
		for _, want := range []string{
			"Update of node group workers to ReleaseVersion ami-2 (Auto Scaling group group): 4 nodes would be replaced, at most 3 at a time (DEFAULT); 0 up to date.",
			"The group would grow from 4 to 8 nodes", "  2. " + order[3] + " in ",
			"In each turn the rest of the cluster can hold the load.",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("%q is not said:\n%s", want, out)
			}
		}
	})
	t.Run("LeavesWhatIsUpToDate", func(t *testing.T) {
		rows, k := fleet()
		u := update(t, func(*cluster.NodeGroup, *nodegroup.Request) {})
		for name, value := range nodegroup.TargetLabels(u) {
			rows[5].(*cluster.Instance).Attributes[name] = value
		}
		got, _ := planned(t, rows, k, u)
		if len(got.Nodes) != 3 || got.UpToDate != 1 ||
			slices.ContainsFunc(got.Nodes, func(n whatif.UpgradeNode) bool { return n.EC2 == "i-1" }) {
			t.Errorf("%+v", got)
		}
	})
	t.Run("LeavesWhatALaunchTemplateMade", func(t *testing.T) {
		rows, k := fleet()
		made := update(t, func(_ *cluster.NodeGroup, r *nodegroup.Request) {
			r.Target = cluster.UpdateTarget{Image: "ami-3", SourceTemplate: "lt-7", SourceVersion: "2"}
		})
		for name, value := range nodegroup.TargetLabels(made) {
			rows[6].(*cluster.Instance).Attributes[name] = value
		}
		if got, _ := planned(t, rows, k, made); len(got.Nodes) != 3 || got.UpToDate != 1 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("NoRoomWithoutNewNodesFirst", func(t *testing.T) {
		rows, k := fleet()
		for n := range 8 { // all four are full of tasks as large as an instance
			rows = append(rows, task("big", 10+n, "n-"+string(rune('1'+n%4))))
			rows[len(rows)-1].(*cluster.Task).Needs.Memory = 1500
		}
		rows = append(rows, definition("big", cluster.Resources{CPU: 512 * units, Memory: 1500}),
			service("big", 8, cluster.Rules{}))
		rows[len(rows)-1].(*cluster.Service).MaxPercent = 200
		minimal, out := planned(t, rows, k, update(t,
			func(g *cluster.NodeGroup, _ *nodegroup.Request) { g.Config.Strategy = cluster.UpdateMinimal }))
		if minimal.WouldSucceed() || minimal.Surge != 0 || len(minimal.NoRoom) != 4 ||
			!strings.Contains(out, "In turn 1 the rest of the cluster cannot hold the load: task t-") {
			t.Errorf("%+v\n%s", minimal, out)
		}
		surge, out := planned(t, rows, k, update(t, func(*cluster.NodeGroup, *nodegroup.Request) {}))
		if !surge.WouldSucceed() || surge.Surge != 4 {
			t.Errorf("%+v\n%s", surge, out)
		}
	})
	t.Run("NamesWhatWouldNotLeave", func(t *testing.T) {
		rows, k := fleet()
		alone := task("web", 9, "n-1")
		alone.Owner, alone.Service, alone.Group = "c-short", "", "family:web"
		rows = append(rows, alone, &cluster.Protection{Head: head(), Owner: "web-short", Task: "t-2",
			Until: noon.Add(time.Hour)})
		stays := func(change func(*cluster.NodeGroup, *nodegroup.Request)) map[string][]string {
			got, _ := planned(t, rows, k, update(t, change))
			out := map[string][]string{}
			for _, n := range got.Nodes {
				if len(n.Stays) > 0 {
					out[n.EC2] = n.Stays
				}
			}
			if got.WouldSucceed() == (len(out) > 0) {
				t.Errorf("ready %v with %v", got.WouldSucceed(), out)
			}
			return out
		}
		both := map[string][]string{"i-1": {"standalone task t-9 (web:1)"},
			"i-2": {"task t-2 of service web is protected"}}
		if diff := cmp.Diff(both, stays(func(*cluster.NodeGroup, *nodegroup.Request) {})); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(map[string][]string{"i-2": both["i-2"]},
			stays(func(_ *cluster.NodeGroup, r *nodegroup.Request) { r.Force = true })); diff != "" {
			t.Errorf("by force:\n%s", diff)
		}
		if left := stays(func(_ *cluster.NodeGroup, r *nodegroup.Request) {
			r.Force, r.ForceProtected = true,
				true
		}); len(left) > 0 {
			t.Errorf("by force, protected ones too: %v", left)
		}
	})
	t.Run("DomainByDomain", func(t *testing.T) {
		rows, k := fleet()
		for n, domain := range []string{"ud2", "ud10", "ud2", "ud10"} {
			rows[5+n].(*cluster.Instance).Attributes[cluster.AttributeUpgrade] = domain
		}
		got, _ := planned(t, rows, k, update(t, func(g *cluster.NodeGroup,
			_ *nodegroup.Request) {
			g.Config.MaxUnavailable = 3
		}))
		var said []string
		for _, n := range got.Nodes {
			said = append(said, n.Domain)
		}
		if !slices.Equal(said, []string{"ud2", "ud2", "ud10", "ud10"}) || got.Nodes[1].Turn != 1 ||
			got.Nodes[2].Turn != 2 {
			t.Errorf("%+v", got.Nodes)
		}
	})
	t.Run("NodesWithoutADomainAreOneEach", func(t *testing.T) {
		rows, k := fleet()
		for n := range 2 {
			rows[5+n].(*cluster.Instance).Attributes[cluster.AttributeUpgrade] = "ud2"
		}
		got, out := planned(t, rows, k, update(t, func(g *cluster.NodeGroup,
			_ *nodegroup.Request) {
			g.Config.MaxUnavailable = 4
		}))
		turns := map[string]int{}
		for _, n := range got.Nodes {
			turns[n.EC2+" "+n.Domain] = n.Turn
		}
		want := map[string]int{"i-3 i-3": 1, "i-4 i-4": 2, "i-1 ud2": 3, "i-2 ud2": 3} // in the order of their names
		if diff := cmp.Diff(want, turns); diff != "" {
			t.Errorf("%s\n%s", diff, out)
		}
	})
}

func TestUpgradeProgress(t *testing.T) {
	rows, k := fleet()
	snap := snapshotOf(t, rows)
	u := update(t, func(*cluster.NodeGroup, *nodegroup.Request) {})
	k.NodeGroups["workers"].Update, k.Updates["workers"] = u.ID, u
	g := k.Groups["group"]
	var last *whatif.UpgradeProgress
	look := func(change func(), want ...string) {
		t.Helper()
		change()
		now, err := whatif.MeasureProgress(k, "workers", u.ID, snap, last)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, now.ChangesSince(last)); diff != "" {
			t.Error(diff)
		}
		last = now
	}
	look(func() {}, "update u-2 of node group workers to ReleaseVersion ami-2: InProgress, 4 of 4 nodes are old",
		"phase: setup")
	look(func() {})
	look(func() {
		u.Phase, u.WaitingFor, g.Desired = cluster.PhaseScaleUp, "new nodes to be Ready: i-5", 5
		g.Instances = append(g.Instances, cluster.GroupInstance{ID: "i-5", Zone: "a", Lifecycle: "Pending"})
	}, "phase: scale up", "desired capacity 5, was 4", "new node i-5 in a: Pending",
		"waiting for new nodes to be Ready: i-5")
	look(func() { g.Instances[4].Lifecycle = "InService" }, "new node i-5 in a: InService")
	look(func() {
		u.Phase, u.WaitingFor = cluster.PhaseUpgrade, "tasks to leave i-2: the deployment configuration of service web"
		u.Removals = []cluster.NodeRemoval{{Instance: "i-2", Step: cluster.StepDrain}}
	}, "phase: upgrade", "old node i-2 in a: drain",
		"waiting for tasks to leave i-2: the deployment configuration of service web")
	look(func() { u.Removals[0].Step, u.WaitingFor = cluster.StepCordon, "" }, "old node i-2 in a: empty")
	look(func() { u.Removals[0].Step = cluster.StepTerminate }, "old node i-2 in a: terminate")
	look(func() { u.Removals, g.Instances = nil, slices.Delete(g.Instances, 1, 2) },
		"old node i-2 in a: terminated, 1 of 4 replaced")
	look(func() {
		u.Status, u.Errors = cluster.UpdateFailed, []cluster.UpdateError{{Code: cluster.PodEvictionFailure,
			Message: "stuck", Resources: []string{"i-1"}}}
	}, "PodEvictionFailure: stuck (i-1)", "Failed: 1 of 4 old nodes replaced since the first report, desired capacity 5")

	k.NodeGroups["workers"].Update, u.ID = "u-3", "u-3"
	if _, err := whatif.MeasureProgress(k, "workers", "u-2", snap, last); err == nil ||
		!strings.Contains(err.Error(), `update "u-2" is not in the cluster, expected one of: u-3`) {
		t.Errorf("after another update has begun: %v", err)
	}
}
