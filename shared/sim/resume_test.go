package sim_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/google/go-cmp/cmp"

	"berth/shared/cluster"
	"berth/shared/sim"
	"berth/shared/sim/ec2"
	simecs "berth/shared/sim/ecs"
	"berth/shared/sim/kernel"
)

// killed returns the world after its process was killed and another one opened its file some time
// later.
func (w *world) killed(path string, later time.Duration) *world {
	w.t.Helper()
	data, err := os.ReadFile(path)
	check(w.t, err)
	copied := filepath.Join(w.t.TempDir(), "fleet.db")
	check(w.t, os.WriteFile(copied, data, 0o600))
	next := &world{t: w.t, clock: newClock(), path: copied}
	next.clock.now = w.clock.now.Add(later)
	next.open(sim.Options{Path: copied})
	w.t.Cleanup(func() { check(w.t, next.Close()) })
	return next
}

func storedWorld(t *testing.T) (*world, string) {
	path := filepath.Join(t.TempDir(), "fleet.db")
	w := newWorld(t, sim.Options{Path: path})
	t.Cleanup(func() { check(t, w.Close()) })
	return w, path
}

func TestAnAnsweredCallSurvivesAKill(t *testing.T) {
	w, path := storedWorld(t)
	nodes := w.add(2, ec2.Machine{Type: "g4dn.xlarge", Attributes: map[string]string{"rack": "r1"}})
	health := container("app", 16, 16)
	health.HealthCheck = &types.HealthCheck{Command: []string{"CMD", "x"}}
	health.Environment = []types.KeyValuePair{{Name: new("A"), Value: new("B")}}
	w.register("rich", health)
	must(t, w.ECS.Tags.TagResource, &ecs.TagResourceInput{ResourceArn: new(account.ARN("task-definition", "rich:1")),
		Tags: []types.Tag{{Key: new("k"), Value: new("v")}}})
	id := w.start("web", nodes[0])[0].ID

	next := w.killed(path, 0)
	expect(t, "task", next.task(id).Last, pending)
	before, after := w.instance(nodes[0]), next.instance(nodes[0])
	if after.Version <= before.Version {
		t.Errorf("version %d after %d", after.Version, before.Version)
	}
	after.Version = before.Version
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
	in := &ecs.DescribeTaskDefinitionInput{TaskDefinition: new("rich"), Include: []types.TaskDefinitionField{"TAGS"}}
	a, b := must(t, w.ECS.Definitions.DescribeDefinition, in), must(t, next.ECS.Definitions.DescribeDefinition, in)
	if diff := cmp.Diff(a.TaskDefinition.ContainerDefinitions[0].Environment[0].Value,
		b.TaskDefinition.ContainerDefinitions[0].Environment[0].Value); diff != "" || len(b.Tags) != 1 {
		t.Errorf("definition: %s, tags %v", diff, b.Tags)
	}
	check(t, next.ECS.StopTask(ctx, "prod", id, "stop"))
	again := next.killed(next.path, 0)
	expect(t, "desired", again.task(id).Desired, stopped)
	if fresh := again.start("web", nodes[1])[0].ID; fresh == id {
		t.Error("an id was given twice")
	}
}

func TestTasksGoOnWhileTheFileIsClosed(t *testing.T) {
	w, path := storedWorld(t)
	w.Machines.SetTaskBehaviour(func(i simecs.StartInfo) simecs.Behaviour {
		return simecs.Behaviour{Latency: 2 * time.Second, RunFor: time.Duration(i.Start) * time.Hour, ExitCode: 4}
	})
	node := w.add(1, ec2.Machine{Type: "m5.large"})[0]
	short, long := w.start("web", node)[0], w.start("web", node)[0]
	begun := w.clock.now

	next := w.killed(path, 90*time.Minute)
	next.clock.advance(0)
	got := next.task(short.ID)
	expect(t, "short", got.Last, stopped)
	expect(t, "started", got.Started, begun.Add(2*time.Second))
	expect(t, "stopped", got.Stopped, begun.Add(2*time.Second+time.Hour))
	expect(t, "exit code", *got.ExitCode, 4)
	expectAll(t, "events that it would have sent", statuses(next.reported(short.ID)), running, stopped)
	expectAll(t, "events of the long one", statuses(next.reported(long.ID)), running)
	cpu, _ := next.remaining(node)
	expect(t, "free CPU", cpu, 2048-256)
	next.clock.advance(31 * time.Minute)
	expect(t, "long", next.task(long.ID).Last, stopped)
	expect(t, "long's version", next.task(long.ID).Version, 3)
}

