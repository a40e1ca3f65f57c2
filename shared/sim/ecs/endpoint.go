package ecs

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/wire/awsjson"
)

// Endpoint speaks the ECS protocol for clusters, task definitions, container instances, attributes,
// tags, and tasks that are started on named instances. It has no services and no RunTask: these are
// Berth's.
func (e *Service) Endpoint() *awsjson.Mux {
	return awsjson.NewMux(map[string]awsjson.Operation{
		"CreateCluster":                 checkedOperation(e.Clusters.CreateCluster),
		"DescribeClusters":              checkedOperation(e.Clusters.DescribeClusters),
		"ListClusters":                  checkedOperation(e.Clusters.ListClusters),
		"UpdateCluster":                 checkedOperation(e.Clusters.UpdateCluster),
		"UpdateClusterSettings":         checkedOperation(e.Clusters.UpdateClusterSettings),
		"DeleteCluster":                 checkedOperation(e.Clusters.DeleteCluster),
		"RegisterTaskDefinition":        awsjson.TypedOperation(e.Definitions.registerAgain),
		"DescribeTaskDefinition":        checkedOperation(e.Definitions.DescribeDefinition),
		"ListTaskDefinitions":           checkedOperation(e.Definitions.ListTaskDefinitions),
		"ListTaskDefinitionFamilies":    checkedOperation(e.Definitions.ListTaskDefinitionFamilies),
		"DeregisterTaskDefinition":      checkedOperation(e.Definitions.DeregisterTaskDefinition),
		"DeleteTaskDefinitions":         checkedOperation(e.Definitions.DeleteTaskDefinitions),
		"ListContainerInstances":        checkedOperation(e.Instances.ListContainerInstances),
		"DescribeContainerInstances":    checkedOperation(e.Instances.DescribeContainerInstances),
		"UpdateContainerInstancesState": awsjson.TypedOperation(e.Instances.UpdateContainerInstancesState),
		"RegisterContainerInstance":     checkedOperation(e.Instances.RegisterContainerInstance),
		"DeregisterContainerInstance":   checkedOperation(e.Instances.DeregisterContainerInstance),
		"DiscoverPollEndpoint":          checkedOperation(e.Instances.DiscoverPollEndpoint),
		"UpdateContainerAgent":          checkedOperation(e.Instances.UpdateContainerAgent),
		"PutAttributes":                 checkedOperation(e.Attributes.PutAttributes),
		"DeleteAttributes":              checkedOperation(e.Attributes.DeleteAttributes),
		"ListAttributes":                checkedOperation(e.Attributes.ListAttributes),
		"TagResource":                   checkedOperation(e.Tags.TagResource),
		"UntagResource":                 checkedOperation(e.Tags.UntagResource),
		"ListTagsForResource":           checkedOperation(e.Tags.ListTagsForResource),
		"StartTask":                     checkedOperation(e.Tasks.StartTask),
		"StopTask":                      checkedOperation(e.Tasks.StopTask),
		"ListTasks":                     checkedOperation(e.Tasks.ListTasks),
		"DescribeTasks":                 checkedOperation(e.Tasks.DescribeTasks),
	})
}

// StartTask starts one task on each of the instances named, as [Service.StartTask] does, and
// answers in ECS's shapes.
func (e *Tasks) StartTask(_ context.Context, in *ecs.StartTaskInput) (*ecs.StartTaskOutput, error) {
	out := ecs.StartTaskOutput{Tasks: []types.Task{}, Failures: []types.Failure{}}
	err := e.kernel.Change(func(now time.Time) error {
		tasks, failures, err := e.agents.startTasks(startRequest{
			cluster: value(in.Cluster), definition: value(in.TaskDefinition), startedBy: value(in.StartedBy),
			group: value(in.Group), instances: in.ContainerInstances, overrides: value(in.Overrides), tags: in.Tags,
			network:        in.NetworkConfiguration,
			definitionTags: in.PropagateTags == types.PropagateTagsTaskDefinition,
			managedTags:    in.EnableECSManagedTags, executeCommand: in.EnableExecuteCommand,
			volumes: in.VolumeConfigurations,
		}, now)
		for _, t := range tasks {
			d := t.describe(e.kernel.Account)
			d.Tags = t.Tags
			out.Tasks = append(out.Tasks, d)
		}
		out.Failures = append(out.Failures, failures...)
		return err
	})
	return &out, err
}

