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

// Oracle places the slow way: for every single task it goes through all rows, derives what each
// instance has left, and looks at every one of them; the task that it places is a row before it
// looks for the next.
type Oracle struct {
	World
	Request placement.Request
	Made    int
	Step    int // soft rules of priority 2 are given up in step 1, those of priority 1 in step 2
	// Now is all rows as a snapshot, made anew for every task: only constraints ask it.
	Now *snapshot.Snapshot
}

// Left is what an instance has, less what the rows hold on it.
type Left struct {
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

func (o *Oracle) Left(i *cluster.Instance) Left {
	l := Left{
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
			o.Take(&l, i, t)
		}
	}
	return l
}

func (o *Oracle) Take(l *Left, i *cluster.Instance, t *cluster.Task) {
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
	if o.Counts(t) {
		l.Spread++
	}
	if t.Reason == "oracle" {
		l.Made++
	}
}

// Loads are what the task reported, else what its service says.
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

// Limits are what an instance takes of a metric without its buffer and in all.
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

func (o *Oracle) Counts(t *cluster.Task) bool {
	return t.Owner == o.Request.Spec.Owner && (o.Request.Spec.Group == "" || o.Request.Spec.Group == t.Group) &&
		t.Instance != "" &&
		t.IsActive() && !o.Replaced(t)
}

// Replaced reports whether another task has come for this one: the two count as one.
func (o *Oracle) Replaced(t *cluster.Task) bool {
	return slices.ContainsFunc(o.Tasks, func(x *cluster.Task) bool {
		return x.Owner == t.Owner && x.Replaces == t.ID && x.IsActive() && x.HoldsCapacity()
	})
}

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

// Binds reports whether a rule of the priority holds in this step.
func (o *Oracle) Binds(p cluster.Priority) bool {
	return p == 0 || p > 0 && (o.Step == 0 || int(p) <= 2-o.Step)
}

func Cordoned(i *cluster.Instance) bool {
	_, is := i.Attributes[cluster.AttributeUnschedulable]
	return is
}

func Governed(s *placement.Spec) bool {
	return s.DomainPolicy != "" && s.DomainPolicy != cluster.PolicyNone
}

// Broken is the first constraint that the instance does not meet.
func (o *Oracle) Broken(i *cluster.Instance) string {
	for _, x := range o.Request.Spec.Constraints {
		if !x.Matches(o.Now.Instances[i.ID].Facts()) {
			return x.String()
		}
	}
	return ""
}

