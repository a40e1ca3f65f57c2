package dynamo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"berth/shared/awsapi/outcome"
	"berth/shared/cluster"
)

// disableRetries keeps the SDK from repeating calls: if it repeated a conditional write whose
// answer was lost, it would report its own success as a conflict. Only this file repeats.
func disableRetries(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }

// maxAttempts, firstPause and maxPause bound a call's retries. The pauses are at most 25, 50, 100,
// 200, 400, 800 and 1,000 ms: about 2.6 s in all, half of that on average.
const (
	maxAttempts = 8
	firstPause  = 25 * time.Millisecond
	maxPause    = time.Second
)

// retryRepeatable repeats a call that may take effect more than once, until it succeeds or its
// error will not pass.
func (s *State) retryRepeatable(ctx context.Context, call func(context.Context) error) error {
	return s.retryCall(ctx, call, func(err error) bool { return isRetryable(err) || outcome.IsUnknown(err) })
}

// unlessUnknown repeats a call while it has certainly had no effect. If it may have had one, the
// error is cluster.ErrAmbiguous, and the caller reads the row to find out: a single write has no
// token, unlike a transaction.
func (s *State) unlessUnknown(ctx context.Context, call func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err // nothing was sent
	}
	err := s.retryCall(ctx, call, isRetryable)
	if outcome.IsUnknown(err) {
		return markAmbiguous(err)
	}
	return err
}

func markAmbiguous(err error) error { return fmt.Errorf("%w: %w", cluster.ErrAmbiguous, err) }

// retryCall repeats a call while its error is repeatable, at most maxAttempts times, and not after
// the context is done.
func (s *State) retryCall(ctx context.Context, call func(context.Context) error, repeatable func(error) bool) error {
	for n := 0; ; n++ {
		err := s.callWithTimeout(ctx, call)
		if err == nil || n+1 == maxAttempts || !repeatable(err) || ctx.Err() != nil {
			return err
		}
		s.usage.countRetry()
		if s.waitBeforeRetry(ctx, backoffWithJitter(n)) != nil {
			return err
		}
	}
}

func (s *State) callWithTimeout(ctx context.Context, call func(context.Context) error) error {
	timeout := s.Timeout
	if timeout == 0 {
		timeout = 5 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return call(ctx)
}

// backoffWithJitter returns a random pause before attempt n+1, so that writers which collided do
// not collide again.
func backoffWithJitter(n int) time.Duration {
	return rand.N(min(firstPause<<n, maxPause)) //nolint:gosec // no secret
}

// waitBeforeRetry waits, or returns the context's error as soon as it is done.
func (s *State) waitBeforeRetry(ctx context.Context, d time.Duration) error {
	if s.Pause != nil {
		return s.Pause(ctx, d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// isRetryable reports whether the call has had no effect and may succeed a little later.
func isRetryable(err error) bool {
	var conflict *types.TransactionConflictException
	var canceled *types.TransactionCanceledException
	switch {
	case errors.As(err, &canceled):
		return allTransient(canceled.CancellationReasons)
	case errors.As(err, &conflict):
		return true
	}
	return outcome.IsThrottled(err) || outcome.IsUnsent(err)
}

// allTransient reports whether all reasons pass by themselves. ValidationError and
// ItemCollectionSizeLimitExceeded do not (DynamoDB, TransactionCanceledException).
func allTransient(reasons []types.CancellationReason) bool {
	some := false
	for _, r := range reasons {
		switch aws.ToString(r.Code) {
		case "", "None":
		case "TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded", "RequestLimitExceeded":
			some = true
		default:
			return false
		}
	}
	return some
}
