package invariant

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// A RoomQuery says under which assumptions an instance is asked for room.
type RoomQuery struct {
	// Without are tasks that are not counted, by id.
	Without map[string]bool
	// Unbuffered uses neither the buffer nor overbooking (P14).
	Unbuffered bool
	// withRecent still counts tasks that ended recently, and already counts tasks that DAEMON
	// services may start.
	withRecent bool
	// Relaxed ignores the soft rules.
	Relaxed bool
	// Reserved does not count as free what instances keep for DAEMON services that have no task there
	// yet (S4).
	Reserved bool
}

// WhyRejected returns what keeps a task of the spec off the instance, or "" if it could run there.
// It looks at all rows.
func (h *RowHistory) WhyRejected(spec *TaskSpec, i *cluster.Instance, q RoomQuery) string {
	switch {
	case i.Status != cluster.InstanceActive:
		return string(i.Status)
	case !i.AgentConnected:
		return "agent disconnected"
	case IsCordoned(i):
		return "unschedulable"
	case h.wasRefusedLately(spec.owner, i.ID):
		return "refused by ECS"
	}
	if want := MissingAttribute(i, spec.Def); want != "" {
		return "attribute " + want
	}
	if taint := spec.UntoleratedTaint(i, NoSchedule, NoExecute); taint != "" {
		return "taint " + taint
	}
	if len(spec.Providers) > 0 && !slices.Contains(spec.Providers, i.CapacityProvider()) {
		return "capacity provider " + i.CapacityProvider()
	}
	if ruleHolds(h.ConfigurationRow().Priorities.Placement, q.Relaxed) {
		if x := spec.UnmetConstraint(h.EvaluationOf(i, q.Without)); x != "" {
			return x
		}
	}
	if o := h.taskOfOwnerOn(spec, i, q); spec.isAlonePerInstance() && o != nil {
		return "it has task " + o.ID
	}
	if why := h.fullDomain(spec, i, q); why != "" {
		return why
	}
	return cmp.Or(h.lackingResource(spec, i, q), h.applicationRefuses(spec, i, q))
}

// ruleHolds reports whether a rule of that priority is in force.
func ruleHolds(p cluster.Priority, soft bool) bool { return p == 0 || p > 0 && !soft }

func IsCordoned(i *cluster.Instance) bool {
	_, is := i.Attributes["berth.unschedulable"]
	return is
}

func (h *RowHistory) EvaluationOf(i *cluster.Instance, without map[string]bool) evaluation {
	e := evaluation{Instance: i, nodeTypes: h.ConfigurationRow().NodeTypes, taskGroups: map[string]bool{}}
	for _, t := range h.ByInstance[i.ID] {
		if t.IsActive() && !without[t.ID] {
			e.taskGroups[t.Group] = true
		}
	}
	return e
}

// taskOfOwnerOn returns a task of the spec's owner that holds capacity of the instance, or nil.
func (h *RowHistory) taskOfOwnerOn(spec *TaskSpec, i *cluster.Instance, q RoomQuery) (least *cluster.Task) {
	for _, t := range h.tasksHolding(i, q) {
		if t.Owner == spec.owner && t.Group == spec.group && (least == nil || t.ID < least.ID) {
			least = t
		}
	}
	return least
}

// fullDomain says which domain of the instance is full, or "".
func (h *RowHistory) fullDomain(spec *TaskSpec, i *cluster.Instance, q RoomQuery) string {
	if spec.Policy == "" {
		return ""
	}
	c := h.ConfigurationRow()
	instances := h.domainInstancesOf(spec, q.Without, pastView{})
	fault, upgrade := instances.rulesOf(spec.Policy, spec.desired, c)
	n := instances.indexOf(i.ID)
	if n < 0 {
		return "not known yet"
	}
	at := instances[n]
	if !at.eligible {
		return "in no domain" // a constraint that may be relaxed forms no domain
	}
	if ruleHolds(c.Priorities.FaultDomain, q.Relaxed) && !instances.admitsTask(fault, byFaultDomain, at) {
		return "fault domain full"
	}
	if ruleHolds(c.Priorities.UpgradeDomain, q.Relaxed) && !instances.admitsTask(upgrade, byUpgradeDomain, at) {
		return "upgrade domain full"
	}
	return ""
}

