package moves

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/placement/domain"
	"berth/shared/placement/eligibility"
)

// newProblem copies the problem from the snapshot, so that searches can change loads and domains
// freely. With a request, its tasks are newcomers.
func (e *Planner) newProblem(m Request, r *placement.Request) *problem {
	owners := maps.Clone(m.Owners)
	if owners == nil {
		owners = map[string]Owner{}
	}
	if r != nil {
		if _, moves := owners[r.Spec.Owner]; !moves { // its tasks count, but may not move
			owners[r.Spec.Owner] = Owner{Name: m.Newcomer, Spec: r.Spec, Target: r.Target}
			keep := m.Keep
			m.Keep = func(t *cluster.Task) bool { return t.Owner == r.Spec.Owner || keep != nil && keep(t) }
		}
	}
	e.addParents(owners)
	m.Owners = owners
	for _, name := range slices.Sorted(maps.Keys(owners)) {
		for _, l := range owners[name].Spec.Loads {
			e.snap.MetricIndex(l.Name) // so that every metric has a dimension
		}
	}
	p := &problem{
		levels: priorityLevelsOf(e.snap.Configuration.Priorities), configuration: e.snap.Configuration.Rev,
		domainsByKey: map[string]*domain.Domains{}, matchesByKey: map[string][]uint8{},
	}
	p.nameMetrics(e.snap.MetricNames())
	p.nameApplications(e.snap.Applications())
	at := p.addInstances(e)
	numbers := p.addOwners(e, m, at)
	p.linkOwners(numbers)
	p.addScopedTasks(e, m, r, numbers, at)
	if p.budget = m.Most; p.budget <= 0 {
		p.budget = math.MaxInt
	}
	if r != nil {
		p.addNewcomers(e, r, numbers[r.Spec.Owner])
	}
	p.attachTasks()
	return p
}

// nameMetrics makes each metric a dimension, in the order of names: the order in which the snapshot
// met the metrics must not decide anything.
func (p *problem) nameMetrics(metrics []string) {
	sorted := slices.Sorted(slices.Values(metrics))
	p.names = append([]string{"CPU", "MEMORY", "ENI"}, sorted...)
	p.dimOf = make([]int32, len(metrics))
	for m, name := range metrics {
		at, _ := slices.BinarySearch(sorted, name)
		p.dimOf[m] = fixedDims + int32(at)
	}
}

// addInstances adds the instances in the cluster and returns their numbers.
func (p *problem) addInstances(e *Planner) map[string]int32 {
	for _, v := range e.snap.InstancesByIndex() {
		if v != nil && eligibility.InCluster(v) {
			p.instances = append(p.instances, problemInstance{
				id: v.ID, view: v, row: v.Instance, takesTasks: v.IsAvailable() && !eligibility.IsCordoned(v),
				givesTasks: v.IsAvailable(), gpus: v.GPUs, unpinned: v.Unpinned, ports: v.Ports,
			})
		}
	}
	slices.SortFunc(p.instances, func(a, b problemInstance) int { return cmp.Compare(a.id, b.id) })
	n := len(p.instances) * p.dimensionCount()
	p.load, p.endingLoad = make([]int64, n), make([]int64, n)
	p.unbuffered, p.total = make([]int64, n), make([]int64, n)
	at := make(map[string]int32, len(p.instances))
	for i := range p.instances {
		at[p.instances[i].id] = int32(i)
		p.addInstanceCells(int32(i))
	}
	p.countApplications(e.snap.Applications())
	return at
}

// addInstanceCells adds the loads and limits of one instance. CPU, memory and interfaces have no
// buffer. A metric has no limit if the capacity rule is switched off.
func (p *problem) addInstanceCells(i int32) {
	v := p.instances[i].view
	set := func(dim int32, load, unbuffered, total int64) {
		c := p.cellIndex(i, dim)
		p.load[c], p.unbuffered[c], p.total[c] = load, unbuffered, total
	}
	set(dimCPU, v.Registered.CPU-v.CPU, v.Registered.CPU, v.Registered.CPU)
	set(dimMemory, v.Registered.Memory-v.Memory, v.Registered.Memory, v.Registered.Memory)
	set(dimENI, 0, unlimited, unlimited)
	if n := v.Registered.ENIs; n != nil {
		set(dimENI, int64(*n-v.ENIs), int64(*n), int64(*n))
	}
	for m, dim := range p.dimOf {
		limit := v.Limit(m)
		if p.levels.capacity < 0 {
			limit = cluster.Limit{Unbuffered: unlimited, Total: unlimited}
		}
		set(dim, v.Load(m), limit.Unbuffered, limit.Total)
	}
}

