package simulation

import (
	"time"

	"berth/shared/cluster"
	"berth/tests/simulation/coverage"
)

// Target groups, Cloud Map and alarms, and the actions on them.

const (
	alarmName = "burn-rate"
	// maxDrainWait is how long a stop waits for target groups and the store, including clock skew.
	maxDrainWait = 4 * time.Minute
	// deregistrationDelay is how long the target groups drain connections.
	deregistrationDelay = 45 * time.Second
)

// createTargetGroups creates a target group for tasks with host ports, one for tasks with their own
// network interfaces, and a Cloud Map service.
func (w *World) createTargetGroups() error {
	var err error
	if w.instanceTargets, err = w.AWS.TargetGroups.CreateTargetGroup("instances", "instance",
		deregistrationDelay); err != nil {
		return err
	}
	if w.addressTargets, err = w.AWS.TargetGroups.CreateTargetGroup("addresses", "ip",
		deregistrationDelay); err != nil {
		return err
	}
	if w.registry, err = w.AWS.Registries.CreateRegistry("found", true); err != nil {
		return err
	}
	return w.AWS.CloudWatch.PutAlarm(alarmName, time.Minute, 3)
}

// drawBalancers returns what a service of the family is registered with: nothing in half of the
// cases, and if its tasks have no port.
func (w *World) drawBalancers(
	family string, pick uint64,
) (balancers []cluster.LoadBalancer, registries []cluster.Registry) {
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

// makeTargetUnhealthy lets a task fail the health checks of its target group, or pass them again.
func (w *World) makeTargetUnhealthy(a Action) {
	var there []*cluster.Task
	for _, s := range w.client.services {
		for _, t := range w.runningTasksOf(s) {
			if w.checker.TargetOf(t) != nil {
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
		w.cover(coverage.TargetUnhealthy)
	}
}

// fireAlarm fires the alarm for some minutes.
func (w *World) fireAlarm(a Action) {
	if w.AWS.CloudWatch.SetAlarm(alarmName, true) != nil {
		return
	}
	w.checker.AlarmFired = true
	w.cover(coverage.Alarm)
	w.Loop.After(time.Duration(1+a.N)*time.Minute, func() { _ = w.AWS.CloudWatch.SetAlarm(alarmName, false) })
}

// endTargetFaults makes all targets healthy and ends the alarm.
func (w *World) endTargetFaults() {
	_ = w.AWS.CloudWatch.SetAlarm(alarmName, false)
	for _, t := range w.AWS.Machines.TaskTruths(clusterName) {
		if t.Alive && t.Last == cluster.TaskRunning {
			_ = w.AWS.Machines.SetTargetHealth(t.ID, "") // most tasks are in no target group
		}
	}
}
