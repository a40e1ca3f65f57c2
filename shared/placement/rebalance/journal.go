package rebalance

// A journal leads back to the best assignment so far, without a copy of it for each improvement.
type journal struct {
	best   int64        // its cost
	undo   []undoneMove // since then, the latest last
	copied []int32      // the best assignment, if there were too many moves since
}

// An undoneMove says where a task was before it moved.
type undoneMove struct{ task, from int32 }

// note notes a move that has been made.
func (j *journal) note(t, from int32) {
	if j.copied == nil {
		j.undo = append(j.undo, undoneMove{t, from})
	}
}

// observe compares an assignment with the best one, after its last move was noted.
func (j *journal) observe(cost int64, at []int32) {
	if cost < j.best {
		j.best, j.undo, j.copied = cost, j.undo[:0], nil
	} else if len(j.undo) > len(at) {
		j.copyBest(at)
	}
}

// copyBest replaces the list of moves by the assignment that it leads back to.
func (j *journal) copyBest(at []int32) {
	if j.copied != nil {
		return
	}
	j.copied = append([]int32{}, at...)
	for n := len(j.undo) - 1; n >= 0; n-- {
		j.copied[j.undo[n].task] = j.undo[n].from
	}
	j.undo = j.undo[:0]
}
