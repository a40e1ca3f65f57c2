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

// ledger is a copy of all rows, put in order for the questions that the checker asks at every commit.
type ledger struct {
	now func() time.Time
	// tolerance is how long after a change a decision about services may be committed that was made without knowing of it.
	tolerance time.Duration
	// fallback tells that a task may have another provider of its strategy once it has waited for its own.
	fallback bool
	rows     map[state.Key]state.Row
	old      map[state.Key]change // the last change of each row

	owned   map[string]tasks // by owner
	on      map[string]tasks // that hold capacity, by instance
	slots   map[string]*cluster.Task
	byECSID map[string]state.Key
	ended   map[string]bool      // ids of tasks that were STOPPED once
	touched map[string]time.Time // when an instance, or a task on it, last changed
	known   map[string]*cluster.Instance
	// versions are earlier states of instances, as long as they may matter.
	versions map[string][]version
}

// change is a row as it was before, and when it changed; of a task, when what it does changed, or what others than the
// scheduler want of it.
type change struct {
	before  state.Row
	at      time.Time
	doingAt time.Time
	// leftAt is when a task ceased to count for its service, but by a decision of the scheduler.
	leftAt time.Time
}

func newLedger(now func() time.Time) *ledger {
	return &ledger{
		now: now, tolerance: lately, rows: map[state.Key]state.Row{}, old: map[state.Key]change{}, owned: map[string]tasks{},
		on: map[string]tasks{}, slots: map[string]*cluster.Task{}, byECSID: map[string]state.Key{}, ended: map[string]bool{},
		touched: map[string]time.Time{}, known: map[string]*cluster.Instance{}, versions: map[string][]version{},
	}
}

// put takes in one change and returns the row as it was.
func (l *ledger) put(key state.Key, after state.Row) (before state.Row) {
	before = l.rows[key]
	was, _ := before.(*cluster.Task)
	is, _ := after.(*cluster.Task)
	c := change{before: before, at: l.now(), doingAt: l.old[key].doingAt, leftAt: l.old[key].leftAt}
	if was == nil || is == nil || was.Last != is.Last || was.Health != is.Health ||
		was.Desired != is.Desired && is.StopCode != cluster.StopByScheduler {
		c.doingAt = c.at
	}
	if was != nil && is != nil && was.IsActive() && !is.IsActive() && (is.Last == cluster.TaskStopped || is.StopCode != cluster.StopByScheduler) {
		c.leftAt = c.at
	}
	l.old[key] = c
	if after == nil {
		delete(l.rows, key)
	} else {
		l.rows[key] = after
	}
	if i, ok := cmp.Or(after, before).(*cluster.Instance); ok {
		l.instanceChanged(i.ID, before, after)
	}
	if was != nil {
		l.drop(key, was)
	}
	if is != nil {
		l.add(key, is)
	}
	return before
}

func (l *ledger) instanceChanged(id string, before, after state.Row) {
	l.touched[id] = l.now()
	if was, ok := before.(*cluster.Instance); ok {
		recent := slices.DeleteFunc(l.versions[id], func(v version) bool { return l.now().Sub(v.until) >= lately })
		l.versions[id] = append(recent, version{was, l.now()})
	}
	if is, ok := after.(*cluster.Instance); ok {
		l.known[id] = is
	} else {
		delete(l.known, id)
	}
}

func (l *ledger) drop(key state.Key, t *cluster.Task) {
	l.touched[t.Instance] = l.now()
	delete(l.owned[t.Owner], key)
	delete(l.on[t.Instance], key)
}

func (l *ledger) add(key state.Key, t *cluster.Task) {
	if l.owned[t.Owner] == nil {
		l.owned[t.Owner] = tasks{}
	}
	l.owned[t.Owner][key] = t
	l.touched[t.Instance] = l.now()
	if t.Instance != "" && t.Last != cluster.TaskStopped {
		if l.on[t.Instance] == nil {
			l.on[t.Instance] = tasks{}
		}
		l.on[t.Instance][key] = t
	}
	if t.Batch != "" {
		l.slots[slot(t.Batch, t.Instance)] = t
	}
	if t.ECSID != "" {
		l.byECSID[t.ECSID] = key
	}
	if t.Last == cluster.TaskStopped {
		l.ended[t.ID] = true
	}
}

// forgotten reports whether a task was STOPPED so long ago that its row has expired.
func (l *ledger) forgotten(id string) bool {
	for key := range l.owned[cluster.TaskOwner(id)] {
		if strings.HasSuffix(key.Sort, id) {
			return false
		}
	}
	return l.ended[id]
}

