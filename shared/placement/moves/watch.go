package moves

import (
	"slices"

	"berth/shared/constraint"
	"berth/shared/placement"
	"berth/shared/placement/eligibility"
	"berth/shared/snapshot"
)

// A violationWatch knows, from what has changed since the last call, whether anything may be broken
// that moves could repair. It checks an instance after something on it changed, and an owner after
// one of its tasks changed, or an instance that has some. It may report a violation where there is
// none, such as load that is about to end; [Planner.PlanMoves] then looks closer. It never misses
// one. Decisions ask for moves in every batch, and nearly always nothing is broken: the watch makes
// that answer cheap.
type violationWatch struct {
	snap          *snapshot.Snapshot
	active        bool
	configuration int64        // revision of the cluster's
	overloaded    map[int]bool // instances
	rowChanges    uint64       // counts changes of instances that may affect domains
	owners        map[string]*ownerFinding
	children      map[string][]string // owners with an affinity, by that owner
	// emptyPlan is the last plan, if it had no moves and nothing has happened since that could lead
	// to another: no capacity became free, no instance opened or closed, and no concerned owner changed. It is
	// kept too long only for tasks that must move together to open an instance for each other. emptyPlanMost
	// is the Most of its request.
	emptyPlan     *Plan
	emptyPlanMost int
	// surplusNodes is on how many instances too many applications had tasks.
	surplusNodes int
	// touched has the instances, by index, that changed since the last question, while an owner has dynamic
	// constraints; if they are too many, touchedOverflowed says that any may have changed.
	touched               []int
	touchedOverflowed     bool
	hasDynamicConstraints bool
}

// An ownerFinding is what was found of one owner's tasks.
type ownerFinding struct {
	static     *placement.Spec          // the spec without dynamic constraints
	dynamic    []*constraint.Expression // these
	openings   []opening                // what they say, by index of the instance
	counts     [closedByOthers + 1]int  // of instances, by opening
	mover      Owner
	rowChanges uint64 // of the watch
	broken     bool
	stale      bool
}

// InstanceChanged implements [placement.Observer]. An earlier plan without moves stays valid while
// changes free no room and overload no instance.
func (w *violationWatch) InstanceChanged(i int, owner string, freed bool) {
	if !w.active {
		return
	}
	w.touch(i)
	v := w.snap.InstancesByIndex()[i]
	over := w.overloaded[i]
	if w.checkCapacity(i); freed || owner == "" || over || w.overloaded[i] {
		w.emptyPlan = nil
	}
	if owner != "" {
		w.markStale(owner)
		return
	}
	w.rowChanges++
	if v != nil {
		for _, t := range v.Tasks {
			w.markStale(t.Owner)
		}
	}
}

// touch notes an instance on which dynamic constraints have to be evaluated.
func (w *violationWatch) touch(i int) {
	switch {
	case !w.hasDynamicConstraints || w.touchedOverflowed:
	case len(w.touched) < len(w.snap.InstancesByIndex()):
		w.touched = append(w.touched, i)
	default:
		w.touchedOverflowed = true
	}
}

// followTouched makes the owners be checked again to which an instance has opened or closed. What could not be
// repaired may have another plan then.
func (w *violationWatch) followTouched() {
	if len(w.touched) == 0 {
		return
	}
	for name, finding := range w.owners {
		if len(finding.dynamic) > 0 && w.updateOpenings(name, finding) {
			finding.stale, w.emptyPlan = true, nil
		}
	}
	w.touched, w.touchedOverflowed = w.touched[:0], false
}

// updateOpenings evaluates the owner's dynamic constraints on the touched instances, or on all if it is not known
// which these are. It reports whether any result has changed.
func (w *violationWatch) updateOpenings(owner string, finding *ownerFinding) (changed bool) {
	views := w.snap.InstancesByIndex()
	evaluate := func(i int) {
		is := isOpen
		if views[i] != nil && eligibility.InCluster(views[i]) {
			is = openingOf(views[i], owner, finding.dynamic)
		}
		changed = changed || is != finding.openings[i]
		finding.counts[finding.openings[i]]--
		finding.openings[i] = is
		finding.counts[is]++
	}
	all := finding.openings == nil || w.touchedOverflowed
	if missing := len(views) - len(finding.openings); missing > 0 {
		finding.openings = append(finding.openings, make([]opening, missing)...)
		finding.counts[isOpen] += missing
	}
	if all {
		for i := range views {
			evaluate(i)
		}
		return changed
	}
	for _, i := range w.touched {
		evaluate(i)
	}
	return changed
}

// violatesRules reports whether one of the owner's rules is broken. Instances that others close are in no domain.
// Those that its own tasks close are: only where there are both, the domains are built for the question.
func (p *Planner) violatesRules(finding *ownerFinding) bool {
	switch {
	case finding.counts[closedByOthers] == 0:
		return p.engine.ViolatesRules(finding.static, finding.mover.Target, nil)
	case finding.counts[closedByOwn] == 0:
		return p.engine.ViolatesRules(finding.mover.Spec, finding.mover.Target, nil)
	}
	closed := make([]bool, len(finding.openings))
	for i, is := range finding.openings {
		closed[i] = is == closedByOthers
	}
	return p.engine.ViolatesRules(finding.static, finding.mover.Target, closed)
}