// domainInstancesOf returns the instances with the number of the owner's tasks. Of a task and its
// replacement only the replacement counts. The view replaces what was different recently.
func (h *RowHistory) domainInstancesOf(spec *TaskSpec, without map[string]bool, v pastView) domainInstances {
	var out domainInstances
	for _, i := range h.sortedInstances() {
		i = cmp.Or(v.instances[i.ID], i)
		if i.IsDeregistered() {
			continue
		}
		s := domainInstance{id: i.ID, fault: FaultPath(FaultDomain(i)), upgrade: upgradeDomain(i),
			acceptsTasks: i.IsAvailable() && !IsCordoned(i)}
		s.eligible = s.acceptsTasks && h.suits(spec, i, nil)
		out = append(out, s)
	}
	moving := h.ReplacedTasks(spec.owner, without)
	for _, t := range h.ByOwner[spec.owner] {
		if t.IsActive() && t.Instance != "" && !without[t.ID] && !moving[t.ID] {
			out.addTask(t.Instance)
		}
	}
	for _, t := range v.counted {
		out.addTask(t.Instance)
	}
	return out
}

// suits reports whether the instance, without these tasks, meets what the spec asks besides room.
func (h *RowHistory) suits(spec *TaskSpec, i *cluster.Instance, without map[string]bool) bool {
	return MissingAttribute(i, spec.Def) == "" && spec.UntoleratedTaint(i, NoSchedule, NoExecute) == "" &&
		spec.UnmetConstraint(h.EvaluationOf(i, without)) == ""
}

func (all domainInstances) addTask(instance string) {
	if n := all.indexOf(instance); n >= 0 {
		all[n].tasks++
	}
}

func (all domainInstances) indexOf(instance string) int {
	return slices.IndexFunc(all, func(i domainInstance) bool { return i.id == instance })
}

