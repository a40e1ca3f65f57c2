package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/nodegroup"
	"berth/shared/operation"
	"berth/shared/state"
)

// KeepUpdate is how long an update can be described after it has ended.
const KeepUpdate = 90 * 24 * time.Hour

// NodeGroups answers the EKS API's operations on node groups and their updates. A node group is the
// set of instances of an Auto Scaling group that exists already, or that Berth makes. The
// operations write what is wanted; node-group-upgrade reads the group and its launch template, and
// acts on both. Errors are [cluster.Error] with that API's codes.
type NodeGroups struct{ *Dependencies }

// CreateNodeGroup writes a new node group of an Auto Scaling group that no other node group has, or
// of one to make. It is CREATING until node-group-upgrade has examined or made the group, then
// ACTIVE or CREATE_FAILED. The
// same clientRequestToken with the same parameters returns the same node group; any other use of a
// taken name is a ResourceInUseException.
func (n *NodeGroups) CreateNodeGroup(ctx context.Context, spec operation.CreateNodeGroup) (*cluster.NodeGroup, error) {
	if _, err := n.findCluster(ctx, spec.Cluster); err != nil {
		return nil, err
	}
	// Before all checks: the same call again must succeed even if the group has changed since.
	if old, err := n.findNodeGroup(ctx, spec.Cluster, spec.Name); err != nil || old != nil {
		return resolveNodeGroupConflict(old, spec, err)
	}
	if err := nodegroup.ValidateConfig(spec.Config); err != nil {
		return nil, err
	}
	labels := cluster.NodeLabels{Labels: spec.Labels, Taints: spec.Taints}
	if err := checkLabels(labels, spec.Template != nil); err != nil {
		return nil, err
	}
	now := n.Clock.Now()
	g := &cluster.NodeGroup{
		Head: cluster.Head{Cluster: spec.Cluster, Rev: 1}, Name: spec.Name, ID: formatUUID(n.NewID()),
		Status: cluster.NodeGroupCreating, CreatedAt: now, ModifiedAt: now, AutoScalingGroup: spec.AutoScalingGroup,
		Target: firstTarget(spec), Config: spec.Config, Tags: spec.Tags, Subnets: spec.Subnets,
		NodeLabels: labels,
		Role:       spec.Role, Machines: spec.Machines,
		NodeGroupCreation: cluster.NodeGroupCreation{Token: spec.Token, Digest: spec.Params},
	}
	if spec.Sizes != nil {
		if err := spec.Sizes.Validate(); err != nil {
			return nil, err
		}
		g.Sizes = *spec.Sizes
	}
	if g.IsMade() {
		if err := nodegroup.InitMade(g, n.Settings.Installation); err != nil {
			return nil, err
		}
	}
	err := n.retryRaces(ctx, "creating node group "+spec.Name, func() error { return n.commitNodeGroup(ctx, g) })
	if errors.Is(err, errNameTaken) {
		old, err := n.findNodeGroup(ctx, spec.Cluster, spec.Name)
		return resolveNodeGroupConflict(old, spec, err)
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

// errNameTaken reports that another call created a node group of that name meanwhile.
var errNameTaken = errors.New("the name is taken")

// commitNodeGroup writes a new node group and the claim to its Auto Scaling group in one commit. So
// of two node groups that want the same group, one gets it.
func (n *NodeGroups) commitNodeGroup(ctx context.Context, g *cluster.NodeGroup) error {
	use, err := handler.ReadGroupUse(ctx, n.State, g.AutoScalingGroup)
	if err != nil {
		return err
	}
	if err := n.checkGroupFree(ctx, use); err != nil {
		return err
	}
	take := handler.ClaimGroup(use, func(u *state.GroupUse) { u.NodeGroup = g.Ref() })
	err = n.State.Commit(ctx, state.Commit{Cluster: g.Cluster, Version: state.NoVersion,
		Writes: []state.Write{{Put: g}, take}})
	var c *state.Conflict
	if errors.As(err, &c) && c.Key == state.KeyOf(g) {
		return errNameTaken
	}
	return err
}

// firstTarget returns what the caller says the nodes are made of. node-group-upgrade completes it
// from the group.
func firstTarget(spec operation.CreateNodeGroup) cluster.UpdateTarget {
	t := cluster.UpdateTarget{Version: spec.Version, ReleaseVersion: spec.ReleaseVersion, AMIType: spec.AMIType}
	if ref := spec.Template; ref != nil {
		t.SourceTemplate, t.SourceName, t.SourceVersion = ref.ID, ref.Name, ref.Version
	}
	return t
}

// Attributes that a node's instance has room for: maxAttributes is ECS's limit of custom attributes
// per instance (ECS API reference, PutAttributes). nodeMarks of them are for what Berth writes on
// any instance: its capacity provider, that it takes no new task, and its two domains. A launch
// template of the user's own adds sourceLabels to the labels by which an update knows its nodes.
const (
	maxAttributes = 10
	nodeMarks     = 4
	sourceLabels  = 2
)

// maxAttributeValue is how long the value of an attribute may be (ECS API reference, Attribute).
const maxAttributeValue = 128

// checkLabels refuses more labels and taints than a node can have as attributes. An update of such
// a group could never complete, because its nodes would never be fully labelled.
func checkLabels(l cluster.NodeLabels, ownTemplate bool) error {
	room := maxAttributes - nodeMarks - len(nodegroup.TargetLabels(&cluster.Update{}))
	if ownTemplate {
		room -= sourceLabels
	}
	if len(l.Taints) > 0 {
		room--
	}
	if text := cluster.TaintsText(l.Taints); len(text) > maxAttributeValue {
		return cluster.Errorf(cluster.CodeInvalidParameter,
			"The taints are too long together: nodes have them as one attribute of at most %d characters, and these "+
				"need %d", maxAttributeValue, len(text))
	}
	if len(l.Labels) <= room {
		return nil
	}
	return cluster.Errorf(cluster.CodeInvalidParameter,
		"There are %d labels, but at most %d are possible: labels are attributes of container instances, which have "+
			"at most %d, and the rest is for taints, the node group's own labels, the capacity provider and the "+
			"domains",
		len(l.Labels), room, maxAttributes)
}

// resolveNodeGroupConflict answers a CreateNodegroup whose name is taken: with the node group, if
// it is the same call again, else with EKS's error. It returns err if reading failed.
func resolveNodeGroupConflict(
	old *cluster.NodeGroup, spec operation.CreateNodeGroup, err error,
) (*cluster.NodeGroup, error) {
	switch {
	case err != nil:
		return nil, err
	case old != nil && spec.Token != "" && old.Token == spec.Token && old.Digest == spec.Params:
		return old, nil
	}
	return nil, cluster.Errorf(cluster.CodeResourceInUse, "NodeGroup already exists with name %s and cluster name %s",
		spec.Name, spec.Cluster)
}

// checkGroupFree refuses an Auto Scaling group that belongs to a node group of any cluster: two
// updates would set its size against each other. A node group that is CREATE_FAILED has no claim.
func (n *NodeGroups) checkGroupFree(ctx context.Context, use *state.GroupUse) error {
	of := use.NodeGroup
	if of.ID == "" {
		return nil
	}
	g, err := n.findNodeGroup(ctx, of.Cluster, of.Name)
	if err != nil || g == nil || g.ID != of.ID || g.Status == cluster.NodeGroupCreateFailed {
		return err
	}
	return cluster.Errorf(cluster.CodeResourceInUse, "The Auto Scaling group %s is node group %s of cluster %s already",
		use.Group, g.Name, g.Cluster)
}

// DescribeNodeGroup returns one node group. An unknown one is a ResourceNotFoundException.
func (n *NodeGroups) DescribeNodeGroup(ctx context.Context, clusterName, name string) (*cluster.NodeGroup, error) {
	if _, err := n.findCluster(ctx, clusterName); err != nil {
		return nil, err
	}
	g, err := n.findNodeGroup(ctx, clusterName, name)
	if err == nil && g == nil {
		err = cluster.Errorf(cluster.CodeResourceNotFound, "No node group found for name: %s.", name)
	}
	return g, err
}

// findNodeGroup reads a node group; nil if it does not exist.
func (n *NodeGroups) findNodeGroup(ctx context.Context, clusterName, name string) (*cluster.NodeGroup, error) {
	return state.ReadRow[*cluster.NodeGroup](ctx, n.State, state.NodeGroupKey(clusterName, name), "node group "+name)
}

// ListNodeGroups returns a page of the names of a cluster's node groups, in order.
func (n *NodeGroups) ListNodeGroups(
	ctx context.Context, q operation.ListNodeGroups,
) (names []string, more bool, err error) {
	if _, err := n.findCluster(ctx, q.Cluster); err != nil {
		return nil, false, err
	}
	return n.listNames(ctx, q, state.PrefixNodeGroup)
}

// ListNodeGroupUpdates returns a page of the ids of a node group's updates, in order. In EKS a
// query without a node group lists updates of the cluster itself; a cluster of container instances
// has none.
func (n *NodeGroups) ListNodeGroupUpdates(
	ctx context.Context, q operation.ListNodeGroups,
) (ids []string, more bool, err error) {
	if q.NodeGroup == "" {
		_, err := n.findCluster(ctx, q.Cluster)
		return nil, false, err
	}
	if _, err := n.DescribeNodeGroup(ctx, q.Cluster, q.NodeGroup); err != nil {
		return nil, false, err
	}
	return n.listNames(ctx, q, state.PrefixUpdate+q.NodeGroup+"#")
}

// listNames returns what follows prefix in the keys of a page of rows.
func (n *NodeGroups) listNames(
	ctx context.Context, q operation.ListNodeGroups, prefix string,
) (out []string, more bool, err error) {
	r := state.Prefix(q.Cluster, prefix)
	if q.After != "" {
		r.From = prefix + q.After + "\x00"
	}
	// One more than fits tells whether there is another page.
	r.Limit = q.Limit + 1
	rows, err := n.State.List(ctx, r)
	if err != nil {
		return nil, false, fmt.Errorf("listing %s: %w", prefix, err)
	}
	for _, row := range rows {
		out = append(out, strings.TrimPrefix(state.KeyOf(row).Sort, prefix))
	}
	if len(out) > q.Limit {
		return out[:q.Limit], true, nil
	}
	return out, false, nil
}

// DescribeUpdate returns one update of a node group. An unknown one is a ResourceNotFoundException.
func (n *NodeGroups) DescribeUpdate(ctx context.Context, clusterName, nodeGroup, id string) (*cluster.Update, error) {
	if _, err := n.DescribeNodeGroup(ctx, clusterName, nodeGroup); err != nil {
		return nil, err
	}
	u, err := n.findUpdate(ctx, clusterName, nodeGroup, id)
	if err == nil && u == nil {
		err = cluster.Errorf(cluster.CodeResourceNotFound, "No update found for ID: %s", id)
	}
	return u, err
}

// findUpdate reads an update; nil if it does not exist or id is empty.
func (n *NodeGroups) findUpdate(ctx context.Context, clusterName, nodeGroup, id string) (*cluster.Update, error) {
	if id == "" {
		return nil, nil
	}
	return state.ReadRow[*cluster.Update](ctx, n.State, state.UpdateKey(clusterName, nodeGroup, id), "update "+id)
}

// DeleteNodeGroup marks a node group as DELETING; node-group-upgrade then removes it and its
// updates, and what Berth has made for it. Unlike with EKS, an Auto Scaling group of the user's
// stays with its instances: they existed before the node group. During an update it is a
// ResourceInUseException.
func (n *NodeGroups) DeleteNodeGroup(ctx context.Context, clusterName, name string) (*cluster.NodeGroup, error) {
	g, err := n.DescribeNodeGroup(ctx, clusterName, name)
	switch {
	case err != nil:
		return nil, err
	case g.Status == cluster.NodeGroupDeleting:
		return g, nil
	case g.Status == cluster.NodeGroupUpdating:
		return nil, cluster.Errorf(cluster.CodeResourceInUse,
			"Nodegroup %s cannot be deleted while update %s is in progress", name, cmp.Or(g.ConfigUpdate, g.Update))
	}
	gone := *g
	gone.Rev, gone.Status, gone.ModifiedAt = g.Rev+1, cluster.NodeGroupDeleting, n.Clock.Now()
	if _, err := n.State.Write(ctx, state.Write{Put: &gone}); err != nil {
		return nil, conflictError(err, name)
	}
	return &gone, nil
}

// checkActive refuses to update a node group that is not ACTIVE.
func checkActive(g *cluster.NodeGroup) error {
	if g.Status == cluster.NodeGroupActive {
		return nil
	}
	return cluster.Errorf(cluster.CodeResourceInUse,
		"Nodegroup %s cannot be updated as it is currently not in Active State", g.Name)
}

// findWithUpdate returns a node group and its last upgrade, nil if there was none.
func (n *NodeGroups) findWithUpdate(
	ctx context.Context, clusterName, name string,
) (*cluster.NodeGroup, *cluster.Update, error) {
	g, err := n.DescribeNodeGroup(ctx, clusterName, name)
	if err != nil {
		return nil, nil, err
	}
	last, err := n.findUpdate(ctx, clusterName, name, g.Update)
	return g, last, err
}

// conflictError returns a lost race for the node group's row as a ResourceInUseException: unlike
// services, node groups are not retried, because the other change may be an update that now
// excludes this one.
func conflictError(err error, name string) error {
	var c *state.Conflict
	if errors.As(err, &c) {
		return cluster.Errorf(cluster.CodeResourceInUse, "Nodegroup %s is being changed by another request", name)
	}
	return cluster.Wrap(err, "changing node group %s", name)
}

// formatUUID formats 32 hex digits as a UUID, which EKS's ids are.
func formatUUID(hex string) string {
	return strings.Join([]string{hex[:8], hex[8:12], hex[12:16], hex[16:20], hex[20:32]}, "-")
}

// seedFromID returns a seed for the random order in which an update's nodes leave (N4). The same
// update always has the same order, whichever environment decides.
func seedFromID(id string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(id))
	return h.Sum64()
}
