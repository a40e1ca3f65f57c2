package moves

import (
	"cmp"
	"slices"

	"berth/shared/cluster"
	"berth/shared/placement"
)

// Where there are more tasks than wholeTasks, a problem is made of those alone that moves could
// come down to; what the others take up is part of their instances' load. It costs by what is
// broken then.
const (
	wholeTasks = 4096
	scopeRoom  = 64  // instances where others could make room, for each dimension of which an instance has too much
	scopeNew   = 256 // instances that could be cleared for newcomers
)

// scopedTasks are the tasks that count in a problem, in order of id.
func scopedTasks(p *problem, e *Planner, m *Request, r *placement.Request) []*cluster.Task {
	var out []*cluster.Task
	if e.snap.TaskCount() <= e.wholeTasks || !e.watch.active {
		for t := range e.snap.Tasks() {
			out = append(out, t)
		}
	} else {
		out = affectedTasks(p, e, m, affectedInstances(p, r, e))
	}
	slices.SortFunc(out, func(a, b *cluster.Task) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID),
			cmp.Compare(a.Owner, b.Owner))
	})
	return out
}

// affectedInstances are the instances whose tasks count: those with more than they take, and those
// with the most room for what has to go, or to come.
func affectedInstances(p *problem, r *placement.Request, e *Planner) map[int32]bool {
	out, lacking := map[int32]bool{}, map[int32]int{}
	for i := range int32(len(p.instances)) {
		for dim := range int32(p.dimensionCount()) {
			if c := p.cellIndex(i, dim); p.instances[i].givesTasks && p.load[c] > p.unbuffered[c] {
				out[i], lacking[dim] = true, scopeRoom
			}
		}
	}
	if r != nil {
		for _, a := range requestedAmounts(p, e, r) {
			lacking[a.dim] = scopeNew
		}
	}
	for dim, most := range lacking {
		for _, i := range roomiestInstances(p, dim, most) {
			out[i] = true
		}
	}
	return out
}

// roomiestInstances are the instances with the most left of the dimension, of those that limit it
// and take tasks.
func roomiestInstances(p *problem, dim int32, most int) []int32 {
	var all []int32
	for i := range int32(len(p.instances)) {
		if p.instances[i].takesTasks && p.total[p.cellIndex(i, dim)] < unlimited {
			all = append(all, i)
		}
	}
	left := func(i int32) int64 { return p.total[p.cellIndex(i, dim)] - p.load[p.cellIndex(i, dim)] }
	slices.SortFunc(all, func(a, b int32) int { return cmp.Or(cmp.Compare(left(b), left(a)), cmp.Compare(a, b)) })
	return all[:min(len(all), most)]
}

// affectedTasks are the tasks on these instances, and all those of owners whose tasks are where
// they should not be or, if any of them may move, keep clear of one another.
func affectedTasks(p *problem, e *Planner, m *Request, affected map[int32]bool) (out []*cluster.Task) {
	entire := map[string]bool{}
	for name := range m.Owners {
		if finding := e.watch.owners[name]; finding != nil && finding.broken {
			entire[name] = true
		}
	}
	for i := range affected {
		for _, t := range p.instances[i].view.Tasks {
			if o, moves := m.Owners[t.Owner]; moves && o.Spec.MaxPerInstance() > 0 {
				entire[t.Owner] = true
			}
		}
	}
	for i := range affected {
		for _, t := range p.instances[i].view.Tasks {
			if !entire[t.Owner] {
				out = append(out, t)
			}
		}
	}
	for name := range entire {
		out = append(out, e.snap.TasksOf(name)...)
	}
	return out
}
