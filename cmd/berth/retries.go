package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"berth/cmd/berth/whatif"
)

// maxFailures is how many looks in a row may fail before a command that looks again and again gives up.
const maxFailures = 5

// retries lets a command that looks at a cluster again and again survive looks that fail.
type retries struct {
	log   io.Writer // what fails is written here
	every time.Duration
	// hasLooked reports that a look has succeeded. Until then, a failure is probably a wrong flag.
	hasLooked bool
	failures  int // in a row
}

// goesOn reports whether to look again after a look with this error, which may be nil, and writes an
// error that it survives. It does not go on after an interrupt, for a name that the cluster does not have,
// if the first look failed, and after [maxFailures] in a row.
func (r *retries) goesOn(ctx context.Context, err error) bool {
	switch {
	case err == nil:
		r.hasLooked, r.failures = true, 0
	case ctx.Err() != nil || errors.As(err, new(*whatif.NotFound)) || !r.hasLooked || r.failures == maxFailures:
		return false
	default:
		r.failures++
		fmt.Fprintf(r.log, "berth: %v; trying again in %s\n", err, r.every)
	}
	return true
}

// wait waits for the time of the next look. The error is that of ctx.
func (r *retries) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(r.every):
		return nil
	}
}