func slot(batch, instance string) string { return batch + "@" + instance }

// previous is the row before its last change, if that was only now: what a cheap read may still give.
func (l *ledger) previous(key state.Key) (state.Row, bool) {
	c, ok := l.old[key]
	return c.before, ok && l.now().Sub(c.at) < 10*time.Second
}

// lately is how long after a change a decision may be committed that was made without knowing of it; soon where there are
// no faults.
const (
	lately = 3 * time.Minute
	soon   = 10 * time.Second
)

// settled reports whether everybody has known for a while what the task does.
func (l *ledger) settled(key state.Key) bool { return l.now().Sub(l.old[key].doingAt) >= l.tolerance }

// service is the service that the task belongs to, as it now is; nil for a standalone task.
func (l *ledger) service(t *cluster.Task) *cluster.Service {
	s, ok := l.rows[state.ServiceKey(t.Cluster, t.Service)].(*cluster.Service)
	if !ok || t.Service == "" || s.Short != t.Owner {
		return nil
	}
	return s
}

func (l *ledger) instance(t *cluster.Task) *cluster.Instance {
	i, _ := l.rows[state.InstanceKey(t.Cluster, t.Instance)].(*cluster.Instance)
	return i
}

func (l *ledger) definition(clusterName, name string) *cluster.TaskDefinition {
	d, _ := l.rows[state.TaskDefinitionKey(clusterName, name)].(*cluster.TaskDefinition)
	return d
}

// overlooked is an instance that every decision should have known to have room for a task of the law; nil where there is
// none. What was freed lately may not have been known: it counts as taken.
func (l *ledger) overlooked(w *law, p posture) *cluster.Instance {
	if l.now().Sub(l.old[state.KeyOf(w.def)].at) < lately || (w.policy != "" || w.sociable()) && !l.quiet() {
		return nil
	}
	p.late = true
	for _, i := range l.instances() {
		if len(l.recentVersions(i.ID)) == 0 && l.refuses(w, i, p) == "" {
			return i
		}
	}
	return nil
}

// recentVersions are an instance's rows as they were until lately.
func (l *ledger) recentVersions(id string) (out []*cluster.Instance) {
	for _, v := range l.versions[id] {
		if l.now().Sub(v.until) < lately {
			out = append(out, v.row)
		}
	}
	return out
}

// load is what the tasks on an instance hold of it, by a count of its own.
type load struct {
	cpu, memory int64
	gpus        []int // thousandths per device
	unpinned    int   // devices that foreign tasks have, nobody knows which
	ports       map[cluster.Port]string
	enis        int
	metrics     map[string]int64
}

func (l *ledger) load(i *cluster.Instance, p posture) load {
	h := load{gpus: make([]int, len(i.Registered.GPUs)), ports: map[cluster.Port]string{}, metrics: map[string]int64{}}
	for _, p := range i.Registered.Ports {
		h.ports[p] = "the agent"
	}
	for _, t := range l.holding(i, p) {
		h.enis += int(t.Needs.ENIs)
		l.loads(h.metrics, t)
		h.cpu += t.Needs.CPU
		h.memory += t.Needs.Memory
		if len(t.GPUs) == 0 {
			h.unpinned += t.Needs.GPUs
		}
		for _, g := range t.GPUs {
			if share := int(t.Needs.GPUMilli); g < len(h.gpus) && share > 0 {
				h.gpus[g] += share
			} else if g < len(h.gpus) {
				h.gpus[g] += 1000
			}
		}
		for _, p := range t.Ports {
			h.ports[p] = t.ID
		}
	}
	return h
}

// holding are the tasks that hold something of an instance.
func (l *ledger) holding(i *cluster.Instance, p posture) (out []*cluster.Task) {
	for _, t := range l.on[i.ID] {
		if !p.without[t.ID] {
			out = append(out, t)
		}
	}
	if !p.late {
		return out
	}
	for _, owned := range l.owned {
		for key, t := range owned {
			if t.Instance == i.ID && t.Last == cluster.TaskStopped && !l.settled(key) {
				out = append(out, t)
			}
		}
	}
	return out
}

// idle is how many devices no task holds any part of that is known to have it.
func (h *load) idle() int {
	n := 0
	for _, used := range h.gpus {
		if used == 0 {
			n++
		}
	}
	return n
}
