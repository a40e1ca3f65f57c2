package placement

import (
	"berth/shared/cluster"
	"berth/shared/placement/domain"
	"berth/shared/snapshot"
)

type tallyKey struct{ owner, group string }

// tally counts the tasks of one owner, or those of its tasks that are in one group, by instance.
type tally struct {
	tallyKey
	active map[int32]int32 // those that count for spreading: not ended, not being stopped
	total  int64           // of those
	// held are all that hold something of the instance; counted only where it matters.
	held map[int32]int32
	// isActive and isHeld have a bit for each instance with any of these: the maps take longer to
	// ask.
	isActive, isHeld bits
	// dense are the active ones once more, by index, for an index of the owner's own; nil where
	// there is none.
	dense   []int64
	spreads []*spread
	domains []*domain.Domains // that count them too
}

// tallyFor is the count for the owner and group, made where there is none yet; exclusive if it must
// know what is held.
func tallyFor(e *Engine, owner, group string, exclusive bool) *tally {
	key := tallyKey{owner, group}
	t := e.kept.tallies[key]
	if t == nil {
		t = &tally{tallyKey: key, active: map[int32]int32{}}
		e.kept.tallies[key] = t
		e.kept.owned[owner] = append(e.kept.owned[owner], t)
		t.recountAll(e)
	}
	if exclusive && t.held == nil {
		t.held = map[int32]int32{}
		t.recountAll(e)
	}
	return t
}

func (t *tally) recountAll(e *Engine) {
	seen := map[string]bool{}
	for _, task := range e.snap.TasksOf(t.owner) {
		if v := e.snap.Instances[task.Instance]; v != nil && !seen[v.ID] {
			seen[v.ID] = true
			t.recount(e.snap, v.Index, v)
		}
	}
}

// is reports whether the owner's task is one of those that it counts.
func (t *tally) is(task *cluster.Task) bool { return t.group == "" || t.group == task.Group }

// recount counts the instance's tasks anew.
func (t *tally) recount(s *snapshot.Snapshot, i int, v *snapshot.InstanceView) {
	c := s.SpreadOf(t.owner, t.group)
	active := int32(c.TasksOn(v))
	t.add(i, active-t.active[int32(i)])
	if t.held != nil {
		set(t.held, &t.isHeld, i, active+int32(c.EndingOn(v)))
	}
}

// bits are a set of instances.
type bits []uint64

func (b bits) has(i int32) bool {
	word := int(i >> 6)
	return word < len(b) && b[word]&(1<<(i&63)) != 0
}

func (b *bits) put(i int, in bool) {
	lengthen((*[]uint64)(b), i>>6+1)
	if in {
		(*b)[i>>6] |= 1 << (i & 63)
	} else {
		(*b)[i>>6] &^= 1 << (i & 63)
	}
}

// set leaves nothing behind where the count is 0.
func set(counts map[int32]int32, any *bits, i int, n int32) {
	any.put(i, n != 0)
	if n == 0 {
		delete(counts, int32(i))
		return
	}
	counts[int32(i)] = n
}

func (t *tally) add(i int, n int32) {
	if n == 0 {
		return
	}
	set(t.active, &t.isActive, i, t.active[int32(i)]+n)
	t.total += int64(n)
	if t.dense != nil {
		t.dense[i] += int64(n)
	}
	for _, s := range t.spreads {
		s.add(i, int64(n))
	}
	for _, d := range t.domains {
		d.Add(i, int(n))
	}
}

// place has the tally count n more tasks that this call places.
func (t *tally) place(i int, n int32) {
	t.add(i, n)
	if t.held != nil {
		set(t.held, &t.isHeld, i, t.held[int32(i)]+n)
	}
}

// densely has the active tasks counted by index, too.
func (t *tally) densely(n int) {
	if t.dense != nil {
		return
	}
	t.dense = make([]int64, n)
	for i, tasks := range t.active {
		t.dense[i] = int64(tasks)
	}
}

func (t *tally) grow(n int) {
	if t.dense != nil {
		lengthen(&t.dense, n)
	}
}

// crowded reports whether the owner has tasks on so many of the instances that they are no
// exception.
func (t *tally) crowded(instances int) bool {
	if t.dense != nil {
		return 8*len(t.active) > instances
	}
	return 4*len(t.active) > instances
}

// spread counts a tally's active tasks by the groups of a layout: per level, those in each group.
type spread struct {
	tally  *tally
	layout *layout
	counts [][]int64
}

// spreadOver is the tally's count by the groups of the layout.
func (t *tally) spreadOver(l *layout) *spread {
	for _, s := range t.spreads {
		if s.layout == l {
			return s
		}
	}
	s := &spread{tally: t, layout: l}
	s.recount()
	t.spreads, l.spreads = append(t.spreads, s), append(l.spreads, s)
	return s
}

func (s *spread) recount() {
	s.counts = make([][]int64, len(s.layout.groups))
	for level, names := range s.layout.names {
		s.counts[level] = make([]int64, len(names))
	}
	for i, n := range s.tally.active {
		s.add(int(i), int64(n))
	}
}

func (s *spread) add(i int, n int64) {
	for level, groups := range s.layout.groups {
		if g := groups[i]; g >= 0 {
			s.counts[level][g] += n
		}
	}
}
