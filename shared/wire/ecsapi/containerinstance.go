package ecsapi

import (
	"context"
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/wire/answer"
	"berth/shared/wire/awsjson"
	"berth/shared/wire/input"
)

// instanceOperations answers the operations on container instances and their attributes. ECS keeps
// both, so all are forwarded, except for lists by the tasks on the instances. After a change Berth
// reads the instances anew.
type instanceOperations struct {
	input.References
	ecs      upstream
	clusters Clusters
}

func (o *instanceOperations) operations() map[string]awsjson.Operation {
	u := o.ecs
	return map[string]awsjson.Operation{
		"ListContainerInstances": o.listInstances,
		"DescribeContainerInstances": forwardOperation(u, "DescribeContainerInstances", o.checkDescribeInstances,
			func(_ context.Context, _ *ecs.DescribeContainerInstancesInput, body []byte) ([]byte, error) {
				return answer.Instances(body)
			}),
		"UpdateContainerInstancesState": forwardOperation(u, "UpdateContainerInstancesState", o.checkInstancesState,
			noteInstances(o, func(in *ecs.UpdateContainerInstancesStateInput) (*string, []string) {
				return in.Cluster, in.ContainerInstances
			})),
		"RegisterContainerInstance": forwardOperation(u, "RegisterContainerInstance", o.checkRegisterInstance,
			o.noteRegisteredInstance),
		"DeregisterContainerInstance": forwardOperation(u, "DeregisterContainerInstance", o.checkDeregisterInstance,
			noteInstances(o, func(in *ecs.DeregisterContainerInstanceInput) (*string, []string) {
				return in.Cluster, []string{*in.ContainerInstance}
			})),
		"DiscoverPollEndpoint": forwardOperation[ecs.DiscoverPollEndpointInput](u, "DiscoverPollEndpoint", nil, nil),
		"UpdateContainerAgent": forwardOperation(u, "UpdateContainerAgent", o.checkUpdateAgent, nil),
		"PutAttributes": forwardOperation(u, "PutAttributes", o.checkPutAttributes,
			noteInstances(o, func(in *ecs.PutAttributesInput) (*string, []string) {
				return in.Cluster, attributeTargets(in.Attributes)
			})),
		"DeleteAttributes": forwardOperation(u, "DeleteAttributes", o.checkDeleteAttributes,
			noteInstances(o, func(in *ecs.DeleteAttributesInput) (*string, []string) {
				return in.Cluster, attributeTargets(in.Attributes)
			})),
		"ListAttributes": forwardOperation(u, "ListAttributes", o.checkListAttributes, nil),
	}
}

// noteInstances follows up a change at ECS: it makes the scheduler read the instances that the
// input names. A caller who lists them next need not wait for ECS's event.
func noteInstances[I any](
	o *instanceOperations, named func(*I) (clusterRef *string, refs []string),
) func(ctx context.Context, in *I, body []byte) ([]byte, error) {
	return func(ctx context.Context, in *I, body []byte) ([]byte, error) {
		clusterRef, refs := named(in)
		if err := o.noteChanged(ctx, clusterRef, refs); err != nil {
			return nil, err
		}
		return answer.Instances(body)
	}
}

// taskSubjects is the prefix of the subjects of the cluster query language that are about tasks.
const taskSubjects = "task:"

// maxListedInstances is how many instances a page has if the caller says nothing (ECS API reference,
// ListContainerInstances).
const maxListedInstances = 100

// listInstances answers lists whose filter is about tasks, such as `task:group == service:web`, and
// forwards all others. ECS cannot evaluate the former: Berth starts the tasks of services by
// StartTask, so at ECS they have other groups.
func (o *instanceOperations) listInstances(ctx context.Context, body []byte) (any, error) {
	var in ecs.ListContainerInstancesInput
	if err := awsjson.DecodeForwarded(body, &in); err != nil {
		return nil, err
	}
	if strings.Contains(input.Value(in.Filter), taskSubjects) {
		return awsjson.TypedOperation(o.listByTasks)(ctx, body)
	}
	return forwardOperation(o.ecs, "ListContainerInstances", o.checkListInstances, nil)(ctx, body)
}

