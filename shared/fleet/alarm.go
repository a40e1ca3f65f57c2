package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
)

// alarm is a CloudWatch alarm on one metric, as stored. Its state follows the datapoints that come, or is what
// [Fleet.SetAlarm] says.
type alarm struct {
	Name, ARN, Description string
	State, Reason          string
	Since                  time.Time
	Period, Times          int // seconds, evaluation periods
	Metric                 metric
	Statistic              string
	Threshold              float64
	Compare                string // as CloudWatch's ComparisonOperator
	Missing                string // TreatMissingData
	Version                int64
}

func (a *alarm) row() (string, string, any) { return bucketAlarms, a.Name, a }

// The states of an alarm.
const (
	alarmOK      = "OK"
	alarmFires   = "ALARM"
	alarmUnknown = "INSUFFICIENT_DATA"
)

// PutAlarm makes an alarm that is OK, or changes how long it takes one to see something: period × times.
func (f *Fleet) PutAlarm(name string, period time.Duration, times int) error {
	return f.change(func(now time.Time) error {
		return f.putAlarm(alarm{Name: name, Period: int(period / time.Second), Times: times, State: alarmOK, Compare: above}, now)
	})
}

func (f *Fleet) putAlarm(a alarm, now time.Time) error {
	if a.Name == "" || len(a.Name) > 255 || a.Times < 1 {
		return cluster.Errorf("ValidationError", "an alarm needs a name and at least one evaluation period")
	}
	if comparisons[a.Compare] == nil {
		return cluster.Errorf("ValidationError", "The simulated fleet does not know the comparison %.64q", a.Compare)
	}
	if old := f.alarms[a.Name]; old != nil {
		a.State, a.Since, a.Reason, a.Version = old.State, old.Since, old.Reason, old.Version
	} else {
		a.Since = now
	}
	a.ARN = f.arn("cloudwatch", "alarm:"+a.Name)
	f.alarms[a.Name] = &a
	f.touch(&a)
	return nil
}

// SetAlarm has an alarm be in ALARM, or OK, and tells of it by an event.
func (f *Fleet) SetAlarm(name string, fires bool) error {
	state := alarmOK
	if fires {
		state = alarmFires
	}
	return f.change(func(now time.Time) error { return f.setAlarm(name, state, "it was set", now) })
}

func (f *Fleet) setAlarm(name, state, reason string, now time.Time) error {
	a := f.alarms[name]
	if a == nil {
		return cluster.Errorf(cluster.CodeResourceNotFound, "no alarm %.255s", name)
	}
	if !slices.Contains([]string{alarmOK, alarmFires, alarmUnknown}, state) {
		return cluster.Errorf("ValidationError", "no state %.64q", state)
	}
	if a.State == state {
		return nil
	}
	previous := map[string]any{"value": a.State, "reason": a.Reason, "timestamp": a.Since.Format(alarmTime)}
	a.State, a.Reason, a.Since = state, reason, now
	a.Version++
	f.touch(a)
	detail, err := json.Marshal(map[string]any{
		"alarmName": a.Name, "previousState": previous, "configuration": map[string]any{},
		"state": map[string]any{"value": state, "reason": reason, "timestamp": now.Format(alarmTime)},
	})
	if err != nil {
		return fmt.Errorf("reporting alarm %s: %w", name, err)
	}
	f.queue(change{f.opt.AlarmSource, "CloudWatch Alarm State Change", a.ARN, a.Version, now}, detail)
	return nil
}

// alarmTime is how CloudWatch writes the times of its events.
const alarmTime = "2006-01-02T15:04:05.000-0700"

// DescribeAlarms gives those of the alarms named that are there.
func (f *Fleet) DescribeAlarms(_ context.Context, names []string) (alarms []cluster.Alarm, err error) {
	if proceed, err := f.faulty("DescribeAlarms", fmt.Sprint(names), func() error { return nil }); !proceed {
		return nil, err
	}
	err = f.look(func(time.Time) error {
		for _, name := range names {
			if a := f.alarms[name]; a != nil {
				alarms = append(alarms, cluster.Alarm{
					Name: name, InAlarm: a.State == alarmFires, Since: a.Since,
					Window: time.Duration(a.Period*a.Times) * time.Second,
				})
			}
		}
		return nil
	})
	return alarms, err
}

// PutMetricAlarm makes an alarm of managed scaling.
func (f *Fleet) PutMetricAlarm(_ context.Context, a cluster.MetricAlarm) error {
	compare := above
	if a.Below {
		compare = below
	}
	return f.change(func(now time.Time) error {
		return f.putAlarm(alarm{
			Name: a.Name, Period: 60, Times: a.Times, State: alarmUnknown, Metric: reservation(a.Namespace, a.Cluster, a.Provider),
			Statistic: average, Threshold: a.Threshold, Compare: compare, Missing: "ignore",
		}, now)
	})
}

// DeleteAlarms deletes those of the alarms that are there.
func (f *Fleet) DeleteAlarms(_ context.Context, names []string) error {
	return f.change(func(time.Time) error { f.deleteAlarms(names); return nil })
}

func (f *Fleet) deleteAlarms(names []string) {
	for _, name := range names {
		if a := f.alarms[name]; a != nil {
			delete(f.alarms, name)
			f.forget(a)
		}
	}
}

// PutReservation publishes datapoints of managed scaling's metric.
func (f *Fleet) PutReservation(_ context.Context, points []cluster.Datapoint) error {
	return f.change(func(now time.Time) error {
		for _, p := range points {
			f.publish(reservation(p.Namespace, p.Cluster, p.Provider), sample{At: p.At, Sum: p.Percent, Least: p.Percent, Most: p.Percent, N: 1}, now)
		}
		return nil
	})
}
