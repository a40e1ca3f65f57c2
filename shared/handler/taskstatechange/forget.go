package taskstatechange

import (
	"context"
	"errors"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/observe"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// sweepCluster sweeps a cluster, or removes it if it no longer exists at Berth or at ECS.
func (h *Handler) sweepCluster(ctx context.Context, name string) error {
	meta, err := state.ReadRow[*state.Meta](
		ctx, h.State, state.Key{Cluster: name, Sort: state.PrefixMeta}, "cluster "+name)
	switch {
	case err != nil:
		return err
	case meta == nil:
		return observe.RemoveCluster(ctx, h.State, name) // finish an interrupted deletion
	}
	active, err := h.ECS.ClusterActive(ctx, name)
	switch {
	case err != nil:
		return err
	case active:
		return h.Sweep(ctx, name)
	case cluster.RemainingWait(meta.CreatedAt.Add(h.Settings.Settle), h.Clock.Now(), h.Settings.Settle) > 0:
		handler.Logger(h.Log).Info("ECS does not show a new cluster yet, the next sweep looks again", "cluster", name)
		return nil
	}
	return h.confirmInactive(ctx, name)
}

// confirmInactive handles a cluster that ECS does not call ACTIVE, so that it was deleted without
// Berth. As removing it destroys much, a second operation must agree: ListInstances has to fail
// with ClusterNotFoundException or be empty.
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

// handleMissingCluster removes a cluster that ECS no longer has, and with it the node groups that
// Berth has made. If it has ACTIVE services they stay, and its instances are recorded as
// deregistered, until the cluster is created again or somebody deletes the services.
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
	h.Telemetry.AddCount(handler.ClustersMissing, 1)
	handler.Logger(h.Log).Error("ECS has no such cluster, and services are wanted there", "cluster", name, "services",
		wanted)
	s := h.newSweep(snap)
	for _, v := range s.sortedViews() {
		if v.Instance == nil || v.IsDeregistered() {
			continue
		}
		if err := s.RecordDeregistered(ctx, v.Instance); err != nil {
			return err
		}
	}
	return errors.Join(s.recordLostTasks(ctx, nil), s.noteUnusedDefinitions(ctx))
}
