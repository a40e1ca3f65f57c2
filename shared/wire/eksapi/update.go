package eksapi

import (
	"context"
	"encoding/json"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/wire/awsjson"
	"berth/shared/wire/input"
)

// configInput is the input of UpdateNodegroupConfig. What is refused comes as it is, because its
// value does not matter.
type configInput struct {
	Labels             *labelsChange   `json:"labels"`
	Taints             *taintsChange   `json:"taints"`
	ScalingConfig      *scalingConfig  `json:"scalingConfig"`
	UpdateConfig       *updateConfig   `json:"updateConfig"`
	NodeRepairConfig   json.RawMessage `json:"nodeRepairConfig"`
	WarmPoolConfig     json.RawMessage `json:"warmPoolConfig"`
	ClientRequestToken string          `json:"clientRequestToken"`
}

// VersionInput is the input of UpdateNodegroupVersion. The plan of an update, an operation of
// Berth's own, takes it too.
type VersionInput struct {
	Version            string          `json:"version"`
	ReleaseVersion     string          `json:"releaseVersion"`
	LaunchTemplate     *launchTemplate `json:"launchTemplate"`
	Force              bool            `json:"force"`
	ForceProtected     bool            `json:"forceProtected"` // of Berth's own: force stops protected tasks, too (N4)
	ClientRequestToken string          `json:"clientRequestToken"`
}

// updateNodegroupConfig changes sizes, labels, taints and the update configuration.
func (e *server) updateNodegroupConfig(ctx context.Context, c *call) (any, error) {
	var in configInput
	if err := awsjson.DecodeInput(c.body, &in); err != nil {
		return nil, err
	}
	if err := checkNames(c.cluster, c.nodeGroup); err != nil {
		return nil, err
	}
	for name, raw := range map[string]json.RawMessage{
		"nodeRepairConfig": in.NodeRepairConfig,
		"warmPoolConfig":   in.WarmPoolConfig,
	} {
		if isPresent(raw) {
			return nil, unsupported("UpdateNodegroupConfig", name)
		}
	}
	change := operation.UpdateNodeGroupConfig{Cluster: c.cluster, NodeGroup: c.nodeGroup, Token: in.ClientRequestToken}
	var err error
	if change.Labels, err = in.parseLabelsChange(); err != nil {
		return nil, err
	}
	if s := in.ScalingConfig; s != nil && *s != (scalingConfig{}) {
		change.Sizes = &cluster.SizesChange{Min: s.MinSize, Max: s.MaxSize, Desired: s.DesiredSize}
	}
	if u := in.UpdateConfig; u != nil && *u != (updateConfig{}) {
		config, err := u.parseUpdateConfig()
		if err != nil {
			return nil, err
		}
		change.Config = &config
	}
	if change.Sizes == nil && change.Config == nil && change.Labels == nil {
		return nil, input.Invalid("The request changes nothing.")
	}
	plain := in
	plain.ClientRequestToken = ""
	if change.Params, err = input.DigestParameters(plain); err != nil {
		return nil, err
	}
	return e.updateAnswer(e.groups.UpdateNodeGroupConfig(ctx, change))
}

// updateNodegroupVersion begins an upgrade of the nodes (N1).
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

// ParseUpdate checks the input and returns the upgrade that it asks for. Invalid input is an
// InvalidParameterException.
func (in *VersionInput) ParseUpdate(
	clusterName, nodeGroup string,
) (change operation.UpdateNodeGroupVersion, err error) {
	if err := checkNames(clusterName, nodeGroup); err != nil {
		return change, err
	}
	if in.ForceProtected && !in.Force {
		return change, input.Invalid("forceProtected needs force.")
	}
	if err := checkVersions(in.Version, in.ReleaseVersion); err != nil {
		return change, err
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

// updateAnswer returns an update, or the error of the call that should have returned it.
func (e *server) updateAnswer(u *cluster.Update, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return updateOutput{updateShape(u)}, nil
}

// checkNodeGroupUpdate refuses queries for updates that only EKS has.
func (c *call) checkNodeGroupUpdate() error {
	for _, other := range []string{"addonName", "capabilityName"} {
		if c.query.Has(other) {
			return unsupported("ListUpdates", other)
		}
	}
	return nil
}

// describeUpdate describes an update of the node group in the query. What is no id of an update is
// an update that does not exist, as with EKS.
func (e *server) describeUpdate(ctx context.Context, c *call) (any, error) {
	if err := c.checkNodeGroupUpdate(); err != nil {
		return nil, err
	}
	if err := c.checkNames(); err != nil {
		return nil, err
	}
	// Without a node group it would be an update of the cluster itself, which has none.
	if !updateIDs.MatchString(c.update) || c.nodeGroup == "" {
		return nil, cluster.Errorf(cluster.CodeResourceNotFound, "No update found for ID: %.100s", c.update)
	}
	return e.updateAnswer(e.groups.DescribeUpdate(ctx, c.cluster, c.nodeGroup, c.update))
}

// listUpdates lists the updates of the node group in the query; without one, none.
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
