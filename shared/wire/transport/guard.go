package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"berth/shared/cluster"
	"berth/shared/wire/access"
)

// Guard stands before the operations of every protocol: it decides who may call them, and logs who
// changed what. The zero Guard lets everyone call everything and logs nothing.
type Guard struct {
	// Loopback refuses HTTP requests that a web page could have sent: see [CheckLoopback].
	Loopback bool
	// Access says who may call which operation; nil lets everyone.
	Access *access.Policy
	// Audit gets a line for each change and for each refusal, both with the principal.
	Audit *slog.Logger
	// Log gets faults: panics, and errors that are no answer of the API.
	Log *slog.Logger
	// Reads and Changes bound how many operations of each kind run at once; nil bounds none.
	Reads, Changes *Limit
}

// Admit refuses requests that no client may send: on loopback, those that a web page could have
// sent.
func (g Guard) Admit(r *http.Request) error {
	if !g.Loopback {
		return nil
	}
	return CheckLoopback(r)
}

// Run runs an operation if the caller may call it. The operation itself may refuse a request too,
// by an AccessDeniedException. A panic becomes an error. Faults are logged as
// errors, because their callers learn nothing about them; that a client has left is no fault.
func (g Guard) Run(ctx context.Context, operation string, do func() error) (err error) {
	log, principal := orDiscard(g.Log), Principal(ctx)
	defer func() {
		if p := recover(); p != nil {
			log.Error("panic", "operation", operation, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = errors.New("panic")
		}
	}()
	defer func() {
		if cluster.ErrorCode(err) == cluster.CodeAccessDenied {
			orDiscard(g.Audit).WarnContext(ctx, "refused through the API", "operation", operation,
				"principal", principal)
		}
	}()
	if err := g.Access.Check(principal, operation); err != nil {
		return err
	}
	limit := g.Changes
	if access.RightFor(operation) == access.Read {
		limit = g.Reads
	}
	if err := limit.begin(ctx); err != nil {
		return err
	}
	defer limit.end()
	err = do()
	switch {
	case err == nil || cluster.ErrorCode(err) != cluster.CodeServer:
	case errors.Is(ctx.Err(), context.Canceled): // no one is waiting for the answer
		log.Info("the client has left", "operation", operation, "principal", principal, "error", err)
	default:
		log.Error("operation failed", "operation", operation, "principal", principal, "error", err)
	}
	return err
}

// LogChange logs who has changed what. The subject names the resource, such as prod/web, and
// nothing else of the request. Operations that only read are not logged, nor asked for a subject.
func (g Guard) LogChange(ctx context.Context, operation string, subject func() string) {
	if access.RightFor(operation) != access.Read {
		orDiscard(g.Audit).InfoContext(ctx, "changed through the API", "operation", operation,
			"principal", Principal(ctx), "subject", subject())
	}
}

// orDiscard returns the logger, or one that drops every line if there is none.
func orDiscard(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}

// PublicError returns what a caller learns of an error: errors of the API as they are, which file
// cannot be written, and of other faults only that the service is unavailable.
func PublicError(err error) *cluster.Error {
	e := &cluster.Error{Code: cluster.CodeServer, Message: "Service Unavailable. Please try again later."}
	var unwritable *cluster.UnwritableError
	if errors.As(err, &unwritable) {
		e.Message = unwritable.Error()
	}
	if cluster.ErrorCode(err) != cluster.CodeServer {
		errors.As(err, &e)
	}
	return e
}
