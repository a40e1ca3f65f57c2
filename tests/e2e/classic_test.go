package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	classic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	classictypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"

	"berth/shared/cluster"
)

// A classicScenario is a service of two tasks behind a Classic Load Balancer, on three instances.
type classicScenario struct {
	scenario
	tier rolloutTier
	elb  *classic.Client
	name string // of the service and the load balancer
}

func TestClassicScenario(t *testing.T) { runClassicScenario(t, newVirtual(t)) }

// runClassicScenario registers the instances of a service with a Classic Load Balancer, lets one of
// them fail its checks, and deletes the service.
func runClassicScenario(t *testing.T, tier rolloutTier) {
	s := &classicScenario{
		scenario: scenario{t: t, tier: tier, api: tier.Client(), cluster: "mill"}, tier: tier, name: "wheel",
		elb: classic.NewFromConfig(tier.SimulatedConfig()),
	}
	for _, step := range []struct {
		name string
		run  func()
	}{
		{"ItsInstancesAreInService", s.createService},
		{"OneThatFailsIsReplaced", s.failInstance},
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
}

func (s *classicScenario) createService() {
	ctx := s.t.Context()
	mustSucceed(s.api.CreateCluster(ctx, &ecs.CreateClusterInput{ClusterName: &s.cluster}))(&s.scenario)
	if err := s.tier.AddInstances(s.cluster, 3, "t3.medium", zones); err != nil {
		s.t.Fatal(err)
	}
	mustSucceed(s.elb.CreateLoadBalancer(ctx, &classic.CreateLoadBalancerInput{
		LoadBalancerName: &s.name, AvailabilityZones: zones, Listeners: []classictypes.Listener{{
			Protocol: aws.String("HTTP"), LoadBalancerPort: 80, InstancePort: aws.Int32(8080),
		}},
	}))(&s.scenario)
	mustSucceed(s.elb.ModifyLoadBalancerAttributes(ctx, &classic.ModifyLoadBalancerAttributesInput{
		LoadBalancerName: &s.name, LoadBalancerAttributes: &classictypes.LoadBalancerAttributes{
			ConnectionDraining: &classictypes.ConnectionDraining{Enabled: true, Timeout: aws.Int32(1)},
		},
	}))(&s.scenario)
	mustSucceed(s.api.RegisterTaskDefinition(ctx, &ecs.RegisterTaskDefinitionInput{
		Family: &s.name, ContainerDefinitions: []types.ContainerDefinition{{
			Name: &s.name, Image: aws.String("busybox"), Cpu: 64, Memory: aws.Int32(64), Essential: aws.Bool(true),
			PortMappings: []types.PortMapping{{ContainerPort: aws.Int32(80), HostPort: aws.Int32(8080)}},
		}},
	}))(&s.scenario)
	made := mustSucceed(s.api.CreateService(ctx, &ecs.CreateServiceInput{
		Cluster: &s.cluster, ServiceName: &s.name, TaskDefinition: &s.name, DesiredCount: aws.Int32(2),
		LoadBalancers: []types.LoadBalancer{{LoadBalancerName: &s.name, ContainerName: &s.name,
			ContainerPort: aws.Int32(80)}},
	}))(&s.scenario)
	if l := made.Service.LoadBalancers; len(l) != 1 || aws.ToString(l[0].LoadBalancerName) != s.name ||
		l[0].TargetGroupArn != nil {
		s.t.Errorf("load balancers %+v", l)
	}
	s.await("two instances in service", func() bool {
		s.checkHealth()
		return s.describeService(s.name).Deployments[0].RolloutState == types.DeploymentRolloutStateCompleted &&
			len(s.inService()) == 2
	})
	s.awaitEvent("instances in (elb wheel)")
}

// checkHealth lets Berth ask about health. Its error is one of the awaited state.
func (s *classicScenario) checkHealth() {
	if err := s.tier.CheckHealthNow(); err != nil {
		s.t.Log(err)
	}
}

// inService returns the EC2 ids of the load balancer's instances that pass their checks.
func (s *classicScenario) inService() (ids []string) {
	s.t.Helper()
	out := mustSucceed(s.elb.DescribeInstanceHealth(s.t.Context(),
		&classic.DescribeInstanceHealthInput{LoadBalancerName: &s.name}))(&s.scenario)
	for _, state := range out.InstanceStates {
		if aws.ToString(state.State) == "InService" && aws.ToString(state.Description) == "N/A" {
			ids = append(ids, *state.InstanceId)
		}
	}
	return ids
}

func (s *classicScenario) awaitEvent(text string) {
	s.t.Helper()
	s.await("the event "+text, func() bool {
		return slices.ContainsFunc(s.describeService(s.name).Events,
			func(e types.ServiceEvent) bool { return strings.Contains(*e.Message, text) })
	})
}

// failInstance lets a task fail the checks of its instance. Another one takes its place, on the
// third instance.
func (s *classicScenario) failInstance() {
	before := s.inService()
	failing := *s.runningTasks(s.name)[0].TaskArn
	id := cluster.LastPart(failing)
	if err := s.tier.FailTarget(id, "it does not answer"); err != nil {
		s.t.Fatal(err)
	}
	s.await("another task to take its place", func() bool {
		s.checkHealth()
		running := s.runningTasks(s.name)
		return len(running) == 2 && len(s.inService()) == 2 &&
			!slices.ContainsFunc(running, func(t types.Task) bool { return *t.TaskArn == failing })
	})
	if now := s.inService(); slices.Equal(before, now) {
		s.t.Errorf("instances %v are still in service", now)
	}
	s.awaitEvent("is unhealthy in (elb wheel) due to (reason Instance has failed at least the UnhealthyThreshold")
}

func (s *classicScenario) deleteService() {
	ctx := s.t.Context()
	mustSucceed(s.api.DeleteService(ctx, &ecs.DeleteServiceInput{Cluster: &s.cluster, Service: &s.name,
		Force: aws.Bool(true)}))(&s.scenario)
	s.await("no instance", func() bool {
		out := mustSucceed(s.elb.DescribeInstanceHealth(ctx,
			&classic.DescribeInstanceHealthInput{LoadBalancerName: &s.name}))(&s.scenario)
		return len(out.InstanceStates) == 0 && len(s.runningTasks(s.name)) == 0
	})
}
