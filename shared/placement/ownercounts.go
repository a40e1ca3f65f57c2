package placement

import (
	"berth/shared/cluster"
	"berth/shared/placement/domain"
	"berth/shared/snapshot"
)

type ownerKey struct{ owner, group string }

// ownerCounts counts the tasks of one owner, or those of its tasks that are in one group, by instance.
type ownerCounts struct {
	ownerKey
	active map[int32]int32 // those that count for spreading: not ended, not being stopped
	total  int64           // of those
	// occupying are all that hold something of the instance; counted only where it matters.
	occupying map[int32]int32
	// hasActive and isHeld have a bit for each instance with any of these: the maps take longer to
	// ask.
	hasActive, isOccupied instanceSet
	// dense are the active ones once more, by index, for an index of the owner's own; nil where
	// there is none.
	dense       []int64
	groupCounts []*groupCounts
	domains     []*domain.Domains // that count them too
}

// ownerCountsFor is the count for the owner and group, made where there is none yet; exclusive if it must
// know what is held.
func ownerCountsFor(e *Engine, owner, group string, exclusive bool) *ownerCounts {
	key := ownerKey{owner, group}
	counts := e.caches.counts[key]
	if counts == nil {
		counts = &ownerCounts{ownerKey: key, active: map[int32]int32{}}
		e.caches.counts[key] = counts
		e.caches.countsByOwner[owner] = append(e.caches.countsByOwner[owner], counts)
		counts.recountAll(e)
	}
	if exclusive && counts.occupying == nil {
		counts.occupying = map[int32]int32{}
		counts.recountAll(e)
	}
	return counts
}

func (counts *ownerCounts) recountAll(e *Engine) {
	seen := map[string]bool{}
	for _, task := range e.snap.TasksOf(counts.owner) {
		if v := e.snap.Instances[task.Instance]; v != nil && !seen[v.ID] {
			seen[v.ID] = true
			counts.recountInstance(e.snap, v.Index, v)
		}
	}
}

// includes reports whether the owner's task is one of those that it counts.
func (counts *ownerCounts) includes(task *cluster.Task) bool {
	return counts.group == "" || counts.group == task.Group
}

// recountInstance counts the instance's tasks anew.
func (counts *ownerCounts) recountInstance(s *snapshot.Snapshot, i int, v *snapshot.InstanceView) {
	c := s.SpreadOf(counts.owner, counts.group)
	active := int32(c.TasksOn(v))
	counts.addActive(i, active-counts.active[int32(i)])
	if counts.occupying != nil {
		setCount(counts.occupying, &counts.isOccupied, i, active+int32(c.EndingOn(v)))
	}
}

// instanceSet are a set of instances.
type instanceSet []uint64

func (b instanceSet) contains(i int32) bool {
	word := int(i >> 6)
	return word < len(b) && b[word]&(1<<(i&63)) != 0
}

func (b *instanceSet) setMember(i int, in bool) {
	growTo((*[]uint64)(b), i>>6+1)
	if in {
		(*b)[i>>6] |= 1 << (i & 63)
	} else {
		(*b)[i>>6] &^= 1 << (i & 63)
	}
}

// setCount leaves nothing behind where the count is 0.
func setCount(counts map[int32]int32, any *instanceSet, i int, n int32) {
	any.setMember(i, n != 0)
	if n == 0 {
		delete(counts, int32(i))
		return
	}
	counts[int32(i)] = n
}

func (counts *ownerCounts) addActive(i int, n int32) {
	if n == 0 {
		return
	}
	setCount(counts.active, &counts.hasActive, i, counts.active[int32(i)]+n)
	counts.total += int64(n)
	if counts.dense != nil {
		counts.dense[i] += int64(n)
	}
	for _, groups := range counts.groupCounts {
		groups.addTasks(i, int64(n))
	}
	for _, d := range counts.domains {
		d.AddTasks(i, int(n))
	}
}

// addPlaced has the tally count n more tasks that this call places.
func (counts *ownerCounts) addPlaced(i int, n int32) {
	counts.addActive(i, n)
	if counts.occupying != nil {
		setCount(counts.occupying, &counts.isOccupied, i, counts.occupying[int32(i)]+n)
	}
}

// fillDense has the active tasks counted by index, too.
func (counts *ownerCounts) fillDense(n int) {
	if counts.dense != nil {
		return
	}
	counts.dense = make([]int64, n)
	for i, tasks := range counts.active {
		counts.dense[i] = int64(tasks)
	}
}

func (counts *ownerCounts) growTo(n int) {
	if counts.dense != nil {
		growTo(&counts.dense, n)
	}
}

// isWidespread reports whether the owner has tasks on so many of the instances that they are no
// exception.
func (counts *ownerCounts) isWidespread(instances int) bool {
	if counts.dense != nil {
		return 8*len(counts.active) > instances
	}
	return 4*len(counts.active) > instances
}

// groupCounts counts a tally's active tasks by the groups of a layout: per level, those in each group.
type groupCounts struct {
	owner     *ownerCounts
	regionMap *regionMap
	counts    [][]int64
}

// groupCountsFor is the tally's count by the groups of the layout.
func (counts *ownerCounts) groupCountsFor(regions *regionMap) *groupCounts {
	for _, groups := range counts.groupCounts {
		if groups.regionMap == regions {
			return groups
		}
	}
	groups := &groupCounts{owner: counts, regionMap: regions}
	groups.recountAll()
	counts.groupCounts, regions.groupCounts = append(counts.groupCounts, groups), append(regions.groupCounts, groups)
	return groups
}

func (groups *groupCounts) recountAll() {
	groups.counts = make([][]int64, len(groups.regionMap.groupOf))
	for level, names := range groups.regionMap.groupIndex {
		groups.counts[level] = make([]int64, len(names))
	}
	for i, n := range groups.owner.active {
		groups.addTasks(int(i), int64(n))
	}
}

func (s *groupCounts) addTasks(i int, n int64) {
	for level, groups := range s.regionMap.groupOf {
		if g := groups[i]; g >= 0 {
			s.counts[level][g] += n
		}
	}
}
