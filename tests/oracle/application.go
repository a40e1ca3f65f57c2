package oracle

import (
	"fmt"
	"maps"
	"slices"

	"berth/shared/cluster"
)

// applicationOfOwner returns the application that the owner's service names, or "".
func (w *World) applicationOfOwner(owner string) string {
	for _, s := range w.Services {
		if s.Short == owner {
			return s.Rules.Application
		}
	}
	return ""
}

// reservedMetrics returns the metrics of which the request's application has a reservation, sorted.
func (o *Oracle) reservedMetrics() (out []string) {
	metrics := o.Config.Applications[o.Request.Spec.Application].Metrics
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		if metrics[name].Reservation > 0 {
			out = append(out, name)
		}
	}
	return out
}

// An ApplicationUse is what the tasks of an application use, on one instance or on all.
type ApplicationUse struct {
	Tasks int              // that hold capacity
	Loads map[string]int64 // of these
	// Instances have tasks that count: that neither stop, nor are replaced, nor have to leave a
	// draining instance. Counted has the loads of those tasks.
	Instances map[string]bool
	Counted   map[string]int64
}

// UseOf adds up what the application's tasks use on the instance with the id, or on all for "".
func (o *Oracle) UseOf(application, on string) ApplicationUse {
	out := ApplicationUse{Loads: map[string]int64{}, Instances: map[string]bool{}, Counted: map[string]int64{}}
	for _, t := range o.Tasks {
		if o.applicationOfOwner(t.Owner) != application || !t.HoldsCapacity() || on != "" && t.Instance != on {
			continue
		}
		out.Tasks++
		i := o.FindInstance(t.Instance)
		counts := t.IsActive() && !o.IsReplaced(t) && (i == nil || i.Status != cluster.InstanceDraining)
		if counts {
			out.Instances[t.Instance] = true
		}
		for name, load := range o.Loads(t) {
			if out.Loads[name] += load; counts {
				out.Counted[name] += load
			}
		}
	}
	return out
}

// ReservedOn returns how much of the metric applications have reserved on the instance and do not
// use; with one more task of the request that has the load, if more is set.
func (o *Oracle) ReservedOn(i *cluster.Instance, metric string, load int64, more bool) (reserved int64) {
	for name, a := range o.Config.Applications {
		use, reservation := o.UseOf(name, i.ID), a.Metrics[metric].Reservation
		if unbuffered, _ := o.Limits(i, metric); use.Tasks > 0 {
			reservation = min(reservation, unbuffered) // it was raised, or nothing used it
		}
		if more && name == o.Request.Spec.Application {
			use.Tasks++
			use.Loads[metric] += load
		}
		if use.Tasks > 0 {
			reserved += max(0, reservation-use.Loads[metric])
		}
	}
	return reserved
}

// checkApplication refuses the instance if one more task would break a limit of its application.
func (o *Oracle) checkApplication(i *cluster.Instance, refuse func(is bool, f cluster.Filter, detail string)) {
	name := o.Request.Spec.Application
	a, limited := o.Config.Applications[name]
	if !limited {
		return
	}
	all, here := o.UseOf(name, ""), o.UseOf(name, i.ID)
	nodes := len(all.Instances)
	refuse(a.MaximumNodes > 0 && nodes >= a.MaximumNodes && !all.Instances[i.ID], cluster.FilterApplicationNodes,
		fmt.Sprintf("%s: %d of %d", name, nodes, a.MaximumNodes))
	node, total := "", ""
	for _, metric := range slices.Sorted(maps.Keys(a.Metrics)) {
		m, load := a.Metrics[metric], int64(0)
		for _, l := range o.Request.Spec.Loads {
			if l.Name == metric {
				load = l.Load
			}
		}
		if load > 0 && node == "" && m.NodeCapacity > 0 && here.Loads[metric]+load > m.NodeCapacity {
			node = name + ", " + metric
		}
		if load > 0 && total == "" && m.TotalCapacity > 0 && all.Counted[metric]+load > m.TotalCapacity {
			total = name + ", " + metric
		}
	}
	refuse(node != "", cluster.FilterApplicationNode, node)
	refuse(total != "", cluster.FilterApplicationTotal, total)
}

// FullMetric returns the metric without room for one more task, or "" and whether the task needs
// the buffer.
func (o *Oracle) FullMetric(i *cluster.Instance, l Remaining) (full string, buffered bool) {
	for _, m := range o.Request.Spec.Loads {
		if m.Load == 0 {
			continue
		}
		fits, over := o.fitsMetric(i, l, m.Name, m.Load)
		if !fits {
			return m.Name, false
		}
		buffered = buffered || over
	}
	for _, name := range o.reservedMetrics() {
		if slices.ContainsFunc(o.Request.Spec.Loads, func(m cluster.Metric) bool {
			return m.Name == name &&
				m.Load > 0
		}) {
			continue
		}
		fits, over := o.fitsMetric(i, l, name, 0)
		if !fits {
			return name, false
		}
		buffered = buffered || over
	}
	return "", buffered
}

// fitsMetric reports whether the instance has room for one more task with the load, and whether
// that is in the buffer.
func (o *Oracle) fitsMetric(i *cluster.Instance, l Remaining, metric string, load int64) (fits, buffered bool) {
	unbuffered, total := o.Limits(i, metric)
	before := o.ReservedOn(i, metric, 0, false)
	after := o.ReservedOn(i, metric, load, true)
	if !o.RuleBinds(o.Config.Priorities.Capacity) || load+after <= before {
		return true, false
	}
	over := l.Loads[metric]+load+after > unbuffered
	return l.Loads[metric]+load+after <= total && !(over && o.Request.Unbuffered), over
}
