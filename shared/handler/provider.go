package handler

import (
	"context"
	"fmt"

	"berth/shared/cluster"
	"berth/shared/state"
)

// FindProvider reads a capacity provider; nil if it does not exist or was deleted.
func FindProvider(ctx context.Context, store state.Store, name string) (*cluster.CapacityProvider, error) {
	row, err := store.Get(ctx, state.ProviderKey(name))
	if err != nil {
		return nil, fmt.Errorf("reading capacity provider %s: %w", name, err)
	}
	p, _ := row.(*cluster.CapacityProvider)
	if p == nil || p.Inactive {
		return nil, nil
	}
	return p, nil
}

// ListProviders reads all capacity providers, deleted ones included.
func ListProviders(ctx context.Context, store state.Store) (out []*cluster.CapacityProvider, err error) {
	rows, err := store.List(ctx, state.Prefix(state.Directory, state.PrefixProvider))
	if err != nil {
		return nil, fmt.Errorf("listing capacity providers: %w", err)
	}
	for _, row := range rows {
		if p, ok := row.(*cluster.CapacityProvider); ok {
			out = append(out, p)
		}
	}
	return out, nil
}

// FindClusterProviders reads a cluster's capacity providers; a new row with Rev 0 if none were ever
// set.
func FindClusterProviders(
	ctx context.Context, store state.Store, clusterName string,
) (*cluster.ClusterProviders, error) {
	row, err := store.Get(ctx, state.ClusterProvidersKey(clusterName))
	if err != nil {
		return nil, fmt.Errorf("reading the capacity providers of cluster %s: %w", clusterName, err)
	}
	if c, ok := row.(*cluster.ClusterProviders); ok && c != nil {
		return c, nil
	}
	return &cluster.ClusterProviders{Head: cluster.Head{Cluster: clusterName}}, nil
}
