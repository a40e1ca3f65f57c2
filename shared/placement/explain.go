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
	// GivenUp are the rules that do not count: those that the configuration ignores and, where the
	// task would find no instance otherwise, soft ones.
	GivenUp []Rule
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
	c := explainingClass(e, &r)
	defer e.release()
	j := judge{class: c, request: &r}
	best, next := j.two()
	out := Explanation{Best: j.candidate(best), RunnerUp: j.candidate(next), GivenUp: c.given.rules()}
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
	c := explainingClass(e, &r)
	defer e.release()
	var out []cluster.Rejection
	for _, at := range concernedFilters(c) {
		if f := &filters[at]; !f.passes(c, v.Index) {
			out = append(out, f.reject(c, v.Index))
		}
	}
	return out
}

// Weigh is the instance as a candidate for one task of the request; nil where it could not take it.
func (e *Engine) Weigh(r Request, instance string) *Candidate {
	v := e.snap.Instances[instance]
	if v == nil || !eligibility.InCluster(v) {
		return nil
	}
	c := explainingClass(e, &r)
	defer e.release()
	if firstRefusal(c, v.Index) != nil {
		return nil
	}
	j := judge{class: c, request: &r}
	return j.candidate(v.Index)
}

// Without calls f while the task is not there: what it holds is free, nothing counts it. Then
// everything is as before, but for the order in which the snapshot lists tasks that have none.
func (e *Engine) Without(t *cluster.Task, f func()) {
	meta := e.snap.Meta // the placement version must not take this for a change
	e.snap.ApplyRecord(state.Record{Op: state.Remove, Key: state.KeyOf(t), Old: t})
	defer func() {
		e.snap.Put(t)
		e.snap.Meta = meta
	}()
	f()
}

// explainingClass is the class by whose rules the request's next task is placed: soft rules are
// given up only where no instance passes otherwise, as when placing. The caller releases what the
// request has held.
func explainingClass(e *Engine, r *Request) *class {
	e.sync()
	e.hold(r.Refused)
	var c *class
	for step := range relaxations + 1 {
		given := relaxed(&e.snap.Configuration.Priorities, step)
		if c != nil && c.given == given {
			continue
		}
		c = classFor(e, r, given)
		j := judge{class: c, request: r}
		if slices.ContainsFunc(c.engine.views, j.could) {
			return c
		}
	}
	return c
}

// rules are those that were given up.
func (r relaxation) rules() []Rule {
	var out []Rule
	for bit, rule := range [...]Rule{RulePlacement, RuleCapacity, RuleFault, RuleUpgrade} {
		if r.has(1 << bit) {
			out = append(out, rule)
		}
	}
	return out
}

// judge compares all instances, one by one.
type judge struct {
	class   *class
	request *Request
}

// could reports whether the instance is one that the task could go to.
func (j *judge) could(v *snapshot.InstanceView) bool {
	return v != nil && j.class.shape.engine.listed[v.Index] &&
		(j.request.Instances == nil || slices.Contains(j.request.Instances, v.ID)) &&
		firstRefusal(j.class, v.Index) == nil
}

// two are the best instance and the second best, -1 where there is none.
func (j *judge) two() (best, next int) {
	if j.class.shape.order.scorer != nil {
		j.class.shape.order.scorer.Epoch() // it learns now, not between two scores
	}
	best, next = -1, -1
	var first, second, key []int64
	for i, v := range j.class.shape.engine.views {
		if !j.could(v) {
			continue
		}
		key = j.key(key[:0], i)
		switch {
		case best < 0 || j.less(key, first, i, best):
			best, next = i, best
			first, second, key = key, first, second
		case next < 0 || j.less(key, second, i, next):
			next = i
			second, key = key, second
		}
	}
	return best, next
}

// less compares two instances by their keys; the lower id decides between equals.
func (j *judge) less(a, b []int64, i, k int) bool {
	if d := slices.Compare(a, b); d != 0 {
		return d < 0
	}
	return j.class.shape.engine.before(int32(i), int32(k))
}

// key appends the numbers of [Candidate.Key], the id aside.
func (j *judge) key(to []int64, i int) []int64 {
	to = append(to, int64(j.class.shape.room(i)))
	if j.request.Instances != nil {
		return append(to, int64(slices.Index(j.request.Instances, j.class.shape.engine.views[i].ID)))
	}
	for at := range j.class.shape.order.steps {
		to = append(to, j.number(&j.class.shape.order.steps[at], i))
	}
	if j.class.shape.order.random {
		// ordered as the unsigned number is
		to = append(to, int64(chance(j.request.Seed, 0, j.class.shape.engine.hash[i])^1<<63))
	}
	return to
}

// number is what the step compares of an instance.
func (j *judge) number(s *step, i int) int64 {
	switch s.kind {
	case byGroup:
		return j.class.spread.counts[s.level][j.class.layout.regions[j.class.layout.region[i]].groups[s.level]]
	case byCount:
		return int64(j.class.tally.active[int32(i)])
	case byScore:
		return ordered(j.class.shape.order.scorer.Score(j.class.shape.engine.views[i], &j.class.shape.spec.Needs))
	}
	return (*s.column)[i]
}

// candidate is the instance with its key in words; nil for none.
func (j *judge) candidate(i int) *Candidate {
	if i < 0 {
		return nil
	}
	out := &Candidate{Instance: j.class.shape.engine.views[i].ID, order: j.key(nil, i)}
	out.Key = append(out.Key, bufferComponent(j.class.shape.room(i)))
	if at := slices.Index(j.request.Instances, out.Instance); j.request.Instances != nil {
		out.Key = append(out.Key, wishComponent(at))
	} else {
		for at := range j.class.shape.order.steps {
			out.Key = append(out.Key, j.component(&j.class.shape.order.steps[at], i))
		}
		if j.class.shape.order.random {
			out.Key = append(out.Key, Component{Name: "chance",
				words: "was chosen at random, as the random strategy asks", plain: true})
		}
	}
	out.Key = append(out.Key, Component{Name: "id", Text: out.Instance,
		words: "comes first by its ID; everything else is equal", plain: true})
	return out
}

// Decides is the position in Key of the first component that differs from the other candidate's;
// that of the id where none does.
func (c *Candidate) Decides(other *Candidate) int {
	for at := range min(len(c.order), len(other.order)) {
		if c.order[at] != other.order[at] {
			return at
		}
	}
	return len(c.Key) - 1
}

// Ahead reports whether the task would rather go to c than to the other candidate.
func (c *Candidate) Ahead(other *Candidate) bool {
	return cmp.Or(slices.Compare(c.order, other.order), cmp.Compare(c.Instance, other.Instance)) < 0
}
