package placement

import (
	"fmt"
	"math"
	"slices"

	"berth/shared/cluster"
	"berth/shared/snapshot"
)

// An application is an application of the configuration with what its tasks use, on each instance
// and in all. Tasks that the current call placed count.
type application struct {
	*snapshot.Application
	on    map[int32]snapshot.ApplicationUse
	nodes int     // instances with a task that counts
	total []int64 // loads of those tasks, in the order of the limits
}

// resetApplications counts the use of all applications on all instances.
func resetApplications(e *Engine) {
	e.applications, e.applicationsRevision = nil, e.snap.ApplicationsRevision()
	for _, a := range e.snap.Applications() {
		e.applications = append(e.applications, &application{Application: a, on: map[int32]snapshot.ApplicationUse{},
			total: make([]int64, len(a.Limits))})
	}
	for i := range e.views {
		countApplications(e, i, nil, 0)
	}
}

// applicationNamed returns the application, or nil if the configuration limits none of that name.
func applicationNamed(e *Engine, name string) *application {
	for _, a := range e.applications {
		if a.Name == name && name != "" {
			return a
		}
	}
	return nil
}

// countApplications counts again what applications use on the instance. placed is how many tasks of
// the spec this call has placed there.
func countApplications(e *Engine, i int, spec *Spec, placed int) {
	if len(e.applications) == 0 {
		return
	}
	for m := range e.metrics {
		e.metrics[m][i].reserved = 0
	}
	for _, a := range e.applications {
		a.removeUse(int32(i))
		if v := e.views[i]; v != nil {
			use := v.UseOf(a.Application)
			if placed > 0 && spec.Application == a.Name {
				a.addPlaced(&use, v, spec, placed)
			}
			a.addUse(int32(i), use)
			for n := range a.Limits {
				if m := a.Limits[n].Metric; m < len(e.metrics) {
					e.metrics[m][i].reserved += use.UnusedReservation(n)
				}
			}
		}
	}
}

// addPlaced counts tasks that this call placed.
func (a *application) addPlaced(use *snapshot.ApplicationUse, v *snapshot.InstanceView, spec *Spec, placed int) {
	if use.Loads == nil {
		use.Loads, use.CountedLoads = make([]int64, len(a.Limits)), make([]int64, len(a.Limits))
		use.Reservations = v.ReservationsOf(a.Application)
	}
	use.Tasks += placed
	use.Counted += placed
	for n := range a.Limits {
		load := int64(placed) * spec.loadOf(a.Limits[n].Name)
		use.Loads[n] += load
		use.CountedLoads[n] += load
	}
}

func (a *application) removeUse(i int32) {
	old, known := a.on[i]
	if !known {
		return
	}
	delete(a.on, i)
	a.addTotals(&old, -1)
}

func (a *application) addUse(i int32, use snapshot.ApplicationUse) {
	if use.Tasks == 0 {
		return
	}
	a.on[i] = use
	a.addTotals(&use, 1)
}

// addTotals adds (sign 1) or subtracts (-1) what counts for the application as a whole.
func (a *application) addTotals(use *snapshot.ApplicationUse, sign int) {
	if use.Counted > 0 {
		a.nodes += sign
	}
	for n, load := range use.CountedLoads {
		a.total[n] += int64(sign) * load
	}
}

// ApplicationRoom returns what the limits of the spec's application still allow: how many more
// instances its tasks may be on, and how many more tasks there may be.
func ApplicationRoom(e *Engine, spec *Spec) (instances, tasks int) {
	e.Sync()
	instances, tasks = math.MaxInt, math.MaxInt
	a := applicationNamed(e, spec.Application)
	if a == nil {
		return instances, tasks
	}
	if a.MaximumNodes > 0 {
		instances = max(0, a.MaximumNodes-a.nodes)
	}
	for n := range a.Limits {
		load := spec.loadOf(a.Limits[n].Name)
		if free, limited := a.freeOf(n, -1, inAll); limited && load > 0 {
			tasks = min(tasks, int(max(0, free)/load))
		}
	}
	return instances, tasks
}

// loadOf returns the load that a task starts with.
func (s *Spec) loadOf(metric string) int64 {
	if at := slices.IndexFunc(s.Loads, func(m cluster.Metric) bool { return m.Name == metric }); at >= 0 {
		return s.Loads[at].Load
	}
	return 0
}

