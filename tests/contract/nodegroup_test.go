package contract

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	asg "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"berth/shared/awsapi/autoscaling"
	"berth/shared/cluster"
)

func TestNodeGroups(t *testing.T) {
	onScalers(t, nodeGroupClauses)
}

func nodeGroupClauses(t *testing.T, b *scaler) []clause {
	client, groups := asg.NewFromConfig(b.config), autoscaling.NewGroups(b.config)
	template := b.createTemplate(t, "nodes")
	made := 0
	group := func(edit func(*asg.CreateAutoScalingGroupInput)) string {
		made++
		in := &asg.CreateAutoScalingGroupInput{
			AutoScalingGroupName: aws.String(fmt.Sprint("nodes-", made)), MinSize: aws.Int32(0), MaxSize: aws.Int32(5),
			DesiredCapacity:   aws.Int32(1),
			AvailabilityZones: []string{region + "a", region + "b"},
		}
		edit(in)
		if _, err := client.CreateAutoScalingGroup(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		return *in.AutoScalingGroupName
	}
	spec := &types.LaunchTemplateSpecification{LaunchTemplateId: &template, Version: aws.String("1")}
	described := func(name string) *cluster.AutoScalingGroup {
		got, err := groups.DescribeGroups(t.Context(), []string{name})
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		return got[0]
	}
	return []clause{
		{"AGroupHasZonesAndATemplate", func() error {
			g := described(group(func(in *asg.CreateAutoScalingGroupInput) { in.LaunchTemplate = spec }))
			return errors.Join(checkEqual("zones", len(g.Zones), 2), checkEqual("template", g.Template, template+":1"),
				checkEqual("template of its instance", g.Instances[0].Template, template+":1"))
		}},
		{"AllSizesAreSetAtOnce", func() error {
			name := group(func(in *asg.CreateAutoScalingGroupInput) { in.LaunchTemplate = spec })
			if err := groups.SetSizes(t.Context(), name,
				cluster.SizesChange{Min: new(2), Max: new(12), Desired: new(6)}); err != nil {
				return err
			}
			g := described(name)
			return errors.Join(checkEqual("min", g.Min, 2), checkEqual("max", g.Max, 12),
				checkEqual("desired", g.Desired, 6))
		}},
		{"AnotherVersionIsUsed", func() error {
			name := group(func(in *asg.CreateAutoScalingGroupInput) { in.LaunchTemplate = spec })
			if err := groups.UseTemplate(t.Context(), name, template+":2"); err != nil {
				return err
			}
			return checkEqual("template", described(name).Template, template+":2")
		}},
		{"AMixedPolicyKeepsItsTypes", func() error {
			name := group(func(in *asg.CreateAutoScalingGroupInput) {
				in.MixedInstancesPolicy = &types.MixedInstancesPolicy{LaunchTemplate: &types.LaunchTemplate{
					LaunchTemplateSpecification: spec,
					Overrides:                   []types.LaunchTemplateOverrides{{InstanceType: aws.String("m5.large")}},
				}}
			})
			if err := groups.UseTemplate(t.Context(), name, template+":2"); err != nil {
				return err
			}
			out, err := client.DescribeAutoScalingGroups(t.Context(),
				&asg.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{name}})
			if err != nil {
				return err
			}
			policy := out.AutoScalingGroups[0].MixedInstancesPolicy.LaunchTemplate
			return errors.Join(checkEqual("template", described(name).Template, template+":2"),
				checkEqual("types", *policy.Overrides[0].InstanceType, "m5.large"))
		}},
		{"NoLaunchHasFailed", func() error {
			name := group(func(in *asg.CreateAutoScalingGroupInput) { in.LaunchTemplate = spec })
			got, err := groups.FailedLaunches(t.Context(), name, time.Time{})
			return errors.Join(err, checkEqual("failures", len(got), 0))
		}},
		{"ATemplateThatIsNotThereIsRefused", func() error {
			name := group(func(in *asg.CreateAutoScalingGroupInput) { in.LaunchTemplate = spec })
			return checkCode(groups.UseTemplate(t.Context(), name, "lt-00000000000000000:1"), "ValidationError")
		}},
	}
}
