package ecsapi

import (
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/wire/shape"
)

// deploymentBrief returns a service deployment as ListServiceDeployments shows it.
func deploymentBrief(account cluster.Account, d *operation.ReleaseDetail) types.ServiceDeploymentBrief {
	full := releaseShape(account, d)
	return types.ServiceDeploymentBrief{
		ClusterArn: full.ClusterArn, ServiceArn: full.ServiceArn, ServiceDeploymentArn: full.ServiceDeploymentArn,
		CreatedAt: full.CreatedAt, StartedAt: full.StartedAt, FinishedAt: full.FinishedAt, Status: full.Status,
		StatusReason: full.StatusReason, TargetServiceRevisionArn: full.TargetServiceRevision.Arn,
	}
}

// missingRecords returns failures with the ARNs that were asked for. kind is the kind of ARN.
func missingRecords(account cluster.Account, kind string, failed []cluster.Failure) []types.Failure {
	return shape.ConvertEach(failed, func(f cluster.Failure) types.Failure {
		return types.Failure{Arn: new(account.ARN(kind, f.ARN)), Reason: shape.TextOrNil(f.Reason)}
	})
}

// releaseShape returns a service deployment as DescribeServiceDeployments shows it. Circuit breaker
// and alarms are shown with how far they are; what the deployment is to reach, in the target
// revision.
func releaseShape(account cluster.Account, d *operation.ReleaseDetail) types.ServiceDeployment {
	v := d.Service
	out := types.ServiceDeployment{
		ServiceDeploymentArn: new(releaseARN(account, v, d.ID)),
		ServiceArn:           new(account.ARN("service", v.Cluster, v.Name)),
		ClusterArn:           new(account.ARN("cluster", v.Cluster)), Status: types.ServiceDeploymentStatus(d.Status),
		StatusReason: shape.TextOrNil(d.Reason), CreatedAt: shape.TimeOrNil(d.CreatedAt),
		StartedAt: shape.TimeOrNil(d.StartedAt), FinishedAt: shape.TimeOrNil(d.FinishedAt),
		StoppedAt: shape.TimeOrNil(d.StoppedAt), UpdatedAt: shape.TimeOrNil(d.UpdatedAt),
		DeploymentConfiguration: deploymentConfigurationShape(&d.Configuration),
		TargetServiceRevision: &types.ServiceRevisionSummary{
			Arn: new(revisionARN(account, v, revisionDigits(d.Target))), RequestedTaskCount: int32(d.Release.Requested),
			RunningTaskCount: int32(d.Release.Running), PendingTaskCount: int32(d.Release.Pending),
		},
		DeploymentCircuitBreaker: &types.ServiceDeploymentCircuitBreaker{
			Status:       monitorStatus(d.Breaker, d.Release.Tripped, d.Status.HasEnded()),
			FailureCount: int32(d.Release.Failures), Threshold: int32(d.Release.Threshold),
		},
		Alarms: &types.ServiceDeploymentAlarms{
			Status: monitorStatus(len(d.Release.Alarms) > 0, len(d.Release.Triggered) > 0,
				d.Status.HasEnded()),
			AlarmNames:          append([]string{}, d.Release.Alarms...),
			TriggeredAlarmNames: append([]string{}, d.Release.Triggered...),
		},
	}
	out.SourceServiceRevisions = shape.ConvertEach(d.Sources,
		func(id string) types.ServiceRevisionSummary { return sourceRevision(account, d, id) })
	if d.Release.RollbackTo != "" {
		out.Rollback = &types.Rollback{Reason: shape.TextOrNil(d.Release.RollbackReason),
			StartedAt:          shape.TimeOrNil(d.Release.RollbackAt),
			ServiceRevisionArn: new(revisionARN(account, v, revisionDigits(d.Release.RollbackTo)))}
	}
	return out
}

// sourceRevision returns a revision that the deployment started from, with the tasks that it still
// has. After a rollback that revision is the PRIMARY one again, and has more than before.
func sourceRevision(account cluster.Account, r *operation.ReleaseDetail, id string) types.ServiceRevisionSummary {
	v := r.Service
	out := types.ServiceRevisionSummary{Arn: new(revisionARN(account, v, revisionDigits(id)))}
	// Once the deployment has ended its revisions may have any number of tasks, for other reasons.
	if r.Status.HasEnded() {
		return out
	}
	// The desired count of the PRIMARY deployment is the service's.
	primary := v.Deployment
	primary.Desired = v.Desired
	for _, d := range append([]cluster.Deployment{primary}, v.Older...) {
		if d.ID == id {
			out.RequestedTaskCount, out.RunningTaskCount, out.PendingTaskCount = int32(d.Desired), int32(d.Running),
				int32(d.Pending)
		}
	}
	return out
}

// revisionDigits returns the digits of a deployment's id that name its revision: 123 of
// ecs-svc/123.
func revisionDigits(id string) string { return (&cluster.Revision{ID: id}).IDDigits() }

// monitorStatus returns the status of a circuit breaker or of alarms in a deployment: whether it is
// on, has triggered, or has ended its watch.
func monitorStatus(on, triggered, ended bool) types.ServiceDeploymentRollbackMonitorsStatus {
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

// Kinds of ARN of service deployments and revisions. Before the id both have the cluster and the
// service.
const (
	kindRelease  = "service-deployment"
	kindRevision = "service-revision"
)

// releaseARN returns the ARN of a service deployment.
func releaseARN(account cluster.Account, v *cluster.Service, id string) string {
	return account.ARN(kindRelease, v.Cluster, v.Name, id)
}

// revisionARN returns the ARN of a service revision.
func revisionARN(account cluster.Account, v *cluster.Service, digits string) string {
	return account.ARN(kindRevision, v.Cluster, v.Name, digits)
}

// deploymentConfigurationShape returns how a service deploys. Parts that were never set are left
// out, but for the circuit breaker, which ECS shows even if it is off.
func deploymentConfigurationShape(v *cluster.DeploymentConfiguration) *types.DeploymentConfiguration {
	out := &types.DeploymentConfiguration{
		MaximumPercent: new(int32(v.MaxPercent)), MinimumHealthyPercent: new(int32(v.MinHealthy)),
		Strategy: types.DeploymentStrategyRolling,
	}
	// ECS shows a circuit breaker that is off, too.
	b := v.Breaker
	out.DeploymentCircuitBreaker = &types.DeploymentCircuitBreaker{Enable: b.Enable, Rollback: b.Rollback,
		ResetOnHealthyTask: new(!b.Cumulative)}
	if b.Type != "" {
		out.DeploymentCircuitBreaker.ThresholdConfiguration = &types.ThresholdConfiguration{
			Type: types.ThresholdType(b.Type), Value: int32(b.Value),
		}
	}
	if e := v.Early; e.Enable {
		out.EarlySuccessCriteria = &types.DeploymentEarlySuccessCriteria{
			Enable: true, HealthyPercent: new(int32(e.Percent)),
			SourceServiceRevisionCleanup: types.ServiceRevisionCleanupBlocking,
		}
		if e.Deferred {
			out.EarlySuccessCriteria.SourceServiceRevisionCleanup = types.ServiceRevisionCleanupDeferred
		}
	}
	if a := v.Alarms; a.Enable || a.Rollback || len(a.Names) > 0 {
		out.Alarms = &types.DeploymentAlarms{AlarmNames: append([]string{}, a.Names...), Enable: a.Enable,
			Rollback: a.Rollback}
	}
	return out
}
