package sim_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/sim"
	"berth/shared/sim/ec2"
	simecs "berth/shared/sim/ecs"
)

const (
	pending = cluster.TaskPending
	running = cluster.TaskRunning
	stopped = cluster.TaskStopped
)

func TestTaskRunsUntilItIsStopped(t *testing.T) {
	w := newWorld(t, sim.Options{})
	id := w.start("web", w.add(1, ec2.Machine{Type: "m5.large"})...)[0].ID
	w.clock.advance(time.Second - time.Millisecond)
	expect(t, "before a second has passed", w.task(id).Last, pending)
	w.clock.advance(2*time.Second + time.Millisecond)
	expect(t, "after three seconds", w.task(id).Last, running)
	w.clock.advance(1000 * time.Hour)
	expect(t, "after a long time", w.task(id).Last, running)
	check(t, w.ECS.StopTask(ctx, "prod", id, "enough"))
	asked := w.task(id)
	expect(t, "asked", asked.Last, running)
	expect(t, "desired", asked.Desired, stopped)
	w.clock.advance(2 * time.Second)
	got := w.task(id)
	expect(t, "code", got.StopCode, cluster.StopUserInitiated)
	expect(t, "reason", got.Reason, "enough")
	expect(t, "exit code", *got.ExitCode, 143)
	expectAll(t, "reported", statuses(w.reported(id)), pending, running, running, stopped)
}

func TestSeedChoosesTheLatency(t *testing.T) {
	begun := func(seed uint64) (all []time.Time) {
		w := newWorld(t, sim.Options{Seed: seed, MinStart: 10 * time.Second, MaxStart: 20 * time.Second})
		at := w.clock.now
		for _, task := range w.start("web", w.add(10, ec2.Machine{Type: "m5.large"})...) {
			w.clock.advance(at.Add(20 * time.Second).Sub(w.clock.now))
			got := w.task(task.ID).Started
			if got.Before(at.Add(10*time.Second)) || got.After(at.Add(20*time.Second)) {
				t.Errorf("started after %s", got.Sub(at))
			}
			all = append(all, got)
		}
		return all
	}
	one, two := begun(1), begun(2)
	expectAll(t, "with the same seed", begun(1), one...)
	if slices.Equal(one, two) || one[0].Equal(one[1]) {
		t.Errorf("latencies do not vary: %v, %v", one, two)
	}
}

func TestTaskStoppedBeforeItRanNeverRuns(t *testing.T) {
	w := newWorld(t, sim.Options{MinStart: time.Minute})
	id := w.start("web", w.add(1, ec2.Machine{Type: "m5.large"})...)[0].ID
	w.clock.advance(59*time.Second + 950*time.Millisecond)
	check(t, w.ECS.StopTask(ctx, "prod", id, ""))
	w.clock.advance(time.Hour / 2)
	got := w.task(id)
	expect(t, "status", got.Last, stopped)
	expect(t, "started", got.Started.IsZero(), true)
	if got.ExitCode != nil {
		t.Errorf("exit code %d of a task that never ran", *got.ExitCode)
	}
	expectAll(t, "reported", statuses(w.reported(id)), pending, pending, stopped)
}

