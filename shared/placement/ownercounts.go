package placement

import (
	"berth/shared/cluster"
	"berth/shared/placement/domain"
	"berth/shared/snapshot"
)

// An ownerKey names the tasks that count: all of an owner, or those in one group.
type ownerKey struct{ owner, group string }

// ownerCounts has the number of tasks on each instance, of one owner or of one group of its tasks.
type ownerCounts struct {
	ownerKey
	active map[int32]int32 // counted for spreading: neither ended nor stopping
	total  int64           // of active
	// occupying also counts stopping tasks, which still hold capacity. Nil if no spec limits the
	// tasks on an instance.
	occupying map[int32]int32
	// hasActive and isOccupied have a bit for each instance with such tasks, because maps take
	// longer to ask.
	hasActive, isOccupied instanceSet
	// dense has active once more as a column, for an index of the owner's own; nil if there is
	// none.
	dense       []int64
	groupCounts []*groupCounts
	domains     []*domain.Domains // those that count the same tasks
}

// ownerCountsFor returns the counts of the owner and group. exclusive asks for occupying, too.
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

// includesTask reports whether the owner's task is counted.
func (counts *ownerCounts) includesTask(task *cluster.Task) bool {
	return counts.group == "" || counts.group == task.Group
}

// recountInstance counts the instance's tasks again.
func (counts *ownerCounts) recountInstance(s *snapshot.Snapshot, i int, v *snapshot.InstanceView) {
	c := s.SpreadOf(counts.owner, counts.group)
	active := int32(c.TasksOn(v))
	counts.addActive(i, active-counts.active[int32(i)])
	if counts.occupying != nil {
		setInstanceCount(counts.occupying, &counts.isOccupied, i, active+int32(c.EndingOn(v)))
	}
}

// An instanceSet is a set of instances as bits.
type instanceSet []uint64

func (b instanceSet) containsInstance(i int32) bool {
	word := int(i >> 6)
	return word < len(b) && b[word]&(1<<(i&63)) != 0
}

// setMember adds the instance, or removes it.
func (b *instanceSet) setMember(i int, in bool) {
	growSlice((*[]uint64)(b), i>>6+1)
	if in {
		(*b)[i>>6] |= 1 << (i & 63)
	} else {
		(*b)[i>>6] &^= 1 << (i & 63)
	}
}

// setInstanceCount sets a count and its bit. Zero counts are deleted, so that the map's size is the
// number of instances.
func setInstanceCount(counts map[int32]int32, members *instanceSet, i int, n int32) {
	members.setMember(i, n != 0)
	if n == 0 {
		delete(counts, int32(i))
		return
	}
	counts[int32(i)] = n
}

// addActive counts n more active tasks everywhere: in total, by group and by domain.
func (counts *ownerCounts) addActive(i int, n int32) {
	if n == 0 {
		return
	}
	setInstanceCount(counts.active, &counts.hasActive, i, counts.active[int32(i)]+n)
	counts.total += int64(n)
	if counts.dense != nil {
		counts.dense[i] += int64(n)
	}
	for _, groups := range counts.groupCounts {
		groups.addTasksOn(i, int64(n))
	}
	for _, d := range counts.domains {
		d.AddTasks(i, int(n))
	}
}

// addPlaced counts n more tasks placed by this call.
func (counts *ownerCounts) addPlaced(i int, n int32) {
	counts.addActive(i, n)
	if counts.occupying != nil {
		setInstanceCount(counts.occupying, &counts.isOccupied, i, counts.occupying[int32(i)]+n)
	}
}

// fillDense starts to keep the active counts as a column.
func (counts *ownerCounts) fillDense(n int) {
	if counts.dense != nil {
		return
	}
	counts.dense = make([]int64, n)
	for i, tasks := range counts.active {
		counts.dense[i] = int64(tasks)
	}
}

func (counts *ownerCounts) growColumn(n int) {
	if counts.dense != nil {
		growSlice(&counts.dense, n)
	}
}

// isWidespread reports whether the owner has tasks on so many instances that these are no longer
// exceptions. The limits differ (a quarter to begin, an eighth to end), so that an owner near one
// of them does not switch with every task.
func (counts *ownerCounts) isWidespread(instances int) bool {
	if counts.dense != nil {
		return 8*len(counts.active) > instances
	}
	return 4*len(counts.active) > instances
}

// groupCounts has an owner's active tasks by the groups of a region map, per level.
type groupCounts struct {
	owner     *ownerCounts
	regionMap *regionMap
	counts    [][]int64
}

// groupCountsFor returns the counts by the groups of the region map.
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
		groups.addTasksOn(int(i), int64(n))
	}
}

func (groups *groupCounts) addTasksOn(i int, n int64) {
	for level, groupOf := range groups.regionMap.groupOf {
		if g := groupOf[i]; g >= 0 {
			groups.counts[level][g] += n
		}
	}
}
