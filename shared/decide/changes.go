package decide

import (
	"maps"
	"slices"

	"berth/shared/cluster"
	"berth/shared/decide/plan"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// Changes are what a batch of stream records asks to be reconsidered. [Decide] adds what follows
// from them, such as services that were blocked and may now find room.
type Changes struct {
	// services are to reconcile, requests to answer.
	services, requests map[string]bool
	// freed are instances that may now take tasks that fitted nowhere.
	freed map[string]bool
	// joined are instances that have got tasks, so that a constraint about their tasks may hold
	// now.
	joined map[string]bool
	// agents are instances whose agent may have been disconnected for too long.
	agents map[string]bool
	// mayMove are services whose tasks may break a rule, or may be moved, from now on.
	mayMove map[string]bool
	// allDaemons reconsiders all DAEMON services, allZones all services that keep their zones in
	// balance, provisioning all tasks without an instance, and moves all tasks that a rule could
	// move.
	allDaemons, allZones, provisioning, moves bool
	balance                                   string // if not empty, it is time to look at the balance (P15)
	// ended are tasks of services that have STOPPED.
	ended []*cluster.Task
	// fired are the due rows that were deleted because their time had come.
	fired []plan.Timer
}

func newChanges() *Changes {
	return &Changes{
		services: map[string]bool{}, requests: map[string]bool{}, freed: map[string]bool{}, joined: map[string]bool{},
		agents:  map[string]bool{},
		mayMove: map[string]bool{},
	}
}

// add adds what one record changes, after the snapshot has seen it.
func (c *Changes) add(r state.Record, snap *snapshot.Snapshot) {
	switch row := r.Row().(type) {
	case *cluster.Task:
		c.addTask(r, row, snap)
	case *cluster.Service:
		c.services[row.Name] = true
		c.moves = true
	case *cluster.Instance:
		c.addInstance(row, snap)
	case *cluster.Configuration:
		c.addAll(snap)
	case *state.Request:
		c.requests[row.ID] = true
	case *cluster.Target:
		c.services[row.Service] = true
	case *cluster.Throttle:
		c.services[row.Service] = true
	case *cluster.AlarmWatch:
		c.services[row.Service] = true
	case *cluster.Protection:
		if t := snap.Task(row.Owner, row.Task); t != nil {
			c.services[t.Service], c.mayMove[t.Service] = true, true
		}
	case *state.Due:
		if r.Op == state.Remove {
			c.addDue(row, snap)
		}
	}
}

// addTask notes the service of a task, the instance that it has freed or joined, and whether it may
// break a rule there.
func (c *Changes) addTask(r state.Record, t *cluster.Task, snap *snapshot.Snapshot) {
	if t.Service != "" {
		c.services[t.Service] = true
	}
	if t.HasEnded() && t.Service != "" {
		c.ended = append(c.ended, t)
	}
	if !t.HoldsCapacity() && t.Instance != "" {
		c.freed[t.Instance] = true
		if v := snap.Instances[t.Instance]; isLeftToDaemons(snap, v) {
			c.addServicesOn(v)
		}
	}
	old, known := r.Old.(*cluster.Task)
	// this is its first report; placement itself wrote the row before
	if t.HoldsCapacity() && (!known || old == nil || old.Last == "") {
		c.joined[t.Instance] = true
	}
	reportsLoad := len(t.Reported) > 0
	if known {
		reportsLoad = !maps.Equal(old.Reported, t.Reported)
	}
	// A foreign task may put its instance above its capacity.
	if reportsLoad || t.Foreign && t.HoldsCapacity() {
		c.moves = true
	}
}

// isLeftToDaemons reports whether a draining instance has only tasks of DAEMON services left, which
// may stop now (S4).
func isLeftToDaemons(snap *snapshot.Snapshot, v *snapshot.InstanceView) bool {
	return v != nil && v.Instance != nil && v.Status == cluster.InstanceDraining && !hasNonDaemonTasks(snap, v)
}

// hasNonDaemonTasks reports whether an instance has tasks of REPLICA services or standalone ones.
func hasNonDaemonTasks(snap *snapshot.Snapshot, v *snapshot.InstanceView) bool {
	return slices.ContainsFunc(v.Tasks, func(t *cluster.Task) bool { return snap.DaemonServices()[t.Service] == nil })
}

// addAll reconsiders everything: after a change of the configuration any instance may have room for
// more, or too much on it.
func (c *Changes) addAll(snap *snapshot.Snapshot) {
	c.allDaemons, c.provisioning, c.moves, c.allZones = true, true, true, true
	for id := range snap.Instances {
		c.freed[id] = true
	}
}

// addInstance notes what a change of an instance may affect: nearly everything, as it may have any
// part of its row changed.
func (c *Changes) addInstance(i *cluster.Instance, snap *snapshot.Snapshot) {
	c.allDaemons, c.moves, c.allZones = true, true, true
	c.freed[i.ID] = true
	c.provisioning = c.provisioning || i.IsDeregistered()
	c.agents[i.ID] = true
	c.addServicesOn(snap.Instances[i.ID])
}

// addServicesOn notes the services that have tasks on the instance.
func (c *Changes) addServicesOn(v *snapshot.InstanceView) {
	if v == nil {
		return
	}
	for _, t := range v.Tasks {
		if t.Service != "" {
			c.services[t.Service] = true
		}
	}
}

// addDue notes what a due row was set for.
func (c *Changes) addDue(d *state.Due, snap *snapshot.Snapshot) {
	c.fired = append(c.fired, plan.Timer{Kind: d.Kind, Subject: d.Subject})
	switch d.Kind {
	case state.DueService:
		c.services[d.Subject], c.mayMove[d.Subject] = true, true
	case state.DueLoadScaling:
		c.services[d.Subject] = true
	case state.DueRequest:
		c.requests[d.Subject] = true
	case state.DueWaiting:
		c.provisioning = true
	case state.DueBalance:
		c.balance = max(c.balance, balanceDue+d.Subject)
	case state.DueHost:
		c.agents[d.Subject] = true
		c.addServicesOn(snap.Instances[d.Subject])
	case state.DueSweep:
		c.addAll(snap)
		for name := range snap.Services {
			c.services[name] = true
		}
	}
}

// LooksAtBalance reports whether it is time to look at the balance of the cluster (P15).
func (c *Changes) LooksAtBalance() bool { return c.balance != "" }

// TaskDefinitions returns the names of the task definitions that the changed services and requests
// need, sorted by name.
func (c *Changes) TaskDefinitions(snap *snapshot.Snapshot) []string {
	names := map[string]bool{}
	for name := range c.services {
		if s := snap.Services[name]; s != nil {
			for _, r := range s.Revisions() {
				names[r.TaskDefinition] = true
			}
			if s.Last != nil {
				names[s.Last.TaskDefinition] = true
			}
		}
	}
	for id := range c.requests {
		if r := snap.Requests[id]; r != nil {
			names[r.TaskDefinition] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func anyKey[V any](m map[string]V, f func(string) bool) bool {
	for k := range m {
		if f(k) {
			return true
		}
	}
	return false
}
