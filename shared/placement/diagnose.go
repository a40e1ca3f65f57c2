package placement

import (
	"cmp"
	"slices"

	"berth/shared/cluster"
)

// refused is one instance that could not take a task.
type refused struct {
	instance string
	rejected cluster.Rejection // by the first filter
	at       int               // that filter's position
	failed   int               // filters that refuse it, the first and those after it
}

// diagnose says why the rest of the tasks found no instance, as things stand after those that did: every instance
// counts for the first filter that refuses it. Need and Best are of those that the filter removed.
func (p *pass) diagnose(rest int) *cluster.Diagnosis {
	d := &cluster.Diagnosis{Unplaced: rest}
	var closest refused
	for _, g := range p.regions {
		for _, v := range g.views {
			d.Evaluated++
			why := p.refused(v)
			if why.failed == 0 {
				d.Feasible++
				continue
			}
			gather(d, why.rejected)
			if closest.failed == 0 || why.closerThan(closest) {
				closest = why
			}
		}
	}
	d.Closest, d.ClosestFilter = closest.instance, closest.rejected.Filter
	slices.SortFunc(d.Rejected, func(a, b cluster.Rejection) int {
		return cmp.Or(cmp.Compare(order(a.Filter), order(b.Filter)), cmp.Compare(a.Detail, b.Detail))
	})
	return d
}

// gather counts a rejection with those by the same filter for the same detail. There are few such groups.
func gather(d *cluster.Diagnosis, r cluster.Rejection) {
	for i := range d.Rejected {
		if sum := &d.Rejected[i]; sum.Filter == r.Filter && sum.Detail == r.Detail {
			sum.Count++
			sum.Best = max(sum.Best, r.Best)
			return
		}
	}
	d.Rejected = append(d.Rejected, r)
}

// refused asks all filters about one instance; none failed if it could take a task.
func (p *pass) refused(v *cluster.InstanceView) refused {
	m, ok := p.used[v.ID]
	if !ok {
		m = &p.spare
		m.reset(v)
	}
	out := refused{instance: v.ID}
	for i := range filters {
		if filters[i].passes(m, p.spec) {
			continue
		}
		if out.failed++; out.failed == 1 {
			out.rejected, out.at = filters[i].reject(m, p.spec), i
		}
	}
	return out
}

// closerThan reports whether less would have to change here than there for the task to fit: fewer filters refuse it,
// the first of them comes later, it lacks a smaller part of what is needed. The lower id decides between equals.
func (a refused) closerThan(b refused) bool {
	return cmp.Or(
		cmp.Compare(a.failed, b.failed), cmp.Compare(b.at, a.at), cmp.Compare(b.part(), a.part()),
		cmp.Compare(a.instance, b.instance),
	) < 0
}

// part is how much of what is needed there is.
func (a refused) part() float64 {
	if a.rejected.Need == 0 {
		return 0
	}
	return a.rejected.Best / a.rejected.Need
}

func order(name cluster.Filter) int {
	return slices.IndexFunc(filters, func(f filter) bool { return f.name == name })
}
