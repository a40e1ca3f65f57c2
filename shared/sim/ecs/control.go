package ecs

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/ec2"
)

// at finds an instance that has not left its cluster.
func (e *tables) at(id string) (*instance, error) {
	i := e.instances[id]
	if i == nil || i.Status == cluster.InstanceInactive {
		return nil, fmt.Errorf("instance %s is not registered", id)
	}
	return i, nil
}

// KillInstance terminates the machine: ECS learns it from EC2, makes the instance INACTIVE and its tasks STOPPED.
func (e *Machines) KillInstance(id string) error {
	return e.kernel.Change(func(now time.Time) error {
		i, err := e.agents.at(id)
		if err != nil {
			return fmt.Errorf("terminating: %w", err)
		}
		e.agents.terminate(i, now)
		return nil
	})
}

func (e *agents) terminate(i *instance, now time.Time) {
	e.retire(i, report{
		Last: cluster.TaskStopped, At: now, StopCode: cluster.StopTermination,
		Reason: "Host EC2 (instance " + i.EC2 + ") terminated.",
	}, now)
	if e.terminated != nil {
		e.terminated(i.EC2)
	}
}

// FailZone terminates every instance of an availability zone and returns their ids, in order of registration.
func (e *Machines) FailZone(zone string) (ids []string, err error) {
	err = e.kernel.Change(func(now time.Time) error {
		var hit []*instance
		for _, i := range e.agents.instances {
			if i.Zone == zone && i.Status != cluster.InstanceInactive {
				hit = append(hit, i)
			}
		}
		slices.SortFunc(hit, func(a, b *instance) int { return cmp.Compare(a.Seq, b.Seq) })
		for _, i := range hit {
			e.agents.terminate(i, now)
			ids = append(ids, i.ID)
		}
		return nil
	})
	return ids, err
}

// Disconnect cuts the agent off from ECS. The tasks go on; what the agent would report waits for [Machines.Reconnect].
func (e *Machines) Disconnect(id string) error {
	return e.kernel.Change(func(now time.Time) error {
		i, err := e.agents.at(id)
		if err != nil {
			return fmt.Errorf("disconnecting: %w", err)
		}
		e.agents.disconnect(i, now)
		return nil
	})
}

func (e *agents) disconnect(i *instance, now time.Time) {
	if i.Connected {
		i.Connected = false
		e.instanceChanged(i, now)
	}
}

// CrashInstance stops the machine without a word to ECS, which sees the agent disconnected and the tasks as they were.
// The tasks are dead; [Machines.Reconnect] starts the machine again, and its agent reports them.
func (e *Machines) CrashInstance(id string) error {
	return e.kernel.Change(func(now time.Time) error {
		i, err := e.agents.at(id)
		if err != nil {
			return fmt.Errorf("crashing: %w", err)
		}
		e.agents.disconnect(i, now)
		i.Off = true
		e.kernel.Save(i)
		for _, t := range i.tasks {
			if t.Phase != phaseGone {
				e.agents.tell(t, exited(now, 137), now)
			}
		}
		return nil
	})
}

// Reconnect brings an agent back, and its machine if that was off. It reports what has happened, in order, and learns
// which tasks it should stop.
func (e *Machines) Reconnect(id string) error {
	return e.kernel.Change(func(now time.Time) error {
		i, err := e.agents.at(id)
		if err != nil {
			return fmt.Errorf("reconnecting: %w", err)
		}
		if i.Connected {
			return nil
		}
		i.Connected, i.Off = true, false
		e.agents.instanceChanged(i, now)
		e.agents.catchUp(i, now)
		return nil
	})
}

func (e *agents) catchUp(i *instance, now time.Time) {
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
		e.applyTo(l.task, l.report, now)
	}
	for _, t := range slices.Clone(i.tasks) {
		if t.Desired == cluster.TaskStopped {
			e.learnStop(t, now)
		}
	}
}

// Resize has the instance register another size, in CPU units and MiB, which may be less than its tasks hold.
func (e *Machines) Resize(id string, cpu, memory int64) error {
	return e.kernel.Change(func(now time.Time) error {
		i, err := e.agents.at(id)
		if err != nil {
			return fmt.Errorf("resizing: %w", err)
		}
		if cpu < 0 || memory < 0 || cpu >= ec2.MaxSize || memory >= ec2.MaxSize {
			return fmt.Errorf("resizing instance %s: %d CPU units and %d MiB are out of bounds", id, cpu, memory)
		}
		i.freeCPU, i.freeMemory = i.freeCPU+cpu-i.CPU, i.freeMemory+memory-i.Memory
		i.CPU, i.Memory = cpu, memory
		e.agents.instanceChanged(i, now)
		return nil
	})
}

// running finds a task that is RUNNING on its machine.
func (e *tables) running(id string) (*task, error) {
	t := e.tasks[id]
	if t == nil || t.Phase != phaseRunning {
		return nil, fmt.Errorf("task %s does not run", id)
	}
	return t, nil
}

// CrashTask has a running task exit now.
func (e *Machines) CrashTask(id string, exitCode int) error {
	return e.kernel.Change(func(now time.Time) error {
		t, err := e.agents.running(id)
		if err != nil {
			return fmt.Errorf("crashing: %w", err)
		}
		e.agents.tell(t, exited(now, exitCode), now)
		return nil
	})
}

// SetHealth has the container health check of a running task turn out so from now on.
func (e *Machines) SetHealth(id string, healthy bool) error {
	return e.kernel.Change(func(now time.Time) error {
		t, err := e.agents.running(id)
		if err != nil {
			return fmt.Errorf("setting the health: %w", err)
		}
		if !t.Plan.Checked {
			return fmt.Errorf("setting the health: task %s has no health check", id)
		}
		t.HealthNow, t.HealthNext = "UNHEALTHY", time.Time{}
		if healthy {
			t.HealthNow = "HEALTHY"
		}
		e.agents.tell(t, report{At: now, Health: t.HealthNow}, now)
		e.agents.arm(t, now)
		return nil
	})
}

// TaskTruth is what really goes on, beside what ECS knows: for checks, not for a scheduler.
type TaskTruth struct {
	cluster.ECSTask
	Created time.Time
	// Alive reports whether the task runs, or is being started, on its machine.
	Alive bool
}

// Truth is every visible task of a cluster, in order of start.
func (e *Machines) Truth(clusterName string) (tasks []TaskTruth) {
	_ = e.kernel.View(func(time.Time) error {
		if c := e.agents.clusters[clusterName]; c != nil {
			for _, t := range c.tasks() {
				tasks = append(tasks, TaskTruth{ECSTask: t.noun(), Created: t.Created, Alive: t.Phase != phaseGone})
			}
		}
		return nil
	})
	return tasks
}

// tasks are the visible tasks of the cluster in order of start.
func (c *ecsCluster) tasks() (all []*task) {
	for _, i := range c.instances {
		all = append(all, i.tasks...)
	}
	slices.SortFunc(all, func(a, b *task) int { return cmp.Compare(a.Seq, b.Seq) })
	return all
}
