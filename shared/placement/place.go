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
	e.holdBack(r.Refused)
	defer e.releaseHeldBack()
	p := placer{engine: e, request: r, placed: dst, countBefore: len(dst)}
	p.placeTasks()
	out := Result{Placed: p.placed}
	if rest := p.remaining(); rest > 0 {
		if r.Spec.AllOrNothing && p.chooser.counts.total == int64(len(p.placed)-p.countBefore) {
			out.Placed, rest = dst, r.Count
		}
		if !r.Unexplained {
			out.Diagnosis = newDiagnosis(p.chooser, &r, rest)
		}
	}
	undoPlacements(e, r.Spec)
	return out
}

// placer is one call of Place on its way.
type placer struct {
	engine      *Engine
	chooser     *chooser
	request     Request
	placed      []Placement
	countBefore int // what was placed before this call
}

func (p *placer) remaining() int { return p.request.Count - len(p.placed) + p.countBefore }

// placeTasks places as many tasks as it can, by all rules first, then without the soft ones.
func (p *placer) placeTasks() {
	e := p.engine
	for step := range relaxationSteps + 1 {
		relaxed := relaxationAt(&e.snap.Configuration.Priorities, step)
		if p.chooser != nil && relaxed == p.chooser.relaxed {
			continue
		}
		p.chooser = chooserFor(e, &p.request, relaxed)
		e.overlay.choosers = append(e.overlay.choosers, p.chooser)
		if p.request.Instances != nil {
			p.placeOnRequested()
		} else {
			p.placeAnywhere()
		}
		if p.remaining() == 0 {
			return
		}
	}
}

// placeAnywhere places tasks wherever they fit.
func (p *placer) placeAnywhere() {
	p.chooser.prepareIndex(p.remaining())
	for p.remaining() > 0 {
		i := p.chooser.pickInstance(p.request.Seed, len(p.placed)-p.countBefore)
		if i >= 0 {
			p.placeOn(int(i))
		} else if !p.placeBySwaps() {
			return
		}
	}
}

// placeOn gives the next task to the instance.
func (p *placer) placeOn(i int) {
	e := p.engine
	gpus := assignDevices(e, i, p.request.Spec.Needs)
	p.placed = append(p.placed, Placement{Instance: e.views[i].ID, GPUs: gpus})
	if p.remaining() > 0 {
		p.chooser.addToOverlay(i, gpus)
	}
}

// preferredInstance is an instance that a request names.
type preferredInstance struct {
	instance    int
	position    int // its place in the requested order
	placed      int // by this call
	feasibility feasibility
}

// placeOnRequested places tasks on the instances that the request names: those first that need no buffer, then
// those with the fewest by this call, then in the requested order.
func (p *placer) placeOnRequested() {
	q := queue[*preferredInstance]{less: comesBefore}
	seen := make(map[string]bool, len(p.request.Instances))
	for at, id := range p.request.Instances {
		v := p.engine.snap.Instances[id]
		if v == nil || !eligibility.InCluster(v) || seen[id] {
			continue
		}
		seen[id] = true
		next := &preferredInstance{instance: v.Index, position: at, placed: p.engine.overlay.countOn(v.Index)}
		if next.feasibility = p.feasibilityOf(v.Index); p.chooser.accepts(next.feasibility) {
			q.items = append(q.items, next)
		}
	}
	q.heapify()
	var closed []*preferredInstance // their domains take no more for now
	for p.remaining() > 0 && len(q.items) > 0 {
		next := q.top()
		if !p.chooser.domainsAdmit(next.instance) {
			closed = append(closed, next)
			q.popTop()
			continue
		}
		p.placeOn(next.instance)
		next.placed++
		next.feasibility = p.feasibilityOf(next.instance)
		if p.chooser.accepts(next.feasibility) {
			q.fixTop()
		} else {
			q.popTop()
		}
		if len(closed) > 0 {
			q.items, closed = append(q.items, closed...), closed[:0]
			q.heapify()
		}
	}
}

func (p *placer) feasibilityOf(i int) feasibility {
	if concernsOccupied(p.chooser) && !passesOccupied(p.chooser, i) {
		return infeasible
	}
	return p.chooser.feasibilityOf(i)
}

func comesBefore(a, b *preferredInstance) bool {
	switch {
	case a.feasibility != b.feasibility:
		return a.feasibility < b.feasibility
	case a.placed != b.placed:
		return a.placed < b.placed
	}
	return a.position < b.position
}

// CheckInstance looks at one instance: the devices that a task of the request would get there, or the first
// filter that refuses it, soft rules given up where need be. An instance that is unknown or gone
// counts as not active.
func (e *Engine) CheckInstance(v *snapshot.InstanceView, r Request) (gpus []int, rejected *cluster.Rejection) {
	if v == nil || !eligibility.InCluster(v) {
		return nil, &cluster.Rejection{Filter: cluster.FilterStatus, Count: 1, Detail: string(cluster.InstanceInactive)}
	}
	e.sync()
	e.holdBack(r.Refused)
	defer e.releaseHeldBack()
	for step := range relaxationSteps + 1 {
		c := chooserFor(e, &r, relaxationAt(&e.snap.Configuration.Priorities, step))
		f := firstRefusal(c, v.Index)
		if f == nil {
			return assignDevices(e, v.Index, r.Spec.Needs), nil
		}
		why := f.rejectionOf(c, v.Index)
		rejected = &why
	}
	return nil, rejected
}

// MatchesInstance reports whether the instance has the attributes and meets the constraints, whatever its
// status and room: a DAEMON's task stays only where it does (S4). Of an instance that is unknown
// nothing is held against it.
func (e *Engine) MatchesInstance(v *snapshot.InstanceView, spec *Spec) bool {
	if v == nil || v.Instance == nil {
		return true
	}
	e.sync()
	c := chooserFor(e, &Request{Spec: spec}, relaxationAt(&e.snap.Configuration.Priorities, 0))
	return passesAttributes(c, v.Index) && passesConstraints(c, v.Index)
}

// EligibleInstances are the instances that should have a task of a DAEMON service (S4): ACTIVE, schedulable,
// with the attributes and meeting the constraints, whether there is room or not and whether the
// agent is connected or not. In order of id.
func (e *Engine) EligibleInstances(spec *Spec) []string {
	e.sync()
	c := chooserFor(e, &Request{Spec: spec}, relaxationAt(&e.snap.Configuration.Priorities, 0))
	var out []string
	for i := range e.views {
		if e.inCluster[i] && passesStatus(c, i) && passesCordon(c, i) && passesAttributes(c, i) &&
			passesConstraints(c, i) {
			out = append(out, e.views[i].ID)
		}
	}
	slices.Sort(out)
	return out
}
