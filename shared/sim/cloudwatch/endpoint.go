package cloudwatch

import (
	"cmp"
	"maps"
	"math"
	"net/http"
	"reflect"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/protocol"
)

// ServeOperation answers a call of CloudWatch, in CBOR or in JSON as some clients send it.
func (c *Service) ServeOperation(w http.ResponseWriter, encoding protocol.Encoding, operation string, body []byte) {
	a := &api{c}
	encoding.ServeTree(w, body, func(in protocol.Tree) (protocol.Tree, error) {
		switch operation {
		case "PutMetricData":
			return withInput(in, a.putMetricData)
		case "GetMetricStatistics":
			return withInput(in, a.getMetricStatistics)
		case "PutMetricAlarm":
			return a.putMetricAlarm(in)
		case "SetAlarmState":
			return withInput(in, a.setAlarmState)
		case "DeleteAlarms":
			return withInput(in, a.deleteAlarms)
		case "DescribeAlarms":
			return withInput(in, a.describeAlarms)
		}
		return nil, protocol.UnknownOperation(operation)
	})
}

// withInput calls an operation with its input as a struct.
func withInput[I any](tree protocol.Tree, do func(in *I) (protocol.Tree, error)) (protocol.Tree, error) {
	in := new(I)
	if err := protocol.DecodeTree(tree, in); err != nil {
		return nil, err
	}
	return do(in)
}

// api answers calls of CloudWatch's protocol.
type api struct{ service *Service }

type dimensionInput struct{ Name, Value string }

// metricFromInput leaves the dimensions nil where there are none, as other metrics do.
func metricFromInput(namespace, name string, dimensions []dimensionInput) Metric {
	m := Metric{Namespace: namespace, Name: name}
	for _, d := range dimensions {
		if m.Dimensions == nil {
			m.Dimensions = map[string]string{}
		}
		m.Dimensions[d.Name] = d.Value
	}
	return m
}

// alarmInput is the input of PutMetricAlarm. ActionsEnabled, Unit and Tags have no effect.
type alarmInput struct {
	AlarmName, AlarmDescription, Namespace, MetricName string
	Dimensions                                         []dimensionInput
	Statistic                                          string
	Period, EvaluationPeriods, DatapointsToAlarm       int
	Threshold                                          float64
	ComparisonOperator, TreatMissingData               string
	ActionsEnabled, Unit, Tags                         any
}

// longestAlarm is how many seconds an alarm can look back.
const longestAlarm = keptSamples * 60

// putMetricAlarm refuses what would make the alarm another one than the caller asked for: unknown
// members, M out of N datapoints, mathematics.
func (a *api) putMetricAlarm(tree protocol.Tree) (protocol.Tree, error) {
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		if _, known := reflect.TypeFor[alarmInput]().FieldByName(name); !known {
			return nil, cluster.Errorf("ValidationError",
				"The simulated AWS does not know the parameter %.128s of PutMetricAlarm", name)
		}
	}
	return withInput(tree, func(in *alarmInput) (protocol.Tree, error) {
		alarm := Alarm{
			Name: in.AlarmName, Description: in.AlarmDescription, Period: in.Period, Times: in.EvaluationPeriods,
			State:  Unknown,
			Metric: metricFromInput(in.Namespace, in.MetricName, in.Dimensions), Statistic: in.Statistic,
			Threshold: in.Threshold,
			Compare:   in.ComparisonOperator, Missing: in.TreatMissingData,
		}
		if in.DatapointsToAlarm > 0 && in.DatapointsToAlarm != alarm.Times {
			return nil, cluster.Errorf("ValidationError",
				"In the simulated AWS DatapointsToAlarm is EvaluationPeriods")
		}
		if alarm.Period < 1 || alarm.Period*alarm.Times > longestAlarm {
			return nil, cluster.Errorf("ValidationError",
				"Metrics cannot be checked across more than a day (EvaluationPeriods * Period must be <= %d)",
				longestAlarm)
		}
		if statistics[alarm.Statistic] == nil || alarm.Metric.Name == "" || alarm.Metric.Namespace == "" {
			return nil, cluster.Errorf("ValidationError",
				"An alarm of the simulated AWS watches one metric by a statistic")
		}
		return protocol.Tree{}, a.service.kernel.Change(func(now time.Time) error {
			return a.service.StoreAlarm(alarm,
				now)
		})
	})
}

// setAlarmState lets an operator try out what an alarm leads to. The next datapoint evaluates the
// alarm again.
func (a *api) setAlarmState(in *struct{ AlarmName, StateValue, StateReason string }) (protocol.Tree, error) {
	return protocol.Tree{}, a.service.kernel.Change(func(now time.Time) error {
		return a.service.setAlarmState(in.AlarmName, in.StateValue, in.StateReason, now)
	})
}

