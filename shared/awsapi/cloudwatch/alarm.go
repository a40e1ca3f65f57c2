// Package cloudwatch calls CloudWatch: for the state of the alarms that can roll a deployment back
// ([Alarms]), and for the metric and the alarms of managed scaling ([Metrics]). It is apart from
// package awsapi so that only the functions that need it have its client. Errors are those of
// awsapi.CallError. Start at [Alarms.DescribeAlarms].
package cloudwatch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"berth/shared/awsapi"
	"berth/shared/cluster"
)

// Alarms calls CloudWatch to describe alarms.
type Alarms struct {
	Client *cloudwatch.Client
}

// NewAlarms returns the alarms that a configuration of the SDK leads to.
func NewAlarms(c aws.Config) *Alarms { return &Alarms{Client: cloudwatch.NewFromConfig(c)} }

// alarmBatch is how many alarms one call describes, or deletes (CloudWatch API).
const alarmBatch = 100

// DescribeAlarms returns those of the alarms named that exist, metric alarms and composite ones. A
// composite alarm has no window.
func (a *Alarms) DescribeAlarms(ctx context.Context, names []string) (alarms []cluster.Alarm, err error) {
	for batch := range slices.Chunk(names, alarmBatch) {
		pages := cloudwatch.NewDescribeAlarmsPaginator(a.Client, &cloudwatch.DescribeAlarmsInput{
			AlarmNames: batch, AlarmTypes: []types.AlarmType{types.AlarmTypeMetricAlarm, types.AlarmTypeCompositeAlarm},
			MaxRecords: aws.Int32(alarmBatch),
		})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, fmt.Errorf("describing alarms: %w", awsapi.CallError(err))
			}
			for _, m := range page.MetricAlarms {
				alarms = append(alarms, metricAlarm(m))
			}
			for _, c := range page.CompositeAlarms {
				alarms = append(alarms, cluster.Alarm{
					Name: aws.ToString(c.AlarmName), InAlarm: c.StateValue == types.StateValueAlarm,
					Since: alarmSince(c.StateTransitionedTimestamp, c.StateUpdatedTimestamp),
				})
			}
		}
	}
	return alarms, nil
}

// metricAlarm returns an alarm of one metric, or of several joined by mathematics. These have a
// period each; the longest decides how far the alarm looks back.
func metricAlarm(m types.MetricAlarm) cluster.Alarm {
	period := aws.ToInt32(m.Period)
	for _, q := range m.Metrics {
		period = max(period, aws.ToInt32(q.Period))
		if q.MetricStat != nil {
			period = max(period, aws.ToInt32(q.MetricStat.Period))
		}
	}
	return cluster.Alarm{
		Name: aws.ToString(m.AlarmName), InAlarm: m.StateValue == types.StateValueAlarm,
		Since:  alarmSince(m.StateTransitionedTimestamp, m.StateUpdatedTimestamp),
		Window: time.Duration(period) * time.Duration(aws.ToInt32(m.EvaluationPeriods)) * time.Second,
	}
}

// alarmSince returns when a state began: the time of the transition if CloudWatch has it, otherwise
// that of the last update.
func alarmSince(transitioned, updated *time.Time) time.Time {
	if transitioned != nil {
		return transitioned.UTC()
	}
	return aws.ToTime(updated).UTC()
}
