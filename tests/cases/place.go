package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"berth/shared/cluster"
	"berth/shared/placement"
)

// A placed says what became of the new tasks.
type placed struct {
	fresh []*cluster.Task
	left  []unplaced
}

// An unplaced is new tasks of a partition that have no instance.
type unplaced struct {
	of *partition
	newcomers
}

// countPlaced returns how many found an instance.
func (p *placed) countPlaced() int {
	if p == nil {
		return 0
	}
	return len(p.fresh)
}

// placeTasks places the new tasks of all partitions and makes rows of them.
func (s *session) placeTasks() (*placed, error) {
	if s.placement != nil {
		return s.placement, nil
	}
	w, err := s.loadWorld()
	if isConstraintError(err) {
		return &placed{}, nil
	}
	if err != nil {
		return nil, err
	}
	out := &placed{}
	s.placement = out
	for _, n := range w.newcomers() {
		result := w.engine.Place(w.requestFor(n.of, n.newcomers))
		for _, at := range result.Placed {
			out.fresh = append(out.fresh, w.putTask(n.of, at.Instance, n.loads))
		}
		if (len(result.Placed) < n.count) != (result.Diagnosis != nil) {
			return nil, fmt.Errorf("%d of %d found an instance, and the diagnosis is %v", len(result.Placed), n.count,
				result.Diagnosis)
		}
		if n.count -= len(result.Placed); n.count > 0 {
			out.left = append(out.left, n)
		}
	}
	return out, nil
}

// newcomers returns the new tasks of all partitions. A case asks for all of them at once: the
// largest loads come first.
func (w *world) newcomers() (out []unplaced) {
	for _, p := range w.partitions {
		if p.asked.OnEveryNode && w.c.Add == nil {
			p.want = nil
			for _, start := range w.planDaemon(p).Starts {
				p.want = append(p.want, newcomers{count: start.Count, spec: p.spec, instances: start.Instances})
			}
		}
		for _, g := range p.want {
			if g.count > 0 {
				out = append(out, unplaced{p, g})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b unplaced) int { return cmp.Compare(b.totalLoad(), a.totalLoad()) })
	return out
}

// totalLoad returns the loads of one of the tasks, summed over all metrics.
func (g newcomers) totalLoad() (n int64) {
	for _, l := range g.spec.Loads {
		n += l.Load
	}
	return n
}

func (w *world) requestFor(p *partition, g newcomers) placement.Request {
	return placement.Request{Spec: g.spec, Count: g.count, Target: p.row.Desired, Seed: 1, Instances: g.instances}
}

// requestOfOne asks for one task of the partition.
func (w *world) requestOfOne(p *partition) placement.Request {
	return w.requestFor(p, newcomers{count: 1, spec: p.spec})
}

// tasksToCount returns the tasks that "placed" counts: the new ones if the case asks for a number
// of them or for one on every node; with a target, all that are in place then.
func (s *session) tasksToCount() ([]*cluster.Task, error) {
	out, err := s.placeTasks()
	if err != nil || s.w == nil {
		return nil, err
	}
	if s.c.Add != nil || len(s.c.New) > 0 || s.c.Service != nil && s.c.Service.OnEveryNode {
		return out.fresh, nil
	}
	var all []*cluster.Task
	for _, p := range s.w.partitions {
		all = append(all, s.w.snap.TasksOf(p.row.Short)...)
	}
	return all, nil
}

func (s *session) countPlaced() (int, error) {
	tasks, err := s.tasksToCount()
	return len(tasks), err
}

// A nodeSet is a set of nodes and how many tasks are on them.
type nodeSet struct {
	Nodes []string `json:"nodes"`
	Count int      `json:"count"`
}

// compareNodeSets compares how many of the tasks are on each set of nodes.
func compareNodeSets(tasks []*cluster.Task, data json.RawMessage) error {
	var want []nodeSet
	if err := decodeExpectation(data, &want); err != nil {
		return err
	}
	for _, g := range want {
		n := 0
		for _, t := range tasks {
			if slices.Contains(g.Nodes, t.Instance) {
				n++
			}
		}
		if err := compareValues(n, g.Count); err != nil {
			return fmt.Errorf("in %v: %w, they are on %v", g.Nodes, err, nodesOf(tasks))
		}
	}
	return nil
}

func checkPlacedOn(s *session, data json.RawMessage) error {
	tasks, err := s.tasksToCount()
	if err != nil {
		return err
	}
	return compareNodeSets(tasks, data)
}

func checkPerNode(s *session, data json.RawMessage) error {
	tasks, err := s.tasksToCount()
	if err != nil {
		return err
	}
	return comparePerNode(tasks, data)
}

// comparePerNode compares how many of the tasks are on each named node.
func comparePerNode(tasks []*cluster.Task, data json.RawMessage) error {
	var want map[string]int
	if err := decodeExpectation(data, &want); err != nil {
		return err
	}
	got := map[string]int{}
	for node := range want {
		got[node] = 0
	}
	for _, t := range tasks {
		if _, named := want[t.Instance]; named {
			got[t.Instance]++
		}
	}
	return compareValues(got, want)
}

// checkPerPartition compares how many tasks each partition has: one number for all, or one each.
func checkPerPartition(s *session, data json.RawMessage) error {
	tasks, err := s.tasksToCount()
	if err != nil {
		return err
	}
	var want PerMetric[int]
	if err := json.Unmarshal(data, &want); err != nil {
		return err
	}
	if s.w == nil {
		return errors.New("no service was made")
	}
	for _, p := range s.w.partitions {
		n := 0
		for _, t := range tasks {
			if t.Owner == p.row.Short {
				n++
			}
		}
		expected, named := want.Named[p.name]
		if want.All != nil {
			expected, named = *want.All, true
		}
		if named && n != expected {
			return fmt.Errorf("partition %s: %w", p.name, compareValues(n, expected))
		}
	}
	return nil
}

// placeableNodes returns the nodes that could run one more task of the first partition at the
// start.
func (s *session) placeableNodes() ([]string, error) {
	w, err := newWorld(s.c)
	if isConstraintError(err) {
		return []string{}, nil
	}
	if err != nil {
		return nil, err
	}
	p := w.partitions[0]
	out := []string{}
	for _, n := range s.c.Nodes {
		if _, rejected := w.engine.CheckInstance(w.snap.Instances[n.Name], w.requestOfOne(p)); rejected == nil {
			out = append(out, n.Name)
		}
	}
	return out, nil
}

// tasksToStop returns the tasks that are chosen to stop: for a service on every node, those where
// it no longer belongs.
func (s *session) tasksToStop() ([]*cluster.Task, error) {
	w, err := s.loadWorld()
	if err != nil {
		return nil, err
	}
	p := w.partitions[0]
	if p.asked.OnEveryNode && s.c.Drop == 0 {
		var stopped []*cluster.Task
		for _, stop := range w.planDaemon(p).Stops {
			stopped = append(stopped, stop.Task)
		}
		return stopped, nil
	}
	return w.engine.ChooseStops(w.requestFor(p, newcomers{count: s.c.Drop, spec: p.spec}),
		slices.Clone(w.snap.TasksOf(p.row.Short))), nil
}

func nodesOf(tasks []*cluster.Task) []string {
	out := make([]string, len(tasks))
	for i, t := range tasks {
		out[i] = t.Instance
	}
	slices.Sort(out)
	return out
}
