package simulation

import (
	"cmp"
	"fmt"
	"slices"

	"berth/shared/cluster"
)

// Tasks that break a rule where they are move (P8, P10).

// checkMove marks why a task was given a replacement, and checks that there was a reason.
func (c *checker) checkMove(p *newPlacement) {
	c.cover(CoverMoved)
	old := c.taskOf(p.Task.Owner, p.Task.Replaces)
	if old == nil || old.Owner != p.Task.Owner || old.Instance == p.Task.Instance {
		c.fail("task %s replaces %s, which is not a task of the same service on another instance", p.Task.ID, p.Task.Replaces)
		return
	}
	if from := c.instanceRows[old.Instance]; from != nil {
		if len(p.spec.providers) > 0 && !slices.Contains(p.spec.providers, from.CapacityProvider()) {
			return // the strategy has another provider by now
		}
		if c.violatesNodeRules(p.spec, from) {
			c.cover(CoverMisfit)
		}
		if c.exceededMetric(from, p.later) != "" {
			c.cover(CoverRelieved)
		}
	}
	if c.breaksDomainRule(p.spec, p.later) {
		c.cover(CoverMended)
	}
	if c.improvesZones(p, old) {
		c.cover(CoverRebalanced)
		return
	}
	if !c.hasViolation(p.later) && !c.waitsForMetrics() {
		c.fail("task %s of %q was moved from instance %s to %s, and nothing had to be mended", p.Task.Replaces, p.Task.Service, old.Instance, p.Task.Instance)
	}
}

