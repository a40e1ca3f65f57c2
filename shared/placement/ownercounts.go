package placement

import (
	"berth/shared/cluster"
	"berth/shared/placement/domain"
	"berth/shared/snapshot"
	"berth/shared/tally"
)

// An ownerKey names the tasks that count: all of an owner, or those in one group or of one
// deployment.
type ownerKey struct{ owner, group, deployment string }

// ownerCounts has the number of tasks on each instance, of one owner or of a part of its tasks.
type ownerCounts struct {
	ownerKey
	active tally.Counts // counted for spreading: neither ended nor stopping
	total  int64        // of active
	// occupying also counts stopping tasks, which still hold capacity. Without countsOccupying it is
	// empty: no spec limits the tasks on an instance.
	occupying       tally.Counts
	countsOccupying bool
	// dense has active once more as a column, for an index of the owner's own; nil if there is
	// none.
	dense       []int64
	groupCounts []*groupCounts
	domains     []*domain.Domains // those that count the same tasks
}

// ownerCountsFor returns the counts of the key's tasks. exclusive asks for occupying, too.
func ownerCountsFor(e *Engine, key ownerKey, exclusive bool) *ownerCounts {
	counts := e.caches.counts[key]
	if counts == nil {
		counts = &ownerCounts{ownerKey: key}
		e.caches.counts[key] = counts
		e.caches.countsByOwner[key.owner] = append(e.caches.countsByOwner[key.owner], counts)
		clear(e.caches.numberedCounts)
		counts.recountAll(e)
	}
	if exclusive && !counts.countsOccupying {
		counts.countsOccupying = true
		counts.recountAll(e)
	}
	return counts
}

func (counts *ownerCounts) recountAll(e *Engine) {
	seen := map[string]bool{}
	for _, task := range e.snap.TasksOf(counts.owner) {
		if v := e.snap.Instances[task.Instance]; v != nil && !seen[v.ID] {
			seen[v.ID] = true
			counts.recountInstance(e.snap.Owner(counts.owner), v.Index, v)
		}
	}
}

// includesTask reports whether the owner's task is counted.
func (counts *ownerCounts) includesTask(task *cluster.Task) bool {
	return counts.includes(task.Group, task.Revision)
}

// includes reports whether the owner's tasks of a group and a deployment are counted.
func (counts *ownerCounts) includes(group, deployment string) bool {
	return (counts.group == "" || counts.group == group) && (counts.deployment == "" || counts.deployment == deployment)
}

// numberedCounts are the counts of the owner that has a number.
type numberedCounts struct {
	owner  *snapshot.Owner
	counts []*ownerCounts
}

// numberedCountsOf returns all counts of an owner that has a number.
func numberedCountsOf(e *Engine, owner *snapshot.Owner) []*ownerCounts {
	n := owner.Number()
	growSlice(&e.caches.numberedCounts, n+1)
	at := &e.caches.numberedCounts[n]
	if at.owner != owner { // another one had the number before
		*at = numberedCounts{owner, e.caches.countsByOwner[owner.Name()]}
	}
	return at.counts
}

// recountInstance counts the tasks on the instance again. The owner is nil if it has none.
func (counts *ownerCounts) recountInstance(of *snapshot.Owner, i int, v *snapshot.InstanceView) {
	if counts.deployment != "" {
		counts.addActive(i, int32(of.DeploymentTasksOn(v, counts.deployment))-counts.active.Of(int32(i)))
		return
	}
	c := of.SpreadOf(counts.group)
	active := int32(c.TasksOn(v))
	counts.addActive(i, active-counts.active.Of(int32(i)))
	if counts.countsOccupying {
		counts.occupying.Set(int32(i), active+int32(c.EndingOn(v)))
	}
}

// addActive counts n more active tasks everywhere: in total, by group and by domain.
func (counts *ownerCounts) addActive(i int, n int32) {
	if n == 0 {
		return
	}
	counts.active.Add(int32(i), n)
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
	if counts.countsOccupying {
		counts.occupying.Add(int32(i), n)
	}
}

// fillDense starts to keep the active counts as a column.
func (counts *ownerCounts) fillDense(n int) {
	if counts.dense != nil {
		return
	}
	counts.dense = make([]int64, n)
	for i, tasks := range counts.active.All() {
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
		return 8*counts.active.Len() > instances
	}
	return 4*counts.active.Len() > instances
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
	for i, n := range groups.owner.active.All() {
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
