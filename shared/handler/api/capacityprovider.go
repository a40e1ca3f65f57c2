package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/operation"
	"berth/shared/state"
)

// CapacityProviders creates, changes, deletes and describes capacity providers.
type CapacityProviders struct{ *Dependencies }

// requireProvider reads a capacity provider. One that does not exist is an error with the nearest name
// that exists. Its code is unknown: ECS answers ClientException to DeleteCapacityProvider, and
// InvalidParameterException elsewhere.
func (a *Dependencies) requireProvider(
	ctx context.Context, name string, unknown cluster.Code,
) (*cluster.CapacityProvider, error) {
	p, err := handler.FindProvider(ctx, a.State, name)
	if err != nil || p != nil {
		return p, err
	}
	all, err := handler.ListProviders(ctx, a.State)
	if err != nil {
		return nil, err
	}
	var known []string
	for _, p := range all {
		if !p.Inactive {
			known = append(known, p.Name)
		}
	}
	return nil, suggestNearest(&cluster.Error{Code: unknown,
		Message: "The specified capacity provider does not exist. Specify a valid name or ARN and try again."},
		"capacity provider", name, known)
}

// CreateCapacityProvider writes a new capacity provider (C7). It is CREATE_IN_PROGRESS until
// managed scaling has examined its Auto Scaling group, then CREATE_COMPLETE or CREATE_FAILED.
// Clusters can use it meanwhile.
func (a *CapacityProviders) CreateCapacityProvider(
	ctx context.Context, p *cluster.CapacityProvider,
) (*cluster.CapacityProvider, error) {
	if err := checkProviderName(p.Name); err != nil {
		return nil, err
	}
	made := *p
	made.Head = cluster.Head{Cluster: state.Directory}
	made.UpdateStatus, made.CheckPending = cluster.ProviderCreating, true
	if err := checkProtectable(&made); err != nil {
		return nil, err
	}
	if err := ApplyScalingTags(&made); err != nil {
		return nil, err
	}
	err := a.retryRaces(ctx, "creating capacity provider "+p.Name, func() error {
		use, err := a.claimGroup(ctx, &made)
		if err != nil {
			return err
		}
		old, err := state.ReadRow[*cluster.CapacityProvider](ctx, a.State, state.KeyOf(p), "capacity provider "+p.Name)
		if err != nil {
			return err
		}
		made.Rev = 1
		if old != nil {
			if !old.Inactive {
				return cluster.Errorf(cluster.CodeClient,
					"The specified capacity provider already exists. To change the configuration of an existing "+
						"capacity provider, update the capacity provider.")
			}
			made.Rev = old.Rev + 1
		}
		return a.writeProvider(ctx, &made, handler.ClaimGroup(use, func(u *state.GroupUse) { u.Provider = made.Name }))
	})
	if err != nil {
		return nil, err
	}
	return &made, nil
}

// writeProvider writes a provider and the rows that change with it in one commit.
func (a *CapacityProviders) writeProvider(ctx context.Context, p *cluster.CapacityProvider, also ...state.Write) error {
	return a.State.Commit(ctx, state.Commit{
		Cluster: state.Directory, Version: state.NoVersion, Writes: append(also, state.Write{Put: p}),
	})
}

// checkProviderName refuses the names that ECS reserves, in any case.
func checkProviderName(name string) error {
	lower := strings.ToLower(name)
	for _, prefix := range []string{"aws", "ecs", "fargate"} {
		if strings.HasPrefix(lower, prefix) {
			return cluster.Errorf(cluster.CodeClient,
				"The specified capacity provider name is invalid. Up to 255 characters are allowed, including letters "+
					"(upper and lowercase), numbers, underscores, and hyphens. The name cannot be prefixed with "+
					"\"aws\", \"ecs\", or \"fargate\". Specify a valid name and try again.")
		}
	}
	return nil
}

// checkProtectable refuses managed termination protection without managed scaling (C6): nothing
// would ever release the protected instances.
func checkProtectable(p *cluster.CapacityProvider) error {
	if p.Protection && !p.Scaling.Enabled {
		return cluster.Errorf(cluster.CodeInvalidParameter,
			"The managed termination protection setting for the capacity provider is invalid. To enable managed "+
				"termination protection for a capacity provider, enable managed scaling and try again.")
	}
	return nil
}

// claimGroup returns who uses the provider's Auto Scaling group, if the provider may claim it. A
// group that another provider has is refused, because two would set its size against each other. A
// provider that is CREATE_FAILED has no claim.
func (a *CapacityProviders) claimGroup(ctx context.Context, p *cluster.CapacityProvider) (*state.GroupUse, error) {
	use, err := handler.ReadGroupUse(ctx, a.State, p.Group)
	if err != nil || use.Provider == "" || use.Provider == p.Name {
		return use, err
	}
	other, err := handler.FindProvider(ctx, a.State, use.Provider)
	if err == nil && other != nil && other.Group == p.Group && !other.HasFailedCreation() {
		err = cluster.Errorf(cluster.CodeClient,
			"The specified Auto Scaling group is already in use by the capacity provider %s.", other.Name)
	}
	return use, err
}

