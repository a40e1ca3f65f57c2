package placement

import (
	"cmp"
	"slices"

	"berth/shared/cluster"
)

// newDiagnosis says why the rest of the tasks found no instance, as things stand after those that
// did: every instance counts for the first filter that refuses it. Need and Best are of those that
// the filter removed. It costs by what has changed since a task of its kind was refused last, but
// for classes under a domain policy.
func newDiagnosis(c *chooser, r *Request, rest int) *cluster.Diagnosis {
	report := &rejectionReport{}
	if r.Instances == nil {
		report = rejectionReportFor(c)
	}
	requested := updateRejections(c, report, r)
	d := &cluster.Diagnosis{Unplaced: rest}
	counts := make([]cluster.Rejection, len(report.groups))
	copy(counts, report.groups)
	closest := int32(-1)
	for i := range report.instances {
		f := &report.instances[i]
		if !c.engine.inCluster[i] || requested != nil && !requested[c.engine.views[i].ID] {
			continue
		}
		if d.Evaluated++; f.failedFilters == 0 {
			d.Feasible++
			continue
		}
		g := &counts[f.group]
		if g.Count++; g.Count == 1 || f.best > g.Best {
			g.Best = f.best
		}
		if closest < 0 || f.failedFilters <= report.instances[closest].failedFilters &&
			isCloser(c, report, int32(i), closest) {
			closest = int32(i)
		}
	}
	if closest >= 0 {
		d.Closest, d.ClosestFilter = c.engine.views[closest].ID, report.groups[report.instances[closest].group].Filter
	}
	d.Rejected = summarizeRejections(slices.DeleteFunc(counts, func(r cluster.Rejection) bool { return r.Count == 0 }))
	return d
}

// rejectionReport is why each instance could not take a task of a class, as far as it is known.
type rejectionReport struct {
	logPosition uint64 // of the log
	built       bool
	strict      bool // the buffer was not allowed
	instances   []instanceRejection
	dirty       []int32 // instances to look at again, which the log does not tell of
	groups      []cluster.Rejection
	filters     []int // per group, the position of its filter
	groupIndex  map[rejectionGroup]int
	lastGroup   [maxFilters]int // per filter, the last of its groups after 1
}

// rejectionReportFor is the class's audit: that of its shape, unless where its owner's tasks are decides,
// too.
func rejectionReportFor(c *chooser) *rejectionReport {
	if c.rejections != nil {
		return c.rejections
	}
	c.rejections = &rejectionReport{}
	if c.maxPerInstance == 0 {
		if report := c.engine.caches.rejections[c.shape.key]; report != nil {
			c.rejections = report
		}
		c.engine.caches.rejections[c.shape.key] = c.rejections
	}
	return c.rejections
}

// instanceRejection is why one instance could not take a task.
type instanceRejection struct {
	best          float64
	group         int32
	failedFilters int32 // filters that refuse it, the first and those after it; 0 where none does
}

type rejectionGroup struct {
	filter int
	detail string
}

// maxFilters is more than there are.
const maxFilters = 32

// updateRejections brings the audit up to date, and gives the instances that the request names, nil if
// it names none. Domain rules depend on other instances, too: under them all are looked at.
func updateRejections(c *chooser, report *rejectionReport, r *Request) (requested map[string]bool) {
	n, o := len(c.engine.views), &c.engine.overlay
	filtersToAsk := concernedFilters(c)
	switch {
	case r.Instances != nil:
		requested = map[string]bool{}
		growTo(&report.instances, n)
		for _, id := range r.Instances {
			requested[id] = true
			if v := c.engine.snap.Instances[id]; v != nil {
				examineInstance(c, report, v.Index, filtersToAsk)
			}
		}
		return requested
	case !report.built || report.strict != c.strict || c.domains != nil ||
		!c.engine.changes.coversSince(report.logPosition, n):
		*report = rejectionReport{instances: report.instances[:0], groups: report.groups[:0],
			filters: report.filters[:0]}
		growTo(&report.instances, n)
		for i := range n {
			examineInstance(c, report, i, filtersToAsk)
		}
	default:
		growTo(&report.instances, n)
		for ; report.logPosition < c.engine.changes.end; report.logPosition++ {
			if i, last := c.engine.changes.changeAt(report.logPosition); last {
				examineInstance(c, report, int(i), filtersToAsk)
			}
		}
		for _, list := range [][]int32{report.dirty, o.touched} {
			for _, i := range list {
				examineInstance(c, report, int(i), filtersToAsk)
			}
		}
	}
	report.built, report.strict, report.logPosition = true, c.strict, c.engine.changes.end
	report.dirty = append(report.dirty[:0], o.touched...) // what this call placed there is taken back
	return nil
}

