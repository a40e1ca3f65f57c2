package ecsapi

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/wire/input"
	"berth/shared/wire/shape"
)

// taskShapes returns tasks as DescribeTasks shows them, without their tags. Zones, containers and
// network come from ECS, launch data from the scheduler. What cannot be had is left out: an
// incomplete description is of more use than an error.
func (o *taskOperations) taskShapes(ctx context.Context, clusterName string, tasks []*cluster.Task) []types.Task {
	zones := o.zones.zonesOf(ctx, clusterName, tasks)
	reports := o.reports.fetchReports(ctx, clusterName, tasks)
	launches, _ := o.scheduler.TaskLaunches(ctx, tasks) // not worth an error, either
	out := make([]types.Task, 0, len(tasks))
	for _, t := range tasks {
		v := taskShape(o.Account, t)
		v.CapacityProviderName, v.LaunchType = shape.TextOrNil(launches[t.ID].Provider),
			launchTypeShape(launches[t.ID].External)
		if t.Instance != "" {
			v.ContainerInstanceArn = new(o.Account.ARN("container-instance", clusterName, t.Instance))
			v.AvailabilityZone = shape.TextOrNil(zones[t.Instance])
		}
		if d, err := o.definitions.cachedDefinition(ctx, t.TaskDefinition); err == nil {
			addContainers(o.Account, &v, t, d)
		}
		if r := reports[t.ECSID]; r != nil {
			addReport(&v, r)
		}
		out = append(out, v)
	}
	return out
}

// AttributeECSTask is the task attribute with the ARN by which ECS itself knows the task. It is
// what CloudWatch, ECS Exec and log streams go by.
const AttributeECSTask = "berth.ecs-task-arn"

// addTags adds to each task its tags.
func addTags(out []types.Task, tasks []*cluster.Task) {
	for n := range out {
		out[n].Tags = shape.TagShapes(tasks[n].Tags)
	}
}

// failureShapes returns failures with full ARNs. kind is the kind of the bare names: the task abc
// of cluster prod becomes arn:...:task/prod/abc. A failure may have an ARN already, or none.
func failureShapes(account cluster.Account, clusterName, kind string, failed []cluster.Failure) []types.Failure {
	return shape.ConvertEach(failed, func(f cluster.Failure) types.Failure {
		arn := f.ARN
		if arn != "" && !strings.HasPrefix(arn, "arn:") {
			arn = failureARN(account, clusterName, kind, arn)
		}
		return types.Failure{Arn: shape.TextOrNil(arn), Reason: shape.TextOrNil(f.Reason),
			Detail: shape.TextOrNil(f.Detail)}
	})
}

// failureARN returns the ARN of what was not found. That of a service does not name the cluster: so
// AWS is recorded.
func failureARN(account cluster.Account, clusterName, kind, name string) string {
	if kind == "service" {
		return account.ARN(kind, name)
	}
	return account.ARN(kind, clusterName, name)
}

// taskShape returns a task as the API shows it, apart from what needs a lookup. A task of a service
// has the id of its deployment as startedBy, as with ECS. CPU is in CPU units (1024 to a vCPU) and
// memory in MiB, both as text.
func taskShape(account cluster.Account, t *cluster.Task) types.Task {
	// A task that has ended by itself is shown as ECS shows it, with a desired status of STOPPED.
	wanted := t.Desired
	if t.HasEnded() {
		wanted = cluster.TaskStopped
	}
	// For tasks of services ECS itself is the starter, on behalf of a deployment.
	startedBy := t.StartedByUser
	if t.Service != "" {
		startedBy = t.Revision
	}
	v := types.Task{
		TaskArn: new(account.ARN("task", t.Cluster, t.ID)), ClusterArn: new(account.ARN("cluster", t.Cluster)),
		TaskDefinitionArn: new(account.ARN("task-definition", t.TaskDefinition)), LastStatus: new(string(t.Status())),
		DesiredStatus: new(string(wanted)), Group: shape.TextOrNil(t.Group), StartedBy: shape.TextOrNil(startedBy),
		HealthStatus: healthShape(t), Cpu: new(strconv.FormatInt(t.Needs.CPU/cluster.CPUUnit, 10)),
		Memory: new(strconv.FormatInt(t.Needs.Memory, 10)), CreatedAt: shape.TimeOrNil(t.CreatedAt.Time()),
		StartedAt: shape.TimeOrNil(t.Started.Time()), StoppedAt: shape.TimeOrNil(t.Stopped.Time()),
		StopCode: stopCode(t), StoppedReason: shape.TextOrNil(t.Reason), Version: t.Rev,
		Attributes: []types.Attribute{}, Overrides: shape.OverrideShape(t.Overrides),
	}
	if v.Overrides == nil {
		v.Overrides = &types.TaskOverride{} // ECS shows overrides even if there are none
	}
	if t.ECSID != "" {
		v.Attributes = append(v.Attributes, types.Attribute{
			Name: new(AttributeECSTask), Value: new(account.ARN("task", t.Cluster, t.ECSID)),
		})
	}
	return v
}

