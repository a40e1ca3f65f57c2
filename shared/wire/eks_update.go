package wire

import (
	"context"
	"encoding/json"

	"berth/shared/cluster"
)

type eksConfigInput struct {
	Labels             json.RawMessage   `json:"labels"`
	Taints             json.RawMessage   `json:"taints"`
	ScalingConfig      *eksScalingConfig `json:"scalingConfig"`
	UpdateConfig       *eksUpdateConfig  `json:"updateConfig"`
	NodeRepairConfig   json.RawMessage   `json:"nodeRepairConfig"`
	WarmPoolConfig     json.RawMessage   `json:"warmPoolConfig"`
	ClientRequestToken string            `json:"clientRequestToken"`
}

type eksVersionInput struct {
	Version            string             `json:"version"`
	ReleaseVersion     string             `json:"releaseVersion"`
	LaunchTemplate     *eksLaunchTemplate `json:"launchTemplate"`
	Force              bool               `json:"force"`
	ForceProtected     bool               `json:"forceProtected"` // of Berth's own: force stops protected tasks, too (N4)
	ClientRequestToken string             `json:"clientRequestToken"`
}

func (e *eksServer) updateNodegroupConfig(ctx context.Context, c *eksCall) (any, error) {
	var in eksConfigInput
	if err := decode(c.body, &in); err != nil {
		return nil, err
	}
	if err := checkNames(c.cluster, c.nodeGroup); err != nil {
		return nil, err
	}
	for name, raw := range map[string]json.RawMessage{
		"labels": in.Labels, "taints": in.Taints, "nodeRepairConfig": in.NodeRepairConfig, "warmPoolConfig": in.WarmPoolConfig,
	} {
		if given(raw) {
			return nil, invalid("%s is not supported: only scalingConfig and updateConfig can be changed.", name)
		}
	}
	change := cluster.NodeGroupChange{Cluster: c.cluster, NodeGroup: c.nodeGroup, Token: in.ClientRequestToken}
	if s := in.ScalingConfig; s != nil {
		change.Sizes = &cluster.SizesChange{Min: s.MinSize, Max: s.MaxSize, Desired: s.DesiredSize}
	}
	if in.UpdateConfig != nil {
		config, err := in.UpdateConfig.read()
		if err != nil {
			return nil, err
		}
		change.Config = &config
	}
	if change.Sizes == nil && change.Config == nil {
		return nil, invalid("The request changes nothing.")
	}
	plain := in
	plain.ClientRequestToken = ""
	var err error
	if change.Params, err = digest(plain); err != nil {
		return nil, err
	}
	return e.update(e.groups.UpdateNodeGroupConfig(ctx, change))
}

func (e *eksServer) updateNodegroupVersion(ctx context.Context, c *eksCall) (any, error) {
	var in eksVersionInput
	if err := decode(c.body, &in); err != nil {
		return nil, err
	}
	change, err := in.Change(c.cluster, c.nodeGroup)
	if err != nil {
		return nil, err
	}
	return e.update(e.groups.UpdateNodeGroupVersion(ctx, change))
}

// Change is the update of a node group that the request asks for.
func (in *eksVersionInput) Change(clusterName, nodeGroup string) (change cluster.VersionChange, err error) {
	if err := checkNames(clusterName, nodeGroup); err != nil {
		return change, err
	}
	if in.ForceProtected && !in.Force {
		return change, invalid("forceProtected needs force.")
	}
	change = cluster.VersionChange{
		Cluster: clusterName, NodeGroup: nodeGroup, Version: in.Version, ReleaseVersion: in.ReleaseVersion,
		Force: in.Force, ForceProtected: in.ForceProtected, Token: in.ClientRequestToken,
	}
	if change.Template, err = in.LaunchTemplate.read(); err != nil {
		return change, err
	}
	plain := *in
	plain.ClientRequestToken = ""
	change.Params, err = digest(plain)
	return change, err
}

func (e *eksServer) update(u *cluster.Update, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return eksUpdateOutput{updateOut(u)}, nil
}

// ofNodeGroups refuses what only other updates of EKS have.
func (c *eksCall) ofNodeGroups() error {
	for _, other := range []string{"addonName", "capabilityName"} {
		if c.query.Has(other) {
			return invalid("%s is not supported: there are node groups only.", other)
		}
	}
	return nil
}

func (e *eksServer) describeUpdate(ctx context.Context, c *eksCall) (any, error) {
	if err := c.ofNodeGroups(); err != nil {
		return nil, err
	}
	if err := c.checkNames(); err != nil {
		return nil, err
	}
	// The cluster itself has no updates.
	if !updateIDs.MatchString(c.update) || c.nodeGroup == "" {
		return nil, cluster.Errorf(cluster.CodeResourceNotFound, "No update found for ID: %.100s", c.update)
	}
	return e.update(e.groups.NodeGroupUpdate(ctx, c.cluster, c.nodeGroup, c.update))
}

func (e *eksServer) listUpdates(ctx context.Context, c *eksCall) (any, error) {
	if err := c.ofNodeGroups(); err != nil {
		return nil, err
	}
	if err := c.checkNames(); err != nil {
		return nil, err
	}
	found, next, err := c.page(ctx, "updates", e.groups.ListNodeGroupUpdates)
	if err != nil {
		return nil, err
	}
	return eksListUpdatesOutput{found, next}, nil
}
