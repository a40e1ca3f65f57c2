package environment

import (
	"context"
	"time"
)

// Clock is the [handler.Clock] of a deployed function: the machine's clock.
type Clock struct{}

// Now returns the time in UTC.
func (Clock) Now() time.Time { return time.Now().UTC() }

// Sleep waits for d. If the context ends first, it returns the context's error.
func (Clock) Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
