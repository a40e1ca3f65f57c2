package simulation

import (
	"berth/shared/cluster"
	"berth/tests/simulation/invariant"
)

// checkRepairs checks that no rule is left violated that one move would satisfy (invariant 8).
func (w *World) checkRepairs() {
	for _, s := range w.checker.ActiveReplicaServices() {
		if spec := w.checker.SpecOfService(s); spec != nil && w.checker.MayMove(s) {
			w.checkServiceRepairs(s, spec)
		}
	}
}

func (w *World) checkServiceRepairs(s *cluster.Service, spec *invariant.TaskSpec) {
	c := w.checker
	priorities := c.ConfigurationRow().Priorities
	for _, t := range c.ByOwner[s.Short] { // in any order: failures are sorted
		from := c.InstanceRows[t.Instance]
		if !t.IsActive() || t.Last != cluster.TaskRunning || c.IsProtected(t) || t.Health == cluster.Unhealthy ||
			from == nil || !from.IsAvailable() || invariant.IsCordoned(from) {
			continue
		}
		if c.ViolatesNodeRules(spec, from) && spec.Rules.NodeConstraint != "" && priorities.Placement == 0 {
			w.failIfMovable(s, spec, t, "its node constraint does not hold there")
		}
		if why := c.ExceededMetric(from, nil); why != "" && len(spec.Rules.Metrics) > 0 && priorities.Capacity == 0 &&
			c.ExceededMetric(from, map[string]bool{t.ID: true}) == "" {
			w.failIfMovable(s, spec, t, why)
		}
		if why := c.ExceededResource(from, nil); why != "" && len(spec.Rules.Metrics) > 0 &&
			c.ExceededResource(from, map[string]bool{t.ID: true}) == "" {
			w.failIfMovable(s, spec, t, why)
		}
		if name := spec.Rules.Application; c.IsLimited(spec) {
			if why := c.ExceededByApplication(name, from, nil); why != "" &&
				c.ExceededByApplication(name, from, map[string]bool{t.ID: true}) == "" {
				w.failIfMovable(s, spec, t, why)
			}
			if c.IsScattered(spec, t) {
				w.failIfMovable(s, spec, t, "its application is on too many instances")
			}
		}
		if c.BreaksDomainRule(spec, nil) && priorities.FaultDomain == 0 && priorities.UpgradeDomain == 0 {
			w.failIfMovable(s, spec, t, "its domain rule is broken")
		}
	}
}

// failIfMovable fails if an instance would take the task without violating a rule.
func (w *World) failIfMovable(s *cluster.Service, spec *invariant.TaskSpec, t *cluster.Task, why string) {
	c := w.checker
	grown := *spec
	if len(s.Providers) > 0 {
		return // its own provider may have no room
	}
	grown.Rules.Metrics = nil
	for _, name := range invariant.MetricNames { // it may have reported more than its initial load
		m := cluster.Metric{Name: name, Load: t.Reported[name]}
		for _, own := range spec.Rules.Metrics {
			if own.Name == name {
				m.Load = max(m.Load, own.Load)
			}
		}
		grown.Rules.Metrics = append(grown.Rules.Metrics, m)
	}
	without := map[string]bool{t.ID: true}
	for _, i := range w.instances() {
		if i.ID == t.Instance || !c.TakesReservation(spec, i) || c.WhyRejected(&grown, i,
			invariant.RoomQuery{Without: without, Unbuffered: true}) != "" || spec.Policy != "" &&
			c.WouldBreakDomainRule(spec, without, i.ID) {
			continue
		}
		c.Fail("invariant 8: task %s of service %s stays on instance %s though %s, and instance %s would take it", t.ID,
			s.Name, t.Instance, why, i.ID)
		return
	}
}
