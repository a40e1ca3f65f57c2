package sim

import (
	"fmt"
	"time"

	"berth/shared/sim/ec2"
)

// hosts are the EC2 instances: the machines that are registered with a cluster, and the members of
// groups that are not.
type hosts struct{ *AWS }

// Hosts implements [ec2.Hosts].
func (h hosts) Hosts() []ec2.Host {
	all := h.Machines.Hosts()
	members, registered := h.Groups.Hosts()
	groups := map[string]string{}
	for _, m := range members {
		groups[m.ID] = m.Group
	}
	for n := range all {
		all[n].Group = groups[all[n].ID]
	}
	for _, m := range members {
		if !registered[m.ID] {
			all = append(all, m)
		}
	}
	return all
}

// runningVCPUs returns the vCPUs of the machines that are there, by instance type. It belongs in a
// step.
func (a *AWS) runningVCPUs() map[string]int {
	running := map[string]int{}
	for _, h := range (hosts{a}).Hosts() {
		if h.State == ec2.HostRunning || h.State == ec2.HostPending {
			t, _ := ec2.InstanceType(h.Type) // machines of the user's own making have no vCPUs at EC2
			running[h.Type] += t.VCPUs
		}
	}
	return running
}

// TerminateHost implements [ec2.Hosts].
func (h hosts) TerminateHost(id string, now time.Time) {
	if !h.Machines.TerminateHost(id, now) {
		h.Groups.TerminateUnregistered(id, now)
	}
}

// StopHost implements [ec2.Hosts]. The group of a machine that has not registered replaces it.
func (h hosts) StopHost(id string, now time.Time) {
	if !h.Machines.StopHost(id, now) {
		h.Groups.TerminateUnregistered(id, now)
	}
}

// StartHost implements [ec2.Hosts].
func (h hosts) StartHost(id string, now time.Time) { h.Machines.StartHost(id, now) }

// failedTargets is why a task fails the checks of its target groups after [AWS.SetTaskHealth].
const failedTargets = "Health checks failed with these codes: [503]"

// SetTaskHealth makes a running task fail its health checks from now on, or pass them: its
// container's, and those of the target groups that it is in. It is an error for a task that has
// neither.
func (a *AWS) SetTaskHealth(id string, healthy bool) error {
	given := id
	id, checked, err := a.Machines.FindRunningTask(given)
	if err != nil {
		return fmt.Errorf("setting the health: %w", err)
	}
	isTarget := a.LoadBalancers().HasTask(id)
	if !checked && !isTarget {
		return fmt.Errorf("setting the health: task %s has no container health check and is in no target group, "+
			"so nothing looks at its health; name another task, or another service", given)
	}
	if checked {
		if err := a.Machines.SetHealth(id, healthy); err != nil {
			return err
		}
	}
	if !isTarget {
		return nil
	}
	reason := failedTargets
	if healthy {
		reason = ""
	}
	return a.Machines.SetTargetHealth(id, reason)
}
