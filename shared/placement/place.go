package placement

import (
	"cmp"
	"slices"

	"berth/shared/cluster"
	"berth/shared/placement/eligibility"
	"berth/shared/snapshot"
)

// Place chooses instances for the tasks of a request, one after the other: each choice accounts for
// those before it. Of the instances that pass every filter it chooses the first by the strategies
// (S3), or by the default spread (S2). Soft rules are relaxed for tasks that would otherwise find
// no instance, unless the request is strict. Place changes nothing; the same snapshot and request
// always give the same result.
func (e *Engine) Place(r Request) Result { return e.PlaceInto(nil, r) }

// PlaceInto is Place for callers who place much: it appends the placements to dst.
func (e *Engine) PlaceInto(dst []Placement, r Request) Result {
	if r.Count <= 0 {
		return Result{Placed: dst}
	}
	e.Sync()
	e.holdBackInstances(r.Refused)
	defer e.releaseHeldBack()
	p := placer{engine: e, request: r, placed: dst, countBefore: len(dst)}
	p.placeTasks()
	out := Result{Placed: p.placed}
	if rest := p.remaining(); rest > 0 {
		if r.Spec.AllOrNothing && p.chooser.limited.total == int64(len(p.placed)-p.countBefore) {
			out.Placed, rest = dst, r.Count
		}
		if !r.Unexplained {
			out.Diagnosis = newDiagnosis(p.chooser, &r, rest)
		}
	}
	undoPlacements(e, r.Spec)
	return out
}

// A placer carries out one call of [Engine.Place].
type placer struct {
	engine      *Engine
	chooser     *chooser
	request     Request
	placed      []Placement
	countBefore int // length of placed before the call
}

func (p *placer) remaining() int { return p.request.Count - len(p.placed) + p.countBefore }

// placeTasks places as many tasks as it can: first by all rules, then without the soft ones.
func (p *placer) placeTasks() {
	e := p.engine
	for step := range relaxationSteps + 1 {
		relaxed := relaxationAt(&e.snap.Configuration.Priorities, step)
		if p.chooser != nil && relaxed == p.chooser.relaxed {
			continue
		}
		p.chooser = chooserForRequest(e, &p.request, relaxed)
		e.overlay.choosers = append(e.overlay.choosers, p.chooser)
		if p.request.Instances != nil {
			p.placeOnRequested()
		} else {
			p.placeAnywhere()
		}
		if p.remaining() == 0 || p.request.Strict {
			return
		}
	}
}

// placeAnywhere places tasks on any feasible instances.
func (p *placer) placeAnywhere() {
	p.chooser.prepareIndex(p.remaining())
	for p.remaining() > 0 {
		i := p.chooser.pickInstance(p.request.Seed, len(p.placed)-p.countBefore)
		if i >= 0 {
			p.placeNextOn(int(i))
		} else if !p.placeBySwaps() {
			return
		}
	}
}

// placeNextOn gives the next task to the instance.
func (p *placer) placeNextOn(i int) {
	e := p.engine
	gpus := assignDevices(e, i, p.request.Spec.Needs)
	p.placed = append(p.placed, Placement{Instance: e.views[i].ID, GPUs: gpus})
	if p.remaining() > 0 {
		p.chooser.placeInOverlay(i, gpus, 1)
	}
}

// A preferredInstance is an instance that a request names.
type preferredInstance struct {
	instance    int
	position    int // in the request
	placed      int // tasks placed there by this call
	feasibility feasibility
}

