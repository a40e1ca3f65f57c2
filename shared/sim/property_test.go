package sim_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"berth/shared/awsevent"
	"berth/shared/cluster"
	"berth/shared/sim"
	"berth/shared/sim/ec2"
	simecs "berth/shared/sim/ecs"
)

// dice draws numbers: from a seeded generator, or from rapid, which shrinks failures.
type dice func(n int) int

// mixedWorld returns a world with task definitions of all kinds and tasks that behave differently.
func mixedWorld(t testing.TB, seed uint64) (*world, []string) {
	w := newWorld(t, sim.Options{Seed: seed})
	w.registerChecked()
	port := container("edge", 128, 64)
	port.PortMappings = []types.PortMapping{
		{ContainerPort: new(int32(80)), HostPort: new(int32(8080))},
		{ContainerPort: new(int32(53)), HostPort: new(int32(53)), Protocol: types.TransportProtocolUdp},
		{ContainerPort: new(int32(90))},
	}
	w.register("edge", port, container("side", 10, 20))
	gpu := container("train", 512, 1024)
	gpu.ResourceRequirements = []types.ResourceRequirement{{Type: types.ResourceTypeGpu, Value: new("2")}}
	w.register("train", gpu)
	w.register("big", container("app", 900, 64))
	w.register("fat", container("app", 64, 700))
	w.Machines.SetTaskBehaviour(func(i simecs.StartInfo) simecs.Behaviour {
		return []simecs.Behaviour{
			{}, {RunFor: 20 * time.Second, ExitCode: 1}, {FailStart: "no"}, {IgnoreStop: true},
			{UnhealthyAfter: 5 * time.Second, Flap: 7 * time.Second},
		}[i.Start%5]
	})
	nodes := append(w.add(2, ec2.Machine{Type: "g4dn.12xlarge"}),
		w.add(3, ec2.Machine{Type: "t3.small", Zones: []string{"x", "y"}})...)
	return w, nodes
}

// act makes one random call or mishap. Calls may be refused.
func (w *world) act(roll dice, nodes []string) {
	node := nodes[roll(len(nodes))]
	var task string
	if all := w.Machines.TaskTruths("prod"); len(all) > 0 {
		task = all[roll(len(all))].ID
	}
	switch roll(14) {
	case 0, 1, 2, 3, 4:
		definition := []string{"web", "edge", "train", "checked", "big", "fat"}[roll(6)]
		_, _ = w.ECS.StartTask(ctx, cluster.StartCall{
			Cluster: "prod", TaskDefinition: definition, Instances: []string{node},
			StartedBy: fmt.Sprint("batch-", roll(5)),
		})
	case 5, 6:
		_ = w.ECS.StopTask(ctx, "prod", task, "because")
	case 7:
		_ = w.Machines.DisconnectAgent(node)
	case 8, 9:
		_ = w.Machines.ReconnectAgent(node)
	case 10:
		_ = w.Machines.CrashInstance(node)
	case 11:
		_ = w.Machines.CrashTask(task, 9)
	case 12:
		if roll(8) == 0 {
			_ = w.Machines.KillInstance(node)
		}
	case 13:
		status := []types.ContainerInstanceStatus{"ACTIVE", "DRAINING"}[roll(2)]
		_, _ = w.ECS.Instances.UpdateContainerInstancesState(ctx, &ecs.UpdateContainerInstancesStateInput{
			Cluster: new("prod"), ContainerInstances: []string{node}, Status: status,
		})
	}
	if roll(3) > 0 {
		w.clock.advance(time.Duration(roll(20_000)) * time.Millisecond)
	}
}

func TestFreeResourcesFollowFromTheTasks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w, nodes := mixedWorld(t, 1)
		roll := func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "roll") }
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			w.act(roll, nodes)
			if problem := w.unaccounted(nodes); problem != "" {
				rt.Fatal(problem)
			}
		}
		if problem := w.disorder(); problem != "" {
			rt.Fatal(problem)
		}
	})
}

