package invariant

import (
	"cmp"
	"fmt"
	"slices"

	"berth/shared/cluster"
	"berth/shared/state"
	"berth/tests/simulation/coverage"
)

// Tasks move that violate a rule where they are (P8, P10).

// checkMove checks that a task was replaced elsewhere for a reason, and covers that reason.
func (c *Checker) checkMove(p *newPlacement) {
	c.cover(coverage.Moved)
	old := c.taskOf(p.Task.Owner, p.Task.Replaces)
	if old == nil || old.Owner != p.Task.Owner || old.Instance == p.Task.Instance {
		c.Fail("task %s replaces %s, which is not a task of the same service on another instance", p.Task.ID,
			p.Task.Replaces)
		return
	}
	if p.Task.Balances {
		c.checkBalanceMove(p)
		return
	}
	if from := c.InstanceRows[old.Instance]; from != nil {
		if len(p.spec.Providers) > 0 && !slices.Contains(p.spec.Providers, from.CapacityProvider()) {
			return // the strategy has changed
		}
		if c.ViolatesNodeRules(p.spec, from) {
			c.cover(coverage.Misfit)
		}
		if c.ExceededMetric(from, p.later) != "" {
			c.cover(coverage.Relieved)
		}
	}
	if c.BreaksDomainRule(p.spec, p.later) {
		c.cover(coverage.Mended)
	}
	if c.improvesZones(p, old) {
		c.cover(coverage.Rebalanced)
		return
	}
	if isEndUnknown := !old.IsActive() && !c.isSettled(state.KeyOf(old)); !isEndUnknown && !c.hasViolation(p.later) &&
		!c.waitsForMetrics() {
		c.Fail("task %s of %q was moved from instance %s to %s, and there was no violation to repair", p.Task.Replaces,
			p.Task.Service, old.Instance, p.Task.Instance)
	}
}

// checkBalanceMove checks a move that balances the cluster (P15): balancing is on, and the limits of
// moves at once and in a window hold with it. The rules of placement are checked as for any task.
func (c *Checker) checkBalanceMove(p *newPlacement) {
	c.cover(coverage.BalanceMoved)
	settings := c.ConfigurationRow().Rebalancing
	if settings == nil || !settings.Enabled {
		c.Fail("invariant 5: task %s of %q was moved to balance the cluster, and balancing is off", p.Task.Replaces,
			p.Task.Service)
		return
	}
	window, inWindow, atOnce, ofService := settings.WindowTime(), 0, 0, 0
	for _, owned := range c.ByOwner {
		for _, t := range owned {
			if t.Balances && p.Task.CreatedAt.Time().Sub(t.CreatedAt.Time()) < window {
				inWindow++
			}
			if old := c.taskOf(t.Owner, t.Replaces); t.IsActive() && old != nil && !old.HasEnded() {
				atOnce++
				if t.Owner == p.Task.Owner {
					ofService++
				}
			}
		}
	}
	desired := 0
	if s := c.ServiceOf(p.Task); s != nil {
		desired = s.Desired
	}
	all, _ := settings.WindowLimits()
	for _, x := range []struct {
		what        string
		count, most int
	}{
		{"began in the window", inWindow, all}, {"are in progress", atOnce, settings.MostAtOnce()},
		{"of its service are in progress", ofService, settings.MostOfService(desired)},
	} {
		if x.count > x.most {
			c.Fail("invariant 5: with the move of task %s of %q, %d moves %s, at most %d are allowed", p.Task.Replaces,
				p.Task.Service, x.count, x.what, x.most)
		}
	}
}

// improvesZones reports whether the replacement balances the zones of its service (S13): the old
// zone had at least two tasks more. What changed recently may have looked so.
func (c *Checker) improvesZones(p *newPlacement, old *cluster.Task) bool {
	s, from := c.ServiceOf(p.Task), c.InstanceRows[old.Instance]
	if s == nil || from == nil || !BalancesZones(s, p.spec) || from.Zone() == p.instance.Zone() {
		return false
	}
	count, moving := map[string]int{}, c.ReplacedTasks(p.Task.Owner, p.later)
	for key, t := range c.ByOwner[p.Task.Owner] {
		i := c.InstanceRows[t.Instance]
		switch {
		case p.later[t.ID] || moving[t.ID] || i == nil:
		case !c.isSettled(key):
			return true
		case t.IsActive():
			count[i.Zone()]++
		}
	}
	return count[from.Zone()]-count[p.instance.Zone()] > 1
}

