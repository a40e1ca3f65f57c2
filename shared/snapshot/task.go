package snapshot

import (
	"iter"
	"maps"
	"slices"

	"berth/shared/cluster"
)

// owner is a service, or the cluster's standalone tasks, with what is derived of its tasks.
type owner struct {
	name    string
	tasks   []*cluster.Task
	crowds  crowds
	metrics []cluster.Metric // the default loads of a service's tasks
	waiting int              // tasks that look for an instance
	// replaced are the ids of tasks that another has come for, with how many: it holds capacity and is to stay.
	replaced map[string]int
}

// Task is the task of an owner by its id, nil if there is none.
func (s *Snapshot) Task(owner, id string) *cluster.Task {
	if at := s.tasks.find(owner, id); at >= 0 {
		return s.tasks.slots[at].task
	}
	return nil
}

// Tasks are all tasks, in no order. Nothing may be put while it runs.
func (s *Snapshot) Tasks() iter.Seq[*cluster.Task] {
	return func(yield func(*cluster.Task) bool) {
		for _, e := range s.tasks.slots {
			if e.task != nil && !yield(e.task) {
				return
			}
		}
	}
}

// TaskCount is how many tasks there are, those that ended and have not expired included.
func (s *Snapshot) TaskCount() int { return s.tasks.count }

// Owned are the tasks of one owner, in no order. The caller changes nothing.
func (s *Snapshot) Owned(owner string) []*cluster.Task {
	if o := s.owners[owner]; o != nil {
		return slices.Clip(o.tasks)
	}
	return nil
}

// Waiting are the tasks that look for an instance, in no order. The caller changes nothing.
func (s *Snapshot) Waiting() []*cluster.Task { return slices.Clip(s.waiting) }

// WaitingOf is how many of an owner's tasks look for an instance.
func (s *Snapshot) WaitingOf(owner string) int {
	if o := s.owners[owner]; o != nil {
		return o.waiting
	}
	return 0
}

// Replaced reports whether a task that is to stay has come for this one and holds capacity already.
func (s *Snapshot) Replaced(t *cluster.Task) bool {
	o := s.owners[t.Owner]
	return o != nil && o.replaced[t.ID] > 0
}

func (s *Snapshot) ownerOf(name string) *owner {
	o := s.owners[name]
	if o == nil {
		o = &owner{name: name}
		s.owners[name] = o
	}
	return o
}

// disown drops the owner of which nothing is known any more.
func (s *Snapshot) disown(o *owner) {
	if len(o.tasks) == 0 && len(o.metrics) == 0 {
		delete(s.owners, o.name)
	}
}

func (s *Snapshot) putTask(t *cluster.Task) bool {
	if at := s.tasks.find(t.Owner, t.ID); at >= 0 {
		old := s.tasks.slots[at].task
		if old.Rev >= t.Rev {
			return false
		}
		t = stillStopping(old, t)
		if alike(old, t) {
			s.replace(&s.tasks.slots[at], t)
			return true
		}
		s.drop(old)
	}
	s.add(t)
	return true
}

// stillStopping is t with what old says of its stop: a task is never wanted again. A stop is committed without reading
// the row, so that the snapshot that decided on it may have yet to see changes from before the stop.
func stillStopping(old, t *cluster.Task) *cluster.Task {
	if old.Desired != cluster.TaskStopped || t.Desired == cluster.TaskStopped {
		return t
	}
	next := *t
	next.Desired, next.StopCode, next.Reason = old.Desired, old.StopCode, old.Reason
	return &next
}

// alike reports whether all that a snapshot derives is the same of both states of a task: most reports change nothing
// that placement looks at.
func alike(a, b *cluster.Task) bool {
	return a.Instance == b.Instance && a.Waiting() == b.Waiting() && a.Holds() == b.Holds() && a.Active() == b.Active() && a.Replaces == b.Replaces &&
		(a.Last == cluster.TaskRunning) == (b.Last == cluster.TaskRunning) && a.Service == b.Service && a.Group == b.Group &&
		a.Needs == b.Needs && slices.Equal(a.Ports, b.Ports) && slices.Equal(a.GPUs, b.GPUs) &&
		maps.Equal(a.Reported, b.Reported) && slices.Equal(a.OwnMetrics(), b.OwnMetrics())
}

