package handler

import (
	"context"
	"fmt"

	"berth/shared/cluster"
	"berth/shared/state"
)

// forget removes all that Berth keeps of a cluster that is no more, the row that says there is one first: another may
// get its name. What expires by itself is left to do so.
func forget(ctx context.Context, store state.State, name string) error {
	meta, entry := state.Key{Cluster: name, Sort: state.PrefixMeta}, state.Entry{Name: name}
	if _, err := store.Write(ctx, state.Write{Delete: &meta}); err != nil {
		return fmt.Errorf("forgetting cluster %s: %w", name, err)
	}
	if err := removeRows(ctx, store, name); err != nil {
		return err
	}
	key := state.KeyOf(&entry)
	if _, err := store.Write(ctx, state.Write{Delete: &key}); err != nil {
		return fmt.Errorf("forgetting cluster %s: %w", name, err)
	}
	row, err := store.Get(ctx, meta)
	if err != nil || row == nil {
		return wrap(err, "reading cluster %s", name)
	}
	return list(ctx, store, name) // it is back already
}

// list enters a cluster in the directory.
func list(ctx context.Context, store state.State, name string) error {
	entry := &state.Entry{Head: cluster.Head{Cluster: state.Directory}, Name: name}
	_, err := store.Write(ctx, state.Write{Put: entry, Any: true})
	return wrap(err, "listing cluster %s", name)
}

// removeRows deletes the rows of a cluster without a row of its own that would stay for ever.
func removeRows(ctx context.Context, store state.State, name string) error {
	rows, err := store.List(ctx, state.Range{Cluster: name, From: "", To: "\xff"})
	if err != nil {
		return fmt.Errorf("listing the rows of cluster %s: %w", name, err)
	}
	for _, row := range rows {
		key := state.KeyOf(row)
		if row.Header().Expires != 0 || key.Sort == state.PrefixMeta {
			continue
		}
		if _, err := store.Write(ctx, state.Write{Delete: &key}); err != nil {
			return fmt.Errorf("deleting row %s of cluster %s: %w", key.Sort, name, err)
		}
	}
	return nil
}

// sweepOrForget is [TaskStateChange.Sweep] for a cluster that may be no more, at Berth or at ECS.
func (h *TaskStateChange) sweepOrForget(ctx context.Context, name string) error {
	row, err := h.State.Get(ctx, state.Key{Cluster: name, Sort: state.PrefixMeta})
	if err != nil {
		return fmt.Errorf("reading cluster %s: %w", name, err)
	}
	meta, ok := row.(*state.Meta)
	if !ok || meta == nil {
		return forget(ctx, h.State, name) // what a deletion left undone
	}
	active, err := h.ECS.ClusterActive(ctx, name)
	switch {
	case err != nil:
		return err
	case active:
		return h.Sweep(ctx, name)
	case h.Clock.Now().Sub(meta.CreatedAt) < h.Settings.Settle:
		logger(h.Log).Info("ECS does not show a new cluster yet, the next sweep looks again", "cluster", name)
		return nil
	}
	return h.sweepInactive(ctx, name)
}

// sweepInactive is for a cluster that ECS does not call active: it was deleted, not through Berth. A second operation
// has to say so, as much is lost if it is not true.
func (h *TaskStateChange) sweepInactive(ctx context.Context, name string) error {
	ids, err := h.ECS.ListInstances(ctx, name)
	switch {
	case cluster.ErrorCode(err) == cluster.CodeClusterNotFound || err == nil && len(ids) == 0:
		return h.withoutECS(ctx, name)
	case err != nil:
		return err
	}
	return h.Sweep(ctx, name)
}

// withoutECS forgets a cluster that ECS has no more, unless services are still wanted there: they stay as they are, their
// instances gone, until the cluster is back or somebody deletes them.
func (h *TaskStateChange) withoutECS(ctx context.Context, name string) error {
	snap, err := loadSnapshot(ctx, h.State, name)
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
		logger(h.Log).Warn("forgetting a cluster that was deleted at ECS", "cluster", name)
		return forget(ctx, h.State, name)
	}
	h.Figures.Add(ClustersMissing, 1)
	logger(h.Log).Error("ECS has no such cluster, and services are wanted there", "cluster", name, "services", wanted)
	s := sweep{observer: h.observer(), ecs: h.ECS, cluster: name}
	s.snap = snap
	for _, v := range s.sortedViews() {
		if v.Instance == nil || v.Gone() {
			continue
		}
		if err := s.gone(ctx, v.Instance); err != nil {
			return err
		}
	}
	return s.lost(ctx, nil)
}
