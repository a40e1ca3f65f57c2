package state

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"
)

// A Conflict is the error of a write whose condition does not hold: another write came first.
// Nothing was written.
type Conflict struct {
	Key Key
	// Row is the stored row, if the store returned it. It is nil if there is none or it is unknown.
	Row Row
	// Version is set if the placement version was not the expected one.
	Version bool
}

// Error names the row.
func (c *Conflict) Error() string {
	if c.Version {
		return fmt.Sprintf("cluster %s: the placement version has moved on", c.Key.Cluster)
	}
	return fmt.Sprintf("row %s of cluster %s has changed", c.Key.Sort, c.Key.Cluster)
}

// IgnoreConflict returns nil for a [Conflict], else err. Use it if it is fine that another write
// came first, because the stream reports that one.
func IgnoreConflict(err error) error {
	var c *Conflict
	if errors.As(err, &c) {
		return nil
	}
	return err
}

// Clock tells the time, and waits between the attempts of a write that loses races.
type Clock interface {
	Now() time.Time
	Sleep(ctx context.Context, d time.Duration) error
}

// RetryRaces calls f until it returns no [Conflict], at most [MaxRaces] times, and waits between the
// attempts as [BackOff] does. what names the operation in the error.
func RetryRaces(ctx context.Context, clock Clock, what string, f func() error) error {
	for lost := 1; ; lost++ {
		err := f()
		var c *Conflict
		if !errors.As(err, &c) {
			return err
		}
		if lost == MaxRaces {
			return fmt.Errorf("%s: lost %d races", what, lost)
		}
		if err := BackOff(ctx, clock, what, lost); err != nil {
			return err
		}
	}
}

// BackOff waits after a number of lost races: not at all after the first one, and then up to 4 ms,
// 8 ms, ..., 256 ms, so that writers that race come at different times, and placement, which does
// not wait, comes first. It is an error if the call would end before the wait does.
//
// The wait follows from the name of the operation and the time, so that a simulation can be
// repeated.
func BackOff(ctx context.Context, clock Clock, what string, lost int) error {
	if lost <= 1 {
		return nil
	}
	now, hash := clock.Now(), fnv.New64a()
	fmt.Fprint(hash, what, lost, now.UnixNano())
	longest := 2 * time.Millisecond << min(lost-1, 7)
	wait := time.Duration(hash.Sum64() % uint64(longest)) //nolint:gosec // both are small and positive
	if end, limited := ctx.Deadline(); limited && end.Sub(now) <= wait {
		return fmt.Errorf("%s: lost %d races, and there is no time for another attempt", what, lost)
	}
	if err := clock.Sleep(ctx, wait); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// MaxRaces is how often a write that conflicts is tried. After that, the event is left to
// redelivery.
const MaxRaces = 20