func TestTasksBehaveAsTold(t *testing.T) {
	for _, c := range []struct {
		name      string
		behaviour simecs.Behaviour
		after     time.Duration
		want      cluster.ECSTask
		exit      int
	}{
		{"SlowStart", simecs.Behaviour{Latency: time.Hour}, time.Hour - time.Second, cluster.ECSTask{Last: pending},
			-1},
		{"SlowStartEnds", simecs.Behaviour{Latency: time.Hour}, time.Hour, cluster.ECSTask{Last: running}, -1},
		{"FailsToStart", simecs.Behaviour{FailStart: "CannotPullContainerError"}, 3 * time.Second,
			cluster.ECSTask{Last: stopped, StopCode: cluster.StopFailedToStart, Reason: "CannotPullContainerError"},
			-1},
		{"Exits", simecs.Behaviour{RunFor: 5 * time.Second, ExitCode: 3}, 8 * time.Second,
			cluster.ECSTask{Last: stopped, StopCode: cluster.StopContainerExited,
				Reason: "Essential container in task exited"}, 3},
		{"HasNotExitedYet", simecs.Behaviour{RunFor: 5 * time.Second}, 5 * time.Second, cluster.ECSTask{Last: running},
			-1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, sim.Options{})
			w.Machines.SetTaskBehaviour(func(i simecs.StartInfo) simecs.Behaviour {
				expect(t, "definition", i.TaskDefinition, "web:1")
				return c.behaviour
			})
			id := w.start("web", w.add(1, ec2.Machine{Type: "m5.large"})...)[0].ID
			w.clock.advance(c.after)
			got := w.task(id)
			expect(t, "status", got.Last, c.want.Last)
			expect(t, "code", got.StopCode, c.want.StopCode)
			expect(t, "reason", got.Reason, c.want.Reason)
			switch {
			case c.exit >= 0 && (got.ExitCode == nil || *got.ExitCode != c.exit):
				t.Errorf("exit code %v, want %d", got.ExitCode, c.exit)
			case c.exit < 0 && got.ExitCode != nil:
				t.Errorf("exit code %d", *got.ExitCode)
			}
		})
	}
}

func TestTaskThatIgnoresStopIsKilledAfterItsTimeout(t *testing.T) {
	w := newWorld(t, sim.Options{})
	w.Machines.SetTaskBehaviour(func(simecs.StartInfo) simecs.Behaviour { return simecs.Behaviour{IgnoreStop: true} })
	id := w.start("web", w.add(1, ec2.Machine{Type: "m5.large"})...)[0].ID
	w.clock.advance(10 * time.Second)
	check(t, w.ECS.StopTask(ctx, "prod", id, ""))
	w.clock.advance(29 * time.Second)
	expect(t, "after 29 s", w.task(id).Last, running)
	check(t, w.Machines.DisconnectAgent(w.task(id).Instance))
	check(t, w.Machines.ReconnectAgent(w.task(id).Instance)) // the agent is told again, and does not begin anew
	w.clock.advance(time.Second)
	expect(t, "after 30 s", w.task(id).Last, stopped)
	expect(t, "exit code", *w.task(id).ExitCode, 137)
}

func TestEnvironmentVariablesDecideWhatATaskDoes(t *testing.T) {
	w := newWorld(t, sim.Options{})
	job := container("app", 16, 16)
	job.Environment = []types.KeyValuePair{
		{Name: new("BERTH_FLEET_RUN_SECONDS"), Value: new("10")},
		{Name: new("BERTH_FLEET_LATENCY_MS"), Value: new("500")},
	}
	job.Name = new("job")
	w.register("job", job)
	run := func(environment ...cluster.Variable) cluster.ECSTask {
		answer, err := w.ECS.StartTask(ctx, cluster.StartCall{
			Cluster: "prod", TaskDefinition: "job", Instances: w.add(1, ec2.Machine{Type: "m5.large"}),
			Overrides: &cluster.Overrides{Containers: []cluster.ContainerOverride{{Name: "job",
				Environment: environment}}},
		})
		check(t, err)
		w.clock.advance(500 * time.Millisecond)
		begun := w.task(answer.Tasks[0].ID)
		w.clock.advance(10 * time.Second)
		expect(t, "version when begun", begun.Version, 2)
		return w.task(answer.Tasks[0].ID)
	}
	got := run()
	expect(t, "ran for", got.Stopped.Sub(got.Started), 10*time.Second)
	expect(t, "exit code", *got.ExitCode, 0)
	got = run(cluster.Variable{Name: "BERTH_FLEET_EXIT_CODE", Value: "7"},
		cluster.Variable{Name: "BERTH_FLEET_RUN_SECONDS", Value: "0.25"})
	expect(t, "ran for", got.Stopped.Sub(got.Started), 250*time.Millisecond)
	expect(t, "exit code", *got.ExitCode, 7)
	got = run(cluster.Variable{Name: "BERTH_FLEET_FAIL", Value: "start"})
	expect(t, "code", got.StopCode, cluster.StopFailedToStart)
	const missing = "CannotPullContainerError: pull image manifest has been retried 1 time(s): not found"
	got = run(cluster.Variable{Name: "BERTH_FLEET_FAIL", Value: missing})
	expect(t, "reason", got.Reason, missing)
	got = run(cluster.Variable{Name: "BERTH_FLEET_FAIL", Value: "no"})
	expect(t, "code of no failure", got.StopCode, cluster.StopContainerExited)
}

