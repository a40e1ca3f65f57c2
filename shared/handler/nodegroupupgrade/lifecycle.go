package nodegroupupgrade

import (
	"cmp"
	"context"
	"fmt"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/nodegroup"
	"berth/shared/state"
)

// createGroup completes a CREATING node group of an Auto Scaling group that the user has made: it
// becomes ACTIVE, and its nodes get their labels, or CREATE_FAILED with an issue that says why.
func (h *Handler) createGroup(ctx context.Context, g *cluster.NodeGroup) error {
	next := *g
	issue, err := h.completeGroup(ctx, &next)
	if err != nil {
		return err
	}
	if issue != nil {
		return making{h}.writeCreated(ctx, &next, []cluster.NodeGroupIssue{*issue})
	}
	if err := (making{h}).writeCreated(ctx, &next, nil); err != nil {
		return err
	}
	return h.labelActiveGroups(ctx, g.Cluster, []*cluster.NodeGroup{&next})
}

// completeGroup sets the target and the sizes of a new node group.
// An issue says why that is impossible, an error why it is not possible yet.
func (h *Handler) completeGroup(ctx context.Context, g *cluster.NodeGroup) (*cluster.NodeGroupIssue, error) {
	groups, err := h.Auto.DescribeGroups(ctx, []string{g.AutoScalingGroup})
	if err != nil {
		return nodegroup.GroupIssue(err, g.AutoScalingGroup)
	}
	if issue := nodegroup.UnfitIssue(g.AutoScalingGroup, groups); issue != nil {
		return issue, nil
	}
	auto := groups[0]
	if err := handler.OwnershipError(auto, h.Settings.Installation); err != nil {
		return nodegroup.GroupIssue(err, auto.Name)
	}
	if issue, err := registeredElsewhere(ctx, h.State, g, auto); issue != nil || err != nil {
		return issue, err
	}
	target, template := g.Target, cmp.Or(g.Target.SourceTemplate, g.Target.SourceName)
	if template != "" {
		target, err = completeTarget(ctx, h.Templates, target, nodegroup.SourceTemplate(target),
			nodegroup.TargetFromTemplate)
	} else {
		ref := nodegroup.ParseTemplate(auto.Template)
		template = ref.ID
		target, err = completeTarget(ctx, h.Templates, target, ref, nodegroup.RegularTarget)
	}
	if err != nil {
		return nodegroup.TemplateIssue(err, template)
	}
	g.Target = target
	// The caller gave no sizes, so the node group takes those of the Auto Scaling group.
	if g.Sizes.Max == 0 {
		g.Sizes = sizesOf(auto)
		return nil, nil
	}
	change := cluster.SizesChange{Min: &g.Sizes.Min, Max: &g.Sizes.Max, Desired: &g.Sizes.Desired}
	return nodegroup.GroupIssue(h.Updates.SetSizes(ctx, auto.Name, change), auto.Name)
}

// registeredElsewhere returns an issue if an instance of the group has registered with another
// cluster: an update would terminate machines of that one.
func registeredElsewhere(
	ctx context.Context, store state.Store, g *cluster.NodeGroup, auto *cluster.AutoScalingGroup,
) (issue *cluster.NodeGroupIssue, err error) {
	err = state.ForEachCluster(ctx, store, func(name string) error {
		if name == g.Cluster || issue != nil {
			return nil
		}
		for _, i := range auto.Instances {
			registered, err := handler.HasRegistered(ctx, store, name, i.ID)
			if err != nil {
				return err
			}
			if registered {
				issue = nodegroup.ElsewhereIssue(auto.Name, i.ID, name)
				return nil
			}
		}
		return nil
	})
	return issue, err
}

// completeTarget completes an update's target by what a launch template version says of it.
func completeTarget(
	ctx context.Context, templates handler.LaunchTemplates, t cluster.UpdateTarget, from cluster.TemplateRef,
	complete func(cluster.UpdateTarget, *cluster.LaunchTemplate) (cluster.UpdateTarget, error),
) (cluster.UpdateTarget, error) {
	lt, err := templates.LaunchTemplate(ctx, from)
	if err != nil {
		return t, fmt.Errorf("describing the launch template: %w", err)
	}
	return complete(t, lt)
}

// deleteGroup deletes the rows of a DELETING node group, its own last, so that what is left after a
// crash is found again. It deletes its own row only as it was read: somebody may have made a node
// group of the same name since.
func deleteGroup(ctx context.Context, store state.Store, g *cluster.NodeGroup) error {
	updates, err := store.List(ctx, state.Prefix(g.Cluster, state.PrefixUpdate+g.Name+"#"))
	if err != nil {
		return fmt.Errorf("listing its updates: %w", err)
	}
	// Read again: another environment may have deleted it, and somebody created one of its name.
	row, err := store.Get(ctx, state.KeyOf(g))
	if now, ok := row.(*cluster.NodeGroup); err != nil || !ok || now.ID != g.ID {
		return cluster.Wrap(err, "reading it again")
	}
	for _, row := range updates {
		key := state.KeyOf(row)
		if _, err := store.Write(ctx, state.Write{Delete: &key}); err != nil {
			return fmt.Errorf("deleting %s: %w", key.Sort, err)
		}
	}
	writes, err := handler.ReleaseGroup(ctx, store, g.AutoScalingGroup, func(u *state.GroupUse) (was bool) {
		was = u.NodeGroup == g.Ref()
		u.NodeGroup = cluster.NodeGroupRef{}
		return was
	})
	if err != nil {
		return err
	}
	key := state.KeyOf(g)
	writes = append(writes, state.Write{Delete: &key, Rev: g.Rev})
	return state.IgnoreConflict(
		store.Commit(ctx, state.Commit{Cluster: g.Cluster, Version: state.NoVersion, Writes: writes}))
}
