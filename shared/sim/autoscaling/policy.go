package autoscaling

import (
	"context"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/cloudwatch"
	"berth/shared/sim/kernel"
	"berth/shared/sim/protocol"
)

// policy is a target tracking policy of a group, as stored: it has the group be as large as brings a metric to its target
// (Auto Scaling, target tracking scaling policies).
type policy struct {
	Name      string
	Metric    cloudwatch.Metric
	Statistic string
	Target    float64
	Warmup    time.Duration
	OutOnly   bool // DisableScaleIn
}

// The alarms of a policy: it scales out when the metric was above the target for so many minutes, in when it was below that
// share of the target.
const (
	highTimes = 3
	lowTimes  = 15
	lowShare  = 0.9
)

// alarms are the names of a policy's alarms, the high and the low one.
func (p *policy) alarms(g *group) []string {
	id := kernel.UUID(cluster.Digest("policy", g.Name, p.Name))
	return []string{"TargetTracking-" + g.Name + "-AlarmHigh-" + id, "TargetTracking-" + g.Name + "-AlarmLow-" + id}
}

// PutTrackingPolicy has a group sized by managed scaling's metric.
func (e *Groups) PutTrackingPolicy(_ context.Context, p cluster.TrackingPolicy) error {
	return e.putPolicy(p.Group, policy{
		Name: p.Name, Metric: cloudwatch.Reservation(p.Namespace, p.Cluster, p.Provider), Statistic: cloudwatch.Average, Target: p.Target, Warmup: p.Warmup,
	})
}

// putPolicy keeps a policy and its alarms: those that Auto Scaling makes for any customized metric, managed scaling's too.
func (e *Groups) putPolicy(name string, p policy) error {
	return e.onGroup("PutScalingPolicy", name, func(g *group, now time.Time) error {
		switch {
		case p.Name == "" || len(p.Name) > 255:
			return cluster.Errorf("ValidationError", "A policy's name has 1 to 255 characters")
		case !(p.Target > 0):
			return cluster.Errorf("ValidationError", "TargetValue is %g, and must be above 0", p.Target)
		case !cloudwatch.HasStatistic(p.Statistic):
			return cluster.Errorf("ValidationError", "The simulated fleet does not know the statistic %.64q", p.Statistic)
		}
		names := p.alarms(g)
		high := cloudwatch.Alarm{
			Name: names[0], Description: "DO NOT EDIT OR DELETE. For TargetTrackingScaling policy " + p.Name, State: cloudwatch.Unknown, Period: 60, Times: highTimes,
			Metric: p.Metric, Statistic: p.Statistic, Threshold: p.Target, Compare: cloudwatch.Above, Missing: "missing",
		}
		low := high
		low.Name, low.Times, low.Threshold, low.Compare = names[1], lowTimes, lowShare*p.Target, cloudwatch.Below
		for _, a := range []cloudwatch.Alarm{high, low} {
			if err := e.scaler.Alarms.Put(a, now); err != nil {
				return err
			}
		}
		g.Policies[p.Name] = &p
		return nil
	})
}

// DeletePolicy deletes a policy and its alarms, if there is one.
func (e *Groups) DeletePolicy(_ context.Context, name, policy string) error {
	return e.onGroup("DeletePolicy", name, func(g *group, _ time.Time) error {
		if p := g.Policies[policy]; p != nil {
			e.scaler.Alarms.Delete(p.alarms(g))
			delete(g.Policies, policy)
		}
		return nil
	})
}

// followMetric resizes the groups whose policies watch a metric that a datapoint was published of.
func (e *scaler) followMetric(of *cloudwatch.Series, now time.Time) {
	key := of.Metric.Key()
	for _, name := range slices.Sorted(maps.Keys(e.groups)) {
		g := e.groups[name]
		for _, policy := range slices.Sorted(maps.Keys(g.Policies)) {
			if p := g.Policies[policy]; p.Metric.Key() == key {
				e.follow(g, p, of, now)
			}
		}
	}
}

