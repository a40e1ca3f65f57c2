package packing

import (
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/placement/eligibility"
	"berth/shared/snapshot"
)

// requirements are what tasks ask of an instance's row, regardless of the tasks there: attributes
// and static constraints.
type requirements struct {
	text        string // equal texts mean equal requirements
	attributes  []string
	tolerations []cluster.Toleration
	expressions []*constraint.Expression
	demand      int64 // GPU thousandths
}

// satisfiedBy reports whether the instance satisfies them.
func (r *requirements) satisfiedBy(v *snapshot.InstanceView) bool {
	return eligibility.MeetsStatic(v, r.attributes, r.tolerations, r.expressions)
}

// newRequirements returns the requirements of a definition and rules, either of which may be nil. A
// constraint that cannot be read is ignored here: placing the task reports it.
func newRequirements(def *cluster.TaskDefinition, rules *cluster.Rules) *requirements {
	if def == nil {
		def = &cluster.TaskDefinition{}
	}
	if rules == nil {
		rules = &cluster.Rules{}
	}
	r := &requirements{tolerations: rules.Tolerations}
	var text strings.Builder
	if constraints, _, err := eligibility.ParseConstraints(def, rules); err == nil {
		r.attributes = eligibility.RequiredAttributes(def, rules)
		r.expressions = slices.DeleteFunc(constraints, func(x *constraint.Expression) bool { return !x.Static() })
	}
	for _, a := range r.attributes {
		text.WriteString(a)
		text.WriteByte(0)
	}
	for _, x := range r.expressions {
		text.WriteByte(0)
		text.WriteString(x.String())
	}
	if len(r.tolerations) > 0 {
		text.WriteString("\x03" + cluster.TolerationsText(r.tolerations))
	}
	r.text = text.String()
	return r
}

// A requirementsReader finds the requirements of tasks, once for each definition with its service
// or rules.
type requirementsReader struct {
	snap  *snapshot.Snapshot
	known map[requirementsKey]*requirements
	texts map[string]*requirements
}

type requirementsKey struct{ definition, service, rules string }

func newRequirementsReader(s *snapshot.Snapshot) *requirementsReader {
	return &requirementsReader{snap: s, known: map[requirementsKey]*requirements{}, texts: map[string]*requirements{}}
}

func (reader *requirementsReader) requirementsOf(t *cluster.Task) *requirements {
	rules := t.Rules
	key := requirementsKey{definition: t.TaskDefinition, service: t.Service}
	if s := reader.snap.Services[t.Service]; s != nil {
		rules = &s.Rules
	} else if rules != nil {
		key.rules = constraintsText(rules)
	}
	if w := reader.known[key]; w != nil {
		return w
	}
	w := newRequirements(reader.snap.Definitions[t.TaskDefinition], rules)
	if same := reader.texts[w.text]; same != nil {
		w = same
	}
	reader.texts[w.text], reader.known[key] = w, w
	return w
}

// constraintsText returns a text that differs for different constraints and tolerations.
func constraintsText(r *cluster.Rules) string {
	if len(r.Constraints)+len(r.Tolerations) == 0 {
		return r.NodeConstraint
	}
	var text strings.Builder
	text.WriteString(cluster.TolerationsText(r.Tolerations))
	text.WriteByte(0)
	for _, c := range r.Constraints {
		text.WriteString(c.Type)
		text.WriteString(c.Expression)
		text.WriteByte(0)
	}
	text.WriteString(r.NodeConstraint)
	return text.String()
}
