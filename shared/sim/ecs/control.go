package ecs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/ec2"
)

// This file is what happens to machines without a call of ECS: what an operator, a broken rack or a
// crashing program does. Tests and the berth fleet command use it. None of it is an error for ECS,
// which learns of it only as real ECS would: from EC2, from agents, or not at all.

// OnTerminate calls f with the EC2 id of every machine that is terminated or stopped, in the step
// that does it. It is set once, before the first machine: ecs cannot import the Auto Scaling
// groups, which launch through it.
func (e *Machines) OnTerminate(f func(ec2 string)) { e.agents.terminated = f }

// changeInstance runs a step on an instance that is registered. doing begins the error if it is
// not.
func (e *Machines) changeInstance(doing, id string, step func(i *instance, now time.Time) error) error {
	return e.kernel.Change(func(now time.Time) error {
		i, err := e.agents.findRegistered(id)
		if err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
		return step(i, now)
	})
}

// changeRunningTask runs a step on a task that runs on its machine, also if ECS does not know that
// it runs.
func (e *Machines) changeRunningTask(doing, id string, step func(t *task, now time.Time) error) error {
	return e.kernel.Change(func(now time.Time) error {
		t := e.agents.findTask(id)
		if t == nil || t.Phase != phaseRunning {
			return fmt.Errorf("%s: task %s does not run", doing, id)
		}
		return step(t, now)
	})
}

// findRegistered returns an instance that has not left its cluster, by its id or its machine's.
func (e *tables) findRegistered(id string) (*instance, error) {
	i := e.instances[id]
	if i == nil && strings.HasPrefix(id, "i-") {
		i = e.findByEC2ID(id)
	}
	if i == nil || i.Status == cluster.InstanceInactive {
		return nil, fmt.Errorf("instance %s is not registered", id)
	}
	return i, nil
}

// findTask returns a task by ECS's id, or by the one that Berth gives to a task that it starts.
func (e *tables) findTask(id string) *task {
	if t := e.tasks[id]; t != nil {
		return t
	}
	for _, t := range e.tasks {
		if cluster.TaskID(t.StartedBy, t.Instance) == id {
			return t
		}
	}
	return nil
}

// KillInstance terminates the machine. ECS learns it from EC2 and makes the instance INACTIVE and
// its tasks STOPPED.
func (e *Machines) KillInstance(id string) error {
	return e.changeInstance("terminating", id, func(i *instance, now time.Time) error {
		e.agents.terminateMachine(i, now)
		return nil
	})
}

// terminateMachine ends a machine and all on it at once: no agent is left that could report, so ECS
// itself makes the tasks STOPPED, in the words it uses for a terminated host. The
// machine's Auto Scaling group hears of it in the same step.
func (e *agents) terminateMachine(i *instance, now time.Time) {
	e.deregisterInstance(i, report{
		Last: cluster.TaskStopped, At: now, StopCode: cluster.StopTermination,
		Reason: "Host EC2 (instance " + i.EC2 + ") terminated.",
	}, now)
	if e.terminated != nil {
		e.terminated(i.EC2)
	}
}

// TerminateZone terminates every machine of an Availability Zone and returns the instances' ids, in
// order of registration. If a cluster is named, only its machines are terminated.
func (e *Machines) TerminateZone(zone, clusterName string) (ids []string, err error) {
	err = e.kernel.Change(func(now time.Time) error {
		var hit []*instance
		for _, i := range e.agents.instances {
			if i.Zone == zone && i.Status != cluster.InstanceInactive &&
				(clusterName == "" || i.Cluster == clusterName) {
				hit = append(hit, i)
			}
		}
		slices.SortFunc(hit, func(a, b *instance) int { return cmp.Compare(a.Seq, b.Seq) })
		for _, i := range hit {
			e.agents.terminateMachine(i, now)
			ids = append(ids, i.ID)
		}
		return nil
	})
	return ids, err
}

