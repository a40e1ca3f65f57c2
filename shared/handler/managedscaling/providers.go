package managedscaling

import (
	"context"
	"errors"
	"fmt"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/handler/api"
	"berth/shared/scaling"
	"berth/shared/state"
)

// checkProviders examines the capacity providers themselves, whether a cluster uses them or not:
// whether the groups of new and changed ones can be scaled, and whether the clusters that use them
// still exist.
func (h *Handler) checkProviders(ctx context.Context) error {
	all, err := handler.ListProviders(ctx, h.State)
	if err != nil {
		return err
	}
	var failed []error
	for _, p := range all {
		if p.Inactive {
			continue
		}
		if p.CheckPending {
			failed = append(failed,
				cluster.Wrap(h.checkProvider(ctx, p), "looking at the group of capacity provider %s", p.Name))
		}
		for _, name := range p.Clusters {
			err := h.removeFromDeletedCluster(ctx, p, name)
			failed = append(failed, cluster.Wrap(err, "taking capacity provider %s from cluster %s", p.Name, name))
		}
	}
	return errors.Join(failed...)
}

// removeFromDeletedCluster takes a provider from a cluster that was deleted. The history of what
// was made for it was deleted with the cluster, so everything that may exist is removed.
func (h *Handler) removeFromDeletedCluster(ctx context.Context, p *cluster.CapacityProvider, clusterName string) error {
	row, err := h.State.Get(ctx, state.Key{Cluster: clusterName, Sort: state.PrefixMeta})
	if meta, ok := row.(*state.Meta); err != nil || ok && meta != nil {
		return err
	}
	if p.GroupProblem == "" {
		unneeded := scaling.UnneededProvider(clusterName, p, p.Name, p.Group)
		if err := h.removeAttachments(ctx, clusterName, unneeded); err != nil {
			return err
		}
	}
	writes, err := h.withoutCluster(ctx, p, clusterName)
	if err != nil {
		return err
	}
	err = h.State.Commit(ctx, state.Commit{Cluster: state.Directory, Version: state.NoVersion, Writes: writes})
	return state.IgnoreConflict(err) // a new cluster of that name may have it
}

// checkProvider records the outcome of a provider's last change: the new settings, or the previous
// ones if the group does not support the new ones. An error means that the group could not be
// examined; the next minute tries again.
func (h *Handler) checkProvider(ctx context.Context, p *cluster.CapacityProvider) error {
	why, err := h.checkGroup(ctx, p)
	if err != nil {
		return err
	}
	next := *p
	next.Rev++
	next.CheckPending, next.PreviousSettings, next.GroupProblem, next.UpdateReason = false, nil, "", why
	switch before := p.PreviousSettings; {
	case why == "" && before == nil:
		next.UpdateStatus = cluster.ProviderCreated
	case why == "":
		next.UpdateStatus = cluster.ProviderUpdated
	case before == nil:
		next.UpdateStatus, next.GroupProblem = cluster.ProviderCreateFailed, why
	default:
		next.UpdateStatus = cluster.ProviderUpdateFailed
		next.Protection, next.Draining, next.Scaling = before.Protection, before.Draining, before.Scaling
		if err := api.ApplyScalingTags(&next); err != nil { // the tags may have changed since
			return err
		}
	}
	_, err = h.State.Write(ctx, state.Write{Put: &next})
	return state.IgnoreConflict(err)
}

// checkGroup returns why a provider's group cannot be scaled, empty if it can. Then the group gets
// the tag AmazonECSManaged, by which others know to leave its size alone (C7).
func (h *Handler) checkGroup(ctx context.Context, p *cluster.CapacityProvider) (why string, err error) {
	found, err := h.Groups.DescribeGroups(ctx, []string{p.Group})
	if err != nil {
		return permanentReason(err)
	}
	if len(found) == 0 {
		return scaling.GroupProblem(p, nil), nil
	}
	if why := scaling.GroupProblem(p, found[0]); why != "" {
		return why, nil
	}
	if why := handler.OwnershipProblem(found[0], h.Settings.Installation); why != "" {
		return why, nil
	}
	return permanentReason(h.tagGroup(ctx, found[0]))
}

// permanentReason returns a permanent refusal as a reason, and any other error as an error:
// repeating the call may help.
func permanentReason(err error) (string, error) {
	if why := cluster.PermanentError(err); why != nil {
		return fmt.Sprintf("%s: %s", why.Code, why.Message), nil
	}
	return "", err
}
