package cluster

// beside are the rows beside a service's tasks: few services have any.
type beside struct {
	targets     map[string]map[string]*Target     // by owner and task
	protections map[string]map[string]*Protection // by owner and task
	throttles   map[string]*Throttle              // by owner
	alarms      map[string]*AlarmWatch            // by owner
}

// Target is where a task is registered; nil for nowhere.
func (s *Snapshot) Target(owner, id string) *Target { return s.beside.targets[owner][id] }

// Targets are the registrations of a service's tasks, by task id. The caller changes nothing.
func (s *Snapshot) Targets(owner string) map[string]*Target { return s.beside.targets[owner] }

// Protection is what keeps a task from being stopped; nil for nothing. It may be over.
func (s *Snapshot) Protection(owner, id string) *Protection {
	return s.beside.protections[owner][id]
}

// Throttle is how the starts of a service are slowed down; nil for not at all.
func (s *Snapshot) Throttle(owner string) *Throttle { return s.beside.throttles[owner] }

// AlarmWatch is what was seen of a service's alarms; nil for nothing.
func (s *Snapshot) AlarmWatch(owner string) *AlarmWatch { return s.beside.alarms[owner] }

// putBeside takes in one of the rows beside a service's tasks; false where the snapshot has the same or a newer one, or it
// is another kind of row.
func (s *Snapshot) putBeside(row Row) bool {
	switch r := row.(type) {
	case *Target:
		return putNested(&s.beside.targets, r.Owner, r.Task, r)
	case *Protection:
		return putNested(&s.beside.protections, r.Owner, r.Task, r)
	case *Throttle:
		return putNewer(&s.beside.throttles, r.Owner, r)
	case *AlarmWatch:
		return putNewer(&s.beside.alarms, r.Owner, r)
	}
	return false
}

func (s *Snapshot) removeBeside(row Row) bool {
	switch r := row.(type) {
	case *Target:
		return removeNested(s.beside.targets, r.Owner, r.Task, r)
	case *Protection:
		return removeNested(s.beside.protections, r.Owner, r.Task, r)
	case *Throttle:
		return removeOlder(s.beside.throttles, r.Owner, r)
	case *AlarmWatch:
		return removeOlder(s.beside.alarms, r.Owner, r)
	}
	return false
}

func putNewer[R Row](rows *map[string]R, key string, row R) bool {
	if old, ok := (*rows)[key]; ok && old.Header().Rev >= row.Header().Rev {
		return false
	}
	if *rows == nil {
		*rows = map[string]R{}
	}
	(*rows)[key] = row
	return true
}

func removeOlder[R Row](rows map[string]R, key string, row R) bool {
	old, ok := rows[key]
	if !ok || old.Header().Rev > row.Header().Rev {
		return false
	}
	delete(rows, key)
	return true
}

func putNested[R Row](rows *map[string]map[string]R, owner, id string, row R) bool {
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

func removeNested[R Row](rows map[string]map[string]R, owner, id string, row R) bool {
	removed := removeOlder(rows[owner], id, row)
	if removed && len(rows[owner]) == 0 {
		delete(rows, owner)
	}
	return removed
}
