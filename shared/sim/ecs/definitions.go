package ecs

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
)

// definitionNotFound is what DescribeTaskDefinition answers, with the code of a bad request and not
// one of its own.
func definitionNotFound() error {
	return cluster.Errorf(cluster.CodeClient, "Unable to describe task definition.")
}

// RegisterTaskDefinition creates the next revision of the family. As in ECS, registering the same
// definition again makes another revision.
func (e *Definitions) RegisterTaskDefinition(
	_ context.Context, in *ecs.RegisterTaskDefinitionInput,
) (*ecs.RegisterTaskDefinitionOutput, error) {
	var out ecs.RegisterTaskDefinitionOutput
	err := e.kernel.Change(func(now time.Time) error {
		d, err := e.newDefinition(in, now)
		if err != nil {
			return err
		}
		fam := e.families[*d.Def.Family]
		if fam == nil {
			fam = &family{name: *d.Def.Family}
			e.families[fam.name] = fam
		}
		fam.latest++
		d.Def.Revision = int32(fam.latest)
		d.Def.TaskDefinitionArn = new(e.kernel.Account.ARN("task-definition", d.name()))
		fam.revisions = append(fam.revisions, d)
		e.kernel.SaveRow(fam)
		e.kernel.SaveRow(d)
		out.TaskDefinition, out.Tags = new(d.Def), d.Tags
		return nil
	})
	return &out, err
}

// A describedDefinition is the input of RegisterTaskDefinition with what only an answer has. Some
// clients describe a task definition, change it, and send all of it; ECS ignores the rest.
type describedDefinition struct {
	ecs.RegisterTaskDefinitionInput

	TaskDefinitionArn, Revision, Status, RequiresAttributes, Compatibilities json.RawMessage
	RegisteredAt, RegisteredBy, DeregisteredAt, DeleteRequestedAt            json.RawMessage
}

// registerAgain is [Definitions.RegisterTaskDefinition] as ECS's endpoint takes it. What is wrong
// with a definition is a ClientException.
func (e *Definitions) registerAgain(
	ctx context.Context, in *describedDefinition,
) (*ecs.RegisterTaskDefinitionOutput, error) {
	if err := checkValues(&in.RegisterTaskDefinitionInput, cluster.CodeClient); err != nil {
		return nil, err
	}
	return e.RegisterTaskDefinition(ctx, &in.RegisterTaskDefinitionInput)
}

// DescribeDefinition is DescribeTaskDefinition of the ECS API. The Go face has a method of that
// name ([Service.DescribeTaskDefinition]).
func (e *Definitions) DescribeDefinition(
	_ context.Context, in *ecs.DescribeTaskDefinitionInput,
) (*ecs.DescribeTaskDefinitionOutput, error) {
	var out ecs.DescribeTaskDefinitionOutput
	err := e.kernel.View(func(time.Time) error {
		d := e.findDefinition(value(in.TaskDefinition))
		if d == nil {
			return definitionNotFound()
		}
		out.TaskDefinition = new(d.Def)
		if slices.Contains(in.Include, types.TaskDefinitionFieldTags) {
			out.Tags = d.Tags
		}
		return nil
	})
	return &out, err
}

// ListTaskDefinitions lists revisions by family, then by revision, ACTIVE ones unless the input has
// another status.
func (e *Definitions) ListTaskDefinitions(
	_ context.Context, in *ecs.ListTaskDefinitionsInput,
) (*ecs.ListTaskDefinitionsOutput, error) {
	status := in.Status
	if status == "" {
		status = types.TaskDefinitionStatusActive
	}
	var out ecs.ListTaskDefinitionsOutput
	err := e.kernel.View(func(time.Time) (err error) {
		arns := map[string]string{}
		for name, fam := range e.families {
			if value(in.FamilyPrefix) != "" && name != *in.FamilyPrefix {
				continue
			}
			for _, d := range fam.revisions {
				if d.Def.Status == status {
					arns[fmt.Sprintf("%s %09d", name, d.Def.Revision)] = *d.Def.TaskDefinitionArn
				}
			}
		}
		out.TaskDefinitionArns, out.NextToken, err = pageOfFound("ListTaskDefinitions", arns, in.NextToken,
			in.MaxResults,
			in.Sort == types.SortOrderDesc)
		return err
	})
	return &out, err
}

