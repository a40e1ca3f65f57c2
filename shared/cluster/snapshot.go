package cluster

import (
	"container/heap"
	"time"
)

// Snapshot is one cluster as its rows say: what decisions are made on. Capacity in use is derived from tasks, never
// counted a second time. It is for one goroutine.
type Snapshot struct {
	Meta        Meta
	Instances   map[string]*InstanceView // by id
	Tasks       map[Key]*Task
	Services    map[string]*Service        // by name
	Definitions map[string]*TaskDefinition // by family:revision
	Requests    map[string]*Request        // unanswered, by id
	owned       map[string]map[Key]*Task   // by owner
	waiting     map[Key]*Task
	blocked     map[string]*Service
	daemons     map[string]*Service
	zones       []*Zone
	crowds      map[crowdKey]Crowd
	// expiring are rows that may go at a time, those first that may first.
	expiring expiry
}

// InstanceView is an instance with what its tasks hold of it.
type InstanceView struct {
	*Instance // nil while only its tasks are known
	ID        string
	CPU       int64 // free, thousandths of a CPU unit
	Memory    int64 // free, MiB
	GPUs      []int // free thousandths per device
	// Unpinned is how many devices are held by tasks of which Berth does not know which: foreign ones.
	Unpinned int
	Ports    map[Port]int
	Tasks    map[Key]*Task // those that hold capacity
	zone     *Zone         // nil while unknown or gone
}

// NewSnapshot is an empty snapshot.
func NewSnapshot() *Snapshot {
	return &Snapshot{
		Instances: map[string]*InstanceView{}, Tasks: map[Key]*Task{}, Services: map[string]*Service{},
		Definitions: map[string]*TaskDefinition{}, Requests: map[string]*Request{},
		owned: map[string]map[Key]*Task{}, waiting: map[Key]*Task{},
		blocked: map[string]*Service{}, daemons: map[string]*Service{}, crowds: map[crowdKey]Crowd{},
	}
}

// See takes in a stream record: a newer state of its row, and the placement version where the record is the next
// narrowing. It reports whether the record told the snapshot anything new.
func (s *Snapshot) See(r Record) bool {
	changed := false
	if r.New == nil {
		changed = s.remove(r.Old)
	} else {
		changed = s.Put(r.New)
	}
	if h := r.Row().Header(); h.Stamp == s.Meta.Version+1 {
		s.Meta.Version = h.Stamp
	}
	return changed
}

// Prune drops rows that had expired by now: the stream need not tell of it.
func (s *Snapshot) Prune(now time.Time) {
	for len(s.expiring) > 0 && s.expiring[0].Header().Expires <= now.Unix() {
		s.remove(heap.Pop(&s.expiring).(Row))
	}
}

// expiry is a heap of rows by when they expire: a request that is kept for a day must not keep the tasks that stopped
// after it.
type expiry []Row

func (e expiry) Len() int           { return len(e) }
func (e expiry) Less(i, j int) bool { return e[i].Header().Expires < e[j].Header().Expires }
func (e expiry) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *expiry) Push(row any)      { *e = append(*e, row.(Row)) }
func (e *expiry) Pop() any {
	last := len(*e) - 1
	row := (*e)[last]
	(*e)[last] = nil
	*e = (*e)[:last]
	return row
}

// Put takes in a row unless the snapshot has the same or a newer state of it.
func (s *Snapshot) Put(row Row) bool {
	taken := s.put(row)
	if taken && row.Header().Expires > 0 && !answered(row) {
		heap.Push(&s.expiring, row)
	}
	return taken
}

// answered reports whether the row is a request that is over: the snapshot keeps none.
func answered(row Row) bool {
	r, ok := row.(*Request)
	return ok && r.Answered
}

func (s *Snapshot) put(row Row) bool {
	switch r := row.(type) {
	case *Meta:
		if r.Version < s.Meta.Version {
			return false
		}
		s.Meta = *r
	case *Instance:
		return s.putInstance(r)
	case *Task:
		return s.putTask(r)
	case *Service:
		if old := s.Services[r.Name]; old != nil && old.Rev >= r.Rev {
			return false
		}
		s.putService(r)
	case *TaskDefinition:
		if old := s.Definitions[r.Name()]; old != nil && old.Rev > r.Rev {
			return false
		}
		s.Definitions[r.Name()] = r
	case *Request:
		if r.Answered {
			delete(s.Requests, r.ID)
			return true
		}
		if old := s.Requests[r.ID]; old != nil && old.Rev >= r.Rev {
			return false
		}
		s.Requests[r.ID] = r
	default:
		return false
	}
	return true
}

