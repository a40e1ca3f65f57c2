package placement

import (
	"math"
	"slices"
)

// A run has the instances of a region, in blocks. What a search reads of each block is side by side.
type run struct {
	blocks []*block
	firsts []rank         // per block, of its first instance
	maxima []blockMaximum // per block
	tops   []blockMaximum // per topSize blocks: a search skips as many at once
}

// A block is a few instances that follow one another.
type block struct {
	position  int // in the run
	count     int
	instances [maxBlock + 1]int32 // one more than a block may have, until it is split
	free      [maxBlock + 1]freeResources
	ranks     [maxBlock + 1]rank
	ports     [maxBlock + 1]uint64 // see [usage]
}

const (
	// maxBlock is the most instances of a block.
	maxBlock = 16
	// topSize is the number of blocks with a common maximum.
	topSize = 16

	// blockSize is how many bytes a block takes.
	blockSize = 1152
)

// freeResources is how much CPU and memory an instance has free, as far as 32 bits can say: what is
// more is as good as the most that they can. scarcer is the scarcer of both in MiB, converting CPU
// by the cluster's ratio. gpus are the devices without any task, and one for those that are shared.
// metrics are what the first metrics have left, the buffer included. A task that needs more of any of
// them does not fit.
type freeResources struct {
	cpu, memory, scarcer, gpus int32
	metrics                    [indexedMetrics]int32
}

// indexedMetrics is the number of metrics that indexes know.
const indexedMetrics = 2

func newFreeResources(cpu, memory, cpuPerMiB int64) freeResources {
	return freeResources{cpu: limitTo32Bits(cpu), memory: limitTo32Bits(memory),
		scarcer: limitTo32Bits(min(cpu/cpuPerMiB, memory))}
}

func limitTo32Bits(x int64) int32 { return int32(max(math.MinInt32, min(x, math.MaxInt32))) }

// suffices reports whether nothing of what is needed is more than what is free.
func (f *freeResources) suffices(needs *freeResources) bool {
	return f.cpu >= needs.cpu && f.memory >= needs.memory && f.scarcer >= needs.scarcer && f.gpus >= needs.gpus &&
		f.metrics[0] >= needs.metrics[0] && f.metrics[1] >= needs.metrics[1]
}

// A blockMaximum has the most CPU, the most memory, and the most of the scarcer of both that any
// instance of some blocks has free. The last one skips blocks that have an instance with enough CPU
// and another with enough memory, but none with both.
type blockMaximum struct {
	freeResources
	stale bool // must be computed again
}

// raise makes the maximum cover what an instance has free.
func (m *blockMaximum) raise(f *freeResources) {
	m.cpu, m.memory = max(m.cpu, f.cpu), max(m.memory, f.memory)
	m.scarcer, m.gpus = max(m.scarcer, f.scarcer), max(m.gpus, f.gpus)
	m.metrics[0], m.metrics[1] = max(m.metrics[0], f.metrics[0]), max(m.metrics[1], f.metrics[1])
}

// isReachedBy reports whether an instance may be the only one with a maximum. Without GPUs, and
// without a limit of a metric, it is taken for one of many: the maximum then stays too high, if it was
// the only one, until the block is measured again.
func (m *blockMaximum) isReachedBy(f *freeResources) bool {
	return f.cpu == m.cpu || f.memory == m.memory || f.scarcer == m.scarcer || f.gpus == m.gpus && m.gpus > 0 ||
		f.metrics[0] == m.metrics[0] && m.metrics[0] < math.MaxInt32 ||
		f.metrics[1] == m.metrics[1] && m.metrics[1] < math.MaxInt32
}

// leastMaximum is the maximum of no instance.
var leastMaximum = blockMaximum{freeResources: freeResources{math.MinInt32, math.MinInt32, math.MinInt32, 0,
	[indexedMetrics]int32{math.MinInt32, math.MinInt32}}}

// find returns the position of an instance that is in the block.
func (b *block) find(i int32) int { return slices.Index(b.instances[:b.count], i) }

