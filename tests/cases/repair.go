package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/placement/moves"
)

// A repair is what is broken and the moves that repair it, or that make room for new tasks.
type repair struct {
	broken []moves.Violation
	moves  []relocation
	places int    // instances for the new tasks once the moves are over
	after  *world // once they are
}

// countPlaced returns how many new tasks have an instance after the moves.
func (r *repair) countPlaced() int {
	if r == nil {
		return 0
	}
	return r.places
}

// A relocation is a task that ends up on another instance, in any number of steps.
type relocation struct {
	Partition string `json:"partition"`
	From      string `json:"from"`
	To        string `json:"to"`
	task      string
}

func (r relocation) String() string { return fmt.Sprintf("%s:%s>%s", r.Partition, r.From, r.To) }

// moveRequest allows all tasks of the case's services to move, except for those that run on every
// instance.
func (w *world) moveRequest() moves.Request {
	owners := map[string]moves.Owner{}
	for _, p := range w.partitions {
		if !p.asked.OnEveryNode {
			owners[p.row.Short] = moves.Owner{Spec: p.spec, Target: p.row.Desired}
		}
	}
	return moves.Request{Owners: owners, Cost: func(t *cluster.Task) cluster.MoveCost { return w.costs[t.ID] }}
}

// planRepair plans the moves: with new tasks, those that make room for the ones without an
// instance; otherwise those that repair violations.
func (s *session) planRepair() (*repair, error) {
	if s.repair != nil {
		return s.repair, nil
	}
	w, err := newWorld(s.c)
	if err != nil {
		return nil, err
	}
	plan := w.mover.PlanMoves(w.moveRequest())
	out := &repair{broken: plan.Violations, after: w}
	if slices.ContainsFunc(w.partitions, func(p *partition) bool { return p.newTaskCount() > 0 }) {
		err = s.makeRoom(out)
	} else {
		out.carryOut(netMoves(plan.Moves))
	}
	s.repair = out
	return out, err
}

// makeRoom places all new tasks, moving others only for those that fit nowhere.
func (s *session) makeRoom(out *repair) error {
	again := &session{c: s.c}
	placed, err := again.placeTasks()
	if err != nil {
		return err
	}
	w := again.w
	out.places, out.after = len(placed.fresh), w
	for _, left := range placed.left {
		plan := w.mover.MakeRoom(w.requestFor(left.of, left.newcomers), w.moveRequest())
		out.carryOut(netMoves(plan.Moves))
		out.places += len(plan.Places)
		for _, node := range plan.Places {
			w.putTask(left.of, node, left.loads)
		}
	}
	return nil
}

// carryOut carries out the moves.
func (r *repair) carryOut(moves []relocation) {
	r.moves = append(r.moves, moves...)
	for _, m := range moves {
		r.after.relocateTask(m)
	}
}

// relocateTask puts the task on its new instance.
func (w *world) relocateTask(m relocation) {
	t := *w.snap.Task(m.Partition, m.task)
	t.Rev++
	t.Instance = m.To
	w.snap.Put(&t)
}

// netMoves returns where each moved task comes from and where it ends.
func netMoves(moves []moves.Move) []relocation {
	var out []relocation
	for _, m := range moves {
		at := slices.IndexFunc(out, func(r relocation) bool { return r.task == m.Task && r.Partition == m.Owner })
		if at < 0 {
			out = append(out, relocation{Partition: m.Owner, From: m.From, To: m.To, task: m.Task})
			continue
		}
		out[at].To = m.To
	}
	return slices.DeleteFunc(out, func(r relocation) bool { return r.From == r.To })
}

func (s *session) countMoves() (int, error) {
	r, err := s.planRepair()
	if err != nil {
		return 0, err
	}
	return len(r.moves), nil
}

