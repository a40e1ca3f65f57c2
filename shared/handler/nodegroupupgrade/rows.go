package nodegroupupgrade

import (
	"context"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/handler/api"
	"berth/shared/nodegroup"
	"berth/shared/state"
)

// failUpdate records that a step was finally refused. The update then restores what it has
// changed. If that is refused as well, it gives up after a while.
func (h *Handler) failUpdate(
	ctx context.Context, g *cluster.NodeGroup, u *cluster.Update, why cluster.UpdateError, seen *nodegroup.Group,
) error {
	next := *u
	if u.Phase == cluster.PhaseRestore {
		next = *nodegroup.GiveUp(u, why.Message, seen, h.Clock.Now())
	} else {
		next = *nodegroup.Fail(u, why)
	}
	if next.HasEnded() {
		return h.finishUpdate(ctx, g, &next)
	}
	next.Rev = u.Rev + 1
	return state.IgnoreConflict(writeUpdate(ctx, h.State, h.Clock, u, &next))
}

// maxDueRows bounds the due rows of one write. The schedule sees the ends of further waits.
const maxDueRows = 50

// writeUpdate writes an update's row together with a due row for the end of each wait that it has
// begun since it was as before.
func writeUpdate(ctx context.Context, store state.Store, clock state.Clock, before, next *cluster.Update) error {
	writes := []state.Write{{Put: next}}
	ends := nodegroup.NewWaitEnds(before, next)
	for _, end := range ends[:min(len(ends), maxDueRows)] {
		due := state.NewDue(next.Cluster, state.DueNodeGroup, next.NodeGroup, end, clock.Now())
		writes = append(writes, state.Write{Any: true, Put: due})
	}
	if len(writes) == 1 {
		_, err := store.Write(ctx, writes[0])
		return err
	}
	return store.Commit(ctx, state.Commit{Cluster: next.Cluster, Version: state.NoVersion, Writes: writes})
}

// writeDue writes the due row of the next look at a node group; none for a zero time. If it is
// lost, the schedule looks.
func writeDue(ctx context.Context, store state.Store, clock state.Clock, g *cluster.NodeGroup, at time.Time) error {
	if at.IsZero() {
		return nil
	}
	due := state.NewDue(g.Cluster, state.DueNodeGroup, g.Name, at, clock.Now())
	_, err := store.Write(ctx, state.Write{Any: true, Put: due})
	return cluster.Wrap(err, "scheduling the next look at node group %s", g.Name)
}

// finishUpdate commits the end of an update together with its node group, which is ACTIVE again.
// After an upgrade it has the sizes that the group keeps, as far as they are known, and after a
// successful one the update's target. u is nil if the update's row no longer
// exists.
func (h *Handler) finishUpdate(ctx context.Context, g *cluster.NodeGroup, u *cluster.Update) error {
	next := *g
	next.Rev++
	next.Status, next.ConfigUpdate, next.ModifiedAt = cluster.NodeGroupActive, "", h.Clock.Now()
	writes := []state.Write{{Put: &next}}
	if u != nil {
		if u.Status == cluster.UpdateSuccessful && u.Type == cluster.UpdateVersion {
			next.Target = u.Target
		}
		if u.Type == cluster.UpdateConfiguration && u.Status == cluster.UpdateFailed {
			next.FailedConfigUpdate = u.ID
		}
		if u.Type == cluster.UpdateVersion {
			nodegroup.LaunchFrom(&next, nodegroup.LeftTemplate(u))
			if left := u.FinalSizes; left != nil && *left != (cluster.Sizes{}) {
				next.Sizes = *left
			}
		}
		ended := *u
		ended.Rev++
		ended.Expires = h.Clock.Now().Add(api.KeepUpdate).Unix()
		writes = append(writes, state.Write{Put: &ended})
		handler.Logger(h.Log).Info("node group update ended",
			"cluster", g.Cluster, "nodeGroup", g.Name, "update", u.ID, "status", u.Status, "errors", u.Errors)
	}
	return state.IgnoreConflict(
		h.State.Commit(ctx, state.Commit{Cluster: g.Cluster, Version: state.NoVersion, Writes: writes}))
}

// newAPI returns the operations of the API that the function uses: stopping tasks, and reading
// instances anew.
func (h *Handler) newAPI() *api.Handler {
	return api.New(api.Dependencies{State: h.State, ECS: h.ECS, Clock: h.Clock, Settings: h.Settings, Log: h.Log})
}

// readUpdate reads an update of a node group; nil if there is none with the id.
func readUpdate(ctx context.Context, store state.Store, g *cluster.NodeGroup, id string) (*cluster.Update, error) {
	return state.ReadRow[*cluster.Update](ctx, store, state.UpdateKey(g.Cluster, g.Name, id), "update "+id)
}

// readCluster reads the rows of the cluster that an update depends on.
//
// Instances come last. If an agent is seen disconnected, the tasks that were read before were still
// the node's.
func readCluster(ctx context.Context, store state.Store, now time.Time, clusterName string) (*nodegroup.Rows, error) {
	rows := nodegroup.NewRows()
	for _, prefix := range []string{state.PrefixService, state.PrefixTask, state.PrefixProtection,
		state.PrefixInstance} {
		found, err := readRows(ctx, store, clusterName, prefix)
		if err != nil {
			return nil, err
		}
		rows.AddAll(found, now)
	}
	return rows, nil
}

// readRows returns the rows of one kind.
func readRows(ctx context.Context, store state.Store, clusterName, prefix string) ([]state.Row, error) {
	rows, err := store.List(ctx, state.Prefix(clusterName, prefix))
	return rows, cluster.Wrap(err, "listing %s", prefix)
}
