package placement

import (
	"cmp"
	"math"
	"slices"

	"berth/shared/cluster"
)

// A quickDiagnosis explains a refusal from the blocks of the index. Most instances that have no room
// lack CPU or memory, and a block knows how much its instances have free: none of them is examined,
// but for those that may be the closest. The answer is that of a report on all instances.
type quickDiagnosis struct {
	chooser *chooser
	filters []int // positions of those that concern the tasks
	after   []int // those of them that come after CPU and memory
	needs   freeResources
	ports   uint64 // bits of those that the tasks need
	// feasible instances are there if the diagnosis explains a placement.
	feasible                      int
	rejected                      []cluster.Rejection
	lackCPU, lackMemory, lackGPUs lackingInstances // by what an instance lacks first
	closest                       closestInstance
	closerCPU, closerMemory       int32 // what an instance that lacks it has at least if it is closer
}

// lackingInstances are those that one filter rejects.
type lackingInstances struct {
	count int
	most  int32 // that any of them has free
}

// A closestInstance is the instance that needs the least of a change; see [isCloserToFit].
type closestInstance struct {
	instance int32 // -1 for none
	filter   int   // position of the filter that rejects it; no other does
	part     float64
	label    int64
}

// The positions of filters that a quickDiagnosis knows.
var (
	cpuFilter    = filterPosition(cluster.FilterCPU)
	memoryFilter = filterPosition(cluster.FilterMemory)
	gpuFilter    = filterPosition(cluster.FilterGPU)
)

// diagnoseQuickly returns the diagnosis of a refused request without the number of unplaced tasks, or
// nil if it takes a report on all instances: for rules that depend on other tasks, and if each
// instance lacks more than one thing.
func diagnoseQuickly(c *chooser, r *Request) *cluster.Diagnosis {
	e, x := c.engine, c.index
	if r.Instances != nil || c.maxPerInstance > 0 || c.domains != nil || c.application != nil ||
		len(c.matcher.dynamic) > 0 || len(e.heldBack) > 0 || x == nil || x.scored != nil || !x.isCurrent() ||
		len(c.spec.Ports) > 0 && len(e.overlay.touched) > 0 ||
		max(c.spec.Needs.CPU, c.spec.Needs.Memory) >= math.MaxInt32 {
		return nil
	}
	q := quickDiagnosis{chooser: c, filters: concernedFilters(c), needs: x.needsOf(c.shape),
		ports: portBitsOf(c.spec.Ports), closest: closestInstance{instance: -1}, closerCPU: math.MinInt32,
		closerMemory: math.MinInt32}
	for at, f := range q.filters {
		if f == memoryFilter {
			q.after = q.filters[at+1:]
		}
	}
	unmatched := c.matcher.static.openRejections(c)
	if c.matcher.static.classBit == 0 && len(unmatched) > 0 {
		return nil
	}
	for region := range x.runs {
		if c.matchesClass(int32(region)) {
			q.addRun(&x.runs[region])
		}
	}
	if q.closest.instance < 0 {
		return nil // an instance that does not match, or takes no tasks, may be closer
	}
	for at := range unmatched {
		q.addRejection(&unmatched[at], unmatched[at].Count)
	}
	q.addClosed()
	q.addLacking()
	return &cluster.Diagnosis{Evaluated: e.memberCount, Feasible: q.feasible, Closest: e.views[q.closest.instance].ID,
		ClosestFilter: filters[q.closest.filter].name, Rejected: summarizeRejections(q.rejected)}
}

// addRun adds the instances of a run, which match the tasks.
func (q *quickDiagnosis) addRun(r *run) {
	for at := len(r.blocks) - 1; at >= 0; at-- { // those with the most room first
		b := r.blocks[at]
		if most := r.maximumOf(at).cpu; q.ports == 0 && most < q.needs.cpu && most < q.closerCPU {
			q.lackCPU.addLacking(b.count, most)
			continue
		}
		q.chooser.engine.visits += uint64(b.count)
		for n := range b.free[:b.count] {
			q.addInstance(b, n)
		}
	}
}

// addInstance adds the n-th instance of a block.
func (q *quickDiagnosis) addInstance(b *block, n int) {
	free, next := &b.free[n], closestInstance{instance: b.instances[n], label: b.ranks[n].label}
	lacksMemory := free.memory < q.needs.memory
	switch {
	case b.ports[n]&q.ports != 0: // some port may be taken, which comes before all that is below
		q.examine(&next, q.filters, true)
	case free.cpu < q.needs.cpu:
		q.lackCPU.addLacking(1, free.cpu)
		if !lacksMemory && (free.cpu > q.closerCPU || free.cpu == q.closerCPU && next.label < q.closest.label) {
			next.filter = cpuFilter
			q.examine(&next, q.after, false)
		}
	case lacksMemory:
		q.lackMemory.addLacking(1, free.memory)
		if free.memory > q.closerMemory || free.memory == q.closerMemory && next.label < q.closest.label {
			next.filter = memoryFilter
			q.examine(&next, q.after, false)
		}
	case q.needs.gpus > 0 && free.gpus == 0:
		q.lackGPUs.addLacking(1, 0)
		if next.filter = gpuFilter; next.isCloserThan(&q.closest) {
			q.examine(&next, q.after, false)
		}
	default:
		q.examine(&next, q.after, true)
	}
}

