package e2e

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cwtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/aws-sdk-go-v2/service/servicediscovery"

	"berth/shared/cluster"
)

// balancedTier is a tier whose fleet has target groups and alarms.
type balancedTier interface {
	Tier
	// Balancing is where the fleet's Elastic Load Balancing and CloudWatch are.
	Balancing() aws.Config
	// FailTarget has a task fail the checks of its target groups, for a reason.
	FailTarget(id, reason string) error
	// LookNow has what looks each minute look now, where time does not pass by itself.
	LookNow() error
}

func (v *virtual) Balancing() aws.Config {
	return aws.Config{Region: "us-east-1", BaseEndpoint: aws.String("http://127.0.0.1"), Credentials: anyone, HTTPClient: inline{v.Server}}
}

func (v *virtual) FailTarget(id, reason string) error { return v.Fleet.SetTargetHealth(id, reason) }

func (v *virtual) LookNow() error { return nil }

func TestBalancedScenario(t *testing.T) { runBalancedScenario(t, newVirtual(t)) }

// balancedStory is a service behind a target group.
type balancedStory struct {
	story
	tier  balancedTier
	elb   *elb.Client
	watch *cloudwatch.Client
	names *servicediscovery.Client
	group string
	// least is the fewest healthy targets that were seen since it was set.
	least int
}

// runBalancedScenario rolls a service of twelve behind a target group forth while a zone dies, loses one task to failing
// checks, and has the circuit breaker and then an alarm roll it back. Never by Berth's own doing are there fewer healthy targets
// than the service wants at least.
func runBalancedScenario(t *testing.T, tier balancedTier) {
	s := &balancedStory{story: story{t: t, tier: tier, api: tier.Client(), cluster: "market"}, tier: tier}
	s.elb, s.watch = elb.NewFromConfig(tier.Balancing()), cloudwatch.NewFromConfig(tier.Balancing())
	s.names = servicediscovery.NewFromConfig(tier.Balancing())
	for _, step := range []struct {
		name string
		run  func()
	}{
		{"RegisteredAndHealthy", s.begin},
		{"RollsForthWhileAZoneDies", s.rollForth},
		{"ReplacesWhatFailsItsChecks", s.loseTarget},
		{"TheCircuitBreakerRollsItBack", s.breakUp},
		{"AnAlarmRollsItBack", s.rollBack},
		{"ScalesInWithoutCuttingConnections", s.scaleIn},
		{"EntersTasksInCloudMap", s.discovered},
	} {
		t.Run(step.name, func(t *testing.T) {
			s.t = t
			step.run()
		})
		if t.Failed() {
			t.FailNow()
		}
	}
}

const wantedTargets = 12

func (s *balancedStory) begin() {
	ctx := s.t.Context()
	must(s.api.CreateCluster(ctx, &ecs.CreateClusterInput{ClusterName: &s.cluster}))(&s.story)
	if err := s.story.tier.AddInstances(s.cluster, 6, "t3.medium", zones); err != nil {
		s.t.Fatal(err)
	}
	s.await("six instances", func() bool { return len(s.instances()) == 6 })
	made := must(s.elb.CreateTargetGroup(ctx, &elb.CreateTargetGroupInput{
		Name: aws.String("market"), Protocol: elbtypes.ProtocolEnumHttp, Port: aws.Int32(80), VpcId: aws.String("vpc-1"),
		TargetType: elbtypes.TargetTypeEnumInstance,
	}))(&s.story)
	s.group = *made.TargetGroups[0].TargetGroupArn
	must(s.elb.ModifyTargetGroupAttributes(ctx, &elb.ModifyTargetGroupAttributesInput{
		TargetGroupArn: &s.group,
		Attributes:     []elbtypes.TargetGroupAttribute{{Key: aws.String("deregistration_delay.timeout_seconds"), Value: aws.String("5")}},
	}))(&s.story)
	s.revise()
	must(s.api.CreateService(ctx, &ecs.CreateServiceInput{
		Cluster: &s.cluster, ServiceName: aws.String("stall"), TaskDefinition: aws.String("stall"), DesiredCount: aws.Int32(wantedTargets),
		LoadBalancers: []types.LoadBalancer{{TargetGroupArn: &s.group, ContainerName: aws.String("app"), ContainerPort: aws.Int32(80)}},
	}))(&s.story)
	s.settled()
	s.saidOf(" targets in (target-group " + s.group + ")")
}

// revise registers the next revision.
func (s *balancedStory) revise(environment ...types.KeyValuePair) {
	s.t.Helper()
	must(s.api.RegisterTaskDefinition(s.t.Context(), &ecs.RegisterTaskDefinitionInput{
		Family: aws.String("stall"), NetworkMode: types.NetworkModeBridge, ContainerDefinitions: []types.ContainerDefinition{{
			Name: aws.String("app"), Image: aws.String("busybox"), Cpu: 256, Memory: aws.Int32(256), Essential: aws.Bool(true),
			PortMappings: []types.PortMapping{{ContainerPort: aws.Int32(80)}}, Environment: environment,
		}},
	}))(&s.story)
}