// follow sizes a group by the last value of its policy's metric while one of the policy's alarms fires. What still warms up
// is not counted as there when it scales out, and keeps it from scaling in.
func (e *scaler) follow(g *group, p *policy, of *cloudwatch.Series, now time.Time) {
	warm, warming := 0, false
	for k := range g.Members {
		switch m := &g.Members[k]; {
		case m.Lifecycle == pending, m.Lifecycle == inService && m.Until.Add(p.Warmup).After(now):
			warming = true
		case m.Lifecycle == inService:
			warm++
		}
	}
	value := of.Last(1, 60, p.Statistic, true)[0]
	sized := func(n int) int { return int(min(float64(g.Max), math.Ceil(float64(max(1, n))*value/p.Target))) }
	names := p.alarms(g)
	desired := g.Desired
	switch {
	case e.Alarms.Fires(names[0]):
		desired = max(desired, sized(warm))
	case e.Alarms.Fires(names[1]) && !p.OutOnly && !warming && desired > 0:
		desired = min(desired, sized(desired))
	}
	if desired = max(g.Min, min(g.Max, desired)); desired != g.Desired {
		g.Desired = desired
		e.balance(g, now)
	}
}

const (
	trackingPrefix = "TargetTrackingConfiguration."
	metricPrefix   = trackingPrefix + "CustomizedMetricSpecification."
)

type (
	xmlAlarm     struct{ AlarmName, AlarmARN string }
	xmlDimension struct{ Name, Value string }
	xmlPolicy    struct {
		AutoScalingGroupName, PolicyName, PolicyARN, PolicyType string
		EstimatedInstanceWarmup                                 int
		Alarms                                                  []xmlAlarm     `xml:"Alarms>member"`
		Name                                                    string         `xml:"TargetTrackingConfiguration>CustomizedMetricSpecification>MetricName"`
		Namespace                                               string         `xml:"TargetTrackingConfiguration>CustomizedMetricSpecification>Namespace"`
		Dimensions                                              []xmlDimension `xml:"TargetTrackingConfiguration>CustomizedMetricSpecification>Dimensions>member"`
		Statistic                                               string         `xml:"TargetTrackingConfiguration>CustomizedMetricSpecification>Statistic"`
		Target                                                  float64        `xml:"TargetTrackingConfiguration>TargetValue"`
		OutOnly                                                 bool           `xml:"TargetTrackingConfiguration>DisableScaleIn"`
		Enabled                                                 bool
	}
)

func (e *scaler) policyARN(g *group, name string) string {
	return e.kernel.ARN("autoscaling", "scalingPolicy:"+kernel.UUID(cluster.Digest("policy", g.Name, name))+":autoScalingGroupName/"+g.Name+":policyName/"+name)
}

func (e *scaler) describePolicy(g *group, p *policy) xmlPolicy {
	out := xmlPolicy{
		AutoScalingGroupName: g.Name, PolicyName: p.Name, PolicyARN: e.policyARN(g, p.Name), PolicyType: "TargetTrackingScaling",
		EstimatedInstanceWarmup: int(p.Warmup / time.Second), Name: p.Metric.Name, Namespace: p.Metric.Namespace, Statistic: p.Statistic,
		Target: p.Target, OutOnly: p.OutOnly, Enabled: true,
	}
	for _, name := range p.alarms(g) {
		out.Alarms = append(out.Alarms, xmlAlarm{name, e.kernel.ARN("cloudwatch", "alarm:"+name)})
	}
	for _, name := range slices.Sorted(maps.Keys(p.Metric.Dimensions)) {
		out.Dimensions = append(out.Dimensions, xmlDimension{name, p.Metric.Dimensions[name]})
	}
	return out
}

