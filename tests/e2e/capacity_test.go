package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	asgtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
)

// capacityTier is a tier whose fleet has Auto Scaling groups.
type capacityTier interface {
	rolloutTier
	// Look has a function look that otherwise does so each minute, where time does not pass by itself.
	Look(ctx context.Context, function, schedule string) error
	// EKS calls Berth's EKS API, and gives the HTTP status and the answer.
	EKS(ctx context.Context, method, path, body string) (status int, answer []byte, err error)
}

// capacity is a cluster whose machines are an Auto Scaling group's.
type capacity struct {
	story
	tier   capacityTier
	groups *autoscaling.Client
	ec2    *ec2.Client
	alarms *cloudwatch.Client
	group  string
	// patient waits for what takes a minute each time.
	patient bool
}

func newCapacity(t *testing.T, tier capacityTier, clusterName string) *capacity {
	return &capacity{
		story: story{t: t, tier: tier, api: tier.Client(), cluster: clusterName}, tier: tier, groups: autoscaling.NewFromConfig(tier.Balancing()),
		ec2: ec2.NewFromConfig(tier.Balancing()), alarms: cloudwatch.NewFromConfig(tier.Balancing()), group: clusterName + "-group",
	}
}

func TestCapacityScenario(t *testing.T) { runCapacityScenario(t, newVirtual(t), true) }

// runCapacityScenario is the life of a capacity provider: from no instance to as many as its services need, emptied by
// consolidation and, where there is time, to nothing when they are gone. Of a t3.medium (2 vCPU) a task takes half.
func runCapacityScenario(t *testing.T, tier capacityTier, patient bool) {
	s := newCapacity(t, tier, "forge")
	s.patient = patient
	s.steps([]step{
		{"AnEmptyGroupHasACapacityProvider", s.provide},
		{"ItIsScaledOutForWaitingTasks", s.load},
		{"AnInstanceStoppedByHandIsDrainedFirst", s.byHand},
		{"HalfEmptyInstancesAreConsolidated", s.consolidated},
		{"AnInstanceIsProtectedAgainBeforeATaskStartsThere", s.released},
		{"ItIsScaledIn", s.unload},
		{"AnUnscaledGroupKeepsNothingOfBerths", s.detached},
	})
}

type step struct {
	name string
	run  func()
}

func (s *capacity) steps(all []step) {
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

// machines makes a cluster, and a group for it, as its users do: by a launch template whose user data names the cluster.
func (s *capacity) machines(desired int32, tags ...asgtypes.Tag) {
	s.t.Helper()
	ctx := s.t.Context()
	must(s.api.CreateCluster(ctx, &ecs.CreateClusterInput{ClusterName: &s.cluster}))(&s.story)
	must(s.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: &s.group, LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
			ImageId: aws.String("ami-1"), InstanceType: ec2types.InstanceTypeT3Medium,
			UserData: aws.String(base64.StdEncoding.EncodeToString([]byte("#!/bin/bash\necho ECS_CLUSTER=" + s.cluster + " >> /etc/ecs/ecs.config\n"))),
		},
	}))(&s.story)
	must(s.groups.CreateAutoScalingGroup(ctx, &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: &s.group, MinSize: aws.Int32(0), MaxSize: aws.Int32(6), DesiredCapacity: &desired,
		LaunchTemplate:    &asgtypes.LaunchTemplateSpecification{LaunchTemplateName: &s.group, Version: aws.String("1")},
		AvailabilityZones: zones, NewInstancesProtectedFromScaleIn: aws.Bool(len(tags) == 0 && desired == 0), Tags: tags,
	}))(&s.story)
}

// asg is the group as Auto Scaling describes it.
func (s *capacity) asg() asgtypes.AutoScalingGroup {
	s.t.Helper()
	out := must(s.groups.DescribeAutoScalingGroups(s.t.Context(), &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{s.group}}))(&s.story)
	if len(out.AutoScalingGroups) != 1 {
		s.t.Fatalf("group %s: %+v", s.group, out)
	}
	return out.AutoScalingGroups[0]
}

// scaled waits while managed scaling looks.
func (s *capacity) scaled(what string, done func() bool) {
	s.t.Helper()
	s.looking("managed-scaling", "scaling", what, done)
}

// looking waits while a function looks, for as long as three awaits take.
func (s *capacity) looking(function, schedule, what string, done func() bool) {
	s.t.Helper()
	var last error // what fails is tried again, as each minute
	for range 3 {
		ended := s.tier.Await(func() bool {
			if done() {
				return true
			}
			last = s.tier.Look(s.t.Context(), function, schedule)
			return done()
		})
		if ended {
			return
		}
	}
	s.t.Fatalf("waited too long for %s: %v", what, last)
}

const provider = "forge-provider"