// targets are those of the group, by state.
func (s *balancedStory) targets() map[elbtypes.TargetHealthStateEnum]int {
	s.t.Helper()
	out := must(s.elb.DescribeTargetHealth(s.t.Context(), &elb.DescribeTargetHealthInput{TargetGroupArn: &s.group}))(&s.story)
	by := map[elbtypes.TargetHealthStateEnum]int{}
	for _, d := range out.TargetHealthDescriptions {
		by[d.TargetHealth.State]++
	}
	return by
}

// until waits, and notes how few targets are healthy meanwhile.
func (s *balancedStory) until(what string, done func() bool) {
	s.t.Helper()
	s.await(what, func() bool {
		s.least = min(s.least, s.targets()[elbtypes.TargetHealthStateEnumHealthy])
		if err := s.tier.LookNow(); err != nil {
			s.t.Fatal(err)
		}
		return done()
	})
}

// settled is a deployment that is done, with all targets healthy.
func (s *balancedStory) settled() {
	s.t.Helper()
	s.until("the service to be at rest", func() bool {
		v, by := s.service("stall"), s.targets()
		return len(v.Deployments) == 1 && v.Deployments[0].RolloutState == types.DeploymentRolloutStateCompleted &&
			by[elbtypes.TargetHealthStateEnumHealthy] == wantedTargets && len(by) == 1
	})
}

func (s *balancedStory) saidOf(text string) {
	s.t.Helper()
	s.until("an event with "+text, func() bool { return len(s.saying("stall", text)) > 0 })
}