func (b *block) insertAt(at int, i int32, own rank, free freeResources, ports uint64) {
	copy(b.instances[at+1:b.count+1], b.instances[at:b.count])
	copy(b.free[at+1:b.count+1], b.free[at:b.count])
	copy(b.ranks[at+1:b.count+1], b.ranks[at:b.count])
	copy(b.ports[at+1:b.count+1], b.ports[at:b.count])
	b.instances[at], b.free[at], b.ranks[at], b.ports[at] = i, free, own, ports
	b.count++
}

func (b *block) removeAt(at int) {
	copy(b.instances[at:], b.instances[at+1:b.count])
	copy(b.free[at:], b.free[at+1:b.count])
	copy(b.ranks[at:], b.ranks[at+1:b.count])
	copy(b.ports[at:], b.ports[at+1:b.count])
	b.count--
}

// appendFrom appends the instances of another block from a position on.
func (b *block) appendFrom(from *block, at int) {
	copy(b.instances[b.count:], from.instances[at:from.count])
	copy(b.free[b.count:], from.free[at:from.count])
	copy(b.ranks[b.count:], from.ranks[at:from.count])
	copy(b.ports[b.count:], from.ports[at:from.count])
	b.count += from.count - at
}

// firstInstance returns the head of the run.
func (r *run) firstInstance() head {
	if len(r.blocks) == 0 {
		return head{instance: -1}
	}
	return head{r.firsts[0], r.blocks[0].instances[0]}
}

// insertBlock inserts a block. The caller sets its first rank.
func (r *run) insertBlock(at int, b *block) {
	r.blocks, r.firsts = slices.Insert(r.blocks, at, b), slices.Insert(r.firsts, at, rank{})
	r.maxima = slices.Insert(r.maxima, at, blockMaximum{stale: true})
	r.renumberFrom(at)
}

func (r *run) removeBlock(at int) {
	r.blocks, r.firsts = slices.Delete(r.blocks, at, at+1), slices.Delete(r.firsts, at, at+1)
	r.maxima = slices.Delete(r.maxima, at, at+1)
	r.renumberFrom(at)
}

// renumberFrom sets the positions of the blocks from one on.
func (r *run) renumberFrom(from int) {
	for at := from; at < len(r.blocks); at++ {
		r.blocks[at].position = at
	}
	r.tops = r.tops[:min(len(r.tops), from/topSize)]
	for len(r.tops)*topSize < len(r.blocks) {
		r.tops = append(r.tops, blockMaximum{stale: true})
	}
}

// markStale makes the maximum of a block be computed again.
func (r *run) markStale(at int) { r.maxima[at].stale, r.tops[at/topSize].stale = true, true }

// addToMaxima raises the maxima of a block that an instance came to.
func (r *run) addToMaxima(at int, free freeResources) {
	r.maxima[at].raise(&free)
	r.tops[at/topSize].raise(&free)
}

// removeFromMaxima makes those maxima of a block be computed again that may be of the instance that
// leaves it.
func (r *run) removeFromMaxima(at int, free freeResources) {
	if m := &r.maxima[at]; m.isReachedBy(&free) {
		m.stale = true
		if top := &r.tops[at/topSize]; top.isReachedBy(&free) {
			top.stale = true
		}
	}
}

// maximumOf returns a block's maximum, computing it if the block has changed.
func (r *run) maximumOf(at int) *blockMaximum {
	m := &r.maxima[at]
	if m.stale {
		*m = leastMaximum
		b := r.blocks[at]
		for n := range b.free[:b.count] {
			m.raise(&b.free[n])
		}
	}
	return m
}

// topOf returns the maximum of the blocks from top*topSize on.
func (r *run) topOf(top int) *blockMaximum {
	m := &r.tops[top]
	if m.stale {
		*m = leastMaximum
		for at := top * topSize; at < min((top+1)*topSize, len(r.blocks)); at++ {
			m.raise(&r.maximumOf(at).freeResources)
		}
	}
	return m
}
