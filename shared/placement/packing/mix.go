package packing

import (
	"cmp"
	"math"
	"slices"

	"berth/shared/cluster"
	"berth/shared/snapshot"
)

// mix is what was learned of a cluster: the kinds of its tasks that need GPUs, and the pools of its
// instances.
type mix struct {
	tasks   int // that need GPUs, run or wait
	kinds   []kind
	sets    []*wants
	pools   []pool
	flows   []flow
	members []membership // by index of the instance
	index   map[poolKey]int32
}

// kind is a number of tasks that need and want the same.
type kind struct {
	needs cluster.Resources
	set   int
	count int64
	flow  int
}

// pool are the instances that satisfy the same sets and have the same size: those of one GPU model
// and instance type, say.
type pool struct {
	poolKey
	capacity int64 // GPU thousandths
	price    float64
	blend    *blend
}

type poolKey struct {
	mask        uint64 // a bit for each set that is satisfied
	cpu, memory int64
	gpus        int
}

// takes reports whether tasks of the kind can go to the pool, were it empty.
func (g *pool) takes(k *kind) bool {
	return g.mask>>k.set&1 == 1 && k.needs.CPU <= g.cpu && k.needs.Memory <= g.memory && k.needs.GPUs <= g.gpus
}

// noPool is the pool of instances without GPUs.
const noPool = -1

// membership is the pool of an instance, as long as its row is the same.
type membership struct {
	rev  uint64
	mask uint64
	pool int32
}

const (
	// maxSets is how many sets of requirements are told apart, those that most is wanted with.
	maxSets = 64
	// maxKinds is how many kinds count, the most frequent.
	maxKinds = 256
)

// learn looks at all tasks and instances. What the last mix knew of instances is used again.
func learn(s *snapshot.Snapshot, last *mix) *mix {
	m := &mix{index: map[poolKey]int32{}}
	m.count(s)
	if last != nil && slices.EqualFunc(m.sets, last.sets, func(a, b *wants) bool { return a.text == b.text }) {
		m.members = last.members
	}
	m.divide(s)
	m.join()
	m.price()
	return m
}

// count finds the kinds. Their order, on which sums depend, does not depend on that of the tasks.
func (m *mix) count(s *snapshot.Snapshot) {
	type requirement struct {
		needs cluster.Resources
		want  *wants
	}
	counts := map[requirement]int64{}
	reader := newWantsReader(s)
	for t := range s.Tasks() {
		if t.Needs.GPUs == 0 || t.Foreign || !t.IsActive() {
			continue
		}
		n := cluster.Resources{CPU: t.Needs.CPU, Memory: t.Needs.Memory, GPUs: t.Needs.GPUs,
			GPUMilli: int32(t.Needs.PerGPU())}
		w := reader.read(t)
		w.demand += int64(n.GPUs * n.PerGPU())
		counts[requirement{n, w}]++
		m.tasks++
	}
	for _, w := range reader.texts {
		m.sets = append(m.sets, w)
	}
	slices.SortFunc(m.sets, func(a, b *wants) int {
		return cmp.Or(cmp.Compare(b.demand, a.demand), cmp.Compare(a.text, b.text))
	})
	m.sets = m.sets[:min(len(m.sets), maxSets)]
	slices.SortFunc(m.sets, func(a, b *wants) int { return cmp.Compare(a.text, b.text) })
	for r, n := range counts {
		if set := slices.Index(m.sets, r.want); set >= 0 {
			m.kinds = append(m.kinds, kind{needs: r.needs, set: set, count: n})
		}
	}
	slices.SortFunc(m.kinds, func(a, b kind) int {
		return cmp.Or(cmp.Compare(b.count, a.count), compareNeeds(a.needs, b.needs), a.set-b.set)
	})
	m.kinds = m.kinds[:min(len(m.kinds), maxKinds)]
}

// compareNeeds orders needs: those with the same share of each device are neighbours.
func compareNeeds(a, b cluster.Resources) int {
	return cmp.Or(cmp.Compare(a.GPUMilli, b.GPUMilli), cmp.Compare(a.GPUs, b.GPUs), cmp.Compare(a.CPU, b.CPU),
		cmp.Compare(a.Memory, b.Memory))
}

