package oracle

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/placement/domain"
	"berth/shared/snapshot"
	"berth/tests/gpurows"
)

// An Oracle places the slow way: for every task it derives from all rows what each instance has
// left, and examines every instance. A placed task is a row before the oracle looks for the next.
type Oracle struct {
	World
	Request placement.Request
	Made    int // tasks placed so far
	// Step is the step of relaxation: step 1 gives up soft rules of priority 2, step 2 also those
	// of priority 1.
	Step int
	// Now is a snapshot of all rows, made again for every task. Only constraints ask it.
	Now *snapshot.Snapshot
}

// A Remaining is what an instance has, less what the rows hold on it.
type Remaining struct {
	CPU, Memory int64
	GPUs        []int
	Unpinned    int
	Enis        int
	Ports       map[cluster.Port]bool
	Loads       map[string]int64
	Occupants   int // tasks of the owner, or of its group, that hold something here
	Tasks       int // that hold something
	Spread      int // those that count for spreading
	Made        int // by the oracle
}

// RemainingOn returns what the instance has left.
func (o *Oracle) RemainingOn(i *cluster.Instance) Remaining {
	l := Remaining{
		CPU: i.Registered.CPU, Memory: i.Registered.Memory, Enis: math.MaxInt, Ports: map[cluster.Port]bool{},
		Loads: map[string]int64{},
	}
	if i.Registered.ENIs != nil {
		l.Enis = *i.Registered.ENIs
	}
	for range i.Registered.GPUs {
		l.GPUs = append(l.GPUs, 1000)
	}
	for _, p := range i.Registered.Ports {
		l.Ports[p] = true
	}
	for _, t := range o.Tasks {
		if t.Instance == i.ID && t.Last != cluster.TaskStopped {
			o.AddUsage(&l, i, t)
		}
	}
	return l
}

// AddUsage subtracts what the task holds.
func (o *Oracle) AddUsage(l *Remaining, i *cluster.Instance, t *cluster.Task) {
	l.CPU -= t.Needs.CPU
	l.Memory -= t.Needs.Memory
	if i.Registered.ENIs != nil {
		l.Enis -= int(t.Needs.ENIs)
	}
	for _, d := range t.GPUs {
		l.GPUs[d] -= t.Needs.PerGPU()
	}
	if len(t.GPUs) == 0 {
		l.Unpinned += t.Needs.GPUs
	}
	for _, p := range t.Ports {
		l.Ports[p] = true
	}
	for name, load := range o.Loads(t) {
		l.Loads[name] += load
	}
	l.Tasks++
	if t.Owner == o.Request.Spec.Owner && (o.Request.Spec.Group == "" || o.Request.Spec.Group == t.Group) {
		l.Occupants++
	}
	if o.CountsForSpread(t) && o.IsOfDeployment(t) {
		l.Spread++
	}
	if t.Reason == "oracle" {
		l.Made++
	}
}

// Loads returns what the task reported, or else what its service says.
func (o *Oracle) Loads(t *cluster.Task) map[string]int64 {
	out := map[string]int64{}
	for _, s := range o.Services {
		for _, m := range s.Rules.Metrics {
			if s.Name == t.Service {
				out[m.Name] = m.Load
			}
		}
	}
	for name, load := range t.Reported {
		out[name] = load
	}
	return out
}

// Limits returns what an instance takes of a metric without its buffer, and in all.
func (o *Oracle) Limits(i *cluster.Instance, metric string) (unbuffered, total int64) {
	capacity, ok := i.Registered.Metrics[metric]
	if !ok {
		if capacity, ok = o.Config.NodeTypes[i.NodeType()].Capacities[metric]; !ok {
			return math.MaxInt64, math.MaxInt64
		}
	}
	unbuffered, total = capacity, capacity
	if p := o.Config.Buffer[metric]; p > 0 {
		unbuffered = int64(math.Floor(float64(capacity)*(1-p) + 1e-6))
	}
	switch p := o.Config.Overbooking[metric]; {
	case p < 0:
		total = math.MaxInt64
	case p > 0:
		total = int64(math.Floor(float64(capacity)*(1+p) + 1e-6))
	}
	return unbuffered, total
}

// CountsForSpread reports whether the task counts when tasks of the request are spread, if
// [Oracle.IsOfDeployment].
func (o *Oracle) CountsForSpread(t *cluster.Task) bool {
	return t.Owner == o.Request.Spec.Owner && (o.Request.Spec.Group == "" || o.Request.Spec.Group == t.Group) &&
		t.Instance != "" &&
		t.IsActive() && !o.IsReplaced(t)
}

// IsOfDeployment reports whether the tasks of the task's deployment count.
func (o *Oracle) IsOfDeployment(t *cluster.Task) bool {
	return o.Request.Spec.Deployment == "" || o.Request.Spec.Deployment == t.Revision
}

