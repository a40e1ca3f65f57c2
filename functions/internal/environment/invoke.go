package environment

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync/atomic"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"berth/functions/internal/eventsource"
	"berth/shared/handler"
)

// StartFunction checks the environment and lets Lambda call the function, through
// [Environment.WrapInvoker]. It does not return.
func (e *Environment) StartFunction(f *eventsource.Function, figures *handler.Telemetry) {
	e.ExitIfInvalid()
	f.Log = e.Log
	lambda.Start(e.WrapInvoker(f.Invoke, figures))
}

// WrapInvoker adds observation to invoke: log lines have the request's id, what figures has counted
// is written as metrics at the end of each invocation, and spans are sent if tracing is on. figures
// may be nil. Invocations must not overlap.
func (e *Environment) WrapInvoker(
	invoke func(context.Context, json.RawMessage) (any, error), figures *handler.Telemetry,
) func(context.Context, json.RawMessage) (any, error) {
	metrics := e.newMetrics()
	return func(ctx context.Context, event json.RawMessage) (answer any, err error) {
		ctx, end := e.tracer.StartInvocation(ctx)
		defer func() { end(err) }()
		if c, ok := lambdacontext.FromContext(ctx); ok {
			e.request.Store(&c.AwsRequestID)
		}
		if figures != nil {
			defer func() { metrics.writeFigures(figures.Collect()) }()
		}
		return invoke(ctx, event)
	}
}

// requestHandler adds the request's id to each line of the log.
type requestHandler struct {
	slog.Handler
	id *atomic.Pointer[string]
}

func (h requestHandler) Handle(ctx context.Context, r slog.Record) error {
	if id := h.id.Load(); id != nil {
		r.AddAttrs(slog.String("requestId", *id))
	}
	return h.Handler.Handle(ctx, r)
}

func (h requestHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return requestHandler{h.Handler.WithAttrs(attrs), h.id}
}

func (h requestHandler) WithGroup(name string) slog.Handler {
	return requestHandler{h.Handler.WithGroup(name), h.id}
}
