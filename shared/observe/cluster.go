package observe

import (
	"context"
	"fmt"

	"berth/shared/cluster"
	"berth/shared/state"
)

// RemoveCluster deletes the rows of a cluster that no longer exists. The meta row goes first,
// because another cluster may be created under the name meanwhile; the directory entry goes last,
// so that a run that fails in between is repeated. Rows with an expiry are left to it.
func RemoveCluster(ctx context.Context, store state.Store, name string) error {
	meta, entry := state.Key{Cluster: name, Sort: state.PrefixMeta}, state.Entry{Name: name}
	if _, err := store.Write(ctx, state.Write{Delete: &meta}); err != nil {
		return fmt.Errorf("removing cluster %s: %w", name, err)
	}
	if err := deleteRows(ctx, store, name); err != nil {
		return err
	}
	key := state.KeyOf(&entry)
	if _, err := store.Write(ctx, state.Write{Delete: &key}); err != nil {
		return fmt.Errorf("removing cluster %s: %w", name, err)
	}
	row, err := store.Get(ctx, meta)
	if err != nil || row == nil {
		return cluster.Wrap(err, "reading cluster %s", name)
	}
	return AddToDirectory(ctx, store, name) // it was created again meanwhile
}

// AddToDirectory lists a cluster in the directory of clusters.
func AddToDirectory(ctx context.Context, store state.Store, name string) error {
	entry := &state.Entry{Head: cluster.Head{Cluster: state.Directory}, Name: name}
	_, err := store.Write(ctx, state.Write{Put: entry, Any: true})
	return cluster.Wrap(err, "listing cluster %s", name)
}

// deleteRows deletes the cluster's rows that have no expiry.
func deleteRows(ctx context.Context, store state.Store, name string) error {
	rows, err := store.List(ctx, state.Range{Cluster: name, From: "", To: "\xff"})
	if err != nil {
		return fmt.Errorf("listing the rows of cluster %s: %w", name, err)
	}
	for _, row := range rows {
		key := state.KeyOf(row)
		if row.Header().Expires != 0 || key.Sort == state.PrefixMeta {
			continue
		}
		if _, err := store.Write(ctx, state.Write{Delete: &key}); err != nil {
			return fmt.Errorf("deleting row %s of cluster %s: %w", key.Sort, name, err)
		}
	}
	return nil
}
