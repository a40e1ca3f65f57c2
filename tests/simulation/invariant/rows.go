package invariant

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

// A RowHistory is a copy of all rows with the indexes that the checker needs, and with what the
// rows were recently.
type RowHistory struct {
	cluster string
	now     func() time.Time
	// Staleness is how long after a change a decision about services may be committed that was made
	// without knowing of it.
	Staleness time.Duration
	// Fallback means that a task that has waited for its capacity provider may use another one of
	// its strategy.
	Fallback bool
	Rows     map[state.Key]state.Row
	Changes  map[state.Key]RowChange // the last change of each row

	ByOwner      map[string]tasks
	ByInstance   map[string]tasks // that hold capacity
	bySlot       map[string]*cluster.Task
	ByECSID      map[string]state.Key
	StoppedIDs   map[string]bool      // ids of tasks that were STOPPED once
	taskByAlias  map[string]string    // by the alias's id, also of one that has expired
	touchedAt    map[string]time.Time // when an instance, or a task on it, last changed
	InstanceRows map[string]*cluster.Instance
	// unannounced are tasks whose changes an inbox row has yet to announce.
	unannounced map[state.Key]bool
	// pastVersions are the earlier rows of instances that a decision may still have read.
	pastVersions map[string][]pastVersion
}

// A RowChange is the last change of a row: what it was before, and when it changed.
type RowChange struct {
	before   state.Row
	At       time.Time
	statusAt time.Time
	// inactiveAt is when a task ceased to be active for another reason than the scheduler's
	// decision.
	inactiveAt time.Time
	// tolerationsAt is when a service's tolerations changed.
	tolerationsAt time.Time
}

func newRowHistory(clusterName string, now func() time.Time) *RowHistory {
	return &RowHistory{
		cluster: clusterName, now: now, Staleness: MaxStaleness, Rows: map[state.Key]state.Row{},
		Changes: map[state.Key]RowChange{}, ByOwner: map[string]tasks{},
		ByInstance: map[string]tasks{}, bySlot: map[string]*cluster.Task{}, ByECSID: map[string]state.Key{},
		StoppedIDs: map[string]bool{}, taskByAlias: map[string]string{},
		touchedAt: map[string]time.Time{}, InstanceRows: map[string]*cluster.Instance{},
		pastVersions: map[string][]pastVersion{}, unannounced: map[state.Key]bool{},
	}
}

