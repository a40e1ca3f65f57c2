package wire

import (
	"context"
	"encoding/json"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
)

// The kinds of ARN of service deployments and revisions; both have the cluster and the service before the id.
const (
	kindRelease  = "service-deployment"
	kindRevision = "service-revision"
)

// maxRecords is how many ARNs DescribeServiceDeployments and DescribeServiceRevisions take, pageReleases ECS's own page of
// ListServiceDeployments.
const (
	maxRecords   = 20
	pageReleases = 20
)

var recordIDs = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (s *server) releaseARN(v *cluster.Service, id string) string {
	return s.account.ARN(kindRelease, v.Cluster, v.Name, id)
}

func (s *server) revisionARN(v *cluster.Service, digits string) string {
	return s.account.ARN(kindRevision, v.Cluster, v.Name, digits)
}

// record reads the ARN of a service deployment or revision.
func (r references) record(kind, ref string) (out cluster.RecordRef, err error) {
	arn, err := r.arn(ref)
	if err != nil {
		return out, err
	}
	parts := strings.Split(arn.Name, "/")
	if arn.Kind != kind || len(parts) != 3 || !names.MatchString(parts[0]) || !names.MatchString(parts[1]) || !recordIDs.MatchString(parts[2]) {
		return out, invalid("Invalid identifier: %.300s is not the ARN of a %s.", ref, kind)
	}
	return cluster.RecordRef{Cluster: parts[0], Service: parts[1], ID: parts[2]}, nil
}