// placeOnRequested places tasks on the instances that the request names: instances that need no
// buffer first, then those with the fewest tasks of this call, then in the requested order.
func (p *placer) placeOnRequested() {
	q := queue[*preferredInstance]{less: isRequestedBefore}
	seen := make(map[string]bool, len(p.request.Instances))
	for at, id := range p.request.Instances {
		v := p.engine.snap.Instances[id]
		if v == nil || !eligibility.InCluster(v) || seen[id] {
			continue
		}
		seen[id] = true
		next := &preferredInstance{instance: v.Index, position: at, placed: p.engine.overlay.placedCountOn(v.Index)}
		if next.feasibility = p.feasibilityOf(v.Index); p.chooser.acceptsFeasibility(next.feasibility) {
			q.items = append(q.items, next)
		}
	}
	q.heapify()
	var closed []*preferredInstance // in domains that admit no task at present
	for p.remaining() > 0 && len(q.items) > 0 {
		next := q.top()
		if !p.chooser.domainsAdmit(next.instance) {
			closed = append(closed, next)
			q.popTop()
			continue
		}
		if !p.chooser.hasApplicationRoom(next.instance) { // earlier tasks of this call took it
			q.popTop()
			continue
		}
		p.placeNextOn(next.instance)
		next.placed++
		next.feasibility = p.feasibilityOf(next.instance)
		if p.chooser.acceptsFeasibility(next.feasibility) {
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

// feasibilityOf also checks how many tasks of the owner the instance has, which a shape does not
// know.
func (p *placer) feasibilityOf(i int) feasibility {
	if concernsOccupied(p.chooser) && !passesOccupied(p.chooser, i) {
		return infeasible
	}
	return p.chooser.feasibilityOf(i)
}

func isRequestedBefore(a, b *preferredInstance) bool {
	return cmp.Or(cmp.Compare(a.feasibility, b.feasibility), cmp.Compare(a.placed, b.placed),
		cmp.Compare(a.position, b.position)) < 0
}

// CheckInstance returns the GPU devices that a task of the request would get on the instance, or
// the first rejection. Soft rules are relaxed if necessary, unless the request is strict. An
// unknown or deregistered instance is "not active".
func (e *Engine) CheckInstance(v *snapshot.InstanceView, r Request) (gpus []int, rejected *cluster.Rejection) {
	if v == nil || !eligibility.InCluster(v) {
		return nil, &cluster.Rejection{Filter: cluster.FilterStatus, Count: 1, Detail: string(cluster.InstanceInactive)}
	}
	e.Sync()
	e.holdBackInstances(r.Refused)
	defer e.releaseHeldBack()
	for step := range relaxationSteps + 1 {
		c := e.chooserAt(&r, step)
		f := firstRefusal(c, v.Index)
		if f == nil {
			return assignDevices(e, v.Index, r.Spec.Needs), nil
		}
		why := f.rejectionOf(c, v.Index)
		rejected = &why
		if r.Strict {
			break
		}
	}
	return nil, rejected
}

// MatchesInstance reports whether the instance has the attributes and meets the constraints,
// regardless of its status and room. A DAEMON task stays only on such an instance (S4). Unknown
// instances match.
func (e *Engine) MatchesInstance(v *snapshot.InstanceView, spec *Spec) bool {
	if v == nil || v.Instance == nil {
		return true
	}
	e.Sync()
	c := e.chooserAt(&Request{Spec: spec}, 0)
	return passesTaints(c, v.Index) && passesAttributes(c, v.Index) && passesConstraints(c, v.Index)
}

// EligibleInstances returns the ids of the instances that should have a task of a DAEMON service
// (S4), sorted: ACTIVE, not cordoned, with no taint that they do not tolerate, with the attributes
// and meeting the constraints. Room and a
// disconnected agent make no difference: the task is wanted there all the same.
func (e *Engine) EligibleInstances(spec *Spec) []string {
	e.Sync()
	c := e.chooserAt(&Request{Spec: spec}, 0)
	var out []string
	for i := range e.views {
		if e.inCluster[i] && passesStatus(c, i) && passesCordon(c, i) && passesTaints(c, i) &&
			passesAttributes(c, i) && passesConstraints(c, i) {
			out = append(out, e.views[i].ID)
		}
	}
	slices.Sort(out)
	return out
}
