package placement_test

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/placement/domain"
	"berth/shared/snapshot"
)

// oracle places the slow way: for every single task it goes through all rows, derives what each instance has left, and
// looks at every one of them; the task that it places is a row before it looks for the next.
type oracle struct {
	world
	request placement.Request
	made    int
	step    int // soft rules of priority 2 are given up in step 1, those of priority 1 in step 2
	// now is all rows as a snapshot, made anew for every task: only constraints ask it.
	now *snapshot.Snapshot
}

// left is what an instance has, less what the rows hold on it.
type left struct {
	cpu, memory int64
	gpus        []int
	unpinned    int
	enis        int
	ports       map[cluster.Port]bool
	loads       map[string]int64
	occupants   int // tasks of the owner, or of its group, that hold something here
	tasks       int // that hold something
	spread      int // those that count for spreading
	made        int // by the oracle
}

func (o *oracle) left(i *cluster.Instance) left {
	l := left{
		cpu: i.Registered.CPU, memory: i.Registered.Memory, enis: math.MaxInt, ports: map[cluster.Port]bool{}, loads: map[string]int64{},
	}
	if i.Registered.ENIs != nil {
		l.enis = *i.Registered.ENIs
	}
	for range i.Registered.GPUs {
		l.gpus = append(l.gpus, 1000)
	}
	for _, p := range i.Registered.Ports {
		l.ports[p] = true
	}
	for _, t := range o.tasks {
		if t.Instance == i.ID && t.Last != cluster.TaskStopped {
			o.take(&l, i, t)
		}
	}
	return l
}

func (o *oracle) take(l *left, i *cluster.Instance, t *cluster.Task) {
	l.cpu -= t.Needs.CPU
	l.memory -= t.Needs.Memory
	if i.Registered.ENIs != nil {
		l.enis -= int(t.Needs.ENIs)
	}
	for _, d := range t.GPUs {
		l.gpus[d] -= t.Needs.PerGPU()
	}
	if len(t.GPUs) == 0 {
		l.unpinned += t.Needs.GPUs
	}
	for _, p := range t.Ports {
		l.ports[p] = true
	}
	for name, load := range o.loads(t) {
		l.loads[name] += load
	}
	l.tasks++
	if t.Owner == o.request.Spec.Owner && (o.request.Spec.Group == "" || o.request.Spec.Group == t.Group) {
		l.occupants++
	}
	if o.counts(t) {
		l.spread++
	}
	if t.Reason == "oracle" {
		l.made++
	}
}

