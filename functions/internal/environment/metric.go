package environment

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// namespace is that of Berth's own metrics in CloudWatch.
const namespace = "Berth"

// Metrics writes counts as CloudWatch's embedded metric format: lines of the log, so no call, no cost but theirs.
type Metrics struct {
	Out io.Writer
	// Function is the dimension FunctionName.
	Function string
	Now      func() time.Time
}

// Metrics writes to the function's log.
func (e *Environment) Metrics() *Metrics {
	return &Metrics{Out: e.out, Function: e.lookup("AWS_LAMBDA_FUNCTION_NAME"), Now: time.Now}
}

// Count writes how often something happened, by reason; it writes nothing where nothing did. Reasons are a dimension:
// there must be few.
func (m *Metrics) Count(name string, byReason map[string]int) {
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		if byReason[reason] == 0 {
			continue
		}
		line, err := json.Marshal(map[string]any{
			"_aws": map[string]any{
				"Timestamp": m.Now().UnixMilli(),
				"CloudWatchMetrics": []any{map[string]any{
					"Namespace": namespace, "Dimensions": [][]string{{"FunctionName"}, {"FunctionName", "Reason"}},
					"Metrics": []any{map[string]string{"Name": name, "Unit": "Count"}},
				}},
			},
			"FunctionName": m.Function, "Reason": reason, name: byReason[reason],
		})
		if err == nil { // strings and numbers cannot fail
			fmt.Fprintf(m.Out, "%s\n", line)
		}
	}
}
