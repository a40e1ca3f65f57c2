package placement

import (
	"cmp"
	"slices"

	"berth/shared/cluster"
)

// newDiagnosis says why the rest of the tasks found no instance, after the others were placed. Each
// instance counts for the first filter that rejects it; Need and Best are those of the instance that
// lacks least among those that the filter removed. A repeated refusal takes time in proportion to the instances that
// changed in between, except under a domain policy.
func newDiagnosis(c *chooser, r *Request, rest int) *cluster.Diagnosis {
	if d := diagnoseQuickly(c, r); d != nil {
		d.Unplaced = rest
		return d
	}
	return newReportedDiagnosis(c, r, rest)
}

// newReportedDiagnosis is newDiagnosis from a report on all instances.
func newReportedDiagnosis(c *chooser, r *Request, rest int) *cluster.Diagnosis {
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
		if g.Count++; g.Count == 1 || f.best-f.need > g.Best-g.Need {
			g.Need, g.Best = f.need, f.best
		}
		if closest < 0 || f.failedFilters <= report.instances[closest].failedFilters &&
			isCloserToFit(c, report, int32(i), closest) {
			closest = int32(i)
		}
	}
	if closest >= 0 {
		d.Closest, d.ClosestFilter = c.engine.views[closest].ID, report.groups[report.instances[closest].group].Filter
	}
	d.Rejected = summarizeRejections(slices.DeleteFunc(counts, func(r cluster.Rejection) bool { return r.Count == 0 }))
	return d
}

// A rejectionReport says why each instance could not run a task of a chooser, where the reason
// is known.
type rejectionReport struct {
	logPosition uint64 // in the change log
	built       bool
	strict      bool                // the buffer was not allowed
	instances   []instanceRejection // by index
	dirty       []int32             // instances to examine again that the log does not name
	groups      []cluster.Rejection
	filters     []int // per group, the position of its filter
	groupIndex  map[rejectionGroup]int
	lastGroup   [maxFilters]int // per filter, 1 + its latest group
}

// rejectionReportFor returns the chooser's report. Choosers of one shape share it, unless it also
// depends on where the owner has tasks.
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

// An instanceRejection says why one instance could not run a task.
type instanceRejection struct {
	need, best    float64
	group         int32
	failedFilters int32 // how many filters reject it; 0 if it is feasible
}

// A rejectionGroup is what rejections have in common that are counted together.
type rejectionGroup struct {
	filter int
	detail string
}

// maxFilters is more than there are.
const maxFilters = 32

// updateRejections brings the report up to date. It returns the set of instances that the request
// names, or nil if it names none. Under domain rules it examines all instances, because the rules
// depend on more than one of them.
func updateRejections(c *chooser, report *rejectionReport, r *Request) (requested map[string]bool) {
	n, o := len(c.engine.views), &c.engine.overlay
	filtersToAsk := concernedFilters(c)
	switch {
	case r.Instances != nil:
		requested = map[string]bool{}
		growSlice(&report.instances, n)
		for _, id := range r.Instances {
			requested[id] = true
			if v := c.engine.snap.Instances[id]; v != nil {
				examineInstance(c, report, v.Index, filtersToAsk)
			}
		}
		return requested
	case !report.built || report.strict != c.strict || c.domains != nil || c.application != nil ||
		!c.engine.changes.coversChangesSince(report.logPosition, n):
		*report = rejectionReport{instances: report.instances[:0], groups: report.groups[:0],
			filters: report.filters[:0]}
		growSlice(&report.instances, n)
		for i := range n {
			examineInstance(c, report, i, filtersToAsk)
		}
	default:
		growSlice(&report.instances, n)
		for ; report.logPosition < c.engine.changes.end; report.logPosition++ {
			if i, last := c.engine.changes.changedInstanceAt(report.logPosition); last {
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
	report.dirty = append(report.dirty[:0], o.touched...) // the overlay will be undone
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
			f.group, f.need, f.best = int32(report.rejectionGroupOf(at, &why)), why.Need, why.Best
		}
	}
}

// rejectionGroupOf returns the group of a rejection: rejections by one filter with the same detail
// share a group.
func (report *rejectionReport) rejectionGroupOf(filter int, why *cluster.Rejection) int {
	if n := report.lastGroup[filter]; n > 0 && report.groups[n-1].Detail == why.Detail { // the usual case
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
		report.groups = append(report.groups, cluster.Rejection{Filter: why.Filter, Detail: why.Detail})
		report.filters = append(report.filters, filter)
	}
	report.lastGroup[filter] = n + 1
	return n
}

// concernedFilters returns the positions of the filters that can reject the chooser's tasks.
func concernedFilters(c *chooser) []int {
	var out []int
	for at := range filters {
		if filters[at].concerns(c) {
			out = append(out, at)
		}
	}
	return out
}

// firstRefusal returns the first filter that rejects the instance, or nil if it is feasible.
func firstRefusal(c *chooser, i int) *filter {
	for at := range filters {
		if f := &filters[at]; f.concerns(c) && !f.passes(c, i) {
			return f
		}
	}
	return nil
}

// rejectionOf explains the rejection of one instance.
func (f *filter) rejectionOf(c *chooser, i int) cluster.Rejection {
	why := f.explain(c, i)
	why.Filter, why.Count = f.name, 1
	return why
}

// maxDetails is how many details of one filter are listed; the rest are summed up as "others".
const maxDetails = 8

// summarizeRejections sorts the rejections by filter, then by detail, and sums up rare details.
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
			if r.Best-r.Need > out[last].Best-out[last].Need {
				out[last].Need, out[last].Best = r.Need, r.Best
			}
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

// isCloserToFit reports whether instance i needs less of a change than j to run the task: fewer
// filters reject it, the first of them comes later, or it has a larger part of what is needed. The
// lower id decides between equals.
func isCloserToFit(c *chooser, report *rejectionReport, i, j int32) bool {
	f, g := &report.instances[i], &report.instances[j]
	return cmp.Or(cmp.Compare(f.failedFilters, g.failedFilters),
		cmp.Compare(report.filters[g.group], report.filters[f.group]),
		cmp.Compare(g.partAvailable(), f.partAvailable()),
		cmp.Compare(c.engine.idLabel[i], c.engine.idLabel[j])) < 0
}

// partAvailable returns the part of the needed amount that is free, or 0 if the filter has no
// amounts.
func (f *instanceRejection) partAvailable() float64 {
	if f.need != 0 {
		return f.best / f.need
	}
	return 0
}

func filterPosition(name cluster.Filter) int {
	return slices.IndexFunc(filters[:], func(f filter) bool { return f.name == name })
}
