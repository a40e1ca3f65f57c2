package placement

import (
	"math"
	"slices"

	"berth/shared/cluster"
)

// A sortedIndex has the instances of each region in the order in which tasks prefer them: the first
// feasible one is the best. It is a sorted run of blocks. Each block knows the most CPU and memory
// that any of its instances has free, so that a search skips blocks in which nothing fits.
//
// Most orders compare columns that are the same for all tasks, and one index serves all owners and
// shapes: a changed instance is moved once, however many those are. An order that counts the
// owner's tasks has its own index, and so has an order by a score of the task's shape.
// docs/decisions/021-candidate-index.md has the measurements.
type sortedIndex struct {
	engine          *Engine
	columns         []indexColumn // compared in this order; then the ids
	regionMap       *regionMap
	regionsRevision int     // of the region map
	indexRevision   int     // of the engine
	logPosition     uint64  // in the change log
	dirty           []int32 // instances to check again that the log does not name
	built           bool
	runs            []run    // by region
	heads           []head   // by region
	blocks          []*block // by instance, nil if it is not in the index
	cpuPerMiB       int64    // in the cluster, see [freeResources]
	spareBlocks     []*block
	unusedBlocks    []block // of those that were allocated at once
	// scored is the shape whose scores are compared, or nil. The index then has only instances that
	// are feasible for it.
	scored *shape
	scores []int64
	epoch  uint64 // of the scorer
}

// An indexColumn is a number of each instance that the index is sorted by: a field of its usage, or
// a value of a slice.
type indexColumn struct {
	field  usageField
	values *[]int64 // nil for a field
}

// A rank is where an instance belongs in its run. The index keeps a copy beside each instance:
// otherwise each comparison would read the usages of two instances, which are in no cache. Columns
// from the third on, which few orders have, are read where the first two are equal.
type rank struct{ first, second, label int64 }

// A head is the first instance of a run, or -1, and its rank.
type head struct {
	rank
	instance int32
}

// sharedIndexFor returns the index for all choosers that compare instances by the same columns or
// scores.
func sharedIndexFor(e *Engine, s *shape, regions *regionMap) *sortedIndex {
	key := regions.key
	for at := range s.order.steps {
		switch step := &s.order.steps[at]; step.kind {
		case byColumn:
			key += "\x05" + step.name
		case byScore:
			key += "\x06" + s.key
		}
	}
	x := e.caches.indexes[key]
	if x == nil {
		x = newSortedIndex(e, s, regions, nil)
		e.caches.indexes[key] = x
	}
	return x
}

// newSortedIndex returns an index that is built at its first use. If owner is not nil, the owner's
// tasks on each instance are compared, too.
func newSortedIndex(e *Engine, s *shape, regions *regionMap, owner *ownerCounts) *sortedIndex {
	x := &sortedIndex{engine: e, regionMap: regions}
	for at := range s.order.steps {
		switch step := &s.order.steps[at]; {
		case step.kind == byColumn:
			x.columns = append(x.columns, indexColumn{field: step.field})
		case step.kind == byScore:
			x.columns, x.scored = append(x.columns, indexColumn{values: &x.scores}), s
		case step.kind == byCount && owner != nil:
			x.columns = append(x.columns, indexColumn{values: &owner.dense})
		}
	}
	return x
}

// isCurrent reports whether the index is up to date.
func (x *sortedIndex) isCurrent() bool {
	return x.built && x.regionsRevision == x.regionMap.revision && x.indexRevision == x.engine.indexRevision &&
		x.logPosition == x.engine.changes.end && len(x.dirty) == 0
}

// needsOf returns what tasks of the shape need, as the index compares it with what is free.
func (x *sortedIndex) needsOf(s *shape) freeResources {
	spec := s.spec
	n := newFreeResources(spec.Needs.CPU, spec.Needs.Memory, x.cpuPerMiB)
	if n.gpus = limitTo32Bits(int64(spec.Needs.GPUs)); n.gpus > 0 && spec.Needs.PerGPU() < cluster.WholeGPU {
		n.gpus = 1 // several shared devices are as much as one
	}
	for m := range n.metrics {
		n.metrics[m] = math.MinInt32
	}
	for _, d := range s.demands {
		if d.metric < indexedMetrics && d.load > 0 && s.application == nil { // it may have reserved some
			n.metrics[d.metric] = limitTo32Bits(d.load)
		}
	}
	return n
}

