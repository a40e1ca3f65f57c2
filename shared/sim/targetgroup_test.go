package sim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/awsevent"
	"berth/shared/cluster"
	"berth/shared/sim"
	"berth/shared/sim/ec2"
	"berth/shared/sim/kernel"
)

// balancedWorld returns a world with a running task, the address of its container port 80, and a
// target group in which that address is registered.
func balancedWorld(t *testing.T, o sim.Options) (w *world, task string, at cluster.Address, group string) {
	t.Helper()
	w = newWorld(t, o)
	c := container("app", 128, 128)
	c.PortMappings = []types.PortMapping{{ContainerPort: new(int32(80))}}
	w.register("edge", c)
	node := w.add(1, ec2.Machine{Type: "m5.large"})[0]
	task = w.start("edge", node)[0].ID
	w.clock.advance(5 * time.Second)
	got := w.task(task)
	expect(t, "bindings", len(got.Bindings), 1)
	at = cluster.Address{Host: w.instance(node).EC2InstanceID, Port: got.Bindings[0].HostPort}
	group, err := w.TargetGroups.CreateTargetGroup("web", "instance", time.Minute)
	check(t, err)
	check(t, w.TargetGroups.RegisterTargets(ctx, group, []cluster.Address{at}))
	return w, task, at, group
}

func (w *world) targetHealth(group string, at cluster.Address) cluster.TargetHealth {
	w.t.Helper()
	got, err := w.TargetGroups.TargetHealth(ctx, group)
	check(w.t, err)
	health, here := got[at]
	if !here {
		health.Reason = "not there"
	}
	return health
}

func TestTargetHealthFollowsTheTasks(t *testing.T) {
	t.Run("BecomesHealthyAfterAWhile", func(t *testing.T) {
		w, _, at, group := balancedWorld(t, sim.Options{HealthyAfter: 30 * time.Second})
		expect(t, "health", w.targetHealth(group, at),
			cluster.TargetHealth{Reason: "Initial health checks in progress"})
		w.clock.advance(29 * time.Second)
		expect(t, "health", w.targetHealth(group, at).Health, cluster.UnknownHealth)
		w.clock.advance(time.Second)
		expect(t, "health", w.targetHealth(group, at), cluster.TargetHealth{Health: cluster.Healthy})
	})
	t.Run("FailsIfTheTaskFailsItsChecks", func(t *testing.T) {
		w, task, at, group := balancedWorld(t, sim.Options{})
		w.clock.advance(time.Minute)
		check(t, w.Machines.SetTargetHealth(task, "Health checks failed with these codes: [503]"))
		expect(t, "health", w.targetHealth(group, at),
			cluster.TargetHealth{Health: cluster.Unhealthy, Reason: "Health checks failed with these codes: [503]"})
		check(t, w.Machines.SetTargetHealth(task, ""))
		expect(t, "health", w.targetHealth(group, at).Health, cluster.Healthy)
	})
	t.Run("IsUnhealthyWithoutATask", func(t *testing.T) {
		w, task, at, group := balancedWorld(t, sim.Options{})
		w.clock.advance(time.Minute)
		check(t, w.Machines.CrashTask(task, 1))
		expect(t, "health", w.targetHealth(group, at),
			cluster.TargetHealth{Health: cluster.Unhealthy, Reason: "Request timed out"})
	})
	t.Run("DrainsAfterDeregistration", func(t *testing.T) {
		w, _, at, group := balancedWorld(t, sim.Options{})
		w.clock.advance(time.Minute)
		check(t, w.TargetGroups.DeregisterTargets(ctx, group, []cluster.Address{at}))
		w.clock.advance(59 * time.Second)
		expect(t, "health", w.targetHealth(group, at),
			cluster.TargetHealth{Reason: "Target deregistration is in progress"})
		w.clock.advance(time.Second)
		expect(t, "health", w.targetHealth(group, at).Reason, "not there")
	})
	t.Run("MayRegisterAgainWhileItDrains", func(t *testing.T) {
		w, _, at, group := balancedWorld(t, sim.Options{})
		w.clock.advance(time.Minute)
		check(t, w.TargetGroups.DeregisterTargets(ctx, group, []cluster.Address{at}))
		check(t, w.TargetGroups.RegisterTargets(ctx, group, []cluster.Address{at}))
		w.clock.advance(2 * time.Minute)
		expect(t, "health", w.targetHealth(group, at).Health, cluster.Healthy)
	})
	t.Run("FollowsATasksOwnAddress", func(t *testing.T) {
		w := newWorld(t, sim.Options{})
		must(t, w.ECS.Definitions.RegisterTaskDefinition, &ecs.RegisterTaskDefinitionInput{
			Family: new("own"), NetworkMode: types.NetworkModeAwsvpc,
			ContainerDefinitions: []types.ContainerDefinition{container("app", 64, 64)},
		})
		answer, err := w.ECS.StartTask(ctx, cluster.StartCall{
			Cluster: "prod", TaskDefinition: "own:1", Instances: w.add(1, ec2.Machine{Type: "m5.large"}),
			StartedBy: "berth/test",
			Network:   &cluster.Network{Subnets: []string{"subnet-1"}},
		})
		check(t, err)
		w.clock.advance(5 * time.Second)
		at := cluster.Address{Host: w.task(answer.Tasks[0].ID).Address, Port: 80}
		group, err := w.TargetGroups.CreateTargetGroup("own", "ip", 0)
		check(t, err)
		check(t, w.TargetGroups.RegisterTargets(ctx, group, []cluster.Address{at}))
		w.clock.advance(time.Minute)
		expect(t, "health", w.targetHealth(group, at).Health, cluster.Healthy)
		// ECS's own protocol has the same address.
		_, body := w.ECS.Endpoint().ServeOperation(ctx, "DescribeTasks",
			[]byte(`{"cluster": "prod", "tasks": ["`+answer.Tasks[0].ID+`"]}`))
		expect(t, "the container's address", strings.Contains(string(body), `"privateIpv4Address":"`+at.Host+`"`), true)
	})
	t.Run("Refuses", func(t *testing.T) {
		w, _, at, group := balancedWorld(t, sim.Options{})
		wantCode(t, w.TargetGroups.RegisterTargets(ctx, group+"x", []cluster.Address{at}),
			cluster.CodeTargetGroupNotFound)
		wantCode(t, w.TargetGroups.RegisterTargets(ctx, group, []cluster.Address{{Host: "10.0.0.1", Port: 80}}),
			"ValidationError")
		wantCode(t, w.TargetGroups.RegisterTargets(ctx, group,
			[]cluster.Address{{Host: "i-0123456789abcdef0", Port: 80}}), cluster.CodeInvalidTarget)
		check(t, w.TargetGroups.DeleteTargetGroup(group))
		_, err := w.TargetGroups.TargetHealth(ctx, group)
		wantCode(t, err, cluster.CodeTargetGroupNotFound)
	})
	t.Run("CallsFailByInjectedFaults", func(t *testing.T) {
		w, _, at, group := balancedWorld(t, sim.Options{})
		w.SetCallFaults(kernel.CallFaults{Call: func(operation, _ string) kernel.CallFault {
			return kernel.CallFault{Throttled: operation == "DeregisterTargets",
				Ambiguous: operation == "RegisterTargets", Applied: true}
		}})
		wantCode(t, w.TargetGroups.DeregisterTargets(ctx, group, []cluster.Address{at}), cluster.CodeThrottling)
		if err := w.TargetGroups.RegisterTargets(ctx, group, []cluster.Address{at}); err == nil {
			t.Error("the answer is not lost")
		}
	})
}

