package dispatch

import (
	"context"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/state"
)

// wakeScaling wakes managed scaling for what the records change, once for each cluster. A wake-up
// that is lost is made up for by the schedule of each minute.
func (h *Handler) wakeScaling(ctx context.Context, records []state.Record) {
	woken := map[string]bool{}
	for _, r := range records {
		for _, name := range scalingWakeUps(r) {
			if !woken[name] {
				woken[name] = true
				handler.WakeNow(ctx, h.Scaling, h.Log, name)
			}
		}
	}
}

// scalingWakeUps returns the clusters for which managed scaling has something to do after a change
// of capacity providers; "" stands for the providers themselves. Nothing that managed scaling
// itself writes wakes it: only the API asks for a check, for new attachments, or for a deletion.
func scalingWakeUps(r state.Record) []string {
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
