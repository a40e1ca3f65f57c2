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
	all := []state.Row{meta}
	for _, r := range ranges(name) {
		rows, err := store.List(ctx, r)
		if err != nil {
			return nil, fmt.Errorf("reading the rows of cluster %s from %s on: %w", name, r.From, err)
		}
		all = append(all, rows...)
	}
	return FromRows(all), nil
}

// FromRows returns a snapshot of a cluster's rows, which then belong to it. It leaves out rows of
// kinds that no snapshot has.
func FromRows(rows []state.Row) *Snapshot {
	snap := NewSnapshot()
	// Task definitions come before what refers to them.
	for _, isDefinition := range []bool{true, false} {
		for _, r := range rows {
			if _, is := r.(*cluster.TaskDefinition); is == isDefinition {
				snap.Put(r)
			}
		}
	}
	return snap
}

// ranges returns the ranges of a cluster that a snapshot consists of. One range has the services,
// registrations, tasks, task definitions and throttles, between whose keys there are no others.
// Each read is billed as at least 4 KB, so that five reads of a small cluster would cost five times
// as much.
func ranges(name string) []state.Range {
	return []state.Range{
		state.Prefix(name, state.PrefixConfiguration), state.Prefix(name, state.PrefixInstance),
		// Before the tasks: a request that is answered meanwhile is seen itself or in its tasks.
		state.Prefix(name, state.PrefixRequest),
		{Cluster: name, From: state.PrefixService, To: state.PrefixThrottle + "\xff"},
		state.Prefix(name, state.PrefixProtection),
		state.Prefix(name, state.PrefixAlarms),
	}
}
