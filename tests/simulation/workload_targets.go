package simulation

import (
	"context"
	"time"

	"berth/shared/cluster"
	"berth/tests/simulation/model"
)

// Target groups, Cloud Map and alarms: what services are registered with, and what is wrong with their tasks by these.

const (
	alarmName = "burn-rate"
	// maxDrainWait is how long a stop waits for target groups and the store; clocks may be off.
	maxDrainWait = 4 * time.Minute
	// deregistrationDelay is the deregistration delay of the target groups.
	deregistrationDelay = 45 * time.Second
)

// createTargetGroups makes what services are registered with: a target group for tasks that have ports of their instance, one for
// those with a network interface of their own, and a Cloud Map service.
func (w *World) createTargetGroups() error {
	var err error
	if w.instanceTargets, err = w.AWS.TargetGroups.CreateTargetGroup("instances", "instance", deregistrationDelay); err != nil {
		return err
	}
	if w.addressTargets, err = w.AWS.TargetGroups.CreateTargetGroup("addresses", "ip", deregistrationDelay); err != nil {
		return err
	}
	if w.registry, err = w.AWS.Registries.CreateRegistry("found", true); err != nil {
		return err
	}
	return w.AWS.CloudWatch.PutAlarm(alarmName, time.Minute, 3)
}

// drawBalancers are what a service of the family is registered with: nothing in half of the cases, and where its tasks have no port.
func (w *World) drawBalancers(family string, pick uint64) (balancers []cluster.LoadBalancer, registries []cluster.Registry) {
	switch {
	case pick%2 == 0:
	case family == "port":
		balancers = []cluster.LoadBalancer{{TargetGroup: w.instanceTargets, Container: "main", Port: 8080}}
	case family == "vpc":
		balancers = []cluster.LoadBalancer{{TargetGroup: w.addressTargets, Container: "main", Port: 80}}
		if pick%3 == 0 {
			registries = []cluster.Registry{{ARN: w.registry}}
		}
	}
	return balancers, registries
}

// makeTargetUnhealthy has a task fail the health checks of its target group, or pass them again.
func (w *World) makeTargetUnhealthy(a Action) {
	var there []*cluster.Task
	for _, s := range w.client.services {
		for _, t := range w.runningTasksOf(s) {
			if w.checker.targetOf(t) != nil {
				there = append(there, t)
			}
		}
	}
	if len(there) == 0 {
		return
	}
	reason := "Health checks failed with these codes: [503]"
	if a.N%4 == 0 {
		reason = ""
	}
	if w.AWS.Machines.SetTargetHealth(there[a.Pick%uint64(len(there))].ECSID, reason) == nil {
		w.cover(CoverTargetUnhealthy)
	}
}

// fireAlarm has the alarm go on for a while.
func (w *World) fireAlarm(a Action) {
	if w.AWS.CloudWatch.SetAlarm(alarmName, true) != nil {
		return
	}
	w.checker.alarmFired = true
	w.cover(CoverAlarm)
	w.Loop.After(time.Duration(1+a.N)*time.Minute, func() { _ = w.AWS.CloudWatch.SetAlarm(alarmName, false) })
}

// endTargetFaults ends what target groups and alarms say.
func (w *World) endTargetFaults() {
	_ = w.AWS.CloudWatch.SetAlarm(alarmName, false)
	for _, t := range w.AWS.Machines.TaskTruths(clusterName) {
		if t.Alive && t.Last == cluster.TaskRunning {
			_ = w.AWS.Machines.SetTargetHealth(t.ID, "") // most are in none
		}
	}
}

// checkDrained checks that a task that the scheduler stops is out of its target groups, and its connections are drained (S9).
func (w *World) checkDrained(ecsID string) {
	key, ok := w.checker.byECSID[ecsID]
	t, is := w.checker.rows[key].(*cluster.Task)
	if !ok || !is || t.StopCode != cluster.StopByScheduler || t.Last != cluster.TaskRunning {
		return
	}
	row := w.checker.targetOf(t)
	if row == nil {
		return
	}
	for _, r := range row.Registrations {
		switch {
		case r.State == cluster.Registered && w.Loop.Now().Sub(w.checker.changes[key].at) > maxDrainWait:
			// it could not be taken out, or nobody could write that it was
		case r.State == cluster.Registered:
			w.checker.fail("invariant 3: task %s is stopped while it is registered with %s", t.ID, r.ARN)
		case r.State == cluster.Deregistered && r.DrainedAt.Sub(w.Loop.Now()) > time.Minute: // clocks may be off
			w.checker.fail("invariant 3: task %s is stopped while connections to it are drained until %s", t.ID, r.DrainedAt)
		case r.State == cluster.Deregistered:
			w.cover(CoverDrained)
		}
	}
}

// checkRegistrations checks that at rest just those tasks are in the target groups and the Cloud Map service that should be.
func (w *World) checkRegistrations() {
	for _, arn := range []string{w.instanceTargets, w.addressTargets} {
		got, err := w.AWS.TargetGroups.TargetHealth(context.Background(), arn)
		if err != nil {
			w.checker.fail("looking at %s: %v", arn, err)
			continue
		}
		want := w.expectedTargets(arn)
		for at, id := range want {
			if _, ok := got[at]; !ok {
				w.checker.fail("invariant 8: task %s at %v is not registered with %s", id, at, arn)
			}
		}
		for at, h := range got {
			if want[at] == "" {
				w.checker.fail("invariant 8: %v is registered with %s (%v), and no task is to be there", at, arn, h)
			}
		}
	}
	found, err := w.AWS.Registries.InstancesHealth(context.Background(), w.registry)
	if err != nil {
		w.checker.fail("looking at %s: %v", w.registry, err)
	}
	if want := w.expectedTargets(w.registry); len(found) != len(want) {
		w.checker.fail("invariant 8: %d tasks are entered in Cloud Map (%v), and %d should be (%v)", len(found), found, len(want), want)
	}
}

// expectedTargets are the tasks that are to be registered somewhere, by address.
func (w *World) expectedTargets(arn string) map[cluster.Address]string {
	out := map[cluster.Address]string{}
	for _, s := range w.checker.activeServices() {
		for _, t := range w.checker.byOwner[s.Short] {
			if row := w.checker.targetOf(t); t.IsActive() && t.Last == cluster.TaskRunning && row != nil {
				for _, r := range row.Registrations {
					if r.ARN == arn && r.State == cluster.Registered {
						out[cluster.Address{Host: r.Address, Port: r.Port}] = t.ID
					}
				}
			} else if b := w.checker.revisionOf(s, t.Revision); row == nil && t.IsActive() && t.Last == cluster.TaskRunning && b.RegistersTasks() && w.checker.modelTask(s, t).Container != model.Unhealthy {
				w.checker.fail("invariant 8: task %s of %s runs and is to be registered, and nothing says where", t.ID, s.Name)
			}
		}
	}
	return out
}

// activeServices are the ACTIVE services.
func (h *rowHistory) activeServices() (out []*cluster.Service) {
	for _, row := range h.rows {
		if s, ok := row.(*cluster.Service); ok && s.Status == cluster.ServiceActive {
			out = append(out, s)
		}
	}
	return out
}