// examineInstance asks the filters about one instance.
func examineInstance(c *chooser, report *rejectionReport, i int, filtersToAsk []int) {
	f := &report.instances[i]
	if f.failedFilters = 0; !c.engine.inCluster[i] {
		return
	}
	c.engine.visits++
	for _, at := range filtersToAsk {
		if filters[at].passes(c, i) {
			continue
		}
		if f.failedFilters++; f.failedFilters == 1 {
			why := filters[at].rejectionOf(c, i)
			f.group, f.best = int32(report.groupOf(at, &why)), why.Best
		}
	}
}

// groupOf is the group of a rejection by the filter: of those with the same detail.
func (report *rejectionReport) groupOf(filter int, why *cluster.Rejection) int {
	if n := report.lastGroup[filter]; n > 0 && report.groups[n-1].Detail == why.Detail { // most often
		return n - 1
	}
	key := rejectionGroup{filter, why.Detail}
	n, ok := report.groupIndex[key]
	if !ok {
		n = len(report.groups)
		if report.groupIndex == nil {
			report.groupIndex = map[rejectionGroup]int{}
		}
		report.groupIndex[key] = n
		report.groups = append(report.groups, cluster.Rejection{Filter: why.Filter, Detail: why.Detail, Need: why.Need})
		report.filters = append(report.filters, filter)
	}
	report.lastGroup[filter] = n + 1
	return n
}

// concernedFilters are the positions of the filters that can refuse the class's tasks.
func concernedFilters(c *chooser) []int {
	var out []int
	for at := range filters {
		if filters[at].concerns(c) {
			out = append(out, at)
		}
	}
	return out
}

// firstRefusal is the first filter that refuses a task of the class, nil if all let it pass.
func firstRefusal(c *chooser, i int) *filter {
	for at := range filters {
		if f := &filters[at]; f.concerns(c) && !f.passes(c, i) {
			return f
		}
	}
	return nil
}

func (f *filter) rejectionOf(c *chooser, i int) cluster.Rejection {
	why := f.explain(c, i)
	why.Filter, why.Count = f.name, 1
	return why
}

// maxDetails is how many details of one filter are told apart; the others share the last.
const maxDetails = 8

// summarizeRejections are the rejections in the order of the filters, in each the details by name.
func summarizeRejections(rejected []cluster.Rejection) []cluster.Rejection {
	slices.SortFunc(rejected, func(a, b cluster.Rejection) int {
		return cmp.Or(cmp.Compare(filterPosition(a.Filter), filterPosition(b.Filter)), cmp.Compare(b.Count, a.Count),
			cmp.Compare(a.Detail, b.Detail))
	})
	var out []cluster.Rejection
	details := 0
	for _, r := range rejected {
		last := len(out) - 1
		switch {
		case last < 0 || out[last].Filter != r.Filter:
			details = 1
		case details == maxDetails:
			out[last].Count += r.Count
			out[last].Best = max(out[last].Best, r.Best)
			out[last].Detail = "others"
			continue
		default:
			details++
		}
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(a, b cluster.Rejection) int {
		return cmp.Or(cmp.Compare(filterPosition(a.Filter), filterPosition(b.Filter)), cmp.Compare(a.Detail, b.Detail))
	})
	return out
}

// isCloser reports whether less would have to change at instance i than at j for the task to fit:
// fewer filters refuse it, the first of them comes later, it lacks a smaller part of what is
// needed. The lower id decides between equals.
func isCloser(c *chooser, report *rejectionReport, i, j int32) bool {
	f, g := &report.instances[i], &report.instances[j]
	switch {
	case f.failedFilters != g.failedFilters:
		return f.failedFilters < g.failedFilters
	case report.filters[f.group] != report.filters[g.group]:
		return report.filters[f.group] > report.filters[g.group]
	case report.partAvailable(f) != report.partAvailable(g):
		return report.partAvailable(f) > report.partAvailable(g)
	}
	return c.engine.idBefore(i, j)
}

// partAvailable is how much of what is needed there is.
func (report *rejectionReport) partAvailable(f *instanceRejection) float64 {
	if need := report.groups[f.group].Need; need != 0 {
		return f.best / need
	}
	return 0
}

func filterPosition(name cluster.Filter) int {
	return slices.IndexFunc(filters[:], func(f filter) bool { return f.name == name })
}
