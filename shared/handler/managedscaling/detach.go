package managedscaling

import (
	"context"
	"fmt"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/scaling"
	"berth/shared/state"
)

// detachProvider removes everything that was made for a provider that the cluster no longer has,
// and then gives up the claim, so that another cluster may have the provider. If the cluster has it
// again meanwhile, it keeps it, and everything is made again.
//
// The order matters: drains are undone and protection is ended while the history still names them,
// and the history is deleted with the claim.
func (h *Handler) detachProvider(ctx context.Context, of *cluster.ClusterProviders, name string) error {
	p, err := handler.FindProvider(ctx, h.State, name)
	if err != nil {
		return err
	}
	history, err := readHistory(ctx, h.State, of.Cluster, name)
	if err != nil {
		return err
	}
	if err := h.undrainAll(ctx, of.Cluster, history.Drains); err != nil {
		return err
	}
	if history.Protecting {
		if err := h.endProtection(ctx, of.Cluster, history.Attachment.Group); err != nil {
			return err
		}
	}
	group := history.Attachment.Group
	if group == "" {
		return h.commitDetached(ctx, of, p, name, history)
	}
	begun := *history
	begun.Attachment = cluster.Attachment{Group: group, Incomplete: true}
	if err := writeHistory(ctx, h.State, history, &begun); err != nil {
		return err
	}
	a := &attacher{Handler: h, cluster: of.Cluster, provider: scaling.UnneededProvider(of.Cluster, p, name, group)}
	if err = a.removeAttachments(ctx); err == nil {
		err = h.commitDetached(ctx, of, p, name, &begun)
	}
	if err != nil {
		return a.recoverFromRace(ctx, &begun, err)
	}
	return nil
}

// commitDetached commits that the cluster no longer has a provider. The commit fails if somebody
// has changed the cluster's providers meanwhile.
func (h *Handler) commitDetached(
	ctx context.Context, of *cluster.ClusterProviders, p *cluster.CapacityProvider, name string,
	history *cluster.ScalingHistory,
) error {
	next := *of
	next.Rev++
	next.Detaching = removeName(next.Detaching, name)
	writes := []state.Write{{Put: &next}}
	if p != nil {
		released, err := h.withoutCluster(ctx, p, of.Cluster)
		if err != nil {
			return err
		}
		writes = append(writes, released...)
	}
	if key := state.KeyOf(history); history.Rev > 0 {
		writes = append(writes, state.Write{Delete: &key, Rev: history.Rev})
	}
	err := h.State.Commit(ctx, state.Commit{Cluster: next.Cluster, Version: state.NoVersion, Writes: writes})
	if err == nil {
		*of = next
	}
	return cluster.Wrap(err, "letting go of it")
}

// endProtection ends the protection of a group's instances from scale-in. First the records that
// name the group are cleared, so that dispatch does not protect an instance again.
func (h *Handler) endProtection(ctx context.Context, clusterName, group string) error {
	instances, err := state.ListRows[*cluster.Instance](
		ctx, h.State, state.Prefix(clusterName, state.PrefixInstance), "instances")
	if err != nil {
		return err
	}
	var noted []string
	for _, i := range instances {
		if i.ReleasedIn == group {
			noted = append(noted, i.ID)
		}
	}
	if err := h.markReleasable(ctx, clusterName, noted, ""); err != nil {
		return err
	}
	groups, err := h.Groups.DescribeGroups(ctx, []string{group})
	if err != nil {
		return fmt.Errorf("describing Auto Scaling group %s: %w", group, err)
	}
	var protected []string
	for _, g := range groups {
		if handler.OwnershipProblem(g, h.Settings.Installation) != "" {
			continue // its owner decides
		}
		for _, i := range g.Instances {
			if i.IsInService() && i.Protected {
				protected = append(protected, i.ID)
			}
		}
	}
	if len(protected) == 0 {
		return nil
	}
	return cluster.Wrap(h.Groups.SetInstanceProtection(ctx, group, protected, false),
		"ending the protection of instances")
}

// undrainAll makes the instances ACTIVE again that consolidation was emptying (C5). Those that ECS
// no longer has are skipped.
func (h *Handler) undrainAll(ctx context.Context, clusterName string, drains []cluster.Drain) error {
	for _, d := range drains {
		if d.Finished {
			continue
		}
		err := h.Hosts.ActivateInstance(ctx, clusterName, d.Instance)
		if code := cluster.ErrorCode(err); code == cluster.CodeClient || code == cluster.CodeInvalidParameter {
			continue // it is gone
		}
		if err != nil {
			return fmt.Errorf("having instance %s take tasks again: %w", d.Instance, err)
		}
		if err := h.refreshInstances(ctx, clusterName, []string{d.Instance}); err != nil {
			return err
		}
	}
	return nil
}
