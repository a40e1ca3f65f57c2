package wire_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/operation"
)

// deployed returns a service web with the current service deployment d1 and two earlier ones.
func deployed(t *testing.T) *berth {
	t.Helper()
	b := newBerth(t)
	b.create(t)
	s := b.scheduler.services["prod/web"].Service
	s.Older = []cluster.Deployment{{Revision: cluster.Revision{ID: "ecs-svc/1111111111111111111"}, Desired: 3, Running: 2, Pending: 1}}
	add := func(r cluster.Release) {
		b.scheduler.releases = append(b.scheduler.releases, &operation.ReleaseDetail{
			Release: r, Service: s, Configuration: s.DeploymentConfiguration(),
		})
	}
	add(cluster.Release{
		ID: "d1", Status: cluster.DeploymentRollbackInProgress, Reason: "why", CreatedAt: noon,
		StartedAt: after(time.Second), UpdatedAt: after(time.Minute), Target: "ecs-svc/1234567890123456789",
		Sources: []string{"ecs-svc/1111111111111111111"}, Breaker: true,
		Alarms: []string{"errors", "latency"},
		ReleaseResult: cluster.ReleaseResult{
			Requested: 4, Running: 1, Pending: 2, Failures: 3, Threshold: 3, Tripped: true,
			Triggered: []string{"latency"}, RollbackTo: "ecs-svc/1111111111111111111", RollbackReason: "because",
			RollbackAt: after(time.Minute),
		},
	})
	add(cluster.Release{ID: "d2", Status: cluster.DeploymentSuccessful, CreatedAt: noon, FinishedAt: after(time.Hour), Target: "ecs-svc/1111111111111111111", Breaker: true})
	add(cluster.Release{ID: "d3", Status: cluster.DeploymentPending, CreatedAt: noon, Target: "ecs-svc/1111111111111111111", Alarms: []string{"errors"}})
	return b
}

func releaseARN(id string) string  { return account.ARN("service-deployment", "prod", "web", id) }
func revisionARN(id string) string { return account.ARN("service-revision", "prod", "web", id) }

func TestDescribeServiceDeployments(t *testing.T) {
	b := deployed(t)
	out := must(b.DescribeServiceDeployments(t.Context(), &ecs.DescribeServiceDeploymentsInput{
		ServiceDeploymentArns: []string{releaseARN("d1"), releaseARN("none"), releaseARN("d2"), releaseARN("d3")},
	}))(t)
	expect(t, "failures", out.Failures, []types.Failure{{Arn: new(releaseARN("none")), Reason: new("MISSING")}})
	started, updated := after(time.Second), after(time.Minute)
	expect(t, "deployment", out.ServiceDeployments[0], types.ServiceDeployment{
		ServiceDeploymentArn: new(releaseARN("d1")), ServiceArn: new(account.ARN("service", "prod", "web")), ClusterArn: new(account.ARN("cluster", "prod")),
		Status: types.ServiceDeploymentStatusRollbackInProgress, StatusReason: new("why"), CreatedAt: &noon, StartedAt: &started, UpdatedAt: &updated,
		DeploymentConfiguration: &types.DeploymentConfiguration{
			MaximumPercent: new(int32(200)), MinimumHealthyPercent: new(int32(100)), Strategy: types.DeploymentStrategyRolling,
			DeploymentCircuitBreaker: &types.DeploymentCircuitBreaker{ResetOnHealthyTask: new(true)},
		},
		TargetServiceRevision:    &types.ServiceRevisionSummary{Arn: new(revisionARN("1234567890123456789")), RequestedTaskCount: 4, RunningTaskCount: 1, PendingTaskCount: 2},
		SourceServiceRevisions:   []types.ServiceRevisionSummary{{Arn: new(revisionARN("1111111111111111111")), RequestedTaskCount: 3, RunningTaskCount: 2, PendingTaskCount: 1}},
		DeploymentCircuitBreaker: &types.ServiceDeploymentCircuitBreaker{Status: types.ServiceDeploymentRollbackMonitorsStatusTriggered, FailureCount: 3, Threshold: 3},
		Alarms: &types.ServiceDeploymentAlarms{
			Status: types.ServiceDeploymentRollbackMonitorsStatusTriggered, AlarmNames: []string{"errors", "latency"}, TriggeredAlarmNames: []string{"latency"},
		},
		Rollback: &types.Rollback{Reason: new("because"), StartedAt: &updated, ServiceRevisionArn: new(revisionARN("1111111111111111111"))},
	})
	done, pending := out.ServiceDeployments[1], out.ServiceDeployments[2]
	expect(t, "breaker of one that has ended", done.DeploymentCircuitBreaker.Status, types.ServiceDeploymentRollbackMonitorsStatusMonitoringComplete)
	expect(t, "alarms where there are none", done.Alarms.Status, types.ServiceDeploymentRollbackMonitorsStatusDisabled)
	expect(t, "alarms that are watched", pending.Alarms.Status, types.ServiceDeploymentRollbackMonitorsStatusMonitoring)
	expect(t, "breaker that is off", pending.DeploymentCircuitBreaker.Status, types.ServiceDeploymentRollbackMonitorsStatusDisabled)
}

