package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"berth/shared/cluster"
)

// Mux answers the operations of the ECS API that it was given, by name or by HTTP.
type Mux struct {
	// Loopback refuses HTTP requests that a web page could have sent: see [Mux.ServeHTTP].
	Loopback bool
	// Logger gets faults: panics, and errors that are no answer of the API. nil drops them.
	Logger *slog.Logger

	operations map[string]Operation
	eks        []eksRoute
}

// NewMux answers the operations given, by their names in the ECS API (CreateCluster ...).
func NewMux(operations map[string]Operation) *Mux { return &Mux{operations: operations} }

// raw is an answer that was made elsewhere, errors included.
type raw struct {
	status int
	body   []byte
}

// Serve answers one operation: HTTP status and body, JSON 1.1. An operation of the API that is not served gives
// UnsupportedFeatureException, any other name UnknownOperationException. It never panics.
func (m *Mux) Serve(ctx context.Context, op string, body []byte) (status int, answer []byte) {
	defer func() {
		if p := recover(); p != nil {
			m.logger().Error("panic", "operation", op, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			status, answer = failure(errors.New("panic"))
		}
	}()
	f, served := m.operations[op]
	switch {
	case len(body) > maxBody:
		return failure(tooLarge())
	case served:
		return m.serve(ctx, op, f, body)
	case modelled[op]:
		return failure(cluster.Errorf(cluster.CodeUnsupported, "%s is not supported.", op))
	}
	return failure(cluster.Errorf(cluster.CodeUnknownOperation, "%.100q is no operation of the ECS API.", op))
}

// guarded does an operation of the EKS API; it never panics.
func (m *Mux) guarded(ctx context.Context, name string, do func(context.Context) (any, error)) (out any, err error) {
	defer func() {
		if p := recover(); p != nil {
			m.logger().Error("panic", "operation", name, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			out, err = nil, errors.New("panic")
		}
	}()
	out, err = do(ctx)
	switch {
	case cluster.ErrorCode(err) == cluster.CodeServer && err != nil:
		m.logger().Error("operation failed", "operation", name, "principal", Principal(ctx), "error", err)
	case err == nil && !reads(name):
		m.logger().InfoContext(ctx, "changed through the API", "operation", name, "principal", Principal(ctx))
	}
	return out, err
}

func (m *Mux) serve(ctx context.Context, op string, f Operation, body []byte) (status int, answer []byte) {
	out, err := f(ctx, body)
	if err == nil {
		switch o := out.(type) {
		case raw:
			return o.status, o.body
		case plain:
			answer, err = json.Marshal(o.value)
		default:
			answer, err = Encode(op, out)
		}
	}
	if err != nil {
		if cluster.ErrorCode(err) == cluster.CodeServer {
			m.logger().Error("operation failed", "operation", op, "principal", Principal(ctx), "error", err)
		}
		return failure(err)
	}
	return http.StatusOK, answer
}

func (m *Mux) logger() *slog.Logger {
	if m.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return m.Logger
}

// failure is an error in the protocol. What is not an answer of the API says nothing of itself: it is in the log.
func failure(err error) (status int, answer []byte) {
	e := &cluster.Error{Code: cluster.CodeServer, Message: "Service Unavailable. Please try again later."}
	if cluster.ErrorCode(err) != cluster.CodeServer {
		errors.As(err, &e)
	}
	status = http.StatusBadRequest
	switch e.Code {
	case cluster.CodeServer:
		status = http.StatusInternalServerError
	case cluster.CodeRequestEntityTooBig:
		status = http.StatusRequestEntityTooLarge
	}
	answer, _ = json.Marshal(map[string]string{"__type": string(e.Code), "message": e.Message}) // strings cannot fail
	return status, answer
}

type principalKey struct{}

// WithPrincipal says who calls: an ARN, as AWS's front door authenticated it.
func WithPrincipal(ctx context.Context, arn string) context.Context {
	return context.WithValue(ctx, principalKey{}, arn)
}

// Principal is who calls, empty where nobody said so.
func Principal(ctx context.Context) string {
	arn, _ := ctx.Value(principalKey{}).(string)
	return arn
}