// UpdateCapacityProvider changes a provider's settings. Managed scaling cannot be switched on while
// two clusters use the provider (C7).
//
// Settings that the group must support are UPDATE_IN_PROGRESS until managed scaling has examined
// the group. If it does not support them, the previous settings return. While that is pending,
// further changes are an UpdateInProgressException. Managed scaling also examines the
// group again after any update of a provider that is CREATE_FAILED. The status is UPDATE_IN_PROGRESS
// then too: clients such as Terraform that wait for an update know no other.
func (a *CapacityProviders) UpdateCapacityProvider(
	ctx context.Context, c operation.UpdateCapacityProvider,
) (*cluster.CapacityProvider, error) {
	next, err := a.editProvider(ctx, c.Name, cluster.CodeInvalidParameter, func(p *cluster.CapacityProvider) error {
		if p.CheckPending || p.UpdateStatus == cluster.ProviderDeleting {
			return cluster.Errorf(cluster.CodeUpdateInProgress,
				"The specified capacity provider is in a busy state. Cannot perform the update until it is complete.")
		}
		before := cluster.ProviderSettings{Protection: p.Protection, Draining: p.Draining, Scaling: p.Scaling}
		scaling, err := c.Scaling.ApplyTo(p.Scaling)
		if err != nil {
			return err
		}
		p.Scaling = scaling
		p.Protection, p.Draining = valueOr(c.Protection, p.Protection), valueOr(c.Draining, p.Draining)
		p.ChangeStatus(cluster.ProviderUpdated)
		switch {
		// The group of a provider whose creation failed is examined again, with the changed settings.
		// There are no previous ones that worked.
		case p.GroupProblem != "":
			p.UpdateStatus, p.CheckPending = cluster.ProviderUpdating, true
		case p.Protection && !before.Protection || p.Scaling.Enabled && !before.Scaling.Enabled:
			p.UpdateStatus, p.CheckPending, p.PreviousSettings = cluster.ProviderUpdating, true, &before
		}
		if p.Scaling.Enabled && len(p.Clusters) > 1 {
			return cluster.Errorf(cluster.CodeInvalidParameter,
				"Managed scaling cannot be enabled: capacity provider %s is associated with the clusters %s, and may "+
					"be with one only.", p.Name, strings.Join(p.Clusters, ", "))
		}
		return checkProtectable(p)
	})
	if err != nil {
		return nil, err
	}
	for _, name := range next.Clusters {
		if err := a.requestAttachment(ctx, name); err != nil {
			return nil, err
		}
	}
	return next, nil
}

// requestAttachment asks managed scaling to make a cluster's attachments anew.
func (a *CapacityProviders) requestAttachment(ctx context.Context, clusterName string) error {
	return a.retryRaces(ctx, "attaching the capacity providers of "+clusterName, func() error {
		old, err := handler.FindClusterProviders(ctx, a.State, clusterName)
		if err != nil || old.Rev == 0 {
			return err
		}
		next := *old
		next.Rev++
		next.Status, next.AttachmentProblems, next.RequestedAt = cluster.AttachmentsInProgress, nil, a.Clock.Now()
		_, err = a.State.Write(ctx, state.Write{Put: &next})
		return err
	})
}

// editProvider applies f to a copy of the provider and commits the result with the claim to its
// group. f is applied again if another writer comes first. unknown is the code of the error if there
// is no such provider.
func (a *CapacityProviders) editProvider(
	ctx context.Context, name string, unknown cluster.Code, f func(*cluster.CapacityProvider) error,
) (*cluster.CapacityProvider, error) {
	var next cluster.CapacityProvider
	if cluster.IsFargateProvider(name) {
		return nil, cluster.Errorf(cluster.CodeClient, "The capacity provider %s is reserved by AWS and cannot be "+
			"changed or deleted. PutClusterCapacityProviders disassociates it from a cluster.", name)
	}
	err := a.retryRaces(ctx, "changing capacity provider "+name, func() error {
		old, err := a.requireProvider(ctx, name, unknown)
		if err != nil {
			return err
		}
		next = *old
		next.Rev++
		if err := f(&next); err != nil {
			return err
		}
		also, err := a.groupWrites(ctx, old, &next)
		if err != nil {
			return err
		}
		return a.writeProvider(ctx, &next, also...)
	})
	return &next, err
}