// Refusals are all filters that refuse, in order, each with the detail it goes by.
func (o *Oracle) Refusals(i *cluster.Instance, l Left) []string {
	var out []string
	refuse := func(is bool, f cluster.Filter, detail string) {
		if is {
			out = append(out, strings.TrimSpace(string(f)+" "+detail))
		}
	}
	r := o.Request.Spec
	refuse(i.Status != cluster.InstanceActive, cluster.FilterStatus, string(i.Status))
	refuse(!i.AgentConnected, cluster.FilterAgent, "")
	refuse(Cordoned(i), cluster.FilterUnschedulable, "")
	refuse(!Cordoned(i) && slices.Contains(r.Avoid, i.ID), cluster.FilterUnschedulable,
		"in the list of instances to avoid")
	refuse(slices.Contains(o.Request.Refused, i.ID), cluster.FilterRefused, "")
	if absent := Absent(r, i); absent != "" {
		refuse(true, cluster.FilterAttribute, absent)
	}
	if x := o.Broken(i); x != "" && o.Binds(o.Config.Priorities.Placement) {
		refuse(true, cluster.FilterConstraint, x)
	}
	most := r.PerInstance
	if Governed(r) {
		most = 1
	}
	refuse(most > 0 && l.Occupants >= most, cluster.FilterOccupied, "")
	if Governed(r) {
		d, at := o.Domains(), slices.Index(o.Instances, i)
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
	if metric, _ := o.Room(i, l); metric != "" {
		refuse(true, cluster.FilterMetric, metric)
	}
	return out
}

func Absent(r *placement.Spec, i *cluster.Instance) string {
	disk, has := i.Attributes["disk"]
	at := slices.IndexFunc(r.Attributes, func(a string) bool { return !has || a != "disk" && a != "disk="+disk })
	if at < 0 {
		return ""
	}
	return r.Attributes[at]
}

// Room is the metric that has no room for one more task, and whether the others need the buffer.
func (o *Oracle) Room(i *cluster.Instance, l Left) (full string, buffered bool) {
	for _, m := range o.Request.Spec.Loads {
		unbuffered, total := o.Limits(i, m.Name)
		if m.Load == 0 || !o.Binds(o.Config.Priorities.Capacity) {
			continue
		}
		over := l.Loads[m.Name]+m.Load > unbuffered
		if l.Loads[m.Name]+m.Load > total || over && o.Request.Unbuffered {
			return m.Name, false
		}
		buffered = buffered || over
	}
	return "", buffered
}

// Domains are made from the rows; what they admit has an oracle of its own.
func (o *Oracle) Domains() *domain.Domains {
	var fault, upgrade []string
	var standings []domain.Standing
	for _, i := range o.Instances {
		standing := domain.Eligible
		switch {
		case i.Status == cluster.InstanceInactive:
			standing = domain.NotInCluster
		case i.Status != cluster.InstanceActive || !i.AgentConnected || Cordoned(i):
			standing = domain.Unavailable
		case Absent(o.Request.Spec, i) != "" || o.Broken(i) != "" || slices.Contains(o.Request.Spec.Avoid, i.ID):
			standing = domain.Ineligible
		}
		fault, upgrade, standings = append(fault, i.FaultDomain()), append(upgrade, i.UpgradeDomain()),
			append(standings, standing)
	}
	rule := domain.NewRule(o.Request.Spec.DomainPolicy, o.Request.Target, o.Config)
	rule.NoConstraints = !o.Binds(o.Config.Priorities.Placement)
	rule.NoFault, rule.NoUpgrade = !o.Binds(o.Config.Priorities.FaultDomain),
		!o.Binds(o.Config.Priorities.UpgradeDomain)
	d := domain.NewDomains(fault, upgrade, standings, rule)
	for _, t := range o.Tasks {
		if i := o.Find(t.Instance); o.Counts(t) && i != nil {
			d.AddTasks(slices.Index(o.Instances, i), 1)
		}
	}
	return d
}

// Devices returns the positions of the GPU devices for one task, or nil if there are not enough.
func (o *Oracle) Devices(l Left) []int {
	return gpurows.Devices(l.GPUs, l.Unpinned, o.Request.Spec.Needs)
}

// GroupCount is how many tasks count on instances that agree with this one in all of the
// attributes.
func (o *Oracle) GroupCount(like *cluster.Instance, attributes []string) int64 {
	n := int64(0)
	for _, t := range o.Tasks {
		i := o.Find(t.Instance)
		if !o.Counts(t) || i == nil || i.Status == cluster.InstanceInactive {
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

// Key is what the instance is compared by, the least first; random reports that the rest is left to
// chance.
func (o *Oracle) Key(i *cluster.Instance, l Left) (key []int64, random bool) {
	if _, buffered := o.Room(i, l); buffered {
		key = append(key, 1)
	} else {
		key = append(key, 0)
	}
	if o.Request.Instances != nil {
		return append(key, int64(l.Made), int64(slices.Index(o.Request.Instances, i.ID))), false
	}
	r := o.Request.Spec
	strategies := r.Strategies
	if len(strategies) == 0 && !Governed(r) && r.Scoring == "" {
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
	if Governed(r) && len(strategies) == 0 {
		key = append(key, int64(l.Tasks))
	}
	spare := 0
	for _, milli := range l.GPUs {
		spare += milli
	}
	return append(key, int64(spare), l.CPU/250+l.Memory), false
}

// Best are the instances for one more task, none if no instance can take it; more than one where
// chance decides.
func (o *Oracle) Best() (out []*cluster.Instance) {
	o.Now = o.Snapshot(1)
	var least []int64
	for _, i := range o.Candidates() {
		l := o.Left(i)
		if len(o.Refusals(i, l)) > 0 {
			continue
		}
		key, random := o.Key(i, l)
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

// Next is the best of all steps from the present one on.
func (o *Oracle) Next() []*cluster.Instance {
	for ; ; o.Step++ {
		if best := o.Best(); len(best) > 0 || o.Step == 2 {
			return best
		}
	}
}

func (o *Oracle) Place() []placement.Placement {
	var out []placement.Placement
	for len(out) < o.Request.Count {
		best := o.Next()
		if len(best) == 0 {
			break
		}
		out = append(out, o.Put(best[0]))
	}
	return out
}

// Put makes a row of a task on the instance.
func (o *Oracle) Put(i *cluster.Instance) placement.Placement {
	p := placement.Placement{Instance: i.ID}
	if o.Request.Spec.Needs.GPUs > 0 {
		p.GPUs = o.Devices(o.Left(i))
	}
	o.Commit(p)
	return p
}

func (o *Oracle) Commit(p placement.Placement) {
	o.Made++
	t := NewTask(o.Request.Spec, fmt.Sprintf("new-%02d", o.Made), p)
	t.Reason = "oracle"
	o.Tasks = append(o.Tasks, t)
}

// NewTask is the row of a task that was placed.
func NewTask(spec *placement.Spec, id string, p placement.Placement) *cluster.Task {
	loads := map[string]int64{} // what its service says now may be something else
	for _, m := range spec.Loads {
		loads[m.Name] = m.Load
	}
	return &cluster.Task{
		Head: cluster.Head{Cluster: "c", Rev: 1},
		TaskSpec: cluster.TaskSpec{
			ID: id, Owner: spec.Owner, Service: spec.Owner, Group: spec.Group, Needs: spec.Needs,
			Ports: spec.Ports,
		},
		TaskAssignment: cluster.TaskAssignment{
			Instance: p.Instance, GPUs: p.GPUs, Desired: cluster.TaskRunning,
		},
		TaskReport: cluster.TaskReport{Reported: loads},
	}
}

// Histogram is what a diagnosis must say, as text per filter and detail, once the oracle can place
// no more.
func (o *Oracle) Histogram() map[string]int {
	o.Now = o.Snapshot(1)
	out := map[string]int{}
	for _, i := range o.Candidates() {
		out[o.Refusals(i, o.Left(i))[0]]++
	}
	return out
}

// NewOracle scans a copy of the world's rows.
func NewOracle(w *World, r placement.Request) *Oracle {
	o := &Oracle{World: *w, Request: r}
	o.Tasks = slices.Clone(w.Tasks)
	o.Now = o.Snapshot(1)
	return o
}
