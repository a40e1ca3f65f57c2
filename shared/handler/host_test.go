package handler_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/awsevent"
	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/operation"
	"berth/shared/state"
)

func (w *world) drain(id string) {
	w.ecs.change(id, func(i *cluster.Instance) { i.Status = cluster.InstanceDraining })
}

// connect changes whether the agent of an instance is connected.
func (w *world) connect(id string, connected bool) {
	w.ecs.change(id, func(i *cluster.Instance) { i.AgentConnected = connected })
}

func TestPlacement_Draining(t *testing.T) {
	t.Run("SaysSinceWhen", func(t *testing.T) {
		w := newWorld(t)
		id := w.instances("i", 1, 4096, 8192)[0]
		w.advance(time.Minute)
		want(t, "ACTIVE", w.instance(id).DrainingAt, cluster.Instant(0))
		w.drain(id)
		since := w.clock.now
		w.pump()
		w.minutes(3)
		w.connect(id, false) // another report
		w.minutes(1)
		want(t, "draining since", w.instance(id).DrainingAt, cluster.At(since))
		w.ecs.change(id, func(i *cluster.Instance) { i.Status = cluster.InstanceActive })
		w.minutes(1)
		want(t, "ACTIVE again", w.instance(id).DrainingAt, cluster.Instant(0))
	})
	t.Run("ReplacesRunningTasksFirst", func(t *testing.T) {
		w := newWorld(t)
		ids := w.instances("i", 2, 4096, 8192)
		w.create("web", "web", 4)
		w.run(t, operation.SubmitTasks{})
		w.advance(time.Minute)
		alone := w.with(cluster.TaskRunning)
		from := len(w.changed)
		w.drain(ids[0])
		w.advance(5 * time.Minute)
		for _, task := range w.with(cluster.TaskRunning) {
			if task.Instance == ids[0] && task.Service != "" {
				t.Errorf("task %s is still on the draining instance", task.ID)
			}
		}
		wantCount(t, "running tasks, the standalone one among them", w.with(cluster.TaskRunning), len(alone))
		fewest, most := w.bounds(from)
		want(t, "fewest running", fewest, 4)
		if most > 8 {
			t.Errorf("%d tasks at once", most)
		}
	})
	t.Run("StopsPendingTasksAtOnce", func(t *testing.T) {
		w := newWorld(t)
		ids := w.instances("i", 1, 4096, 8192)
		w.ecs.frozen = true
		w.create("web", "web", 1)
		w.pump()
		wantCount(t, "pending tasks", w.with(cluster.TaskPending), 1)
		w.drain(ids[0])
		w.pump()
		wantCount(t, "tasks to run there", w.with(cluster.TaskPending), 0)
	})
	t.Run("DaemonsGoLast", func(t *testing.T) {
		w := newWorld(t)
		ids := w.instances("i", 2, 4096, 8192)
		w.createAs(operation.CreateService{Cluster: prod, Name: "agent", TaskDefinition: "web", Strategy: cluster.Daemon})
		r := w.run(t, operation.SubmitTasks{})
		w.advance(time.Minute)
		on := w.task(r.Tasks[0]).Instance
		w.drain(on)
		w.advance(time.Minute)
		want(t, "tasks beside the standalone one", placed(w.tasks())[on], 2)
		w.ecs.exit(w.task(r.Tasks[0]).ECSID, 0)
		w.advance(time.Minute)
		want(t, "tasks once that has ended", placed(w.tasks())[on], 0)
		want(t, "tasks on the others", placed(w.tasks())[ids[0]]+placed(w.tasks())[ids[1]], 1)
	})
}

