package installation_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/cmd/berth/installation"
	"berth/shared/cluster"
	"berth/shared/nodegroup"
	"berth/shared/operation"
	"berth/shared/sim/autoscaling"
	"berth/shared/sim/ec2"
	"berth/shared/sim/kernel"
	"berth/shared/state"
)

// made runs node groups that Berth makes.
type made struct {
	*testing.T
	*installation.Installation
}

// nodeGroup reads the node group; nil if there is none.
func (m made) nodeGroup() *cluster.NodeGroup {
	row, err := m.Store.Get(m.Context(), state.NodeGroupKey(home, "web"))
	if err != nil {
		m.Fatal(err)
	}
	g, _ := row.(*cluster.NodeGroup)
	return g
}

// await lets time pass until the node group has a status, "" for none.
func (m made) await(status cluster.NodeGroupStatus, within time.Duration) {
	m.Helper()
	for end := m.Loop.Now().Add(within); ; run(m.Installation, time.Second) {
		g := m.nodeGroup()
		if g == nil && status == "" || g != nil && g.Status == status {
			return
		}
		if m.Loop.Now().After(end) {
			m.Fatalf("not %q within %s: %+v", status, within, g)
		}
	}
}

// leftovers names what the simulated AWS has of what Berth makes.
func (m made) leftovers() (names []string) {
	for name := range m.AWS.Profiles.Rows {
		names = append(names, "profile "+name)
	}
	for _, t := range m.AWS.Templates.Rows {
		if strings.HasPrefix(t.Name, "berth-berth-") {
			names = append(names, "template "+t.Name)
		}
	}
	return append(names, autoscaling.Maker{Groups: m.AWS.Groups}.Names("berth-berth-")...)
}

func (m made) create(spec operation.CreateNodeGroup) {
	m.Helper()
	spec.Cluster, spec.Name, spec.Role, spec.Params = home, "web", "arn:aws:iam::123456789012:role/node", "p"
	if len(spec.Subnets) == 0 {
		spec.Subnets = []string{"subnet-1", "subnet-2"}
	}
	if _, err := m.API.NodeGroups.CreateNodeGroup(m.Context(), spec); err != nil {
		m.Fatal(err)
	}
}

// A node group without an Auto Scaling group gets one that Berth makes, with the newest published
// image; its nodes join with their labels. It is updated to another release, resized, and leaves
// nothing behind.
func TestBerthMakesANodeGroup(t *testing.T) {
	m := made{t, scaled(t, nil)}
	m.create(operation.CreateNodeGroup{Machines: &cluster.Machines{InstanceTypes: []string{"m5.large", "m5.xlarge"}},
		ReleaseVersion: "al2023-ami-ecs-hvm-2023.0.20260901-kernel-6.1-x86_64",
		Labels:         map[string]string{"team": "blue"},
		Sizes:          &cluster.Sizes{Min: 1, Max: 4, Desired: 2}})
	m.await(cluster.NodeGroupActive, 2*time.Minute)
	run(m.Installation, 10*time.Second)
	first := m.nodes()
	if g := m.nodeGroup(); len(first) != 2 || g.Target.Image == "" || len(m.leftovers()) != 3 {
		t.Fatalf("nodes %v, %+v, %q", first, g.Target, m.leftovers())
	}
	for _, n := range first {
		if n.Attributes["team"] != "blue" || n.Attributes["eks.amazonaws.com/nodegroup"] != "web" ||
			n.Attributes["eks.amazonaws.com/nodegroup-image"] != m.nodeGroup().Target.Image {
			t.Errorf("node %s has %v", n.ID, n.Attributes)
		}
	}
	if _, err := m.API.NodeGroups.UpdateNodeGroupVersion(t.Context(),
		operation.UpdateNodeGroupVersion{Cluster: home, NodeGroup: "web", Params: "p"}); err != nil {
		t.Fatal(err)
	}
	m.await(cluster.NodeGroupActive, time.Hour)
	run(m.Installation, time.Minute) // the node that went last deregisters
	second := m.nodes()
	if g := m.nodeGroup(); g.Target.ReleaseVersion != "al2023-ami-ecs-hvm-2023.0.20261015-kernel-6.1-x86_64" ||
		len(second) != 2 || slices.ContainsFunc(second, func(n *cluster.Instance) bool {
		return slices.ContainsFunc(first, func(o *cluster.Instance) bool { return o.ID == n.ID })
	}) {
		t.Fatalf("%+v with nodes %v", g.Target, second)
	}
	m.remove()
}

