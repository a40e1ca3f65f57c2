package trace

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Those messages of OTLP/HTTP with JSON (OpenTelemetry protocol specification 1.x) that are used.
// In them, ids are hexadecimal, and 64-bit numbers are strings.
type (
	request struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   resource     `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	resource struct {
		Attributes []attribute `json:"attributes"`
	}
	scopeSpans struct {
		Scope scope  `json:"scope"`
		Spans []span `json:"spans"`
	}
	scope struct {
		Name string `json:"name"`
	}
	span struct {
		TraceID    string      `json:"traceId"`
		SpanID     string      `json:"spanId"`
		Parent     string      `json:"parentSpanId,omitempty"`
		Name       string      `json:"name"`
		Kind       int         `json:"kind"`
		Start      string      `json:"startTimeUnixNano"`
		End        string      `json:"endTimeUnixNano"`
		Attributes []attribute `json:"attributes,omitempty"`
		Status     *status     `json:"status,omitempty"`
	}
	attribute struct {
		Key   string `json:"key"`
		Value value  `json:"value"`
	}
	value struct {
		Text   string `json:"stringValue,omitempty"`
		Number string `json:"intValue,omitempty"`
	}
	status struct {
		Code    int    `json:"code"`
		Message string `json:"message,omitempty"`
	}
)

// The protocol's numbers for SPAN_KIND_SERVER, SPAN_KIND_CLIENT and STATUS_CODE_ERROR.
const (
	kindServer, kindClient = 2, 3
	statusError            = 2
)

func nowNanos() string { return strconv.FormatInt(time.Now().UnixNano(), 10) }

func (s *span) setTextAttribute(key, v string) {
	s.Attributes = append(s.Attributes, attribute{key, value{Text: v}})
}

func (s *span) setNumberAttribute(key string, v int) {
	s.Attributes = append(s.Attributes, attribute{key, value{Number: strconv.Itoa(v)}})
}

func (s *span) setErrorStatus(err error) {
	if err != nil {
		s.Status = &status{statusError, err.Error()}
	}
}

// flushSpans sends the spans and forgets them, whether the collector accepts them or not.
func (t *Tracer) flushSpans(ctx context.Context) {
	t.mu.Lock()
	spans, dropped := t.spans, t.dropped
	t.spans, t.dropped = nil, 0
	t.mu.Unlock()
	if dropped > 0 {
		t.log.Warn("an invocation had too many spans", "dropped", dropped)
	}
	if err := t.exportSpans(ctx, spans); err != nil {
		t.log.Warn("sending spans", "spans", len(spans), "error", err)
	}
}

// exportSpans posts the spans to the collector.
func (t *Tracer) exportSpans(ctx context.Context, spans []span) error {
	name := attribute{"service.name", value{Text: t.function}}
	body, err := json.Marshal(request{[]resourceSpans{{
		Resource: resource{[]attribute{name}}, ScopeSpans: []scopeSpans{{scope{"berth"}, spans}},
	}}})
	if err != nil {
		return err
	}
	// The invocation's context may have ended. Its spans are then wanted all the more.
	r, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := t.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be reused
	if resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("the collector answered with status %d", resp.StatusCode)
	}
	return nil
}