// A task that exits again and again, and is started again each time, does not keep a draining instance from
// becoming empty (S11).
func TestPlacement_DrainingBesideATaskThatExits(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"a", "b"} {
		i := zoned(id, "zone-a")
		i.Registered.CPU = 256 * cluster.CPUUnit // room for one task
		w.ecs.register(i)
	}
	w.pump()
	w.createAs(operation.CreateService{
		Cluster: prod, Name: "web", TaskDefinition: "web", Desired: new(2), MinHealthy: new(0),
	})
	w.advance(2 * time.Minute)
	wantCount(t, "running", w.with(cluster.TaskRunning), 2)
	w.drain("a")
	for n := range 10 {
		w.advance(30 * time.Second)
		if n%2 == 1 {
			w.minute()
		}
		for _, x := range w.with(cluster.TaskRunning) {
			if x.Instance == "b" {
				w.ecs.beginExit(x.ECSID)
				w.pump()
				w.ecs.exit(x.ECSID, 1)
			}
		}
		w.pump()
	}
	want(t, "tasks on the draining instance", placed(w.with(cluster.TaskRunning))["a"], 0)
}

func TestPlacement_Disconnected(t *testing.T) {
	begin := func(t *testing.T) (*world, string) {
		w := newWorld(t)
		ids := w.instances("i", 2, 4096, 8192)
		w.create("web", "web", 2)
		w.advance(time.Minute)
		w.connect(ids[0], false)
		w.pump()
		return w, ids[0]
	}
	t.Run("LosesItsTasksAfterTenMinutes", func(t *testing.T) {
		w, id := begin(t)
		since := w.clock.now
		want(t, "disconnected since", w.instance(id).DisconnectedAt, cluster.At(since))
		w.minutes(9)
		wantCount(t, "running tasks", w.with(cluster.TaskRunning), 2)
		want(t, "disconnected since, nine minutes later", w.instance(id).DisconnectedAt, cluster.At(since))
		w.minutes(3)
		want(t, "tasks elsewhere", placed(w.with(cluster.TaskRunning))["i001"], 2)
	})
	t.Run("KeepsThemIfItIsBackInTime", func(t *testing.T) {
		w, id := begin(t)
		w.minutes(9)
		w.connect(id, true)
		w.minutes(9)
		want(t, "disconnected since", w.instance(id).DisconnectedAt, cluster.Instant(0))
		wantCount(t, "StartTask calls", w.ecs.starts, 1)
		w.connect(id, false)
		w.minutes(8)
		wantCount(t, "StartTask calls when it is away anew", w.ecs.starts, 1)
	})
	t.Run("KeepsThemIfNoEventSaysThatItIsBack", func(t *testing.T) { // no rule passes that of an instance with tasks
		w, id := begin(t)
		w.minutes(8)
		w.ecs.mute = true
		w.connect(id, true)
		w.ecs.mute = false
		w.minutes(4)
		wantCount(t, "StartTask calls", w.ecs.starts, 1)
		want(t, "disconnected since", w.instance(id).DisconnectedAt, cluster.Instant(0))
	})
}

// taskAliases returns the aliases of tasks; those without an owner belong to instances.
func (w *world) taskAliases() []*state.Alias {
	return slices.DeleteFunc(rows[*state.Alias](w, state.PrefixAlias), func(a *state.Alias) bool { return a.Owner == "" })
}