func (s *capacity) provide() {
	ctx := s.t.Context()
	s.machines(0)
	s.register(s.cluster, 1024, 512)
	made := must(s.api.CreateCapacityProvider(ctx, &ecs.CreateCapacityProviderInput{
		Name: aws.String(provider), AutoScalingGroupProvider: &types.AutoScalingGroupProvider{
			AutoScalingGroupArn: s.asg().AutoScalingGroupARN, ManagedDraining: types.ManagedDrainingEnabled,
			ManagedTerminationProtection: types.ManagedTerminationProtectionEnabled,
			ManagedScaling:               &types.ManagedScaling{Status: types.ManagedScalingStatusEnabled, InstanceWarmupPeriod: aws.Int32(10)},
		},
		Tags: []types.Tag{
			{Key: aws.String(cluster.TagScaleInDatapoints), Value: aws.String("1")}, {Key: aws.String(cluster.TagScaleInPercent), Value: aws.String("100")},
			{Key: aws.String(cluster.TagScaleInCooldown), Value: aws.String("0")},
		},
	}))(&s.story)
	if made.CapacityProvider.Status != types.CapacityProviderStatusActive {
		s.t.Errorf("the capacity provider is %+v", made.CapacityProvider)
	}
	must(s.api.PutClusterCapacityProviders(ctx, &ecs.PutClusterCapacityProvidersInput{
		Cluster: &s.cluster, CapacityProviders: []string{provider}, DefaultCapacityProviderStrategy: []types.CapacityProviderStrategyItem{{CapacityProvider: aws.String(provider), Weight: 1}},
	}))(&s.story)
	s.scaled("the attachment", func() bool {
		hooks := must(s.groups.DescribeLifecycleHooks(ctx, &autoscaling.DescribeLifecycleHooksInput{AutoScalingGroupName: &s.group}))(&s.story)
		return len(hooks.LifecycleHooks) == 1 && len(s.own()) == 2 && *s.attachments() == "UPDATE_COMPLETE"
	})
	if n := len(s.asg().Instances); n > 0 {
		s.t.Errorf("%d instances without a task", n)
	}
}

// own are managed scaling's alarms.
func (s *capacity) own() []string {
	s.t.Helper()
	low, high := cluster.ScalingAlarms(s.cluster, provider)
	out := must(s.alarms.DescribeAlarms(s.t.Context(), &cloudwatch.DescribeAlarmsInput{AlarmNames: []string{low, high}}))(&s.story)
	var names []string
	for _, a := range out.MetricAlarms {
		names = append(names, *a.AlarmName)
	}
	return names
}

func (s *capacity) attachments() *string {
	s.t.Helper()
	out := must(s.api.DescribeClusters(s.t.Context(), &ecs.DescribeClustersInput{Clusters: []string{s.cluster}, Include: []types.ClusterField{types.ClusterFieldAttachments}}))(&s.story)
	if out.Clusters[0].AttachmentsStatus == nil {
		return aws.String("")
	}
	return out.Clusters[0].AttachmentsStatus
}

func (s *capacity) load() {
	must(s.api.CreateService(s.t.Context(), &ecs.CreateServiceInput{
		Cluster: &s.cluster, ServiceName: aws.String("web"), TaskDefinition: &s.cluster, DesiredCount: aws.Int32(6),
		DeploymentConfiguration: percentages(200, 50),
	}))(&s.story)
	s.scaled("six tasks", func() bool { return len(s.tasks("web")) == 6 })
	s.scaled("protection of what has tasks", func() bool {
		g := s.asg()
		return len(g.Instances) == 3 && !slices.ContainsFunc(g.Instances, func(i asgtypes.Instance) bool { return !*i.ProtectedFromScaleIn })
	})
	for _, i := range s.instances() {
		if aws.ToString(i.CapacityProviderName) != provider && !hasAttribute(i, cluster.AttributeProvider, provider) {
			s.t.Errorf("instance %s is of no capacity provider", *i.Ec2InstanceId)
		}
	}
}

func hasAttribute(i types.ContainerInstance, name, value string) bool {
	return slices.ContainsFunc(i.Attributes, func(a types.Attribute) bool { return *a.Name == name && aws.ToString(a.Value) == value })
}

// byHand has Auto Scaling terminate an instance with tasks: the hook holds it until these run elsewhere.
func (s *capacity) byHand() {
	victim := *s.asg().Instances[0].InstanceId
	must(s.groups.TerminateInstanceInAutoScalingGroup(s.t.Context(), &autoscaling.TerminateInstanceInAutoScalingGroupInput{
		InstanceId: &victim, ShouldDecrementDesiredCapacity: aws.Bool(true), // what is needed is scaled out again
	}))(&s.story)
	healthy := 6
	s.scaled("its end", func() bool {
		healthy = min(healthy, len(s.tasks("web")))
		return !slices.ContainsFunc(s.asg().Instances, func(i asgtypes.Instance) bool { return *i.InstanceId == victim })
	})
	if healthy < 3 {
		s.t.Errorf("only %d tasks ran meanwhile", healthy)
	}
	s.scaled("six tasks again", func() bool { return len(s.tasks("web")) == 6 && len(s.asg().Instances) == 3 })
}