// improvesZones reports that the replacement leaves the zones of its service more even (S13): the old one's had two tasks more at
// least. What changed lately may have looked so.
func (c *checker) improvesZones(p *newPlacement, old *cluster.Task) bool {
	s, from := c.serviceOf(p.Task), c.instanceRows[old.Instance]
	if s == nil || from == nil || !balancesZones(s, p.spec) || from.Zone() == p.instance.Zone() {
		return false
	}
	count, moving := map[string]int{}, c.replacedTasks(p.Task.Owner, p.later)
	for key, t := range c.byOwner[p.Task.Owner] {
		i := c.instanceRows[t.Instance]
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

func (h *rowHistory) taskOf(owner, id string) *cluster.Task {
	for _, t := range h.byOwner[owner] {
		if t.ID == id {
			return t
		}
	}
	return nil
}

// hasViolation reports whether a rule is broken, or was before the commit.
func (c *checker) hasViolation(later map[string]bool) bool {
	return c.hadViolation || c.findViolation(later) != ""
}

// findViolation is a rule that some task breaks where it is, empty where none does. What was so until lately counts.
func (h *rowHistory) findViolation(without map[string]bool) string {
	for _, i := range h.sortedInstances() {
		if why := h.exceededMetric(i, without); why != "" {
			return why
		}
	}
	for _, s := range h.activeReplicaServices() {
		spec := h.specOfService(s)
		if spec == nil {
			continue
		}
		if h.breaksDomainRule(spec, without) {
			return fmt.Sprintf("the domains of service %s", s.Name)
		}
		if i := h.instanceWithSeveral(spec, without); i != "" {
			return fmt.Sprintf("service %s has several tasks on instance %s", s.Name, i)
		}
		for _, i := range h.sortedInstances() {
			if (h.violatesNodeRules(spec, i) || spec.unmetConstraint(h.evaluationOf(i, nil)) != "") && h.taskOfOwnerOn(spec, i, roomQuery{without: without}) != nil {
				return fmt.Sprintf("instance %s does not suit service %s", i.ID, s.Name)
			}
		}
	}
	return ""
}

// activeReplicaServices are those that are ACTIVE and REPLICA, in order of name.
func (h *rowHistory) activeReplicaServices() (out []*cluster.Service) {
	for _, row := range h.rows {
		if s, ok := row.(*cluster.Service); ok && s.Status == cluster.ServiceActive && s.Strategy == cluster.Replica {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *cluster.Service) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// instanceWithSeveral is an instance on which the service has several tasks though it may have one.
func (h *rowHistory) instanceWithSeveral(spec *taskSpec, without map[string]bool) string {
	seen := map[string]bool{}
	for _, t := range h.byOwner[spec.owner] {
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

// exceededMetric is a metric of which the instance has more than it takes without its buffer.
func (h *rowHistory) exceededMetric(i *cluster.Instance, without map[string]bool) string {
	used := h.usageOf(i, roomQuery{without: without})
	for _, name := range metricNames {
		if unbuffered, _ := metricLimits(h.configurationRow(), i, name); used.metrics[name] > unbuffered {
			return fmt.Sprintf("instance %s has %d of %s, which is above %d", i.ID, used.metrics[name], name, unbuffered)
		}
	}
	return ""
}

var metricNames = []string{"conns", "io"}

// violatesNodeRules reports that the node constraint does not hold on the instance, or what the task definition requires.
func (h *rowHistory) violatesNodeRules(spec *taskSpec, i *cluster.Instance) bool {
	x := spec.rules.NodeConstraint
	return x != "" && !nodeExpressions[x].holds(h.evaluationOf(i, nil)) || missingAttribute(i, spec.def) != ""
}

// breaksDomainRule reports that the service's tasks break its domain rule where they are.
func (h *rowHistory) breaksDomainRule(spec *taskSpec, without map[string]bool) bool {
	if spec.policy == "" {
		return false
	}
	all := h.domainInstancesOf(spec, without, pastView{})
	fault, upgrade := all.rulesOf(spec.policy, spec.desired, h.configurationRow())
	return all.breaksRule(fault, byFaultDomain) || all.breaksRule(upgrade, byUpgradeDomain)
}

// waitsForMetrics reports that a service has tasks that find no room for their loads: others may have to move for them.
func (h *rowHistory) waitsForMetrics() bool {
	return slices.ContainsFunc(h.activeReplicaServices(), func(s *cluster.Service) bool {
		return s.Blocked != nil && slices.ContainsFunc(s.Blocked.Rejected, func(r cluster.Rejection) bool { return r.Filter == cluster.FilterMetric })
	})
}

// checkRepairs checks that no rule is left broken that one move would mend (invariant 8).
func (w *World) checkRepairs() {
	for _, s := range w.checker.activeReplicaServices() {
		if spec := w.checker.specOfService(s); spec != nil && w.checker.mayMove(s) {
			w.checkServiceRepairs(s, spec)
		}
	}
}

// mayMove reports whether the service's percentages let one of its tasks start anew elsewhere before it stops. While there are
// tasks of other deployments these are replaced, and a deployment that has failed starts none.
func (h *rowHistory) mayMove(s *cluster.Service) bool {
	if len(s.Older) > 0 || s.Deployment.State == cluster.RolloutFailed {
		return false
	}
	active := 0
	for _, t := range h.byOwner[s.Short] {
		if t.IsActive() {
			active++
		}
	}
	return active == s.Desired && s.Desired*s.MaxPercent/100 > active
}

func (w *World) checkServiceRepairs(s *cluster.Service, spec *taskSpec) {
	c := w.checker
	priorities := c.configurationRow().Priorities
	for _, t := range c.byOwner[s.Short] { // in any order: what is said of each is sorted
		from := c.instanceRows[t.Instance]
		if !t.IsActive() || t.Last != cluster.TaskRunning || c.isProtected(t) || t.Health == cluster.Unhealthy || from == nil || !from.IsAvailable() || isCordoned(from) {
			continue
		}
		if c.violatesNodeRules(spec, from) && spec.rules.NodeConstraint != "" && priorities.Placement == 0 {
			w.failIfMovable(s, spec, t, "its node constraint does not hold there")
		}
		if why := c.exceededMetric(from, nil); why != "" && len(spec.rules.Metrics) > 0 && priorities.Capacity == 0 && c.exceededMetric(from, map[string]bool{t.ID: true}) == "" {
			w.failIfMovable(s, spec, t, why)
		}
		if c.breaksDomainRule(spec, nil) && priorities.FaultDomain == 0 && priorities.UpgradeDomain == 0 {
			w.failIfMovable(s, spec, t, "its domain rule is broken")
		}
	}
}

// failIfMovable fails where an instance would take the task without any rule being broken by that.
func (w *World) failIfMovable(s *cluster.Service, spec *taskSpec, t *cluster.Task, why string) {
	c := w.checker
	grown := *spec
	if len(s.Providers) > 0 {
		return // its own provider may have no room
	}
	grown.rules.Metrics = nil
	for _, name := range metricNames { // it may bring more than it would start with
		m := cluster.Metric{Name: name, Load: t.Reported[name]}
		for _, own := range spec.rules.Metrics {
			if own.Name == name {
				m.Load = max(m.Load, own.Load)
			}
		}
		grown.rules.Metrics = append(grown.rules.Metrics, m)
	}
	without := map[string]bool{t.ID: true}
	for _, i := range w.instances() {
		if i.ID == t.Instance || c.whyRejected(&grown, i, roomQuery{without: without, unbuffered: true}) != "" || spec.policy != "" && c.wouldBreakDomainRule(spec, without, i.ID) {
			continue
		}
		c.fail("invariant 8: task %s of service %s stays on instance %s though %s, and instance %s would take it", t.ID, s.Name, t.Instance, why, i.ID)
		return
	}
}

// wouldBreakDomainRule reports whether a domain rule would be broken with one more task on the instance.
func (h *rowHistory) wouldBreakDomainRule(spec *taskSpec, without map[string]bool, instance string) bool {
	all := h.domainInstancesOf(spec, without, pastView{})
	all.addTask(instance)
	fault, upgrade := all.rulesOf(spec.policy, spec.desired, h.configurationRow())
	return all.breaksRule(fault, byFaultDomain) || all.breaksRule(upgrade, byUpgradeDomain)
}
