package pack

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth/cmd/berth/trace"
	"berth/shared/placement"
)

// sampleOptions returns every n-th node of the shipped trace, and a shipped list of tasks.
func sampleOptions(t *testing.T, n int, list string) Options {
	t.Helper()
	nodes, err := trace.DefaultNodes()
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := trace.ReadTaskList(list)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Tasks: tasks, Strategy: placement.LeastFragmentation, Seeds: 2}
	for i := 0; i < len(nodes); i += n {
		o.Nodes = append(o.Nodes, nodes[i])
	}
	return o
}

func run(t *testing.T, o Options) Result {
	t.Helper()
	r, err := FillCluster(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	r.TasksPerSecond = 0 // the only figure that is not the same each time
	return r
}

// TestLeastFragmentationBeatsBestFit fills a fifth of the shipped cluster. The margins are about
// half of what is measured.
func TestLeastFragmentationBeatsBestFit(t *testing.T) {
	for list, margin := range map[string]struct{ at100, at130 float64 }{
		"default": {1, 1}, "gpuspec33": {6, 0.5}, "multigpu50": {0.5, 0.5},
	} {
		t.Run(list, func(t *testing.T) {
			o := sampleOptions(t, 5, list)
			ours := run(t, o)
			o.Strategy = placement.BestFit
			fit := run(t, o)
			if ours.AllocAt100 < fit.AllocAt100+margin.at100 || ours.AllocAt130 < fit.AllocAt130+margin.at130 {
				t.Errorf("%.2f / %.2f, best fit %.2f / %.2f", ours.AllocAt100, ours.AllocAt130, fit.AllocAt100,
					fit.AllocAt130)
			}
		})
	}
}

func TestRunIsRepeatable(t *testing.T) {
	o := sampleOptions(t, 20, "gpuspec33")
	first := run(t, o)
	if diff := cmp.Diff(first, run(t, o)); diff != "" {
		t.Error(diff)
	}
	if a, b := first.Seeds[0], first.Seeds[1]; a.AllocAt100 == b.AllocAt100 && a.Refused == b.Refused {
		t.Error("two seeds give the same: they are not used")
	}
}

// TestNoInstanceIsOverfilled checks every instance and task once the cluster is full.
func TestNoInstanceIsOverfilled(t *testing.T) {
	o := sampleOptions(t, 20, "gpuspec33")
	for _, strategy := range placement.ScoringNames() {
		t.Run(strategy, func(t *testing.T) {
			nodes, capacity := gpuNodes(o.Nodes)
			work, err := newWorkload(o.Tasks, strategy)
			if err != nil {
				t.Fatal(err)
			}
			f := newFill(nodes, capacity, work, 1)
			if err := f.offerTasks(context.Background()); err != nil {
				t.Fatal(err)
			}
			constrained, waiting := 0, len(f.snap.ProvisioningTasks())
			for _, v := range f.snap.Instances {
				if v.CPU < 0 || v.Memory < 0 {
					t.Errorf("instance %s has %d CPU and %d MiB left", v.ID, v.CPU, v.Memory)
				}
				for _, free := range v.GPUs {
					if free < 0 {
						t.Errorf("instance %s has devices with %v left", v.ID, v.GPUs)
					}
				}
				for _, task := range v.Tasks {
					def := f.snap.Definitions[task.TaskDefinition]
					if len(task.GPUs) != task.Needs.GPUs {
						t.Errorf("task %s needs %d devices and has %v", task.ID, task.Needs.GPUs, task.GPUs)
					}
					if len(def.Constraints) == 1 {
						constrained++
						if !strings.Contains(def.Constraints[0].Expression,
							"'"+v.Attributes[trace.ModelAttribute]+"'") {
							t.Errorf("task with %s is on %s", def.Constraints[0].Expression,
								v.Attributes[trace.ModelAttribute])
						}
					}
				}
			}
			if constrained == 0 || waiting == 0 || waiting != f.result.Refused {
				t.Errorf("%d tasks with a model, %d wait, %d were refused", constrained, waiting, f.result.Refused)
			}
		})
	}
}

func TestProtocol(t *testing.T) {
	node := trace.Node{Name: "n", CPUMilli: 8000, MemoryMiB: 8192, GPUs: 2, Model: "T4"}
	cpuOnly := trace.Node{Name: "c", CPUMilli: 8000, MemoryMiB: 8192}
	whole := trace.Task{Name: "w", CPUMilli: 1000, MemoryMiB: 1024, GPUs: 1, GPUMilli: 1000}
	most := trace.Task{Name: "m", CPUMilli: 1000, MemoryMiB: 1024, GPUs: 1, GPUMilli: 600}
	other := trace.Task{Name: "o", CPUMilli: 1000, MemoryMiB: 1024, GPUs: 1, GPUMilli: 1000,
		Models: []string{"it's", `"`}}
	for name, c := range map[string]struct {
		tasks []trace.Task
		want  Fill
	}{
		// 2 of 2 GPUs are asked for by two tasks, 2.6 only by three.
		"MeasuresAtBothMoments": {[]trace.Task{whole},
			Fill{Seed: 1, AllocAt100: 100, AllocAt130: 100, Placed: 2, Refused: 1}},
		// 600 on each device; four ask for 2.4, more than 2; five for 3, more than 2.6.
		"CountsWhatIsAllocatedNotAsked": {[]trace.Task{most},
			Fill{Seed: 1, AllocAt100: 60, AllocAt130: 60, Placed: 2, Refused: 3}},
		"HonoursModels": {[]trace.Task{other}, Fill{Seed: 1, Refused: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Nodes: []trace.Node{cpuOnly, node}, Tasks: c.tasks, Strategy: placement.LeastFragmentation,
				Seeds: 1}
			r := run(t, o)
			if diff := cmp.Diff([]Fill{c.want}, r.Seeds); diff != "" || r.Nodes != 1 || r.GPUs != 2 {
				t.Errorf("%d nodes with %d GPUs; %s", r.Nodes, r.GPUs, diff)
			}
		})
	}
	t.Run("TakesEachTaskOnceFirst", func(t *testing.T) {
		var tasks []trace.Task
		for _, milli := range []int{100, 200, 300, 400} { // 1 GPU in all, half of what there is
			tasks = append(tasks, trace.Task{Name: string(rune('a' + milli)), GPUs: 1, GPUMilli: milli})
		}
		o := Options{Nodes: []trace.Node{node}, Tasks: tasks, Strategy: placement.BestFit, Seeds: 1}
		offered := []int{}
		o.Progress = func(_, n int) { offered = append(offered, n) }
		if r := run(t, o); r.Seeds[0].Placed < 5 || len(offered) == 0 {
			t.Errorf("%+v, progress %v", r.Seeds[0], offered)
		}
	})
}

func TestRefusals(t *testing.T) {
	node := trace.Node{Name: "n", CPUMilli: 8000, MemoryMiB: 8192, GPUs: 2}
	task := trace.Task{Name: "w", GPUs: 1, GPUMilli: 1000}
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"NoGPUs": {Options{Nodes: []trace.Node{{Name: "n"}}, Tasks: []trace.Task{task}},
			"no node has GPUs, expected at least one to fill"},
		"NobodyAsks": {Options{Nodes: []trace.Node{node}, Tasks: []trace.Task{{Name: "w"}}},
			"no task needs GPUs, expected at least one to fill the nodes with"},
		"Quotes": {Options{Nodes: []trace.Node{node},
			Tasks: []trace.Task{{Name: "w", GPUs: 1, GPUMilli: 1000, Models: []string{`'"`}}}},
			`task w: GPU model "'\"" has both kinds of quotes, expected one at most`},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.Seeds = 1
			if _, err := FillCluster(context.Background(), c.o); err == nil || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	t.Run("Interrupted", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := FillCluster(ctx, Options{Nodes: []trace.Node{node}, Tasks: []trace.Task{task}, Seeds: 1}); !errors.Is(err,
			context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}
