package simulation

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// posture is how a question about room is meant.
type posture struct {
	// without are tasks that are taken not to be there, by id.
	without map[string]bool
	// unbuffered leaves the buffer and overbooking alone (P14).
	unbuffered bool
	// late has tasks that ended lately still be there, and those of DAEMON services there already that may yet come.
	late bool
	// soft gives up the rules that may be given up.
	soft bool
}

// refuses is what keeps a task of the law off the instance, empty where nothing does: a look at everything, by rules of
// its own.
func (l *ledger) refuses(w *law, i *cluster.Instance, p posture) string {
	switch {
	case i.Status != cluster.InstanceActive:
		return string(i.Status)
	case !i.AgentConnected:
		return "agent disconnected"
	case cordoned(i):
		return "unschedulable"
	case l.declined(w.owner, i.ID):
		return "refused by ECS"
	}
	if want := lacking(i, w.def); want != "" {
		return "attribute " + want
	}
	if len(w.providers) > 0 && !slices.Contains(w.providers, i.CapacityProvider()) {
		return "capacity provider " + i.CapacityProvider()
	}
	if binds(l.configuration().Priorities.Placement, p.soft) {
		if x := w.unmet(l.scene(i, p.without)); x != "" {
			return x
		}
	}
	if o := l.companion(w, i, p); w.alone() && o != nil {
		return "it has task " + o.ID
	}
	if why := l.domainsRefuse(w, i, p); why != "" {
		return why
	}
	return l.full(w, i, p)
}

// binds reports whether a rule of that priority holds.
func binds(p cluster.Priority, soft bool) bool { return p == 0 || p > 0 && !soft }

func cordoned(i *cluster.Instance) bool {
	_, is := i.Attributes["berth.unschedulable"]
	return is
}

func (l *ledger) scene(i *cluster.Instance, without map[string]bool) scene {
	s := scene{Instance: i, types: l.configuration().NodeTypes, groups: map[string]bool{}}
	for _, t := range l.on[i.ID] {
		if t.IsActive() && !without[t.ID] {
			s.groups[t.Group] = true
		}
	}
	return s
}

// companion is a task of the law's that holds something of the instance.
func (l *ledger) companion(w *law, i *cluster.Instance, p posture) (least *cluster.Task) {
	for _, t := range l.holding(i, p) {
		if t.Owner == w.owner && t.Group == w.group && (least == nil || t.ID < least.ID) {
			least = t
		}
	}
	return least
}

// domainsRefuse says which domain is full.
func (l *ledger) domainsRefuse(w *law, i *cluster.Instance, p posture) string {
	if w.policy == "" {
		return ""
	}
	c := l.configuration()
	all := l.sites(w, p.without, view{})
	fault, upgrade := all.plans(w.policy, w.target, c)
	n := all.at(i.ID)
	if n < 0 {
		return "not known yet"
	}
	at := all[n]
	if !at.eligible {
		return "in no domain" // a constraint that may be given up makes none
	}
	if binds(c.Priorities.FaultDomain, p.soft) && !all.admits(fault, faults, at) {
		return "fault domain full"
	}
	if binds(c.Priorities.UpgradeDomain, p.soft) && !all.admits(upgrade, upgrades, at) {
		return "upgrade domain full"
	}
	return ""
}

// sites are the instances with what the law's service has there. Of two tasks of which one replaces the other, the first
// does not count. What was once is as the view says.
func (l *ledger) sites(w *law, without map[string]bool, v view) sites {
	var out sites
	for _, i := range l.instances() {
		i = cmp.Or(v.instances[i.ID], i)
		if i.IsDeregistered() {
			continue
		}
		s := site{id: i.ID, fault: faultPath(faultDomain(i)), upgrade: upgradeDomain(i), open: i.IsAvailable() && !cordoned(i)}
		s.eligible = s.open && lacking(i, w.def) == "" && w.unmet(l.scene(i, nil)) == ""
		out = append(out, s)
	}
	moving := l.moving(w.owner, without)
	for _, t := range l.owned[w.owner] {
		if t.IsActive() && t.Instance != "" && !without[t.ID] && !moving[t.ID] {
			out.add(t.Instance)
		}
	}
	for _, t := range v.counted {
		out.add(t.Instance)
	}
	return out
}

func (all sites) add(instance string) {
	if n := all.at(instance); n >= 0 {
		all[n].tasks++
	}
}

func (all sites) at(instance string) int {
	return slices.IndexFunc(all, func(s site) bool { return s.id == instance })
}

