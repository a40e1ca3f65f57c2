package autoscaling

import (
	"context"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/cloudwatch"
	"berth/shared/sim/kernel"
)

// policyAPI answers calls about scaling policies.
type policyAPI struct{ groups *Groups }

// The answers of DescribePolicies and PutScalingPolicy.
type (
	xmlAlarm     struct{ AlarmName, AlarmARN string }
	xmlDimension struct{ Name, Value string }
	xmlMetric    struct {
		Name       string `xml:"MetricName"`
		Namespace  string
		Dimensions []xmlDimension `xml:"Dimensions>member"`
		Statistic  string
	}
	xmlPolicy struct {
		AutoScalingGroupName, PolicyName, PolicyARN, PolicyType string
		EstimatedInstanceWarmup                                 int
		Alarms                                                  []xmlAlarm  `xml:"Alarms>member"`
		Tracking                                                xmlTracking `xml:"TargetTrackingConfiguration"`
		Enabled                                                 bool
	}
	xmlTracking struct {
		Metric  xmlMetric `xml:"CustomizedMetricSpecification"`
		Target  float64   `xml:"TargetValue"`
		OutOnly bool      `xml:"DisableScaleIn"`
	}
)

// policyARN derives the policy's ARN from its names, so that it need not be stored.
func (a *policyAPI) policyARN(g *group, name string) string {
	return a.groups.kernel.ResourceARN("autoscaling",
		"scalingPolicy:"+kernel.FormatUUID(cluster.Digest("policy", g.Name,
			name))+":autoScalingGroupName/"+g.Name+":policyName/"+name)
}

// describePolicy reports every policy as enabled: switching policies off is not simulated.
func (a *policyAPI) describePolicy(g *group, p *policy) xmlPolicy {
	out := xmlPolicy{
		AutoScalingGroupName: g.Name, PolicyName: p.Name, PolicyARN: a.policyARN(g, p.Name),
		PolicyType:              "TargetTrackingScaling",
		EstimatedInstanceWarmup: int(p.Warmup / time.Second), Enabled: true, Tracking: xmlTracking{
			Metric: xmlMetric{Name: p.Metric.Name, Namespace: p.Metric.Namespace, Statistic: p.Statistic},
			Target: p.Target, OutOnly: p.OutOnly,
		},
	}
	for _, name := range p.trackingAlarmNames(g) {
		out.Alarms = append(out.Alarms, xmlAlarm{name, a.groups.kernel.ResourceARN("cloudwatch", "alarm:"+name)})
	}
	for _, name := range slices.Sorted(maps.Keys(p.Metric.Dimensions)) {
		out.Tracking.Metric.Dimensions = append(out.Tracking.Metric.Dimensions,
			xmlDimension{name, p.Metric.Dimensions[name]})
	}
	return out
}

// trackingInput is a TargetTrackingConfiguration. Predefined metrics are not simulated, and refused
// by name.
type trackingInput struct {
	TargetValue                   *float64
	DisableScaleIn                bool
	CustomizedMetricSpecification struct {
		Namespace, MetricName, Statistic string
		Dimensions                       []struct{ Name, Value string }
	}
}

// putScalingPolicy takes target tracking of a custom metric alone, which is what managed scaling
// uses. Step and predictive scaling are refused by name. The answer has the policy's two alarms.
func (a *policyAPI) putScalingPolicy(_ context.Context, in *struct {
	AutoScalingGroupName, PolicyName, PolicyType string
	EstimatedInstanceWarmup                      int            `default:"300"`
	TargetTrackingConfiguration                  *trackingInput `protocol:"strict"`
}) (any, error) {
	if in.PolicyType != "TargetTrackingScaling" {
		return nil, cluster.Errorf("ValidationError",
			"The simulated AWS knows policies of the type TargetTrackingScaling alone, not %.64q", in.PolicyType)
	}
	t := in.TargetTrackingConfiguration
	if t == nil || t.TargetValue == nil || t.CustomizedMetricSpecification.MetricName == "" {
		return nil, cluster.Errorf("ValidationError",
			"A target tracking policy needs a TargetValue and a CustomizedMetricSpecification")
	}
	m := t.CustomizedMetricSpecification
	p := policy{
		Name: in.PolicyName, Metric: cloudwatch.Metric{Namespace: m.Namespace, Name: m.MetricName,
			Dimensions: map[string]string{}},
		Statistic: m.Statistic, Target: *t.TargetValue, Warmup: time.Duration(in.EstimatedInstanceWarmup) * time.Second,
		OutOnly: t.DisableScaleIn,
	}
	for _, d := range m.Dimensions {
		p.Metric.Dimensions[d.Name] = d.Value
	}
	if err := a.groups.putPolicy(in.AutoScalingGroupName, p); err != nil {
		return nil, err
	}
	var out struct {
		PolicyARN string
		Alarms    []xmlAlarm `xml:"Alarms>member"`
	}
	_ = a.groups.kernel.View(func(time.Time) error {
		if g := a.groups.byName[in.AutoScalingGroupName]; g != nil {
			d := a.describePolicy(g, &p)
			out.PolicyARN, out.Alarms = d.PolicyARN, d.Alarms
		}
		return nil
	})
	return out, nil
}

// deletePolicy refuses a policy that does not exist, as Auto Scaling does. For a group that does
// not exist the error is that of the call.
func (a *policyAPI) deletePolicy(
	ctx context.Context, in *struct{ AutoScalingGroupName, PolicyName string },
) (any, error) {
	known := false
	_ = a.groups.kernel.View(func(time.Time) error {
		g := a.groups.byName[in.AutoScalingGroupName]
		known = g == nil || g.Policies[in.PolicyName] != nil
		return nil
	})
	if !known {
		return nil, cluster.Errorf("ValidationError", "Policy not found: %.255s", in.PolicyName)
	}
	return nil, a.groups.DeletePolicy(ctx, in.AutoScalingGroupName, in.PolicyName)
}

// describePolicies lists policies by group and name, of all groups if none is named.
func (a *policyAPI) describePolicies(_ context.Context, in *struct {
	AutoScalingGroupName string
	PolicyNames          []string
}) (any, error) {
	var out struct {
		Policies []xmlPolicy `xml:"ScalingPolicies>member"`
	}
	err := a.groups.kernel.View(func(time.Time) error {
		groups, err := findGroup(a.groups.byName, in.AutoScalingGroupName)
		for _, g := range groups {
			for _, name := range slices.Sorted(maps.Keys(g.Policies)) {
				if len(in.PolicyNames) == 0 || slices.Contains(in.PolicyNames, name) {
					out.Policies = append(out.Policies, a.describePolicy(g, g.Policies[name]))
				}
			}
		}
		return err
	})
	return out, err
}
