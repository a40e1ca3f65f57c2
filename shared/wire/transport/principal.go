package transport

import "context"

type principalKey struct{}

// WithPrincipal returns a context that says who calls: an ARN that AWS's front door has
// authenticated.
func WithPrincipal(ctx context.Context, arn string) context.Context {
	return context.WithValue(ctx, principalKey{}, arn)
}

// Principal returns the caller's principal, empty if it is unknown.
func Principal(ctx context.Context) string {
	arn, _ := ctx.Value(principalKey{}).(string)
	return arn
}
