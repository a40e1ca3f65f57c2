package api

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
	"berth/shared/operation"
	"berth/shared/state"
)

// UpdateNodeGroupVersion begins an upgrade of a node group's nodes (N1), which node-group-upgrade
// carries out. While another update is in progress it is a ResourceInUseException. The same
// clientRequestToken with the same parameters returns the same update. With DryRun the update is
// returned and not written.
func (n *NodeGroups) UpdateNodeGroupVersion(
	ctx context.Context, change operation.UpdateNodeGroupVersion,
) (*cluster.Update, error) {
	g, last, err := n.findWithUpdate(ctx, change.Cluster, change.NodeGroup)
	if err != nil {
		return nil, err
	}
	id := n.updateID(g, change.Token)
	if old, err := n.findSameUpdate(ctx, g, id, change.Params); err != nil || old != nil {
		return old, err
	}
	if err := checkActive(g); err != nil {
		return nil, err
	}
	// From here on nothing is read; the row says all that node-group-upgrade needs.
	target, err := newTarget(g, change)
	if err != nil {
		return nil, err
	}
	u, err := nodegroup.StartUpdate(g, nodegroup.Request{
		ID: id, Target: target, Force: change.Force, ForceProtected: change.ForceProtected, Seed: seedFromID(id),
		Waits: cluster.UpdateTimeouts{Domain: n.Settings.UpgradeDomainWait},
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
	return u, n.commitUpdate(ctx, &next, u)
}

// newTarget returns what an upgrade's nodes are to be made of: an image (releaseVersion), or a
// version of the user's own launch template. For a node group that Berth makes it is a release, the
// newest if none is named. Like in EKS, a node group stays with the template that
// it was created with, or without one (EKS API reference, UpdateNodegroupVersion).
func newTarget(g *cluster.NodeGroup, change operation.UpdateNodeGroupVersion) (t cluster.UpdateTarget, err error) {
	t = cluster.UpdateTarget{Version: change.Version, ReleaseVersion: change.ReleaseVersion}
	ref, own := change.Template, g.Target.SourceTemplate
	switch {
	case ref != nil && own == "":
		return t, cluster.Errorf(cluster.CodeInvalidRequest,
			"You cannot specify a launch template: node group %s was created without one", g.Name)
	case ref != nil && (ref.ID != "" && ref.ID != own || ref.Name != "" && ref.Name != g.Target.SourceName):
		return t, cluster.Errorf(cluster.CodeInvalidRequest,
			"You cannot change the launch template of node group %s, only its version: it is %s", g.Name, own)
	case g.IsMade() && own == "":
		t.AMIType = g.Target.AMIType
		return t, nil
	case own == "" && t.ReleaseVersion == "":
		return t, cluster.Errorf(cluster.CodeInvalidParameter,
			"The update must name a releaseVersion, the image of the new nodes")
	case own == "":
		t.Image = t.ReleaseVersion
		return t, nil
	}
	t.SourceTemplate, t.SourceName, t.SourceVersion = own, g.Target.SourceName, g.Target.SourceVersion
	t.AMIType = g.Target.AMIType
	if ref != nil {
		t.SourceVersion = ref.Version
	}
	return t, nil
}

// UpdateNodeGroupConfig changes a node group's sizes, labels and update configuration. A change of
// the configuration alone is Successful at once. Sizes and labels are set by node-group-upgrade,
// which fails the update if the sizes contradict the group's. While another update is in progress
// it is a ResourceInUseException.
func (n *NodeGroups) UpdateNodeGroupConfig(
	ctx context.Context, change operation.UpdateNodeGroupConfig,
) (*cluster.Update, error) {
	g, err := n.DescribeNodeGroup(ctx, change.Cluster, change.NodeGroup)
	if err != nil {
		return nil, err
	}
	id := n.updateID(g, change.Token)
	if old, err := n.findSameUpdate(ctx, g, id, change.Params); err != nil || old != nil {
		return old, err
	}
	if err := checkActive(g); err != nil {
		return nil, err
	}
	u := &cluster.Update{
		Head: cluster.Head{Cluster: g.Cluster, Rev: 1}, NodeGroup: g.Name, ID: id, Status: cluster.UpdateInProgress,
		CreatedAt: n.Clock.Now(), Type: cluster.UpdateConfiguration, Digest: change.Params,
		Params: configParams(change), UpdateSpec: cluster.UpdateSpec{Config: g.Config, Sizes: change.Sizes,
			Labels: change.Labels},
	}
	if change.Config != nil {
		u.Config = g.Config.MergedWith(*change.Config)
		if err := nodegroup.ValidateConfig(u.Config); err != nil {
			return nil, err
		}
	}
	if change.Labels != nil {
		after := change.Labels.ApplyTo(g.NodeLabels)
		if err := checkLabels(after, g.Target.SourceTemplate != ""); err != nil {
			return nil, err
		}
	}
	next := *g
	if change.Sizes == nil && change.Labels == nil {
		next.Config = u.Config
		u.Status, u.EndedAt, u.Expires = cluster.UpdateSuccessful, u.CreatedAt, n.expiresAfter(KeepUpdate)
		return u, n.commitUpdate(ctx, &next, u)
	}
	// Only node-group-upgrade reads the group's present sizes, so it checks the rest.
	if change.Sizes != nil {
		if err := change.Sizes.Validate(); err != nil {
			return nil, err
		}
	}
	next.Status, next.ConfigUpdate = cluster.NodeGroupUpdating, u.ID
	return u, n.commitUpdate(ctx, &next, u)
}

// configParams returns the parameters of a configuration update as EKS names them. Those that were
// not given are left out.
func configParams(c operation.UpdateNodeGroupConfig) (out []cluster.UpdateParam) {
	add := func(kind string, v *int) {
		if v != nil {
			out = append(out, cluster.UpdateParam{Type: kind, Value: strconv.Itoa(*v)})
		}
	}
	addText := func(kind string, given bool, v any) {
		if given {
			text, _ := json.Marshal(v) // texts cannot fail
			out = append(out, cluster.UpdateParam{Type: kind, Value: string(text)})
		}
	}
	if l := c.Labels; l != nil {
		addText("LabelsToAdd", len(l.Set) > 0, l.Set)
		addText("LabelsToRemove", len(l.Remove) > 0, l.Remove)
		addText("TaintsToAdd", len(l.SetTaints) > 0, taintTexts(l.SetTaints))
		addText("TaintsToRemove", len(l.RemoveTaints) > 0, taintTexts(l.RemoveTaints))
	}
	if s := c.Sizes; s != nil {
		add("MinSize", s.Min)
		add("MaxSize", s.Max)
		add("DesiredSize", s.Desired)
	}
	if u := c.Config; u != nil {
		for kind, v := range map[string]int{"MaxUnavailable": u.MaxUnavailable,
			"MaxUnavailablePercentage": u.MaxUnavailablePercentage} {
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

// A taintText is a taint as the parameters of an update have it.
type taintText struct {
	Effect cluster.TaintEffect `json:"effect"`
	Value  string              `json:"value"`
	Key    string              `json:"key"`
}

func taintTexts(taints []cluster.Taint) (out []taintText) {
	for _, t := range taints {
		out = append(out, taintText{t.Effect, t.Value, t.Key})
	}
	return out
}

// commitUpdate writes an update together with its node group. g is the node group after the change,
// still with the revision that was read.
func (n *NodeGroups) commitUpdate(ctx context.Context, g *cluster.NodeGroup, u *cluster.Update) error {
	g.Rev++
	g.ModifiedAt, g.FailedConfigUpdate = n.Clock.Now(), ""
	err := n.State.Commit(ctx, state.Commit{Cluster: g.Cluster, Version: state.NoVersion,
		Writes: []state.Write{{Put: g}, {Put: u}}})
	return conflictError(err, g.Name)
}

// updateID returns the id of an update. With a clientRequestToken it derives from the token, so
// that the same call leads to the same row.
func (n *NodeGroups) updateID(g *cluster.NodeGroup, token string) string {
	if token == "" {
		return formatUUID(n.NewID())
	}
	return formatUUID(cluster.Digest("update", g.Cluster, g.Name, g.ID, token))
}

// findSameUpdate returns the update that an earlier call with the same clientRequestToken made, nil
// if none did. The token with other parameters is an InvalidParameterException.
func (n *NodeGroups) findSameUpdate(
	ctx context.Context, g *cluster.NodeGroup, id, params string,
) (*cluster.Update, error) {
	old, err := n.findUpdate(ctx, g.Cluster, g.Name, id)
	switch {
	case err != nil:
		return nil, fmt.Errorf("looking up update %s: %w", id, err)
	case old != nil && old.Digest != params:
		return nil, cluster.Errorf(cluster.CodeInvalidParameter,
			"The clientRequestToken was used with other parameters")
	}
	return old, nil
}