func TestRegistriesKeepHealthPerInstance(t *testing.T) {
	w := newWorld(t, sim.Options{})
	arn, err := w.Registries.CreateRegistry("web", true)
	check(t, err)
	check(t, w.Registries.RegisterInstance(ctx, arn, "t", cluster.Address{Host: "10.0.0.1", Port: 80}))
	health := func() cluster.Health {
		got, err := w.Registries.InstancesHealth(ctx, arn)
		check(t, err)
		return got["t"].Health
	}
	expect(t, "health", health(), cluster.Healthy)
	check(t, w.Registries.SetRegistryHealth(arn, "t", false))
	expect(t, "health", health(), cluster.Unhealthy)
	check(t, w.Registries.DeregisterInstance(ctx, arn, "t"))
	wantCode(t, w.Registries.DeregisterInstance(ctx, arn, "t"), cluster.CodeEntryNotFound)
	plain, err := w.Registries.CreateRegistry("plain", false)
	check(t, err)
	check(t, w.Registries.RegisterInstance(ctx, plain, "t", cluster.Address{Host: "10.0.0.1"}))
	wantCode(t, w.Registries.SetRegistryHealth(plain, "t", false), "CustomHealthNotFound")
}

func TestAlarms(t *testing.T) {
	w := newWorld(t, sim.Options{})
	check(t, w.CloudWatch.PutAlarm("errors", time.Minute, 3))
	w.clock.advance(time.Minute)
	events := len(w.events)
	check(t, w.CloudWatch.SetAlarm("errors", true))
	check(t, w.CloudWatch.SetAlarm("errors", true)) // no change
	got, err := w.CloudWatch.DescribeAlarms(ctx, []string{"nothing", "errors"})
	check(t, err)
	expectAll(t, "alarms", got, cluster.Alarm{Name: "errors", InAlarm: true, Since: w.clock.Now(),
		Window: 3 * time.Minute})
	expect(t, "events", len(w.events)-events, 1)
	alarm, ok := w.events[events].Detail.(*awsevent.Alarm)
	if !ok || alarm.Name != "errors" || alarm.State != "ALARM" || alarm.Previous != "OK" ||
		!alarm.At.Equal(w.clock.Now()) {
		t.Errorf("event %+v", w.events[events])
	}
	wantCode(t, w.CloudWatch.SetAlarm("nothing", true), cluster.CodeResourceNotFound)
}

func TestBalancingSurvivesAKill(t *testing.T) {
	w, path := storedWorld(t)
	arn, err := w.TargetGroups.CreateTargetGroup("web", "ip", time.Minute)
	check(t, err)
	at := cluster.Address{Host: "10.0.0.9", Port: 80}
	check(t, w.TargetGroups.RegisterTargets(ctx, arn, []cluster.Address{at}))
	registry, err := w.Registries.CreateRegistry("web", true)
	check(t, err)
	check(t, w.Registries.RegisterInstance(ctx, registry, "t", at))
	check(t, w.CloudWatch.PutAlarm("errors", time.Minute, 3))
	check(t, w.CloudWatch.SetAlarm("errors", true))

	next := w.killed(path, time.Minute)
	expect(t, "health", next.targetHealth(arn, at).Health, cluster.Unhealthy)
	entries, err := next.Registries.InstancesHealth(ctx, registry)
	check(t, err)
	expect(t, "entries", len(entries), 1)
	alarms, err := next.CloudWatch.DescribeAlarms(ctx, []string{"errors"})
	check(t, err)
	expect(t, "the alarm's being in ALARM", len(alarms) == 1 && alarms[0].InAlarm, true)
}
