//go:build !otel

package environment

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// traced does nothing: tracing is behind the build tag otel.
func (e *Environment) traced(ctx context.Context) (context.Context, func()) { return ctx, func() {} }

func tracedCalls(client aws.HTTPClient) aws.HTTPClient { return client }
