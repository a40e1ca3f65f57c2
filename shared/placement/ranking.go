package placement

import "math"

// ranking is the best instance for tasks of one shape: in each block of a region's slots, and in a tree above the blocks,
// up to the best of the region. It follows the engine's log. Owners share it, so it leaves out what an owner's own tasks
// decide, unless it is the ranking of one owner (see pick.go).
type ranking struct {
	*shape
	owner   *tally // nil where owners share it
	most    int32  // of the owner's tasks on one instance, 0 for any number
	columns []*[]int64
	layout  *layout
	rev     int // of the layout
	tree    []int32
	top     []int32   // a tree over the best of the regions, where they are many
	fit     []fitness // of the instances in the tree; of all where there is a scorer
	scores  []int64
	epoch   uint64 // of the scorer
	at      uint64
	dirty   []int32 // instances to look at again, which the log does not tell of
	built   bool
}

// newRanking is a ranking that has yet to be built, the owner's own where there is one.
func (e *Engine) newRanking(s *shape, l *layout, owner *tally) *ranking {
	k := &ranking{shape: s, layout: l, owner: owner}
	for at := range s.order.steps {
		switch p := &s.order.steps[at]; {
		case p.kind == byColumn:
			k.columns = append(k.columns, p.column)
		case p.kind == byScore:
			k.columns = append(k.columns, &k.scores)
		case p.kind == byCount && owner != nil:
			k.columns = append(k.columns, &owner.dense)
		}
	}
	return k
}

// follow brings the ranking up to date with the engine.
func (k *ranking) follow() {
	if !k.built || k.rev != k.layout.rev || !k.log.since(k.at, len(k.views)) ||
		k.order.scorer != nil && k.epoch != k.order.scorer.Epoch() {
		k.build()
		return
	}
	k.grow(len(k.views))
	for ; k.at < k.log.end; k.at++ {
		if i, last := k.log.get(k.at); last || k.order.scorer == nil { // to be rated once is enough
			k.refresh(i)
		}
	}
	for _, i := range k.dirty {
		k.refresh(i)
	}
	k.dirty = k.dirty[:0]
}

// review has the instances looked at again when the ranking is next used.
func (k *ranking) review(instances []int32) { k.dirty = append(k.dirty, instances...) }

func (k *ranking) grow(n int) {
	lengthen(&k.fit, n)
	if k.order.scorer != nil {
		lengthen(&k.scores, n)
	}
}

// build ranks all instances anew.
func (k *ranking) build() {
	n := len(k.views)
	k.grow(n)
	if k.order.scorer != nil {
		k.epoch = k.order.scorer.Epoch()
		for i := range n {
			k.rate(int32(i))
		}
	}
	if len(k.tree) != k.layout.nodes {
		k.tree = make([]int32, k.layout.nodes)
	}
	for i := range k.tree {
		k.tree[i] = -1
	}
	for at := range k.layout.regions {
		r := &k.layout.regions[at]
		nodes := k.tree[r.tree:]
		for b := range r.blocks {
			nodes[r.width+b] = k.bestOf(r.from + b*blockSize)
		}
		for node := r.width - 1; node > 0; node-- {
			nodes[node] = k.better(nodes[2*node], nodes[2*node+1])
		}
	}
	if k.layout.byDomain {
		k.crown()
	}
	k.built, k.rev, k.at, k.dirty = true, k.layout.rev, k.log.end, k.dirty[:0]
}

// crown makes the tree over the regions.
func (k *ranking) crown() {
	width := 1
	for width < len(k.layout.regions) {
		width *= 2
	}
	k.top = filled(2 * width)
	for at, root := range k.layout.roots {
		k.top[width+at] = k.tree[root]
	}
	for node := width - 1; node > 0; node-- {
		k.top[node] = k.better(k.top[2*node], k.top[2*node+1])
	}
}

// rate asks the scorer.
func (k *ranking) rate(i int32) {
	if k.fit[i] = k.judge(i); k.fit[i] != unfit {
		k.scores[i] = ordered(k.order.scorer.Score(k.now(int(i)), &k.spec.Needs))
	}
}

// judge is the instance's fitness, with what is the owner's there where the ranking is its own.
func (k *ranking) judge(i int32) fitness {
	if k.owner != nil && k.most > 0 && k.owner.isHeld.has(i) && k.owner.held[i] >= k.most {
		return unfit
	}
	return k.fitness(int(i))
}

// ordered maps floating-point numbers to whole ones that compare the same way.
func ordered(f float64) int64 {
	bits := int64(math.Float64bits(f + 0)) // +0 for -0
	if bits < 0 {
		bits ^= math.MaxInt64
	}
	return bits
}

// refresh takes in how an instance stands now and puts it where it belongs in its region.
func (k *ranking) refresh(i int32) {
	if k.order.scorer != nil {
		k.rate(i)
	}
	at := k.layout.seats[i]
	if at.slot < 0 {
		return
	}
	nodes, node := k.tree[at.tree:], at.node
	if best := nodes[node]; best == i {
		nodes[node] = k.bestOf(at.slot - at.slot%blockSize)
	} else if nodes[node] = k.improve(best, i); nodes[node] == best {
		return
	}
	for node > 1 {
		node /= 2
		best := k.better(nodes[2*node], nodes[2*node+1])
		if best == nodes[node] && best != i {
			return // what is above stays as it is
		}
		nodes[node] = best
	}
	if k.layout.byDomain {
		k.rise(i)
	}
}

// rise takes in that the best of the instance's region is another now, or not what it was.
func (k *ranking) rise(i int32) {
	at := k.layout.region[i]
	node := int32(len(k.top)/2) + at
	for k.top[node] = k.tree[k.layout.roots[at]]; node > 1; {
		node /= 2
		best := k.better(k.top[2*node], k.top[2*node+1])
		if best == k.top[node] && best != i {
			return
		}
		k.top[node] = best
	}
}

// bestOf is the best of the block that begins at the slot, -1 if none can take a task.
func (k *ranking) bestOf(slot int32) int32 {
	best := int32(-1)
	for _, i := range k.layout.members[slot : slot+blockSize] {
		if i >= 0 {
			best = k.improve(best, i)
		}
	}
	return best
}

// improve is the better of best, which may be none, and i, which may be unfit. What i is fit for is not asked where it
// would not be better anyway: most changes cost no more than that.
func (k *ranking) improve(best, i int32) int32 {
	k.looks++
	if best >= 0 && k.fit[best] == unbuffered && !k.ahead(i, best) {
		return best
	}
	f := k.fit[i]
	if k.order.scorer == nil {
		f = k.judge(i)
	}
	if f == unfit || best >= 0 && (f > k.fit[best] || f == k.fit[best] && !k.ahead(i, best)) {
		return best
	}
	k.fit[i] = f
	return i
}

// better is the better of two instances of the tree, either of which may be none.
func (k *ranking) better(i, j int32) int32 {
	k.looks++
	switch {
	case i < 0:
		return j
	case j < 0 || k.fit[i] < k.fit[j] || k.fit[i] == k.fit[j] && k.ahead(i, j):
		return i
	}
	return j
}

// ahead reports whether, of two equally fit instances of one region, a task had better go to i.
func (k *ranking) ahead(i, j int32) bool {
	for _, column := range k.columns {
		if a, b := (*column)[i], (*column)[j]; a != b {
			return a < b
		}
	}
	return k.before(i, j)
}
