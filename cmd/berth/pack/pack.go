// Package pack measures how much of a cluster's GPUs a scoring gets to use: it fills the GPU nodes
// of a trace with its tasks, one by one, through the production engine. It follows the protocol of
// Weng et al., "Beware of Fragmentation" (USENIX ATC 2023), so that its figures compare with the
// published ones.
package pack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"berth/cmd/berth/trace"
	"berth/shared/placement"
)

// Options say what to fill and how.
type Options struct {
	Nodes    []trace.Node
	Tasks    []trace.Task
	Strategy string // a scoring of the engine, see [placement.Scorings]
	Seeds    int    // how often it is repeated, with the tasks in another order
	// Progress, where set, is called now and then with the seed under way and the tasks that have
	// been offered so far.
	Progress func(seed, offered int)
}

// Result is the mean over the seeds.
type Result struct {
	Strategy string `json:"strategy"`
	// AllocAt100 and AllocAt130 are the GPUs allocated, in % of the cluster's, at the moment when
	// the demand of the tasks offered so far reaches 100 % and 130 % of them.
	AllocAt100     float64 `json:"allocAt100"`
	AllocAt130     float64 `json:"allocAt130"`
	TasksPerSecond float64 `json:"tasksPerSecond"` // offered, one thread
	Nodes          int     `json:"nodes"`          // with GPUs
	GPUs           int     `json:"gpus"`
	Seeds          []Fill  `json:"seeds"`
}

// Fill is one time that the cluster was filled.
type Fill struct {
	Seed       int     `json:"seed"`
	AllocAt100 float64 `json:"allocAt100"`
	AllocAt130 float64 `json:"allocAt130"`
	Placed     int     `json:"placed"`
	Refused    int     `json:"refused"`
}

// The demand, in % of the GPUs, at which the allocation is measured; the last ends it.
const (
	fullDemand  = 100
	finalDemand = 130
)

// Run fills the cluster once per seed.
func Run(ctx context.Context, o Options) (Result, error) {
	out := Result{Strategy: o.Strategy}
	nodes, capacity := gpuNodes(o.Nodes)
	if len(nodes) == 0 {
		return out, errors.New("no node has GPUs, expected at least one to fill")
	}
	if demand(o.Tasks) == 0 {
		return out, errors.New("no task needs GPUs, expected at least one to fill the nodes with")
	}
	out.Nodes, out.GPUs = len(nodes), int(capacity/1000)
	work, err := prepare(o.Tasks, o.Strategy)
	if err != nil {
		return out, err
	}
	offered, took := 0, time.Duration(0)
	for seed := 1; seed <= o.Seeds; seed++ {
		f := &fill{work: work, world: newWorld(nodes), capacity: capacity, result: Fill{Seed: seed}}
		f.work.define(f.world)
		if o.Progress != nil {
			f.progress = func(n int) { o.Progress(seed, offered+n) }
		}
		began := time.Now()
		if err := f.run(ctx); err != nil {
			return out, err
		}
		took += time.Since(began)
		offered += f.result.Placed + f.result.Refused
		out.AllocAt100 += f.result.AllocAt100 / float64(o.Seeds)
		out.AllocAt130 += f.result.AllocAt130 / float64(o.Seeds)
		out.Seeds = append(out.Seeds, f.result)
	}
	out.TasksPerSecond = float64(offered) / took.Seconds()
	return out, nil
}

// gpuNodes are the nodes with GPUs, and the thousandths of those.
func gpuNodes(nodes []trace.Node) (out []trace.Node, capacity int64) {
	for _, n := range nodes {
		if n.GPUs > 0 {
			out = append(out, n)
			capacity += int64(n.GPUs) * 1000
		}
	}
	return out, capacity
}

func demand(tasks []trace.Task) (sum int64) {
	for _, t := range tasks {
		sum += gpuMilli(t)
	}
	return sum
}

func gpuMilli(t trace.Task) int64 { return int64(t.GPUs) * int64(t.GPUMilli) }

// fill is one cluster on its way to being full.
type fill struct {
	*world
	work     *work
	capacity int64 // GPU thousandths
	result   Fill
	progress func(offered int)
}

// checkEvery is how many tasks go by between looks at the context.
const checkEvery = 1024

// run offers every task once, in random order, and after that tasks drawn at random, until they
// have asked for enough. Nobody leaves; who finds no room waits, and is not offered again.
func (f *fill) run(ctx context.Context) error {
	random := rand.New(rand.NewPCG(uint64(f.result.Seed), 0))
	order := random.Perm(len(f.work.tasks))
	asked, allocated := int64(0), int64(0)
	for n := 0; 100*asked < finalDemand*f.capacity; n++ {
		if n%checkEvery == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			if f.progress != nil {
				f.progress(n)
			}
		}
		at := 0
		if n < len(order) {
			at = order[n]
		} else {
			at = random.IntN(len(f.work.tasks))
		}
		task := f.work.tasks[at]
		placed, err := f.offer(task.shape)
		if err != nil {
			return fmt.Errorf("task %s: %w", task.Name, err)
		}
		if placed {
			f.result.Placed++
			allocated += gpuMilli(task.Task)
		} else {
			f.result.Refused++
		}
		before := asked
		asked += gpuMilli(task.Task)
		share := 100 * float64(allocated) / float64(f.capacity)
		if 100*before < fullDemand*f.capacity {
			f.result.AllocAt100 = share
		}
		f.result.AllocAt130 = share
	}
	return nil
}

// offer places one task of the shape, or has it wait.
func (f *fill) offer(s *shape) (placed bool, err error) {
	f.answer = f.engine.PlaceInto(f.answer[:0], placement.Request{Spec: s.spec, Count: 1, Unexplained: true}).Placed
	if len(f.answer) == 0 {
		return false, f.wait(s)
	}
	return true, f.start(s, f.answer[0])
}

// Print writes the result for people.
func (r Result) Print(w io.Writer) error {
	_, err := fmt.Fprintf(w, `%s on %d nodes with %d GPUs, mean of %d seeds
GPUs allocated      %.2f%% when tasks ask for %d%% of them, %.2f%% at %d%%
speed               %.0f tasks/s
`, r.Strategy, r.Nodes, r.GPUs, len(r.Seeds), r.AllocAt100, fullDemand, r.AllocAt130, finalDemand, r.TasksPerSecond)
	return err
}
