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
}

// An ownerFinding is what was found of one owner's tasks.
type ownerFinding struct {
	// static is the spec without constraints that depend on other tasks: these bind new tasks only.
	static     *placement.Spec
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
		w.owners, w.emptyPlan = map[string]*ownerFinding{}, nil
		clear(w.children)
	}
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
				finding.static = was.static
			} else {
				finding.static = withoutDynamicConstraints(owner.Spec)
			}
			finding.broken = p.engine.ViolatesRules(finding.static, owner.Target)
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
	dynamic := func(x *constraint.Expression) bool { return !x.Static() }
	if !slices.ContainsFunc(s.Constraints, dynamic) {
		return s
	}
	out := *s
	out.Constraints = slices.DeleteFunc(slices.Clone(s.Constraints), dynamic)
	return &out
}

// Reset implements [placement.Observer].
func (w *violationWatch) Reset() { w.active = false }