// listByTasks answers with a page of the instances that meet a filter about tasks. A page token is
// good only for the same list.
func (o *instanceOperations) listByTasks(
	ctx context.Context, in *ecs.ListContainerInstancesInput,
) (*ecs.ListContainerInstancesOutput, error) {
	q := operation.ListInstances{Filter: *in.Filter, Status: cluster.InstanceStatus(in.Status)}
	var err error
	if q.Cluster, err = o.ClusterName(in.Cluster); err != nil {
		return nil, err
	}
	if err = input.CheckOneOf("status", in.Status); err != nil {
		return nil, err
	}
	if q.Limit, err = input.PageSize(in.MaxResults, maxListedInstances); err != nil {
		return nil, err
	}
	list := strings.Join([]string{"container instances of", q.Cluster, string(q.Status), q.Filter}, "\x00")
	if q.After, err = input.PageStart(list, input.Value(in.NextToken)); err != nil {
		return nil, err
	}
	ids, more, err := o.clusters.ListInstances(ctx, q)
	if err != nil {
		return nil, err
	}
	// An empty list is shown as one, for clients that iterate over it.
	out := &ecs.ListContainerInstancesOutput{ContainerInstanceArns: []string{}}
	for _, id := range ids {
		out.ContainerInstanceArns = append(out.ContainerInstanceArns,
			o.Account.ARN("container-instance", q.Cluster, id))
	}
	if more {
		out.NextToken = new(input.PageToken(list, ids[len(ids)-1]))
	}
	return out, nil
}

// checkListInstances accepts any filter: it is ECS's to evaluate.
func (o *instanceOperations) checkListInstances(ctx context.Context, in *ecs.ListContainerInstancesInput) error {
	return o.checkInstances(ctx, in.Cluster)
}

// checkInstances refuses a cluster that Berth does not manage, and references of another cluster,
// account or Region: ECS would act on them with Berth's role.
func (o *instanceOperations) checkInstances(ctx context.Context, clusterRef *string, refs ...string) error {
	name, _, err := o.References.ReadInstances(clusterRef, refs)
	if err != nil {
		return err
	}
	return o.clusters.CheckManaged(ctx, name)
}

// checkDescribeInstances accepts 1 to 100 instances (ECS API reference,
// DescribeContainerInstances).
func (o *instanceOperations) checkDescribeInstances(
	ctx context.Context, in *ecs.DescribeContainerInstancesInput,
) error {
	if err := o.checkInstances(ctx, in.Cluster, in.ContainerInstances...); err != nil {
		return err
	}
	if len(in.ContainerInstances) == 0 {
		return cluster.Errorf(cluster.CodeClient, "Container Instances cannot be empty.")
	}
	return input.CheckCount("containerInstances", len(in.ContainerInstances), 100)
}

// checkInstancesState accepts 1 to 10 instances, to be ACTIVE or DRAINING (ECS API reference,
// UpdateContainerInstancesState).
func (o *instanceOperations) checkInstancesState(
	ctx context.Context, in *ecs.UpdateContainerInstancesStateInput,
) error {
	if err := input.CheckCount("containerInstances", len(in.ContainerInstances), 10); err != nil {
		return err
	}
	if st := in.Status; st != types.ContainerInstanceStatusActive && st != types.ContainerInstanceStatusDraining {
		return input.Invalid("Container instance status should be one of [ACTIVE,DRAINING], not %.60q.", string(st))
	}
	return o.checkInstances(ctx, in.Cluster, in.ContainerInstances...)
}

// checkRegisterInstance accepts no tags of Berth's own, because instances have none, and no
// instance of another cluster that registers again.
func (o *instanceOperations) checkRegisterInstance(ctx context.Context, in *ecs.RegisterContainerInstanceInput) error {
	if _, err := checkTags(in.Tags, nil); err != nil {
		return err
	}
	if before := input.Value(in.ContainerInstanceArn); before != "" {
		return o.checkInstances(ctx, in.Cluster, before)
	}
	return o.checkInstances(ctx, in.Cluster)
}