func (l *lackingInstances) addLacking(n int, most int32) {
	if l.count == 0 || most > l.most {
		l.most = most
	}
	l.count += n
}

// examine asks filters about one instance. If it is counted already, next has the filter that
// rejects it, and it matters only if no other does.
func (q *quickDiagnosis) examine(next *closestInstance, ask []int, count bool) {
	c, i, failed := q.chooser, int(next.instance), 0
	for _, at := range ask {
		if filters[at].passes(c, i) {
			continue
		}
		if !count && at != next.filter {
			return
		}
		if failed++; failed == 1 {
			next.filter = at
		}
	}
	if count && failed == 0 {
		q.feasible++
		return
	}
	why := filters[next.filter].rejectionOf(c, i)
	if count {
		q.addRejection(&why, 1)
	}
	if why.Need != 0 {
		next.part = why.Best / why.Need
	}
	if failed <= 1 && next.isCloserThan(&q.closest) {
		q.closest = *next
		q.raiseBounds()
	}
}

func (a *closestInstance) isCloserThan(b *closestInstance) bool {
	return b.instance < 0 || cmp.Or(cmp.Compare(b.filter, a.filter), cmp.Compare(b.part, a.part),
		cmp.Compare(a.label, b.label)) < 0
}

// raiseBounds sets the bounds by the closest instance. An instance that is rejected by an earlier
// filter is less close. Less than nothing counts as nothing.
func (q *quickDiagnosis) raiseBounds() {
	u := &q.chooser.engine.usages[q.closest.instance]
	for _, bound := range []struct {
		filter int
		free   int64
		least  *int32
	}{{cpuFilter, u.cpu, &q.closerCPU}, {memoryFilter, u.memory, &q.closerMemory}} {
		switch {
		case q.closest.filter > bound.filter:
			*bound.least = math.MaxInt32
		case q.closest.filter == bound.filter && bound.free > 0:
			*bound.least = limitTo32Bits(bound.free)
		}
	}
}

// addRejection counts instances with the rejection.
func (q *quickDiagnosis) addRejection(why *cluster.Rejection, n int) {
	at := slices.IndexFunc(q.rejected, func(r cluster.Rejection) bool {
		return r.Filter == why.Filter && r.Detail == why.Detail
	})
	if at < 0 {
		at = len(q.rejected)
		q.rejected = append(q.rejected, *why)
		q.rejected[at].Count = 0
	}
	g := &q.rejected[at]
	if g.Count += n; why.Best-why.Need > g.Best-g.Need {
		g.Need, g.Best = why.Need, why.Best
	}
}

// addClosed adds the instances that take no tasks, which no index has.
func (q *quickDiagnosis) addClosed() {
	e := q.chooser.engine
	if e.openCount == e.memberCount {
		return
	}
	for i, in := range e.inCluster {
		if in && !e.usages[i].takesTasks {
			why := firstRefusal(q.chooser, i).rejectionOf(q.chooser, i)
			q.addRejection(&why, 1)
		}
	}
}

// addLacking adds the instances that were not examined one by one.
func (q *quickDiagnosis) addLacking() {
	needs := &q.chooser.spec.Needs
	if n := q.lackCPU.count; n > 0 {
		q.addRejection(&cluster.Rejection{Filter: cluster.FilterCPU, Need: cpuUnits(needs.CPU),
			Best: cpuUnits(int64(max(0, q.lackCPU.most)))}, n)
	}
	if n := q.lackGPUs.count; n > 0 {
		q.addRejection(&cluster.Rejection{Filter: cluster.FilterGPU,
			Need: float64(needs.GPUs*needs.PerGPU()) / cluster.WholeGPU}, n)
	}
	if n := q.lackMemory.count; n > 0 {
		q.addRejection(&cluster.Rejection{Filter: cluster.FilterMemory, Need: float64(needs.Memory),
			Best: float64(max(0, q.lackMemory.most))}, n)
	}
}

// openRejections returns why instances that take tasks do not pass the mask, with their number. The
// chooser must have the mask, and no constraint that depends on tasks.
func (m *staticMask) openRejections(c *chooser) []cluster.Rejection {
	e := c.engine
	if m.rejectionsRevision == e.rowsRevision {
		return m.rejections
	}
	q := quickDiagnosis{chooser: c}
	for i, passes := range m.passes {
		if !passes && e.usages[i].takesTasks {
			why := firstRefusal(c, i).rejectionOf(c, i)
			q.addRejection(&why, 1)
		}
	}
	m.rejections, m.rejectionsRevision = q.rejected, e.rowsRevision
	return m.rejections
}