// unaccounted describes an instance whose free resources differ from what its tasks leave, "" if
// there is none.
func (w *world) unaccounted(nodes []string) string {
	type held struct {
		cpu, memory int64
		gpus        int
		ports       map[cluster.Port]int
	}
	on := map[string]*held{}
	for _, id := range nodes {
		on[id] = &held{ports: map[cluster.Port]int{}}
	}
	for _, task := range w.Machines.TaskTruths("prod") {
		if task.Last == stopped && task.Alive {
			return "STOPPED task " + task.ID + " is alive"
		}
		if task.Last == stopped {
			continue
		}
		h := on[task.Instance]
		h.cpu, h.memory, h.gpus = h.cpu+task.Needs.CPU/cluster.CPUUnit, h.memory+task.Needs.Memory,
			h.gpus+task.Needs.GPUs
		for _, p := range task.Ports {
			if h.ports[p]++; h.ports[p] > 1 {
				return fmt.Sprintf("port %v is bound twice on %s", p, task.Instance)
			}
		}
	}
	out, err := w.ECS.Instances.DescribeContainerInstances(ctx,
		&ecs.DescribeContainerInstancesInput{Cluster: new("prod"), ContainerInstances: nodes})
	if err != nil {
		return err.Error()
	}
	for _, i := range out.ContainerInstances {
		h := on[cluster.LastPart(*i.ContainerInstanceArn)]
		total, free := amounts(i.RegisteredResources), amounts(i.RemainingResources)
		want := map[string]int64{"CPU": total["CPU"] - h.cpu, "MEMORY": total["MEMORY"] - h.memory,
			"GPU": total["GPU"] - int64(h.gpus)}
		if !maps.Equal(free, want) {
			return fmt.Sprintf("left on %s: %v, want %v", *i.ContainerInstanceArn, free, want)
		}
		for _, n := range free {
			if n < 0 {
				return fmt.Sprintf("%s holds more than it has: %v", *i.ContainerInstanceArn, free)
			}
		}
	}
	return ""
}

func amounts(resources []types.Resource) map[string]int64 {
	out := map[string]int64{"GPU": 0}
	for _, r := range resources {
		switch *r.Name {
		case "CPU", "MEMORY":
			out[*r.Name] = int64(r.IntegerValue)
		case "GPU":
			out["GPU"] = int64(len(r.StringSetValue))
		}
	}
	return out
}

// disorder describes an event that contradicts the life of a task or an instance, "" if there is
// none. Versions must rise by one, and nothing follows STOPPED or INACTIVE.
func (w *world) disorder() string {
	versions, over := map[string]int64{}, map[string]bool{}
	ids := map[string]bool{}
	for _, e := range w.events {
		var id string
		var version int64
		var end bool
		switch d := e.Detail.(type) {
		case *cluster.ECSTask:
			id, version, end = d.ID, d.Version, d.Last == stopped
		case *cluster.Instance:
			id, version, end = d.ID, d.Version, d.IsDeregistered()
		}
		switch {
		case over[id]:
			return id + " changed after its end"
		case version != versions[id]+1:
			return fmt.Sprintf("%s: version %d after %d", id, version, versions[id])
		case ids[e.ID]:
			return "event id " + e.ID + " twice"
		}
		versions[id], over[id], ids[e.ID] = version, end, true
	}
	return ""
}

func TestEventsDecodeToTheDescribedState(t *testing.T) {
	w, nodes := mixedWorld(t, 3)
	random := rand.New(rand.NewPCG(3, 3))
	compared := map[string]int{}
	for range 400 {
		before := len(w.events)
		w.act(random.IntN, nodes)
		latest := map[string]awsevent.Event{}
		for _, e := range w.events[before:] {
			latest[e.Resources[0]] = e
		}
		for _, arn := range slices.Sorted(maps.Keys(latest)) {
			var held any
			switch d := latest[arn].Detail.(type) {
			case *cluster.ECSTask:
				task := w.task(d.ID)
				// Events leave these to answers.
				task.Bindings, task.Address, task.Health = nil, "", cluster.UnknownHealth
				held = &task
				compared[string(d.Last)]++
			case *cluster.Instance:
				held = w.instance(d.ID)
				compared[string(d.Status)]++
			}
			if diff := cmp.Diff(held, latest[arn].Detail, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("%s: held and decoded differ:\n%s", arn, diff)
			}
			expect(t, "account", latest[arn].Account+latest[arn].Region+latest[arn].Source,
				"123456789012eu-central-1aws.ecs")
		}
	}
	for _, kind := range []string{"PENDING", "RUNNING", "STOPPED", "ACTIVE", "DRAINING", "INACTIVE"} {
		if compared[kind] == 0 {
			t.Errorf("nothing %s was compared: %v", kind, compared)
		}
	}
}

func TestEventsHaveTheShapeOfRealOnes(t *testing.T) {
	w, nodes := mixedWorld(t, 3)
	random := rand.New(rand.NewPCG(4, 4))
	for range 200 {
		w.act(random.IntN, nodes)
	}
	simulated := map[string]map[string]bool{}
	for _, fixture := range []string{"task-state-change", "task-stopped", "container-instance-state-change"} {
		data, err := os.ReadFile("../../events/" + fixture + ".json")
		check(t, err)
		event, err := awsevent.Decode(data)
		check(t, err)
		if simulated[event.DetailType] == nil {
			simulated[event.DetailType] = map[string]bool{"detail.overrides.containerOverrides.": true}
		}
		paths(t, data, simulated[event.DetailType])
	}
	for k, data := range w.raw {
		own := map[string]bool{}
		paths(t, data, own)
		for path := range own {
			if !simulated[w.events[k].DetailType][path] {
				t.Fatalf("%s is in no real %s: %s", path, w.events[k].DetailType, data)
			}
		}
		var times struct{ Detail struct{ UpdatedAt time.Time } }
		check(t, json.Unmarshal(data, &times))
		if d := times.Detail.UpdatedAt.Sub(w.events[k].Time); d < 0 || d >= time.Second {
			t.Errorf("updatedAt is %s after time", d)
		}
	}
}