// followChanges brings the index up to date. It removes all changed instances before it inserts
// any, because a search among instances out of order would go wrong.
func (x *sortedIndex) followChanges() {
	n := len(x.engine.views)
	if !x.built || x.regionsRevision != x.regionMap.revision || x.indexRevision != x.engine.indexRevision ||
		!x.engine.changes.coversChangesSince(x.logPosition, n) ||
		x.scored != nil &&
			x.epoch != x.scored.order.scorer.Epoch() {
		x.rebuildIndex()
		return
	}
	if x.logPosition == x.engine.changes.end && len(x.dirty) == 0 {
		return
	}
	growSlice(&x.blocks, n)
	for at := x.logPosition; at < x.engine.changes.end; at++ {
		i, _ := x.engine.changes.changedInstanceAt(at)
		x.removeInstance(i)
	}
	for _, i := range x.dirty {
		x.removeInstance(i)
	}
	for ; x.logPosition < x.engine.changes.end; x.logPosition++ {
		if i, last := x.engine.changes.changedInstanceAt(x.logPosition); last {
			x.insertInstance(i)
		}
	}
	for _, i := range x.dirty {
		x.insertInstance(i)
	}
	x.dirty = x.dirty[:0]
}

// rebuildIndex sorts all instances. Its blocks begin three quarters full, so that inserting does
// not split them at once. A region that fits into one block gets one.
func (x *sortedIndex) rebuildIndex() {
	n := len(x.engine.views)
	if x.scored != nil {
		x.epoch = x.scored.order.scorer.Epoch()
	}
	x.runs, x.blocks, x.spareBlocks = make([]run, len(x.regionMap.regions)), make([]*block, n), nil
	all, sizes := make([]head, 0, n), make([]int, len(x.runs))
	cpu, memory := int64(0), int64(1)
	for i := range n {
		if x.qualifiesForIndex(i) {
			all = append(all, head{x.rankOf(int32(i)), int32(i)})
			sizes[x.regionMap.regionOf[i]]++
			cpu, memory = cpu+x.engine.views[i].Registered.CPU>>10, memory+x.engine.views[i].Registered.Memory>>10
		}
	}
	x.cpuPerMiB = max(1, cpu/memory)
	slices.SortFunc(all, func(a, b head) int {
		if x.isBefore(&a.rank, a.instance, &b.rank, b.instance) {
			return -1
		}
		return 1
	})
	const filled = maxBlock * 3 / 4
	x.unusedBlocks = make([]block, len(all)/filled+len(x.runs))
	for at := range all {
		x.appendSorted(&all[at], sizes, filled)
	}
	x.heads = make([]head, len(x.runs))
	for region := range x.runs {
		r := &x.runs[region]
		r.renumberFrom(0)
		x.heads[region] = r.firstInstance()
	}
	x.built, x.regionsRevision, x.logPosition, x.dirty = true, x.regionMap.revision, x.engine.changes.end, x.dirty[:0]
	x.indexRevision = x.engine.indexRevision
}

// appendSorted appends the instance that comes next in its region. sizes are those of the regions, and
// filled is how many instances a block gets if its region has several.
func (x *sortedIndex) appendSorted(next *head, sizes []int, filled int) {
	i := next.instance
	region := x.regionMap.regionOf[i]
	r := &x.runs[region]
	last := len(r.blocks) - 1
	if last < 0 || sizes[region] > maxBlock && r.blocks[last].count == filled {
		last++
		r.blocks, r.firsts = append(r.blocks, x.newEmptyBlock()), append(r.firsts, next.rank)
		r.maxima = append(r.maxima, blockMaximum{stale: true})
	}
	b := r.blocks[last]
	b.insertAt(b.count, i, next.rank, x.freeResourcesOf(i), x.engine.usages[i].portBits)
	x.blocks[i] = b
}

