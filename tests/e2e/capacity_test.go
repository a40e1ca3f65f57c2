package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	asgtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/cmd/berth/installation"
	"berth/shared/cluster"
	"berth/shared/handler"
)

// A capacityTier is a tier whose simulated AWS has Auto Scaling groups.
type capacityTier interface {
	rolloutTier
	// RunSchedule invokes a function by its schedule, if time does not pass by itself.
	RunSchedule(ctx context.Context, function, schedule string) error
	// Now returns the time that passes for the functions.
	Now() time.Time
	// CallEKS calls Berth's EKS API and returns the HTTP status and the answer.
	CallEKS(ctx context.Context, method, path, body string) (status int, answer []byte, err error)
}

// A capacityScenario is a cluster whose instances belong to an Auto Scaling group.
type capacityScenario struct {
	scenario
	tier   capacityTier
	groups *autoscaling.Client
	ec2    *ec2.Client
	alarms *cloudwatch.Client
	group  string
	// hasTime means that the scenario may wait for steps that take a minute each.
	hasTime bool
}

func newCapacityScenario(t *testing.T, tier capacityTier, clusterName string) *capacityScenario {
	return &capacityScenario{
		scenario: scenario{t: t, tier: tier, api: tier.Client(), cluster: clusterName}, tier: tier,
		groups: autoscaling.NewFromConfig(tier.SimulatedConfig()),
		ec2:    ec2.NewFromConfig(tier.SimulatedConfig()), alarms: cloudwatch.NewFromConfig(tier.SimulatedConfig()),
		group: clusterName + "-group",
	}
}

func TestCapacityScenario(t *testing.T) { runCapacityScenario(t, newVirtual(t), true) }

// runCapacityScenario runs the life of a capacity provider: from no instance to as many as its
// services need, to fewer by consolidation, and to none after the services are gone, if there is
// time. A task takes half of a t3.medium (2 vCPU).
func runCapacityScenario(t *testing.T, tier capacityTier, patient bool) {
	s := newCapacityScenario(t, tier, "forge")
	s.hasTime = patient
	s.runSteps([]step{
		{"AnEmptyGroupHasACapacityProvider", s.createProvider},
		{"ItsTypeIsSelectedByAttributes", s.selectByAttributes},
		{"NothingIsLaunchedForATaskThatItsTypeCannotHold", s.createOversized},
		{"AWaitingTaskAsksForAMachineAtOnce", s.scaleOutAtOnce},
		{"ItIsScaledOutForWaitingTasks", s.createServices},
		{"AnInstanceStoppedByHandIsDrainedFirst", s.terminateByHand},
		{"HalfEmptyInstancesAreConsolidated", s.awaitConsolidation},
		{"AnInstanceIsProtectedAgainBeforeATaskStartsThere", s.awaitEmptyGroup},
		{"ItIsScaledIn", s.deleteServices},
		{"AnUnscaledGroupKeepsNothingOfBerths", s.detachProvider},
	})
}

type step struct {
	name string
	run  func()
}

func (s *capacityScenario) runSteps(all []step) {
	t := s.t
	for _, step := range all {
		t.Run(step.name, func(t *testing.T) {
			s.t = t
			step.run()
		})
		if t.Failed() {
			t.FailNow()
		}
	}
}

// createGroup creates a cluster and its Auto Scaling group as users do: with a launch template
// whose user data names the cluster.
func (s *capacityScenario) createGroup(desired int32, tags ...asgtypes.Tag) {
	s.t.Helper()
	ctx := s.t.Context()
	mustSucceed(s.api.CreateCluster(ctx, &ecs.CreateClusterInput{ClusterName: &s.cluster}))(&s.scenario)
	mustSucceed(s.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: &s.group, LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
			ImageId: aws.String("ami-1"), InstanceType: ec2types.InstanceTypeT3Medium,
			UserData: aws.String(s.userData()),
		},
	}))(&s.scenario)
	own := asgtypes.Tag{Key: aws.String(handler.OwnerTag), Value: aws.String(installation.Name),
		PropagateAtLaunch: aws.Bool(false)}
	mustSucceed(s.groups.CreateAutoScalingGroup(ctx, &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: &s.group, MinSize: aws.Int32(0), MaxSize: aws.Int32(6), DesiredCapacity: &desired,
		LaunchTemplate: &asgtypes.LaunchTemplateSpecification{LaunchTemplateName: &s.group,
			Version: aws.String("1")},
		AvailabilityZones: zones, NewInstancesProtectedFromScaleIn: aws.Bool(len(tags) == 0 && desired == 0),
		Tags: append(tags, own),
	}))(&s.scenario)
}

