package environment_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/google/go-cmp/cmp"

	"berth/functions/internal/environment"
	"berth/shared/awsevent"
	"berth/shared/handler"
	"berth/shared/handler/taskstatechange"
	"berth/shared/state"
)

// lines returns the JSON lines of a log, without their times.
func lines(t *testing.T, log *bytes.Buffer) (all []map[string]any) {
	t.Helper()
	for _, text := range strings.Split(strings.TrimSpace(log.String()), "\n") {
		var line map[string]any
		if text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if aws, ok := line["_aws"].(map[string]any); ok {
			if at, ok := aws["Timestamp"].(float64); !ok || time.UnixMilli(int64(at)).Before(time.Unix(1700000000, 0)) {
				t.Errorf("timestamp %v", aws["Timestamp"])
			}
			delete(aws, "Timestamp")
		}
		delete(line, "timestamp")
		all = append(all, line)
	}
	return all
}

func defined(dimensions []any, metrics ...any) map[string]any {
	return map[string]any{"CloudWatchMetrics": []any{map[string]any{
		"Namespace": "Berth", "Dimensions": dimensions, "Metrics": metrics,
	}}}
}

func TestInvocation(t *testing.T) {
	var log bytes.Buffer
	e := environment.NewWithOutput(&log,
		func(name string) string { return map[string]string{"AWS_LAMBDA_FUNCTION_NAME": "f"}[name] })
	figures := &handler.Telemetry{}
	observer := &taskstatechange.Handler{Decoder: awsevent.Decoder{}, Clock: environment.Clock{}, Log: e.Log, Telemetry: figures}
	invoke := e.WrapInvoker(func(ctx context.Context, event json.RawMessage) (any, error) {
		if string(event) == `"fails"` {
			return nil, errors.New("failed")
		}
		return observer.HandleMessages(ctx, []state.Message{{ID: "m", Body: event}}), nil
	}, figures)
	request := func(id string) context.Context {
		return lambdacontext.NewContext(t.Context(), &lambdacontext.LambdaContext{AwsRequestID: id})
	}
	t.Run("LinesCarryTheRequest", func(t *testing.T) {
		if _, err := invoke(request("r-1"), []byte(`{"source":"nobody","detail-type":"Nothing"}`)); err != nil {
			t.Fatal(err)
		}
		got := lines(t, &log)
		if len(got) != 3 || got[0]["requestId"] != "r-1" || got[0]["level"] != "WARN" || got[0]["message"] != "m" {
			t.Fatalf("log %v", got)
		}
		want := []map[string]any{{
			"_aws": defined([]any{[]any{"FunctionName"}},
				map[string]any{"Name": "EventsHandled", "Unit": "Count"}),
			"FunctionName": "f", "EventsHandled": 1.0,
		}, {
			"_aws": defined([]any{[]any{"FunctionName"}, []any{"FunctionName", "Reason"}},
				map[string]any{"Name": "Dropped", "Unit": "Count"}),
			"FunctionName": "f", "Reason": "unhandled", "Dropped": 1.0,
		}}
		if diff := cmp.Diff(want, got[1:]); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("FiguresHaveTheirUnits", func(t *testing.T) {
		log.Reset()
		figures.SetMax(handler.OutboxAge, 7)
		figures.AddCount(handler.CommitsLost, 0)
		if _, err := invoke(request("r-2"), []byte(`"fails"`)); err == nil {
			t.Fatal("the function's error is lost")
		}
		want := []map[string]any{{
			"_aws": defined([]any{[]any{"FunctionName"}},
				map[string]any{"Name": "OutboxAge", "Unit": "Seconds"}),
			"FunctionName": "f", "OutboxAge": 7.0,
		}}
		if diff := cmp.Diff(want, lines(t, &log)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("NothingIsWrittenWhereNothingHappened", func(t *testing.T) {
		log.Reset()
		if _, err := invoke(request("r-3"), []byte(`"fails"`)); err == nil || log.Len() > 0 {
			t.Errorf("%v, log %s", err, &log)
		}
	})
}
