package whatif

import (
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/decide"
	"berth/shared/placement"
	"berth/shared/snapshot"
	"berth/shared/wire/berthapi"
)

// Answer is where the tasks of a question would go. For example, of 3 tasks of a service 2 may be
// placed: then Placed has two entries, Explanation is about the first, and Diagnosis says why the
// third finds nothing.
type Answer struct {
	// Tasks describes the tasks in words. It is empty if the question is only about moves.
	Tasks    string  `json:"tasks,omitempty"`
	Count    int     `json:"count"`
	Placed   []Place `json:"placed"`
	Unplaced int     `json:"unplaced"`
	// Explanation is about the first task: why it would go there, or why nowhere.
	Explanation *Explanation `json:"explanation,omitempty"`
	// Diagnosis is why the rest would find no instance once the others have theirs.
	Diagnosis *berthapi.Diagnosis `json:"diagnosis,omitempty"`
	Instance  *Verdict            `json:"instance,omitempty"`
	Moves     *Moves              `json:"moves,omitempty"`
}

// Place is where one task would go, and the positions of the GPUs that it would get there.
type Place struct {
	Instance string `json:"instance"`
	GPUs     []int  `json:"gpus,omitempty"`
}

// Explanation is a [placement.Explanation] with stable JSON names.
type Explanation struct {
	Diagnosis *berthapi.Diagnosis `json:"diagnosis"`
	Best      *Candidate          `json:"best,omitempty"`
	RunnerUp  *Candidate          `json:"runnerUp,omitempty"`
	// DecidedBy is the name of the first component in which the two differ.
	DecidedBy string `json:"decidedBy,omitempty"`
	// NotKept are the soft rules that were given up for the task.
	NotKept []string `json:"notKept,omitempty"`
	Text    string   `json:"text"`
}

// Candidate is a feasible instance with the components by which it is compared, in their order.
type Candidate struct {
	Instance string      `json:"instance"`
	Key      []Component `json:"key"`
}

// Component is one number by which instances are compared; less is better.
type Component struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Text  string  `json:"text,omitempty"`
}

// Verdict is what the filters and the order say about one instance. An instance may be feasible
// without being chosen: then Text says in what the chosen one is better.
type Verdict struct {
	Instance string `json:"instance"`
	Chosen   bool   `json:"chosen"` // it is where the first task would go
	Feasible bool   `json:"feasible"`
	// Refused has an entry for each filter that rejects the instance.
	Refused []berthapi.Rejection `json:"refused,omitempty"`
	Key     []Component          `json:"key,omitempty"`
	Text    string               `json:"text"`
}

// Ask answers a question about a cluster without changing it. The error is a [*NotFound] for a name
// that the cluster does not have; an expression that cannot be parsed is an error, too.
func Ask(snap *snapshot.Snapshot, question *Question) (*Answer, error) {
	// The question is copied, because placementRequest completes it.
	m, q := newModel(snap), new(*question)
	out := &Answer{Placed: []Place{}}
	if q.IsEmpty() {
		var err error
		out.Moves, err = m.planMoves()
		return out, err
	}
	r, err := m.placementRequest(q)
	if err != nil {
		return nil, err
	}
	out.Tasks = q.describeTasks()
	decide.WithOwnReservation(snap, r.Spec.Owner, func() {
		x := m.placeTasks(out, r)
		if q.Instance != "" {
			out.Instance, err = m.instanceVerdict(r, &x, q.Instance)
		}
	})
	if err != nil {
		return nil, err
	}
	if q.Moves {
		if out.Moves, err = m.planMoves(); err == nil && out.Unplaced > 0 {
			err = m.addRoomMoves(out, q, r)
		}
	}
	return out, err
}

// placeTasks adds to the answer where the tasks of a request would go. It returns the explanation
// of the first.
func (m *model) placeTasks(a *Answer, r placement.Request) placement.Explanation {
	result := m.engine.Place(r)
	a.Count, a.Placed = r.Count, []Place{}
	for _, p := range result.Placed {
		a.Placed = append(a.Placed, Place{p.Instance, slices.Clone(p.GPUs)})
	}
	a.Unplaced = r.Count - len(a.Placed)
	a.Diagnosis = berthapi.DiagnosisOf(result.Diagnosis)
	// The explanation is made on the snapshot as it is, so it is about the first task only.
	x := m.engine.Explain(r)
	a.Explanation = explanationOf(&x)
	return x
}

// explanationOf converts an explanation. What decided is the first component in which the best
// candidate differs from the runner-up; everything after it did not matter.
func explanationOf(x *placement.Explanation) *Explanation {
	out := &Explanation{
		Diagnosis: berthapi.DiagnosisOf(&x.Diagnosis), Best: candidateOf(x.Best), RunnerUp: candidateOf(x.RunnerUp),
		Text: x.String(),
	}
	if x.RunnerUp != nil {
		out.DecidedBy = x.Best.Key[x.Best.DecidingComponent(x.RunnerUp)].Name
	}
	for _, rule := range x.Relaxed {
		out.NotKept = append(out.NotKept, string(rule))
	}
	return out
}

// candidateOf converts a candidate, which may be nil: no instance, or no other one, is feasible.
func candidateOf(c *placement.Candidate) *Candidate {
	if c == nil {
		return nil
	}
	return &Candidate{c.Instance, keyOf(c)}
}

// keyOf converts the components of a candidate, in the order in which they are compared.
func keyOf(c *placement.Candidate) []Component {
	var out []Component
	for _, k := range c.Key {
		out = append(out, Component{k.Name, k.Value, k.Text})
	}
	return out
}

// instanceVerdict explains why the request's first task would or would not go to one instance, named
// as [ExplainInstance] takes it.
func (m *model) instanceVerdict(r placement.Request, x *placement.Explanation, id string) (*Verdict, error) {
	v := findInstance(m.snap, cluster.LastPart(id))
	if v == nil || v.Instance == nil {
		return nil, noInstance(m.snap, id)
	}
	id = v.ID
	out := &Verdict{Instance: id}
	// Unlike a placement, which stops at the first filter that rejects an instance, this asks all
	// of them.
	why := m.engine.WhyNot(r, id)
	if len(why) > 0 {
		out.Refused = rejectionsOf(why)
		out.Text = id + " cannot take it: " + describeRejections(why)
		return out, nil
	}
	c := m.engine.CandidateOn(r, id)
	out.Feasible, out.Key = true, keyOf(c)
	if out.Chosen = id == x.Best.Instance; out.Chosen {
		out.Text = "it would go to " + id
	} else {
		out.Text = id + " could take it, but " + x.Best.ExplainOver(c, "")
	}
	return out, nil
}

// rejectionsOf converts rejections to their form on the wire.
func rejectionsOf(in []cluster.Rejection) []berthapi.Rejection {
	return berthapi.DiagnosisOf(&cluster.Diagnosis{Rejected: in}).Rejected
}

// describeRejections puts the rejections of one instance into words. A rejection counts instances,
// which says nothing here.
func describeRejections(in []cluster.Rejection) string {
	var out []string
	for _, r := range in {
		out = append(out, strings.TrimPrefix(r.String(), "1 "))
	}
	return strings.Join(out, ", ")
}