// userData is that of a machine that joins the cluster, in base64.
func (s *capacityScenario) userData() string {
	script := "#!/bin/bash\necho ECS_CLUSTER=" + s.cluster + " >> /etc/ecs/ecs.config\n"
	return base64.StdEncoding.EncodeToString([]byte(script))
}

// describeGroup returns the group as Auto Scaling describes it.
func (s *capacityScenario) describeGroup() asgtypes.AutoScalingGroup {
	s.t.Helper()
	out := mustSucceed(s.groups.DescribeAutoScalingGroups(s.t.Context(),
		&autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{s.group}}))(&s.scenario)
	if len(out.AutoScalingGroups) != 1 {
		s.t.Fatalf("group %s: %+v", s.group, out)
	}
	return out.AutoScalingGroups[0]
}

// awaitScaling waits while managed scaling runs by its schedule.
func (s *capacityScenario) awaitScaling(what string, done func() bool) {
	s.t.Helper()
	s.awaitSchedule("managed-scaling", "scaling", what, done)
}

// awaitSchedule waits while a function runs by its schedule, for three times as long as await does.
func (s *capacityScenario) awaitSchedule(function, schedule, what string, done func() bool) {
	s.t.Helper()
	var last error // a failed invocation is repeated, as each minute
	for range 3 {
		ended := s.tier.Await(func() bool {
			if done() {
				return true
			}
			last = s.tier.RunSchedule(s.t.Context(), function, schedule)
			return done()
		})
		if ended {
			return
		}
	}
	s.t.Fatalf("waited too long for %s: %v", what, last)
}

const provider = "forge-provider"

func (s *capacityScenario) createProvider() {
	ctx := s.t.Context()
	s.createGroup(0)
	s.registerFamily(s.cluster, 1024, 512)
	made := mustSucceed(s.api.CreateCapacityProvider(ctx, &ecs.CreateCapacityProviderInput{
		Name: aws.String(provider), AutoScalingGroupProvider: &types.AutoScalingGroupProvider{
			AutoScalingGroupArn: s.describeGroup().AutoScalingGroupARN, ManagedDraining: types.ManagedDrainingEnabled,
			ManagedTerminationProtection: types.ManagedTerminationProtectionEnabled,
			ManagedScaling: &types.ManagedScaling{Status: types.ManagedScalingStatusEnabled,
				InstanceWarmupPeriod: aws.Int32(10)},
		},
		Tags: []types.Tag{
			{Key: aws.String(cluster.TagScaleInDatapoints), Value: aws.String("1")},
			{Key: aws.String(cluster.TagScaleInPercent), Value: aws.String("100")},
			{Key: aws.String(cluster.TagScaleInCooldown), Value: aws.String("0")},
		},
	}))(&s.scenario)
	if made.CapacityProvider.Status != types.CapacityProviderStatusActive {
		s.t.Errorf("the capacity provider is %+v", made.CapacityProvider)
	}
	s.await("the check of its group, which no schedule makes", func() bool {
		found := mustSucceed(s.api.DescribeCapacityProviders(ctx,
			&ecs.DescribeCapacityProvidersInput{CapacityProviders: []string{provider}}))(&s.scenario)
		return found.CapacityProviders[0].UpdateStatus == types.CapacityProviderUpdateStatusCreateComplete
	})
	mustSucceed(s.api.PutClusterCapacityProviders(ctx, &ecs.PutClusterCapacityProvidersInput{
		Cluster: &s.cluster, CapacityProviders: []string{provider},
		DefaultCapacityProviderStrategy: []types.CapacityProviderStrategyItem{{CapacityProvider: aws.String(provider),
			Weight: 1}},
	}))(&s.scenario)
	s.await("the attachment, which no schedule makes", func() bool {
		hooks := mustSucceed(s.groups.DescribeLifecycleHooks(ctx,
			&autoscaling.DescribeLifecycleHooksInput{AutoScalingGroupName: &s.group}))(&s.scenario)
		return len(hooks.LifecycleHooks) == 1 && len(s.scalingAlarms()) == 2 &&
			*s.attachmentStatus() == "UPDATE_COMPLETE"
	})
	if n := len(s.describeGroup().Instances); n > 0 {
		s.t.Errorf("%d instances without a task", n)
	}
}

// immediateTimeout is far more than a wake-up takes, and less than the minute's schedule usually
// does.
const immediateTimeout = 15 * time.Second

