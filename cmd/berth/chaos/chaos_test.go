package chaos_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/cmd/berth/chaos"
	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/sim"
	"berth/shared/sim/ec2"
)

// fleet is a simulated AWS on a virtual clock: four machines in two zones, and on the first of
// them the tasks of web (with a health check) and of plain (without one).
type fleet struct {
	t *testing.T
	*sim.AWS
	loop   *embedded.Loop
	client *chaos.Client
	ids    []string // of the instances
}

type clock struct{ *embedded.Loop }

func (c clock) After(d time.Duration, f func()) { c.Loop.After(d, f) }

func newFleet(t *testing.T, guard chaos.Guard) *fleet {
	t.Helper()
	loop := embedded.NewVirtualLoop(time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC))
	a, err := sim.Open(sim.Options{Clock: clock{loop},
		Account: cluster.Account{ID: "123456789012", Region: "us-east-1"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.EnsureCluster(t.Context(), "default", 4, ec2.Machine{Type: "m5.large",
		Zones: []string{"us-east-1a", "us-east-1b"}}); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(chaos.Handler(a, guard, http.NotFoundHandler()))
	t.Cleanup(server.Close)
	f := &fleet{t: t, AWS: a, loop: loop, client: &chaos.Client{HTTP: server.Client(), URL: server.URL}}
	if f.ids, err = a.ECS.ListInstances(t.Context(), "default"); err != nil {
		t.Fatal(err)
	}
	f.register("web", &types.HealthCheck{Command: []string{"CMD", "true"}})
	f.register("plain", nil)
	f.start("plain", f.ids[0])
	f.start("web", f.ids[0])
	f.start("web", f.ids[1])
	loop.RunUntil(loop.Now().Add(time.Minute))
	return f
}

func (f *fleet) register(family string, check *types.HealthCheck) {
	f.t.Helper()
	_, err := f.ECS.Definitions.RegisterTaskDefinition(f.t.Context(), &ecs.RegisterTaskDefinitionInput{Family: &family,
		ContainerDefinitions: []types.ContainerDefinition{{Name: &family, Image: new("x"), Memory: new(int32(64)),
			HealthCheck: check}}})
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) start(family, instance string) {
	f.t.Helper()
	answer, err := f.ECS.StartTask(f.t.Context(), cluster.StartCall{Cluster: "default", TaskDefinition: family,
		StartedBy: cluster.StartedBy("3f9ab2c61d07", 1, len(family)), Instances: []string{instance}})
	if err != nil || len(answer.Tasks) != 1 {
		f.t.Fatalf("%+v, %v", answer, err)
	}
}

func (f *fleet) request(kind, target string) chaos.Request {
	k, known := chaos.FindKind(kind)
	if !known {
		f.t.Fatalf("kind %s is not known", kind)
	}
	return chaos.Request{Kind: k, Cluster: "default", Target: target, ExitCode: 3, Seconds: 30}
}

func (f *fleet) breaks(r chaos.Request) *chaos.Result {
	f.t.Helper()
	out, err := f.client.Break(f.t.Context(), r)
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

func (f *fleet) world() *chaos.World {
	f.t.Helper()
	w, err := f.client.World(f.t.Context(), "default")
	if err != nil {
		f.t.Fatal(err)
	}
	return w
}

// Without a target, each kind that breaks machines takes the one with the most tasks. What it says
// is what has happened.
func TestMachinesBreak(t *testing.T) {
	for kind, want := range map[string]struct {
		state, says string
		tasks       int // that run in the fleet afterwards
	}{
		chaos.Kill:       {"", "is terminated", 1},
		chaos.Disconnect: {"disconnected", "is disconnected", 3},
		chaos.Crash:      {"off", "has crashed", 1},
		chaos.Slow:       {"running", "30 s longer", 3},
		chaos.ZoneOut:    {"", "Every machine of the cluster in us-east-1a", 1},
	} {
		t.Run(kind, func(t *testing.T) {
			f := newFleet(t, nil)
			out := f.breaks(f.request(kind, ""))
			w, state := f.world(), ""
			for _, i := range w.Instances {
				if i.ID == f.ids[0] {
					state = string(i.State)
				}
			}
			if running := len(w.Tasks); state != want.state || running != want.tasks ||
				out.Instances[0].ID != f.ids[0] || out.Instances[0].Tasks != 2 {
				t.Errorf("it broke %+v; instance %s is %q, and %d tasks run; want %+v", out, f.ids[0], state, running,
					want)
			}
			var said bytes.Buffer
			if err := out.Print(&said); err != nil || !strings.Contains(said.String(), want.says) ||
				!strings.Contains(said.String(), f.ids[0]) {
				t.Errorf("it says %q, %v, want %q and the instance", said.String(), err, want.says)
			}
		})
	}
}

// The beginning of an id is enough, if it is of one instance or task only.
func TestShortenedIDs(t *testing.T) {
	f := newFleet(t, nil)
	w := f.world()
	for _, id := range []string{w.Instances[0].ID[:8], w.Instances[0].EC2[:8]} {
		if r := f.breaks(f.request(chaos.Disconnect, id)); r.Instances[0].ID != w.Instances[0].ID {
			t.Errorf("%s names %s, want %s", id, r.Instances[0].ID, w.Instances[0].ID)
		}
	}
	for n, id := range []string{w.Tasks[0].ID[:16], w.Tasks[1].ECS[:16]} {
		if r := f.breaks(f.request(chaos.Exit, id)); r.Tasks[0].ID != w.Tasks[n].ID {
			t.Errorf("%s names %s, want %s", id, r.Tasks[0].ID, w.Tasks[n].ID)
		}
	}
	f2 := newFleet(t, nil)
	first := f2.world().Tasks[0].ID
	if _, err := f2.client.Break(t.Context(), f2.request(chaos.Exit, first[:12])); err == nil ||
		!strings.Contains(err.Error(), "begin with it: "+first) {
		t.Errorf("the beginning that all tasks of a service have: %v", err)
	}
}

// Heal undoes what can be undone, and only where it is asked to.
func TestHeal(t *testing.T) {
	f := newFleet(t, nil)
	f.breaks(f.request(chaos.Disconnect, f.ids[1]))
	f.breaks(f.request(chaos.Crash, f.ids[2]))
	slowed := f.world().Instances[3].EC2 // a machine goes by either id
	f.breaks(f.request(chaos.Slow, slowed))
	f.breaks(f.request(chaos.Unhealthy, ""))
	broken := func() (n int) {
		w := f.world()
		for _, i := range w.Instances {
			if i.State != "running" || i.StartDelay > 0 {
				n++
			}
		}
		for _, task := range w.Tasks {
			if task.Failing {
				n++
			}
		}
		return n
	}
	if n := broken(); n != 4 {
		t.Fatalf("%d things are broken, want 4", n)
	}
	if out := f.breaks(f.request(chaos.Heal, slowed)); len(out.Instances) != 1 || broken() != 3 {
		t.Errorf("healing one machine healed %+v, and leaves %d broken, want 3", out, broken())
	}
	if out := f.breaks(f.request(chaos.Heal, "")); len(out.Instances) != 2 || len(out.Tasks) != 1 || broken() != 0 {
		t.Errorf("healing all healed %+v, and leaves %d broken", out, broken())
	}
	if out := f.breaks(f.request(chaos.Heal, "")); len(out.Instances)+len(out.Tasks) > 0 {
		t.Errorf("healing what is not broken healed %+v", out)
	}
}

// Tasks start slowly on a slow machine, and as fast as before once it is healed.
func TestStartsOnASlowMachine(t *testing.T) {
	f := newFleet(t, nil)
	runs := func(after time.Duration) int {
		f.start("plain", f.ids[3])
		f.loop.RunUntil(f.loop.Now().Add(after))
		return f.world().Instances[3].Tasks
	}
	f.breaks(f.request(chaos.Slow, f.ids[3]))
	if n := runs(29 * time.Second); n != 0 {
		t.Errorf("%d tasks run after 29 s on a machine that is 30 s late", n)
	}
	f.loop.RunUntil(f.loop.Now().Add(5 * time.Second))
	f.breaks(f.request(chaos.Heal, ""))
	if n := runs(4 * time.Second); n != 2 {
		t.Errorf("%d tasks run, want 2", n)
	}
}

// A task is named by ECS's id, by Berth's, or by an ARN; without a name, the one that has run the
// longest exits, of those that the caller allows.
func TestTasksBreak(t *testing.T) {
	for _, name := range []func(chaos.Task) string{
		func(task chaos.Task) string { return task.ID },
		func(task chaos.Task) string { return task.ECS },
		func(task chaos.Task) string { return "arn:aws:ecs:us-east-1:123456789012:task/default/" + task.ID },
	} {
		f := newFleet(t, nil)
		last := f.world().Tasks[2]
		if last.ID == last.ECS {
			t.Fatalf("task %+v has no id of Berth's", last)
		}
		out := f.breaks(f.request(chaos.Exit, name(last)))
		left := f.world().Tasks
		if len(left) != 2 || out.Tasks[0] != last || *out.ExitCode != 3 || left[1] == last {
			t.Errorf("it broke %+v, and left %+v", out, left)
		}
	}
	f := newFleet(t, nil)
	tasks := f.world().Tasks
	if out := f.breaks(f.request(chaos.Exit, "")); out.Tasks[0] != tasks[0] {
		t.Errorf("it broke %+v, want the first of %+v", out.Tasks, tasks)
	}
	among := f.request(chaos.Exit, "")
	among.Among = []string{tasks[2].ID}
	if out := f.breaks(among); out.Tasks[0] != tasks[2] {
		t.Errorf("it broke %+v, want the last of %+v", out.Tasks, tasks)
	}
}

// A task fails only checks that it has: its container's, its target groups', or both.
func TestUnhealthyTasks(t *testing.T) {
	f := newFleet(t, nil)
	plain, checked := f.world().Tasks[0], f.world().Tasks[1]
	if plain.ID == plain.ECS {
		t.Fatalf("task %+v has no id of Berth's", plain)
	}
	if _, err := f.client.Break(f.t.Context(), f.request(chaos.Unhealthy, plain.ID)); err == nil ||
		!strings.Contains(err.Error(), "task "+plain.ID+" has no container health check and is in no target group") {
		t.Errorf("a task without checks: %v", err)
	}
	if out := f.breaks(f.request(chaos.Unhealthy, "")); out.Tasks[0] != checked {
		t.Errorf("it broke %+v, want the one with a check, %+v", out.Tasks, checked)
	}
	if got := f.world().Tasks[1]; !got.Failing || got.ID != checked.ID {
		t.Errorf("task %+v passes its checks", got)
	}
}

// What cannot be done is refused with the name of what is missing, and changes nothing.
func TestMissingTargets(t *testing.T) {
	f := newFleet(t, nil)
	for _, c := range []struct{ kind, target, cluster, want string }{
		{chaos.Kill, "i-0123456789abcdef0", "default", "instance i-0123456789abcdef0 is not in cluster default"},
		{chaos.Crash, f.ids[0], "nowhere", "Cluster not found"},
		{chaos.Exit, "abc", "default", "task abc does not run in cluster default"},
		{chaos.ZoneOut, "mars", "default", "no machine in zone mars; it has machines in: us-east-1a, us-east-1b"},
		{chaos.Heal, "abc", "default", "abc is neither an instance nor a running task"},
	} {
		r := f.request(c.kind, c.target)
		r.Cluster = c.cluster
		if _, err := f.client.Break(t.Context(), r); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %q", c.kind, c.target, err, c.want)
		}
	}
	if w := f.world(); len(w.Instances) != 4 || len(w.Tasks) != 3 {
		t.Errorf("the world is %+v", w)
	}
}

// The guard of the handler keeps callers out who may not do this, and other paths are not its
// concern.
func TestCallersWhoMayNot(t *testing.T) {
	f := newFleet(t, func(r *http.Request, _ string, call func() bool) error {
		if r.Method != http.MethodGet {
			return errors.New("only the operator may")
		}
		call()
		return nil
	})
	if _, err := f.client.Break(context.Background(), f.request(chaos.Kill, "")); err == nil ||
		err.Error() != "only the operator may" {
		t.Errorf("a stranger kills a machine: %v", err)
	}
	if n := len(f.world().Instances); n != 4 {
		t.Errorf("%d instances are left of 4", n)
	}
	resp, err := http.Get(f.client.URL + "/other")
	if err != nil || resp.StatusCode != http.StatusNotFound {
		t.Errorf("%v, %v, want the answer of the next handler", resp, err)
	}
	_ = resp.Body.Close()
}
