package main

import (
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/service"
)

// planDaemon returns what a DAEMON service does next, by the reconciler itself: a service on every
// node is one (S4). A node that is blocked for the service's type is not eligible, and loses its
// task.
func (w *world) planDaemon(p *partition) service.Plan {
	eligible := slices.DeleteFunc(w.engine.EligibleInstances(p.spec),
		func(id string) bool { return slices.Contains(p.asked.Blocked, id) })
	row := *p.row
	row.Deployment = cluster.Deployment{State: cluster.RolloutCompleted, Desired: len(eligible)}
	return service.Reconcile(service.Input{
		Service: &row, Tasks: w.snap.TasksOf(p.row.Short), Eligible: eligible,
		InstanceState: func(id string) service.InstanceState {
			switch v := w.snap.Instances[id]; {
			case v == nil || v.Instance == nil || v.IsDeregistered():
				return service.InstanceDeregistered
			case v.Status == cluster.InstanceDraining:
				return service.InstanceDraining
			}
			return service.InstanceUsable
		},
		MeetsConstraints: func(id string) bool {
			return !slices.Contains(p.asked.Blocked, id) && w.engine.MatchesInstance(w.snap.Instances[id], p.spec)
		},
		Now: time.Unix(int64(w.tasks), 0).Add(time.Hour), // all tasks have long been healthy
	})
}