// divide puts the instances into pools.
func (m *mix) divide(s *snapshot.Snapshot) {
	if missing := len(s.InstancesByIndex()) - len(m.members); missing > 0 {
		m.members = append(m.members, make([]membership, missing)...)
	}
	for _, v := range s.InstancesByIndex() {
		if v == nil || v.Instance == nil || len(v.GPUs) == 0 {
			continue
		}
		p := &m.members[v.Index]
		if p.rev != v.StaticRev {
			*p = membership{rev: v.StaticRev, mask: m.mask(v)}
		}
		p.pool = m.poolBy(p.mask, v)
		if v.IsAvailable() {
			m.pools[p.pool].capacity += int64(len(v.GPUs)) * cluster.WholeGPU
		}
	}
}

func (m *mix) poolBy(mask uint64, v *snapshot.InstanceView) int32 {
	k := poolKey{mask, v.Registered.CPU, v.Registered.Memory, len(v.GPUs)}
	g, ok := m.index[k]
	if !ok {
		g = int32(len(m.pools))
		m.index[k] = g
		m.pools = append(m.pools, pool{poolKey: k})
	}
	return g
}

// mask has a bit for each set that the instance satisfies.
func (m *mix) mask(v *snapshot.InstanceView) (mask uint64) {
	for i, w := range m.sets {
		if w.fits(v) {
			mask |= 1 << i
		}
	}
	return mask
}

// poolOf is the pool of an instance. One that came, or changed, since the mix was learned may be in
// a pool of its own, which has no price yet.
func (m *mix) poolOf(v *snapshot.InstanceView) int32 {
	if len(v.GPUs) == 0 {
		return noPool
	}
	if v.Index >= len(m.members) {
		m.members = append(m.members, make([]membership, v.Index+1-len(m.members))...)
	}
	p := &m.members[v.Index]
	if p.rev != v.StaticRev {
		mask := m.mask(v)
		*p = membership{rev: v.StaticRev, mask: mask, pool: m.poolBy(mask, v)}
	}
	return p.pool
}

// blend is what may come to a pool: of each kind the part that [mix.price] spread to it. A kind
// weighs as much as it is frequent, larger ones a little more.
func (m *mix) blend(id int32) *blend {
	g := &m.pools[id]
	if g.blend != nil {
		return g.blend
	}
	shares := make([]float64, len(m.flows))
	for at := range m.flows {
		shares[at] = 1 // all of it, where nothing else takes it
		if all := m.flows[at].width(m.pools); all > 0 {
			shares[at] = math.Exp(-g.price) / all
		}
	}
	var own []kind
	for i := range m.kinds {
		if k := &m.kinds[i]; g.takes(k) {
			own = append(own, *k)
		}
	}
	slices.SortFunc(own, func(a, b kind) int { return cmp.Or(compareNeeds(a.needs, b.needs), a.set-b.set) })
	g.blend = newBlend(own, shares)
	return g.blend
}

// newBlend makes rows of the kinds, which are in the order of their needs; those that differ only
// in their sets are one.
func newBlend(kinds []kind, shares []float64) *blend {
	b := &blend{}
	total := 0.0
	for i, k := range kinds {
		size := float64(k.needs.GPUs * k.needs.PerGPU())
		weight := float64(k.count) * shares[k.flow] * math.Sqrt(math.Sqrt(size))
		total += weight
		if i > 0 && kinds[i-1].needs == k.needs {
			b.rows[len(b.rows)-1].weight += weight
			continue
		}
		if last := len(b.portions) - 1; last < 0 || b.portions[last].per != k.needs.PerGPU() {
			b.portions = append(b.portions, portion{per: k.needs.PerGPU(), first: len(b.rows)})
		}
		cpu, memory := max(1, float64(k.needs.CPU)), max(1, float64(k.needs.Memory))
		b.rows = append(b.rows, blendRow{
			weight: weight, cpu: cpu, memory: memory, perCPU: size / cpu, perMemory: size / memory, gpus: k.needs.GPUs,
			size: size,
		})
		b.portions[len(b.portions)-1].end = len(b.rows)
	}
	for i := range b.rows {
		b.rows[i].weight /= total
	}
	return b
}
