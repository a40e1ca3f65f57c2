package placement

import (
	"math"
	"slices"
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
	columns         []*[]int64 // compared in this order; then the ids
	regionMap       *regionMap
	regionsRevision int     // of the region map
	logPosition     uint64  // in the change log
	dirty           []int32 // instances to check again that the log does not name
	built           bool
	runs            []run    // by region
	heads           []int32  // by region, the first instance or -1
	blocks          []*block // by instance, nil if it is not in the index
	cpuPerMiB       int64    // in the cluster, see [freeResources.scarcerOf]
	spareBlocks     []*block
	// scored is the shape whose scores are compared, or nil. The index then has only instances that
	// are feasible for it.
	scored *shape
	scores []int64
	epoch  uint64 // of the scorer
}

// A run has the instances of a region, in blocks.
type run struct {
	blocks []*block
	maxima []blockMaximum // per block, side by side to be scanned quickly
}

// A block is a few instances that follow one another.
type block struct {
	instances []int32
	free      []freeResources // of the instances, by position
	position  int             // in the run
}

// freeResources is how much CPU and memory an instance has free.
type freeResources struct{ cpu, memory int64 }

// A blockMaximum has the most CPU, the most memory, and the most of the scarcer of both that any
// instance of a block has free. The last one skips blocks that have an instance with enough CPU and
// another with enough memory, but none with both.
type blockMaximum struct {
	freeResources
	scarcer int64
	stale   bool // must be computed again
}

// scarcerOf returns the scarcer of the two in MiB, converting CPU by the cluster's ratio. A task
// that needs more than this does not fit.
func (f freeResources) scarcerOf(unit int64) int64 { return min(f.cpu/unit, f.memory) }

// maxBlock is the most instances of a block.
const maxBlock = 24

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
			x.columns = append(x.columns, step.column)
		case step.kind == byScore:
			x.columns, x.scored = append(x.columns, &x.scores), s
		case step.kind == byCount && owner != nil:
			x.columns = append(x.columns, &owner.dense)
		}
	}
	return x
}

