package pack

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"berth/cmd/berth/trace"
	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/snapshot"
)

// fill is a cluster that is being filled.
type fill struct {
	snap     *snapshot.Snapshot
	engine   *placement.Engine
	work     *workload
	capacity int64 // of the GPUs, in thousandths
	result   Fill
	curve    []float64         // by each % asked for, how much is allocated
	progress func(offered int) // may be nil
	buffer   []placement.Placement
}

// newFill makes an empty cluster of the nodes, which knows the workload's task definitions.
func newFill(nodes []trace.Node, capacity int64, work *workload, seed int) *fill {
	f := &fill{snap: snapshot.NewSnapshot(), work: work, capacity: capacity, result: Fill{Seed: seed}}
	for i, n := range nodes {
		in := &cluster.Instance{
			Head: rowHead, ID: fmt.Sprintf("%08d", i), Status: cluster.InstanceActive, AgentConnected: true,
			Registered: cluster.Capacity{CPU: n.CPUMilli * cluster.MilliVCPU, Memory: n.MemoryMiB,
				GPUs: make([]string, n.GPUs)},
			Attributes: map[string]string{},
		}
		if n.Model != "" {
			in.Attributes[trace.ModelAttribute] = n.Model
		}
		f.snap.Put(in)
	}
	for _, s := range work.shapes {
		f.snap.Put(s.definition)
	}
	f.engine = placement.New(f.snap)
	return f
}

// tasksPerReport is how many tasks are offered between two reports of progress and two looks at the
// context.
const tasksPerReport = 1024

// offerTasks offers every task once, in random order, and then tasks drawn at random, until they
// have asked for enough.
func (f *fill) offerTasks(ctx context.Context) error {
	random := rand.New(rand.NewPCG(uint64(f.result.Seed), 0))
	order := random.Perm(len(f.work.tasks))
	asked, allocated := int64(0), int64(0)
	for n := 0; 100*asked < finalDemand*f.capacity; n++ {
		if n%tasksPerReport == 0 {
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
		task := &f.work.tasks[at]
		placed, err := f.offerTask(task.shape)
		if err != nil {
			return fmt.Errorf("task %s: %w", task.Name, err)
		}
		if placed {
			f.result.Placed++
			allocated += gpuDemand(task.Task)
		} else {
			f.result.Refused++
		}
		before := asked
		asked += gpuDemand(task.Task)
		share := 100 * float64(allocated) / float64(f.capacity)
		if 100*before < fullDemand*f.capacity {
			f.result.AllocAt100 = share
		}
		f.result.AllocAt130 = share
		for int64(len(f.curve))*f.capacity <= 100*asked && len(f.curve) <= finalDemand {
			f.curve = append(f.curve, share)
		}
	}
	return nil
}

// offerTask places one task of the shape, or leaves it waiting. Waiting tasks stay in the snapshot,
// as they do in production, where scorings see them.
func (f *fill) offerTask(s *shape) (placed bool, err error) {
	f.buffer = f.engine.PlaceInto(f.buffer[:0],
		placement.Request{Spec: s.spec, Count: 1, Unexplained: true}).Placed
	t := &cluster.Task{
		Head: rowHead,
		TaskSpec: cluster.TaskSpec{
			ID: strconv.Itoa(f.result.Placed + f.result.Refused + 1), Owner: clusterName,
			TaskDefinition: s.definition.Name(), Needs: s.definition.Needs,
		},
		TaskAssignment: cluster.TaskAssignment{Desired: cluster.TaskRunning},
	}
	if placed = len(f.buffer) > 0; placed {
		t.Instance, t.GPUs = f.buffer[0].Instance, slices.Clone(f.buffer[0].GPUs)
	}
	if !f.snap.Put(t) {
		return false, fmt.Errorf("the snapshot did not accept task %s", t.ID)
	}
	return placed, nil
}
