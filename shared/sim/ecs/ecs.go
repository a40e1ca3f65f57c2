package ecs

import (
	"context"
	"hash/fnv"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/wire/shape"
)

// StartTask starts one task on each of up to 10 instances. An instance that cannot take its task is
// among the answer's failures; the error concerns the whole call, which then has started nothing,
// unless it is cluster.ErrAmbiguous. The tasks are on disk before StartTask returns.
func (e *Service) StartTask(_ context.Context, call cluster.StartCall) (cluster.StartAnswer, error) {
	var answer cluster.StartAnswer
	launch := cluster.Launch{}
	if call.Launch != nil {
		launch = *call.Launch
	}
	err := e.kernel.Call("StartTask", call.StartedBy, func(now time.Time) error {
		tasks, failures, err := e.agents.startTasks(startRequest{
			cluster: call.Cluster, definition: call.TaskDefinition, startedBy: call.StartedBy,
			instances: call.Instances, overrides: value(shape.OverrideShape(call.Overrides)),
			tags:    shape.TagShapes(launch.Tags),
			network: shape.NetworkShape(call.Network), definitionTags: launch.FromDefinition,
			managedTags: launch.ManagedTags, executeCommand: launch.ExecuteCommand,
			volumes: shape.TaskVolumeShapes(launch.Volumes),
		}, now)
		for _, t := range tasks {
			answer.Tasks = append(answer.Tasks, t.forScheduler())
		}
		for _, fail := range failures {
			answer.Failures = append(answer.Failures, cluster.Failure{ARN: *fail.Arn, Reason: *fail.Reason})
		}
		return err
	})
	if err != nil {
		return cluster.StartAnswer{}, err
	}
	return answer, nil
}

// StopTask asks the agent to stop a task. It has no effect on a task that has stopped, and is an
// InvalidParameterException for one that is no longer visible.
func (e *Service) StopTask(_ context.Context, clusterName, ecsID, reason string) error {
	return e.kernel.Call("StopTask", ecsID, e.agents.inCluster(clusterName, func(c *ecsCluster, now time.Time) error {
		_, err := e.agents.stopTask(c, ecsID, reason, now)
		return err
	}))
}

// ListTasks lists the ids of tasks in order of start: those of one desired status, RUNNING unless
// the filter has another.
func (e *Service) ListTasks(_ context.Context, filter cluster.TaskFilter) (ids []string, err error) {
	err = e.kernel.CallView("ListTasks", filter.Cluster, func(now time.Time) error {
		tasks, err := e.agents.selectTasks(filter, now)
		for _, t := range tasks {
			ids = append(ids, t.ID)
		}
		return err
	})
	return ids, err
}

