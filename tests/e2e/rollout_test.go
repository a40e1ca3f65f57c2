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

// rollout is a service of twelve behind a target group, watched.
type rollout struct {
	story
	tier   rolloutTier
	elb    *elb.Client
	alarms *cloudwatch.Client
	names  *servicediscovery.Client

	name, group string
	good        string // ARN of the service revision that was deployed last
	dead        string // zone
	places      places
	watch       watch
	complain    func(wrong string, at sight)
}

const (
	wanted = 12
	floor  = 9 // 75 % of it
)

func TestRolloutScenario(t *testing.T) { runRolloutScenario(t, newVirtual(t)) }

func newRollout(t *testing.T, tier rolloutTier) *rollout {
	s := &rollout{
		story: story{t: t, tier: tier, api: tier.Client(), cluster: "harbour"}, tier: tier, name: "quay",
		elb: elb.NewFromConfig(tier.Balancing()), alarms: cloudwatch.NewFromConfig(tier.Balancing()),
		names:  servicediscovery.NewFromConfig(tier.Balancing()),
		places: places{address: map[string]string{}, ec2: map[string]string{}, live: map[string]bool{}},
	}
	s.complain = func(wrong string, at sight) {
		s.t.Helper()
		s.t.Fatalf("%s\n%s", wrong, at)
	}
	return s
}