func (w *world) registerChecked() {
	checked := container("app", 16, 16)
	checked.HealthCheck = &types.HealthCheck{Command: []string{"CMD", "true"}, Interval: new(int32(5))}
	w.register("checked", checked)
}

func TestHealthFollowsTheContainerCheck(t *testing.T) {
	w := newWorld(t, sim.Options{})
	w.registerChecked()
	node := w.add(1, ec2.Machine{Type: "m5.large"})[0]
	w.Machines.SetTaskBehaviour(func(i simecs.StartInfo) simecs.Behaviour {
		b := simecs.Behaviour{Latency: time.Second}
		if i.Start == 2 {
			b.UnhealthyAfter, b.Flap = time.Minute, 10*time.Second
		}
		return b
	})
	steady, flapping, unchecked := w.start("checked", node)[0].ID, w.start("checked", node)[0].ID,
		w.start("web", node)[0].ID
	w.clock.advance(5 * time.Second)
	expect(t, "before the first check", w.task(steady).Health, cluster.UnknownHealth)
	w.clock.advance(time.Second)
	expect(t, "after it", w.task(steady).Health, cluster.Healthy)
	w.clock.advance(60 * time.Second)
	for _, want := range []cluster.Health{cluster.Unhealthy, cluster.Healthy, cluster.Unhealthy} {
		expect(t, "flapping", w.task(flapping).Health, want)
		w.clock.advance(10 * time.Second)
	}
	expect(t, "steady", w.task(steady).Health, cluster.Healthy)
	expect(t, "unchecked", w.task(unchecked).Health, cluster.UnknownHealth)
	check(t, w.Machines.SetHealth(steady, false))
	expect(t, "by order", w.task(steady).Health, cluster.Unhealthy)
	if w.Machines.SetHealth(unchecked, false) == nil {
		t.Error("a task without a health check took a health")
	}
}

func TestDisconnectedTaskGoesOnAndReportsAfterwards(t *testing.T) {
	w := newWorld(t, sim.Options{})
	w.Machines.SetTaskBehaviour(func(simecs.StartInfo) simecs.Behaviour {
		return simecs.Behaviour{Latency: 2 * time.Second, RunFor: time.Minute}
	})
	node := w.add(1, ec2.Machine{Type: "m5.large"})[0]
	ends, asked := w.start("web", node)[0].ID, w.start("web", node)[0].ID
	check(t, w.Machines.DisconnectAgent(node))
	expect(t, "agent", w.instance(node).AgentConnected, false)
	w.clock.advance(10 * time.Second)
	expect(t, "as ECS knows it", w.task(ends).Last, pending)
	check(t, w.ECS.StopTask(ctx, "prod", asked, ""))
	w.clock.advance(20 * time.Second)
	expect(t, "not heard", w.Machines.TaskTruths("prod")[1].Alive, true)
	w.clock.advance(time.Minute)
	expect(t, "really", w.Machines.TaskTruths("prod")[0].Alive, false)
	before := len(w.events)
	w.clock.advance(time.Hour)
	expect(t, "events of a disconnected instance", len(w.events), before)

	check(t, w.Machines.ReconnectAgent(node))
	var order []string
	for _, e := range w.events[before:] {
		if d, ok := e.Detail.(*cluster.ECSTask); ok {
			order = append(order, map[string]string{ends: "ends ", asked: "asked "}[d.ID]+string(d.Last))
		}
	}
	expectAll(t, "order of reports", order, "ends RUNNING", "asked RUNNING", "ends STOPPED", "asked STOPPED")
	got := w.task(ends)
	expect(t, "status", got.Last, stopped)
	expect(t, "ran for", got.Stopped.Sub(got.Started), time.Minute)
	expectAll(t, "reported", statuses(w.reported(ends)), pending, running, stopped)
	expectAll(t, "reported", statuses(w.reported(asked)), pending, pending, running, stopped)
	w.start("web", node)
}

