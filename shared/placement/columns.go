package placement

import (
	"hash/fnv"
	"math"
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/placement/eligibility"
	"berth/shared/placement/packing"
	"berth/shared/snapshot"
)

// The columns hold what filters and orders ask of every instance, indexed by the instance's
// position in the snapshot. A scan over many instances reads a few short arrays instead of as many
// views.
type columns struct {
	views          []*snapshot.InstanceView // nil for a free slot
	rowsRevision   uint64                   // counts the changes of rows, from 1
	staticRevision []uint64                 // the view's StaticRev
	memberCount    int                      // instances in the cluster
	openCount      int                      // those that take tasks
	inCluster      []bool                   // known and not deregistered; the others are no candidates
	active         []bool                   // ACTIVE
	agentConnected []bool
	cordoned       []bool
	tainted        []bool   // has taints, which tasks must tolerate
	idLabel        []int64  // numbers in the order of ids, see [columns.insertIDLabel]
	indexRevision  int      // changes when all labels are assigned again, or metrics are added
	byID           []int32  // the instances that have a label, sorted by id
	idHash         []uint64 // for choices by chance

	usages  []usage
	metrics []metricColumn
	classes instanceClasses
}

// A usage is what an instance has free, and whether it takes tasks. It fills one line of a
// processor's cache: a decision asks for all of it, of an instance that is in no cache.
type usage struct {
	cpu, memory  int64  // free
	tightness    int64  // how much is left in all, see [tightnessOf]
	taskCount    int64  // tasks of anybody that hold capacity
	portBits     uint64 // a bit for each port in use, see [portBitOf]
	wholeGPUs    int32  // GPU devices without any task
	largestShare int32  // the most free thousandths on a GPU device that is shared
	enis         int
	takesTasks   bool // active, connected and not cordoned
}

// A usageField is a number of a usage that orders compare.
type usageField uint8

const (
	freeCPU usageField = iota + 1
	freeMemory
	allTasks
	roomLeft
)

// valueOf returns the number of the field.
func (u *usage) valueOf(f usageField) int64 {
	switch f {
	case freeCPU:
		return u.cpu
	case freeMemory:
		return u.memory
	case allTasks:
		return u.taskCount
	}
	return u.tightness
}

// A metricColumn holds the load of one metric on each instance, and its limits (P9, P12, P13).
type metricColumn []metricUsage

type metricUsage struct {
	load              int64
	unbuffered, total int64
	reserved          int64 // for applications, beyond what they use
}

// growColumns makes room for n instances.
func (c *columns) growColumns(n int) {
	growSlice(&c.views, n)
	growSlice(&c.idLabel, n)
	growSlice(&c.usages, n)
	growSlices(n, &c.inCluster, &c.active, &c.agentConnected, &c.cordoned, &c.tainted)
	growSlices(n, &c.staticRevision, &c.idHash, &c.classes.of)
	for m := range c.metrics {
		growSlice((*[]metricUsage)(&c.metrics[m]), n)
	}
}

// growSlice extends the slice with zero values to at least n elements.
func growSlice[T any](s *[]T, n int) {
	if more := n - len(*s); more > 0 {
		*s = append(*s, make([]T, more)...)
	}
}

func growSlices[T any](n int, columns ...*[]T) {
	for _, column := range columns {
		growSlice(column, n)
	}
}

// observeRow copies what changes only with the instance's row.
func (c *columns) observeRow(i int, v *snapshot.InstanceView) {
	c.rowsRevision++
	if old := c.views[i]; old != v {
		c.removeIDLabel(i)
		if c.views[i] = v; v != nil {
			c.insertIDLabel(i)
			c.idHash[i] = hashInstanceID(v.ID)
		}
	}
	c.countMember(i, -1)
	defer c.countMember(i, 1)
	c.inCluster[i] = v != nil && eligibility.InCluster(v)
	c.active[i], c.agentConnected[i], c.cordoned[i], c.usages[i].takesTasks = false, false, false, false
	c.tainted[i] = v != nil && v.Instance != nil && v.Attributes[cluster.AttributeTaints] != ""
	if v == nil {
		c.staticRevision[i] = 0
		return
	}
	c.staticRevision[i] = v.StaticRev
	if c.inCluster[i] {
		c.cordoned[i] = eligibility.IsCordoned(v)
		c.active[i], c.agentConnected[i] = v.Status == cluster.InstanceActive, v.AgentConnected
		c.usages[i].takesTasks = c.active[i] && c.agentConnected[i] && !c.cordoned[i]
	}
}

