package placement

import (
	"math"
	"slices"
)

// sortedIndex is the open instances of each region in the order in which tasks are placed: the
// first instance that has what a task asks for is the best one. It is a sorted run in blocks, and
// each block knows the most CPU and memory that any of its instances has free, so that a search
// skips the blocks where nothing fits.
//
// Most orders compare instances by columns that are the same for all tasks. Every owner and shape
// shares one index then, and a changed instance costs one move in it however many they are. An
// order that counts the owner's own tasks, or goes by a score of the task's shape, has an index of
// its own.
type sortedIndex struct {
	engine  *Engine
	columns []*[]int64 // that are compared, in this order; then the ids
	layout  *layout
	rev     int // of the layout
	at      uint64
	dirty   []int32 // instances to look at again, which the log does not tell of
	built   bool
	runs    []run    // by region
	heads   []int32  // by region, the first instance, -1 for none
	blocks  []*block // by instance, nil for one that is not in the index
	unit    int64    // CPU for each MiB, see [free.both]
	unused  []*block
	// scored is the shape whose scores are compared, nil for none. Only instances that fit the
	// shape are in the index then.
	scored *shape
	scores []int64
	epoch  uint64 // of the scorer
}

// run is the instances of a region, in blocks. The most that each block offers stands side by side,
// to be looked through quickly.
type run struct {
	blocks []*block
	most   []offer // per block
}

// block is some instances that follow one another.
type block struct {
	members []int32
	free    []free // of the members, by position
	at      int    // its position in the run
}

// free is how much CPU and memory an instance has free.
type free struct{ cpu, memory int64 }

// offer is the most CPU and the most memory that an instance of a block has free, and the most of
// both together: of the one that it has less of, in proportion.
type offer struct {
	free
	both  int64
	stale bool // to be worked out anew
}

// both is how much there is of the scarcer of the two, in MiB: so much CPU goes with a MiB in the
// cluster. What does not suffice by it does not suffice.
func (f free) both(unit int64) int64 { return min(f.cpu/unit, f.memory) }

// maxBlock is how many instances a block may have.
const maxBlock = 24

// sharedIndex returns the index that all classes use which compare instances by the same columns,
// or by the same scores.
func sharedIndex(e *Engine, s *shape, l *layout) *sortedIndex {
	key := l.key
	for at := range s.order.steps {
		switch step := &s.order.steps[at]; step.kind {
		case byColumn:
			key += "\x05" + step.name
		case byScore:
			key += "\x06" + s.key
		}
	}
	x := e.kept.indexes[key]
	if x == nil {
		x = newIndex(e, s, l, nil)
		e.kept.indexes[key] = x
	}
	return x
}

