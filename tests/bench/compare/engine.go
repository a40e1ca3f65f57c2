package main

import (
	"fmt"
	"slices"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/snapshot"
	"berth/shared/state"
	"berth/tests/bench/workload"
)

// engine runs a workload through Berth's placement as the handlers do: on a snapshot of rows, with
// a spec for each service, one task at a time. It measures the decision, the row that is made, and
// the two records that end a task: STOPPED, and the row's removal. Making rows, as decoding does,
// is not measured.
type engine struct {
	workload *workload.Workload
	snap     *snapshot.Snapshot
	placer   *placement.Engine
	requests []placement.Request // by service
	rows     []cluster.Task      // by service: what its tasks have in common
	ids      []string
	live     []*cluster.Task // by task, modulo its length
	unused   []*cluster.Task // rows that the snapshot has forgotten
	next     *cluster.Task   // row of the task that comes next
	last     *cluster.Task   // row of the task that leaves
	placed   []placement.Placement
}

// newEngine returns Berth's placement with the workload's instances and services, without tasks.
func newEngine(w *workload.Workload) (*engine, error) {
	e := &engine{workload: w, snap: snapshot.NewSnapshot(), live: make([]*cluster.Task, w.Live)}
	for i := range w.Instances {
		e.snap.Put(instanceRow(&w.Instances[i]))
	}
	for i := range w.Services {
		def, service := definitionRow(&w.Services[i]), serviceRow(&w.Services[i])
		e.snap.Put(def)
		e.snap.Put(service)
		r, err := newRequest(def, service)
		if err != nil {
			return nil, err
		}
		e.requests = append(e.requests, r)
		e.rows = append(e.rows, taskRow(def, service))
	}
	for i := range 2 * w.Live {
		e.ids = append(e.ids, fmt.Sprintf("%032x", i))
	}
	e.placer = placement.New(e.snap)
	return e, nil
}

// newRequest returns a request for one task of a service.
func newRequest(def *cluster.TaskDefinition, s *cluster.Service) (placement.Request, error) {
	spec, err := placement.NewSpec(def, s.Short, taskRow(def, s).Group, &s.Rules)
	if err != nil {
		return placement.Request{}, fmt.Errorf("service %s: %w", s.Name, err)
	}
	return placement.Request{Spec: spec, Count: 1, Target: s.Desired}, nil
}

// newRow returns a new row for the task.
func (e *engine) newRow(task, service int) *cluster.Task {
	t := e.blankRow()
	*t = e.rows[service]
	t.ID = e.ids[task%len(e.ids)]
	return t
}

// blankRow returns a row with any content, a forgotten one if there is one.
func (e *engine) blankRow() *cluster.Task {
	n := len(e.unused)
	if n == 0 {
		return new(cluster.Task)
	}
	t := e.unused[n-1]
	e.unused = e.unused[:n-1]
	return t
}

// Seat implements workload.Engine.
func (e *engine) Seat(task, service, instance int) error {
	t, v := e.newRow(task, service), e.snap.InstancesByIndex()[instance]
	for device, free := range v.GPUs {
		if free == cluster.WholeGPU && len(t.GPUs) < t.Needs.GPUs {
			t.GPUs = append(slices.Clip(t.GPUs), device)
		}
	}
	return e.putRow(task, t, v)
}

// putRow adds the row to the snapshot.
func (e *engine) putRow(task int, t *cluster.Task, v *snapshot.InstanceView) error {
	t.Instance = v.ID
	if !e.snap.Put(t) {
		return fmt.Errorf("the snapshot has task %s already", t.ID)
	}
	e.live[task%len(e.live)] = t
	return nil
}

// Ready implements workload.Engine. In the steady state the engine knows every service. If there
// are tasks, it is asked once for each service, without making a row. A run from empty includes
// that cost.
func (e *engine) Ready() error {
	if e.snap.TaskCount() == 0 {
		return nil
	}
	for _, r := range e.requests {
		e.placed = e.placer.PlaceInto(e.placed[:0], r).Placed
	}
	return nil
}

// Prepare implements workload.Engine.
func (e *engine) Prepare(task, service int) {
	if e.next == nil {
		e.next = e.blankRow()
	}
	e.unused = append(e.unused, e.next)
	e.next = e.newRow(task, service)
	if e.last == nil {
		e.last = e.blankRow()
	}
}

// Place implements workload.Engine.
func (e *engine) Place(task, service int) (workload.Placement, error) {
	r := e.requests[service]
	r.Seed = uint64(task)
	before := e.placer.InstanceVisits()
	e.placed = e.placer.PlaceInto(e.placed[:0], r).Placed
	out := workload.Placement{Instance: workload.None, Considered: int(e.placer.InstanceVisits() - before)}
	if len(e.placed) == 0 {
		return out, nil
	}
	t, v := e.next, e.snap.Instances[e.placed[0].Instance]
	e.next, t.GPUs, out.Instance = nil, e.placed[0].GPUs, v.Index
	return out, e.putRow(task, t, v)
}

// Leave implements workload.Engine.
func (e *engine) Leave(task, _, _ int) error {
	t, ended := e.live[task%len(e.live)], e.last
	*ended = *t
	ended.Rev, ended.Desired, ended.Last = t.Rev+1, cluster.TaskStopped, cluster.TaskStopped
	if !e.snap.Put(ended) || !e.snap.ApplyRecord(state.Record{Op: state.Remove, Old: ended}) {
		return fmt.Errorf("the snapshot does not have task %s", t.ID)
	}
	e.last, e.unused = nil, append(e.unused, t, ended)
	return nil
}