// ListTaskDefinitionFamilies lists all families, or only those with an ACTIVE revision, or without one.
func (e *Definitions) ListTaskDefinitionFamilies(
	_ context.Context, in *ecs.ListTaskDefinitionFamiliesInput,
) (*ecs.ListTaskDefinitionFamiliesOutput, error) {
	var out ecs.ListTaskDefinitionFamiliesOutput
	err := e.kernel.View(func(time.Time) (err error) {
		var names []string
		for name, fam := range e.families {
			active := slices.ContainsFunc(fam.revisions, (*definition).isActive)
			wanted := true
			switch in.Status {
			case types.TaskDefinitionFamilyStatusActive:
				wanted = active
			case types.TaskDefinitionFamilyStatusInactive:
				wanted = !active
			}
			if wanted && len(fam.revisions) > 0 && strings.HasPrefix(name, value(in.FamilyPrefix)) {
				names = append(names, name)
			}
		}
		out.Families, out.NextToken, err = pageAfterToken("ListTaskDefinitionFamilies", names, in.NextToken,
			in.MaxResults, false)
		return err
	})
	return &out, err
}

// DeregisterTaskDefinition makes a revision INACTIVE. New tasks cannot use it; running ones go on.
func (e *Definitions) DeregisterTaskDefinition(
	_ context.Context, in *ecs.DeregisterTaskDefinitionInput,
) (*ecs.DeregisterTaskDefinitionOutput, error) {
	var out ecs.DeregisterTaskDefinitionOutput
	err := e.kernel.Change(func(now time.Time) error {
		if !strings.Contains(cluster.LastPart(value(in.TaskDefinition)), ":") {
			return clientError("Revision is missing.")
		}
		d := e.findDefinition(*in.TaskDefinition)
		if d == nil {
			return definitionNotFound()
		}
		if d.isActive() {
			d.Def.Status, d.Def.DeregisteredAt = types.TaskDefinitionStatusInactive, &now
			e.kernel.SaveRow(d)
		}
		out.TaskDefinition = new(d.Def)
		return nil
	})
	return &out, err
}

// maxDeleteDefinitions is how many revisions one call can delete.
const maxDeleteDefinitions = 10

// DeleteTaskDefinitions deletes INACTIVE revisions: at once, or when the last task that uses one is
// no longer visible. Until then the revision is DELETE_IN_PROGRESS and starts nothing. ACTIVE ones
// are failures of the call.
func (e *Definitions) DeleteTaskDefinitions(
	_ context.Context, in *ecs.DeleteTaskDefinitionsInput,
) (*ecs.DeleteTaskDefinitionsOutput, error) {
	if len(in.TaskDefinitions) == 0 || len(in.TaskDefinitions) > maxDeleteDefinitions {
		return nil, invalidParameter("Task definitions must have 1 to %d items.", maxDeleteDefinitions)
	}
	var out ecs.DeleteTaskDefinitionsOutput
	err := e.kernel.Change(func(now time.Time) error {
		for _, name := range in.TaskDefinitions {
			d := e.findDefinition(name)
			switch {
			case !strings.Contains(cluster.LastPart(name), ":"):
				out.Failures = append(out.Failures, types.Failure{Arn: new(name),
					Reason: new(
						"The specified task definition identifier is invalid. Specify a valid name or ARN and try " +
							"again.")})
			case d == nil:
				out.Failures = append(out.Failures, types.Failure{Arn: new(name),
					Reason: new(
						"The specified task definition does not exist. Specify a valid account, family, revision " +
							"and try again.")})
			case d.isActive():
				out.Failures = append(out.Failures, types.Failure{Arn: d.Def.TaskDefinitionArn,
					Reason: new(
						"The specified task definition is still in ACTIVE status. Please deregister the target and " +
							"try again.")})
			default:
				d.Def.Status, d.Def.DeleteRequestedAt = types.TaskDefinitionStatusDeleteInProgress, &now
				out.TaskDefinitions = append(out.TaskDefinitions, d.Def)
				e.kernel.SaveRow(d)
				e.deleteUnusedDefinition(d)
			}
		}
		return nil
	})
	return &out, err
}

// definitionCalls ends task definitions as Berth's functions ask for it.
type definitionCalls struct{ definitions *Definitions }

// DeregisterTaskDefinition makes a revision (family:revision) INACTIVE.
func (c definitionCalls) DeregisterTaskDefinition(ctx context.Context, name string) error {
	if err := c.definitions.kernel.FaultOfCall("DeregisterTaskDefinition", name); err != nil {
		return err
	}
	_, err := c.definitions.DeregisterTaskDefinition(ctx, &ecs.DeregisterTaskDefinitionInput{TaskDefinition: &name})
	return err
}

// DeleteTaskDefinition deletes an INACTIVE revision (family:revision).
func (c definitionCalls) DeleteTaskDefinition(ctx context.Context, name string) error {
	if err := c.definitions.kernel.FaultOfCall("DeleteTaskDefinitions", name); err != nil {
		return err
	}
	out, err := c.definitions.DeleteTaskDefinitions(ctx,
		&ecs.DeleteTaskDefinitionsInput{TaskDefinitions: []string{name}})
	if err == nil && len(out.Failures) > 0 {
		return clientError("%s", *out.Failures[0].Reason)
	}
	return err
}
