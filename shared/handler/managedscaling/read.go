package managedscaling

import (
	"context"
	"fmt"
	"slices"

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
	pass *pass
	of   *cluster.ClusterProviders
	// between reports that a wake-up asks for the round, between the looks of two minutes.
	between bool
	// settings are the rows of [settingRange].
	settings []state.Row
	rows     map[string]*cluster.CapacityProvider // by name
	groups   map[string]*cluster.AutoScalingGroup // by name
	snap     *snapshot.Snapshot
	specs    *specs.Cache
	// histories has what is remembered of the providers, by name.
	histories map[string]*cluster.ScalingHistory
	// updates has the updates of groups whose nodes are being upgraded, by the group's name.
	updates map[string]*cluster.Update
	// waiting has the tasks that wait by capacity provider, daemons what DAEMON services need.
	waiting map[string][]scaling.WaitingTasks
	daemons []*placement.Spec
}

// A read is billed as at least 4 KB, so neighbours are read together. settingRange has the loads,
// node groups, protections, capacity providers and the placement version of a cluster.
func settingRange(name string) state.Range {
	return state.Range{Cluster: name, From: state.PrefixLoad, To: state.PrefixProviders + "\xff"}
}

// beginRound reads a cluster's capacity providers, and what is beside them; nil if there is nothing
// to do. The groups are described before, so that the cluster shows what has changed in the
// meantime.
func (p *pass) beginRound(ctx context.Context, name string, between bool) (*round, error) {
	if p.Clock.Now().Sub(p.readAt) > maxAge {
		if err := p.readProviders(ctx); err != nil {
			return nil, err
		}
	}
	r := &round{Handler: p.Handler, pass: p, between: between}
	if len(p.clustersAmong([]string{name})) == 0 { // one read says most often that there are none
		of, err := handler.FindClusterProviders(ctx, p.State, name)
		if err != nil || of.Rev == 0 || len(of.ScaledProviders())+len(of.Detaching) == 0 {
			return nil, err
		}
	}
	p.describeVisited(ctx)
	if err := r.readSettings(ctx, name); err != nil || r.of == nil {
		return nil, err
	}
	return r, nil
}

// readSettings reads the settings of a cluster. They have no providers if nothing is to be done.
func (r *round) readSettings(ctx context.Context, name string) (err error) {
	if r.settings, err = r.State.List(ctx, settingRange(name)); err != nil {
		return fmt.Errorf("reading the settings of cluster %s: %w", name, err)
	}
	for _, row := range r.settings {
		if of, ok := row.(*cluster.ClusterProviders); ok && len(of.ScaledProviders())+len(of.Detaching) > 0 {
			r.of = of
		}
	}
	return nil
}

// readCluster reads the rest of what decisions depend on.
func (r *round) readCluster(ctx context.Context) error {
	var names []string
	r.rows = map[string]*cluster.CapacityProvider{}
	for _, name := range r.of.ScaledProviders() {
		p, err := r.pass.providers[name], error(nil)
		if p == nil { // it may have been made since
			p, err = handler.FindProvider(ctx, r.State, name)
		}
		if err != nil {
			return err
		}
		if p != nil {
			r.rows[name] = p
			names = append(names, p.Group)
		}
	}
	var err error
	if r.groups, err = r.pass.describeGroups(ctx, names); err != nil {
		return fmt.Errorf("describing Auto Scaling groups: %w", err)
	}
	var meta *state.Meta
	for _, row := range r.settings {
		if row, ok := row.(*state.Meta); ok {
			meta = row
		}
	}
	if meta == nil {
		return &cluster.Drop{Reason: fmt.Sprintf("cluster %q is not known", r.of.Cluster)}
	}
	placed, err := r.pass.readPlacement(ctx, meta)
	if err != nil {
		return err
	}
	rest, err := r.listRest(ctx, r.of.Cluster)
	if err != nil {
		return err
	}
	all := slices.Concat(r.settings, rest, placed)
	r.snap, r.histories = snapshot.FromRows(all), map[string]*cluster.ScalingHistory{}
	if err := r.loadDefinitions(ctx); err != nil {
		return err
	}
	for _, row := range all {
		if row, ok := row.(*cluster.ScalingHistory); ok {
			r.histories[row.Provider] = row
		}
	}
	r.specs = specs.NewCache(r.snap)
	r.waiting, r.daemons = waitingTasks(r.snap, r.specs), daemonSpecs(r.snap, r.specs)
	r.updates, err = readUpdates(ctx, r.State, r.of.Cluster) // last, because one may begin at any time
	return err
}

// history returns what was remembered of a provider when the cluster was read.
func (r *round) history(provider string) *cluster.ScalingHistory {
	if old := r.histories[provider]; old != nil {
		return old
	}
	return &cluster.ScalingHistory{Head: cluster.Head{Cluster: r.of.Cluster}, Provider: provider}
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