// loads are what the task reported, else what its service says.
func (o *oracle) loads(t *cluster.Task) map[string]int64 {
	out := map[string]int64{}
	for _, s := range o.services {
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

// limits are what an instance takes of a metric without its buffer and in all.
func (o *oracle) limits(i *cluster.Instance, metric string) (unbuffered, total int64) {
	capacity, ok := i.Registered.Metrics[metric]
	if !ok {
		if capacity, ok = o.config.NodeTypes[i.NodeType()].Capacities[metric]; !ok {
			return math.MaxInt64, math.MaxInt64
		}
	}
	unbuffered, total = capacity, capacity
	if p := o.config.Buffer[metric]; p > 0 {
		unbuffered = int64(math.Floor(float64(capacity)*(1-p) + 1e-6))
	}
	switch p := o.config.Overbooking[metric]; {
	case p < 0:
		total = math.MaxInt64
	case p > 0:
		total = int64(math.Floor(float64(capacity)*(1+p) + 1e-6))
	}
	return unbuffered, total
}

func (o *oracle) counts(t *cluster.Task) bool {
	return t.Owner == o.request.Spec.Owner && (o.request.Spec.Group == "" || o.request.Spec.Group == t.Group) && t.Instance != "" &&
		t.Active() && !o.replaced(t)
}

// replaced reports whether another task has come for this one: the two count as one.
func (o *oracle) replaced(t *cluster.Task) bool {
	return slices.ContainsFunc(o.tasks, func(x *cluster.Task) bool {
		return x.Owner == t.Owner && x.Replaces == t.ID && x.Active() && x.Holds()
	})
}

func (o *oracle) candidates() []*cluster.Instance {
	var out []*cluster.Instance
	for _, i := range o.instances {
		if i.Status != cluster.InstanceInactive && (o.request.Instances == nil || slices.Contains(o.request.Instances, i.ID)) {
			out = append(out, i)
		}
	}
	return out
}

// binds reports whether a rule of the priority holds in this step.
func (o *oracle) binds(p cluster.Priority) bool {
	return p == 0 || p > 0 && (o.step == 0 || int(p) <= 2-o.step)
}

func cordoned(i *cluster.Instance) bool {
	_, is := i.Attributes[cluster.AttributeUnschedulable]
	return is
}

func governed(s *placement.Spec) bool {
	return s.DomainPolicy != "" && s.DomainPolicy != cluster.PolicyNone
}

// broken is the first constraint that the instance does not meet.
func (o *oracle) broken(i *cluster.Instance) string {
	for _, x := range o.request.Spec.Constraints {
		if !x.Matches(o.now.Instances[i.ID].Facts()) {
			return x.String()
		}
	}
	return ""
}

// refusals are all filters that refuse, in order, each with the detail it goes by.
func (o *oracle) refusals(i *cluster.Instance, l left) []string {
	var out []string
	refuse := func(is bool, f cluster.Filter, detail string) {
		if is {
			out = append(out, strings.TrimSpace(string(f)+" "+detail))
		}
	}
	r := o.request.Spec
	refuse(i.Status != cluster.InstanceActive, cluster.FilterStatus, string(i.Status))
	refuse(!i.AgentConnected, cluster.FilterAgent, "")
	refuse(cordoned(i), cluster.FilterUnschedulable, "")
	refuse(!cordoned(i) && slices.Contains(r.Avoid, i.ID), cluster.FilterUnschedulable, "to be avoided")
	refuse(slices.Contains(o.request.Refused, i.ID), cluster.FilterRefused, "")
	if absent := absent(r, i); absent != "" {
		refuse(true, cluster.FilterAttribute, absent)
	}
	if x := o.broken(i); x != "" && o.binds(o.config.Priorities.Placement) {
		refuse(true, cluster.FilterConstraint, x)
	}
	most := r.PerInstance
	if governed(r) {
		most = 1
	}
	refuse(most > 0 && l.occupants >= most, cluster.FilterOccupied, "")
	if governed(r) {
		d, at := o.domains(), slices.Index(o.instances, i)
		refuse(!d.AdmitsFault(d.Fault(at)), cluster.FilterFaultDomain, i.FaultDomain())
		refuse(!d.AdmitsUpgrade(d.Upgrade(at)), cluster.FilterUpgrade, i.UpgradeDomain())
	}
	used := slices.IndexFunc(r.Ports, func(p cluster.Port) bool { return l.ports[p] })
	if used >= 0 {
		refuse(true, cluster.FilterPort, fmt.Sprintf("%d/%s", r.Ports[used].Number, r.Ports[used].Protocol))
	}
	refuse(l.cpu < r.Needs.CPU, cluster.FilterCPU, "")
	refuse(l.memory < r.Needs.Memory, cluster.FilterMemory, "")
	refuse(r.Needs.GPUs > 0 && o.devices(l) == nil, cluster.FilterGPU, "")
	refuse(r.Needs.ENIs > 0 && l.enis < int(r.Needs.ENIs), cluster.FilterENI, "")
	if metric, _ := o.room(i, l); metric != "" {
		refuse(true, cluster.FilterMetric, metric)
	}
	return out
}

func absent(r *placement.Spec, i *cluster.Instance) string {
	disk, has := i.Attributes["disk"]
	at := slices.IndexFunc(r.Attributes, func(a string) bool { return !has || a != "disk" && a != "disk="+disk })
	if at < 0 {
		return ""
	}
	return r.Attributes[at]
}

// room is the metric that has no room for one more task, and whether the others need the buffer.
func (o *oracle) room(i *cluster.Instance, l left) (full string, buffered bool) {
	for _, m := range o.request.Spec.Loads {
		unbuffered, total := o.limits(i, m.Name)
		if m.Load == 0 || !o.binds(o.config.Priorities.Capacity) {
			continue
		}
		over := l.loads[m.Name]+m.Load > unbuffered
		if l.loads[m.Name]+m.Load > total || over && o.request.Unbuffered {
			return m.Name, false
		}
		buffered = buffered || over
	}
	return "", buffered
}

// domains are made from the rows; what they admit has an oracle of its own.
func (o *oracle) domains() *domain.Domains {
	var fault, upgrade []string
	var standings []domain.Standing
	for _, i := range o.instances {
		standing := domain.Eligible
		switch {
		case i.Status == cluster.InstanceInactive:
			standing = domain.Away
		case i.Status != cluster.InstanceActive || !i.AgentConnected || cordoned(i):
			standing = domain.Closed
		case absent(o.request.Spec, i) != "" || o.broken(i) != "" || slices.Contains(o.request.Spec.Avoid, i.ID):
			standing = domain.Barred
		}
		fault, upgrade, standings = append(fault, i.FaultDomain()), append(upgrade, i.UpgradeDomain()), append(standings, standing)
	}
	rule := domain.RuleOf(o.request.Spec.DomainPolicy, o.request.Target, o.config)
	rule.NoConstraints = !o.binds(o.config.Priorities.Placement)
	rule.NoFault, rule.NoUpgrade = !o.binds(o.config.Priorities.FaultDomain), !o.binds(o.config.Priorities.UpgradeDomain)
	d := domain.NewDomains(fault, upgrade, standings, rule)
	for _, t := range o.tasks {
		if i := o.find(t.Instance); o.counts(t) && i != nil {
			d.Add(slices.Index(o.instances, i), 1)
		}
	}
	return d
}

// devices are the positions for one task, nil if there are not enough: the fullest that still fit, of the devices
// that nobody uses as many left alone as tasks hold without saying which.
func (o *oracle) devices(l left) []int {
	needs := o.request.Spec.Needs
	var order, free []int
	for d, milli := range l.gpus {
		if milli == 1000 {
			free = append(free, d)
		} else if milli >= needs.PerGPU() {
			order = append(order, d)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return l.gpus[a] - l.gpus[b] })
	order = append(order, free[:max(0, len(free)-l.unpinned)]...)
	if len(order) < needs.GPUs {
		return nil
	}
	order = order[:needs.GPUs]
	slices.Sort(order)
	return order
}

// groupCount is how many tasks count on instances that agree with this one in all of the attributes.
func (o *oracle) groupCount(like *cluster.Instance, attributes []string) int64 {
	n := int64(0)
	for _, t := range o.tasks {
		i := o.find(t.Instance)
		if !o.counts(t) || i == nil || i.Status == cluster.InstanceInactive {
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

// key is what the instance is compared by, the least first; random reports that the rest is left to chance.
func (o *oracle) key(i *cluster.Instance, l left) (key []int64, random bool) {
	if _, buffered := o.room(i, l); buffered {
		key = append(key, 1)
	} else {
		key = append(key, 0)
	}
	if o.request.Instances != nil {
		return append(key, int64(l.made), int64(slices.Index(o.request.Instances, i.ID))), false
	}
	r := o.request.Spec
	strategies := r.Strategies
	if len(strategies) == 0 && !governed(r) && r.Scoring == "" {
		strategies = []cluster.PlacementStrategy{
			{Type: cluster.StrategySpread, Field: "attribute:" + cluster.AttributeZone}, {Type: cluster.StrategySpread, Field: "instanceId"},
		}
	}
	var attributes []string
	for _, s := range strategies {
		name, attribute := strings.CutPrefix(s.Field, "attribute:")
		switch {
		case s.Type == cluster.StrategyRandom:
			return key, true
		case s.Field == "CPU":
			key = append(key, l.cpu)
		case s.Field == "MEMORY":
			key = append(key, l.memory)
		case attribute:
			attributes = append(attributes, name)
			key = append(key, o.groupCount(i, attributes))
		default:
			attributes = append(attributes, "id") // within an instance there is one group
			key = append(key, int64(l.spread))
		}
		if slices.Contains(attributes, "id") && attribute {
			key = key[:len(key)-1]
		}
	}
	if governed(r) && len(strategies) == 0 {
		key = append(key, int64(l.tasks))
	}
	spare := 0
	for _, milli := range l.gpus {
		spare += milli
	}
	return append(key, int64(spare), l.cpu/250+l.memory), false
}

// best are the instances for one more task, none if no instance can take it; more than one where chance decides.
func (o *oracle) best() (out []*cluster.Instance) {
	o.now = o.snapshot(1)
	var least []int64
	for _, i := range o.candidates() {
		l := o.left(i)
		if len(o.refusals(i, l)) > 0 {
			continue
		}
		key, random := o.key(i, l)
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

// next is the best of all steps from the present one on.
func (o *oracle) next() []*cluster.Instance {
	for ; ; o.step++ {
		if best := o.best(); len(best) > 0 || o.step == 2 {
			return best
		}
	}
}

func (o *oracle) place() []placement.Placement {
	var out []placement.Placement
	for len(out) < o.request.Count {
		best := o.next()
		if len(best) == 0 {
			break
		}
		out = append(out, o.put(best[0]))
	}
	return out
}

// put makes a row of a task on the instance.
func (o *oracle) put(i *cluster.Instance) placement.Placement {
	p := placement.Placement{Instance: i.ID}
	if o.request.Spec.Needs.GPUs > 0 {
		p.GPUs = o.devices(o.left(i))
	}
	o.commit(p)
	return p
}

func (o *oracle) commit(p placement.Placement) {
	o.made++
	t := newTask(o.request.Spec, fmt.Sprintf("new-%02d", o.made), p)
	t.Reason = "oracle"
	o.tasks = append(o.tasks, t)
}

// newTask is the row of a task that was placed.
func newTask(spec *placement.Spec, id string, p placement.Placement) *cluster.Task {
	loads := map[string]int64{} // what its service says now may be something else
	for _, m := range spec.Loads {
		loads[m.Name] = m.Load
	}
	return &cluster.Task{
		Head: cluster.Head{Cluster: "c", Rev: 1}, ID: id, Owner: spec.Owner, Service: spec.Owner,
		Group: spec.Group, Instance: p.Instance, GPUs: p.GPUs, Needs: spec.Needs, Ports: spec.Ports, Desired: cluster.TaskRunning,
		Reported: loads,
	}
}

// histogram is what a diagnosis must say, as text per filter and detail, once the oracle can place no more.
func (o *oracle) histogram() map[string]int {
	o.now = o.snapshot(1)
	out := map[string]int{}
	for _, i := range o.candidates() {
		out[o.refusals(i, o.left(i))[0]]++
	}
	return out
}

// newOracle scans a copy of the world's rows.
func newOracle(w *world, r placement.Request) *oracle {
	o := &oracle{world: *w, request: r}
	o.tasks = slices.Clone(w.tasks)
	o.now = o.snapshot(1)
	return o
}
