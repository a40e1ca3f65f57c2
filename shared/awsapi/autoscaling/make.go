package autoscaling

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"berth/shared/awsapi"
	"berth/shared/cluster"
)

// EnsureGroup makes a group with a mixed instances policy: On-Demand Instances in the order of the
// types, or Spot Instances where there is most capacity at a low price. A group of that name may
// exist already.
func (g *Groups) EnsureGroup(ctx context.Context, n cluster.NewAutoScalingGroup) error {
	policy := &types.MixedInstancesPolicy{
		LaunchTemplate: &types.LaunchTemplate{LaunchTemplateSpecification: &types.LaunchTemplateSpecification{
			LaunchTemplateId: &n.Template.ID, Version: &n.Template.Version,
		}},
		InstancesDistribution: &types.InstancesDistribution{
			OnDemandAllocationStrategy: aws.String("prioritized"), OnDemandPercentageAboveBaseCapacity: aws.Int32(100),
		},
	}
	if n.Spot {
		policy.InstancesDistribution = &types.InstancesDistribution{
			OnDemandPercentageAboveBaseCapacity: aws.Int32(0),
			SpotAllocationStrategy:              aws.String("price-capacity-optimized"),
		}
	}
	for _, t := range n.Types {
		policy.LaunchTemplate.Overrides = append(policy.LaunchTemplate.Overrides,
			types.LaunchTemplateOverrides{InstanceType: &t})
	}
	in := &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: &n.Name, MixedInstancesPolicy: policy,
		VPCZoneIdentifier: aws.String(strings.Join(n.Subnets, ",")), MinSize: aws.Int32(int32(n.Sizes.Min)),
		MaxSize: aws.Int32(int32(n.Sizes.Max)), DesiredCapacity: aws.Int32(int32(n.Sizes.Desired)),
	}
	for _, key := range slices.Sorted(maps.Keys(n.Tags)) {
		in.Tags = append(in.Tags, types.Tag{Key: &key, Value: aws.String(n.Tags[key]), ResourceId: &n.Name,
			ResourceType: aws.String("auto-scaling-group"), PropagateAtLaunch: aws.Bool(false)})
	}
	_, err := g.Client.CreateAutoScalingGroup(ctx, in)
	if err = awsapi.CallError(err); cluster.ErrorCode(err) == "AlreadyExists" {
		return nil
	}
	return cluster.Wrap(err, "creating group %s", n.Name)
}

// DeleteGroup deletes a group with its instances. It is gone once Auto Scaling does not describe it
// any more: until its instances are terminated it has a status.
func (g *Groups) DeleteGroup(ctx context.Context, name string) (gone bool, err error) {
	found, err := g.Client.DescribeAutoScalingGroups(ctx,
		&autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{name}})
	switch {
	case err != nil:
		return false, awsapi.WrapCallError(err, "describing group %s", name)
	case len(found.AutoScalingGroups) == 0:
		return true, nil
	case found.AutoScalingGroups[0].Status != nil:
		return false, nil
	}
	_, err = g.Client.DeleteAutoScalingGroup(ctx,
		&autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: &name, ForceDelete: aws.Bool(true)})
	return false, ignoreNotFound(awsapi.WrapCallError(err, "deleting group %s", name))
}
