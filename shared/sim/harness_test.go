package sim_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/awsevent"
	"berth/shared/cluster"
	"berth/shared/sim"
	"berth/shared/sim/ec2"
)

// clock is virtual time: callbacks run in order of time, then of arrival, when it is advanced.
type clock struct {
	mu    sync.Mutex
	now   time.Time
	queue []timer
}

type timer struct {
	at time.Time
	f  func()
}

func newClock() *clock { return &clock{now: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) After(d time.Duration, f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.now.Add(d)
	k := len(c.queue)
	for k > 0 && c.queue[k-1].at.After(at) {
		k--
	}
	c.queue = slices.Insert(c.queue, k, timer{at, f})
}

func (c *clock) advance(d time.Duration) {
	end := c.Now().Add(d)
	for f := c.next(end); f != nil; f = c.next(end) {
		f()
	}
}

// next removes the next callback that is due by end and moves the time to it. If there is none it
// returns nil and moves the time to end.
func (c *clock) next(end time.Time) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 || c.queue[0].at.After(end) {
		c.now = end
		return nil
	}
	first := c.queue[0]
	c.queue, c.now = c.queue[1:], first.at
	return first.f
}

// world is a fleet with one cluster, "prod", and one task definition, "web:1": 256 units, 512 MiB.
type world struct {
	*sim.AWS
	t      testing.TB
	clock  *clock
	raw    [][]byte
	events []awsevent.Event
	path   string // of the file, after a kill
}

var (
	ctx     = context.Background()
	account = cluster.Account{ID: "123456789012", Region: "eu-central-1"}
)

func emptyWorld(t testing.TB, o sim.Options) *world {
	t.Helper()
	w := &world{t: t, clock: newClock()}
	w.open(o)
	return w
}

func (w *world) open(o sim.Options) {
	w.t.Helper()
	o.Clock, o.Account = w.clock, account
	o.Emit = func(data []byte) {
		event, err := awsevent.Decode(data)
		if err != nil {
			w.t.Fatalf("the fleet emitted %s: %v", data, err)
		}
		w.raw, w.events = append(w.raw, data), append(w.events, event)
	}
	f, err := sim.Open(o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.AWS = f
}

func newWorld(t testing.TB, o sim.Options) *world {
	t.Helper()
	w := emptyWorld(t, o)
	must(t, w.ECS.Clusters.CreateCluster, &ecs.CreateClusterInput{ClusterName: new("prod")})
	w.register("web", container("app", 256, 512))
	return w
}

// must calls an operation that must succeed.
func must[I, O any](t testing.TB, call func(context.Context, *I) (*O, error), in *I) *O {
	t.Helper()
	out, err := call(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func container(name string, cpu, memory int32) types.ContainerDefinition {
	return types.ContainerDefinition{Name: new(name), Image: new("nginx:1.29"), Cpu: cpu, Memory: &memory}
}

func (w *world) register(family string, containers ...types.ContainerDefinition) string {
	w.t.Helper()
	out := must(w.t, w.ECS.Definitions.RegisterTaskDefinition, &ecs.RegisterTaskDefinitionInput{
		Family: &family, ContainerDefinitions: containers,
	})
	return cluster.LastPart(*out.TaskDefinition.TaskDefinitionArn)
}

func (w *world) add(n int, m ec2.Machine) []string {
	w.t.Helper()
	ids, err := w.Machines.AddInstances("prod", n, m)
	if err != nil {
		w.t.Fatal(err)
	}
	return ids
}

func (w *world) start(definition string, instances ...string) []cluster.ECSTask {
	w.t.Helper()
	answer, err := w.ECS.StartTask(ctx, cluster.StartCall{
		Cluster: "prod", TaskDefinition: definition, Instances: instances, StartedBy: "berth/test",
	})
	if err != nil || len(answer.Failures) > 0 {
		w.t.Fatalf("starting %s: %v, failures %v", definition, err, answer.Failures)
	}
	return answer.Tasks
}

// task returns one task as DescribeTasks has it now.
func (w *world) task(id string) cluster.ECSTask {
	w.t.Helper()
	tasks, err := w.ECS.DescribeTasks(ctx, "prod", []string{id})
	if err != nil || len(tasks) != 1 {
		w.t.Fatalf("task %s: %v, %v", id, tasks, err)
	}
	return tasks[0]
}

func (w *world) instance(id string) *cluster.Instance {
	w.t.Helper()
	got, err := w.ECS.DescribeInstances(ctx, "prod", []string{id})
	if err != nil || len(got) != 1 {
		w.t.Fatalf("instance %s: %v, %v", id, got, err)
	}
	return got[0]
}

// remaining returns what is free on an instance according to ECS: CPU units and MiB.
func (w *world) remaining(id string) (cpu, memory int32) {
	w.t.Helper()
	out := must(w.t, w.ECS.Instances.DescribeContainerInstances, &ecs.DescribeContainerInstancesInput{
		Cluster: new("prod"), ContainerInstances: []string{id},
	})
	for _, r := range out.ContainerInstances[0].RemainingResources {
		switch *r.Name {
		case "CPU":
			cpu = r.IntegerValue
		case "MEMORY":
			memory = r.IntegerValue
		}
	}
	return cpu, memory
}

// reported returns the states of a task that events have reported, in order.
func (w *world) reported(id string) (all []cluster.ECSTask) {
	for _, e := range w.events {
		if t, ok := e.Detail.(*cluster.ECSTask); ok && t.ID == id {
			all = append(all, *t)
		}
	}
	return all
}

func statuses(tasks []cluster.ECSTask) (all []cluster.TaskStatus) {
	for _, t := range tasks {
		all = append(all, t.Last)
	}
	return all
}

func wantCode(t testing.TB, err error, code cluster.Code) {
	t.Helper()
	var e *cluster.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Errorf("error %v, want %s", err, code)
	}
}

func expect[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

func expectAll[T comparable](t testing.TB, what string, got []T, want ...T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}
