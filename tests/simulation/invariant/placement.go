package invariant

import (
	"maps"

	"berth/shared/cluster"
	"berth/shared/state"
	"berth/tests/simulation/coverage"
)

// A newPlacement is a task that was just placed, with the spec of its owner.
type newPlacement struct {
	*cluster.Task
	spec     *TaskSpec
	instance *cluster.Instance
	// later are the task itself and those that the same commit placed after it.
	later map[string]bool
}

// checkSpec checks a new placement against what its owner asked for (invariants 1 and 5).
func (c *Checker) checkSpec(p *newPlacement) {
	if taint := p.spec.UntoleratedTaint(p.instance, NoSchedule, NoExecute); taint != "" {
		c.Fail("invariant 5: task %s of %q was placed on instance %s, whose taint %s it does not tolerate", p.Task.ID,
			p.Task.Service, p.instance.ID, taint)
	} else if p.instance.Attributes["berth.taints"] != "" {
		c.cover(coverage.Tolerated)
	}
	c.checkConstraints(p)
	if o := c.taskOfOwnerOn(p.spec, p.instance, RoomQuery{Without: p.later}); p.spec.isAlonePerInstance() && o != nil {
		c.Fail("invariant 5: task %s was placed on instance %s, where task %s of the same owner is, and an instance may have only one", p.Task.ID, p.instance.ID, o.ID)
	}
	c.checkDomains(p)
	c.checkMetrics(p)
	c.checkApplication(p)
	c.coverSpec(p)
}

// checkConstraints checks the constraint expressions. A task that ran on the instance until
// recently may have been counted.
func (c *Checker) checkConstraints(p *newPlacement) {
	priority := c.ConfigurationRow().Priorities.Placement
	now := c.EvaluationOf(p.instance, p.later)
	x := p.spec.UnmetConstraint(now)
	if x == "" || priority < 0 {
		return
	}
	before := now
	before.taskGroups = maps.Clone(now.taskGroups)
	for key, o := range c.tasksEverOn(p.instance.ID) {
		if c.now().Sub(c.Changes[key].inactiveAt) < MaxStaleness && !p.later[o.ID] {
			before.taskGroups[o.Group] = true
		}
	}
	if p.spec.UnmetConstraint(before) == "" {
		return
	}
	if priority > 0 {
		c.checkRelaxation(p, x)
		return
	}
	c.Fail("invariant 5: task %s of %q was placed on instance %s, where %q does not hold", p.Task.ID, p.Task.Service,
		p.instance.ID, x)
}

// tasksEverOn returns the tasks that are or were on an instance.
func (c *Checker) tasksEverOn(instance string) tasks {
	out := tasks{}
	for _, owned := range c.ByOwner {
		for key, o := range owned {
			if o.Instance == instance {
				out[key] = o
			}
		}
	}
	return out
}

// checkDomains checks the domain rule. It must hold in at least one state that the decision may
// have seen. For example, if two instances changed in the last three minutes and one task ended,
// there are eight such states: each instance as it is or was, the task counted or not.
func (c *Checker) checkDomains(p *newPlacement) {
	if p.spec.Policy == "" || p.spec.dependsOnOtherTasks() {
		return // eligible instances would change with every other task
	}
	priorities := c.ConfigurationRow().Priorities
	if priorities.Placement != 0 && p.spec.UnmetConstraint(c.EvaluationOf(p.instance, p.later)) != "" {
		return
	}
	past := c.recentPastOf(p.Task.Owner)
	var why string
	for n := range past.countViews() {
		if n > maxViews {
			return
		}
		if why = c.brokenDomainRule(p, past.nthView(n)); why == "" {
			return
		}
	}
	switch {
	case priorities.FaultDomain > 0 || priorities.UpgradeDomain > 0:
		c.checkRelaxation(p, why)
		return
	case p.Task.Replaces != "" && (c.hasViolation(p.later) || c.waitsForMetrics()), c.movingOwners[p.Task.Owner]:
		return // the first step of a swap that repairs a violation or makes room; the result is checked at rest
	}
	c.Fail("invariant 5: task %s of %q (%s, %d wanted) was placed on instance %s: %s", p.Task.ID, p.Task.Service,
		p.spec.Policy, p.spec.desired, p.instance.ID, why)
}

// brokenDomainRule says which domain rule the placement breaks in the view, or "". A replacement
// may leave a broken rule broken.
func (c *Checker) brokenDomainRule(p *newPlacement, v pastView) string {
	absent := maps.Clone(p.later)
	before := c.domainInstancesOf(p.spec, absent, v)
	absent[p.Task.Replaces] = true
	all := c.domainInstancesOf(p.spec, absent, v)
	after := c.domainInstancesOf(p.spec, nil, v)
	n := all.indexOf(p.instance.ID)
	if n < 0 {
		return "the instance is not in the cluster"
	}
	at := all[n]
	fault, upgrade := all.rulesOf(p.spec.Policy, p.spec.desired, c.ConfigurationRow())
	keeps := func(plan domainRule, d dimension) bool {
		return all.admitsTask(plan, d, at) || !after.breaksRule(plan, d) || p.Task.Replaces != "" &&
			before.breaksRule(plan, d)
	}
	switch {
	case !at.eligible:
		return "the instance is not eligible for the service"
	case !keeps(fault, byFaultDomain):
		return "its fault domain was full"
	case !keeps(upgrade, byUpgradeDomain):
		return "its upgrade domain was full"
	}
	return ""
}

