package transport

import (
	"context"
	"log/slog"
	"strings"
)

// LogChange notes who changed something; operations that only read are not noted.
func LogChange(ctx context.Context, log *slog.Logger, operation string) {
	if !isReadOnly(operation) {
		log.InfoContext(ctx, "changed through the API", "operation", operation, "principal", Principal(ctx))
	}
}

// isReadOnly reports whether an operation changes nothing.
func isReadOnly(name string) bool {
	return strings.HasPrefix(name, "Describe") || strings.HasPrefix(name, "List") || strings.HasPrefix(name, "Get")
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
