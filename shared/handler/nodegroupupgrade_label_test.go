package handler_test

import (
	"fmt"
	"slices"
	"testing"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
	"berth/shared/operation"
	"berth/shared/state"
)

func team(s *operation.CreateNodeGroup) { s.Labels = map[string]string{"team": "a"} }

// labelsOf returns the labels of the group's nodes, sorted by their names.
func (p *nodePool) labelsOf() (out []string) {
	for _, i := range p.groups["a"].Instances {
		a := p.w.instance(i.ID[2:]).Attributes
		out = append(out, fmt.Sprint(a["team"], " ", a[nodegroup.LabelNodeGroup], " ", a[nodegroup.LabelImage]))
	}
	slices.Sort(out)
	return out
}

// Nodes that existed before the node group get its labels with its creation, and so do those that are scaled out
// later; tasks that wait for a label start there. If nothing has changed, only
// DescribeAutoScalingGroups is called, and little is read.
func TestNodeGroups_LabelsItsNodes(t *testing.T) {
	w, pool, n := pooled(t, team)
	want(t, "labels at once", fmt.Sprint(pool.labelsOf()), "[a web ami-1 a web ami-1 a web ami-1 a web ami-1]")
	to := []cluster.PlacementConstraint{{Type: cluster.MemberOf, Expression: "attribute:team == a"}}
	w.createAs(operation.CreateService{Cluster: prod, Name: "theirs", TaskDefinition: "web", Desired: new(2),
		Rules: cluster.Rules{Constraints: to}})
	w.pump()
	want(t, "running", w.service("theirs").Service.Running, 2)
	put, lists := pool.labels, w.state.lists
	want(t, "labels put", put, 4*3)
	n.look()
	want(t, "labels put again", pool.labels, put)
	want(t, "lists of an idle look", w.state.lists-lists, 3) // clusters, node groups, instances

	pool.groups["a"].Desired++
	pool.scale()
	n.look()
	want(t, "labels", fmt.Sprint(pool.labelsOf()), "[a web ami-1 a web ami-1 a web ami-1 a web ami-1 a web ami-1]")
	want(t, "labels put", pool.labels, put+3)
}

// A node's image is that of its own launch template version. If that is unknown, the other labels
// are set all the same. A node that cannot be labelled fails neither the others nor the round.
func TestNodeGroups_LabelsSayWhatIsThere(t *testing.T) {
	w, pool, n := pooled(t, team)
	pool.groups["a"].Desired += 4
	pool.scale()
	for k, template := range []string{"lt-2:1", "lt-3:1", "lt-9:1"} {
		pool.groups["a"].Instances[k+5].Template = template
	}
	pool.unlabelled = pool.groups["a"].Instances[4].ID[2:]
	n.look()
	n.look()
	const before = "a web ami-1 a web ami-1 a web ami-1 a web ami-1 " // of the four that were there before
	want(t, "labels", fmt.Sprint(pool.labelsOf()), "[   a web  a web  "+before+"a web ami-7]")
	pool.unlabelled = ""
	n.look()
	want(t, "labels", fmt.Sprint(pool.labelsOf()), "[a web  a web  "+before+"a web ami-1 a web ami-7]")
	pool.err = cluster.Errorf("Throttling", "later")
	if n.function.RunSchedule(ctx, "node-groups") == nil {
		t.Error("nothing is said of groups that could not be described")
	}
	want(t, "status", rows[*cluster.NodeGroup](w, state.PrefixNodeGroup)[0].Status, cluster.NodeGroupActive)
}

// A node that was scaled out since the last update has its labels. The same update again replaces
// none, however soon it is requested.
func TestNodeGroups_SameUpdateAfterAScaleOut(t *testing.T) {
	for _, looks := range []int{0, 1} {
		w, pool, n, upgrade := upgrading(t, version("web", "ami-2", ""), team)
		want(t, "status", pool.runs(upgrade, 120, nothing).Status, cluster.UpdateSuccessful)
		g := pool.groups["a"]
		g.Desired++
		pool.scale()
		for range looks {
			n.look()
			want(t, "labels", fmt.Sprint(pool.labelsOf()),
				"[a web ami-2 a web ami-2 a web ami-2 a web ami-2 a web ami-2]")
		}
		u, err := n.UpdateNodeGroupVersion(ctx, version("web", "ami-2", "again"))
		want(t, "error", err, nil)
		n.look()
		u, err = n.DescribeUpdate(ctx, prod, "web", u.ID)
		want(t, "error", err, nil)
		want(t, "update", fmt.Sprint(u.Status, u.Errors, u.WaitingFor), "Successful[]")
		want(t, "group", fmt.Sprint(g.Max, g.Desired, len(g.Instances)), "6 5 5")
		want(t, "labels", fmt.Sprint(pool.labelsOf()), "[a web ami-2 a web ami-2 a web ami-2 a web ami-2 a web ami-2]")
		wantCount(t, "running", w.with(cluster.TaskRunning), 6)
	}
}

