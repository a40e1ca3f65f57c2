package state

import (
	"context"
	"errors"
	"fmt"

	"berth/shared/cluster"
)

// CommitNarrowing writes a row that narrows what placement may decide, and bumps the placement
// version in the same commit.
func CommitNarrowing(ctx context.Context, store Store, clusterName string, row func(stamp int64) (Row, error)) error {
	return CommitNarrowingAll(ctx, store, clusterName, func(stamp int64) ([]Write, error) {
		r, err := row(stamp)
		return []Write{{Put: r}}, err
	})
}

// CommitNarrowingAll is [CommitNarrowing] for several writes. If another commit moves the version
// first, it calls writes again with the next version, at most [MaxRaces] times. An unknown cluster
// is a *[cluster.Drop]; other conflicts are returned.
func CommitNarrowingAll(
	ctx context.Context, store Store, clusterName string, writes func(stamp int64) ([]Write, error),
) error {
	for range MaxRaces {
		err := TryNarrowing(ctx, store, clusterName, writes)
		var c *Conflict
		if !errors.As(err, &c) || !c.Version {
			return err
		}
	}
	return fmt.Errorf("narrowing cluster %s: lost %d races", clusterName, MaxRaces)
}

// TryNarrowing is [CommitNarrowingAll] with one attempt. The error is a *[Conflict] if another
// commit moves the version first.
func TryNarrowing(
	ctx context.Context, store Store, clusterName string, writes func(stamp int64) ([]Write, error),
) error {
	got, err := store.Get(ctx, Key{Cluster: clusterName, Sort: PrefixMeta})
	if err != nil {
		return fmt.Errorf("reading cluster %s: %w", clusterName, err)
	}
	meta, ok := got.(*Meta)
	if !ok || meta == nil {
		return &cluster.Drop{Reason: fmt.Sprintf("cluster %q is not known", clusterName)}
	}
	w, err := writes(meta.Version + 1)
	if err != nil || len(w) == 0 {
		return err
	}
	return store.Commit(ctx, Commit{Cluster: clusterName, Version: meta.Version, Writes: w})
}
