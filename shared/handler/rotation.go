package handler

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// A Rotation visits the clusters in turn until the invocation's time is up, and continues there in
// the next one. A new environment starts at a cluster that depends on the time, so that no cluster
// is always last.
type Rotation struct {
	next string // the cluster to begin with
}

// ForEachCluster calls do for each cluster, stopping [Reserve] before the invocation ends. A
// failure in one cluster does not affect the others.
func (r *Rotation) ForEachCluster(
	ctx context.Context, store state.Store, now func() time.Time, log *slog.Logger, do func(name string) error,
) error {
	names, err := state.ClusterNames(ctx, store)
	if err != nil {
		return err
	}
	return r.ForEachOf(ctx, names, now, log, do)
}

// ForEachOf does the same for some of the clusters, whose names are sorted.
func (r *Rotation) ForEachOf(
	ctx context.Context, names []string, now func() time.Time, log *slog.Logger, do func(name string) error,
) error {
	if len(names) == 0 {
		return nil
	}
	start, found := slices.BinarySearch(names, r.next)
	if !found && r.next == "" {
		start = int(now().Unix()/int64(time.Minute/time.Second)) % len(names)
	}
	end, limited := ctx.Deadline()
	var failed []error
	for i := range names {
		name := names[(start+i)%len(names)]
		if r.next = name; limited && i > 0 && end.Sub(now()) < Reserve {
			Logger(log).Warn("out of time: the remaining clusters wait for the next round", "cluster", name, "left",
				len(names)-i)
			return errors.Join(failed...)
		}
		// Set before the call: if this cluster uses up the time, the next invocation starts behind
		// it.
		r.next = names[(start+i+1)%len(names)]
		failed = append(failed, cluster.Wrap(do(name), "cluster %s", name))
	}
	return errors.Join(failed...)
}

// Reserve is the time that a round leaves itself to write down where it got to, before the function
// is killed.
const Reserve = 15 * time.Second