// IsReplaced reports whether another task has come for this one: the two count as one.
func (o *Oracle) IsReplaced(t *cluster.Task) bool {
	return slices.ContainsFunc(o.Tasks, func(x *cluster.Task) bool {
		return x.Owner == t.Owner && x.Replaces == t.ID && x.IsActive() && x.HoldsCapacity()
	})
}

// Candidates returns the instances that the request may use.
func (o *Oracle) Candidates() []*cluster.Instance {
	var out []*cluster.Instance
	for _, i := range o.Instances {
		if i.Status != cluster.InstanceInactive && (o.Request.Instances == nil ||
			slices.Contains(o.Request.Instances, i.ID)) {
			out = append(out, i)
		}
	}
	return out
}

// RuleBinds reports whether a rule of the priority binds in this step.
func (o *Oracle) RuleBinds(p cluster.Priority) bool {
	return p == 0 || p > 0 && (o.Step == 0 || int(p) <= 2-o.Step)
}

// IsCordoned reports whether the instance is cordoned.
func IsCordoned(i *cluster.Instance) bool {
	_, is := i.Attributes[cluster.AttributeUnschedulable]
	return is
}

// IsGoverned reports whether a domain policy governs the spec's tasks.
func IsGoverned(s *placement.Spec) bool {
	return s.DomainPolicy != "" && s.DomainPolicy != cluster.PolicyNone
}

// UnmetConstraint returns the first constraint that the instance does not meet, or "".
func (o *Oracle) UnmetConstraint(i *cluster.Instance) string {
	for _, x := range o.Request.Spec.Constraints {
		if !x.Matches(o.Now.Instances[i.ID].Facts()) {
			return x.String()
		}
	}
	return ""
}

// FailedFilters returns all filters that reject the instance, in order, each with its detail.
func (o *Oracle) FailedFilters(i *cluster.Instance, l Remaining) []string {
	var out []string
	refuse := func(is bool, f cluster.Filter, detail string) {
		if is {
			out = append(out, strings.TrimSpace(string(f)+" "+detail))
		}
	}
	r := o.Request.Spec
	refuse(i.Status != cluster.InstanceActive, cluster.FilterStatus, string(i.Status))
	refuse(!i.AgentConnected, cluster.FilterAgent, "")
	refuse(IsCordoned(i), cluster.FilterUnschedulable, "")
	refuse(!IsCordoned(i) && slices.Contains(r.Avoid, i.ID), cluster.FilterUnschedulable,
		"in the list of instances to avoid")
	if taint := UntoleratedTaint(r, i); taint != "" {
		refuse(true, cluster.FilterTaint, taint)
	}
	refuse(slices.Contains(o.Request.Refused, i.ID), cluster.FilterRefused, "")
	if absent := MissingAttribute(r, i); absent != "" {
		refuse(true, cluster.FilterAttribute, absent)
	}
	if x := o.UnmetConstraint(i); x != "" && o.RuleBinds(o.Config.Priorities.Placement) {
		refuse(true, cluster.FilterConstraint, x)
	}
	refuse(!o.hasParentOn(i) && o.RuleBinds(o.Config.Priorities.Affinity), cluster.FilterAffinity, "")
	most := r.PerInstance
	if IsGoverned(r) {
		most = 1
	}
	refuse(most > 0 && l.Occupants >= most, cluster.FilterOccupied, "")
	if IsGoverned(r) {
		d, at := o.ServiceDomains(), slices.Index(o.Instances, i)
		refuse(!d.AdmitsFault(d.FaultDomain(at)), cluster.FilterFaultDomain, i.FaultDomain())
		refuse(!d.AdmitsUpgrade(d.UpgradeDomain(at)), cluster.FilterUpgrade, i.UpgradeDomain())
	}
	used := slices.IndexFunc(r.Ports, func(p cluster.Port) bool { return l.Ports[p] })
	if used >= 0 {
		refuse(true, cluster.FilterPort, fmt.Sprintf("%d/%s", r.Ports[used].Number, r.Ports[used].Protocol))
	}
	refuse(l.CPU < r.Needs.CPU, cluster.FilterCPU, "")
	refuse(l.Memory < r.Needs.Memory, cluster.FilterMemory, "")
	refuse(r.Needs.GPUs > 0 && o.Devices(l) == nil, cluster.FilterGPU, "")
	refuse(r.Needs.ENIs > 0 && l.Enis < int(r.Needs.ENIs), cluster.FilterENI, "")
	if metric, _ := o.FullMetric(i, l); metric != "" {
		refuse(true, cluster.FilterMetric, metric)
	}
	o.checkApplication(i, refuse)
	return out
}

