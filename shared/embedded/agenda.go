package embedded

// agenda is a binary heap of timers, the earliest first. Each timer knows its slot, so that it can
// be removed. container/heap would do the same at an interface call per comparison, and simulations
// spend much of their time here.
type agenda []*Timer

// firesBefore orders by time, then by arrival.
func (a agenda) firesBefore(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].seq < a[j].seq
}

func (a agenda) swapSlots(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].slot, a[j].slot = i, j
}

func (a *agenda) insertTimer(t *Timer) {
	t.slot = len(*a)
	*a = append(*a, t)
	a.siftUp(t.slot)
}

// removeSlot fills the slot with the last timer, which may have to go down or up from there: up, if
// the slot was in another branch than the last one.
func (a *agenda) removeSlot(i int) {
	last := len(*a) - 1
	a.swapSlots(i, last)
	(*a)[last] = nil
	*a = (*a)[:last]
	if i < last {
		a.siftDown(i)
		a.siftUp(i)
	}
}

// siftUp moves the timer at i up until its parent fires before it.
func (a agenda) siftUp(i int) {
	for parent := (i - 1) / 2; i > 0 && a.firesBefore(i, parent); parent = (i - 1) / 2 {
		a.swapSlots(i, parent)
		i = parent
	}
}

// siftDown moves the timer at i down until both its children fire after it.
func (a agenda) siftDown(i int) {
	for {
		child := 2*i + 1
		if child >= len(a) {
			return
		}
		if child+1 < len(a) && a.firesBefore(child+1, child) {
			child++
		}
		if !a.firesBefore(child, i) {
			return
		}
		a.swapSlots(i, child)
		i = child
	}
}
