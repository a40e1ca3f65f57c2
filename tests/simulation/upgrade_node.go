package simulation

import (
	"context"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
	"berth/shared/sim/ecs"
)

// node is an instance of the group as it really is.
type node struct {
	cluster.GroupInstance
	row   *cluster.Instance // as ECS has it; nil where it is not registered
	tasks []ecs.TaskTruth   // that are not STOPPED
	empty time.Time         // when the last of its tasks stopped that somebody could have known of, as far as ECS remembers
}

func (n *node) live() bool {
	return n.Lifecycle == "InService" && n.row != nil && n.row.AgentConnected && n.row.Status != cluster.InstanceInactive
}
func (n *node) serving() bool  { return n.live() && n.row.Status == cluster.InstanceActive }
func (n *node) draining() bool { return n.live() && n.row.Status == cluster.InstanceDraining }
func (n *node) leaving() bool {
	return n.Lifecycle != "InService" && n.Lifecycle != "Pending"
}

// group is the Auto Scaling group as it really is; nil where it is gone.
func (j *upgradeJudge) group() *cluster.AutoScalingGroup {
	outer := j.running
	j.running = nil // the simulator itself is looking
	defer func() { j.running = outer }()
	got, err := j.AWS.Groups.DescribeGroups(context.Background(), []string{groupName})
	if err != nil || len(got) == 0 {
		return nil
	}
	return got[0]
}

// nodes are the group's, in order of id.
func (j *upgradeJudge) nodes() (out []*node) {
	g := j.group()
	if g == nil {
		return nil
	}
	rows := j.registrations()
	by := map[string]*node{}
	for _, i := range g.Instances {
		n := &node{GroupInstance: i, row: rows[i.ID]}
		out = append(out, n)
		if n.row != nil {
			by[n.row.ID] = n
		}
	}
	for _, t := range j.AWS.Machines.TaskTruths(clusterName) {
		switch n := by[t.Instance]; {
		case n == nil:
		case t.Last != cluster.TaskStopped:
			n.tasks = append(n.tasks, t)
		case t.Stopped.After(n.empty) && j.Loop.Now().Sub(t.Created) >= j.checker.tolerance:
			n.empty = t.Stopped
		}
	}
	slices.SortFunc(out, func(a, b *node) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// registrations are ECS's container instances by EC2 id.
func (j *upgradeJudge) registrations() map[string]*cluster.Instance {
	outer := j.running
	j.running = nil
	defer func() { j.running = outer }()
	out := map[string]*cluster.Instance{}
	ids, _ := j.AWS.ECS.ListInstances(context.Background(), clusterName)
	for part := range slices.Chunk(ids, 100) {
		rows, err := j.AWS.ECS.DescribeInstances(context.Background(), clusterName, part)
		if err != nil {
			j.checker.fail("describing instances: %v", err)
		}
		for _, r := range rows {
			if r.Status != cluster.InstanceInactive {
				out[r.EC2InstanceID] = r
			}
		}
	}
	return out
}

func (j *upgradeJudge) zones() map[string]int {
	out := map[string]int{}
	for _, n := range j.nodes() {
		if !n.leaving() {
			out[n.Zone]++
		}
	}
	return out
}

func (n *node) attribute(name string) (string, bool) {
	if n.row == nil {
		return "", false
	}
	v, ok := n.row.Attributes[name]
	return v, ok
}

// old reports whether a node is not of the update's target.
func (n *node) old(u *cluster.Update) bool {
	label, _ := n.attribute(nodegroup.LabelImage)
	return n.Template != u.Template && label != u.Target.Image
}

// labelled checks that nodes have the labels of their node group, once it has been ACTIVE for a while.
func (j *upgradeJudge) labelled() {
	for _, n := range j.nodes() {
		team, _ := n.attribute("team")
		name, _ := n.attribute(nodegroup.LabelNodeGroup)
		image, _ := n.attribute(nodegroup.LabelImage)
		if n.serving() && j.settledNode(n) && (team != "a" || name != groupName || image == "") {
			j.checker.fail("N2: node %s lacks labels of its node group: %v", n.ID, n.row.Attributes)
		}
	}
}
