package pack

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"berth/cmd/berth/trace"
	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/placement"
)

const (
	clusterName = "pack"
	// modelAttribute is the attribute of an instance that names the model of its GPUs.
	modelAttribute = "gpu-model"
)

// world is the cluster as rows, and the engine on it.
type world struct {
	snap   *cluster.Snapshot
	engine *placement.Engine
	tasks  int
	answer []placement.Placement
}

// newWorld is an empty cluster of the nodes.
func newWorld(nodes []trace.Node) *world {
	w := &world{snap: cluster.NewSnapshot()}
	for i, n := range nodes {
		in := &cluster.Instance{
			Head: head(), ID: fmt.Sprintf("%08d", i), Status: cluster.InstanceActive, AgentConnected: true,
			Registered: cluster.Capacity{CPU: n.CPUMilli * cluster.MilliVCPU, Memory: n.MemoryMiB, GPUs: make([]string, n.GPUs)},
			Attributes: map[string]string{},
		}
		if n.Model != "" {
			in.Attributes[modelAttribute] = n.Model
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
		Head: head(), ID: strconv.Itoa(w.tasks), Owner: clusterName, TaskDefinition: s.definition.Name(),
		Needs: s.definition.Needs, Desired: cluster.TaskRunning,
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
	trace.Pod
	shape *shape
}

// shape is what tasks that need and want the same have in common.
type shape struct {
	definition *cluster.TaskDefinition
	spec       *placement.Spec
}

func prepare(tasks []trace.Pod, strategy string) (*work, error) {
	w := &work{tasks: make([]task, len(tasks))}
	known := map[string]*shape{}
	for i, t := range tasks {
		models := slices.Compact(slices.Sorted(slices.Values(t.Models)))
		key := fmt.Sprint(t.CPUMilli, t.MemoryMiB, t.GPUs, t.GPUMilli, models)
		s := known[key]
		if s == nil {
			var err error
			if s, err = newShape(t, models, len(w.shapes)+1, strategy); err != nil {
				return nil, fmt.Errorf("task %s: %w", t.Name, err)
			}
			known[key] = s
			w.shapes = append(w.shapes, s)
		}
		w.tasks[i] = task{t, s}
	}
	return w, nil
}

func newShape(t trace.Pod, models []string, number int, strategy string) (*shape, error) {
	def := &cluster.TaskDefinition{
		Head: head(), Family: "shape-" + strconv.Itoa(number), Revision: 1,
		Needs: cluster.Resources{CPU: t.CPUMilli * cluster.MilliVCPU, Memory: t.MemoryMiB, GPUs: t.GPUs, GPUMilli: t.GPUMilli},
	}
	spec := &placement.Spec{Needs: def.Needs, Owner: clusterName, Scoring: strategy}
	if len(models) > 0 {
		text, err := memberOf(models)
		if err != nil {
			return nil, err
		}
		expression, err := constraint.ParseQuery(text)
		if err != nil {
			return nil, fmt.Errorf("gpu_spec %q: %w", t.Models, err)
		}
		def.Constraints = []cluster.PlacementConstraint{{Type: cluster.MemberOf, Expression: text}}
		spec.Constraints = []*constraint.Expression{expression}
	}
	return &shape{def, spec}, nil
}

// memberOf is the constraint that an instance's GPUs are one of the models.
func memberOf(models []string) (string, error) {
	quoted := make([]string, len(models))
	for i, m := range models {
		switch {
		case !strings.Contains(m, "'"):
			quoted[i] = "'" + m + "'"
		case !strings.Contains(m, `"`):
			quoted[i] = `"` + m + `"`
		default:
			return "", fmt.Errorf("GPU model %.60q has both kinds of quotes, expected one at most", m)
		}
	}
	return "attribute:" + modelAttribute + " in [" + strings.Join(quoted, ", ") + "]", nil
}

// define has the cluster know the tasks' definitions.
func (w *work) define(into *world) {
	for _, s := range w.shapes {
		into.snap.Put(s.definition)
	}
}
