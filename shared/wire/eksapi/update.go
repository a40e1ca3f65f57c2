package eksapi

import (
	"context"
	"encoding/json"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/wire/awsjson"
	"berth/shared/wire/input"
)

type configInput struct {
	Labels             json.RawMessage `json:"labels"`
	Taints             json.RawMessage `json:"taints"`
	ScalingConfig      *scalingConfig  `json:"scalingConfig"`
	UpdateConfig       *updateConfig   `json:"updateConfig"`
	NodeRepairConfig   json.RawMessage `json:"nodeRepairConfig"`
	WarmPoolConfig     json.RawMessage `json:"warmPoolConfig"`
	ClientRequestToken string          `json:"clientRequestToken"`
}

// VersionInput is the input of UpdateNodegroupVersion.
type VersionInput struct {
	Version            string          `json:"version"`
	ReleaseVersion     string          `json:"releaseVersion"`
	LaunchTemplate     *launchTemplate `json:"launchTemplate"`
	Force              bool            `json:"force"`
	ForceProtected     bool            `json:"forceProtected"` // of Berth's own: force stops protected tasks, too (N4)
	ClientRequestToken string          `json:"clientRequestToken"`
}

func (e *server) updateNodegroupConfig(ctx context.Context, c *call) (any, error) {
	var in configInput
	if err := awsjson.DecodeInput(c.body, &in); err != nil {
		return nil, err
	}
	if err := checkNames(c.cluster, c.nodeGroup); err != nil {
		return nil, err
	}
	for name, raw := range map[string]json.RawMessage{
		"labels": in.Labels, "taints": in.Taints, "nodeRepairConfig": in.NodeRepairConfig,
		"warmPoolConfig": in.WarmPoolConfig,
	} {
		if isPresent(raw) {
			return nil, input.Invalid("%s is not supported: only scalingConfig and updateConfig can be changed.", name)
		}
	}
	change := operation.UpdateNodeGroupConfig{Cluster: c.cluster, NodeGroup: c.nodeGroup, Token: in.ClientRequestToken}
	if s := in.ScalingConfig; s != nil {
		change.Sizes = &cluster.SizesChange{Min: s.MinSize, Max: s.MaxSize, Desired: s.DesiredSize}
	}
	if in.UpdateConfig != nil {
		config, err := in.UpdateConfig.parseUpdateConfig()
		if err != nil {
			return nil, err
		}
		change.Config = &config
	}
	if change.Sizes == nil && change.Config == nil {
		return nil, input.Invalid("The request changes nothing.")
	}
	plain := in
	plain.ClientRequestToken = ""
	var err error
	if change.Params, err = input.DigestParameters(plain); err != nil {
		return nil, err
	}
	return e.updateAnswer(e.groups.UpdateNodeGroupConfig(ctx, change))
}

func (e *server) updateNodegroupVersion(ctx context.Context, c *call) (any, error) {
	var in VersionInput
	if err := awsjson.DecodeInput(c.body, &in); err != nil {
		return nil, err
	}
	change, err := in.ParseUpdate(c.cluster, c.nodeGroup)
	if err != nil {
		return nil, err
	}
	return e.updateAnswer(e.groups.UpdateNodeGroupVersion(ctx, change))
}

// ParseUpdate is the update of a node group that the request asks for.
func (in *VersionInput) ParseUpdate(
	clusterName, nodeGroup string,
) (change operation.UpdateNodeGroupVersion, err error) {
	if err := checkNames(clusterName, nodeGroup); err != nil {
		return change, err
	}
	if in.ForceProtected && !in.Force {
		return change, input.Invalid("forceProtected needs force.")
	}
	change = operation.UpdateNodeGroupVersion{
		Cluster: clusterName, NodeGroup: nodeGroup, Version: in.Version, ReleaseVersion: in.ReleaseVersion,
		Force: in.Force, ForceProtected: in.ForceProtected, Token: in.ClientRequestToken,
	}
	if change.Template, err = in.LaunchTemplate.parseTemplateRef(); err != nil {
		return change, err
	}
	plain := *in
	plain.ClientRequestToken = ""
	change.Params, err = input.DigestParameters(plain)
	return change, err
}

func (e *server) updateAnswer(u *cluster.Update, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return updateOutput{updateShape(u)}, nil
}

// checkNodeGroupUpdate refuses what only other updates of EKS have.
func (c *call) checkNodeGroupUpdate() error {
	for _, other := range []string{"addonName", "capabilityName"} {
		if c.query.Has(other) {
			return input.Invalid("%s is not supported: there are node groups only.", other)
		}
	}
	return nil
}

func (e *server) describeUpdate(ctx context.Context, c *call) (any, error) {
	if err := c.checkNodeGroupUpdate(); err != nil {
		return nil, err
	}
	if err := c.checkNames(); err != nil {
		return nil, err
	}
	// The cluster itself has no updates.
	if !updateIDs.MatchString(c.update) || c.nodeGroup == "" {
		return nil, cluster.Errorf(cluster.CodeResourceNotFound, "No update found for ID: %.100s", c.update)
	}
	return e.updateAnswer(e.groups.DescribeUpdate(ctx, c.cluster, c.nodeGroup, c.update))
}

func (e *server) listUpdates(ctx context.Context, c *call) (any, error) {
	if err := c.checkNodeGroupUpdate(); err != nil {
		return nil, err
	}
	if err := c.checkNames(); err != nil {
		return nil, err
	}
	found, next, err := c.readPage(ctx, "updates", e.groups.ListNodeGroupUpdates)
	if err != nil {
		return nil, err
	}
	return listUpdatesOutput{found, next}, nil
}
