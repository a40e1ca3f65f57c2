package handler

import (
	"context"

	"berth/shared/cluster"
	"berth/shared/state"
)

// FindProvider reads a capacity provider; nil if it does not exist or was deleted.
func FindProvider(ctx context.Context, store state.Store, name string) (*cluster.CapacityProvider, error) {
	p, err := state.ReadRow[*cluster.CapacityProvider](ctx, store, state.ProviderKey(name), "capacity provider "+name)
	if err != nil || p == nil || p.Inactive {
		return nil, err
	}
	return p, nil
}

// ListProviders reads all capacity providers, deleted ones included.
func ListProviders(ctx context.Context, store state.Store) ([]*cluster.CapacityProvider, error) {
	return state.ListRows[*cluster.CapacityProvider](
		ctx, store, state.Prefix(state.Directory, state.PrefixProvider), "capacity providers")
}

// FindClusterProviders reads a cluster's capacity providers; a new row with Rev 0 if none were ever
// set.
func FindClusterProviders(
	ctx context.Context, store state.Store, clusterName string,
) (*cluster.ClusterProviders, error) {
	c, err := state.ReadRow[*cluster.ClusterProviders](
		ctx, store, state.ClusterProvidersKey(clusterName), "the capacity providers of cluster "+clusterName)
	if err != nil || c != nil {
		return c, err
	}
	return &cluster.ClusterProviders{Head: cluster.Head{Cluster: clusterName}}, nil
}

// ReleaseProviderGroup returns the writes by which a deleted provider gives up its Auto Scaling
// group. Commit them together with the provider's row.
func ReleaseProviderGroup(
	ctx context.Context, store state.Store, p *cluster.CapacityProvider,
) ([]state.Write, error) {
	return ReleaseGroup(ctx, store, p.Group, func(u *state.GroupUse) (was bool) {
		was = u.Provider == p.Name
		u.Provider = ""
		return was
	})
}