// addOwners adds the owners whose tasks may move, in the order of names, and returns their numbers.
func (p *problem) addOwners(e *Planner, m Request, at map[string]int32) map[string]int32 {
	owners := make(map[string]int32, len(m.Owners))
	for _, name := range slices.Sorted(maps.Keys(m.Owners)) {
		owners[name] = int32(len(p.owners))
		p.addProblemOwner(e, name, m.Owners[name], at)
	}
	return owners
}

// addProblemOwner adds one owner. If placement constraints are switched off, tasks without a domain
// policy still need their attributes.
func (p *problem) addProblemOwner(e *Planner, name string, m Owner, at map[string]int32) {
	avoid := make(map[int]bool, len(m.Spec.Avoid))
	for _, id := range m.Spec.Avoid {
		if i, ok := at[id]; ok {
			avoid[int(i)] = true
		}
	}
	o := problemOwner{
		name: name, displayName: cmp.Or(m.Name, name), mover: m, maxPerInstance: int(m.Spec.MaxPerInstance()),
		isAvoided: func(i int) bool { return avoid[i] }, application: p.applicationNamed(m.Spec.Application),
	}
	// A taint NO_SCHEDULE keeps new tasks away, and no others.
	tolerant := *m.Spec
	tolerant.Tolerations = []cluster.Toleration{{AnyValue: true}}
	o.matches, o.suits = staticMatcher(p, &tolerant), staticMatcher(p, m.Spec)
	if dynamic := dynamicConstraints(m.Spec); len(dynamic) > 0 {
		o.isClosed = func(i int) bool { return openingOf(p.instances[i].view, name, dynamic) == closedByOthers }
	}
	if rule := domain.NewRule(m.Spec.DomainPolicy, m.Target, &e.snap.Configuration); rule.Governs() {
		o.domains = ownerDomains(p, &o, rule)
	} else if p.levels.placement < 0 {
		o.suits = staticMatcher(p, &placement.Spec{Attributes: m.Spec.Attributes, Tolerations: m.Spec.Tolerations})
	}
	p.owners = append(p.owners, o)
}

// staticMatcher returns a function that reports whether an instance satisfies the spec's attributes
// and static constraints. Owners with the same requirements share its results.
func staticMatcher(p *problem, spec *placement.Spec) func(i int) bool {
	key := requirementsKey(spec)
	known := p.matchesByKey[key]
	if known == nil {
		known = make([]uint8, len(p.instances))
		p.matchesByKey[key] = known
	}
	return func(i int) bool {
		if known[i] == 0 {
			v := p.instances[i].view
			known[i] = 1
			if eligibility.MeetsStatic(v, spec.Attributes, spec.Tolerations, spec.Constraints) {
				known[i] = 2
			}
		}
		return known[i] == 2
	}
}

// requirementsKey returns a text that differs for specs with different requirements.
func requirementsKey(spec *placement.Spec) string {
	key := strings.Join(spec.Attributes, "\x00")
	if len(spec.Tolerations) > 0 {
		key += "\x03" + cluster.TolerationsText(spec.Tolerations)
	}
	for _, x := range spec.Constraints {
		key += "\x01" + x.String()
	}
	return key
}

// ownerDomains returns the owner's domains without tasks. Owners with the same requirements share
// their structure, if no constraint is dynamic: building it reads all instances, and a cluster may have
// hundreds of owners.
func ownerDomains(p *problem, o *problemOwner, rule domain.Rule) *domain.Domains {
	key := requirementsKey(o.mover.Spec) + "\x02" + strings.Join(o.mover.Spec.Avoid, "\x00")
	if o.isClosed != nil {
		key += "\x04" + o.name // what is closed depends on whose tasks are there
	}
	if like := p.domainsByKey[key]; like != nil {
		return like.WithoutTasks(rule)
	}
	n := len(p.instances)
	fault, upgrade, standing := make([]string, n), make([]string, n), make([]domain.Standing, n)
	for i := range p.instances {
		v := p.instances[i].view
		fault[i], upgrade[i], standing[i] = v.FaultDomain(), v.UpgradeDomain(), domain.Eligible
		switch {
		case !p.instances[i].takesTasks:
			standing[i] = domain.Unavailable
		case o.isAvoided(i) || !o.suits(i) || o.isClosed != nil && o.isClosed(i):
			standing[i] = domain.Ineligible
		}
	}
	d := domain.NewDomains(fault, upgrade, standing, rule)
	p.domainsByKey[key] = d.WithoutTasks(rule)
	return d
}

