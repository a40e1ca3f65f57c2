package placement

import (
	"cmp"
	"slices"
)

// roster is the open instances of each region, in the order in which tasks had better go there, by columns that are the
// same for all tasks: the best instance is the first one that has what the task asks for. So all owners and shapes that
// compare instances by the same columns share one roster, and a change costs one move in it however many they are. (The
// order of a [ranking] goes by what the tasks need, or by where one owner's tasks are.)
type roster struct {
	*Engine
	columns []*[]int64
	layout  *layout
	rev     int // of the layout
	at      uint64
	dirty   []int32 // instances to look at again, which the log does not tell of
	built   bool
	shelves []shelf  // by region
	blocks  []*block // by instance, nil for one that is not open
	unit    int64    // CPU for each MiB, see [free.both]
	unused  []*block
}

// shelf is the instances of a region, in blocks. What the blocks have to offer stands side by side, to be looked through
// quickly.
type shelf struct {
	blocks []*block
	most   []offer // per block
}

// block is some instances that follow one another.
type block struct {
	members []int32
	free    []free // of the members, by position
	at      int    // its position on the shelf
}

// free is how much CPU and memory an instance has free.
type free struct{ cpu, memory int64 }

// offer is the most CPU and the most memory that an instance of a block has free, and the most of both together: of the
// one that it has less of, in proportion.
type offer struct {
	free
	both  int64
	stale bool // to be worked out anew
}

// both is how much there is of the scarcer of the two, in MiB: so much CPU goes with a MiB in the cluster. What does not
// suffice by it does not suffice.
func (f free) both(unit int64) int64 { return min(f.cpu/unit, f.memory) }

// maxBlock is how many instances a block may have.
const maxBlock = 24

func (e *Engine) rosterOf(o *order, l *layout) *roster {
	key := l.key
	for at := range o.steps {
		if s := &o.steps[at]; s.kind == byColumn {
			key += "\x05" + s.name
		}
	}
	r := e.rosters[key]
	if r == nil {
		r = &roster{Engine: e, layout: l}
		for at := range o.steps {
			if s := &o.steps[at]; s.kind == byColumn {
				r.columns = append(r.columns, s.column)
			}
		}
		e.rosters[key] = r
	}
	return r
}

// follow brings the roster up to date with the engine. What has changed is taken out first: the others are in order.
func (r *roster) follow() {
	n := len(r.views)
	if !r.built || r.rev != r.layout.rev || !r.log.since(r.at, n) {
		r.build()
		return
	}
	if r.at == r.log.end && len(r.dirty) == 0 {
		return
	}
	lengthen(&r.blocks, n)
	for at := r.at; at < r.log.end; at++ {
		i, _ := r.log.get(at)
		r.remove(i)
	}
	for _, i := range r.dirty {
		r.remove(i)
	}
	for ; r.at < r.log.end; r.at++ {
		i, _ := r.log.get(r.at)
		r.insert(i)
	}
	for _, i := range r.dirty {
		r.insert(i)
	}
	r.dirty = r.dirty[:0]
}

func (r *roster) build() {
	n := len(r.views)
	r.shelves, r.blocks = make([]shelf, len(r.layout.regions)), make([]*block, n)
	all := make([]int32, 0, n)
	cpu, memory := int64(0), int64(1)
	for i := range n {
		if r.wants(i) {
			all = append(all, int32(i))
			cpu, memory = cpu+r.views[i].Registered.CPU>>10, memory+r.views[i].Registered.Memory>>10
		}
	}
	r.unit = max(1, cpu/memory)
	slices.SortFunc(all, func(i, j int32) int {
		if r.precedes(i, j) {
			return -1
		}
		return 1
	})
	for _, i := range all {
		s := &r.shelves[r.layout.region[i]]
		last := len(s.blocks) - 1
		if last < 0 || len(s.blocks[last].members) == maxBlock*3/4 {
			s.add(last+1, r.newBlock())
			last++
		}
		b := s.blocks[last]
		b.members, b.free = append(b.members, i), append(b.free, r.freeOf(i))
		r.blocks[i] = b
	}
	r.built, r.rev, r.at, r.dirty = true, r.layout.rev, r.log.end, r.dirty[:0]
}

func (r *roster) wants(i int) bool { return r.open[i] && r.layout.region[i] >= 0 }

// precedes reports whether, of two instances of one region, a task had better go to i.
func (r *roster) precedes(i, j int32) bool {
	for _, column := range r.columns {
		if a, b := (*column)[i], (*column)[j]; a != b {
			return a < b
		}
	}
	return r.before(i, j)
}

// refresh puts an instance where it belongs now. All others must be where they do.
func (r *roster) refresh(i int32) {
	r.remove(i)
	r.insert(i)
}

// review has the instances looked at again when the roster is next used.
func (r *roster) review(instances []int32) { r.dirty = append(r.dirty, instances...) }

func (r *roster) remove(i int32) {
	b := r.blocks[i]
	if b == nil {
		return
	}
	r.blocks[i] = nil
	s := &r.shelves[r.layout.region[i]]
	at := slices.Index(b.members, i)
	b.members, b.free = slices.Delete(b.members, at, at+1), slices.Delete(b.free, at, at+1)
	s.most[b.at].stale = true
	if b.at+1 < len(s.blocks) && len(b.members)+len(s.blocks[b.at+1].members) <= maxBlock/2 {
		r.join(s, b)
	} else if len(b.members) == 0 {
		s.drop(b.at)
		r.spare(b)
	}
}

