package snapshot

import (
	"iter"

	"berth/shared/cluster"
	"berth/shared/state"
)

// serviceRows are the rows that belong to a service beside its tasks. Few services have any.
type serviceRows struct {
	targets     map[string]map[string]*cluster.Target     // by owner and task
	protections map[string]map[string]*cluster.Protection // by owner and task
	throttles   map[string]*cluster.Throttle              // by owner
	alarms      map[string]*cluster.AlarmWatch            // by owner
}

// Target is where a task is registered; nil for nowhere.
func (x *serviceRows) Target(owner, id string) *cluster.Target { return x.targets[owner][id] }

// Targets are the registrations of a service's tasks, by task id. The caller changes nothing.
func (x *serviceRows) Targets(owner string) map[string]*cluster.Target { return x.targets[owner] }

// AllTargets are the registrations of all tasks, in no order.
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

// Protection is what keeps a task from being stopped; nil for nothing. It may be over.
func (x *serviceRows) Protection(owner, id string) *cluster.Protection {
	return x.protections[owner][id]
}

// Protections are those of a service's tasks, by task id; they may be over. The caller changes
// nothing.
func (x *serviceRows) Protections(owner string) map[string]*cluster.Protection {
	return x.protections[owner]
}

// Throttle is how the starts of a service are slowed down; nil for not at all.
func (x *serviceRows) Throttle(owner string) *cluster.Throttle { return x.throttles[owner] }

// AlarmWatch is what was seen of a service's alarms; nil for nothing.
func (x *serviceRows) AlarmWatch(owner string) *cluster.AlarmWatch { return x.alarms[owner] }

// putServiceRow takes in one of these rows. It returns false if it has the same or a newer version, or if row
// is of another kind.
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
