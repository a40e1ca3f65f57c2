package dispatch

import (
	"context"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/state"
)

// scalingWakeUps returns the wake-ups of managed scaling for a record: capacity providers that the
// API has changed, and tasks that have begun to wait for an instance.
func scalingWakeUps(r state.Record) (wakeUps []handler.WakeUp) {
	if t, ok := r.New.(*cluster.Task); ok {
		old, _ := r.Old.(*cluster.Task)
		if t.IsProvisioning() && (old == nil || !old.IsProvisioning()) {
			return []handler.WakeUp{{Cluster: t.Cluster, Cause: handler.WakeWaiting}}
		}
		return nil
	}
	for _, name := range clustersOfChangedProviders(r) {
		wakeUps = append(wakeUps, handler.WakeUp{Cluster: name})
	}
	return wakeUps
}

// confirmScaling reports whether managed scaling waits for what has changed in a cluster: instances
// if the cluster has capacity providers, waiting tasks if one of these scales out at once.
func (h *Handler) confirmScaling(ctx context.Context, w handler.WakeUp) (time.Duration, bool, error) {
	if w.Cause == handler.WakeChange {
		return 0, true, nil
	}
	of, err := handler.FindClusterProviders(ctx, h.State, w.Cluster)
	if err != nil {
		return 0, false, err
	}
	if w.Cause == handler.WakeInstance {
		return 0, len(of.ScaledProviders()) > 0, nil
	}
	for _, name := range of.ScaledProviders() {
		p, err := handler.FindProvider(ctx, h.State, name)
		if err != nil || p != nil && p.Scaling.Enabled && p.Scaling.Immediate {
			return cluster.ScaleOutIdle, true, err
		}
	}
	return 0, false, nil
}

// clustersOfChangedProviders returns the clusters for which managed scaling has something to do
// after a change of capacity providers; "" stands for the providers themselves. Nothing that
// managed scaling itself writes wakes it: only the API asks for a check, for new attachments, or
// for a deletion.
func clustersOfChangedProviders(r state.Record) []string {
	switch row := r.Row().(type) {
	case *cluster.CapacityProvider:
		old, _ := r.Old.(*cluster.CapacityProvider)
		wasDeleting := old != nil && old.UpdateStatus == cluster.ProviderDeleting
		switch {
		case r.New == nil:
			return nil
		case row.UpdateStatus == cluster.ProviderDeleting && !wasDeleting:
			return row.Clusters
		case row.CheckPending && (old == nil || !old.CheckPending):
			return []string{""}
		}
	case *cluster.ClusterProviders:
		old, _ := r.Old.(*cluster.ClusterProviders)
		switch {
		case r.New == nil: // the cluster was deleted, and its providers must be taken from it
			return []string{""}
		case row.Status != cluster.AttachmentsInProgress:
		case old == nil || old.Status != cluster.AttachmentsInProgress || !old.RequestedAt.Equal(row.RequestedAt):
			return []string{row.Cluster}
		}
	}
	return nil
}
