package managedscaling

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/state"
)

// hookHeartbeat is how long an instance that is being terminated waits for its tasks at a time, as with ECS.
const hookHeartbeat = time.Hour

// attachAgain is how often all that a provider needs is made again, as somebody may have deleted it: what is made is as it was
// where nobody has.
const attachAgain = time.Hour

// attach makes at CloudWatch and Auto Scaling what the provider needs, and takes back what it does not: two alarms of
// Berth's own or a target tracking policy, never both (C1), and the lifecycle hook of managed draining (C6). That something
// changes is remembered first: whoever comes after a round that was cut off makes it anew, or takes it back.
func (r *scalingRound) attach(p *cluster.CapacityProvider, old *cluster.ScalingHistory) (cluster.Attached, error) {
	was, now := old.Attached, r.wanted(p)
	if g := r.groups[p.Group]; g != nil { // whoever made the group may have taken the tag away again
		if err := r.tag(r.ctx, g); err != nil {
			return now, err
		}
	}
	again := was.Begun || was.ARN != now.ARN || r.attachesAgain(p, was.At)
	was.ARN, now.At = now.ARN, was.At
	if was == now && !again {
		return now, nil
	}
	if was != now && !was.Begun {
		begun := *old
		begun.Attached.Group, begun.Attached.Begun = p.Group, true
		if err := r.remember(old, &begun); err != nil {
			return now, err
		}
		*old = begun
	}
	now.At = r.Clock.Now()
	return now, r.change(p, was, now, again)
}

// change makes of what there was what there is to be: what is wanted where it was not so before, or all of it again.
func (r *scalingRound) change(p *cluster.CapacityProvider, was, now cluster.Attached, again bool) error {
	if was.Begun || was.Policy != now.Policy || again && now.Policy != "" {
		if err := r.attachPolicy(p, now.Policy != ""); err != nil {
			return err
		}
	}
	if was.Begun || was.Alarms != now.Alarms || again && now.Alarms != "" {
		if err := r.attachAlarms(p, now.Alarms != ""); err != nil {
			return err
		}
	}
	switch {
	case now.Hook && (again || !was.Hook):
		err := r.Groups.PutLifecycleHook(r.ctx, cluster.LifecycleHook{Group: p.Group, Name: cluster.DrainingHook, Heartbeat: hookHeartbeat})
		return cluster.Wrap(err, "making lifecycle hook %s", cluster.DrainingHook)
	case !now.Hook && (was.Begun || was.Hook):
		return cluster.Wrap(r.Groups.DeleteLifecycleHook(r.ctx, p.Group, cluster.DrainingHook), "deleting lifecycle hook %s", cluster.DrainingHook)
	}
	return nil
}

// attachesAgain reports whether all that the provider needs is to be made again: once in a while, each provider at a time of its
// own, so that not all of an account are made at once.
func (r *scalingRound) attachesAgain(p *cluster.CapacityProvider, last time.Time) bool {
	hash := fnv.New32a()
	hash.Write([]byte(r.of.Cluster + " " + p.Name))
	own := time.Duration(hash.Sum32()) * time.Millisecond % attachAgain
	return !r.Clock.Now().Add(own).Truncate(attachAgain).Equal(last.Add(own).Truncate(attachAgain))
}

// groupless remembers that of what was made in a group that is gone nothing is left, whatever one of its name will have.
func (r *scalingRound) groupless(p *cluster.CapacityProvider) error {
	old, err := r.history(p.Name)
	if err != nil || old.Attached.Group == "" {
		return err
	}
	next := *old
	next.Attached = cluster.Attached{Group: old.Attached.Group, Begun: true}
	return r.remember(old, &next)
}

// wanted is what the provider is to have.
func (r *scalingRound) wanted(p *cluster.CapacityProvider) cluster.Attached {
	out := cluster.Attached{Group: p.Group, Hook: p.Draining}
	if g := r.groups[p.Group]; g != nil {
		out.ARN = g.ARN
	}
	switch {
	case !p.Scaling.Enabled:
	case p.Scaling.TargetTracking:
		out.Policy = cluster.Digest(fmt.Sprint(r.policy(p)))
	default:
		out.Alarms = cluster.Digest(fmt.Sprint(r.alarms(p)))
	}
	return out
}