// violatedRules returns the kinds of rules that are broken at the start.
func (s *session) violatedRules() ([]string, error) {
	r, err := s.planRepair()
	if err != nil {
		return nil, err
	}
	names := map[placement.Rule]string{
		placement.RuleCapacity: "capacity", placement.RulePlacement: "placement_constraint", placement.RuleFault: "fd",
		placement.RuleUpgrade: "ud", placement.RuleOccupied: "replica_exclusion",
		placement.RuleAffinity: "affinity", placement.RuleApplication: "application",
	}
	out := []string{}
	for _, v := range r.broken {
		name, ok := names[v.Rule]
		if !ok {
			return nil, fmt.Errorf("unknown rule %q", v.Rule)
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out, nil
}

// expectMoveEnds returns a check that one end of every move is in a set of nodes.
func expectMoveEnds(end func(relocation) string) check {
	return func(s *session, data json.RawMessage) error {
		var nodes []string
		if err := decodeExpectation(data, &nodes); err != nil {
			return err
		}
		r, err := s.planRepair()
		if err != nil {
			return err
		}
		for _, m := range r.moves {
			if !slices.Contains(nodes, end(m)) {
				return fmt.Errorf("%s of %s is none of %v", end(m), m, nodes)
			}
		}
		return nil
	}
}

// checkMoved compares the moves, or the beginning of the names of all partitions that move.
func checkMoved(s *session, data json.RawMessage) error {
	r, err := s.planRepair()
	if err != nil {
		return err
	}
	var prefix string
	if err := json.Unmarshal(data, &prefix); err == nil {
		for _, m := range r.moves {
			if !strings.HasPrefix(m.Partition, prefix) {
				return fmt.Errorf("%s is not of %s", m, prefix)
			}
		}
		return nil
	}
	var want []relocation
	if err := decodeExpectation(data, &want); err != nil {
		return err
	}
	text := func(moves []relocation) []string {
		out := make([]string, len(moves))
		for i, m := range moves {
			out[i] = m.String()
		}
		slices.Sort(out)
		return out
	}
	return compareValues(text(r.moves), text(want))
}

// finalTasks returns the tasks after everything is done: placed, moved, stopped.
func (s *session) finalTasks() ([]*cluster.Task, error) {
	if s.c.Drop > 0 {
		stops, err := s.tasksToStop()
		if err != nil {
			return nil, err
		}
		all := slices.Clone(s.w.snap.TasksOf(s.w.partitions[0].row.Short))
		return slices.DeleteFunc(all, func(t *cluster.Task) bool { return slices.Contains(stops, t) }), nil
	}
	r, err := s.planRepair()
	if err != nil {
		return nil, err
	}
	var out []*cluster.Task
	for _, p := range r.after.partitions {
		out = append(out, r.after.snap.TasksOf(p.row.Short)...)
	}
	return out, nil
}

func checkFinalCounts(s *session, data json.RawMessage) error {
	tasks, err := s.finalTasks()
	if err != nil {
		return err
	}
	return comparePerNode(tasks, data)
}

// checkKept checks that the tasks on the nodes are still there at the end.
func checkKept(s *session, data json.RawMessage) error {
	var nodes []string
	if err := decodeExpectation(data, &nodes); err != nil {
		return err
	}
	tasks, err := s.finalTasks()
	if err != nil {
		return err
	}
	on := nodesOf(tasks)
	for _, node := range nodes {
		if !slices.Contains(on, node) {
			return fmt.Errorf("none is left on %s, they are on %v", node, on)
		}
	}
	return nil
}

// checkForbidden checks that no task comes to the nodes.
func checkForbidden(s *session, data json.RawMessage) error {
	var nodes []string
	if err := decodeExpectation(data, &nodes); err != nil {
		return err
	}
	placed, err := s.placeTasks()
	if err != nil {
		return err
	}
	r, err := s.planRepair()
	if err != nil {
		return err
	}
	for _, t := range placed.fresh {
		if slices.Contains(nodes, t.Instance) {
			return fmt.Errorf("%s was placed on %s", t.ID, t.Instance)
		}
	}
	for _, m := range r.moves {
		if slices.Contains(nodes, m.To) {
			return fmt.Errorf("%s was moved there", m)
		}
	}
	return nil
}