// relabel changes the labels of the node group, and waits until it is ACTIVE again.
func (m made) relabel(change cluster.LabelsChange) {
	m.Helper()
	u, err := m.API.NodeGroups.UpdateNodeGroupConfig(m.Context(), operation.UpdateNodeGroupConfig{Cluster: home,
		NodeGroup: "web", Labels: &change, Params: fmt.Sprint(change)})
	if err != nil {
		m.Fatal(err)
	}
	m.await(cluster.NodeGroupActive, 3*time.Minute)
	if u, err = m.API.NodeGroups.DescribeUpdate(m.Context(), home, "web", u.ID); err != nil ||
		u.Status != cluster.UpdateSuccessful {
		m.Fatalf("update %+v, %v", u, err)
	}
}

// checkLabels checks the labels of so many nodes, and that none has the label "old".
func (m made) checkLabels(nodes int, want map[string]string) {
	m.Helper()
	found := m.nodes()
	for _, n := range found {
		if _, has := n.Attributes["old"]; has || !nodegroup.HasAttributes(n, want) {
			m.Errorf("node %s has %v, want %v", n.ID, n.Attributes, want)
		}
	}
	if len(found) != nodes {
		m.Errorf("%d nodes, want %d", len(found), nodes)
	}
}

// UpdateNodegroupConfig changes the labels of the nodes that there are, and of those that come: at
// once, because they are launched with them. An agent that restarts reports the labels that its
// instance was launched with; Berth takes back what was removed.
func TestLabelsOfAMadeNodeGroupChange(t *testing.T) {
	m := made{t, scaled(t, nil)}
	m.create(operation.CreateNodeGroup{Machines: &cluster.Machines{InstanceTypes: []string{"m5.large"}},
		Labels: map[string]string{"team": "blue", "old": "1"}, Sizes: &cluster.Sizes{Min: 1, Max: 4, Desired: 2}})
	m.await(cluster.NodeGroupActive, 2*time.Minute)
	run(m.Installation, time.Minute)
	for _, n := range m.nodes() {
		if n.Attributes["old"] != "1" {
			t.Fatalf("node %s has %v", n.ID, n.Attributes)
		}
	}
	want := map[string]string{"team": "green", "tier": "web"}
	m.relabel(cluster.LabelsChange{Set: want, Remove: []string{"old"}})
	m.checkLabels(2, want)
	if got := m.nodeGroup(); !maps.Equal(got.Labels, want) {
		t.Errorf("the node group has %v", got.Labels)
	}
	restarted := m.nodes()[0]
	if err := m.AWS.ECS.PutAttribute(t.Context(), home, restarted.ID, "old", "1"); err != nil {
		t.Fatal(err)
	}
	run(m.Installation, 2*time.Minute)
	m.checkLabels(2, want)

	if err := m.AWS.Groups.SetDesired(t.Context(), m.nodeGroup().AutoScalingGroup, 3); err != nil {
		t.Fatal(err)
	}
	for end := m.Loop.Now().Add(5 * time.Minute); len(m.nodes()) < 3; run(m.Installation, time.Second) {
		if m.Loop.Now().After(end) {
			t.Fatal("no third node")
		}
	}
	m.checkLabels(3, want) // from its registration on
	template := m.template()
	m.relabel(cluster.LabelsChange{Remove: []string{"none"}})
	if got := m.template(); got != template {
		t.Errorf("a change of nothing made template %s of %s", got, template)
	}
	id, _, _ := strings.Cut(template, ":")
	if err := m.AWS.Groups.UseTemplate(t.Context(), m.nodeGroup().AutoScalingGroup, id+":1"); err != nil {
		t.Fatal(err)
	}
	run(m.Installation, 2*time.Minute)
	if got := m.template(); got != template {
		t.Errorf("after a late call the group launches from %s, not %s", got, template)
	}
	m.remove()
}

