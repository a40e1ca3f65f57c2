package autoscaling

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/cloudwatch"
	"berth/shared/sim/kernel"
)

// policy is a target tracking policy of a group, as stored: it resizes the group to bring a metric
// to its target (Auto Scaling, target tracking scaling policies).
type policy struct {
	Name      string
	Metric    cloudwatch.Metric
	Statistic string
	Target    float64
	Warmup    time.Duration // how long after a launch an instance does not count yet
	OutOnly   bool          // DisableScaleIn
}

// A policy scales out when the metric was above the target for highTimes minutes. It scales in when
// the metric was below lowShare of the target for lowTimes minutes: Auto Scaling is quick to add
// and slow to remove. Example: with a target of 80 the high alarm watches > 80 in 3 of 3 minutes,
// the low one < 72 in 15 of 15.
const (
	highTimes = 3
	lowTimes  = 15
	lowShare  = 0.9
)

// trackingAlarmNames returns the names of a policy's alarms, the high and the low one. As those
// that Auto Scaling creates, they name the group, and no other caller should change them.
func (p *policy) trackingAlarmNames(g *group) []string {
	id := kernel.FormatUUID(cluster.Digest("policy", g.Name, p.Name))
	return []string{"TargetTracking-" + g.Name + "-AlarmHigh-" + id, "TargetTracking-" + g.Name + "-AlarmLow-" + id}
}

// PutTrackingPolicy makes a group follow managed scaling's metric.
func (e *Groups) PutTrackingPolicy(_ context.Context, p cluster.TrackingPolicy) error {
	return e.putPolicy(p.Group, policy{
		Name: p.Name, Metric: cloudwatch.ReservationMetric(p.Namespace, p.Cluster, p.Provider),
		Statistic: cloudwatch.Average,
		Target:    p.Target, Warmup: p.Warmup,
	})
}

// putPolicy stores a policy and the two alarms that Auto Scaling makes for it.
func (e *Groups) putPolicy(name string, p policy) error {
	return e.changeGroup("PutScalingPolicy", name, func(g *group, now time.Time) error {
		switch {
		case p.Name == "" || len(p.Name) > 255:
			return cluster.Errorf("ValidationError", "A policy's name has 1 to 255 characters")
		case !(p.Target > 0):
			return cluster.Errorf("ValidationError", "TargetValue is %g, and must be above 0", p.Target)
		case !cloudwatch.HasStatistic(p.Statistic):
			return cluster.Errorf("ValidationError", "The simulated AWS does not know the statistic %.64q",
				p.Statistic)
		}
		names := p.trackingAlarmNames(g)
		high := cloudwatch.Alarm{
			Name: names[0], Description: "DO NOT EDIT OR DELETE. For TargetTrackingScaling policy " + p.Name,
			State: cloudwatch.Unknown, Period: 60, Times: highTimes,
			Metric: p.Metric, Statistic: p.Statistic, Threshold: p.Target, Compare: cloudwatch.Above,
			Missing: "missing",
		}
		low := high
		low.Name, low.Times, low.Threshold, low.Compare = names[1], lowTimes, lowShare*p.Target, cloudwatch.Below
		for _, a := range []cloudwatch.Alarm{high, low} {
			if err := e.alarms.StoreAlarm(a, now); err != nil {
				return err
			}
		}
		g.Policies[p.Name] = &p
		return nil
	})
}

// DeletePolicy deletes a policy and its alarms, if there is one.
func (e *Groups) DeletePolicy(_ context.Context, name, policy string) error {
	return e.changeGroup("DeletePolicy", name, func(g *group, _ time.Time) error {
		if p := g.Policies[policy]; p != nil {
			e.alarms.RemoveAlarms(p.trackingAlarmNames(g))
			delete(g.Policies, policy)
		}
		return nil
	})
}

// applyPolicies applies the policies that watch a metric after a datapoint of it was published, in
// order of name. The alarms have been evaluated with it already.
func (e *scaler) applyPolicies(of *cloudwatch.Series, now time.Time) {
	key := of.Metric.MetricKey()
	for _, name := range slices.Sorted(maps.Keys(e.byName)) {
		g := e.byName[name]
		for _, policy := range slices.Sorted(maps.Keys(g.Policies)) {
			if p := g.Policies[policy]; p.Metric.MetricKey() == key {
				e.resizeToTarget(g, p, of, now)
			}
		}
	}
}

// resizeToTarget resizes a group by the metric's last value while one of the policy's alarms is in
// ALARM. Example: with 10 instances in service, a target of 80 and a value of 100, it wants 10 *
// 100 / 80 = 13. Instances that are warming up do not count when it scales out, and prevent it from
// scaling in.
func (e *scaler) resizeToTarget(g *group, p *policy, of *cloudwatch.Series, now time.Time) {
	warm, warming := 0, false
	for k := range g.Members {
		switch m := &g.Members[k]; {
		case m.Lifecycle == pending, m.Lifecycle == inService && m.Until.Add(p.Warmup).After(now):
			warming = true
		case m.Lifecycle == inService:
			warm++
		}
	}
	value := of.LastValues(1, 60, p.Statistic, true)[0]
	sized := func(n int) int { return int(min(float64(g.Max), math.Ceil(float64(max(1, n))*value/p.Target))) }
	names := p.trackingAlarmNames(g)
	desired := g.Desired
	switch {
	case e.alarms.IsFiring(names[0]):
		desired = max(desired, sized(warm))
	case e.alarms.IsFiring(names[1]) && !p.OutOnly && !warming && desired > 0:
		desired = min(desired, sized(desired))
	}
	if desired = max(g.Min, min(g.Max, desired)); desired != g.Desired {
		g.Desired = desired
		e.reconcileGroup(g, now)
	}
}
