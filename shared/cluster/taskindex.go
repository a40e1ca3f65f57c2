package cluster

// taskIndex finds tasks by id, which hardly ever two owners share: an open hash table with linear probing. A map would
// need twice the memory, as it would have to keep the ids a second time, and where each task stands in other lists.
type taskIndex struct {
	slots []taskSlot // a power of two of them, at most three quarters taken
	count int
}

// taskSlot is a task with its positions among those of its owner and, while it holds capacity or waits, among those
// that do so in the same place.
type taskSlot struct {
	task          *Task
	owned, placed int32
}

// home is where the search for an id begins (FNV-1a).
func (x *taskIndex) home(id string) int {
	h := uint64(14695981039346656037)
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * 1099511628211
	}
	return int(h>>20) & (len(x.slots) - 1)
}

// find is the position of a task, -1 if it is not there.
func (x *taskIndex) find(owner, id string) int {
	if x.count == 0 {
		return -1
	}
	for i := x.home(id); ; i = (i + 1) & (len(x.slots) - 1) {
		t := x.slots[i].task
		if t == nil {
			return -1
		}
		if t.ID == id && t.Owner == owner {
			return i
		}
	}
}

// insert takes in a task that is not there.
func (x *taskIndex) insert(e taskSlot) {
	if 4*(x.count+1) > 3*len(x.slots) {
		old := x.slots
		x.slots = make([]taskSlot, max(8, 2*len(old)))
		for _, e := range old {
			if e.task != nil {
				x.put(e)
			}
		}
	}
	x.count++
	x.put(e)
}

func (x *taskIndex) put(e taskSlot) {
	i := x.home(e.task.ID)
	for x.slots[i].task != nil {
		i = (i + 1) & (len(x.slots) - 1)
	}
	x.slots[i] = e
}

// remove takes out a task that is there, and moves up those that had to stand behind it.
func (x *taskIndex) remove(owner, id string) taskSlot {
	gap := x.find(owner, id)
	out := x.slots[gap]
	mask := len(x.slots) - 1
	for i := (gap + 1) & mask; x.slots[i].task != nil; i = (i + 1) & mask {
		if home := x.home(x.slots[i].task.ID); (i-home)&mask >= (i-gap)&mask {
			x.slots[gap] = x.slots[i]
			gap = i
		}
	}
	x.slots[gap] = taskSlot{}
	x.count--
	return out
}
