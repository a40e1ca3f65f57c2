package e2e

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cwtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/aws-sdk-go-v2/service/servicediscovery"

	"berth/shared/cluster"
	"berth/shared/wire/berthapi"
)

// A rolloutScenario is a watched service of twelve tasks behind a target group.
type rolloutScenario struct {
	scenario
	tier   rolloutTier
	elb    *elb.Client
	alarms *cloudwatch.Client
	names  *servicediscovery.Client

	name, group  string
	goodRevision string // ARN of the service revision that was deployed last
	deadZone     string // zone
	places       knownPlaces
	watch        watch
	complain     func(wrong string, at observation)
}

const (
	wanted = 12
	floor  = 9 // 75 % of it
)

func TestRolloutScenario(t *testing.T) { runRolloutScenario(t, newVirtual(t)) }

func newRolloutScenario(t *testing.T, tier rolloutTier) *rolloutScenario {
	s := &rolloutScenario{
		scenario: scenario{t: t, tier: tier, api: tier.Client(), cluster: "harbour"}, tier: tier, name: "quay",
		elb: elb.NewFromConfig(tier.SimulatedConfig()), alarms: cloudwatch.NewFromConfig(tier.SimulatedConfig()),
		names:  servicediscovery.NewFromConfig(tier.SimulatedConfig()),
		places: knownPlaces{address: map[string]string{}, ec2: map[string]string{}, live: map[string]bool{}},
	}
	s.complain = func(wrong string, at observation) {
		s.t.Helper()
		s.t.Fatalf("%s\n%s", wrong, at)
	}
	return s
}

// runRolloutScenario rolls the service to a new revision while a zone fails, then to bad revisions:
// the circuit breaker rolls back the first, an alarm the second. An instance is drained, and a
// scale-in spares protected tasks. Berth itself never brings the service below its minimum of
// healthy tasks.
func runRolloutScenario(t *testing.T, tier rolloutTier) {
	s := newRolloutScenario(t, tier)
	for _, step := range []struct {
		name string
		run  func()
	}{
		{"TwelveAreHealthy", s.createService},
		{"RollsForthWhileAZoneDies", s.rollForward},
		{"ReplacesWhatFailsItsChecks", s.failTarget},
		{"TheCircuitBreakerRollsBack", s.tripBreaker},
		{"AnAlarmRollsBack", s.fireAlarm},
		{"AnInstanceIsDrained", s.drainInstance},
		{"AScaleInSparesProtectedTasks", s.protectTasks},
		{"EventsAreInECSsWords", s.checkEventTexts},
		{"EntersTasksInCloudMap", s.checkDiscovery},
		{"Deleted", s.deleteService},
	} {
		t.Run(step.name, func(t *testing.T) {
			s.t = t
			step.run()
		})
		if t.Failed() {
			t.FailNow()
		}
	}
	t.Logf("%d looks", s.watch.looks)
}

// TestRolloutIsWatched stops more tasks than allowed, which the watch must notice.
func TestRolloutIsWatched(t *testing.T) {
	s := newRolloutScenario(t, newVirtual(t))
	s.createService()
	noticed := ""
	s.complain = func(wrong string, _ observation) { noticed = wrong }
	for _, task := range s.runningTasks(s.name)[:wanted-floor+1] {
		mustSucceed(s.api.StopTask(t.Context(), &ecs.StopTaskInput{Cluster: &s.cluster,
			Task: task.TaskArn}))(&s.scenario)
	}
	s.checkFloor()
	if noticed == "" {
		t.Error("nobody noticed")
	}
}

