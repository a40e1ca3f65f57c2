package scaling

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/placement/domain"
)

// Demand is a group of waiting tasks that all need the same, and what they need of the capacity
// provider (C2).
type Demand struct {
	Owners []string // as [WaitingTasks] names them, in order
	Count  int
	// Fitting have room on the instances that there are, and only wait to be placed.
	Fitting int
	// PerInstance is how many fit on an empty instance of the largest size, and Limit what keeps
	// out the next; empty if nothing does. The largest size has the most of each resource that any
	// of the group's instance types has.
	PerInstance int
	Limit       string
	// Instances is the smallest number of new instances that the rest needs.
	Instances int
	// ExcludedBecause is why the tasks are ignored: not one fits an empty instance of the smallest
	// size. Empty if they count.
	ExcludedBecause string
}

// demandPlan is what the waiting tasks need.
type demandPlan struct {
	demands []Demand
	// instances is how many are needed besides those that there are.
	instances int
	events    []Event
}

// hasWaiting reports whether tasks wait that count: for instances, or to be placed.
func (p demandPlan) hasWaiting() bool {
	return slices.ContainsFunc(p.demands, func(d Demand) bool { return d.Fitting > 0 || d.Instances > 0 })
}

// demandGroup is a demand while it is computed, with what all of its tasks need.
type demandGroup struct {
	Demand
	spec   *placement.Spec
	target int
	// mostInstances is how many more instances the limits of the tasks' application allow.
	mostInstances int
}

// computeDemand works out what the waiting tasks need (C2). Tasks are grouped by identical
// requirements. Those that fit on existing instances are subtracted. Each group needs a number of
// instances of the largest size, and the largest of these numbers counts, within the step sizes,
// less the instances that are about to register.
func computeDemand(v *view, samples []cluster.InstanceSample) (p demandPlan) {
	if len(v.Waiting) == 0 {
		return p
	}
	groups := groupWaiting(v)
	model := newLaunchModel(v, samples)
	if len(model.samples) == 0 {
		return guessDemand(v, groups)
	}
	largest := newSampleCluster(v, model, largestSize(model.samples))
	smallest := newSampleCluster(v, model, smallestSize(model.samples))
	most := 0
	for _, g := range groups {
		d := g.boundByPacking(model, largest, smallest)
		most = max(most, d.Instances)
		p.demands = append(p.demands, d)
		if d.ExcludedBecause != "" {
			p.events = append(p.events, leftOutEvents(v, d)...)
		}
	}
	if model.sizesOnly && v.hasRegistering() {
		return p
	}
	if most -= v.arriving; most > 0 {
		p.instances = min(max(most, v.settings.MinStep), v.settings.MaxStep)
	}
	return p
}

// guessDemand returns the demand while neither an instance of the group nor its types are known: at
// least one is needed, and the next decision will know more. If an instance is on its way, that one
// will show it.
func guessDemand(v *view, groups []*demandGroup) (p demandPlan) {
	for _, g := range groups {
		g.Instances = 1
		p.demands = append(p.demands, g.Demand)
	}
	if v.arriving == 0 && !v.hasRegistering() {
		p.instances = min(v.settings.MinStep, v.settings.MaxStep)
	}
	return p
}

// hasRegistering reports whether ECS knows an instance already that may still take tasks in time.
func (v *view) hasRegistering() bool {
	return slices.ContainsFunc(v.instances, func(m *instance) bool {
		return m.counts && m.node != nil && m.node.Status == cluster.InstanceRegistering &&
			v.Now.Sub(m.launchedAt) < v.registrationTimeout()
	})
}

// groupWaiting groups the waiting tasks by what they need, the largest first, and counts how many
// of each fit now.
func groupWaiting(v *view) (groups []*demandGroup) {
	order := slices.SortedStableFunc(slices.Values(v.Waiting), func(a, b WaitingTasks) int {
		return cmp.Or(compareNeeds(a.Spec.Needs, b.Spec.Needs), cmp.Compare(a.Name, b.Name))
	})
	open := openInstances(v)
	try := &simulation{snap: v.Snapshot, engine: v.engine()}
	defer try.undoSteps(0)
	byNeed := map[string]*demandGroup{}
	for _, w := range order {
		if w.Count <= 0 {
			continue
		}
		key := requirementsKey(w.Spec)
		g := byNeed[key]
		if g == nil {
			g = &demandGroup{spec: w.Spec, target: w.Target}
			byNeed[key] = g
			groups = append(groups, g)
		}
		g.Owners = append(g.Owners, w.Name)
		g.Count += w.Count
		if len(open) > 0 {
			g.Fitting += try.placeWaiting(w, open)
		}
	}
	for _, g := range groups { // new instances do not help against the limits of an application
		instances, tasks := placement.ApplicationRoom(v.engine(), g.spec)
		g.mostInstances, g.Count = instances, g.Fitting+min(g.Count-g.Fitting, tasks)
	}
	return slices.DeleteFunc(groups, func(g *demandGroup) bool {
		return g.Count == 0 || g.Fitting == 0 &&
			g.mostInstances == 0
	})
}

