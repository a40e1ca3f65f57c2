package dispatch

import (
	"context"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/nodegroup"
	"berth/shared/state"
)

// upgradeWakeUps returns the wake-ups of node-group-upgrade for a record: node groups that the API
// has begun to create, update or delete, services that have all their healthy tasks again, and
// tasks that have ended and so left room. Nothing that node-group-upgrade itself writes wakes it.
func upgradeWakeUps(r state.Record) []handler.WakeUp {
	switch next := r.New.(type) {
	case *cluster.NodeGroup:
		switch next.Status {
		case cluster.NodeGroupCreating, cluster.NodeGroupUpdating, cluster.NodeGroupDeleting:
			if old, ok := r.Old.(*cluster.NodeGroup); !ok || old == nil || old.Status != next.Status {
				return []handler.WakeUp{{Cluster: next.Cluster}}
			}
		}
	case *cluster.Service:
		if old, ok := r.Old.(*cluster.Service); ok && !old.EnoughHealthy && next.EnoughHealthy {
			return []handler.WakeUp{{Cluster: next.Cluster, Cause: handler.WakeService}}
		}
	case *cluster.Task:
		if hasLeftRoom(r) {
			return []handler.WakeUp{{Cluster: next.Cluster, Cause: handler.WakeRoom}}
		}
	}
	return nil
}

// confirmUpgrade reports whether node-group-upgrade waits for what has changed in a cluster.
// Updates wait for instances, node groups that Berth makes or deletes too, and ACTIVE ones label
// new nodes. Between upgrade domains, updates wait for services and for room.
func (h *Handler) confirmUpgrade(ctx context.Context, w handler.WakeUp) (_ time.Duration, waits bool, err error) {
	switch w.Cause {
	case handler.WakeInstance, handler.WakeService, handler.WakeRoom:
	default:
		return 0, w.Cause == handler.WakeChange, nil
	}
	groups, err := state.ListRows[*cluster.NodeGroup](
		ctx, h.State, state.Prefix(w.Cluster, state.PrefixNodeGroup), "node groups")
	for _, g := range groups {
		if waits || err != nil {
			break
		}
		if w.Cause == handler.WakeInstance {
			waits = g.Status == cluster.NodeGroupActive || g.Status == cluster.NodeGroupUpdating ||
				g.IsMade() && (g.Status == cluster.NodeGroupCreating || g.Status == cluster.NodeGroupDeleting)
		} else if g.IsUpgrading() {
			waits, err = h.awaitsCluster(ctx, g, w.Cause)
		}
	}
	return 0, waits, err
}

// awaitsCluster reports whether the update of a node group waits for services, or for room.
func (h *Handler) awaitsCluster(ctx context.Context, g *cluster.NodeGroup, cause handler.WakeCause) (bool, error) {
	u, err := state.ReadRow[*cluster.Update](
		ctx, h.State, state.UpdateKey(g.Cluster, g.Name, g.Update), "update "+g.Update)
	if err != nil || u == nil {
		return false, err
	}
	if cause == handler.WakeService {
		return nodegroup.AwaitsServices(u), nil
	}
	return nodegroup.AwaitsRoom(u), nil
}
