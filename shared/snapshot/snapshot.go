package snapshot

import (
	"container/heap"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// A Snapshot is one cluster in memory: its rows, and what follows from them. It is for one
// goroutine. What its methods return is valid until the next row comes in.
type Snapshot struct {
	Meta          state.Meta
	Configuration cluster.Configuration              // the zero value where there is no row
	Definitions   map[string]*cluster.TaskDefinition // by family:revision
	Requests      map[string]*state.Request          // unanswered, by id
	// Consolidation is the progress of consolidation when placement last looked at the balance.
	Consolidation cluster.ConsolidationProgress

	instanceSet
	serviceSet
	serviceRows
	taskSet
	zoneSet
	metricSet
	applicationSet
	interner     interner
	healthCounts HealthCounts
	// expiring is a heap of rows that expire, the next one first.
	expiring expiry
}

// NewSnapshot returns an empty snapshot.
func NewSnapshot() *Snapshot {
	return &Snapshot{
		Definitions: map[string]*cluster.TaskDefinition{}, Requests: map[string]*state.Request{},
		instanceSet: newInstanceSet(), serviceSet: newServiceSet(), taskSet: taskSet{owners: map[string]*Owner{}},
	}
}

// ApplyRecord applies a stream record: the row's newer state, and the next placement version if the
// record's write made that. It reports whether the snapshot changed.
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

// DropExpired removes the rows that had expired by now. DynamoDB may delete an expired row days
// later, so the snapshot does not wait for the stream to say so.
func (s *Snapshot) DropExpired(now time.Time) {
	for len(s.expiring) > 0 && s.expiring[0].Header().Expires <= now.Unix() {
		s.removeRow(heap.Pop(&s.expiring).(state.Row))
	}
}

// expiry is a heap of rows by when they expire, not by when they came in: a request is kept for a
// day, and tasks that stopped after it expire before it.
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

// cloneForSnapshot copies a row that [Snapshot.Put] would change. The record's row may be read by
// others.
func cloneForSnapshot(row state.Row) state.Row {
	switch r := row.(type) {
	case *cluster.Instance:
		return new(*r)
	case *cluster.Task:
		return new(*r)
	}
	return row
}

// Put adds a row, which then belongs to the snapshot. It does nothing and returns false if the
// snapshot has the same or a newer version of it.
func (s *Snapshot) Put(row state.Row) bool {
	taken := s.putRow(row)
	if taken && row.Header().Expires > 0 && !isAnswered(row) {
		heap.Push(&s.expiring, row)
	}
	return taken
}

// isAnswered reports whether the row is an answered request. The snapshot keeps only unanswered
// ones.
func isAnswered(row state.Row) bool {
	r, ok := row.(*state.Request)
	return ok && r.Answered
}

// putRow stores a row of any kind unless the snapshot has a newer version.
func (s *Snapshot) putRow(row state.Row) bool {
	switch r := row.(type) {
	case *cluster.Task:
		return s.putTask(r)
	case *cluster.Instance:
		return s.putInstance(r)
	case *cluster.Service:
		return s.putService(r)
	case *cluster.Target:
		return changeTarget(s, r, s.putServiceRow)
	case *state.Request:
		return putRequest(&s.Requests, r)
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
	case *cluster.TaskDefinition:
		if old := s.Definitions[r.Name()]; old != nil && old.Rev > r.Rev {
			return false
		}
		s.Definitions[r.Name()] = r
	default:
		return s.putServiceRow(row)
	}
	return true
}

// removeRow removes a row unless the snapshot has a newer version of it.
func (s *Snapshot) removeRow(row state.Row) bool {
	switch r := row.(type) {
	case *cluster.Configuration:
		if s.Configuration.Rev > 0 && s.Configuration.Rev <= r.Rev {
			s.setConfiguration(cluster.Configuration{})
			return true
		}
	case *cluster.Instance:
		if v := s.Instances[r.ID]; v != nil && v.Instance != nil && v.Instance.Rev <= r.Rev {
			s.setInstance(v, nil)
			s.dropUnknown(v)
			return true
		}
	case *cluster.Task:
		if at := s.tasks.find(r.Owner, r.ID); at >= 0 && s.tasks.slots[at].task.Rev <= r.Rev {
			s.removeTask(at)
			return true
		}
	case *cluster.Service:
		if old := s.Services[r.Name]; old != nil && old.Rev <= r.Rev {
			s.removeService(old)
			return true
		}
	case *cluster.Target:
		return changeTarget(s, r, s.removeServiceRow)
	case *state.Request:
		delete(s.Requests, r.ID)
		return true
	default:
		return s.removeServiceRow(row)
	}
	return false
}

// putService stores a service's row. If the service was deleted and created again under its name,
// what belonged to the old one is dropped first.
func (s *Snapshot) putService(r *cluster.Service) bool {
	old := s.Services[r.Name]
	if old != nil && old.Rev >= r.Rev {
		return false
	}
	if old != nil && old.Short != r.Short {
		s.removeService(old)
	}
	s.indexService(r)
	s.setMetrics(r.Short, r.Rules.Metrics)
	setApplicationOf(s, r.Short, r.Rules.Application)
	return true
}

// putRequest stores a request until it is answered.
func putRequest(requests *map[string]*state.Request, r *state.Request) bool {
	if r.Answered {
		delete(*requests, r.ID)
		return true
	}
	return putNewer(requests, r.ID, r)
}

// removeService removes a service with its default loads and its reservations.
func (s *Snapshot) removeService(r *cluster.Service) {
	s.dropService(r.Name)
	s.setMetrics(r.Short, nil)
	setApplicationOf(s, r.Short, "")
	s.Reserve(r.Short, nil)
}

// GovernedServices returns the REPLICA services whose tasks may have to move when rules or
// instances change, by name. If the configuration has a domain policy, these are all services. The
// caller must not change the map.
func (s *Snapshot) GovernedServices() map[string]*cluster.Service {
	if p := s.Configuration.DomainPolicy; p != "" && p != cluster.PolicyNone {
		return s.Services
	}
	return s.governed
}
