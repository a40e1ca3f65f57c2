package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"berth/shared/cluster"
)

// CommitNarrowing writes a row that narrows what placement may decide, and bumps the placement
// version in the same commit.
func CommitNarrowing(
	ctx context.Context, store Store, clock Clock, clusterName string, row func(stamp int64) (Row, error),
) error {
	return CommitNarrowingAll(ctx, store, clock, clusterName, func(stamp int64) ([]Write, error) {
		r, err := row(stamp)
		return []Write{{Put: r}}, err
	})
}

// CommitNarrowingAll is [CommitNarrowing] for several writes. If another commit moves the version
// first, it waits as [BackOff] does and calls writes again with the next version, at most [MaxRaces]
// times. An unknown cluster is a *[cluster.Drop]; other conflicts are returned.
func CommitNarrowingAll(
	ctx context.Context, store Store, clock Clock, clusterName string, writes func(stamp int64) ([]Write, error),
) error {
	var other error // a conflict that another attempt would not solve
	err := RetryRaces(ctx, clock, "narrowing cluster "+clusterName, func() error {
		err := TryNarrowing(ctx, store, clusterName, time.Time{}, writes)
		var c *Conflict
		if errors.As(err, &c) && !c.Version {
			other = err
			return nil
		}
		return err
	})
	return cmp.Or(err, other)
}

// TryNarrowing is [CommitNarrowingAll] with one attempt. The error is a *[Conflict] if another
// commit moves the version first, or if placement holds it at the time now. A zero time ignores
// holds: events are few and cannot wait, callers can.
func TryNarrowing(
	ctx context.Context, store Store, clusterName string, now time.Time, writes func(stamp int64) ([]Write, error),
) error {
	key := Key{Cluster: clusterName, Sort: PrefixMeta}
	got, err := store.Get(ctx, key)
	if err != nil {
		return fmt.Errorf("reading cluster %s: %w", clusterName, err)
	}
	meta, ok := got.(*Meta)
	if !ok || meta == nil {
		return &cluster.Drop{Reason: fmt.Sprintf("cluster %q is not known", clusterName)}
	}
	if !now.IsZero() && cluster.RemainingWait(meta.HeldUntil, now, MaxHold) > 0 {
		return &Conflict{Key: key, Row: meta, Version: true}
	}
	w, err := writes(meta.Version + 1)
	if err != nil || len(w) == 0 {
		return err
	}
	return store.Commit(ctx, Commit{Cluster: clusterName, Version: meta.Version, Writes: w})
}

// MaxHold is the longest hold. Callers give up after ten seconds.
const MaxHold = 4 * time.Second

// HoldNarrowing keeps callers of [TryNarrowing] from moving the cluster's placement version until
// a time that is d from now. Placement asks for it after it has lost several races: a decision takes
// longer than a call, so callers in a closed loop would come first again and again. The hold ends by
// itself, so that a placement that dies blocks nothing.
func HoldNarrowing(ctx context.Context, store Store, clock Clock, clusterName string, d time.Duration) error {
	return RetryRaces(ctx, clock, "holding cluster "+clusterName, func() error {
		meta, err := ReadRow[*Meta](ctx, store, Key{Cluster: clusterName, Sort: PrefixMeta}, "cluster "+clusterName)
		now := clock.Now()
		if err != nil || meta == nil || cluster.RemainingWait(meta.HeldUntil, now, MaxHold) >= d {
			return err
		}
		next := *meta
		next.Rev++
		next.HeldUntil = now.Add(d)
		_, err = store.Write(ctx, Write{Put: &next})
		return err
	})
}
