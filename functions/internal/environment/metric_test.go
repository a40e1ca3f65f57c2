package environment_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth/functions/internal/environment"
)

func TestMetrics(t *testing.T) {
	var out bytes.Buffer
	m := &environment.Metrics{Out: &out, Function: "f", Now: func() time.Time { return time.UnixMilli(1700000000123) }}
	m.Count("Dropped", map[string]int{"unknown": 2, "malformed": 1, "none": 0})
	m.Count("Dropped", nil)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines: %s", len(lines), out.String())
	}
	var got any
	if err := json.Unmarshal([]byte(lines[0]), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"_aws": map[string]any{
			"Timestamp": 1700000000123.0,
			"CloudWatchMetrics": []any{map[string]any{
				"Namespace": "Berth", "Dimensions": []any{[]any{"FunctionName"}, []any{"FunctionName", "Reason"}},
				"Metrics": []any{map[string]any{"Name": "Dropped", "Unit": "Count"}},
			}},
		},
		"FunctionName": "f", "Reason": "malformed", "Dropped": 1.0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(lines[1], `"Reason":"unknown"`) || !strings.Contains(lines[1], `"Dropped":2`) {
		t.Errorf("second line %s", lines[1])
	}
}
