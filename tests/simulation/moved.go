package simulation

import (
	"cmp"
	"fmt"
	"slices"

	"berth/shared/cluster"
)

// Tasks that break a rule where they are move (P8, P10).

// moved marks why a task was given a replacement, and checks that there was a reason.
func (c *checker) moved(p *placing) {
	c.mark(MarkMoved)
	old := c.taskOf(p.Task.Owner, p.Task.Replaces)
	if old == nil || old.Owner != p.Task.Owner || old.Instance == p.Task.Instance {
		c.fail("task %s replaces %s, which is not a task of the same service on another instance", p.Task.ID, p.Task.Replaces)
		return
	}
	if from := c.known[old.Instance]; from != nil {
		if len(p.law.providers) > 0 && !slices.Contains(p.law.providers, from.CapacityProvider()) {
			return // the strategy has another provider by now
		}
		if c.misfit(p.law, from) {
			c.mark(MarkMisfit)
		}
		if c.overloaded(from, p.later) != "" {
			c.mark(MarkRelieved)
		}
	}
	if c.uneven(p.law, p.later) {
		c.mark(MarkMended)
	}
	if c.balances(p, old) {
		c.mark(MarkRebalanced)
		return
	}
	if !c.astray(p.later) && !c.shortOfMetrics() {
		c.fail("task %s of %q was moved from instance %s to %s, and nothing had to be mended", p.Task.Replaces, p.Task.Service, old.Instance, p.Task.Instance)
	}
}

// balances reports that the replacement leaves the zones of its service more even (S13): the old one's had two tasks more at
// least. What changed lately may have looked so.
func (c *checker) balances(p *placing, old *cluster.Task) bool {
	s, from := c.service(p.Task), c.known[old.Instance]
	if s == nil || from == nil || !zonal(s, p.law) || from.Zone() == p.on.Zone() {
		return false
	}
	count, moving := map[string]int{}, c.moving(p.Task.Owner, p.later)
	for key, t := range c.owned[p.Task.Owner] {
		i := c.known[t.Instance]
		switch {
		case p.later[t.ID] || moving[t.ID] || i == nil:
		case !c.settled(key):
			return true
		case t.IsActive():
			count[i.Zone()]++
		}
	}
	return count[from.Zone()]-count[p.on.Zone()] > 1
}

func (l *ledger) taskOf(owner, id string) *cluster.Task {
	for _, t := range l.owned[owner] {
		if t.ID == id {
			return t
		}
	}
	return nil
}

// astray reports whether a rule is broken, or was before the commit.
func (c *checker) astray(later map[string]bool) bool { return c.wasAmiss || c.amiss(later) != "" }

// amiss is a rule that some task breaks where it is, empty where none does. What was so until lately counts.
func (l *ledger) amiss(without map[string]bool) string {
	for _, i := range l.instances() {
		if why := l.overloaded(i, without); why != "" {
			return why
		}
	}
	for _, s := range l.services() {
		w := l.serviceLaw(s)
		if w == nil {
			continue
		}
		if l.uneven(w, without) {
			return fmt.Sprintf("the domains of service %s", s.Name)
		}
		if i := l.shared(w, without); i != "" {
			return fmt.Sprintf("service %s has several tasks on instance %s", s.Name, i)
		}
		for _, i := range l.instances() {
			if (l.misfit(w, i) || w.unmet(l.scene(i, nil)) != "") && l.companion(w, i, posture{without: without}) != nil {
				return fmt.Sprintf("instance %s does not suit service %s", i.ID, s.Name)
			}
		}
	}
	return ""
}

