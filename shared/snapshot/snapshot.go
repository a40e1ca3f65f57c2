package snapshot

import (
	"container/heap"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// Snapshot is one cluster as its rows say: what decisions are made on. Capacity in use is derived from tasks, never
// counted a second time. It is for one goroutine, and what it hands out is valid until the next row comes in.
type Snapshot struct {
	Meta          state.Meta
	Configuration cluster.Configuration              // the zero value where there is no row
	Instances     map[string]*InstanceView           // by id
	Services      map[string]*cluster.Service        // by name
	Definitions   map[string]*cluster.TaskDefinition // by family:revision
	Requests      map[string]*state.Request          // unanswered, by id

	tasks    taskIndex
	waiting  []*cluster.Task
	owners   map[string]*owner
	blocked  map[string]*cluster.Service
	daemons  map[string]*cluster.Service
	governed map[string]*cluster.Service
	// rebalancing are the services whose zones are out of balance.
	rebalancing map[string]*cluster.Service
	zones       []*Zone
	dense       []*InstanceView
	free        []int // positions in dense
	statics     uint64
	journal     journal
	metrics     metrics
	pool        pool
	beside      beside
	vitals      Vitals
	reserved    map[string]map[*InstanceView]cluster.Resources // by owner
	// expiring are rows that may go at a time, those first that may first.
	expiring expiry
}

// NewSnapshot is an empty snapshot.
func NewSnapshot() *Snapshot {
	return &Snapshot{
		Instances: map[string]*InstanceView{}, Services: map[string]*cluster.Service{},
		Definitions: map[string]*cluster.TaskDefinition{}, Requests: map[string]*state.Request{},
		owners: map[string]*owner{}, blocked: map[string]*cluster.Service{}, daemons: map[string]*cluster.Service{}, governed: map[string]*cluster.Service{},
		rebalancing: map[string]*cluster.Service{}, reserved: map[string]map[*InstanceView]cluster.Resources{},
	}
}

// See takes in a stream record: a newer state of its row, and the placement version where the record is the next
// narrowing. It reports whether the record told the snapshot anything new.
func (s *Snapshot) See(r state.Record) bool {
	changed := false
	if r.New == nil {
		changed = s.remove(r.Old)
	} else {
		changed = s.Put(apart(r.New))
	}
	if h := r.Row().Header(); h.Stamp == s.Meta.Version+1 {
		s.Meta.Version = h.Stamp
	}
	return changed
}

// Prune drops rows that had expired by now: the stream need not tell of it.
func (s *Snapshot) Prune(now time.Time) {
	for len(s.expiring) > 0 && s.expiring[0].Header().Expires <= now.Unix() {
		s.remove(heap.Pop(&s.expiring).(state.Row))
	}
}

// expiry is a heap of rows by when they expire: a request that is kept for a day must not keep the tasks that stopped
// after it.
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

// apart is the row without what others may read meanwhile: Put changes the row, and a record is everybody's.
func apart(row state.Row) state.Row {
	switch r := row.(type) {
	case *cluster.Instance:
		return new(*r)
	case *cluster.Task:
		return new(*r)
	}
	return row
}

// Put takes in a row, which then belongs to the snapshot, unless the snapshot has the same or a newer state of it.
func (s *Snapshot) Put(row state.Row) bool {
	taken := s.put(row)
	if taken && row.Header().Expires > 0 && !answered(row) {
		heap.Push(&s.expiring, row)
	}
	return taken
}

// answered reports whether the row is a request that is over: the snapshot keeps none.
func answered(row state.Row) bool {
	r, ok := row.(*state.Request)
	return ok && r.Answered
}

func (s *Snapshot) put(row state.Row) bool {
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
		s.configure(*r)
	case *cluster.Instance:
		return s.putInstance(r)
	case *cluster.Task:
		return s.putTask(r)
	case *cluster.Service:
		if old := s.Services[r.Name]; old != nil && old.Rev >= r.Rev {
			return false
		}
		s.putService(r)
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
		return s.putBeside(row)
	}
	return true
}

func (s *Snapshot) remove(row state.Row) bool {
	switch r := row.(type) {
	case *cluster.Configuration:
		if s.Configuration.Rev > 0 && s.Configuration.Rev <= r.Rev {
			s.configure(cluster.Configuration{})
			return true
		}
	case *cluster.Instance:
		if v := s.Instances[r.ID]; v != nil && v.Instance != nil && v.Rev <= r.Rev {
			s.setInstance(v, nil)
			s.forget(v)
			return true
		}
	case *cluster.Task:
		if old := s.Task(r.Owner, r.ID); old != nil && old.Rev <= r.Rev {
			s.drop(old)
			return true
		}
	case *cluster.Service:
		if old := s.Services[r.Name]; old != nil && old.Rev <= r.Rev {
			s.removeService(old)
			return true
		}
	case *state.Request:
		delete(s.Requests, r.ID)
		return true
	default:
		return s.removeBeside(row)
	}
	return false
}

func (s *Snapshot) putService(r *cluster.Service) {
	if old := s.Services[r.Name]; old != nil && old.Short != r.Short {
		s.removeService(old)
	}
	s.Services[r.Name] = r
	s.unlist(r.Name)
	if r.Blocked != nil {
		s.blocked[r.Name] = r
	}
	if r.Rebalancing {
		s.rebalancing[r.Name] = r
	}
	if r.Strategy == cluster.Daemon {
		s.daemons[r.Name] = r
	}
	if r.Rules.Govern() && r.Strategy != cluster.Daemon {
		s.governed[r.Name] = r
	}
	s.setMetrics(r.Short, r.Rules.Metrics)
}

func (s *Snapshot) removeService(r *cluster.Service) {
	delete(s.Services, r.Name)
	s.unlist(r.Name)
	s.setMetrics(r.Short, nil)
	s.Reserve(r.Short, nil)
}

func (s *Snapshot) unlist(name string) {
	delete(s.blocked, name)
	delete(s.daemons, name)
	delete(s.governed, name)
	delete(s.rebalancing, name)
}

// Blocked are the services that want tasks which found no instance, by name.
func (s *Snapshot) Blocked() map[string]*cluster.Service { return s.blocked }

// Governed are the REPLICA services whose tasks may have to move as their rules or the instances change, by name: all of
// them where the configuration has a domain policy.
func (s *Snapshot) Governed() map[string]*cluster.Service {
	if p := s.Configuration.DomainPolicy; p != "" && p != cluster.PolicyNone {
		return s.Services
	}
	return s.governed
}

// Rebalancing are the services whose tasks are, or should be, on their way to other zones (S13), by name.
func (s *Snapshot) Rebalancing() map[string]*cluster.Service { return s.rebalancing }

// Daemons are the DAEMON services, by name.
func (s *Snapshot) Daemons() map[string]*cluster.Service { return s.daemons }
