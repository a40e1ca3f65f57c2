package moves

import (
	"slices"

	"berth/shared/constraint"
	"berth/shared/placement"
	"berth/shared/placement/eligibility"
	"berth/shared/snapshot"
)

// watch knows whether anything is broken that moves could mend, by what has changed since it was
// asked last: an instance is looked at when something on it changes, an owner when one of its tasks
// does, or an instance that has some. It may take something for broken that is not, such as what is
// about to go; [Engine.PlanMoves] then looks closer. What it takes for sound is sound.
type watch struct {
	snap          *snapshot.Snapshot
	on            bool
	configuration int64        // its Rev
	over          map[int]bool // instances with more than they take
	rows          uint64       // counts changes of instances that domains could rest on
	owners        map[string]*watched
	// futile is the last plan, where it had no moves and nothing has happened since that could lead
	// to another: nothing came free, and nobody who is concerned changed. most is the number of
	// moves it was asked for.
	futile *Plan
	most   int
}

// watched is what was found of one owner's tasks.
type watched struct {
	static *placement.Spec // without the constraints that go by what runs on an instance: these are for new tasks
	mover  Owner
	rows   uint64 // of the watch
	broken bool
	stale  bool
}

// InstanceChanged implements [placement.Observer].
func (w *watch) InstanceChanged(i int, owner string, freed bool) {
	if !w.on {
		return
	}
	v := w.snap.InstancesByIndex()[i]
	over := w.over[i]
	if w.measure(i); freed || owner == "" || over || w.over[i] {
		w.futile = nil
	}
	if owner != "" {
		w.stale(owner)
		return
	}
	w.rows++
	if v != nil {
		for _, t := range v.Tasks {
			w.stale(t.Owner)
		}
	}
}

func (w *watch) stale(owner string) {
	if x := w.owners[owner]; x != nil {
		x.stale = true
	}
}

// measure looks whether the instance has more than it takes.
func (w *watch) measure(i int) {
	if exceeds(w.snap.InstancesByIndex()[i]) {
		w.over[i] = true
	} else {
		delete(w.over, i)
	}
}

// exceeds reports whether tasks that may leave the instance take more of it than they may.
func exceeds(v *snapshot.InstanceView) bool {
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

// restart forgets everything and looks at all instances.
func (w *watch) restart() {
	*w = watch{snap: w.snap, on: true, configuration: w.snap.Configuration.Rev, rows: w.rows + 1, over: map[int]bool{},
		owners: map[string]*watched{}}
	for i := range w.snap.InstancesByIndex() {
		w.measure(i)
	}
}

// sound reports whether no rule is broken that moves of these owners' tasks could mend. Where rules
// are ignored it does not know.
func (p *Planner) sound(m *Request) bool {
	w, rules := &p.watch, &p.snap.Configuration.Priorities
	if min(rules.Placement, rules.Capacity, rules.FaultDomain, rules.UpgradeDomain) < 0 {
		w.on = false
		return false
	}
	if !w.on || w.configuration != p.snap.Configuration.Rev {
		w.restart()
	}
	if len(w.owners) > len(m.Owners) { // some are gone
		w.owners, w.futile = map[string]*watched{}, nil
	}
	broken := false
	for name, owner := range m.Owners {
		x := w.owners[name]
		if x == nil || x.stale || x.mover != owner || x.rows != w.rows && owner.Spec.IsGoverned() {
			was := x
			x = &watched{mover: owner, rows: w.rows}
			if was != nil && was.mover.Spec == owner.Spec {
				x.static = was.static
			} else {
				x.static = withoutDynamic(owner.Spec)
			}
			if x.broken = p.engine.IsMisplaced(x.static, owner.Target); x.broken || was == nil || was.broken ||
				was.mover != owner {
				w.futile = nil
			}
			w.owners[name] = x
		}
		broken = broken || x.broken
	}
	return !broken && len(w.over) == 0
}

// repeats is the last plan if another look would come to the same; nil if not.
func (w *watch) repeats(m *Request) *Plan {
	if !w.on || m.Keep != nil || m.Cost != nil || m.Most != w.most || len(m.Owners) != len(w.owners) {
		return nil
	}
	return w.futile
}

// remember keeps a plan without moves.
func (w *watch) remember(m *Request, p *Plan) {
	if w.futile = nil; len(p.Moves) == 0 && m.Keep == nil && m.Cost == nil {
		w.futile, w.most = p, m.Most
	}
}

// withoutDynamic is the spec without the constraints that go by what runs on an instance.
func withoutDynamic(s *placement.Spec) *placement.Spec {
	dynamic := func(x *constraint.Expression) bool { return !x.Static() }
	if !slices.ContainsFunc(s.Constraints, dynamic) {
		return s
	}
	out := *s
	out.Constraints = slices.DeleteFunc(slices.Clone(s.Constraints), dynamic)
	return &out
}

// Reset implements [placement.Observer].
func (w *watch) Reset() { w.on = false }
