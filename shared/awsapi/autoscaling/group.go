// Package autoscaling calls Amazon EC2 Auto Scaling for the size of groups. It is apart from
// package awsapi so that only the functions that need it carry its client.
package autoscaling

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"berth/shared/awsapi"
	"berth/shared/cluster"
)

// Groups is Amazon EC2 Auto Scaling.
type Groups struct {
	Client *autoscaling.Client
}

// NewGroups calls Auto Scaling by a configuration of the SDK.
func NewGroups(c aws.Config) *Groups { return &Groups{Client: autoscaling.NewFromConfig(c)} }

// groupBatch is how many groups are described in one call, protectBatch how many instances are
// protected in one.
const groupBatch, protectBatch = 50, 50

// DescribeGroups gives those of the groups named that are there; one that is being deleted is not.
func (g *Groups) DescribeGroups(ctx context.Context, names []string) (out []*cluster.AutoScalingGroup, err error) {
	for batch := range slices.Chunk(names, groupBatch) {
		pages := autoscaling.NewDescribeAutoScalingGroupsPaginator(g.Client,
			&autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: batch})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, fmt.Errorf("describing Auto Scaling groups: %w", awsapi.CallError(err))
			}
			for _, d := range page.AutoScalingGroups {
				if d.Status == nil {
					out = append(out, toGroup(d))
				}
			}
		}
	}
	return out, nil
}

func toGroup(d types.AutoScalingGroup) *cluster.AutoScalingGroup {
	out := &cluster.AutoScalingGroup{
		Name: aws.ToString(d.AutoScalingGroupName), ARN: aws.ToString(d.AutoScalingGroupARN),
		Min: int(aws.ToInt32(d.MinSize)),
		Max: int(aws.ToInt32(d.MaxSize)), Desired: int(aws.ToInt32(d.DesiredCapacity)),
		Protects: aws.ToBool(d.NewInstancesProtectedFromScaleIn), Weighted: hasWeights(d),
		OwnTemplates: hasOwnTemplates(d), Tags: map[string]string{},
		Zones: d.AvailabilityZones, Template: templateName(d.LaunchTemplate),
	}
	if spec := mixedTemplate(d); spec != nil {
		out.Template = templateName(spec)
	}
	for _, t := range d.Tags {
		out.Tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	for _, i := range d.Instances {
		out.Instances = append(out.Instances, cluster.GroupInstance{
			ID: aws.ToString(i.InstanceId), Type: aws.ToString(i.InstanceType), Zone: aws.ToString(i.AvailabilityZone),
			Lifecycle: string(i.LifecycleState), Protected: aws.ToBool(i.ProtectedFromScaleIn),
			Template: templateName(i.LaunchTemplate),
		})
	}
	return out
}

// hasWeights reports whether some instance type of the group counts as more or less than one
// instance.
func hasWeights(d types.AutoScalingGroup) bool {
	return slices.ContainsFunc(templateOverrides(d),
		func(o types.LaunchTemplateOverrides) bool { return aws.ToString(o.WeightedCapacity) != "" })
}

// hasOwnTemplates reports whether some instance type of the group has a launch template of its own.
func hasOwnTemplates(d types.AutoScalingGroup) bool {
	return slices.ContainsFunc(templateOverrides(d),
		func(o types.LaunchTemplateOverrides) bool { return o.LaunchTemplateSpecification != nil })
}

// templateOverrides are the instance types of a mixed instances policy.
func templateOverrides(d types.AutoScalingGroup) []types.LaunchTemplateOverrides {
	if d.MixedInstancesPolicy == nil || d.MixedInstancesPolicy.LaunchTemplate == nil {
		return nil
	}
	return d.MixedInstancesPolicy.LaunchTemplate.Overrides
}

// SetDesired sets the desired capacity, whatever cool-down the group has.
func (g *Groups) SetDesired(ctx context.Context, name string, n int) error {
	_, err := g.Client.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{
		AutoScalingGroupName: &name, DesiredCapacity: aws.Int32(int32(n)), HonorCooldown: aws.Bool(false),
	})
	return wrapError(err, "setting the desired capacity of group %s", name)
}

// SetInstanceProtection protects instances from scale-in, or releases them, in batches.
func (g *Groups) SetInstanceProtection(ctx context.Context, name string, ids []string, protected bool) error {
	for batch := range slices.Chunk(ids, protectBatch) {
		_, err := g.Client.SetInstanceProtection(ctx, &autoscaling.SetInstanceProtectionInput{
			AutoScalingGroupName: &name, InstanceIds: batch, ProtectedFromScaleIn: &protected,
		})
		if err != nil {
			return wrapError(err, "changing the protection of instances of group %s", name)
		}
	}
	return nil
}

// TerminateInstance terminates an instance of a group; lower takes it off the desired capacity.
func (g *Groups) TerminateInstance(ctx context.Context, id string, lower bool) error {
	_, err := g.Client.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{
		InstanceId: &id, ShouldDecrementDesiredCapacity: &lower,
	})
	return wrapError(err, "terminating instance %s", id)
}

// TagGroup sets a tag on the group alone.
func (g *Groups) TagGroup(ctx context.Context, name, key, value string) error {
	_, err := g.Client.CreateOrUpdateTags(ctx, &autoscaling.CreateOrUpdateTagsInput{Tags: []types.Tag{{
		Key: &key, Value: &value, ResourceId: &name, ResourceType: aws.String("auto-scaling-group"),
		PropagateAtLaunch: aws.Bool(false),
	}}})
	return wrapError(err, "tagging group %s", name)
}