func TestTaskStateChange_Spot(t *testing.T) {
	warning := func(ec2 string) []byte {
		return []byte(`{"source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning","detail":{"instance-id":"` + ec2 + `","instance-action":"terminate"}}`)
	}
	begin := func(t *testing.T, n int) (*world, *spyState) {
		w := newWorld(t)
		w.observer.Decoder = awsevent.Decoder{}
		w.instances("i", n, 4096, 8192)
		spy := &spyState{Store: w.store}
		w.observer.State = spy
		return w, spy
	}
	t.Run("ReadsNoMoreInALargerCluster", func(t *testing.T) {
		units := func(n int) float64 {
			w, spy := begin(t, n)
			before := w.store.Usage().ReadUnits
			w.observe(warning("i-i001"))
			want(t, "reads of a range, the clusters' alone", spy.lists, 1)
			used := w.store.Usage().ReadUnits - before
			w.pump()
			want(t, "status", w.instance("i001").Status, cluster.InstanceDraining)
			return used
		}
		want(t, "read units", units(200), units(2))
	})
	t.Run("OfAnInstanceThatRegisteredAgain", func(t *testing.T) {
		w, _ := begin(t, 1)
		again := *w.ecs.instances["i000"]
		again.ID = "i999"
		w.ecs.register(&again)
		w.pump()
		w.ecs.change("i000", func(i *cluster.Instance) { i.Status, i.AgentConnected = cluster.InstanceInactive, false })
		w.pump()
		w.observe(warning("i-i000"))
		w.pump()
		want(t, "status", w.instance("i999").Status, cluster.InstanceDraining)
	})
	t.Run("IsForgottenWithTheInstance", func(t *testing.T) {
		w, _ := begin(t, 1)
		w.ecs.change("i000", func(i *cluster.Instance) { i.Status, i.AgentConnected = cluster.InstanceInactive, false })
		w.pump()
		aliases := rows[*state.Alias](w, state.PrefixAlias)
		wantCount(t, "aliases", aliases, 1)
		want(t, "expires", aliases[0].Expires, w.instance("i000").Expires)
	})
	for _, kind := range []string{"EC2 Spot Instance Interruption Warning", "EC2 Instance Rebalance Recommendation"} {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t)
			w.observer.Decoder = awsevent.Decoder{}
			ids := w.instances("i", 2, 4096, 8192)
			warn := []byte(`{"source":"aws.ec2","detail-type":"` + kind + `","detail":{"instance-id":"i-` + ids[1] + `","instance-action":"terminate"}}`)
			w.observe(warn, warn)
			w.pump()
			want(t, "status", w.instance(ids[1]).Status, cluster.InstanceDraining)
			want(t, "status of the other", w.instance(ids[0]).Status, cluster.InstanceActive)
			w.observe([]byte(`{"source":"aws.ec2","detail-type":"` + kind + `","detail":{"instance-id":"i-unknown"}}`))
		})
	}
}

