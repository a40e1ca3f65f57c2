package state

import (
	"errors"
	"fmt"
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

// RetryRaces calls f until it returns no [Conflict], at most [MaxRaces] times. what names the
// operation in the error.
func RetryRaces(what string, f func() error) error {
	for range MaxRaces {
		err := f()
		var c *Conflict
		if !errors.As(err, &c) {
			return err
		}
	}
	return fmt.Errorf("%s: lost %d races", what, MaxRaces)
}

// MaxRaces is how often a write that conflicts is tried. After that, the event is left to
// redelivery.
const MaxRaces = 20
