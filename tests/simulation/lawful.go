package simulation

import (
	"maps"

	"berth/shared/cluster"
	"berth/shared/state"
)

// placing is a new placement, as the rules of its owner look at it.
type placing struct {
	*cluster.Task
	law *law
	on  *cluster.Instance
	// later are the tasks that the same commit placed after it, and itself.
	later map[string]bool
}

// lawful checks a new placement against what its owner asked for: invariants 1 and 5.
func (c *checker) lawful(p *placing) {
	c.constraints(p)
	if o := c.companion(p.law, p.on, posture{without: p.later}); p.law.alone() && o != nil {
		c.fail("invariant 5: task %s was placed on instance %s, where task %s of the same owner is, and may have none beside it", p.Task.ID, p.on.ID, o.ID)
	}
	c.domains(p)
	c.metrics(p)
	c.followed(p)
}

// constraints checks the expressions. What ran there until lately may have been taken to run there.
func (c *checker) constraints(p *placing) {
	priority := c.configuration().Priorities.Placement
	now := c.scene(p.on, p.later)
	x := p.law.unmet(now)
	if x == "" || priority < 0 {
		return
	}
	before := now
	before.groups = maps.Clone(now.groups)
	for key, o := range c.lately(p.on.ID) {
		if c.now().Sub(c.old[key].leftAt) < lately && !p.later[o.ID] {
			before.groups[o.Group] = true
		}
	}
	if p.law.unmet(before) == "" {
		return
	}
	if priority > 0 {
		c.givenUp(p, x)
		return
	}
	c.fail("invariant 5: task %s of %q was placed on instance %s, where %q does not hold", p.Task.ID, p.Task.Service, p.on.ID, x)
}

// lately are the tasks that are or were on an instance.
func (c *checker) lately(instance string) tasks {
	out := tasks{}
	for _, owned := range c.owned {
		for key, o := range owned {
			if o.Instance == instance {
				out[key] = o
			}
		}
	}
	return out
}

// domains checks the domain rule in force, as whoever decided may have known it: some view in which the task keeps it.
func (c *checker) domains(p *placing) {
	if p.law.policy == "" || p.law.sociable() {
		return // of sociable tasks the domains change with all that runs
	}
	priorities := c.configuration().Priorities
	if priorities.Placement != 0 && p.law.unmet(c.scene(p.on, p.later)) != "" {
		return
	}
	past := c.recent(p.Task.Owner)
	var why string
	for n := range past.ways() {
		if n > maxWays {
			return
		}
		if why = c.domainsBroken(p, past.view(n)); why == "" {
			return
		}
	}
	switch {
	case priorities.FaultDomain > 0 || priorities.UpgradeDomain > 0:
		c.givenUp(p, why)
		return
	case p.Task.Replaces != "" && c.astray(p.later), c.moversOff[p.Task.Owner]:
		return // the first step of an exchange that mends something else; what it leaves behind shows at rest
	}
	c.fail("invariant 5: task %s of %q (%s, %d wanted) was placed on instance %s: %s", p.Task.ID, p.Task.Service, p.law.policy, p.law.target, p.on.ID, why)
}

// domainsBroken says which domain rule the placement breaks in the view. A task that takes another's place may leave a
// broken rule broken.
func (c *checker) domainsBroken(p *placing, v view) string {
	absent := maps.Clone(p.later)
	before := c.sites(p.law, absent, v)
	absent[p.Task.Replaces] = true
	all := c.sites(p.law, absent, v)
	after := c.sites(p.law, nil, v)
	n := all.at(p.on.ID)
	if n < 0 {
		return "not in the cluster"
	}
	at := all[n]
	fault, upgrade := all.plans(p.law.policy, p.law.target, c.configuration())
	keeps := func(plan plan, d dimension) bool {
		return all.admits(plan, d, at) || !after.broken(plan, d) || p.Task.Replaces != "" && before.broken(plan, d)
	}
	switch {
	case !at.eligible:
		return "not one of those that its domains are made of"
	case !keeps(fault, faults):
		return "its fault domain was full"
	case !keeps(upgrade, upgrades):
		return "its upgrade domain was full"
	}
	return ""
}