// countMember adds (sign 1) or subtracts (-1) an instance.
func (c *columns) countMember(i, sign int) {
	if c.inCluster[i] {
		c.memberCount += sign
	}
	if c.usages[i].takesTasks {
		c.openCount += sign
	}
}

// labelGap is the initial distance between two labels. New ids can halve it 32 times before all
// labels are assigned again.
const labelGap = 1 << 32

// insertIDLabel gives the instance a label between those of its neighbours by id. Comparing numbers
// is faster than comparing ids, and every comparison ends with the id.
func (c *columns) insertIDLabel(i int) {
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
	c.indexRevision++
	for n, k := range c.byID {
		c.idLabel[k] = int64(n+1) * labelGap
	}
}

// removeIDLabel removes the label of the instance's present view.
func (c *columns) removeIDLabel(i int) {
	if c.views[i] == nil {
		return
	}
	at, _ := slices.BinarySearchFunc(c.byID, c.views[i].ID, c.compareID)
	for c.byID[at] != int32(i) {
		at++ // until the changes of both are applied, two instances may have one id
	}
	c.byID = slices.Delete(c.byID, at, at+1)
}

func (c *columns) compareID(i int32, id string) int { return strings.Compare(c.views[i].ID, id) }

// hashInstanceID maps an id to a number, for choices by chance.
func hashInstanceID(id string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	return h.Sum64()
}

// observeUsage copies what the instance has free. extra is the number of tasks besides those in the
// view.
func (c *columns) observeUsage(i int, v *snapshot.InstanceView, extra int) {
	whole, share, free := summarizeDevices(v)
	reserved := v.ReservedCapacity()
	u := &c.usages[i]
	u.cpu, u.memory, u.enis = v.CPU-reserved.CPU, v.Memory-reserved.Memory, v.ENIs
	if v.ENIs != math.MaxInt { // no limit known
		u.enis -= int(reserved.ENIs)
	}
	u.wholeGPUs, u.largestShare = int32(whole), int32(share)
	u.tightness, u.taskCount = tightnessOf(u.cpu, u.memory, free), int64(len(v.Tasks)+extra)
	u.portBits = portBitsOf(v.Ports)
	for m := range c.metrics {
		c.metrics[m].observeUsage(i, m, v)
	}
}

// portBitOf returns the port's bit in [usage.portBits]. Several ports share a bit: a clear bit
// proves that the port is free, a set bit proves nothing.
func portBitOf(p cluster.Port) uint64 {
	n := uint64(p.Number)
	if p.Protocol == cluster.UDP {
		n += 1 << 16
	}
	return 1 << (n * 0x9e3779b97f4a7c15 >> 58)
}

func portBitsOf(ports []cluster.Port) (bits uint64) {
	for _, p := range ports {
		bits |= portBitOf(p)
	}
	return bits
}

func (column metricColumn) observeUsage(i, index int, v *snapshot.InstanceView) {
	limit := v.Limit(index)
	m := &column[i]
	m.load, m.unbuffered, m.total = v.Load(index), limit.Unbuffered, limit.Total
}

// summarizeDevices returns the number of entirely free GPU devices, less those that tasks hold at
// unknown positions; the most that is free on one shared device; and all that is free, in
// thousandths of a device.
func summarizeDevices(v *snapshot.InstanceView) (whole, share, free int) {
	for _, milli := range v.GPUs {
		free += milli
		if milli >= cluster.WholeGPU {
			whole++
		} else {
			share = max(share, milli)
		}
	}
	return max(0, whole-v.Unpinned), share, free
}

// gpuWeight ranks any GPU above all CPU and memory: 2^44 is the CPU of 17 million vCPUs.
const gpuWeight = 1 << 44

// tightnessOf returns what is left as one number; tasks prefer the lowest. Fewer free GPUs come
// first: tasks without a GPU stay off GPU instances, and tasks with one fill the devices in use.
// Then the least CPU and memory left: larger tasks still find room elsewhere.
func tightnessOf(cpu, memory int64, gpuMilli int) int64 {
	return int64(gpuMilli)*gpuWeight + cpu + memory*packing.VCPUPerMiB
}

// hasLowerID reports whether instance i has the lower id. Ids decide what nothing else does.
func (c *columns) hasLowerID(i, j int32) bool { return c.idLabel[i] < c.idLabel[j] }