func (s *rolloutScenario) createService() {
	ctx := s.t.Context()
	mustSucceed(s.api.CreateCluster(ctx, &ecs.CreateClusterInput{ClusterName: &s.cluster}))(&s.scenario)
	if err := s.tier.AddInstances(s.cluster, 6, "t3.medium", zones); err != nil {
		s.t.Fatal(err)
	}
	s.await("six instances", func() bool { return len(s.instances()) == 6 })
	s.createTargetGroup("2")
	s.registerRevision()
	mustSucceed(s.api.CreateService(ctx, &ecs.CreateServiceInput{
		Cluster: &s.cluster, ServiceName: &s.name, TaskDefinition: &s.name, DesiredCount: aws.Int32(wanted),
		LoadBalancers: []types.LoadBalancer{{TargetGroupArn: &s.group, ContainerName: &s.name,
			ContainerPort: aws.Int32(80)}},
		DeploymentConfiguration: deploymentLimits(125, 75),
	}))(&s.scenario)
	s.awaitStable()
	s.awaitWatched("twelve healthy tasks", func(at observation) bool { return len(at.healthy) == wanted })
	s.watch.floor, s.watch.leastSeen = floor, wanted
	s.goodRevision = *s.awaitDeployment(types.ServiceDeploymentStatusSuccessful).TargetServiceRevision.Arn
}

// createTargetGroup creates the service's target group. Targets that leave it drain for so many
// seconds.
func (s *rolloutScenario) createTargetGroup(delay string) {
	s.t.Helper()
	ctx := s.t.Context()
	made := mustSucceed(s.elb.CreateTargetGroup(ctx, &elb.CreateTargetGroupInput{
		Name: &s.name, Protocol: elbtypes.ProtocolEnumHttp, Port: aws.Int32(80), VpcId: aws.String("vpc-1"),
		TargetType: elbtypes.TargetTypeEnumInstance,
	}))(&s.scenario)
	s.group = *made.TargetGroups[0].TargetGroupArn
	mustSucceed(s.elb.ModifyTargetGroupAttributes(ctx, &elb.ModifyTargetGroupAttributesInput{
		TargetGroupArn: &s.group,
		Attributes: []elbtypes.TargetGroupAttribute{{Key: aws.String("deregistration_delay.timeout_seconds"),
			Value: &delay}},
	}))(&s.scenario)
}

// deploymentLimits returns the maximum and the minimum percentage of tasks, with the circuit
// breaker on.
func deploymentLimits(most, least int32) *types.DeploymentConfiguration {
	return &types.DeploymentConfiguration{
		MaximumPercent: &most, MinimumHealthyPercent: &least,
		DeploymentCircuitBreaker: &types.DeploymentCircuitBreaker{Enable: true, Rollback: true},
	}
}

// registerRevision registers the next revision. Environment variables tell the simulated AWS what
// its tasks do.
func (s *rolloutScenario) registerRevision(environment ...types.KeyValuePair) {
	s.t.Helper()
	mustSucceed(s.api.RegisterTaskDefinition(s.t.Context(), &ecs.RegisterTaskDefinitionInput{
		Family: &s.name, NetworkMode: types.NetworkModeBridge, ContainerDefinitions: []types.ContainerDefinition{{
			Name: &s.name, Image: aws.String("busybox"), Cpu: 256, Memory: aws.Int32(256), Essential: aws.Bool(true),
			PortMappings: []types.PortMapping{{ContainerPort: aws.Int32(80)}}, Environment: environment,
		}},
	}))(&s.scenario)
}

// deployRevision updates the service to the newest revision.
func (s *rolloutScenario) deployRevision(change func(*ecs.UpdateServiceInput)) {
	s.t.Helper()
	in := &ecs.UpdateServiceInput{Cluster: &s.cluster, Service: &s.name, TaskDefinition: &s.name}
	if change != nil {
		change(in)
	}
	out := mustSucceed(s.api.UpdateService(s.t.Context(), in))(&s.scenario)
	if len(out.Service.Deployments) != 2 || *out.Service.Deployments[0].Status != "PRIMARY" ||
		*out.Service.Deployments[1].Status != "ACTIVE" {
		s.t.Errorf("the deployments are %+v", out.Service.Deployments)
	}
}

// awaitStable is `aws ecs wait services-stable`, and waits for all deployments to end.
func (s *rolloutScenario) awaitStable() {
	s.t.Helper()
	waiter := ecs.NewServicesStableWaiter(s.api, func(o *ecs.ServicesStableWaiterOptions) {
		asked := o.Retryable
		o.Retryable = func(ctx context.Context, in *ecs.DescribeServicesInput, out *ecs.DescribeServicesOutput,
			err error) (bool, error) {
			again, err := asked(ctx, in, out, err)
			if again {
				s.checkFloor()
				s.tier.PassSecond()
			}
			return again, err
		}
		o.MinDelay, o.MaxDelay = time.Millisecond, 10*time.Millisecond
	})
	if err := waiter.Wait(s.t.Context(), &ecs.DescribeServicesInput{Cluster: &s.cluster, Services: []string{s.name}},
		cloudTimeout); err != nil {
		s.t.Fatalf("%v\n%s", err, s.takeObservation())
	}
	s.awaitWatched("the deployment to be done", func(at observation) bool {
		d := at.service.Deployments
		return len(d) == 1 && d[0].RolloutState == types.DeploymentRolloutStateCompleted
	})
}