// replace has t in the place of the task in the slot.
func (s *Snapshot) replace(e *taskSlot, t *cluster.Task) {
	s.pulse(e.task, -1)
	s.pulse(t, 1)
	s.pool.task(t, e.task)
	t.ID, t.Instance = e.task.ID, e.task.Instance
	if t.ECSID == e.task.ECSID {
		t.ECSID = e.task.ECSID
	}
	s.owners[t.Owner].tasks[e.owned] = t
	if list := s.placeOf(t, s.Instances[t.Instance]); list != nil {
		(*list)[e.placed] = t
	}
	e.task = t
}

// placeOf is the list that the task is in by where it is, v if it is anywhere; nil for one that ended.
func (s *Snapshot) placeOf(t *cluster.Task, v *InstanceView) *[]*cluster.Task {
	switch {
	case t.Waiting():
		return &s.waiting
	case t.Holds():
		return &v.Tasks
	}
	return nil
}

func (s *Snapshot) add(t *cluster.Task) {
	o := s.ownerOf(t.Owner)
	if len(o.tasks) > 0 {
		s.pool.task(t, o.tasks[len(o.tasks)-1])
	} else {
		s.pool.task(t, &cluster.Task{Owner: o.name})
	}
	v := s.Instances[t.Instance]
	if v == nil && t.Holds() {
		v = s.view(t.Instance)
	}
	if v != nil {
		t.Instance = v.ID
	}
	e := taskSlot{task: t, owned: push(&o.tasks, t)}
	if list := s.placeOf(t, v); list != nil {
		e.placed = push(list, t)
	}
	s.tasks.insert(e)
	s.pulse(t, 1)
	if t.Waiting() {
		o.waiting++
	}
	if t.Holds() {
		s.account(t, o, v, 1)
	}
}

func (s *Snapshot) drop(t *cluster.Task) {
	e := s.tasks.remove(t.Owner, t.ID)
	o, v := s.owners[t.Owner], s.Instances[t.Instance]
	if moved := cut(&o.tasks, e.owned); moved != nil {
		s.tasks.slots[s.tasks.find(moved.Owner, moved.ID)].owned = e.owned
	}
	s.pulse(t, -1)
	if t.Waiting() {
		o.waiting--
	}
	if list := s.placeOf(t, v); list != nil {
		if moved := cut(list, e.placed); moved != nil {
			s.tasks.slots[s.tasks.find(moved.Owner, moved.ID)].placed = e.placed
		}
	}
	if t.Holds() {
		s.account(t, o, v, -1)
		s.forget(v)
	}
	s.disown(o)
}

// push appends the task and gives its position. There are as many lists as instances and services, so they grow by a
// quarter where append doubles.
func push(list *[]*cluster.Task, t *cluster.Task) int32 {
	n := len(*list)
	if n == cap(*list) {
		*list = append(make([]*cluster.Task, 0, n+n/4+4), *list...)
	}
	*list = append(*list, t)
	return int32(n)
}

// cut takes out the task at a position by putting the last one there, which it returns; nil if it was the last itself.
func cut(list *[]*cluster.Task, at int32) *cluster.Task {
	last := len(*list) - 1
	moved := (*list)[last]
	(*list)[at], (*list)[last] = moved, nil
	*list = (*list)[:last]
	if int(at) == last {
		return nil
	}
	return moved
}

// account counts what the owner's task holds of the instance in (1) or out (-1).
func (s *Snapshot) account(t *cluster.Task, o *owner, v *InstanceView, sign int) {
	v.hold(t, sign)
	s.load(v, o, t, sign)
	o.crowds.crowd(t, v, o.counts(t), sign)
	if t.Replaces != "" && t.Active() {
		s.replaces(o, t.Replaces, sign)
	}
	s.journal.add(v.Index, o.name)
}

// replaces takes in that a task has come for another (1), or is not there for it any more (-1).
func (s *Snapshot) replaces(o *owner, id string, sign int) {
	was := o.replaced[id] > 0
	if o.replaced == nil {
		o.replaced = map[string]int{}
	}
	tally(o.replaced, id, sign)
	is := o.replaced[id] > 0
	t := s.Task(o.name, id)
	if was == is || t == nil || !t.Holds() || !t.Active() {
		return
	}
	v := s.Instances[t.Instance]
	o.crowds.crowd(t, v, !was, -1)
	o.crowds.crowd(t, v, !is, 1)
	s.journal.add(v.Index, o.name)
}
