package api

import (
	"context"
	"errors"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// raceTimeout is how long a call that keeps losing races goes on. After that the caller is asked to
// repeat it.
const raceTimeout = 10 * time.Second

// retryRaces calls f until it returns no [state.Conflict], and waits between the attempts as
// [state.BackOff] does. what names the operation.
//
// A cluster that was deleted meanwhile is a ClusterNotFoundException.
func (a *Dependencies) retryRaces(ctx context.Context, what string, f func() error) error {
	until := a.Clock.Now().Add(raceTimeout)
	for n := 1; ; n++ {
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
		if err := state.BackOff(ctx, a.Clock, what, n); err != nil {
			return err
		}
	}
}