// qualifiesForIndex reports whether the instance belongs in the index. With scores, it also
// computes the instance's.
func (x *sortedIndex) qualifiesForIndex(i int) bool {
	if !x.engine.usages[i].takesTasks || x.regionMap.regionOf[i] < 0 {
		return false
	}
	if x.scored == nil {
		return true
	}
	if x.scored.instanceFeasibility(i) == infeasible {
		return false
	}
	growSlice(&x.scores, len(x.engine.views))
	x.scores[i] = orderedBits(x.scored.order.scorer.Score(x.engine.currentView(i), &x.scored.spec.Needs))
	return true
}

// orderedBits maps floating-point numbers to integers that compare the same way.
func orderedBits(f float64) int64 {
	bits := int64(math.Float64bits(f + 0)) // +0 for -0
	if bits < 0 {
		bits ^= math.MaxInt64
	}
	return bits
}

// valueOf returns what the column at a position has of the instance.
func (x *sortedIndex) valueOf(at int, i int32) int64 {
	if c := &x.columns[at]; c.values != nil {
		return (*c.values)[i]
	}
	return x.engine.usages[i].valueOf(x.columns[at].field)
}

// rankOf returns the rank that the instance has now.
func (x *sortedIndex) rankOf(i int32) rank {
	r := rank{label: x.engine.idLabel[i]}
	if len(x.columns) > 0 {
		r.first = x.valueOf(0, i)
	}
	if len(x.columns) > 1 {
		r.second = x.valueOf(1, i)
	}
	return r
}

// isBefore reports whether, within a region, a task prefers i to j, which have the ranks a and b.
func (x *sortedIndex) isBefore(a *rank, i int32, b *rank, j int32) bool {
	if a.first != b.first {
		return a.first < b.first
	}
	if a.second != b.second {
		return a.second < b.second
	}
	for at := 2; at < len(x.columns); at++ {
		if p, q := x.valueOf(at, i), x.valueOf(at, j); p != q {
			return p < q
		}
	}
	return a.label < b.label
}

// ranksBefore reports whether, within a region, a task prefers i to j.
func (x *sortedIndex) ranksBefore(i, j int32) bool {
	a, b := x.rankOf(i), x.rankOf(j)
	return x.isBefore(&a, i, &b, j)
}

// tiesExceptForID reports whether only the ids tell two instances of a region apart.
func (x *sortedIndex) tiesExceptForID(i, j int32) bool {
	for at := range x.columns {
		if x.valueOf(at, i) != x.valueOf(at, j) {
			return false
		}
	}
	return true
}

// reposition moves an instance to where it belongs now. All others must be in order. It does nothing
// if the regions have changed: then the next use builds the index again.
func (x *sortedIndex) reposition(i int32) {
	if x.regionsRevision != x.regionMap.revision {
		return
	}
	x.removeInstance(i)
	x.insertInstance(i)
}

// repositionAll moves instances to where they belong now. All others must be in order.
func (x *sortedIndex) repositionAll(instances []int32) {
	for _, i := range instances {
		x.removeInstance(i)
	}
	for _, i := range instances {
		x.insertInstance(i)
	}
}

// markDirty makes the index check the instances again at its next use.
func (x *sortedIndex) markDirty(instances []int32) { x.dirty = append(x.dirty, instances...) }

// removeInstance removes the instance. Two neighbouring blocks are merged if together they have
// half of what one may have: the number of blocks stays in proportion to the instances.
func (x *sortedIndex) removeInstance(i int32) {
	b := x.blocks[i]
	if b == nil {
		return
	}
	x.blocks[i] = nil
	region := x.regionMap.regionOf[i]
	r := &x.runs[region]
	at := b.find(i)
	r.removeFromMaxima(b.position, b.free[at])
	b.removeAt(at)
	switch {
	case b.position+1 < len(r.blocks) && b.count+r.blocks[b.position+1].count <= maxBlock/2:
		x.mergeNext(r, b)
	case b.count == 0:
		r.removeBlock(b.position)
		x.spareBlocks = append(x.spareBlocks, b)
	}
	if b.count > 0 && at == 0 {
		r.firsts[b.position] = b.ranks[0]
	}
	if x.heads[region].instance == i {
		x.heads[region] = r.firstInstance()
	}
}

