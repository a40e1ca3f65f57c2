package trace

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
)

// Tracer collects the spans of one invocation and sends them at its end. A nil *Tracer does
// nothing.
type Tracer struct {
	url      string // of the collector
	function string
	log      *slog.Logger
	client   *http.Client

	mu      sync.Mutex
	spans   []span
	dropped int
}

// An invocation waits at most flushTimeout for the collector. It keeps at most maxSpans spans; the
// rest are dropped, with a line in the log.
const (
	flushTimeout = time.Second
	maxSpans     = 2048
)

// NewTracer returns a tracer that sends to the collector at an address such as
// http://localhost:4318, where a Lambda layer listens. It returns nil if the address is empty.
func NewTracer(endpoint, function string, log *slog.Logger) (*Tracer, error) {
	if endpoint == "" {
		return nil, nil
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is not the address of a collector, expected one such as http://localhost:4318",
			endpoint)
	}
	return &Tracer{
		url: strings.TrimSuffix(endpoint, "/") + "/v1/traces", function: function, log: log,
		client: &http.Client{Timeout: flushTimeout},
	}, nil
}

type spanKey struct{}

// ids are what a span passes on to its children.
type ids struct{ trace, span string }

// StartInvocation begins the span of an invocation, in the trace that Lambda names. Call end with
// the invocation's error when it is over: it sends the spans. Failures to send them are only
// logged.
func (t *Tracer) StartInvocation(ctx context.Context) (traced context.Context, end func(error)) {
	if t == nil {
		return ctx, func(error) {}
	}
	s := span{Name: "invoke", Kind: kindServer, Start: nowNanos()}
	s.TraceID, s.Parent = traceContext(ctx)
	s.SpanID = randomHex(8)
	s.setTextAttribute("faas.invoked_name", t.function)
	if c, ok := lambdacontext.FromContext(ctx); ok {
		s.setTextAttribute("faas.invocation_id", c.AwsRequestID)
	}
	ctx = context.WithValue(ctx, spanKey{}, ids{s.TraceID, s.SpanID})
	return ctx, func(err error) {
		s.setErrorStatus(err)
		t.endSpan(s)
		t.flushSpans(ctx)
	}
}

var header = regexp.MustCompile(`Root=1-([0-9a-f]{8})-([0-9a-f]{24})(?:.*Parent=([0-9a-f]{16}))?`)

// traceContext returns the trace that Lambda's own header names, in OpenTelemetry's form, and its
// span that led here. It returns a new trace if there is no header. For example,
// Root=1-5759e988-bd862e3fe1be46a994272793 is the trace 5759e988bd862e3fe1be46a994272793.
func traceContext(ctx context.Context) (trace, parent string) {
	text, _ := ctx.Value("x-amzn-trace-id").(string)
	if m := header.FindStringSubmatch(text); m != nil {
		return m[1] + m[2], m[3]
	}
	return randomHex(16), ""
}

// randomHex returns n random bytes in hexadecimal: 16 for a trace id, 8 for a span id.
func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it never fails
	return hex.EncodeToString(b)
}

// WrapClient makes each request of the SDK a span of its invocation. A call that the SDK retries
// makes several spans.
func (t *Tracer) WrapClient(next aws.HTTPClient) aws.HTTPClient {
	if t == nil {
		return next
	}
	return client{t, next}
}

type client struct {
	*Tracer
	next aws.HTTPClient
}

func (c client) Do(r *http.Request) (*http.Response, error) {
	// Requests outside of an invocation, such as those at start, belong to no trace.
	above, ok := r.Context().Value(spanKey{}).(ids)
	if !ok {
		return c.next.Do(r)
	}
	service, operation := awsmiddleware.GetServiceID(r.Context()), awsmiddleware.GetOperationName(r.Context())
	s := span{TraceID: above.trace, SpanID: randomHex(8), Parent: above.span, Name: service + "." + operation,
		Kind: kindClient, Start: nowNanos()}
	s.setTextAttribute("rpc.system", "aws-api")
	s.setTextAttribute("rpc.service", service)
	s.setTextAttribute("rpc.method", operation)
	resp, err := c.next.Do(r)
	s.setErrorStatus(err)
	if err == nil {
		s.setNumberAttribute("http.response.status_code", resp.StatusCode)
		if resp.StatusCode >= http.StatusBadRequest {
			s.Status = &status{Code: statusError}
		}
	}
	c.endSpan(s)
	return resp, err
}

// endSpan ends a span and keeps it. The span of the invocation itself is never dropped.
func (t *Tracer) endSpan(s span) {
	s.End = nowNanos()
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.spans) == maxSpans && s.Kind == kindClient {
		t.dropped++
		return
	}
	t.spans = append(t.spans, s)
}