// newIndex returns an index that has yet to be built. With an owner, the owner's tasks on each
// instance are compared too.
func newIndex(e *Engine, s *shape, l *layout, owner *tally) *sortedIndex {
	x := &sortedIndex{engine: e, layout: l}
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

// follow brings the index up to date with the engine. What has changed is taken out first: the
// others are in order.
func (x *sortedIndex) follow() {
	n := len(x.engine.views)
	if !x.built || x.rev != x.layout.rev || !x.engine.log.since(x.at, n) || x.scored != nil &&
		x.epoch != x.scored.order.scorer.Epoch() {
		x.build()
		return
	}
	if x.at == x.engine.log.end && len(x.dirty) == 0 {
		return
	}
	lengthen(&x.blocks, n)
	for at := x.at; at < x.engine.log.end; at++ {
		i, _ := x.engine.log.get(at)
		x.remove(i)
	}
	for _, i := range x.dirty {
		x.remove(i)
	}
	for ; x.at < x.engine.log.end; x.at++ {
		if i, last := x.engine.log.get(x.at); last {
			x.insert(i)
		}
	}
	for _, i := range x.dirty {
		x.insert(i)
	}
	x.dirty = x.dirty[:0]
}

func (x *sortedIndex) build() {
	n := len(x.engine.views)
	if x.scored != nil {
		x.epoch = x.scored.order.scorer.Epoch()
	}
	x.runs, x.blocks = make([]run, len(x.layout.regions)), make([]*block, n)
	all := make([]int32, 0, n)
	cpu, memory := int64(0), int64(1)
	for i := range n {
		if x.admits(i) {
			all = append(all, int32(i))
			cpu, memory = cpu+x.engine.views[i].Registered.CPU>>10, memory+x.engine.views[i].Registered.Memory>>10
		}
	}
	x.unit = max(1, cpu/memory)
	slices.SortFunc(all, x.compare)
	for _, i := range all {
		r := &x.runs[x.layout.region[i]]
		last := len(r.blocks) - 1
		if last < 0 || len(r.blocks[last].members) == maxBlock*3/4 {
			r.add(last+1, x.newBlock())
			last++
		}
		b := r.blocks[last]
		b.members, b.free = append(b.members, i), append(b.free, x.freeOf(i))
		x.blocks[i] = b
	}
	x.heads = make([]int32, len(x.runs))
	for region := range x.runs {
		x.heads[region] = x.runs[region].first()
	}
	x.built, x.rev, x.at, x.dirty = true, x.layout.rev, x.engine.log.end, x.dirty[:0]
}

// admits reports whether the instance belongs into the index. Where scores count it also works out
// the instance's.
func (x *sortedIndex) admits(i int) bool {
	if !x.engine.open[i] || x.layout.region[i] < 0 {
		return false
	}
	if x.scored == nil {
		return true
	}
	if x.scored.fitness(i) == unfit {
		return false
	}
	lengthen(&x.scores, len(x.engine.views))
	x.scores[i] = ordered(x.scored.order.scorer.Score(x.engine.now(i), &x.scored.spec.Needs))
	return true
}

// ordered maps floating-point numbers to whole ones that compare the same way.
func ordered(f float64) int64 {
	bits := int64(math.Float64bits(f + 0)) // +0 for -0
	if bits < 0 {
		bits ^= math.MaxInt64
	}
	return bits
}

// compare is negative where, of two instances of one region, a task had better go to i.
func (x *sortedIndex) compare(i, j int32) int {
	if x.precedes(i, j) {
		return -1
	}
	return 1
}

// precedes reports whether, of two instances of one region, a task had better go to i.
func (x *sortedIndex) precedes(i, j int32) bool {
	for _, column := range x.columns {
		if a, b := (*column)[i], (*column)[j]; a != b {
			return a < b
		}
	}
	return x.engine.before(i, j)
}

// isEqual reports whether nothing but the id tells two instances of one region apart.
func (x *sortedIndex) isEqual(i, j int32) bool {
	for _, column := range x.columns {
		if (*column)[i] != (*column)[j] {
			return false
		}
	}
	return true
}

// refresh puts an instance where it belongs now. All others must be where they do.
func (x *sortedIndex) refresh(i int32) {
	x.remove(i)
	x.insert(i)
}

// refreshAll puts instances where they belong now. All others must be where they do.
func (x *sortedIndex) refreshAll(instances []int32) {
	for _, i := range instances {
		x.remove(i)
	}
	for _, i := range instances {
		x.insert(i)
	}
}

// review has the instances looked at again when the index is next used.
func (x *sortedIndex) review(instances []int32) { x.dirty = append(x.dirty, instances...) }

func (x *sortedIndex) remove(i int32) {
	b := x.blocks[i]
	if b == nil {
		return
	}
	x.blocks[i] = nil
	region := x.layout.region[i]
	r := &x.runs[region]
	at := slices.Index(b.members, i)
	b.members, b.free = slices.Delete(b.members, at, at+1), slices.Delete(b.free, at, at+1)
	r.most[b.at].stale = true
	if b.at+1 < len(r.blocks) && len(b.members)+len(r.blocks[b.at+1].members) <= maxBlock/2 {
		x.join(r, b)
	} else if len(b.members) == 0 {
		r.drop(b.at)
		x.spare(b)
	}
	if x.heads[region] == i {
		x.heads[region] = r.first()
	}
}

// join takes the members of the next block into b.
func (x *sortedIndex) join(r *run, b *block) {
	next := r.blocks[b.at+1]
	for _, i := range next.members {
		x.blocks[i] = b
	}
	b.members, b.free = append(b.members, next.members...), append(b.free, next.free...)
	r.drop(next.at)
	x.spare(next)
}

// spare keeps a block for later use.
func (x *sortedIndex) spare(b *block) {
	b.members, b.free = b.members[:0], b.free[:0]
	x.unused = append(x.unused, b)
}

// newBlock is one without members that has room for all that it may have.
func (x *sortedIndex) newBlock() *block {
	if n := len(x.unused); n > 0 {
		b := x.unused[n-1]
		x.unused = x.unused[:n-1]
		return b
	}
	return &block{members: make([]int32, 0, maxBlock+1), free: make([]free, 0, maxBlock+1)}
}

func (x *sortedIndex) insert(i int32) {
	if x.blocks[i] != nil || !x.admits(int(i)) {
		return
	}
	region := x.layout.region[i]
	r := &x.runs[region]
	if len(r.blocks) == 0 {
		r.add(0, x.newBlock())
	}
	b := r.blocks[x.blockFor(r, i)]
	at, _ := slices.BinarySearchFunc(b.members, i, x.compare)
	b.members, b.free = slices.Insert(b.members, at, i), slices.Insert(b.free, at, x.freeOf(i))
	x.blocks[i] = b
	r.most[b.at].stale = true
	x.heads[region] = r.first()
	if len(b.members) <= maxBlock {
		return
	}
	const half = maxBlock / 2
	rest := x.newBlock()
	rest.members, rest.free = append(rest.members, b.members[half:]...), append(rest.free, b.free[half:]...)
	b.members, b.free = b.members[:half], b.free[:half]
	for _, j := range rest.members {
		x.blocks[j] = rest
	}
	r.add(b.at+1, rest)
}

// blockFor is the last block that begins before the instance, or the first.
func (x *sortedIndex) blockFor(r *run, i int32) int {
	from, to := 0, len(r.blocks)-1
	for from < to {
		middle := (from + to + 1) / 2
		if x.precedes(r.blocks[middle].members[0], i) {
			from = middle
		} else {
			to = middle - 1
		}
	}
	return from
}

func (x *sortedIndex) freeOf(i int32) free {
	return free{x.engine.cpu[i], x.engine.memory[i]}
}

// size is roughly how many bytes the index takes.
func (x *sortedIndex) size() int {
	out := 1024 + 48*len(x.blocks) + 8*len(x.scores) // per instance: which block, and its place in it
	for at := range x.runs {
		out += 64 * len(x.runs[at].blocks)
	}
	return out
}

// first is the first instance of the run, -1 for none.
func (r *run) first() int32 {
	if len(r.blocks) == 0 {
		return -1
	}
	return r.blocks[0].members[0]
}

func (r *run) add(at int, b *block) {
	r.blocks, r.most = slices.Insert(r.blocks, at, b), slices.Insert(r.most, at, offer{stale: true})
	r.number(at)
}

func (r *run) drop(at int) {
	r.blocks, r.most = slices.Delete(r.blocks, at, at+1), slices.Delete(r.most, at, at+1)
	r.number(at)
}

// number gives the blocks from a position on their positions.
func (r *run) number(from int) {
	for at := from; at < len(r.blocks); at++ {
		r.blocks[at].at = at
	}
}

// offerOf returns what a block has to offer, worked out anew where it has changed.
func (r *run) offerOf(at int, unit int64) *offer {
	if !r.most[at].stale {
		return &r.most[at]
	}
	most := r.blocks[at].free[0]
	both := most.both(unit)
	for _, f := range r.blocks[at].free {
		most.cpu, most.memory, both = max(most.cpu, f.cpu), max(most.memory, f.memory), max(both, f.both(unit))
	}
	r.most[at] = offer{free: most, both: both}
	return &r.most[at]
}
