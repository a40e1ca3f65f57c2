package embedded

import (
	"errors"
	"hash/fnv"
	"sync"
	"time"

	"berth/shared/state"
)

// ErrThroughput is the error of a call that a partition has no units left for, as DynamoDB's
// ProvisionedThroughputExceededException, or ThrottlingError in a transaction. Nothing was done.
var ErrThroughput = errors.New("the partition's throughput is exceeded")

// DynamoDB's limits of one partition, in units a second ("Designing partition keys").
const (
	partitionWrites = 1000
	partitionReads  = 3000
)

// NewTablePartitions is how many partitions a new table has that is billed on demand: it takes 4,000
// write units a second from the beginning ("On-demand capacity mode", initial throughput).
const NewTablePartitions = 4

// Throughput gives a [Store] the throughput of a table of DynamoDB: the partition keys are spread over
// partitions by a hash, and each partition takes 1,000 write and 3,000 read units a second. A
// partition that was idle takes as much as in one second at once.
//
// AWS documents that DynamoDB also saves up to five minutes of unused throughput and splits partitions
// that stay hot, but not when, so here it does neither: what holds here holds on AWS from the first
// second on.
type Throughput struct {
	// Now is the time, on the clock of the store's callers.
	Now func() time.Time
	// Partitions is how many partitions the table has; 0 is [NewTablePartitions].
	Partitions int

	mu    sync.Mutex
	units map[int]*partitionUnits
	usage ThroughputUsage
}

// partitionUnits is what a partition has left at a time.
type partitionUnits struct {
	writes, reads float64
	at            time.Time
}

// ThroughputUsage says how close a table came to its limits.
type ThroughputUsage struct {
	Throttled int
	// WritesByKey are the write units by partition key.
	WritesByKey map[string]int64
}

// Usage returns what has been used so far.
func (t *Throughput) Usage() ThroughputUsage {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.usage
}

// takeUnits takes the units that a call needs of each partition key, or none and returns
// [ErrThroughput]. A call that needs more than a second's worth takes a whole second's.
func (t *Throughput) takeUnits(writes, reads map[string]int64) error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	type need struct{ writes, reads float64 }
	needs := map[int]need{}
	for key, n := range writes {
		p := needs[t.partitionOf(key)]
		p.writes += float64(n)
		needs[t.partitionOf(key)] = p
	}
	for key, n := range reads {
		p := needs[t.partitionOf(key)]
		p.reads += float64(n)
		needs[t.partitionOf(key)] = p
	}
	for partition, n := range needs {
		left := t.refill(partition)
		if left.writes < min(n.writes, partitionWrites) || left.reads < min(n.reads, partitionReads) {
			t.usage.Throttled++
			return ErrThroughput
		}
	}
	for partition, n := range needs {
		left := t.units[partition]
		left.writes, left.reads = max(0, left.writes-n.writes), max(0, left.reads-n.reads)
	}
	if t.usage.WritesByKey == nil {
		t.usage.WritesByKey = map[string]int64{}
	}
	for key, n := range writes {
		t.usage.WritesByKey[key] += n
	}
	return nil
}

// partitionOf returns the partition that a key lies in.
func (t *Throughput) partitionOf(key string) int {
	n := t.Partitions
	if n == 0 {
		n = NewTablePartitions
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	return int(mixHash(h.Sum64()) % uint64(n)) //nolint:gosec // small
}

// mixHash spreads keys that differ only in their last character over all values.
func mixHash(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// refill returns what a partition has left now.
func (t *Throughput) refill(partition int) *partitionUnits {
	if t.units == nil {
		t.units = map[int]*partitionUnits{}
	}
	now, left := t.Now(), t.units[partition]
	if left == nil {
		left = &partitionUnits{partitionWrites, partitionReads, now}
		t.units[partition] = left
	}
	if passed := now.Sub(left.at).Seconds(); passed > 0 {
		left.writes = min(partitionWrites, left.writes+passed*partitionWrites)
		left.reads = min(partitionReads, left.reads+passed*partitionReads)
		left.at = now
	}
	return left
}

// readSizes counts the bytes that a list reads, by partition key: each partition is read, and billed,
// by itself.
type readSizes map[string]int

func newReadSizes(r state.Range) readSizes {
	sizes := readSizes{}
	for _, partition := range r.SpreadPartitions() {
		sizes[partition] = 0
	}
	if !r.IsAllSpread() {
		sizes[r.Cluster] = 0
	}
	return sizes
}

func (sizes readSizes) add(e *storedRow) { sizes[e.key.PartitionKey()] += e.size }

// countList bills a list, and takes its units.
func countList(s *Store, sizes readSizes) error {
	reads := map[string]int64{}
	for partition, size := range sizes {
		s.usage.countPart(size, consistentRead)
		reads[partition] = billedUnits(size, 4<<10)
	}
	s.usage.requests.Add(1)
	return s.throughput.takeUnits(nil, reads)
}
