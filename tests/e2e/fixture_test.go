package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"berth/tests/cloud"
	"berth/tests/fixture"
	"berth/tests/lambda"
)

// TestEventFixtures handles each event of events/ as `make invoke` does, and compares what the
// function did with the effect that is written beside the event.
func TestEventFixtures(t *testing.T) {
	spans := newSpanCounter(t)
	l := newLocal(t, func(o *cloud.Options) { o.Parameters = fixture.Parameters() })
	all, err := fixture.LoadAll(root + "/events")
	if err != nil || len(all) == 0 {
		t.Fatalf("no events: %v", err)
	}
	for _, f := range all {
		alone, err := f.RecordsAlone()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, alone...)
	}
	for _, f := range all {
		t.Run(f.Name, func(t *testing.T) {
			out, err := fixture.Run(t.Context(), l.Cloud, f, "", "OTEL_EXPORTER_OTLP_ENDPOINT="+spans.url)
			if err != nil {
				t.Fatal(err)
			}
			for _, difference := range out.Differences() {
				t.Error(difference)
			}
			for line := range strings.Lines(out.Log) {
				if !json.Valid([]byte(line)) {
					t.Errorf("a line of the log is no JSON: %q", line)
				}
			}
			if t.Failed() {
				t.Log(out.Log)
			}
			if n := spans.takeCount(); n == 0 {
				t.Errorf("%s sends no span", out.Effect.Function)
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
