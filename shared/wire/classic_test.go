package wire_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
)

// classic is a service's Classic Load Balancer in a request.
func classic(name string) []types.LoadBalancer {
	return []types.LoadBalancer{{LoadBalancerName: &name, ContainerName: new("app"), ContainerPort: new(int32(80))}}
}

// A service with a Classic Load Balancer is shown as it was given. The role of its calls may be
// any.
func TestClassicLoadBalancer(t *testing.T) {
	b := newBerth(t)
	b.create(t, func(in *ecs.CreateServiceInput) {
		in.TaskDefinition, in.LoadBalancers, in.Role = new("fixed"), classic("front-1"), new("ecsServiceRole")
	})
	made := b.scheduler.lastMade
	expect(t, "load balancers", *made.LoadBalancers,
		[]cluster.LoadBalancer{{TargetGroup: "loadbalancer/front-1", Container: "app", Port: 80}})
	expect(t, "role", made.Role, "arn:aws:iam::123456789012:role/ecsServiceRole")
	b.scheduler.services["prod/web"].Service.Deployment.LoadBalancers = *made.LoadBalancers
	got := must(b.DescribeServices(t.Context(), &ecs.DescribeServicesInput{Cluster: new("prod"),
		Services: []string{"web"}}))(t).Services[0]
	expect(t, "load balancers", got.LoadBalancers, classic("front-1"))

	// A task definition without the fixed port is refused later, too.
	_, err := b.UpdateService(t.Context(), &ecs.UpdateServiceInput{Cluster: new("prod"), Service: new("web"),
		TaskDefinition: new("shop")})
	refused(t, err, invalidParameter, "The container port 80 of container app has no hostPort.")
	_, err = b.UpdateService(t.Context(), &ecs.UpdateServiceInput{Cluster: new("prod"), Service: new("web"),
		LoadBalancers: classic("front-2")})
	expect(t, "error", err, nil)
}

// What no Classic Load Balancer can serve is refused, and nothing changes.
func TestClassicLoadBalancerBounds(t *testing.T) {
	for name, c := range map[string]struct {
		change func(in *ecs.CreateServiceInput)
		has    string
	}{
		"BothNames": {func(in *ecs.CreateServiceInput) { in.LoadBalancers[0].TargetGroupArn = new(targetGroup) },
			"loadBalancerName and targetGroupArn cannot both be specified. You must specify either a loadBalancerName " +
				"or a targetGroupArn."},
		"NoName": {func(in *ecs.CreateServiceInput) { in.LoadBalancers = classic("front/1") },
			`loadBalancers.loadBalancerName is "front/1", expected the name of a Classic Load Balancer`},
		"LongName": {func(in *ecs.CreateServiceInput) { in.LoadBalancers = classic(strings.Repeat("a", 33)) },
			"expected the name of a Classic Load Balancer"},
		"Two": {func(in *ecs.CreateServiceInput) { in.LoadBalancers = append(classic("a"), classic("b")...) },
			"a service with a Classic Load Balancer has no other"},
		"BesideATargetGroup": {func(in *ecs.CreateServiceInput) {
			in.LoadBalancers = append(classic("a"), types.LoadBalancer{TargetGroupArn: new(targetGroup),
				ContainerName: new("app"), ContainerPort: new(int32(80))})
		}, "a service with a Classic Load Balancer has no other"},
		"NoContainer": {func(in *ecs.CreateServiceInput) { in.LoadBalancers[0].ContainerName = nil },
			"Container Name can not be blank."},
		"OtherContainer": {func(in *ecs.CreateServiceInput) { in.LoadBalancers[0].ContainerName = new("web") },
			"The container web does not exist in the task definition."},
		"DynamicPort": {func(in *ecs.CreateServiceInput) { in.TaskDefinition = new("shop") },
			"The container port 80 of container app has no hostPort."},
		"OwnAddress": {func(in *ecs.CreateServiceInput) { in.TaskDefinition = new("awsvpc") },
			"Classic Load Balancers are not supported with the awsvpc network mode: front takes instances."},
		"Breaker": {func(in *ecs.CreateServiceInput) {
			in.DeploymentConfiguration = &types.DeploymentConfiguration{
				DeploymentCircuitBreaker: &types.DeploymentCircuitBreaker{Enable: true}}
		}, "Deployment circuit breaker feature is not supported with Classic Load Balancers. Remove the Classic Load " +
			"Balancer and try again."},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBerth(t)
			in := &ecs.CreateServiceInput{Cluster: new("prod"), ServiceName: new("web"), TaskDefinition: new("fixed"),
				DesiredCount: new(int32(1)), LoadBalancers: classic("front")}
			c.change(in)
			_, err := b.CreateService(t.Context(), in)
			refused(t, err, invalidParameter, c.has)
			expect(t, "services", len(b.scheduler.services), 0)
		})
	}
	t.Run("InHostModeEveryPortIsFixed", func(t *testing.T) {
		b := newBerth(t)
		b.create(t, func(in *ecs.CreateServiceInput) {
			in.TaskDefinition, in.LoadBalancers = new("host"), classic("front")
		})
	})
}