// The nodes of a node group with taints have them from their registration on: no task is placed
// there that does not tolerate them. A taint NO_EXECUTE that is added makes tasks leave, and when
// it is removed they may return.
func TestTaintsOfAMadeNodeGroup(t *testing.T) {
	m := made{t, scaled(t, nil)}
	gpu := cluster.Taint{Key: "dedicated", Value: "gpu", Effect: cluster.NoSchedule}
	m.create(operation.CreateNodeGroup{Machines: &cluster.Machines{InstanceTypes: []string{"m5.large"}},
		Taints: []cluster.Taint{gpu}, Sizes: &cluster.Sizes{Max: 2, Desired: 1}})
	for name, rules := range map[string]cluster.Rules{"web": {}, "tolerant": {Tolerations: []cluster.Toleration{
		{Key: "dedicated", Value: "gpu"}}}} {
		if _, err := m.API.Services.CreateService(t.Context(), operation.CreateService{Cluster: home, Name: name,
			TaskDefinition: "web", Desired: new(1), MinHealthy: new(0), Launched: true, Rules: rules}); err != nil {
			t.Fatal(err)
		}
	}
	m.await(cluster.NodeGroupActive, 2*time.Minute)
	run(m.Installation, 2*time.Minute)
	m.checkLabels(1, map[string]string{"berth.taints": "dedicated:gpu:NO_SCHEDULE"})
	m.checkRunning(map[string]int{"tolerant": 1})
	m.relabel(cluster.LabelsChange{SetTaints: []cluster.Taint{{Key: "old", Effect: cluster.NoExecute}}})
	run(m.Installation, 5*time.Minute)
	m.checkRunning(map[string]int{})
	m.relabel(cluster.LabelsChange{RemoveTaints: []cluster.Taint{gpu, {Key: "old", Effect: cluster.NoExecute}}})
	run(m.Installation, 5*time.Minute)
	m.checkRunning(map[string]int{"tolerant": 1, "web": 1})
	if n := m.nodes()[0]; n.Attributes["berth.taints"] != "" {
		t.Errorf("node %s has %v", n.ID, n.Attributes)
	}
	m.remove()
}

// checkRunning checks how many tasks of each service run on the node group's nodes.
func (m made) checkRunning(want map[string]int) {
	m.Helper()
	tasks, err := state.ListRows[*cluster.Task](m.Context(), m.Store, state.Prefix(home, state.PrefixTask), "tasks")
	if err != nil {
		m.Fatal(err)
	}
	got := map[string]int{}
	for _, task := range tasks {
		if task.Last == cluster.TaskRunning && slices.ContainsFunc(m.nodes(), func(n *cluster.Instance) bool {
			return n.ID == task.Instance
		}) {
			got[task.Service]++
		}
	}
	if !maps.Equal(got, want) {
		m.Errorf("%v run on the node group, want %v", got, want)
	}
}

// template returns the launch template version that the node group launches from.
func (m made) template() string {
	groups, err := m.AWS.Groups.DescribeGroups(m.Context(), []string{m.nodeGroup().AutoScalingGroup})
	if err != nil || len(groups) != 1 {
		m.Fatal(groups, err)
	}
	return groups[0].Template
}

