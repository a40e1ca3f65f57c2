package placement

import (
	"cmp"
	"slices"

	"berth/shared/cluster"
)

// refused is one instance that could not take a task.
type refused struct {
	instance int32
	rejected cluster.Rejection // by the first filter
	at       int               // that filter's position
	failed   int               // filters that refuse it, the first and those after it
}

// diagnose says why the rest of the tasks found no instance, as things stand after those that did: every instance
// counts for the first filter that refuses it. Need and Best are of those that the filter removed.
func (c *class) diagnose(r *Request, rest int) *cluster.Diagnosis {
	d := &cluster.Diagnosis{Unplaced: rest}
	concerned, wished := c.concerned(), map[string]bool{}
	for _, id := range r.Instances {
		wished[id] = true
	}
	h := histogram{at: map[group]int{}}
	var why, closest refused
	for i, v := range c.views {
		if !c.listed[i] || r.Instances != nil && !wished[v.ID] {
			continue
		}
		d.Evaluated++
		c.looks++
		if c.refuse(&why, i, concerned, closest.failed); why.failed == 0 {
			d.Feasible++
			continue
		}
		h.add(&why)
		if closest.failed == 0 || c.closer(&why, &closest) {
			closest = why
		}
	}
	if closest.failed > 0 {
		d.Closest, d.ClosestFilter = c.views[closest.instance].ID, closest.rejected.Filter
	}
	d.Rejected = h.told()
	return d
}

// concerned are the positions of the filters that can refuse the class's tasks.
func (c *class) concerned() []int {
	var out []int
	for at := range filters {
		if filters[at].concerns(c) {
			out = append(out, at)
		}
	}
	return out
}

// refusal is the first filter that refuses a task of the class, nil if all let it pass.
func (c *class) refusal(i int) *filter {
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

// histogram counts rejections by filter and detail.
type histogram struct {
	rejected []cluster.Rejection
	at       map[group]int
	last     [maxFilters]int // per filter, the position of the last one after 1
}

type group struct {
	filter int
	detail string
}

// maxFilters is more than there are.
const maxFilters = 32

func (h *histogram) add(why *refused) {
	if at := h.last[why.at]; at > 0 && h.rejected[at-1].Detail == why.rejected.Detail { // most often
		h.count(at-1, why)
		return
	}
	key := group{why.at, why.rejected.Detail}
	at, ok := h.at[key]
	if !ok {
		at = len(h.rejected)
		h.at[key] = at
		h.rejected = append(h.rejected, why.rejected)
		h.rejected[at].Count = 0
	}
	h.last[why.at] = at + 1
	h.count(at, why)
}

func (h *histogram) count(at int, why *refused) {
	h.rejected[at].Count++
	h.rejected[at].Best = max(h.rejected[at].Best, why.rejected.Best)
}

// maxDetails is how many details of one filter are told apart; the others share the last.
const maxDetails = 8

// told is the histogram in the order of the filters, in each the details by name.
func (h *histogram) told() []cluster.Rejection {
	slices.SortFunc(h.rejected, func(a, b cluster.Rejection) int {
		return cmp.Or(cmp.Compare(position(a.Filter), position(b.Filter)), cmp.Compare(b.Count, a.Count),
			cmp.Compare(a.Detail, b.Detail))
	})
	var out []cluster.Rejection
	details := 0
	for _, r := range h.rejected {
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

// refuse asks the filters about one instance; none failed if it could take a task. Once more of them refuse it than most,
// where there is a most, the others are not asked: others are closer.
func (c *class) refuse(why *refused, i int, concerned []int, most int) {
	why.instance, why.failed = int32(i), 0
	for _, at := range concerned {
		if filters[at].passes(c, i) {
			continue
		}
		if why.failed++; why.failed == 1 {
			why.rejected, why.at = filters[at].reject(c, i), at
		}
		if most > 0 && why.failed > most {
			return
		}
	}
}

// closer reports whether less would have to change at a than at b for the task to fit: fewer filters refuse it, the first
// of them comes later, it lacks a smaller part of what is needed. The lower id decides between equals.
func (c *class) closer(a, b *refused) bool {
	switch {
	case a.failed != b.failed:
		return a.failed < b.failed
	case a.at != b.at:
		return a.at > b.at
	case a.part() != b.part():
		return a.part() > b.part()
	}
	return c.before(a.instance, b.instance)
}

// part is how much of what is needed there is.
func (a *refused) part() float64 {
	if a.rejected.Need == 0 {
		return 0
	}
	return a.rejected.Best / a.rejected.Need
}

func position(name cluster.Filter) int {
	return slices.IndexFunc(filters[:], func(f filter) bool { return f.name == name })
}
