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

// placed is what became of the new tasks.
type placed struct {
	fresh []*cluster.Task
	left  []unplaced
}

// unplaced are new tasks of a partition that have no instance.
type unplaced struct {
	of *partition
	newcomers
}

// count is how many found an instance.
func (p *placed) count() int {
	if p == nil {
		return 0
	}
	return len(p.fresh)
}

// place places the new tasks of all partitions as rows.
func (s *session) place() (*placed, error) {
	if s.placement != nil {
		return s.placement, nil
	}
	w, err := s.world()
	if refused(err) {
		return &placed{}, nil
	}
	if err != nil {
		return nil, err
	}
	out := &placed{}
	s.placement = out
	for _, n := range w.newcomers() {
		result := w.engine.Place(w.request(n.of, n.newcomers))
		for _, at := range result.Placed {
			out.fresh = append(out.fresh, w.put(n.of, at.Instance, n.loads))
		}
		if (len(result.Placed) < n.count) != (result.Diagnosis != nil) {
			return nil, fmt.Errorf("%d of %d found an instance, and the diagnosis is %v", len(result.Placed), n.count, result.Diagnosis)
		}
		if n.count -= len(result.Placed); n.count > 0 {
			out.left = append(out.left, n)
		}
	}
	return out, nil
}

// newcomers are the new tasks of all partitions. A case asks for all of them at once: those with the largest loads come
// first.
func (w *world) newcomers() (out []unplaced) {
	for _, p := range w.partitions {
		if p.asked.OnEveryNode && w.c.Add == nil {
			p.want = []newcomers{{count: len(w.engine.EligibleInstances(p.spec)), spec: p.spec}}
		}
		for _, g := range p.want {
			if g.count > 0 {
				out = append(out, unplaced{p, g})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b unplaced) int { return cmp.Compare(b.size(), a.size()) })
	return out
}

// size is the loads of one of the tasks, all metrics together.
func (g newcomers) size() (n int64) {
	for _, l := range g.spec.Loads {
		n += l.Load
	}
	return n
}

func (w *world) request(p *partition, g newcomers) placement.Request {
	return placement.Request{Spec: g.spec, Count: g.count, Target: p.row.Desired, Seed: 1}
}

// one is a task of the partition.
func (w *world) one(p *partition) placement.Request {
	return w.request(p, newcomers{count: 1, spec: p.spec})
}

// those are the tasks that "placed" is about: the new ones where the case asks for a number of them or for one on every
// node, and where it gives a target all that are then in place.
func (s *session) those() ([]*cluster.Task, error) {
	out, err := s.place()
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
	tasks, err := s.those()
	return len(tasks), err
}

// group is a set of nodes and how many tasks lie in it.
type group struct {
	Nodes []string `json:"nodes"`
	Count int      `json:"count"`
}

// lie compares how many of the tasks lie in each set of nodes.
func lie(tasks []*cluster.Task, data json.RawMessage) error {
	var want []group
	if err := strict(data, &want); err != nil {
		return err
	}
	for _, g := range want {
		n := 0
		for _, t := range tasks {
			if slices.Contains(g.Nodes, t.Instance) {
				n++
			}
		}
		if err := same(n, g.Count); err != nil {
			return fmt.Errorf("in %v: %w, they are on %v", g.Nodes, err, nodesOf(tasks))
		}
	}
	return nil
}

func checkPlacedOn(s *session, data json.RawMessage) error {
	tasks, err := s.those()
	if err != nil {
		return err
	}
	return lie(tasks, data)
}

func checkPerNode(s *session, data json.RawMessage) error {
	tasks, err := s.those()
	if err != nil {
		return err
	}
	return perNode(tasks, data)
}

// perNode compares how many of the tasks there are on each of the nodes named.
func perNode(tasks []*cluster.Task, data json.RawMessage) error {
	var want map[string]int
	if err := strict(data, &want); err != nil {
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
	return same(got, want)
}

// checkPerPartition compares how many tasks each partition has: one number for all, or one each.
func checkPerPartition(s *session, data json.RawMessage) error {
	tasks, err := s.those()
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
			return fmt.Errorf("partition %s: %w", p.name, same(n, expected))
		}
	}
	return nil
}

// placeable are the nodes where a task of the first partition could be placed as things stand at the start.
func (s *session) placeable() ([]string, error) {
	w, err := newWorld(s.c)
	if refused(err) {
		return []string{}, nil
	}
	if err != nil {
		return nil, err
	}
	p := w.partitions[0]
	out := []string{}
	for _, n := range s.c.Nodes {
		if _, rejected := w.engine.CheckInstance(w.snap.Instances[n.Name], w.one(p)); rejected == nil {
			out = append(out, n.Name)
		}
	}
	return out, nil
}

// stops are the tasks that are chosen to stop; of a service on every node those where it no longer belongs.
func (s *session) stops() ([]*cluster.Task, error) {
	w, err := s.world()
	if err != nil {
		return nil, err
	}
	p := w.partitions[0]
	if p.asked.OnEveryNode && s.c.Drop == 0 {
		eligible := w.engine.EligibleInstances(p.spec)
		return slices.DeleteFunc(slices.Clone(w.snap.TasksOf(p.row.Short)), func(t *cluster.Task) bool {
			return slices.Contains(eligible, t.Instance) && !slices.Contains(p.asked.Blocked, t.Instance)
		}), nil
	}
	return w.engine.ChooseStops(w.request(p, newcomers{count: s.c.Drop, spec: p.spec}), slices.Clone(w.snap.TasksOf(p.row.Short))), nil
}

func nodesOf(tasks []*cluster.Task) []string {
	out := make([]string, len(tasks))
	for i, t := range tasks {
		out[i] = t.Instance
	}
	slices.Sort(out)
	return out
}
