package placement

import (
	"fmt"
	"slices"
	"strings"

	"berth/shared/cluster"
)

// A shape is what tasks ask of an instance in terms of columns, regardless of their owner. Shapes
// with equal keys share indexes and rejection reports: 50 revisions of the same size cost as one.
type shape struct {
	engine    *Engine
	key       string // tells shapes apart
	spec      *Spec  // of some tasks with the shape
	matcher   *matcher
	demands   []metricDemand
	portNames []string // "80/tcp"
	// application limits the tasks; nil for none.
	application *application
	checks      []func(*shape, int) bool // for what the tasks need besides CPU and memory
	order       order
}

// A metricDemand is the load that a task adds to one metric.
type metricDemand struct {
	name   string
	metric int
	load   int64
}

// newTaskShape translates the spec into columns. The key has everything that decides whether an instance
// suits, and its score; an index has the rest of the order in its own key.
func newTaskShape(e *Engine, spec *Spec, constraints []*constraintColumn, relaxed relaxation) *shape {
	s := &shape{engine: e, spec: spec, matcher: matcherFor(e, spec, constraints), order: newPlacementOrder(e, spec)}
	s.application = applicationNamed(e, spec.Application)
	for _, m := range spec.Loads {
		if metric := ensureMetric(e, m.Name); m.Load > 0 && !relaxed.includesRule(relaxCapacity) {
			s.demands = append(s.demands, metricDemand{m.Name, metric, m.Load})
		}
	}
	if s.application != nil {
		s.addReservations(relaxed)
	}
	for _, p := range spec.Ports {
		s.portNames = append(s.portNames, fmt.Sprintf("%d/%s", p.Number, p.Protocol))
	}
	if len(spec.Ports) > 0 {
		s.checks = append(s.checks, (*shape).hasPorts)
	}
	if spec.Needs.GPUs > 0 {
		s.checks = append(s.checks, (*shape).hasGPUs)
	}
	if spec.Needs.ENIs > 0 {
		s.checks = append(s.checks, (*shape).hasENIs)
	}
	s.key = fmt.Sprint(spec.Needs, spec.Ports, s.demands, spec.IsGoverned()) + s.matcher.key + "\x03" + spec.Scoring +
		"\x03" + strings.Join(s.order.attributes, "\x00")
	if s.application != nil {
		s.key += "\x07" + s.application.Name
		if spec.Replacing {
			s.key += "\x08"
		}
	}
	return s
}

// addReservations adds metrics of which the tasks have no load and their application a reservation:
// the first task on an instance needs room for it.
func (s *shape) addReservations(relaxed relaxation) {
	for n := range s.application.Limits {
		limit := &s.application.Limits[n]
		if limit.Reservation > 0 && s.spec.loadOf(limit.Name) == 0 && !relaxed.includesRule(relaxCapacity) {
			s.demands = append(s.demands, metricDemand{limit.Name, ensureMetric(s.engine, limit.Name), 0})
		}
	}
}

// A feasibility says whether an instance can run a task: not at all, without the buffer, or only
// with it (P14). Lower is better, except for infeasible.
type feasibility = uint8

const (
	infeasible feasibility = iota
	unbuffered
	buffered
)

// feasibilityOf reports whether the instance has room for one more task and matches it. CPU and
// memory come first: they reject most instances in a busy cluster.
func (s *shape) feasibilityOf(i int) feasibility {
	if s.application != nil && !s.hasApplicationRoom(i) {
		return infeasible
	}
	return s.instanceFeasibility(i)
}

// instanceFeasibility is feasibilityOf without what depends on other instances, too: the limits of
// the application.
func (s *shape) instanceFeasibility(i int) feasibility {
	if !s.hasCPU(i) || !s.hasMemory(i) || !s.engine.usages[i].takesTasks || !s.matcher.matchesInstance(i) ||
		s.engine.isHeldBack(i) {
		return infeasible
	}
	for _, has := range s.checks {
		if !has(s, i) {
			return infeasible
		}
	}
	return s.roomInMetrics(i)
}

func (s *shape) hasCPU(i int) bool { return s.engine.usages[i].cpu >= s.spec.Needs.CPU }

func (s *shape) hasMemory(i int) bool { return s.engine.usages[i].memory >= s.spec.Needs.Memory }

func (s *shape) hasENIs(i int) bool { return s.engine.usages[i].enis >= int(s.spec.Needs.ENIs) }

func (s *shape) hasPorts(i int) bool { return s.firstTakenPort(i) < 0 }

// firstTakenPort returns the position of the first port in use, or -1. A task that this call placed
// has the same ports.
func (s *shape) firstTakenPort(i int) int {
	for n, p := range s.spec.Ports {
		if s.engine.overlay.placedCountOn(i) > 0 || s.engine.usages[i].portBits&portBitOf(p) != 0 &&
			s.engine.views[i].UsesPort(p) {
			return n
		}
	}
	return -1
}

func (s *shape) hasGPUs(i int) bool { return s.usableDevices(i) >= s.spec.Needs.GPUs }

// usableDevices returns how many devices have the share that a task needs of each.
func (s *shape) usableDevices(i int) int {
	u, per := &s.engine.usages[i], s.spec.Needs.PerGPU()
	n := int(u.wholeGPUs)
	switch {
	case per >= cluster.WholeGPU || int(u.largestShare) < per:
		return n
	case s.spec.Needs.GPUs == 1:
		return n + 1
	}
	for _, free := range s.engine.currentView(i).GPUs {
		if free < cluster.WholeGPU && free >= per {
			n++
		}
	}
	return n
}

// roomInMetrics reports whether the metrics have room for one more task (P12, P13).
func (s *shape) roomInMetrics(i int) feasibility {
	out := unbuffered
	for _, d := range s.demands {
		metric := &s.engine.metrics[d.metric][i]
		load, added := metric.load+metric.reserved, s.application.addedLoad(i, d.metric, d.load)
		switch {
		case added == 0: // it fits into what its application has reserved
		case added > metric.total-load:
			return infeasible
		case added > metric.unbuffered-load:
			out = buffered
		}
	}
	return out
}

// assignDevices returns the GPU devices that a task gets on the instance, where it must fit, or nil
// if it needs none.
func assignDevices(e *Engine, i int, needs cluster.Resources) []int {
	if needs.GPUs == 0 {
		return nil
	}
	out := e.positions.takePositions(needs.GPUs)
	ChooseDevices(out, e.currentView(i).GPUs, needs)
	return out
}

// ChooseDevices fills out, one position for each GPU that the task needs, in order: the devices
// with the least free that is enough, the lower position first. free has the thousandths per
// device. A task that needs a whole device gets one without any other task. It reports false if the
// devices do not suffice.
func ChooseDevices(out, free []int, needs cluster.Resources) bool {
	for n := range out {
		best := -1
		for d, milli := range free {
			if milli >= needs.PerGPU() && !slices.Contains(out[:n], d) && (best < 0 || milli < free[best]) {
				best = d
			}
		}
		if best < 0 {
			return false
		}
		out[n] = best
	}
	slices.Sort(out)
	return true
}

// A positionArena hands out lists of device positions: one allocation serves many tasks.
type positionArena struct{ free []int }

func (a *positionArena) takePositions(n int) []int {
	if n > len(a.free) {
		a.free = make([]int, max(n, 1024))
	}
	out := a.free[:n:n]
	a.free = a.free[n:]
	return out
}
