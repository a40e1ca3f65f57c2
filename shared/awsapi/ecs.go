package awsapi

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/wire/shape"
)

// ECS calls those operations of the ECS API that act on tasks and describe instances. Errors of the
// API are *cluster.Error.
type ECS struct {
	Client *ecs.Client
	// Timeout ends a StartTask or StopTask whose answer does not come; zero is 10 s. The other
	// calls end with their context.
	Timeout time.Duration
}

// describeBatch is how many tasks or instances ECS describes in one call.
const describeBatch = 100

// disableRetries keeps the SDK from repeating a call. StartTask is called without a client token,
// so a repetition could start a task twice; and each repetition would take from the rate that
// StartTask and StopTask share, without being counted.
func disableRetries(o *ecs.Options) { o.Retryer = aws.NopRetryer{} }

// StartTask starts one task on each instance named, at most once. The answer has a task or a
// failure for each instance. The error is cluster.ErrAmbiguous if the outcome is unknown.
func (e *ECS) StartTask(ctx context.Context, call cluster.StartCall) (cluster.StartAnswer, error) {
	ctx, cancel := e.withTimeout(ctx)
	defer cancel()
	out, err := e.Client.StartTask(ctx, startInput(call), disableRetries)
	if err != nil {
		return cluster.StartAnswer{}, fmt.Errorf("starting tasks of %s: %w", call.TaskDefinition, actionError(err))
	}
	answer := cluster.StartAnswer{}
	for _, t := range out.Tasks {
		answer.Tasks = append(answer.Tasks, shape.ParseTask(t))
	}
	for _, f := range out.Failures {
		answer.Failures = append(answer.Failures, cluster.Failure{
			ARN: aws.ToString(f.Arn), Reason: aws.ToString(f.Reason), Detail: aws.ToString(f.Detail),
		})
	}
	return answer, nil
}

func startInput(call cluster.StartCall) *ecs.StartTaskInput {
	in := &ecs.StartTaskInput{
		Cluster: &call.Cluster, TaskDefinition: &call.TaskDefinition, ContainerInstances: call.Instances,
		Overrides: shape.OverrideShape(call.Overrides), NetworkConfiguration: shape.NetworkShape(call.Network),
	}
	if call.StartedBy != "" {
		in.StartedBy = &call.StartedBy
	}
	if l := call.Launch; l != nil {
		in.EnableECSManagedTags, in.EnableExecuteCommand = l.ManagedTags, l.ExecuteCommand
		if l.FromDefinition {
			in.PropagateTags = types.PropagateTagsTaskDefinition
		}
		in.VolumeConfigurations = shape.TaskVolumeShapes(l.Volumes)
		if len(l.Tags) > 0 {
			in.Tags = shape.TagShapes(l.Tags)
		}
	}
	return in
}

// StopTask stops a task by ECS's id. The error is cluster.ErrAmbiguous if the outcome is unknown;
// stopping a task twice does no harm.
func (e *ECS) StopTask(ctx context.Context, clusterName, ecsID, reason string) error {
	ctx, cancel := e.withTimeout(ctx)
	defer cancel()
	in := &ecs.StopTaskInput{Cluster: &clusterName, Task: &ecsID}
	if reason != "" {
		in.Reason = &reason
	}
	if _, err := e.Client.StopTask(ctx, in, disableRetries); err != nil {
		return fmt.Errorf("stopping task %s: %w", ecsID, actionError(err))
	}
	return nil
}

func (e *ECS) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	timeout := e.Timeout
	if timeout == 0 {
		timeout = 10 * time.Second
	}
	return context.WithTimeout(ctx, timeout)
}

// ListTasks returns the ids of all tasks that the filter selects, page by page. ECS's lists are
// eventually consistent: a task started a moment ago may be missing.
func (e *ECS) ListTasks(ctx context.Context, f cluster.TaskFilter) ([]string, error) {
	in := &ecs.ListTasksInput{Cluster: &f.Cluster, DesiredStatus: types.DesiredStatus(f.Desired)}
	if f.Instance != "" {
		in.ContainerInstance = &f.Instance
	}
	if f.StartedBy != "" {
		in.StartedBy = &f.StartedBy
	}
	var ids []string
	for pages := ecs.NewListTasksPaginator(e.Client, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing tasks of cluster %s: %w", f.Cluster, apiError(err))
		}
		ids = appendIDs(ids, page.TaskArns)
	}
	return ids, nil
}

