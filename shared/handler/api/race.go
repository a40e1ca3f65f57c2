package api

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// raceTimeout is how long a call that keeps losing races goes on. After that the caller is asked to
// repeat it.
const raceTimeout = 10 * time.Second

// retryRaces calls f until it returns no [state.Conflict]. It waits between the attempts, longer
// each time, so that placement, which does not wait, comes first. what names the operation: calls
// that race wait for different times.
//
// A cluster that was deleted meanwhile is a ClusterNotFoundException.
func (a *Dependencies) retryRaces(ctx context.Context, what string, f func() error) error {
	until := a.Clock.Now().Add(raceTimeout)
	for n := 0; ; n++ {
		err := f()
		var lost *state.Conflict
		var gone *cluster.Drop
		switch {
		case errors.As(err, &gone):
			return cluster.Errorf(cluster.CodeClusterNotFound, "Cluster not found.")
		case !errors.As(err, &lost):
			return err
		case !a.Clock.Now().Before(until):
			return cluster.Errorf(cluster.CodeThrottling, "Rate exceeded")
		}
		if n == 0 {
			continue
		}
		if err := a.Clock.Sleep(ctx, a.raceDelay(what, n)); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}

// raceDelay returns how long to wait after n lost races: up to 4 ms, 8 ms, ..., 256 ms. It follows
// from the name and the time, so that a simulation can be repeated.
func (a *Dependencies) raceDelay(what string, n int) time.Duration {
	h := fnv.New64a()
	fmt.Fprint(h, what, n, a.Clock.Now().UnixNano())
	most := 2 * time.Millisecond << min(n, 7)
	return time.Duration(h.Sum64() % uint64(most)) //nolint:gosec // both are small and positive
}
