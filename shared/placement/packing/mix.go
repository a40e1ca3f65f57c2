package packing

import (
	"cmp"
	"math"
	"slices"

	"berth/shared/cluster"
	"berth/shared/snapshot"
)

// A learnedMix is what was learned of a cluster: the kinds of its tasks that need GPUs, and the
// pools of its instances.
type learnedMix struct {
	taskCount       int // tasks that need GPUs, running or waiting
	kinds           []taskKind
	requirementSets []*requirements
	pools           []pool
	demandClasses   []demandClass
	memberships     []membership // by index of the instance
	poolIndex       map[poolKey]int32
}

// A taskKind is a number of tasks with the same needs and requirements.
type taskKind struct {
	needs       cluster.Resources
	set         int
	count       int64
	demandClass int
}

// A pool has the instances that satisfy the same requirement sets and have the same size: for
// example, those of one GPU model and instance type.
type pool struct {
	poolKey
	capacity  int64   // GPU thousandths
	price     float64 // see [learnedMix.computePrices]
	demandMix *demandMix
}

type poolKey struct {
	mask        uint64 // a bit for each set that is satisfied
	cpu, memory int64
	gpus        int
}

// canTakeKind reports whether a task of the kind could run on an empty instance of the pool.
func (p *pool) canTakeKind(k *taskKind) bool {
	return p.mask>>k.set&1 == 1 && k.needs.CPU <= p.cpu && k.needs.Memory <= p.memory && k.needs.GPUs <= p.gpus
}

// noPool is the pool of instances without GPUs.
const noPool = -1

// A membership is the pool of an instance, valid while its row has the same revision.
type membership struct {
	rev  uint64
	mask uint64
	pool int32
}

const (
	// maxSets is how many requirement sets are distinguished: those with the most demand. Each has
	// a bit in a mask.
	maxSets = 64
	// maxKinds is how many kinds are considered, the most frequent ones.
	maxKinds = 256
)

// learnFromSnapshot looks at all tasks and instances. It reuses the last mix's memberships, unless
// the requirement sets differ.
func learnFromSnapshot(s *snapshot.Snapshot, last *learnedMix) *learnedMix {
	m := &learnedMix{poolIndex: map[poolKey]int32{}}
	m.countTaskKinds(s)
	if last != nil && slices.EqualFunc(m.requirementSets, last.requirementSets,
		func(a, b *requirements) bool { return a.text == b.text }) {
		m.memberships = last.memberships
	}
	m.assignInstancePools(s)
	m.groupDemandClasses()
	m.computePrices()
	return m
}

// countTaskKinds finds the kinds of tasks. Their order does not depend on the order of tasks: sums
// of floating-point numbers would depend on it, and with them the scores.
func (m *learnedMix) countTaskKinds(s *snapshot.Snapshot) {
	type requirement struct {
		needs cluster.Resources
		want  *requirements
	}
	counts := map[requirement]int64{}
	reader := newRequirementsReader(s)
	for t := range s.Tasks() {
		if t.Needs.GPUs == 0 || t.Foreign || !t.IsActive() {
			continue
		}
		n := cluster.Resources{CPU: t.Needs.CPU, Memory: t.Needs.Memory, GPUs: t.Needs.GPUs,
			GPUMilli: int32(t.Needs.PerGPU())}
		w := reader.requirementsOf(t)
		w.demand += int64(n.GPUs * n.PerGPU())
		counts[requirement{n, w}]++
		m.taskCount++
	}
	for _, w := range reader.texts {
		m.requirementSets = append(m.requirementSets, w)
	}
	slices.SortFunc(m.requirementSets, func(a, b *requirements) int {
		return cmp.Or(cmp.Compare(b.demand, a.demand), cmp.Compare(a.text, b.text))
	})
	m.requirementSets = m.requirementSets[:min(len(m.requirementSets), maxSets)]
	slices.SortFunc(m.requirementSets, func(a, b *requirements) int { return cmp.Compare(a.text, b.text) })
	for r, n := range counts {
		if set := slices.Index(m.requirementSets, r.want); set >= 0 {
			m.kinds = append(m.kinds, taskKind{needs: r.needs, set: set, count: n})
		}
	}
	slices.SortFunc(m.kinds, func(a, b taskKind) int {
		return cmp.Or(cmp.Compare(b.count, a.count), compareNeeds(a.needs, b.needs), a.set-b.set)
	})
	m.kinds = m.kinds[:min(len(m.kinds), maxKinds)]
}

// compareNeeds orders needs. Those with the same share of each device are neighbours.
func compareNeeds(a, b cluster.Resources) int {
	return cmp.Or(cmp.Compare(a.GPUMilli, b.GPUMilli), cmp.Compare(a.GPUs, b.GPUs), cmp.Compare(a.CPU, b.CPU),
		cmp.Compare(a.Memory, b.Memory))
}