// PutLifecycleHook has terminations of the group's instances wait for the heartbeat's time, and
// then go on.
func (g *Groups) PutLifecycleHook(ctx context.Context, h cluster.LifecycleHook) error {
	_, err := g.Client.PutLifecycleHook(ctx, &autoscaling.PutLifecycleHookInput{
		AutoScalingGroupName: &h.Group, LifecycleHookName: &h.Name,
		LifecycleTransition: aws.String("autoscaling:EC2_INSTANCE_TERMINATING"),
		HeartbeatTimeout:    aws.Int32(int32(h.Heartbeat / time.Second)), DefaultResult: aws.String("CONTINUE"),
	})
	return wrapError(err, "making lifecycle hook %s", h.Name)
}

// DeleteLifecycleHook deletes a hook, if there is one.
func (g *Groups) DeleteLifecycleHook(ctx context.Context, name, hook string) error {
	_, err := g.Client.DeleteLifecycleHook(ctx, &autoscaling.DeleteLifecycleHookInput{AutoScalingGroupName: &name,
		LifecycleHookName: &hook})
	return ignoreNotFound(wrapError(err, "deleting lifecycle hook %s", hook))
}

// CompleteLifecycleAction lets the termination of an instance go on.
func (g *Groups) CompleteLifecycleAction(ctx context.Context, name, hook, id string) error {
	_, err := g.Client.CompleteLifecycleAction(ctx, &autoscaling.CompleteLifecycleActionInput{
		AutoScalingGroupName: &name, LifecycleHookName: &hook, InstanceId: &id,
		LifecycleActionResult: aws.String("CONTINUE"),
	})
	return wrapError(err, "completing the termination of instance %s", id)
}

// RecordHeartbeat has the termination of an instance wait for another heartbeat's time.
func (g *Groups) RecordHeartbeat(ctx context.Context, name, hook, id string) error {
	_, err := g.Client.RecordLifecycleActionHeartbeat(ctx, &autoscaling.RecordLifecycleActionHeartbeatInput{
		AutoScalingGroupName: &name, LifecycleHookName: &hook, InstanceId: &id,
	})
	return wrapError(err, "having the termination of instance %s wait", id)
}

// PutTrackingPolicy has the group sized by a target tracking policy on the metric of managed
// scaling.
func (g *Groups) PutTrackingPolicy(ctx context.Context, p cluster.TrackingPolicy) error {
	_, err := g.Client.PutScalingPolicy(ctx, &autoscaling.PutScalingPolicyInput{
		AutoScalingGroupName: &p.Group, PolicyName: &p.Name, PolicyType: aws.String("TargetTrackingScaling"),
		EstimatedInstanceWarmup: aws.Int32(int32(p.Warmup / time.Second)),
		TargetTrackingConfiguration: &types.TargetTrackingConfiguration{
			TargetValue: &p.Target,
			CustomizedMetricSpecification: &types.CustomizedMetricSpecification{
				Namespace: &p.Namespace, MetricName: aws.String(cluster.ReservationMetric),
				Statistic: types.MetricStatisticAverage,
				Dimensions: []types.MetricDimension{
					{Name: aws.String(cluster.DimensionCluster), Value: &p.Cluster},
					{Name: aws.String(cluster.DimensionProvider), Value: &p.Provider},
				},
			},
		},
	})
	return wrapError(err, "making policy %s", p.Name)
}

// DeletePolicy deletes a policy, and with it its alarms, if there is one.
func (g *Groups) DeletePolicy(ctx context.Context, name, policy string) error {
	_, err := g.Client.DeletePolicy(ctx, &autoscaling.DeletePolicyInput{AutoScalingGroupName: &name,
		PolicyName: &policy})
	return ignoreNotFound(wrapError(err, "deleting policy %s", policy))
}

func wrapError(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, awsapi.CallError(err))...)
}

// ignoreNotFound is no error where what was to be deleted is not there: Auto Scaling says so only
// in words.
func ignoreNotFound(err error) error {
	var e *cluster.Error
	if !errors.As(err, &e) || e.Code != "ValidationError" {
		return err
	}
	lower := strings.ToLower(e.Message)
	if strings.Contains(lower, "not found") || strings.Contains(lower, "no lifecycle hook") ||
		strings.Contains(lower, "does not exist") {
		return nil
	}
	return err
}

// mixedTemplate is the launch template of a mixed instances policy, nil where there is none.
func mixedTemplate(d types.AutoScalingGroup) *types.LaunchTemplateSpecification {
	if d.MixedInstancesPolicy == nil || d.MixedInstancesPolicy.LaunchTemplate == nil {
		return nil
	}
	return d.MixedInstancesPolicy.LaunchTemplate.LaunchTemplateSpecification
}

// templateName is a launch template version as ID:VERSION; empty for none.
func templateName(s *types.LaunchTemplateSpecification) string {
	if s == nil || aws.ToString(s.LaunchTemplateId) == "" {
		return ""
	}
	version := aws.ToString(s.Version)
	if version == "" {
		version = "$Default"
	}
	return aws.ToString(s.LaunchTemplateId) + ":" + version
}
