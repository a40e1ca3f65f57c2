package fleet

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/aws/smithy-go/encoding/cbor"

	"berth/shared/cluster"
)

// cloudWatch answers a call of CloudWatch: Smithy's RPC v2 in CBOR.
func (f *Fleet) cloudWatch(w http.ResponseWriter, operation string, body []byte) {
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
		out, err = f.alarmOperation(operation, in)
	}
	status := http.StatusOK
	if err != nil {
		var e *cluster.Error
		e, status = asError(err)
		out = cbor.Map{"__type": cbor.String(e.Code), "message": cbor.String(e.Message)}
	}
	w.Header().Set("Smithy-Protocol", "rpc-v2-cbor")
	reply(w, status, "application/cbor", cbor.Encode(out))
}

func (f *Fleet) alarmOperation(operation string, in cbor.Map) (cbor.Map, error) {
	switch operation {
	case "PutMetricAlarm":
		return cbor.Map{}, f.change(func(now time.Time) error {
			return f.putAlarm(alarm{
				Name: text(in["AlarmName"]), Period: number(in["Period"]), Times: number(in["EvaluationPeriods"]), State: alarmUnknown,
				Namespace: text(in["Namespace"]), Metric: text(in["MetricName"]),
			}, now)
		})
	case "SetAlarmState":
		return cbor.Map{}, f.change(func(now time.Time) error {
			return f.setAlarm(text(in["AlarmName"]), text(in["StateValue"]), text(in["StateReason"]), now)
		})
	case "DeleteAlarms":
		return cbor.Map{}, f.change(func(time.Time) error {
			f.deleteAlarms(texts(in["AlarmNames"]))
			return nil
		})
	case "DescribeAlarms":
		return f.describeAlarms(context.Background(), texts(in["AlarmNames"]))
	}
	return nil, unknownOperation(operation)
}

func (f *Fleet) describeAlarms(ctx context.Context, names []string) (cbor.Map, error) {
	if len(names) == 0 {
		_ = f.look(func(time.Time) error { names = slices.Sorted(maps.Keys(f.alarms)); return nil })
	}
	if _, err := f.DescribeAlarms(ctx, names); err != nil {
		return nil, err
	}
	list := cbor.List{}
	err := f.look(func(time.Time) error {
		for _, name := range names {
			if a := f.alarms[name]; a != nil {
				list = append(list, a.describe())
			}
		}
		return nil
	})
	return cbor.Map{"MetricAlarms": list, "CompositeAlarms": cbor.List{}}, err
}

func (a *alarm) describe() cbor.Map {
	at := &cbor.Tag{ID: 1, Value: cbor.Float64(float64(a.Since.UnixMilli()) / 1000)}
	return cbor.Map{
		"AlarmName": cbor.String(a.Name), "AlarmArn": cbor.String(a.ARN), "StateValue": cbor.String(a.State), "StateReason": cbor.String(a.Reason),
		"StateUpdatedTimestamp": at, "StateTransitionedTimestamp": at, "Namespace": cbor.String(a.Namespace), "MetricName": cbor.String(a.Metric),
		"Period": cbor.Uint(a.Period), "EvaluationPeriods": cbor.Uint(a.Times),
	}
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
