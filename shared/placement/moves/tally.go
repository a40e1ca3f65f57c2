package moves

import (
	"fmt"
	"math"

	"berth/shared/placement"
)

// A tally counts how far an assignment is from the goals. It follows moves one by one, so that the
// gain of each is known.
type tally struct {
	*balancing
	metrics []metricTally
	spreads []spreadTally
	ofOwner [][]int          // spreads, per owner
	extra   [spreadKinds]int // tasks that are more than an even share
	empty   int
	wanted  int
}

// A metricTally has the loads of the instances that count.
type metricTally struct {
	load              []int64
	sum, squares      float64 // of the loads in multiples of the mean
	roots             float64 // of the same, their square roots
	unsafe            float64 // load above the safety level
	instances, weight float64
}

// A spreadTally has how many of an owner's tasks are in each group, and how many are an even share.
type spreadTally struct {
	kind   spreadKind
	group  []int32 // per instance; nil if each is its own
	counts map[int32]int
	most   int
}

func newTally(b *balancing) *tally {
	t := &tally{balancing: b, ofOwner: make([][]int, len(b.problem.owners))}
	p := b.problem
	for n := range b.metrics {
		g := &b.metrics[n]
		m := metricTally{load: make([]int64, len(p.instances)), instances: float64(g.count), weight: g.Weight}
		if g.Gather {
			m.weight = 0
		}
		t.metrics = append(t.metrics, m)
		for i := range p.instances {
			t.addLoad(n, int32(i), p.load[p.cellIndex(int32(i), g.dim)])
		}
	}
	t.addSpreads()
	t.wanted = b.emptyWanted()
	for i := range p.instances {
		t.empty += t.countEmpty(int32(i))
	}
	return t
}

// addSpreads counts the tasks of owners in the groups that these have tasks in or could have.
func (t *tally) addSpreads() {
	p, groups := t.problem, t.groupings()
	seen := make([]int32, len(p.instances)) // per group, the last spread that could use it
	for o := range p.owners {
		for _, kind := range spreadKindsOf(p.owners[o].mover.Spec) {
			if len(p.owners[o].tasks) == 0 || t.weightOf(kind) == 0 {
				continue
			}
			usable, number := 0, int32(len(t.spreads)+1)
			x := spreadTally{kind: kind, group: groups[kind], counts: map[int32]int{}}
			for i := range p.instances {
				if g := x.groupOf(int32(i)); seen[g] != number && p.canHostTaskOf(int32(o), int32(i)) {
					seen[g] = number
					usable++
				}
			}
			n := max(1, usable)
			x.most = (len(p.owners[o].tasks) + n - 1) / n
			for _, task := range p.owners[o].tasks {
				t.extra[kind] += x.add(p.tasks[task].initial, 1)
			}
			t.ofOwner[o] = append(t.ofOwner[o], len(t.spreads))
			t.spreads = append(t.spreads, x)
		}
	}
}

func (x *spreadTally) groupOf(i int32) int32 {
	if x.group == nil {
		return i
	}
	return x.group[i]
}

// add counts a task that comes to the instance (1) or leaves it (-1), and returns how many tasks more
// there are beyond an even share.
func (x *spreadTally) add(i int32, sign int) (extra int) {
	g := x.groupOf(i)
	extra = -max(0, x.counts[g]-x.most)
	x.counts[g] += sign
	return extra + max(0, x.counts[g]-x.most)
}

// addLoad adds load of the n-th metric to an instance, if the instance counts.
func (t *tally) addLoad(n int, i int32, load int64) {
	g, m := &t.balancing.metrics[n], &t.metrics[n]
	if g.apart[i] {
		return
	}
	safe := math.Inf(1)
	if limit := t.problem.unbuffered[t.problem.cellIndex(i, g.dim)]; g.Safety > 0 && limit < unlimited {
		safe = g.Safety * float64(limit)
	}
	count := func(sign float64) {
		x := float64(m.load[i]) / g.mean
		m.sum += sign * x
		m.squares += sign * x * x
		m.roots += sign * math.Sqrt(x)
		m.unsafe += sign * max(0, float64(m.load[i])-safe)
	}
	count(-1)
	m.load[i] += load
	count(1)
}

// move counts a task that has moved.
func (t *tally) move(task, from, to int32) {
	x := &t.problem.tasks[task]
	t.empty -= t.countEmpty(from) + t.countEmpty(to)
	for n := range t.balancing.metrics {
		for _, a := range x.amounts {
			if a.dim == t.balancing.metrics[n].dim {
				t.addLoad(n, from, -a.amount)
				t.addLoad(n, to, a.amount)
			}
		}
	}
	t.empty += t.countEmpty(from) + t.countEmpty(to)
	for _, n := range t.ofOwner[x.owner] {
		s := &t.spreads[n]
		t.extra[s.kind] += s.add(from, -1) + s.add(to, 1)
	}
}

