package decide

import (
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// Work is what a batch of stream records asks placement to look at.
type Work struct {
	Services map[string]bool
	Requests map[string]bool
	// freed are instances that may now take what fitted nowhere before, hosts those whose agent may be away for too long.
	freed, hosts map[string]bool
	// came are instances that tasks have come to: a constraint over the tasks there may hold now.
	came map[string]bool
	// daemons looks at all DAEMON services, zones at all that keep their zones in balance, waiting at all tasks without an
	// instance, moves at where all tasks are that a rule could make leave.
	daemons, zones, waiting, moves bool
	// revisit are services that may have come to break a rule, or whose tasks may now leave, though nothing else has changed.
	revisit map[string]bool
	// ended are tasks of services that have STOPPED.
	ended []*cluster.Task
	// Fired are timers that have gone off.
	Fired []timer
}

// NewWork returns work that asks for nothing yet.
func NewWork() *Work {
	return &Work{
		Services: map[string]bool{}, Requests: map[string]bool{}, freed: map[string]bool{}, hosts: map[string]bool{}, came: map[string]bool{},
		revisit: map[string]bool{},
	}
}

// Add takes in one record, after the snapshot has seen it.
func (w *Work) Add(r state.Record, snap *snapshot.Snapshot) {
	switch row := r.Row().(type) {
	case *cluster.Service:
		w.Services[row.Name] = true
		w.moves = true
	case *cluster.Configuration:
		w.configured(snap)
	case *state.Request:
		w.Requests[row.ID] = true
	case *cluster.Instance:
		w.instance(row, snap)
	case *cluster.Task:
		w.task(r, row, snap)
	case *cluster.Target:
		w.Services[row.Service] = true
	case *cluster.Throttle:
		w.Services[row.Service] = true
	case *cluster.AlarmWatch:
		w.Services[row.Service] = true
	case *cluster.Protection:
		if t := snap.Task(row.Owner, row.Task); t != nil {
			w.Services[t.Service], w.revisit[t.Service] = true, true
		}
	case *state.Due:
		if r.Op == state.Remove {
			w.due(row, snap)
		}
	}
}

func (w *Work) task(r state.Record, t *cluster.Task, snap *snapshot.Snapshot) {
	if t.Service != "" {
		w.Services[t.Service] = true
	}
	if t.Ended() && t.Service != "" {
		w.ended = append(w.ended, t)
	}
	if !t.Holds() && t.Instance != "" {
		w.freed[t.Instance] = true
		w.lastOn(t.Instance, snap)
	}
	old, known := r.Old.(*cluster.Task)
	if t.Holds() && (!known || old == nil || old.Last == "") { // its first report: that it was begun comes from placement itself
		w.came[t.Instance] = true
	}
	// A foreign task may put its instance above what it has.
	if known && !maps.Equal(old.Reported, t.Reported) || t.Foreign && t.Holds() {
		w.moves = true
	}
}

// lastOn looks at the DAEMON services of a draining instance that a task has left: they go last.
func (w *Work) lastOn(instance string, snap *snapshot.Snapshot) {
	v := snap.Instances[instance]
	if v == nil || v.Instance == nil || v.Status != cluster.InstanceDraining || busy(snap, v) {
		return
	}
	w.host(instance, snap)
}

// busy reports whether an instance has tasks of REPLICA services or standalone ones.
func busy(snap *snapshot.Snapshot, v *snapshot.InstanceView) bool {
	for _, t := range v.Tasks {
		if snap.Daemons()[t.Service] == nil {
			return true
		}
	}
	return false
}

// configured looks at everything: any instance may now take what it did not, or have too much.
func (w *Work) configured(snap *snapshot.Snapshot) {
	w.daemons, w.waiting, w.moves, w.zones = true, true, true, true
	for id := range snap.Instances {
		w.freed[id] = true
	}
}

func (w *Work) instance(i *cluster.Instance, snap *snapshot.Snapshot) {
	w.daemons, w.moves, w.zones = true, true, true
	w.freed[i.ID] = true
	w.waiting = w.waiting || i.Gone()
	w.hosts[i.ID] = true
	w.host(i.ID, snap)
}

// host looks at the services that have tasks on an instance.
func (w *Work) host(id string, snap *snapshot.Snapshot) {
	if v := snap.Instances[id]; v != nil {
		for _, t := range v.Tasks {
			if t.Service != "" {
				w.Services[t.Service] = true
			}
		}
	}
}

func (w *Work) due(d *state.Due, snap *snapshot.Snapshot) {
	w.Fired = append(w.Fired, timer{d.Kind, d.Subject})
	switch d.Kind {
	case state.DueService:
		w.Services[d.Subject], w.revisit[d.Subject] = true, true
	case state.DueRequest:
		w.Requests[d.Subject] = true
	case state.DueWaiting:
		w.waiting = true
	case state.DueHost:
		w.hosts[d.Subject] = true
		w.host(d.Subject, snap)
	}
}

// lostAt is when the tasks of an instance are given up as its agent stays disconnected (S11); zero while it is connected.
func (d *decider) lostAt(v *snapshot.InstanceView) time.Time {
	if v.Instance == nil || v.DisconnectedAt.IsZero() || v.AgentConnected {
		return time.Time{}
	}
	return v.DisconnectedAt.Time().Add(d.settings.LostAfter)
}

// away has instances looked at again whose agent is disconnected, once that has been so for too long.
func (d *decider) away(w *Work) {
	for _, id := range slices.Sorted(maps.Keys(w.hosts)) {
		v := d.snap.Instances[id]
		if v == nil || !slices.ContainsFunc(v.Tasks, func(t *cluster.Task) bool { return t.Service != "" }) {
			continue
		}
		if at := d.lostAt(v); at.After(d.now) {
			d.plan.due(state.DueHost, id, at)
		}
	}
}
