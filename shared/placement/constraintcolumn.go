package placement

import (
	"slices"
	"strings"

	"berth/shared/constraint"
	"berth/shared/placement/eligibility"
	"berth/shared/snapshot"
)

// constraintColumn is a constraint's expression with its value for every instance. One that depends on the row
// alone is evaluated when that changes; others follow the engine's log when they are used. All
// classes that have the expression share it.
type constraintColumn struct {
	expression  *constraint.Expression
	text        string
	matches     []bool
	dynamic     bool
	logPosition uint64 // of the log
}

func constraintFor(e *Engine, x *constraint.Expression) *constraintColumn {
	key := x.String()
	if column := e.caches.constraints[key]; column != nil {
		return column
	}
	column := &constraintColumn{expression: x, text: key, dynamic: !x.Static()}
	e.caches.constraints[key] = column
	column.evaluateAll(e)
	return column
}

func (column *constraintColumn) evaluateAll(e *Engine) {
	growTo(&column.matches, len(e.views))
	for i := range e.views {
		column.evaluateOn(e, i)
	}
	column.logPosition = e.changes.end
}

// catchUp evaluates a dynamic rule for the instances that changed since.
func (column *constraintColumn) catchUp(e *Engine) {
	if !column.dynamic || column.logPosition == e.changes.end {
		return
	}
	growTo(&column.matches, len(e.views))
	if !e.changes.coversSince(column.logPosition, len(e.views)) {
		column.evaluateAll(e)
		return
	}
	for ; column.logPosition < e.changes.end; column.logPosition++ {
		if i, last := e.changes.changeAt(column.logPosition); last {
			column.evaluateOn(e, int(i))
		}
	}
}

func (column *constraintColumn) evaluateOn(e *Engine, i int) {
	v := e.views[i]
	if v == nil || v.Instance == nil {
		column.matches[i] = false
		return
	}
	e.subject.Facts = v.Facts()
	e.subject.group = e.overlay.groupOn(i)
	column.matches[i] = column.expression.Matches(&e.subject)
}

// subject is an instance as constraints see it, the tasks that this call placed there included.
type subject struct {
	snapshot.Facts
	group string // of those tasks, empty where there is none
}

// Groups are the groups of the instance's tasks.
func (s *subject) Groups(yield func(string) bool) {
	more := true
	s.Facts.Groups(func(g string) bool {
		more = yield(g)
		return more
	})
	if more && s.group != "" {
		yield(s.group)
	}
}

// staticMask is which instances have what the row alone decides: required attributes, no objection,
// static constraints. All that ask for the same share it.
type staticMask struct {
	key         string
	attributes  []string
	avoid       []string
	constraints []*constraintColumn
	passes      []bool
}

func (m *staticMask) updateInstance(e *Engine, i int) {
	m.passes[i] = e.inCluster[i] && eligibility.MissingAttribute(e.views[i], m.attributes) == "" &&
		!slices.Contains(m.avoid, e.views[i].ID)
	for _, column := range m.constraints {
		m.passes[i] = m.passes[i] && column.matches[i]
	}
}

// matcher is which instances tasks may run on by attributes, objections and constraints, whatever
// room there is.
type matcher struct {
	key     string
	static  *staticMask
	dynamic []*constraintColumn // those that go by what runs on the instance
}

// matcherFor is the members for a spec, of its constraints those that bind.
func matcherFor(e *Engine, spec *Spec, constraints []*constraintColumn) *matcher {
	out := &matcher{static: &staticMask{attributes: spec.Attributes, avoid: spec.Avoid}}
	m := out.static
	m.key = strings.Join(spec.Attributes, "\x00") + "\x01" + strings.Join(spec.Avoid, "\x00")
	dynamic := ""
	for _, column := range constraints {
		text := "\x01" + column.text
		if column.dynamic {
			out.dynamic = append(out.dynamic, column)
			dynamic += text
		} else {
			m.constraints = append(m.constraints, column)
			m.key += text
		}
	}
	out.key = m.key + "\x02" + dynamic
	if old := e.caches.masks[m.key]; old != nil {
		out.static = old
		return out
	}
	e.caches.masks[m.key] = m
	growTo(&m.passes, len(e.views))
	for i := range e.views {
		m.updateInstance(e, i)
	}
	return out
}

func (m *matcher) matchesInstance(i int) bool {
	if !m.static.passes[i] {
		return false
	}
	for _, column := range m.dynamic {
		if !column.matches[i] {
			return false
		}
	}
	return true
}