// scaleOutAtOnce runs a task that finds no instance. Its wake-up sets the desired capacity, and the
// instance that registers runs it, without a schedule.
func (s *capacityScenario) scaleOutAtOnce() {
	ctx := s.t.Context()
	s.tagProvider(map[string]string{cluster.TagScaleOut: "immediate"})
	began := s.tier.Now()
	ran := mustSucceed(s.api.RunTask(ctx, &ecs.RunTaskInput{Cluster: &s.cluster, TaskDefinition: &s.cluster,
		Count: aws.Int32(1)}))(&s.scenario)
	if len(ran.Tasks) != 1 {
		s.t.Fatalf("RunTask: %+v", ran.Failures)
	}
	s.await("a machine to be asked for, by a wake-up", func() bool { return *s.describeGroup().DesiredCapacity > 0 })
	asked := s.tier.Now().Sub(began)
	s.t.Logf("%s from RunTask to SetDesiredCapacity", asked)
	if asked > immediateTimeout {
		s.t.Errorf("a machine is asked for %s after RunTask: no wake-up did that", asked)
	}
	task := *ran.Tasks[0].TaskArn
	s.await("the task to run there, by a wake-up", func() bool {
		out := mustSucceed(s.api.DescribeTasks(ctx, &ecs.DescribeTasksInput{Cluster: &s.cluster,
			Tasks: []string{task}}))(&s.scenario)
		return *out.Tasks[0].LastStatus == "RUNNING"
	})
	s.t.Logf("%s from RunTask to RUNNING", s.tier.Now().Sub(began))
	mustSucceed(s.api.StopTask(ctx, &ecs.StopTaskInput{Cluster: &s.cluster, Task: &task}))(&s.scenario)
	s.tagProvider(map[string]string{cluster.TagScaleOut: "alarm"})
}

// scalingAlarms returns the alarms of managed scaling.
func (s *capacityScenario) scalingAlarms() []string {
	s.t.Helper()
	low, high := cluster.ScalingAlarms(s.cluster, provider)
	out := mustSucceed(s.alarms.DescribeAlarms(s.t.Context(),
		&cloudwatch.DescribeAlarmsInput{AlarmNames: []string{low, high}}))(&s.scenario)
	var names []string
	for _, a := range out.MetricAlarms {
		names = append(names, *a.AlarmName)
	}
	return names
}

func (s *capacityScenario) attachmentStatus() *string {
	s.t.Helper()
	out := mustSucceed(s.api.DescribeClusters(s.t.Context(),
		&ecs.DescribeClustersInput{Clusters: []string{s.cluster},
			Include: []types.ClusterField{types.ClusterFieldAttachments}}))(&s.scenario)
	if out.Clusters[0].AttachmentsStatus == nil {
		return aws.String("")
	}
	return out.Clusters[0].AttachmentsStatus
}

// selectByAttributes has the group launch what a selection by attributes matches, which is a
// t3.medium alone.
func (s *capacityScenario) selectByAttributes() {
	ctx := s.t.Context()
	version := mustSucceed(s.ec2.CreateLaunchTemplateVersion(ctx, &ec2.CreateLaunchTemplateVersionInput{
		LaunchTemplateName: &s.group, LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
			ImageId: aws.String("ami-1"), UserData: aws.String(s.userData()),
			InstanceRequirements: &ec2types.InstanceRequirementsRequest{
				VCpuCount:            &ec2types.VCpuCountRangeRequest{Min: aws.Int32(2), Max: aws.Int32(2)},
				MemoryMiB:            &ec2types.MemoryMiBRequest{Min: aws.Int32(4096), Max: aws.Int32(4096)},
				BurstablePerformance: ec2types.BurstablePerformanceRequired,
			},
		},
	}))(&s.scenario)
	mustSucceed(s.groups.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{
		AutoScalingGroupName: &s.group,
		MixedInstancesPolicy: &asgtypes.MixedInstancesPolicy{LaunchTemplate: &asgtypes.LaunchTemplate{
			LaunchTemplateSpecification: &asgtypes.LaunchTemplateSpecification{LaunchTemplateName: &s.group,
				Version: aws.String(fmt.Sprint(*version.LaunchTemplateVersion.VersionNumber))},
		}},
	}))(&s.scenario)
}