func TestStopReachesADisconnectedTaskAfterwards(t *testing.T) {
	w := newWorld(t, sim.Options{})
	node := w.add(1, ec2.Machine{Type: "m5.large"})[0]
	id := w.start("web", node)[0].ID
	w.clock.advance(time.Minute)
	check(t, w.Machines.DisconnectAgent(node))
	check(t, w.ECS.StopTask(ctx, "prod", id, ""))
	w.clock.advance(time.Hour)
	expect(t, "while away", w.Machines.TaskTruths("prod")[0].Alive, true)
	check(t, w.Machines.ReconnectAgent(node))
	w.clock.advance(2 * time.Second)
	expect(t, "when back", w.task(id).Last, stopped)
}

func TestCrashedMachineReportsItsTasksAfterReconnect(t *testing.T) {
	w := newWorld(t, sim.Options{})
	node := w.add(1, ec2.Machine{Type: "m5.large"})[0]
	id := w.start("web", node)[0].ID
	w.clock.advance(time.Minute)
	check(t, w.Machines.CrashInstance(node))
	expect(t, "alive", w.Machines.TaskTruths("prod")[0].Alive, false)
	expect(t, "as ECS knows it", w.task(id).Last, running)
	w.clock.advance(time.Minute)
	version := w.instance(node).Version
	check(t, w.Machines.ReconnectAgent(node))
	expect(t, "status", w.task(id).Last, stopped)
	expect(t, "versions for being back and for what is free again", w.instance(node).Version-version, 2)
	cpu, memory := w.remaining(node)
	expect(t, "free CPU", cpu, 2048)
	expect(t, "free memory", memory, 7689)
}

func TestTerminatedMachineStopsItsTasks(t *testing.T) {
	w := newWorld(t, sim.Options{})
	ids := w.add(4, ec2.Machine{Type: "m5.large", Zones: []string{"a", "b"}})
	tasks := w.start("web", ids...)
	w.clock.advance(time.Minute)
	version := w.instance(ids[0]).Version
	hit, err := w.Machines.TerminateZone("a", "")
	check(t, err)
	expect(t, "versions for being gone", w.instance(ids[0]).Version-version, 1)
	expectAll(t, "hit", hit, ids[0], ids[2])
	for n, task := range tasks {
		got := w.task(task.ID)
		if n%2 == 1 {
			expect(t, "in the other zone", got.Last, running)
			continue
		}
		expect(t, "status", got.Last, stopped)
		expect(t, "reason", got.Reason, "Host EC2 (instance "+w.instance(ids[n]).EC2InstanceID+") terminated.")
	}
	left, err := w.ECS.ListInstances(ctx, "prod")
	check(t, err)
	expectAll(t, "left", left, ids[1], ids[3])
	expect(t, "gone", w.instance(ids[0]).Status, cluster.InstanceInactive)
	if w.Machines.ReconnectAgent(ids[0]) == nil {
		t.Error("a terminated machine came back")
	}
}

func TestStoppedTasksAndInactiveInstancesStayVisibleForAnHour(t *testing.T) {
	w := newWorld(t, sim.Options{})
	node := w.add(1, ec2.Machine{Type: "m5.large"})[0]
	id := w.start("web", node)[0].ID
	w.clock.advance(time.Minute)
	check(t, w.Machines.KillInstance(node))
	w.clock.advance(time.Hour - time.Millisecond)
	w.task(id)
	w.instance(node)
	w.clock.advance(time.Millisecond)
	out := must(t, w.ECS.Instances.DescribeContainerInstances,
		&ecs.DescribeContainerInstancesInput{Cluster: new("prod"), ContainerInstances: []string{node}})
	expect(t, "failure", *out.Failures[0].Reason, "MISSING")
	tasks, err := w.ECS.DescribeTasks(ctx, "prod", []string{id})
	check(t, err)
	expect(t, "tasks", len(tasks), 0)
	wantCode(t, w.ECS.StopTask(ctx, "prod", id, ""), cluster.CodeInvalidParameter)
}

