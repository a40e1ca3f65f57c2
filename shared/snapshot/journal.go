package snapshot

// journalSize is how many changes a snapshot remembers: more than one decision makes. A reader that
// is further behind reads all instances again.
const journalSize = 1 << 15

// A journal is a ring of the last changes of instances.
type journal struct {
	seq     uint64
	changes []change
}

type change struct {
	owner *Owner
	index int32
}

func (j *journal) addChange(index int, owner *Owner) {
	c := change{owner, int32(index)}
	if len(j.changes) < journalSize {
		j.changes = append(j.changes, c)
	} else {
		j.changes[j.seq%journalSize] = c
	}
	j.seq++
}
