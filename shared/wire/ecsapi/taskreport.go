package ecsapi

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/wire/input"
)

// taskReports asks ECS for what it alone knows of tasks: network, times of the image pull, the exit
// code of each container. Berth's rows have only what placement needs.
type taskReports struct{ ecs upstream }

// fetchReports returns ECS's descriptions of the tasks by ECS's ids. ECS forgets a task an hour
// after its end: such a task is left out.
func (r *taskReports) fetchReports(
	ctx context.Context, clusterName string, tasks []*cluster.Task,
) map[string]*types.Task {
	var ids []string
	for _, t := range tasks {
		if t.ECSID != "" {
			ids = append(ids, t.ECSID)
		}
	}
	out := map[string]*types.Task{}
	for some := range slices.Chunk(ids, maxTasks) {
		in := map[string]any{"cluster": clusterName, "tasks": some}
		answer, err := readECS[ecs.DescribeTasksOutput](ctx, r.ecs, "DescribeTasks", in)
		if err != nil {
			return out // the tasks are described without it
		}
		for n := range answer.Tasks {
			t := &answer.Tasks[n]
			out[cluster.LastPart(input.Value(t.TaskArn))] = t
		}
	}
	return out
}

// addReport adds to a task what ECS knows of it. Statuses stay Berth's: they agree with its lists.
func addReport(v, r *types.Task) {
	v.Attachments, v.Connectivity, v.ConnectivityAt = r.Attachments, r.Connectivity, r.ConnectivityAt
	v.PullStartedAt, v.PullStoppedAt = r.PullStartedAt, r.PullStoppedAt
	v.StoppingAt, v.ExecutionStoppedAt = r.StoppingAt, r.ExecutionStoppedAt
	v.EphemeralStorage, v.EnableExecuteCommand = r.EphemeralStorage, r.EnableExecuteCommand
	for n := range v.Containers {
		c := &v.Containers[n]
		at := slices.IndexFunc(r.Containers,
			func(o types.Container) bool { return input.Value(o.Name) == input.Value(c.Name) })
		if at < 0 {
			continue
		}
		own := &r.Containers[at]
		c.NetworkBindings, c.NetworkInterfaces = own.NetworkBindings, own.NetworkInterfaces
		c.RuntimeId, c.ImageDigest, c.GpuIds = own.RuntimeId, own.ImageDigest, own.GpuIds
		c.ManagedAgents = own.ManagedAgents
		if own.ExitCode != nil {
			c.ExitCode = own.ExitCode
		}
		if own.Reason != nil {
			c.Reason = own.Reason
		}
	}
}