// paths adds the paths of all values in a JSON document, array positions left out.
func paths(t testing.TB, data []byte, into map[string]bool) {
	var doc any
	check(t, json.Unmarshal(data, &doc))
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, value := range v {
				walk(path+"."+key, value)
			}
		case []any:
			for _, value := range v {
				walk(path, value)
			}
		default:
			into[strings.TrimPrefix(path, ".")] = true
		}
	}
	walk("", doc)
}

func TestSeedRepeatsARun(t *testing.T) {
	run := func(seed uint64) []byte {
		w, nodes := mixedWorld(t, seed)
		random := rand.New(rand.NewPCG(9, 9))
		for range 300 {
			w.act(random.IntN, nodes)
		}
		_, _ = w.Machines.TerminateZone("x", "")
		return bytes.Join(w.raw, []byte("\n"))
	}
	first := run(42)
	if !bytes.Equal(first, run(42)) {
		t.Error("the same seed gave other events")
	}
	if bytes.Equal(first, run(43)) {
		t.Error("another seed gave the same events")
	}
}

func TestServicesMayBeCalledConcurrently(t *testing.T) {
	w, nodes := mixedWorld(t, 5)
	var callers sync.WaitGroup
	for n := range 4 {
		callers.Go(func() {
			random := rand.New(rand.NewPCG(5, uint64(n)))
			for range 100 {
				node := nodes[random.IntN(len(nodes))]
				_, _ = w.ECS.StartTask(ctx, cluster.StartCall{Cluster: "prod", TaskDefinition: "edge",
					Instances: []string{node}})
				_, _ = w.ECS.Instances.DescribeContainerInstances(ctx,
					&ecs.DescribeContainerInstancesInput{Cluster: new("prod"), ContainerInstances: nodes})
				_, _ = w.ECS.DescribeInstances(ctx, "prod", nodes)
				for _, task := range w.Machines.TaskTruths("prod") {
					_ = w.ECS.StopTask(ctx, "prod", task.ID, "because")
				}
			}
		})
	}
	for range 200 {
		w.clock.advance(100 * time.Millisecond)
	}
	callers.Wait()
	w.clock.advance(time.Minute)
	expect(t, "disorder", w.disorder(), "")
	expect(t, "unaccounted", w.unaccounted(nodes), "")
}

func BenchmarkSweepOf5000Instances(b *testing.B) {
	w := newWorld(b, sim.Options{})
	w.add(5000, ec2.Machine{Type: "m5.large"})
	for b.Loop() {
		ids, err := w.ECS.ListInstances(ctx, "prod")
		check(b, err)
		for batch := range slices.Chunk(ids, 100) {
			got, err := w.ECS.DescribeInstances(ctx, "prod", batch)
			check(b, err)
			if len(got) != len(batch) {
				b.Fatal(len(got))
			}
		}
	}
}

func BenchmarkTaskLife(b *testing.B) {
	clock := newClock()
	f, err := sim.Open(sim.Options{Clock: clock, Account: account})
	check(b, err)
	w := &world{AWS: f, t: b, clock: clock}
	must(b, f.ECS.Clusters.CreateCluster, &ecs.CreateClusterInput{ClusterName: new("prod")})
	w.register("web", container("app", 256, 512))
	nodes := w.add(1500, ec2.Machine{Type: "m5.large"})
	n := 0
	for b.Loop() {
		id := w.start("web", nodes[n%len(nodes)])[0].ID
		n++
		clock.advance(3 * time.Second)
		check(b, f.ECS.StopTask(ctx, "prod", id, ""))
		clock.advance(3 * time.Second)
	}
}

func BenchmarkPageOf5000Instances(b *testing.B) {
	w := newWorld(b, sim.Options{})
	w.add(5000, ec2.Machine{Type: "m5.large"})
	first, err := w.ECS.Instances.ListContainerInstances(ctx, &ecs.ListContainerInstancesInput{Cluster: new("prod")})
	check(b, err)
	for b.Loop() {
		out, err := w.ECS.Instances.ListContainerInstances(ctx, &ecs.ListContainerInstancesInput{
			Cluster: new("prod"), NextToken: first.NextToken})
		check(b, err)
		if len(out.ContainerInstanceArns) != 100 {
			b.Fatal(len(out.ContainerInstanceArns))
		}
	}
}
