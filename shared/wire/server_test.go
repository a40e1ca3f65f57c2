package wire_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/wire"
	"berth/shared/wire/awsjson"
	"berth/shared/wire/berthapi"
	"berth/shared/wire/ecsapi"
	"berth/shared/wire/transport"
)

// berth is the API server on a scheduler and an ECS of the tests' own, called through the SDK.
type berth struct {
	*ecs.Client
	scheduler *scheduler
	cloud     *cloud
	mux       *wire.Server
}

func newBerth(t *testing.T, change ...func(*wire.ServerOptions)) *berth {
	t.Helper()
	b := &berth{scheduler: newScheduler(), cloud: newCloud()}
	o := serving(b.scheduler, b.cloud)
	for _, f := range change {
		f(&o)
	}
	b.mux = wire.NewServer(o)
	b.Client = client(t, b.mux)
	return b
}

// serving returns the options of an API server with one scheduler and one ECS.
func serving(s *scheduler, c *cloud) wire.ServerOptions {
	return wire.ServerOptions{
		Options: ecsapi.Options{Account: account, ECS: c, Resources: ecsapi.Resources{
			Clusters: s, Services: s, Deployments: s, TaskSets: &taskSets{s}, Tasks: s, TaskProtections: s, Tags: s, CapacityProviders: s,
			ClusterProviders: s, AccountSettings: accountSettings{},
		}},
		Own: berthapi.Resources{Configurations: s, Balances: s, Services: s, Loads: s, Rows: s},
	}
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// create creates a service web of two tasks.
func (b *berth) create(t *testing.T, change ...func(*ecs.CreateServiceInput)) *types.Service {
	t.Helper()
	in := &ecs.CreateServiceInput{Cluster: new("prod"), ServiceName: new("web"), TaskDefinition: new("shop"),
		DesiredCount: new(int32(2))}
	for _, f := range change {
		f(in)
	}
	return must(b.CreateService(t.Context(), in))(t).Service
}

func TestServiceLife(t *testing.T) {
	b := newBerth(t)
	made := b.create(t, func(in *ecs.CreateServiceInput) {
		in.Tags = []types.Tag{{Key: new("team"), Value: new("blue")}}
		in.DeploymentConfiguration = &types.DeploymentConfiguration{MinimumHealthyPercent: new(int32(50)),
			MaximumPercent: new(int32(150))}
	})
	expect(t, "resolved definition", b.scheduler.lastMade.TaskDefinition, "shop:3")
	expect(t, "created", made, &types.Service{
		ServiceArn: new(account.ARN("service", "prod", "web")), ServiceName: new("web"),
		ClusterArn: new(account.ARN("cluster", "prod")),
		Status:     new("ACTIVE"), DesiredCount: 2, LaunchType: types.LaunchTypeEc2,
		TaskDefinition: new(account.ARN("task-definition", "shop:3")),
		DeploymentConfiguration: &types.DeploymentConfiguration{
			MaximumPercent: new(int32(150)), MinimumHealthyPercent: new(int32(50)),
			Strategy:                 types.DeploymentStrategyRolling,
			DeploymentCircuitBreaker: &types.DeploymentCircuitBreaker{ResetOnHealthyTask: new(true)},
		},
		DeploymentController: &types.DeploymentController{Type: types.DeploymentControllerTypeEcs}, CreatedAt: &noon,
		SchedulingStrategy: types.SchedulingStrategyReplica, PropagateTags: types.PropagateTagsNone,
		AvailabilityZoneRebalancing: types.AvailabilityZoneRebalancingDisabled,
		Tags:                        []types.Tag{{Key: new("team"), Value: new("blue")}},
		Deployments: []types.Deployment{{
			Id: new("ecs-svc/1234567890123456789"), Status: new("PRIMARY"),
			TaskDefinition: new(account.ARN("task-definition", "shop:3")),
			DesiredCount:   2, CreatedAt: &noon, UpdatedAt: &noon, LaunchType: types.LaunchTypeEc2,
			RolloutState:       types.DeploymentRolloutStateInProgress,
			RolloutStateReason: new("ECS deployment ecs-svc/1234567890123456789 in progress."),
		}},
		CurrentServiceRevisions: []types.ServiceCurrentRevisionSummary{{
			Arn: new(account.ARN("service-revision", "prod", "web", "1234567890123456789")), RequestedTaskCount: 2,
		}},
	})

	row := b.scheduler.services["prod/web"]
	row.Service.Running, row.Service.Pending, row.Service.Deployment.State, row.Service.Deployment.Failed = 2, 1,
		cluster.RolloutCompleted, 4
	row.EventLog = []*cluster.ServiceEvent{
		{ID: "e2", CreatedAt: after(time.Second), Message: "(service web) has reached a steady state."},
		{ID: "e1", CreatedAt: noon, Message: "m"},
	}
	out := must(b.DescribeServices(t.Context(), &ecs.DescribeServicesInput{
		Cluster: new(account.ARN("cluster", "prod")), Services: []string{*made.ServiceArn, "none"},
	}))(t)
	expect(t, "failures", out.Failures, []types.Failure{{Arn: new(account.ARN("service", "none")),
		Reason: new("MISSING")}})
	got := out.Services[0]
	expect(t, "tags unasked for", got.Tags, []types.Tag(nil))
	expect(t, "counts", []int32{got.DesiredCount, got.RunningCount, got.PendingCount, got.Deployments[0].FailedTasks},
		[]int32{2, 2, 1, 4})
	expect(t, "rollout", got.Deployments[0].RolloutState, types.DeploymentRolloutStateCompleted)
	expect(t, "reason", *got.Deployments[0].RolloutStateReason, "ECS deployment ecs-svc/1234567890123456789 completed.")
	expect(t, "newest event", *got.Events[0].Id, "e2")

	changed := must(b.UpdateService(t.Context(), &ecs.UpdateServiceInput{
		Cluster: new("prod"), Service: made.ServiceArn, DesiredCount: new(int32(0)),
		LoadBalancers: []types.LoadBalancer{},
	}))(t)
	expect(t, "desired", changed.Service.DesiredCount, int32(0))
	gone := must(b.DeleteService(t.Context(), &ecs.DeleteServiceInput{Cluster: new("prod"), Service: new("web")}))(t)
	expect(t, "status", *gone.Service.Status, "DRAINING")
	row.Service.Status = cluster.ServiceInactive
	out = must(b.DescribeServices(t.Context(), &ecs.DescribeServicesInput{Cluster: new("prod"),
		Services: []string{"web"}}))(t)
	expect(t, "deployments of an INACTIVE service", len(out.Services[0].Deployments), 0)
}

// A DAEMON service has no desired count of its own, but waiters compare the count shown with the
// running tasks.
func TestDaemonService(t *testing.T) {
	b := newBerth(t)
	b.create(t, func(in *ecs.CreateServiceInput) {
		in.DesiredCount, in.SchedulingStrategy = nil, types.SchedulingStrategyDaemon
		in.DeploymentConfiguration = &types.DeploymentConfiguration{MaximumPercent: new(int32(100))}
	})
	expect(t, "strategy", b.scheduler.lastMade.Strategy, cluster.Daemon)
	row := b.scheduler.services["prod/web"]
	row.Service.Desired, row.Service.Running, row.Service.Pending = 6, 3, 1
	out := must(b.DescribeServices(t.Context(), &ecs.DescribeServicesInput{Cluster: new("prod"),
		Services: []string{"web"}}))(t)
	expect(t, "desired", out.Services[0].DesiredCount, int32(6))
}

func TestClientTokens(t *testing.T) {
	b := newBerth(t)
	token := func(in *ecs.CreateServiceInput) { in.ClientToken = new("t-1") }
	first := b.create(t, token)
	made := b.scheduler.lastMade.Params
	expect(t, "same again", b.create(t, token), first)
	refusedAgain := &ecs.CreateServiceInput{
		Cluster: new("prod"), ServiceName: new("web"), TaskDefinition: new("shop"), DesiredCount: new(int32(2)),
		ClientToken: new("t-2"),
	}
	if _, err := b.CreateService(t.Context(), refusedAgain); err == nil {
		t.Error("another token made the same service")
	}
	expect(t, "parameters of a service without the token", b.scheduler.lastMade.Params, made)
	_, err := b.CreateService(t.Context(), &ecs.CreateServiceInput{
		Cluster: new("prod"), ServiceName: new("web"), TaskDefinition: new("shop"), DesiredCount: new(int32(3)),
		ClientToken: new("t-1"),
	})
	refused(t, err, "InvalidParameterException", "Creation of service was not idempotent.")

	in := &ecs.RunTaskInput{Cluster: new("prod"), TaskDefinition: new("shop"), ClientToken: new("a")}
	must(b.RunTask(t.Context(), in))(t)
	params := b.scheduler.lastSpec.Params
	in.ClientToken = new("b")
	must(b.RunTask(t.Context(), in))(t)
	expect(t, "parameters without the token", b.scheduler.lastSpec.Params, params)
	in.Group = new("other")
	must(b.RunTask(t.Context(), in))(t)
	if b.scheduler.lastSpec.Params == params || params == "" {
		t.Error("other parameters have the same digest")
	}
}

// The same clientToken gets the same answer, whatever has become of the task definition; ECS is not
// asked.
func TestClientTokens_ComeBeforeAllChecks(t *testing.T) {
	b := newBerth(t)
	token := func(in *ecs.CreateServiceInput) { in.ClientToken = new("t-1") }
	made := b.create(t, token)
	run := &ecs.RunTaskInput{Cluster: new("prod"), TaskDefinition: new("shop"), ClientToken: new("a")}
	tasks := must(b.RunTask(t.Context(), run))(t).Tasks
	b.cloud.down = errors.New("ECS is not to be asked")
	expect(t, "service", b.create(t, token), made)
	again := must(b.RunTask(t.Context(), run))(t).Tasks
	if len(tasks) != 1 || len(again) != 1 || *again[0].TaskArn != *tasks[0].TaskArn {
		t.Errorf("tasks %v, before %v", again, tasks)
	}
}

// A clientToken that comes with other parameters is refused with the ARNs of its tasks, as ECS does.
func TestClientTokens_NameTheirTasks(t *testing.T) {
	b := newBerth(t)
	run := &ecs.RunTaskInput{Cluster: new("prod"), TaskDefinition: new("shop"), ClientToken: new("a"),
		Count: new(int32(2))}
	tasks := must(b.RunTask(t.Context(), run))(t).Tasks
	run.Count = new(int32(1))
	_, err := b.RunTask(t.Context(), run)
	var conflict *types.ConflictException
	if !errors.As(err, &conflict) {
		t.Fatalf("error %v", err)
	}
	expect(t, "resourceIds", conflict.ResourceIds, []string{*tasks[0].TaskArn, *tasks[1].TaskArn})
}

// refused checks that err is an error of the API with the code, and that its message contains has.
func refused(t *testing.T, err error, code, has string) {
	t.Helper()
	var api interface {
		ErrorCode() string
		ErrorMessage() string
	}
	if !errors.As(err, &api) {
		t.Errorf("error %v, want %s with %q", err, code, has)
		return
	}
	if api.ErrorCode() != code || !strings.Contains(api.ErrorMessage(), has) {
		t.Errorf("%s: %s, want %s with %q", api.ErrorCode(), api.ErrorMessage(), code, has)
	}
}

func TestTaskLife(t *testing.T) {
	b := newBerth(t)
	b.scheduler.failures = []cluster.Failure{{ARN: "0a", Reason: "RESOURCE:CPU", Detail: "0/1: 1 insufficient CPU"},
		{Reason: "RESOURCE:GPU"}}
	ran := must(b.RunTask(t.Context(), &ecs.RunTaskInput{
		Cluster: new("prod"), TaskDefinition: new(account.ARN("task-definition", "shop:3")), Count: new(int32(2)),
		StartedBy: new("me"),
		Group:     new("batch"), Tags: []types.Tag{{Key: new("berth:wait"), Value: new("24h")}},
		Overrides: &types.TaskOverride{ContainerOverrides: []types.ContainerOverride{{Name: new("app"),
			Cpu: new(int32(512))}}},
	}))(t)
	expect(t, "wait", b.scheduler.lastSpec.Wait, "24h")
	expect(t, "count", b.scheduler.lastSpec.Count, 2)
	expect(t, "failures", ran.Failures, []types.Failure{
		{Arn: new(account.ARN("container-instance", "prod", "0a")), Reason: new("RESOURCE:CPU"),
			Detail: new("0/1: 1 insufficient CPU")},
		{Reason: new("RESOURCE:GPU")},
	})
	expect(t, "tags", ran.Tasks[0].Tags, []types.Tag{{Key: new("berth:wait"), Value: new("24h")}})
	expect(t, "status", *ran.Tasks[0].LastStatus, "PROVISIONING")

	row := b.scheduler.tasks[0]
	row.Instance, row.ECSID, row.Last, row.Started = "0a", strings.Repeat("e", 32), cluster.TaskRunning,
		cluster.At(after(time.Second))
	row.Health, row.Rev = cluster.Healthy, 5
	arn := account.ARN("task", "prod", row.ID)
	got := must(b.DescribeTasks(t.Context(), &ecs.DescribeTasksInput{Cluster: new("prod"),
		Tasks: []string{arn, row.ECSID}}))(t)
	expect(t, "by its alias", *got.Tasks[1].TaskArn, arn)
	started := after(time.Second)
	want := types.Task{
		TaskArn: &arn, ClusterArn: new(account.ARN("cluster", "prod")), TaskDefinitionArn: shop.TaskDefinitionArn,
		ContainerInstanceArn: new(account.ARN("container-instance", "prod", "0a")), AvailabilityZone: new("eu-west-1a"),
		LastStatus: new("RUNNING"), DesiredStatus: new("RUNNING"), Group: new("batch"), StartedBy: new("me"),
		LaunchType:   types.LaunchTypeEc2,
		HealthStatus: types.HealthStatusHealthy, Cpu: new("256"), Memory: new("512"), CreatedAt: &noon,
		StartedAt: &started, Version: 5,
		Attributes: []types.Attribute{{Name: new("berth.ecs-task-arn"),
			Value: new(account.ARN("task", "prod", row.ECSID))}},
		Overrides: &types.TaskOverride{ContainerOverrides: []types.ContainerOverride{{Name: new("app"),
			Cpu: new(int32(512))}, {Name: new("log")}}},
		Containers: []types.Container{
			{
				Name: new("app"), Image: new("shop"), LastStatus: new("RUNNING"),
				HealthStatus: types.HealthStatusHealthy, Cpu: new("256"),
				Memory: new("512"), TaskArn: &arn, ContainerArn: got.Tasks[0].Containers[0].ContainerArn,
			},
			{
				Name: new("log"), Image: new("log"), LastStatus: new("RUNNING"),
				HealthStatus: types.HealthStatusUnknown, Cpu: new("0"),
				Memory: new("64"), TaskArn: &arn, ContainerArn: got.Tasks[0].Containers[1].ContainerArn,
			},
		},
	}
	expect(t, "task", got.Tasks[0], want)

	stopped := must(b.StopTask(t.Context(), &ecs.StopTaskInput{Cluster: new("prod"), Task: &arn,
		Reason: new(strings.Repeat("十", 255))}))(t)
	expect(t, "stopping", []string{*stopped.Task.LastStatus, *stopped.Task.DesiredStatus,
		*stopped.Task.Containers[0].LastStatus}, []string{"STOPPING", "STOPPED", "RUNNING"})
	row.Last, row.Stopped, row.ExitCode = cluster.TaskStopped, cluster.At(after(time.Minute)), new(3)
	got = must(b.DescribeTasks(t.Context(), &ecs.DescribeTasksInput{
		Cluster: new("prod"), Tasks: []string{row.ID, strings.Repeat("0", 32)},
		Include: []types.TaskField{types.TaskFieldTags},
	}))(t)
	end := got.Tasks[0]
	expect(t, "ended", []string{*end.LastStatus, string(end.StopCode), *end.StoppedReason,
		*end.Containers[1].LastStatus}, []string{"STOPPED", "UserInitiated", strings.Repeat("十", 255), "STOPPED"})
	row.StopCode, b.scheduler.launches = cluster.StopRefused,
		map[string]operation.TaskLaunch{row.ID: {Provider: "spot", External: true}}
	again := must(b.DescribeTasks(t.Context(), &ecs.DescribeTasksInput{Cluster: new("prod"),
		Tasks: []string{row.ID}}))(t)
	expect(t, "refused", again.Tasks[0].StopCode, types.TaskStopCodeTaskFailedToStart)
	expect(t, "capacity provider", *again.Tasks[0].CapacityProviderName, "spot")
	expect(t, "launch type", again.Tasks[0].LaunchType, types.LaunchTypeExternal)
	expect(t, "exit codes", []*int32{end.Containers[0].ExitCode, end.Containers[1].ExitCode},
		[]*int32{new(int32(3)), nil})
	expect(t, "tags", len(end.Tags), 1)
	expect(t, "missing", got.Failures, []types.Failure{{Arn: new(account.ARN("task", "prod", strings.Repeat("0", 32))),
		Reason: new("MISSING")}})
}

// What ECS alone knows of a task is added to what Berth knows; statuses stay Berth's.
func TestTaskAsECSReportsIt(t *testing.T) {
	t.Run("InAnAnswer", func(t *testing.T) { testECSReport(t, false) })
	t.Run("InTheSameProcess", func(t *testing.T) { testECSReport(t, true) })
}

// nearCloud is an ECS in the same process. Of tasks it must not be asked for an encoded answer.
type nearCloud struct{ *cloud }

func (c nearCloud) Forward(ctx context.Context, op string, body []byte) (int, []byte, error) {
	if op == "DescribeTasks" {
		return 0, nil, errors.New("encoded")
	}
	return c.cloud.Forward(ctx, op, body)
}

func (c nearCloud) Ask(ctx context.Context, op string, body []byte) (any, error) {
	return c.mux.AnswerOperation(ctx, op, body)
}

func testECSReport(t *testing.T, near bool) {
	t.Helper()
	b := newBerth(t, func(o *wire.ServerOptions) {
		if near {
			o.ECS = nearCloud{o.ECS.(*cloud)}
		}
	})
	ran := must(b.RunTask(t.Context(), &ecs.RunTaskInput{Cluster: new("prod"), TaskDefinition: new("shop:3")}))(t)
	row := b.scheduler.tasks[0]
	row.Instance, row.ECSID, row.Last, row.ExitCode = "0a", strings.Repeat("e", 32), cluster.TaskStopped, new(1)
	pulled := after(time.Second)
	b.cloud.tasks = []types.Task{{
		TaskArn: new(account.ARN("task", "prod", row.ECSID)), LastStatus: new("RUNNING"),
		Connectivity: types.ConnectivityConnected, ConnectivityAt: &noon, PullStartedAt: &noon, PullStoppedAt: &pulled,
		StoppingAt: &pulled, ExecutionStoppedAt: &pulled,
		Attachments: []types.Attachment{{Type: new("ElasticNetworkInterface")}},
		Containers: []types.Container{{Name: new("app"), ExitCode: new(int32(137)), RuntimeId: new("r"),
			NetworkBindings:   []types.NetworkBinding{{HostPort: new(int32(80))}},
			NetworkInterfaces: []types.NetworkInterface{{PrivateIpv4Address: new("10.0.0.1")}}}},
	}}
	got := must(b.DescribeTasks(t.Context(), &ecs.DescribeTasksInput{Cluster: new("prod"),
		Tasks: []string{*ran.Tasks[0].TaskArn}}))(t).Tasks[0]
	expect(t, "status", *got.LastStatus, "STOPPED")
	expect(t, "connectivity", got.Connectivity, types.ConnectivityConnected)
	expect(t, "times", []*time.Time{got.ConnectivityAt, got.PullStartedAt, got.PullStoppedAt, got.StoppingAt,
		got.ExecutionStoppedAt}, []*time.Time{&noon, &noon, &pulled, &pulled, &pulled})
	expect(t, "attachments", len(got.Attachments), 1)
	app, log := got.Containers[0], got.Containers[1]
	expect(t, "exit code", *app.ExitCode, int32(137))
	expect(t, "runtime id", *app.RuntimeId, "r")
	expect(t, "bindings", len(app.NetworkBindings)+len(app.NetworkInterfaces), 2)
	expect(t, "of the other container", len(log.NetworkBindings)+len(log.NetworkInterfaces), 0)
}

func TestRunTaskTags(t *testing.T) {
	b := newBerth(t)
	must(b.RunTask(t.Context(), &ecs.RunTaskInput{Cluster: new("prod"), TaskDefinition: new("shop:3"),
		EnableECSManagedTags: true, PropagateTags: types.PropagateTagsTaskDefinition}))(t)
	expect(t, "of RunTask", []bool{b.scheduler.lastSpec.ManagedTags, b.scheduler.lastSpec.PropagateTags},
		[]bool{true, true})
	must(b.StartTask(t.Context(), &ecs.StartTaskInput{Cluster: new("prod"), TaskDefinition: new("shop:3"),
		ContainerInstances: []string{"0a"}, PropagateTags: types.PropagateTagsTaskDefinition}))(t)
	expect(t, "of StartTask", []bool{b.scheduler.lastSpec.ManagedTags, b.scheduler.lastSpec.PropagateTags},
		[]bool{false, true})
	_, err := b.RunTask(t.Context(), &ecs.RunTaskInput{Cluster: new("prod"), TaskDefinition: new("shop:3"),
		PropagateTags: types.PropagateTagsService})
	refused(t, err, "InvalidParameterException", "propagateTags SERVICE")
}

func TestStartTask(t *testing.T) {
	b := newBerth(t)
	got := must(b.StartTask(t.Context(), &ecs.StartTaskInput{
		Cluster: new("prod"), TaskDefinition: new("shop:3"),
		ContainerInstances: []string{"0a", account.ARN("container-instance", "prod", "0b")},
	}))(t)
	expect(t, "instances", b.scheduler.lastSpec.Instances, []string{"0a", "0b"})
	expect(t, "kind", b.scheduler.lastSpec.Kind, cluster.StartTask)
	expect(t, "status", *got.Tasks[0].LastStatus, "PENDING")
	expect(t, "container", *got.Tasks[0].Containers[0].LastStatus, "PENDING")
}

// A service's task shows who ECS would say started it. What ECS does not answer is left out and is
// no error.
func TestTaskOfAServiceWithECSDown(t *testing.T) {
	b := newBerth(t)
	id := strings.Repeat("a", 32)
	b.scheduler.tasks = []*cluster.Task{{
		Head: cluster.Head{Cluster: "prod"},
		TaskSpec: cluster.TaskSpec{
			ID: id, Service: "web", Group: "service:web", Revision: "ecs-svc/1", TaskDefinition: "shop:3",
			CreatedAt: cluster.At(noon),
		},
		TaskAssignment: cluster.TaskAssignment{Instance: "0a", Desired: cluster.TaskRunning},
	}}
	b.cloud.down = errors.New("down")
	got := must(b.DescribeTasks(t.Context(), &ecs.DescribeTasksInput{Cluster: new("prod"), Tasks: []string{id}}))(t)
	expect(t, "startedBy", *got.Tasks[0].StartedBy, "ecs-svc/1")
	expect(t, "containers", len(got.Tasks[0].Containers), 0)
	if got.Tasks[0].AvailabilityZone != nil {
		t.Error("a zone, though nobody said which")
	}
}

func TestPages(t *testing.T) {
	b := newBerth(t)
	for n := range 25 {
		b.create(t, func(in *ecs.CreateServiceInput) { in.ServiceName = new(fmt.Sprintf("s%02d", n)) })
	}
	for range 3 {
		must(b.RunTask(t.Context(), &ecs.RunTaskInput{Cluster: new("prod"), TaskDefinition: new("shop"),
			Count: new(int32(10))}))(t)
	}
	t.Run("Services", func(t *testing.T) {
		var all []string
		pages := ecs.NewListServicesPaginator(b.Client, &ecs.ListServicesInput{Cluster: new("prod")})
		for pages.HasMorePages() {
			page := must(pages.NextPage(t.Context()))(t)
			if len(page.ServiceArns) > 10 {
				t.Errorf("a page of %d", len(page.ServiceArns))
			}
			all = append(all, page.ServiceArns...)
		}
		expect(t, "services", len(slices.Compact(all)), 25)
		expect(t, "first", all[0], account.ARN("service", "prod", "s00"))
	})
	t.Run("Tasks", func(t *testing.T) {
		var all []string
		pages := ecs.NewListTasksPaginator(b.Client, &ecs.ListTasksInput{Cluster: new("prod"),
			MaxResults: new(int32(7))})
		for pages.HasMorePages() {
			all = append(all, must(pages.NextPage(t.Context()))(t).TaskArns...)
		}
		expect(t, "tasks", len(slices.Compact(all)), 30)
	})
	t.Run("TokensAreForOneList", func(t *testing.T) {
		page := must(b.ListServices(t.Context(), &ecs.ListServicesInput{Cluster: new("prod")}))(t)
		forged := []byte(*page.NextToken)
		forged[len(forged)-1] ^= 1
		for _, token := range []string{string(forged), "x", "!!", ""} {
			_, err := b.ListServices(t.Context(), &ecs.ListServicesInput{Cluster: new("prod"), NextToken: &token})
			if token == "" {
				expect(t, "no token", err, nil)
				continue
			}
			refused(t, err, "InvalidParameterException", "Invalid token")
		}
		_, err := b.ListServices(t.Context(), &ecs.ListServicesInput{NextToken: page.NextToken})
		refused(t, err, "InvalidParameterException", "Invalid token")
		_, err = b.ListTasks(t.Context(), &ecs.ListTasksInput{Cluster: new("prod"), NextToken: page.NextToken})
		refused(t, err, "InvalidParameterException", "Invalid token")
	})
	t.Run("NotForAnotherKind", func(t *testing.T) {
		got := must(b.ListTasks(t.Context(), &ecs.ListTasksInput{Cluster: new("prod"),
			DesiredStatus: types.DesiredStatusPending}))(t)
		expect(t, "PENDING", len(got.TaskArns), 0)
		services := must(b.ListServices(t.Context(), &ecs.ListServicesInput{Cluster: new("prod"),
			LaunchType: types.LaunchTypeFargate}))(t)
		expect(t, "FARGATE", len(services.ServiceArns), 0)
	})
}

func TestTags(t *testing.T) {
	b := newBerth(t)
	made := b.create(t)
	tag := func(arn *string, keys ...string) error {
		in := &ecs.TagResourceInput{ResourceArn: arn}
		for _, k := range keys {
			in.Tags = append(in.Tags, types.Tag{Key: &k, Value: new("v")})
		}
		_, err := b.TagResource(t.Context(), in)
		return err
	}
	expect(t, "tagging", tag(made.ServiceArn, "b", "a"), nil)
	_, err := b.UntagResource(t.Context(), &ecs.UntagResourceInput{ResourceArn: made.ServiceArn,
		TagKeys: []string{"b"}})
	expect(t, "untagging", err, nil)
	got := must(b.ListTagsForResource(t.Context(), &ecs.ListTagsForResourceInput{ResourceArn: made.ServiceArn}))(t)
	expect(t, "tags", got.Tags, []types.Tag{{Key: new("a"), Value: new("v")}})
	expect(t, "calls of ECS", slices.Contains(b.cloud.calls, "TagResource"), false)

	for _, kind := range []string{"cluster/prod", "task-definition/shop:3", "container-instance/prod/0a"} {
		b.cloud.calls = nil
		arn := "arn:aws:ecs:eu-west-1:123456789012:" + kind
		expect(t, kind, tag(&arn, "a"), nil)
		must(b.ListTagsForResource(t.Context(), &ecs.ListTagsForResourceInput{ResourceArn: &arn}))(t)
		must(b.UntagResource(t.Context(), &ecs.UntagResourceInput{ResourceArn: &arn, TagKeys: []string{"a"}}))(t)
		expect(t, kind, b.cloud.calls, []string{"TagResource", "ListTagsForResource", "UntagResource"})
	}
	refused(t, tag(new(account.ARN("service", "web")), "a"), "InvalidParameterException", "Long arn format")
	refused(t, tag(new(account.ARN("capacity-provider", "cp")), "a"), "InvalidParameterException", "does not exist")
	refused(t, tag(new(account.ARN("daemon", "d")), "a"), "UnsupportedFeatureException", "daemon")
	refused(t, tag(new("web"), "a"), "InvalidParameterException", "ARN")
	refused(t, tag(made.ServiceArn, "berth:metrics"), "InvalidParameterException", "berth:metrics")
	refused(t, tag(new(account.ARN("task-definition", "shop:3")), "berth:cpu-milli"), "InvalidParameterException",
		"berth:cpu-milli")
	_, err = b.UntagResource(t.Context(), &ecs.UntagResourceInput{ResourceArn: made.ServiceArn,
		TagKeys: []string{"berth:x"}})
	refused(t, err, "InvalidParameterException", "berth:x")
}

func TestForwardedOperations(t *testing.T) {
	t.Run("AreMadeKnown", func(t *testing.T) {
		b, ctx := newBerth(t), t.Context()
		instance := account.ARN("container-instance", "prod", "0b")
		must(b.CreateCluster(ctx, &ecs.CreateClusterInput{}))(t)
		must(b.UpdateContainerInstancesState(ctx, &ecs.UpdateContainerInstancesStateInput{
			Cluster: new("prod"), ContainerInstances: []string{"0a", instance},
			Status: types.ContainerInstanceStatusDraining,
		}))(t)
		attributes := []types.Attribute{{Name: new("x"), TargetId: &instance},
			{Name: new("y"), TargetId: new("0b"), TargetType: types.TargetTypeContainerInstance}}
		must(b.PutAttributes(ctx, &ecs.PutAttributesInput{Cluster: new("prod"), Attributes: attributes}))(t)
		must(b.DeleteAttributes(ctx, &ecs.DeleteAttributesInput{Cluster: new("prod"), Attributes: attributes[:1]}))(t)
		must(b.DeregisterContainerInstance(ctx, &ecs.DeregisterContainerInstanceInput{Cluster: new("prod"),
			ContainerInstance: new("0a")}))(t)
		must(b.DeregisterTaskDefinition(ctx, &ecs.DeregisterTaskDefinitionInput{TaskDefinition: new("shop:3")}))(t)
		must(b.DeleteTaskDefinitions(ctx, &ecs.DeleteTaskDefinitionsInput{TaskDefinitions: []string{"shop:3"}}))(t)
		must(b.DeleteCluster(ctx, &ecs.DeleteClusterInput{Cluster: new("prod")}))(t)
		expect(t, "told", b.scheduler.told, []string{
			"created default", "instances prod 0a,0b", "instances prod 0b", "instances prod 0b", "instances prod 0a",
			"definition shop:3",
			"definition shop:3", "deleted prod",
		})
	})
	t.Run("NothingElse", func(t *testing.T) {
		b, ctx := newBerth(t), t.Context()
		must(b.ListClusters(ctx, nil))(t)
		must(b.UpdateCluster(ctx, &ecs.UpdateClusterInput{Cluster: new("prod")}))(t)
		must(b.RegisterTaskDefinition(ctx, &ecs.RegisterTaskDefinitionInput{Family: new("shop"),
			ContainerDefinitions: shop.ContainerDefinitions}))(t)
		must(b.DescribeTaskDefinition(ctx, &ecs.DescribeTaskDefinitionInput{TaskDefinition: new("shop")}))(t)
		must(b.ListTaskDefinitions(ctx, nil))(t)
		must(b.ListTaskDefinitionFamilies(ctx, nil))(t)
		must(b.ListContainerInstances(ctx, nil))(t)
		must(b.DescribeContainerInstances(ctx,
			&ecs.DescribeContainerInstancesInput{ContainerInstances: []string{"0a"}}))(t)
		must(b.ListAttributes(ctx, &ecs.ListAttributesInput{TargetType: types.TargetTypeContainerInstance}))(t)
		expect(t, "told", len(b.scheduler.told), 0)
		expect(t, "calls", len(b.cloud.calls), 9)
	})
	t.Run("CountsServicesAndTheirTasks", func(t *testing.T) {
		b := newBerth(t)
		b.create(t)
		b.scheduler.services["prod/web"].Service.Running = 2
		b.scheduler.services["old/left"] = b.scheduler.services["prod/web"]
		got := must(b.DescribeClusters(t.Context(), &ecs.DescribeClustersInput{Clusters: []string{"prod", "old"}}))(t)
		expect(t, "services", []int32{got.Clusters[0].ActiveServicesCount, got.Clusters[1].ActiveServicesCount,
			got.Clusters[0].RunningTasksCount}, []int32{1, 0, 2})
	})
	t.Run("NothingThatECSCouldReadOtherwise", func(t *testing.T) {
		b := newBerth(t)
		for _, c := range []struct{ op, body string }{
			{"UpdateContainerInstancesState",
				`{"cluster":"theirs","Cluster":"prod","containerInstances":["0a"],"status":"DRAINING"}`},
			{"UpdateContainerInstancesState",
				`{"cluster":"theirs","cluster":"prod","containerInstances":["0a"],"status":"DRAINING"}`},
			{"DeregisterContainerInstance", `{"Cluster":"prod","containerInstance":"0a"}`}, // of default, to ECS
			{"DeleteCluster", `{"cluster":"theirs","clu\u017fter":"prod"}`},
			{"PutAttributes", `{"cluster":"prod","attributes":[{"name":"a","targetId":"x","targetID":"0a"}]}`},
			{"TagResource", `{"resourceArn":"` + account.ARN("cluster", "theirs") + `","ResourceArn":"` +
				account.ARN("cluster", "prod") + `","tags":[{"key":"a","value":"b"}]}`},
			{awsjson.OwnTarget + "PutClusterConfiguration", `{"cluster":"old","Cluster":"prod","configuration":{}}`},
		} {
			status, answer := b.mux.ServeOperation(t.Context(), c.op, []byte(c.body))
			if status != 400 || !strings.Contains(string(answer), "SerializationException") || len(b.cloud.calls) > 0 {
				t.Errorf("%s %s: %d %s, calls of ECS %v, want a SerializationException and none", c.op, c.body, status,
					answer, b.cloud.calls)
			}
		}
	})
	t.Run("NoInstanceOfAnotherClusterRegistersAgain", func(t *testing.T) {
		b := newBerth(t)
		_, err := b.RegisterContainerInstance(t.Context(), &ecs.RegisterContainerInstanceInput{Cluster: new("prod"),
			ContainerInstanceArn: new(account.ARN("container-instance", "theirs", "0a"))})
		refused(t, err, "InvalidParameterException", "Identifier is for theirs")
		expect(t, "calls", len(b.cloud.calls), 0)
	})
	t.Run("NothingOfClustersThatAreNotManaged", func(t *testing.T) {
		b, ctx, theirs := newBerth(t), t.Context(), new("theirs")
		instance := account.ARN("container-instance", "theirs", "0a")
		attributes := []types.Attribute{{Name: new("x"), TargetId: &instance}}
		for name, call := range map[string]func() error{
			"UpdateCluster": func() error {
				_, err := b.UpdateCluster(ctx, &ecs.UpdateClusterInput{Cluster: theirs})
				return err
			},
			"DeleteCluster": func() error {
				_, err := b.DeleteCluster(ctx, &ecs.DeleteClusterInput{Cluster: theirs})
				return err
			},
			"UpdateContainerInstancesState": func() error {
				_, err := b.UpdateContainerInstancesState(ctx, &ecs.UpdateContainerInstancesStateInput{
					Cluster: theirs, ContainerInstances: []string{"0a"}, Status: types.ContainerInstanceStatusDraining,
				})
				return err
			},
			"DeregisterContainerInstance": func() error {
				_, err := b.DeregisterContainerInstance(ctx,
					&ecs.DeregisterContainerInstanceInput{Cluster: theirs, ContainerInstance: &instance})
				return err
			},
			"RegisterContainerInstance": func() error {
				_, err := b.RegisterContainerInstance(ctx, &ecs.RegisterContainerInstanceInput{Cluster: theirs})
				return err
			},
			"PutAttributes": func() error {
				_, err := b.PutAttributes(ctx, &ecs.PutAttributesInput{Cluster: theirs, Attributes: attributes})
				return err
			},
			"DeleteAttributes": func() error {
				_, err := b.DeleteAttributes(ctx, &ecs.DeleteAttributesInput{Cluster: theirs, Attributes: attributes})
				return err
			},
			"ListAttributes": func() error {
				_, err := b.ListAttributes(ctx, &ecs.ListAttributesInput{Cluster: theirs,
					TargetType: types.TargetTypeContainerInstance})
				return err
			},
			"ListContainerInstances": func() error {
				_, err := b.ListContainerInstances(ctx, &ecs.ListContainerInstancesInput{Cluster: theirs})
				return err
			},
			"DescribeContainerInstances": func() error {
				_, err := b.DescribeContainerInstances(ctx,
					&ecs.DescribeContainerInstancesInput{Cluster: theirs, ContainerInstances: []string{"0a"}})
				return err
			},
			"TagResource": func() error {
				_, err := b.TagResource(ctx, &ecs.TagResourceInput{ResourceArn: &instance,
					Tags: []types.Tag{{Key: new("a"), Value: new("b")}}})
				return err
			},
			"UntagResource": func() error {
				_, err := b.UntagResource(ctx, &ecs.UntagResourceInput{ResourceArn: &instance, TagKeys: []string{"a"}})
				return err
			},
			"ListTagsForResource": func() error {
				_, err := b.ListTagsForResource(ctx, &ecs.ListTagsForResourceInput{ResourceArn: &instance})
				return err
			},
		} {
			refused(t, call(), "ClusterNotFoundException", "Cluster not found.")
			if len(b.cloud.calls) > 0 {
				t.Errorf("%s reached ECS: %v", name, b.cloud.calls)
			}
		}
		b.cloud.mux = awsjson.NewMux(map[string]awsjson.Operation{
			"ListClusters": func(context.Context, []byte) (any, error) {
				return &ecs.ListClustersOutput{ClusterArns: []string{account.ARN("cluster", "prod"),
					account.ARN("cluster", "theirs")}}, nil
			},
			"DescribeClusters": func(context.Context, []byte) (any, error) {
				return &ecs.DescribeClustersOutput{Clusters: []types.Cluster{
					{ClusterName: theirs, Status: new("ACTIVE"), RunningTasksCount: 7},
					{ClusterName: new("prod"), Status: new("ACTIVE")},
				}}, nil
			},
		})
		expect(t, "listed", must(b.ListClusters(ctx, nil))(t).ClusterArns, []string{account.ARN("cluster", "prod")})
		got := must(b.DescribeClusters(ctx, &ecs.DescribeClustersInput{Clusters: []string{"theirs", "prod"}}))(t)
		expect(t, "described", len(got.Clusters), 1)
		expect(t, "failures", got.Failures, []types.Failure{{Arn: new(account.ARN("cluster", "theirs")),
			Reason: new("MISSING")}})
	})
	t.Run("TagsOfADeletedCluster", func(t *testing.T) {
		b := newBerth(t)
		of := `{"resourceArn":"` + account.ARN("cluster", "gone") + `"`
		for op, rest := range map[string]string{"ListTagsForResource": "}", "UntagResource": `,"tagKeys":["a"]}`,
			"TagResource": `,"tags":[{"key":"a","value":"b"}]}`} {
			_, code, message := b.answered(t, op, of+rest)
			expect(t, op, code+": "+message, "InvalidParameterException: The specified cluster is inactive. Specify "+
				"an active cluster and try again.")
		}
		expect(t, "calls", len(b.cloud.calls), 0)
	})
	t.Run("KeepsServicesFromDeletion", func(t *testing.T) {
		b := newBerth(t)
		b.create(t)
		_, err := b.DeleteCluster(t.Context(), &ecs.DeleteClusterInput{Cluster: new("prod")})
		var full *types.ClusterContainsServicesException
		if !errors.As(err, &full) || slices.Contains(b.cloud.calls, "DeleteCluster") {
			t.Errorf("error %v, calls %v", err, b.cloud.calls)
		}
	})
	t.Run("RefusedOnesAreNotMadeKnown", func(t *testing.T) {
		b := newBerth(t)
		b.cloud.mux = awsjson.NewMux(map[string]awsjson.Operation{"PutAttributes": func(context.Context, []byte) (any,
			error) {
			return nil, cluster.Errorf(cluster.CodeTargetNotFound, "none")
		}})
		_, err := b.PutAttributes(t.Context(), &ecs.PutAttributesInput{Attributes: []types.Attribute{{Name: new("x"),
			TargetId: new("0a")}}})
		refused(t, err, "TargetNotFoundException", "none")
		expect(t, "told", len(b.scheduler.told), 0)
	})
	t.Run("AsksForARevisionOnce", func(t *testing.T) {
		b := newBerth(t)
		for _, name := range []string{"shop", "shop", "shop:3", "shop:3"} {
			must(b.RunTask(t.Context(), &ecs.RunTaskInput{Cluster: new("prod"), TaskDefinition: &name}))(t)
		}
		expect(t, "calls", b.cloud.calls, []string{"DescribeTaskDefinition", "DescribeTaskDefinition"})
	})
	t.Run("ErrorsOfECS", func(t *testing.T) {
		b := newBerth(t)
		_, err := b.DescribeTaskDefinition(t.Context(), &ecs.DescribeTaskDefinitionInput{TaskDefinition: new("none")})
		refused(t, err, "ClientException", "Unable to describe task definition.")
		_, err = b.RunTask(t.Context(), &ecs.RunTaskInput{TaskDefinition: new("none")})
		refused(t, err, "ClientException", "TaskDefinition not found.")
		_, err = b.RunTask(t.Context(), &ecs.RunTaskInput{TaskDefinition: new("shp:1")})
		refused(t, err, "ClientException", `TaskDefinition not found. The nearest family is "shop".`)
		b.cloud.down = errors.New("no route")
		_, err = b.ListClusters(t.Context(), nil)
		refused(t, err, "ServerException", "")
		expect(t, "told", len(b.scheduler.told), 0)
	})
}

func TestRoles(t *testing.T) {
	role := *special["roles"].TaskRoleArn
	run := func(b *berth, definition string, o *types.TaskOverride) error {
		_, err := b.RunTask(t.Context(), &ecs.RunTaskInput{Cluster: new("prod"), TaskDefinition: &definition,
			Overrides: o})
		return err
	}
	other := &types.TaskOverride{ExecutionRoleArn: new("arn:aws:iam::123456789012:role/admin")}
	closed := newBerth(t, func(o *wire.ServerOptions) { o.Enforce = true })
	refused(t, run(closed, "roles", nil), "AccessDeniedException", role)
	expect(t, "no role", run(closed, "shop", nil), nil)
	_, err := closed.RegisterTaskDefinition(t.Context(),
		&ecs.RegisterTaskDefinitionInput{Family: new("x"), ExecutionRoleArn: &role,
			ContainerDefinitions: shop.ContainerDefinitions})
	refused(t, err, "AccessDeniedException", role)
	_, err = closed.CreateService(t.Context(), &ecs.CreateServiceInput{ServiceName: new("s"),
		TaskDefinition: new("roles"), DesiredCount: new(int32(1))})
	refused(t, err, "AccessDeniedException", role)
	open := newBerth(t, func(o *wire.ServerOptions) { o.Enforce, o.PassableRoles = true, []string{role} })
	expect(t, "listed role", run(open, "roles", nil), nil)
	refused(t, run(open, "roles", other), "AccessDeniedException", "role/admin")
	expect(t, "not enforced", run(newBerth(t), "roles", other), nil)
}

func TestPrincipal(t *testing.T) {
	var log bytes.Buffer
	b := newBerth(t, func(o *wire.ServerOptions) { o.Logger = slog.New(slog.NewJSONHandler(&log, nil)) })
	ctx := transport.WithPrincipal(t.Context(), "arn:aws:iam::123456789012:user/ann")
	body := `{"cluster":"prod","serviceName":"web","taskDefinition":"shop","desiredCount":0}`
	if status, answer := b.mux.ServeOperation(ctx, "CreateService", []byte(body)); status != http.StatusOK ||
		!bytes.Contains(answer, []byte(`"createdBy":"arn:aws:iam::123456789012:user/ann"`)) {
		t.Errorf("%d %s", status, answer)
	}
	b.mux.ServeOperation(ctx, "DescribeServices", []byte(`{"cluster":"prod","services":["web"]}`))
	var line struct{ Operation, Principal string }
	if err := json.Unmarshal(log.Bytes(), &line); err != nil || line.Operation != "CreateService" ||
		line.Principal != "arn:aws:iam::123456789012:user/ann" {
		t.Errorf("%v, log %s", err, log.String())
	}
}

// Zeros that ECS sends are there, so that `--query` and waiters see a number.
func TestZerosAreShown(t *testing.T) {
	b := newBerth(t)
	b.create(t, func(in *ecs.CreateServiceInput) { in.DesiredCount = new(int32(0)) })
	_, answer := b.mux.ServeOperation(context.Background(), "DescribeServices",
		[]byte(`{"cluster":"prod","services":["web"]}`))
	for _, want := range []string{`"desiredCount":0`, `"runningCount":0`, `"enableECSManagedTags":false`,
		`"failures":[]`, `"placementStrategy":[]`, `"createdAt":` + strconv.FormatFloat(float64(noon.UnixMilli())/1000,
			'f', -1, 64)} {
		if !bytes.Contains(answer, []byte(want)) {
			t.Errorf("no %s in %s", want, answer)
		}
	}
}