// StopTask asks the agent to stop a task, and describes the task as it is now: stopping.
func (e *Tasks) StopTask(_ context.Context, in *ecs.StopTaskInput) (*ecs.StopTaskOutput, error) {
	var out ecs.StopTaskOutput
	err := e.kernel.Change(e.agents.inCluster(value(in.Cluster), func(c *ecsCluster, now time.Time) error {
		t, err := e.agents.stopTask(c, value(in.Task), value(in.Reason), now)
		if err == nil {
			out.Task = new(t.describe(e.kernel.Account))
		}
		return err
	}))
	return &out, err
}

// ListTasks lists the ARNs of tasks, sorted. Filters narrow each other down, but for startedBy,
// which ECS accepts alone only.
func (e *Tasks) ListTasks(_ context.Context, in *ecs.ListTasksInput) (*ecs.ListTasksOutput, error) {
	others := value(in.Family)+value(in.ServiceName)+value(in.ContainerInstance)+string(in.LaunchType) != ""
	if value(in.StartedBy) != "" && others {
		return nil, invalidParameter("startedBy must be the only filter.")
	}
	var arns []string
	err := e.kernel.View(func(now time.Time) error {
		tasks, err := e.agents.selectTasks(cluster.TaskFilter{
			Cluster: value(in.Cluster), Instance: value(in.ContainerInstance), StartedBy: value(in.StartedBy),
			Desired: cluster.TaskStatus(in.DesiredStatus),
		}, now)
		if err != nil {
			return err
		}
		for _, t := range tasks {
			if matchesFilter(t, in) {
				arns = append(arns, e.kernel.Account.ARN("task", t.Cluster, t.ID))
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var out ecs.ListTasksOutput
	out.TaskArns, out.NextToken, err = pageAfterToken("ListTasks", arns, in.NextToken, in.MaxResults, false)
	return &out, err
}

// matchesFilter applies the filters that selectTasks leaves. Every task here has the launch type
// EC2.
func matchesFilter(t *task, in *ecs.ListTasksInput) bool {
	family, _, _ := strings.Cut(t.Definition, ":")
	return (value(in.Family) == "" || family == *in.Family) &&
		(value(in.ServiceName) == "" || t.Group == "service:"+*in.ServiceName) &&
		(in.LaunchType == "" || in.LaunchType == types.LaunchTypeEc2)
}

// DescribeTasks answers with up to 100 tasks, those that are not visible as failures.
func (e *Tasks) DescribeTasks(_ context.Context, in *ecs.DescribeTasksInput) (*ecs.DescribeTasksOutput, error) {
	if len(in.Tasks) == 0 || len(in.Tasks) > maxDescribe {
		return nil, invalidParameter("Tasks must have 1 to %d items.", maxDescribe)
	}
	out := ecs.DescribeTasksOutput{Tasks: []types.Task{}, Failures: []types.Failure{}}
	err := e.kernel.View(e.agents.inCluster(value(in.Cluster), func(c *ecsCluster, _ time.Time) error {
		for _, id := range in.Tasks {
			t := e.agents.tasks[cluster.LastPart(id)]
			if t == nil || t.on.in != c {
				out.Failures = append(out.Failures, missingFailure(e.kernel.Account.ARN("task", c.name(),
					cluster.LastPart(id))))
				continue
			}
			d := t.describe(e.kernel.Account)
			if slices.Contains(in.Include, types.TaskFieldTags) {
				d.Tags = t.Tags
			}
			out.Tasks = append(out.Tasks, d)
		}
		return nil
	}))
	return &out, err
}
