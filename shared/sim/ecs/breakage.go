package ecs

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/ec2"
)

// MaxStartDelay bounds how much longer tasks may take to start on a slow machine.
const MaxStartDelay = time.Hour

// SlowInstance makes tasks that are started on the instance from now on take longer to become
// RUNNING, by up to [MaxStartDelay]. Zero makes the machine as fast as it was.
func (e *Machines) SlowInstance(id string, delay time.Duration) error {
	return e.changeInstance("slowing down", id, func(i *instance, _ time.Time) error {
		if delay < 0 || delay > MaxStartDelay {
			return fmt.Errorf("slowing down instance %s: %s is out of bounds, expected 0 s to %s", id, delay,
				MaxStartDelay)
		}
		i.machineFaults.StartDelay = delay
		e.kernel.SaveRow(i)
		return nil
	})
}

// MachineState says how a machine is, which ECS sees only in part.
type MachineState string

// The states of machines. A machine that is off has crashed; EC2 has stopped one that is stopped.
const (
	MachineRunning      MachineState = "running"
	MachineDisconnected MachineState = "disconnected"
	MachineOff          MachineState = "off"
	MachineStopped      MachineState = "stopped"
	MachineTerminated   MachineState = "terminated"
)

// MachineTruth is a registered machine as it is, whether or not ECS knows.
type MachineTruth struct {
	ID, EC2, Cluster string
	Zone, Type       string
	State            MachineState
	StartDelay       time.Duration // see [Machines.SlowInstance]
	Tasks            int           // that run on it
}

// state returns how the machine is.
func (i *instance) state() MachineState {
	switch {
	case i.Status == cluster.InstanceInactive:
		return MachineTerminated
	case i.machineFaults.Stopped:
		return MachineStopped
	case i.machineFaults.Off:
		return MachineOff
	case !i.Connected:
		return MachineDisconnected
	}
	return MachineRunning
}

// attributeValue returns the value of an attribute, or "".
func (i *instance) attributeValue(name string) string {
	if at, ok := slices.BinarySearchFunc(i.Attributes, attribute{Name: name}, byName); ok {
		return i.Attributes[at].Value
	}
	return ""
}

// MachineTruths returns the machines that are registered with a cluster, in order of registration.
// It is an error if the cluster is not there.
func (e *Machines) MachineTruths(clusterName string) (machines []MachineTruth, err error) {
	err = e.kernel.View(e.agents.inCluster(clusterName, func(c *ecsCluster, _ time.Time) error {
		for _, i := range c.instances {
			if i.Status == cluster.InstanceInactive {
				continue
			}
			m := MachineTruth{ID: i.ID, EC2: i.EC2, Cluster: i.Cluster, Zone: i.Zone,
				Type: i.attributeValue(cluster.AttributeInstanceType), State: i.state(),
				StartDelay: i.machineFaults.StartDelay}
			for _, t := range i.tasks {
				if t.Phase == phaseRunning {
					m.Tasks++
				}
			}
			machines = append(machines, m)
		}
		return nil
	}))
	return machines, err
}

// Hosts returns the EC2 instances that are registered, or were until a while ago, in order of
// registration. It belongs in a step.
func (e *Machines) Hosts() (hosts []ec2.Host) {
	var all []*instance
	for _, i := range e.agents.instances {
		if i.EC2 != "" {
			all = append(all, i)
		}
	}
	slices.SortFunc(all, func(a, b *instance) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, i := range all {
		state, interfaces := ec2.HostRunning, 1+i.countInterfaces()
		switch i.state() {
		case MachineTerminated:
			state, interfaces = ec2.HostTerminated, 0
		case MachineStopped:
			state = ec2.HostStopped
		}
		hosts = append(hosts, ec2.Host{ID: i.EC2, Zone: i.Zone, Type: i.attributeValue(cluster.AttributeInstanceType),
			Image: i.attributeValue("ecs.ami-id"), State: state, LaunchedAt: i.RegisteredAt,
			Interfaces: interfaces})
	}
	return hosts
}

// TerminateHost terminates the registered machine with an EC2 id, and reports whether there is one.
// It belongs in a step, as [Machines.StopHost] and [Machines.StartHost] do.
func (e *Machines) TerminateHost(id string, now time.Time) bool {
	i := e.agents.findByEC2ID(id)
	if i != nil {
		e.agents.terminateMachine(i, now)
	}
	return i != nil
}

// StopHost stops the machine: its tasks end, and its agent is disconnected. An Auto Scaling group
// replaces it.
func (e *Machines) StopHost(id string, now time.Time) bool {
	i := e.agents.findByEC2ID(id)
	if i != nil && !i.machineFaults.Stopped {
		i.machineFaults.Stopped = true
		e.agents.crashMachine(i, now)
		if e.agents.terminated != nil {
			e.agents.terminated(i.EC2)
		}
	}
	return i != nil
}

// StartHost starts a stopped machine again. Its agent reports the tasks that have ended.
func (e *Machines) StartHost(id string, now time.Time) bool {
	i := e.agents.findByEC2ID(id)
	if i != nil && i.machineFaults.Stopped {
		i.machineFaults.Stopped = false
		e.agents.reconnectAgent(i, now)
	}
	return i != nil
}

// FindRunningTask returns ECS's id of a task that runs on its machine, and whether it has a
// container health check. Its id may be ECS's or Berth's.
func (e *Machines) FindRunningTask(id string) (ecsID string, checked bool, err error) {
	err = e.kernel.View(func(time.Time) error {
		t := e.agents.findTask(id)
		if t == nil || t.Phase != phaseRunning {
			return fmt.Errorf("task %s does not run", id)
		}
		ecsID, checked = t.ID, t.Plan.Checked
		return nil
	})
	return ecsID, checked, err
}