func (r *scalingRound) policy(p *cluster.CapacityProvider) cluster.TrackingPolicy {
	return cluster.TrackingPolicy{
		Group: p.Group, Name: cluster.ScalingPolicy(r.of.Cluster, p.Name), Namespace: r.Settings.ScalingNamespace,
		Cluster: r.of.Cluster, Provider: p.Name, Target: float64(p.Scaling.Target), Warmup: p.Scaling.Warmup,
	}
}

// alarms are the two of Berth's own: 1 datapoint above the target, and as many below it as scaling in wants.
func (r *scalingRound) alarms(p *cluster.CapacityProvider) []cluster.MetricAlarm {
	low, high := cluster.ScalingAlarms(r.of.Cluster, p.Name)
	above := cluster.MetricAlarm{
		Name: high, Namespace: r.Settings.ScalingNamespace, Cluster: r.of.Cluster, Provider: p.Name, Threshold: float64(p.Scaling.Target), Times: 1,
	}
	below := above
	below.Name, below.Below, below.Times = low, true, p.Scaling.Datapoints
	return []cluster.MetricAlarm{above, below}
}

// attachPolicy hands the group's size to a target tracking policy once the alarms are gone, or takes it back before there
// are any.
func (r *scalingRound) attachPolicy(p *cluster.CapacityProvider, wanted bool) error {
	policy := r.policy(p)
	if !wanted {
		return cluster.Wrap(r.Groups.DeletePolicy(r.ctx, p.Group, policy.Name), "deleting policy %s", policy.Name)
	}
	if err := r.attachAlarms(p, false); err != nil {
		return err
	}
	return cluster.Wrap(r.Groups.PutTrackingPolicy(r.ctx, policy), "making policy %s", policy.Name)
}

// attachAlarms keeps the two alarms, or takes them away.
func (r *scalingRound) attachAlarms(p *cluster.CapacityProvider, wanted bool) error {
	if !wanted {
		low, high := cluster.ScalingAlarms(r.of.Cluster, p.Name)
		return cluster.Wrap(r.Metrics.DeleteAlarms(r.ctx, []string{low, high}), "deleting the alarms of capacity provider %s", p.Name)
	}
	for _, a := range r.alarms(p) {
		if err := r.Metrics.PutMetricAlarm(r.ctx, a); err != nil {
			return fmt.Errorf("making alarm %s: %w", a.Name, err)
		}
	}
	return nil
}

// unreadable concludes attachments for which not even the groups can be described, where that is refused for good.
func (h *Handler) unreadable(ctx context.Context, of *cluster.ClusterProviders, err error) error {
	if cluster.PermanentError(err) == nil {
		return nil
	}
	why := map[string]string{}
	for _, name := range slices.Concat(of.Providers, of.Leaving) {
		why[name] = err.Error()
	}
	return h.conclude(ctx, of, why)
}

// detach takes back all that was made for a provider that the cluster no longer has, and then lets go of it: another cluster
// may have it. A cluster that has it again meanwhile keeps it, and has all of it made anew.
func (h *Handler) detach(ctx context.Context, of *cluster.ClusterProviders, name string) error {
	r := &scalingRound{Handler: h, ctx: ctx, of: of}
	p, err := handler.FindProvider(ctx, h.State, name)
	if err != nil {
		return err
	}
	history, err := r.history(name)
	if err != nil {
		return err
	}
	if err := r.takeTasksAgain(history.Drains); err != nil {
		return err
	}
	if history.Protecting {
		if err := r.endProtection(history.Attached.Group); err != nil {
			return err
		}
	}
	if group := history.Attached.Group; group != "" {
		begun := *history
		begun.Attached = cluster.Attached{Group: group, Begun: true}
		if err := r.remember(history, &begun); err != nil {
			return err
		}
		if err := r.takeBack(r.unwanted(p, name, group)); err != nil {
			return err
		}
		history = &begun
	}
	return r.letGo(p, name, history)
}