// DisconnectAgent cuts the agent off from ECS. Its tasks go on, and their reports wait for
// [Machines.ReconnectAgent].
func (e *Machines) DisconnectAgent(id string) error {
	return e.changeInstance("disconnecting", id, func(i *instance, now time.Time) error {
		e.agents.disconnectAgent(i, now)
		return nil
	})
}

// disconnectAgent leaves a disconnected agent as it is, so that it emits no second event.
func (e *agents) disconnectAgent(i *instance, now time.Time) {
	if i.Connected {
		i.Connected = false
		e.instanceChanged(i, now)
	}
}

// CrashInstance stops the machine. ECS sees only that the agent is disconnected, and believes that
// the tasks go on. [Machines.ReconnectAgent] starts the machine again, and its agent reports the
// tasks as stopped.
func (e *Machines) CrashInstance(id string) error {
	return e.changeInstance("crashing", id, func(i *instance, now time.Time) error {
		e.agents.crashMachine(i, now)
		return nil
	})
}

// crashMachine ends all that runs on a machine; the agent can report none of it.
func (e *agents) crashMachine(i *instance, now time.Time) {
	e.disconnectAgent(i, now)
	i.machineFaults.Off = true
	e.kernel.SaveRow(i)
	for _, t := range i.tasks {
		if t.Phase != phaseGone {
			e.sendReport(t, exitReport(now, 137), now)
		}
	}
}

// ReconnectAgent connects an agent again, and starts its machine if that was off. The agent sends
// the reports it has kept, in order, and learns which tasks it should stop.
func (e *Machines) ReconnectAgent(id string) error {
	return e.changeInstance("reconnecting", id, func(i *instance, now time.Time) error {
		if i.machineFaults.Stopped {
			return fmt.Errorf("reconnecting: EC2 has stopped machine %s of instance %s; start it again there", i.EC2,
				i.ID)
		}
		e.agents.reconnectAgent(i, now)
		return nil
	})
}

// reconnectAgent leaves a connected agent as it is.
func (e *agents) reconnectAgent(i *instance, now time.Time) {
	if i.Connected {
		return
	}
	i.Connected, i.machineFaults.Off = true, false
	e.instanceChanged(i, now)
	e.replayReports(i, now)
}

// replayReports sends what the agent has kept. The reports of different tasks come in the order in
// which things happened. A task's own reports stay in order, because the sort is stable. Times are
// those at which things happened, versions and the times of events those of now.
func (e *agents) replayReports(i *instance, now time.Time) {
	type late struct {
		task   *task
		report report
	}
	var all []late
	for _, t := range i.tasks {
		for _, r := range t.Unreported {
			all = append(all, late{t, r})
		}
		t.Unreported = nil
	}
	slices.SortStableFunc(all, func(a, b late) int { return a.report.At.Compare(b.report.At) })
	for _, l := range all {
		e.applyReport(l.task, l.report, now)
	}
	for _, t := range slices.Clone(i.tasks) {
		if t.Desired == cluster.TaskStopped { // stopped while the agent was away
			e.receiveStop(t, now)
		}
	}
}

// ResizeInstance makes the instance register another size, in CPU units and MiB. It can be less
// than its tasks hold.
func (e *Machines) ResizeInstance(id string, cpu, memory int64) error {
	return e.changeInstance("resizing", id, func(i *instance, now time.Time) error {
		if cpu < 0 || memory < 0 || cpu >= ec2.MaxSize || memory >= ec2.MaxSize {
			return fmt.Errorf("resizing instance %s: %d CPU units and %d MiB are out of bounds", id, cpu, memory)
		}
		i.freeCPU, i.freeMemory = i.freeCPU+cpu-i.CPU, i.freeMemory+memory-i.Memory
		i.CPU, i.Memory = cpu, memory
		e.agents.instanceChanged(i, now)
		return nil
	})
}

