package snapshot

import (
	"container/heap"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// Snapshot is one cluster as its rows say: what decisions are made on. Capacity in use is derived
// from tasks, never counted a second time. It is for one goroutine, and what it hands out is valid
// until the next row comes in.
type Snapshot struct {
	Meta          state.Meta
	Configuration cluster.Configuration              // the zero value where there is no row
	Definitions   map[string]*cluster.TaskDefinition // by family:revision
	Requests      map[string]*state.Request          // unanswered, by id

	instanceSet
	serviceSet
	serviceRows
	taskSet
	zoneSet
	metricSet
	interner     interner
	healthCounts HealthCounts
	// expiring is a heap of rows that expire, the next one first.
	expiring expiry
}

// NewSnapshot returns an empty snapshot.
func NewSnapshot() *Snapshot {
	return &Snapshot{
		Definitions: map[string]*cluster.TaskDefinition{}, Requests: map[string]*state.Request{},
		instanceSet: newInstanceSet(), serviceSet: newServiceSet(), taskSet: taskSet{owners: map[string]*owner{}},
	}
}

// ApplyRecord takes in a stream record: a newer state of its row, and the placement version where the
// record is the next narrowing. It reports whether the record told the snapshot anything new.
func (s *Snapshot) ApplyRecord(r state.Record) bool {
	changed := false
	if r.New == nil {
		changed = s.removeRow(r.Old)
	} else {
		changed = s.Put(cloneForSnapshot(r.New))
	}
	if h := r.Row().Header(); h.Stamp == s.Meta.Version+1 {
		s.Meta.Version = h.Stamp
	}
	return changed
}

// DropExpired drops rows that had expired by now: the stream need not tell of it.
func (s *Snapshot) DropExpired(now time.Time) {
	for len(s.expiring) > 0 && s.expiring[0].Header().Expires <= now.Unix() {
		s.removeRow(heap.Pop(&s.expiring).(state.Row))
	}
}

// expiry is a heap of rows by when they expire: a request that is kept for a day must not keep the
// tasks that stopped after it.
type expiry []state.Row

func (e expiry) Len() int           { return len(e) }
func (e expiry) Less(i, j int) bool { return e[i].Header().Expires < e[j].Header().Expires }
func (e expiry) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *expiry) Push(row any)      { *e = append(*e, row.(state.Row)) }
func (e *expiry) Pop() any {
	last := len(*e) - 1
	row := (*e)[last]
	(*e)[last] = nil
	*e = (*e)[:last]
	return row
}

// cloneForSnapshot is the row without what others may read meanwhile: Put changes the row, and a record is
// everybody's.
func cloneForSnapshot(row state.Row) state.Row {
	switch r := row.(type) {
	case *cluster.Instance:
		return new(*r)
	case *cluster.Task:
		return new(*r)
	}
	return row
}

// Put takes in a row, which then belongs to the snapshot, unless the snapshot has the same or a
// newer state of it.
func (s *Snapshot) Put(row state.Row) bool {
	taken := s.putRow(row)
	if taken && row.Header().Expires > 0 && !isAnswered(row) {
		heap.Push(&s.expiring, row)
	}
	return taken
}

// isAnswered reports whether the row is a request that is over: the snapshot keeps none.
func isAnswered(row state.Row) bool {
	r, ok := row.(*state.Request)
	return ok && r.Answered
}

func (s *Snapshot) putRow(row state.Row) bool {
	switch r := row.(type) {
	case *state.Meta:
		if r.Version < s.Meta.Version {
			return false
		}
		s.Meta = *r
	case *cluster.Configuration:
		if s.Configuration.Rev >= r.Rev {
			return false
		}
		s.setConfiguration(*r)
	case *cluster.Instance:
		return s.putInstance(r)
	case *cluster.Task:
		return s.putTask(r)
	case *cluster.Service:
		if old := s.Services[r.Name]; old != nil && old.Rev >= r.Rev {
			return false
		}
		s.putService(r)
	case *cluster.Target:
		return changeTarget(s, r, s.serviceRows.putServiceRow)
	case *cluster.TaskDefinition:
		if old := s.Definitions[r.Name()]; old != nil && old.Rev > r.Rev {
			return false
		}
		s.Definitions[r.Name()] = r
	case *state.Request:
		if r.Answered {
			delete(s.Requests, r.ID)
			return true
		}
		if old := s.Requests[r.ID]; old != nil && old.Rev >= r.Rev {
			return false
		}
		s.Requests[r.ID] = r
	default:
		return s.serviceRows.putServiceRow(row)
	}
	return true
}

func (s *Snapshot) removeRow(row state.Row) bool {
	switch r := row.(type) {
	case *cluster.Configuration:
		if s.Configuration.Rev > 0 && s.Configuration.Rev <= r.Rev {
			s.setConfiguration(cluster.Configuration{})
			return true
		}
	case *cluster.Instance:
		if v := s.Instances[r.ID]; v != nil && v.Instance != nil && v.Rev <= r.Rev {
			s.setInstance(v, nil)
			s.dropUnknown(v)
			return true
		}
	case *cluster.Task:
		if old := s.Task(r.Owner, r.ID); old != nil && old.Rev <= r.Rev {
			s.removeTask(old)
			return true
		}
	case *cluster.Service:
		if old := s.Services[r.Name]; old != nil && old.Rev <= r.Rev {
			s.removeService(old)
			return true
		}
	case *cluster.Target:
		return changeTarget(s, r, s.serviceRows.removeServiceRow)
	case *state.Request:
		delete(s.Requests, r.ID)
		return true
	default:
		return s.serviceRows.removeServiceRow(row)
	}
	return false
}

// putService makes r the row of its service. A service that was created again under the same name
// is another one.
func (s *Snapshot) putService(r *cluster.Service) {
	if old := s.Services[r.Name]; old != nil && old.Short != r.Short {
		s.removeService(old)
	}
	s.serviceSet.indexService(r)
	s.setMetrics(r.Short, r.Rules.Metrics)
}

func (s *Snapshot) removeService(r *cluster.Service) {
	s.serviceSet.dropService(r.Name)
	s.setMetrics(r.Short, nil)
	s.Reserve(r.Short, nil)
}

// GovernedServices returns the REPLICA services whose tasks may have to move when their rules or the
// instances change, by name. Where the configuration has a domain policy these are all services.
func (s *Snapshot) GovernedServices() map[string]*cluster.Service {
	if p := s.Configuration.DomainPolicy; p != "" && p != cluster.PolicyNone {
		return s.Services
	}
	return s.governed
}
