package invariant

import (
	"fmt"
	"maps"
	"slices"

	"berth/shared/cluster"
	"berth/tests/simulation/coverage"
)

// Applications whose services share limits (P20).

// limitsOf returns the limits of the spec's application, and whether it has any.
func (h *RowHistory) limitsOf(spec *TaskSpec) (cluster.Application, bool) {
	a, limited := h.ConfigurationRow().Applications[spec.Rules.Application]
	return a, limited && spec.Rules.Application != ""
}

// IsLimited reports whether the limits of an application bind the spec's tasks.
func (h *RowHistory) IsLimited(spec *TaskSpec) bool {
	_, limited := h.limitsOf(spec)
	return limited
}

// belongsTo reports whether the task is of one of the application's services.
func (h *RowHistory) belongsTo(application string, t *cluster.Task) bool {
	s := h.ServiceOf(t)
	return s != nil && s.Rules.Application == application
}

// An applicationUse is what the tasks that count for an application use: those that neither stop, nor
// have a replacement, nor are on a draining instance.
type applicationUse struct {
	instances map[string]bool
	// left are the instances on which a task has just been stopped: services are decided one after the
	// other, so others of the application were placed while it was there.
	left  map[string]bool
	loads map[string]int64
}

// useOfApplication adds up what counts for the application.
func (h *RowHistory) useOfApplication(application string, without map[string]bool) applicationUse {
	out := applicationUse{instances: map[string]bool{}, left: map[string]bool{}, loads: map[string]int64{}}
	for _, s := range h.ActiveReplicaServices() {
		if s.Rules.Application != application {
			continue
		}
		replaced := h.ReplacedTasks(s.Short, without)
		for key, t := range h.ByOwner[s.Short] {
			i := h.InstanceRows[t.Instance]
			if c := h.Changes[key]; !t.IsActive() && c.At.Equal(h.now()) {
				if before, ok := c.before.(*cluster.Task); ok && before != nil && before.IsActive() {
					out.left[t.Instance] = true
				}
			}
			if !t.IsActive() || t.Instance == "" || without[t.ID] || replaced[t.ID] || i == nil ||
				i.Status == cluster.InstanceDraining {
				continue
			}
			out.instances[t.Instance] = true
			h.addLoads(out.loads, t)
		}
	}
	return out
}

// loadOf returns how much of a metric a task of the spec starts with.
func (spec *TaskSpec) loadOf(metric string) int64 {
	for _, m := range spec.Rules.Metrics {
		if m.Name == metric {
			return m.Load
		}
	}
	return 0
}

// applicationRefuses says which limit of the application one more task of the spec would exceed on
// the instance, or "".
func (h *RowHistory) applicationRefuses(spec *TaskSpec, i *cluster.Instance, q RoomQuery) string {
	a, limited := h.limitsOf(spec)
	if !limited {
		return ""
	}
	all := h.useOfApplication(spec.Rules.Application, q.Without)
	if a.MaximumNodes > 0 && !all.instances[i.ID] && !all.left[i.ID] && len(all.instances) >= a.MaximumNodes {
		return fmt.Sprintf("application %s is on %d instances of %d", spec.Rules.Application, len(all.instances),
			a.MaximumNodes)
	}
	here := map[string]int64{}
	for _, t := range h.tasksHolding(i, q) {
		if h.belongsTo(spec.Rules.Application, t) {
			h.addLoads(here, t)
		}
	}
	for metric, m := range a.Metrics {
		switch load := spec.loadOf(metric); {
		case load == 0:
		case m.NodeCapacity > 0 && here[metric]+load > m.NodeCapacity:
			return fmt.Sprintf("application %s has %d of %s there, and %d more of %d", spec.Rules.Application,
				here[metric], metric, load, m.NodeCapacity)
		case m.TotalCapacity > 0 && all.loads[metric]+load > m.TotalCapacity:
			return fmt.Sprintf("application %s has %d of %s in all, and %d more of %d", spec.Rules.Application,
				all.loads[metric], metric, load, m.TotalCapacity)
		}
	}
	return ""
}

// reservedOn returns how much of the metric applications have reserved on the instance and do not
// use. joins, if not nil, has one more task there.
func (h *RowHistory) reservedOn(i *cluster.Instance, metric string, q RoomQuery, joins *TaskSpec) (reserved int64) {
	unbuffered, _ := metricLimits(h.ConfigurationRow(), i, metric)
	for name, a := range h.ConfigurationRow().Applications {
		used, tasks := map[string]int64{}, 0
		for _, t := range h.tasksHolding(i, q) {
			if h.belongsTo(name, t) {
				tasks++
				h.addLoads(used, t)
			}
		}
		reservation := a.Metrics[metric].Reservation
		if tasks > 0 { // it may have been raised
			reservation = min(reservation, unbuffered)
		}
		if joins != nil && joins.Rules.Application == name {
			tasks++
			used[metric] += joins.loadOf(metric)
		}
		if tasks > 0 {
			reserved += max(0, reservation-used[metric])
		}
	}
	return reserved
}