// openInstances returns the group's container instances that take tasks.
func openInstances(v *view) (ids []string) {
	for _, m := range v.instances {
		if m.counts && m.node != nil && m.node.IsAvailable() {
			ids = append(ids, m.node.ID)
		}
	}
	return ids
}

// requirementsKey is the same for specs that need the same.
// Specs of different owners differ if a task may not share an instance with others of its owner.
func requirementsKey(s *placement.Spec) string {
	ports := slices.Clone(s.Ports)
	slices.SortFunc(ports, func(a, b cluster.Port) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Protocol, b.Protocol))
	})
	var rules []string
	for _, x := range s.Constraints {
		rules = append(rules, x.String())
	}
	slices.Sort(rules)
	owner := ""
	if s.PerInstance > 0 || hasDomainRule(s) {
		owner = s.Owner + " " + s.Group
	}
	return fmt.Sprintf("%+v %v %q %q %v %s %s %s", s.Needs, ports, slices.Sorted(slices.Values(s.Attributes)), rules,
		s.Loads, owner, cluster.TolerationsText(s.Tolerations), s.Affinity+" "+s.Application)
}

func hasDomainRule(s *placement.Spec) bool { return domain.Rule{Policy: s.DomainPolicy}.Governs() }

// boundByPacking computes the smallest number of instances that the group's tasks need besides the
// room that there is.
func (g *demandGroup) boundByPacking(model launchModel, largest, smallest *sampleCluster) Demand {
	d, spec := g.Demand, *model.knownNeeds(g.spec)
	spec.AllOrNothing = false
	if hasDomainRule(&spec) { // it is not known which domains new instances will be in
		spec.DomainPolicy, spec.PerInstance = "", 1
	}
	one := placement.Request{Spec: &spec, Count: 1, Target: g.target, Unexplained: true}
	if fits, why := smallest.capacityFor(one); fits == 0 {
		d.ExcludedBecause = model.describeTooLarge(one, why, largest)
		return d
	}
	all := one
	all.Count = d.Count
	var why *cluster.Diagnosis
	d.PerInstance, why = largest.capacityFor(all)
	if why != nil {
		d.Limit = describeRejection(why)
	}
	if rest := d.Count - d.Fitting; rest > 0 && d.PerInstance > 0 {
		d.Instances = min((rest+d.PerInstance-1)/d.PerInstance, g.mostInstances)
	}
	return d
}

// describeRejection describes the one rejection of a diagnosis, without its count.
func describeRejection(d *cluster.Diagnosis) string {
	return strings.TrimPrefix(d.Rejected[0].String(), "1 ")
}

func leftOutEvents(v *view, d Demand) (events []Event) {
	for _, owner := range d.Owners {
		events = append(events, Event{Owner: owner, Key: "left out " + v.Provider.Name + " " + owner,
			Message: fmt.Sprintf("(%s) tasks are ignored when capacity provider %s scales out: %s.", owner,
				v.Provider.Name, d.ExcludedBecause)})
	}
	return events
}

// String describes the demand: "12 tasks of service web need 3 instances, 5 fit on one at most
// (insufficient CPU ...)".
func (d *Demand) String() string {
	owners := strings.Join(d.Owners, ", ")
	switch {
	case d.ExcludedBecause != "":
		return fmt.Sprintf("%s of %s: ignored, because %s", pluralize(d.Count, "task"), owners, d.ExcludedBecause)
	case d.Instances == 0:
		return fmt.Sprintf("%s of %s: there is room, and placement has not used it yet", pluralize(d.Count, "task"),
			owners)
	}
	rest, verb := d.Count-d.Fitting, "need"
	if rest == 1 {
		verb = "needs"
	}
	out := fmt.Sprintf("%s of %s %s %s", pluralize(rest, "task"), owners, verb, pluralize(d.Instances, "instance"))
	if d.PerInstance == 0 {
		return out + " at least: no instance of the group is known yet"
	}
	out += fmt.Sprintf(", %d fit on one at most", d.PerInstance)
	if d.Limit != "" {
		out += " (" + d.Limit + ")"
	}
	return out
}

// LimitExceeded is what ECS says of tasks that would wait while too many already do (C4).
const LimitExceeded = "The tasks provisioning capacity limit was exceeded."

// AdmitWaiting returns how many of the requested tasks may wait for an instance, if waiting ones of
// the cluster already do and at most limit may (C4). If that is not all of them, it also fails with
// a ClientException in ECS's words.
func AdmitWaiting(waiting, requested, limit int) (int, error) {
	admitted := max(0, min(requested, limit-waiting))
	if admitted < requested {
		return admitted, cluster.Errorf(cluster.CodeClient, LimitExceeded)
	}
	return admitted, nil
}
