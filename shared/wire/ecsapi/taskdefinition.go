package ecsapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/wire/answer"
	"berth/shared/wire/awsjson"
	"berth/shared/wire/input"
	"berth/shared/wire/shape"
)

// definitionOperations answers the operations on task definitions. ECS keeps them, so they are
// forwarded, but for the deregistration of a revision that services may still use.
type definitionOperations struct {
	input.References
	view     *definitionView
	roles    roles
	clusters Clusters
}

func (o *definitionOperations) operations() map[string]awsjson.Operation {
	shown := upstream{o.view, o.view.log}
	return map[string]awsjson.Operation{
		"RegisterTaskDefinition": forwardOperation(shown, "RegisterTaskDefinition", o.checkRegister,
			func(_ context.Context, _ *ecs.RegisterTaskDefinitionInput, body []byte) ([]byte, error) {
				return completeDefinitions(body)
			}),
		"DescribeTaskDefinition": forwardOperation(shown, "DescribeTaskDefinition", o.checkDescribeDefinition,
			func(_ context.Context, _ *ecs.DescribeTaskDefinitionInput, body []byte) ([]byte, error) {
				return completeDefinitions(body)
			}),
		"ListTaskDefinitions": forwardOperation[ecs.ListTaskDefinitionsInput](shown, "ListTaskDefinitions", nil,
			nil),
		"ListTaskDefinitionFamilies": forwardOperation[ecs.ListTaskDefinitionFamiliesInput](shown,
			"ListTaskDefinitionFamilies", nil, nil),
		"DeregisterTaskDefinition": o.deregister(forwardOperation(shown, "DeregisterTaskDefinition", nil,
			o.noteDeregistered)),
		"DeleteTaskDefinitions": o.deleteDefinitions(forwardOperation(shown, "DeleteTaskDefinitions", nil,
			o.noteDeleted)),
	}
}

// deregister returns the operation that defers the deregistration of a revision that a cluster may
// use. forward lets ECS deregister any other.
func (o *definitionOperations) deregister(forward awsjson.Operation) awsjson.Operation {
	return func(ctx context.Context, body []byte) (any, error) {
		var in ecs.DeregisterTaskDefinitionInput
		if err := awsjson.DecodeForwarded(body, &in); err != nil {
			return nil, err
		}
		if err := o.checkDeregister(ctx, &in); err != nil {
			return nil, err
		}
		deferred, err := o.view.deferDeregistration(ctx, *in.TaskDefinition)
		if err != nil {
			return nil, err
		}
		if deferred == nil {
			return forward(ctx, body)
		}
		deferred, err = completeDefinitions(deferred)
		return awsjson.Raw{Status: http.StatusOK, Body: deferred}, err
	}
}

// deleteDefinitions returns the operation that defers the deletion of revisions whose
// deregistration is deferred. forward lets ECS delete the others.
func (o *definitionOperations) deleteDefinitions(forward awsjson.Operation) awsjson.Operation {
	return func(ctx context.Context, body []byte) (any, error) {
		var in ecs.DeleteTaskDefinitionsInput
		if err := awsjson.DecodeForwarded(body, &in); err != nil {
			return nil, err
		}
		if err := o.checkDeleteDefinitions(ctx, &in); err != nil {
			return nil, err
		}
		shown, left, err := o.view.deferDeletions(ctx, in.TaskDefinitions)
		if err != nil {
			return nil, err
		}
		if len(shown) == 0 {
			return forward(ctx, body)
		}
		out := awsjson.Raw{Status: http.StatusOK, Body: []byte(`{"failures":[]}`)}
		if len(left) > 0 {
			body, err := answer.Edit(body, func(o answer.Object) error { o["taskDefinitions"] = left; return nil })
			if err != nil {
				return nil, err
			}
			forwarded, err := forward(ctx, body)
			var ok bool
			if out, ok = forwarded.(awsjson.Raw); err != nil || !ok || out.Status != http.StatusOK {
				return forwarded, err
			}
		}
		out.Body, err = answer.Edit(out.Body, func(o answer.Object) error {
			deleted, _ := o["taskDefinitions"].([]any)
			o["taskDefinitions"] = append(shown, deleted...)
			return nil
		})
		if err != nil {
			return nil, err
		}
		out.Body, err = completeDefinitions(out.Body)
		return out, err
	}
}

