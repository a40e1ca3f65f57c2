package ecsapi

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/wire/awsjson"
	"berth/shared/wire/input"
	"berth/shared/wire/shape"
)

// deploymentOperations answers the operations on service deployments and revisions, which are
// Berth's own (S8).
type deploymentOperations struct {
	input.References
	deployments Deployments
	definitions *taskDefinitions
}

func (o *deploymentOperations) operations() map[string]awsjson.Operation {
	return map[string]awsjson.Operation{
		"ListServiceDeployments":     awsjson.TypedOperation(o.listServiceDeployments),
		"DescribeServiceDeployments": awsjson.TypedOperation(o.describeServiceDeployments),
		"StopServiceDeployment":      awsjson.TypedOperation(o.stopServiceDeployment),
		"DescribeServiceRevisions":   awsjson.TypedOperation(o.describeServiceRevisions),
	}
}

// pageReleases is how many service deployments a page has unless the caller says otherwise.
const pageReleases = 20

// listDeploymentsInput is the SDK's input with times that encoding/json can read: the protocol
// writes them as seconds.
type listDeploymentsInput struct {
	ecs.ListServiceDeploymentsInput
	CreatedAt *struct{ After, Before seconds }
}

// A seconds is a time as callers write it: seconds since 1970, with or without a fraction.
type seconds struct{ time.Time }

// maxSeconds is the end of the year 9999, later than anything can have been created.
const maxSeconds = 253402300799

// UnmarshalJSON reads a number, rounded to milliseconds as in the protocol; null is the zero time.
func (t *seconds) UnmarshalJSON(data []byte) error {
	var n *float64
	if err := json.Unmarshal(data, &n); err != nil || n == nil {
		return err
	}
	if *n < 0 || *n > maxSeconds {
		return &json.UnmarshalTypeError{Value: "number " + string(data)}
	}
	t.Time = time.UnixMilli(int64(math.Round(*n * 1000))).UTC() // the protocol has milliseconds
	return nil
}