func (r references) records(member, kind string, refs []string) (out []cluster.RecordRef, err error) {
	if err := count(member, len(refs), maxRecords); err != nil {
		return nil, err
	}
	for _, ref := range refs {
		one, err := r.record(kind, ref)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// listDeploymentsInput is the SDK's input with times as the protocol has them: in seconds.
type listDeploymentsInput struct {
	ecs.ListServiceDeploymentsInput
	CreatedAt *struct{ After, Before seconds }
}

// seconds is a time as callers write it: seconds since 1970, with a fraction or none.
type seconds struct{ time.Time }

// maxSeconds is far beyond anything that was created: the year 9999.
const maxSeconds = 253402300799

// UnmarshalJSON reads a number; null is the zero time.
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

func (s *server) listServiceDeployments(ctx context.Context, in *listDeploymentsInput) (*ecs.ListServiceDeploymentsOutput, error) {
	var q cluster.DeploymentQuery
	var err error
	if q.Cluster, q.Service, err = s.serviceIn(in.Cluster, in.Service); err != nil {
		return nil, err
	}
	if q.Limit, err = limit(in.MaxResults, pageReleases); err != nil {
		return nil, err
	}
	for _, status := range in.Status {
		if err := oneOf("status", status, status.Values()); err != nil {
			return nil, err
		}
		q.Statuses = append(q.Statuses, cluster.ServiceDeploymentStatus(status))
	}
	if c := in.CreatedAt; c != nil {
		if q.From, q.To = c.After.Time, c.Before.Time; !q.To.IsZero() && q.To.Before(q.From) {
			return nil, invalid("createdAt.before must not be earlier than createdAt.after.")
		}
	}
	list := "deployments of " + q.Cluster + "/" + q.Service
	if q.After, err = after(list, in.NextToken); err != nil {
		return nil, err
	}
	found, more, err := s.scheduler.ListServiceDeployments(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &ecs.ListServiceDeploymentsOutput{ServiceDeployments: []types.ServiceDeploymentBrief{}}
	for _, d := range found {
		out.ServiceDeployments = append(out.ServiceDeployments, s.brief(d))
	}
	if more {
		out.NextToken = token(list, found[len(found)-1].ID)
	}
	return out, nil
}

func (s *server) brief(d *cluster.ReleaseDetail) types.ServiceDeploymentBrief {
	full := s.release(d)
	return types.ServiceDeploymentBrief{
		ClusterArn: full.ClusterArn, ServiceArn: full.ServiceArn, ServiceDeploymentArn: full.ServiceDeploymentArn,
		CreatedAt: full.CreatedAt, StartedAt: full.StartedAt, FinishedAt: full.FinishedAt, Status: full.Status, StatusReason: full.StatusReason,
		TargetServiceRevisionArn: full.TargetServiceRevision.Arn,
	}
}

func (s *server) describeServiceDeployments(ctx context.Context, in *ecs.DescribeServiceDeploymentsInput) (*ecs.DescribeServiceDeploymentsOutput, error) {
	refs, err := s.records("serviceDeploymentArns", kindRelease, in.ServiceDeploymentArns)
	if err != nil {
		return nil, err
	}
	found, missing, err := s.scheduler.ServiceDeployments(ctx, refs)
	if err != nil {
		return nil, err
	}
	out := &ecs.DescribeServiceDeploymentsOutput{ServiceDeployments: []types.ServiceDeployment{}, Failures: s.absent(kindRelease, missing)}
	for _, d := range found {
		out.ServiceDeployments = append(out.ServiceDeployments, s.release(d))
	}
	return out, nil
}

// absent are failures of what is named by the last part of its ARN.
func (s *server) absent(kind string, failed []cluster.Failure) []types.Failure {
	out := []types.Failure{}
	for _, f := range failed {
		out = append(out, types.Failure{Arn: new(s.account.ARN(kind, f.ARN)), Reason: text(f.Reason)})
	}
	return out
}

// release is a service deployment as DescribeServiceDeployments shows it.
func (s *server) release(d *cluster.ReleaseDetail) types.ServiceDeployment {
	v := d.Service
	out := types.ServiceDeployment{
		ServiceDeploymentArn: new(s.releaseARN(v, d.ID)), ServiceArn: new(s.account.ARN("service", v.Cluster, v.Name)),
		ClusterArn: new(s.account.ARN("cluster", v.Cluster)), Status: types.ServiceDeploymentStatus(d.Status), StatusReason: text(d.Reason),
		CreatedAt: instant(d.CreatedAt), StartedAt: instant(d.StartedAt), FinishedAt: instant(d.FinishedAt),
		StoppedAt: instant(d.StoppedAt), UpdatedAt: instant(d.UpdatedAt), DeploymentConfiguration: deploymentConfiguration(v),
		SourceServiceRevisions: []types.ServiceRevisionSummary{}, TargetServiceRevision: &types.ServiceRevisionSummary{
			Arn: new(s.revisionARN(v, digits(d.Target))), RequestedTaskCount: int32(d.Requested), RunningTaskCount: int32(d.Running), PendingTaskCount: int32(d.Pending),
		},
		DeploymentCircuitBreaker: &types.ServiceDeploymentCircuitBreaker{
			Status: monitored(d.Breaker, d.Tripped, d.Status.Ended()), FailureCount: int32(d.Failures), Threshold: int32(d.Threshold),
		},
		Alarms: &types.ServiceDeploymentAlarms{
			Status:     monitored(len(d.Release.Alarms) > 0, len(d.Triggered) > 0, d.Status.Ended()),
			AlarmNames: append([]string{}, d.Release.Alarms...), TriggeredAlarmNames: append([]string{}, d.Triggered...),
		},
	}
	for _, id := range d.Sources {
		out.SourceServiceRevisions = append(out.SourceServiceRevisions, s.source(d, id))
	}
	if d.RollbackTo != "" {
		out.Rollback = &types.Rollback{Reason: text(d.RollbackReason), StartedAt: instant(d.RollbackAt), ServiceRevisionArn: new(s.revisionARN(v, digits(d.RollbackTo)))}
	}
	return out
}

// source is a revision that the deployment started from, with the tasks that it still has: again has, where it was gone
// back to.
func (s *server) source(r *cluster.ReleaseDetail, id string) types.ServiceRevisionSummary {
	v := r.Service
	out := types.ServiceRevisionSummary{Arn: new(s.revisionARN(v, digits(id)))}
	if r.Status.Ended() {
		return out
	}
	primary := v.Deployment
	primary.Desired = v.Desired
	for _, d := range append([]cluster.Deployment{primary}, v.Older...) {
		if d.ID == id {
			out.RequestedTaskCount, out.RunningTaskCount, out.PendingTaskCount = int32(d.Desired), int32(d.Running), int32(d.Pending)
		}
	}
	return out
}

func digits(id string) string { return (&cluster.Revision{ID: id}).Digits() }

// monitored is how far what watches over a deployment is.
func monitored(on, triggered, ended bool) types.ServiceDeploymentRollbackMonitorsStatus {
	switch {
	case !on:
		return types.ServiceDeploymentRollbackMonitorsStatusDisabled
	case triggered:
		return types.ServiceDeploymentRollbackMonitorsStatusTriggered
	case ended:
		return types.ServiceDeploymentRollbackMonitorsStatusMonitoringComplete
	}
	return types.ServiceDeploymentRollbackMonitorsStatusMonitoring
}

func (s *server) stopServiceDeployment(ctx context.Context, in *ecs.StopServiceDeploymentInput) (*ecs.StopServiceDeploymentOutput, error) {
	if err := required("serviceDeploymentArn", in.ServiceDeploymentArn); err != nil {
		return nil, err
	}
	ref, err := s.record(kindRelease, *in.ServiceDeploymentArn)
	if err != nil {
		return nil, err
	}
	if err := oneOf("stopType", in.StopType, in.StopType.Values()); err != nil {
		return nil, err
	}
	how := cluster.StopRollback // ECS's default
	if in.StopType != "" {
		how = cluster.StopType(in.StopType)
	}
	return &ecs.StopServiceDeploymentOutput{ServiceDeploymentArn: in.ServiceDeploymentArn}, s.scheduler.StopServiceDeployment(ctx, ref, how)
}

func (s *server) describeServiceRevisions(ctx context.Context, in *ecs.DescribeServiceRevisionsInput) (*ecs.DescribeServiceRevisionsOutput, error) {
	refs, err := s.records("serviceRevisionArns", kindRevision, in.ServiceRevisionArns)
	if err != nil {
		return nil, err
	}
	found, missing, err := s.scheduler.ServiceRevisions(ctx, refs)
	if err != nil {
		return nil, err
	}
	out := &ecs.DescribeServiceRevisionsOutput{ServiceRevisions: []types.ServiceRevision{}, Failures: s.absent(kindRevision, missing)}
	for _, r := range found {
		out.ServiceRevisions = append(out.ServiceRevisions, s.revision(ctx, r))
	}
	return out, nil
}

// revision is a service revision as DescribeServiceRevisions shows it. The images are the task definition's; where ECS does
// not tell them they are left out.
func (s *server) revision(ctx context.Context, r *cluster.RevisionDetail) types.ServiceRevision {
	v := r.Service
	out := types.ServiceRevision{
		ServiceRevisionArn: new(s.revisionARN(v, r.Digits())), ServiceArn: new(s.account.ARN("service", v.Cluster, v.Name)),
		ClusterArn: new(s.account.ARN("cluster", v.Cluster)), TaskDefinition: new(s.account.ARN("task-definition", r.TaskDefinition)),
		CreatedAt: instant(r.CreatedAt), LoadBalancers: loadBalancersOf(r.LoadBalancers), ServiceRegistries: registriesOf(r.Registries),
		NetworkConfiguration: NetworkConfiguration(r.Network), ContainerImages: []types.ContainerImage{},
	}
	out.LaunchType, out.CapacityProviderStrategy = launched(v, r.Providers)
	d, err := s.described(ctx, r.TaskDefinition)
	if err != nil {
		return out
	}
	for _, c := range d.ContainerDefinitions {
		out.ContainerImages = append(out.ContainerImages, types.ContainerImage{ContainerName: c.Name, Image: c.Image})
	}
	return out
}
