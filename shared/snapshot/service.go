package snapshot

import (
	"iter"

	"berth/shared/cluster"
	"berth/shared/state"
)

// beside are the rows beside a service's tasks: few services have any.
type beside struct {
	targets     map[string]map[string]*cluster.Target     // by owner and task
	protections map[string]map[string]*cluster.Protection // by owner and task
	throttles   map[string]*cluster.Throttle              // by owner
	alarms      map[string]*cluster.AlarmWatch            // by owner
}

// Target is where a task is registered; nil for nowhere.
func (s *Snapshot) Target(owner, id string) *cluster.Target { return s.beside.targets[owner][id] }

// Targets are the registrations of a service's tasks, by task id. The caller changes nothing.
func (s *Snapshot) Targets(owner string) map[string]*cluster.Target { return s.beside.targets[owner] }

// AllTargets are the registrations of all tasks, in no order.
func (s *Snapshot) AllTargets() iter.Seq[*cluster.Target] {
	return func(yield func(*cluster.Target) bool) {
		for _, of := range s.beside.targets {
			for _, t := range of {
				if !yield(t) {
					return
				}
			}
		}
	}
}

// Protection is what keeps a task from being stopped; nil for nothing. It may be over.
func (s *Snapshot) Protection(owner, id string) *cluster.Protection {
	return s.beside.protections[owner][id]
}

// Protections are those of a service's tasks, by task id; they may be over. The caller changes nothing.
func (s *Snapshot) Protections(owner string) map[string]*cluster.Protection {
	return s.beside.protections[owner]
}

// Throttle is how the starts of a service are slowed down; nil for not at all.
func (s *Snapshot) Throttle(owner string) *cluster.Throttle { return s.beside.throttles[owner] }

// AlarmWatch is what was seen of a service's alarms; nil for nothing.
func (s *Snapshot) AlarmWatch(owner string) *cluster.AlarmWatch { return s.beside.alarms[owner] }

// putBeside takes in one of the rows beside a service's tasks; false where the snapshot has the same or a newer one, or it
// is another kind of row.
func (s *Snapshot) putBeside(row state.Row) bool {
	switch r := row.(type) {
	case *cluster.Target:
		return s.reassess(r, func() bool { return putNested(&s.beside.targets, r.Owner, r.Task, r) })
	case *cluster.Protection:
		return putNested(&s.beside.protections, r.Owner, r.Task, r)
	case *cluster.Throttle:
		return putNewer(&s.beside.throttles, r.Owner, r)
	case *cluster.AlarmWatch:
		return putNewer(&s.beside.alarms, r.Owner, r)
	}
	return false
}

func (s *Snapshot) removeBeside(row state.Row) bool {
	switch r := row.(type) {
	case *cluster.Target:
		return s.reassess(r, func() bool { return removeNested(s.beside.targets, r.Owner, r.Task, r) })
	case *cluster.Protection:
		return removeNested(s.beside.protections, r.Owner, r.Task, r)
	case *cluster.Throttle:
		return removeOlder(s.beside.throttles, r.Owner, r)
	case *cluster.AlarmWatch:
		return removeOlder(s.beside.alarms, r.Owner, r)
	}
	return false
}

func putNewer[R state.Row](rows *map[string]R, key string, row R) bool {
	if old, ok := (*rows)[key]; ok && old.Header().Rev >= row.Header().Rev {
		return false
	}
	if *rows == nil {
		*rows = map[string]R{}
	}
	(*rows)[key] = row
	return true
}

func removeOlder[R state.Row](rows map[string]R, key string, row R) bool {
	old, ok := rows[key]
	if !ok || old.Header().Rev > row.Header().Rev {
		return false
	}
	delete(rows, key)
	return true
}

func putNested[R state.Row](rows *map[string]map[string]R, owner, id string, row R) bool {
	of := (*rows)[owner]
	if !putNewer(&of, id, row) {
		return false
	}
	if *rows == nil {
		*rows = map[string]map[string]R{}
	}
	(*rows)[owner] = of
	return true
}

func removeNested[R state.Row](rows map[string]map[string]R, owner, id string, row R) bool {
	removed := removeOlder(rows[owner], id, row)
	if removed && len(rows[owner]) == 0 {
		delete(rows, owner)
	}
	return removed
}

// Vitals are how many of the RUNNING tasks have a health that is known, and how many of these are UNHEALTHY.
type Vitals struct{ Checked, Unhealthy int }

// Vitals are those of the cluster's tasks, foreign ones aside.
func (s *Snapshot) Vitals() Vitals { return s.vitals }

// pulse counts a task's health in (1) or out (-1).
func (s *Snapshot) pulse(t *cluster.Task, sign int) {
	if t.Last != cluster.TaskRunning || t.Foreign || !t.Active() {
		return
	}
	h := t.Health
	if target := s.Target(t.Owner, t.ID); target != nil && (h == cluster.UnknownHealth || target.Health() == cluster.Unhealthy) {
		h = target.Health()
	}
	if h != cluster.UnknownHealth {
		s.vitals.Checked += sign
	}
	if h == cluster.Unhealthy {
		s.vitals.Unhealthy += sign
	}
}

// reassess counts the health of a task anew whose registrations change.
func (s *Snapshot) reassess(r *cluster.Target, change func() bool) bool {
	t := s.Task(r.Owner, r.Task)
	if t != nil {
		s.pulse(t, -1)
	}
	changed := change()
	if t != nil {
		s.pulse(t, 1)
	}
	return changed
}
