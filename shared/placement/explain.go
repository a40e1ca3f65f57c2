package placement

import (
	"cmp"
	"slices"

	"berth/shared/cluster"
	"berth/shared/placement/eligibility"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// An Explanation says where one more task of a request would go, and why there (P17).
type Explanation struct {
	// Diagnosis counts the instances by the first filter that rejects each, with what was needed
	// and the best there is. Feasible counts the others. Unplaced is 1 if there are none.
	Diagnosis cluster.Diagnosis
	// Best is the instance that the task would go to. RunnerUp is the one it would go to if Best
	// were not there. Nil for none.
	Best, RunnerUp *Candidate
	// Relaxed has the rules that were not kept: those that the configuration ignores and, if the
	// task would find no instance otherwise, soft rules.
	Relaxed []Rule
}

// A Candidate is a feasible instance with the values that it is compared by.
type Candidate struct {
	Instance string
	// Key is compared component by component, and the first difference decides: whether the task
	// needs the buffer or overbooking (P14); what the strategies count (S3), or the default spread
	// (S2); how well the task fits; chance or the id.
	Key   []Component
	order []int64
}

// A Component is one value that instances are compared by. The lowest is the best.
type Component struct {
	Name  string
	Value float64 // in the unit of Text; 0 if Text has no number, or several
	Text  string  // the value for people, with its unit
	words string  // what an instance is said to be if this component puts it ahead
	plain bool    // the words need no numbers
}

// Explain says where one task of the request would go, and why, regardless of the request's Count.
// Best is the instance that [Engine.Place] would choose.
func (e *Engine) Explain(r Request) Explanation {
	r.Count = 1
	c := explainingChooser(e, &r)
	defer e.releaseHeldBack()
	scan := fullScan{chooser: c, request: &r}
	best, next := scan.bestTwoInstances()
	out := Explanation{Best: scan.newCandidate(best), RunnerUp: scan.newCandidate(next),
		Relaxed: c.relaxed.relaxedRules()}
	unplaced := 0
	if best < 0 {
		unplaced = 1
	}
	out.Diagnosis = *newDiagnosis(c, &r, unplaced)
	return out
}

// WhyNot returns a rejection for every filter that rejects the instance, in the order of the
// filters; none if the task could go there. Soft rules count as in [Engine.Explain]. An unknown or
// deregistered instance is "not active".
func (e *Engine) WhyNot(r Request, instance string) []cluster.Rejection {
	v := e.snap.Instances[instance]
	if v == nil || !eligibility.InCluster(v) {
		return []cluster.Rejection{{Filter: cluster.FilterStatus, Count: 1, Detail: string(cluster.InstanceInactive)}}
	}
	c := explainingChooser(e, &r)
	defer e.releaseHeldBack()
	var out []cluster.Rejection
	for _, at := range concernedFilters(c) {
		if f := &filters[at]; !f.passes(c, v.Index) {
			out = append(out, f.rejectionOf(c, v.Index))
		}
	}
	return out
}

// CandidateOn returns the instance as a candidate for one task of the request, or nil if it is not
// feasible.
func (e *Engine) CandidateOn(r Request, instance string) *Candidate {
	v := e.snap.Instances[instance]
	if v == nil || !eligibility.InCluster(v) {
		return nil
	}
	c := explainingChooser(e, &r)
	defer e.releaseHeldBack()
	if firstRefusal(c, v.Index) != nil {
		return nil
	}
	scan := fullScan{chooser: c, request: &r}
	return scan.newCandidate(v.Index)
}

// WithoutTask calls f while the task is absent: its capacity is free and nothing counts it.
// Afterwards the snapshot is as before, but for the order of tasks in lists that have no order.
func (e *Engine) WithoutTask(t *cluster.Task, f func()) {
	meta := e.snap.Meta // keeps the placement version: this is no change
	e.snap.ApplyRecord(state.Record{Op: state.Remove, Key: state.KeyOf(t), Old: t})
	defer func() {
		e.snap.Put(t)
		e.snap.Meta = meta
	}()
	f()
}

// explainingChooser returns the chooser by whose rules the request's next task is placed. As in
// placing, soft rules are relaxed only if no instance is feasible otherwise. The caller must call
// [Engine.releaseHeldBack].
func explainingChooser(e *Engine, r *Request) *chooser {
	e.Sync()
	e.holdBackInstances(r.Refused)
	var c *chooser
	for step := range relaxationSteps + 1 {
		relaxed := relaxationAt(&e.snap.Configuration.Priorities, step)
		if c != nil && c.relaxed == relaxed {
			continue
		}
		c = chooserForRequest(e, r, relaxed)
		scan := fullScan{chooser: c, request: r}
		if slices.ContainsFunc(c.engine.views, scan.isFeasible) {
			return c
		}
	}
	return c
}

// relaxedRules returns the names of the rules in the set.
func (r relaxation) relaxedRules() []Rule {
	var out []Rule
	for bit, rule := range [...]Rule{RulePlacement, RuleCapacity, RuleFault, RuleUpgrade} {
		if r.includesRule(1 << bit) {
			out = append(out, rule)
		}
	}
	return out
}

// A fullScan compares all instances for one task, one by one. It needs no index, so an explanation
// is also a second opinion on what the index finds.
type fullScan struct {
	chooser *chooser
	request *Request
}

// isFeasible reports whether the task could go to the instance.
func (scan *fullScan) isFeasible(v *snapshot.InstanceView) bool {
	return v != nil && scan.chooser.engine.inCluster[v.Index] &&
		(scan.request.Instances == nil || slices.Contains(scan.request.Instances, v.ID)) &&
		firstRefusal(scan.chooser, v.Index) == nil
}

// bestTwoInstances returns the best instance and the second best, -1 for none.
func (scan *fullScan) bestTwoInstances() (best, next int) {
	if scorer := scan.chooser.order.scorer; scorer != nil {
		scorer.Epoch() // so that it learns now, not between two scores
	}
	best, next = -1, -1
	var first, second, key []int64
	for i, v := range scan.chooser.engine.views {
		if !scan.isFeasible(v) {
			continue
		}
		key = scan.appendKey(key[:0], i)
		switch {
		case best < 0 || scan.ranksBefore(key, first, i, best):
			best, next = i, best
			first, second, key = key, first, second
		case next < 0 || scan.ranksBefore(key, second, i, next):
			next = i
			second, key = key, second
		}
	}
	return best, next
}

// ranksBefore compares instances i and k by their keys. The lower id decides between equals.
func (scan *fullScan) ranksBefore(a, b []int64, i, k int) bool {
	if d := slices.Compare(a, b); d != 0 {
		return d < 0
	}
	return scan.chooser.engine.hasLowerID(int32(i), int32(k))
}

// appendKey appends the numbers behind [Candidate.Key], without the id.
func (scan *fullScan) appendKey(to []int64, i int) []int64 {
	c := scan.chooser
	to = append(to, int64(c.roomInMetrics(i)))
	if scan.request.Instances != nil {
		return append(to, int64(slices.Index(scan.request.Instances, c.engine.views[i].ID)))
	}
	for at := range c.order.steps {
		to = append(to, scan.stepValue(&c.order.steps[at], i))
	}
	if c.order.random {
		// The signed number compares as the unsigned one does.
		to = append(to, int64(chanceKey(scan.request.Seed, 0, c.engine.idHash[i])^1<<63))
	}
	return to
}

// stepValue returns what the step compares of an instance.
func (scan *fullScan) stepValue(s *step, i int) int64 {
	c := scan.chooser
	if s.kind == byScore { // not from the index, which may be older
		return orderedBits(c.order.scorer.Score(c.engine.views[i], &c.spec.Needs))
	}
	return c.stepValue(s, int32(i), c.regionMap.regionOf[i])
}

// newCandidate returns the instance with its key in words, or nil for none.
func (scan *fullScan) newCandidate(i int) *Candidate {
	if i < 0 {
		return nil
	}
	c := scan.chooser
	out := &Candidate{Instance: c.engine.views[i].ID, order: scan.appendKey(nil, i)}
	out.Key = append(out.Key, newBufferComponent(c.roomInMetrics(i)))
	if at := slices.Index(scan.request.Instances, out.Instance); scan.request.Instances != nil {
		out.Key = append(out.Key, newRequestOrderComponent(at))
	} else {
		for at := range c.order.steps {
			out.Key = append(out.Key, scan.newComponent(&c.order.steps[at], i))
		}
		if c.order.random {
			out.Key = append(out.Key, Component{Name: "chance",
				words: "was chosen at random, as the random strategy asks", plain: true})
		}
	}
	out.Key = append(out.Key, Component{Name: "id", Text: out.Instance,
		words: "comes first by its ID; everything else is equal", plain: true})
	return out
}

// DecidingComponent returns the position in Key of the first component that differs from the other
// candidate's: that of the id if no earlier one does.
func (c *Candidate) DecidingComponent(other *Candidate) int {
	for at := range min(len(c.order), len(other.order)) {
		if c.order[at] != other.order[at] {
			return at
		}
	}
	return len(c.Key) - 1
}

// RanksBefore reports whether the task prefers c to the other candidate.
func (c *Candidate) RanksBefore(other *Candidate) bool {
	return cmp.Or(slices.Compare(c.order, other.order), cmp.Compare(c.Instance, other.Instance)) < 0
}