func (a *api) deleteAlarms(in *struct{ AlarmNames []string }) (protocol.Tree, error) {
	return protocol.Tree{}, a.service.kernel.Change(func(time.Time) error {
		a.service.RemoveAlarms(in.AlarmNames)
		return nil
	})
}

// maxData is how many datapoints one call publishes (CloudWatch API, PutMetricData).
const maxData = 1000

// putMetricData publishes all datapoints or none. One without a time is of now.
func (a *api) putMetricData(in *struct {
	Namespace  string
	MetricData []struct {
		MetricName string
		Value      *float64
		Timestamp  time.Time
		Dimensions []dimensionInput
	}
}) (protocol.Tree, error) {
	if in.Namespace == "" || len(in.MetricData) == 0 || len(in.MetricData) > maxData {
		return nil, cluster.Errorf("InvalidParameterValue",
			"PutMetricData needs a Namespace, and 1 to %d of MetricData", maxData)
	}
	for _, d := range in.MetricData {
		switch {
		case d.Value == nil || d.MetricName == "":
			return nil, cluster.Errorf("InvalidParameterCombination",
				"A datapoint of the simulated AWS has a MetricName and a Value")
		case math.IsNaN(*d.Value) || math.IsInf(*d.Value, 0):
			return nil, cluster.Errorf("InvalidParameterValue",
				"The value %g for parameter MetricData.Value is invalid", *d.Value)
		}
	}
	return protocol.Tree{}, a.service.kernel.Change(func(now time.Time) error {
		for _, d := range in.MetricData {
			at := now
			if !d.Timestamp.IsZero() {
				at = d.Timestamp
			}
			a.service.publishSample(metricFromInput(in.Namespace, d.MetricName, d.Dimensions),
				singleSample(at, *d.Value), now)
		}
		return nil
	})
}

// getMetricStatistics returns the datapoints from StartTime on and before EndTime, of minutes only:
// samples are kept by minute.
func (a *api) getMetricStatistics(in *struct {
	Namespace, MetricName string
	Dimensions            []dimensionInput
	StartTime, EndTime    time.Time
	Period                int
	Statistics            []string
}) (protocol.Tree, error) {
	if in.Period != 60 {
		return nil, cluster.Errorf("InvalidParameterValue",
			"The simulated AWS gives statistics of periods of 60 seconds")
	}
	list := []protocol.Tree{}
	err := a.service.kernel.View(func(now time.Time) error {
		metric := metricFromInput(in.Namespace, in.MetricName, in.Dimensions)
		var samples []sample
		if of := a.service.series[metric.MetricKey()]; of != nil {
			samples = of.samples
		} else if used, isUsage := a.service.usageOf(metric); isUsage {
			samples = []sample{singleSample(now.Add(-time.Minute).Truncate(time.Minute), used)}
		}
		for _, s := range samples {
			if s.At.Before(in.StartTime) || !s.At.Before(in.EndTime) {
				continue
			}
			point := protocol.Tree{"Timestamp": s.At, "Unit": "None"}
			for _, name := range in.Statistics {
				if statistics[name] != nil {
					point[name] = statistics[name](s)
				}
			}
			list = append(list, point)
		}
		return nil
	})
	return protocol.Tree{"Label": in.MetricName, "Datapoints": list}, err
}

// describeAlarms describes all alarms, by name, if none is named. Composite alarms do not exist
// here.
func (a *api) describeAlarms(in *struct{ AlarmNames []string }) (protocol.Tree, error) {
	names := in.AlarmNames
	if len(names) == 0 {
		a.service.kernel.WithLock(func() { names = slices.Sorted(maps.Keys(a.service.Rows)) })
	}
	list := []protocol.Tree{}
	err := a.service.viewAlarms(names, func(alarm *Alarm) { list = append(list, alarm.describeAlarm()) })
	if err != nil {
		return nil, err
	}
	return protocol.Tree{"MetricAlarms": list, "CompositeAlarms": []protocol.Tree{}}, nil
}

// describeAlarm writes out TreatMissingData, which is "missing" by default.
func (a *Alarm) describeAlarm() protocol.Tree {
	dimensions := []protocol.Tree{}
	for _, name := range slices.Sorted(maps.Keys(a.Metric.Dimensions)) {
		dimensions = append(dimensions, protocol.Tree{"Name": name, "Value": a.Metric.Dimensions[name]})
	}
	return protocol.Tree{
		"AlarmName": a.Name, "AlarmArn": a.ARN, "AlarmDescription": a.Description, "StateValue": a.State,
		"StateReason":           a.Reason,
		"StateUpdatedTimestamp": a.Since, "StateTransitionedTimestamp": a.Since, "Namespace": a.Metric.Namespace,
		"MetricName": a.Metric.Name, "Dimensions": dimensions, "Statistic": a.Statistic, "Period": a.Period,
		"EvaluationPeriods": a.Times,
		"Threshold":         a.Threshold, "ComparisonOperator": a.Compare,
		"TreatMissingData": cmp.Or(a.Missing, "missing"),
	}
}