// consolidated has half of the tasks go, so that instances are half empty, and consolidation switched on, long before the
// metric has been low for long enough.
func (s *capacity) consolidated() {
	ctx := s.t.Context()
	s.tag(map[string]string{cluster.TagScaleInDatapoints: "15", cluster.TagConsolidation: "true", cluster.TagConsolidationPercent: "100", cluster.TagConsolidationWindow: "1s"})
	must(s.api.UpdateService(ctx, &ecs.UpdateServiceInput{Cluster: &s.cluster, Service: aws.String("web"), DesiredCount: aws.Int32(3)}))(&s.story)
	s.scaled("two instances", func() bool {
		g := s.asg()
		return len(s.tasks("web")) == 3 && len(g.Instances) == 2 && *g.DesiredCapacity == 2
	})
}

// released has all tasks go, so that the instances may, and then some come.
func (s *capacity) released() {
	ctx := s.t.Context()
	protected := func() (n int) {
		for _, i := range s.asg().Instances {
			if *i.ProtectedFromScaleIn {
				n++
			}
		}
		return n
	}
	must(s.api.UpdateService(ctx, &ecs.UpdateServiceInput{Cluster: &s.cluster, Service: aws.String("web"), DesiredCount: aws.Int32(0)}))(&s.story)
	s.scaled("no protection of what is empty", func() bool { return protected() == 0 })
	must(s.api.UpdateService(ctx, &ecs.UpdateServiceInput{Cluster: &s.cluster, Service: aws.String("web"), DesiredCount: aws.Int32(2)}))(&s.story)
	s.await("two tasks, and protection without a look", func() bool { return len(s.tasks("web")) == 2 && protected() > 0 })
}

// tag sets tags of the capacity provider.
func (s *capacity) tag(tags map[string]string) {
	s.t.Helper()
	ctx := s.t.Context()
	found := must(s.api.DescribeCapacityProviders(ctx, &ecs.DescribeCapacityProvidersInput{CapacityProviders: []string{provider}}))(&s.story)
	in := &ecs.TagResourceInput{ResourceArn: found.CapacityProviders[0].CapacityProviderArn}
	for k, v := range tags {
		in.Tags = append(in.Tags, types.Tag{Key: aws.String(k), Value: aws.String(v)})
	}
	must(s.api.TagResource(ctx, in))(&s.story)
}

func (s *capacity) unload() {
	s.tag(map[string]string{cluster.TagScaleInDatapoints: "1"})
	must(s.api.DeleteService(s.t.Context(), &ecs.DeleteServiceInput{Cluster: &s.cluster, Service: aws.String("web"), Force: aws.Bool(true)}))(&s.story)
	s.scaled("an empty group", func() bool { return !s.patient || len(s.asg().Instances) == 0 && *s.asg().DesiredCapacity == 0 })
}

// detached hands the group to a target tracking policy, and then takes the capacity provider from the cluster.
func (s *capacity) detached() {
	ctx := s.t.Context()
	policies := func() int {
		out := must(s.groups.DescribePolicies(ctx, &autoscaling.DescribePoliciesInput{AutoScalingGroupName: &s.group}))(&s.story)
		return len(out.ScalingPolicies)
	}
	s.tag(map[string]string{cluster.TagTargetTracking: "true"})
	s.scaled("a policy in the place of the alarms", func() bool { return policies() == 1 && len(s.own()) == 0 })
	must(s.api.PutClusterCapacityProviders(ctx, &ecs.PutClusterCapacityProvidersInput{
		Cluster: &s.cluster, CapacityProviders: []string{}, DefaultCapacityProviderStrategy: []types.CapacityProviderStrategyItem{},
	}))(&s.story)
	s.scaled("an end of the policy and the hook", func() bool {
		hooks := must(s.groups.DescribeLifecycleHooks(ctx, &autoscaling.DescribeLifecycleHooksInput{AutoScalingGroupName: &s.group}))(&s.story)
		return policies() == 0 && len(hooks.LifecycleHooks) == 0 && *s.attachments() != "UPDATE_IN_PROGRESS"
	})
	must(s.api.DeleteCapacityProvider(ctx, &ecs.DeleteCapacityProviderInput{CapacityProvider: aws.String(provider)}))(&s.story)
	must(s.groups.DeleteAutoScalingGroup(ctx, &autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: &s.group, ForceDelete: aws.Bool(!s.patient)}))(&s.story)
	if got := must(s.groups.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{s.group}}))(&s.story); len(got.AutoScalingGroups) > 0 {
		s.t.Error(fmt.Sprint("it is still there: ", got.AutoScalingGroups))
	}
}

// setTag sets a tag of a group, or takes it away.
func (s *capacity) setTag(tag asgtypes.Tag, yes bool) error {
	if yes {
		_, err := s.groups.CreateOrUpdateTags(s.t.Context(), &autoscaling.CreateOrUpdateTagsInput{Tags: []asgtypes.Tag{tag}})
		return err
	}
	_, err := s.groups.DeleteTags(s.t.Context(), &autoscaling.DeleteTagsInput{Tags: []asgtypes.Tag{tag}})
	return err
}

// hasMark reports whether an update keeps a node free of tasks.
func hasMark(attributes []types.Attribute) bool {
	return slices.ContainsFunc(attributes, func(a types.Attribute) bool { return *a.Name == cluster.AttributeUnschedulable })
}
