package api

import (
	"context"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// RequestBalance makes placement look at the cluster's balance at once, whether balancing is
// switched on or not, and again and again until no move is worth it (P15). A second request changes
// nothing. Services that have balancing switched off stay as they are.
func (a *Clusters) RequestBalance(ctx context.Context, clusterName string) error {
	if _, err := a.findCluster(ctx, clusterName); err != nil {
		return err
	}
	now := a.Clock.Now()
	due := state.NewDue(clusterName, state.DueBalance, state.BalanceOnce, now.Truncate(time.Second), now)
	_, err := a.State.Write(ctx, state.Write{Put: due, Any: true})
	return cluster.Wrap(err, "requesting that cluster %s is balanced", clusterName)
}