// groupWrites returns the writes of the group's claim that belong to a change of its provider. A
// deleted provider gives up the group. One that had failed to be created and is examined again
// claims it once more.
func (a *CapacityProviders) groupWrites(
	ctx context.Context, old, next *cluster.CapacityProvider,
) ([]state.Write, error) {
	switch {
	case next.Inactive:
		return handler.ReleaseProviderGroup(ctx, a.State, next)
	case old.HasFailedCreation() && next.CheckPending:
		use, err := a.claimGroup(ctx, next)
		if err != nil {
			return nil, err
		}
		return []state.Write{handler.ClaimGroup(use, func(u *state.GroupUse) { u.Provider = next.Name })}, nil
	}
	return nil, nil
}

// DeleteCapacityProvider deletes a provider that no cluster uses. One that a cluster had until now
// is DELETE_IN_PROGRESS until managed scaling has removed what it made there. As with ECS, the call
// also succeeds for one that a cluster has: the provider stays, and is DELETE_FAILED with the
// reason.
func (a *CapacityProviders) DeleteCapacityProvider(
	ctx context.Context, name string,
) (*cluster.CapacityProvider, error) {
	return a.editProvider(ctx, name, cluster.CodeClient, func(p *cluster.CapacityProvider) error {
		using, err := a.clustersUsing(ctx, p)
		switch {
		case err != nil:
			return err
		case len(using) > 0:
			p.UpdateStatus, p.FailedAt = cluster.ProviderDeleteFailed, a.Clock.Now()
			p.UpdateReason = fmt.Sprintf("The capacity provider cannot be deleted because it is associated with "+
				"cluster: %s. Remove the capacity provider from the cluster and try again.",
				strings.Join(using, ", "))
		case len(p.Clusters) > 0:
			p.ChangeStatus(cluster.ProviderDeleting)
		default:
			p.Delete(a.expiresAfter(a.Settings.KeepStopped))
		}
		return nil
	})
}

// clustersUsing returns the clusters that have the provider. Clusters that it was removed from, or
// that were deleted, keep their claim to it until managed scaling has removed what it made there.
func (a *CapacityProviders) clustersUsing(
	ctx context.Context, p *cluster.CapacityProvider,
) (using []string, err error) {
	for _, name := range p.Clusters {
		of, err := handler.FindClusterProviders(ctx, a.State, name)
		if err != nil {
			return nil, err
		}
		if slices.Contains(of.Providers, p.Name) {
			using = append(using, name)
		}
	}
	return using, nil
}

// DescribeCapacityProviders returns the providers named, and the rest as failures; all providers if
// none is named. Deleted ones are found by name while their rows are kept. Those of Fargate have no
// rows, only names.
func (a *CapacityProviders) DescribeCapacityProviders(
	ctx context.Context, names []string,
) ([]*cluster.CapacityProvider, []cluster.Failure, error) {
	all, err := handler.ListProviders(ctx, a.State)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range cluster.FargateProviders {
		all = append(all, &cluster.CapacityProvider{Name: name})
	}
	if len(names) == 0 {
		return slices.DeleteFunc(all, func(p *cluster.CapacityProvider) bool { return p.Inactive }), nil, nil
	}
	byName := map[string]*cluster.CapacityProvider{}
	for _, p := range all {
		byName[p.Name] = p
	}
	return describeEach(names, func(name string) (*cluster.CapacityProvider, error) { return byName[name], nil })
}

// TagCapacityProvider sets and removes tags of a provider. Tags of Berth's own change its managed
// scaling; then the attachments of its clusters are made anew.
func (a *CapacityProviders) TagCapacityProvider(
	ctx context.Context, name string, set map[string]string, remove []string,
) error {
	next, err := a.editProvider(ctx, name, cluster.CodeInvalidParameter, func(p *cluster.CapacityProvider) (err error) {
		if p.Tags, err = changedTags(name, p.Tags, set, remove); err != nil {
			return err
		}
		return ApplyScalingTags(p)
	})
	if err == nil && slices.ContainsFunc(cluster.ScalingTags,
		func(key string) bool { _, is := set[key]; return is || slices.Contains(remove, key) }) {
		for _, of := range next.Clusters {
			err = errors.Join(err, a.requestAttachment(ctx, of))
		}
	}
	return err
}

// ApplyScalingTags sets the parts of managed scaling that the provider's tags of Berth's own stand
// for. Without its tag a part has its default.
func ApplyScalingTags(p *cluster.CapacityProvider) error {
	for _, key := range cluster.ScalingTags {
		if err := cluster.ApplyScalingTag(&p.Scaling, key, p.Tags[key]); err != nil {
			return err
		}
	}
	return nil
}

// CapacityProviderTags returns a copy of a provider's tags.
func (a *CapacityProviders) CapacityProviderTags(ctx context.Context, name string) (map[string]string, error) {
	if cluster.IsFargateProvider(name) {
		return nil, nil
	}
	p, err := a.requireProvider(ctx, name, cluster.CodeInvalidParameter)
	if err != nil {
		return nil, err
	}
	return maps.Clone(p.Tags), nil
}
