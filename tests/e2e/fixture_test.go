package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"berth/shared/awsevent"
	"berth/tests/cloud"
	"berth/tests/lambda"
)

// fixtures are the files of events/, each with its function and the line that the function logs. An
// empty installation knows none of their clusters, so the right answer is success, mostly with a
// line on why the event was dropped.
var fixtures = map[string]struct{ function, says string }{
	"task-state-change.json":               {"task-state-change", "dropped event"},
	"task-stopped.json":                    {"task-state-change", ""},
	"task-load-report.json":                {"task-state-change", ""},
	"container-instance-state-change.json": {"task-state-change", "dropped event"},
	"task-failed-to-start.json":            {"throttling", ""},
	"alarm-state-change.json":              {"health-check", ""},
	"schedule-health.json":                 {"health-check", ""},
	"schedule-scaling.json":                {"managed-scaling", ""},
	"schedule-node-groups.json":            {"node-group-upgrade", ""},
	"instance-launched.json":               {"node-group-upgrade", ""},
	"instance-terminated.json":             {"node-group-upgrade", ""},
	"instance-launch-lifecycle.json":       {"task-state-change", "unhandled event"},
	"instance-terminate-lifecycle.json":    {"task-state-change", "unhandled event"},
	"scheduled-event.json":                 {"task-state-change", "unhandled event"},
	"spot-interruption.json":               {"task-state-change", ""},
	"schedule.json":                        {"dispatch", ""},
}

// TestEventFixtures invokes a function with each file of events/, as `make invoke` does.
func TestEventFixtures(t *testing.T) {
	spans := newSpanCounter(t)
	l := newLocal(t, func(o *cloud.Options) {
		o.Parameters["EventSources"], o.Parameters["TraceEndpoint"] = awsevent.SourceECS, spans.url
		o.Parameters["AlarmSources"] = "aws.cloudwatch"
	})
	files, err := filepath.Glob(root + "/events/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no events: %v", err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(strings.TrimSuffix(name, ".json"), func(t *testing.T) {
			want, ok := fixtures[name]
			if !ok {
				t.Fatal("nothing says which function it is for")
			}
			event, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			moved, _ := cloud.MoveEvent(event)
			answer, log := invokeOnce(t, l, want.function, moved)
			if answer != "null" {
				t.Errorf("%s answers %s", want.function, answer)
			}
			if !strings.Contains(log, want.says) {
				t.Errorf("%s logs %q, want %q", want.function, log, want.says)
			}
			if want.says == "" && strings.Contains(log, "dropped event") {
				t.Errorf("%s drops it: %q", want.function, log)
			}
			if n := spans.takeCount(); n == 0 {
				t.Errorf("%s sends no span", want.function)
			}
		})
	}
	t.Run("AnErrorIsToldApart", func(t *testing.T) {
		f, err := l.DeployedFunction(t.Context(), "dispatch")
		if err != nil {
			t.Fatal(err)
		}
		r, err := lambda.Start(f)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if answer, err := r.Invoke(t.Context(), []byte(`{"Records": [{"eventSource": "aws:s3"}]}`)); err == nil {
			t.Errorf("an event of S3 is answered with %s", answer)
		}
	})
}

// A spanCounter counts the invocations that functions report to an OpenTelemetry collector.
type spanCounter struct {
	url string
	n   atomic.Int64
}

func newSpanCounter(t *testing.T) *spanCounter {
	s := &spanCounter{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil && r.URL.Path == "/v1/traces" && bytes.Contains(body, []byte(`"name":"invoke"`)) {
			s.n.Add(1)
		}
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// takeCount returns the count and resets it.
func (s *spanCounter) takeCount() int64 { return s.n.Swap(0) }

// invokeOnce handles an event in a new environment of a function and returns the answer and the
// log.
func invokeOnce(t *testing.T, l *local, function string, event []byte) (answer, log string) {
	t.Helper()
	f, err := l.DeployedFunction(t.Context(), function)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	f.Log = &out
	r, err := lambda.Start(f)
	if err != nil {
		t.Fatal(err)
	}
	body, err := r.Invoke(t.Context(), event)
	if closing := r.Close(); err != nil || closing != nil {
		t.Fatalf("%v, %v\n%s", err, closing, out.String())
	}
	for line := range strings.Lines(out.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("a line of the log is no JSON: %q", line)
		}
	}
	return string(body), out.String()
}