func TestListServiceDeployments(t *testing.T) {
	b := deployed(t)
	var ids []string
	pages := 0
	in := &ecs.ListServiceDeploymentsInput{Cluster: new("prod"), Service: new("web"), MaxResults: new(int32(2))}
	for more := true; more; pages++ {
		page := must(b.ListServiceDeployments(t.Context(), in))(t)
		for _, d := range page.ServiceDeployments {
			ids = append(ids, cluster.LastPart(*d.ServiceDeploymentArn))
		}
		in.NextToken, more = page.NextToken, page.NextToken != nil
	}
	expect(t, "deployments", ids, []string{"d1", "d2", "d3"})
	expect(t, "pages", pages, 2)
	from, to := after(-time.Minute), after(500*time.Millisecond)
	out := must(b.ListServiceDeployments(t.Context(), &ecs.ListServiceDeploymentsInput{
		Cluster: new("prod"), Service: new(account.ARN("service", "prod", "web")), Status: []types.ServiceDeploymentStatus{types.ServiceDeploymentStatusSuccessful},
		CreatedAt: &types.CreatedAt{After: &from, Before: &to},
	}))(t)
	ended := after(time.Hour)
	expect(t, "found", out.ServiceDeployments, []types.ServiceDeploymentBrief{{
		ServiceDeploymentArn: new(releaseARN("d2")), ServiceArn: new(account.ARN("service", "prod", "web")), ClusterArn: new(account.ARN("cluster", "prod")),
		Status: types.ServiceDeploymentStatusSuccessful, CreatedAt: &noon, FinishedAt: &ended, TargetServiceRevisionArn: new(revisionARN("1111111111111111111")),
	}})
	q := b.scheduler.lastList
	expect(t, "times", []bool{q.From.Equal(from), q.To.Equal(to)}, []bool{true, true})
	expect(t, "page", q.Limit, 20)
}

// Terraform finds the service deployment of a deployment by the digits in the revision's ARN, and
// waits for it.
func TestDeploymentIsFoundByItsDigits(t *testing.T) {
	b := deployed(t)
	s := must(b.DescribeServices(t.Context(), &ecs.DescribeServicesInput{Cluster: new("prod"), Services: []string{"web"}}))(t).Services[0]
	n := slices.IndexFunc(s.Deployments, func(d types.Deployment) bool { return *d.Status == "PRIMARY" })
	digits := strings.TrimPrefix(*s.Deployments[n].Id, "ecs-svc/")
	out := must(b.ListServiceDeployments(t.Context(), &ecs.ListServiceDeploymentsInput{Cluster: new("prod"), Service: new("web")}))(t)
	at := slices.IndexFunc(out.ServiceDeployments, func(d types.ServiceDeploymentBrief) bool {
		return strings.Contains(*d.TargetServiceRevisionArn, digits)
	})
	expect(t, "deployment", *out.ServiceDeployments[at].ServiceDeploymentArn, releaseARN("d1"))
	expect(t, "controller", s.DeploymentController.Type, types.DeploymentControllerTypeEcs)
}

func TestStopServiceDeployment(t *testing.T) {
	b := deployed(t)
	out := must(b.StopServiceDeployment(t.Context(), &ecs.StopServiceDeploymentInput{ServiceDeploymentArn: new(releaseARN("d1"))}))(t)
	expect(t, "answer", *out.ServiceDeploymentArn, releaseARN("d1"))
	must(b.StopServiceDeployment(t.Context(), &ecs.StopServiceDeploymentInput{ServiceDeploymentArn: new(releaseARN("d2")), StopType: types.StopServiceDeploymentStopTypeAbort}))(t)
	expect(t, "stopped", b.scheduler.stopped, []string{"prod/web/d1 ROLLBACK", "prod/web/d2 ABORT"})
	_, err := b.StopServiceDeployment(t.Context(), &ecs.StopServiceDeploymentInput{ServiceDeploymentArn: new(releaseARN("none"))})
	refused(t, err, "ServiceDeploymentNotFoundException", "Service deployment not found.")
}

