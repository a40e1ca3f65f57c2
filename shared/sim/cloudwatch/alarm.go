package cloudwatch

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/kernel"
)

// Alarm is a CloudWatch alarm on one metric, as stored. Datapoints change its state, and
// [Service.SetAlarm].
type Alarm struct {
	Name, ARN, Description string
	State, Reason          string
	Since                  time.Time
	Period, Times          int // seconds, evaluation periods
	Metric                 Metric
	Statistic              string
	Threshold              float64
	Compare                string // as CloudWatch's ComparisonOperator
	Missing                string // TreatMissingData
	Version                int64
}

// StoredRow implements [kernel.Row].
func (a *Alarm) StoredRow() (string, string, any) { return bucket, a.Name, a }

// The states of an alarm.
const (
	ok      = "OK"
	firing  = "ALARM"
	Unknown = "INSUFFICIENT_DATA"
)

// PutAlarm creates an alarm that is OK, or changes how long an existing one looks back: period ×
// times.
func (c *Service) PutAlarm(name string, period time.Duration, times int) error {
	return c.kernel.Change(func(now time.Time) error {
		return c.StoreAlarm(Alarm{Name: name, Period: int(period / time.Second), Times: times, State: ok,
			Compare: Above}, now)
	})
}

// StoreAlarm creates an alarm, or changes one, which keeps its state until the next datapoint, as
// in CloudWatch. It belongs in a step.
func (c *Service) StoreAlarm(a Alarm, now time.Time) error {
	if a.Name == "" || len(a.Name) > 255 || a.Times < 1 {
		return cluster.Errorf("ValidationError", "an alarm needs a name and at least one evaluation period")
	}
	if comparisons[a.Compare] == nil {
		return cluster.Errorf("ValidationError", "The simulated AWS does not know the comparison %.64q", a.Compare)
	}
	if old := c.Rows[a.Name]; old != nil {
		a.State, a.Since, a.Reason, a.Version = old.State, old.Since, old.Reason, old.Version
	} else {
		a.Since = now
	}
	a.ARN = c.kernel.ResourceARN("cloudwatch", "alarm:"+a.Name)
	c.Rows[a.Name] = &a
	c.kernel.SaveRow(&a)
	return nil
}

// SetAlarm puts an alarm into the state ALARM or OK, and emits the event.
func (c *Service) SetAlarm(name string, fires bool) error {
	state := ok
	if fires {
		state = firing
	}
	return c.kernel.Change(func(now time.Time) error { return c.setAlarmState(name, state, "it was set", now) })
}

// setAlarmState changes an alarm's state and emits the event, with the state before. It does
// nothing if the alarm is in the state already, so that a firing alarm is reported once.
func (c *Service) setAlarmState(name, state, reason string, now time.Time) error {
	a := c.Rows[name]
	if a == nil {
		return cluster.Errorf(cluster.CodeResourceNotFound, "no alarm %.255s", name)
	}
	if !slices.Contains([]string{ok, firing, Unknown}, state) {
		return cluster.Errorf("ValidationError", "no state %.64q", state)
	}
	if a.State == state {
		return nil
	}
	previous := map[string]any{"value": a.State, "reason": a.Reason, "timestamp": a.Since.Format(alarmTime)}
	a.State, a.Reason, a.Since = state, reason, now
	a.Version++
	c.kernel.SaveRow(a)
	detail, err := json.Marshal(map[string]any{
		"alarmName": a.Name, "previousState": previous, "configuration": map[string]any{},
		"state": map[string]any{"value": state, "reason": reason, "timestamp": now.Format(alarmTime)},
	})
	if err != nil {
		return fmt.Errorf("reporting alarm %s: %w", name, err)
	}
	c.kernel.EmitEvent(kernel.Event{Source: c.eventSource, DetailType: "CloudWatch Alarm State Change", ARN: a.ARN,
		Version: a.Version, At: now}, detail)
	return nil
}

// alarmTime is the layout of times in CloudWatch's events.
const alarmTime = "2006-01-02T15:04:05.000-0700"

// DescribeAlarms returns those of the alarms named that exist.
func (c *Service) DescribeAlarms(_ context.Context, names []string) (alarms []cluster.Alarm, err error) {
	err = c.viewAlarms(names, func(a *Alarm) {
		alarms = append(alarms, cluster.Alarm{
			Name: a.Name, InAlarm: a.State == firing, Since: a.Since,
			Window: time.Duration(a.Period*a.Times) * time.Second,
		})
	})
	return alarms, err
}

