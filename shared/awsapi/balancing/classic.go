package balancing

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	classic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"

	"berth/shared/awsapi"
	"berth/shared/cluster"
)

// ClassicBalancers calls Elastic Load Balancing, version 1, for Classic Load Balancers.
type ClassicBalancers struct {
	Client *classic.Client
}

// RegisterTargets registers the hosts of addresses with a load balancer, by its name.
func (c *ClassicBalancers) RegisterTargets(ctx context.Context, name string, targets []cluster.Address) error {
	_, err := c.Client.RegisterInstancesWithLoadBalancer(ctx, &classic.RegisterInstancesWithLoadBalancerInput{
		LoadBalancerName: &name, Instances: classicInstances(targets),
	})
	return awsapi.WrapCallError(err, "registering instances")
}

// DeregisterTargets deregisters the hosts of addresses from a load balancer.
func (c *ClassicBalancers) DeregisterTargets(ctx context.Context, name string, targets []cluster.Address) error {
	_, err := c.Client.DeregisterInstancesFromLoadBalancer(ctx, &classic.DeregisterInstancesFromLoadBalancerInput{
		LoadBalancerName: &name, Instances: classicInstances(targets),
	})
	return awsapi.WrapCallError(err, "deregistering instances")
}

func classicInstances(targets []cluster.Address) []types.Instance {
	out := make([]types.Instance, len(targets))
	for i, t := range targets {
		out[i] = types.Instance{InstanceId: new(t.Host)}
	}
	return out
}

// The words of DescribeInstanceHealth that mean something here.
const (
	inService    = "InService"
	outOfService = "OutOfService"
	// ofInstance is the reason code of an instance that fails its checks. One that is not checked
	// yet has another.
	ofInstance = "Instance"
	// deregistering is in the description of an instance whose connections drain. It is InService
	// meanwhile.
	deregistering = "deregistration currently in progress"
)

// TargetHealth returns the health of every instance of a load balancer. One that is being
// registered or deregistered has unknown health.
func (c *ClassicBalancers) TargetHealth(
	ctx context.Context, name string,
) (map[cluster.Address]cluster.TargetHealth, error) {
	out, err := c.Client.DescribeInstanceHealth(ctx, &classic.DescribeInstanceHealthInput{LoadBalancerName: &name})
	if err != nil {
		return nil, fmt.Errorf("describing instances' health: %w", awsapi.CallError(err))
	}
	health := make(map[cluster.Address]cluster.TargetHealth, len(out.InstanceStates))
	for _, s := range out.InstanceStates {
		h := cluster.TargetHealth{Reason: aws.ToString(s.Description)}
		switch state := aws.ToString(s.State); {
		case strings.Contains(h.Reason, deregistering):
		case state == inService:
			h = cluster.TargetHealth{Health: cluster.Healthy}
		case state == outOfService && aws.ToString(s.ReasonCode) == ofInstance:
			h.Health = cluster.Unhealthy
		}
		health[cluster.Address{Host: aws.ToString(s.InstanceId)}] = h
	}
	return health, nil
}

// DeregistrationDelay returns how long the connections of a deregistered instance drain; 0 if
// draining is switched off.
func (c *ClassicBalancers) DeregistrationDelay(ctx context.Context, name string) (time.Duration, error) {
	out, err := c.Client.DescribeLoadBalancerAttributes(ctx,
		&classic.DescribeLoadBalancerAttributesInput{LoadBalancerName: &name})
	if err != nil {
		return 0, fmt.Errorf("describing the load balancer: %w", awsapi.CallError(err))
	}
	if out.LoadBalancerAttributes == nil || out.LoadBalancerAttributes.ConnectionDraining == nil ||
		!out.LoadBalancerAttributes.ConnectionDraining.Enabled {
		return 0, nil
	}
	draining := out.LoadBalancerAttributes.ConnectionDraining
	if draining.Timeout == nil {
		return defaultDelay, nil
	}
	return time.Duration(*draining.Timeout) * time.Second, nil
}
