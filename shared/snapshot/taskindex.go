package snapshot

import "berth/shared/cluster"

// taskIndex finds tasks by id, which hardly ever two owners share: an open hash table with linear
// probing. A map would need twice the memory, as it would have to keep the ids a second time, and
// where each task stands in other lists.
type taskIndex struct {
	slots []taskSlot // at most three quarters taken
	// hashes are those of the ids in the slots: to tell most others apart, the tasks need not be
	// looked at.
	hashes []uint32
	count  int
}

// taskSlot is a task with its positions among those of its owner and, while it holds capacity or
// waits, among those that do so in the same place.
type taskSlot struct {
	task          *cluster.Task
	owned, placed int32
}

// hashOf takes eight bytes of the id at a time, most of which are 32 long.
func hashOf(id string) uint32 {
	h := offset ^ uint64(len(id))
	for ; len(id) >= 8; id = id[8:] {
		h = mixBits(h ^ (uint64(id[0]) | uint64(id[1])<<8 | uint64(id[2])<<16 | uint64(id[3])<<24 |
			uint64(id[4])<<32 | uint64(id[5])<<40 | uint64(id[6])<<48 | uint64(id[7])<<56))
	}
	return uint32(mixBits(hashText(h, id)))
}

// homeSlot is where the search for an id with this hash begins.
func (x *taskIndex) homeSlot(hash uint32) int { return int(uint64(hash) * uint64(len(x.slots)) >> 32) }

// nextSlot is the slot after i, the first after the last.
func (x *taskIndex) nextSlot(i int) int {
	if i++; i < len(x.slots) {
		return i
	}
	return 0
}

// slotsBetween is how many slots a search passes on its way from one to another.
func (x *taskIndex) slotsBetween(from, to int) int {
	if to < from {
		to += len(x.slots)
	}
	return to - from
}

// find is the position of a task, -1 if it is not there.
func (x *taskIndex) find(owner, id string) int {
	if x.count == 0 {
		return -1
	}
	hash := hashOf(id)
	for i := x.homeSlot(hash); ; i = x.nextSlot(i) {
		t := x.slots[i].task
		if t == nil {
			return -1
		}
		if x.hashes[i] == hash && t.ID == id && t.Owner == owner {
			return i
		}
	}
}

// insert takes in a task that is not there.
func (x *taskIndex) insert(e taskSlot) {
	if 4*(x.count+1) > 3*len(x.slots) {
		slots, hashes := x.slots, x.hashes
		n := max(8, len(slots)+len(slots)/2)
		x.slots, x.hashes = make([]taskSlot, n), make([]uint32, n)
		for i, e := range slots {
			if e.task != nil {
				x.fillSlot(e, hashes[i])
			}
		}
	}
	x.count++
	x.fillSlot(e, hashOf(e.task.ID))
}

func (x *taskIndex) fillSlot(e taskSlot, hash uint32) {
	i := x.homeSlot(hash)
	for x.slots[i].task != nil {
		i = x.nextSlot(i)
	}
	x.slots[i], x.hashes[i] = e, hash
}

// remove takes out a task that is there, and moves up those that had to stand behind it.
func (x *taskIndex) remove(owner, id string) taskSlot {
	gap := x.find(owner, id)
	out := x.slots[gap]
	for i := x.nextSlot(gap); x.slots[i].task != nil; i = x.nextSlot(i) {
		if x.slotsBetween(x.homeSlot(x.hashes[i]), i) >= x.slotsBetween(gap, i) {
			x.slots[gap], x.hashes[gap] = x.slots[i], x.hashes[i]
			gap = i
		}
	}
	x.slots[gap] = taskSlot{}
	x.count--
	return out
}
