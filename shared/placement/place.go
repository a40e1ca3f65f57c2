package placement

import (
	"slices"

	"berth/shared/cluster"
	"berth/shared/placement/eligibility"
	"berth/shared/snapshot"
)

// Place chooses instances for the tasks of a request, one after the other, each accounting for
// those before it: of the instances that pass every filter the one that comes first by the
// strategies (S3), or by S2 where there are none. Soft rules are given up for what would otherwise
// find no instance. The snapshot stays as it is; the same snapshot and request always give the same
// answer.
func (e *Engine) Place(r Request) Result { return e.PlaceInto(nil, r) }

// PlaceInto is Place for callers who place much: it appends the placements to dst.
func (e *Engine) PlaceInto(dst []Placement, r Request) Result {
	if r.Count <= 0 {
		return Result{Placed: dst}
	}
	e.sync()
	e.hold(r.Refused)
	defer e.release()
	p := pass{engine: e, request: r, placed: dst, before: len(dst)}
	p.run()
	out := Result{Placed: p.placed}
	if rest := p.rest(); rest > 0 {
		if r.Spec.AllOrNothing && p.class.tally.total == int64(len(p.placed)-p.before) {
			out.Placed, rest = dst, r.Count
		}
		if !r.Unexplained {
			out.Diagnosis = newDiagnosis(p.class, &r, rest)
		}
	}
	undoPlacements(e, r.Spec)
	return out
}

// pass is one call of Place on its way.
type pass struct {
	engine  *Engine
	class   *class
	request Request
	placed  []Placement
	before  int // what was placed before this call
}

func (p *pass) rest() int { return p.request.Count - len(p.placed) + p.before }

// run places as many tasks as it can, by all rules first, then without the soft ones.
func (p *pass) run() {
	e := p.engine
	for step := range relaxations + 1 {
		given := relaxed(&e.snap.Configuration.Priorities, step)
		if p.class != nil && given == p.class.given {
			continue
		}
		p.class = classFor(e, &p.request, given)
		e.placed.classes = append(e.placed.classes, p.class)
		if p.request.Instances != nil {
			p.named()
		} else {
			p.any()
		}
		if p.rest() == 0 {
			return
		}
	}
}

// any places tasks wherever they fit.
func (p *pass) any() {
	p.class.rank(p.rest())
	for p.rest() > 0 {
		i := p.class.pick(p.request.Seed, len(p.placed)-p.before)
		if i >= 0 {
			p.take(int(i))
		} else if !p.detour() {
			return
		}
	}
}

// take gives the next task to the instance.
func (p *pass) take(i int) {
	e := p.engine
	gpus := assignDevices(e, i, p.request.Spec.Needs)
	p.placed = append(p.placed, Placement{Instance: e.views[i].ID, GPUs: gpus})
	if p.rest() > 0 {
		p.class.put(i, gpus)
	}
}

// wish is an instance that a request names.
type wish struct {
	instance int
	at       int // its place in the requested order
	placed   int // by this call
	fitness  fitness
}

// named places tasks on the instances that the request names: those first that need no buffer, then
// those with the fewest by this call, then in the requested order.
func (p *pass) named() {
	q := queue[*wish]{less: wishBefore}
	seen := make(map[string]bool, len(p.request.Instances))
	for at, id := range p.request.Instances {
		v := p.engine.snap.Instances[id]
		if v == nil || !eligibility.InCluster(v) || seen[id] {
			continue
		}
		seen[id] = true
		w := &wish{instance: v.Index, at: at, placed: p.engine.placed.count(v.Index)}
		if w.fitness = p.fitness(v.Index); p.class.allows(w.fitness) {
			q.items = append(q.items, w)
		}
	}
	q.init()
	var shut []*wish // their domains take no more for now
	for p.rest() > 0 && len(q.items) > 0 {
		w := q.top()
		if !p.class.admits(w.instance) {
			shut = append(shut, w)
			q.pop()
			continue
		}
		p.take(w.instance)
		w.placed++
		w.fitness = p.fitness(w.instance)
		if p.class.allows(w.fitness) {
			q.fix()
		} else {
			q.pop()
		}
		if len(shut) > 0 {
			q.items, shut = append(q.items, shut...), shut[:0]
			q.init()
		}
	}
}

func (p *pass) fitness(i int) fitness {
	if concernsOccupied(p.class) && !passesOccupied(p.class, i) {
		return unfit
	}
	return p.class.fitness(i)
}

func wishBefore(a, b *wish) bool {
	switch {
	case a.fitness != b.fitness:
		return a.fitness < b.fitness
	case a.placed != b.placed:
		return a.placed < b.placed
	}
	return a.at < b.at
}

// Check looks at one instance: the devices that a task of the request would get there, or the first
// filter that refuses it, soft rules given up where need be. An instance that is unknown or gone
// counts as not active.
func (e *Engine) Check(v *snapshot.InstanceView, r Request) (gpus []int, rejected *cluster.Rejection) {
	if v == nil || !eligibility.InCluster(v) {
		return nil, &cluster.Rejection{Filter: cluster.FilterStatus, Count: 1, Detail: string(cluster.InstanceInactive)}
	}
	e.sync()
	e.hold(r.Refused)
	defer e.release()
	for step := range relaxations + 1 {
		c := classFor(e, &r, relaxed(&e.snap.Configuration.Priorities, step))
		f := firstRefusal(c, v.Index)
		if f == nil {
			return assignDevices(e, v.Index, r.Spec.Needs), nil
		}
		why := f.reject(c, v.Index)
		rejected = &why
	}
	return nil, rejected
}

// Matches reports whether the instance has the attributes and meets the constraints, whatever its
// status and room: a DAEMON's task stays only where it does (S4). Of an instance that is unknown
// nothing is held against it.
func (e *Engine) Matches(v *snapshot.InstanceView, spec *Spec) bool {
	if v == nil || v.Instance == nil {
		return true
	}
	e.sync()
	c := classFor(e, &Request{Spec: spec}, relaxed(&e.snap.Configuration.Priorities, 0))
	return passesAttributes(c, v.Index) && passesConstraints(c, v.Index)
}

// Eligible are the instances that should have a task of a DAEMON service (S4): ACTIVE, schedulable,
// with the attributes and meeting the constraints, whether there is room or not and whether the
// agent is connected or not. In order of id.
func (e *Engine) Eligible(spec *Spec) []string {
	e.sync()
	c := classFor(e, &Request{Spec: spec}, relaxed(&e.snap.Configuration.Priorities, 0))
	var out []string
	for i := range e.views {
		if e.listed[i] && passesStatus(c, i) && passesCordon(c, i) && passesAttributes(c, i) &&
			passesConstraints(c, i) {
			out = append(out, e.views[i].ID)
		}
	}
	slices.Sort(out)
	return out
}
