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
//
// Node groups that Berth has made become DELETING. Their rows and the directory entry stay until what
// they have at AWS has been deleted; then the next sweep removes the rest.
func RemoveCluster(ctx context.Context, store state.Store, name string) error {
	meta, entry := state.Key{Cluster: name, Sort: state.PrefixMeta}, state.Entry{Name: name}
	if _, err := store.Write(ctx, state.Write{Delete: &meta}); err != nil {
		return fmt.Errorf("removing cluster %s: %w", name, err)
	}
	if complete, err := deleteRows(ctx, store, name); err != nil || !complete {
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

// deleteRows deletes the cluster's rows that have no expiry, and reports whether that was all. Node
// groups that Berth has made become DELETING instead.
func deleteRows(ctx context.Context, store state.Store, name string) (complete bool, err error) {
	rows, err := store.List(ctx, state.Range{Cluster: name, From: "", To: "\xff"})
	if err != nil {
		return false, fmt.Errorf("listing the rows of cluster %s: %w", name, err)
	}
	complete = true
	for _, row := range rows {
		key := state.KeyOf(row)
		if row.Header().Expires != 0 || key.Sort == state.PrefixMeta {
			continue
		}
		write := state.Write{Delete: &key}
		if g, ok := row.(*cluster.NodeGroup); ok && g.IsMade() {
			if complete = false; g.Status == cluster.NodeGroupDeleting {
				continue
			}
			next := *g
			next.Rev, next.Status = g.Rev+1, cluster.NodeGroupDeleting
			write = state.Write{Put: &next}
		}
		if _, err := store.Write(ctx, write); state.IgnoreConflict(err) != nil {
			return false, fmt.Errorf("deleting row %s of cluster %s: %w", key.Sort, name, err)
		}
	}
	return complete, nil
}
