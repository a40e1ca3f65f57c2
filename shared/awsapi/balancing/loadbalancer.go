// Package balancing calls Elastic Load Balancing and Cloud Map: they have tasks in target groups
// and in registries. It is apart from package awsapi so that only the functions that need it carry
// their clients.
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

// LoadBalancers is Elastic Load Balancing (version 2, of application and network load balancers) as
// far as it has tasks in target groups.
type LoadBalancers struct {
	Client *elb.Client
}

// NewLoadBalancers calls Elastic Load Balancing by a configuration of the SDK.
func NewLoadBalancers(c aws.Config) *LoadBalancers {
	return &LoadBalancers{Client: elb.NewFromConfig(c)}
}

// targetBatch is how many targets go into one call.
const targetBatch = 100

// RegisterTargets puts addresses into a target group; one that is there stays. A refusal says which
// one it is about, and may come with others in that were not refused: whoever calls registers them
// again, one by one.
func (l *LoadBalancers) RegisterTargets(ctx context.Context, targetGroup string, targets []cluster.Address) error {
	for batch := range slices.Chunk(targets, targetBatch) {
		in := &elb.RegisterTargetsInput{TargetGroupArn: &targetGroup, Targets: targetDescriptions(batch)}
		if _, err := l.Client.RegisterTargets(ctx, in); err != nil {
			return fmt.Errorf("registering targets: %w", awsapi.CallError(err))
		}
	}
	return nil
}

// DeregisterTargets takes addresses out of a target group; one that is not there is passed over.
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

// TargetHealth is that of every target of a group. Those that are being taken out are of unknown
// health.
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

// DeregistrationDelay is how long a target that was taken out keeps its connections.
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
