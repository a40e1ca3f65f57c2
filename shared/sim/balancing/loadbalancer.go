package balancing

import (
	"context"
	"time"

	"berth/shared/cluster"
)

// LoadBalancers are target groups by ARN and Classic Load Balancers by
// [cluster.ClassicBalancer], as a port of package handler.
type LoadBalancers struct {
	Groups  *TargetGroups
	Classic *ClassicBalancers
}

// RegisterTargets registers addresses with a target group or Classic Load Balancer.
func (l LoadBalancers) RegisterTargets(ctx context.Context, balancer string, targets []cluster.Address) error {
	if name, classic := cluster.ClassicName(balancer); classic {
		return l.Classic.RegisterTargets(ctx, name, targets)
	}
	return l.Groups.RegisterTargets(ctx, balancer, targets)
}

// DeregisterTargets deregisters addresses from a target group or Classic Load Balancer.
func (l LoadBalancers) DeregisterTargets(ctx context.Context, balancer string, targets []cluster.Address) error {
	if name, classic := cluster.ClassicName(balancer); classic {
		return l.Classic.DeregisterTargets(ctx, name, targets)
	}
	return l.Groups.DeregisterTargets(ctx, balancer, targets)
}

// TargetHealth returns the health of every target or instance.
func (l LoadBalancers) TargetHealth(
	ctx context.Context, balancer string,
) (map[cluster.Address]cluster.TargetHealth, error) {
	if name, classic := cluster.ClassicName(balancer); classic {
		return l.Classic.TargetHealth(ctx, name)
	}
	return l.Groups.TargetHealth(ctx, balancer)
}

// DeregistrationDelay returns how long the connections of a deregistered target drain.
func (l LoadBalancers) DeregistrationDelay(ctx context.Context, balancer string) (time.Duration, error) {
	if name, classic := cluster.ClassicName(balancer); classic {
		return l.Classic.DeregistrationDelay(ctx, name)
	}
	return l.Groups.DeregistrationDelay(ctx, balancer)
}

// HasTask reports whether a task is a target of a group, or runs where a Classic Load Balancer
// checks one of its instances.
func (l LoadBalancers) HasTask(id string) bool { return l.Groups.HasTask(id) || l.Classic.HasTask(id) }
