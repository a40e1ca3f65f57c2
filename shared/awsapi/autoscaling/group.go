// Package autoscaling calls Amazon EC2 Auto Scaling: for the size of groups, their instances'
// protection and termination, the hooks that hold terminations up, and what a group launches from.
// It implements ports of package handler for managed scaling and node-group updates, and decides
// nothing. It is apart from package awsapi so that only the functions that need it have its client.
// Errors are those of awsapi.CallError. Start at [Groups.DescribeGroups].
package autoscaling

import (
	"context"
	"encoding/json"
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

// Groups calls Amazon EC2 Auto Scaling. Its methods may be repeated: setting something twice
// changes nothing, and deleting what is not there succeeds.
type Groups struct {
	Client *autoscaling.Client
}

// NewGroups returns the groups of the account and Region that a configuration of the SDK names.
func NewGroups(c aws.Config) *Groups { return &Groups{Client: autoscaling.NewFromConfig(c)} }

// groupBatch is how many groups one call describes, protectBatch how many instances one call
// protects (Auto Scaling API).
const groupBatch, protectBatch = 50, 50

// DescribeGroups returns those of the groups named that exist. A group that is being deleted, which
// has a status, does not count.
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

// toGroup returns a group in Berth's terms. The launch template of a mixed instances policy stands
// for the group's.
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
	for _, o := range templateOverrides(d) {
		switch {
		case aws.ToString(o.InstanceType) != "":
			out.Types = append(out.Types, *o.InstanceType)
		case o.InstanceRequirements != nil:
			requirements, _ := json.Marshal(o.InstanceRequirements) // plain values, which always have a JSON form
			out.Requirements = append(out.Requirements, string(requirements))
		}
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

// templateOverrides returns the instance types of a mixed instances policy.
func templateOverrides(d types.AutoScalingGroup) []types.LaunchTemplateOverrides {
	if d.MixedInstancesPolicy == nil || d.MixedInstancesPolicy.LaunchTemplate == nil {
		return nil
	}
	return d.MixedInstancesPolicy.LaunchTemplate.Overrides
}

// SetDesired sets the desired capacity, without waiting for a cooldown of the group.
func (g *Groups) SetDesired(ctx context.Context, name string, n int) error {
	_, err := g.Client.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{
		AutoScalingGroupName: &name, DesiredCapacity: aws.Int32(int32(n)), HonorCooldown: aws.Bool(false),
	})
	return awsapi.WrapCallError(err, "setting the desired capacity of group %s", name)
}

// SetInstanceProtection protects instances from scale-in, or ends that, in batches. An error may
// leave earlier batches changed.
func (g *Groups) SetInstanceProtection(ctx context.Context, name string, ids []string, protected bool) error {
	for batch := range slices.Chunk(ids, protectBatch) {
		_, err := g.Client.SetInstanceProtection(ctx, &autoscaling.SetInstanceProtectionInput{
			AutoScalingGroupName: &name, InstanceIds: batch, ProtectedFromScaleIn: &protected,
		})
		if err != nil {
			return awsapi.WrapCallError(err, "changing the protection of instances of group %s", name)
		}
	}
	return nil
}

// TerminateInstance terminates an instance of a group. If lower is true the desired capacity goes
// down by one, so that it is not replaced.
func (g *Groups) TerminateInstance(ctx context.Context, id string, lower bool) error {
	_, err := g.Client.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{
		InstanceId: &id, ShouldDecrementDesiredCapacity: &lower,
	})
	return awsapi.WrapCallError(err, "terminating instance %s", id)
}

// TagGroup sets a tag of the group that its instances do not get.
func (g *Groups) TagGroup(ctx context.Context, name, key, value string) error {
	_, err := g.Client.CreateOrUpdateTags(ctx, &autoscaling.CreateOrUpdateTagsInput{Tags: []types.Tag{{
		Key: &key, Value: &value, ResourceId: &name, ResourceType: aws.String("auto-scaling-group"),
		PropagateAtLaunch: aws.Bool(false),
	}}})
	return awsapi.WrapCallError(err, "tagging group %s", name)
}

// PutLifecycleHook makes terminations of the group's instances wait for the heartbeat timeout, or
// until they are completed. If Berth never answers, the termination continues.
func (g *Groups) PutLifecycleHook(ctx context.Context, h cluster.LifecycleHook) error {
	_, err := g.Client.PutLifecycleHook(ctx, &autoscaling.PutLifecycleHookInput{
		AutoScalingGroupName: &h.Group, LifecycleHookName: &h.Name,
		LifecycleTransition: aws.String("autoscaling:EC2_INSTANCE_TERMINATING"),
		HeartbeatTimeout:    aws.Int32(int32(h.Heartbeat / time.Second)), DefaultResult: aws.String("CONTINUE"),
	})
	return awsapi.WrapCallError(err, "making lifecycle hook %s", h.Name)
}

// DeleteLifecycleHook deletes a hook, if there is one.
func (g *Groups) DeleteLifecycleHook(ctx context.Context, name, hook string) error {
	_, err := g.Client.DeleteLifecycleHook(ctx, &autoscaling.DeleteLifecycleHookInput{AutoScalingGroupName: &name,
		LifecycleHookName: &hook})
	return ignoreNotFound(awsapi.WrapCallError(err, "deleting lifecycle hook %s", hook))
}

// CompleteLifecycleAction lets the termination of an instance go on.
func (g *Groups) CompleteLifecycleAction(ctx context.Context, name, hook, id string) error {
	_, err := g.Client.CompleteLifecycleAction(ctx, &autoscaling.CompleteLifecycleActionInput{
		AutoScalingGroupName: &name, LifecycleHookName: &hook, InstanceId: &id,
		LifecycleActionResult: aws.String("CONTINUE"),
	})
	return awsapi.WrapCallError(err, "completing the termination of instance %s", id)
}

// RecordHeartbeat makes the termination of an instance wait for another heartbeat timeout.
func (g *Groups) RecordHeartbeat(ctx context.Context, name, hook, id string) error {
	_, err := g.Client.RecordLifecycleActionHeartbeat(ctx, &autoscaling.RecordLifecycleActionHeartbeatInput{
		AutoScalingGroupName: &name, LifecycleHookName: &hook, InstanceId: &id,
	})
	return awsapi.WrapCallError(err, "having the termination of instance %s wait", id)
}

// PutTrackingPolicy makes Auto Scaling size the group by a target tracking policy on the metric of
// managed scaling. Auto Scaling creates the policy's two alarms.
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
	return awsapi.WrapCallError(err, "making policy %s", p.Name)
}

// DeletePolicy deletes a policy and its alarms, if it exists.
func (g *Groups) DeletePolicy(ctx context.Context, name, policy string) error {
	_, err := g.Client.DeletePolicy(ctx, &autoscaling.DeletePolicyInput{AutoScalingGroupName: &name,
		PolicyName: &policy})
	return ignoreNotFound(awsapi.WrapCallError(err, "deleting policy %s", policy))
}

// ignoreNotFound returns nil if what was to be deleted does not exist. Auto Scaling has no code for
// that, only a ValidationError with a text.
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

// mixedTemplate returns the launch template of a mixed instances policy, nil if there is none.
func mixedTemplate(d types.AutoScalingGroup) *types.LaunchTemplateSpecification {
	if d.MixedInstancesPolicy == nil || d.MixedInstancesPolicy.LaunchTemplate == nil {
		return nil
	}
	return d.MixedInstancesPolicy.LaunchTemplate.LaunchTemplateSpecification
}

// templateName returns a launch template version as ID:VERSION, "" for none.
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
