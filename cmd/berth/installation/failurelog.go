package installation

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"berth/shared/cluster"
)

// NewFailureLog returns a log of what functions could not do: without it nothing would say why a message
// is in a dead-letter queue.
func NewFailureLog(w io.Writer) *slog.Logger {
	return slog.New(failureHandler{slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelError})})
}

// A failureHandler leaves out failures to write the data folder, which `berth up` reports once.
type failureHandler struct{ slog.Handler }

// Handle writes a record unless its error is that of a file that cannot be written.
func (h failureHandler) Handle(ctx context.Context, r slog.Record) error {
	unwritable := false
	r.Attrs(func(a slog.Attr) bool {
		err, ok := a.Value.Any().(error)
		unwritable = ok && errors.As(err, new(*cluster.UnwritableError))
		return !unwritable
	})
	if unwritable {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs keeps the handler around the one with the attributes.
func (h failureHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return failureHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup keeps the handler around the one with the group.
func (h failureHandler) WithGroup(name string) slog.Handler {
	return failureHandler{h.Handler.WithGroup(name)}
}