// noteRegisteredInstance records the instance that ECS has just registered. Its id is in the answer
// alone.
func (o *instanceOperations) noteRegisteredInstance(
	ctx context.Context, in *ecs.RegisterContainerInstanceInput, body []byte,
) ([]byte, error) {
	// The request has no id: ECS has only just chosen it.
	var out ecs.RegisterContainerInstanceOutput
	if err := awsjson.DecodeAnswer(body, &out); err != nil {
		return nil, err
	}
	if out.ContainerInstance == nil {
		return nil, errors.New("ECS named no container instance")
	}
	if err := o.noteChanged(ctx, in.Cluster,
		[]string{input.Value(out.ContainerInstance.ContainerInstanceArn)}); err != nil {
		return nil, err
	}
	return answer.Instances(body)
}

// checkDeregisterInstance leaves to ECS whether the instance may still have tasks.
func (o *instanceOperations) checkDeregisterInstance(
	ctx context.Context, in *ecs.DeregisterContainerInstanceInput,
) error {
	if err := input.CheckRequired("containerInstance", in.ContainerInstance); err != nil {
		return err
	}
	return o.checkInstances(ctx, in.Cluster, *in.ContainerInstance)
}

// checkUpdateAgent leaves to ECS whether there is an update.
func (o *instanceOperations) checkUpdateAgent(ctx context.Context, in *ecs.UpdateContainerAgentInput) error {
	if err := input.CheckRequired("containerInstance", in.ContainerInstance); err != nil {
		return err
	}
	return o.checkInstances(ctx, in.Cluster, *in.ContainerInstance)
}

// noteChanged makes the scheduler read instances from ECS.
func (o *instanceOperations) noteChanged(ctx context.Context, clusterRef *string, refs []string) error {
	clusterName, ids, err := o.References.ReadInstances(clusterRef, refs)
	if err != nil || len(ids) == 0 {
		return err
	}
	return o.clusters.InstancesChanged(ctx, clusterName, ids)
}

// checkAttributes accepts 1 to 10 attributes (ECS API reference, PutAttributes and
// DeleteAttributes).
func (o *instanceOperations) checkAttributes(
	ctx context.Context, clusterRef *string, attributes []types.Attribute,
) error {
	if err := input.CheckCount("attributes", len(attributes), maxAttributes); err != nil {
		return err
	}
	for _, a := range attributes {
		if err := input.CheckOneOf("targetType", a.TargetType); err != nil {
			return err
		}
	}
	return o.checkInstances(ctx, clusterRef, attributeTargets(attributes)...)
}

// checkPutAttributes leaves names and values to ECS.
func (o *instanceOperations) checkPutAttributes(ctx context.Context, in *ecs.PutAttributesInput) error {
	return o.checkAttributes(ctx, in.Cluster, in.Attributes)
}

// checkDeleteAttributes lets ECS's own error say which attribute does not exist.
func (o *instanceOperations) checkDeleteAttributes(ctx context.Context, in *ecs.DeleteAttributesInput) error {
	return o.checkAttributes(ctx, in.Cluster, in.Attributes)
}

// checkListAttributes accepts any filter: it is ECS's to evaluate.
func (o *instanceOperations) checkListAttributes(ctx context.Context, in *ecs.ListAttributesInput) error {
	if err := input.CheckOneOf("targetType", in.TargetType); err != nil {
		return err
	}
	return o.checkInstances(ctx, in.Cluster)
}

// maxAttributes is how many attributes one call sets or deletes.
const maxAttributes = 10

// attributeTargets returns the instances that the attributes belong to.
func attributeTargets(attributes []types.Attribute) (refs []string) {
	for _, a := range attributes {
		if input.Value(a.TargetId) != "" {
			refs = append(refs, *a.TargetId)
		}
	}
	return refs
}