// assignInstancePools divides the instances into pools.
func (m *learnedMix) assignInstancePools(s *snapshot.Snapshot) {
	if missing := len(s.InstancesByIndex()) - len(m.memberships); missing > 0 {
		m.memberships = append(m.memberships, make([]membership, missing)...)
	}
	for _, v := range s.InstancesByIndex() {
		if v == nil || v.Instance == nil || len(v.GPUs) == 0 {
			continue
		}
		p := &m.memberships[v.Index]
		if p.rev != v.StaticRev {
			*p = membership{rev: v.StaticRev, mask: m.satisfiedMask(v)}
		}
		p.pool = m.findOrAddPool(p.mask, v)
		if v.IsAvailable() {
			m.pools[p.pool].capacity += int64(len(v.GPUs)) * cluster.WholeGPU
		}
	}
}

func (m *learnedMix) findOrAddPool(mask uint64, v *snapshot.InstanceView) int32 {
	k := poolKey{mask, v.Registered.CPU, v.Registered.Memory, len(v.GPUs)}
	g, ok := m.poolIndex[k]
	if !ok {
		g = int32(len(m.pools))
		m.poolIndex[k] = g
		m.pools = append(m.pools, pool{poolKey: k})
	}
	return g
}

// satisfiedMask has a bit for each requirement set that the instance satisfies.
func (m *learnedMix) satisfiedMask(v *snapshot.InstanceView) (mask uint64) {
	for i, r := range m.requirementSets {
		if r.satisfiedBy(v) {
			mask |= 1 << i
		}
	}
	return mask
}

// poolOfInstance returns the pool of an instance. An instance that came or changed after the mix
// was learned may be in a pool of its own, which has no price yet.
func (m *learnedMix) poolOfInstance(v *snapshot.InstanceView) int32 {
	if len(v.GPUs) == 0 {
		return noPool
	}
	if v.Index >= len(m.memberships) {
		m.memberships = append(m.memberships, make([]membership, v.Index+1-len(m.memberships))...)
	}
	p := &m.memberships[v.Index]
	if p.rev != v.StaticRev {
		mask := m.satisfiedMask(v)
		*p = membership{rev: v.StaticRev, mask: mask, pool: m.findOrAddPool(mask, v)}
	}
	return p.pool
}

// demandMixOf returns the tasks that may come to a pool: of each kind the part that
// [learnedMix.computePrices] assigned to it. A kind weighs by how frequent it is, and larger ones a
// little more (by the fourth root of their size).
func (m *learnedMix) demandMixOf(id int32) *demandMix {
	p := &m.pools[id]
	if p.demandMix != nil {
		return p.demandMix
	}
	shares := make([]float64, len(m.demandClasses))
	for at := range m.demandClasses {
		shares[at] = 1 // no pool can take the class at present
		if all := m.demandClasses[at].weightedCapacity(m.pools); all > 0 {
			shares[at] = math.Exp(-p.price) / all
		}
	}
	var own []taskKind
	for i := range m.kinds {
		if k := &m.kinds[i]; p.canTakeKind(k) {
			own = append(own, *k)
		}
	}
	slices.SortFunc(own, func(a, b taskKind) int { return cmp.Or(compareNeeds(a.needs, b.needs), a.set-b.set) })
	p.demandMix = newDemandMix(own, shares)
	return p.demandMix
}

// newDemandMix makes a row of each kind. The kinds must be in the order of their needs; those that
// differ only in their requirements share a row.
func newDemandMix(kinds []taskKind, shares []float64) *demandMix {
	m := &demandMix{}
	total := 0.0
	for i, k := range kinds {
		size := float64(k.needs.GPUs * k.needs.PerGPU())
		weight := float64(k.count) * shares[k.demandClass] * math.Sqrt(math.Sqrt(size))
		total += weight
		if i > 0 && kinds[i-1].needs == k.needs {
			m.rows[len(m.rows)-1].weight += weight
			continue
		}
		if last := len(m.portions) - 1; last < 0 || m.portions[last].per != k.needs.PerGPU() {
			m.portions = append(m.portions, portion{per: k.needs.PerGPU(), first: len(m.rows)})
		}
		cpu, memory := max(1, float64(k.needs.CPU)), max(1, float64(k.needs.Memory))
		m.rows = append(m.rows, mixRow{
			weight: weight, cpu: cpu, memory: memory, perCPU: size / cpu, perMemory: size / memory, gpus: k.needs.GPUs,
			size: size,
		})
		m.portions[len(m.portions)-1].end = len(m.rows)
	}
	for i := range m.rows {
		m.rows[i].weight /= total
	}
	return m
}
