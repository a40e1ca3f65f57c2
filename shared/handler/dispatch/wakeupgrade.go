package dispatch

import (
	"context"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/state"
)

// upgradeWakeUps returns the wake-ups of node-group-upgrade for a record: node groups that the API
// has begun to create, update or delete. Nothing that node-group-upgrade itself writes wakes it.
func upgradeWakeUps(r state.Record) []handler.WakeUp {
	next, ok := r.New.(*cluster.NodeGroup)
	if !ok || next == nil {
		return nil
	}
	switch next.Status {
	case cluster.NodeGroupCreating, cluster.NodeGroupUpdating, cluster.NodeGroupDeleting:
		if old, ok := r.Old.(*cluster.NodeGroup); !ok || old == nil || old.Status != next.Status {
			return []handler.WakeUp{{Cluster: next.Cluster}}
		}
	}
	return nil
}

// confirmUpgrade reports whether node-group-upgrade waits for instances of a cluster: updates wait
// for them, node groups that Berth makes or deletes too, and ACTIVE ones label new nodes.
func (h *Handler) confirmUpgrade(ctx context.Context, w handler.WakeUp) (time.Duration, bool, error) {
	if w.Cause != handler.WakeInstance {
		return 0, w.Cause == handler.WakeChange, nil
	}
	groups, err := state.ListRows[*cluster.NodeGroup](
		ctx, h.State, state.Prefix(w.Cluster, state.PrefixNodeGroup), "node groups")
	return 0, slices.ContainsFunc(groups, func(g *cluster.NodeGroup) bool {
		return g.Status == cluster.NodeGroupActive || g.Status == cluster.NodeGroupUpdating ||
			g.IsMade() && (g.Status == cluster.NodeGroupCreating || g.Status == cluster.NodeGroupDeleting)
	}), err
}