// mergeNext moves the instances of the next block into b.
func (x *sortedIndex) mergeNext(r *run, b *block) {
	next := r.blocks[b.position+1]
	for _, i := range next.instances[:next.count] {
		x.blocks[i] = b
	}
	b.appendFrom(next, 0)
	r.markStale(b.position)
	r.removeBlock(next.position)
	next.count = 0
	x.spareBlocks = append(x.spareBlocks, next)
	r.firsts[b.position] = b.ranks[0]
}

// newEmptyBlock returns an empty block.
func (x *sortedIndex) newEmptyBlock() *block {
	if n := len(x.spareBlocks); n > 0 {
		b := x.spareBlocks[n-1]
		x.spareBlocks = x.spareBlocks[:n-1]
		return b
	}
	if n := len(x.unusedBlocks); n > 0 {
		b := &x.unusedBlocks[n-1]
		x.unusedBlocks = x.unusedBlocks[:n-1]
		return b
	}
	return &block{}
}

// insertInstance inserts the instance where it belongs now. A block that becomes too large is split
// in two.
func (x *sortedIndex) insertInstance(i int32) {
	if x.blocks[i] != nil || !x.qualifiesForIndex(int(i)) {
		return
	}
	region := x.regionMap.regionOf[i]
	r := &x.runs[region]
	if len(r.blocks) == 0 {
		r.insertBlock(0, x.newEmptyBlock())
	}
	own, free := x.rankOf(i), x.freeResourcesOf(i)
	b := r.blocks[x.blockPositionFor(r, &own, i)]
	at := 0
	for at < b.count && x.isBefore(&b.ranks[at], b.instances[at], &own, i) {
		at++
	}
	b.insertAt(at, i, own, free, x.engine.usages[i].portBits)
	x.blocks[i] = b
	r.addToMaxima(b.position, free)
	if at == 0 {
		r.firsts[b.position] = own
		if b.position == 0 {
			x.heads[region] = head{own, i}
		}
	}
	if b.count <= maxBlock {
		return
	}
	const half = maxBlock / 2
	rest := x.newEmptyBlock()
	rest.appendFrom(b, half)
	b.count = half
	for _, j := range rest.instances[:rest.count] {
		x.blocks[j] = rest
	}
	r.markStale(b.position)
	r.insertBlock(b.position+1, rest)
	r.firsts[rest.position] = rest.ranks[0]
}

// blockPositionFor returns the position of the last block that begins before the instance, or 0.
func (x *sortedIndex) blockPositionFor(r *run, own *rank, i int32) int {
	from, to := 0, len(r.blocks)-1
	for from < to {
		middle := (from + to + 1) / 2
		if x.isBefore(&r.firsts[middle], r.blocks[middle].instances[0], own, i) {
			from = middle
		} else {
			to = middle - 1
		}
	}
	return from
}

// freeResourcesOf returns what the instance has free.
func (x *sortedIndex) freeResourcesOf(i int32) freeResources {
	u := &x.engine.usages[i]
	out := newFreeResources(u.cpu, u.memory, x.cpuPerMiB)
	if out.gpus = u.wholeGPUs; u.largestShare > 0 {
		out.gpus++
	}
	for m := range out.metrics {
		out.metrics[m] = math.MaxInt32
		if m < len(x.engine.metrics) {
			metric := &x.engine.metrics[m][i]
			out.metrics[m] = limitTo32Bits(metric.total - metric.load - metric.reserved)
		}
	}
	return out
}

// estimateMemory estimates the bytes that the index takes.
func (x *sortedIndex) estimateMemory() int {
	out := 1024 + 8*len(x.blocks) + 8*len(x.scores) + 128*len(x.heads)
	for at := range x.runs {
		out += (blockSize + 96) * len(x.runs[at].blocks)
	}
	return out + blockSize*(len(x.spareBlocks)+len(x.unusedBlocks))
}
