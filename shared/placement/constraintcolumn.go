package placement

import (
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/placement/eligibility"
	"berth/shared/snapshot"
)

// A constraintColumn is a constraint with its value for every instance. Static constraints, which
// depend on the instance's row alone, are evaluated when that changes. Dynamic ones, which also
// depend on the tasks there, catch up with the change log when they are used. All choosers with the
// same expression share the column.
type constraintColumn struct {
	expression  *constraint.Expression
	text        string
	owner       string // of tasks that the instance must have, in place of an expression
	matches     []bool
	dynamic     bool
	logPosition uint64 // in the change log
}

// constraintFor returns the column of an expression. Expressions with the same text share it.
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

// affinityFor returns the column of the instances that have a task of the owner. A task and its
// replacement count as one: where the replacement is.
func affinityFor(e *Engine, owner string) *constraintColumn {
	key := "\x04affinity:" + owner
	if column := e.caches.constraints[key]; column != nil {
		return column
	}
	column := &constraintColumn{owner: owner, text: key, dynamic: true}
	e.caches.constraints[key] = column
	column.evaluateAll(e)
	return column
}

func (column *constraintColumn) evaluateAll(e *Engine) {
	growSlice(&column.matches, len(e.views))
	for i := range e.views {
		column.evaluateInstance(e, i)
	}
	column.logPosition = e.changes.end
}

// followChanges evaluates a dynamic constraint on the instances that changed.
func (column *constraintColumn) followChanges(e *Engine) {
	if !column.dynamic || column.logPosition == e.changes.end {
		return
	}
	growSlice(&column.matches, len(e.views))
	if !e.changes.coversChangesSince(column.logPosition, len(e.views)) {
		column.evaluateAll(e)
		return
	}
	for ; column.logPosition < e.changes.end; column.logPosition++ {
		if i, last := e.changes.changedInstanceAt(column.logPosition); last {
			column.evaluateInstance(e, int(i))
		}
	}
}

func (column *constraintColumn) evaluateInstance(e *Engine, i int) {
	v := e.views[i]
	if v == nil || v.Instance == nil {
		column.matches[i] = false
		return
	}
	if column.expression == nil {
		column.matches[i] = hasTaskOf(e, column.owner, i)
		return
	}
	e.subject.Facts = v.Facts()
	e.subject.group = e.overlay.placedGroupOn(i)
	column.matches[i] = column.expression.Matches(&e.subject)
}

// hasTaskOf reports whether the owner has a task on the instance that is not replaced.
func hasTaskOf(e *Engine, owner string, i int) bool {
	spread := e.snap.SpreadOf(owner, "")
	return spread.TasksOn(e.views[i]) > 0
}

// A subject is an instance as constraints see it, with the tasks that this call placed on it.
type subject struct {
	snapshot.Facts
	group string // of those tasks, empty if there are none
}

// Groups yields the groups of the instance's tasks.
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

// A staticMask has the instances that satisfy what depends on their rows alone: required
// attributes, taints, static constraints, and the list of instances to avoid. Matchers with the
// same requirements share it.
type staticMask struct {
	key         string
	attributes  []string
	avoid       []string
	tolerations []cluster.Toleration
	constraints []*constraintColumn
	passes      []bool
	classBit    uint64 // see [instanceClasses]; 0 for none
	// rejections are those of [staticMask.openRejections], as of a revision of the engine's rows.
	rejections         []cluster.Rejection
	rejectionsRevision uint64
}

// updateInstance sets the instance's bit after its row changed.
func (m *staticMask) updateInstance(e *Engine, i int) {
	m.passes[i] = e.inCluster[i] && m.meetsRequirements(e, i) && !slices.Contains(m.avoid, e.views[i].ID)
	if m.passes[i] {
		_, tainted := eligibility.UntoleratedTaint(e.views[i], m.tolerations)
		m.passes[i] = !tainted
	}
	e.classes.updateInstance(m, i)
}

// meetsRequirements reports whether the instance has the attributes and meets the constraints. A
// task that runs there needs no more.
func (m *staticMask) meetsRequirements(e *Engine, i int) bool {
	return eligibility.MissingAttribute(e.views[i], m.attributes) == "" &&
		!slices.ContainsFunc(m.constraints, func(c *constraintColumn) bool { return !c.matches[i] })
}

// A matcher says which instances tasks may run on by attributes, constraints and the list to avoid,
// regardless of their room.
type matcher struct {
	key     string
	static  *staticMask
	dynamic []*constraintColumn // constraints that depend on the tasks of the instance
}

// matcherFor returns the matcher of a spec with those of its constraints that bind.
func matcherFor(e *Engine, spec *Spec, constraints []*constraintColumn) *matcher {
	out := &matcher{static: &staticMask{attributes: spec.Attributes, avoid: spec.Avoid, tolerations: spec.Tolerations}}
	m := out.static
	m.key = strings.Join(spec.Attributes, "\x00") + "\x01" + strings.Join(spec.Avoid, "\x00")
	if len(spec.Tolerations) > 0 {
		m.key += "\x03" + cluster.TolerationsText(spec.Tolerations)
	}
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
	growSlice(&m.passes, len(e.views))
	for i := range e.views {
		m.updateInstance(e, i)
	}
	e.classes.addMask(m)
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