// countEmpty returns 1 if the instance has no load of the gathered metrics, and 0 if it has some or could
// use none of them.
func (t *tally) countEmpty(i int32) int {
	counts := 0
	for n := range t.balancing.metrics {
		if g := &t.balancing.metrics[n]; g.Gather && !g.apart[i] {
			if t.metrics[n].load[i] != 0 {
				return 0
			}
			counts = 1
		}
	}
	return counts
}

// deviation returns the standard deviation of the loads in multiples of their mean.
func (m *metricTally) deviation() float64 {
	mean := m.sum / m.instances
	return math.Sqrt(max(0, m.squares/m.instances-mean*mean))
}

// spreadShares returns which share of all tasks is too many in its group, per kind of group.
func (t *tally) spreadShares() (out [spreadKinds]float64) {
	for kind, extra := range t.extra {
		out[kind] = float64(extra) / float64(max(1, len(t.problem.tasks)))
	}
	return out
}

// distance returns the weighted sum of what is not as it should be.
func (t *tally) distance() (sum float64) {
	for n := range t.metrics {
		sum += t.metricPart(n)
	}
	for kind, share := range t.spreadShares() {
		sum += t.weightOf(spreadKind(kind)) * share
	}
	if t.wanted > 0 {
		sum += t.goals.Empty * float64(max(0, t.wanted-t.empty)) / float64(t.wanted)
	}
	return sum
}

// metricPart returns the part of the distance that is a metric's.
func (t *tally) metricPart(n int) float64 {
	m, g := &t.metrics[n], &t.balancing.metrics[n]
	scatter := 0.0
	if g.packs {
		scatter = t.scatterWeight(g) * (m.roots - math.Sqrt(m.instances))
	}
	return m.weight*m.deviation() + safetyWeight*m.unsafe/(g.mean*m.instances) + scatter
}

// balance returns how far the assignment is from the goals.
func (t *tally) balance() Balance {
	shares := t.spreadShares()
	out := Balance{Distance: t.distance(), Zones: shares[overZones], Domains: shares[overDomains],
		Instances: shares[overInstances], Empty: t.empty, EmptyWanted: t.wanted}
	for n := range t.metrics {
		m, g := &t.metrics[n], &t.balancing.metrics[n]
		var loads []int64
		for i, load := range m.load {
			if !g.apart[i] {
				loads = append(loads, load)
			}
		}
		judged := placement.AssessBalance(&t.planner.snap.Configuration, g.Name, m.weight, loads)
		if g.packs {
			judged.Balanced = !t.isScattered(g, m.load)
		}
		out.Metrics = append(out.Metrics, MetricBalance{Name: g.Name, Min: judged.Min, Max: judged.Max, Mean: g.mean,
			Deviation: m.deviation(), Balanced: judged.Balanced, Unsafe: m.unsafe / (g.mean * m.instances)})
	}
	return out
}

// explain says what a move improves most, with the numbers before and after.
func (t *tally) explain(task, from, to int32) string {
	x := &t.problem.tasks[task]
	source, target := &t.problem.instances[from], &t.problem.instances[to]
	for _, n := range t.ofOwner[x.owner] {
		s := &t.spreads[n]
		a, b := s.counts[s.groupOf(from)], s.counts[s.groupOf(to)]
		if s.groupOf(from) == s.groupOf(to) || a-b < 2 {
			continue
		}
		what, here, there := "instance", source.id, target.id
		switch s.kind {
		case overZones:
			what, here, there = "zone", source.view.Zone(), target.view.Zone()
		case overDomains:
			what, here, there = "fault domain", source.view.FaultDomain(), target.view.FaultDomain()
		}
		return fmt.Sprintf("%s %s has %d tasks of %s, %s has %d", what, here, a, t.problem.owners[x.owner].displayName,
			there, b)
	}
	best, gain, amount := -1, math.Inf(-1), int64(0)
	for n := range t.metrics {
		g, m := &t.balancing.metrics[n], &t.metrics[n]
		for _, a := range x.amounts {
			if better := float64(m.load[from]-m.load[to]-a.amount) / g.mean * max(g.Weight, 1e-3); a.dim == g.dim &&
				better > gain {
				best, gain, amount = n, better, a.amount
			}
		}
	}
	if best < 0 {
		return fmt.Sprintf("makes room for another move on %s", source.id)
	}
	g, m := &t.balancing.metrics[best], &t.metrics[best]
	return fmt.Sprintf("%s on %s goes from %d to %d, on %s from %d to %d; the mean is %.0f", g.Name, source.id,
		m.load[from], m.load[from]-amount, target.id, m.load[to], m.load[to]+amount, g.mean)
}