// followChanges brings the index up to date. It removes all changed instances before it inserts
// any, because a search among instances out of order would go wrong.
func (x *sortedIndex) followChanges() {
	n := len(x.engine.views)
	if !x.built || x.regionsRevision != x.regionMap.revision ||
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
// not split them at once.
func (x *sortedIndex) rebuildIndex() {
	n := len(x.engine.views)
	if x.scored != nil {
		x.epoch = x.scored.order.scorer.Epoch()
	}
	x.runs, x.blocks = make([]run, len(x.regionMap.regions)), make([]*block, n)
	all := make([]int32, 0, n)
	cpu, memory := int64(0), int64(1)
	for i := range n {
		if x.qualifiesForIndex(i) {
			all = append(all, int32(i))
			cpu, memory = cpu+x.engine.views[i].Registered.CPU>>10, memory+x.engine.views[i].Registered.Memory>>10
		}
	}
	x.cpuPerMiB = max(1, cpu/memory)
	slices.SortFunc(all, x.compareInstances)
	for _, i := range all {
		r := &x.runs[x.regionMap.regionOf[i]]
		last := len(r.blocks) - 1
		if last < 0 || len(r.blocks[last].instances) == maxBlock*3/4 {
			r.insertBlock(last+1, x.newEmptyBlock())
			last++
		}
		b := r.blocks[last]
		b.instances, b.free = append(b.instances, i), append(b.free, x.freeResourcesOf(i))
		x.blocks[i] = b
	}
	x.heads = make([]int32, len(x.runs))
	for region := range x.runs {
		x.heads[region] = x.runs[region].firstInstance()
	}
	x.built, x.regionsRevision, x.logPosition, x.dirty = true, x.regionMap.revision, x.engine.changes.end, x.dirty[:0]
}

// qualifiesForIndex reports whether the instance belongs in the index. With scores, it also
// computes the instance's.
func (x *sortedIndex) qualifiesForIndex(i int) bool {
	if !x.engine.takesTasks[i] || x.regionMap.regionOf[i] < 0 {
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

// compareInstances is negative if, within a region, a task prefers i to j.
func (x *sortedIndex) compareInstances(i, j int32) int {
	if x.ranksBefore(i, j) {
		return -1
	}
	return 1
}

// ranksBefore reports whether, within a region, a task prefers i to j.
func (x *sortedIndex) ranksBefore(i, j int32) bool {
	for _, column := range x.columns {
		if a, b := (*column)[i], (*column)[j]; a != b {
			return a < b
		}
	}
	return x.engine.hasLowerID(i, j)
}

// tiesExceptForID reports whether only the ids tell two instances of a region apart.
func (x *sortedIndex) tiesExceptForID(i, j int32) bool {
	for _, column := range x.columns {
		if (*column)[i] != (*column)[j] {
			return false
		}
	}
	return true
}

// reposition moves an instance to where it belongs now. All others must be in order.
func (x *sortedIndex) reposition(i int32) {
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
	at := slices.Index(b.instances, i)
	b.instances, b.free = slices.Delete(b.instances, at, at+1), slices.Delete(b.free, at, at+1)
	r.maxima[b.position].stale = true
	if b.position+1 < len(r.blocks) && len(b.instances)+len(r.blocks[b.position+1].instances) <= maxBlock/2 {
		x.mergeNext(r, b)
	} else if len(b.instances) == 0 {
		r.removeBlock(b.position)
		x.recycleBlock(b)
	}
	if x.heads[region] == i {
		x.heads[region] = r.firstInstance()
	}
}

// mergeNext moves the instances of the next block into b.
func (x *sortedIndex) mergeNext(r *run, b *block) {
	next := r.blocks[b.position+1]
	for _, i := range next.instances {
		x.blocks[i] = b
	}
	b.instances, b.free = append(b.instances, next.instances...), append(b.free, next.free...)
	r.removeBlock(next.position)
	x.recycleBlock(next)
}

// recycleBlock keeps a block for reuse.
func (x *sortedIndex) recycleBlock(b *block) {
	b.instances, b.free = b.instances[:0], b.free[:0]
	x.spareBlocks = append(x.spareBlocks, b)
}

// newEmptyBlock returns an empty block with full capacity.
func (x *sortedIndex) newEmptyBlock() *block {
	if n := len(x.spareBlocks); n > 0 {
		b := x.spareBlocks[n-1]
		x.spareBlocks = x.spareBlocks[:n-1]
		return b
	}
	return &block{instances: make([]int32, 0, maxBlock+1), free: make([]freeResources, 0, maxBlock+1)}
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
	b := r.blocks[x.blockPositionFor(r, i)]
	at, _ := slices.BinarySearchFunc(b.instances, i, x.compareInstances)
	b.instances, b.free = slices.Insert(b.instances, at, i), slices.Insert(b.free, at, x.freeResourcesOf(i))
	x.blocks[i] = b
	r.maxima[b.position].stale = true
	x.heads[region] = r.firstInstance()
	if len(b.instances) <= maxBlock {
		return
	}
	const half = maxBlock / 2
	rest := x.newEmptyBlock()
	rest.instances, rest.free = append(rest.instances, b.instances[half:]...), append(rest.free, b.free[half:]...)
	b.instances, b.free = b.instances[:half], b.free[:half]
	for _, j := range rest.instances {
		x.blocks[j] = rest
	}
	r.insertBlock(b.position+1, rest)
}

// blockPositionFor returns the position of the last block that begins before the instance, or 0.
func (x *sortedIndex) blockPositionFor(r *run, i int32) int {
	from, to := 0, len(r.blocks)-1
	for from < to {
		middle := (from + to + 1) / 2
		if x.ranksBefore(r.blocks[middle].instances[0], i) {
			from = middle
		} else {
			to = middle - 1
		}
	}
	return from
}

func (x *sortedIndex) freeResourcesOf(i int32) freeResources {
	return freeResources{x.engine.cpu[i], x.engine.memory[i]}
}

// estimateMemory estimates the bytes that the index takes.
func (x *sortedIndex) estimateMemory() int {
	out := 1024 + 48*len(x.blocks) + 8*len(x.scores) // per instance: which block, and its place in it
	for at := range x.runs {
		out += 64 * len(x.runs[at].blocks)
	}
	return out
}

// firstInstance returns the first instance of the run, or -1.
func (r *run) firstInstance() int32 {
	if len(r.blocks) == 0 {
		return -1
	}
	return r.blocks[0].instances[0]
}

func (r *run) insertBlock(at int, b *block) {
	r.blocks, r.maxima = slices.Insert(r.blocks, at, b), slices.Insert(r.maxima, at, blockMaximum{stale: true})
	r.renumberFrom(at)
}

func (r *run) removeBlock(at int) {
	r.blocks, r.maxima = slices.Delete(r.blocks, at, at+1), slices.Delete(r.maxima, at, at+1)
	r.renumberFrom(at)
}

// renumberFrom sets the positions of the blocks from one on.
func (r *run) renumberFrom(from int) {
	for at := from; at < len(r.blocks); at++ {
		r.blocks[at].position = at
	}
}

// maximumOf returns a block's maximum, computing it if the block has changed.
func (r *run) maximumOf(at int, unit int64) *blockMaximum {
	if !r.maxima[at].stale {
		return &r.maxima[at]
	}
	most := r.blocks[at].free[0]
	both := most.scarcerOf(unit)
	for _, f := range r.blocks[at].free {
		most.cpu, most.memory, both = max(most.cpu, f.cpu), max(most.memory, f.memory), max(both, f.scarcerOf(unit))
	}
	r.maxima[at] = blockMaximum{freeResources: most, scarcer: both}
	return &r.maxima[at]
}
