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
	views  []*snapshot.InstanceView // nil: a free slot
	static []uint64                 // the view's StaticRev
	listed []bool                   // known and not gone: the others are no candidates at all
	open   []bool                   // ACTIVE, agent connected, schedulable
	active []bool                   // ACTIVE
	agent  []bool                   // connected
	cordon []bool                   // takes no new task
	label  []int64                  // orders ids, see [columns.enlist]
	byID   []int32                  // the instances that have a label, in order of id
	hash   []uint64                 // of the id, for chance

	cpu, memory []int64 // free
	fit         []int64 // how much is left: the less the better the packing, see [tightness]
	tasks       []int64 // that hold something, anybody's
	entire      []int32 // GPU devices that nobody holds any part of
	share       []int32 // the most free thousandths on a device that is held in part
	enis        []int
	ports       []uint64 // a bit for each port in use, see [portBit]
	metrics     []metric
}

// metric is the load of one metric and its limits (P9, P12, P13).
type metric struct {
	load              []int64
	unbuffered, total []int64
}

// grow makes room for n instances.
func (c *columns) grow(n int) {
	lengthen(&c.views, n)
	lengthen(&c.static, n)
	lengthen(&c.listed, n)
	lengthen(&c.open, n)
	lengthen(&c.active, n)
	lengthen(&c.agent, n)
	lengthen(&c.cordon, n)
	lengthen(&c.label, n)
	lengthen(&c.hash, n)
	lengthen(&c.cpu, n)
	lengthen(&c.memory, n)
	lengthen(&c.fit, n)
	lengthen(&c.tasks, n)
	lengthen(&c.entire, n)
	lengthen(&c.share, n)
	lengthen(&c.enis, n)
	lengthen(&c.ports, n)
	for m := range c.metrics {
		c.metrics[m].grow(n)
	}
}

func (m *metric) grow(n int) {
	lengthen(&m.load, n)
	lengthen(&m.unbuffered, n)
	lengthen(&m.total, n)
}

func lengthen[T any](s *[]T, n int) {
	if more := n - len(*s); more > 0 {
		*s = append(*s, make([]T, more)...)
	}
}

// identify takes in what changes only with the instance's row.
func (c *columns) identify(i int, v *snapshot.InstanceView) {
	if old := c.views[i]; old != v {
		c.strike(i)
		if c.views[i] = v; v != nil {
			c.enlist(i)
			c.hash[i] = digest(v.ID)
		}
	}
	c.listed[i] = v != nil && eligibility.InCluster(v)
	c.active[i], c.agent[i], c.cordon[i], c.open[i] = false, false, false, false
	if v == nil {
		c.static[i] = 0
		return
	}
	c.static[i] = v.StaticRev
	if c.listed[i] {
		c.cordon[i] = eligibility.IsCordoned(v)
		c.active[i], c.agent[i] = v.Status == cluster.InstanceActive, v.AgentConnected
		c.open[i] = c.active[i] && c.agent[i] && !c.cordon[i]
	}
}

// labelGap is how far apart labels are at first: so often can an id be put between two others.
const labelGap = 1 << 32

// enlist gives the instance a label between those of its neighbours by id: numbers compare faster
// than ids.
func (c *columns) enlist(i int) {
	at, _ := slices.BinarySearchFunc(c.byID, c.views[i].ID, c.compareID)
	c.byID = slices.Insert(c.byID, at, int32(i))
	before, after := int64(0), int64(0)
	if at > 0 {
		before = c.label[c.byID[at-1]]
	}
	if at+1 < len(c.byID) {
		after = c.label[c.byID[at+1]]
	} else {
		after = before + 2*labelGap
	}
	c.label[i] = before + (after-before)/2
	if c.label[i] > before && c.label[i] < after && after < math.MaxInt64-2*labelGap {
		return
	}
	for n, k := range c.byID {
		c.label[k] = int64(n+1) * labelGap
	}
}

// strike takes the instance off the list, as long as its view is still the one that was enlisted.
func (c *columns) strike(i int) {
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

// digest is the id as a number, for chance.
func digest(id string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	return h.Sum64()
}

// measure takes in what the instance has free, and how many tasks it has besides those in the view.
func (c *columns) measure(i int, v *snapshot.InstanceView, more int) {
	entire, share, spare := devices(v)
	kept := v.Reserved()
	c.cpu[i], c.memory[i], c.enis[i] = v.CPU-kept.CPU, v.Memory-kept.Memory, v.ENIs
	if v.ENIs != math.MaxInt {
		c.enis[i] -= int(kept.ENIs)
	}
	c.entire[i], c.share[i] = int32(entire), int32(share)
	c.fit[i], c.tasks[i] = tightness(c.cpu[i], c.memory[i], spare), int64(len(v.Tasks)+more)
	c.ports[i] = 0
	for _, p := range v.Ports {
		c.ports[i] |= portBit(p)
	}
	for m := range c.metrics {
		c.metrics[m].measure(i, m, v)
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

func (m *metric) measure(i, index int, v *snapshot.InstanceView) {
	limit := v.Limit(index)
	m.load[i], m.unbuffered[i], m.total[i] = v.Load(index), limit.Unbuffered, limit.Total
}

// devices sums up the GPUs: those entirely free and fit to be given, less as many as tasks hold
// somewhere unknown; the most that is free of one held in part; all that is free, in thousandths.
func devices(v *snapshot.InstanceView) (entire, share, spare int) {
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

// tightness is what is left as one number. Between instances that all else holds equal a task goes
// where fewer GPUs are free, so that tasks without a GPU keep off the instances that have one to
// give, and tasks with one fill those in use; then where the least CPU and memory is left, so that
// larger tasks still find room elsewhere.
func tightness(cpu, memory int64, spare int) int64 {
	return int64(spare)*gpuWeight + cpu + memory*vcpuPerMiB
}

// before orders instances that nothing else tells apart: the lower id comes first.
func (c *columns) before(i, j int32) bool { return c.label[i] < c.label[j] }
