package simulation

import (
	"maps"

	"berth/shared/cluster"
	"berth/shared/state"
)

// newPlacement is a new placement, as the rules of its owner look at it.
type newPlacement struct {
	*cluster.Task
	spec     *taskSpec
	instance *cluster.Instance
	// later are the tasks that the same commit placed after it, and itself.
	later map[string]bool
}

// checkSpec checks a new placement against what its owner asked for: invariants 1 and 5.
func (c *checker) checkSpec(p *newPlacement) {
	c.checkConstraints(p)
	if o := c.taskOfOwnerOn(p.spec, p.instance, roomQuery{without: p.later}); p.spec.isAlonePerInstance() && o != nil {
		c.fail("invariant 5: task %s was placed on instance %s, where task %s of the same owner is, and may have none beside it", p.Task.ID, p.instance.ID, o.ID)
	}
	c.checkDomains(p)
	c.checkMetrics(p)
	c.coverSpec(p)
}

// checkConstraints checks the expressions. What ran there until lately may have been taken to run there.
func (c *checker) checkConstraints(p *newPlacement) {
	priority := c.configurationRow().Priorities.Placement
	now := c.evaluationOf(p.instance, p.later)
	x := p.spec.unmetConstraint(now)
	if x == "" || priority < 0 {
		return
	}
	before := now
	before.taskGroups = maps.Clone(now.taskGroups)
	for key, o := range c.tasksEverOn(p.instance.ID) {
		if c.now().Sub(c.changes[key].inactiveAt) < maxStaleness && !p.later[o.ID] {
			before.taskGroups[o.Group] = true
		}
	}
	if p.spec.unmetConstraint(before) == "" {
		return
	}
	if priority > 0 {
		c.checkRelaxation(p, x)
		return
	}
	c.fail("invariant 5: task %s of %q was placed on instance %s, where %q does not hold", p.Task.ID, p.Task.Service, p.instance.ID, x)
}

// tasksEverOn are the tasks that are or were on an instance.
func (c *checker) tasksEverOn(instance string) tasks {
	out := tasks{}
	for _, owned := range c.byOwner {
		for key, o := range owned {
			if o.Instance == instance {
				out[key] = o
			}
		}
	}
	return out
}

// checkDomains checks the domain rule in force, as whoever decided may have known it: some view in which the task keeps it.
func (c *checker) checkDomains(p *newPlacement) {
	if p.spec.policy == "" || p.spec.dependsOnOtherTasks() {
		return // of sociable tasks the domains change with all that runs
	}
	priorities := c.configurationRow().Priorities
	if priorities.Placement != 0 && p.spec.unmetConstraint(c.evaluationOf(p.instance, p.later)) != "" {
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
	case p.Task.Replaces != "" && c.hasViolation(p.later), c.movingOwners[p.Task.Owner]:
		return // the first step of an exchange that mends something else; what it leaves behind shows at rest
	}
	c.fail("invariant 5: task %s of %q (%s, %d wanted) was placed on instance %s: %s", p.Task.ID, p.Task.Service, p.spec.policy, p.spec.desired, p.instance.ID, why)
}

// brokenDomainRule says which domain rule the placement breaks in the view. A task that takes another's place may leave a
// broken rule broken.
func (c *checker) brokenDomainRule(p *newPlacement, v pastView) string {
	absent := maps.Clone(p.later)
	before := c.domainInstancesOf(p.spec, absent, v)
	absent[p.Task.Replaces] = true
	all := c.domainInstancesOf(p.spec, absent, v)
	after := c.domainInstancesOf(p.spec, nil, v)
	n := all.indexOf(p.instance.ID)
	if n < 0 {
		return "not in the cluster"
	}
	at := all[n]
	fault, upgrade := all.rulesOf(p.spec.policy, p.spec.desired, c.configurationRow())
	keeps := func(plan domainRule, d dimension) bool {
		return all.admitsTask(plan, d, at) || !after.breaksRule(plan, d) || p.Task.Replaces != "" && before.breaksRule(plan, d)
	}
	switch {
	case !at.eligible:
		return "not one of those that its domains are made of"
	case !keeps(fault, byFaultDomain):
		return "its fault domain was full"
	case !keeps(upgrade, byUpgradeDomain):
		return "its upgrade domain was full"
	}
	return ""
}

