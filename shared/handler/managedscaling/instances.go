package managedscaling

import (
	"context"
	"slices"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/observe"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// readInstance reads an instance's row; nil if it does not exist.
func readInstance(ctx context.Context, store state.Store, clusterName, id string) (*cluster.Instance, error) {
	return state.ReadRow[*cluster.Instance](ctx, store, state.InstanceKey(clusterName, id), "instance "+id)
}

// markReleasable records the group that may terminate the instances; the empty name records that
// none may.
//
// Placement sees the mark before it places a task on one, and dispatch protects the instance before
// the task starts (C6). Decisions under way do not know yet: moving the placement version makes
// their commits fail.
func (h *Handler) markReleasable(ctx context.Context, clusterName string, ids []string, group string) error {
	for batch := range slices.Chunk(ids, state.MaxWrites) {
		err := state.RetryRaces(ctx, h.Clock, "noting which instances may be taken", func() error {
			return state.CommitNarrowingAll(
				ctx,
				h.State,
				h.Clock,
				clusterName,
				func(stamp int64) (writes []state.Write, err error) {
					for _, id := range batch {
						i, err := readInstance(ctx, h.State, clusterName, id)
						if err != nil {
							return nil, err
						}
						if i == nil || i.IsDeregistered() || i.ReleasedIn == group {
							continue
						}
						next := *i
						next.Rev++
						next.Stamp, next.ReleasedIn = stamp, group
						writes = append(writes, state.Write{Put: &next})
					}
					return writes, nil
				},
			)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (h *Handler) newObserver() *observe.Observer {
	return &observe.Observer{State: state.NewFeed(h.State, h.Clock), Clock: h.Clock, Now: h.Clock.Now(),
		Settings: h.Settings.Settings, Log: handler.Logger(h.Log)}
}

// refreshInstances records instances as ECS describes them now. The next look reads them again: placement
// may not have seen the change by then.
func (h *Handler) refreshInstances(ctx context.Context, clusterName string, ids []string) error {
	if known := h.readings[clusterName]; known != nil && len(ids) > 0 {
		known.hasStaleInstances = true
	}
	return h.newObserver().RefreshInstances(ctx, h.ECS, clusterName, ids)
}

// instancesByEC2ID returns a cluster's container instances by EC2 id. An EC2 instance may have
// registered twice; then the newer registration counts.
func instancesByEC2ID(snap *snapshot.Snapshot) map[string]*snapshot.InstanceView {
	byID := map[string]*snapshot.InstanceView{}
	for _, v := range snap.Instances {
		if v.Instance == nil || v.IsDeregistered() {
			continue
		}
		if old := byID[v.EC2InstanceID]; old == nil || v.Supersedes(old.Instance) {
			byID[v.EC2InstanceID] = v
		}
	}
	return byID
}