// addedLoad returns how much less of a metric others have left on the instance once a task with the
// load is there. The first task of an application brings the reservation with it; later ones fit
// into what is left of that.
func (a *application) addedLoad(i int, metric int, load int64) int64 {
	if a == nil {
		return load
	}
	for n := range a.Limits {
		if limit := &a.Limits[n]; limit.Metric == metric {
			use := a.on[int32(i)]
			if use.Tasks == 0 {
				return max(load, limit.Reservation)
			}
			return max(0, load-use.UnusedReservation(n))
		}
	}
	return load
}

// hasApplicationRoom reports whether the limits of the spec's application allow one more task on
// the instance.
func (s *shape) hasApplicationRoom(i int) bool {
	return s.hasApplicationNode(i) && exceededLimit(s, i, onNode) < 0 && exceededLimit(s, i, inAll) < 0
}

// hasApplicationNode reports whether the application may have tasks on the instance: it has some
// there, or is on fewer instances than it may be on.
func (s *shape) hasApplicationNode(i int) bool {
	a := s.application
	return a == nil || a.MaximumNodes == 0 || s.spec.Replacing || a.nodes < a.MaximumNodes ||
		a.on[int32(i)].Counted > 0
}

// An applicationScope says where a limit of an application applies.
type applicationScope int

const (
	onNode applicationScope = iota
	inAll
)

// freeOf returns how much of the n-th metric the application may still use, on the instance or in
// all. limited is false if it has no such limit.
func (a *application) freeOf(n, i int, scope applicationScope) (free int64, limited bool) {
	if scope == inAll {
		return a.Limits[n].TotalCapacity - a.total[n], a.Limits[n].TotalCapacity > 0
	}
	free = a.Limits[n].NodeCapacity
	if use, known := a.on[int32(i)]; known {
		free -= use.Loads[n]
	}
	return free, a.Limits[n].NodeCapacity > 0
}

// exceededLimit returns the position of the first limit that one more task would exceed, or -1. A
// task without load of a metric exceeds none.
func exceededLimit(s *shape, i int, scope applicationScope) int {
	if s.application == nil || scope == inAll && s.spec.Replacing {
		return -1
	}
	for n := range s.application.Limits {
		load := s.spec.loadOf(s.application.Limits[n].Name)
		if free, limited := s.application.freeOf(n, i, scope); limited && load > 0 && load > free {
			return n
		}
	}
	return -1
}

func concernsApplication(c *chooser) bool { return c.application != nil }

func passesApplicationNodes(c *chooser, i int) bool { return c.hasApplicationNode(i) }

func explainApplicationNodes(c *chooser, _ int) cluster.Rejection {
	return cluster.Rejection{Detail: fmt.Sprintf("%s: %d of %d", c.application.Name, c.application.nodes,
		c.application.MaximumNodes)}
}

func passesApplicationOnNode(c *chooser, i int) bool { return exceededLimit(c.shape, i, onNode) < 0 }

func explainApplicationOnNode(c *chooser, i int) cluster.Rejection {
	return explainExceeded(c.shape, i, onNode)
}

func passesApplicationInAll(c *chooser, i int) bool { return exceededLimit(c.shape, i, inAll) < 0 }

func explainApplicationInAll(c *chooser, i int) cluster.Rejection {
	return explainExceeded(c.shape, i, inAll)
}

func explainExceeded(s *shape, i int, scope applicationScope) cluster.Rejection {
	n := exceededLimit(s, i, scope)
	free, _ := s.application.freeOf(n, i, scope)
	metric := s.application.Limits[n].Name
	return cluster.Rejection{Detail: s.application.Name + ", " + metric, Need: float64(s.spec.loadOf(metric)),
		Best: float64(max(0, free))}
}

// SurplusNodes returns on how many instances too many applications have tasks, all applications
// together.
func SurplusNodes(e *Engine) (surplus int) {
	e.Sync()
	for _, a := range e.applications {
		if a.MaximumNodes > 0 {
			surplus += max(0, a.nodes-a.MaximumNodes)
		}
	}
	return surplus
}

// KeepsNodes reports whether the limits of the spec's application allow a task of it to move, as far as
// the number of instances is concerned.
func KeepsNodes(e *Engine, spec *Spec, from, to *snapshot.InstanceView) bool {
	e.Sync()
	a := applicationNamed(e, spec.Application)
	if a == nil || a.MaximumNodes == 0 || from == nil || to == nil || a.on[int32(to.Index)].Counted > 0 {
		return true
	}
	after := a.nodes + 1
	if a.on[int32(from.Index)].Counted == 1 {
		after--
	}
	return after <= max(a.MaximumNodes, a.nodes)
}