func TestFlappingHealthIsNotMadeUpFor(t *testing.T) {
	w, path := storedWorld(t)
	w.registerChecked()
	w.Machines.SetTaskBehaviour(func(simecs.StartInfo) simecs.Behaviour {
		return simecs.Behaviour{Latency: time.Second, UnhealthyAfter: 10 * time.Second, Flap: 10 * time.Second}
	})
	id := w.start("checked", w.add(1, ec2.Machine{Type: "m5.large"})...)[0].ID
	next := w.killed(path, 2*time.Hour)
	next.clock.advance(0)
	w.clock.advance(2 * time.Hour)
	expect(t, "health", next.task(id).Health, w.task(id).Health)
	if n := len(next.reported(id)); n > 6 {
		t.Errorf("%d events at once", n)
	}
	next.clock.advance(10 * time.Second)
	w.clock.advance(10 * time.Second)
	expect(t, "health at the next turn", next.task(id).Health, w.task(id).Health)
}

func TestProgressLostInAKillIsReportedAgainUnchanged(t *testing.T) {
	w, path := storedWorld(t)
	id := w.start("web", w.add(1, ec2.Machine{Type: "m5.large"})...)[0].ID
	copied, err := os.ReadFile(path)
	check(t, err)
	w.clock.advance(3 * time.Second)
	check(t, os.WriteFile(path+".old", copied, 0o600))
	next := w.killed(path+".old", 0)
	next.clock.advance(0)
	if diff := cmp.Diff(w.task(id), next.task(id)); diff != "" {
		t.Error(diff)
	}
}

func TestProgressIsWrittenWithinASecond(t *testing.T) {
	w, path := storedWorld(t)
	id := w.start("web", w.add(1, ec2.Machine{Type: "m5.large"})...)[0].ID
	w.clock.advance(4 * time.Second)
	next := w.killed(path, 0)
	expect(t, "without any callback", next.task(id).Last, running)
}

func TestReportsOfADisconnectedAgentSurviveAKill(t *testing.T) {
	w, path := storedWorld(t)
	node := w.add(1, ec2.Machine{Type: "m5.large"})[0]
	id := w.start("web", node)[0].ID
	w.clock.advance(time.Minute)
	check(t, w.Machines.CrashInstance(node))
	next := w.killed(path, time.Hour)
	next.clock.advance(0)
	expect(t, "as ECS knows it", next.task(id).Last, running)
	check(t, next.Machines.ReconnectAgent(node))
	expect(t, "when back", next.task(id).Last, stopped)
}

func TestVisibilityEndsAcrossAKill(t *testing.T) {
	w, path := storedWorld(t)
	node := w.add(1, ec2.Machine{Type: "m5.large"})[0]
	id := w.start("web", node)[0].ID
	check(t, w.Machines.KillInstance(node))
	next := w.killed(path, time.Hour-time.Second)
	next.task(id)
	next.clock.advance(time.Second)
	tasks, err := next.ECS.DescribeTasks(ctx, "prod", []string{id})
	check(t, err)
	expect(t, "tasks", len(tasks), 0)
	instances, err := next.ECS.DescribeInstances(ctx, "prod", []string{node})
	check(t, err)
	expect(t, "instances", len(instances), 0)
	must(t, next.ECS.Clusters.CreateCluster, &ecs.CreateClusterInput{}) // has it written
	last := next.killed(next.path, 0)
	expect(t, "tasks in the file", len(last.Machines.TaskTruths("prod")), 0)
}

