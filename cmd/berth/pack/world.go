package pack

import (
	"fmt"
	"slices"
	"strconv"

	"berth/cmd/berth/trace"
	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/snapshot"
)

const clusterName = "pack"

// world is the cluster as rows, and the engine on it.
type world struct {
	snap   *snapshot.Snapshot
	engine *placement.Engine
	tasks  int
	answer []placement.Placement
}

// newWorld is an empty cluster of the nodes.
func newWorld(nodes []trace.Node) *world {
	w := &world{snap: snapshot.NewSnapshot()}
	for i, n := range nodes {
		in := &cluster.Instance{
			Head: head(), ID: fmt.Sprintf("%08d", i), Status: cluster.InstanceActive, AgentConnected: true,
			Registered: cluster.Capacity{CPU: n.CPUMilli * cluster.MilliVCPU, Memory: n.MemoryMiB,
				GPUs: make([]string, n.GPUs)},
			Attributes: map[string]string{},
		}
		if n.Model != "" {
			in.Attributes[trace.ModelAttribute] = n.Model
		}
		w.snap.Put(in)
	}
	w.engine = placement.New(w.snap)
	return w
}

func head() cluster.Head { return cluster.Head{Cluster: clusterName, Rev: 1} }

// start commits a placement.
func (w *world) start(s *shape, p placement.Placement) error {
	t := w.task(s)
	t.Instance, t.GPUs = p.Instance, slices.Clone(p.GPUs)
	return w.put(t)
}

// wait leaves a task without an instance.
func (w *world) wait(s *shape) error { return w.put(w.task(s)) }

func (w *world) task(s *shape) *cluster.Task {
	w.tasks++
	return &cluster.Task{
		Head: head(),
		TaskSpec: cluster.TaskSpec{
			ID: strconv.Itoa(w.tasks), Owner: clusterName, TaskDefinition: s.definition.Name(),
			Needs: s.definition.Needs,
		},
		TaskAssignment: cluster.TaskAssignment{Desired: cluster.TaskRunning},
	}
}

func (w *world) put(t *cluster.Task) error {
	if !w.snap.Put(t) {
		return fmt.Errorf("the snapshot does not take in task %s", t.ID)
	}
	return nil
}

// work is the tasks to offer, with what the engine is asked for them.
type work struct {
	tasks  []task
	shapes []*shape
}

type task struct {
	trace.Task
	shape *shape
}

// shape is what tasks that need and want the same have in common.
type shape struct {
	definition *cluster.TaskDefinition
	spec       *placement.Spec
}

func prepare(tasks []trace.Task, strategy string) (*work, error) {
	type key struct {
		needs      cluster.Resources
		constraint string
	}
	w := &work{tasks: make([]task, len(tasks))}
	known := map[key]*shape{}
	for i, t := range tasks {
		needs := cluster.Resources{CPU: t.CPUMilli * cluster.MilliVCPU, Memory: t.MemoryMiB, GPUs: t.GPUs,
			GPUMilli: int32(t.GPUMilli)}
		where, err := t.ModelConstraint()
		if err != nil {
			return nil, fmt.Errorf("task %s: %w", t.Name, err)
		}
		s := known[key{needs, where}]
		if s == nil {
			if s, err = newShape(len(w.shapes)+1, needs, where, strategy); err != nil {
				return nil, fmt.Errorf("task %s: %w", t.Name, err)
			}
			known[key{needs, where}] = s
			w.shapes = append(w.shapes, s)
		}
		w.tasks[i] = task{t, s}
	}
	return w, nil
}

func newShape(number int, needs cluster.Resources, where, strategy string) (*shape, error) {
	def := &cluster.TaskDefinition{Head: head(), Family: "shape-" + strconv.Itoa(number), Revision: 1, Needs: needs}
	if where != "" {
		def.Constraints = []cluster.PlacementConstraint{{Type: cluster.MemberOf, Expression: where}}
	}
	spec, err := placement.NewSpec(def, clusterName, "", &cluster.Rules{Scoring: strategy})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	return &shape{def, spec}, nil
}

// define has the cluster know the tasks' definitions.
func (w *work) define(into *world) {
	for _, s := range w.shapes {
		into.snap.Put(s.definition)
	}
}
