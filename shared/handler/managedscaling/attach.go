package managedscaling

import (
	"context"
	"fmt"
	"slices"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/scaling"
	"berth/shared/state"
)

// An attacher makes and removes what one provider needs at CloudWatch and Auto Scaling for one
// cluster.
type attacher struct {
	*Handler
	cluster  string
	provider *cluster.CapacityProvider
	group    *cluster.AutoScalingGroup // nil if it does not exist
	// unrecorded reports that something was made or removed since the history was last written.
	unrecorded bool
}

// attachProvider makes what the provider needs and removes what it does not, see
// [scaling.WantedAttachments]. Before something changes, the history says so: if this run is cut
// off, the next one makes or removes it again.
//
// Once an hour everything is made again, because others may have removed it. A policy or alarms that
// are not wanted are deleted again, because a late call may have made them in a round that was cut off
// before [attacher.recoverFromRace].
func (a *attacher) attachProvider(ctx context.Context, old *cluster.ScalingHistory) (cluster.Attachment, error) {
	was, now := old.Attachment, scaling.WantedAttachments(a.cluster, a.Settings.ScalingNamespace, a.provider, a.group)
	if a.group != nil {
		// Each round, because the group's owner may have removed the tag.
		if err := a.tagGroup(ctx, a.group); err != nil {
			return now, err
		}
	}
	renew := was.Incomplete || was.ARN != now.ARN ||
		scaling.IsRenewalDue(a.cluster, a.provider.Name, was.RenewedAt, a.Clock.Now())
	was.ARN, now.RenewedAt = now.ARN, was.RenewedAt
	if was == now && !renew {
		return now, nil
	}
	if was != now && !was.Incomplete {
		begun := *old
		begun.Attachment.Group, begun.Attachment.Incomplete = a.provider.Group, true
		if err := writeHistory(ctx, a.State, old, &begun); err != nil {
			return now, err
		}
		*old = begun
	}
	now.RenewedAt = a.Clock.Now()
	return now, a.changeAttachment(ctx, was, now, renew)
}

// changeAttachment makes what is wanted and was not there, everything if renew is set, and removes
// the rest. The group's hook may be another provider's, so a renewal removes none.
func (a *attacher) changeAttachment(ctx context.Context, was, now cluster.Attachment, renew bool) error {
	a.unrecorded = true
	if was.Incomplete || was.Policy != now.Policy || renew {
		if err := a.attachPolicy(ctx, now.Policy != ""); err != nil {
			return err
		}
	}
	// Before it made a policy, attachPolicy has deleted the alarms.
	if now.Policy == "" && (was.Incomplete || was.Alarms != now.Alarms || renew) {
		if err := a.attachAlarms(ctx, now.Alarms != ""); err != nil {
			return err
		}
	}
	switch group := a.provider.Group; {
	case now.Hook && (renew || !was.Hook):
		hook := cluster.LifecycleHook{Group: group, Name: cluster.DrainingHook, Heartbeat: scaling.HookHeartbeat}
		return cluster.Wrap(a.Groups.PutLifecycleHook(ctx, hook), "making lifecycle hook %s", cluster.DrainingHook)
	case !now.Hook && (was.Incomplete || was.Hook):
		return a.deleteHook(ctx)
	}
	return nil
}

func (a *attacher) deleteHook(ctx context.Context) error {
	err := a.Groups.DeleteLifecycleHook(ctx, a.provider.Group, cluster.DrainingHook)
	return cluster.Wrap(err, "deleting lifecycle hook %s", cluster.DrainingHook)
}

// attachPolicy lets a target tracking policy size the group, or deletes the policy. Alarms of
// Berth's own and a policy never act at the same time (C1), so the one is removed before the other
// is made.
func (a *attacher) attachPolicy(ctx context.Context, wanted bool) error {
	policy := scaling.TrackingPolicy(a.cluster, a.Settings.ScalingNamespace, a.provider)
	if !wanted {
		return cluster.Wrap(a.Groups.DeletePolicy(ctx, a.provider.Group, policy.Name), "deleting policy %s",
			policy.Name)
	}
	if err := a.attachAlarms(ctx, false); err != nil {
		return err
	}
	return cluster.Wrap(a.Groups.PutTrackingPolicy(ctx, policy), "making policy %s", policy.Name)
}

