package service

import (
	"slices"

	"berth/shared/cluster"
)

// A task that has to leave its instance by a rule is replaced there first: its replacement names it
// ([cluster.Task.Replaces]), and until one of them ends the two count as one.

// pair finds the replacements whose task is still there. Of several for one task the first by id counts, and no task is in
// two pairs; the others are tasks like any.
func (g *group) pair() {
	if !slices.ContainsFunc(g.members, func(m *member) bool { return m.Replaces != "" }) {
		return
	}
	byID := make(map[string]*member, len(g.members))
	for _, m := range g.members {
		byID[m.ID] = m
	}
	for _, m := range g.members {
		old := byID[m.Replaces]
		if old != nil && old != m && old.by == nil && !old.successor && m.by == nil {
			old.by, m.successor = m, true
		}
	}
}

// pairs is how many replacements are under way of tasks that could stay by all else.
func (g *group) pairs() (n int) {
	for _, m := range g.members {
		if m.by != nil && m.stays() && m.by.stays() {
			n++
		}
	}
	return n
}

func (m *member) stays() bool { return !m.gone && !m.leaving && m.state != bad }

// part makes two tasks of up to n pairs, those first whose task is first by id: where more tasks are wanted, nothing has
// to stop.
func (g *group) part(n int) (parted []*cluster.Task) {
	for _, m := range g.members {
		if m.by != nil && len(parted) < n {
			parted = append(parted, m.by.Task)
			m.by.successor, m.by = false, nil
		}
	}
	return parted
}

// settle ends replacements: the task goes where its replacement is healthy; where all are to end, the replacement goes
// otherwise. Of the healthy no more than may go.
func (c *census) settle(g *group, all bool) {
	for _, m := range g.members {
		next := m.by
		switch {
		case next == nil || m.gone || next.gone:
		case next.state == good:
			if c.stop(m, "Replaced on another instance.") {
				next.successor, m.by = false, nil
			}
		case all || next.state == bad && !c.DistrustChecks:
			if c.stop(next, c.scaling(g)) {
				m.by = nil
			}
		}
	}
}