// createOversized creates a service whose task needs more memory than a t3.medium has, and deletes
// it when its event has the reason.
func (s *capacityScenario) createOversized() {
	ctx, family := s.t.Context(), s.cluster+"-oversized"
	s.registerFamily(family, 256, 4090)
	mustSucceed(s.api.CreateService(ctx, &ecs.CreateServiceInput{Cluster: &s.cluster,
		ServiceName:    aws.String("oversized"),
		TaskDefinition: &family, DesiredCount: aws.Int32(1)}))(&s.scenario)
	const reason = "tasks are ignored when capacity provider " + provider + " scales out: a task does not fit on any of " +
		"the group's instance types, not even the largest, t3.medium: insufficient memory (needs 4090 MiB, best free 4034)."
	s.awaitScaling("the reason", func() bool { return len(s.eventsWith("oversized", reason)) > 0 })
	if g := s.describeGroup(); *g.DesiredCapacity > 0 || len(g.Instances) > 0 {
		s.t.Errorf("%d instances are wanted", *g.DesiredCapacity)
	}
	mustSucceed(s.api.DeleteService(ctx, &ecs.DeleteServiceInput{Cluster: &s.cluster, Service: aws.String("oversized"),
		Force: aws.Bool(true)}))(&s.scenario)
}

func (s *capacityScenario) createServices() {
	mustSucceed(s.api.CreateService(s.t.Context(), &ecs.CreateServiceInput{
		Cluster: &s.cluster, ServiceName: aws.String("web"), TaskDefinition: &s.cluster, DesiredCount: aws.Int32(6),
		DeploymentConfiguration: deploymentLimits(200, 50),
	}))(&s.scenario)
	s.awaitScaling("six tasks", func() bool { return len(s.runningTasks("web")) == 6 })
	s.awaitScaling("protection of what has tasks", func() bool {
		g := s.describeGroup()
		return len(g.Instances) == 3 && !slices.ContainsFunc(g.Instances,
			func(i asgtypes.Instance) bool { return !*i.ProtectedFromScaleIn })
	})
	for _, i := range s.instances() {
		if aws.ToString(i.CapacityProviderName) != provider && !hasAttribute(i, cluster.AttributeProvider, provider) {
			s.t.Errorf("instance %s has no capacity provider", *i.Ec2InstanceId)
		}
	}
}

func hasAttribute(i types.ContainerInstance, name, value string) bool {
	return slices.ContainsFunc(i.Attributes, func(a types.Attribute) bool {
		return *a.Name == name &&
			aws.ToString(a.Value) == value
	})
}

// terminateByHand terminates an instance with tasks in Auto Scaling. The lifecycle hook holds it
// until the tasks run elsewhere.
func (s *capacityScenario) terminateByHand() {
	chosen := *s.describeGroup().Instances[0].InstanceId
	mustSucceed(s.groups.TerminateInstanceInAutoScalingGroup(s.t.Context(),
		&autoscaling.TerminateInstanceInAutoScalingGroupInput{
			// managed scaling replaces it if it is needed
			InstanceId: &chosen, ShouldDecrementDesiredCapacity: aws.Bool(true),
		}))(&s.scenario)
	healthy := 6
	s.awaitScaling("its end", func() bool {
		healthy = min(healthy, len(s.runningTasks("web")))
		return !slices.ContainsFunc(s.describeGroup().Instances,
			func(i asgtypes.Instance) bool { return *i.InstanceId == chosen })
	})
	if healthy < 3 {
		s.t.Errorf("only %d tasks ran meanwhile", healthy)
	}
	s.awaitScaling("six tasks again", func() bool {
		return len(s.runningTasks("web")) == 6 &&
			len(s.describeGroup().Instances) == 3
	})
}

// awaitConsolidation stops half of the tasks, so that instances are half empty, and switches
// consolidation on. It acts long before the metric has been low for long enough.
func (s *capacityScenario) awaitConsolidation() {
	ctx := s.t.Context()
	s.tagProvider(map[string]string{cluster.TagScaleInDatapoints: "15", cluster.TagConsolidation: "true",
		cluster.TagConsolidationPercent: "100", cluster.TagConsolidationWindow: "1s"})
	mustSucceed(s.api.UpdateService(ctx, &ecs.UpdateServiceInput{Cluster: &s.cluster, Service: aws.String("web"),
		DesiredCount: aws.Int32(3)}))(&s.scenario)
	s.awaitScaling("two instances", func() bool {
		g := s.describeGroup()
		return len(s.runningTasks("web")) == 3 && len(g.Instances) == 2 && *g.DesiredCapacity == 2
	})
}

// awaitEmptyGroup stops all tasks, so that all instances are released, and then starts some again.
func (s *capacityScenario) awaitEmptyGroup() {
	ctx := s.t.Context()
	protected := func() (n int) {
		for _, i := range s.describeGroup().Instances {
			if *i.ProtectedFromScaleIn {
				n++
			}
		}
		return n
	}
	mustSucceed(s.api.UpdateService(ctx, &ecs.UpdateServiceInput{Cluster: &s.cluster, Service: aws.String("web"),
		DesiredCount: aws.Int32(0)}))(&s.scenario)
	s.awaitScaling("no protection of what is empty", func() bool { return protected() == 0 })
	mustSucceed(s.api.UpdateService(ctx, &ecs.UpdateServiceInput{Cluster: &s.cluster, Service: aws.String("web"),
		DesiredCount: aws.Int32(2)}))(&s.scenario)
	s.await("two tasks, and protection without a look",
		func() bool { return len(s.runningTasks("web")) == 2 && protected() > 0 })
}