func TestDrainingKeepsTasks(t *testing.T) {
	w := newWorld(t, sim.Options{})
	node := w.add(1, ec2.Machine{Type: "m5.large"})[0]
	id := w.start("web", node)[0].ID
	set := func(status types.ContainerInstanceStatus) {
		must(t, w.ECS.Instances.UpdateContainerInstancesState, &ecs.UpdateContainerInstancesStateInput{
			Cluster: new("prod"), ContainerInstances: []string{node}, Status: status,
		})
	}
	set("DRAINING")
	w.clock.advance(time.Hour)
	expect(t, "task", w.task(id).Last, running)
	expect(t, "instance", w.instance(node).Status, cluster.InstanceDraining)
	set("ACTIVE")
	w.start("web", node)
}

func TestMachinesMayHaveAnySize(t *testing.T) {
	w := newWorld(t, sim.Options{})
	node := w.add(1, ec2.Machine{
		Type: "trace-v100", CPU: 95999, Memory: 393216, GPUs: 8, Attributes: map[string]string{"gpu-model": "V100M32"},
	})[0]
	i := w.instance(node)
	expect(t, "CPU", i.Registered.CPU, int64(95999*1024/1000)*cluster.CPUUnit)
	expect(t, "memory", i.Registered.Memory, 393216)
	expect(t, "GPUs", len(i.Registered.GPUs), 8)
	expect(t, "model", i.Attributes["gpu-model"], "V100M32")
	if _, err := w.Machines.AddInstances("prod", 1, ec2.Machine{Type: "unknown"}); err == nil {
		t.Error("an unknown type without a size was added")
	}
	if !slices.Contains(ec2.MachineTypes(), "p3.16xlarge") {
		t.Error("p3.16xlarge is not in the table")
	}
	check(t, w.Machines.ResizeInstance(node, 1024, 2048))
	expect(t, "CPU after resizing", w.instance(node).Registered.CPU, int64(1024*cluster.CPUUnit))
}

func TestGPUIsGivenToOneTask(t *testing.T) {
	w := newWorld(t, sim.Options{})
	train := container("train", 16, 16)
	train.ResourceRequirements = []types.ResourceRequirement{{Type: types.ResourceTypeGpu, Value: new("3")}}
	w.register("train", train)
	node := w.add(1, ec2.Machine{Type: "p3.16xlarge"})[0]
	first, second := w.start("train", node)[0], w.start("train", node)[0]
	expect(t, "GPUs", first.Needs.GPUs+second.Needs.GPUs, 6)
	out := must(t, w.ECS.Instances.DescribeContainerInstances,
		&ecs.DescribeContainerInstancesInput{Cluster: new("prod"), ContainerInstances: []string{node}})
	for _, r := range out.ContainerInstances[0].RemainingResources {
		if *r.Name == "GPU" {
			expect(t, "free", len(r.StringSetValue), 2)
		}
	}
	last := w.reported(second.ID)[0]
	expect(t, "GPUs in the event", last.Needs.GPUs, 3)
}

func TestOverridesChangeTheReservedSize(t *testing.T) {
	w := newWorld(t, sim.Options{})
	answer, err := w.ECS.StartTask(ctx, cluster.StartCall{
		Cluster: "prod", TaskDefinition: "web", Instances: w.add(1, ec2.Machine{Type: "m5.large"}),
		Overrides: &cluster.Overrides{Containers: []cluster.ContainerOverride{{Name: "app", CPU: new(int32(100)),
			Reservation: new(int32(64))}}},
	})
	check(t, err)
	expect(t, "CPU", answer.Tasks[0].Needs.CPU, 100*cluster.CPUUnit)
	expect(t, "memory", answer.Tasks[0].Needs.Memory, 64)
	expect(t, "group", answer.Tasks[0].Group, "family:web")
	if strings.Contains(string(w.raw[len(w.raw)-1]), `"tags"`) {
		t.Error("an event has tags")
	}
}