// selectTasks selects tasks as ECS does: those of one desired status, RUNNING by default,
// regardless of their last status. A task that is stopping is not among the RUNNING ones any more.
// startedBy together with another filter is refused (ECS API, ListTasks).
func (e *tables) selectTasks(filter cluster.TaskFilter, now time.Time) ([]*task, error) {
	c, err := e.findCluster(filter.Cluster)
	if err != nil {
		return nil, err
	}
	var from []*task
	switch {
	case filter.StartedBy != "" && (filter.Instance != "" || filter.Desired != ""):
		return nil, invalidParameter("startedBy must be the only filter.")
	case filter.StartedBy != "":
		from = c.started[filter.StartedBy]
	case filter.Instance != "":
		if i := e.findInstance(c, filter.Instance); i != nil {
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
		return nil, invalidParameter("Desired status must be one of [RUNNING,PENDING,STOPPED].")
	}
	var out []*task
	for _, t := range from {
		if t.Desired == desired && !e.isUnlisted(t, now) {
			out = append(out, t)
		}
	}
	return out, nil
}

// isUnlisted reports whether ListTasks does not show the task yet ([kernel.CallFaults]). ECS's
// lists are eventually consistent. The delay is a hash of the id, so that it differs from task to
// task and a repeated run has the same.
func (e *tables) isUnlisted(t *task, now time.Time) bool {
	if e.kernel.ListingDelay() <= 0 {
		return false
	}
	h := fnv.New64a()
	h.Write([]byte(t.ID))
	return now.Sub(t.Created) < time.Duration(h.Sum64()%uint64(e.kernel.ListingDelay()))
}

// DescribeTasks returns those of up to 100 tasks that are visible. Ids may be ARNs.
func (e *Service) DescribeTasks(
	_ context.Context, clusterName string, ids []string,
) (tasks []cluster.ECSTask, err error) {
	if err := e.kernel.FaultOfCall("DescribeTasks", clusterName); err != nil {
		return nil, err
	}
	if len(ids) == 0 || len(ids) > maxDescribe {
		return nil, invalidParameter("Tasks must have 1 to %d items.", maxDescribe)
	}
	err = e.kernel.View(e.agents.inCluster(clusterName, func(c *ecsCluster, _ time.Time) error {
		tasks = make([]cluster.ECSTask, 0, len(ids))
		for _, id := range ids {
			if t := e.agents.tasks[cluster.LastPart(id)]; t != nil && t.on.in == c {
				tasks = append(tasks, t.forScheduler())
			}
		}
		return nil
	}))
	return tasks, err
}

// ListInstances lists the ids of the instances that are not INACTIVE, in order of registration.
func (e *Service) ListInstances(_ context.Context, clusterName string) (ids []string, err error) {
	err = e.kernel.CallView("ListContainerInstances", clusterName, func(time.Time) error {
		c, err := e.agents.findCluster(clusterName)
		if err == nil {
			ids = slices.Clone(c.registeredIDs())
		}
		return err
	})
	return ids, err
}

// DrainInstance makes an ACTIVE instance DRAINING.
func (e *Service) DrainInstance(ctx context.Context, clusterName, id string) error {
	return e.Instances.setState(ctx, clusterName, id, types.ContainerInstanceStatusDraining)
}

// ActivateInstance makes a DRAINING instance ACTIVE. It has no effect on one that is ACTIVE.
func (e *Service) ActivateInstance(ctx context.Context, clusterName, id string) error {
	return e.Instances.setState(ctx, clusterName, id, types.ContainerInstanceStatusActive)
}

// setState ignores failures: as for Berth's adapter of the real ECS, an instance that is not there
// needs no status.
func (e *Instances) setState(ctx context.Context, clusterName, id string, status types.ContainerInstanceStatus) error {
	_, err := e.UpdateContainerInstancesState(ctx, &ecs.UpdateContainerInstancesStateInput{
		Cluster: &clusterName, ContainerInstances: []string{id}, Status: status,
	})
	return err
}

// PutAttribute sets a custom attribute of an instance. It is no error if there is no such instance.
func (e *Service) PutAttribute(ctx context.Context, clusterName, id, name, value string) error {
	_, err := e.Attributes.PutAttributes(ctx, &ecs.PutAttributesInput{Cluster: &clusterName,
		Attributes: []types.Attribute{{
			Name: &name, Value: &value, TargetId: &id, TargetType: types.TargetTypeContainerInstance,
		}}})
	return ignoreMissingTarget(err)
}

// RemoveAttribute removes a custom attribute of an instance, if it has it.
func (e *Service) RemoveAttribute(ctx context.Context, clusterName, id, name string) error {
	_, err := e.Attributes.DeleteAttributes(ctx, &ecs.DeleteAttributesInput{Cluster: &clusterName,
		Attributes: []types.Attribute{{
			Name: &name, TargetId: &id, TargetType: types.TargetTypeContainerInstance,
		}}})
	return ignoreMissingTarget(err)
}

// ignoreMissingTarget returns nil for the error that an attribute's instance or the attribute does
// not exist.
func ignoreMissingTarget(err error) error {
	if err != nil && cluster.ErrorCode(err) == cluster.CodeTargetNotFound {
		return nil
	}
	return err
}

// DescribeInstances returns those of up to 100 instances that are visible. The caller must not
// change their attributes, GPUs and ports, which other callers share.
func (e *Service) DescribeInstances(
	_ context.Context, clusterName string, ids []string,
) (instances []*cluster.Instance, err error) {
	if err := e.kernel.FaultOfCall("DescribeContainerInstances", clusterName); err != nil {
		return nil, err
	}
	if len(ids) == 0 || len(ids) > maxDescribe {
		return nil, invalidParameter("Container instances must have 1 to %d items.", maxDescribe)
	}
	err = e.kernel.View(e.agents.inCluster(clusterName, func(c *ecsCluster, _ time.Time) error {
		instances = make([]*cluster.Instance, 0, len(ids))
		for _, id := range ids {
			if i := e.agents.findInstance(c, id); i != nil {
				instances = append(instances, i.forScheduler())
			}
		}
		return nil
	}))
	return instances, err
}

// mostFamilies is how many families [Service.ListFamilies] returns at most.
const mostFamilies = 500

// ListFamilies returns families of task definitions with an ACTIVE revision, 500 at most.
func (e *Service) ListFamilies(context.Context) (out []string, err error) {
	err = e.kernel.CallView("ListTaskDefinitionFamilies", "", func(time.Time) error {
		for name, fam := range e.agents.families {
			if slices.ContainsFunc(fam.revisions, (*definition).isActive) {
				out = append(out, name)
			}
		}
		return nil
	})
	slices.Sort(out)
	return out[:min(len(out), mostFamilies)], err
}

// DescribeTaskDefinition returns a revision by family:revision or ARN, or the latest ACTIVE one by
// family, with what Berth reads from its tags. INACTIVE revisions can be described. The caller may
// change the result.
func (e *Service) DescribeTaskDefinition(_ context.Context, name string) (*cluster.TaskDefinition, error) {
	var found definition
	err := e.kernel.CallView("DescribeTaskDefinition", name, func(time.Time) error {
		d := e.agents.findDefinition(name)
		if d == nil {
			return definitionNotFound()
		}
		found = *d
		return nil
	})
	if err != nil {
		return nil, err
	}
	return shape.ParseTaskDefinition(found.Def, found.Tags)
}
