package managedscaling

import (
	"context"
	"errors"
	"fmt"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/handler/api"
	"berth/shared/state"
)

// lookAtProviders looks at the capacity providers themselves, whether a cluster has them or not: whether the groups of those
// that were made or changed are fit for them, and whether the clusters that have them are still there.
func (h *Handler) lookAtProviders(ctx context.Context) error {
	all, err := handler.ListProviders(ctx, h.State)
	if err != nil {
		return err
	}
	var failed []error
	for _, p := range all {
		if p.Inactive {
			continue
		}
		if p.Look {
			failed = append(failed, cluster.Wrap(h.lookAt(ctx, p), "looking at the group of capacity provider %s", p.Name))
		}
		for _, name := range p.Clusters {
			failed = append(failed, cluster.Wrap(h.abandoned(ctx, p, name), "taking capacity provider %s from cluster %s", p.Name, name))
		}
	}
	return errors.Join(failed...)
}

// abandoned takes a provider from a cluster that was deleted. What was made for it was forgotten with the cluster: all that
// there may be is taken back.
func (h *Handler) abandoned(ctx context.Context, p *cluster.CapacityProvider, clusterName string) error {
	row, err := h.State.Get(ctx, state.Key{Cluster: clusterName, Sort: state.PrefixMeta})
	if meta, ok := row.(*state.Meta); err != nil || ok && meta != nil {
		return err
	}
	r := &scalingRound{Handler: h, ctx: ctx, of: &cluster.ClusterProviders{Head: cluster.Head{Cluster: clusterName}}}
	if p.Unfit == "" {
		if err := r.takeBack(r.unwanted(p, p.Name, p.Group)); err != nil {
			return err
		}
	}
	_, err = h.State.Write(ctx, r.unclaimed(p))
	return state.IgnoreConflict(err) // a cluster of that name may be there again, and have it
}

// lookAt notes what has become of a provider's last change. The group of one that is fit gets the tag of managed scaling, so that
// others leave its size alone (C7). An error is of a look to be taken again.
func (h *Handler) lookAt(ctx context.Context, p *cluster.CapacityProvider) error {
	why, err := h.unfit(ctx, p)
	if err != nil {
		return err
	}
	next := *p
	next.Rev++
	next.Look, next.Before, next.Unfit, next.UpdateReason = false, nil, "", why
	switch before := p.Before; {
	case why == "" && before == nil:
		next.UpdateStatus = cluster.ProviderCreated
	case why == "":
		next.UpdateStatus = cluster.ProviderUpdated
	case before == nil:
		next.UpdateStatus, next.Unfit = cluster.ProviderCreateFailed, why
	default:
		next.UpdateStatus, next.Protection, next.Draining, next.Scaling = cluster.ProviderUpdateFailed, before.Protection, before.Draining, before.Scaling
		if err := api.ScaledBy(&next); err != nil { // the tags may have changed since
			return err
		}
	}
	_, err = h.State.Write(ctx, state.Write{Put: &next})
	return state.IgnoreConflict(err)
}

// unfit says why a provider's group is not fit for it, empty where it is; it is tagged then.
func (h *Handler) unfit(ctx context.Context, p *cluster.CapacityProvider) (string, error) {
	got, err := h.Groups.DescribeGroups(ctx, []string{p.Group})
	switch {
	case err != nil:
		return because(err)
	case len(got) == 0:
		return "The specified Auto Scaling group ARN is not valid. Ensure that the ARN references an existing Auto Scaling group and try again.", nil
	}
	if why := misfit(p, got[0]); why != "" {
		return why, nil
	}
	return because(h.tag(ctx, got[0]))
}

// tag gives a group the tag of managed scaling, without which it may do nothing there. One that it has stays, whatever its value.
func (h *Handler) tag(ctx context.Context, g *cluster.AutoScalingGroup) error {
	if _, tagged := g.Tags[cluster.ManagedTag]; tagged {
		return nil
	}
	return cluster.Wrap(h.Groups.TagGroup(ctx, g.Name, cluster.ManagedTag, "true"), "tagging Auto Scaling group %s with %s", g.Name, cluster.ManagedTag)
}

// because is the reason of what Auto Scaling refuses for good, and any other error as it is.
func because(err error) (string, error) {
	if why := cluster.PermanentError(err); why != nil {
		return fmt.Sprintf("%s: %s", why.Code, why.Message), nil
	}
	return "", err
}

// misfit says what a group lacks: it protects new instances where they are to be protected, and has them of no weight where managed
// scaling is on (C6, C7). One that may have no instances is none's fault: as with ECS it cannot be scaled out, and decisions say so.
func misfit(p *cluster.CapacityProvider, g *cluster.AutoScalingGroup) string {
	switch {
	case p.Protection && !g.Protects:
		return "The managed termination protection setting for the capacity provider is invalid. To enable managed termination protection for a capacity provider, the Auto Scaling group must have instance protection from scale in enabled."
	case p.Scaling.Enabled && g.Weighted:
		return fmt.Sprintf("The Auto Scaling group %s has instance weights, which managed scaling does not support.", g.Name)
	}
	return ""
}