// hasParentOn reports whether the instance has a task that the request's affinity asks for.
func (o *Oracle) hasParentOn(i *cluster.Instance) bool {
	parent := o.Request.Spec.Affinity
	return parent == "" || slices.ContainsFunc(o.Tasks, func(t *cluster.Task) bool {
		return t.Owner == parent && t.Instance == i.ID && t.IsActive() && !o.IsReplaced(t)
	})
}

// MissingAttribute returns the first required attribute that the instance lacks, or "".
func MissingAttribute(r *placement.Spec, i *cluster.Instance) string {
	disk, has := i.Attributes["disk"]
	at := slices.IndexFunc(r.Attributes, func(a string) bool { return !has || a != "disk" && a != "disk="+disk })
	if at < 0 {
		return ""
	}
	return r.Attributes[at]
}

// UntoleratedTaint returns the first taint of the instance that the tasks do not tolerate, or "".
func UntoleratedTaint(r *placement.Spec, i *cluster.Instance) string {
	for part := range strings.FieldsSeq(i.Attributes["berth.taints"]) {
		x := strings.Split(part, ":") // GenRare writes all three
		tolerated := slices.ContainsFunc(r.Tolerations, func(t cluster.Toleration) bool {
			return (t.Key == "" || t.Key == x[0]) && (t.AnyValue || t.Value == x[1]) &&
				(t.Effect == "" || string(t.Effect) == x[2])
		})
		if !tolerated {
			return x[0] + "=" + x[1] + ":" + x[2]
		}
	}
	return ""
}

// ServiceDomains returns the domains of the request's service, built from the rows. What they admit
// has an oracle of its own.
func (o *Oracle) ServiceDomains() *domain.Domains {
	var fault, upgrade []string
	var standings []domain.Standing
	for _, i := range o.Instances {
		standing := domain.Eligible
		switch {
		case i.Status == cluster.InstanceInactive:
			standing = domain.NotInCluster
		case i.Status != cluster.InstanceActive || !i.AgentConnected || IsCordoned(i):
			standing = domain.Unavailable
		case MissingAttribute(o.Request.Spec, i) != "" || UntoleratedTaint(o.Request.Spec, i) != "" ||
			o.UnmetConstraint(i) != "" ||
			slices.Contains(o.Request.Spec.Avoid, i.ID):
			standing = domain.Ineligible
		}
		fault, upgrade, standings = append(fault, i.FaultDomain()), append(upgrade, i.UpgradeDomain()),
			append(standings, standing)
	}
	rule := domain.NewRule(o.Request.Spec.DomainPolicy, o.Request.Target, o.Config)
	rule.NoConstraints = !o.RuleBinds(o.Config.Priorities.Placement)
	rule.NoFault, rule.NoUpgrade = !o.RuleBinds(o.Config.Priorities.FaultDomain),
		!o.RuleBinds(o.Config.Priorities.UpgradeDomain)
	d := domain.NewDomains(fault, upgrade, standings, rule)
	for _, t := range o.Tasks {
		if i := o.FindInstance(t.Instance); o.CountsForSpread(t) && i != nil {
			d.AddTasks(slices.Index(o.Instances, i), 1)
		}
	}
	return d
}

// Devices returns the positions of the GPU devices for one task, or nil if there are not enough.
func (o *Oracle) Devices(l Remaining) []int {
	return gpurows.Devices(l.GPUs, l.Unpinned, o.Request.Spec.Needs)
}

// GroupCount returns how many tasks count on instances with the same values of all these
// attributes.
func (o *Oracle) GroupCount(like *cluster.Instance, attributes []string) int64 {
	n := int64(0)
	for _, t := range o.Tasks {
		i := o.FindInstance(t.Instance)
		if !o.CountsForSpread(t) || !o.IsOfDeployment(t) || i == nil || i.Status == cluster.InstanceInactive {
			continue
		}
		same := !slices.ContainsFunc(attributes, func(a string) bool {
			x, hasX := i.Attributes[a]
			y, hasY := like.Attributes[a]
			return x != y || hasX != hasY
		})
		if same {
			n++
		}
	}
	return n
}