// metrics checks what loads the instance holds with the task: never more than it takes with its buffer, and not more than
// without where the task may not use that, or could have gone elsewhere (P14).
func (c *checker) metrics(p *placing) {
	config := c.configuration()
	without := maps.Clone(p.later)
	delete(without, p.Task.ID)
	h := c.load(p.on, posture{without: without})
	for _, m := range p.law.rules.Metrics {
		unbuffered, total := limits(config, p.on, m.Name)
		n := h.metrics[m.Name]
		if m.Load == 0 || config.Priorities.Capacity < 0 {
			continue
		}
		c.mark(MarkMetric)
		switch {
		case n > total && config.Priorities.Capacity > 0:
			c.givenUp(p, m.Name)
		case n > total:
			c.fail("invariant 1: with task %s of %q instance %s holds %d of %s, which is above %d", p.Task.ID, p.Task.Service, p.on.ID, n, m.Name, total)
		case n > unbuffered:
			c.buffer(p, m.Name)
		}
	}
}

// buffer checks a task that went into the buffer of an instance: a new one goes there only where there is no room without,
// one that takes another's place only to mend something.
func (c *checker) buffer(p *placing, metric string) {
	c.mark(MarkBuffer)
	if p.Task.Replaces != "" {
		if !c.astray(p.later) {
			c.fail("invariant 1: task %s of %q moved into the buffer of %s of instance %s, and nothing had to be mended", p.Task.ID, p.Task.Service, metric, p.on.ID)
		}
		return
	}
	if p.Task.Batch == "" || p.law.daemon || c.named(p) {
		return
	}
	if i := c.overlooked(p.law, posture{without: p.later, unbuffered: true}); i != nil {
		c.fail("invariant 1: task %s of %q uses the buffer of %s of instance %s, and instance %s had room without", p.Task.ID, p.Task.Service, metric, p.on.ID, i.ID)
	}
}

// named reports that the caller of StartTask named the instance.
func (c *checker) named(p *placing) bool {
	r, ok := c.rows[state.RequestKey(p.Task.Cluster, p.Task.Request)].(*state.Request)
	return ok && r.Kind == cluster.StartTask
}

// givenUp checks that a soft rule was given up only for what would otherwise have stayed unplaced.
func (c *checker) givenUp(p *placing, rule string) {
	c.mark(MarkSoft)
	if p.law.daemon || c.named(p) || p.Task.Replaces != "" {
		return
	}
	if i := c.overlooked(p.law, posture{without: p.later}); i != nil {
		c.fail("invariant 5: task %s of %q was placed on instance %s against %s, and instance %s keeps all rules", p.Task.ID, p.Task.Service, p.on.ID, rule, i.ID)
	}
}

// pairs are how many of an owner's tasks are there twice, as they are being replaced.
func (l *ledger) pairs(owner string) (n int) {
	moving := l.moving(owner, nil)
	for _, t := range l.owned[owner] {
		if moving[t.ID] && t.Last != cluster.TaskStopped && t.Desired == cluster.TaskRunning {
			n++
		}
	}
	return n
}

// pairsLeft are the service's pairs that count as one: not those of which two tasks are wanted.
func (l *ledger) pairsLeft(s *cluster.Service) int {
	active, pairs := 0, l.pairs(s.Short)
	for _, t := range l.owned[s.Short] {
		if t.IsActive() {
			active++
		}
	}
	return pairs - min(pairs, max(0, s.Desired-(active-pairs)))
}

func (l *ledger) standaloneOwner() string {
	m, ok := l.rows[state.Key{Cluster: clusterName, Sort: state.PrefixMeta}].(*state.Meta)
	if !ok {
		return ""
	}
	return m.Short
}

// followed marks the rules that were in force.
func (c *checker) followed(p *placing) {
	if p.law.policy != "" {
		c.mark(MarkDomain)
	}
	if p.law.rules.NodeConstraint != "" {
		c.mark(MarkNodeConstraint)
	}
	if p.law.sociable() {
		c.mark(MarkSociable)
	}
	if len(p.law.constraints()) > 0 {
		c.mark(MarkConstraint)
	}
	if len(p.law.rules.Strategies) > 1 {
		c.mark(MarkStrategy)
	}
	if p.law.rules.Scoring != "" {
		c.mark(MarkScoring)
	}
	if p.Task.Replaces != "" {
		c.moved(p)
	}
}
