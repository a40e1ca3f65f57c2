package packing

import (
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/placement/eligibility"
	"berth/shared/snapshot"
)

// wants are requirements of tasks that an instance's row satisfies or not, whatever runs there:
// attributes and constraints.
type wants struct {
	text        string // tells them apart
	attributes  []string
	expressions []*constraint.Expression
	demand      int64 // GPU thousandths
}

// fits reports whether the instance satisfies them.
func (w *wants) fits(v *snapshot.InstanceView) bool {
	return eligibility.MeetsStatic(v, w.attributes, w.expressions)
}

// newWants are those of a definition and of rules, either of which may be unknown. A constraint
// that cannot be read keeps nobody from anywhere here: it is refused where it counts.
func newWants(def *cluster.TaskDefinition, rules *cluster.Rules) *wants {
	if def == nil {
		def = &cluster.TaskDefinition{}
	}
	if rules == nil {
		rules = &cluster.Rules{}
	}
	w := &wants{}
	var text strings.Builder
	if constraints, _, err := eligibility.ParseConstraints(def, rules); err == nil {
		w.attributes = eligibility.RequiredAttributes(def, rules)
		w.expressions = slices.DeleteFunc(constraints, func(x *constraint.Expression) bool { return !x.Static() })
	}
	for _, a := range w.attributes {
		text.WriteString(a)
		text.WriteByte(0)
	}
	for _, x := range w.expressions {
		text.WriteByte(0)
		text.WriteString(x.String())
	}
	w.text = text.String()
	return w
}

// wantsReader finds what tasks want, each definition with its service or rules once.
type wantsReader struct {
	snap  *snapshot.Snapshot
	known map[wantsKey]*wants
	texts map[string]*wants
}

type wantsKey struct{ definition, service, rules string }

func newWantsReader(s *snapshot.Snapshot) *wantsReader {
	return &wantsReader{snap: s, known: map[wantsKey]*wants{}, texts: map[string]*wants{}}
}

func (r *wantsReader) read(t *cluster.Task) *wants {
	rules := t.Rules
	key := wantsKey{definition: t.TaskDefinition, service: t.Service}
	if s := r.snap.Services[t.Service]; s != nil {
		rules = &s.Rules
	} else if rules != nil {
		key.rules = constraintsText(rules)
	}
	if w := r.known[key]; w != nil {
		return w
	}
	w := newWants(r.snap.Definitions[t.TaskDefinition], rules)
	if same := r.texts[w.text]; same != nil {
		w = same
	}
	r.texts[w.text], r.known[key] = w, w
	return w
}

// constraintsText tells the constraints of rules apart.
func constraintsText(r *cluster.Rules) string {
	if len(r.Constraints) == 0 {
		return r.NodeConstraint
	}
	var text strings.Builder
	for _, c := range r.Constraints {
		text.WriteString(c.Type)
		text.WriteString(c.Expression)
		text.WriteByte(0)
	}
	text.WriteString(r.NodeConstraint)
	return text.String()
}