// checkMetrics checks the loads of the instance with the task: never above the total capacity, and
// above the unbuffered capacity only for tasks that may use the buffer and found no other room
// (P14).
func (c *Checker) checkMetrics(p *newPlacement) {
	config := c.ConfigurationRow()
	without := maps.Clone(p.later)
	delete(without, p.Task.ID)
	used := c.usageOf(p.instance, RoomQuery{Without: without})
	for _, m := range p.spec.Rules.Metrics {
		unbuffered, total := metricLimits(config, p.instance, m.Name)
		n := used.metrics[m.Name]
		if m.Load == 0 || config.Priorities.Capacity < 0 {
			continue
		}
		c.cover(coverage.Metric)
		switch {
		case n > total && config.Priorities.Capacity > 0:
			c.checkRelaxation(p, m.Name)
		case n > total:
			c.Fail("invariant 1: with task %s of %q instance %s holds %d of %s, which is above %d", p.Task.ID,
				p.Task.Service, p.instance.ID, n, m.Name, total)
		case n > unbuffered:
			c.checkBufferUse(p, m.Name)
		}
	}
}

// checkBufferUse checks a task that uses the buffer of an instance. A new task may do so only if
// there is no room elsewhere, a replacement only to repair a violation or to make room for a task
// that waits for an instance.
func (c *Checker) checkBufferUse(p *newPlacement, metric string) {
	c.cover(coverage.Buffer)
	if p.Task.Replaces != "" {
		if !c.hasViolation(p.later) && !c.waitsForMetrics() {
			c.Fail("invariant 1: task %s of %q moved into the buffer of %s of instance %s, and there was no violation to repair", p.Task.ID, p.Task.Service, metric, p.instance.ID)
		}
		return
	}
	if p.Task.Batch == "" || p.spec.Daemon || c.isStartTask(p) {
		return
	}
	if i := c.findOverlooked(p.spec, RoomQuery{Without: p.later, Unbuffered: true}); i != nil {
		c.Fail("invariant 1: task %s of %q uses the buffer of %s of instance %s, and instance %s had room without",
			p.Task.ID, p.Task.Service, metric, p.instance.ID, i.ID)
	}
}

// isStartTask reports whether the caller chose the instance by StartTask.
func (c *Checker) isStartTask(p *newPlacement) bool {
	r, ok := c.Rows[state.RequestKey(p.Task.Cluster, p.Task.Request)].(*state.Request)
	return ok && r.Kind == cluster.StartTask
}

// checkRelaxation checks that a soft rule was relaxed only for a task that would have stayed
// unplaced.
func (c *Checker) checkRelaxation(p *newPlacement, rule string) {
	c.cover(coverage.Soft)
	if p.spec.Daemon || c.isStartTask(p) || p.Task.Replaces != "" {
		return
	}
	if i := c.findOverlooked(p.spec, RoomQuery{Without: p.later}); i != nil {
		c.Fail("invariant 5: task %s of %q was placed on instance %s against %s, and instance %s satisfies all rules",
			p.Task.ID, p.Task.Service, p.instance.ID, rule, i.ID)
	}
}

// countPairs counts the owner's tasks that run beside their replacements.
func (h *RowHistory) countPairs(owner string) (n int) {
	moving := h.ReplacedTasks(owner, nil)
	for _, t := range h.ByOwner[owner] {
		if moving[t.ID] && t.Last != cluster.TaskStopped && t.Desired == cluster.TaskRunning {
			n++
		}
	}
	return n
}

// CountPairsAsOne counts the service's pairs of a task and its replacement of which only one is
// wanted.
func (h *RowHistory) CountPairsAsOne(s *cluster.Service) int {
	active, pairs := h.countActive(s.Short), h.countPairs(s.Short)
	return pairs - min(pairs, max(0, s.Desired-(active-pairs)))
}

func (h *RowHistory) standaloneOwner() string {
	m, ok := h.Rows[state.Key{Cluster: h.cluster, Sort: state.PrefixMeta}].(*state.Meta)
	if !ok {
		return ""
	}
	return m.Short
}

// coverSpec covers the rules that were in force.
func (c *Checker) coverSpec(p *newPlacement) {
	if p.spec.Policy != "" {
		c.cover(coverage.Domain)
	}
	if p.spec.Rules.NodeConstraint != "" {
		c.cover(coverage.NodeConstraint)
	}
	if p.spec.dependsOnOtherTasks() {
		c.cover(coverage.Sociable)
	}
	if len(p.spec.constraints()) > 0 {
		c.cover(coverage.Constraint)
	}
	if len(p.spec.Rules.Strategies) > 1 {
		c.cover(coverage.Strategy)
	}
	if p.spec.Rules.Scoring != "" {
		c.cover(coverage.Scoring)
	}
	if p.Task.Replaces != "" {
		c.checkMove(p)
	}
}