// instances are the rows of all instances in the cluster, in order of id.
func (l *ledger) instances() []*cluster.Instance {
	var out []*cluster.Instance
	for _, i := range l.known {
		out = append(out, i)
	}
	slices.SortFunc(out, func(a, b *cluster.Instance) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// moving are the owner's tasks whose replacement counts, by id.
func (l *ledger) moving(owner string, without map[string]bool) map[string]bool {
	out := map[string]bool{}
	for _, t := range l.owned[owner] {
		if t.Replaces != "" && t.IsActive() && t.Instance != "" && !without[t.ID] {
			out[t.Replaces] = true
		}
	}
	return out
}

// full is what the instance has too little of.
func (l *ledger) full(w *law, i *cluster.Instance, p posture) string {
	h := l.load(i, p)
	if p.late {
		l.keep(&h, w, i)
	}
	switch {
	case h.cpu+w.needs.CPU > i.Registered.CPU:
		return "CPU"
	case h.memory+w.needs.Memory > i.Registered.Memory:
		return "memory"
	case i.Registered.ENIs != nil && w.needs.ENIs > 0 && h.enis+int(w.needs.ENIs) > *i.Registered.ENIs:
		return "network interfaces"
	}
	for _, port := range w.def.Ports {
		if h.ports[port] != "" {
			return fmt.Sprint("port ", port.Number)
		}
	}
	share, free := int(w.needs.GPUMilli), 0
	for _, used := range h.gpus {
		if share > 0 && used > 0 && used+share <= 1000 {
			free++
		}
	}
	if free+max(0, h.idle()-h.unpinned) < w.needs.GPUs {
		return "GPUs"
	}
	return l.metricsFull(w, i, h, p)
}

// keep adds what may be kept free on the instance for DAEMON services other than the law's (S4).
func (l *ledger) keep(h *load, w *law, i *cluster.Instance) {
	for _, row := range l.rows {
		s, ok := row.(*cluster.Service)
		if !ok || s.Strategy != cluster.Daemon || s.Status != cluster.ServiceActive || s.Short == w.owner {
			continue
		}
		here := false
		for _, t := range l.on[i.ID] {
			here = here || t.Owner == s.Short && t.IsActive() && t.Revision == s.Deployment.ID
		}
		if def := l.definition(s.Cluster, s.Deployment.TaskDefinition); def != nil && !here {
			h.cpu, h.memory, h.enis = h.cpu+def.Needs.CPU, h.memory+def.Needs.Memory, h.enis+int(def.Needs.ENIs)
		}
	}
}

func (l *ledger) metricsFull(w *law, i *cluster.Instance, h load, p posture) string {
	c := l.configuration()
	if !binds(c.Priorities.Capacity, p.soft) {
		return ""
	}
	for _, m := range w.rules.Metrics {
		unbuffered, total := limits(c, i, m.Name)
		if p.unbuffered {
			total = unbuffered
		}
		if m.Load > 0 && h.metrics[m.Name]+m.Load > total {
			return fmt.Sprintf("%s: %d and %d more, of %d", m.Name, h.metrics[m.Name], m.Load, total)
		}
	}
	return ""
}

// limits are how much of a metric the instance takes without its buffer and overbooking, and with them (P12, P13).
func limits(c *cluster.Configuration, i *cluster.Instance, metric string) (unbuffered, total int64) {
	n, ok := i.Registered.Metrics[metric]
	if !ok {
		n, ok = c.NodeTypes[i.Attributes["berth.node-type"]].Capacities[metric]
	}
	if !ok {
		return math.MaxInt64, math.MaxInt64
	}
	part := func(p float64) int64 { return int64(math.Floor(float64(n)*p + 1e-6)) }
	unbuffered, total = n, n
	if p, ok := c.Buffer[metric]; ok {
		unbuffered = part(1 - p)
	}
	if p, ok := c.Overbooking[metric]; ok {
		if total = part(1 + p); p == -1 {
			total = math.MaxInt64
		}
	}
	return unbuffered, total
}

// defaults are the loads that the task starts out with: its service's, or those that it was asked for with.
func (l *ledger) defaults(t *cluster.Task) []cluster.Metric {
	if s := l.service(t); s != nil {
		return s.Rules.Metrics
	}
	r, ok := l.rows[state.RequestKey(t.Cluster, t.Request)].(*state.Request)
	if t.Service != "" || !ok || r.Rules == nil {
		return nil
	}
	return r.Rules.Metrics
}

// loads adds the task's loads, reported ones before those it started out with.
func (l *ledger) loads(into map[string]int64, t *cluster.Task) {
	for _, m := range l.defaults(t) {
		if _, reported := t.Reported[m.Name]; !reported {
			into[m.Name] += m.Load
		}
	}
	for name, n := range t.Reported {
		into[name] += n
	}
}

// quiet reports that nothing on any instance has changed lately: every decision should know how things stand.
func (l *ledger) quiet() bool {
	for id := range l.known {
		if l.now().Sub(l.touched[id]) < lately {
			return false
		}
	}
	return true
}

// past is what a decision may have taken for so, though it was over: what only frees moves no version on.
type past struct {
	instances [][]*cluster.Instance // per instance that changed lately, as it is and as it was
	ended     []*cluster.Task       // that counted for their service until lately
}

// view is one way in which things may have looked.
type view struct {
	instances map[string]*cluster.Instance
	counted   []*cluster.Task
}

// version is an instance's row as it was until a time.
type version struct {
	row   *cluster.Instance
	until time.Time
}

// recent is the past of the domains of an owner's tasks.
func (l *ledger) recent(owner string) past {
	var out past
	for _, i := range l.instances() {
		if was := l.recentVersions(i.ID); len(was) > 0 {
			out.instances = append(out.instances, append([]*cluster.Instance{i}, was...))
		}
	}
	for key, t := range l.owned[owner] {
		if !t.IsActive() && t.Instance != "" && l.now().Sub(l.old[key].leftAt) < lately {
			out.ended = append(out.ended, t)
		}
	}
	return out
}

// ways is how many views there are.
func (p past) ways() int {
	n := 1
	for _, states := range p.instances {
		n = min(n*len(states), maxWays+1)
	}
	return n << min(len(p.ended), 10)
}

// maxWays is how many views are looked at; where there are more, nothing is held against a decision.
const maxWays = 1 << 9

func (p past) view(n int) view {
	out := view{instances: map[string]*cluster.Instance{}}
	for _, states := range p.instances {
		out.instances[states[0].ID] = states[n%len(states)]
		n /= len(states)
	}
	for at, t := range p.ended {
		if n>>at&1 == 1 {
			out.counted = append(out.counted, t)
		}
	}
	return out
}
