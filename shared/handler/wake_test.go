package handler_test

import (
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler/api"
	"berth/shared/operation"
)

// A task that waits for what runs on an instance, or for room there, is reconsidered when that
// changes. No sweep is needed.
func TestPlacement_Wakes(t *testing.T) {
	near := func(group string) cluster.Rules {
		return cluster.Rules{Constraints: []cluster.PlacementConstraint{{Type: cluster.MemberOf, Expression: "task:group == service:" + group}}}
	}
	agent := operation.CreateService{Cluster: prod, Name: "agent", TaskDefinition: "web", Strategy: cluster.Daemon}
	t.Run("ServicesThatDependOnADaemon", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 2, 4096, 8192)
		w.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: new(3), Rules: near("agent")})
		w.advance(time.Minute)
		wantCount(t, "tasks running before the daemon does", w.with(cluster.TaskRunning), 0)
		w.createAs(agent)
		w.pump()
		wantCount(t, "tasks running", w.with(cluster.TaskRunning), 5)
	})
	t.Run("DaemonsThatDependOnAService", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 3, 4096, 8192)
		spec := agent
		spec.Rules = near("web")
		w.createAs(spec)
		w.advance(time.Minute)
		wantCount(t, "tasks running before the service does", w.with(cluster.TaskRunning), 0)
		w.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: new(1)})
		w.pump()
		wantCount(t, "tasks running", w.with(cluster.TaskRunning), 2)
		w.scale("web", 0)
		w.pump()
		wantCount(t, "tasks running once the service does not", w.with(cluster.TaskRunning), 0)
	})
	t.Run("StandaloneTasksThatDependOnAService", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 2, 4096, 8192)
		w.ecs.define(definition("web", 1, 256, 512))
		w.run(t, operation.SubmitTasks{Rules: near("web"), Wait: api.WaitForever})
		wantCount(t, "tasks that wait", w.with(cluster.TaskProvisioning), 1)
		w.create("web", "web", 1)
		w.pump()
		wantCount(t, "tasks running", w.with(cluster.TaskRunning), 2)
	})
	t.Run("DaemonsForWhichRoomIsKeptFree", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 1024, 8192)
		w.ecs.define(definition("heavy", 1, 512, 512))
		w.create("web", "heavy", 2)
		w.pump()
		spec := agent
		spec.TaskDefinition = "heavy"
		w.createAs(spec)
		w.pump()
		wantCount(t, "tasks running", w.with(cluster.TaskRunning), 2)
		w.scale("web", 1)
		w.pump()
		want(t, "tasks of the daemon", w.service("agent").Service.Deployment.Running, 1)
	})
	t.Run("BySweepDaemonsForWhichRoomIsKeptFree", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 1024, 8192)
		w.ecs.define(definition("heavy", 1, 512, 512))
		w.create("web", "heavy", 2)
		w.pump()
		spec := agent
		spec.TaskDefinition = "heavy"
		w.createAs(spec)
		w.pump()
		w.placementAsleep = true
		w.scale("web", 1)
		for _, s := range w.with(cluster.TaskRunning)[:1] {
			if err := w.ecs.StopTask(ctx, prod, s.ECSID, ""); err != nil {
				t.Fatal(err)
			}
		}
		w.pump()
		w.decide, w.placementAsleep = nil, false
		w.sweep()
		w.minute()
		want(t, "tasks of the daemon", w.service("agent").Service.Deployment.Running, 1)
	})
	t.Run("ZonesThatHaveAnotherInstanceAlready", func(t *testing.T) {
		w := newWorld(t)
		w.ecs.register(zoned("a", "zone-a"))
		w.ecs.register(zoned("b", "zone-b"))
		w.attribute("a", "disk", "ssd")
		w.pump()
		w.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: new(4), Rules: cluster.Rules{
			Constraints: []cluster.PlacementConstraint{{Type: cluster.MemberOf, Expression: "attribute:disk == ssd"}},
		}})
		w.advance(2 * time.Minute)
		next := zoned("c", "zone-b")
		next.Attributes["disk"] = "ssd"
		w.ecs.register(next)
		w.advance(5 * time.Minute)
		want(t, "tasks in the other zone", placed(w.with(cluster.TaskRunning))["c"], 2)
	})
	t.Run("ZonesWhoseRoomComesFree", func(t *testing.T) {
		w := newWorld(t)
		w.ecs.define(definition("heavy", 1, 4096, 512))
		w.ecs.register(zoned("b", "zone-b"))
		w.create("big", "heavy", 1)
		w.pump()
		w.ecs.register(zoned("a", "zone-a"))
		w.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: new(4)})
		w.advance(2 * time.Minute)
		want(t, "rebalancing", w.service("web").Service.Rebalancing, true)
		w.scale("big", 0)
		w.advance(2 * time.Minute)
		want(t, "tasks in the other zone", placed(w.with(cluster.TaskRunning))["b"], 2)
	})
}