// services are those that are ACTIVE and REPLICA, in order of name.
func (l *ledger) services() (out []*cluster.Service) {
	for _, row := range l.rows {
		if s, ok := row.(*cluster.Service); ok && s.Status == cluster.ServiceActive && s.Strategy == cluster.Replica {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *cluster.Service) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// shared is an instance on which the service has several tasks though it may have one.
func (l *ledger) shared(w *law, without map[string]bool) string {
	seen := map[string]bool{}
	for _, t := range l.owned[w.owner] {
		if !w.alone() || !t.IsActive() || t.Instance == "" || without[t.ID] {
			continue
		}
		if seen[t.Instance] {
			return t.Instance
		}
		seen[t.Instance] = true
	}
	return ""
}

// overloaded is a metric of which the instance has more than it takes without its buffer.
func (l *ledger) overloaded(i *cluster.Instance, without map[string]bool) string {
	h := l.load(i, posture{without: without})
	for _, name := range metricNames {
		if unbuffered, _ := limits(l.configuration(), i, name); h.metrics[name] > unbuffered {
			return fmt.Sprintf("instance %s has %d of %s, which is above %d", i.ID, h.metrics[name], name, unbuffered)
		}
	}
	return ""
}

var metricNames = []string{"conns", "io"}

// misfit reports that the node constraint does not hold on the instance, or what the task definition requires.
func (l *ledger) misfit(w *law, i *cluster.Instance) bool {
	x := w.rules.NodeConstraint
	return x != "" && !nodeExpressions[x].holds(l.scene(i, nil)) || lacking(i, w.def) != ""
}

// uneven reports that the service's tasks break its domain rule where they are.
func (l *ledger) uneven(w *law, without map[string]bool) bool {
	if w.policy == "" {
		return false
	}
	all := l.sites(w, without, view{})
	fault, upgrade := all.plans(w.policy, w.target, l.configuration())
	return all.broken(fault, faults) || all.broken(upgrade, upgrades)
}

// shortOfMetrics reports that a service has tasks that find no room for their loads: others may have to move for them.
func (l *ledger) shortOfMetrics() bool {
	return slices.ContainsFunc(l.services(), func(s *cluster.Service) bool {
		return s.Blocked != nil && slices.ContainsFunc(s.Blocked.Rejected, func(r cluster.Rejection) bool { return r.Filter == cluster.FilterMetric })
	})
}

// mended checks that no rule is left broken that one move would mend (invariant 8).
func (w *World) mended() {
	for _, s := range w.checker.services() {
		if law := w.checker.serviceLaw(s); law != nil && w.checker.mayMove(s) {
			w.mendedService(s, law)
		}
	}
}

// mayMove reports whether the service's percentages let one of its tasks start anew elsewhere before it stops. While there are
// tasks of other deployments these are replaced, and a deployment that has failed starts none.
func (l *ledger) mayMove(s *cluster.Service) bool {
	if len(s.Older) > 0 || s.Deployment.State == cluster.RolloutFailed {
		return false
	}
	active := 0
	for _, t := range l.owned[s.Short] {
		if t.IsActive() {
			active++
		}
	}
	return active == s.Desired && s.Desired*s.MaxPercent/100 > active
}

func (w *World) mendedService(s *cluster.Service, law *law) {
	c := w.checker
	priorities := c.configuration().Priorities
	for _, t := range c.owned[s.Short] { // in any order: what is said of each is sorted
		from := c.known[t.Instance]
		if !t.IsActive() || t.Last != cluster.TaskRunning || c.protected(t) || t.Health == cluster.Unhealthy || from == nil || !from.IsAvailable() || cordoned(from) {
			continue
		}
		if c.misfit(law, from) && law.rules.NodeConstraint != "" && priorities.Placement == 0 {
			w.shouldMove(s, law, t, "its node constraint does not hold there")
		}
		if why := c.overloaded(from, nil); why != "" && len(law.rules.Metrics) > 0 && priorities.Capacity == 0 && c.overloaded(from, map[string]bool{t.ID: true}) == "" {
			w.shouldMove(s, law, t, why)
		}
		if c.uneven(law, nil) && priorities.FaultDomain == 0 && priorities.UpgradeDomain == 0 {
			w.shouldMove(s, law, t, "its domain rule is broken")
		}
	}
}

// shouldMove fails where an instance would take the task without any rule being broken by that.
func (w *World) shouldMove(s *cluster.Service, law *law, t *cluster.Task, why string) {
	c := w.checker
	grown := *law
	if len(s.Providers) > 0 {
		return // its own provider may have no room
	}
	grown.rules.Metrics = nil
	for _, name := range metricNames { // it may bring more than it would start with
		m := cluster.Metric{Name: name, Load: t.Reported[name]}
		for _, own := range law.rules.Metrics {
			if own.Name == name {
				m.Load = max(m.Load, own.Load)
			}
		}
		grown.rules.Metrics = append(grown.rules.Metrics, m)
	}
	without := map[string]bool{t.ID: true}
	for _, i := range w.instances() {
		if i.ID == t.Instance || c.refuses(&grown, i, posture{without: without, unbuffered: true}) != "" || law.policy != "" && c.leaves(law, without, i.ID) {
			continue
		}
		c.fail("invariant 8: task %s of service %s stays on instance %s though %s, and instance %s would take it", t.ID, s.Name, t.Instance, why, i.ID)
		return
	}
}

// leaves reports whether a domain rule would be broken with one more task on the instance.
func (l *ledger) leaves(w *law, without map[string]bool, instance string) bool {
	all := l.sites(w, without, view{})
	all.add(instance)
	fault, upgrade := all.plans(w.policy, w.target, l.configuration())
	return all.broken(fault, faults) || all.broken(upgrade, upgrades)
}