// sortedInstances returns the rows of all instances of the cluster sorted by id.
func (h *RowHistory) sortedInstances() []*cluster.Instance {
	var out []*cluster.Instance
	for _, i := range h.InstanceRows {
		out = append(out, i)
	}
	slices.SortFunc(out, func(a, b *cluster.Instance) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// ReplacedTasks returns the ids of the owner's tasks that have an active replacement.
func (h *RowHistory) ReplacedTasks(owner string, without map[string]bool) map[string]bool {
	out := map[string]bool{}
	for _, t := range h.ByOwner[owner] {
		if t.Replaces != "" && t.IsActive() && t.Instance != "" && !without[t.ID] {
			out[t.Replaces] = true
		}
	}
	return out
}

// lackingResource says which resource the instance lacks, or "".
func (h *RowHistory) lackingResource(spec *TaskSpec, i *cluster.Instance, q RoomQuery) string {
	used := h.usageOf(i, q)
	if q.withRecent {
		h.addDaemonReservations(&used, spec, i)
	} else if q.Reserved {
		h.addKept(&used, spec, i)
	}
	switch {
	case used.cpu+spec.Needs.CPU > i.Registered.CPU:
		return "CPU"
	case used.memory+spec.Needs.Memory > i.Registered.Memory:
		return "memory"
	case i.Registered.ENIs != nil && spec.Needs.ENIs > 0 && used.enis+int(spec.Needs.ENIs) > *i.Registered.ENIs:
		return "network interfaces"
	}
	for _, port := range spec.Def.Ports {
		if used.ports[port] != "" {
			return fmt.Sprint("port ", port.Number)
		}
	}
	share, free := int(spec.Needs.GPUMilli), 0
	for _, taken := range used.gpus {
		if share > 0 && taken > 0 && taken+share <= 1000 {
			free++
		}
	}
	if free+max(0, used.idleGPUs()-used.unpinned) < spec.Needs.GPUs {
		return "GPUs"
	}
	return h.lackingMetric(spec, i, used, q)
}

// addDaemonReservations adds what may be reserved on the instance for other DAEMON services (S4).
func (h *RowHistory) addDaemonReservations(used *usage, spec *TaskSpec, i *cluster.Instance) {
	for _, row := range h.Rows {
		s, ok := row.(*cluster.Service)
		if !ok || s.Strategy != cluster.Daemon || s.Status != cluster.ServiceActive || s.Short == spec.owner {
			continue
		}
		here := false
		for _, t := range h.ByInstance[i.ID] {
			here = here || t.Owner == s.Short && t.IsActive() && t.Revision == s.Deployment.ID
		}
		if def := h.definitionOf(s.Cluster, s.Deployment.TaskDefinition); def != nil && !here {
			used.cpu, used.memory, used.enis = used.cpu+def.Needs.CPU, used.memory+def.Needs.Memory,
				used.enis+int(def.Needs.ENIs)
		}
	}
}

// addKept adds what the instance keeps for other DAEMON services (S4): what a task needs of the
// deployment that starts tasks, less what the service's tasks hold there. While a deployment fails,
// that may be any of them.
func (h *RowHistory) addKept(used *usage, spec *TaskSpec, i *cluster.Instance) {
	for _, row := range h.Rows {
		s, ok := row.(*cluster.Service)
		if !ok || s.Strategy != cluster.Daemon || s.Status != cluster.ServiceActive || s.Short == spec.owner {
			continue
		}
		var held, kept cluster.Resources
		current := map[string]bool{}
		for _, t := range h.ByInstance[i.ID] {
			if t.Owner == s.Short && t.HoldsCapacity() {
				held.CPU, held.Memory, held.ENIs = held.CPU+t.Needs.CPU, held.Memory+t.Needs.Memory, held.ENIs+t.Needs.ENIs
				current[t.Revision] = current[t.Revision] || t.IsActive()
			}
		}
		for _, d := range append([]cluster.Deployment{s.Deployment}, s.Older...) {
			next := h.specOfRevision(s, d.ID, d.TaskDefinition)
			if next == nil || current[d.ID] || MissingAttribute(i, next.Def) != "" ||
				next.UntoleratedTaint(i, NoSchedule, NoExecute) != "" || next.UnmetConstraint(h.EvaluationOf(i, nil)) != "" {
				continue
			}
			kept.CPU = max(kept.CPU, next.Needs.CPU-held.CPU)
			kept.Memory = max(kept.Memory, next.Needs.Memory-held.Memory)
			kept.ENIs = max(kept.ENIs, next.Needs.ENIs-held.ENIs)
		}
		used.cpu, used.memory, used.enis = used.cpu+kept.CPU, used.memory+kept.Memory, used.enis+int(kept.ENIs)
	}
}

func (h *RowHistory) lackingMetric(spec *TaskSpec, i *cluster.Instance, used usage, q RoomQuery) string {
	c := h.ConfigurationRow()
	if !ruleHolds(c.Priorities.Capacity, q.Relaxed) {
		return ""
	}
	for _, m := range spec.Rules.Metrics {
		unbuffered, total := metricLimits(c, i, m.Name)
		if q.Unbuffered {
			total = unbuffered
		}
		if m.Load > 0 && used.metrics[m.Name]+m.Load > total {
			return fmt.Sprintf("%s: %d and %d more, of %d", m.Name, used.metrics[m.Name], m.Load, total)
		}
	}
	if len(c.Applications) == 0 {
		return ""
	}
	for _, name := range MetricNames {
		unbuffered, total := metricLimits(c, i, name)
		if q.Unbuffered {
			total = unbuffered
		}
		load, after := spec.loadOf(name), h.reservedOn(i, name, q, spec)
		if load+after > h.reservedOn(i, name, q, nil) && used.metrics[name]+load+after > total {
			return fmt.Sprintf("%s: %d, %d more and %d reserved for applications, of %d", name, used.metrics[name],
				load, after, total)
		}
	}
	return ""
}

// metricLimits returns how much of a metric the instance takes without its buffer and overbooking,
// and with them (P12, P13).
func metricLimits(c *cluster.Configuration, i *cluster.Instance, metric string) (unbuffered, total int64) {
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

// DefaultLoads returns the task's initial loads: its service's, or its request's.
func (h *RowHistory) DefaultLoads(t *cluster.Task) []cluster.Metric {
	if s := h.ServiceOf(t); s != nil {
		return s.Rules.Metrics
	}
	r, ok := h.Rows[state.RequestKey(t.Cluster, t.Request)].(*state.Request)
	if t.Service != "" || !ok || r.Rules == nil {
		return nil
	}
	return r.Rules.Metrics
}

// addLoads adds the task's loads. A reported load replaces the initial one.
func (h *RowHistory) addLoads(into map[string]int64, t *cluster.Task) {
	for _, m := range h.DefaultLoads(t) {
		if _, reported := t.Reported[m.Name]; !reported {
			into[m.Name] += m.Load
		}
	}
	for name, n := range t.Reported {
		into[name] += n
	}
}

// isQuiet reports whether no instance has changed recently, so that every decision must know the
// present state.
func (h *RowHistory) isQuiet() bool {
	for id := range h.InstanceRows {
		if h.now().Sub(h.touchedAt[id]) < MaxStaleness {
			return false
		}
	}
	return true
}

// isCertain reports whether no instance changed and no task ended recently, so that every decision
// must have counted for applications what counts now. Tasks that were placed are always known.
func (h *RowHistory) isCertain() bool {
	for id := range h.InstanceRows {
		if len(h.recentVersions(id)) > 0 {
			return false
		}
	}
	for _, owned := range h.ByOwner {
		for key := range owned {
			if at := h.Changes[key].inactiveAt; !at.IsZero() && h.now().Sub(at) < MaxStaleness {
				return false
			}
		}
	}
	return true
}

// recentPast is what a decision may have taken for the present, because writes that only free
// capacity do not move the placement version.
type recentPast struct {
	instances [][]*cluster.Instance // for each recently changed instance: its rows, the present one first
	ended     []*cluster.Task       // tasks that counted for their service until recently
}

// A pastView is one state that a decision may have seen.
type pastView struct {
	instances map[string]*cluster.Instance
	counted   []*cluster.Task
}

// A pastVersion is an earlier row of an instance, and when it was replaced.
type pastVersion struct {
	row   *cluster.Instance
	until time.Time
}

// recentPastOf returns what may matter for the domains of an owner's tasks.
func (h *RowHistory) recentPastOf(owner string) recentPast {
	var out recentPast
	for _, i := range h.sortedInstances() {
		if was := h.recentVersions(i.ID); len(was) > 0 {
			out.instances = append(out.instances, append([]*cluster.Instance{i}, was...))
		}
	}
	for key, t := range h.ByOwner[owner] {
		if !t.IsActive() && t.Instance != "" && h.now().Sub(h.Changes[key].inactiveAt) < MaxStaleness {
			out.ended = append(out.ended, t)
		}
	}
	return out
}

// countViews returns how many combinations there are.
func (p recentPast) countViews() int {
	n := 1
	for _, states := range p.instances {
		n = min(n*len(states), maxViews+1)
	}
	return n << min(len(p.ended), 10)
}

// maxViews limits how many views are tried. If there are more, the decision is taken for right.
const maxViews = 1 << 9

func (p recentPast) nthView(n int) pastView {
	out := pastView{instances: map[string]*cluster.Instance{}}
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
