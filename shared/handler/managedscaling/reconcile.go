package managedscaling

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/scaling"
	"berth/shared/state"
)

// reconcileProvider takes one provider through the steps that the package comment lists. Failures
// to attach end it; a failure to act does not keep events and terminations from being handled.
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
	if why := cmp.Or(handler.OwnershipProblem(a.group, r.Settings.Installation),
		scaling.WeightsProblem(p, a.group)); why != "" {
		return asNotAttached(cmp.Or(r.reportUnscaled(ctx, p, why), errors.New(why)))
	}
	// Its revision is the one that the write below must find.
	old := r.history(name)
	err := r.reconcileAttached(ctx, a, old)
	if a.unrecorded {
		return a.recoverFromRace(ctx, old, err)
	}
	return err
}

// reconcileAttached attaches a provider whose group managed scaling may change, decides about the
// group, and carries the decision out.
func (r *round) reconcileAttached(ctx context.Context, a *attacher, old *cluster.ScalingHistory) error {
	p := a.provider
	attached, err := a.attachProvider(ctx, old)
	if err != nil {
		return asNotAttached(err)
	}
	// Reported only at the end: the decision about the other instances stands without it.
	claimErr := r.claimInstances(ctx, p, a.group)
	if err := r.refreshDrains(ctx, old.Drains); err != nil {
		return err
	}
	d, err := r.decideProvider(ctx, p, a.group, old)
	if err != nil {
		return err
	}
	next := d.History
	beats, due := scaling.Heartbeats(p, a.group, old.Heartbeats, r.Clock.Now())
	next.Attachment, next.Heartbeats = attached, beats
	keys, events := scaling.NewEvents(old.EmittedKeys, d.Events)
	next.EmittedKeys = slices.Clone(old.EmittedKeys)
	if !r.between { // otherwise not everything was decided, and what is not said may hold
		next.EmittedKeys = slices.DeleteFunc(next.EmittedKeys, func(key string) bool {
			return !slices.Contains(keys, key)
		})
	}
	write := writeHistory
	if len(events) > 0 {
		write = putHistory // of two rounds at the same time, one emits them
	}
	if err := write(ctx, r.State, old, &next); err != nil {
		return err
	}
	a.unrecorded = false
	if err := r.scheduleLook(ctx, old, &next); err != nil {
		return err
	}
	// A race that is lost from here on is made up for the next minute, and must not keep the rest
	// from being done.
	e := execution{round: r, provider: p, group: a.group, decision: &d}
	resized, actErr := e.carryOut(ctx)
	e.addDatapoint(resized)
	if !resized {
		events = slices.DeleteFunc(events, func(e scaling.Event) bool { return e.AfterResize })
	}
	sent, drainErr := e.drainTerminating(ctx, slices.Sorted(maps.Keys(beats)), due)
	return errors.Join(state.IgnoreConflict(claimErr), state.IgnoreConflict(actErr), drainErr,
		state.IgnoreConflict(r.emitNew(ctx, p, &next, sent, events)))
}

// reportUnscaled says once, to the services that use the provider, why its group is not changed.
func (r *round) reportUnscaled(ctx context.Context, p *cluster.CapacityProvider, why string) error {
	if r.of.AttachmentProblems[p.Name] == why {
		return nil
	}
	var events []scaling.Event
	for _, s := range r.snap.Services {
		uses := slices.ContainsFunc(s.UsedProviders(),
			func(share cluster.ProviderShare) bool { return share.Provider == p.Name })
		if uses && s.Status == cluster.ServiceActive {
			message := fmt.Sprintf("(service %s) capacity provider %s does not scale: %s", s.Name, p.Name, why)
			events = append(events, scaling.Event{Owner: "service " + s.Name, Message: message})
		}
	}
	slices.SortFunc(events, func(a, b scaling.Event) int { return cmp.Compare(a.Owner, b.Owner) })
	return state.IgnoreConflict(r.emitEvents(ctx, p, events))
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