func (s *Snapshot) remove(row Row) bool {
	switch r := row.(type) {
	case *Instance:
		if v := s.Instances[r.ID]; v != nil && v.Instance != nil && v.Rev <= r.Rev {
			v.Instance = nil
			s.settle(v)
			v.recount()
			s.forget(v)
			return true
		}
	case *Task:
		if old := s.Tasks[r.Key()]; old != nil && old.Rev <= r.Rev {
			s.drop(old)
			return true
		}
	case *Service:
		if old := s.Services[r.Name]; old != nil && old.Rev <= r.Rev {
			delete(s.Services, r.Name)
			delete(s.blocked, r.Name)
			delete(s.daemons, r.Name)
			return true
		}
	case *Request:
		delete(s.Requests, r.ID)
		return true
	}
	return false
}

func (s *Snapshot) view(id string) *InstanceView {
	v := s.Instances[id]
	if v == nil {
		v = &InstanceView{ID: id, Ports: map[Port]int{}, Tasks: map[Key]*Task{}}
		s.Instances[id] = v
	}
	return v
}

func (s *Snapshot) putService(r *Service) {
	s.Services[r.Name] = r
	delete(s.blocked, r.Name)
	delete(s.daemons, r.Name)
	if r.Blocked != nil {
		s.blocked[r.Name] = r
	}
	if r.Strategy == Daemon {
		s.daemons[r.Name] = r
	}
}

// Blocked are the services that want tasks which found no instance, by name.
func (s *Snapshot) Blocked() map[string]*Service { return s.blocked }

// Daemons are the DAEMON services, by name.
func (s *Snapshot) Daemons() map[string]*Service { return s.daemons }

func (s *Snapshot) putInstance(i *Instance) bool {
	v := s.view(i.ID)
	if v.Instance != nil && v.Rev >= i.Rev {
		return false
	}
	v.Instance = i
	s.settle(v)
	v.recount()
	return true
}

func (s *Snapshot) putTask(t *Task) bool {
	old := s.Tasks[t.Key()]
	if old != nil {
		if old.Rev >= t.Rev {
			return false
		}
		t = stillStopping(old, t)
		s.drop(old)
	}
	key := t.Key()
	s.Tasks[key] = t
	if s.owned[t.Owner] == nil {
		s.owned[t.Owner] = map[Key]*Task{}
	}
	s.owned[t.Owner][key] = t
	if t.Waiting() {
		s.waiting[key] = t
	}
	if t.Holds() {
		v := s.view(t.Instance)
		v.Tasks[key] = t
		v.hold(t, 1)
		s.crowd(t, v, 1)
	}
	return true
}

// stillStopping is t with what old says of its stop: a task is never wanted again. A stop is committed without reading
// the row, so that the snapshot that decided on it may have yet to see changes from before the stop.
func stillStopping(old, t *Task) *Task {
	if old.Desired != TaskStopped || t.Desired == TaskStopped {
		return t
	}
	next := *t
	next.Desired, next.StopCode, next.Reason = old.Desired, old.StopCode, old.Reason
	return &next
}

func (s *Snapshot) drop(t *Task) {
	key := t.Key()
	delete(s.Tasks, key)
	delete(s.owned[t.Owner], key)
	if len(s.owned[t.Owner]) == 0 {
		delete(s.owned, t.Owner)
	}
	delete(s.waiting, key)
	if t.Holds() {
		v := s.view(t.Instance)
		delete(v.Tasks, key)
		v.hold(t, -1)
		s.crowd(t, v, -1)
		s.forget(v)
	}
}

// forget drops the view of an instance of which nothing is known any more.
func (s *Snapshot) forget(v *InstanceView) {
	if v.Instance == nil && len(v.Tasks) == 0 {
		delete(s.Instances, v.ID)
	}
}

// Owned are the tasks of one owner, in no order.
func (s *Snapshot) Owned(owner string) map[Key]*Task { return s.owned[owner] }

// Waiting are the tasks that look for an instance, in no order.
func (s *Snapshot) Waiting() map[Key]*Task { return s.waiting }

// recount derives what is free from the registered capacity and the tasks.
func (v *InstanceView) recount() {
	v.CPU, v.Memory, v.GPUs, v.Unpinned, v.Ports = 0, 0, nil, 0, map[Port]int{}
	if v.Instance != nil {
		v.CPU, v.Memory = v.Registered.CPU, v.Registered.Memory
		v.GPUs = make([]int, len(v.Registered.GPUs))
		for i := range v.GPUs {
			v.GPUs[i] = WholeGPU
		}
		for _, p := range v.Registered.Ports {
			v.Ports[p]++
		}
	}
	for _, t := range v.Tasks {
		v.hold(t, 1)
	}
}

// hold adds (1) or takes back (-1) what the task holds.
func (v *InstanceView) hold(t *Task, sign int) {
	v.CPU -= int64(sign) * t.Needs.CPU
	v.Memory -= int64(sign) * t.Needs.Memory
	if len(t.GPUs) == 0 {
		v.Unpinned += sign * t.Needs.GPUs
	}
	for _, g := range t.GPUs {
		if g < len(v.GPUs) {
			v.GPUs[g] -= sign * t.Needs.PerGPU()
		}
	}
	for _, p := range t.Ports {
		if v.Ports[p] += sign; v.Ports[p] == 0 {
			delete(v.Ports, p)
		}
	}
}
