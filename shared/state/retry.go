package state

import (
	"errors"
	"fmt"
)

// RetryRaces runs f again while it loses races, which only other callers cause.
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

// MaxRaces bounds how often a lost race is run again before the event is left to redelivery.
const MaxRaces = 20
