package environment

import (
	"context"
	"time"
)

// Clock is the machine's clock.
type Clock struct{}

// Now is the time in UTC.
func (Clock) Now() time.Time { return time.Now().UTC() }

// Sleep waits for d, or until the context ends, which is its error.
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
