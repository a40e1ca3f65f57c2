package autoscaling

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"berth/shared/awsapi"
	"berth/shared/cluster"
)

// SetSizes sets those of minimum, maximum and desired capacity that are given, in one call: one
// after the other could be refused half-way.
func (g *Groups) SetSizes(ctx context.Context, name string, s cluster.SizesChange) error {
	_, err := g.Client.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{
		AutoScalingGroupName: &name, MinSize: sizeOrNil(s.Min), MaxSize: sizeOrNil(s.Max),
		DesiredCapacity: sizeOrNil(s.Desired),
	})
	return awsapi.WrapCallError(err, "resizing group %s", name)
}

// sizeOrNil keeps an absent size absent, which leaves the group's.
func sizeOrNil(n *int) *int32 {
	if n == nil {
		return nil
	}
	return aws.Int32(int32(*n))
}

// UseTemplate makes the group launch from a launch template version, ID:VERSION. A group with a
// mixed instances policy keeps it, with the version in it.
func (g *Groups) UseTemplate(ctx context.Context, name, template string) error {
	found, err := g.Client.DescribeAutoScalingGroups(ctx,
		&autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{name}})
	if err != nil {
		return awsapi.WrapCallError(err, "describing group %s", name)
	}
	id, version, _ := strings.Cut(template, ":")
	in := &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: &name}
	spec := &types.LaunchTemplateSpecification{LaunchTemplateId: &id, Version: &version}
	if len(found.AutoScalingGroups) > 0 && mixedTemplate(found.AutoScalingGroups[0]) != nil {
		policy := found.AutoScalingGroups[0].MixedInstancesPolicy
		policy.LaunchTemplate.LaunchTemplateSpecification = spec
		in.MixedInstancesPolicy = policy
	} else {
		in.LaunchTemplate = spec
	}
	_, err = g.Client.UpdateAutoScalingGroup(ctx, in)
	return awsapi.WrapCallError(err, "changing the launch template of group %s", name)
}

// FailedLaunches returns the launches of a group that failed since a time, the newest first. It
// reads them from the group's scaling activities.
func (g *Groups) FailedLaunches(
	ctx context.Context, name string, since time.Time,
) (out []cluster.FailedLaunch, err error) {
	pages := autoscaling.NewDescribeScalingActivitiesPaginator(g.Client,
		&autoscaling.DescribeScalingActivitiesInput{AutoScalingGroupName: &name})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("describing the activities of group %s: %w", name, awsapi.CallError(err))
		}
		failed, more := failedLaunches(page.Activities, since)
		out = append(out, failed...)
		if !more {
			break
		}
	}
	return out, nil
}

// failedLaunches returns the launches among the activities that failed since a time, and whether activities
// after these may be as new. Those in progress come first, whenever they began, and then the newest.
func failedLaunches(activities []types.Activity, since time.Time) (out []cluster.FailedLaunch, more bool) {
	for _, a := range activities {
		at := aws.ToTime(a.StartTime)
		switch {
		case at.Before(since) && a.EndTime == nil:
			continue
		case at.Before(since):
			return out, false
		}
		if a.StatusCode == types.ScalingActivityStatusCodeFailed &&
			strings.HasPrefix(aws.ToString(a.Description), "Launching") {
			l := cluster.ParseLaunchFailure(aws.ToString(a.StatusMessage))
			l.At, l.Zone = at, zoneInDetails(aws.ToString(a.Details))
			out = append(out, l)
		}
	}
	return out, true
}

// zoneInDetails returns the Availability Zone in an activity's details. Example:
// {"Subnet ID":"subnet-1","Availability Zone":"eu-west-1a"}.
func zoneInDetails(details string) string {
	_, after, ok := strings.Cut(details, `"Availability Zone":"`)
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(after, `"`)
	return name
}