// attachAlarms makes the low and the high alarm, or deletes both (C1).
func (a *attacher) attachAlarms(ctx context.Context, wanted bool) error {
	if !wanted {
		low, high := cluster.ScalingAlarms(a.cluster, a.provider.Name)
		err := a.Metrics.DeleteAlarms(ctx, []string{low, high})
		return cluster.Wrap(err, "deleting the alarms of capacity provider %s", a.provider.Name)
	}
	for _, alarm := range scaling.MetricAlarms(a.cluster, a.Settings.ScalingNamespace, a.provider) {
		if err := a.Metrics.PutMetricAlarm(ctx, alarm); err != nil {
			return fmt.Errorf("making alarm %s: %w", alarm.Name, err)
		}
	}
	return nil
}

// forgetGroup records that nothing is left of what was made in a group that no longer exists, and
// since when. Another group of that name starts without any of it.
func (a *attacher) forgetGroup(ctx context.Context) error {
	old, err := readHistory(ctx, a.State, a.cluster, a.provider.Name)
	if err != nil {
		return err
	}
	next, since := *old, old.Attachment.MissingSince
	if since.IsZero() {
		since = a.Clock.Now()
	}
	next.Attachment = cluster.Attachment{Group: old.Attachment.Group, Incomplete: old.Attachment.Group != "",
		MissingSince: since}
	return writeHistory(ctx, a.State, old, &next)
}

// tagGroup sets the tag AmazonECSManaged on a group, without which managed scaling may not change
// it (C7). The group's owner may have removed it again. A tag that exists stays, regardless of its
// value.
func (h *Handler) tagGroup(ctx context.Context, g *cluster.AutoScalingGroup) error {
	if _, tagged := g.Tags[cluster.ManagedTag]; tagged {
		return nil
	}
	err := h.Groups.TagGroup(ctx, g.Name, cluster.ManagedTag, "true")
	return cluster.Wrap(err, "tagging Auto Scaling group %s with %s", g.Name, cluster.ManagedTag)
}

// removeAttachments removes what a provider that a cluster no longer uses, or uses less, has there.
// A group that no longer exists has taken its policy and hook with it; the alarms are CloudWatch's.
// Those of a group that the installation does not own stay.
func (a *attacher) removeAttachments(ctx context.Context) error {
	name := a.provider.Group
	groups, err := a.Groups.DescribeGroups(ctx, []string{name})
	switch {
	case err != nil:
		return fmt.Errorf("describing Auto Scaling group %s: %w", name, err)
	case len(groups) == 0, handler.OwnershipProblem(groups[0], a.Settings.Installation) != "":
		return a.attachAlarms(ctx, false)
	}
	if err := a.tagGroup(ctx, groups[0]); err != nil {
		return err
	}
	_, err = a.attachProvider(ctx,
		&cluster.ScalingHistory{Attachment: cluster.Attachment{Group: name, Incomplete: true}})
	return err
}

// withoutCluster returns the writes after which the cluster no longer has the provider. One that is
// being deleted is deleted with its last cluster.
func (h *Handler) withoutCluster(
	ctx context.Context, p *cluster.CapacityProvider, clusterName string,
) ([]state.Write, error) {
	next := *p
	next.Rev++
	next.Clusters = removeName(p.Clusters, clusterName)
	writes := []state.Write{{Put: &next}}
	if p.UpdateStatus != cluster.ProviderDeleting || len(next.Clusters) > 0 {
		return writes, nil
	}
	next.Delete(h.Clock.Now().Add(h.Settings.KeepStopped).Unix())
	release, err := handler.ReleaseProviderGroup(ctx, h.State, &next)
	return append(writes, release...), err
}

// removeName returns names without one of them.
func removeName(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}
