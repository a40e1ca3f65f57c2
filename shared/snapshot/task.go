package snapshot

import (
	"iter"
	"maps"
	"slices"

	"berth/shared/cluster"
)

// An owner is a service, or the cluster for its standalone tasks, with what is derived from its
// tasks.
type owner struct {
	name         string
	tasks        []*cluster.Task
	spread       ownerSpread
	metrics      []cluster.Metric // the default loads of a service's tasks
	provisioning int              // tasks that wait for an instance
	// replaced counts, by task id, the active tasks on an instance that were started to replace the
	// task.
	replaced map[string]int
}

// A taskSet holds the tasks of a cluster by owner and id, and separately those without an instance.
type taskSet struct {
	tasks        taskIndex
	provisioning []*cluster.Task
	owners       map[string]*owner
}

// Task returns a task of an owner by its id, or nil if there is none.
func (x *taskSet) Task(owner, id string) *cluster.Task {
	if at := x.tasks.find(owner, id); at >= 0 {
		return x.tasks.slots[at].task
	}
	return nil
}

// Tasks iterates over all tasks, in no order. No row may be put meanwhile.
func (x *taskSet) Tasks() iter.Seq[*cluster.Task] {
	return func(yield func(*cluster.Task) bool) {
		for _, e := range x.tasks.slots {
			if e.task != nil && !yield(e.task) {
				return
			}
		}
	}
}

// TaskCount returns the number of tasks, including those that have ended and not yet expired.
func (x *taskSet) TaskCount() int { return x.tasks.count }

// TasksOf returns the tasks of one owner, in no order. The caller must not change the slice.
func (x *taskSet) TasksOf(owner string) []*cluster.Task {
	if o := x.owners[owner]; o != nil {
		return slices.Clip(o.tasks)
	}
	return nil
}

// ProvisioningTasks returns the tasks that wait for an instance, in no order. The caller must not
// change the slice.
func (x *taskSet) ProvisioningTasks() []*cluster.Task { return slices.Clip(x.provisioning) }

// ProvisioningCount returns how many of an owner's tasks wait for an instance.
func (x *taskSet) ProvisioningCount(owner string) int {
	if o := x.owners[owner]; o != nil {
		return o.provisioning
	}
	return 0
}

// HasReplacement reports whether an active task on an instance was started to replace this one.
func (x *taskSet) HasReplacement(t *cluster.Task) bool {
	o := x.owners[t.Owner]
	return o != nil && o.replaced[t.ID] > 0
}

// ownerOf returns the owner, and adds one that has no tasks or loads yet.
func (x *taskSet) ownerOf(name string) *owner {
	o := x.owners[name]
	if o == nil {
		o = &owner{name: name}
		x.owners[name] = o
	}
	return o
}

// dropOwner removes an owner that has neither tasks nor default loads.
func (x *taskSet) dropOwner(o *owner) {
	if len(o.tasks) == 0 && len(o.metrics) == 0 {
		delete(x.owners, o.name)
	}
}

// putTask stores a task's row. A newer version from which other values are derived is removed and
// added again, which keeps each count in one place.
func (s *Snapshot) putTask(t *cluster.Task) bool {
	if at := s.tasks.find(t.Owner, t.ID); at >= 0 {
		old := s.tasks.slots[at].task
		if old.Rev >= t.Rev {
			return false
		}
		t = keepStop(old, t)
		if derivesSame(old, t) {
			s.replaceTask(&s.tasks.slots[at], t)
			return true
		}
		s.removeTask(old)
	}
	s.addTask(t)
	return true
}

// keepStop returns t with the stop that old records: a task that is to stop is never wanted again.
// Stops are committed without reading the row first, so the snapshot may see changes from before
// its own stop later than the stop.
func keepStop(old, t *cluster.Task) *cluster.Task {
	if old.Desired != cluster.TaskStopped || t.Desired == cluster.TaskStopped {
		return t
	}
	next := *t
	next.Desired, next.StopCode, next.Reason = old.Desired, old.StopCode, old.Reason
	return &next
}

// derivesSame reports whether nothing that a snapshot derives differs between two versions of a
// task. That is so for most reports, and they need no recount.
func derivesSame(a, b *cluster.Task) bool {
	return a.Instance == b.Instance && a.IsProvisioning() == b.IsProvisioning() &&
		a.HoldsCapacity() == b.HoldsCapacity() &&
		a.IsActive() == b.IsActive() && a.Replaces == b.Replaces &&
		(a.Last == cluster.TaskRunning) == (b.Last == cluster.TaskRunning) && a.Service == b.Service &&
		a.Group == b.Group &&
		a.Needs == b.Needs && slices.Equal(a.Ports, b.Ports) && slices.Equal(a.GPUs, b.GPUs) &&
		maps.Equal(a.Reported, b.Reported) && slices.Equal(a.OwnMetrics(), b.OwnMetrics())
}

