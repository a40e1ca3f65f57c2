package simulation

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// tasks are rows of tasks by key.
type tasks map[state.Key]*cluster.Task

// rowHistory is a copy of all rows, put in order for the questions that the checker asks at every commit.
type rowHistory struct {
	now func() time.Time
	// staleness is how long after a change a decision about services may be committed that was made without knowing of it.
	staleness time.Duration
	// fallback tells that a task may have another provider of its strategy once it has waited for its own.
	fallback bool
	rows     map[state.Key]state.Row
	changes  map[state.Key]rowChange // the last change of each row

	byOwner      map[string]tasks // by owner
	byInstance   map[string]tasks // that hold capacity, by instance
	bySlot       map[string]*cluster.Task
	byECSID      map[string]state.Key
	stoppedIDs   map[string]bool      // ids of tasks that were STOPPED once
	touchedAt    map[string]time.Time // when an instance, or a task on it, last changed
	instanceRows map[string]*cluster.Instance
	// pastVersions are earlier states of instances, as long as they may matter.
	pastVersions map[string][]pastVersion
}

// rowChange is a row as it was before, and when it changed; of a task, when what it does changed, or what others than the
// scheduler want of it.
type rowChange struct {
	before   state.Row
	at       time.Time
	statusAt time.Time
	// inactiveAt is when a task ceased to count for its service, but by a decision of the scheduler.
	inactiveAt time.Time
}

func newRowHistory(now func() time.Time) *rowHistory {
	return &rowHistory{
		now: now, staleness: maxStaleness, rows: map[state.Key]state.Row{}, changes: map[state.Key]rowChange{}, byOwner: map[string]tasks{},
		byInstance: map[string]tasks{}, bySlot: map[string]*cluster.Task{}, byECSID: map[string]state.Key{}, stoppedIDs: map[string]bool{},
		touchedAt: map[string]time.Time{}, instanceRows: map[string]*cluster.Instance{}, pastVersions: map[string][]pastVersion{},
	}
}

// apply takes in one change and returns the row as it was.
func (h *rowHistory) apply(key state.Key, after state.Row) (before state.Row) {
	before = h.rows[key]
	was, _ := before.(*cluster.Task)
	is, _ := after.(*cluster.Task)
	c := rowChange{before: before, at: h.now(), statusAt: h.changes[key].statusAt, inactiveAt: h.changes[key].inactiveAt}
	if was == nil || is == nil || was.Last != is.Last || was.Health != is.Health ||
		was.Desired != is.Desired && is.StopCode != cluster.StopByScheduler {
		c.statusAt = c.at
	}
	if was != nil && is != nil && was.IsActive() && !is.IsActive() && (is.Last == cluster.TaskStopped || is.StopCode != cluster.StopByScheduler) {
		c.inactiveAt = c.at
	}
	h.changes[key] = c
	if after == nil {
		delete(h.rows, key)
	} else {
		h.rows[key] = after
	}
	if i, ok := cmp.Or(after, before).(*cluster.Instance); ok {
		h.applyInstance(i.ID, before, after)
	}
	if was != nil {
		h.unindexTask(key, was)
	}
	if is != nil {
		h.indexTask(key, is)
	}
	return before
}

func (h *rowHistory) applyInstance(id string, before, after state.Row) {
	h.touchedAt[id] = h.now()
	if was, ok := before.(*cluster.Instance); ok {
		recent := slices.DeleteFunc(h.pastVersions[id], func(v pastVersion) bool { return h.now().Sub(v.until) >= maxStaleness })
		h.pastVersions[id] = append(recent, pastVersion{was, h.now()})
	}
	if is, ok := after.(*cluster.Instance); ok {
		h.instanceRows[id] = is
	} else {
		delete(h.instanceRows, id)
	}
}

func (h *rowHistory) unindexTask(key state.Key, t *cluster.Task) {
	h.touchedAt[t.Instance] = h.now()
	delete(h.byOwner[t.Owner], key)
	delete(h.byInstance[t.Instance], key)
}

func (h *rowHistory) indexTask(key state.Key, t *cluster.Task) {
	if h.byOwner[t.Owner] == nil {
		h.byOwner[t.Owner] = tasks{}
	}
	h.byOwner[t.Owner][key] = t
	h.touchedAt[t.Instance] = h.now()
	if t.Instance != "" && t.Last != cluster.TaskStopped {
		if h.byInstance[t.Instance] == nil {
			h.byInstance[t.Instance] = tasks{}
		}
		h.byInstance[t.Instance][key] = t
	}
	if t.Batch != "" {
		h.bySlot[slotKey(t.Batch, t.Instance)] = t
	}
	if t.ECSID != "" {
		h.byECSID[t.ECSID] = key
	}
	if t.Last == cluster.TaskStopped {
		h.stoppedIDs[t.ID] = true
	}
}

