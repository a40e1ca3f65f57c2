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
	// to another: no capacity became free, and no concerned owner changed. emptyPlanMost is the
	// Most of its request.
	emptyPlan     *Plan
	emptyPlanMost int
	// surplusNodes is on how many instances too many applications had tasks.
	surplusNodes int
	// touched are the instances, by index, on which something has changed since the last question. They are
	// noted while an owner has constraints on other tasks, and only so many as there are instances.
	touched        []int
	closesAny      bool // an owner has such constraints
	touchedTooMany bool
}

// An ownerFinding is what was found of one owner's tasks.
type ownerFinding struct {
	// static is the spec without constraints that depend on other tasks: these bind new tasks only.
	static     *placement.Spec
	dynamic    []*constraint.Expression // those constraints
	closed     []bool                   // instances, by index, that they close to moves
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

// touch notes an instance that constraints on other tasks have to be evaluated on.
func (w *violationWatch) touch(i int) {
	switch {
	case !w.closesAny || w.touchedTooMany:
	case len(w.touched) < len(w.snap.InstancesByIndex()):
		w.touched = append(w.touched, i)
	default:
		w.touchedTooMany = true
	}
}

// followTasks makes the owners be checked again to which tasks of others have closed or opened an instance.
// What could not be repaired before may have another plan then.
func (w *violationWatch) followTasks() {
	if len(w.touched) == 0 && !w.touchedTooMany {
		return
	}
	for name, finding := range w.owners {
		if len(finding.dynamic) > 0 && w.updateClosed(name, finding) {
			finding.stale, w.emptyPlan = true, nil
		}
	}
	w.touched, w.touchedTooMany = w.touched[:0], false
}

// updateClosed evaluates the owner's constraints on other tasks where something has changed, on all instances
// if it is not known where. It reports whether a result is another one.
func (w *violationWatch) updateClosed(owner string, finding *ownerFinding) (differs bool) {
	views := w.snap.InstancesByIndex()
	evaluate := func(i int) {
		is := views[i] != nil && eligibility.InCluster(views[i]) && isClosed(views[i], owner, finding.dynamic)
		differs = differs || is != finding.closed[i]
		finding.closed[i] = is
	}
	all := finding.closed == nil || w.touchedTooMany
	if missing := len(views) - len(finding.closed); missing > 0 {
		finding.closed = append(finding.closed, make([]bool, missing)...)
	}
	if all {
		for i := range views {
			evaluate(i)
		}
		return differs
	}
	for _, i := range w.touched {
		evaluate(i)
	}
	return differs
}

// markStale makes the owner be checked again at the next question.
func (w *violationWatch) markStale(owner string) {
	if finding := w.owners[owner]; finding != nil {
		finding.stale = true
	}
	for _, child := range w.children[owner] { // its tasks may have to follow
		if finding := w.owners[child]; finding != nil {
			finding.stale = true
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
		w.owners, w.emptyPlan, w.closesAny = map[string]*ownerFinding{}, nil, false
		clear(w.children)
	}
	w.followTasks()
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
				finding.static, finding.dynamic, finding.closed = was.static, was.dynamic, was.closed
			} else {
				finding.static, finding.dynamic = owner.Spec, dynamicConstraints(owner.Spec)
				if len(finding.dynamic) > 0 {
					finding.static = withoutDynamicConstraints(owner.Spec)
					w.closesAny = true
					w.updateClosed(name, finding)
				}
			}
			finding.broken = p.engine.ViolatesRules(finding.static, owner.Target, finding.closed)
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

// withoutDynamicConstraints returns the spec without constraints that depend on other tasks.
func withoutDynamicConstraints(s *placement.Spec) *placement.Spec {
	out := *s
	out.Constraints = slices.DeleteFunc(slices.Clone(s.Constraints),
		func(x *constraint.Expression) bool { return !x.Static() })
	return &out
}

// Reset implements [placement.Observer].
func (w *violationWatch) Reset() { w.active = false }