// apply records one change and returns the row as it was.
func (h *RowHistory) apply(key state.Key, after state.Row) (before state.Row) {
	before = h.Rows[key]
	was, _ := before.(*cluster.Task)
	is, _ := after.(*cluster.Task)
	c := RowChange{before: before, At: h.now(), statusAt: h.Changes[key].statusAt,
		inactiveAt: h.Changes[key].inactiveAt, tolerationsAt: h.Changes[key].tolerationsAt}
	if s, ok := after.(*cluster.Service); ok {
		old, _ := before.(*cluster.Service)
		if old != nil && !slices.Equal(old.Rules.Tolerations, s.Rules.Tolerations) {
			c.tolerationsAt = c.At
		}
	}
	if was == nil || is == nil || was.Last != is.Last || was.Health != is.Health ||
		was.Desired != is.Desired && is.StopCode != cluster.StopByScheduler {
		c.statusAt = h.knownFrom(is)
	}
	if was != nil && is != nil && was.IsActive() && !is.IsActive() &&
		(is.Last == cluster.TaskStopped || is.StopCode != cluster.StopByScheduler) {
		c.inactiveAt = h.knownFrom(is)
	}
	if h.Changes[key] = c; c.statusAt.After(h.now()) || c.inactiveAt.After(h.now()) {
		h.unannounced[key] = true
	}
	if inbox, ok := after.(*state.Inbox); ok {
		h.recordAnnounced(inbox)
	}
	if after == nil {
		delete(h.Rows, key)
	} else {
		h.Rows[key] = after
	}
	if a, ok := after.(*state.Alias); ok {
		h.taskByAlias[a.Derived] = a.ID
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

// knownFrom returns when a change of a task that is made now is announced to placement at the latest.
// That is now, unless an inbox row announces it: a function may be cut off before it writes the row, and
// the event is delivered again then.
func (h *RowHistory) knownFrom(t *cluster.Task) time.Time {
	if t == nil || h.Staleness == CalmStaleness || !state.ConcernsPlacement(t) {
		return h.now()
	}
	return h.now().Add(redelivery)
}

// redelivery is how long a message is hidden from other functions once it was delivered
// (VisibilityTimeout in template.yaml), and how late it may be then.
const redelivery = 2*time.Minute + 150*time.Second

// DelayAnnouncements is called when a function that announces tasks has died: what it had recorded and
// not announced is delivered again, once more.
func (h *RowHistory) DelayAnnouncements() {
	for key := range h.unannounced {
		c, until := h.Changes[key], h.now().Add(redelivery)
		if !c.statusAt.After(h.now()) && !c.inactiveAt.After(h.now()) {
			delete(h.unannounced, key)
			continue
		}
		if c.statusAt.After(h.now()) {
			c.statusAt = until
		}
		if c.inactiveAt.After(h.now()) {
			c.inactiveAt = until
		}
		h.Changes[key] = c
	}
}

// recordAnnounced notes that an inbox row announces tasks to placement now.
func (h *RowHistory) recordAnnounced(inbox *state.Inbox) {
	announced := map[state.Key]bool{}
	tasks, _ := inbox.Tasks()
	for _, t := range tasks {
		key := state.KeyOf(t)
		is, ok := h.Rows[key].(*cluster.Task)
		announced[key] = ok && t.Last == is.Last && t.Health == is.Health && t.Desired == is.Desired
	}
	for _, u := range inbox.Unread {
		announced[state.TaskKey(inbox.Cluster, u.Owner, u.ID)] = true
	}
	for key, current := range announced {
		c, known := h.Changes[key]
		if !current || !known {
			continue
		}
		if c.statusAt.After(h.now()) {
			c.statusAt = h.now()
		}
		if c.inactiveAt.After(h.now()) {
			c.inactiveAt = h.now()
		}
		h.Changes[key] = c
		delete(h.unannounced, key)
	}
}

func (h *RowHistory) applyInstance(id string, before, after state.Row) {
	h.touchedAt[id] = h.now()
	if was, ok := before.(*cluster.Instance); ok {
		recent := slices.DeleteFunc(h.pastVersions[id],
			func(v pastVersion) bool { return h.now().Sub(v.until) >= MaxStaleness })
		h.pastVersions[id] = append(recent, pastVersion{was, h.now()})
	}
	if is, ok := after.(*cluster.Instance); ok {
		h.InstanceRows[id] = is
	} else {
		delete(h.InstanceRows, id)
	}
}

func (h *RowHistory) unindexTask(key state.Key, t *cluster.Task) {
	h.touchedAt[t.Instance] = h.now()
	delete(h.ByOwner[t.Owner], key)
	delete(h.ByInstance[t.Instance], key)
}

func (h *RowHistory) indexTask(key state.Key, t *cluster.Task) {
	if h.ByOwner[t.Owner] == nil {
		h.ByOwner[t.Owner] = tasks{}
	}
	h.ByOwner[t.Owner][key] = t
	h.touchedAt[t.Instance] = h.now()
	if t.Instance != "" && t.Last != cluster.TaskStopped {
		if h.ByInstance[t.Instance] == nil {
			h.ByInstance[t.Instance] = tasks{}
		}
		h.ByInstance[t.Instance][key] = t
	}
	if t.Batch != "" {
		h.bySlot[slotKey(t.Batch, t.Instance)] = t
	}
	if t.ECSID != "" {
		h.ByECSID[t.ECSID] = key
	}
	if t.Last == cluster.TaskStopped {
		h.StoppedIDs[t.ID] = true
	}
}

// TaskByAlias returns the id of the task that an id is an alias of, also after the alias has expired, or
// the id itself.
func (h *RowHistory) TaskByAlias(id string) string { return cmp.Or(h.taskByAlias[id], id) }

// HasExpired reports whether a task was STOPPED so long ago that its row has expired.
func (h *RowHistory) HasExpired(id string) bool {
	for key := range h.ByOwner[cluster.TaskOwner(id)] {
		if strings.HasSuffix(key.Sort, id) {
			return false
		}
	}
	return h.StoppedIDs[id]
}

func slotKey(batch, instance string) string { return batch + "@" + instance }

// StaleRow returns the row before its last change if that was less than ten seconds ago: an
// eventually consistent read may still return it.
func (h *RowHistory) StaleRow(key state.Key) (state.Row, bool) {
	c, ok := h.Changes[key]
	return c.before, ok && h.now().Sub(c.At) < 10*time.Second
}

// MaxStaleness is how long after a change a decision may be committed that was made without knowing
// of it. Without faults that time is CalmStaleness.
const (
	MaxStaleness  = 3 * time.Minute
	CalmStaleness = 10 * time.Second
)

// isSettled reports whether every decision must know the task's present status.
func (h *RowHistory) isSettled(key state.Key) bool {
	return h.now().Sub(h.Changes[key].statusAt) >= h.Staleness
}

// ServiceOf returns the service that the task belongs to, or nil for a standalone task.
func (h *RowHistory) ServiceOf(t *cluster.Task) *cluster.Service {
	s, ok := h.Rows[state.ServiceKey(t.Cluster, t.Service)].(*cluster.Service)
	if !ok || t.Service == "" || s.Short != t.Owner {
		return nil
	}
	return s
}

func (h *RowHistory) instanceOf(t *cluster.Task) *cluster.Instance {
	i, _ := h.Rows[state.InstanceKey(t.Cluster, t.Instance)].(*cluster.Instance)
	return i
}

func (h *RowHistory) definitionOf(clusterName, name string) *cluster.TaskDefinition {
	d, _ := h.Rows[state.TaskDefinitionKey(clusterName, name)].(*cluster.TaskDefinition)
	return d
}

// findOverlooked returns an instance that every decision must have known to have room for a task of
// the spec, or nil. Capacity freed recently counts as taken, because the decision may not have
// known.
func (h *RowHistory) findOverlooked(spec *TaskSpec, q RoomQuery) *cluster.Instance {
	if h.now().Sub(h.Changes[state.KeyOf(spec.Def)].At) < MaxStaleness ||
		(spec.Policy != "" || spec.dependsOnOtherTasks() || h.IsLimited(spec)) && !h.isQuiet() {
		return nil
	}
	q.withRecent = true
	for _, i := range h.sortedInstances() {
		if len(h.recentVersions(i.ID)) == 0 && h.WhyRejected(spec, i, q) == "" {
			return i
		}
	}
	return nil
}

// recentVersions returns the earlier rows of an instance that a decision may still have read.
func (h *RowHistory) recentVersions(id string) (out []*cluster.Instance) {
	for _, v := range h.pastVersions[id] {
		if h.now().Sub(v.until) < MaxStaleness {
			out = append(out, v.row)
		}
	}
	return out
}

// usage is what the tasks on an instance hold.
type usage struct {
	cpu, memory int64
	gpus        []int // thousandths per device
	unpinned    int   // devices of foreign tasks; ECS does not say which
	ports       map[cluster.Port]string
	enis        int
	metrics     map[string]int64
}

func (h *RowHistory) usageOf(i *cluster.Instance, q RoomQuery) usage {
	used := usage{gpus: make([]int, len(i.Registered.GPUs)), ports: map[cluster.Port]string{},
		metrics: map[string]int64{}}
	for _, p := range i.Registered.Ports {
		used.ports[p] = "the agent"
	}
	for _, t := range h.tasksHolding(i, q) {
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

// tasksHolding returns the tasks that hold capacity of an instance.
func (h *RowHistory) tasksHolding(i *cluster.Instance, q RoomQuery) (out []*cluster.Task) {
	for _, t := range h.ByInstance[i.ID] {
		if !q.Without[t.ID] {
			out = append(out, t)
		}
	}
	if !q.withRecent {
		return out
	}
	for _, owned := range h.ByOwner {
		for key, t := range owned {
			if t.Instance == i.ID && t.Last == cluster.TaskStopped && !h.isSettled(key) {
				out = append(out, t)
			}
		}
	}
	return out
}

// idleGPUs counts the devices that no task is known to use.
func (u *usage) idleGPUs() int {
	n := 0
	for _, used := range u.gpus {
		if used == 0 {
			n++
		}
	}
	return n
}

// countActive counts the owner's active tasks.
func (h *RowHistory) countActive(owner string) (n int) {
	for _, t := range h.ByOwner[owner] {
		if t.IsActive() {
			n++
		}
	}
	return n
}

// ActiveServices returns the ACTIVE services.
func (h *RowHistory) ActiveServices() (out []*cluster.Service) {
	for _, row := range h.Rows {
		if s, ok := row.(*cluster.Service); ok && s.Status == cluster.ServiceActive {
			out = append(out, s)
		}
	}
	return out
}

// TaskByECSID returns the row of an ECS task, or nil.
func (c *Checker) TaskByECSID(id string) *cluster.Task {
	t, _ := c.Rows[c.ByECSID[id]].(*cluster.Task)
	return t
}

// IsProtectedFor reports whether a task stays protected for the given time, and has been protected
// for long enough that every decision must know.
func (c *Checker) IsProtectedFor(t *cluster.Task, remaining time.Duration) bool {
	key := state.ProtectionKey(t.Cluster, t.Owner, t.ID)
	p, ok := c.Rows[key].(*cluster.Protection)
	return ok && p != nil && p.Until.After(c.now().Add(remaining)) && c.now().Sub(c.Changes[key].At) >= c.Staleness
}
