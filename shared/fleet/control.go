package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
)

// at finds an instance that has not left its cluster.
func (f *Fleet) at(id string) (*instance, error) {
	i := f.instances[id]
	if i == nil || i.Status == cluster.InstanceInactive {
		return nil, fmt.Errorf("instance %s is not registered", id)
	}
	return i, nil
}

// KillInstance terminates the machine: ECS learns it from EC2, makes the instance INACTIVE and its tasks STOPPED.
func (f *Fleet) KillInstance(id string) error {
	return f.change(func(now time.Time) error {
		i, err := f.at(id)
		if err != nil {
			return fmt.Errorf("terminating: %w", err)
		}
		f.terminate(i, now)
		return nil
	})
}

func (f *Fleet) terminate(i *instance, now time.Time) {
	f.retire(i, report{
		Last: cluster.TaskStopped, At: now, StopCode: cluster.StopTermination,
		Reason: "Host EC2 (instance " + i.EC2 + ") terminated.",
	}, now)
	for _, g := range f.groups {
		if g.member(i.EC2) != nil {
			f.lookAgain(g)
		}
	}
}

// FailZone terminates every instance of an availability zone and returns their ids, in order of registration.
func (f *Fleet) FailZone(zone string) (ids []string, err error) {
	err = f.change(func(now time.Time) error {
		var hit []*instance
		for _, i := range f.instances {
			if i.Zone == zone && i.Status != cluster.InstanceInactive {
				hit = append(hit, i)
			}
		}
		slices.SortFunc(hit, func(a, b *instance) int { return cmp.Compare(a.Seq, b.Seq) })
		for _, i := range hit {
			f.terminate(i, now)
			ids = append(ids, i.ID)
		}
		return nil
	})
	return ids, err
}

// Disconnect cuts the agent off from ECS. The tasks go on; what the agent would report waits for [Fleet.Reconnect].
func (f *Fleet) Disconnect(id string) error {
	return f.change(func(now time.Time) error {
		i, err := f.at(id)
		if err != nil {
			return fmt.Errorf("disconnecting: %w", err)
		}
		f.disconnect(i, now)
		return nil
	})
}

func (f *Fleet) disconnect(i *instance, now time.Time) {
	if i.Connected {
		i.Connected = false
		f.instanceChanged(i, now)
	}
}

// CrashInstance stops the machine without a word to ECS, which sees the agent disconnected and the tasks as they were.
// The tasks are dead; [Fleet.Reconnect] starts the machine again, and its agent reports them.
func (f *Fleet) CrashInstance(id string) error {
	return f.change(func(now time.Time) error {
		i, err := f.at(id)
		if err != nil {
			return fmt.Errorf("crashing: %w", err)
		}
		f.disconnect(i, now)
		i.Off = true
		f.touch(i)
		for _, t := range i.tasks {
			if t.Phase != phaseGone {
				f.tell(t, exited(now, 137), now)
			}
		}
		return nil
	})
}

// Reconnect brings an agent back, and its machine if that was off. It reports what has happened, in order, and learns
// which tasks it should stop.
func (f *Fleet) Reconnect(id string) error {
	return f.change(func(now time.Time) error {
		i, err := f.at(id)
		if err != nil {
			return fmt.Errorf("reconnecting: %w", err)
		}
		if i.Connected {
			return nil
		}
		i.Connected, i.Off = true, false
		f.instanceChanged(i, now)
		f.catchUp(i, now)
		return nil
	})
}

func (f *Fleet) catchUp(i *instance, now time.Time) {
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
		f.applyTo(l.task, l.report, now)
	}
	for _, t := range slices.Clone(i.tasks) {
		if t.Desired == cluster.TaskStopped {
			f.learnStop(t, now)
		}
	}
}

// Resize has the instance register another size, in CPU units and MiB, which may be less than its tasks hold.
func (f *Fleet) Resize(id string, cpu, memory int64) error {
	return f.change(func(now time.Time) error {
		i, err := f.at(id)
		if err != nil {
			return fmt.Errorf("resizing: %w", err)
		}
		if cpu < 0 || memory < 0 || cpu >= maxCPUUnits || memory >= maxCPUUnits {
			return fmt.Errorf("resizing instance %s: %d CPU units and %d MiB are out of bounds", id, cpu, memory)
		}
		i.freeCPU, i.freeMemory = i.freeCPU+cpu-i.CPU, i.freeMemory+memory-i.Memory
		i.CPU, i.Memory = cpu, memory
		f.instanceChanged(i, now)
		return nil
	})
}

// running finds a task that is RUNNING on its machine.
func (f *Fleet) running(id string) (*task, error) {
	t := f.tasks[id]
	if t == nil || t.Phase != phaseRunning {
		return nil, fmt.Errorf("task %s does not run", id)
	}
	return t, nil
}

// CrashTask has a running task exit now.
func (f *Fleet) CrashTask(id string, exitCode int) error {
	return f.change(func(now time.Time) error {
		t, err := f.running(id)
		if err != nil {
			return fmt.Errorf("crashing: %w", err)
		}
		f.tell(t, exited(now, exitCode), now)
		return nil
	})
}

// SetHealth has the container health check of a running task turn out so from now on.
func (f *Fleet) SetHealth(id string, healthy bool) error {
	return f.change(func(now time.Time) error {
		t, err := f.running(id)
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
		f.tell(t, report{At: now, Health: t.HealthNow}, now)
		f.arm(t, now)
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
func (f *Fleet) Truth(clusterName string) (tasks []TaskTruth) {
	_ = f.look(func(time.Time) error {
		if c := f.clusters[clusterName]; c != nil {
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
