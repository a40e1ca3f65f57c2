package nodegroupupgrade

import (
	"context"
	"fmt"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/nodegroup"
	"berth/shared/state"
)

// updateConfig carries out an update of sizes and labels.
func (h *Handler) updateConfig(ctx context.Context, g *cluster.NodeGroup) error {
	u, err := readUpdate(ctx, h.State, g, g.ConfigUpdate)
	if err != nil {
		return err
	}
	if u == nil || u.Sizes == nil && u.Labels == nil {
		return h.finishUpdate(ctx, g, nil)
	}
	// The end of the update and the changed node group are committed together.
	ended, next := *u, *g
	ended.EndedAt = h.Clock.Now()
	err = configuring{h}.applyConfig(ctx, &next, u)
	if why := cluster.PermanentError(err); why != nil {
		ended.Status, ended.Errors = cluster.UpdateFailed, []cluster.UpdateError{
			nodegroup.RefusalError(why, g.AutoScalingGroup),
		}
		return h.finishUpdate(ctx, &next, &ended)
	}
	if err != nil {
		return err
	}
	ended.Status, next.Config = cluster.UpdateSuccessful, u.Config
	return h.finishUpdate(ctx, &next, &ended)
}

// A configuring changes the configuration of a node group.
type configuring struct{ *Handler }

// applyConfig changes sizes and labels of the group and its nodes, and then in the row. With an
// error the row has what was changed, and the sizes that the group has.
func (h configuring) applyConfig(ctx context.Context, g *cluster.NodeGroup, u *cluster.Update) error {
	groups, err := h.Auto.DescribeGroups(ctx, []string{g.AutoScalingGroup})
	if err != nil {
		return fmt.Errorf("describing Auto Scaling group %s: %w", g.AutoScalingGroup, err)
	}
	if len(groups) == 0 {
		return cluster.Errorf(cluster.CodeResourceNotFound, "The Auto Scaling group no longer exists")
	}
	auto := groups[0]
	g.Sizes = sizesOf(auto)
	if err := handler.OwnershipError(auto, h.Settings.Installation); err != nil {
		return err
	}
	if u.Sizes != nil {
		sizes, err := u.Sizes.ApplyTo(g.Sizes)
		if err == nil {
			err = h.Updates.SetSizes(ctx, auto.Name, *u.Sizes)
		}
		if err != nil {
			return fmt.Errorf("resizing Auto Scaling group %s: %w", auto.Name, err)
		}
		g.Sizes = sizes
	}
	if u.Labels == nil {
		return nil
	}
	labelled := *g
	labelled.NodeLabels = u.Labels.ApplyTo(g.NodeLabels)
	template, err := h.relabelGroup(ctx, &labelled, auto)
	if err != nil {
		return err
	}
	if !g.IsMade() || !nodegroup.JoinsByBerth(g.Target) {
		// Their user data is the user's: it may set an attribute that is no label any more.
		labelled.RemovedLabels = nil
	}
	g.NodeLabels = labelled.NodeLabels
	nodegroup.LaunchFrom(g, template)
	return nil
}

// relabelGroup gives the group's nodes its labels as they are now. Nodes of a group that Berth
// makes have them from their launch on. It returns the launch template version that has them; empty
// if the group launches from the one that it had.
func (h configuring) relabelGroup(
	ctx context.Context, g *cluster.NodeGroup, auto *cluster.AutoScalingGroup,
) (template string, err error) {
	if g.IsMade() && nodegroup.JoinsByBerth(g.Target) {
		if template, err = h.useUserData(ctx, g, auto); err != nil {
			return "", fmt.Errorf("changing the user data of node group %s: %w", g.Name, err)
		}
	}
	instances, err := readRows(ctx, h.State, g.Cluster, state.PrefixInstance)
	if err != nil {
		return "", err
	}
	rows := nodegroup.NewRows()
	rows.AddAll(instances, h.Clock.Now())
	return template, labelling(h).labelGroup(ctx, g, auto, rows)
}

// useUserData lets a group that Berth makes launch from a launch template version with the node
// group's labels in its user data, which it returns. It makes one if the present version has
// others.
func (h configuring) useUserData(
	ctx context.Context, g *cluster.NodeGroup, auto *cluster.AutoScalingGroup,
) (template string, err error) {
	from, err := h.Templates.LaunchTemplate(ctx, nodegroup.ParseTemplate(auto.Template))
	if err != nil {
		return "", err
	}
	userData, err := h.userData(ctx, g, g.Target)
	if err != nil || from.UserData == userData {
		return auto.Template, err
	}
	description := nodegroup.UserDataDescription(g, userData, from)
	made, err := h.Templates.FindVersion(ctx, from.ID, description)
	if err == nil && made == nil {
		ref := nodegroup.ParseTemplate(from.String())
		made, err = h.Templates.CreateVersion(ctx, cluster.NewTemplateVersion{Template: from.ID, From: ref,
			Description: description, Image: from.Image, UserData: userData})
	}
	if err != nil {
		return "", err
	}
	return made.String(), h.Updates.UseTemplate(ctx, auto.Name, made.String())
}

// keepTemplate lets the group of an ACTIVE node group launch from the version that the last change
// had it launch from. A call of an earlier change that arrived late may have set another: Auto
// Scaling knows no condition.
func (h configuring) keepTemplate(ctx context.Context, g *cluster.NodeGroup, auto *cluster.AutoScalingGroup) error {
	wanted := nodegroup.LaunchesFrom(g)
	if wanted == "" || auto.Template == wanted {
		return nil
	}
	if err := handler.OwnershipError(auto, h.Settings.Installation); err != nil {
		return err
	}
	return h.Updates.UseTemplate(ctx, auto.Name, wanted)
}