func (h *RowHistory) taskOf(owner, id string) *cluster.Task {
	for _, t := range h.ByOwner[owner] {
		if t.ID == id {
			return t
		}
	}
	return nil
}

// hasViolation reports whether a rule is violated now, was before the commit, or was until a task ended
// whose end the decision may not have known.
func (c *Checker) hasViolation(later map[string]bool) bool {
	return c.hadViolation || c.findViolation(later) != "" || c.findViolationWithEnded(later) != ""
}

// findViolationWithEnded is findViolation with the tasks that ended recently still on their instances.
func (h *RowHistory) findViolationWithEnded(without map[string]bool) string {
	for _, owned := range h.ByOwner {
		for key, t := range owned {
			if on := h.ByInstance[t.Instance]; on != nil && t.Last == cluster.TaskStopped && !h.isSettled(key) {
				on[key] = t
				defer delete(on, key)
			}
		}
	}
	return h.findViolation(without)
}

// findViolation describes a rule that some task violates where it is, or returns "".
func (h *RowHistory) findViolation(without map[string]bool) string {
	for _, i := range h.sortedInstances() {
		if why := cmp.Or(h.ExceededMetric(i, without), h.ExceededResource(i, without),
			h.exceededReservation(i, without)); why != "" {
			return why
		}
	}
	if why := h.exceededApplication(without); why != "" {
		return why
	}
	for _, s := range h.ActiveReplicaServices() {
		spec := h.SpecOfService(s)
		if spec == nil {
			continue
		}
		if h.BreaksDomainRule(spec, without) {
			return fmt.Sprintf("the domains of service %s", s.Name)
		}
		if i := h.instanceWithSeveral(spec, without); i != "" {
			return fmt.Sprintf("service %s has several tasks on instance %s", s.Name, i)
		}
		for _, i := range h.sortedInstances() {
			if (h.ViolatesNodeRules(spec, i) || spec.UnmetConstraint(h.EvaluationOf(i, nil)) != "") &&
				h.taskOfOwnerOn(spec, i, RoomQuery{Without: without}) != nil {
				return fmt.Sprintf("instance %s does not suit service %s", i.ID, s.Name)
			}
		}
	}
	return ""
}

