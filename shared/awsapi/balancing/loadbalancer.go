// Package balancing calls Elastic Load Balancing, which has tasks as targets of target groups, and
// Cloud Map, which has them as instances of its services (registries). Dispatch registers and
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
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"berth/shared/awsapi"
	"berth/shared/cluster"
)

// LoadBalancers calls Elastic Load Balancing (version 2, of application and network load balancers)
// for target groups.
type LoadBalancers struct {
	Client *elb.Client
}

// NewLoadBalancers returns the target groups that a configuration of the SDK leads to.
func NewLoadBalancers(c aws.Config) *LoadBalancers {
	return &LoadBalancers{Client: elb.NewFromConfig(c)}
}

// targetBatch is how many targets one call registers.
const targetBatch = 100

// RegisterTargets registers addresses with a target group. It has no effect on those that are
// registered. If one address is refused, others of the same call may or may not be registered: the
// caller registers them again, one by one.
func (l *LoadBalancers) RegisterTargets(ctx context.Context, targetGroup string, targets []cluster.Address) error {
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
