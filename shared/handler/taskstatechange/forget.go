package taskstatechange

import (
	"context"
	"fmt"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/observe"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// sweepCluster is [TaskStateChange.Sweep] for a cluster that may be no more, at Berth or at ECS.
func (h *Handler) sweepCluster(ctx context.Context, name string) error {
	row, err := h.State.Get(ctx, state.Key{Cluster: name, Sort: state.PrefixMeta})
	if err != nil {
		return fmt.Errorf("reading cluster %s: %w", name, err)
	}
	meta, ok := row.(*state.Meta)
	if !ok || meta == nil {
		return observe.RemoveCluster(ctx, h.State, name) // what a deletion left undone
	}
	active, err := h.ECS.ClusterActive(ctx, name)
	switch {
	case err != nil:
		return err
	case active:
		return h.Sweep(ctx, name)
	case h.Clock.Now().Sub(meta.CreatedAt) < h.Settings.Settle:
		handler.Logger(h.Log).Info("ECS does not show a new cluster yet, the next sweep looks again", "cluster", name)
		return nil
	}
	return h.confirmInactive(ctx, name)
}

// confirmInactive is for a cluster that ECS does not call active: it was deleted, not through Berth. A second operation
// has to say so, as much is lost if it is not true.
func (h *Handler) confirmInactive(ctx context.Context, name string) error {
	ids, err := h.ECS.ListInstances(ctx, name)
	switch {
	case cluster.ErrorCode(err) == cluster.CodeClusterNotFound || err == nil && len(ids) == 0:
		return h.handleMissingCluster(ctx, name)
	case err != nil:
		return err
	}
	return h.Sweep(ctx, name)
}

// handleMissingCluster forgets a cluster that ECS has no more, unless services are still wanted there: they stay as they are, their
// instances gone, until the cluster is back or somebody deletes them.
func (h *Handler) handleMissingCluster(ctx context.Context, name string) error {
	snap, err := snapshot.Load(ctx, h.State, name)
	if err != nil {
		return err
	}
	wanted := 0
	for _, s := range snap.Services {
		if s.Status == cluster.ServiceActive {
			wanted++
		}
	}
	if wanted == 0 {
		handler.Logger(h.Log).Warn("forgetting a cluster that was deleted at ECS", "cluster", name)
		return observe.RemoveCluster(ctx, h.State, name)
	}
	h.Figures.Add(handler.ClustersMissing, 1)
	handler.Logger(h.Log).Error("ECS has no such cluster, and services are wanted there", "cluster", name, "services", wanted)
	s := sweep{Observer: h.newObserver(), ecs: h.ECS, cluster: name}
	s.Snap = snap
	for _, v := range s.sortedViews() {
		if v.Instance == nil || v.Gone() {
			continue
		}
		if err := s.RecordDeregistered(ctx, v.Instance); err != nil {
			return err
		}
	}
	return s.recordLostTasks(ctx, nil)
}