// runRolloutScenario rolls the service to a new revision while a zone dies, then to bad ones: the circuit breaker rolls back
// the first, an alarm the second. An instance is drained, and a scale-in spares protected tasks. Never by Berth's own doing
// are fewer tasks healthy than the service wants at least.
func runRolloutScenario(t *testing.T, tier rolloutTier) {
	s := newRollout(t, tier)
	for _, step := range []struct {
		name string
		run  func()
	}{
		{"TwelveAreHealthy", s.begin},
		{"RollsForthWhileAZoneDies", s.rollForth},
		{"ReplacesWhatFailsItsChecks", s.failTarget},
		{"TheCircuitBreakerRollsBack", s.breakUp},
		{"AnAlarmRollsBack", s.alarm},
		{"AnInstanceIsDrained", s.drain},
		{"AScaleInSparesProtectedTasks", s.protect},
		{"EventsAreInECSsWords", s.words},
		{"EntersTasksInCloudMap", s.discovered},
		{"Deleted", s.end},
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

// TestRolloutIsWatched stops more tasks than the service can spare, as Berth must not.
func TestRolloutIsWatched(t *testing.T) {
	s := newRollout(t, newVirtual(t))
	s.begin()
	noticed := ""
	s.complain = func(wrong string, _ sight) { noticed = wrong }
	for _, task := range s.tasks(s.name)[:wanted-floor+1] {
		must(s.api.StopTask(t.Context(), &ecs.StopTaskInput{Cluster: &s.cluster, Task: task.TaskArn}))(&s.story)
	}
	s.look()
	if noticed == "" {
		t.Error("nobody noticed")
	}
}

func (s *rollout) begin() {
	ctx := s.t.Context()
	must(s.api.CreateCluster(ctx, &ecs.CreateClusterInput{ClusterName: &s.cluster}))(&s.story)
	if err := s.tier.AddInstances(s.cluster, 6, "t3.medium", zones); err != nil {
		s.t.Fatal(err)
	}
	s.await("six instances", func() bool { return len(s.instances()) == 6 })
	made := must(s.elb.CreateTargetGroup(ctx, &elb.CreateTargetGroupInput{
		Name: &s.name, Protocol: elbtypes.ProtocolEnumHttp, Port: aws.Int32(80), VpcId: aws.String("vpc-1"),
		TargetType: elbtypes.TargetTypeEnumInstance,
	}))(&s.story)
	s.group = *made.TargetGroups[0].TargetGroupArn
	must(s.elb.ModifyTargetGroupAttributes(ctx, &elb.ModifyTargetGroupAttributesInput{
		TargetGroupArn: &s.group,
		Attributes:     []elbtypes.TargetGroupAttribute{{Key: aws.String("deregistration_delay.timeout_seconds"), Value: aws.String("2")}},
	}))(&s.story)
	s.revise()
	must(s.api.CreateService(ctx, &ecs.CreateServiceInput{
		Cluster: &s.cluster, ServiceName: &s.name, TaskDefinition: &s.name, DesiredCount: aws.Int32(wanted),
		LoadBalancers:           []types.LoadBalancer{{TargetGroupArn: &s.group, ContainerName: &s.name, ContainerPort: aws.Int32(80)}},
		DeploymentConfiguration: percentages(125, 75),
	}))(&s.story)
	s.stable()
	s.until("twelve healthy tasks", func(at sight) bool { return len(at.healthy) == wanted })
	s.watch.floor, s.watch.least = floor, wanted
	s.good = *s.ended(types.ServiceDeploymentStatusSuccessful).TargetServiceRevision.Arn
}

// percentages are how many tasks there may be at most and must be at least, with the circuit breaker on.
func percentages(most, least int32) *types.DeploymentConfiguration {
	return &types.DeploymentConfiguration{
		MaximumPercent: &most, MinimumHealthyPercent: &least,
		DeploymentCircuitBreaker: &types.DeploymentCircuitBreaker{Enable: true, Rollback: true},
	}
}

// revise registers the next revision, with variables that tell the fleet what its tasks do.
func (s *rollout) revise(environment ...types.KeyValuePair) {
	s.t.Helper()
	must(s.api.RegisterTaskDefinition(s.t.Context(), &ecs.RegisterTaskDefinitionInput{
		Family: &s.name, NetworkMode: types.NetworkModeBridge, ContainerDefinitions: []types.ContainerDefinition{{
			Name: &s.name, Image: aws.String("busybox"), Cpu: 256, Memory: aws.Int32(256), Essential: aws.Bool(true),
			PortMappings: []types.PortMapping{{ContainerPort: aws.Int32(80)}}, Environment: environment,
		}},
	}))(&s.story)
}

// deploy has the service take the newest revision.
func (s *rollout) deploy(change func(*ecs.UpdateServiceInput)) {
	s.t.Helper()
	in := &ecs.UpdateServiceInput{Cluster: &s.cluster, Service: &s.name, TaskDefinition: &s.name}
	if change != nil {
		change(in)
	}
	out := must(s.api.UpdateService(s.t.Context(), in))(&s.story)
	if len(out.Service.Deployments) != 2 || *out.Service.Deployments[0].Status != "PRIMARY" || *out.Service.Deployments[1].Status != "ACTIVE" {
		s.t.Errorf("the deployments are %+v", out.Service.Deployments)
	}
}

// stable is `aws ecs wait services-stable`, with all deployments done.
func (s *rollout) stable() {
	s.t.Helper()
	waiter := ecs.NewServicesStableWaiter(s.api, func(o *ecs.ServicesStableWaiterOptions) {
		asked := o.Retryable
		o.Retryable = func(ctx context.Context, in *ecs.DescribeServicesInput, out *ecs.DescribeServicesOutput, err error) (bool, error) {
			again, err := asked(ctx, in, out, err)
			if again {
				s.look()
				s.tier.Pass()
			}
			return again, err
		}
		o.MinDelay, o.MaxDelay = time.Millisecond, 10*time.Millisecond
	})
	if err := waiter.Wait(s.t.Context(), &ecs.DescribeServicesInput{Cluster: &s.cluster, Services: []string{s.name}}, patience); err != nil {
		s.t.Fatalf("%v\n%s", err, s.sight())
	}
	s.until("the deployment to be done", func(at sight) bool {
		d := at.service.Deployments
		return len(d) == 1 && d[0].RolloutState == types.DeploymentRolloutStateCompleted
	})
}

// revisions are the task definitions of tasks that run.
func (at sight) revisions() (found []string) {
	for _, task := range at.tasks {
		if *task.LastStatus == "RUNNING" && *task.DesiredStatus == "RUNNING" {
			found = append(found, cluster.LastPart(*task.TaskDefinitionArn))
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// ended is the newest service deployment, which ended so.
func (s *rollout) ended(status types.ServiceDeploymentStatus) types.ServiceDeployment {
	s.t.Helper()
	ctx := s.t.Context()
	listed := must(s.api.ListServiceDeployments(ctx, &ecs.ListServiceDeploymentsInput{Cluster: &s.cluster, Service: &s.name}))(&s.story)
	if len(listed.ServiceDeployments) == 0 || listed.ServiceDeployments[0].Status != status {
		s.t.Fatalf("the service deployments are %+v, want the first %s", listed.ServiceDeployments, status)
	}
	out := must(s.api.DescribeServiceDeployments(ctx, &ecs.DescribeServiceDeploymentsInput{
		ServiceDeploymentArns: []string{*listed.ServiceDeployments[0].ServiceDeploymentArn},
	}))(&s.story)
	d := out.ServiceDeployments[0]
	if d.Status != status || d.CreatedAt == nil || d.StartedAt == nil || d.FinishedAt == nil {
		s.t.Errorf("the service deployment is %+v", d)
	}
	return d
}

func (s *rollout) rollForth() {
	s.revise()
	s.deploy(nil)
	s.until("healthy tasks of both revisions", func(at sight) bool {
		return slices.Equal(at.revisions(), []string{"quay:1", "quay:2"}) &&
			slices.ContainsFunc(at.healthy, func(task types.Task) bool { return cluster.LastPart(*task.TaskDefinitionArn) == "quay:2" })
	})
	s.loseZone(zones[2])
	s.stable()
	at := s.look()
	if r := at.revisions(); !slices.Equal(r, []string{"quay:2"}) || len(at.healthy) != wanted {
		s.t.Errorf("%d tasks of %v are healthy", len(at.healthy), r)
	}
	d := s.ended(types.ServiceDeploymentStatusSuccessful)
	if len(d.SourceServiceRevisions) != 1 || *d.SourceServiceRevisions[0].Arn != s.good || d.Rollback != nil {
		s.t.Errorf("the service deployment is from %+v, rolled back: %+v", d.SourceServiceRevisions, d.Rollback)
	}
	s.good = *d.TargetServiceRevision.Arn
	out := must(s.api.DescribeServiceRevisions(s.t.Context(), &ecs.DescribeServiceRevisionsInput{ServiceRevisionArns: []string{s.good}}))(&s.story)
	if len(out.ServiceRevisions) != 1 || cluster.LastPart(*out.ServiceRevisions[0].TaskDefinition) != "quay:2" {
		s.t.Errorf("the service revisions are %+v", out.ServiceRevisions)
	}
}

// loseZone ends all machines of a zone.
func (s *rollout) loseZone(zone string) {
	s.t.Helper()
	for _, task := range s.look().healthy {
		if *task.AvailabilityZone == zone {
			s.watch.owed++
		}
	}
	if s.watch.owed == 0 {
		s.t.Fatal("the zone has no healthy task")
	}
	s.dead = zone
	for _, i := range s.instances() {
		if zoneOf(i) == zone {
			if err := s.tier.KillInstance(cluster.LastPart(*i.ContainerInstanceArn)); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

func (s *rollout) failTarget() {
	const why = "Health checks failed with these codes: [503]"
	s.until("the zones that are left to have as many tasks", func(at sight) bool {
		in := map[string]int{}
		for _, task := range at.healthy {
			in[*task.AvailabilityZone]++
		}
		return len(at.tasks) == wanted && in[zones[0]] == wanted/2 && in[zones[1]] == wanted/2
	})
	victim := s.tasks(s.name)[0]
	if err := s.tier.FailTarget(ecsID(s.t, victim), why); err != nil {
		s.t.Fatal(err)
	}
	s.until("its replacement", func(at sight) bool {
		return len(at.healthy) == wanted && !slices.ContainsFunc(at.tasks, func(task types.Task) bool { return *task.TaskArn == *victim.TaskArn })
	})
	s.stable()
	at := s.look()
	for _, text := range []string{
		"(task " + cluster.LastPart(*victim.TaskArn) + ") (port ", "is unhealthy in (target-group " + s.group + ") due to (reason " + why + ").",
		" Amazon ECS replaced 1 tasks due to an unhealthy status.",
	} {
		if !at.said(text) {
			s.t.Errorf("no event has %q\n%s", text, at)
		}
	}
}

func (s *rollout) breakUp() {
	s.revise(types.KeyValuePair{Name: aws.String("BERTH_FLEET_FAIL"), Value: aws.String("start")})
	// One task at a time, so that the fourth failure is that of the fourth attempt.
	s.watch.floor = wanted // 92 % of it, rounded up
	s.deploy(func(in *ecs.UpdateServiceInput) {
		in.DeploymentConfiguration = percentages(109, 92)
		in.DeploymentConfiguration.DeploymentCircuitBreaker.ThresholdConfiguration = &types.ThresholdConfiguration{Type: types.ThresholdTypeCount, Value: 4}
	})
	bad := *s.service(s.name).Deployments[0].Id
	var slowed berthapi.ThrottleOutput
	s.until("its starts to be slowed down", func(sight) bool {
		slowed = s.throttle()
		return len(slowed.Revisions) == 1
	})
	r := slowed.Revisions[0]
	if r.Deployment != bad || r.Status != "PRIMARY" || r.Step < 1 || r.Failures < 1 || !r.NextAttemptAt.After(r.Since) ||
		!strings.Contains(r.Reason, "CannotStartContainerError") {
		s.t.Errorf("it is slowed down so: %+v", r)
	}
	s.until("an event that it is", func(at sight) bool { return at.said("is unable to consistently start tasks successfully.") })
	// The delay before the fourth attempt is nine minutes, and up to a tenth more: about as long as one wait.
	tripped := func() bool {
		return s.look().said("(deployment " + bad + ") deployment failed: tasks failed to start.")
	}
	if !s.tier.Await(tripped) {
		s.await("the circuit breaker", tripped)
	}
	d := s.rolledBack("circuit breaker")
	if b := d.DeploymentCircuitBreaker; b.Status != types.ServiceDeploymentRollbackMonitorsStatusTriggered || b.Threshold != 4 || b.FailureCount != 4 {
		s.t.Errorf("the circuit breaker is %+v", b)
	}
	if left := s.throttle(); len(left.Revisions) != 0 {
		s.t.Errorf("still slowed down: %+v", left.Revisions)
	}
}

// throttle is how the service's starts are slowed down.
func (s *rollout) throttle() (out berthapi.ThrottleOutput) {
	s.t.Helper()
	answer := must(s.tier.Own(s.t.Context(), "DescribeServiceThrottle", `{"cluster": "harbour", "service": "quay"}`))(&s.story)
	if err := json.Unmarshal(answer, &out); err != nil {
		s.t.Fatal(err)
	}
	return out
}

// said reports whether the service's events have a text in them.
func (at sight) said(text string) bool {
	return slices.ContainsFunc(at.service.Events, func(e types.ServiceEvent) bool { return strings.Contains(*e.Message, text) })
}

// rolledBack is the second revision again.
func (s *rollout) rolledBack(why string) types.ServiceDeployment {
	s.t.Helper()
	s.stable()
	// It is stable with its desired count; a task that moves for the sake of zones or domains has its replacement beside it for a while.
	s.until("as many tasks of the good revision as are wanted", func(at sight) bool {
		return slices.Equal(at.revisions(), []string{"quay:2"}) && len(at.healthy) == wanted
	})
	at := s.look()
	if !at.said("rolling back to deployment " + *at.service.Deployments[0].Id + ".") {
		s.t.Error("no event says so")
	}
	d := s.ended(types.ServiceDeploymentStatusRollbackSuccessful)
	if d.Rollback == nil || *d.Rollback.ServiceRevisionArn != s.good || !strings.Contains(*d.Rollback.Reason, why) {
		s.t.Errorf("it was rolled back so: %+v", d.Rollback)
	}
	return d
}

func (s *rollout) alarm() {
	ctx := s.t.Context()
	must(s.alarms.PutMetricAlarm(ctx, &cloudwatch.PutMetricAlarmInput{
		AlarmName: aws.String("late"), Namespace: aws.String("Harbour"), MetricName: aws.String("Delay"), Period: aws.Int32(10),
		EvaluationPeriods: aws.Int32(1), Threshold: aws.Float64(1), ComparisonOperator: cwtypes.ComparisonOperatorGreaterThanThreshold,
		Statistic: cwtypes.StatisticSum,
	}))(&s.story)
	s.revise()
	s.watch.floor = floor
	s.deploy(func(in *ecs.UpdateServiceInput) {
		in.DeploymentConfiguration = percentages(125, 75)
		in.DeploymentConfiguration.Alarms = &types.DeploymentAlarms{AlarmNames: []string{"late"}, Enable: true, Rollback: true}
	})
	s.until("tasks of the bad revision", func(at sight) bool { return slices.Contains(at.revisions(), "quay:4") })
	must(s.alarms.SetAlarmState(ctx, &cloudwatch.SetAlarmStateInput{
		AlarmName: aws.String("late"), StateValue: cwtypes.StateValueAlarm, StateReason: aws.String("ships are late"),
	}))(&s.story)
	s.until("the alarm to be seen", func(at sight) bool { return at.said("deployment failed: alarm detected.") })
	d := s.rolledBack("alarms")
	if a := d.Alarms; a.Status != types.ServiceDeploymentRollbackMonitorsStatusTriggered || !slices.Equal(a.TriggeredAlarmNames, []string{"late"}) {
		s.t.Errorf("the alarms are %+v", a)
	}
}

func (s *rollout) drain() {
	ctx := s.t.Context()
	from := *s.tasks(s.name)[0].ContainerInstanceArn
	out := must(s.api.UpdateContainerInstancesState(ctx, &ecs.UpdateContainerInstancesStateInput{
		Cluster: &s.cluster, ContainerInstances: []string{from}, Status: types.ContainerInstanceStatusDraining,
	}))(&s.story)
	if len(out.ContainerInstances) != 1 || *out.ContainerInstances[0].Status != "DRAINING" {
		s.t.Errorf("the instances are %+v", out.ContainerInstances)
	}
	s.until("its tasks to be elsewhere", func(at sight) bool {
		return len(at.healthy) == wanted && !slices.ContainsFunc(at.tasks, func(task types.Task) bool { return *task.ContainerInstanceArn == from })
	})
	s.stable()
	must(s.api.UpdateContainerInstancesState(ctx, &ecs.UpdateContainerInstancesStateInput{
		Cluster: &s.cluster, ContainerInstances: []string{from}, Status: types.ContainerInstanceStatusActive,
	}))(&s.story)
}

func (s *rollout) protect() {
	ctx := s.t.Context()
	var keep []string
	for _, task := range s.tasks(s.name)[:3] {
		keep = append(keep, *task.TaskArn)
	}
	kept := must(s.api.UpdateTaskProtection(ctx, &ecs.UpdateTaskProtectionInput{Cluster: &s.cluster, Tasks: keep, ProtectionEnabled: true}))(&s.story)
	if len(kept.ProtectedTasks) != 3 || len(kept.Failures) != 0 {
		s.t.Errorf("protected are %+v, not %+v", kept.ProtectedTasks, kept.Failures)
	}
	s.watch.floor = 2 // 75 % of two, rounded up
	must(s.api.UpdateService(ctx, &ecs.UpdateServiceInput{Cluster: &s.cluster, Service: &s.name, DesiredCount: aws.Int32(2)}))(&s.story)
	s.until("the protected tasks to be all that is left", func(at sight) bool {
		for _, arn := range keep {
			if !slices.ContainsFunc(at.healthy, func(task types.Task) bool { return *task.TaskArn == arn }) {
				s.t.Fatalf("task %s is protected and was stopped", arn)
			}
		}
		return len(at.tasks) == 3 && at.said("was unable to reach steady state because (taskSet "+*at.service.Deployments[0].Id+
			") was unable to scale in due to (reason 1 tasks under protection)")
	})
	must(s.api.UpdateTaskProtection(ctx, &ecs.UpdateTaskProtectionInput{Cluster: &s.cluster, Tasks: keep[:1]}))(&s.story)
	s.until("the one that is not protected any more to be stopped", func(at sight) bool {
		return len(at.tasks) == 2 && !slices.ContainsFunc(at.tasks, func(task types.Task) bool { return *task.TaskArn == keep[0] })
	})
	s.stable()
}

// texts are ECS's, of all that happens here.
var texts = regexp.MustCompile(`^\(service quay\) (?:` + strings.Join([]string{
	`has reached a steady state\.`,
	`has started \d+ tasks:(?: \(task [0-9a-f]{32}\))+\.(?: Amazon ECS replaced \d+ tasks due to an unhealthy status\.)?`,
	`has stopped \d+ running tasks:(?: \(task [0-9a-f]{32}\))+\.`,
	`stopped \d+ pending tasks\.`,
	`(?:de)?registered \d+ targets in \(target-group \S+\)`,
	`failed to register targets in \(target-group \S+\) with \(error .*\)`, // on an instance that has just died
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

func (s *rollout) words() {
	events := s.service(s.name).Events
	in := 0
	for n, e := range events {
		if !texts.MatchString(*e.Message) {
			s.t.Errorf("ECS does not say %q", *e.Message)
		}
		if n > 0 && e.CreatedAt.After(*events[n-1].CreatedAt) {
			s.t.Errorf("%q comes before what is older", *e.Message)
		}
		if m := inPort.FindStringSubmatch(*e.Message); m != nil {
			count, _ := strconv.Atoi(m[1])
			in += count
		}
	}
	if len(events) < 100 && in < 2*wanted {
		s.t.Errorf("events tell of %d registrations", in)
	}
	for _, text := range []string{
		"has stopped", "deregistered", "has begun draining connections", "is unable to consistently start", "deployment completed", "has reached a steady state",
	} {
		if len(s.saying(s.name, text)) == 0 {
			s.t.Errorf("none of %d events has %q", len(events), text)
		}
	}
}

// discovered has a service of tasks with addresses of their own entered in Cloud Map, and removed.
func (s *rollout) discovered() {
	ctx := s.t.Context()
	made := must(s.names.CreateService(ctx, &servicediscovery.CreateServiceInput{Name: &s.name, NamespaceId: aws.String("ns-1")}))(&s.story)
	must(s.api.RegisterTaskDefinition(ctx, &ecs.RegisterTaskDefinitionInput{
		Family: aws.String("crane"), NetworkMode: types.NetworkModeAwsvpc, ContainerDefinitions: []types.ContainerDefinition{{
			Name: aws.String("crane"), Image: aws.String("busybox"), Cpu: 64, Memory: aws.Int32(64), Essential: aws.Bool(true),
		}},
	}))(&s.story)
	must(s.api.CreateService(ctx, &ecs.CreateServiceInput{
		Cluster: &s.cluster, ServiceName: aws.String("crane"), TaskDefinition: aws.String("crane"), DesiredCount: aws.Int32(2),
		NetworkConfiguration: &types.NetworkConfiguration{AwsvpcConfiguration: &types.AwsVpcConfiguration{Subnets: []string{"subnet-1"}}},
		ServiceRegistries:    []types.ServiceRegistry{{RegistryArn: made.Service.Arn}},
	}))(&s.story)
	entries := func() int {
		out := must(s.names.ListInstances(ctx, &servicediscovery.ListInstancesInput{ServiceId: made.Service.Id}))(&s.story)
		return len(out.Instances)
	}
	s.until("two entries, and a deployment that is done", func(sight) bool {
		return entries() == 2 && s.service("crane").Deployments[0].RolloutState == types.DeploymentRolloutStateCompleted
	})
	must(s.api.DeleteService(ctx, &ecs.DeleteServiceInput{Cluster: &s.cluster, Service: aws.String("crane"), Force: aws.Bool(true)}))(&s.story)
	s.until("no entry", func(sight) bool { return entries() == 0 })
}

func (s *rollout) end() {
	ctx := s.t.Context()
	s.watch.floor = 0
	must(s.api.DeleteService(ctx, &ecs.DeleteServiceInput{Cluster: &s.cluster, Service: &s.name, Force: aws.Bool(true)}))(&s.story)
	s.await("no target", func() bool { return len(s.health()) == 0 })
	waiter := ecs.NewServicesInactiveWaiter(s.api, func(o *ecs.ServicesInactiveWaiterOptions) {
		asked := o.Retryable
		o.Retryable = func(ctx context.Context, in *ecs.DescribeServicesInput, out *ecs.DescribeServicesOutput, err error) (bool, error) {
			again, err := asked(ctx, in, out, err)
			s.tier.Pass()
			return again, err
		}
		o.MinDelay, o.MaxDelay = time.Millisecond, 10*time.Millisecond
	})
	if err := waiter.Wait(ctx, &ecs.DescribeServicesInput{Cluster: &s.cluster, Services: []string{s.name}}, patience); err != nil {
		s.t.Fatal(err)
	}
}
