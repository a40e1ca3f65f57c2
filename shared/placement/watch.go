package placement

import (
	"slices"

	"berth/shared/constraint"
	"berth/shared/placement/eligibility"
	"berth/shared/snapshot"
)

// watch knows whether anything is broken that moves could mend, by what has changed since it was asked last: an instance
// is looked at when something on it changes, an owner when one of its tasks does, or an instance that has some. It may
// take something for broken that is not, such as what is about to go; [Engine.PlanMoves] then looks closer. What it takes
// for sound is sound.
type watch struct {
	on            bool
	configuration int64  // its Rev
	over          bits   // instances with more than they take
	overs         int    // how many
	rows          uint64 // counts changes of instances that domains could rest on
	owners        map[string]*watched
	// futile is the last plan, where it had no moves and nothing has happened since that could lead to another: nothing
	// came free, and nobody who is concerned changed. most is the number of moves it was asked for.
	futile *Plan
	most   int
}

// watched is what was found of one owner's tasks.
type watched struct {
	static *Spec // without the constraints that go by what runs on an instance: these are for new tasks
	mover  Mover
	rows   uint64 // of the watch
	broken bool
	stale  bool
}

// note takes in a change of an instance, as [cluster.Snapshot.ChangedSince] has it; eased says that something came free.
func (w *watch) note(e *Engine, i int, owner string, eased bool) {
	if !w.on {
		return
	}
	v := e.views[i]
	over := w.over.has(int32(i))
	if w.measure(e, i); eased || owner == "" || over || w.over.has(int32(i)) {
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
func (w *watch) measure(e *Engine, i int) {
	over, was := e.exceeds(e.views[i]), w.over.has(int32(i))
	if over == was {
		return
	}
	w.over.put(i, over)
	if w.overs--; over {
		w.overs += 2
	}
}

// exceeds reports whether tasks that may leave the instance take more of it than they may.
func (e *Engine) exceeds(v *snapshot.InstanceView) bool {
	if v == nil || !eligibility.InCluster(v) || !v.Available() {
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
func (w *watch) restart(e *Engine) {
	*w = watch{on: true, configuration: e.snap.Configuration.Rev, rows: w.rows + 1, owners: map[string]*watched{}}
	for i := range e.views {
		w.measure(e, i)
	}
}

// eases reports whether the change of an instance, not yet measured, makes room there.
func (e *Engine) eases(i int, v *snapshot.InstanceView) bool {
	if v == nil || v.CPU > e.cpu[i] || v.Memory > e.memory[i] || v.ENIs > e.enis[i] || int64(len(v.Tasks)) < e.columns.tasks[i] {
		return true
	}
	if entire, share, _ := devices(v); int32(entire) > e.entire[i] || int32(share) > e.share[i] {
		return true
	}
	ports := uint64(0)
	for _, p := range v.Ports {
		ports |= portBit(p)
	}
	if e.columns.ports[i]&^ports != 0 {
		return true
	}
	for m := range e.metrics {
		if v.Load(m) < e.metrics[m].load[i] {
			return true
		}
	}
	return false
}

// sound reports whether no rule is broken that moves of these owners' tasks could mend. Where rules are ignored it does
// not know.
func (e *Engine) sound(m *Moves) bool {
	w, p := &e.watch, &e.snap.Configuration.Priorities
	if min(p.Placement, p.Capacity, p.FaultDomain, p.UpgradeDomain) < 0 {
		w.on = false
		return false
	}
	if !w.on || w.configuration != e.snap.Configuration.Rev {
		w.restart(e)
	}
	if len(w.owners) > len(m.Owners) { // some are gone
		w.owners, w.futile = map[string]*watched{}, nil
	}
	broken := false
	for name, owner := range m.Owners {
		x := w.owners[name]
		if x == nil || x.stale || x.mover != owner || x.rows != w.rows && owner.Spec.governed() {
			was := x
			x = &watched{mover: owner, rows: w.rows}
			if was != nil && was.mover.Spec == owner.Spec {
				x.static = was.static
			} else {
				x.static = owner.Spec.static()
			}
			if x.broken = e.breaks(x.static, owner.Target); x.broken || was == nil || was.broken || was.mover != owner {
				w.futile = nil
			}
			w.owners[name] = x
		}
		broken = broken || x.broken
	}
	return !broken && w.overs == 0
}

// repeats is the last plan if another look would come to the same; nil if not.
func (w *watch) repeats(m *Moves) *Plan {
	if !w.on || m.Keep != nil || m.Cost != nil || m.Most != w.most || len(m.Owners) != len(w.owners) {
		return nil
	}
	return w.futile
}

// remember keeps a plan without moves.
func (w *watch) remember(m *Moves, p *Plan) {
	if w.futile = nil; len(p.Moves) == 0 && m.Keep == nil && m.Cost == nil {
		w.futile, w.most = p, m.Most
	}
}

// static is the spec without the constraints that go by what runs on an instance.
func (s *Spec) static() *Spec {
	dynamic := func(x *constraint.Expression) bool { return !x.Static() }
	if !slices.ContainsFunc(s.Constraints, dynamic) {
		return s
	}
	out := *s
	out.Constraints = slices.DeleteFunc(slices.Clone(s.Constraints), dynamic)
	return &out
}

// breaks reports whether a task of the spec's owner is where it should not be, or its tasks are spread as they should not
// be.
func (e *Engine) breaks(spec *Spec, target int) bool {
	c := e.class(&Request{Spec: spec, Target: target}, 0)
	if c.domains != nil {
		if fault, upgrade := c.domains.Excess(); fault+upgrade > 0 {
			return true
		}
	}
	if c.most == 0 && len(c.members.mask.attributes)+len(c.members.mask.rules) == 0 {
		return false // they may be anywhere
	}
	for _, t := range e.snap.Owned(spec.Owner) {
		v := e.snap.Instances[t.Instance]
		if !t.Active() || !t.Holds() || v == nil || !eligibility.InCluster(v) || !v.Available() {
			continue
		}
		if !c.members.mask.passes[v.Index] && !slices.Contains(spec.Avoid, v.ID) || c.most > 0 && c.tally.active[int32(v.Index)] > c.most {
			return true
		}
	}
	return false
}
