package fleet

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

// Endpoint speaks the ECS protocol for what the fleet keeps: clusters, task definitions, container instances,
// attributes, tags, and tasks that are started on named instances. There are no services here and no RunTask.
func (f *Fleet) Endpoint() *awsjson.Mux {
	return awsjson.NewMux(map[string]awsjson.Operation{
		"CreateCluster":                 awsjson.Op(f.CreateCluster),
		"DescribeClusters":              awsjson.Op(f.DescribeClusters),
		"ListClusters":                  awsjson.Op(f.ListClusters),
		"UpdateCluster":                 awsjson.Op(f.UpdateCluster),
		"DeleteCluster":                 awsjson.Op(f.DeleteCluster),
		"RegisterTaskDefinition":        awsjson.Op(f.RegisterTaskDefinition),
		"DescribeTaskDefinition":        awsjson.Op(f.DescribeDefinition),
		"ListTaskDefinitions":           awsjson.Op(f.ListTaskDefinitions),
		"ListTaskDefinitionFamilies":    awsjson.Op(f.ListTaskDefinitionFamilies),
		"DeregisterTaskDefinition":      awsjson.Op(f.DeregisterTaskDefinition),
		"DeleteTaskDefinitions":         awsjson.Op(f.DeleteTaskDefinitions),
		"ListContainerInstances":        awsjson.Op(f.ListContainerInstances),
		"DescribeContainerInstances":    awsjson.Op(f.DescribeContainerInstances),
		"UpdateContainerInstancesState": awsjson.Op(f.UpdateContainerInstancesState),
		"RegisterContainerInstance":     awsjson.Op(f.RegisterContainerInstance),
		"DeregisterContainerInstance":   awsjson.Op(f.DeregisterContainerInstance),
		"PutAttributes":                 awsjson.Op(f.PutAttributes),
		"DeleteAttributes":              awsjson.Op(f.DeleteAttributes),
		"ListAttributes":                awsjson.Op(f.ListAttributes),
		"TagResource":                   awsjson.Op(f.TagResource),
		"UntagResource":                 awsjson.Op(f.UntagResource),
		"ListTagsForResource":           awsjson.Op(f.ListTagsForResource),
		"StartTask":                     awsjson.Op(f.startTask),
		"StopTask":                      awsjson.Op(f.stopTask),
		"ListTasks":                     awsjson.Op(f.listTasks),
		"DescribeTasks":                 awsjson.Op(f.describeTasks),
	})
}

func (f *Fleet) startTask(_ context.Context, in *ecs.StartTaskInput) (*ecs.StartTaskOutput, error) {
	out := ecs.StartTaskOutput{Tasks: []types.Task{}, Failures: []types.Failure{}}
	err := f.change(func(now time.Time) error {
		tasks, failures, err := f.start(startRequest{
			cluster: value(in.Cluster), definition: value(in.TaskDefinition), startedBy: value(in.StartedBy),
			group: value(in.Group), instances: in.ContainerInstances, overrides: value(in.Overrides), tags: in.Tags, network: in.NetworkConfiguration,
			definitionTags: in.PropagateTags == types.PropagateTagsTaskDefinition,
		}, now)
		for _, t := range tasks {
			d := t.describe(f.opt.Account)
			d.Tags = t.Tags
			out.Tasks = append(out.Tasks, d)
		}
		out.Failures = append(out.Failures, failures...)
		return err
	})
	return &out, err
}

func (f *Fleet) stopTask(_ context.Context, in *ecs.StopTaskInput) (*ecs.StopTaskOutput, error) {
	var out ecs.StopTaskOutput
	err := f.change(func(now time.Time) error {
		c, err := f.cluster(value(in.Cluster))
		if err != nil {
			return err
		}
		t, err := f.stop(c, value(in.Task), value(in.Reason), now)
		if err == nil {
			out.Task = new(t.describe(f.opt.Account))
		}
		return err
	})
	return &out, err
}

func (f *Fleet) listTasks(_ context.Context, in *ecs.ListTasksInput) (*ecs.ListTasksOutput, error) {
	others := value(in.Family)+value(in.ServiceName)+value(in.ContainerInstance)+string(in.LaunchType) != ""
	if value(in.StartedBy) != "" && others {
		return nil, invalid("startedBy must be the only filter.")
	}
	var out ecs.ListTasksOutput
	err := f.look(func(now time.Time) error {
		tasks, err := f.list(cluster.TaskFilter{
			Cluster: value(in.Cluster), Instance: value(in.ContainerInstance), StartedBy: value(in.StartedBy),
			Desired: cluster.TaskStatus(in.DesiredStatus),
		}, now)
		if err != nil {
			return err
		}
		var arns []string
		for _, t := range tasks {
			if listed(t, in) {
				arns = append(arns, f.opt.Account.ARN("task", t.Cluster, t.ID))
			}
		}
		slices.Sort(arns)
		out.TaskArns, out.NextToken, err = page(arns, in.NextToken, in.MaxResults, false)
		return err
	})
	return &out, err
}

func listed(t *task, in *ecs.ListTasksInput) bool {
	family, _, _ := strings.Cut(t.Definition, ":")
	return (value(in.Family) == "" || family == *in.Family) &&
		(value(in.ServiceName) == "" || t.Group == "service:"+*in.ServiceName) &&
		(in.LaunchType == "" || in.LaunchType == types.LaunchTypeEc2)
}

func (f *Fleet) describeTasks(_ context.Context, in *ecs.DescribeTasksInput) (*ecs.DescribeTasksOutput, error) {
	if len(in.Tasks) == 0 || len(in.Tasks) > maxDescribe {
		return nil, invalid("Tasks must have 1 to %d items.", maxDescribe)
	}
	out := ecs.DescribeTasksOutput{Tasks: []types.Task{}, Failures: []types.Failure{}}
	err := f.look(func(time.Time) error {
		c, err := f.cluster(value(in.Cluster))
		if err != nil {
			return err
		}
		for _, id := range in.Tasks {
			t := f.tasks[cluster.LastPart(id)]
			if t == nil || t.on.in != c {
				out.Failures = append(out.Failures, missing(f.opt.Account.ARN("task", c.name(), cluster.LastPart(id))))
				continue
			}
			d := t.describe(f.opt.Account)
			if slices.Contains(in.Include, types.TaskFieldTags) {
				d.Tags = t.Tags
			}
			out.Tasks = append(out.Tasks, d)
		}
		return nil
	})
	return &out, err
}
