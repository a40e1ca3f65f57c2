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

// A node is an instance of the group as it really is.
type node struct {
	cluster.GroupInstance
	row        *cluster.Instance // ECS's container instance, or nil if not registered
	tasks      []ecs.TaskTruth   // not STOPPED
	emptySince time.Time         // when its last known task stopped, as far as ECS remembers
}

func (n *node) isLive() bool {
	return n.Lifecycle == "InService" && n.row != nil && n.row.AgentConnected &&
		n.row.Status != cluster.InstanceInactive
}
func (n *node) isServing() bool  { return n.isLive() && n.row.Status == cluster.InstanceActive }
func (n *node) isDraining() bool { return n.isLive() && n.row.Status == cluster.InstanceDraining }
func (n *node) isLeavingGroup() bool {
	return n.Lifecycle != "InService" && n.Lifecycle != "Pending"
}

// describeGroup returns the Auto Scaling group as it really is, or nil if it is deleted.
func (c *upgradeChecker) describeGroup() *cluster.AutoScalingGroup {
	defer c.asSimulation()()
	got, err := c.AWS.Groups.DescribeGroups(context.Background(), []string{groupName})
	if err != nil || len(got) == 0 {
		return nil
	}
	return got[0]
}

// listNodes returns the group's nodes sorted by id.
func (c *upgradeChecker) listNodes() (out []*node) {
	g := c.describeGroup()
	if g == nil {
		return nil
	}
	rows := c.registeredInstances()
	by := map[string]*node{}
	for _, i := range g.Instances {
		n := &node{GroupInstance: i, row: rows[i.ID]}
		out = append(out, n)
		if n.row != nil {
			by[n.row.ID] = n
		}
	}
	for _, t := range c.AWS.Machines.TaskTruths(clusterName) {
		switch n := by[t.Instance]; {
		case n == nil:
		case t.Last != cluster.TaskStopped:
			n.tasks = append(n.tasks, t)
		case t.Stopped.After(n.emptySince) && c.Loop.Now().Sub(t.Created) >= c.checker.Staleness:
			n.emptySince = t.Stopped
		}
	}
	slices.SortFunc(out, func(a, b *node) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// registeredInstances returns ECS's container instances by EC2 id.
func (c *upgradeChecker) registeredInstances() map[string]*cluster.Instance {
	defer c.asSimulation()()
	out := map[string]*cluster.Instance{}
	for _, i := range c.instances() {
		if i.Status != cluster.InstanceInactive {
			out[i.EC2InstanceID] = i
		}
	}
	return out
}

func (c *upgradeChecker) countByZone() map[string]int {
	out := map[string]int{}
	for _, n := range c.listNodes() {
		if !n.isLeavingGroup() {
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

// isOutdated reports whether a node is not made from the update's target.
func (n *node) isOutdated(u *cluster.Update) bool {
	label, _ := n.attribute(nodegroup.LabelImage)
	return n.Template != u.Template && label != u.Target.Image
}

// checkLabels checks that nodes have the labels of their node group.
func (c *upgradeChecker) checkLabels() {
	for _, n := range c.listNodes() {
		team, _ := n.attribute("team")
		name, _ := n.attribute(nodegroup.LabelNodeGroup)
		image, _ := n.attribute(nodegroup.LabelImage)
		if n.isServing() && c.isSettledNode(n) && (team != "a" || name != groupName || image == "") {
			c.checker.Fail("N2: node %s lacks labels of its node group: %v", n.ID, n.row.Attributes)
		}
	}
}