// viewAlarms calls take with those of the alarms named that exist.
func (c *Service) viewAlarms(names []string, take func(a *Alarm)) error {
	return c.kernel.CallView("DescribeAlarms", fmt.Sprint(names), func(time.Time) error {
		for _, name := range names {
			if a := c.Rows[name]; a != nil {
				take(a)
			}
		}
		return nil
	})
}

// PutMetricAlarm creates an alarm of managed scaling: on the average of minutes, whose gaps do not
// count. It has no state until datapoints give it one.
func (c *Service) PutMetricAlarm(_ context.Context, a cluster.MetricAlarm) error {
	compare := Above
	if a.Below {
		compare = Below
	}
	return c.kernel.Change(func(now time.Time) error {
		return c.StoreAlarm(Alarm{
			Name: a.Name, Period: 60, Times: a.Times, State: Unknown,
			Metric:    ReservationMetric(a.Namespace, a.Cluster, a.Provider),
			Statistic: Average, Threshold: a.Threshold, Compare: compare, Missing: "ignore",
		}, now)
	})
}

// DeleteAlarms deletes those of the alarms named that exist.
func (c *Service) DeleteAlarms(_ context.Context, names []string) error {
	return c.kernel.Change(func(time.Time) error { c.RemoveAlarms(names); return nil })
}

// RemoveAlarms deletes those of the alarms named that exist. It belongs in a step.
func (c *Service) RemoveAlarms(names []string) {
	for _, name := range names {
		if a := c.Rows[name]; a != nil {
			delete(c.Rows, name)
			c.kernel.DeleteRow(a)
		}
	}
}

// PutScalingMetrics publishes datapoints of managed scaling's metrics.
func (c *Service) PutScalingMetrics(_ context.Context, points []cluster.Datapoint) error {
	return c.kernel.Change(func(now time.Time) error {
		for _, p := range points {
			c.publishSample(ReservationMetric(p.Namespace, p.Cluster, p.Provider), singleSample(p.At, p.Percent), now)
			c.publishSample(scalingMetric(cluster.DesiredCapacityMetric, p.Namespace, p.Cluster, p.Provider),
				singleSample(p.At, float64(p.Desired)), now)
		}
		return nil
	})
}

// IsFiring reports whether an alarm is in ALARM. It belongs in a step.
func (c *Service) IsFiring(name string) bool {
	return c.Rows[name] != nil && c.Rows[name].State == firing
}

// publishSample adds a datapoint, evaluates the metric's alarms, sorted by name, and then calls
// the observer, so that a policy finds its alarms up to date.
func (c *Service) publishSample(m Metric, s sample, now time.Time) {
	key := m.MetricKey()
	of := c.series[key]
	if of == nil {
		of = &Series{Metric: m}
		c.series[key] = of
	}
	of.addSample(s)
	for _, name := range slices.Sorted(maps.Keys(c.Rows)) {
		if a := c.Rows[name]; a.Metric.MetricKey() == key {
			c.evaluateAlarm(a, of, now)
		}
	}
	if c.observe != nil {
		c.observe(of, now)
	}
}

// evaluateAlarm puts an alarm into ALARM if all of its last periods are beyond the threshold, and
// into OK if not. It leaves the state alone while there are too few periods to tell. What a missing
// period counts as is TreatMissingData: breaching ones count as beyond, notBreaching ones as not,
// ignored ones are skipped (CloudWatch, how alarms treat missing data).
func (c *Service) evaluateAlarm(a *Alarm, of *Series, now time.Time) {
	values := of.LastValues(a.Times, a.Period, a.Statistic, a.Missing != "ignore")
	beyond := 0
	for _, v := range values {
		if comparisons[a.Compare](v, a.Threshold) {
			beyond++
		}
	}
	state := ok
	switch {
	case beyond == a.Times || a.Missing == "breaching" && beyond == len(values):
		state = firing
	case beyond == len(values) && a.Missing != "notBreaching":
		return // too few to tell
	}
	_ = c.setAlarmState(a.Name, state, fmt.Sprintf("Threshold Crossed: %d of the last %d datapoints were %s (%g)",
		beyond,
		len(values), a.Compare, a.Threshold), now)
}
