package transport

import (
	"context"
	"log/slog"
	"strings"
)

// LogChange logs who changed something. Operations that only read are not logged.
func LogChange(ctx context.Context, log *slog.Logger, operation string) {
	if !isReadOnly(operation) {
		log.InfoContext(ctx, "changed through the API", "operation", operation, "principal", Principal(ctx))
	}
}

// isReadOnly reports whether an operation changes nothing, by its name: Describe..., List... and
// Get... only read.
func isReadOnly(name string) bool {
	return strings.HasPrefix(name, "Describe") || strings.HasPrefix(name, "List") || strings.HasPrefix(name, "Get")
}

type principalKey struct{}

// WithPrincipal returns a context that says who calls: an ARN that AWS's front door has
// authenticated.
func WithPrincipal(ctx context.Context, arn string) context.Context {
	return context.WithValue(ctx, principalKey{}, arn)
}

// Principal returns who calls, empty if nobody said so.
func Principal(ctx context.Context) string {
	arn, _ := ctx.Value(principalKey{}).(string)
	return arn
}