// tagProvider sets tags of the capacity provider.
func (s *capacityScenario) tagProvider(tags map[string]string) {
	s.t.Helper()
	ctx := s.t.Context()
	found := mustSucceed(s.api.DescribeCapacityProviders(ctx,
		&ecs.DescribeCapacityProvidersInput{CapacityProviders: []string{provider}}))(&s.scenario)
	in := &ecs.TagResourceInput{ResourceArn: found.CapacityProviders[0].CapacityProviderArn}
	for k, v := range tags {
		in.Tags = append(in.Tags, types.Tag{Key: aws.String(k), Value: aws.String(v)})
	}
	mustSucceed(s.api.TagResource(ctx, in))(&s.scenario)
}

func (s *capacityScenario) deleteServices() {
	s.tagProvider(map[string]string{cluster.TagScaleInDatapoints: "1"})
	mustSucceed(s.api.DeleteService(s.t.Context(), &ecs.DeleteServiceInput{Cluster: &s.cluster,
		Service: aws.String("web"), Force: aws.Bool(true)}))(&s.scenario)
	s.awaitScaling("an empty group", func() bool {
		return !s.hasTime || len(s.describeGroup().Instances) == 0 && *s.describeGroup().DesiredCapacity == 0
	})
}

// detachProvider lets a target tracking policy size the group, and then removes the capacity
// provider from the cluster.
func (s *capacityScenario) detachProvider() {
	ctx := s.t.Context()
	policies := func() int {
		out := mustSucceed(s.groups.DescribePolicies(ctx,
			&autoscaling.DescribePoliciesInput{AutoScalingGroupName: &s.group}))(&s.scenario)
		return len(out.ScalingPolicies)
	}
	s.tagProvider(map[string]string{cluster.TagTargetTracking: "true"})
	s.awaitScaling("a policy in the place of the alarms",
		func() bool { return policies() == 1 && len(s.scalingAlarms()) == 0 })
	mustSucceed(s.api.PutClusterCapacityProviders(ctx, &ecs.PutClusterCapacityProvidersInput{
		Cluster: &s.cluster, CapacityProviders: []string{},
		DefaultCapacityProviderStrategy: []types.CapacityProviderStrategyItem{},
	}))(&s.scenario)
	s.awaitScaling("an end of the policy and the hook", func() bool {
		hooks := mustSucceed(s.groups.DescribeLifecycleHooks(ctx,
			&autoscaling.DescribeLifecycleHooksInput{AutoScalingGroupName: &s.group}))(&s.scenario)
		return policies() == 0 && len(hooks.LifecycleHooks) == 0 && *s.attachmentStatus() != "UPDATE_IN_PROGRESS"
	})
	mustSucceed(s.api.DeleteCapacityProvider(ctx,
		&ecs.DeleteCapacityProviderInput{CapacityProvider: aws.String(provider)}))(&s.scenario)
	mustSucceed(s.groups.DeleteAutoScalingGroup(ctx,
		&autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: &s.group,
			ForceDelete: aws.Bool(!s.hasTime)}))(&s.scenario)
	if got := mustSucceed(s.groups.DescribeAutoScalingGroups(ctx,
		&autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{s.group}}))(&s.scenario); len(got.AutoScalingGroups) > 0 {
		s.t.Error(fmt.Sprint("it is still there: ", got.AutoScalingGroups))
	}
}

// setGroupTag adds or removes a tag of a group.
func (s *capacityScenario) setGroupTag(tag asgtypes.Tag, yes bool) error {
	if yes {
		_, err := s.groups.CreateOrUpdateTags(s.t.Context(),
			&autoscaling.CreateOrUpdateTagsInput{Tags: []asgtypes.Tag{tag}})
		return err
	}
	_, err := s.groups.DeleteTags(s.t.Context(), &autoscaling.DeleteTagsInput{Tags: []asgtypes.Tag{tag}})
	return err
}

// isCordoned reports whether an update keeps new tasks off a node.
func isCordoned(attributes []types.Attribute) bool {
	return slices.ContainsFunc(attributes,
		func(a types.Attribute) bool { return *a.Name == cluster.AttributeUnschedulable })
}
