package snapshot

import (
	"iter"
	"maps"
	"slices"

	"berth/shared/cluster"
)

// An Owner is a service, or the cluster for its standalone tasks, with what is derived from its
// tasks.
type Owner struct {
	name         string
	number       int32 // position in [taskSet.numbered]; -1 while it has neither tasks nor default loads
	provisioning int32 // tasks that wait for an instance
	tasks        []*cluster.Task
	spread       ownerSpread
	metrics      []cluster.Metric // the default loads of a service's tasks
	// replaced counts, by task id, the active tasks on an instance that were started to replace the
	// task.
	replaced map[string]int
}

// Name returns the short key of the service, or of the cluster's standalone tasks.
func (o *Owner) Name() string { return o.name }

// Owner returns the owner with the name, or nil if it has neither tasks nor default loads.
func (x *taskSet) Owner(name string) *Owner { return x.owners[name] }

// Number returns a small number that no other owner of the snapshot has at present, or a negative one.
func (o *Owner) Number() int { return int(o.number) }

// A taskSet holds the tasks of a cluster by owner and id, and separately those without an instance.
type taskSet struct {
	tasks        taskIndex
	provisioning []*cluster.Task
	owners       map[string]*Owner
	numbered     []*Owner // by number, nil for one that is free
	freeNumbers  []int32
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
		for i := range x.tasks.slots {
			if t := x.tasks.slots[i].task; t != nil && !yield(t) {
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
		return int(o.provisioning)
	}
	return 0
}

// HasReplacement reports whether an active task on an instance was started to replace this one.
func (x *taskSet) HasReplacement(t *cluster.Task) bool {
	o := x.owners[t.Owner]
	return o != nil && o.replaced[t.ID] > 0
}

// ownerOf returns the owner, and adds one that has no tasks or loads yet.
func (x *taskSet) ownerOf(name string) *Owner {
	o := x.owners[name]
	if o != nil {
		return o
	}
	o = &Owner{name: name, number: int32(len(x.numbered))}
	if last := len(x.freeNumbers) - 1; last >= 0 {
		o.number, x.freeNumbers = x.freeNumbers[last], x.freeNumbers[:last]
		x.numbered[o.number] = o
	} else {
		x.numbered = append(x.numbered, o)
	}
	x.owners[name] = o
	return o
}

// dropOwner removes an owner that has neither tasks nor default loads.
func (x *taskSet) dropOwner(o *Owner) {
	if len(o.tasks) == 0 && len(o.metrics) == 0 {
		delete(x.owners, o.name)
		x.numbered[o.number] = nil
		x.freeNumbers = append(x.freeNumbers, o.number)
		o.number = -1
	}
}

// putTask stores a task's row.
func (s *Snapshot) putTask(t *cluster.Task) bool {
	at := s.tasks.find(t.Owner, t.ID)
	if at < 0 {
		s.addTask(t)
		return true
	}
	slot := &s.tasks.slots[at]
	if slot.task.Rev >= t.Rev {
		return false
	}
	s.replaceTask(slot, keepStop(slot.task, t))
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
		a.Group == b.Group && a.Revision == b.Revision &&
		a.Needs == b.Needs && slices.Equal(a.Ports, b.Ports) && slices.Equal(a.GPUs, b.GPUs) &&
		maps.Equal(a.Reported, b.Reported) && slices.Equal(a.OwnMetrics(), b.OwnMetrics())
}

// replaceTask stores a newer version of a task. What differs is subtracted and added again, which
// keeps each count in one place.
func (s *Snapshot) replaceTask(slot *taskSlot, t *cluster.Task) {
	old, o := slot.task, s.numbered[slot.owner]
	countHealth(s, old, -1)
	countHealth(s, t, 1)
	s.interner.internTask(t, old)
	t.ID = old.ID
	if t.Instance == old.Instance {
		t.Instance = old.Instance
	}
	if t.ECSID == old.ECSID {
		t.ECSID = old.ECSID
	}
	o.tasks[slot.owned] = t
	if derivesSame(old, t) {
		switch {
		case t.IsProvisioning():
			s.provisioning[slot.place] = t
		case t.HoldsCapacity():
			v := s.dense[slot.place]
			v.Tasks[slices.Index(v.Tasks, old)] = t
		}
		slot.task = t
		return
	}
	var was *InstanceView
	if old.HoldsCapacity() {
		was = s.dense[slot.place]
	}
	unplaceTask(s, slot, o)
	slot.task = t
	placeTask(s, slot, o)
	if was != nil {
		s.dropUnknown(was)
	}
}

// addTask adds a task to the index, to its lists and to all counts.
func (s *Snapshot) addTask(t *cluster.Task) {
	o := s.ownerOf(t.Owner)
	if len(o.tasks) > 0 {
		s.interner.internTask(t, o.tasks[len(o.tasks)-1])
	} else {
		s.interner.internTask(t, &cluster.Task{TaskSpec: cluster.TaskSpec{Owner: o.name}})
	}
	slot := s.tasks.insert(taskSlot{task: t, hash: hashOf(t.ID), owner: o.number, owned: int32(len(o.tasks))})
	appendSparsely(&o.tasks, t)
	countHealth(s, t, 1)
	placeTask(s, slot, o)
}

// removeTask undoes addTask. It must be given the slot of the task.
func (s *Snapshot) removeTask(at int) {
	slot := s.tasks.slots[at]
	s.tasks.removeAt(at)
	o := s.numbered[slot.owner]
	if moved := removeAt(&o.tasks, slot.owned); int(slot.owned) < len(o.tasks) {
		s.tasks.slotOf(moved).owned = slot.owned
	}
	countHealth(s, slot.task, -1)
	unplaceTask(s, &slot, o)
	if slot.task.HoldsCapacity() {
		s.dropUnknown(s.dense[slot.place])
	}
	s.dropOwner(o)
}

// placeTask adds the task to the list by where it is, and to what is counted there.
func placeTask(s *Snapshot, slot *taskSlot, o *Owner) {
	t := slot.task
	if t.Instance == "" {
		if t.IsProvisioning() {
			slot.place = int32(len(s.provisioning))
			s.provisioning = append(s.provisioning, t)
			o.provisioning++
		}
		return
	}
	v := s.Instances[t.Instance]
	if v == nil && t.HoldsCapacity() {
		v = s.viewOf(s, t.Instance)
	}
	if v != nil {
		t.Instance = v.ID
	}
	if t.HoldsCapacity() {
		slot.place = int32(v.Index)
		appendSparsely(&v.Tasks, t)
		s.countTask(t, o, v, 1)
	}
}

// unplaceTask undoes placeTask, but for an instance that only the task has named.
func unplaceTask(s *Snapshot, slot *taskSlot, o *Owner) {
	t := slot.task
	switch {
	case t.IsProvisioning():
		if moved := removeAt(&s.provisioning, slot.place); int(slot.place) < len(s.provisioning) {
			s.tasks.slotOf(moved).place = slot.place
		}
		o.provisioning--
	case t.HoldsCapacity():
		v := s.dense[slot.place]
		removeAt(&v.Tasks, int32(slices.Index(v.Tasks, t)))
		s.countTask(t, o, v, -1)
	}
}

// appendSparsely appends to a list that grows by a quarter, where append would double it: there are
// as many lists as instances and services.
func appendSparsely[T any](list *[]T, x T) {
	if n := len(*list); n == cap(*list) {
		*list = append(make([]T, 0, n+n/4+4), *list...)
	}
	*list = append(*list, x)
}

// removeAt removes the element at a position by moving the last one there, and returns that one.
func removeAt[T any](list *[]T, at int32) T {
	var none T
	last := len(*list) - 1
	moved := (*list)[last]
	(*list)[at], (*list)[last] = moved, none
	*list = (*list)[:last]
	return moved
}

// countTask adds (sign 1) or subtracts (-1) what a task of the owner holds on the instance.
func (s *Snapshot) countTask(t *cluster.Task, o *Owner, v *InstanceView, sign int) {
	v.countHeld(t, sign)
	s.countLoads(v, o, t, sign)
	o.spread.countTask(t, v, o.countsForSpread(t), sign)
	if t.Replaces != "" && t.IsActive() {
		s.countReplacement(o, t, sign)
	}
	s.journal.addChange(v.Index, o)
}

// countReplacement notes that one more (sign 1) or one fewer (-1) active task is there that replaces
// another. A replaced task stops counting for its service's spread: the two are one.
func (s *Snapshot) countReplacement(o *Owner, by *cluster.Task, sign int) {
	id := by.Replaces
	was := o.replaced[id] > 0
	if o.replaced == nil {
		o.replaced = map[string]int{}
	}
	addCount(o.replaced, id, sign)
	is := o.replaced[id] > 0
	t := s.Task(o.name, id)
	if was == is || t == nil || t == by && sign < 0 || !t.HoldsCapacity() || !t.IsActive() {
		return
	}
	v := s.Instances[t.Instance]
	o.spread.countTask(t, v, !was, -1)
	o.spread.countTask(t, v, !is, 1)
	s.journal.addChange(v.Index, o)
}