// definitions are the revisions that tasks run.
func (s *balancedStory) definitions() (found []string) {
	for _, task := range s.tasks("stall") {
		found = append(found, cluster.LastPart(*task.TaskDefinitionArn))
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func (s *balancedStory) rollForth() {
	s.revise()
	s.least = wantedTargets
	must(s.api.UpdateService(s.t.Context(), &ecs.UpdateServiceInput{
		Cluster: &s.cluster, Service: aws.String("stall"), TaskDefinition: aws.String("stall"),
	}))(&s.story)
	s.until("tasks of the new revision", func() bool { return slices.Contains(s.definitions(), "stall:2") })
	lost := s.loseZone(zones[0])
	s.until("the new revision", func() bool { return slices.Equal(s.definitions(), []string{"stall:2"}) })
	s.settled()
	if s.least < wantedTargets-lost {
		s.t.Errorf("there were only %d healthy targets, and the zone had %d", s.least, lost)
	}
	s.saidOf("deregistered")
	s.saidOf("has begun draining connections on")
	s.saidOf("deployment completed.")
}

// loseZone ends all machines of a zone, and gives how many tasks ran there.
func (s *balancedStory) loseZone(zone string) (tasks int) {
	s.t.Helper()
	for _, task := range s.tasks("stall") {
		if *task.AvailabilityZone == zone {
			tasks++
		}
	}
	for _, i := range s.instances() {
		if zoneOf(i) == zone {
			if err := s.tier.KillInstance(cluster.LastPart(*i.ContainerInstanceArn)); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	return tasks
}

func (s *balancedStory) breakUp() {
	s.revise(types.KeyValuePair{Name: aws.String("BERTH_FLEET_FAIL"), Value: aws.String("start")})
	s.least = wantedTargets
	must(s.api.UpdateService(s.t.Context(), &ecs.UpdateServiceInput{
		Cluster: &s.cluster, Service: aws.String("stall"), TaskDefinition: aws.String("stall"),
		DeploymentConfiguration: &types.DeploymentConfiguration{
			MaximumPercent: aws.Int32(200), MinimumHealthyPercent: aws.Int32(100),
			DeploymentCircuitBreaker: &types.DeploymentCircuitBreaker{Enable: true, Rollback: true},
		},
	}))(&s.story)
	s.saidOf("deployment failed: tasks failed to start.")
	s.saidOf("rolling back to deployment")
	s.rolledBack()
}

// rolledBack is the second revision again, without a moment of fewer healthy targets than are wanted.
func (s *balancedStory) rolledBack() {
	s.t.Helper()
	s.until("the old revision", func() bool { return slices.Equal(s.definitions(), []string{"stall:2"}) })
	s.settled()
	if s.least < wantedTargets {
		s.t.Errorf("there were only %d healthy targets", s.least)
	}
}

func (s *balancedStory) loseTarget() {
	victim := s.tasks("stall")[0]
	if err := s.tier.FailTarget(ecsID(s.t, victim), "Health checks failed with these codes: [503]"); err != nil {
		s.t.Fatal(err)
	}
	s.until("its replacement", func() bool {
		return !slices.ContainsFunc(s.tasks("stall"), func(t types.Task) bool { return *t.TaskArn == *victim.TaskArn })
	})
	s.settled()
	s.saidOf("(task " + cluster.LastPart(*victim.TaskArn) + ") (port ")
	s.saidOf("is unhealthy in (target-group " + s.group + ") due to (reason Health checks failed with these codes: [503]).")
}

func (s *balancedStory) rollBack() {
	ctx := s.t.Context()
	must(s.watch.PutMetricAlarm(ctx, &cloudwatch.PutMetricAlarmInput{
		AlarmName: aws.String("errors"), Namespace: aws.String("Market"), MetricName: aws.String("Errors"), Period: aws.Int32(60),
		EvaluationPeriods: aws.Int32(1), Threshold: aws.Float64(1), ComparisonOperator: cwtypes.ComparisonOperatorGreaterThanThreshold,
		Statistic: cwtypes.StatisticSum,
	}))(&s.story)
	s.revise()
	s.least = wantedTargets
	must(s.api.UpdateService(ctx, &ecs.UpdateServiceInput{
		Cluster: &s.cluster, Service: aws.String("stall"), TaskDefinition: aws.String("stall"),
		DeploymentConfiguration: &types.DeploymentConfiguration{
			MaximumPercent: aws.Int32(200), MinimumHealthyPercent: aws.Int32(100),
			Alarms: &types.DeploymentAlarms{AlarmNames: []string{"errors"}, Enable: true, Rollback: true},
		},
	}))(&s.story)
	s.until("tasks of the bad revision", func() bool { return slices.Contains(s.definitions(), "stall:4") })
	must(s.watch.SetAlarmState(ctx, &cloudwatch.SetAlarmStateInput{
		AlarmName: aws.String("errors"), StateValue: cwtypes.StateValueAlarm, StateReason: aws.String("a test"),
	}))(&s.story)
	s.saidOf("deployment failed: alarm detected.")
	s.rolledBack()
}

func (s *balancedStory) scaleIn() {
	must(s.api.UpdateService(s.t.Context(), &ecs.UpdateServiceInput{Cluster: &s.cluster, Service: aws.String("stall"), DesiredCount: aws.Int32(1)}))(&s.story)
	s.until("connections being drained", func() bool { return s.targets()[elbtypes.TargetHealthStateEnumDraining] > 0 })
	s.until("one target", func() bool {
		by := s.targets()
		return by[elbtypes.TargetHealthStateEnumHealthy] == 1 && len(by) == 1
	})
	must(s.api.DeleteService(s.t.Context(), &ecs.DeleteServiceInput{Cluster: &s.cluster, Service: aws.String("stall"), Force: aws.Bool(true)}))(&s.story)
	s.until("no target", func() bool { return len(s.targets()) == 0 })
}

// discovered has a service of tasks with addresses of their own entered in Cloud Map, and removed.
func (s *balancedStory) discovered() {
	ctx := s.t.Context()
	made := must(s.names.CreateService(ctx, &servicediscovery.CreateServiceInput{Name: aws.String("stall"), NamespaceId: aws.String("ns-1")}))(&s.story)
	must(s.api.RegisterTaskDefinition(ctx, &ecs.RegisterTaskDefinitionInput{
		Family: aws.String("named"), NetworkMode: types.NetworkModeAwsvpc, ContainerDefinitions: []types.ContainerDefinition{{
			Name: aws.String("app"), Image: aws.String("busybox"), Cpu: 64, Memory: aws.Int32(64), Essential: aws.Bool(true),
		}},
	}))(&s.story)
	must(s.api.CreateService(ctx, &ecs.CreateServiceInput{
		Cluster: &s.cluster, ServiceName: aws.String("named"), TaskDefinition: aws.String("named"), DesiredCount: aws.Int32(2),
		NetworkConfiguration: &types.NetworkConfiguration{AwsvpcConfiguration: &types.AwsVpcConfiguration{Subnets: []string{"subnet-1"}}},
		ServiceRegistries:    []types.ServiceRegistry{{RegistryArn: made.Service.Arn}},
	}))(&s.story)
	entries := func() int {
		out := must(s.names.ListInstances(ctx, &servicediscovery.ListInstancesInput{ServiceId: made.Service.Id}))(&s.story)
		return len(out.Instances)
	}
	s.until("two entries, and a deployment that is done", func() bool {
		v := s.service("named")
		return entries() == 2 && v.Deployments[0].RolloutState == types.DeploymentRolloutStateCompleted
	})
	must(s.api.DeleteService(ctx, &ecs.DeleteServiceInput{Cluster: &s.cluster, Service: aws.String("named"), Force: aws.Bool(true)}))(&s.story)
	s.until("no entry", func() bool { return entries() == 0 })
}
