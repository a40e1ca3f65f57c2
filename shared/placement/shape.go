package placement

import (
	"fmt"
	"slices"
	"strings"

	"berth/shared/cluster"
)

// shape is what tasks ask of an instance, whoever owns them, in terms of columns.
type shape struct {
	engine  *Engine
	key     string // tells shapes apart
	spec    *Spec  // one that has it
	members *members
	demands []demand
	names   []string                 // of the ports, "80/tcp"
	asks    []func(*shape, int) bool // what it asks for besides CPU and memory
	order   order
}

// demand is what a task puts on one metric.
type demand struct {
	name   string
	metric int
	load   int64
}

func newShape(e *Engine, spec *Spec, rules []*rule, given relaxation) *shape {
	s := &shape{engine: e, spec: spec, members: membersFor(e, spec, rules), order: newOrder(e, spec)}
	for _, m := range spec.Loads {
		if metric := metricColumn(e, m.Name); m.Load > 0 && !given.has(relaxCapacity) {
			s.demands = append(s.demands, demand{m.Name, metric, m.Load})
		}
	}
	for _, p := range spec.Ports {
		s.names = append(s.names, fmt.Sprintf("%d/%s", p.Number, p.Protocol))
	}
	if len(spec.Ports) > 0 {
		s.asks = append(s.asks, (*shape).hasPorts)
	}
	if spec.Needs.GPUs > 0 {
		s.asks = append(s.asks, (*shape).hasGPUs)
	}
	if spec.Needs.ENIs > 0 {
		s.asks = append(s.asks, (*shape).hasENIs)
	}
	s.key = fmt.Sprint(spec.Needs, spec.Ports, s.demands, spec.IsGoverned()) + s.members.key + "\x03" + s.order.key +
		"\x03" + strings.Join(s.order.attributes, "\x00")
	return s
}

// fitness is whether an instance can take a task: not at all, without the buffer, or with it alone
// (P14).
type fitness = uint8

const (
	unfit fitness = iota
	unbuffered
	buffered
)

// fitness is whether the instance has what one more task asks for.
func (s *shape) fitness(i int) fitness {
	if !s.hasCPU(i) || !s.hasMemory(i) || !s.engine.open[i] || !s.members.has(i) || s.engine.holds(i) {
		return unfit
	}
	for _, has := range s.asks {
		if !has(s, i) {
			return unfit
		}
	}
	return s.room(i)
}

func (s *shape) hasCPU(i int) bool { return s.engine.cpu[i] >= s.spec.Needs.CPU }

func (s *shape) hasMemory(i int) bool { return s.engine.memory[i] >= s.spec.Needs.Memory }

func (s *shape) hasENIs(i int) bool { return s.engine.enis[i] >= int(s.spec.Needs.ENIs) }

func (s *shape) hasPorts(i int) bool { return s.taken(i) < 0 }

// taken is the first port of the spec that is in use, be it by a task that this call placed; -1 if
// all are free.
func (s *shape) taken(i int) int {
	for n, p := range s.spec.Ports {
		if s.engine.placed.count(i) > 0 || s.engine.ports[i]&portBit(p) != 0 && s.engine.views[i].UsesPort(p) {
			return n
		}
	}
	return -1
}

func (s *shape) hasGPUs(i int) bool { return s.enough(i) >= s.spec.Needs.GPUs }

// enough is how many devices have the share that a task needs of each.
func (s *shape) enough(i int) int {
	n, per := int(s.engine.entire[i]), s.spec.Needs.PerGPU()
	switch {
	case per >= cluster.WholeGPU || int(s.engine.share[i]) < per:
		return n
	case s.spec.Needs.GPUs == 1:
		return n + 1
	}
	for _, free := range s.engine.now(i).GPUs {
		if free < cluster.WholeGPU && free >= per {
			n++
		}
	}
	return n
}

// room is whether the metrics have room for one more task (P12, P13).
func (s *shape) room(i int) fitness {
	out := unbuffered
	for _, d := range s.demands {
		m := &s.engine.metrics[d.metric]
		load := m.load[i]
		switch {
		case d.load > m.total[i]-load:
			return unfit
		case d.load > m.unbuffered[i]-load:
			out = buffered
		}
	}
	return out
}

// assignDevices chooses the devices that a task gets on the instance, in order: those with the
// least free that is enough, the lower position first. A whole device is always one that nobody
// else holds a part of.
func assignDevices(e *Engine, i int, needs cluster.Resources) []int {
	if needs.GPUs == 0 {
		return nil
	}
	free := e.now(i).GPUs
	out := e.devices.take(needs.GPUs)
	for n := range out {
		best := -1
		for d, milli := range free {
			if milli >= needs.PerGPU() && !slices.Contains(out[:n], d) && (best < 0 || milli < free[best]) {
				best = d
			}
		}
		out[n] = best
	}
	slices.Sort(out)
	return out
}

// arena hands out the positions of GPU devices: one allocation serves many tasks.
type arena struct{ free []int }

func (a *arena) take(n int) []int {
	if n > len(a.free) {
		a.free = make([]int, max(n, 1024))
	}
	out := a.free[:n:n]
	a.free = a.free[n:]
	return out
}
