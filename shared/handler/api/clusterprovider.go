package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/operation"
	"berth/shared/state"
)

// ClusterProviders associates capacity providers with clusters.
type ClusterProviders struct{ *Dependencies }

// ClusterAttachments returns a cluster's capacity providers: how they are attached, and their rows.
func (a *ClusterProviders) ClusterAttachments(
	ctx context.Context, clusterName string,
) (*operation.ClusterAttachments, error) {
	return clusterAttachments(ctx, a.State, clusterName)
}

// clusterAttachments leaves out rows of providers that no longer exist.
func clusterAttachments(
	ctx context.Context, store state.Store, clusterName string,
) (*operation.ClusterAttachments, error) {
	of, err := handler.FindClusterProviders(ctx, store, clusterName)
	if err != nil {
		return nil, err
	}
	out := &operation.ClusterAttachments{Attached: *of}
	for _, name := range of.ScaledProviders() {
		p, err := handler.FindProvider(ctx, store, name)
		if err != nil {
			return nil, err
		}
		if p != nil {
			out.Rows = append(out.Rows, p)
		}
	}
	return out, nil
}

// PutClusterProviders replaces a cluster's capacity providers and its default strategy (C7). New
// providers are claimed in the same commit; removed ones are released when managed scaling, which
// this wakes, has removed what it made for them. So two clusters never have one provider with
// managed scaling at the same time.
func (a *ClusterProviders) PutClusterProviders(
	ctx context.Context, clusterName string, names []string, strategy []cluster.ProviderShare,
) (*operation.ClusterAttachments, error) {
	if _, err := a.findCluster(ctx, clusterName); err != nil {
		return nil, err
	}
	old, err := handler.FindClusterProviders(ctx, a.State, clusterName)
	if err != nil {
		return nil, err
	}
	if err := a.checkReplaceable(ctx, old, names, strategy); err != nil {
		return nil, err
	}
	next := &cluster.ClusterProviders{
		Head: cluster.Head{Cluster: clusterName, Rev: old.Rev + 1}, Providers: names, Default: strategy,
		Status: cluster.AttachmentsInProgress, RequestedAt: a.Clock.Now(),
	}
	// Providers removed earlier may still be waiting for managed scaling, and must not be
	// forgotten.
	var gone []string
	for _, name := range slices.Concat(old.ScaledProviders(), old.Detaching) {
		if !slices.Contains(names, name) && !slices.Contains(gone, name) {
			gone = append(gone, name)
		}
	}
	next.Detaching = gone
	// There is nothing to attach or detach, so managed scaling would not complete it.
	if len(next.ScaledProviders())+len(gone) == 0 {
		next.Status = cluster.AttachmentsComplete
	}
	err = a.retryRaces(ctx, "writing the capacity providers of cluster "+clusterName, func() error {
		claims, err := a.claimWrites(ctx, clusterName, next.ScaledProviders())
		if err != nil {
			return err
		}
		err = a.State.Commit(ctx, state.Commit{
			Cluster: clusterName, Version: state.NoVersion, Writes: append(claims, state.Write{Put: next}),
		})
		var c *state.Conflict
		if errors.As(err, &c) && c.Key == state.KeyOf(next) {
			return updateInProgress()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return clusterAttachments(ctx, a.State, clusterName)
}

// CheckClusterProviders refuses what [ClusterProviders.PutClusterProviders] would refuse for a new
// cluster, so that CreateCluster can fail before ECS has created it. A cluster that has providers
// keeps them, even if CreateCluster names others.
func (a *ClusterProviders) CheckClusterProviders(
	ctx context.Context, clusterName string, names []string, strategy []cluster.ProviderShare,
) error {
	of, err := handler.FindClusterProviders(ctx, a.State, clusterName)
	if err != nil || of.Rev > 0 {
		return err
	}
	if err := a.checkReplaceable(ctx, of, names, strategy); err != nil {
		return err
	}
	wanted := cluster.ClusterProviders{Providers: names}
	_, err = a.claimWrites(ctx, clusterName, wanted.ScaledProviders())
	return err
}

// updateInProgress is ECS's answer while a cluster's attachments are being made.
func updateInProgress() error {
	return cluster.Errorf(cluster.CodeUpdateInProgress,
		"The specified cluster is in a busy state. Cannot perform the update until it is complete.")
}

// attachmentTimeout is how long managed scaling may take to make a cluster's attachments before
// they can be changed again. It is several of its rounds, so that an attachment that never succeeds
// does not block the cluster for ever.
const attachmentTimeout = 5 * time.Minute

// checkReplaceable refuses a change of providers while attachments are being made, a default
// strategy with a provider that would not be attached, and removing a provider that is in use.
func (a *ClusterProviders) checkReplaceable(
	ctx context.Context, old *cluster.ClusterProviders, names []string, strategy []cluster.ProviderShare,
) error {
	if old.Status == cluster.AttachmentsInProgress &&
		cluster.RemainingWait(old.RequestedAt.Add(attachmentTimeout), a.Clock.Now(), attachmentTimeout) > 0 {
		return updateInProgress()
	}
	for _, share := range strategy {
		if !slices.Contains(names, share.Provider) {
			return notAssociated(share.Provider, names)
		}
	}
	used, err := a.usedProviders(ctx, old.Cluster)
	if err != nil {
		return err
	}
	for _, name := range old.Providers {
		if !slices.Contains(names, name) && used[name] {
			return cluster.Errorf(cluster.CodeResourceInUse,
				"The specified capacity provider is in use and cannot be removed.")
		}
	}
	return nil
}

// usedProviders returns the providers that the cluster's services name, and those of standalone
// tasks that have not ended.
func (a *ClusterProviders) usedProviders(ctx context.Context, clusterName string) (map[string]bool, error) {
	used := map[string]bool{}
	for _, prefix := range []string{state.PrefixService, state.PrefixTask} {
		rows, err := a.State.List(ctx, state.Prefix(clusterName, prefix))
		if err != nil {
			return nil, fmt.Errorf("listing the %s rows of cluster %s: %w", prefix, clusterName, err)
		}
		for _, row := range rows {
			var shares []cluster.ProviderShare
			switch r := row.(type) {
			case *cluster.Service:
				if r.Status != cluster.ServiceInactive {
					shares = r.UsedProviders()
				}
			case *cluster.Task:
				if r.Rules != nil && !r.HasEnded() {
					shares = r.Rules.Providers
				}
			}
			for _, s := range shares {
				used[s.Provider] = true
			}
		}
	}
	return used, nil
}

// claimWrites returns the writes that associate the providers with the cluster. Providers that it
// has already are written too: managed scaling may be about to take one from a deleted cluster of
// the same name, and then loses the race.
func (a *ClusterProviders) claimWrites(
	ctx context.Context, clusterName string, names []string,
) (out []state.Write, err error) {
	for _, name := range names {
		p, err := a.requireProvider(ctx, name, cluster.CodeInvalidParameter)
		if err != nil {
			return nil, err
		}
		if err := checkClaimable(p, clusterName); err != nil {
			return nil, err
		}
		next := *p
		next.Rev++
		if !slices.Contains(p.Clusters, clusterName) {
			next.Clusters = append(slices.Clone(p.Clusters), clusterName)
		}
		out = append(out, state.Write{Put: &next})
	}
	return out, nil
}

// checkClaimable refuses to associate a provider that could not be created or is being deleted, and
// one with managed scaling that another cluster has (C7). It says why the provider could not be
// created.
func checkClaimable(p *cluster.CapacityProvider, clusterName string) error {
	if p.UpdateStatus == cluster.ProviderDeleting ||
		p.HasFailedCreation() && !slices.Contains(p.Clusters, clusterName) {
		why := ""
		if p.UpdateStatus != cluster.ProviderDeleting {
			why = " It could not be created. " + p.GroupProblem
		}
		return cluster.Errorf(cluster.CodeInvalidParameter,
			"The specified capacity provider '%s' is not in an ACTIVE state. Specify a valid capacity provider and "+
				"try again.%s", p.Name, why)
	}
	if p.Scaling.Enabled && len(p.Clusters) > 0 && !slices.Contains(p.Clusters, clusterName) {
		return cluster.Errorf(cluster.CodeInvalidParameter,
			"Capacity provider %s has managed scaling enabled and is associated with cluster %s: it cannot be "+
				"associated with another.", p.Name, p.Clusters[0])
	}
	return nil
}

// checkAssociated refuses a strategy with a provider that does not exist, or that the cluster does
// not have (S14).
func (a *Dependencies) checkAssociated(ctx context.Context, clusterName string, shares []cluster.ProviderShare) error {
	if len(shares) == 0 {
		return nil
	}
	of, err := handler.FindClusterProviders(ctx, a.State, clusterName)
	if err != nil {
		return err
	}
	for _, s := range shares {
		if slices.Contains(of.Providers, s.Provider) {
			continue
		}
		if _, err := a.requireProvider(ctx, s.Provider, cluster.CodeInvalidParameter); err != nil {
			return err
		}
		return notAssociated(s.Provider, of.Providers)
	}
	return nil
}

// notAssociated is ECS's answer to a strategy with a provider that the cluster does not have, with the
// nearest that it has.
func notAssociated(name string, associated []string) error {
	return suggestNearest(&cluster.Error{Code: cluster.CodeInvalidParameter,
		Message: "The specified capacity provider strategy cannot contain a capacity provider that is not associated " +
			"with the cluster. Associate the capacity provider with the cluster or specify a valid capacity provider " +
			"and try again."}, "associated capacity provider", name, associated)
}

// defaultStrategy returns a copy of the cluster's default capacity provider strategy, nil for none.
// One with providers of Fargate is refused: the caller must name another strategy or a launch type.
// So is one without weights, which a cluster can have, in ECS's words.
func (a *Dependencies) defaultStrategy(ctx context.Context, clusterName string) ([]cluster.ProviderShare, error) {
	of, err := handler.FindClusterProviders(ctx, a.State, clusterName)
	if err != nil {
		return nil, err
	}
	for _, s := range of.Default {
		if cluster.IsFargateProvider(s.Provider) {
			return nil, cluster.Errorf(cluster.CodeUnsupported, "The default capacity provider strategy of cluster %s "+
				"has %s, which is not supported: tasks run on container instances that are registered with the "+
				"cluster. Specify a launch type or a capacity provider strategy.", clusterName, s.Provider)
		}
	}
	if len(of.Default) > 0 && !cluster.HasWeight(of.Default) {
		return nil, cluster.Errorf(cluster.CodeInvalidParameter, "There are no capacity providers with a weight value "+
			"greater than zero defined in the default capacity provider strategy. At least one capacity provider must "+
			"have a weight value greater than zero specified. Update the cluster's default capacity provider strategy "+
			"or specify a valid capacity provider strategy and try again.")
	}
	return slices.Clone(of.Default), nil
}
