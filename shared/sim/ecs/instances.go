package ecs

import (
	"context"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
)

// How many tasks or instances one call can describe, and how many instances it can drain (ECS API,
// DescribeTasks and UpdateContainerInstancesState).
const (
	maxDescribe    = 100
	maxUpdateState = 10
)

// ListContainerInstances lists the instances of one status, or all that are not INACTIVE, and of
// these the ones that match the filter, in the cluster query language.
func (e *Instances) ListContainerInstances(
	_ context.Context, in *ecs.ListContainerInstancesInput,
) (*ecs.ListContainerInstancesOutput, error) {
	matches, err := parseFilter(value(in.Filter))
	if err != nil {
		return nil, err
	}
	var arns []string
	err = e.kernel.View(e.agents.inCluster(value(in.Cluster), func(c *ecsCluster, _ time.Time) error {
		arns = make([]string, 0, len(c.instances))
		for _, i := range c.instances {
			status := in.Status == "" && i.Status != cluster.InstanceInactive || string(in.Status) == string(i.Status)
			if status && matches(i) {
				arns = append(arns, i.arn)
			}
		}
		return nil
	}))
	if err != nil {
		return nil, err
	}
	var out ecs.ListContainerInstancesOutput
	out.ContainerInstanceArns, out.NextToken, err = pageAfterToken("ListContainerInstances", arns, in.NextToken,
		in.MaxResults, false)
	return &out, err
}

// DescribeContainerInstances describes up to 100 instances, including INACTIVE ones that are still
// visible.
func (e *Instances) DescribeContainerInstances(
	_ context.Context, in *ecs.DescribeContainerInstancesInput,
) (*ecs.DescribeContainerInstancesOutput, error) {
	if n := len(in.ContainerInstances); n == 0 || n > maxDescribe {
		return nil, invalidParameter("Container instances must have 1 to %d items.", maxDescribe)
	}
	var out ecs.DescribeContainerInstancesOutput
	err := e.kernel.View(e.agents.inCluster(value(in.Cluster), func(c *ecsCluster, _ time.Time) error {
		for _, id := range in.ContainerInstances {
			i := e.agents.findInstance(c, id)
			if i == nil {
				out.Failures = append(out.Failures, missingFailure(e.agents.instanceARN(c, id)))
				continue
			}
			d := i.describe()
			if slices.Contains(in.Include, types.ContainerInstanceFieldTags) {
				d.Tags = i.Tags
			}
			if slices.Contains(in.Include, types.ContainerInstanceFieldContainerInstanceHealth) {
				d.HealthStatus = i.healthStatus()
			}
			out.ContainerInstances = append(out.ContainerInstances, d)
		}
		return nil
	}))
	return &out, err
}

// healthStatus is what the agent says of its container runtime, which never fails here. ECS hears
// nothing from an agent that is disconnected.
func (i *instance) healthStatus() *types.ContainerInstanceHealthStatus {
	status := types.InstanceHealthCheckStateOk
	if !i.Connected {
		status = types.InstanceHealthCheckStateInsufficientData
	}
	return &types.ContainerInstanceHealthStatus{OverallStatus: status, Details: []types.InstanceHealthCheckResult{{
		Type: types.InstanceHealthCheckTypeContainerRuntime, Status: status, LastUpdated: &i.RegisteredAt,
		LastStatusChange: &i.RegisteredAt,
	}}}
}

// UpdateContainerInstancesState makes up to 10 instances ACTIVE or DRAINING. Those that are not
// there, or INACTIVE, are failures; one that has the status already emits no event.
func (e *Instances) UpdateContainerInstancesState(
	_ context.Context, in *ecs.UpdateContainerInstancesStateInput,
) (*ecs.UpdateContainerInstancesStateOutput, error) {
	if n := len(in.ContainerInstances); n == 0 || n > maxUpdateState {
		return nil, invalidParameter("Container instances must have 1 to %d items.", maxUpdateState)
	}
	if in.Status != types.ContainerInstanceStatusActive && in.Status != types.ContainerInstanceStatusDraining {
		return nil, invalidParameter("Container instance status should be one of [DRAINING,ACTIVE].")
	}
	var out ecs.UpdateContainerInstancesStateOutput
	err := e.kernel.Change(e.agents.inCluster(value(in.Cluster), func(c *ecsCluster, now time.Time) error {
		for _, id := range in.ContainerInstances {
			i := e.agents.findInstance(c, id)
			switch {
			case i == nil:
				out.Failures = append(out.Failures, missingFailure(e.agents.instanceARN(c, id)))
				continue
			case i.Status == cluster.InstanceInactive:
				out.Failures = append(out.Failures, types.Failure{Arn: &i.arn, Reason: new("INACTIVE")})
				continue
			case string(i.Status) != string(in.Status):
				i.Status = cluster.InstanceStatus(in.Status)
				e.agents.instanceChanged(i, now)
			}
			out.ContainerInstances = append(out.ContainerInstances, i.describe())
		}
		return nil
	}))
	return &out, err
}

// DeregisterContainerInstance removes an instance from its cluster. With force it may have tasks,
// which ECS makes STOPPED and the agent stops. In real ECS orphaned tasks can go on running; here
// they end with the instance.
func (e *Instances) DeregisterContainerInstance(
	_ context.Context, in *ecs.DeregisterContainerInstanceInput,
) (*ecs.DeregisterContainerInstanceOutput, error) {
	var out ecs.DeregisterContainerInstanceOutput
	err := e.kernel.Change(e.agents.inCluster(value(in.Cluster), func(c *ecsCluster, now time.Time) error {
		i := e.agents.findInstance(c, value(in.ContainerInstance))
		if i == nil || i.Status == cluster.InstanceInactive {
			return invalidParameter("The referenced container instance was not found.")
		}
		if running, pending := i.countTasks(); running+pending > 0 && !value(in.Force) {
			return invalidParameter("Found running tasks on the instance.")
		}
		e.agents.deregisterInstance(i, report{Last: cluster.TaskStopped, At: now,
			Reason: "Container instance deregistration forced by user."}, now)
		out.ContainerInstance = new(i.describe())
		return nil
	}))
	return &out, err
}

// deregisterInstance makes an instance INACTIVE, and its tasks STOPPED as the report says. Nothing
// runs on the machine from here on, so reports that its agent has kept are dropped. The instance
// stays visible for a while, and its tasks with it.
func (e *agents) deregisterInstance(i *instance, r report, now time.Time) {
	i.machineFaults.Off = true
	for _, t := range slices.Clone(i.tasks) {
		t.Phase, t.Unreported = phaseGone, nil
		if t.Last != cluster.TaskStopped {
			e.applyReport(t, r, now)
		}
	}
	i.Status, i.Connected, i.GoneAt = cluster.InstanceInactive, false, now
	i.in.listed = nil
	e.instanceChanged(i, now)
	e.kernel.ScheduleRemoval(now.Add(e.options.KeepStopped), func() { e.purgeInstance(i) })
}