// ActiveReplicaServices returns the ACTIVE REPLICA services sorted by name.
func (h *RowHistory) ActiveReplicaServices() (out []*cluster.Service) {
	for _, row := range h.Rows {
		if s, ok := row.(*cluster.Service); ok && s.Status == cluster.ServiceActive && s.Strategy == cluster.Replica {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *cluster.Service) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// instanceWithSeveral returns an instance with several tasks of a service that may have only one
// there.
func (h *RowHistory) instanceWithSeveral(spec *TaskSpec, without map[string]bool) string {
	seen := map[string]bool{}
	for _, t := range h.ByOwner[spec.owner] {
		if !spec.isAlonePerInstance() || !t.IsActive() || t.Instance == "" || without[t.ID] {
			continue
		}
		if seen[t.Instance] {
			return t.Instance
		}
		seen[t.Instance] = true
	}
	return ""
}

// ExceededMetric describes a metric of which the instance holds more than its unbuffered capacity,
// or returns "".
func (h *RowHistory) ExceededMetric(i *cluster.Instance, without map[string]bool) string {
	used := h.usageOf(i, RoomQuery{Without: without})
	for _, name := range MetricNames {
		if unbuffered, _ := metricLimits(h.ConfigurationRow(), i, name); used.metrics[name] > unbuffered {
			return fmt.Sprintf("instance %s has %d of %s, which is above %d", i.ID, used.metrics[name], name,
				unbuffered)
		}
	}
	return ""
}

// exceededReservation describes a metric of which the instance holds more than applications have left
// of it, or returns "".
func (h *RowHistory) exceededReservation(i *cluster.Instance, without map[string]bool) string {
	q := RoomQuery{Without: without}
	used := h.usageOf(i, q)
	for _, name := range MetricNames {
		unbuffered, _ := metricLimits(h.ConfigurationRow(), i, name)
		if reserved := h.reservedOn(i, name, q, nil); used.metrics[name]+reserved > unbuffered {
			return fmt.Sprintf("instance %s has %d of %s and %d reserved, which is above %d", i.ID, used.metrics[name],
				name, reserved, unbuffered)
		}
	}
	return ""
}

// ExceededResource describes a resource of which the instance holds more than it has, because it was
// resized or ECS runs tasks of others there, or returns "". Unlike capacities of metrics it always
// binds.
func (h *RowHistory) ExceededResource(i *cluster.Instance, without map[string]bool) string {
	used, has := h.usageOf(i, RoomQuery{Without: without}), i.Registered
	switch {
	case used.cpu > has.CPU:
		return fmt.Sprintf("instance %s holds %d/%d CPU", i.ID, used.cpu, has.CPU)
	case used.memory > has.Memory:
		return fmt.Sprintf("instance %s holds %d/%d MiB", i.ID, used.memory, has.Memory)
	case has.ENIs != nil && used.enis > *has.ENIs:
		return fmt.Sprintf("instance %s has %d network interfaces of %d", i.ID, used.enis, *has.ENIs)
	}
	return ""
}

var MetricNames = []string{"conns", "io"}

// ViolatesNodeRules reports whether the instance does not satisfy the node constraint, or lacks an
// attribute that the task definition requires.
func (h *RowHistory) ViolatesNodeRules(spec *TaskSpec, i *cluster.Instance) bool {
	x := spec.Rules.NodeConstraint
	return x != "" && !NodeExpressions[x].holds(h.EvaluationOf(i, nil)) || MissingAttribute(i, spec.Def) != ""
}

// BreaksDomainRule reports whether the service's tasks break its domain rule where they are.
func (h *RowHistory) BreaksDomainRule(spec *TaskSpec, without map[string]bool) bool {
	if spec.Policy == "" {
		return false
	}
	all := h.repairedInstancesOf(spec, without)
	fault, upgrade := all.rulesOf(spec.Policy, spec.desired, h.ConfigurationRow())
	return all.breaksRule(fault, byFaultDomain) || all.breaksRule(upgrade, byUpgradeDomain)
}

// repairedInstancesOf returns the instances as moves see their domains: those that only the owner's own
// tasks close to more of them stay eligible.
func (h *RowHistory) repairedInstancesOf(spec *TaskSpec, without map[string]bool) domainInstances {
	all := h.domainInstancesOf(spec, without, pastView{})
	own := map[string]bool{}
	for _, t := range h.ByOwner[spec.owner] {
		own[t.ID] = true
	}
	for n := range all {
		all[n].eligible = all[n].eligible || all[n].acceptsTasks && h.suits(spec, h.InstanceRows[all[n].id], own)
	}
	return all
}

// waitsForMetrics reports whether some service's tasks find no room for their loads. Others may
// have to move for them.
func (h *RowHistory) waitsForMetrics() bool {
	return slices.ContainsFunc(h.ActiveReplicaServices(), func(s *cluster.Service) bool {
		return s.Blocked != nil && slices.ContainsFunc(s.Blocked.Rejected,
			func(r cluster.Rejection) bool { return r.Filter == cluster.FilterMetric })
	})
}

// MayMove reports whether the service's percentages allow a task to start elsewhere before it
// stops. During a deployment, older tasks are replaced anyway; a failed deployment starts no tasks;
// tasks of task sets do not move.
func (h *RowHistory) MayMove(s *cluster.Service) bool {
	if len(s.Older) > 0 || s.Deployment.State == cluster.RolloutFailed || s.Controller == cluster.ExternalController {
		return false
	}
	active := h.countActive(s.Short)
	return active == s.Desired && s.Desired*s.MaxPercent/100 > active
}

// WouldBreakDomainRule reports whether one more task on the instance would break a domain rule.
func (h *RowHistory) WouldBreakDomainRule(spec *TaskSpec, without map[string]bool, instance string) bool {
	all := h.repairedInstancesOf(spec, without)
	all.addTask(instance)
	fault, upgrade := all.rulesOf(spec.Policy, spec.desired, h.ConfigurationRow())
	return all.breaksRule(fault, byFaultDomain) || all.breaksRule(upgrade, byUpgradeDomain)
}
