package cloudwatch

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"berth/shared/awsapi"
	"berth/shared/cluster"
)

// Metrics calls CloudWatch to publish managed scaling's metrics, and to set alarms.
type Metrics struct {
	Client *cloudwatch.Client
}

// NewMetrics returns the metrics that a configuration of the SDK leads to.
func NewMetrics(c aws.Config) *Metrics { return &Metrics{Client: cloudwatch.NewFromConfig(c)} }

// metricBatch is how many providers one call publishes for, with two values each. CloudWatch takes
// up to 1,000 values, in at most 1 MB (CloudWatch API, PutMetricData).
const metricBatch = 250

func metricDimensions(clusterName, provider string) []types.Dimension {
	return []types.Dimension{
		{Name: aws.String(cluster.DimensionCluster), Value: &clusterName},
		{Name: aws.String(cluster.DimensionProvider), Value: &provider},
	}
}

// PutScalingMetrics publishes datapoints of both metrics. All must have the same namespace.
func (m *Metrics) PutScalingMetrics(ctx context.Context, points []cluster.Datapoint) error {
	for batch := range slices.Chunk(points, metricBatch) {
		in := &cloudwatch.PutMetricDataInput{Namespace: &batch[0].Namespace}
		for _, p := range batch {
			dimensions := metricDimensions(p.Cluster, p.Provider)
			in.MetricData = append(in.MetricData, types.MetricDatum{
				MetricName: aws.String(cluster.ReservationMetric), Dimensions: dimensions, Timestamp: &p.At,
				Value: &p.Percent, Unit: types.StandardUnitPercent,
			}, types.MetricDatum{
				MetricName: aws.String(cluster.DesiredCapacityMetric), Dimensions: dimensions, Timestamp: &p.At,
				Value: aws.Float64(float64(p.Desired)), Unit: types.StandardUnitCount,
			})
		}
		if _, err := m.Client.PutMetricData(ctx, in); err != nil {
			return awsapi.WrapCallError(err, "publishing the metrics of managed scaling")
		}
	}
	return nil
}

// PutMetricAlarm creates an alarm, or changes it. Minutes without a datapoint leave its state as it
// is.
func (m *Metrics) PutMetricAlarm(ctx context.Context, a cluster.MetricAlarm) error {
	compare := types.ComparisonOperatorGreaterThanThreshold
	if a.Below {
		compare = types.ComparisonOperatorLessThanThreshold
	}
	_, err := m.Client.PutMetricAlarm(ctx, &cloudwatch.PutMetricAlarmInput{
		AlarmName:        &a.Name,
		AlarmDescription: aws.String("Managed scaling of a capacity provider. Berth keeps this alarm."),
		Namespace:        &a.Namespace, MetricName: aws.String(cluster.ReservationMetric),
		Dimensions: metricDimensions(a.Cluster, a.Provider),
		Statistic:  types.StatisticAverage, Period: aws.Int32(60), EvaluationPeriods: aws.Int32(int32(a.Times)),
		Threshold: &a.Threshold, ComparisonOperator: compare, TreatMissingData: aws.String("ignore"),
	})
	return awsapi.WrapCallError(err, "making alarm %s", a.Name)
}

// DeleteAlarms deletes those of the alarms named that exist.
func (m *Metrics) DeleteAlarms(ctx context.Context, names []string) error {
	for batch := range slices.Chunk(names, alarmBatch) {
		if _, err := m.Client.DeleteAlarms(ctx, &cloudwatch.DeleteAlarmsInput{AlarmNames: batch}); err != nil {
			return awsapi.WrapCallError(err, "deleting alarms")
		}
	}
	return nil
}