// A call of an update that arrives after its end leaves no node out of service. Marks of others stay,
// and so do drains without a mark.
func TestNodeGroups_ReturnsNodesLeftByAnUpdate(t *testing.T) {
	w, pool, n, upgrade := upgrading(t, version("web", "ami-2", ""), team)
	u := pool.runs(upgrade, 120, nothing)
	want(t, "status", u.Status, cluster.UpdateSuccessful)
	pool.groups["a"].Desired++
	pool.scale()
	n.look()
	nodes := pool.groups["a"].Instances
	marked, draining, theirs, alone := nodes[0].ID[2:], nodes[1].ID[2:], nodes[2].ID[2:], nodes[3].ID[2:]
	before := nodes[4].ID[2:] // its user has drained it before the update, which only marked it
	left := *u
	left.Rev++
	left.DrainedNodes = []string{nodes[1].ID}
	_, err := w.store.Write(ctx, state.Write{Put: &left})
	want(t, "error", err, nil)
	for id, by := range map[string]string{marked: u.ID, draining: u.ID, theirs: "somebody", before: u.ID} {
		want(t, "error", pool.PutAttribute(ctx, prod, id, cluster.AttributeUnschedulable, by), nil)
	}
	for _, id := range []string{draining, theirs, alone, before} {
		w.ecs.change(id, func(i *cluster.Instance) { i.Status = cluster.InstanceDraining })
	}
	want(t, "error", w.api.Clusters.InstancesChanged(ctx, prod, []string{marked, draining, theirs, alone, before}), nil)
	n.look()
	for id, wanted := range map[string]string{
		marked: "ACTIVE ", draining: "ACTIVE ", theirs: "DRAINING somebody", alone: "DRAINING ",
		before: "DRAINING ",
	} {
		i := w.instance(id)
		want(t, "node "+id, fmt.Sprint(i.Status, " ", i.Attributes[cluster.AttributeUnschedulable]), wanted)
	}
}

// relabel changes the labels of the node group web, and returns the update after one look.
func (n *nodeAPI) relabel(change cluster.LabelsChange) *cluster.Update {
	n.t.Helper()
	u, err := n.UpdateNodeGroupConfig(ctx, operation.UpdateNodeGroupConfig{Cluster: prod, NodeGroup: "web",
		Labels: &change, Params: fmt.Sprint(change)})
	want(n.t, "error", err, nil)
	want(n.t, "status at first", u.Status, cluster.UpdateInProgress)
	n.look()
	u, err = n.DescribeUpdate(ctx, prod, "web", u.ID)
	want(n.t, "error", err, nil)
	return u
}

// UpdateNodegroupConfig changes the labels of all nodes, those that are registered now and those
// that come later; nobody's other attributes.
func TestNodeGroups_ChangesLabels(t *testing.T) {
	w, pool, n := pooled(t, team)
	n.look()
	want(t, "error", pool.PutAttribute(ctx, prod, pool.groups["a"].Instances[0].ID[2:], "mine", "1"), nil)
	u := n.relabel(cluster.LabelsChange{Set: map[string]string{"tier": "web"}, Remove: []string{"team", "mine"}})
	want(t, "update", fmt.Sprint(u.Status, " ", u.Params),
		`Successful [{LabelsToAdd {"tier":"web"}} {LabelsToRemove ["team","mine"]}]`)
	want(t, "labels", fmt.Sprint(n.described("web").Labels), "map[tier:web]")
	want(t, "their labels", fmt.Sprint(pool.labelsOf()), "[ web ami-1  web ami-1  web ami-1  web ami-1]")
	pool.groups["a"].Desired++
	pool.scale()
	n.look()
	for k, i := range pool.groups["a"].Instances {
		a := w.instance(i.ID[2:]).Attributes
		want(t, "tier", a["tier"], "web")
		want(t, "mine", a["mine"] == "1", k == 0)
	}
	t.Run("AsManyAsThereIsRoomFor", func(t *testing.T) {
		_, err := n.UpdateNodeGroupConfig(ctx, operation.UpdateNodeGroupConfig{Cluster: prod, NodeGroup: "web",
			Labels: &cluster.LabelsChange{Set: map[string]string{"a": "1", "b": "1", "c": "1", "d": "1"}}})
		wantCode(t, err, cluster.CodeInvalidParameter, "There are 5 labels, but at most 4 are possible")
		want(t, "status", n.described("web").Status, cluster.NodeGroupActive)
	})
	t.Run("ANodeThatRefusesIsLeftOut", func(t *testing.T) {
		pool.unlabelled = pool.groups["a"].Instances[0].ID[2:]
		u := n.relabel(cluster.LabelsChange{Set: map[string]string{"tier": "db"}})
		want(t, "status", u.Status, cluster.UpdateSuccessful)
		want(t, "tier", w.instance(pool.groups["a"].Instances[1].ID[2:]).Attributes["tier"], "db")
	})
	t.Run("SizesThatAreRefusedChangeNoLabel", func(t *testing.T) {
		_, err := n.UpdateNodeGroupConfig(ctx, operation.UpdateNodeGroupConfig{Cluster: prod, NodeGroup: "web",
			Labels: &cluster.LabelsChange{Remove: []string{"tier"}}, Sizes: &cluster.SizesChange{Max: new(0)},
			Params: "sizes"})
		wantCode(t, err, cluster.CodeInvalidParameter, "maxSize at least 1")
		pool.groups["a"].Max = 9
		u, err := n.UpdateNodeGroupConfig(ctx, operation.UpdateNodeGroupConfig{Cluster: prod, NodeGroup: "web",
			Labels: &cluster.LabelsChange{Remove: []string{"tier"}}, Sizes: &cluster.SizesChange{Desired: new(10)},
			Params: "desired"})
		want(t, "error", err, nil)
		n.look()
		u, err = n.DescribeUpdate(ctx, prod, "web", u.ID)
		want(t, "error", err, nil)
		want(t, "status", u.Status, cluster.UpdateFailed)
		want(t, "labels", fmt.Sprint(n.described("web").Labels), "map[tier:db]")
		want(t, "tier", w.instance(pool.groups["a"].Instances[1].ID[2:]).Attributes["tier"], "db")
	})
}
