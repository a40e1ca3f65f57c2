package autoscaling

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

func TestMixedInstancesPolicyIsRead(t *testing.T) {
	spec := &types.LaunchTemplateSpecification{LaunchTemplateId: aws.String("lt-1"), Version: aws.String("2")}
	for name, c := range map[string]struct {
		override      types.LaunchTemplateOverrides
		weighted, own bool
	}{
		"OnlyTypes": {types.LaunchTemplateOverrides{InstanceType: aws.String("m5.large")}, false, false},
		"Weights": {types.LaunchTemplateOverrides{InstanceType: aws.String("m5.large"),
			WeightedCapacity: aws.String("2")}, true, false},
		"Templates": {types.LaunchTemplateOverrides{InstanceType: aws.String("m6g.large"),
			LaunchTemplateSpecification: spec}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			got := toGroup(types.AutoScalingGroup{MixedInstancesPolicy: &types.MixedInstancesPolicy{LaunchTemplate: &types.LaunchTemplate{
				LaunchTemplateSpecification: spec, Overrides: []types.LaunchTemplateOverrides{c.override},
			}}})
			if got.Weighted != c.weighted || got.OwnTemplates != c.own || got.Template != "lt-1:2" {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestLaunchedTypesAreRead(t *testing.T) {
	got := toGroup(types.AutoScalingGroup{MixedInstancesPolicy: &types.MixedInstancesPolicy{
		LaunchTemplate: &types.LaunchTemplate{Overrides: []types.LaunchTemplateOverrides{
			{InstanceType: aws.String("m5.xlarge")}, {InstanceType: aws.String("m5.large")},
			{InstanceRequirements: &types.InstanceRequirements{
				VCpuCount: &types.VCpuCountRequest{Min: aws.Int32(2)}, BareMetal: types.BareMetalExcluded,
			}},
		}},
	}})
	if !slices.Equal(got.Types, []string{"m5.xlarge", "m5.large"}) || len(got.Requirements) != 1 ||
		!strings.Contains(got.Requirements[0], `"VCpuCount":{"Min":2,"Max":null}`) {
		t.Errorf("%+v", got)
	}
}

// An activity that is still in progress comes before newer ones that have ended (DescribeScalingActivities in the
// Auto Scaling API reference), and hides none of them.
func TestFailedLaunchesBehindAnActivityInProgress(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	after := func(minutes int) *time.Time { return aws.Time(noon.Add(time.Duration(minutes) * time.Minute)) }
	launch := func(start, end *time.Time, code types.ScalingActivityStatusCode) types.Activity {
		return types.Activity{
			StartTime: start, EndTime: end, StatusCode: code, Description: aws.String("Launching a new EC2 instance"),
			StatusMessage: aws.String("InsufficientInstanceCapacity - none"),
		}
	}
	held := launch(after(-30), nil, types.ScalingActivityStatusCodeInProgress)
	failed := launch(after(1), after(2), types.ScalingActivityStatusCodeFailed)
	old := launch(after(-9), after(-8), types.ScalingActivityStatusCodeFailed)
	got, more := failedLaunches([]types.Activity{held, failed}, noon)
	if len(got) != 1 || !got[0].At.Equal(*after(1)) || !more {
		t.Errorf("%+v, more: %v", got, more)
	}
	if got, more := failedLaunches([]types.Activity{failed, old, failed}, noon); len(got) != 1 || more {
		t.Errorf("with older ones: %+v, more: %v", got, more)
	}
}