func appendIDs(ids, arns []string) []string {
	for _, arn := range arns {
		ids = append(ids, cluster.LastPart(arn))
	}
	return ids
}

// DescribeTasks returns those of the tasks named that ECS still has.
func (e *ECS) DescribeTasks(ctx context.Context, clusterName string, ids []string) ([]cluster.ECSTask, error) {
	var tasks []cluster.ECSTask
	for batch := range slices.Chunk(ids, describeBatch) {
		out, err := e.Client.DescribeTasks(ctx, &ecs.DescribeTasksInput{Cluster: &clusterName, Tasks: batch})
		if err != nil {
			return nil, fmt.Errorf("describing tasks of cluster %s: %w", clusterName, apiError(err))
		}
		for _, t := range out.Tasks {
			tasks = append(tasks, shape.ParseTask(t))
		}
	}
	return tasks, nil
}

// ListInstances returns the ids of the cluster's instances of any status but INACTIVE.
func (e *ECS) ListInstances(ctx context.Context, clusterName string) ([]string, error) {
	in := &ecs.ListContainerInstancesInput{Cluster: &clusterName}
	var ids []string
	for pages := ecs.NewListContainerInstancesPaginator(e.Client, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing instances of cluster %s: %w", clusterName, apiError(err))
		}
		ids = appendIDs(ids, page.ContainerInstanceArns)
	}
	return ids, nil
}

// DrainInstance makes an ACTIVE instance DRAINING. It has no effect on one that is DRAINING.
func (e *ECS) DrainInstance(ctx context.Context, clusterName, id string) error {
	return e.setInstanceState(ctx, "draining", clusterName, id, types.ContainerInstanceStatusDraining)
}

// ActivateInstance makes a DRAINING instance ACTIVE. It has no effect on one that is ACTIVE.
func (e *ECS) ActivateInstance(ctx context.Context, clusterName, id string) error {
	return e.setInstanceState(ctx, "activating", clusterName, id, types.ContainerInstanceStatusActive)
}

// setInstanceState sets the status of an instance. One that is not there needs no status: it is no
// error.
func (e *ECS) setInstanceState(
	ctx context.Context, doing, clusterName, id string, status types.ContainerInstanceStatus,
) error {
	out, err := e.Client.UpdateContainerInstancesState(ctx, &ecs.UpdateContainerInstancesStateInput{
		Cluster: &clusterName, ContainerInstances: []string{id}, Status: status,
	})
	if err != nil {
		return fmt.Errorf("%s instance %s: %w", doing, id, apiError(err))
	}
	for _, f := range out.Failures {
		if reason := aws.ToString(f.Reason); reason != "MISSING" {
			return fmt.Errorf("%s instance %s: %s", doing, id, reason)
		}
	}
	return nil
}

// PutAttribute sets a custom attribute of an instance. It is no error if there is no such instance.
func (e *ECS) PutAttribute(ctx context.Context, clusterName, id, name, value string) error {
	_, err := e.Client.PutAttributes(ctx, &ecs.PutAttributesInput{Cluster: &clusterName, Attributes: []types.Attribute{{
		Name: &name, Value: &value, TargetId: &id, TargetType: types.TargetTypeContainerInstance,
	}}})
	return targetError(err, "setting attribute %s of instance %s", name, id)
}

// RemoveAttribute removes a custom attribute of an instance, if it has it.
func (e *ECS) RemoveAttribute(ctx context.Context, clusterName, id, name string) error {
	_, err := e.Client.DeleteAttributes(ctx, &ecs.DeleteAttributesInput{Cluster: &clusterName,
		Attributes: []types.Attribute{{
			Name: &name, TargetId: &id, TargetType: types.TargetTypeContainerInstance,
		}}})
	return targetError(err, "removing attribute %s of instance %s", name, id)
}