// OrderKey returns what the instance is compared by, the least first. random reports that chance
// decides the rest.
func (o *Oracle) OrderKey(i *cluster.Instance, l Remaining) (key []int64, random bool) {
	if _, buffered := o.FullMetric(i, l); buffered {
		key = append(key, 1)
	} else {
		key = append(key, 0)
	}
	if o.Request.Instances != nil {
		return append(key, int64(l.Made), int64(slices.Index(o.Request.Instances, i.ID))), false
	}
	r := o.Request.Spec
	strategies := r.Strategies
	if len(strategies) == 0 && !IsGoverned(r) && r.Scoring == "" {
		strategies = []cluster.PlacementStrategy{
			{Type: cluster.StrategySpread, Field: "attribute:" + cluster.AttributeZone},
			{Type: cluster.StrategySpread, Field: "instanceId"},
		}
	}
	var attributes []string
	for _, s := range strategies {
		name, attribute := strings.CutPrefix(s.Field, "attribute:")
		switch {
		case s.Type == cluster.StrategyRandom:
			return key, true
		case s.Field == "CPU":
			key = append(key, l.CPU)
		case s.Field == "MEMORY":
			key = append(key, l.Memory)
		case attribute:
			attributes = append(attributes, name)
			key = append(key, o.GroupCount(i, attributes))
		default:
			attributes = append(attributes, "id") // within an instance there is one group
			key = append(key, int64(l.Spread))
		}
		if slices.Contains(attributes, "id") && attribute {
			key = key[:len(key)-1]
		}
	}
	if IsGoverned(r) && len(strategies) == 0 {
		key = append(key, int64(l.Tasks))
	}
	spare := 0
	for _, milli := range l.GPUs {
		spare += milli
	}
	return append(key, int64(spare), l.CPU/250+l.Memory), false
}

// BestInstances returns the instance for one more task, or none; several if chance decides.
func (o *Oracle) BestInstances() (out []*cluster.Instance) {
	o.Now = o.Snapshot(1)
	var least []int64
	for _, i := range o.Candidates() {
		l := o.RemainingOn(i)
		if len(o.FailedFilters(i, l)) > 0 {
			continue
		}
		key, random := o.OrderKey(i, l)
		switch c := slices.Compare(key, least); {
		case len(out) == 0 || c < 0:
			out, least = []*cluster.Instance{i}, key
		case c == 0 && random:
			out = append(out, i)
		case c == 0 && i.ID < out[0].ID:
			out[0] = i
		}
	}
	return out
}

// NextBest returns the best instances of the first step, from the present one on, that has any.
func (o *Oracle) NextBest() []*cluster.Instance {
	for ; ; o.Step++ {
		if best := o.BestInstances(); len(best) > 0 || o.Step == 2 {
			return best
		}
	}
}

// Place places the request's tasks.
func (o *Oracle) Place() []placement.Placement {
	var out []placement.Placement
	for len(out) < o.Request.Count {
		best := o.NextBest()
		if len(best) == 0 {
			break
		}
		out = append(out, o.PutTask(best[0]))
	}
	return out
}

// PutTask makes a row of a task on the instance.
func (o *Oracle) PutTask(i *cluster.Instance) placement.Placement {
	p := placement.Placement{Instance: i.ID}
	if o.Request.Spec.Needs.GPUs > 0 {
		p.GPUs = o.Devices(o.RemainingOn(i))
	}
	o.CommitPlacement(p)
	return p
}

// CommitPlacement makes a row of a placement.
func (o *Oracle) CommitPlacement(p placement.Placement) {
	o.Made++
	t := NewTask(o.Request.Spec, fmt.Sprintf("new-%02d", o.Made), p)
	t.Reason = "oracle"
	o.Tasks = append(o.Tasks, t)
}

// NewTask returns the row of a task that was placed.
func NewTask(spec *placement.Spec, id string, p placement.Placement) *cluster.Task {
	loads := map[string]int64{} // what its service says now may be something else
	for _, m := range spec.Loads {
		loads[m.Name] = m.Load
	}
	return &cluster.Task{
		Head: cluster.Head{Cluster: "c", Rev: 1},
		TaskSpec: cluster.TaskSpec{
			ID: id, Owner: spec.Owner, Service: spec.Owner, Group: spec.Group, Revision: spec.Deployment,
			Needs: spec.Needs, Ports: spec.Ports,
		},
		TaskAssignment: cluster.TaskAssignment{
			Instance: p.Instance, GPUs: p.GPUs, Desired: cluster.TaskRunning,
		},
		TaskReport: cluster.TaskReport{Reported: loads},
	}
}

// RejectionCounts returns what a diagnosis must say, per filter and detail, after the oracle can
// place no more.
func (o *Oracle) RejectionCounts() map[string]int {
	o.Now = o.Snapshot(1)
	out := map[string]int{}
	for _, i := range o.Candidates() {
		out[o.FailedFilters(i, o.RemainingOn(i))[0]]++
	}
	return out
}

// NewOracle returns an oracle on a copy of the world's rows.
func NewOracle(w *World, r placement.Request) *Oracle {
	o := &Oracle{World: *w, Request: r}
	o.Tasks = slices.Clone(w.Tasks)
	o.Now = o.Snapshot(1)
	return o
}
