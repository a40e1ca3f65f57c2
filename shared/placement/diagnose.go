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
func newDiagnosis(c *class, r *Request, rest int) *cluster.Diagnosis {
	a := &audit{}
	if r.Instances == nil {
		a = auditFor(c)
	}
	wished := updateAudit(c, a, r)
	d := &cluster.Diagnosis{Unplaced: rest}
	counts := make([]cluster.Rejection, len(a.groups))
	copy(counts, a.groups)
	closest := int32(-1)
	for i := range a.found {
		f := &a.found[i]
		if !c.engine.listed[i] || wished != nil && !wished[c.engine.views[i].ID] {
			continue
		}
		if d.Evaluated++; f.failed == 0 {
			d.Feasible++
			continue
		}
		g := &counts[f.group]
		if g.Count++; g.Count == 1 || f.best > g.Best {
			g.Best = f.best
		}
		if closest < 0 || f.failed <= a.found[closest].failed && isCloser(c, a, int32(i), closest) {
			closest = int32(i)
		}
	}
	if closest >= 0 {
		d.Closest, d.ClosestFilter = c.engine.views[closest].ID, a.groups[a.found[closest].group].Filter
	}
	d.Rejected = told(slices.DeleteFunc(counts, func(r cluster.Rejection) bool { return r.Count == 0 }))
	return d
}

// audit is why each instance could not take a task of a class, as far as it is known.
type audit struct {
	at      uint64 // of the log
	built   bool
	strict  bool // the buffer was not allowed
	found   []finding
	dirty   []int32 // instances to look at again, which the log does not tell of
	groups  []cluster.Rejection
	filters []int // per group, the position of its filter
	known   map[group]int
	last    [maxFilters]int // per filter, the last of its groups after 1
}

// auditFor is the class's audit: that of its shape, unless where its owner's tasks are decides,
// too.
func auditFor(c *class) *audit {
	if c.audit != nil {
		return c.audit
	}
	c.audit = &audit{}
	if c.most == 0 {
		if a := c.engine.kept.audits[c.shape.key]; a != nil {
			c.audit = a
		}
		c.engine.kept.audits[c.shape.key] = c.audit
	}
	return c.audit
}

// finding is why one instance could not take a task.
type finding struct {
	best   float64
	group  int32
	failed int32 // filters that refuse it, the first and those after it; 0 where none does
}

type group struct {
	filter int
	detail string
}

// maxFilters is more than there are.
const maxFilters = 32

// updateAudit brings the audit up to date, and gives the instances that the request names, nil if
// it names none. Domain rules depend on other instances, too: under them all are looked at.
func updateAudit(c *class, a *audit, r *Request) (wished map[string]bool) {
	n, o := len(c.engine.views), &c.engine.placed
	concerned := concernedFilters(c)
	switch {
	case r.Instances != nil:
		wished = map[string]bool{}
		lengthen(&a.found, n)
		for _, id := range r.Instances {
			wished[id] = true
			if v := c.engine.snap.Instances[id]; v != nil {
				examineInstance(c, a, v.Index, concerned)
			}
		}
		return wished
	case !a.built || a.strict != c.strict || c.domains != nil || !c.engine.log.since(a.at, n):
		*a = audit{found: a.found[:0], groups: a.groups[:0], filters: a.filters[:0]}
		lengthen(&a.found, n)
		for i := range n {
			examineInstance(c, a, i, concerned)
		}
	default:
		lengthen(&a.found, n)
		for ; a.at < c.engine.log.end; a.at++ {
			if i, last := c.engine.log.get(a.at); last {
				examineInstance(c, a, int(i), concerned)
			}
		}
		for _, list := range [][]int32{a.dirty, o.touched} {
			for _, i := range list {
				examineInstance(c, a, int(i), concerned)
			}
		}
	}
	a.built, a.strict, a.at = true, c.strict, c.engine.log.end
	a.dirty = append(a.dirty[:0], o.touched...) // what this call placed there is taken back
	return nil
}

// examineInstance asks the filters about one instance.
func examineInstance(c *class, a *audit, i int, concerned []int) {
	f := &a.found[i]
	if f.failed = 0; !c.engine.listed[i] {
		return
	}
	c.engine.looks++
	for _, at := range concerned {
		if filters[at].passes(c, i) {
			continue
		}
		if f.failed++; f.failed == 1 {
			why := filters[at].reject(c, i)
			f.group, f.best = int32(a.groupOf(at, &why)), why.Best
		}
	}
}

// groupOf is the group of a rejection by the filter: of those with the same detail.
func (a *audit) groupOf(filter int, why *cluster.Rejection) int {
	if n := a.last[filter]; n > 0 && a.groups[n-1].Detail == why.Detail { // most often
		return n - 1
	}
	key := group{filter, why.Detail}
	n, ok := a.known[key]
	if !ok {
		n = len(a.groups)
		if a.known == nil {
			a.known = map[group]int{}
		}
		a.known[key] = n
		a.groups = append(a.groups, cluster.Rejection{Filter: why.Filter, Detail: why.Detail, Need: why.Need})
		a.filters = append(a.filters, filter)
	}
	a.last[filter] = n + 1
	return n
}

// concernedFilters are the positions of the filters that can refuse the class's tasks.
func concernedFilters(c *class) []int {
	var out []int
	for at := range filters {
		if filters[at].concerns(c) {
			out = append(out, at)
		}
	}
	return out
}

// firstRefusal is the first filter that refuses a task of the class, nil if all let it pass.
func firstRefusal(c *class, i int) *filter {
	for at := range filters {
		if f := &filters[at]; f.concerns(c) && !f.passes(c, i) {
			return f
		}
	}
	return nil
}

func (f *filter) reject(c *class, i int) cluster.Rejection {
	why := f.explain(c, i)
	why.Filter, why.Count = f.name, 1
	return why
}

// maxDetails is how many details of one filter are told apart; the others share the last.
const maxDetails = 8

// told are the rejections in the order of the filters, in each the details by name.
func told(rejected []cluster.Rejection) []cluster.Rejection {
	slices.SortFunc(rejected, func(a, b cluster.Rejection) int {
		return cmp.Or(cmp.Compare(position(a.Filter), position(b.Filter)), cmp.Compare(b.Count, a.Count),
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
		return cmp.Or(cmp.Compare(position(a.Filter), position(b.Filter)), cmp.Compare(a.Detail, b.Detail))
	})
	return out
}

// isCloser reports whether less would have to change at instance i than at j for the task to fit:
// fewer filters refuse it, the first of them comes later, it lacks a smaller part of what is
// needed. The lower id decides between equals.
func isCloser(c *class, a *audit, i, j int32) bool {
	f, g := &a.found[i], &a.found[j]
	switch {
	case f.failed != g.failed:
		return f.failed < g.failed
	case a.filters[f.group] != a.filters[g.group]:
		return a.filters[f.group] > a.filters[g.group]
	case a.part(f) != a.part(g):
		return a.part(f) > a.part(g)
	}
	return c.engine.before(i, j)
}

// part is how much of what is needed there is.
func (a *audit) part(f *finding) float64 {
	if need := a.groups[f.group].Need; need != 0 {
		return f.best / need
	}
	return 0
}

func position(name cluster.Filter) int {
	return slices.IndexFunc(filters[:], func(f filter) bool { return f.name == name })
}