// CrashTask makes a running task exit now, with the exit code of its essential container.
func (e *Machines) CrashTask(id string, exitCode int) error {
	return e.changeRunningTask("crashing", id, func(t *task, now time.Time) error {
		e.agents.sendReport(t, exitReport(now, exitCode), now)
		return nil
	})
}

// SetHealth fixes the result of a running task's container health check from now on: the flapping
// of [Behaviour] ends. It is an error for a task without such a check.
func (e *Machines) SetHealth(id string, healthy bool) error {
	return e.changeRunningTask("setting the health", id, func(t *task, now time.Time) error {
		if !t.Plan.Checked {
			return fmt.Errorf("setting the health: task %s has no health check", id)
		}
		t.HealthNow, t.HealthNext = "UNHEALTHY", time.Time{}
		if healthy {
			t.HealthNow = "HEALTHY"
		}
		e.agents.sendReport(t, report{At: now, Health: t.HealthNow}, now)
		e.agents.armTaskTimer(t, now)
		return nil
	})
}

// TaskTruth is a task as ECS knows it, and whether it is alive. Tests compare the two; a scheduler
// cannot see it. A task that ECS holds RUNNING and that is not alive has crashed with its machine,
// or its agent is disconnected.
type TaskTruth struct {
	cluster.ECSTask
	Created time.Time
	// Alive is true if the task is starting or running on its machine.
	Alive bool
	// Checked reports a container health check, Failing that the task fails this or the checks of
	// its target groups.
	Checked, Failing bool
}

// TaskTruths returns every visible task of a cluster, in order of start.
func (e *Machines) TaskTruths(clusterName string) (tasks []TaskTruth) {
	_ = e.kernel.View(func(time.Time) error {
		if c := e.agents.clusters[clusterName]; c != nil {
			all := c.tasks()
			tasks = make([]TaskTruth, 0, len(all))
			for _, t := range all {
				tasks = append(tasks, t.truth())
			}
		}
		return nil
	})
	return tasks
}

// LivingTask is a task that is starting or running on its machine.
type LivingTask struct{ ID, Instance, TaskDefinition string }

// LivingTasks returns the visible tasks of a cluster that are alive, in order of start.
func (e *Machines) LivingTasks(clusterName string) (tasks []LivingTask) {
	_ = e.kernel.View(func(time.Time) error {
		if c := e.agents.clusters[clusterName]; c != nil {
			for _, t := range c.tasks() {
				if t.Phase != phaseGone {
					tasks = append(tasks, LivingTask{t.ID, t.Instance, t.Definition})
				}
			}
		}
		return nil
	})
	return tasks
}

// RegisteredHost is a container instance that is not INACTIVE.
type RegisteredHost struct {
	ID, EC2InstanceID string
	AgentConnected    bool
}

// RegisteredHosts returns the container instances of a cluster that are not INACTIVE, in order of
// registration.
func (e *Machines) RegisteredHosts(clusterName string) (hosts []*RegisteredHost) {
	_ = e.kernel.View(func(time.Time) error {
		if c := e.agents.clusters[clusterName]; c != nil {
			for _, id := range c.registeredIDs() {
				i := e.agents.instances[id]
				hosts = append(hosts, &RegisteredHost{i.ID, i.EC2, i.Connected})
			}
		}
		return nil
	})
	return hosts
}

// FindTaskTruth returns a visible task of a cluster by ECS's id, and false if there is none.
func (e *Machines) FindTaskTruth(clusterName, id string) (found TaskTruth, ok bool) {
	_ = e.kernel.View(func(time.Time) error {
		if t := e.agents.tasks[id]; t != nil && t.Cluster == clusterName {
			found, ok = t.truth(), true
		}
		return nil
	})
	return found, ok
}

func (t *task) truth() TaskTruth {
	return TaskTruth{ECSTask: t.forScheduler(), Created: t.Created, Alive: t.Phase != phaseGone,
		Checked: t.Plan.Checked, Failing: t.HealthNow == "UNHEALTHY" || t.TargetFault != ""}
}
