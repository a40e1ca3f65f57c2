package snapshot

import "berth/shared/cluster"

// A taskIndex finds tasks by owner and id. It is an open hash table with linear probing, by the id
// alone: two owners hardly ever share one. A map would need twice the memory, because it would
// store the ids again, and where else the tasks are listed.
type taskIndex struct {
	slots []taskSlot // at most five sixths taken
	count int
}

// A taskSlot is a task with what is needed to take it from its lists. It has no pointers to them, so
// that it is small: most decisions read the slots of tasks that are in no cache.
type taskSlot struct {
	task  *cluster.Task
	hash  uint32 // of the id; most lookups compare only this, not the tasks
	owner int32  // the owner's number
	owned int32  // position in the list of the owner
	// place is the index of the instance on which the task holds capacity, or the position among
	// the tasks without an instance. Other tasks are in no list by place.
	place int32
}

// hashOf hashes an id, eight bytes at a time. Most ids have 32.
func hashOf(id string) uint32 {
	h := offset ^ uint64(len(id))
	for ; len(id) >= 8; id = id[8:] {
		h = mixBits(h ^ (uint64(id[0]) | uint64(id[1])<<8 | uint64(id[2])<<16 | uint64(id[3])<<24 |
			uint64(id[4])<<32 | uint64(id[5])<<40 | uint64(id[6])<<48 | uint64(id[7])<<56))
	}
	return uint32(mixBits(hashText(h, id)))
}

// homeSlot returns the slot where the search for a hash begins.
func (x *taskIndex) homeSlot(hash uint32) int { return int(uint64(hash) * uint64(len(x.slots)) >> 32) }

// nextSlot returns the slot after i; the first follows the last.
func (x *taskIndex) nextSlot(i int) int {
	if i++; i < len(x.slots) {
		return i
	}
	return 0
}

// slotsBetween returns how many slots a search passes between two.
func (x *taskIndex) slotsBetween(from, to int) int {
	if to < from {
		to += len(x.slots)
	}
	return to - from
}

// find returns the slot of a task, or -1 if it is not in the index.
func (x *taskIndex) find(owner, id string) int {
	if x.count == 0 {
		return -1
	}
	hash := hashOf(id)
	for i := x.homeSlot(hash); ; i = x.nextSlot(i) {
		s := &x.slots[i]
		if s.task == nil {
			return -1
		}
		if s.hash == hash && s.task.ID == id && s.task.Owner == owner {
			return i
		}
	}
}

// slotOf returns the slot of a task that is in the index.
func (x *taskIndex) slotOf(t *cluster.Task) *taskSlot {
	for i := x.homeSlot(hashOf(t.ID)); ; i = x.nextSlot(i) {
		if x.slots[i].task == t {
			return &x.slots[i]
		}
	}
}

// insert adds a task that is not in the index, and returns its slot.
func (x *taskIndex) insert(s taskSlot) *taskSlot {
	if 6*(x.count+1) > 5*len(x.slots) {
		slots := x.slots
		x.slots = make([]taskSlot, max(8, len(slots)+len(slots)/4))
		for _, s := range slots {
			if s.task != nil {
				x.fillSlot(s)
			}
		}
	}
	x.count++
	return x.fillSlot(s)
}

func (x *taskIndex) fillSlot(s taskSlot) *taskSlot {
	i := x.homeSlot(s.hash)
	for x.slots[i].task != nil {
		i = x.nextSlot(i)
	}
	x.slots[i] = s
	return &x.slots[i]
}

// removeAt empties a slot. Tasks behind it that the gap would make unreachable move up.
func (x *taskIndex) removeAt(gap int) {
	for i := x.nextSlot(gap); x.slots[i].task != nil; i = x.nextSlot(i) {
		if x.slotsBetween(x.homeSlot(x.slots[i].hash), i) >= x.slotsBetween(gap, i) {
			x.slots[gap] = x.slots[i]
			gap = i
		}
	}
	x.slots[gap] = taskSlot{}
	x.count--
}