func (e *api) putScalingPolicy(_ context.Context, form url.Values) (any, error) {
	if err := protocol.Only(form, asgName, "PolicyName", "PolicyType", "EstimatedInstanceWarmup", "TargetTrackingConfiguration"); err != nil {
		return nil, err
	}
	if kind := form.Get("PolicyType"); kind != "TargetTrackingScaling" {
		return nil, cluster.Errorf("ValidationError", "The simulated fleet knows policies of the type TargetTrackingScaling alone, not %.64q", kind)
	}
	p := policy{Name: form.Get("PolicyName"), Warmup: 5 * time.Minute}
	p.Metric = cloudwatch.Metric{Namespace: form.Get(metricPrefix + "Namespace"), Name: form.Get(metricPrefix + "MetricName"), Dimensions: map[string]string{}}
	p.Statistic = form.Get(metricPrefix + "Statistic")
	values := protocol.Members(form, metricPrefix+"Dimensions", ".Value")
	for n, name := range protocol.Members(form, metricPrefix+"Dimensions", ".Name") {
		p.Metric.Dimensions[name] = values[min(n, len(values)-1)]
	}
	for key := range form {
		if strings.HasPrefix(key, trackingPrefix) && !strings.HasPrefix(key, metricPrefix) && key != trackingPrefix+"TargetValue" && key != trackingPrefix+"DisableScaleIn" {
			return nil, cluster.Errorf("ValidationError", "The simulated fleet does not know the parameter %.128s", key)
		}
	}
	var err error
	if p.Target, err = strconv.ParseFloat(form.Get(trackingPrefix+"TargetValue"), 64); err != nil || p.Metric.Name == "" {
		return nil, cluster.Errorf("ValidationError", "A target tracking policy needs a TargetValue and a CustomizedMetricSpecification")
	}
	if err := protocol.YesNo(form, trackingPrefix+"DisableScaleIn", &p.OutOnly); err != nil {
		return nil, err
	}
	if form.Has("EstimatedInstanceWarmup") {
		seconds := 0
		if err := protocol.Whole(form, "EstimatedInstanceWarmup", &seconds); err != nil {
			return nil, err
		}
		p.Warmup = time.Duration(seconds) * time.Second
	}
	if err := e.groups.putPolicy(form.Get(asgName), p); err != nil {
		return nil, err
	}
	var out struct {
		PolicyARN string
		Alarms    []xmlAlarm `xml:"Alarms>member"`
	}
	_ = e.kernel.View(func(time.Time) error {
		if g := e.groups.scaler.groups[form.Get(asgName)]; g != nil {
			d := e.groups.scaler.describePolicy(g, &p)
			out.PolicyARN, out.Alarms = d.PolicyARN, d.Alarms
		}
		return nil
	})
	return out, nil
}

func (e *api) deletePolicy(ctx context.Context, form url.Values) (any, error) {
	if err := protocol.Only(form, asgName, "PolicyName"); err != nil {
		return nil, err
	}
	name, known := form.Get("PolicyName"), false
	_ = e.kernel.View(func(time.Time) error {
		g := e.groups.scaler.groups[form.Get(asgName)]
		known = g == nil || g.Policies[name] != nil
		return nil
	})
	if !known {
		return nil, cluster.Errorf("ValidationError", "Policy not found: %.255s", name)
	}
	return nil, e.groups.DeletePolicy(ctx, form.Get(asgName), name)
}

func (e *api) describePolicies(_ context.Context, form url.Values) (any, error) {
	if err := protocol.Only(form, asgName, "PolicyNames"); err != nil {
		return nil, err
	}
	names := protocol.Members(form, "PolicyNames", "")
	var out struct {
		Policies []xmlPolicy `xml:"ScalingPolicies>member"`
	}
	err := e.kernel.View(func(time.Time) error {
		groups := e.groups.scaler.named(nil)
		if name := form.Get(asgName); name != "" {
			if groups = e.groups.scaler.named([]string{name}); len(groups) == 0 {
				return noGroup(name)
			}
		}
		for _, g := range groups {
			for _, name := range slices.Sorted(maps.Keys(g.Policies)) {
				if len(names) == 0 || slices.Contains(names, name) {
					out.Policies = append(out.Policies, e.groups.scaler.describePolicy(g, g.Policies[name]))
				}
			}
		}
		return nil
	})
	return out, err
}