// checkApplication checks a new task against the limits of its application, and its room against what
// applications have reserved. What ended or drained recently may have been counted otherwise.
func (c *Checker) checkApplication(p *newPlacement) {
	if len(c.ConfigurationRow().Applications) == 0 || !c.isCertain() {
		return
	}
	without := RoomQuery{Without: p.later}
	if c.IsLimited(p.spec) {
		c.cover(coverage.Limited)
	}
	if why := c.applicationRefuses(p.spec, p.instance, without); why != "" && p.Task.Replaces == "" {
		c.Fail("invariant 5: task %s of %q was placed on instance %s: %s", p.Task.ID, p.Task.Service, p.instance.ID, why)
	}
	if c.checkApplicationOfMove(p, without); c.ConfigurationRow().Priorities.Capacity != 0 {
		return
	}
	used := c.usageOf(p.instance, without)
	for _, metric := range MetricNames {
		_, total := metricLimits(c.ConfigurationRow(), p.instance, metric)
		before, after := c.reservedOn(p.instance, metric, without, nil), c.reservedOn(p.instance, metric, without, p.spec)
		load := p.spec.loadOf(metric)
		if n := used.metrics[metric] + load + after; load+after > before && n > total {
			c.Fail("invariant 5: with task %s of %q instance %s holds %d of %s and has %d reserved for applications, of %d",
				p.Task.ID, p.Task.Service, p.instance.ID, used.metrics[metric]+load, metric, after, total)
		}
	}
}

// checkApplicationOfMove checks a task that replaces another one against the limits of its application
// per instance: while both run, their load counts twice. It may take the application to as many
// instances as before, if these were too many.
func (c *Checker) checkApplicationOfMove(p *newPlacement, q RoomQuery) {
	a, limited := c.limitsOf(p.spec)
	if !limited || p.Task.Replaces == "" {
		return
	}
	application := p.spec.Rules.Application
	here := map[string]int64{}
	for _, t := range c.tasksHolding(p.instance, q) {
		if c.belongsTo(application, t) {
			c.addLoads(here, t)
		}
	}
	for metric, m := range a.Metrics {
		if load := p.spec.loadOf(metric); load > 0 && m.NodeCapacity > 0 && here[metric]+load > m.NodeCapacity {
			c.Fail("invariant 5: task %s of %q moves to instance %s, where application %s has %d of %s, and %d more of %d",
				p.Task.Replaces, p.Task.Service, p.instance.ID, application, here[metric], metric, load, m.NodeCapacity)
		}
	}
	before := len(c.useOfApplication(application, p.later).instances)
	moved := maps.Clone(p.later)
	if moved == nil {
		moved = map[string]bool{}
	}
	moved[p.Task.Replaces] = true
	after := c.useOfApplication(application, moved).instances
	after[p.instance.ID] = true
	if a.MaximumNodes > 0 && len(after) > max(a.MaximumNodes, before) {
		c.Fail("invariant 5: with the move of task %s of %q, application %s is on %d instances of %d", p.Task.Replaces,
			p.Task.Service, application, len(after), a.MaximumNodes)
	}
}

// exceededApplication describes a limit of an application that its tasks exceed where they are, or returns
// "".
func (h *RowHistory) exceededApplication(without map[string]bool) string {
	applications := h.ConfigurationRow().Applications
	for _, name := range slices.Sorted(maps.Keys(applications)) {
		most := applications[name].MaximumNodes
		if n := len(h.useOfApplication(name, without).instances); most > 0 && n > most {
			return fmt.Sprintf("application %s is on %d instances of %d", name, n, most)
		}
		for _, i := range h.sortedInstances() {
			if why := h.ExceededByApplication(name, i, without); why != "" {
				return why
			}
		}
	}
	return ""
}

// ExceededByApplication describes a metric of which the application's tasks use more on the instance than
// they may, or returns "".
func (h *RowHistory) ExceededByApplication(name string, i *cluster.Instance, without map[string]bool) string {
	here := map[string]int64{}
	for _, t := range h.tasksHolding(i, RoomQuery{Without: without}) {
		if h.belongsTo(name, t) {
			h.addLoads(here, t)
		}
	}
	metrics := h.ConfigurationRow().Applications[name].Metrics
	for _, metric := range slices.Sorted(maps.Keys(metrics)) {
		if most := metrics[metric].NodeCapacity; most > 0 && here[metric] > most {
			return fmt.Sprintf("application %s has %d of %s on instance %s, which is above %d", name, here[metric],
				metric, i.ID, most)
		}
	}
	return ""
}

// IsScattered reports whether the application of the spec is on more instances than it may be, and on
// fewer without the task.
func (h *RowHistory) IsScattered(spec *TaskSpec, t *cluster.Task) bool {
	a, limited := h.limitsOf(spec)
	n := len(h.useOfApplication(spec.Rules.Application, nil).instances)
	return limited && a.MaximumNodes > 0 && n > a.MaximumNodes &&
		len(h.useOfApplication(spec.Rules.Application, map[string]bool{t.ID: true}).instances) < n
}

// TakesReservation reports whether the instance takes all that the spec's application reserves on each of
// its instances. Where it takes less, because a reservation was raised, no task moves.
func (h *RowHistory) TakesReservation(spec *TaskSpec, i *cluster.Instance) bool {
	a, _ := h.limitsOf(spec)
	for name, m := range a.Metrics {
		if unbuffered, _ := metricLimits(h.ConfigurationRow(), i, name); m.Reservation > unbuffered && h.ConfigurationRow().Priorities.Capacity >= 0 {
			return false
		}
	}
	return true
}
