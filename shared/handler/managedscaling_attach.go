package handler

import (
	"context"
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
)

// hookHeartbeat is how long an instance that is being terminated waits for its tasks at a time, as with ECS.
const hookHeartbeat = time.Hour

// attach makes at CloudWatch and Auto Scaling what the provider needs, and takes back what it does not: two alarms of
// Berth's own or a target tracking policy, never both (C1), and the lifecycle hook of managed draining (C6).
func (r *scalingRound) attach(p *cluster.CapacityProvider, old cluster.Attached) (cluster.Attached, error) {
	now := old
	now.Group = p.Group
	own := p.Scaling.Enabled && !p.Scaling.TargetTracking
	if g := r.groups[p.Group]; g != nil { // whoever made the group may have taken the tag away again
		if err := r.tag(r.ctx, g); err != nil {
			return now, err
		}
	}
	if err := r.attachPolicy(p, &now); err != nil {
		return now, err
	}
	if err := r.attachAlarms(p, own, &now); err != nil {
		return now, err
	}
	switch {
	case p.Draining && !old.Hook:
		err := r.Groups.PutLifecycleHook(r.ctx, cluster.LifecycleHook{Group: p.Group, Name: cluster.DrainingHook, Heartbeat: hookHeartbeat})
		if err != nil {
			return now, fmt.Errorf("making lifecycle hook %s: %w", cluster.DrainingHook, err)
		}
	case !p.Draining && old.Hook:
		if err := r.Groups.DeleteLifecycleHook(r.ctx, p.Group, cluster.DrainingHook); err != nil {
			return now, fmt.Errorf("deleting lifecycle hook %s: %w", cluster.DrainingHook, err)
		}
	}
	now.Hook = p.Draining
	return now, nil
}

// attachPolicy hands the group's size to a target tracking policy, or takes it back.
func (r *scalingRound) attachPolicy(p *cluster.CapacityProvider, now *cluster.Attached) error {
	policy := cluster.TrackingPolicy{
		Group: p.Group, Name: cluster.ScalingPolicy(r.of.Cluster, p.Name), Namespace: r.Settings.ScalingNamespace,
		Cluster: r.of.Cluster, Provider: p.Name, Target: float64(p.Scaling.Target), Warmup: p.Scaling.Warmup,
	}
	digest := ""
	if p.Scaling.Enabled && p.Scaling.TargetTracking {
		digest = cluster.Digest(fmt.Sprint(policy))
	}
	if digest == now.Policy {
		return nil
	}
	if digest == "" {
		if err := r.Groups.DeletePolicy(r.ctx, p.Group, policy.Name); err != nil {
			return fmt.Errorf("deleting policy %s: %w", policy.Name, err)
		}
	} else {
		if err := r.deleteAlarms(p.Name); err != nil {
			return err
		}
		now.Alarms = ""
		if err := r.Groups.PutTrackingPolicy(r.ctx, policy); err != nil {
			return fmt.Errorf("making policy %s: %w", policy.Name, err)
		}
	}
	now.Policy = digest
	return nil
}

// attachAlarms keeps the two alarms of Berth's own: 1 datapoint above the target, and as many below it as scaling in wants.
func (r *scalingRound) attachAlarms(p *cluster.CapacityProvider, wanted bool, now *cluster.Attached) error {
	low, high := cluster.ScalingAlarms(r.of.Cluster, p.Name)
	alarm := cluster.MetricAlarm{
		Name: high, Namespace: r.Settings.ScalingNamespace, Cluster: r.of.Cluster, Provider: p.Name, Threshold: float64(p.Scaling.Target), Times: 1,
	}
	below := alarm
	below.Name, below.Below, below.Times = low, true, p.Scaling.Datapoints
	digest := ""
	if wanted {
		digest = cluster.Digest(fmt.Sprint(alarm, below))
	}
	if digest == now.Alarms {
		return nil
	}
	if digest == "" {
		if err := r.deleteAlarms(p.Name); err != nil {
			return err
		}
	}
	for _, a := range []cluster.MetricAlarm{alarm, below} {
		if digest == "" {
			break
		}
		if err := r.Metrics.PutMetricAlarm(r.ctx, a); err != nil {
			return fmt.Errorf("making alarm %s: %w", a.Name, err)
		}
	}
	now.Alarms = digest
	return nil
}

func (r *scalingRound) deleteAlarms(provider string) error {
	low, high := cluster.ScalingAlarms(r.of.Cluster, provider)
	return wrap(r.Metrics.DeleteAlarms(r.ctx, []string{low, high}), "deleting the alarms of capacity provider %s", provider)
}

// unreadable concludes attachments for which not even the groups can be described, where that is refused for good.
func (h *ManagedScaling) unreadable(ctx context.Context, of *cluster.ClusterProviders, err error) error {
	if forGood(err) == nil {
		return nil
	}
	return h.conclude(ctx, of, err)
}

// detach takes back all that was made for a provider that the cluster no longer has, and then lets go of it: another cluster
// may have it. Whoever has it put back meanwhile has all of it made again, as nothing is remembered of it.
func (h *ManagedScaling) detach(ctx context.Context, of *cluster.ClusterProviders, name string) error {
	r := &scalingRound{ManagedScaling: h, ctx: ctx, of: of}
	p, err := provider(ctx, h.State, name)
	if err != nil || p == nil {
		return err
	}
	history, err := r.history(name)
	if err != nil {
		return err
	}
	if forgotten := *history; history.Rev > 0 {
		forgotten.Attached = cluster.Attached{}
		if err := r.remember(history, &forgotten); err != nil {
			return err
		}
		history = &forgotten
	}
	if err := r.takeBack(p); err != nil {
		return err
	}
	next := *of
	next.Rev++
	next.Leaving = slices.DeleteFunc(slices.Clone(of.Leaving), func(n string) bool { return n == name })
	writes := []cluster.Write{{Put: &next}, r.unclaimed(p)}
	if key := history.Key(); history.Rev > 0 {
		writes = append(writes, cluster.Write{Delete: &key, Rev: history.Rev})
	}
	err = h.State.Commit(ctx, cluster.Commit{Cluster: of.Cluster, Version: cluster.NoVersion, Writes: writes})
	if err == nil {
		*of = next
	}
	return wrap(err, "letting go of it")
}

// takeBack takes back all that there may be for a provider at CloudWatch and Auto Scaling. For one whose group was never fit
// nothing was made; of a group that is gone only the alarms are left.
func (r *scalingRound) takeBack(p *cluster.CapacityProvider) error {
	if p.Unfit != "" {
		return nil
	}
	there, err := r.Groups.DescribeGroups(r.ctx, []string{p.Group})
	if err != nil {
		return fmt.Errorf("describing Auto Scaling group %s: %w", p.Group, err)
	}
	if len(there) == 0 {
		return r.deleteAlarms(p.Name)
	}
	if err := r.tag(r.ctx, there[0]); err != nil {
		return err
	}
	made := cluster.Attached{Group: p.Group, Alarms: "forgotten", Policy: "forgotten", Hook: true}
	_, err = r.attach(&cluster.CapacityProvider{Name: p.Name, Group: p.Group}, made)
	return err
}

// unclaimed is the write by which the cluster does not have the provider any more.
func (r *scalingRound) unclaimed(p *cluster.CapacityProvider) cluster.Write {
	next := *p
	next.Rev++
	next.Clusters = slices.DeleteFunc(slices.Clone(p.Clusters), func(c string) bool { return c == r.of.Cluster })
	return cluster.Write{Put: &next}
}
