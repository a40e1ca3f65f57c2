package api

import (
	"context"
	"errors"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/state"
)

// raceTimeout is how long a call that keeps losing races, or waits for its turn, tries again. After that
// the caller is asked to repeat it.
const raceTimeout = 10 * time.Second

// retryRaces calls f until it returns no [state.Conflict], and waits between the attempts as
// [state.BackOff] does. what names the operation.
//
// A cluster that was deleted meanwhile is a ClusterNotFoundException.
func (a *Dependencies) retryRaces(ctx context.Context, what string, f func() error) error {
	return retryUntil(ctx, a.Clock, a.Clock.Now().Add(raceTimeout), what, f)
}

// retryNarrowing is retryRaces for changes that move the placement version of the cluster, one after
// the other. Without turns one would win each race, mostly one that has only just come, and the
// others would lose theirs again and again.
func (a *Dependencies) retryNarrowing(ctx context.Context, clusterName, what string, f func() error) error {
	until := a.Clock.Now().Add(raceTimeout)
	return a.turns.runNext(ctx, a.Clock, clusterName, until, func() error {
		return retryUntil(ctx, a.Clock, until, what, f)
	})
}

func retryUntil(
	ctx context.Context, clock handler.Clock, until time.Time, what string, f func() error,
) error {
	for n := 1; ; n++ {
		err := f()
		var lost *state.Conflict
		var gone *cluster.Drop
		switch {
		case errors.As(err, &gone):
			return cluster.Errorf(cluster.CodeClusterNotFound, "Cluster not found.")
		case !errors.As(err, &lost):
			return err
		case !clock.Now().Before(until):
			return cluster.Errorf(cluster.CodeThrottling, "Rate exceeded")
		}
		if err := state.BackOff(ctx, clock, what, n); err != nil {
			return err
		}
	}
}