// letGo commits that the cluster has a provider no longer, as far as nobody has changed its providers meanwhile.
func (r *scalingRound) letGo(p *cluster.CapacityProvider, name string, history *cluster.ScalingHistory) error {
	next := *r.of
	next.Rev++
	next.Leaving = slices.DeleteFunc(slices.Clone(next.Leaving), func(n string) bool { return n == name })
	writes := []state.Write{{Put: &next}}
	if p != nil {
		writes = append(writes, r.unclaimed(p))
	}
	if key := state.KeyOf(history); history.Rev > 0 {
		writes = append(writes, state.Write{Delete: &key, Rev: history.Rev})
	}
	err := r.State.Commit(r.ctx, state.Commit{Cluster: next.Cluster, Version: state.NoVersion, Writes: writes})
	if err == nil {
		*r.of = next
	}
	return cluster.Wrap(err, "letting go of it")
}

// unclaimed is the write by which the cluster does not have the provider any more.
func (r *scalingRound) unclaimed(p *cluster.CapacityProvider) state.Write {
	next := *p
	next.Rev++
	next.Clusters = slices.DeleteFunc(slices.Clone(p.Clusters), func(c string) bool { return c == r.of.Cluster })
	return state.Write{Put: &next}
}

// endProtection has the instances of a group be without the protection from scale-in that was Berth's, and nobody protect them anew.
func (r *scalingRound) endProtection(group string) error {
	rows, err := r.State.List(r.ctx, state.Prefix(r.of.Cluster, state.PrefixInstance))
	if err != nil {
		return fmt.Errorf("listing instances: %w", err)
	}
	var noted []string
	for _, row := range rows {
		if i, ok := row.(*cluster.Instance); ok && i.ReleasedIn == group {
			noted = append(noted, i.ID)
		}
	}
	if err := r.note(noted, ""); err != nil {
		return err
	}
	groups, err := r.Groups.DescribeGroups(r.ctx, []string{group})
	if err != nil {
		return fmt.Errorf("describing Auto Scaling group %s: %w", group, err)
	}
	var ids []string
	for _, g := range groups {
		for _, i := range g.Instances {
			if i.Running() && i.Protected {
				ids = append(ids, i.ID)
			}
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return cluster.Wrap(r.Groups.SetInstanceProtection(r.ctx, group, ids, false), "ending the protection of instances")
}

// takeTasksAgain has the instances take tasks again that consolidation was emptying.
func (r *scalingRound) takeTasksAgain(drains []cluster.Drain) error {
	for _, d := range drains {
		if d.Over {
			continue
		}
		err := r.Hosts.ActivateInstance(r.ctx, r.of.Cluster, d.Instance)
		if code := cluster.ErrorCode(err); code == cluster.CodeClient || code == cluster.CodeInvalidParameter {
			continue // it is gone
		}
		if err != nil {
			return fmt.Errorf("having instance %s take tasks again: %w", d.Instance, err)
		}
		if err := r.observe([]string{d.Instance}); err != nil {
			return err
		}
	}
	return nil
}

// unwanted is the provider as one for which the cluster needs nothing any more. The lifecycle hook is the group's: while another
// cluster has the provider it stays.
func (r *scalingRound) unwanted(p *cluster.CapacityProvider, name, group string) *cluster.CapacityProvider {
	out := &cluster.CapacityProvider{Name: name, Group: group}
	if p != nil && p.Draining && p.Group == group {
		out.Draining = slices.ContainsFunc(p.Clusters, func(c string) bool { return c != r.of.Cluster })
	}
	return out
}

// takeBack takes back what a provider of which the cluster wants no more than that may have. With a group that is gone its policy and its hook are.
func (r *scalingRound) takeBack(off *cluster.CapacityProvider) error {
	groups, err := r.Groups.DescribeGroups(r.ctx, []string{off.Group})
	switch {
	case err != nil:
		return fmt.Errorf("describing Auto Scaling group %s: %w", off.Group, err)
	case len(groups) == 0:
		return r.attachAlarms(off, false)
	}
	if err := r.tag(r.ctx, groups[0]); err != nil {
		return err
	}
	_, err = r.attach(off, &cluster.ScalingHistory{Attached: cluster.Attached{Group: off.Group, Begun: true}})
	return err
}
