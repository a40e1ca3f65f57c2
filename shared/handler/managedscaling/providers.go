package managedscaling

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/handler/api"
	"berth/shared/scaling"
	"berth/shared/state"
)

// checkProviders examines the capacity providers themselves, whether a cluster uses them or not:
// whether the groups of new and changed ones can be scaled, and whether the clusters that use them
// still exist. Those of listed do.
func (p *pass) checkProviders(ctx context.Context, listed []string) error {
	var failed []error
	for _, name := range slices.Sorted(maps.Keys(p.providers)) {
		row, changed := p.providers[name], false
		if row.CheckPending {
			changed = true
			failed = append(failed,
				cluster.Wrap(p.checkProvider(ctx, row), "looking at the group of capacity provider %s", name))
		}
		for _, of := range row.Clusters {
			if !slices.Contains(listed, of) {
				changed = true
				err := p.removeFromDeletedCluster(ctx, row, of)
				failed = append(failed, cluster.Wrap(err, "taking capacity provider %s from cluster %s", name, of))
			}
		}
		if changed {
			failed = append(failed, p.reread(ctx, name))
		}
	}
	return errors.Join(failed...)
}

// releaseDeleted takes the providers that name a cluster from it, if its deletion was cut off.
func (p *pass) releaseDeleted(ctx context.Context, clusterName string) error {
	var failed []error
	for _, name := range slices.Sorted(maps.Keys(p.providers)) {
		if row := p.providers[name]; slices.Contains(row.Clusters, clusterName) {
			err := p.removeFromDeletedCluster(ctx, row, clusterName)
			failed = append(failed, cluster.Wrap(err, "taking capacity provider %s from the cluster", name))
		}
	}
	return errors.Join(failed...)
}

// reread reads a provider again that may have been changed.
func (p *pass) reread(ctx context.Context, name string) error {
	now, err := handler.FindProvider(ctx, p.State, name)
	if err != nil {
		return err
	}
	if p.providers[name] = now; now == nil {
		delete(p.providers, name)
	}
	return nil
}

// removeFromDeletedCluster takes a provider from a cluster that was deleted. The history of what
// was made for it was deleted with the cluster, so everything that may exist is removed.
func (h *Handler) removeFromDeletedCluster(ctx context.Context, p *cluster.CapacityProvider, clusterName string) error {
	row, err := h.State.Get(ctx, state.Key{Cluster: clusterName, Sort: state.PrefixMeta})
	if meta, ok := row.(*state.Meta); err != nil || ok && meta != nil {
		return err
	}
	if p.GroupProblem != "" {
		return state.IgnoreConflict(h.commitWithoutCluster(ctx, p, clusterName))
	}
	a := &attacher{Handler: h, cluster: clusterName,
		provider: scaling.UnneededProvider(clusterName, p, p.Name, p.Group)}
	if err = a.removeAttachments(ctx); err == nil {
		err = h.commitWithoutCluster(ctx, p, clusterName)
	}
	if err != nil {
		// A new cluster of that name may have the provider.
		return state.IgnoreConflict(a.recoverFromRace(ctx, &cluster.ScalingHistory{}, err))
	}
	return nil
}

// commitWithoutCluster commits that a deleted cluster no longer has a provider.
func (h *Handler) commitWithoutCluster(ctx context.Context, p *cluster.CapacityProvider, clusterName string) error {
	writes, err := h.withoutCluster(ctx, p, clusterName)
	if err != nil {
		return err
	}
	return h.State.Commit(ctx, state.Commit{Cluster: state.Directory, Version: state.NoVersion, Writes: writes})
}

// checkProvider records the outcome of a provider's last change: the new settings, or the previous
// ones if the group does not support the new ones. An error means that the group could not be
// examined; the next minute tries again.
func (h *Handler) checkProvider(ctx context.Context, p *cluster.CapacityProvider) error {
	why, untagged, err := h.checkGroup(ctx, p)
	if err != nil {
		return err
	}
	next := *p
	next.Rev++
	if next.Untagged = ""; untagged {
		next.Untagged = h.Settings.Installation
	}
	next.CheckPending, next.PreviousSettings, next.GroupProblem, next.UpdateReason = false, nil, "", why
	if next.FailedAt = (time.Time{}); why != "" {
		next.FailedAt = h.Clock.Now()
	}
	// A provider that is examined again after its creation failed still has the old GroupProblem.
	succeeded, failed := cluster.ProviderUpdated, cluster.ProviderUpdateFailed
	if p.PreviousSettings == nil && p.GroupProblem == "" {
		succeeded, failed = cluster.ProviderCreated, cluster.ProviderCreateFailed
	}
	switch before := p.PreviousSettings; {
	case why == "":
		next.UpdateStatus = succeeded
	case before == nil:
		next.UpdateStatus, next.GroupProblem = failed, why
	default:
		next.UpdateStatus = failed
		next.Protection, next.Draining, next.Scaling = before.Protection, before.Draining, before.Scaling
		if err := api.ApplyScalingTags(&next); err != nil { // the tags may have changed since
			return err
		}
	}
	_, err = h.State.Write(ctx, state.Write{Put: &next})
	return state.IgnoreConflict(err)
}

// checkGroup returns why a provider's group cannot be scaled, empty if it can, and whether that is
// because the group lacks the installation's tag. A group that can be scaled gets the tag
// AmazonECSManaged, by which others know to leave its size alone (C7).
func (h *Handler) checkGroup(ctx context.Context, p *cluster.CapacityProvider) (why string, untagged bool, err error) {
	found, err := h.Groups.DescribeGroups(ctx, []string{p.Group})
	if err != nil {
		why, err = permanentReason(err)
		return why, false, err
	}
	if len(found) == 0 {
		return scaling.GroupProblem(p, nil), false, nil
	}
	if why := scaling.GroupProblem(p, found[0]); why != "" {
		return why, false, nil
	}
	if why := handler.OwnershipProblem(found[0], h.Settings.Installation); why != "" {
		return why, true, nil
	}
	why, err = permanentReason(h.tagGroup(ctx, found[0]))
	return why, false, err
}

// permanentReason returns a permanent refusal as a reason, and any other error as an error:
// repeating the call may help.
func permanentReason(err error) (string, error) {
	if why := cluster.PermanentError(err); why != nil {
		return fmt.Sprintf("%s: %s", why.Code, why.Message), nil
	}
	return "", err
}
