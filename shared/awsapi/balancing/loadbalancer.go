// Package balancing calls Elastic Load Balancing, which has tasks as targets of target groups and
// their machines as instances of Classic Load Balancers, and Cloud Map, which has tasks as
// instances of its services (registries). Dispatch registers and
// deregisters tasks with it, the health check reads their health. It is apart from package awsapi
// so that only these functions have the clients. Errors are those of awsapi.CallError. Start at
// [LoadBalancers.RegisterTargets].
package balancing

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	classic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"berth/shared/awsapi"
	"berth/shared/cluster"
)

// LoadBalancers calls Elastic Load Balancing: version 2 for target groups, which have ARNs, and
// version 1 for Classic Load Balancers, which are named as [cluster.ClassicBalancer] does.
type LoadBalancers struct {
	Client  *elb.Client
	Classic *ClassicBalancers
}

// NewLoadBalancers returns the load balancers that a configuration of the SDK leads to.
func NewLoadBalancers(c aws.Config) *LoadBalancers {
	return &LoadBalancers{Client: elb.NewFromConfig(c), Classic: &ClassicBalancers{classic.NewFromConfig(c)}}
}

// targetBatch is how many targets one call registers.
const targetBatch = 100

// RegisterTargets registers addresses with a target group, or their hosts with a Classic Load
// Balancer. It has no effect on those that are
// registered. If one address is refused, others of the same call may or may not be registered: the
// caller registers them again, one by one.
func (l *LoadBalancers) RegisterTargets(ctx context.Context, targetGroup string, targets []cluster.Address) error {
	if name, is := cluster.ClassicName(targetGroup); is {
		return l.Classic.RegisterTargets(ctx, name, targets)
	}
	for batch := range slices.Chunk(targets, targetBatch) {
		in := &elb.RegisterTargetsInput{TargetGroupArn: &targetGroup, Targets: targetDescriptions(batch)}
		if _, err := l.Client.RegisterTargets(ctx, in); err != nil {
			return fmt.Errorf("registering targets: %w", awsapi.CallError(err))
		}
	}
	return nil
}

// DeregisterTargets deregisters addresses from a target group. It ignores those that are not
// registered.
func (l *LoadBalancers) DeregisterTargets(ctx context.Context, targetGroup string, targets []cluster.Address) error {
	if name, is := cluster.ClassicName(targetGroup); is {
		return l.Classic.DeregisterTargets(ctx, name, targets)
	}
	for batch := range slices.Chunk(targets, targetBatch) {
		in := &elb.DeregisterTargetsInput{TargetGroupArn: &targetGroup, Targets: targetDescriptions(batch)}
		if _, err := l.Client.DeregisterTargets(ctx, in); err != nil {
			return fmt.Errorf("deregistering targets: %w", awsapi.CallError(err))
		}
	}
	return nil
}

func targetDescriptions(targets []cluster.Address) []types.TargetDescription {
	out := make([]types.TargetDescription, len(targets))
	for i, t := range targets {
		out[i] = types.TargetDescription{Id: new(t.Host), Port: new(int32(t.Port))} //nolint:gosec // a port
	}
	return out
}

// TargetHealth returns the health of every target of a group, with the reason if it is not healthy.
// Targets that are draining or not checked yet have unknown health.
func (l *LoadBalancers) TargetHealth(
	ctx context.Context, targetGroup string,
) (map[cluster.Address]cluster.TargetHealth, error) {
	if name, is := cluster.ClassicName(targetGroup); is {
		return l.Classic.TargetHealth(ctx, name)
	}
	out, err := l.Client.DescribeTargetHealth(ctx, &elb.DescribeTargetHealthInput{TargetGroupArn: &targetGroup})
	if err != nil {
		return nil, fmt.Errorf("describing target health: %w", awsapi.CallError(err))
	}
	health := make(map[cluster.Address]cluster.TargetHealth, len(out.TargetHealthDescriptions))
	for _, d := range out.TargetHealthDescriptions {
		if d.Target == nil || d.TargetHealth == nil {
			continue
		}
		h := cluster.TargetHealth{Reason: aws.ToString(d.TargetHealth.Description)}
		switch d.TargetHealth.State {
		case types.TargetHealthStateEnumHealthy:
			h = cluster.TargetHealth{Health: cluster.Healthy}
		case types.TargetHealthStateEnumUnhealthy:
			h.Health = cluster.Unhealthy
		}
		health[cluster.Address{Host: aws.ToString(d.Target.Id), Port: int(aws.ToInt32(d.Target.Port))}] = h
	}
	return health, nil
}

// delayAttribute and defaultDelay are Elastic Load Balancing's (target group attributes).
const (
	delayAttribute = "deregistration_delay.timeout_seconds"
	defaultDelay   = 300 * time.Second
)

// DeregistrationDelay returns how long a deregistered target keeps its connections. Its task should
// run that long.
func (l *LoadBalancers) DeregistrationDelay(ctx context.Context, targetGroup string) (time.Duration, error) {
	if name, is := cluster.ClassicName(targetGroup); is {
		return l.Classic.DeregistrationDelay(ctx, name)
	}
	out, err := l.Client.DescribeTargetGroupAttributes(ctx,
		&elb.DescribeTargetGroupAttributesInput{TargetGroupArn: &targetGroup})
	if err != nil {
		return 0, fmt.Errorf("describing the target group: %w", awsapi.CallError(err))
	}
	for _, a := range out.Attributes {
		if aws.ToString(a.Key) == delayAttribute {
			n, err := strconv.ParseUint(aws.ToString(a.Value), 10, 16)
			return time.Duration(n) * time.Second, err //nolint:gosec // 16 bits
		}
	}
	return defaultDelay, nil
}