// hasExpired reports whether a task was STOPPED so long ago that its row has expired.
func (h *rowHistory) hasExpired(id string) bool {
	for key := range h.byOwner[cluster.TaskOwner(id)] {
		if strings.HasSuffix(key.Sort, id) {
			return false
		}
	}
	return h.stoppedIDs[id]
}

func slotKey(batch, instance string) string { return batch + "@" + instance }

// staleRow is the row before its last change, if that was only now: what a cheap read may still give.
func (h *rowHistory) staleRow(key state.Key) (state.Row, bool) {
	c, ok := h.changes[key]
	return c.before, ok && h.now().Sub(c.at) < 10*time.Second
}

// maxStaleness is how long after a change a decision may be committed that was made without knowing of it; soon where there are
// no faults.
const (
	maxStaleness  = 3 * time.Minute
	calmStaleness = 10 * time.Second
)

// isSettled reports whether everybody has known for a while what the task does.
func (h *rowHistory) isSettled(key state.Key) bool {
	return h.now().Sub(h.changes[key].statusAt) >= h.staleness
}

// serviceOf is the service that the task belongs to, as it now is; nil for a standalone task.
func (h *rowHistory) serviceOf(t *cluster.Task) *cluster.Service {
	s, ok := h.rows[state.ServiceKey(t.Cluster, t.Service)].(*cluster.Service)
	if !ok || t.Service == "" || s.Short != t.Owner {
		return nil
	}
	return s
}

func (h *rowHistory) instanceOf(t *cluster.Task) *cluster.Instance {
	i, _ := h.rows[state.InstanceKey(t.Cluster, t.Instance)].(*cluster.Instance)
	return i
}

func (h *rowHistory) definitionOf(clusterName, name string) *cluster.TaskDefinition {
	d, _ := h.rows[state.TaskDefinitionKey(clusterName, name)].(*cluster.TaskDefinition)
	return d
}

// findOverlooked is an instance that every decision should have known to have room for a task of the law; nil where there is
// none. What was freed lately may not have been known: it counts as taken.
func (h *rowHistory) findOverlooked(spec *taskSpec, p roomQuery) *cluster.Instance {
	if h.now().Sub(h.changes[state.KeyOf(spec.def)].at) < maxStaleness || (spec.policy != "" || spec.dependsOnOtherTasks()) && !h.isQuiet() {
		return nil
	}
	p.withRecent = true
	for _, i := range h.sortedInstances() {
		if len(h.recentVersions(i.ID)) == 0 && h.whyRejected(spec, i, p) == "" {
			return i
		}
	}
	return nil
}

// recentVersions are an instance's rows as they were until lately.
func (h *rowHistory) recentVersions(id string) (out []*cluster.Instance) {
	for _, v := range h.pastVersions[id] {
		if h.now().Sub(v.until) < maxStaleness {
			out = append(out, v.row)
		}
	}
	return out
}

// usage is what the tasks on an instance hold of it, by a count of its own.
type usage struct {
	cpu, memory int64
	gpus        []int // thousandths per device
	unpinned    int   // devices that foreign tasks have, nobody knows which
	ports       map[cluster.Port]string
	enis        int
	metrics     map[string]int64
}

func (h *rowHistory) usageOf(i *cluster.Instance, p roomQuery) usage {
	used := usage{gpus: make([]int, len(i.Registered.GPUs)), ports: map[cluster.Port]string{}, metrics: map[string]int64{}}
	for _, p := range i.Registered.Ports {
		used.ports[p] = "the agent"
	}
	for _, t := range h.tasksHolding(i, p) {
		used.enis += int(t.Needs.ENIs)
		h.addLoads(used.metrics, t)
		used.cpu += t.Needs.CPU
		used.memory += t.Needs.Memory
		if len(t.GPUs) == 0 {
			used.unpinned += t.Needs.GPUs
		}
		for _, g := range t.GPUs {
			if share := int(t.Needs.GPUMilli); g < len(used.gpus) && share > 0 {
				used.gpus[g] += share
			} else if g < len(used.gpus) {
				used.gpus[g] += 1000
			}
		}
		for _, p := range t.Ports {
			used.ports[p] = t.ID
		}
	}
	return used
}

// tasksHolding are the tasks that hold something of an instance.
func (h *rowHistory) tasksHolding(i *cluster.Instance, p roomQuery) (out []*cluster.Task) {
	for _, t := range h.byInstance[i.ID] {
		if !p.without[t.ID] {
			out = append(out, t)
		}
	}
	if !p.withRecent {
		return out
	}
	for _, owned := range h.byOwner {
		for key, t := range owned {
			if t.Instance == i.ID && t.Last == cluster.TaskStopped && !h.isSettled(key) {
				out = append(out, t)
			}
		}
	}
	return out
}

// idleGPUs is how many devices no task holds any part of that is known to have it.
func (u *usage) idleGPUs() int {
	n := 0
	for _, used := range u.gpus {
		if used == 0 {
			n++
		}
	}
	return n
}