// targetError wraps an error about an attribute. That the instance or the attribute is not there is
// no error.
func targetError(err error, format string, args ...any) error {
	if err = apiError(err); err == nil || cluster.ErrorCode(err) == cluster.CodeTargetNotFound {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

// DescribeInstances returns those of the instances named that ECS still has, INACTIVE ones
// included.
func (e *ECS) DescribeInstances(ctx context.Context, clusterName string, ids []string) ([]*cluster.Instance, error) {
	var instances []*cluster.Instance
	for batch := range slices.Chunk(ids, describeBatch) {
		in := &ecs.DescribeContainerInstancesInput{Cluster: &clusterName, ContainerInstances: batch}
		out, err := e.Client.DescribeContainerInstances(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("describing instances of cluster %s: %w", clusterName, apiError(err))
		}
		for _, i := range out.ContainerInstances {
			instances = append(instances, shape.ParseInstance(clusterName, i))
		}
	}
	return instances, nil
}

// DescribeTaskDefinition returns a task definition by family (its latest ACTIVE revision),
// family:revision or ARN. An error says so if Berth cannot read it.
func (e *ECS) DescribeTaskDefinition(ctx context.Context, name string) (*cluster.TaskDefinition, error) {
	in := &ecs.DescribeTaskDefinitionInput{TaskDefinition: &name,
		Include: []types.TaskDefinitionField{types.TaskDefinitionFieldTags}}
	out, err := e.Client.DescribeTaskDefinition(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("describing task definition %s: %w", name, apiError(err))
	}
	if out.TaskDefinition == nil {
		return nil, fmt.Errorf("describing task definition %s: ECS answers with none", name)
	}
	d, err := shape.ParseTaskDefinition(*out.TaskDefinition, out.Tags)
	if err != nil {
		return nil, fmt.Errorf("reading task definition %s: %w", name, err)
	}
	return d, nil
}

// DeregisterTaskDefinition makes a revision (family:revision) INACTIVE. It has no effect on one that
// is INACTIVE.
func (e *ECS) DeregisterTaskDefinition(ctx context.Context, name string) error {
	_, err := e.Client.DeregisterTaskDefinition(ctx, &ecs.DeregisterTaskDefinitionInput{TaskDefinition: &name})
	return cluster.Wrap(apiError(err), "deregistering task definition %s", name)
}

// DeleteTaskDefinition deletes an INACTIVE revision (family:revision). What ECS does not delete is a
// ClientException with its reason.
func (e *ECS) DeleteTaskDefinition(ctx context.Context, name string) error {
	out, err := e.Client.DeleteTaskDefinitions(ctx, &ecs.DeleteTaskDefinitionsInput{TaskDefinitions: []string{name}})
	if err != nil {
		return fmt.Errorf("deleting task definition %s: %w", name, apiError(err))
	}
	for _, f := range out.Failures {
		return fmt.Errorf("deleting task definition %s: %w", name,
			cluster.Errorf(cluster.CodeClient, "%s", aws.ToString(f.Reason)))
	}
	return nil
}

// familyPages is how many pages of 100 families are read.
const familyPages = 5

// ListFamilies returns families of task definitions with an ACTIVE revision, 500 at most.
func (e *ECS) ListFamilies(ctx context.Context) (out []string, err error) {
	in := &ecs.ListTaskDefinitionFamiliesInput{Status: types.TaskDefinitionFamilyStatusActive}
	for range familyPages {
		page, err := e.Client.ListTaskDefinitionFamilies(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("listing families of task definitions: %w", apiError(err))
		}
		out = append(out, page.Families...)
		if in.NextToken = page.NextToken; in.NextToken == nil {
			break
		}
	}
	return out, nil
}

// ClusterActive reports whether ECS has the cluster and it is ACTIVE.
func (e *ECS) ClusterActive(ctx context.Context, name string) (bool, error) {
	out, err := e.Client.DescribeClusters(ctx, &ecs.DescribeClustersInput{Clusters: []string{name}})
	if err != nil {
		return false, fmt.Errorf("describing cluster %s: %w", name, apiError(err))
	}
	for _, c := range out.Clusters {
		if aws.ToString(c.ClusterName) == name && aws.ToString(c.Status) == "ACTIVE" {
			return true, nil
		}
	}
	return false, nil
}