func TestPlacement_Reservation(t *testing.T) {
	agent := operation.CreateService{Cluster: prod, Name: "agent", TaskDefinition: "heavy:1", Strategy: cluster.Daemon}
	begin := func(t *testing.T, change ...func(*handler.Settings)) *world {
		w := newWorld(t, change...)
		w.ecs.define(definition("heavy", 1, 1024, 1024))
		return w
	}
	refuse := func(w *world) {
		w.ecs.onStart = func(_ int, c cluster.StartCall) fault {
			if strings.HasPrefix(c.TaskDefinition, "heavy:") {
				return fault{err: denied}
			}
			return fault{}
		}
	}
	t.Run("HoldsWhatAThrottledTaskWillNeed", func(t *testing.T) {
		w := begin(t)
		w.instances("i", 1, 2048, 8192)
		refuse(w)
		w.createAs(agent)
		w.pump()
		w.create("web", "web", 8) // of 256: 4 fit beside the reservation
		w.pump()
		wantCount(t, "running tasks", w.with(cluster.TaskRunning), 4)
		wantEvent(t, w.events("web"), "insufficient CPU")
		w.ecs.onStart = nil
		w.minutes(3)
		wantCount(t, "running tasks with the daemon's", w.of("heavy:1", cluster.TaskRunning), 1)
	})
	t.Run("IsKeptByAnotherEnvironment", func(t *testing.T) {
		w := begin(t)
		w.instances("i", 1, 2048, 8192)
		refuse(w)
		w.createAs(agent)
		w.pump()
		w.placement = w.newPlacement("env-2", handler.DefaultSettings())
		w.create("web", "web", 8)
		w.pump()
		wantCount(t, "running tasks", w.with(cluster.TaskRunning), 4)
	})
	t.Run("IsReleasedWhereTheInstanceNoLongerQualifies", func(t *testing.T) {
		w := begin(t)
		ids := w.instances("i", 1, 2048, 8192)
		refuse(w)
		spec := agent
		spec.Rules.Constraints = []cluster.PlacementConstraint{{Type: cluster.MemberOf, Expression: "attribute:kind exists"}}
		w.attribute(ids[0], "kind", "a")
		w.createAs(spec)
		w.pump()
		w.create("web", "web", 8)
		w.pump()
		wantCount(t, "running tasks", w.with(cluster.TaskRunning), 4)
		w.ecs.change(ids[0], func(i *cluster.Instance) { delete(i.Attributes, "kind") })
		w.pump()
		wantCount(t, "running tasks once it is released", w.with(cluster.TaskRunning), 8)
	})
	t.Run("RemovingAnAttributeThroughTheAPIStopsTheTaskAtOnce", func(t *testing.T) { // no rule passes the event
		w := begin(t)
		ids := w.instances("i", 2, 2048, 8192)
		spec := agent
		spec.Rules.Constraints = []cluster.PlacementConstraint{{Type: cluster.MemberOf, Expression: "attribute:kind exists"}}
		for _, id := range ids {
			w.attribute(id, "kind", "a")
		}
		w.createAs(spec)
		w.advance(time.Minute)
		wantCount(t, "running tasks", w.with(cluster.TaskRunning), 2)
		w.ecs.mute = true
		w.ecs.change(ids[0], func(i *cluster.Instance) { delete(i.Attributes, "kind") })
		w.ecs.mute = false
		w.advance(10 * time.Minute)
		wantCount(t, "running tasks while nobody knows", w.with(cluster.TaskRunning), 2)
		if err := w.api.Clusters.InstancesChanged(ctx, prod, ids[:1]); err != nil {
			t.Fatal(err)
		}
		w.pump()
		on := placed(w.with(cluster.TaskRunning))
		want(t, "tasks there", on[ids[0]], 0)
		want(t, "tasks where it is still met", on[ids[1]], 1)
	})
	t.Run("IsReleasedWithADeploymentThatFails", func(t *testing.T) {
		w := begin(t)
		w.instances("i", 1, 2048, 8192)
		refuse(w)
		spec := agent
		spec.Breaker = &cluster.CircuitBreaker{Enable: true, Type: cluster.ThresholdCount, Value: 3}
		w.createAs(spec)
		w.pump()
		w.create("web", "web", 8)
		w.pump()
		wantCount(t, "running tasks at first", w.with(cluster.TaskRunning), 4)
		w.minutes(20)
		want(t, "state", w.service("agent").Service.Deployment.State, cluster.RolloutFailed)
		wantCount(t, "running tasks once it is released", w.with(cluster.TaskRunning), 8)
	})
	t.Run("IsOnlyWhereItsTasksMayCome", func(t *testing.T) {
		w := begin(t)
		ids := w.instances("i", 2, 2048, 8192)
		w.attribute(ids[0], "kind", "a")
		picky := definition("heavy", 2, 1024, 1024)
		picky.Constraints = []cluster.PlacementConstraint{{Type: cluster.MemberOf, Expression: "attribute:kind exists"}}
		w.ecs.define(picky)
		refuse(w)
		w.createAs(agent)
		w.pump()
		w.deploy("agent", "heavy:2")
		w.pump()
		ref := operation.RecordRef{Cluster: prod, Service: "agent", ID: w.service("agent").Service.Release.ID}
		want(t, "error", w.api.Deployments.StopServiceDeployment(ctx, ref, cluster.StopAbort), nil)
		w.pump()
		want(t, "state", w.service("agent").Service.Deployment.State, cluster.RolloutFailed)
		w.create("web", "web", 16) // of 256
		w.pump()
		on := placed(w.with(cluster.TaskRunning))
		want(t, "where it would go, by the definition that failed", on[ids[0]], 4)
		want(t, "elsewhere", on[ids[1]], 8)
	})
	t.Run("GrowsWithTheTaskDefinition", func(t *testing.T) {
		w := begin(t)
		w.instances("i", 1, 2048, 8192)
		w.ecs.define(definition("heavy", 2, 1536, 1024))
		w.createAs(agent)
		w.advance(time.Minute)
		wantCount(t, "the daemon's tasks", w.of("heavy:1", cluster.TaskRunning), 1)
		w.ecs.onStart = func(_ int, c cluster.StartCall) fault {
			if c.TaskDefinition == "heavy:2" {
				return fault{err: denied}
			}
			return fault{}
		}
		w.deploy("agent", "heavy:2")
		w.pump()
		w.create("web", "web", 8)
		w.pump()
		wantCount(t, "running tasks beside the larger reservation", w.of("web:1", cluster.TaskRunning), 2)
	})
	t.Run("FollowsChangedConstraintsAtOnce", func(t *testing.T) {
		w := begin(t)
		ids := w.instances("i", 2, 2048, 8192)
		refuse(w)
		w.createAs(agent)
		w.pump()
		w.create("web", "web", 16) // of 256: 4 fit beside the reservation of each instance
		w.pump()
		wantCount(t, "running tasks", w.with(cluster.TaskRunning), 8)
		to := []cluster.PlacementConstraint{{Type: cluster.MemberOf, Expression: "ec2InstanceId == i-" + ids[0]}}
		if _, err := w.update(operation.UpdateService{Name: "agent", Constraints: &to}); err != nil {
			t.Fatal(err)
		}
		w.pump()
		on := placed(w.with(cluster.TaskRunning))
		want(t, "where the daemon is no longer to be", on[ids[1]], 8)
		want(t, "where it is", on[ids[0]], 4)
	})
	t.Run("HoldsNetworkInterfaces", func(t *testing.T) {
		w := begin(t)
		for _, name := range []string{"heavy", "web"} {
			own := definition(name, 1, 256, 256)
			own.Needs.ENIs = 1
			w.ecs.define(own)
		}
		w.ecs.register(&cluster.Instance{
			Head: cluster.Head{Cluster: prod}, ID: "a", EC2InstanceID: "i-a", Attributes: map[string]string{cluster.AttributeENIs: "3"},
			Registered: cluster.Capacity{CPU: 8192 * cluster.CPUUnit, Memory: 8192},
		})
		w.pump()
		refuse(w)
		network := &cluster.Network{Subnets: []string{"subnet-1"}}
		spec := agent
		spec.Network = network
		w.createAs(spec)
		w.pump()
		w.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web:1", Desired: new(3), Network: network})
		w.pump()
		wantCount(t, "running tasks beside the interface that is kept", w.with(cluster.TaskRunning), 2)
	})
	t.Run("ChangedConstraintsHaveTasksStartedOnInstancesThatAreThere", func(t *testing.T) {
		w := begin(t)
		ids := w.instances("i", 2, 2048, 8192)
		one := agent
		one.Rules.Constraints = []cluster.PlacementConstraint{{Type: cluster.MemberOf, Expression: "ec2InstanceId == i-" + ids[0]}}
		w.createAs(one)
		w.advance(time.Minute)
		wantCount(t, "running tasks", w.with(cluster.TaskRunning), 1)
		if _, err := w.update(operation.UpdateService{Name: "agent", Constraints: &[]cluster.PlacementConstraint{}}); err != nil {
			t.Fatal(err)
		}
		w.advance(time.Minute)
		on := placed(w.with(cluster.TaskRunning))
		want(t, "tasks on each", fmt.Sprint(on[ids[0]], on[ids[1]]), "1 1")
	})
	t.Run("ChangedConstraintsActOnRunningTasksWithTheNextDeployment", func(t *testing.T) {
		w := begin(t)
		ids := w.instances("i", 2, 2048, 8192)
		w.createAs(agent)
		w.advance(time.Minute)
		to := []cluster.PlacementConstraint{{Type: cluster.MemberOf, Expression: "ec2InstanceId == i-" + ids[0]}}
		if _, err := w.update(operation.UpdateService{Name: "agent", Constraints: &to}); err != nil {
			t.Fatal(err)
		}
		w.advance(time.Minute)
		wantCount(t, "running tasks", w.with(cluster.TaskRunning), 2)
		if _, err := w.update(operation.UpdateService{Name: "agent", Force: true}); err != nil {
			t.Fatal(err)
		}
		w.advance(5 * time.Minute)
		wantCount(t, "running tasks after a deployment", w.with(cluster.TaskRunning), 1)
		want(t, "where", w.with(cluster.TaskRunning)[0].Instance, ids[0])
	})
}
