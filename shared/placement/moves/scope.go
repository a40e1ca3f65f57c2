package moves

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/placement"
)

// With more than wholeTasks tasks, a problem has only those that moves may involve. The capacity
// that the others use is part of their instances' load. The time then depends on what is broken,
// not on the size of the cluster.
const (
	wholeTasks = 4096
	scopeRoom  = 64  // roomiest instances, for each dimension in which an instance is overloaded
	scopeNew   = 256 // roomiest instances, for each dimension that newcomers need
)

// scopedTasks returns the tasks that count in a problem, in the order of ids.
func scopedTasks(p *problem, e *Planner, m *Request, r *placement.Request) []*cluster.Task {
	var out []*cluster.Task
	if m.whole || e.snap.TaskCount() <= e.wholeTasks || !e.watch.active {
		out = make([]*cluster.Task, 0, e.snap.TaskCount())
		for t := range e.snap.Tasks() {
			out = append(out, t)
		}
	} else {
		out = affectedTasks(p, e, m, affectedInstances(p, r, e))
	}
	sortTasks(out)
	return out
}

// sortTasks sorts tasks by id, then by owner. It compares the first 16 bytes of ids as two numbers:
// the twelve digits of the owner's short key and four more, which hardly any two tasks share.
func sortTasks(tasks []*cluster.Task) {
	type sortKey struct {
		high, low uint64
		task      *cluster.Task
	}
	keys := make([]sortKey, len(tasks))
	for n, t := range tasks {
		var prefix [16]byte
		copy(prefix[:], t.ID)
		keys[n] = sortKey{binary.BigEndian.Uint64(prefix[:8]), binary.BigEndian.Uint64(prefix[8:]), t}
	}
	slices.SortFunc(keys, func(a, b sortKey) int {
		switch {
		case a.high != b.high:
			return cmp.Compare(a.high, b.high)
		case a.low != b.low:
			return cmp.Compare(a.low, b.low)
		}
		return cmp.Or(strings.Compare(a.task.ID, b.task.ID), strings.Compare(a.task.Owner, b.task.Owner))
	})
	for n := range keys {
		tasks[n] = keys[n].task
	}
}

// affectedInstances returns the instances whose tasks count: overloaded ones, and those with the
// most room for what has to leave them, or to come. The roomiest instances are enough: what does
// not fit there fits nowhere without further moves.
func affectedInstances(p *problem, r *placement.Request, e *Planner) map[int32]bool {
	out, wanted := map[int32]bool{}, map[int32]int{}
	for i := range int32(len(p.instances)) {
		for dim := range int32(p.dimensionCount()) {
			if c := p.cellIndex(i, dim); p.instances[i].givesTasks && p.usedOf(c) > p.unbuffered[c] {
				out[i], wanted[dim] = true, scopeRoom
			}
		}
	}
	if r != nil {
		for _, a := range requestedAmounts(p, e, r) {
			wanted[a.dim] = scopeNew
		}
	}
	for dim, most := range wanted {
		for _, i := range roomiestInstances(p, dim, most) {
			out[i] = true
		}
	}
	return out
}

// roomiestInstances returns the instances with the most left of the dimension, among those that
// limit it and take tasks.
func roomiestInstances(p *problem, dim int32, most int) []int32 {
	var all []int32
	for i := range int32(len(p.instances)) {
		if p.instances[i].takesTasks && p.total[p.cellIndex(i, dim)] < unlimited {
			all = append(all, i)
		}
	}
	left := func(i int32) int64 { return p.total[p.cellIndex(i, dim)] - p.usedOf(p.cellIndex(i, dim)) }
	slices.SortFunc(all, func(a, b int32) int { return cmp.Or(cmp.Compare(left(b), left(a)), cmp.Compare(a, b)) })
	return all[:min(len(all), most)]
}

// affectedTasks returns the tasks on these instances, and all tasks of some owners: those with
// tasks where they should not be and, if any of their tasks may move, those whose tasks must not
// share instances. To know whether an instance may get a task of such an owner, a problem needs all
// of its tasks.
func affectedTasks(p *problem, e *Planner, m *Request, affected map[int32]bool) (out []*cluster.Task) {
	wholeOwners := map[string]bool{}
	for name := range m.Owners {
		if finding := e.watch.owners[name]; finding != nil && finding.broken {
			wholeOwners[name] = true
		}
	}
	for i := range affected {
		for _, t := range p.instances[i].view.Tasks {
			if o, moves := m.Owners[t.Owner]; moves && o.Spec.MaxPerInstance() > 0 {
				wholeOwners[t.Owner] = true
			}
		}
	}
	for name, o := range m.Owners {
		if a := p.applicationNamed(o.Spec.Application); a != noApplication && p.applications[a].isScattered() {
			wholeOwners[name] = true
		}
	}
	addRelatives(p, m, affected, wholeOwners)
	for i := range affected {
		for _, t := range p.instances[i].view.Tasks {
			if !wholeOwners[t.Owner] {
				out = append(out, t)
			}
		}
	}
	for name := range wholeOwners {
		out = append(out, e.snap.TasksOf(name)...)
	}
	return out
}

// addRelatives adds the owners with an affinity and their parents, if a task of either may move: to
// know where a task may go, a problem needs all tasks of both.
func addRelatives(p *problem, m *Request, affected map[int32]bool, owners map[string]bool) {
	mayMove := maps.Clone(owners)
	for i := range affected {
		for _, t := range p.instances[i].view.Tasks {
			mayMove[t.Owner] = true
		}
	}
	for child, o := range m.Owners {
		if parent := o.Spec.Affinity; parent != "" && (mayMove[child] || mayMove[parent]) {
			owners[parent] = true
		}
	}
	for child, o := range m.Owners { // all children of these parents
		if owners[o.Spec.Affinity] {
			owners[child] = true
		}
	}
}
