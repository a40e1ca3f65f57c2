package cloudwatch

import (
	"cmp"
	"context"
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/aws/smithy-go/encoding/cbor"

	"berth/shared/cluster"
	"berth/shared/sim/protocol"
)

// ServeCBOR answers a call of CloudWatch: Smithy's RPC v2 in CBOR.
func (c *Service) ServeCBOR(w http.ResponseWriter, operation string, body []byte) {
	in := cbor.Map{}
	var out cbor.Map
	var err error
	if len(body) > 0 {
		var v cbor.Value
		if v, err = cbor.Decode(body); err == nil {
			in, _ = v.(cbor.Map)
		}
	}
	if err != nil {
		err = cluster.Errorf("SerializationException", "%v", err)
	} else {
		out, err = c.metricOperation(operation, in)
	}
	status := http.StatusOK
	if err != nil {
		var e *cluster.Error
		e, status = protocol.AsError(err)
		out = cbor.Map{"__type": cbor.String(e.Code), "message": cbor.String(e.Message)}
	}
	w.Header().Set("Smithy-Protocol", "rpc-v2-cbor")
	protocol.Reply(w, status, "application/cbor", cbor.Encode(out))
}

func (c *Service) metricOperation(operation string, in cbor.Map) (cbor.Map, error) {
	switch operation {
	case "PutMetricData":
		return cbor.Map{}, c.putMetricData(in)
	case "GetMetricStatistics":
		return c.getMetricStatistics(in)
	case "PutMetricAlarm":
		a, err := readAlarm(in)
		if err != nil {
			return nil, err
		}
		return cbor.Map{}, c.kernel.Change(func(now time.Time) error { return c.Put(a, now) })
	case "SetAlarmState":
		return cbor.Map{}, c.kernel.Change(func(now time.Time) error {
			return c.setAlarm(text(in["AlarmName"]), text(in["StateValue"]), text(in["StateReason"]), now)
		})
	case "DeleteAlarms":
		return cbor.Map{}, c.kernel.Change(func(time.Time) error {
			c.Delete(texts(in["AlarmNames"]))
			return nil
		})
	case "DescribeAlarms":
		return c.describeAlarms(context.Background(), texts(in["AlarmNames"]))
	}
	return nil, protocol.UnknownOperation(operation)
}

// alarmMembers are those of PutMetricAlarm that the fleet heeds, or keeps.
var alarmMembers = []string{
	"AlarmName", "AlarmDescription", "Namespace", "MetricName", "Dimensions", "Statistic", "Period", "EvaluationPeriods", "DatapointsToAlarm",
	"Threshold", "ComparisonOperator", "TreatMissingData", "ActionsEnabled", "Unit", "Tags",
}

func readAlarm(in cbor.Map) (Alarm, error) {
	for name := range in {
		if !slices.Contains(alarmMembers, name) {
			return Alarm{}, cluster.Errorf("ValidationError", "The simulated fleet does not know the parameter %.128s of PutMetricAlarm", name)
		}
	}
	a := Alarm{
		Name: text(in["AlarmName"]), Description: text(in["AlarmDescription"]), Period: number(in["Period"]), Times: number(in["EvaluationPeriods"]),
		State: Unknown, Metric: readMetric(in, in), Statistic: text(in["Statistic"]), Threshold: decimal(in["Threshold"]),
		Compare: text(in["ComparisonOperator"]), Missing: text(in["TreatMissingData"]),
	}
	if m := number(in["DatapointsToAlarm"]); m > 0 && m != a.Times {
		return a, cluster.Errorf("ValidationError", "In the simulated fleet DatapointsToAlarm is EvaluationPeriods")
	}
	if a.Period < 1 || a.Period*a.Times > longestAlarm {
		return a, cluster.Errorf("ValidationError", "Metrics cannot be checked across more than a day (EvaluationPeriods * Period must be <= %d)", longestAlarm)
	}
	if statistics[a.Statistic] == nil || a.Metric.Name == "" || a.Metric.Namespace == "" {
		return a, cluster.Errorf("ValidationError", "An alarm of the simulated fleet watches one metric by a statistic")
	}
	return a, nil
}

// longestAlarm is how many seconds an alarm may look back.
const longestAlarm = keptSamples * 60

// readMetric reads a metric: its namespace is in the call, its name and dimensions are in the call or in a part of it.
func readMetric(call, part cbor.Map) Metric {
	m := Metric{Namespace: text(call["Namespace"]), Name: text(part["MetricName"])}
	list, _ := part["Dimensions"].(cbor.List)
	for _, item := range list {
		if d, ok := item.(cbor.Map); ok {
			if m.Dimensions == nil {
				m.Dimensions = map[string]string{}
			}
			m.Dimensions[text(d["Name"])] = text(d["Value"])
		}
	}
	return m
}

// maxData is how many datapoints one call publishes.
const maxData = 1000