// replaceTask stores a newer version of a task from which the same values are derived.
func (s *Snapshot) replaceTask(e *taskSlot, t *cluster.Task) {
	countHealth(s, e.task, -1)
	countHealth(s, t, 1)
	s.interner.internTask(t, e.task)
	t.ID, t.Instance = e.task.ID, e.task.Instance
	if t.ECSID == e.task.ECSID {
		t.ECSID = e.task.ECSID
	}
	s.owners[t.Owner].tasks[e.owned] = t
	if list := s.listOf(t, s.Instances[t.Instance]); list != nil {
		(*list)[e.placed] = t
	}
	e.task = t
}

// listOf returns the list that holds the task by where it is: its instance's tasks, or the tasks
// without an instance. It returns nil if the task has stopped.
func (x *taskSet) listOf(t *cluster.Task, v *InstanceView) *[]*cluster.Task {
	switch {
	case t.IsProvisioning():
		return &x.provisioning
	case t.HoldsCapacity():
		return &v.Tasks
	}
	return nil
}

// addTask adds a task to the index, to its lists and to all counts.
func (s *Snapshot) addTask(t *cluster.Task) {
	o := s.ownerOf(t.Owner)
	if len(o.tasks) > 0 {
		s.interner.internTask(t, o.tasks[len(o.tasks)-1])
	} else {
		s.interner.internTask(t, &cluster.Task{TaskSpec: cluster.TaskSpec{Owner: o.name}})
	}
	v := s.Instances[t.Instance]
	if v == nil && t.HoldsCapacity() {
		v = s.viewOf(s, t.Instance)
	}
	if v != nil {
		t.Instance = v.ID
	}
	e := taskSlot{task: t, owned: appendTask(&o.tasks, t)}
	if list := s.listOf(t, v); list != nil {
		e.placed = appendTask(list, t)
	}
	s.tasks.insert(e)
	countHealth(s, t, 1)
	if t.IsProvisioning() {
		o.provisioning++
	}
	if t.HoldsCapacity() {
		s.countTask(t, o, v, 1)
	}
}

// removeTask undoes addTask. It must be given the task as the snapshot has it.
func (s *Snapshot) removeTask(t *cluster.Task) {
	e := s.tasks.remove(t.Owner, t.ID)
	o, v := s.owners[t.Owner], s.Instances[t.Instance]
	if moved := removeAt(&o.tasks, e.owned); moved != nil {
		s.tasks.slots[s.tasks.find(moved.Owner, moved.ID)].owned = e.owned
	}
	countHealth(s, t, -1)
	if t.IsProvisioning() {
		o.provisioning--
	}
	if list := s.listOf(t, v); list != nil {
		if moved := removeAt(list, e.placed); moved != nil {
			s.tasks.slots[s.tasks.find(moved.Owner, moved.ID)].placed = e.placed
		}
	}
	if t.HoldsCapacity() {
		s.countTask(t, o, v, -1)
		s.dropUnknown(v)
	}
	s.dropOwner(o)
}

// appendTask appends the task and returns its position. The list grows by a quarter, where append
// would double it: there are as many lists as instances and services.
func appendTask(list *[]*cluster.Task, t *cluster.Task) int32 {
	n := len(*list)
	if n == cap(*list) {
		*list = append(make([]*cluster.Task, 0, n+n/4+4), *list...)
	}
	*list = append(*list, t)
	return int32(n)
}

// removeAt removes the task at a position by moving the last one there. It returns the moved task,
// or nil if the removed one was the last.
func removeAt(list *[]*cluster.Task, at int32) *cluster.Task {
	last := len(*list) - 1
	moved := (*list)[last]
	(*list)[at], (*list)[last] = moved, nil
	*list = (*list)[:last]
	if int(at) == last {
		return nil
	}
	return moved
}

// countTask adds (sign 1) or subtracts (-1) what a task of the owner holds on the instance.
func (s *Snapshot) countTask(t *cluster.Task, o *owner, v *InstanceView, sign int) {
	v.countHeld(t, sign)
	s.countLoads(v, o, t, sign)
	o.spread.countTask(t, v, o.countsForSpread(t), sign)
	if t.Replaces != "" && t.IsActive() {
		s.countReplacement(o, t.Replaces, sign)
	}
	s.journal.addChange(v.Index, o.name)
}

// countReplacement notes that one more (sign 1) or one fewer (-1) active task replaces the task
// with the id. A replaced task stops counting for its service's spread: the two are one.
func (s *Snapshot) countReplacement(o *owner, id string, sign int) {
	was := o.replaced[id] > 0
	if o.replaced == nil {
		o.replaced = map[string]int{}
	}
	addCount(o.replaced, id, sign)
	is := o.replaced[id] > 0
	t := s.Task(o.name, id)
	if was == is || t == nil || !t.HoldsCapacity() || !t.IsActive() {
		return
	}
	v := s.Instances[t.Instance]
	o.spread.countTask(t, v, !was, -1)
	o.spread.countTask(t, v, !is, 1)
	s.journal.addChange(v.Index, o.name)
}
