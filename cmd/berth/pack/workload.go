package pack

import (
	"fmt"
	"strconv"

	"berth/cmd/berth/trace"
	"berth/shared/cluster"
	"berth/shared/placement"
)

// clusterName is also the owner of all tasks: they belong to no service.
const clusterName = "pack"

// workload is the tasks to offer, and their shapes.
type workload struct {
	tasks  []task
	shapes []*shape
}

// task is one task to offer.
type task struct {
	trace.Task
	shape *shape
}

// shape is what tasks with the same needs and constraint have in common. The engine caches by spec,
// so tasks must share theirs.
type shape struct {
	definition *cluster.TaskDefinition
	spec       *placement.Spec
}

// newWorkload gives each task its shape.
func newWorkload(tasks []trace.Task, strategy string) (*workload, error) {
	type key struct {
		needs      cluster.Resources
		constraint string
	}
	w := &workload{tasks: make([]task, len(tasks))}
	known := map[key]*shape{}
	for i, t := range tasks {
		k := key{needs: cluster.Resources{CPU: t.CPUMilli * cluster.MilliVCPU, Memory: t.MemoryMiB, GPUs: t.GPUs,
			GPUMilli: int32(t.GPUMilli)}}
		var err error
		if k.constraint, err = t.ModelConstraint(); err != nil {
			return nil, fmt.Errorf("task %s: %w", t.Name, err)
		}
		s := known[k]
		if s == nil {
			if s, err = newShape(len(w.shapes)+1, k.needs, k.constraint, strategy); err != nil {
				return nil, fmt.Errorf("task %s: %w", t.Name, err)
			}
			known[k] = s
			w.shapes = append(w.shapes, s)
		}
		w.tasks[i] = task{t, s}
	}
	return w, nil
}

// newShape makes the task definition and the spec of a shape. constraint may be empty.
func newShape(number int, needs cluster.Resources, constraint, strategy string) (*shape, error) {
	def := &cluster.TaskDefinition{Head: rowHead, Family: "shape-" + strconv.Itoa(number), Revision: 1, Needs: needs}
	if constraint != "" {
		def.Constraints = []cluster.PlacementConstraint{{Type: cluster.MemberOf, Expression: constraint}}
	}
	spec, err := placement.NewSpec(def, clusterName, "", &cluster.Rules{Scoring: strategy})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", constraint, err)
	}
	return &shape{def, spec}, nil
}

// rowHead is the head of every row: nothing here is stored or changed.
var rowHead = cluster.Head{Cluster: clusterName, Rev: 1}

// gpuDemand is what a task asks for, in thousandths of GPUs.
func gpuDemand(t trace.Task) int64 { return int64(t.GPUs) * int64(t.GPUMilli) }
