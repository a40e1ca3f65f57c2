package placement

import (
	"slices"
	"strings"

	"berth/shared/constraint"
	"berth/shared/placement/eligibility"
	"berth/shared/snapshot"
)

// rule is a constraint's expression with its value for every instance. One that depends on the row
// alone is evaluated when that changes; others follow the engine's log when they are used. All
// classes that have the expression share it.
type rule struct {
	expression *constraint.Expression
	text       string
	matches    []bool
	dynamic    bool
	at         uint64 // of the log
}

func ruleFor(e *Engine, x *constraint.Expression) *rule {
	key := x.String()
	if r := e.kept.rules[key]; r != nil {
		return r
	}
	r := &rule{expression: x, text: key, dynamic: !x.Static()}
	e.kept.rules[key] = r
	r.evaluateAll(e)
	return r
}

func (r *rule) evaluateAll(e *Engine) {
	lengthen(&r.matches, len(e.views))
	for i := range e.views {
		r.evaluate(e, i)
	}
	r.at = e.log.end
}

// follow evaluates a dynamic rule for the instances that changed since.
func (r *rule) follow(e *Engine) {
	if !r.dynamic || r.at == e.log.end {
		return
	}
	lengthen(&r.matches, len(e.views))
	if !e.log.since(r.at, len(e.views)) {
		r.evaluateAll(e)
		return
	}
	for ; r.at < e.log.end; r.at++ {
		if i, last := e.log.get(r.at); last {
			r.evaluate(e, int(i))
		}
	}
}

func (r *rule) evaluate(e *Engine, i int) {
	v := e.views[i]
	if v == nil || v.Instance == nil {
		r.matches[i] = false
		return
	}
	e.subject.Facts = v.Facts()
	e.subject.group = e.placed.group(i)
	r.matches[i] = r.expression.Matches(&e.subject)
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

// mask is which instances have what the row alone decides: required attributes, no objection,
// static constraints. All that ask for the same share it.
type mask struct {
	key        string
	attributes []string
	avoid      []string
	rules      []*rule
	passes     []bool
}

func (m *mask) follow(e *Engine, i int) {
	m.passes[i] = e.listed[i] && eligibility.MissingAttribute(e.views[i], m.attributes) == "" &&
		!slices.Contains(m.avoid, e.views[i].ID)
	for _, r := range m.rules {
		m.passes[i] = m.passes[i] && r.matches[i]
	}
}

// members is which instances tasks may run on by attributes, objections and constraints, whatever
// room there is.
type members struct {
	key     string
	mask    *mask
	dynamic []*rule // those that go by what runs on the instance
}

// membersFor is the members for a spec, of its constraints those that bind.
func membersFor(e *Engine, spec *Spec, rules []*rule) *members {
	out := &members{mask: &mask{attributes: spec.Attributes, avoid: spec.Avoid}}
	m := out.mask
	m.key = strings.Join(spec.Attributes, "\x00") + "\x01" + strings.Join(spec.Avoid, "\x00")
	dynamic := ""
	for _, r := range rules {
		text := "\x01" + r.text
		if r.dynamic {
			out.dynamic = append(out.dynamic, r)
			dynamic += text
		} else {
			m.rules = append(m.rules, r)
			m.key += text
		}
	}
	out.key = m.key + "\x02" + dynamic
	if old := e.kept.masks[m.key]; old != nil {
		out.mask = old
		return out
	}
	e.kept.masks[m.key] = m
	lengthen(&m.passes, len(e.views))
	for i := range e.views {
		m.follow(e, i)
	}
	return out
}

func (m *members) has(i int) bool {
	if !m.mask.passes[i] {
		return false
	}
	for _, r := range m.dynamic {
		if !r.matches[i] {
			return false
		}
	}
	return true
}
