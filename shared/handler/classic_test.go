package handler_test

import (
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// front is a Classic Load Balancer as rows name it.
var front = cluster.ClassicBalancer("front")

// withClassic returns tasks that are to be registered with a Classic Load Balancer, whose
// connections drain for a minute.
func withClassic(t *testing.T, n int) *balanced {
	b := newBalanced(t, n, inGroup(front))
	b.elb.groups[front] = map[cluster.Address]cluster.TargetHealth{}
	b.elb.delays[front] = time.Minute
	return b
}

// instanceOf returns the address that a Classic Load Balancer is given for a task.
func (b *balanced) instanceOf(id string) cluster.Address {
	return cluster.Address{Host: "i-" + b.task(id).Instance}
}

// A Classic Load Balancer has the instance of each task, without a port; otherwise tasks are
// registered, checked and drained as with a target group (S9).
func TestClassicLoadBalancer(t *testing.T) {
	t.Run("HasTheInstances", func(t *testing.T) {
		b := withClassic(t, 3)
		b.asks(state.Outbox{Targets: b.items()})
		for _, id := range b.ids {
			if _, here := b.elb.groups[front][b.instanceOf(id)]; !here {
				t.Errorf("instances %v, want %v", b.elb.groups[front], b.instanceOf(id))
			}
			want(t, "state", b.target(id).Registrations[0].State, cluster.Registered)
		}
		want(t, "calls", b.elb.count("RegisterTargets"), 1)
	})
	t.Run("ReportsTheirHealth", func(t *testing.T) {
		b := withClassic(t, 2)
		b.asks(state.Outbox{Targets: b.items()})
		h := b.healthCheck()
		b.elb.groups[front][b.instanceOf(b.ids[0])] = healthy
		b.elb.groups[front][b.instanceOf(b.ids[1])] = failing50
		b.runHealthCheck(h)
		want(t, "health", b.target(b.ids[0]).WorstHealth(), cluster.Healthy)
		want(t, "health", b.target(b.ids[1]).WorstHealth(), cluster.Unhealthy)
	})
	t.Run("GetsBackAnInstanceThatSomebodyRemoved", func(t *testing.T) {
		b := withClassic(t, 1)
		b.asks(state.Outbox{Targets: b.items()})
		clear(b.elb.groups[front])
		b.runHealthCheck(b.healthCheck())
		b.pump()
		want(t, "instances", len(b.elb.groups[front]), 1)
	})
	t.Run("DrainsBeforeATaskStops", func(t *testing.T) {
		b := withClassic(t, 2)
		b.asks(state.Outbox{Targets: b.items()})
		stop := b.stops(b.ids[0])
		b.asks(state.Outbox{Stops: []state.StopItem{stop}})
		want(t, "instances", len(b.elb.groups[front]), 1)
		want(t, "stops", b.ecs.tasks[stop.ECSID].Desired, cluster.TaskRunning)
		b.advance(time.Minute)
		b.minute()
		want(t, "stops", b.ecs.tasks[stop.ECSID].Desired, cluster.TaskStopped)
	})
	t.Run("KeepsAnInstanceThatTheNextTaskRunsOn", func(t *testing.T) {
		b := withClassic(t, 2)
		b.asks(state.Outbox{Targets: b.items()})
		b.placementAsleep = true
		b.ecs.exit(b.task(b.ids[0]).ECSID, 1)
		b.pump()
		next := b.target(b.ids[1])
		next.Registrations[0].Address = b.target(b.ids[0]).Registrations[0].Address
		if _, err := b.store.Write(ctx, state.Write{Put: next, Any: true}); err != nil {
			t.Fatal(err)
		}
		b.asks(state.Outbox{Targets: b.items()[:1]})
		want(t, "deregistrations", b.elb.count("DeregisterTargets"), 0)
	})
	t.Run("ThatIsGoneHasUnknownHealth", func(t *testing.T) {
		b := withClassic(t, 1)
		b.asks(state.Outbox{Targets: b.items()})
		b.elb.groups[front][b.instanceOf(b.ids[0])] = healthy
		h := b.healthCheck()
		b.runHealthCheck(h)
		delete(b.elb.groups, front)
		b.elb.before = func(call, arn string, _ int) error {
			return cluster.Errorf(cluster.CodeBalancerNotFound, "There is no ACTIVE Load Balancer named 'front'")
		}
		b.runHealthCheck(h)
		want(t, "health", b.target(b.ids[0]).WorstHealth(), cluster.UnknownHealth)
	})
}