func TestSecondProcessIsRefused(t *testing.T) {
	_, path := storedWorld(t)
	_, err := sim.Open(sim.Options{Clock: newClock(), Path: path})
	if err == nil || !strings.Contains(err.Error(), "in use by another process") ||
		!strings.Contains(err.Error(), path) {
		t.Errorf("error %v", err)
	}
}

func TestDamagedFileIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.db")
	check(t, os.WriteFile(path, []byte(strings.Repeat("not a database ", 1000)), 0o600))
	if _, err := sim.Open(sim.Options{Clock: newClock(), Path: path}); err == nil {
		t.Error("a damaged file was opened")
	}
}

func TestCallFaultsThrottleOrLoseAnswers(t *testing.T) {
	w := newWorld(t, sim.Options{})
	node := w.add(1, ec2.Machine{Type: "m5.large"})[0]
	call := cluster.StartCall{Cluster: "prod", TaskDefinition: "web", Instances: []string{node}, StartedBy: "berth/x"}
	count := func() int { return len(w.Machines.TaskTruths("prod")) }
	fault := func(c kernel.CallFault) {
		w.SetCallFaults(kernel.CallFaults{Call: func(operation, subject string) kernel.CallFault {
			if operation == "StartTask" && subject == "berth/x" {
				return c
			}
			return kernel.CallFault{}
		}})
	}
	fault(kernel.CallFault{Throttled: true})
	_, err := w.ECS.StartTask(ctx, call)
	wantCode(t, err, cluster.CodeThrottling)
	for n, c := range []struct {
		fault kernel.CallFault
		tasks int
	}{
		{kernel.CallFault{Ambiguous: true}, 0},
		{kernel.CallFault{Ambiguous: true, Applied: true}, 1},
		{kernel.CallFault{Ambiguous: true, Applied: true, Late: time.Minute}, 1},
	} {
		fault(c.fault)
		if _, err := w.ECS.StartTask(ctx, call); !errors.Is(err, cluster.ErrAmbiguous) {
			t.Errorf("fault %d: error %v", n, err)
		}
		expect(t, "tasks", count(), c.tasks)
	}
	w.clock.advance(time.Minute)
	expect(t, "tasks after the late one", count(), 2)
	w.SetCallFaults(kernel.CallFaults{})
	_, err = w.ECS.StartTask(ctx, call)
	check(t, err)
}

func TestListTasksIsLateForABoundedTime(t *testing.T) {
	w := newWorld(t, sim.Options{})
	w.SetCallFaults(kernel.CallFaults{ListLate: 10 * time.Second})
	for _, node := range w.add(20, ec2.Machine{Type: "m5.large"}) {
		w.start("web", node)
	}
	list := func() int {
		ids, err := w.ECS.ListTasks(ctx, cluster.TaskFilter{Cluster: "prod", StartedBy: "berth/test"})
		check(t, err)
		return len(ids)
	}
	if n := list(); n > 5 {
		t.Errorf("%d of 20 listed at once", n)
	}
	w.clock.advance(5 * time.Second)
	if n := list(); n < 3 || n > 17 {
		t.Errorf("%d of 20 listed after half of the time", n)
	}
	w.clock.advance(5 * time.Second)
	expect(t, "listed in the end", list(), 20)
}

func TestEmitMayCallTheFleet(t *testing.T) {
	clock := newClock()
	var f *sim.AWS
	var order []string
	f, err := sim.Open(sim.Options{Clock: clock, Account: account, Emit: func(event []byte) {
		order = append(order, "begin")
		if len(order) == 1 { // the registration of the first instance
			_, err := f.Machines.AddInstances("prod", 1, ec2.Machine{Type: "m5.large"})
			check(t, err)
		}
		order = append(order, "end")
	}})
	check(t, err)
	must(t, f.ECS.Clusters.CreateCluster, &ecs.CreateClusterInput{ClusterName: new("prod")})
	_, err = f.Machines.AddInstances("prod", 1, ec2.Machine{Type: "m5.large"})
	check(t, err)
	expectAll(t, "order", order, "begin", "end", "begin", "end")
}
