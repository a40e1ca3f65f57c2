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

// Rotation does something for every cluster in turn, as far as an invocation's time goes, and goes on from there at the
// next. An environment that has just started begins where the clock says, so that no cluster is always the last.
type Rotation struct {
	next string // the cluster to begin with
}

// ForEachCluster ends before the invocation does. The failure of one cluster does not keep it from the others.
func (r *Rotation) ForEachCluster(ctx context.Context, store state.Store, now func() time.Time, log *slog.Logger, do func(name string) error) error {
	names, err := state.ClusterNames(ctx, store)
	if err != nil || len(names) == 0 {
		return err
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
			Logger(log).Warn("the rest of the clusters has to wait for the next round", "cluster", name, "left", len(names)-i)
			return errors.Join(failed...)
		}
		// Written down before: if this one takes all the time there is, the next round begins behind it.
		r.next = names[(start+i+1)%len(names)]
		failed = append(failed, cluster.Wrap(do(name), "cluster %s", name))
	}
	return errors.Join(failed...)
}

// Reserve is the time that a round leaves itself to write down where it got to, before the function is killed.
const Reserve = 15 * time.Second