// listServiceDeployments answers with a page of a service's deployments, newest first. Bounds of
// the creation time include the times named.
func (o *deploymentOperations) listServiceDeployments(
	ctx context.Context, in *listDeploymentsInput,
) (*ecs.ListServiceDeploymentsOutput, error) {
	var q operation.ListServiceDeployments
	var err error
	if q.Cluster, q.Service, err = o.ReadService(in.Cluster, in.Service); err != nil {
		return nil, err
	}
	if q.Limit, err = input.PageSize(in.MaxResults, pageReleases); err != nil {
		return nil, err
	}
	for _, status := range in.Status {
		if err := input.CheckOneOf("status", status); err != nil {
			return nil, err
		}
		q.Statuses = append(q.Statuses, cluster.ServiceDeploymentStatus(status))
	}
	if c := in.CreatedAt; c != nil {
		if q.From, q.To = c.After.Time, c.Before.Time; !q.To.IsZero() && q.To.Before(q.From) {
			return nil, input.Invalid("createdAt.before must not be earlier than createdAt.after.")
		}
	}
	list := "deployments of " + q.Cluster + "/" + q.Service
	if q.After, err = input.PageStart(list, input.Value(in.NextToken)); err != nil {
		return nil, err
	}
	found, more, err := o.deployments.ListServiceDeployments(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &ecs.ListServiceDeploymentsOutput{ServiceDeployments: shape.ConvertEach(found,
		func(d *operation.ReleaseDetail) types.ServiceDeploymentBrief {
			return deploymentBrief(o.Account, d)
		})}
	if more {
		out.NextToken = new(input.PageToken(list, found[len(found)-1].ID))
	}
	return out, nil
}

// describeServiceDeployments answers with the service deployments named by ARN.
func (o *deploymentOperations) describeServiceDeployments(
	ctx context.Context, in *ecs.DescribeServiceDeploymentsInput,
) (*ecs.DescribeServiceDeploymentsOutput, error) {
	refs, err := o.ReadRecords("serviceDeploymentArns", kindRelease, in.ServiceDeploymentArns)
	if err != nil {
		return nil, err
	}
	found, missing, err := o.deployments.DescribeServiceDeployments(ctx, refs)
	if err != nil {
		return nil, err
	}
	shapes := shape.ConvertEach(found,
		func(d *operation.ReleaseDetail) types.ServiceDeployment { return releaseShape(o.Account, d) })
	return &ecs.DescribeServiceDeploymentsOutput{ServiceDeployments: shapes,
		Failures: missingRecords(o.Account, kindRelease, missing)}, nil
}

// stopServiceDeployment requests a rollback, ECS's default, or an abort. The answer says only that
// the request was recorded.
func (o *deploymentOperations) stopServiceDeployment(
	ctx context.Context, in *ecs.StopServiceDeploymentInput,
) (*ecs.StopServiceDeploymentOutput, error) {
	if err := input.CheckRequired("serviceDeploymentArn", in.ServiceDeploymentArn); err != nil {
		return nil, err
	}
	ref, err := o.ReadRecord(kindRelease, *in.ServiceDeploymentArn)
	if err != nil {
		return nil, err
	}
	if err := input.CheckOneOf("stopType", in.StopType); err != nil {
		return nil, err
	}
	how := cluster.StopRollback // ECS's default
	if in.StopType != "" {
		how = cluster.StopType(in.StopType)
	}
	return &ecs.StopServiceDeploymentOutput{ServiceDeploymentArn: in.ServiceDeploymentArn},
		o.deployments.StopServiceDeployment(ctx, ref, how)
}

// describeServiceRevisions answers with the service revisions named by ARN.
func (o *deploymentOperations) describeServiceRevisions(
	ctx context.Context, in *ecs.DescribeServiceRevisionsInput,
) (*ecs.DescribeServiceRevisionsOutput, error) {
	refs, err := o.ReadRecords("serviceRevisionArns", kindRevision, in.ServiceRevisionArns)
	if err != nil {
		return nil, err
	}
	found, missing, err := o.deployments.DescribeServiceRevisions(ctx, refs)
	if err != nil {
		return nil, err
	}
	shapes := shape.ConvertEach(found, func(r *operation.RevisionDetail) types.ServiceRevision {
		return o.revisionShape(ctx, r)
	})
	return &ecs.DescribeServiceRevisionsOutput{ServiceRevisions: shapes,
		Failures: missingRecords(o.Account, kindRevision, missing)}, nil
}

// revisionShape returns a service revision as DescribeServiceRevisions shows it. The images come
// from the task definition at ECS; they are left out if ECS does not answer.
func (o *deploymentOperations) revisionShape(ctx context.Context, r *operation.RevisionDetail) types.ServiceRevision {
	v := r.Service
	out := types.ServiceRevision{
		ServiceRevisionArn: new(revisionARN(o.Account, v, r.IDDigits())),
		ServiceArn:         new(o.Account.ARN("service", v.Cluster, v.Name)),
		ClusterArn:         new(o.Account.ARN("cluster", v.Cluster)),
		TaskDefinition:     new(o.Account.ARN("task-definition", r.TaskDefinition)),
		CreatedAt:          shape.TimeOrNil(r.CreatedAt), LoadBalancers: loadBalancerShapes(r.LoadBalancers),
		ServiceRegistries:    registryShapes(r.Registries),
		NetworkConfiguration: shape.NetworkShape(r.Network), ContainerImages: []types.ContainerImage{},
		VolumeConfigurations: shape.ServiceVolumeShapes(r.Volumes),
	}
	out.LaunchType, out.CapacityProviderStrategy = launchShape(v, r.Providers)
	d, err := o.definitions.cachedDefinition(ctx, r.TaskDefinition)
	if err != nil {
		return out
	}
	out.ContainerImages = shape.ConvertEach(d.ContainerDefinitions,
		func(c types.ContainerDefinition) types.ContainerImage {
			return types.ContainerImage{ContainerName: c.Name, Image: c.Image}
		})
	return out
}
