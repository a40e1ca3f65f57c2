package placement

import (
	"hash/fnv"
	"math"
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/placement/eligibility"
	"berth/shared/snapshot"
)

// columns are what filters and orders ask of every instance, side by side by the instance's index:
// who looks at many instances reads a few short arrays instead of as many views.
type columns struct {
	views          []*snapshot.InstanceView // nil: a free slot
	staticRevision []uint64                 // the view's StaticRev
	inCluster      []bool                   // known and not gone: the others are no candidates at all
	takesTasks     []bool                   // ACTIVE, agent connected, schedulable
	active         []bool                   // ACTIVE
	agentConnected []bool                   // connected
	cordoned       []bool                   // takes no new task
	idLabel        []int64                  // orders ids, see [columns.enlist]
	byID           []int32                  // the instances that have a label, in order of id
	idHash         []uint64                 // of the id, for chance

	cpu, memory  []int64 // free
	tightness    []int64 // how much is left: the less the better the packing, see [tightness]
	taskCount    []int64 // that hold something, anybody's
	wholeGPUs    []int32 // GPU devices that nobody holds any part of
	largestShare []int32 // the most free thousandths on a device that is held in part
	enis         []int
	portBits     []uint64 // a bit for each port in use, see [portBit]
	metrics      []metricColumns
}

// metricColumns is the load of one metric and its limits (P9, P12, P13).
type metricColumns struct {
	load              []int64
	unbuffered, total []int64
}

// growColumns makes room for n instances.
func (c *columns) growColumns(n int) {
	growTo(&c.views, n)
	growTo(&c.staticRevision, n)
	growTo(&c.inCluster, n)
	growTo(&c.takesTasks, n)
	growTo(&c.active, n)
	growTo(&c.agentConnected, n)
	growTo(&c.cordoned, n)
	growTo(&c.idLabel, n)
	growTo(&c.idHash, n)
	growTo(&c.cpu, n)
	growTo(&c.memory, n)
	growTo(&c.tightness, n)
	growTo(&c.taskCount, n)
	growTo(&c.wholeGPUs, n)
	growTo(&c.largestShare, n)
	growTo(&c.enis, n)
	growTo(&c.portBits, n)
	for m := range c.metrics {
		c.metrics[m].growColumns(n)
	}
}

func (metric *metricColumns) growColumns(n int) {
	growTo(&metric.load, n)
	growTo(&metric.unbuffered, n)
	growTo(&metric.total, n)
}

func growTo[T any](s *[]T, n int) {
	if more := n - len(*s); more > 0 {
		*s = append(*s, make([]T, more)...)
	}
}

// observeRow takes in what changes only with the instance's row.
func (c *columns) observeRow(i int, v *snapshot.InstanceView) {
	if old := c.views[i]; old != v {
		c.removeID(i)
		if c.views[i] = v; v != nil {
			c.insertID(i)
			c.idHash[i] = hashID(v.ID)
		}
	}
	c.inCluster[i] = v != nil && eligibility.InCluster(v)
	c.active[i], c.agentConnected[i], c.cordoned[i], c.takesTasks[i] = false, false, false, false
	if v == nil {
		c.staticRevision[i] = 0
		return
	}
	c.staticRevision[i] = v.StaticRev
	if c.inCluster[i] {
		c.cordoned[i] = eligibility.IsCordoned(v)
		c.active[i], c.agentConnected[i] = v.Status == cluster.InstanceActive, v.AgentConnected
		c.takesTasks[i] = c.active[i] && c.agentConnected[i] && !c.cordoned[i]
	}
}

// labelGap is how far apart labels are at first: so often can an id be put between two others.
const labelGap = 1 << 32

