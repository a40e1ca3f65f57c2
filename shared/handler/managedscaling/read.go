package managedscaling

import (
	"context"
	"fmt"

	"berth/shared/cluster"
	"berth/shared/decide/specs"
	"berth/shared/handler"
	"berth/shared/placement"
	"berth/shared/scaling"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// A round is one reconciliation of a cluster's capacity providers, with what was read for all of
// them together.
type round struct {
	*Handler
	of *cluster.ClusterProviders
	// between reports that a wake-up asks for the round, between the looks of two minutes.
	between bool
	rows    map[string]*cluster.CapacityProvider // by name
	groups  map[string]*cluster.AutoScalingGroup // by name
	snap    *snapshot.Snapshot
	specs   *specs.Cache
	// updates has the updates of groups whose nodes are being upgraded, by the group's name.
	updates map[string]*cluster.Update
	// waiting has the tasks that wait by capacity provider, daemons what DAEMON services need.
	waiting map[string][]scaling.WaitingTasks
	daemons []*placement.Spec
	// points are the values of the metrics to publish.
	points []cluster.Datapoint
}

// readRound reads the providers, then their groups, and the cluster last, so that the snapshot
// shows what has changed in the meantime.
func (h *Handler) readRound(ctx context.Context, of *cluster.ClusterProviders, between bool) (*round, error) {
	r := &round{
		Handler: h,
		of:      of,
		between: between,
		rows:    map[string]*cluster.CapacityProvider{},
		groups:  map[string]*cluster.AutoScalingGroup{},
	}
	var names []string
	for _, name := range of.ScaledProviders() {
		p, err := handler.FindProvider(ctx, h.State, name)
		if err != nil {
			return nil, err
		}
		if p != nil {
			r.rows[name] = p
			names = append(names, p.Group)
		}
	}
	found, err := h.Groups.DescribeGroups(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("describing Auto Scaling groups: %w", err)
	}
	for _, g := range found {
		r.groups[g.Name] = g
	}
	if r.snap, err = snapshot.Load(ctx, h.State, of.Cluster); err != nil {
		return nil, err
	}
	r.specs = specs.NewCache(r.snap)
	r.waiting, r.daemons = waitingTasks(r.snap, r.specs), daemonSpecs(r.snap, r.specs)
	r.updates, err = readUpdates(ctx, h.State, of.Cluster)
	return r, err
}

// readUpdates returns the updates that upgrade the nodes of a cluster's groups, by the group's
// name. Nothing is taken from these groups, and their maximum is the update's.
func readUpdates(ctx context.Context, store state.Store, clusterName string) (map[string]*cluster.Update, error) {
	groups, err := state.ListRows[*cluster.NodeGroup](
		ctx, store, state.Prefix(clusterName, state.PrefixNodeGroup), "node groups")
	if err != nil {
		return nil, err
	}
	updates := map[string]*cluster.Update{}
	for _, g := range groups {
		if !g.IsUpgrading() {
			continue
		}
		u, err := state.ReadRow[*cluster.Update](
			ctx, store, state.UpdateKey(clusterName, g.Name, g.Update), "update "+g.Update)
		switch {
		case err != nil:
			return nil, err
		case u == nil:
			updates[g.AutoScalingGroup] = &cluster.Update{}
		case !u.HasEnded(): // the node group of one that has ended is about to be ACTIVE
			updates[g.AutoScalingGroup] = u
		}
	}
	return updates, nil
}

// refreshSnapshot reads instances that were just changed at ECS into the state and the snapshot, so
// that decisions about the next provider see them. ECS sends no event when an instance with tasks
// becomes ACTIVE.
func (r *round) refreshSnapshot(ctx context.Context, ids []string) error {
	if err := r.refreshInstances(ctx, r.of.Cluster, ids); err != nil {
		return err
	}
	for _, id := range ids {
		i, err := readInstance(ctx, r.State, r.of.Cluster, id)
		if err != nil {
			return err
		}
		if i != nil {
			r.snap.Put(i)
		}
	}
	return nil
}