// What cannot be made is CREATE_FAILED, with EKS's code, and is deleted like any other node group.
func TestANodeGroupThatCannotBeMade(t *testing.T) {
	for name, c := range map[string]struct {
		spec  operation.CreateNodeGroup
		fault autoscaling.LaunchFault
		code  cluster.IssueCode
	}{
		"UnknownRelease": {operation.CreateNodeGroup{ReleaseVersion: "al2023-1"}, autoscaling.LaunchFault{},
			cluster.IssueImage},
		"NoTemplate": {operation.CreateNodeGroup{Template: &cluster.TemplateRef{ID: "lt-0"}}, autoscaling.LaunchFault{},
			cluster.IssueNoTemplate},
		"NoImage": {operation.CreateNodeGroup{AMIType: "CUSTOM", Template: &cluster.TemplateRef{Name: "without-image"}},
			autoscaling.LaunchFault{}, cluster.IssueTemplate},
		"NeverJoins": {operation.CreateNodeGroup{}, autoscaling.LaunchFault{Silent: true}, cluster.IssueNodes},
		"NoCapacity": {operation.CreateNodeGroup{}, autoscaling.LaunchFault{
			Reason: "InsufficientInstanceCapacity - none"}, cluster.IssueLaunches},
		"TooManySubnets": {operation.CreateNodeGroup{Subnets: []string{"subnet-1", "subnet-2", "subnet-3", "subnet-4",
			"subnet-5", "subnet-6", "subnet-7"}}, autoscaling.LaunchFault{}, cluster.IssueSubnet},
	} {
		t.Run(name, func(t *testing.T) {
			m := made{t, scaled(t, nil)}
			if _, err := m.AWS.Templates.AddTemplateWith("without-image", ec2.Data{}); err != nil {
				t.Fatal(err)
			}
			m.AWS.Groups.SetLaunchFaults(func(string, int64) autoscaling.LaunchFault { return c.fault })
			c.spec.Machines = &cluster.Machines{}
			m.create(c.spec)
			m.await(cluster.NodeGroupCreateFailed, 20*time.Minute)
			if got := m.nodeGroup().Issues; len(got) != 1 || got[0].Code != c.code {
				t.Errorf("issues %+v, want %s", got, c.code)
			}
			m.remove()
		})
	}
}

// A node group that is deleted while it is made leaves nothing behind, whenever that is, and even
// if calls of the creation have their effect late.
func TestDeletedWhileItIsMade(t *testing.T) {
	for after := range 40 {
		m := made{t, scaled(t, nil)}
		m.AWS.SetCallFaults(kernel.CallFaults{Call: func(operation, _ string) kernel.CallFault {
			if strings.HasPrefix(operation, "Create") && after%4 != 0 {
				return kernel.CallFault{Ambiguous: true, Applied: true, Late: time.Duration(after%4*20) * time.Second}
			}
			return kernel.CallFault{}
		}})
		m.create(operation.CreateNodeGroup{Machines: &cluster.Machines{CapacityType: cluster.Spot},
			AMIType: "BOTTLEROCKET_ARM_64"})
		run(m.Installation, time.Duration(after)*5*time.Second)
		m.remove()
	}
}

// A cluster that has a node group is not deleted. If a deletion comes in between all the same, what
// Berth has made for the node group goes with the cluster.
func TestClusterOfAMadeNodeGroupIsDeleted(t *testing.T) {
	for after := range 10 {
		m := made{t, scaled(t, nil)}
		m.create(operation.CreateNodeGroup{Machines: &cluster.Machines{}, Sizes: &cluster.Sizes{Min: 1, Max: 4, Desired: 2}})
		run(m.Installation, time.Duration(after)*15*time.Second)
		err := m.API.Clusters.CheckDeletable(m.Context(), home)
		if cluster.ErrorCode(err) != cluster.CodeContainsInstances {
			t.Errorf("deleting a cluster with a node group: %v", err)
		}
		if err = m.API.Clusters.ClusterDeleted(m.Context(), home); err != nil {
			t.Fatal(err)
		}
		m.await("", 20*time.Minute)
		run(m.Installation, 2*time.Hour) // a sweep removes the cluster
		if left := m.leftovers(); len(left) > 0 {
			t.Errorf("left behind after %d times 15 s: %q", after, left)
		}
		names, err := state.ClusterNames(m.Context(), m.Store)
		if err != nil || slices.Contains(names, home) {
			t.Errorf("clusters %q, %v", names, err)
		}
	}
}

