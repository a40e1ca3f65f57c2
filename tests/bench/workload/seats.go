package workload

import (
	"cmp"
	"slices"
)

// Seats returns an instance, by its position, for each of the tasks 0 to Live-1, so that every rule
// is kept. Runs that have no time to place all tasks start there. Services come one after the
// other, the most demanding first; each task goes to the next instance that has room. -1 means that
// there is none.
func (w *Workload) Seats() []int32 {
	tasks := make([][]int32, len(w.Services))
	for i, s := range w.order[:w.Live] {
		tasks[s] = append(tasks[s], int32(i))
	}
	order := make([]int, len(w.Services))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return w.Services[b].compareDemand(&w.Services[a]) })
	seats := make([]int32, w.Live)
	room := NewRoom(w.Instances)
	next := 0
	for _, s := range order {
		on := map[int]bool{}
		if rest := len(w.Instances) - next%len(w.Instances); w.Services[s].Adaptive && len(tasks[s]) > rest {
			next += rest // tasks on instances in a row are even over all domains
		}
		for _, t := range tasks[s] {
			seats[t] = -1
			for range w.Instances {
				at := next % len(w.Instances)
				next++
				if (w.Services[s].Alone() && on[at]) || !room.Fits(at, &w.Services[s]) {
					continue
				}
				room.Take(at, &w.Services[s])
				seats[t], on[at] = int32(at), true
				break
			}
		}
	}
	return seats
}

// compareDemand orders services by how hard they are to place.
func (s *Service) compareDemand(o *Service) int {
	return cmp.Or(cmp.Compare(s.GPUs, o.GPUs), cmp.Compare(len(s.Where), len(o.Where)), cmp.Compare(s.CPU, o.CPU),
		cmp.Compare(s.Memory, o.Memory))
}

// Alone reports whether the service has at most one task on an instance.
func (s *Service) Alone() bool { return s.Distinct || s.Adaptive }

// Room is a plain count of what is free on each instance. It checks any engine's answers.
type Room struct {
	instances []Instance
	used      []use
}

type use struct {
	cpu, memory, gpus int64
	ports             map[int]bool
	loads             map[string]int64
}

// NewRoom returns the room of instances without tasks.
func NewRoom(instances []Instance) *Room {
	r := &Room{instances: instances, used: make([]use, len(instances))}
	for i := range r.used {
		r.used[i].ports, r.used[i].loads = map[int]bool{}, map[string]int64{}
	}
	return r
}

// Fits reports whether instance at has room for a task of the service. It ignores rules between its
// tasks.
func (r *Room) Fits(at int, s *Service) bool {
	n, u := &r.instances[at], &r.used[at]
	if u.cpu+s.CPU > n.CPU || u.memory+s.Memory > n.Memory || u.gpus+s.GPUs > n.GPUs ||
		(s.HostPort != 0 && u.ports[s.HostPort]) {
		return false
	}
	for _, m := range s.Where {
		if !slices.Contains(m.Values, n.Attribute(m.Attribute)) {
			return false
		}
	}
	for _, c := range n.Capacities {
		for _, l := range s.Loads {
			if l.Name == c.Name && u.loads[l.Name]+l.Amount > c.Amount {
				return false
			}
		}
	}
	return true
}

// Take puts a task of the service on instance at.
func (r *Room) Take(at int, s *Service) { r.changeUse(at, s, 1) }

// Free removes one again.
func (r *Room) Free(at int, s *Service) { r.changeUse(at, s, -1) }

func (r *Room) changeUse(at int, s *Service, sign int64) {
	u := &r.used[at]
	u.cpu += sign * s.CPU
	u.memory += sign * s.Memory
	u.gpus += sign * s.GPUs
	if s.HostPort != 0 {
		u.ports[s.HostPort] = sign > 0
	}
	for _, l := range s.Loads {
		u.loads[l.Name] += sign * l.Amount
	}
}
