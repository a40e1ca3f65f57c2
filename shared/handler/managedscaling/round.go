package managedscaling

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"berth/shared/cluster"
	"berth/shared/decide"
	"berth/shared/handler"
	"berth/shared/placement"
	"berth/shared/scaling"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// round is one reconciliation of a cluster's capacity providers, with what was read for all of
// them.
type round struct {
	*Handler
	of     *cluster.ClusterProviders
	rows   map[string]*cluster.CapacityProvider // by name
	groups map[string]*cluster.AutoScalingGroup // by name
	snap   *snapshot.Snapshot
	specs  *decide.Specs
	// updates has the updates of groups whose nodes are being upgraded, by the group's name.
	updates map[string]*cluster.Update
	// waiting has the tasks that wait by capacity provider, daemons what DAEMON services need.
	waiting map[string][]scaling.WaitingTasks
	daemons []*placement.Spec
	// points are the values of the metric to publish.
	points []cluster.Datapoint
}

// readRound reads the providers, the groups, and the cluster last, so that it shows what has
// changed in the meantime.
func (h *Handler) readRound(ctx context.Context, of *cluster.ClusterProviders) (*round, error) {
	r := &round{
		Handler: h,
		of:      of,
		rows:    map[string]*cluster.CapacityProvider{},
		groups:  map[string]*cluster.AutoScalingGroup{},
	}
	var names []string
	for _, name := range of.Providers {
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
	r.specs = decide.NewSpecs(r.snap)
	r.waiting, r.daemons = waitingTasks(r.snap, r.specs), daemonSpecs(r.snap, r.specs)
	r.updates, err = readUpdates(ctx, h.State, of.Cluster)
	return r, err
}

// readUpdates returns the updates that upgrade the nodes of a cluster's groups, by the group's
// name. Nothing is taken from these groups, and their maximum is the update's.
func readUpdates(ctx context.Context, store state.Store, clusterName string) (map[string]*cluster.Update, error) {
	rows, err := store.List(ctx, state.Prefix(clusterName, state.PrefixNodeGroup))
	if err != nil {
		return nil, fmt.Errorf("listing node groups: %w", err)
	}
	updates := map[string]*cluster.Update{}
	for _, row := range rows {
		g, ok := row.(*cluster.NodeGroup)
		if !ok || !g.IsUpgrading() {
			continue
		}
		row, err := store.Get(ctx, state.UpdateKey(clusterName, g.Name, g.Update))
		if err != nil {
			return nil, fmt.Errorf("reading update %s: %w", g.Update, err)
		}
		u, ok := row.(*cluster.Update)
		switch {
		case !ok || u == nil:
			updates[g.AutoScalingGroup] = &cluster.Update{}
		case !u.HasEnded(): // the node group of one that has ended is about to be ACTIVE
			updates[g.AutoScalingGroup] = u
		}
	}
	return updates, nil
}

// reconcileProvider makes what the provider needs, decides, writes what must be remembered, and
// acts.
func (r *round) reconcileProvider(ctx context.Context, name string) error {
	p := r.rows[name]
	if p == nil {
		return asNotAttached(errors.New("it does not exist"))
	}
	if p.GroupProblem != "" {
		return asNotAttached(errors.New(p.GroupProblem))
	}
	a := &attacher{Handler: r.Handler, cluster: r.of.Cluster, provider: p, group: r.groups[p.Group]}
	if a.group == nil {
		return asNotAttached(cmp.Or(a.forgetGroup(ctx), fmt.Errorf("there is no Auto Scaling group %s", p.Group)))
	}
	old, err := readHistory(ctx, r.State, r.of.Cluster, name)
	if err != nil {
		return asNotAttached(err)
	}
	attached, err := a.attach(ctx, old)
	if err != nil {
		return asNotAttached(err)
	}
	claimErr := r.claimInstances(ctx, p, a.group)
	if err := r.refreshDrains(ctx, old.Drains); err != nil {
		return err
	}
	d, err := r.decide(ctx, p, a.group, old)
	if err != nil {
		return err
	}
	next := d.History
	next.Attachment, next.Heartbeats = attached, scaling.Heartbeats(p, a.group, old.Heartbeats, r.Clock.Now())
	var events []scaling.Event
	next.EmittedKeys, events = scaling.NewEvents(old.EmittedKeys, d.Events)
	if err := writeHistory(ctx, r.State, old, &next); err != nil {
		return err
	}
	if d.Published {
		r.points = append(r.points, cluster.Datapoint{
			Namespace: r.Settings.ScalingNamespace, Cluster: r.of.Cluster, Provider: name, Percent: d.Reservation,
			At: r.Clock.Now(),
		})
	}
	// A race that is lost from here on is made up for the next minute, and must not keep the rest
	// from being done.
	e := execution{round: r, provider: p, group: a.group, decision: &d}
	resized, actErr := e.run(ctx)
	if !resized {
		events = slices.DeleteFunc(events, func(e scaling.Event) bool { return e.AfterResize })
	}
	return errors.Join(
		state.IgnoreConflict(claimErr),
		state.IgnoreConflict(actErr),
		e.drainTerminating(ctx, old.Heartbeats, next.Heartbeats),
		state.IgnoreConflict(r.emitEvents(ctx, p, events)),
	)
}

// claimInstances names the provider on those of its group's instances for which ECS names none, so
// that tasks are placed there. That comes before any decision: on an instance that is not the
// provider's yet, no task seems to fit.
func (r *round) claimInstances(ctx context.Context, p *cluster.CapacityProvider, g *cluster.AutoScalingGroup) error {
	inGroup := map[string]bool{}
	for _, i := range g.Instances {
		inGroup[i.ID] = true
	}
	unclaimed := map[string]bool{}
	for id, v := range r.snap.Instances {
		if v.Instance != nil && !v.IsDeregistered() && inGroup[v.EC2InstanceID] && v.CapacityProvider() != p.Name &&
			v.Provider == "" {
			unclaimed[id] = true
		}
	}
	ids := slices.Sorted(maps.Keys(unclaimed))
	for _, id := range ids {
		if err := r.Hosts.PutAttribute(ctx, r.of.Cluster, id, cluster.AttributeProvider, p.Name); err != nil {
			return fmt.Errorf("marking instance %s: %w", id, err)
		}
	}
	return r.refreshSnapshot(ctx, ids)
}

// refreshDrains asks ECS about the instances that consolidation is emptying or has ended to empty.
// An order may have taken effect although no answer and no event said so, and the row of such an
// instance would leave it DRAINING for ever.
func (r *round) refreshDrains(ctx context.Context, drains []cluster.Drain) error {
	var ids []string
	for _, d := range drains {
		if v := r.snap.Instances[d.Instance]; !d.Finished && v != nil && v.Instance != nil && !v.IsDeregistered() {
			ids = append(ids, d.Instance)
		}
	}
	return r.refreshSnapshot(ctx, ids)
}

// refreshSnapshot reads instances that were just changed from ECS into the state and the snapshot.
// No event tells of an ACTIVE one that has tasks.
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