// The tasks of a deleted node group move elsewhere before its nodes go: as many run as the service
// must keep, all the time.
func TestTasksLeaveADeletedNodeGroup(t *testing.T) {
	m := made{t, scaled(t, nil)}
	m.create(operation.CreateNodeGroup{Machines: &cluster.Machines{InstanceTypes: []string{"m5.large"}},
		Sizes: &cluster.Sizes{Max: 1, Desired: 1}})
	m.await(cluster.NodeGroupActive, 2*time.Minute)
	if _, err := m.API.Services.CreateService(t.Context(), operation.CreateService{Cluster: home, Name: "web",
		TaskDefinition: "web", Desired: new(4), MinHealthy: new(100), Launched: true}); err != nil {
		t.Fatal(err)
	}
	running := func() (n int) {
		tasks, err := state.ListRows[*cluster.Task](t.Context(), m.Store, state.Prefix(home, state.PrefixTask), "tasks")
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			if task.Last == cluster.TaskRunning {
				n++
			}
		}
		return n
	}
	run(m.Installation, 2*time.Minute)
	if running() != 4 {
		t.Fatalf("%d tasks run", running())
	}
	if _, err := m.API.NodeGroups.DeleteNodeGroup(t.Context(), home, "web"); err != nil {
		t.Fatal(err)
	}
	run(m.Installation, 3*time.Minute)
	if g := m.nodeGroup(); g == nil || running() != 4 {
		t.Fatalf("with nowhere to go %d tasks run, and the node group is %+v", running(), g)
	}
	if err := m.AWS.Groups.SetDesired(t.Context(), "group", 1); err != nil {
		t.Fatal(err)
	}
	for end := m.Loop.Now().Add(8 * time.Minute); m.nodeGroup() != nil; run(m.Installation, time.Second) {
		if running() < 4 || m.Loop.Now().After(end) {
			t.Fatalf("%d tasks run, and the node group is %+v", running(), m.nodeGroup())
		}
	}
	if left := m.leftovers(); len(left) > 0 || running() < 4 {
		t.Errorf("left behind: %q, with %d tasks running", left, running())
	}
}

// A node group whose times a clock wrote that was hours ahead is deleted as soon as any other, and one whose
// nodes do not join fails in time.
func TestTimesOfAMadeNodeGroupThatAreAhead(t *testing.T) {
	for _, status := range []cluster.NodeGroupStatus{cluster.NodeGroupCreateFailed, ""} {
		m := made{t, scaled(t, nil)}
		if status != "" {
			m.AWS.Groups.SetLaunchFaults(func(string, int64) autoscaling.LaunchFault {
				return autoscaling.LaunchFault{Silent: true}
			})
		}
		m.create(operation.CreateNodeGroup{Machines: &cluster.Machines{}})
		run(m.Installation, time.Minute)
		if status == "" {
			if _, err := m.API.NodeGroups.DeleteNodeGroup(t.Context(), home, "web"); err != nil {
				t.Fatal(err)
			}
		}
		ahead, g := m.Loop.Now().Add(5*time.Hour), *m.nodeGroup()
		machines := *g.Machines
		g.Rev++
		machines.CreatingSince, g.CreatedAt, g.ModifiedAt, g.Machines = ahead, ahead, ahead, &machines
		if _, err := m.Store.Write(t.Context(), state.Write{Put: &g}); err != nil {
			t.Fatal(err)
		}
		m.await(status, 20*time.Minute)
	}
}

// remove deletes the node group, and checks that nothing is left then or later.
func (m made) remove() {
	m.Helper()
	if _, err := m.API.NodeGroups.DeleteNodeGroup(m.Context(), home, "web"); err != nil {
		m.Fatal(err)
	}
	m.await("", 20*time.Minute)
	run(m.Installation, 10*time.Minute)
	if left := m.leftovers(); len(left) > 0 || len(m.nodes()) > 0 {
		m.Errorf("left behind: %q, nodes %v", left, m.nodes())
	}
}

// nodes returns the node group's nodes that are registered.
func (m made) nodes() (nodes []*cluster.Instance) {
	rows, err := state.ListRows[*cluster.Instance](m.Context(), m.Store, state.Prefix(home, state.PrefixInstance),
		"nodes")
	if err != nil {
		m.Fatal(err)
	}
	for _, n := range rows {
		if !n.IsDeregistered() && slices.Contains(slices.Collect(maps.Keys(n.Attributes)),
			"eks.amazonaws.com/nodegroup") {
			nodes = append(nodes, n)
		}
	}
	return nodes
}
