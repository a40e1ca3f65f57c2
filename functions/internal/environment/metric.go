package environment

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"berth/shared/handler"
)

// namespace is the namespace of Berth's metrics in CloudWatch.
const namespace = "Berth"

// metrics writes numbers in CloudWatch's embedded metric format. They are lines of the log, so they
// need no call and cost no more than the lines.
type metrics struct {
	out      io.Writer
	function string // the dimension FunctionName
	now      func() time.Time
}

func (e *Environment) newMetrics() *metrics {
	return &metrics{out: e.out, function: e.lookup("AWS_LAMBDA_FUNCTION_NAME"), now: time.Now}
}

// writeFigures writes an invocation's figures as one line, and the messages that it dropped as one
// line for each reason. Reasons are a dimension, and CloudWatch charges for each value: there must
// be few.
func (m *metrics) writeFigures(values map[handler.Measurement]float64, dropped map[string]int) {
	if len(values) > 0 {
		line := map[string]any{}
		var defined []any
		for _, name := range slices.Sorted(maps.Keys(values)) {
			line[string(name)] = values[name]
			defined = append(defined, metricDefinition(string(name), cmp.Or(handler.MeasurementUnits[name], "Count")))
		}
		m.writeLine(line, defined, [][]string{{"FunctionName"}})
	}
	for _, reason := range slices.Sorted(maps.Keys(dropped)) {
		m.writeLine(map[string]any{"Reason": reason, "Dropped": dropped[reason]},
			[]any{metricDefinition("Dropped", "Count")},
			[][]string{{"FunctionName"}, {"FunctionName", "Reason"}})
	}
}

func metricDefinition(name, unit string) map[string]string {
	return map[string]string{"Name": name, "Unit": unit}
}

func (m *metrics) writeLine(line map[string]any, defined []any, dimensions [][]string) {
	line["FunctionName"] = m.function
	line["_aws"] = map[string]any{
		"Timestamp": m.now().UnixMilli(),
		"CloudWatchMetrics": []any{map[string]any{"Namespace": namespace, "Dimensions": dimensions,
			"Metrics": defined}},
	}
	if text, err := json.Marshal(line); err == nil { // strings and numbers cannot fail
		fmt.Fprintf(m.out, "%s\n", text)
	}
}
