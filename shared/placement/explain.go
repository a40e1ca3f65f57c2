package placement

import (
	"cmp"
	"slices"

	"berth/shared/cluster"
	"berth/shared/placement/eligibility"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// Explanation says where one more task of a request would go, and why there (P17).
type Explanation struct {
	// Diagnosis counts the instances by the first filter that refuses each, with what was needed
	// and the best there is; Feasible are the others. Unplaced is 1 where there are none.
	Diagnosis cluster.Diagnosis
	// Best is the instance that the task would go to, RunnerUp the one it would go to without that;
	// nil if there is none.
	Best, RunnerUp *Candidate
	// Relaxed are the rules that do not count: those that the configuration ignores and, where the
	// task would find no instance otherwise, soft ones.
	Relaxed []Rule
}

// Candidate is an instance that could take the task, with all that counts in its favour or against
// it.
type Candidate struct {
	Instance string
	// Key is compared component by component, the first difference decides: whether the buffer or
	// overbooking is needed (P14), then what the strategies count (S3), or S2's counts where there
	// are none, then how well the task fits, then chance or the id.
	Key   []Component
	order []int64
}

// Component is one thing by which instances are compared: the less the better.
type Component struct {
	Name  string
	Value float64 // in the unit of Text; 0 where Text has several numbers or none
	Text  string  // as people read it, with the unit
	words string  // what is said of an instance that is ahead by it
	plain bool    // no numbers belong to the words
}

// Explain says where one task of the request would go and why there, whatever its count. Its Best
// is the instance that [Engine.Place] would choose.
func (e *Engine) Explain(r Request) Explanation {
	r.Count = 1
	c := explainingChooser(e, &r)
	defer e.releaseHeldBack()
	scan := fullScan{chooser: c, request: &r}
	best, next := scan.bestTwo()
	out := Explanation{Best: scan.newCandidate(best), RunnerUp: scan.newCandidate(next),
		Relaxed: c.relaxed.relaxedRules()}
	unplaced := 0
	if best < 0 {
		unplaced = 1
	}
	out.Diagnosis = *newDiagnosis(c, &r, unplaced)
	return out
}

// WhyNot is every filter that refuses the instance a task of the request, in the order in which
// they are tried, each with its numbers; none where the task could go there. Soft rules count as
// they do in [Engine.Explain]. An instance that is unknown or gone counts as not active.
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

// CandidateOn is the instance as a candidate for one task of the request; nil where it could not take it.
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

// WithoutTask calls f while the task is not there: what it holds is free, nothing counts it. Then
// everything is as before, but for the order in which the snapshot lists tasks that have none.
func (e *Engine) WithoutTask(t *cluster.Task, f func()) {
	meta := e.snap.Meta // the placement version must not take this for a change
	e.snap.ApplyRecord(state.Record{Op: state.Remove, Key: state.KeyOf(t), Old: t})
	defer func() {
		e.snap.Put(t)
		e.snap.Meta = meta
	}()
	f()
}

// explainingChooser is the class by whose rules the request's next task is placed: soft rules are
// given up only where no instance passes otherwise, as when placing. The caller releases what the
// request has held.
func explainingChooser(e *Engine, r *Request) *chooser {
	e.sync()
	e.holdBack(r.Refused)
	var c *chooser
	for step := range relaxationSteps + 1 {
		relaxed := relaxationAt(&e.snap.Configuration.Priorities, step)
		if c != nil && c.relaxed == relaxed {
			continue
		}
		c = chooserFor(e, r, relaxed)
		scan := fullScan{chooser: c, request: r}
		if slices.ContainsFunc(c.engine.views, scan.isFeasible) {
			return c
		}
	}
	return c
}

// relaxedRules are those that were given up.
func (r relaxation) relaxedRules() []Rule {
	var out []Rule
	for bit, rule := range [...]Rule{RulePlacement, RuleCapacity, RuleFault, RuleUpgrade} {
		if r.includes(1 << bit) {
			out = append(out, rule)
		}
	}
	return out
}

// fullScan compares all instances, one by one.
type fullScan struct {
	chooser *chooser
	request *Request
}

// isFeasible reports whether the instance is one that the task could go to.
func (scan *fullScan) isFeasible(v *snapshot.InstanceView) bool {
	return v != nil && scan.chooser.engine.inCluster[v.Index] &&
		(scan.request.Instances == nil || slices.Contains(scan.request.Instances, v.ID)) &&
		firstRefusal(scan.chooser, v.Index) == nil
}

// bestTwo are the best instance and the second best, -1 where there is none.
func (scan *fullScan) bestTwo() (best, next int) {
	if scan.chooser.order.scorer != nil {
		scan.chooser.order.scorer.Epoch() // it learns now, not between two scores
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

// ranksBefore compares two instances by their keys; the lower id decides between equals.
func (scan *fullScan) ranksBefore(a, b []int64, i, k int) bool {
	if d := slices.Compare(a, b); d != 0 {
		return d < 0
	}
	return scan.chooser.engine.idBefore(int32(i), int32(k))
}

// appendKey appends the numbers of [Candidate.Key], the id aside.
func (scan *fullScan) appendKey(to []int64, i int) []int64 {
	to = append(to, int64(scan.chooser.metricRoom(i)))
	if scan.request.Instances != nil {
		return append(to, int64(slices.Index(scan.request.Instances, scan.chooser.engine.views[i].ID)))
	}
	for at := range scan.chooser.order.steps {
		to = append(to, scan.stepValue(&scan.chooser.order.steps[at], i))
	}
	if scan.chooser.order.random {
		// ordered as the unsigned number is
		to = append(to, int64(chanceKey(scan.request.Seed, 0, scan.chooser.engine.idHash[i])^1<<63))
	}
	return to
}

// stepValue is what the step compares of an instance.
func (scan *fullScan) stepValue(s *step, i int) int64 {
	switch s.kind {
	case byGroup:
		return scan.chooser.groupCounts.counts[s.level][scan.chooser.regionMap.regions[scan.chooser.regionMap.regionOf[i]].groups[s.level]]
	case byCount:
		return int64(scan.chooser.counts.active[int32(i)])
	case byScore:
		return orderedBits(scan.chooser.order.scorer.Score(scan.chooser.engine.views[i], &scan.chooser.spec.Needs))
	}
	return (*s.column)[i]
}

// newCandidate is the instance with its key in words; nil for none.
func (scan *fullScan) newCandidate(i int) *Candidate {
	if i < 0 {
		return nil
	}
	out := &Candidate{Instance: scan.chooser.engine.views[i].ID, order: scan.appendKey(nil, i)}
	out.Key = append(out.Key, bufferComponent(scan.chooser.metricRoom(i)))
	if at := slices.Index(scan.request.Instances, out.Instance); scan.request.Instances != nil {
		out.Key = append(out.Key, requestOrderComponent(at))
	} else {
		for at := range scan.chooser.order.steps {
			out.Key = append(out.Key, scan.newComponent(&scan.chooser.order.steps[at], i))
		}
		if scan.chooser.order.random {
			out.Key = append(out.Key, Component{Name: "chance",
				words: "was chosen at random, as the random strategy asks", plain: true})
		}
	}
	out.Key = append(out.Key, Component{Name: "id", Text: out.Instance,
		words: "comes first by its ID; everything else is equal", plain: true})
	return out
}

// DecidingComponent is the position in Key of the first component that differs from the other candidate's;
// that of the id where none does.
func (c *Candidate) DecidingComponent(other *Candidate) int {
	for at := range min(len(c.order), len(other.order)) {
		if c.order[at] != other.order[at] {
			return at
		}
	}
	return len(c.Key) - 1
}

// RanksBefore reports whether the task would rather go to c than to the other candidate.
func (c *Candidate) RanksBefore(other *Candidate) bool {
	return cmp.Or(slices.Compare(c.order, other.order), cmp.Compare(c.Instance, other.Instance)) < 0
}
