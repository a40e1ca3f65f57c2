package state

import (
	"context"
	"errors"
	"slices"

	"berth/shared/cluster"
)

// ForEachCluster calls do for every cluster of the installation. It continues after a failure and
// returns all errors joined.
func ForEachCluster(ctx context.Context, state Store, do func(name string) error) error {
	names, err := ClusterNames(ctx, state)
	if err != nil {
		return err
	}
	var failed []error
	for _, name := range names {
		failed = append(failed, cluster.Wrap(do(name), "cluster %s", name))
	}
	return errors.Join(failed...)
}

// ClusterNames returns the names of the installation's clusters, sorted.
func ClusterNames(ctx context.Context, store Store) ([]string, error) {
	entries, err := store.List(ctx, Prefix(Directory, PrefixEntry))
	if err != nil {
		return nil, cluster.Wrap(err, "listing clusters")
	}
	var names []string
	for _, row := range entries {
		if e, ok := row.(*Entry); ok {
			names = append(names, e.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}