// checkMetrics checks what loads the instance holds with the task: never more than it takes with its buffer, and not more than
// without where the task may not use that, or could have gone elsewhere (P14).
func (c *checker) checkMetrics(p *newPlacement) {
	config := c.configurationRow()
	without := maps.Clone(p.later)
	delete(without, p.Task.ID)
	used := c.usageOf(p.instance, roomQuery{without: without})
	for _, m := range p.spec.rules.Metrics {
		unbuffered, total := metricLimits(config, p.instance, m.Name)
		n := used.metrics[m.Name]
		if m.Load == 0 || config.Priorities.Capacity < 0 {
			continue
		}
		c.cover(CoverMetric)
		switch {
		case n > total && config.Priorities.Capacity > 0:
			c.checkRelaxation(p, m.Name)
		case n > total:
			c.fail("invariant 1: with task %s of %q instance %s holds %d of %s, which is above %d", p.Task.ID, p.Task.Service, p.instance.ID, n, m.Name, total)
		case n > unbuffered:
			c.checkBufferUse(p, m.Name)
		}
	}
}

// checkBufferUse checks a task that went into the buffer of an instance: a new one goes there only where there is no room without,
// one that takes another's place only to mend something.
func (c *checker) checkBufferUse(p *newPlacement, metric string) {
	c.cover(CoverBuffer)
	if p.Task.Replaces != "" {
		if !c.hasViolation(p.later) {
			c.fail("invariant 1: task %s of %q moved into the buffer of %s of instance %s, and nothing had to be mended", p.Task.ID, p.Task.Service, metric, p.instance.ID)
		}
		return
	}
	if p.Task.Batch == "" || p.spec.daemon || c.isStartTask(p) {
		return
	}
	if i := c.findOverlooked(p.spec, roomQuery{without: p.later, unbuffered: true}); i != nil {
		c.fail("invariant 1: task %s of %q uses the buffer of %s of instance %s, and instance %s had room without", p.Task.ID, p.Task.Service, metric, p.instance.ID, i.ID)
	}
}

// isStartTask reports that the caller of StartTask named the instance.
func (c *checker) isStartTask(p *newPlacement) bool {
	r, ok := c.rows[state.RequestKey(p.Task.Cluster, p.Task.Request)].(*state.Request)
	return ok && r.Kind == cluster.StartTask
}

// checkRelaxation checks that a soft rule was given up only for what would otherwise have stayed unplaced.
func (c *checker) checkRelaxation(p *newPlacement, rule string) {
	c.cover(CoverSoft)
	if p.spec.daemon || c.isStartTask(p) || p.Task.Replaces != "" {
		return
	}
	if i := c.findOverlooked(p.spec, roomQuery{without: p.later}); i != nil {
		c.fail("invariant 5: task %s of %q was placed on instance %s against %s, and instance %s keeps all rules", p.Task.ID, p.Task.Service, p.instance.ID, rule, i.ID)
	}
}

// countPairs are how many of an owner's tasks are there twice, as they are being replaced.
func (h *rowHistory) countPairs(owner string) (n int) {
	moving := h.replacedTasks(owner, nil)
	for _, t := range h.byOwner[owner] {
		if moving[t.ID] && t.Last != cluster.TaskStopped && t.Desired == cluster.TaskRunning {
			n++
		}
	}
	return n
}

// countPairsAsOne are the service's pairs that count as one: not those of which two tasks are wanted.
func (h *rowHistory) countPairsAsOne(s *cluster.Service) int {
	active, pairs := 0, h.countPairs(s.Short)
	for _, t := range h.byOwner[s.Short] {
		if t.IsActive() {
			active++
		}
	}
	return pairs - min(pairs, max(0, s.Desired-(active-pairs)))
}

func (h *rowHistory) standaloneOwner() string {
	m, ok := h.rows[state.Key{Cluster: clusterName, Sort: state.PrefixMeta}].(*state.Meta)
	if !ok {
		return ""
	}
	return m.Short
}

// coverSpec marks the rules that were in force.
func (c *checker) coverSpec(p *newPlacement) {
	if p.spec.policy != "" {
		c.cover(CoverDomain)
	}
	if p.spec.rules.NodeConstraint != "" {
		c.cover(CoverNodeConstraint)
	}
	if p.spec.dependsOnOtherTasks() {
		c.cover(CoverSociable)
	}
	if len(p.spec.constraints()) > 0 {
		c.cover(CoverConstraint)
	}
	if len(p.spec.rules.Strategies) > 1 {
		c.cover(CoverStrategy)
	}
	if p.spec.rules.Scoring != "" {
		c.cover(CoverScoring)
	}
	if p.Task.Replaces != "" {
		c.checkMove(p)
	}
}
