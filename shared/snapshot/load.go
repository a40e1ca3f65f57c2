package snapshot

import (
	"context"
	"fmt"

	"berth/shared/cluster"
	"berth/shared/state"
)

// Load reads all rows of a cluster. It reads the placement version first: if a narrowing write
// comes in meanwhile, the version moves on, and a commit decided on this snapshot fails. An unknown
// cluster is a *[cluster.Drop].
func Load(ctx context.Context, store state.Store, name string) (*Snapshot, error) {
	meta, err := store.Get(ctx, state.Key{Cluster: name, Sort: state.PrefixMeta})
	if err != nil {
		return nil, fmt.Errorf("reading cluster %s: %w", name, err)
	}
	if meta == nil {
		return nil, &cluster.Drop{Reason: fmt.Sprintf("cluster %q is not known", name)}
	}
	snap := NewSnapshot()
	snap.Put(meta)
	for _, prefix := range []string{
		state.PrefixConfiguration, state.PrefixInstance, state.PrefixDefinition, state.PrefixService, state.PrefixTask,
		state.PrefixRequest, state.PrefixTarget, state.PrefixProtection, state.PrefixThrottle, state.PrefixAlarms,
	} {
		rows, err := store.List(ctx, state.Prefix(name, prefix))
		if err != nil {
			return nil, fmt.Errorf("reading the %s rows of cluster %s: %w", prefix, name, err)
		}
		for _, r := range rows {
			snap.Put(r)
		}
	}
	return snap, nil
}