// addScopedTasks adds the tasks that count. Tasks of owners that may not move are left out: their
// load is part of their instances'. Of tasks that are about to end, the load counts as
// ending.
func (p *problem) addScopedTasks(e *Planner, m Request, r *placement.Request, owners, at map[string]int32) {
	scoped := scopedTasks(p, e, &m, r)
	p.tasks = make([]problemTask, 0, len(scoped))
	for _, t := range scoped {
		i, here := at[t.Instance]
		if !here || !t.HoldsCapacity() {
			continue
		}
		o, moves := owners[t.Owner]
		switch {
		case !t.IsActive() || e.snap.HasReplacement(t):
			for _, a := range taskAmounts(p, e, t) {
				p.endingLoad[p.cellIndex(i, a.dim)] += a.amount
			}
			if moves {
				p.instances[i].endingOwners = append(p.instances[i].endingOwners, o)
			}
		case moves:
			p.tasks = append(p.tasks, problemTask{
				id: t.ID, task: t, owner: o, initial: i, amounts: taskAmounts(p, e, t), needs: t.Needs, gpus: t.GPUs,
				ports:   t.Ports,
				cost:    m.moveCostOf(t, p.owners[o].mover.Spec).Units(),
				movable: !t.Foreign && !m.Owners[t.Owner].Fixed && !e.isReplacing(t) && (m.Keep == nil || !m.Keep(t)),
			})
		}
	}
}

// isReplacing reports whether the task replaces one that is still there.
func (e *Planner) isReplacing(t *cluster.Task) bool {
	if t.Replaces == "" { // most tasks
		return false
	}
	old := e.snap.Task(t.Owner, t.Replaces)
	return old != nil && old.HoldsCapacity()
}

// moveCostOf returns what it costs to move the task.
func (m *Request) moveCostOf(t *cluster.Task, spec *placement.Spec) cluster.MoveCost {
	if m.Cost == nil {
		return spec.MoveCost
	}
	return cmp.Or(m.Cost(t), spec.MoveCost)
}

// taskAmounts returns what the task uses now: reported loads count before those of its service.
func taskAmounts(p *problem, e *Planner, t *cluster.Task) []resourceAmount {
	out := resourceAmounts(t.Needs)
	e.snap.LoadsOf(t, func(metric int, load int64) {
		if load > 0 {
			out = append(out, resourceAmount{p.dimOf[metric], load})
		}
	})
	slices.SortFunc(out, func(a, b resourceAmount) int { return cmp.Compare(a.dim, b.dim) })
	return p.addApplicationAmounts(p.applicationNamed(e.snap.ApplicationOf(t.Owner)), out)
}

// resourceAmounts returns the amounts of CPU, memory and interfaces that are not 0.
func resourceAmounts(r cluster.Resources) []resourceAmount {
	out := make([]resourceAmount, 0, fixedDims)
	for dim, n := range [fixedDims]int64{r.CPU, r.Memory, int64(r.ENIs)} {
		if n > 0 {
			out = append(out, resourceAmount{int32(dim), n})
		}
	}
	return out
}

// addNewcomers adds the request's tasks, which have no instance yet.
func (p *problem) addNewcomers(e *Planner, r *placement.Request, owner int32) {
	amounts := requestedAmounts(p, e, r)
	for range r.Count {
		p.tasks = append(p.tasks, problemTask{
			owner: owner, initial: -1, amounts: amounts, needs: r.Spec.Needs, ports: r.Spec.Ports, movable: true,
		})
	}
}

// requestedAmounts returns what one task of the request uses.
func requestedAmounts(p *problem, e *Planner, r *placement.Request) []resourceAmount {
	out := resourceAmounts(r.Spec.Needs)
	for _, l := range r.Spec.Loads {
		if l.Load > 0 {
			out = append(out, resourceAmount{p.dimOf[e.snap.MetricIndex(l.Name)], l.Load})
		}
	}
	return p.addApplicationAmounts(p.applicationNamed(r.Spec.Application), out)
}