// checkRegister checks the tags of Berth's own, and that the caller may use the roles, before ECS
// creates the revision: a revision cannot be corrected, and anybody could use it at once.
func (o *definitionOperations) checkRegister(_ context.Context, in *ecs.RegisterTaskDefinitionInput) error {
	if _, err := checkTags(in.Tags, shape.DefinitionTags); err != nil {
		return err
	}
	definition := types.TaskDefinition{
		ContainerDefinitions: in.ContainerDefinitions, Cpu: in.Cpu, Memory: in.Memory, NetworkMode: in.NetworkMode,
		TaskRoleArn: in.TaskRoleArn, ExecutionRoleArn: in.ExecutionRoleArn,
	}
	if _, err := shape.ParseTaskDefinition(definition, nil); err != nil {
		return definitionFault(err)
	}
	d, err := shape.ParseTaskDefinition(definition, in.Tags)
	if err != nil {
		return err
	}
	return o.roles.checkPassable(d.Roles)
}

// definitionFault returns a fault of a task definition under the code that ECS has for all of them.
func definitionFault(err error) error {
	text := err.Error()
	if e := new(cluster.Error); errors.As(err, &e) {
		text = e.Message
	}
	return cluster.Errorf(cluster.CodeClient, "%s", text)
}

// checkDefinition refuses a reference that is no family, family:revision or ARN of this account and
// Region.
func (o *definitionOperations) checkDefinition(ref *string) error {
	if err := input.CheckRequired("taskDefinition", ref); err != nil {
		return err
	}
	_, err := o.TaskDefinitionName(*ref)
	return err
}

func (o *definitionOperations) checkDescribeDefinition(_ context.Context, in *ecs.DescribeTaskDefinitionInput) error {
	return o.checkDefinition(in.TaskDefinition)
}

// checkDeregister accepts family:revision alone, and says in ECS's words what the revision lacks.
func (o *definitionOperations) checkDeregister(_ context.Context, in *ecs.DeregisterTaskDefinitionInput) error {
	if err := input.CheckRequired("taskDefinition", in.TaskDefinition); err != nil {
		return err
	}
	_, revision, found := strings.Cut(cluster.LastPart(*in.TaskDefinition), ":")
	if !found {
		return cluster.Errorf(cluster.CodeClient, "Revision is missing.")
	}
	if _, err := strconv.ParseUint(revision, 10, 31); err != nil {
		return input.Invalid("Invalid revision number. Number: %.40s", revision)
	}
	return o.checkDefinition(in.TaskDefinition)
}

// checkDeleteDefinitions accepts 1 to 10 references (ECS API reference, DeleteTaskDefinitions).
func (o *definitionOperations) checkDeleteDefinitions(_ context.Context, in *ecs.DeleteTaskDefinitionsInput) error {
	if err := input.CheckCount("taskDefinitions", len(in.TaskDefinitions), 10); err != nil {
		return err
	}
	for _, ref := range in.TaskDefinitions {
		if err := o.checkDefinition(&ref); err != nil {
			return err
		}
	}
	return nil
}

// noteDeregistered records after a deregistration by ECS that the revision in ECS's answer is INACTIVE.
func (o *definitionOperations) noteDeregistered(
	ctx context.Context, _ *ecs.DeregisterTaskDefinitionInput, body []byte,
) ([]byte, error) {
	var out ecs.DeregisterTaskDefinitionOutput
	if err := awsjson.DecodeAnswer(body, &out); err != nil {
		return nil, err
	}
	if err := o.noteEnded(ctx, out.TaskDefinition); err != nil {
		return nil, err
	}
	return completeDefinitions(body)
}

// noteDeleted records that the revisions in ECS's answer are being deleted. Those that ECS could
// not delete are not in that list.
func (o *definitionOperations) noteDeleted(
	ctx context.Context, _ *ecs.DeleteTaskDefinitionsInput, body []byte,
) ([]byte, error) {
	var out ecs.DeleteTaskDefinitionsOutput
	if err := awsjson.DecodeAnswer(body, &out); err != nil {
		return nil, err
	}
	var failed []error
	for _, d := range out.TaskDefinitions {
		failed = append(failed, o.noteEnded(ctx, &d))
	}
	if err := errors.Join(failed...); err != nil {
		return nil, err
	}
	return completeDefinitions(body)
}

// completeDefinitions completes the task definitions in ECS's answer to any of the operations.
func completeDefinitions(body []byte) ([]byte, error) {
	return answer.Edit(body, func(out answer.Object) error {
		for _, d := range append(out.Objects("taskDefinitions"), out.Object("taskDefinition")) {
			if d != nil {
				answer.Definition(d)
			}
		}
		return nil
	})
}

// noteEnded tells the scheduler that no new service may use the revision.
func (o *definitionOperations) noteEnded(ctx context.Context, d *types.TaskDefinition) error {
	if d == nil {
		return errors.New("ECS named no task definition")
	}
	return o.clusters.TaskDefinitionChanged(ctx, cluster.TaskDefinitionName(input.Value(d.Family), int(d.Revision)))
}
