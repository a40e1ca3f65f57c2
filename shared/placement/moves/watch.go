package moves

import (
	"slices"

	"berth/shared/constraint"
	"berth/shared/placement"
	"berth/shared/placement/eligibility"
	"berth/shared/snapshot"
)

// violationWatch knows whether anything is broken that moves could mend, by what has changed since it was
// asked last: an instance is looked at when something on it changes, an owner when one of its tasks
// does, or an instance that has some. It may take something for broken that is not, such as what is
// about to go; [Engine.PlanMoves] then looks closer. What it takes for sound is sound.
type violationWatch struct {
	snap          *snapshot.Snapshot
	active        bool
	configuration int64        // its Rev
	overloaded    map[int]bool // instances with more than they take
	rowChanges    uint64       // counts changes of instances that domains could rest on
	owners        map[string]*ownerFinding
	// emptyPlan is the last plan, where it had no moves and nothing has happened since that could lead
	// to another: nothing came free, and nobody who is concerned changed. most is the number of
	// moves it was asked for.
	emptyPlan     *Plan
	emptyPlanMost int
}

// ownerFinding is what was found of one owner's tasks.
type ownerFinding struct {
	static     *placement.Spec // without the constraints that go by what runs on an instance: these are for new tasks
	mover      Owner
	rowChanges uint64 // of the watch
	broken     bool
	stale      bool
}

// InstanceChanged implements [placement.Observer].
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

func (w *violationWatch) markStale(owner string) {
	if finding := w.owners[owner]; finding != nil {
		finding.stale = true
	}
}

// checkCapacity looks whether the instance has more than it takes.
func (w *violationWatch) checkCapacity(i int) {
	if exceedsCapacity(w.snap.InstancesByIndex()[i]) {
		w.overloaded[i] = true
	} else {
		delete(w.overloaded, i)
	}
}

// exceedsCapacity reports whether tasks that may leave the instance take more of it than they may.
func exceedsCapacity(v *snapshot.InstanceView) bool {
	if v == nil || !eligibility.InCluster(v) || !v.IsAvailable() {
		return false
	}
	if v.CPU < 0 || v.Memory < 0 || v.ENIs < 0 {
		return true
	}
	for m := range v.Loads {
		if v.Loads[m] > v.Limit(m).Unbuffered {
			return true
		}
	}
	return false
}

// restartWatch forgets everything and looks at all instances.
func (w *violationWatch) restartWatch() {
	*w = violationWatch{snap: w.snap, active: true, configuration: w.snap.Configuration.Rev,
		rowChanges: w.rowChanges + 1, overloaded: map[int]bool{},
		owners: map[string]*ownerFinding{}}
	for i := range w.snap.InstancesByIndex() {
		w.checkCapacity(i)
	}
}

// findsNothing reports whether no rule is broken that moves of these owners' tasks could mend. Where rules
// are ignored it does not know.
func (p *Planner) findsNothing(m *Request) bool {
	w, rules := &p.watch, &p.snap.Configuration.Priorities
	if min(rules.Placement, rules.Capacity, rules.FaultDomain, rules.UpgradeDomain) < 0 {
		w.active = false
		return false
	}
	if !w.active || w.configuration != p.snap.Configuration.Rev {
		w.restartWatch()
	}
	if len(w.owners) > len(m.Owners) { // some are gone
		w.owners, w.emptyPlan = map[string]*ownerFinding{}, nil
	}
	broken := false
	for name, owner := range m.Owners {
		finding := w.owners[name]
		if finding == nil || finding.stale || finding.mover != owner || finding.rowChanges != w.rowChanges &&
			owner.Spec.IsGoverned() {
			was := finding
			finding = &ownerFinding{mover: owner, rowChanges: w.rowChanges}
			if was != nil && was.mover.Spec == owner.Spec {
				finding.static = was.static
			} else {
				finding.static = withoutDynamicConstraints(owner.Spec)
			}
			if finding.broken = p.engine.ViolatesRules(finding.static, owner.Target); finding.broken || was == nil ||
				was.broken ||
				was.mover != owner {
				w.emptyPlan = nil
			}
			w.owners[name] = finding
		}
		broken = broken || finding.broken
	}
	return !broken && len(w.overloaded) == 0
}

// repeatedPlan is the last plan if another look would come to the same; nil if not.
func (w *violationWatch) repeatedPlan(m *Request) *Plan {
	if !w.active || m.Keep != nil || m.Cost != nil || m.Most != w.emptyPlanMost || len(m.Owners) != len(w.owners) {
		return nil
	}
	return w.emptyPlan
}

// rememberPlan keeps a plan without moves.
func (w *violationWatch) rememberPlan(m *Request, p *Plan) {
	if w.emptyPlan = nil; len(p.Moves) == 0 && m.Keep == nil && m.Cost == nil {
		w.emptyPlan, w.emptyPlanMost = p, m.Most
	}
}

// withoutDynamicConstraints is the spec without the constraints that go by what runs on an instance.
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
