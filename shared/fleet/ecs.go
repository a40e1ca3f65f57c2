package fleet

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/wire/shape"
)

// CallFault is what goes wrong with one call; the zero value is nothing.
type CallFault struct {
	Throttled bool // refused, without effect
	// Ambiguous answers with cluster.ErrAmbiguous: without effect unless Applied; then at once, or Late after the answer.
	Ambiguous, Applied bool
	Late               time.Duration
}

// CallFaults make calls of the Go face fail, for tests.
type CallFaults struct {
	// Call decides about one call: the operation, and the task, the startedBy or the cluster that it concerns. It must
	// not call the fleet.
	Call func(operation, subject string) CallFault
	// ListLate bounds how long a new task is missing from ListTasks.
	ListLate time.Duration
}

// SetCallFaults puts faults in force; the zero value ends them.
func (f *Fleet) SetCallFaults(c CallFaults) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = c
}

// faulty applies what is to go wrong with a call: whether apply, the call's effect, still is to take place, and the
// error that the caller gets.
func (f *Fleet) faulty(operation, subject string, apply func() error) (proceed bool, err error) {
	f.mu.Lock()
	decide := f.faults.Call
	f.mu.Unlock()
	if decide == nil {
		return true, nil
	}
	switch fault := decide(operation, subject); {
	case fault.Throttled:
		return false, cluster.Errorf(cluster.CodeThrottling, "Rate exceeded")
	case !fault.Ambiguous:
		return true, nil
	case fault.Applied && fault.Late > 0:
		f.opt.Clock.After(fault.Late, func() { _ = apply() })
	case fault.Applied:
		_ = apply() // the caller never learns how it went
	}
	return false, fmt.Errorf("calling %s: timed out: %w", operation, cluster.ErrAmbiguous)
}

// StartTask starts the same task definition on up to 10 instances. It is on disk, where the fleet has a file, before
// the answer.
func (f *Fleet) StartTask(_ context.Context, call cluster.StartCall) (cluster.StartAnswer, error) {
	var answer cluster.StartAnswer
	launch := cluster.Launch{}
	if call.Launch != nil {
		launch = *call.Launch
	}
	run := func() error {
		return f.change(func(now time.Time) error {
			tasks, failures, err := f.start(startRequest{
				cluster: call.Cluster, definition: call.TaskDefinition, startedBy: call.StartedBy,
				instances: call.Instances, overrides: value(shape.TaskOverride(call.Overrides)), tags: shape.Tags(launch.Tags),
				network: shape.NetworkConfiguration(call.Network), definitionTags: launch.FromDefinition,
			}, now)
			for _, t := range tasks {
				answer.Tasks = append(answer.Tasks, t.noun())
			}
			for _, fail := range failures {
				answer.Failures = append(answer.Failures, cluster.Failure{ARN: *fail.Arn, Reason: *fail.Reason})
			}
			return err
		})
	}
	proceed, err := f.faulty("StartTask", call.StartedBy, run)
	if proceed {
		err = run()
	}
	if err != nil {
		return cluster.StartAnswer{}, err
	}
	return answer, nil
}

// StopTask wants a task stopped; one that has stopped stays as it is.
func (f *Fleet) StopTask(_ context.Context, clusterName, ecsID, reason string) error {
	run := func() error {
		return f.change(func(now time.Time) error {
			c, err := f.cluster(clusterName)
			if err != nil {
				return err
			}
			_, err = f.stop(c, ecsID, reason, now)
			return err
		})
	}
	proceed, err := f.faulty("StopTask", ecsID, run)
	if proceed {
		err = run()
	}
	return err
}

// ListTasks lists the ids of tasks by desired status, RUNNING unless another is named, in order of start.
func (f *Fleet) ListTasks(_ context.Context, filter cluster.TaskFilter) (ids []string, err error) {
	if _, err := f.faulty("ListTasks", filter.Cluster, func() error { return nil }); err != nil {
		return nil, err
	}
	err = f.look(func(now time.Time) error {
		tasks, err := f.list(filter, now)
		for _, t := range tasks {
			ids = append(ids, t.ID)
		}
		return err
	})
	return ids, err
}

// list selects tasks as ECS does: startedBy must be the only filter.
func (f *Fleet) list(filter cluster.TaskFilter, now time.Time) ([]*task, error) {
	c, err := f.cluster(filter.Cluster)
	if err != nil {
		return nil, err
	}
	var from []*task
	switch {
	case filter.StartedBy != "" && (filter.Instance != "" || filter.Desired != ""):
		return nil, invalid("startedBy must be the only filter.")
	case filter.StartedBy != "":
		from = c.started[filter.StartedBy]
	case filter.Instance != "":
		if i := f.instanceIn(c, filter.Instance); i != nil {
			from = i.tasks
		}
	default:
		from = c.tasks()
	}
	desired := filter.Desired
	switch desired {
	case "":
		desired = cluster.TaskRunning
	case cluster.TaskRunning, cluster.TaskPending, cluster.TaskStopped:
	default:
		return nil, invalid("Desired status must be one of [RUNNING,PENDING,STOPPED].")
	}
	var out []*task
	for _, t := range from {
		if t.Desired == desired && !f.unlisted(t, now) {
			out = append(out, t)
		}
	}
	return out, nil
}

