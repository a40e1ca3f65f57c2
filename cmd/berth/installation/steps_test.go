package installation_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/cmd/berth/installation"
	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/handler"
	"berth/shared/nodegroup"
	"berth/shared/operation"
	"berth/shared/sim/autoscaling"
	"berth/shared/sim/ec2"
	"berth/shared/sim/ecs"
	"berth/shared/sim/kernel"
	"berth/shared/state"
)

// nextWithin is how long after the end of what it waited for node-group-upgrade takes its next step
// (N8).
const nextWithin = 2 * time.Second

// steps runs an installation event by event, and measures how long after the end of each wait
// node-group-upgrade takes the next step.
type steps struct {
	made
	began   time.Time
	longest map[string]time.Duration // by the step
}

// newSteps opens an installation with an empty cluster. If scheduled is false, the schedule of
// node-group-upgrade never ticks.
func newSteps(t *testing.T, scheduled bool) *steps {
	t.Helper()
	i, err := installation.Open(installation.Options{
		Loop: embedded.NewVirtualLoop(time.Date(2026, 11, 21, 9, 0, 17, 300e6, time.UTC)), Seed: 1,
		Account: cluster.Account{ID: "123456789012", Region: "eu-west-1"},
		Runtime: embedded.RuntimeOptions{Faults: embedded.Faults{Schedule: func(function, _ string) bool {
			return !scheduled && function == "node-group-upgrade"
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := i.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := &steps{made{t, i}, i.Loop.Now(), map[string]time.Duration{}}
	s.call("CreateCluster", `{"clusterName":"home"}`)
	s.call("RegisterTaskDefinition",
		`{"family":"web","containerDefinitions":[{"name":"app","image":"app","cpu":512,"memory":1024}]}`)
	s.check(i.API.Clusters.ClusterCreated(t.Context(), home))
	t.Cleanup(func() {
		for _, step := range slices.Sorted(maps.Keys(s.longest)) {
			t.Logf("%s within %s", step, s.longest[step])
		}
	})
	return s
}

// openSteps opens an installation with a node group of m5.large, each of which has room for four
// tasks, and a service.
func openSteps(t *testing.T, scheduled bool, nodes, tasks int, config cluster.UpdateConfig) *steps {
	t.Helper()
	s := newSteps(t, scheduled)
	_, err := s.AWS.Groups.AddGroup(autoscaling.GroupSpec{Name: "group", Cluster: home,
		Machine: ec2.Machine{Type: "m5.large", Zones: []string{"eu-west-1a"}}, Min: 1, Max: nodes + 1, Desired: nodes,
		Tags: map[string]string{handler.OwnerTag: installation.Name}})
	s.check(err)
	s.await("the nodes are Ready", func() bool { return s.countReady() == nodes })
	s.createService(tasks)
	s.await("its tasks run", func() bool { return s.service().Steady })
	_, err = s.API.NodeGroups.CreateNodeGroup(t.Context(), operation.CreateNodeGroup{
		Cluster: home, Name: "web", AutoScalingGroup: "group", Params: "p", Config: config})
	s.check(err)
	s.within("a new node group is ACTIVE", s.Loop.Now(), s.hasStatus(cluster.NodeGroupActive))
	return s
}

func (s *steps) check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *steps) call(op, body string) {
	s.Helper()
	if status, answer := s.AWS.ECS.Endpoint().ServeOperation(s.Context(), op, []byte(body)); status != 200 {
		s.Fatalf("%s: %s", op, answer)
	}
}

// await runs one event after the other until the condition holds, and returns when that is.
func (s *steps) await(what string, is func() bool) time.Time {
	s.Helper()
	for limit := s.Loop.Now().Add(2 * time.Hour); !is(); s.Loop.Step() {
		if next, ok := s.Loop.NextAt(); !ok || next.After(limit) {
			s.Fatalf("not within two hours: %s; the update: %+v", what, s.update())
		}
	}
	return s.Loop.Now()
}

// within checks that the step is taken soon after a wait is over. A wait whose end is still to come
// must not end before.
func (s *steps) within(step string, over time.Time, is func() bool) {
	s.Helper()
	if over.After(s.Loop.Now()) {
		if s.Loop.RunUntil(over.Add(-time.Nanosecond)); is() {
			s.Errorf("too early: %s", step)
		}
	}
	took := s.await(step, is).Sub(over)
	if s.longest[step] = max(s.longest[step], took); took > nextWithin {
		s.Errorf("%s after what it waited for was over: %s", took, step)
	}
}

// betweenTicks fails the test if a wait ends just before the schedule ticks, which would hide that
// nothing else ends it. The first tick is a minute after the installation began.
func (s *steps) betweenTicks(over time.Time) time.Time {
	s.Helper()
	if after := over.Sub(s.began) % time.Minute; after == 0 || after > 55*time.Second {
		s.Fatalf("the wait ends at %s, when the schedule ticks", over)
	}
	return over
}

func (s *steps) createService(tasks int) {
	s.Helper()
	_, err := s.API.Services.CreateService(s.Context(), operation.CreateService{Cluster: home, Name: "web",
		TaskDefinition: "web", Desired: &tasks, MinHealthy: new(50), MaxPercent: new(200),
		ServiceParameters: operation.ServiceParameters{ZoneRebalancing: new(bool)}})
	s.check(err)
}

func (s *steps) service() *cluster.Service {
	s.Helper()
	row, err := s.Store.Get(s.Context(), state.ServiceKey(home, "web"))
	s.check(err)
	return row.(*cluster.Service)
}

// group describes the node group's Auto Scaling group; nil if there is none.
func (s *steps) group() *cluster.AutoScalingGroup {
	s.Helper()
	found, err := s.AWS.Groups.DescribeGroups(s.Context(), []string{s.nodeGroup().AutoScalingGroup})
	s.check(err)
	if len(found) == 0 {
		return nil
	}
	return found[0]
}

// instances returns the container instances as ECS has them, by EC2 id.
func (s *steps) instances() map[string]*cluster.Instance {
	s.Helper()
	ids, err := s.AWS.ECS.ListInstances(s.Context(), home)
	s.check(err)
	by := map[string]*cluster.Instance{}
	if len(ids) == 0 {
		return by
	}
	found, err := s.AWS.ECS.DescribeInstances(s.Context(), home, ids)
	s.check(err)
	for _, i := range found {
		by[i.EC2InstanceID] = i
	}
	return by
}

// countReady counts the instances that are ACTIVE with a connected agent.
func (s *steps) countReady() (n int) {
	for _, i := range s.instances() {
		if i.Status == cluster.InstanceActive && i.AgentConnected {
			n++
		}
	}
	return n
}

// draining returns the EC2 ids of the members that are DRAINING and not being terminated, without
// those known.
func (s *steps) draining(known map[string]bool) (ids []string) {
	by := s.instances()
	for _, m := range s.group().Instances {
		if i := by[m.ID]; i != nil && i.Status == cluster.InstanceDraining && m.Lifecycle == "InService" &&
			!known[m.ID] {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// isEmpty reports whether no task is on an instance, as ECS has it.
func (s *steps) isEmpty(ec2ID string) func() bool {
	id := s.instances()[ec2ID].ID
	return func() bool {
		return !slices.ContainsFunc(s.AWS.Machines.TaskTruths(home), func(t ecs.TaskTruth) bool {
			return t.Instance == id && t.Last != cluster.TaskStopped
		})
	}
}

func (s *steps) isLeaving(ec2ID string) func() bool {
	return func() bool {
		return !slices.ContainsFunc(s.group().Instances, func(m cluster.GroupInstance) bool {
			return m.ID == ec2ID && m.Lifecycle == "InService"
		})
	}
}

// hasLeft reports whether an instance is no member of the group any more.
func (s *steps) hasLeft(ec2ID string) func() bool {
	return func() bool {
		return !slices.ContainsFunc(s.group().Instances, func(m cluster.GroupInstance) bool { return m.ID == ec2ID })
	}
}

func (s *steps) hasStatus(status cluster.NodeGroupStatus) func() bool {
	return func() bool {
		g := s.nodeGroup()
		return g == nil && status == "" || g != nil && g.Status == status
	}
}

// update returns the row of the node group's last update.
func (s *steps) update() *cluster.Update {
	g := s.nodeGroup()
	if g == nil {
		return nil
	}
	row, err := s.Store.Get(s.Context(), state.UpdateKey(home, "web", g.Update))
	s.check(err)
	u, _ := row.(*cluster.Update)
	return u
}

// begin begins an update to another image.
func (s *steps) begin(o operation.UpdateNodeGroupVersion) {
	s.Helper()
	o.Cluster, o.NodeGroup, o.ReleaseVersion, o.Params = home, "web", "ami-2", "p"
	_, err := s.API.NodeGroups.UpdateNodeGroupVersion(s.Context(), o)
	s.check(err)
}

// empty follows the removal of a node that has just become DRAINING, until it is terminated.
func (s *steps) empty(ec2ID string) {
	s.Helper()
	removal := func() cluster.NodeRemoval { return *s.update().RemovalOf(ec2ID) }
	s.within("the minute without tasks begins", s.await("its tasks have left "+ec2ID, s.isEmpty(ec2ID)),
		func() bool { return removal().Step == cluster.StepCordon })
	s.within("the node is terminated", removal().StepSince.Add(s.update().Timeouts.Cordon), s.isLeaving(ec2ID))
}

// Nothing but messages and due rows takes an update from step to step: its schedule is switched
// off, and each step follows within 2 s of the end of what it waited for.
func TestEachStepOfAnUpdateIsWoken(t *testing.T) {
	const nodes, surplus = 3, 2
	s := openSteps(t, false, nodes, 6, cluster.UpdateConfig{MaxUnavailable: 1})
	seen := map[string]bool{}
	drains := func() bool { return len(s.draining(seen)) > 0 }
	s.begin(operation.UpdateNodeGroupVersion{})
	s.within("the group is enlarged", s.Loop.Now(), func() bool { return s.group().Desired == nodes+surplus })
	over := s.await("the surplus is Ready", func() bool { return s.countReady() == nodes+surplus })
	for range nodes + surplus {
		s.within("a node is drained", over, drains)
		id := s.draining(seen)[0]
		seen[id] = true
		s.empty(id)
		if len(seen) <= nodes {
			over = s.await("another node is Ready in its place",
				func() bool { return s.countReady() == nodes+surplus })
		} else {
			over = s.await("it has left", s.hasLeft(id))
		}
	}
	s.within("the update ends", over, s.hasStatus(cluster.NodeGroupActive))
	if u := s.update(); u.Status != cluster.UpdateSuccessful {
		t.Errorf("%s: %+v", u.Status, u.Errors)
	}
}

// The nodes that a group has when a node group is created get its labels without the schedule.
func TestNodesOfANewNodeGroupAreLabelled(t *testing.T) {
	s := openSteps(t, false, 2, 1, cluster.UpdateConfig{})
	s.within("its nodes have its labels", s.Loop.Now(), func() bool {
		labelled := 0
		for _, i := range s.instances() {
			if i.Attributes[nodegroup.LabelNodeGroup] == "web" {
				labelled++
			}
		}
		return labelled == 2
	})
}

// Between upgrade domains an update waits for a set time, for services that have become unhealthy,
// and for room for the load of the next domain.
func TestEachStepBetweenUpgradeDomainsIsWoken(t *testing.T) {
	s := openSteps(t, false, 2, 6, cluster.UpdateConfig{Strategy: cluster.UpdateMinimal})
	var ids []string
	for n, i := range slices.Collect(maps.Values(s.instances())) {
		s.check(s.AWS.ECS.PutAttribute(t.Context(), home, i.ID, cluster.AttributeUpgrade, []string{"a", "b"}[n]))
		ids = append(ids, i.ID)
	}
	s.check(s.API.Clusters.InstancesChanged(t.Context(), home, ids))
	s.begin(operation.UpdateNodeGroupVersion{})
	s.within("the update waits for room", s.Loop.Now(), func() bool { return !s.update().WaitingSince.IsZero() })
	run(s.Installation, 21*time.Second)
	scale := func(n int) {
		_, err := s.API.Services.UpdateService(t.Context(),
			operation.UpdateService{Cluster: home, Name: "web", Desired: &n})
		s.check(err)
	}
	scale(4)
	over := s.await("tasks have left room", func() bool {
		n := 0
		for _, task := range s.AWS.Machines.TaskTruths(home) {
			if task.Last != cluster.TaskStopped {
				n++
			}
		}
		return n == 4
	})
	seen := map[string]bool{}
	drains := func() bool { return len(s.draining(seen)) > 0 }
	s.within("the first domain is drained", over, drains)
	first := s.draining(seen)[0]
	seen[first] = true
	s.empty(first)
	over = s.await("its node is replaced", func() bool { return s.countReady() == 2 })
	s.within("the domain settles", over, func() bool { return !s.update().DomainReplacedAt.IsZero() })
	s.AWS.Machines.SetTaskBehaviour(func(ecs.StartInfo) ecs.Behaviour { return ecs.Behaviour{Latency: 200 * time.Second} })
	scale(5)
	settled := s.update().DomainReplacedAt.Add(s.update().Timeouts.Domain)
	s.Loop.RunUntil(settled.Add(3 * time.Second))
	if drains() {
		t.Fatal("the next domain is drained while a service is unhealthy")
	}
	over = s.await("the service is healthy", func() bool { return s.service().HealthyCount() >= s.service().Desired })
	s.within("the next domain waits for room", over, func() bool { return !s.update().WaitingSince.IsZero() })
}

// A call whose answer is lost is made again when its effect would show by then: 54 s later.
func TestALostAnswerIsWaitedFor(t *testing.T) {
	s := openSteps(t, false, 2, 2, cluster.UpdateConfig{})
	lost := 1
	s.AWS.SetCallFaults(kernel.CallFaults{Call: func(op, _ string) kernel.CallFault {
		if op == "UpdateAutoScalingGroup" && lost > 0 {
			lost--
			return kernel.CallFault{Ambiguous: true}
		}
		return kernel.CallFault{}
	}})
	s.begin(operation.UpdateNodeGroupVersion{})
	asked := s.await("the call was made", func() bool { return lost == 0 })
	template := s.group().Template
	s.within("it is made again", asked.Add(54*time.Second), func() bool { return s.group().Template != template })
}

// Times that run out, with the schedule: without it they do not count. Each ends between two ticks.
func TestEachTimeoutIsWoken(t *testing.T) {
	t.Run("Launches", func(t *testing.T) {
		s := openSteps(t, true, 2, 2, cluster.UpdateConfig{})
		template := s.group().Template
		s.AWS.Groups.SetLaunchFaults(func(string, int64) autoscaling.LaunchFault {
			return autoscaling.LaunchFault{Silent: true}
		})
		s.begin(operation.UpdateNodeGroupVersion{})
		s.await("launches are waited for", func() bool { return !s.update().WaitingSince.IsZero() })
		over := s.update().WaitingSince.Add(s.update().Timeouts.Launch)
		s.within("the old launch template is used again", s.betweenTicks(over),
			func() bool { return s.group().Template == template })
	})
	for name, force := range map[string]bool{"Tasks": false, "TasksByForce": true} {
		t.Run(name, func(t *testing.T) {
			s := openSteps(t, true, 1, 2, cluster.UpdateConfig{})
			_, err := s.API.Services.UpdateService(t.Context(), operation.UpdateService{Cluster: home, Name: "web",
				MinHealthy: new(100), MaxPercent: new(101)})
			s.check(err)
			s.begin(operation.UpdateNodeGroupVersion{Force: force})
			s.await("a node is drained", func() bool { return len(s.draining(nil)) == 1 })
			id := s.draining(nil)[0]
			s.await("its tasks are waited for", func() bool { return !s.update().RemovalOf(id).DrainingAt.IsZero() })
			over := s.update().RemovalOf(id).StepSince.Add(s.update().Timeouts.Drain)
			s.within("the node is in service again, or its tasks are stopped", s.betweenTicks(over), func() bool {
				return !force && s.instances()[id].Status == cluster.InstanceActive || force && slices.ContainsFunc(
					s.AWS.Machines.TaskTruths(home),
					func(t ecs.TaskTruth) bool { return t.Desired == cluster.TaskStopped })
			})
		})
	}
}

// An update whose call is refused undoes at once what it has changed.
func TestARefusalIsUndoneAtOnce(t *testing.T) {
	s := openSteps(t, false, 2, 2, cluster.UpdateConfig{})
	template, _, _ := strings.Cut(s.group().Template, ":")
	form := url.Values{"Action": {"DeleteLaunchTemplate"}, "Version": {"2016-11-15"}, "LaunchTemplateId": {template}}
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 any")
	w := httptest.NewRecorder()
	if s.Server.ServeHTTP(w, r); w.Code != http.StatusOK {
		t.Fatal(w.Body)
	}
	s.begin(operation.UpdateNodeGroupVersion{})
	s.within("the update has failed and ends", s.Loop.Now(), s.hasStatus(cluster.NodeGroupActive))
	if u := s.update(); u.Status != cluster.UpdateFailed {
		t.Errorf("%s: %+v", u.Status, u.Errors)
	}
}

// Each step of the creation and of the deletion of a node group that Berth makes.
func TestEachStepOfAMadeNodeGroupIsWoken(t *testing.T) {
	open := func(t *testing.T, scheduled bool, faults autoscaling.LaunchFault) *steps {
		s := newSteps(t, scheduled)
		s.AWS.Groups.SetLaunchFaults(func(string, int64) autoscaling.LaunchFault { return faults })
		run(s.Installation, 13*time.Second)
		s.create(operation.CreateNodeGroup{Machines: &cluster.Machines{InstanceTypes: []string{"m5.large"}}})
		s.within("the Auto Scaling group is made", s.Loop.Now(), func() bool { return s.group() != nil })
		return s
	}
	del := func(s *steps) {
		s.Helper()
		_, err := s.API.NodeGroups.DeleteNodeGroup(s.Context(), home, "web")
		s.check(err)
	}
	t.Run("CreatedAndDeleted", func(t *testing.T) {
		s := open(t, false, autoscaling.LaunchFault{})
		over := s.await("its nodes have joined", func() bool { return s.countReady() == 2 })
		s.within("it is ACTIVE", over, s.hasStatus(cluster.NodeGroupActive))
		s.createService(4)
		s.await("its tasks run", func() bool { return s.service().Steady })
		del(s)
		s.within("its nodes are drained", s.Loop.Now(), func() bool { return len(s.draining(nil)) == 2 })
		run(s.Installation, 100*time.Second)
		_, err := s.API.Services.UpdateService(t.Context(),
			operation.UpdateService{Cluster: home, Name: "web", Desired: new(0)})
		s.check(err)
		ids := s.draining(nil)
		over = s.await("its tasks have left", func() bool { return s.isEmpty(ids[0])() && s.isEmpty(ids[1])() })
		s.within("all of it is deleted", over, s.hasStatus(""))
		if left := s.leftovers(); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	})
	t.Run("LateCallsAreWaitedFor", func(t *testing.T) {
		s := open(t, false, autoscaling.LaunchFault{})
		over := s.nodeGroup().Machines.CreatingSince.Add(2 * time.Minute)
		run(s.Installation, 20*time.Second)
		del(s)
		s.within("all of it is deleted", over, s.hasStatus(""))
	})
	t.Run("NodesNeverJoin", func(t *testing.T) {
		s := open(t, true, autoscaling.LaunchFault{Silent: true})
		over := s.nodeGroup().CreatedAt.Add(15 * time.Minute)
		s.within("it is CREATE_FAILED", s.betweenTicks(over), s.hasStatus(cluster.NodeGroupCreateFailed))
	})
	t.Run("TasksNeverLeave", func(t *testing.T) {
		s := open(t, true, autoscaling.LaunchFault{})
		s.await("it is ACTIVE", s.hasStatus(cluster.NodeGroupActive))
		s.createService(2)
		s.await("its tasks run", func() bool { return s.service().Steady })
		run(s.Installation, 200*time.Second)
		del(s)
		over := s.nodeGroup().ModifiedAt.Add(15 * time.Minute)
		s.within("its Auto Scaling group is deleted", s.betweenTicks(over),
			func() bool { g := s.nodeGroup(); return g == nil || s.group() == nil })
	})
}
