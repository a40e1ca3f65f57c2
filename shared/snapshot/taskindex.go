package snapshot

import "berth/shared/cluster"

// A taskIndex finds tasks by owner and id. It is an open hash table with linear probing, by the id
// alone: two owners hardly ever share one. A map would need twice the memory, because it would
// store the ids again, and the tasks' positions in other lists.
type taskIndex struct {
	slots []taskSlot // at most three quarters taken
	// hashes are those of the ids in the slots. Most lookups compare only these, not the tasks.
	hashes []uint32
	count  int
}

// A taskSlot is a task with its positions in two lists: owned in those of its owner, placed in the
// list of [taskSet.listOf].
type taskSlot struct {
	task          *cluster.Task
	owned, placed int32
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
		t := x.slots[i].task
		if t == nil {
			return -1
		}
		if x.hashes[i] == hash && t.ID == id && t.Owner == owner {
			return i
		}
	}
}

// insert adds a task that is not in the index.
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

// remove removes a task that is in the index. Tasks behind it that the gap would make unreachable
// move up.
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