// revisions returns the task definitions of the running tasks.
func (at observation) revisions() (found []string) {
	for _, task := range at.tasks {
		if *task.LastStatus == "RUNNING" && *task.DesiredStatus == "RUNNING" {
			found = append(found, cluster.LastPart(*task.TaskDefinitionArn))
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// awaitDeployment waits until the newest service deployment has ended with the status, and returns
// it.
func (s *rolloutScenario) awaitDeployment(status types.ServiceDeploymentStatus) types.ServiceDeployment {
	s.t.Helper()
	ctx := s.t.Context()
	listed := mustSucceed(s.api.ListServiceDeployments(ctx,
		&ecs.ListServiceDeploymentsInput{Cluster: &s.cluster, Service: &s.name}))(&s.scenario)
	if len(listed.ServiceDeployments) == 0 || listed.ServiceDeployments[0].Status != status {
		s.t.Fatalf("the service deployments are %+v, want the first %s", listed.ServiceDeployments, status)
	}
	out := mustSucceed(s.api.DescribeServiceDeployments(ctx, &ecs.DescribeServiceDeploymentsInput{
		ServiceDeploymentArns: []string{*listed.ServiceDeployments[0].ServiceDeploymentArn},
	}))(&s.scenario)
	d := out.ServiceDeployments[0]
	if d.Status != status || d.CreatedAt == nil || d.StartedAt == nil || d.FinishedAt == nil {
		s.t.Errorf("the service deployment is %+v", d)
	}
	return d
}

func (s *rolloutScenario) rollForward() {
	s.registerRevision()
	s.deployRevision(nil)
	s.awaitWatched("healthy tasks of both revisions", func(at observation) bool {
		return slices.Equal(at.revisions(), []string{"quay:1", "quay:2"}) &&
			slices.ContainsFunc(at.healthy,
				func(task types.Task) bool { return cluster.LastPart(*task.TaskDefinitionArn) == "quay:2" })
	})
	s.killZone(zones[2])
	s.awaitStable()
	at := s.checkFloor()
	if r := at.revisions(); !slices.Equal(r, []string{"quay:2"}) || len(at.healthy) != wanted {
		s.t.Errorf("%d tasks of %v are healthy", len(at.healthy), r)
	}
	d := s.awaitDeployment(types.ServiceDeploymentStatusSuccessful)
	if len(d.SourceServiceRevisions) != 1 || *d.SourceServiceRevisions[0].Arn != s.goodRevision || d.Rollback != nil {
		s.t.Errorf("the service deployment is from %+v, rolled back: %+v", d.SourceServiceRevisions, d.Rollback)
	}
	s.goodRevision = *d.TargetServiceRevision.Arn
	out := mustSucceed(s.api.DescribeServiceRevisions(s.t.Context(),
		&ecs.DescribeServiceRevisionsInput{ServiceRevisionArns: []string{s.goodRevision}}))(&s.scenario)
	if len(out.ServiceRevisions) != 1 || cluster.LastPart(*out.ServiceRevisions[0].TaskDefinition) != "quay:2" {
		s.t.Errorf("the service revisions are %+v", out.ServiceRevisions)
	}
}

// killZone terminates all machines of a zone.
func (s *rolloutScenario) killZone(zone string) {
	s.t.Helper()
	for _, task := range s.checkFloor().healthy {
		if *task.AvailabilityZone == zone {
			s.watch.lostTasks++
		}
	}
	if s.watch.lostTasks == 0 {
		s.t.Fatal("the zone has no healthy task")
	}
	s.deadZone = zone
	for _, i := range s.instances() {
		if zoneOf(i) == zone {
			if err := s.tier.KillInstance(cluster.LastPart(*i.ContainerInstanceArn)); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

func (s *rolloutScenario) failTarget() {
	const why = "Health checks failed with these codes: [503]"
	s.awaitWatched("the zones that are left to have as many tasks", func(at observation) bool {
		in := map[string]int{}
		for _, task := range at.healthy {
			in[*task.AvailabilityZone]++
		}
		return len(at.tasks) == wanted && in[zones[0]] == wanted/2 && in[zones[1]] == wanted/2
	})
	victim := s.runningTasks(s.name)[0]
	if err := s.tier.FailTarget(ecsID(s.t, victim), why); err != nil {
		s.t.Fatal(err)
	}
	s.awaitWatched("its replacement", func(at observation) bool {
		return len(at.healthy) == wanted && !slices.ContainsFunc(at.tasks,
			func(task types.Task) bool { return *task.TaskArn == *victim.TaskArn })
	})
	s.awaitStable()
	at := s.checkFloor()
	for _, text := range []string{
		"(task " + cluster.LastPart(*victim.TaskArn) + ") (port ",
		"is unhealthy in (target-group " + s.group + ") due to (reason " + why + ").",
		" Amazon ECS replaced 1 tasks due to an unhealthy status.",
	} {
		if !at.hasEvent(text) {
			s.t.Errorf("no event has %q\n%s", text, at)
		}
	}
}

func (s *rolloutScenario) tripBreaker() {
	s.registerRevision(types.KeyValuePair{Name: aws.String("BERTH_FLEET_FAIL"), Value: aws.String("start")})
	// One task at a time, so that the fourth failure is that of the fourth attempt.
	s.watch.floor = wanted // 92 % of it, rounded up
	s.deployRevision(func(in *ecs.UpdateServiceInput) {
		in.DeploymentConfiguration = deploymentLimits(109, 92)
		in.DeploymentConfiguration.DeploymentCircuitBreaker.ThresholdConfiguration = &types.ThresholdConfiguration{Type: types.ThresholdTypeCount, Value: 4}
	})
	bad := *s.describeService(s.name).Deployments[0].Id
	var slowed berthapi.ThrottleOutput
	s.awaitWatched("its starts to be slowed down", func(observation) bool {
		slowed = s.describeThrottle()
		return len(slowed.Revisions) == 1
	})
	r := slowed.Revisions[0]
	if r.Deployment != bad || r.Status != "PRIMARY" || r.Step < 1 || r.Failures < 1 ||
		!r.NextAttemptAt.After(r.Since) ||
		!strings.Contains(r.Reason, "CannotStartContainerError") {
		s.t.Errorf("the throttle is %+v", r)
	}
	s.awaitWatched("an event that it is",
		func(at observation) bool { return at.hasEvent("is unable to consistently start tasks successfully.") })
	// The delay before the fourth attempt is nine minutes and up to a tenth more, about as long as
	// one wait.
	tripped := func() bool {
		return s.checkFloor().hasEvent("(deployment " + bad + ") deployment failed: tasks failed to start.")
	}
	if !s.tier.Await(tripped) {
		s.await("the circuit breaker", tripped)
	}
	d := s.checkRollback("circuit breaker")
	if b := d.DeploymentCircuitBreaker; b.Status != types.ServiceDeploymentRollbackMonitorsStatusTriggered ||
		b.Threshold != 4 || b.FailureCount != 4 {
		s.t.Errorf("the circuit breaker is %+v", b)
	}
	if left := s.describeThrottle(); len(left.Revisions) != 0 {
		s.t.Errorf("still throttled: %+v", left.Revisions)
	}
}

// describeThrottle returns the service's throttle.
func (s *rolloutScenario) describeThrottle() (out berthapi.ThrottleOutput) {
	s.t.Helper()
	answer := mustSucceed(s.tier.CallBerth(s.t.Context(), "DescribeServiceThrottle",
		`{"cluster": "harbour", "service": "quay"}`))(&s.scenario)
	if err := json.Unmarshal(answer, &out); err != nil {
		s.t.Fatal(err)
	}
	return out
}

// hasEvent reports whether an event of the service contains the text.
func (at observation) hasEvent(text string) bool {
	return slices.ContainsFunc(at.service.Events, func(e types.ServiceEvent) bool {
		return strings.Contains(*e.Message,
			text)
	})
}

// checkRollback waits until the service has been rolled back to the good revision, for the given
// reason.
func (s *rolloutScenario) checkRollback(why string) types.ServiceDeployment {
	s.t.Helper()
	s.awaitStable()
	// The service is stable with its desired count. A task that moves has its replacement beside it
	// for a while.
	s.awaitWatched("as many tasks of the good revision as are wanted", func(at observation) bool {
		return slices.Equal(at.revisions(), []string{"quay:2"}) && len(at.healthy) == wanted
	})
	at := s.checkFloor()
	if !at.hasEvent("rolling back to deployment " + *at.service.Deployments[0].Id + ".") {
		s.t.Error("no event says so")
	}
	d := s.awaitDeployment(types.ServiceDeploymentStatusRollbackSuccessful)
	if d.Rollback == nil || *d.Rollback.ServiceRevisionArn != s.goodRevision ||
		!strings.Contains(*d.Rollback.Reason, why) {
		s.t.Errorf("the rollback is %+v", d.Rollback)
	}
	return d
}

func (s *rolloutScenario) fireAlarm() {
	ctx := s.t.Context()
	mustSucceed(s.alarms.PutMetricAlarm(ctx, &cloudwatch.PutMetricAlarmInput{
		AlarmName: aws.String("late"), Namespace: aws.String("Harbour"), MetricName: aws.String("Delay"),
		Period:            aws.Int32(10),
		EvaluationPeriods: aws.Int32(1), Threshold: aws.Float64(1),
		ComparisonOperator: cwtypes.ComparisonOperatorGreaterThanThreshold,
		Statistic:          cwtypes.StatisticSum,
	}))(&s.scenario)
	s.registerRevision()
	s.watch.floor = floor
	s.deployRevision(func(in *ecs.UpdateServiceInput) {
		in.DeploymentConfiguration = deploymentLimits(125, 75)
		in.DeploymentConfiguration.Alarms = &types.DeploymentAlarms{AlarmNames: []string{"late"}, Enable: true,
			Rollback: true}
	})
	s.awaitWatched("tasks of the bad revision", func(at observation) bool {
		return slices.Contains(at.revisions(),
			"quay:4")
	})
	mustSucceed(s.alarms.SetAlarmState(ctx, &cloudwatch.SetAlarmStateInput{
		AlarmName: aws.String("late"), StateValue: cwtypes.StateValueAlarm, StateReason: aws.String("ships are late"),
	}))(&s.scenario)
	s.awaitWatched("the alarm to be seen",
		func(at observation) bool { return at.hasEvent("deployment failed: alarm detected.") })
	d := s.checkRollback("alarms")
	if a := d.Alarms; a.Status != types.ServiceDeploymentRollbackMonitorsStatusTriggered ||
		!slices.Equal(a.TriggeredAlarmNames, []string{"late"}) {
		s.t.Errorf("the alarms are %+v", a)
	}
}

func (s *rolloutScenario) drainInstance() {
	ctx := s.t.Context()
	from := *s.runningTasks(s.name)[0].ContainerInstanceArn
	out := mustSucceed(s.api.UpdateContainerInstancesState(ctx, &ecs.UpdateContainerInstancesStateInput{
		Cluster: &s.cluster, ContainerInstances: []string{from}, Status: types.ContainerInstanceStatusDraining,
	}))(&s.scenario)
	if len(out.ContainerInstances) != 1 || *out.ContainerInstances[0].Status != "DRAINING" {
		s.t.Errorf("the instances are %+v", out.ContainerInstances)
	}
	s.awaitWatched("its tasks to be elsewhere", func(at observation) bool {
		return len(at.healthy) == wanted && !slices.ContainsFunc(at.tasks,
			func(task types.Task) bool { return *task.ContainerInstanceArn == from })
	})
	s.awaitStable()
	mustSucceed(s.api.UpdateContainerInstancesState(ctx, &ecs.UpdateContainerInstancesStateInput{
		Cluster: &s.cluster, ContainerInstances: []string{from}, Status: types.ContainerInstanceStatusActive,
	}))(&s.scenario)
}

func (s *rolloutScenario) protectTasks() {
	ctx := s.t.Context()
	var keep []string
	for _, task := range s.runningTasks(s.name)[:3] {
		keep = append(keep, *task.TaskArn)
	}
	kept := mustSucceed(s.api.UpdateTaskProtection(ctx,
		&ecs.UpdateTaskProtectionInput{Cluster: &s.cluster, Tasks: keep, ProtectionEnabled: true}))(&s.scenario)
	if len(kept.ProtectedTasks) != 3 || len(kept.Failures) != 0 {
		s.t.Errorf("protected are %+v, not %+v", kept.ProtectedTasks, kept.Failures)
	}
	s.watch.floor = 2 // 75 % of two, rounded up
	mustSucceed(s.api.UpdateService(ctx, &ecs.UpdateServiceInput{Cluster: &s.cluster, Service: &s.name,
		DesiredCount: aws.Int32(2)}))(&s.scenario)
	s.awaitWatched("the protected tasks to be all that is left", func(at observation) bool {
		for _, arn := range keep {
			if !slices.ContainsFunc(at.healthy, func(task types.Task) bool { return *task.TaskArn == arn }) {
				s.t.Fatalf("task %s is protected and was stopped", arn)
			}
		}
		return len(at.tasks) == 3 &&
			at.hasEvent("was unable to reach steady state because (taskSet "+*at.service.Deployments[0].Id+
				") was unable to scale in due to (reason 1 tasks under protection)")
	})
	mustSucceed(s.api.UpdateTaskProtection(ctx, &ecs.UpdateTaskProtectionInput{Cluster: &s.cluster,
		Tasks: keep[:1]}))(&s.scenario)
	s.awaitWatched("the one that is not protected any more to be stopped", func(at observation) bool {
		return len(at.tasks) == 2 && !slices.ContainsFunc(at.tasks,
			func(task types.Task) bool { return *task.TaskArn == keep[0] })
	})
	s.awaitStable()
}

// ecsEvents matches ECS's texts for all that happens here.
var ecsEvents = regexp.MustCompile(`^\(service quay\) (?:` + strings.Join([]string{
	`has reached a steady state\.`,
	`has started \d+ tasks:(?: \(task [0-9a-f]{32}\))+\.(?: Amazon ECS replaced \d+ tasks due to an unhealthy status\.)?`,
	`has stopped \d+ running tasks:(?: \(task [0-9a-f]{32}\))+\.`,
	`stopped \d+ pending tasks\.`,
	`(?:de)?registered \d+ targets in \(target-group \S+\)`,
	`failed to register targets in \(target-group \S+\) with \(error .*\)`, // on an instance that was just terminated
	`has begun draining connections on \d+ tasks\.`,
	`\(task [0-9a-f]{32}\) \(port \d+\) is unhealthy in \(target-group \S+\) due to \(reason .*\)\.`,
	`is unable to consistently start tasks successfully\.`,
	`\(deployment ecs-svc/\d+\) deployment completed\.`,
	`\(deployment ecs-svc/\d+\) deployment failed: (?:tasks failed to start|alarm detected)\.`,
	`rolling back to deployment ecs-svc/\d+\.`,
	`is (?:not )?AZ balanced with \d+ tasks in us-east-1[ab], \d+ tasks in us-east-1[ab]\.(?: AZ Rebalancing in progress\.)?`,
	`has started \d+ tasks in us-east-1[ab] to AZ Rebalance:(?: \(task [0-9a-f]{32}\))+\.`,
	`has stopped \d+ running tasks in us-east-1[ab] due to AZ rebalancing:(?: \(task [0-9a-f]{32}\))+\.`,
	`was unable to reach steady state because \(taskSet ecs-svc/\d+\) was unable to scale in due to \(reason \d+ tasks under protection\)`,
}, "|") + `)$`)

var inPort = regexp.MustCompile(`[^e]registered (\d+) targets in`)

func (s *rolloutScenario) checkEventTexts() {
	events := s.describeService(s.name).Events
	in := 0
	for n, e := range events {
		if !ecsEvents.MatchString(*e.Message) {
			s.t.Errorf("ECS does not say %q", *e.Message)
		}
		if n > 0 && e.CreatedAt.After(*events[n-1].CreatedAt) {
			s.t.Errorf("event %q comes before an older one", *e.Message)
		}
		if m := inPort.FindStringSubmatch(*e.Message); m != nil {
			count, _ := strconv.Atoi(m[1])
			in += count
		}
	}
	if len(events) < 100 && in < 2*wanted {
		s.t.Errorf("the events report %d registrations", in)
	}
	// A service shows its last 100 events only. Those of a step long before, such as of the circuit
	// breaker, are awaited there.
	for _, text := range []string{
		"has stopped", "deregistered", "has begun draining connections", "deployment completed",
		"has reached a steady state",
	} {
		if len(s.eventsWith(s.name, text)) == 0 {
			s.t.Errorf("none of %d events has %q", len(events), text)
		}
	}
}

// checkDiscovery checks that tasks with their own addresses are entered in Cloud Map and removed
// from it.
func (s *rolloutScenario) checkDiscovery() {
	ctx := s.t.Context()
	made := mustSucceed(s.names.CreateService(ctx, &servicediscovery.CreateServiceInput{Name: &s.name,
		NamespaceId: aws.String("ns-1")}))(&s.scenario)
	mustSucceed(s.api.RegisterTaskDefinition(ctx, &ecs.RegisterTaskDefinitionInput{
		Family: aws.String("crane"), NetworkMode: types.NetworkModeAwsvpc,
		ContainerDefinitions: []types.ContainerDefinition{{
			Name: aws.String("crane"), Image: aws.String("busybox"), Cpu: 64, Memory: aws.Int32(64),
			Essential: aws.Bool(true),
		}},
	}))(&s.scenario)
	mustSucceed(s.api.CreateService(ctx, &ecs.CreateServiceInput{
		Cluster: &s.cluster, ServiceName: aws.String("crane"), TaskDefinition: aws.String("crane"),
		DesiredCount: aws.Int32(2),
		NetworkConfiguration: &types.NetworkConfiguration{AwsvpcConfiguration: &types.AwsVpcConfiguration{
			Subnets: []string{"subnet-1"}, SecurityGroups: []string{"sg-1"}}},
		ServiceRegistries: []types.ServiceRegistry{{RegistryArn: made.Service.Arn}},
	}))(&s.scenario)
	entries := func() int {
		out := mustSucceed(s.names.ListInstances(ctx,
			&servicediscovery.ListInstancesInput{ServiceId: made.Service.Id}))(&s.scenario)
		return len(out.Instances)
	}
	s.awaitWatched("two entries, and a deployment that is done", func(observation) bool {
		return entries() == 2 &&
			s.describeService("crane").Deployments[0].RolloutState == types.DeploymentRolloutStateCompleted
	})
	mustSucceed(s.api.DeleteService(ctx, &ecs.DeleteServiceInput{Cluster: &s.cluster, Service: aws.String("crane"),
		Force: aws.Bool(true)}))(&s.scenario)
	s.awaitWatched("no entry", func(observation) bool { return entries() == 0 })
}

func (s *rolloutScenario) deleteService() {
	ctx := s.t.Context()
	s.watch.floor = 0
	mustSucceed(s.api.DeleteService(ctx, &ecs.DeleteServiceInput{Cluster: &s.cluster, Service: &s.name,
		Force: aws.Bool(true)}))(&s.scenario)
	s.await("no target", func() bool { return len(s.targetHealth()) == 0 })
	waiter := ecs.NewServicesInactiveWaiter(s.api, func(o *ecs.ServicesInactiveWaiterOptions) {
		asked := o.Retryable
		o.Retryable = func(ctx context.Context, in *ecs.DescribeServicesInput, out *ecs.DescribeServicesOutput,
			err error) (bool, error) {
			again, err := asked(ctx, in, out, err)
			s.tier.PassSecond()
			return again, err
		}
		o.MinDelay, o.MaxDelay = time.Millisecond, 10*time.Millisecond
	})
	if err := waiter.Wait(ctx, &ecs.DescribeServicesInput{Cluster: &s.cluster, Services: []string{s.name}},
		cloudTimeout); err != nil {
		s.t.Fatal(err)
	}
}