func (c *Service) putMetricData(in cbor.Map) error {
	list, _ := in["MetricData"].(cbor.List)
	if text(in["Namespace"]) == "" || len(list) == 0 || len(list) > maxData {
		return cluster.Errorf("InvalidParameterValue", "PutMetricData needs a Namespace, and 1 to %d of MetricData", maxData)
	}
	return c.kernel.Change(func(now time.Time) error {
		for _, item := range list {
			d, _ := item.(cbor.Map)
			value := decimal(d["Value"])
			switch {
			case d["Value"] == nil || text(d["MetricName"]) == "":
				return cluster.Errorf("InvalidParameterCombination", "A datapoint of the simulated fleet has a MetricName and a Value")
			case math.IsNaN(value) || math.IsInf(value, 0):
				return cluster.Errorf("InvalidParameterValue", "The value %g for parameter MetricData.Value is invalid", value)
			}
		}
		for _, item := range list {
			d := item.(cbor.Map)
			value, at := decimal(d["Value"]), now
			if t := moment(d["Timestamp"]); !t.IsZero() {
				at = t
			}
			c.publish(readMetric(in, d), sample{At: at, Sum: value, Least: value, Most: value, N: 1}, now)
		}
		return nil
	})
}

func (c *Service) getMetricStatistics(in cbor.Map) (cbor.Map, error) {
	from, to := moment(in["StartTime"]), moment(in["EndTime"])
	list := cbor.List{}
	_ = c.kernel.View(func(time.Time) error {
		of := c.series[readMetric(in, in).Key()]
		if of == nil {
			return nil
		}
		for _, s := range of.samples {
			if s.At.Before(from) || !s.At.Before(to) {
				continue
			}
			point := cbor.Map{"Timestamp": stamp(s.At), "Unit": cbor.String("None")}
			for _, name := range texts(in["Statistics"]) {
				if statistics[name] != nil {
					point[name] = cbor.Float64(statistics[name](s))
				}
			}
			list = append(list, point)
		}
		return nil
	})
	if number(in["Period"]) != 60 {
		return nil, cluster.Errorf("InvalidParameterValue", "The simulated fleet gives statistics of periods of 60 seconds")
	}
	return cbor.Map{"Label": in["MetricName"], "Datapoints": list}, nil
}

func (c *Service) describeAlarms(ctx context.Context, names []string) (cbor.Map, error) {
	if len(names) == 0 {
		_ = c.kernel.View(func(time.Time) error { names = slices.Sorted(maps.Keys(c.alarms)); return nil })
	}
	if _, err := c.DescribeAlarms(ctx, names); err != nil {
		return nil, err
	}
	list := cbor.List{}
	err := c.kernel.View(func(time.Time) error {
		for _, name := range names {
			if a := c.alarms[name]; a != nil {
				list = append(list, a.describe())
			}
		}
		return nil
	})
	return cbor.Map{"MetricAlarms": list, "CompositeAlarms": cbor.List{}}, err
}

func (a *Alarm) describe() cbor.Map {
	dimensions := cbor.List{}
	for _, name := range slices.Sorted(maps.Keys(a.Metric.Dimensions)) {
		dimensions = append(dimensions, cbor.Map{"Name": cbor.String(name), "Value": cbor.String(a.Metric.Dimensions[name])})
	}
	return cbor.Map{
		"AlarmName": cbor.String(a.Name), "AlarmArn": cbor.String(a.ARN), "AlarmDescription": cbor.String(a.Description),
		"StateValue": cbor.String(a.State), "StateReason": cbor.String(a.Reason), "StateUpdatedTimestamp": stamp(a.Since),
		"StateTransitionedTimestamp": stamp(a.Since), "Namespace": cbor.String(a.Metric.Namespace), "MetricName": cbor.String(a.Metric.Name),
		"Dimensions": dimensions, "Statistic": cbor.String(a.Statistic), "Period": cbor.Uint(a.Period), "EvaluationPeriods": cbor.Uint(a.Times),
		"Threshold": cbor.Float64(a.Threshold), "ComparisonOperator": cbor.String(a.Compare), "TreatMissingData": cbor.String(cmp.Or(a.Missing, "missing")),
	}
}

// stamp is a time as CBOR has it, moment reads one.
func stamp(t time.Time) cbor.Value {
	return &cbor.Tag{ID: 1, Value: cbor.Float64(float64(t.UnixMilli()) / 1000)}
}

func moment(v cbor.Value) time.Time {
	if tag, ok := v.(*cbor.Tag); ok {
		v = tag.Value
	}
	if v == nil {
		return time.Time{}
	}
	return time.UnixMilli(int64(decimal(v) * 1000)).UTC()
}

// decimal is a number; what is none is 0.
func decimal(v cbor.Value) float64 {
	switch x := v.(type) {
	case cbor.Float64:
		return float64(x)
	case cbor.Float32:
		return float64(x)
	case cbor.Uint:
		return float64(x)
	case cbor.NegInt:
		return -float64(x)
	}
	return 0
}

func text(v cbor.Value) string {
	s, _ := v.(cbor.String)
	return string(s)
}

func texts(v cbor.Value) (out []string) {
	list, _ := v.(cbor.List)
	for _, item := range list {
		out = append(out, text(item))
	}
	return out
}

// number is a number from 0 on; what is none, or far too large, is 0.
func number(v cbor.Value) int {
	n, _ := v.(cbor.Uint)
	if n > 1<<31 {
		return 0
	}
	return int(n)
}
