package snapshot

// journalSize is how many changes a snapshot remembers: more than any decision makes. Who has seen fewer looks at all
// instances anew.
const journalSize = 1 << 15

// journal is what changed last, in a ring.
type journal struct {
	seq     uint64
	changes []change
}

type change struct {
	owner string
	index int32
}

func (j *journal) add(index int, owner string) {
	c := change{owner, int32(index)}
	if len(j.changes) < journalSize {
		j.changes = append(j.changes, c)
	} else {
		j.changes[j.seq%journalSize] = c
	}
	j.seq++
}

// Seq counts the changes of instances, see [Snapshot.ChangedSince].
func (s *Snapshot) Seq() uint64 { return s.journal.seq }

// ChangedSince calls f for each change after seq, the oldest first: the [InstanceView.Index] of an instance whose tasks
// hold something else, or count differently, and the owner of the task that did it; or no owner where anything may have
// changed: the instance's row, its limits, loads, or that it is known at all. It reports false, and calls nothing, where
// the snapshot no longer remembers: then every instance may have changed.
func (s *Snapshot) ChangedSince(seq uint64, f func(index int, owner string)) bool {
	j := &s.journal
	if seq > j.seq || j.seq-seq > uint64(len(j.changes)) {
		return false
	}
	for ; seq < j.seq; seq++ {
		c := j.changes[seq%journalSize]
		f(int(c.index), c.owner)
	}
	return true
}