func TestDescribeServiceRevisions(t *testing.T) {
	b := deployed(t)
	s := b.scheduler.services["prod/web"].Service
	b.scheduler.revisions = []*operation.RevisionDetail{{Service: s, Revision: cluster.Revision{
		ID: "ecs-svc/1234567890123456789", CreatedAt: noon, TaskDefinition: "shop:3", Network: &cluster.Network{Subnets: []string{"subnet-1"}},
		LoadBalancers: []cluster.LoadBalancer{{TargetGroup: targetGroup, Container: "app", Port: 80}}, Registries: []cluster.Registry{{ARN: registryARN, Port: 53}},
	}}}
	out := must(b.DescribeServiceRevisions(t.Context(), &ecs.DescribeServiceRevisionsInput{ServiceRevisionArns: []string{revisionARN("1234567890123456789"), revisionARN("1")}}))(t)
	expect(t, "failures", out.Failures, []types.Failure{{Arn: new(revisionARN("1")), Reason: new("MISSING")}})
	expect(t, "revision", out.ServiceRevisions[0], types.ServiceRevision{
		ServiceRevisionArn: new(revisionARN("1234567890123456789")), ServiceArn: new(account.ARN("service", "prod", "web")), ClusterArn: new(account.ARN("cluster", "prod")),
		TaskDefinition: new(account.ARN("task-definition", "shop:3")), CreatedAt: &noon, LaunchType: types.LaunchTypeEc2,
		LoadBalancers:     []types.LoadBalancer{{TargetGroupArn: new(targetGroup), ContainerName: new("app"), ContainerPort: new(int32(80))}},
		ServiceRegistries: []types.ServiceRegistry{{RegistryArn: new(registryARN), Port: new(int32(53))}},
		NetworkConfiguration: &types.NetworkConfiguration{AwsvpcConfiguration: &types.AwsVpcConfiguration{
			Subnets: []string{"subnet-1"}, AssignPublicIp: types.AssignPublicIpDisabled,
		}},
		ContainerImages: []types.ContainerImage{{ContainerName: new("app"), Image: new("shop")}, {ContainerName: new("log"), Image: new("log")}},
	})
}

func TestTaskProtection(t *testing.T) {
	b := newBerth(t)
	for range 2 {
		must(b.RunTask(t.Context(), &ecs.RunTaskInput{Cluster: new("prod"), TaskDefinition: new("shop")}))(t)
	}
	id, other := b.scheduler.tasks[0].ID, b.scheduler.tasks[1].ID
	nobody := strings.Repeat("0", 32)
	arn := func(id string) *string { return new(account.ARN("task", "prod", id)) }
	protect := func(on bool, minutes *int32) *ecs.UpdateTaskProtectionOutput {
		t.Helper()
		return must(b.UpdateTaskProtection(t.Context(), &ecs.UpdateTaskProtectionInput{
			Cluster: new("prod"), Tasks: []string{id, *arn(id), nobody}, ProtectionEnabled: on, ExpiresInMinutes: minutes,
		}))(t)
	}
	out := protect(true, nil)
	until := after(2 * time.Hour)
	expect(t, "protected", out.ProtectedTasks, []types.ProtectedTask{{TaskArn: arn(id), ProtectionEnabled: true, ExpirationDate: &until}})
	expect(t, "failures", out.Failures, []types.Failure{{Arn: arn(nobody), Reason: new("MISSING")}})
	protect(true, new(int32(2880)))
	got := must(b.GetTaskProtection(t.Context(), &ecs.GetTaskProtectionInput{Cluster: new("prod"), Tasks: []string{id, other}}))(t)
	until = after(48 * time.Hour)
	expect(t, "state", got.ProtectedTasks, []types.ProtectedTask{{TaskArn: arn(id), ProtectionEnabled: true, ExpirationDate: &until}, {TaskArn: arn(other)}})
	expect(t, "taken back", protect(false, nil).ProtectedTasks, []types.ProtectedTask{{TaskArn: arn(id)}})
}

func TestThrottle(t *testing.T) {
	b := deployed(t)
	s := b.scheduler.services["prod/web"].Service
	s.Older[0].TaskDefinition = "shop:2"
	_, none := b.own(t, "DescribeServiceThrottle", `{"cluster":"prod","service":"web"}`)
	expect(t, "without failures", none, map[string]any{"service": "web", "revisions": []any{}})
	b.scheduler.throttle = &cluster.Throttle{Revisions: map[string]cluster.Backoff{
		s.Deployment.ID:        {Step: 2, Failures: 5, Since: noon, NextAttemptAt: after(3 * time.Minute), Reason: "CannotPullContainerError"},
		"ecs-svc/gone":         {Step: 4, Failures: 9},
		s.Older[0].IDDigits():  {Step: 1},
		s.Older[0].Revision.ID: {Step: 1, Failures: 1, Since: noon, NextAttemptAt: after(time.Minute)},
	}}
	_, out := b.own(t, "DescribeServiceThrottle", `{"cluster":"prod","service":"web"}`)
	at := func(d time.Duration) string { return after(d).UTC().Format(time.RFC3339Nano) }
	expect(t, "throttle", out["revisions"], any([]any{
		map[string]any{
			"deploymentId": s.Deployment.ID, "status": "PRIMARY", "taskDefinition": "shop:3", "step": 2.0, "failures": 5.0,
			"since": at(0), "nextAttemptAt": at(3 * time.Minute), "reason": "CannotPullContainerError",
		},
		map[string]any{
			"deploymentId": s.Older[0].ID, "status": "ACTIVE", "taskDefinition": "shop:2", "step": 1.0, "failures": 1.0,
			"since": at(0), "nextAttemptAt": at(time.Minute),
		},
	}))
	_, missing := b.own(t, "DescribeServiceThrottle", `{"cluster":"prod","service":"nobody"}`)
	expect(t, "missing", missing["__type"], any("ServiceNotFoundException"))
}