// unlisted reports whether ListTasks does not show the task yet.
func (f *Fleet) unlisted(t *task, now time.Time) bool {
	if f.faults.ListLate <= 0 {
		return false
	}
	h := fnv.New64a()
	h.Write([]byte(t.ID))
	return now.Sub(t.Created) < time.Duration(h.Sum64()%uint64(f.faults.ListLate))
}

// DescribeTasks answers with those of up to 100 tasks that are visible.
func (f *Fleet) DescribeTasks(_ context.Context, clusterName string, ids []string) (tasks []cluster.ECSTask, err error) {
	if _, err := f.faulty("DescribeTasks", clusterName, func() error { return nil }); err != nil {
		return nil, err
	}
	if len(ids) == 0 || len(ids) > maxDescribe {
		return nil, invalid("Tasks must have 1 to %d items.", maxDescribe)
	}
	err = f.look(func(time.Time) error {
		c, err := f.cluster(clusterName)
		if err != nil {
			return err
		}
		tasks = make([]cluster.ECSTask, 0, len(ids))
		for _, id := range ids {
			if t := f.tasks[cluster.LastPart(id)]; t != nil && t.on.in == c {
				tasks = append(tasks, t.noun())
			}
		}
		return nil
	})
	return tasks, err
}

// ListInstances lists the ids of the instances that are not INACTIVE, in order of registration.
func (f *Fleet) ListInstances(_ context.Context, clusterName string) (ids []string, err error) {
	if _, err := f.faulty("ListContainerInstances", clusterName, func() error { return nil }); err != nil {
		return nil, err
	}
	err = f.look(func(time.Time) error {
		c, err := f.cluster(clusterName)
		if err == nil {
			ids = slices.Clone(c.ids())
		}
		return err
	})
	return ids, err
}

// DrainInstance makes an ACTIVE instance DRAINING.
func (f *Fleet) DrainInstance(ctx context.Context, clusterName, id string) error {
	_, err := f.UpdateContainerInstancesState(ctx, &ecs.UpdateContainerInstancesStateInput{
		Cluster: &clusterName, ContainerInstances: []string{id}, Status: types.ContainerInstanceStatusDraining,
	})
	return err
}

// ActivateInstance makes a DRAINING instance ACTIVE; one that is ACTIVE already stays so.
func (f *Fleet) ActivateInstance(ctx context.Context, clusterName, id string) error {
	_, err := f.UpdateContainerInstancesState(ctx, &ecs.UpdateContainerInstancesStateInput{
		Cluster: &clusterName, ContainerInstances: []string{id}, Status: types.ContainerInstanceStatusActive,
	})
	return err
}

// PutAttribute sets a custom attribute of an instance; one that is not there is no error.
func (f *Fleet) PutAttribute(ctx context.Context, clusterName, id, name, value string) error {
	_, err := f.PutAttributes(ctx, &ecs.PutAttributesInput{Cluster: &clusterName, Attributes: []types.Attribute{{
		Name: &name, Value: &value, TargetId: &id, TargetType: types.TargetTypeContainerInstance,
	}}})
	return present(err)
}

// RemoveAttribute takes a custom attribute of an instance away, if it has it.
func (f *Fleet) RemoveAttribute(ctx context.Context, clusterName, id, name string) error {
	_, err := f.DeleteAttributes(ctx, &ecs.DeleteAttributesInput{Cluster: &clusterName, Attributes: []types.Attribute{{
		Name: &name, TargetId: &id, TargetType: types.TargetTypeContainerInstance,
	}}})
	return present(err)
}

// present is no error where the instance that an attribute is of is not there.
func present(err error) error {
	if err != nil && cluster.ErrorCode(err) == cluster.CodeTargetNotFound {
		return nil
	}
	return err
}

// DescribeInstances answers with those of up to 100 instances that are visible. Their attributes, GPUs and ports are
// shared: the caller must not change them.
func (f *Fleet) DescribeInstances(
	_ context.Context, clusterName string, ids []string,
) (instances []*cluster.Instance, err error) {
	if _, err := f.faulty("DescribeContainerInstances", clusterName, func() error { return nil }); err != nil {
		return nil, err
	}
	if len(ids) == 0 || len(ids) > maxDescribe {
		return nil, invalid("Container instances must have 1 to %d items.", maxDescribe)
	}
	err = f.look(func(time.Time) error {
		c, err := f.cluster(clusterName)
		if err != nil {
			return err
		}
		instances = make([]*cluster.Instance, 0, len(ids))
		for _, id := range ids {
			if i := f.instanceIn(c, id); i != nil {
				instances = append(instances, i.noun())
			}
		}
		return nil
	})
	return instances, err
}

// DescribeTaskDefinition takes family (its latest ACTIVE revision), family:revision or ARN. The result is the
// caller's.
func (f *Fleet) DescribeTaskDefinition(_ context.Context, name string) (*cluster.TaskDefinition, error) {
	if _, err := f.faulty("DescribeTaskDefinition", name, func() error { return nil }); err != nil {
		return nil, err
	}
	var found definition
	err := f.look(func(time.Time) error {
		d := f.definition(name)
		if d == nil {
			return noDefinition()
		}
		found = *d
		return nil
	})
	if err != nil {
		return nil, err
	}
	return shape.TaskDefinition(found.Def, found.Tags)
}