// markStale makes the owner be checked again at the next question.
func (w *violationWatch) markStale(owner string) {
	if finding := w.owners[owner]; finding != nil {
		finding.stale = true
	}
	for _, child := range w.children[owner] { // its tasks may have to follow, or may move to where this one has come
		if finding := w.owners[child]; finding != nil {
			finding.stale, w.emptyPlan = true, nil
		}
	}
}

// checkCapacity notes whether the instance is overloaded.
func (w *violationWatch) checkCapacity(i int) {
	if exceedsCapacity(w.snap.InstancesByIndex()[i]) {
		w.overloaded[i] = true
	} else {
		delete(w.overloaded, i)
	}
}

// exceedsCapacity reports whether tasks that may leave the instance use more of it than they may.
func exceedsCapacity(v *snapshot.InstanceView) bool {
	if v == nil || !eligibility.InCluster(v) || !v.IsAvailable() {
		return false
	}
	if v.CPU < 0 || v.Memory < 0 || v.ENIs < 0 {
		return true
	}
	for m := range v.Limits {
		if limit := v.Limits[m].Unbuffered; limit < unlimited && v.Load(m) > limit-v.ReservedLoad(m) {
			return true
		}
	}
	return v.ExceedsApplication()
}

// restartWatch forgets everything and checks all instances.
func (w *violationWatch) restartWatch() {
	*w = violationWatch{snap: w.snap, active: true, configuration: w.snap.Configuration.Rev,
		rowChanges: w.rowChanges + 1, overloaded: map[int]bool{}, owners: map[string]*ownerFinding{},
		children: map[string][]string{}}
	for i := range w.snap.InstancesByIndex() {
		w.checkCapacity(i)
	}
}

// findsNothing reports whether no rule is broken that moving these owners' tasks could repair. If
// rules are switched off it does not know, and reports false. Only owners that changed are checked.
// The rows of other instances matter to owners with a domain policy alone: a new rack may leave too
// many tasks in the old ones.
func (p *Planner) findsNothing(m *Request) bool {
	w, rules := &p.watch, &p.snap.Configuration.Priorities
	if min(rules.Placement, rules.Capacity, rules.FaultDomain, rules.UpgradeDomain, rules.Affinity) < 0 {
		w.active = false
		return false
	}
	if !w.active || w.configuration != p.snap.Configuration.Rev {
		w.restartWatch()
	}
	if len(w.owners) > len(m.Owners) { // some no longer exist
		w.owners, w.emptyPlan, w.hasDynamicConstraints = map[string]*ownerFinding{}, nil, false
		clear(w.children)
	}
	w.followTouched()
	surplus := placement.SurplusNodes(p.engine)
	if surplus != w.surplusNodes {
		w.surplusNodes, w.emptyPlan = surplus, nil
	}
	broken := surplus > 0
	for name, owner := range m.Owners {
		finding := w.owners[name]
		if finding == nil || finding.stale || finding.mover != owner ||
			finding.rowChanges != w.rowChanges && owner.Spec.IsGoverned() {
			was := finding
			finding = &ownerFinding{mover: owner, rowChanges: w.rowChanges}
			if was != nil && was.mover.Spec == owner.Spec {
				finding.static, finding.dynamic = was.static, was.dynamic
				finding.openings, finding.counts = was.openings, was.counts
			} else if dynamic := dynamicConstraints(owner.Spec); len(dynamic) == 0 {
				finding.static = owner.Spec
			} else {
				finding.static, finding.dynamic = withoutDynamicConstraints(owner.Spec), dynamic
				w.hasDynamicConstraints = true
				w.updateOpenings(name, finding)
			}
			finding.broken = p.violatesRules(finding)
			if finding.broken || was == nil || was.broken || was.mover != owner {
				w.emptyPlan = nil
			}
			w.owners[name] = finding
			w.noteParent(name, owner.Spec.Affinity)
		}
		broken = broken || finding.broken
	}
	return !broken && len(w.overloaded) == 0
}

// noteParent makes changes of the parent's tasks concern the owner, too.
func (w *violationWatch) noteParent(owner, parent string) {
	if parent != "" && !slices.Contains(w.children[parent], owner) {
		w.children[parent] = append(w.children[parent], owner)
	}
}

// repeatedPlan returns the last plan if planning again would give the same one, or nil.
func (w *violationWatch) repeatedPlan(m *Request) *Plan {
	if !w.active || m.Keep != nil || m.Cost != nil || m.Most != w.emptyPlanMost || len(m.Owners) != len(w.owners) {
		return nil
	}
	return w.emptyPlan
}

// rememberPlan keeps a plan without moves. Requests with functions are not kept: functions cannot
// be compared.
func (w *violationWatch) rememberPlan(m *Request, p *Plan) {
	if w.emptyPlan = nil; len(p.Moves) == 0 && m.Keep == nil && m.Cost == nil {
		w.emptyPlan, w.emptyPlanMost = p, m.Most
	}
}

// withoutDynamicConstraints returns a copy of the spec without its dynamic constraints.
func withoutDynamicConstraints(s *placement.Spec) *placement.Spec {
	out := *s
	out.Constraints = slices.DeleteFunc(slices.Clone(s.Constraints),
		func(x *constraint.Expression) bool { return !x.Static() })
	return &out
}

// Reset implements [placement.Observer].
func (w *violationWatch) Reset() { w.active = false }