// healthShape returns the task's health; UNKNOWN if no container has a health check.
func healthShape(t *cluster.Task) types.HealthStatus {
	if t.Health == cluster.UnknownHealth {
		return types.HealthStatusUnknown
	}
	return types.HealthStatus(t.Health.String())
}

// addContainers adds the task's containers, from its definition. Berth keeps only one exit code, so
// it is shown for the first essential container: the one whose end is likeliest to have ended the
// task.
func addContainers(account cluster.Account, v *types.Task, t *cluster.Task, d *types.TaskDefinition) {
	status := containerStatus(t)
	exit := t.ExitCode
	for _, c := range d.ContainerDefinitions {
		// ECS shows an override of every container, if only its name.
		named := func(o types.ContainerOverride) bool { return input.Value(o.Name) == input.Value(c.Name) }
		if !slices.ContainsFunc(v.Overrides.ContainerOverrides, named) {
			v.Overrides.ContainerOverrides = append(v.Overrides.ContainerOverrides,
				types.ContainerOverride{Name: c.Name})
		}
		own := types.Container{
			ContainerArn: new(account.ARN("container", t.Cluster, t.ID,
				formatUUID(cluster.Digest(t.ID, input.Value(c.Name))))),
			TaskArn: v.TaskArn, Name: c.Name, Image: c.Image, LastStatus: new(string(status)),
			HealthStatus: types.HealthStatusUnknown, Cpu: new(strconv.Itoa(int(c.Cpu))),
		}
		if c.HealthCheck != nil {
			own.HealthStatus = healthShape(t)
		}
		own.Memory, own.MemoryReservation = formatMiB(c.Memory), formatMiB(c.MemoryReservation)
		if essential := c.Essential == nil || *c.Essential; essential && exit != nil {
			own.ExitCode, exit = new(int32(*exit)), nil
		}
		// Why a task could not start is shown with its containers too.
		if stopCode(t) == types.TaskStopCodeTaskFailedToStart {
			own.Reason = shape.TextOrNil(t.Reason)
		}
		v.Containers = append(v.Containers, own)
	}
}

// stopCode returns why a task stopped in ECS's words. A refused start is TaskFailedToStart there.
func stopCode(t *cluster.Task) types.TaskStopCode {
	if t.WasRefused() {
		return types.TaskStopCodeTaskFailedToStart
	}
	return types.TaskStopCode(t.StopCode)
}

// containerStatus returns the status of a task's containers, which have three: PENDING, RUNNING and
// STOPPED.
func containerStatus(t *cluster.Task) cluster.TaskStatus {
	switch {
	case t.HasEnded():
		return cluster.TaskStopped
	case t.Last == cluster.TaskRunning || t.Last == cluster.TaskStopping:
		return cluster.TaskRunning
	}
	return cluster.TaskPending
}

// formatMiB returns a number of MiB as text, nil if there is none.
func formatMiB(n *int32) *string {
	if n == nil {
		return nil
	}
	return new(strconv.Itoa(int(*n)))
}

// formatUUID formats 32 hex digits as a UUID.
func formatUUID(s string) string {
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}