// join takes the members of the next block into b.
func (r *roster) join(s *shelf, b *block) {
	next := s.blocks[b.at+1]
	for _, i := range next.members {
		r.blocks[i] = b
	}
	b.members, b.free = append(b.members, next.members...), append(b.free, next.free...)
	s.drop(next.at)
	r.spare(next)
}

// spare keeps a block for later use.
func (r *roster) spare(b *block) {
	b.members, b.free = b.members[:0], b.free[:0]
	r.unused = append(r.unused, b)
}

// newBlock is one without members that has room for all that it may have.
func (r *roster) newBlock() *block {
	if n := len(r.unused); n > 0 {
		b := r.unused[n-1]
		r.unused = r.unused[:n-1]
		return b
	}
	return &block{members: make([]int32, 0, maxBlock+1), free: make([]free, 0, maxBlock+1)}
}

func (s *shelf) drop(at int) {
	s.blocks, s.most = slices.Delete(s.blocks, at, at+1), slices.Delete(s.most, at, at+1)
	s.number(at)
}

func (r *roster) insert(i int32) {
	if r.blocks[i] != nil || !r.wants(int(i)) {
		return
	}
	s := &r.shelves[r.layout.region[i]]
	if len(s.blocks) == 0 {
		s.add(0, r.newBlock())
	}
	b := s.blocks[r.blockFor(s, i)]
	at, _ := slices.BinarySearchFunc(b.members, i, func(j, i int32) int {
		if r.precedes(j, i) {
			return -1
		}
		return 1
	})
	b.members, b.free = slices.Insert(b.members, at, i), slices.Insert(b.free, at, r.freeOf(i))
	r.blocks[i] = b
	s.most[b.at].stale = true
	if len(b.members) <= maxBlock {
		return
	}
	const half = maxBlock / 2
	rest := r.newBlock()
	rest.members, rest.free = append(rest.members, b.members[half:]...), append(rest.free, b.free[half:]...)
	b.members, b.free = b.members[:half], b.free[:half]
	for _, j := range rest.members {
		r.blocks[j] = rest
	}
	s.add(b.at+1, rest)
}

// blockFor is the last block that begins before the instance, or the first.
func (r *roster) blockFor(s *shelf, i int32) int {
	from, to := 0, len(s.blocks)-1
	for from < to {
		middle := (from + to + 1) / 2
		if r.precedes(s.blocks[middle].members[0], i) {
			from = middle
		} else {
			to = middle - 1
		}
	}
	return from
}

func (s *shelf) add(at int, b *block) {
	s.blocks, s.most = slices.Insert(s.blocks, at, b), slices.Insert(s.most, at, offer{stale: true})
	s.number(at)
}

// number gives the blocks from a position on their positions.
func (s *shelf) number(from int) {
	for at := from; at < len(s.blocks); at++ {
		s.blocks[at].at = at
	}
}

func (r *roster) freeOf(i int32) free { return free{r.cpu[i], r.memory[i]} }

// stock works out what a block has to offer.
func (s *shelf) stock(at int, unit int64) {
	most := s.blocks[at].free[0]
	both := most.both(unit)
	for _, f := range s.blocks[at].free {
		most.cpu, most.memory, both = max(most.cpu, f.cpu), max(most.memory, f.memory), max(both, f.both(unit))
	}
	s.most[at] = offer{free: most, both: both}
}

// first is the first instance of the region that can take a task of the class and is no exception; where all of these
// need the buffer, the first of them. -1 is none.
func (c *class) first(r *roster, region int, exceptions bool) (int32, fitness) {
	s := &r.shelves[region]
	cpu, memory := c.spec.Needs.CPU, c.spec.Needs.Memory
	both := free{cpu, memory}.both(r.unit)
	spare := int32(-1)
	for at := range s.most {
		if s.most[at].stale {
			s.stock(at, r.unit)
		}
		if s.most[at].cpu < cpu || s.most[at].memory < memory || s.most[at].both < both {
			continue
		}
		b := s.blocks[at]
		c.looks += uint64(len(b.free))
		for n := range b.free {
			if b.free[n].cpu < cpu || b.free[n].memory < memory {
				continue
			}
			i := b.members[n]
			f := c.fitness(int(i))
			switch {
			case f == unfit || f == buffered && spare >= 0 || exceptions && c.isException(i):
			case f == unbuffered:
				return i, unbuffered
			default:
				spare = i
			}
		}
	}
	return spare, buffered
}

// pickFirst is [class.pick] by a roster.
func (c *class) pickFirst(r *roster) int32 {
	exceptions := c.alone() && len(c.tally.active)+len(c.tally.held) > 0
	best, wanting := nowhere, false
	for region := range c.layout.regions {
		if best.at >= 0 && best.fitness == unbuffered && c.compareGroups(int32(region), best.region) > 0 {
			continue
		}
		i, f := c.first(r, region, exceptions)
		wanting = wanting || i < 0 || f != unbuffered
		if next := (spot{i, int32(region), f}); c.better(next, best) {
			best = next
		}
	}
	if exceptions && wanting && c.order.counted {
		best = c.exception(best)
	}
	return best.at
}

// compareGroups compares two regions by the counts of groups that come before all else.
func (c *class) compareGroups(r, q int32) int {
	for at := range c.order.steps {
		s := &c.order.steps[at]
		if s.kind != byGroup {
			return 0
		}
		if a, b := c.value(s, -1, r), c.value(s, -1, q); a != b {
			return cmp.Compare(a, b)
		}
	}
	return 0
}