// insertID gives the instance a label between those of its neighbours by id: numbers compare faster
// than ids.
func (c *columns) insertID(i int) {
	at, _ := slices.BinarySearchFunc(c.byID, c.views[i].ID, c.compareID)
	c.byID = slices.Insert(c.byID, at, int32(i))
	before, after := int64(0), int64(0)
	if at > 0 {
		before = c.idLabel[c.byID[at-1]]
	}
	if at+1 < len(c.byID) {
		after = c.idLabel[c.byID[at+1]]
	} else {
		after = before + 2*labelGap
	}
	c.idLabel[i] = before + (after-before)/2
	if c.idLabel[i] > before && c.idLabel[i] < after && after < math.MaxInt64-2*labelGap {
		return
	}
	for n, k := range c.byID {
		c.idLabel[k] = int64(n+1) * labelGap
	}
}

// removeID takes the instance off the list, as long as its view is still the one that was enlisted.
func (c *columns) removeID(i int) {
	if c.views[i] == nil {
		return
	}
	at, _ := slices.BinarySearchFunc(c.byID, c.views[i].ID, c.compareID)
	for c.byID[at] != int32(i) {
		at++ // until the news of both is in, an id may stand here twice
	}
	c.byID = slices.Delete(c.byID, at, at+1)
}

func (c *columns) compareID(i int32, id string) int { return strings.Compare(c.views[i].ID, id) }

// hashID is the id as a number, for chance.
func hashID(id string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	return h.Sum64()
}

// observeUsage takes in what the instance has free, and how many tasks it has besides those in the view.
func (c *columns) observeUsage(i int, v *snapshot.InstanceView, more int) {
	entire, share, spare := summarizeDevices(v)
	kept := v.Reserved()
	c.cpu[i], c.memory[i], c.enis[i] = v.CPU-kept.CPU, v.Memory-kept.Memory, v.ENIs
	if v.ENIs != math.MaxInt {
		c.enis[i] -= int(kept.ENIs)
	}
	c.wholeGPUs[i], c.largestShare[i] = int32(entire), int32(share)
	c.tightness[i], c.taskCount[i] = tightnessOf(c.cpu[i], c.memory[i], spare), int64(len(v.Tasks)+more)
	c.portBits[i] = 0
	for _, p := range v.Ports {
		c.portBits[i] |= portBit(p)
	}
	for m := range c.metrics {
		c.metrics[m].observeUsage(i, m, v)
	}
}

// portBit is the port's bit, which others share: where it is not set the port is free.
func portBit(p cluster.Port) uint64 {
	n := uint64(p.Number)
	if p.Protocol == cluster.UDP {
		n += 1 << 16
	}
	return 1 << (n * 0x9e3779b97f4a7c15 >> 58)
}

func (metric *metricColumns) observeUsage(i, index int, v *snapshot.InstanceView) {
	limit := v.Limit(index)
	metric.load[i], metric.unbuffered[i], metric.total[i] = v.Load(index), limit.Unbuffered, limit.Total
}

// summarizeDevices sums up the GPUs: those entirely free and fit to be given, less as many as tasks hold
// somewhere unknown; the most that is free of one held in part; all that is free, in thousandths.
func summarizeDevices(v *snapshot.InstanceView) (entire, share, spare int) {
	for _, free := range v.GPUs {
		spare += free
		if free >= cluster.WholeGPU {
			entire++
		} else {
			share = max(share, free)
		}
	}
	return max(0, entire-v.Unpinned), share, spare
}

const (
	// vcpuPerMiB weighs memory against CPU: 4 GiB count as much as one vCPU, the ratio of
	// general-purpose instances.
	vcpuPerMiB = cluster.VCPU / 4096
	// gpuWeight puts any GPU above all CPU and memory: 2^44 is the CPU of 17 million vCPUs.
	gpuWeight = 1 << 44
)

// tightnessOf is what is left as one number. Between instances that all else holds equal a task goes
// where fewer GPUs are free, so that tasks without a GPU keep off the instances that have one to
// give, and tasks with one fill those in use; then where the least CPU and memory is left, so that
// larger tasks still find room elsewhere.
func tightnessOf(cpu, memory int64, spare int) int64 {
	return int64(spare)*gpuWeight + cpu + memory*vcpuPerMiB
}

// idBefore orders instances that nothing else tells apart: the lower id comes first.
func (c *columns) idBefore(i, j int32) bool { return c.idLabel[i] < c.idLabel[j] }
