//go:build otel

package environment

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/aws/aws-sdk-go-v2/aws"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// tracer sends spans by OTLP to where OTEL_EXPORTER_OTLP_ENDPOINT says (a collector's layer listens on localhost:4318);
// it is off where that is not set.
var tracer struct {
	once     sync.Once
	provider *sdktrace.TracerProvider
}

// flushTime is how long an invocation waits for its spans to be taken.
const flushTime = time.Second

func (e *Environment) provider() *sdktrace.TracerProvider {
	tracer.once.Do(func() {
		if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
			return
		}
		exporter, err := otlptracehttp.New(context.Background())
		if err != nil {
			e.Log.Error("switching tracing on", "error", err)
			return
		}
		name := attribute.String("service.name", e.lookup("AWS_LAMBDA_FUNCTION_NAME"))
		tracer.provider = sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(resource.NewSchemaless(name)))
	})
	return tracer.provider
}

// traced begins the span of an invocation; its end sends what there is, as Lambda stops the process between events.
func (e *Environment) traced(ctx context.Context) (context.Context, func()) {
	p := e.provider()
	if p == nil {
		return ctx, func() {}
	}
	ctx, span := p.Tracer("berth").Start(ctx, "invoke", trace.WithSpanKind(trace.SpanKindServer))
	if c, ok := lambdacontext.FromContext(ctx); ok {
		span.SetAttributes(attribute.String("faas.invocation_id", c.AwsRequestID))
	}
	return ctx, func() {
		span.End()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
		defer cancel()
		if err := p.ForceFlush(ctx); err != nil {
			e.Log.Warn("sending spans", "error", err)
		}
	}
}

// tracedClient has each call of AWS be a span of the invocation's, and carry its id.
type tracedClient struct{ next aws.HTTPClient }

func tracedCalls(client aws.HTTPClient) aws.HTTPClient { return tracedClient{client} }

func (c tracedClient) Do(r *http.Request) (*http.Response, error) {
	if tracer.provider == nil {
		return c.next.Do(r)
	}
	name := r.Header.Get("X-Amz-Target")
	if name == "" {
		name = r.Method
	}
	ctx, span := tracer.provider.Tracer("berth").Start(r.Context(), name, trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	r = r.WithContext(ctx)
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(r.Header)) // after signing, and not signed
	resp, err := c.next.Do(r)
	switch {
	case err != nil && !errors.Is(err, context.Canceled):
		span.SetStatus(codes.Error, err.Error())
	case err == nil:
		span.SetAttributes(attribute.Int("http.response.status_code", resp.StatusCode))
		if resp.StatusCode >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, fmt.Sprint(resp.StatusCode))
		}
	}
	return resp, err
}
