package state

import (
	"errors"
	"fmt"
)

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

// MaxRaces bounds how often a lost race is retried. After that the event is left to redelivery.
const MaxRaces = 20
