package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"berth/shared/cluster"
)

// RunGuarded runs an operation. A panic becomes an error with its stack in the log. Faults are
// logged, because callers are not told about them. log may be nil.
func RunGuarded(ctx context.Context, log *slog.Logger, operation string, do func() error) (err error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	defer func() {
		if p := recover(); p != nil {
			log.Error("panic", "operation", operation, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = errors.New("panic")
		}
	}()
	err = do()
	if err != nil && cluster.ErrorCode(err) == cluster.CodeServer {
		log.Error("operation failed", "operation", operation, "principal", Principal(ctx), "error", err)
	}
	return err
}

// PublicError returns what a caller is told of an error: an error of the API as it is, a fault
// without any detail.
func PublicError(err error) *cluster.Error {
	e := &cluster.Error{Code: cluster.CodeServer, Message: "Service Unavailable. Please try again later."}
	if cluster.ErrorCode(err) != cluster.CodeServer {
		errors.As(err, &e)
	}
	return e
}
