package handler

import (
	"context"
	"fmt"
	"strconv"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
)

// UpdateNodeGroupVersion begins an update of a node group (N1), which node-group-upgrade carries out. It fails with
// ResourceInUseException while another is in progress. The same clientRequestToken with the same parameters gives the same
// update again.
func (n *NodeGroups) UpdateNodeGroupVersion(ctx context.Context, change cluster.VersionChange) (*cluster.Update, error) {
	g, last, err := n.read(ctx, change.Cluster, change.NodeGroup)
	if err != nil {
		return nil, err
	}
	id := n.updateID(g, change.Token)
	if old, err := n.again(ctx, g, id, change.Params); err != nil || old != nil {
		return old, err
	}
	if g.Status == cluster.NodeGroupDeleting {
		return nil, cluster.Errorf(cluster.CodeResourceInUse, "Nodegroup %s is being deleted", g.Name)
	}
	target, err := n.newTarget(ctx, g, change)
	if err != nil {
		return nil, err
	}
	u, err := nodegroup.Start(g, nodegroup.Request{
		ID: id, Target: target, Force: change.Force, ForceProtected: change.ForceProtected, Seed: seedOf(id),
	}, last, n.Clock.Now())
	if err != nil {
		return nil, err
	}
	if change.DryRun {
		return u, nil
	}
	u.Digest = change.Params
	next := *g
	next.Status, next.Update = cluster.NodeGroupUpdating, u.ID
	return u, n.begin(ctx, &next, u)
}

// newTarget is what an update's nodes are to be made of. A node group stays with a launch template of the user's own, or
// without one (EKS API reference, UpdateNodegroupVersion).
func (n *NodeGroups) newTarget(ctx context.Context, g *cluster.NodeGroup, change cluster.VersionChange) (t cluster.UpdateTarget, err error) {
	t = cluster.UpdateTarget{Version: change.Version, ReleaseVersion: change.ReleaseVersion, Image: change.ReleaseVersion}
	ref := change.Template
	switch {
	case ref != nil && g.Target.SourceTemplate == "":
		return t, cluster.Errorf(cluster.CodeInvalidRequest, "You cannot specify a launch template: node group %s was created without one", g.Name)
	case ref != nil && (ref.ID != "" && ref.ID != g.Target.SourceTemplate || ref.Name != "" && ref.Name != g.Target.SourceName):
		return t, cluster.Errorf(cluster.CodeInvalidRequest, "You cannot change the launch template of node group %s, only its version: it is %s", g.Name, g.Target.SourceTemplate)
	case ref != nil:
		return n.custom(ctx, *ref, t)
	case g.Target.SourceTemplate != "":
		return n.custom(ctx, cluster.TemplateRef{ID: g.Target.SourceTemplate, Version: g.Target.SourceVersion}, t)
	case t.Image == "":
		return t, cluster.Errorf(cluster.CodeInvalidParameter, "The update must name a releaseVersion, the image of the new nodes")
	}
	return t, nil
}

// UpdateNodeGroupConfig changes sizes and update configuration of a node group at once; the update is Successful when it is
// answered. It fails with ResourceInUseException while nodes are updated.
func (n *NodeGroups) UpdateNodeGroupConfig(ctx context.Context, change cluster.NodeGroupChange) (*cluster.Update, error) {
	g, last, err := n.read(ctx, change.Cluster, change.NodeGroup)
	if err != nil {
		return nil, err
	}
	id := n.updateID(g, change.Token)
	if old, err := n.again(ctx, g, id, change.Params); err != nil || old != nil {
		return old, err
	}
	if g.Status == cluster.NodeGroupDeleting || last != nil && !last.Ended() {
		return nil, cluster.Errorf(cluster.CodeResourceInUse, "Nodegroup %s cannot be updated as it is currently not in Active State", g.Name)
	}
	now := n.Clock.Now()
	next := *g
	u := &cluster.Update{
		Head: cluster.Head{Cluster: g.Cluster, Rev: 1, Expires: n.expiry(keepUpdate)}, NodeGroup: g.Name, ID: id, Status: cluster.UpdateSuccessful,
		Type: cluster.UpdateConfiguration, CreatedAt: now, EndedAt: now, Digest: change.Params, Params: configParams(change),
	}
	if change.Config != nil {
		if next.Config = *change.Config; next.Config.Strategy == "" {
			next.Config.Strategy = g.Config.Strategy
		}
		if err := nodegroup.CheckConfig(next.Config); err != nil {
			return nil, err
		}
	}
	if change.Sizes != nil {
		// What managed scaling has made of the desired capacity stays unless the caller says otherwise.
		group, err := n.group(ctx, g.AutoScalingGroup)
		if err != nil {
			return nil, err
		}
		next.Sizes = change.Sizes.Apply(cluster.Sizes{Min: group.Min, Max: group.Max, Desired: group.Desired})
		if err := n.resize(ctx, g.AutoScalingGroup, next.Sizes); err != nil {
			return nil, err
		}
	}
	return u, n.begin(ctx, &next, u)
}

func configParams(c cluster.NodeGroupChange) (out []cluster.UpdateParam) {
	add := func(kind string, v *int) {
		if v != nil {
			out = append(out, cluster.UpdateParam{Type: kind, Value: strconv.Itoa(*v)})
		}
	}
	if s := c.Sizes; s != nil {
		add("MinSize", s.Min)
		add("MaxSize", s.Max)
		add("DesiredSize", s.Desired)
	}
	if u := c.Config; u != nil {
		for kind, v := range map[string]int{"MaxUnavailable": u.MaxUnavailable, "MaxUnavailablePercentage": u.MaxUnavailablePercentage} {
			if v > 0 {
				add(kind, &v)
			}
		}
		if u.Strategy != "" {
			out = append(out, cluster.UpdateParam{Type: "UpdateStrategy", Value: string(u.Strategy)})
		}
	}
	return out
}

// begin commits an update with its node group, g being the next version of what was read.
func (n *NodeGroups) begin(ctx context.Context, g *cluster.NodeGroup, u *cluster.Update) error {
	g.Rev++
	g.ModifiedAt = n.Clock.Now()
	err := n.State.Commit(ctx, cluster.Commit{Cluster: g.Cluster, Version: cluster.NoVersion, Writes: []cluster.Write{{Put: g}, {Put: u}}})
	return inUse(err, g.Name)
}

// updateID is the id of an update: with a clientRequestToken the same again.
func (n *NodeGroups) updateID(g *cluster.NodeGroup, token string) string {
	if token == "" {
		return uuid(n.NewID())
	}
	return uuid(cluster.Digest("update", g.Cluster, g.Name, g.ID, token))
}

// again is the update that a clientRequestToken made before, nil for none; with other parameters it is an
// InvalidParameterException.
func (n *NodeGroups) again(ctx context.Context, g *cluster.NodeGroup, id, params string) (*cluster.Update, error) {
	old, err := n.update(ctx, g.Cluster, g.Name, id)
	switch {
	case err != nil:
		return nil, fmt.Errorf("looking up update %s: %w", id, err)
	case old != nil && old.Digest != params:
		return nil, cluster.Errorf(cluster.CodeInvalidParameter, "The clientRequestToken was used with other parameters")
	}
	return old, nil
}
