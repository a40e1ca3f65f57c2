package ecs

import (
	"slices"
	"time"

	"berth/shared/cluster"
)

// findByEC2ID returns the registered instance with an EC2 id, or nil.
func (e *tables) findByEC2ID(ec2 string) *instance {
	for _, i := range e.instances {
		if i.EC2 == ec2 && i.Status != cluster.InstanceInactive {
			return i
		}
	}
	return nil
}

// HasMachine implements [balancing.Tasks].
func (e *Service) HasMachine(ec2 string) bool { return e.agents.findByEC2ID(ec2) != nil }

// TargetFault implements [balancing.Tasks].
func (e *Service) TargetFault(id string) (fault string, runs bool) {
	t := e.agents.tasks[id]
	if t == nil || t.Phase != phaseRunning {
		return "", false
	}
	return t.TargetFault, true
}

// TaskAt implements [balancing.Tasks]. A target's host is a machine, whose ports lead to tasks, or
// the address of a task's own network interface, where the port does not matter.
func (e *Service) TaskAt(a cluster.Address) string {
	if i := e.agents.findByEC2ID(a.Host); i != nil {
		for _, t := range i.tasks {
			if t.Phase == phaseRunning && slices.ContainsFunc(t.portBindings(),
				func(b cluster.Binding) bool { return b.HostPort == a.Port }) {
				return t.ID
			}
		}
		return ""
	}
	for _, t := range e.agents.tasks {
		if t.ENI && t.Phase == phaseRunning && t.interfaceAddress() == a.Host {
			return t.ID
		}
	}
	return ""
}

// SetTargetHealth makes a running task fail the health checks of its target groups from now on,
// with a reason as the load balancer gives it ("Health checks failed with these codes: [503]"). An
// empty reason makes it pass them again.
func (e *Machines) SetTargetHealth(id, reason string) error {
	return e.changeRunningTask("setting the target health", id, func(t *task, _ time.Time) error {
		t.TargetFault = reason
		e.kernel.SaveRow(t)
		return nil
	})
}
