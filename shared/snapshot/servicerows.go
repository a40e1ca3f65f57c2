package snapshot

import (
	"iter"

	"berth/shared/cluster"
	"berth/shared/state"
)

// serviceRows are the rows that belong to a service, besides its tasks. Few services have any.
type serviceRows struct {
	targets     map[string]map[string]*cluster.Target     // by owner and task
	protections map[string]map[string]*cluster.Protection // by owner and task
	throttles   map[string]*cluster.Throttle              // by owner
	alarms      map[string]*cluster.AlarmWatch            // by owner
}

// Target returns a task's registrations, or nil if it has none.
func (x *serviceRows) Target(owner, id string) *cluster.Target { return x.targets[owner][id] }

// Targets returns the registrations of an owner's tasks by task id. The caller must not change the
// map.
func (x *serviceRows) Targets(owner string) map[string]*cluster.Target { return x.targets[owner] }

// AllTargets iterates over the registrations of all tasks, in no order.
func (x *serviceRows) AllTargets() iter.Seq[*cluster.Target] {
	return func(yield func(*cluster.Target) bool) {
		for _, of := range x.targets {
			for _, t := range of {
				if !yield(t) {
					return
				}
			}
		}
	}
}

// Protection returns the task's scale-in protection, or nil. It may have expired.
func (x *serviceRows) Protection(owner, id string) *cluster.Protection {
	return x.protections[owner][id]
}

// Protections returns the protections of an owner's tasks by task id. They may have expired. The
// caller must not change the map.
func (x *serviceRows) Protections(owner string) map[string]*cluster.Protection {
	return x.protections[owner]
}

// Throttle returns how the starts of a service are slowed down, or nil if they are not.
func (x *serviceRows) Throttle(owner string) *cluster.Throttle { return x.throttles[owner] }

// AlarmWatch returns what health-check observed of a service's alarms, or nil.
func (x *serviceRows) AlarmWatch(owner string) *cluster.AlarmWatch { return x.alarms[owner] }

// putServiceRow adds or replaces one of these rows. It returns false if it has the same or a newer
// version, or if the row is of another kind.
func (x *serviceRows) putServiceRow(row state.Row) bool {
	switch r := row.(type) {
	case *cluster.Target:
		return putNested(&x.targets, r.Owner, r.Task, r)
	case *cluster.Protection:
		return putNested(&x.protections, r.Owner, r.Task, r)
	case *cluster.Throttle:
		return putNewer(&x.throttles, r.Owner, r)
	case *cluster.AlarmWatch:
		return putNewer(&x.alarms, r.Owner, r)
	}
	return false
}

func (x *serviceRows) removeServiceRow(row state.Row) bool {
	switch r := row.(type) {
	case *cluster.Target:
		return removeNested(x.targets, r.Owner, r.Task, r)
	case *cluster.Protection:
		return removeNested(x.protections, r.Owner, r.Task, r)
	case *cluster.Throttle:
		return removeOlder(x.throttles, r.Owner, r)
	case *cluster.AlarmWatch:
		return removeOlder(x.alarms, r.Owner, r)
	}
	return false
}

// putNewer stores a row unless the map has the same or a newer version. It makes the map with its
// first row.
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

// removeOlder removes a row unless the map has a newer version.
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
