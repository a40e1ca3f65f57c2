package handler

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
)

// keepUpdate is how long an update that has ended can be described.
const keepUpdate = 90 * 24 * time.Hour

// NodeGroups answers the operations on node groups and their updates of the EKS API. A node group is the instances of an
// Auto Scaling group that is there already; updates of its version are carried out by node-group-upgrade. Errors are
// [cluster.Error] with that API's codes, those of Auto Scaling and EC2 being InvalidRequestException.
type NodeGroups struct {
	*API
	Auto      AutoScaling
	Updates   GroupUpdates
	Templates LaunchTemplates
}

// CreateNodeGroup writes a new node group of an Auto Scaling group, which must launch from a launch template and have no
// other node group. The same clientRequestToken with the same parameters gives the same node group again.
func (n *NodeGroups) CreateNodeGroup(ctx context.Context, spec cluster.NodeGroupSpec) (*cluster.NodeGroup, error) {
	if _, err := n.known(ctx, spec.Cluster); err != nil {
		return nil, err
	}
	if old, err := n.nodeGroup(ctx, spec.Cluster, spec.Name); err != nil || old != nil {
		return againNodeGroup(old, spec, err)
	}
	if err := nodegroup.CheckConfig(spec.Config); err != nil {
		return nil, err
	}
	group, err := n.group(ctx, spec.AutoScalingGroup)
	if err != nil {
		return nil, err
	}
	if err := n.free(ctx, spec); err != nil {
		return nil, err
	}
	target, err := n.target(ctx, group, spec)
	if err != nil {
		return nil, err
	}
	now := n.Clock.Now()
	g := &cluster.NodeGroup{
		Head: cluster.Head{Cluster: spec.Cluster, Rev: 1}, Name: spec.Name, ID: uuid(n.NewID()), Status: cluster.NodeGroupActive,
		CreatedAt: now, ModifiedAt: now, AutoScalingGroup: spec.AutoScalingGroup, Target: target, Config: spec.Config,
		Sizes:  cluster.Sizes{Min: group.Min, Max: group.Max, Desired: group.Desired},
		Labels: spec.Labels, Tags: spec.Tags, Subnets: spec.Subnets, Role: spec.Role, Token: spec.Token, Digest: spec.Params,
	}
	if spec.Sizes != nil {
		if g.Sizes, err = *spec.Sizes, n.resize(ctx, group.Name, *spec.Sizes); err != nil {
			return nil, err
		}
	}
	_, err = n.State.Write(ctx, cluster.Write{Put: g})
	var c *cluster.Conflict
	if errors.As(err, &c) {
		old, _ := c.Row.(*cluster.NodeGroup)
		return againNodeGroup(old, spec, nil)
	}
	return g, wrap(err, "creating node group %s", spec.Name)
}

// againNodeGroup answers a CreateNodegroup of a name that is taken.
func againNodeGroup(old *cluster.NodeGroup, spec cluster.NodeGroupSpec, err error) (*cluster.NodeGroup, error) {
	switch {
	case err != nil:
		return nil, err
	case old != nil && spec.Token != "" && old.Token == spec.Token && old.Digest == spec.Params:
		return old, nil
	}
	return nil, cluster.Errorf(cluster.CodeResourceInUse, "NodeGroup already exists with name %s and cluster name %s", spec.Name, spec.Cluster)
}

// free refuses an Auto Scaling group that another node group of the cluster has.
func (n *NodeGroups) free(ctx context.Context, spec cluster.NodeGroupSpec) error {
	rows, err := n.State.List(ctx, cluster.Prefix(spec.Cluster, cluster.PrefixNodeGroup))
	if err != nil {
		return fmt.Errorf("listing node groups: %w", err)
	}
	for _, row := range rows {
		if g, ok := row.(*cluster.NodeGroup); ok && g.Name != spec.Name && g.AutoScalingGroup == spec.AutoScalingGroup {
			return cluster.Errorf(cluster.CodeResourceInUse, "The Auto Scaling group %s is node group %s already", g.AutoScalingGroup, g.Name)
		}
	}
	return nil
}

// target is what the nodes of a new node group are made of: what the caller says, and else what the group launches.
func (n *NodeGroups) target(ctx context.Context, group *cluster.AutoScalingGroup, spec cluster.NodeGroupSpec) (t cluster.UpdateTarget, err error) {
	t = cluster.UpdateTarget{Version: spec.Version, ReleaseVersion: spec.ReleaseVersion, Image: spec.ReleaseVersion}
	if spec.Template != nil {
		return n.custom(ctx, *spec.Template, t)
	}
	if t.Image != "" {
		return t, nil
	}
	lt, err := n.template(ctx, templateOf(group.Template))
	if err != nil {
		return t, err
	}
	t.Image = lt.Image
	return t, nil
}

// custom is a target of a launch template version of the user's own, which names the image itself (EKS user guide, custom
// launch templates).
func (n *NodeGroups) custom(ctx context.Context, ref cluster.TemplateRef, t cluster.UpdateTarget) (cluster.UpdateTarget, error) {
	lt, err := n.template(ctx, ref)
	if err != nil {
		return t, err
	}
	switch {
	case lt.Image == "" && t.Image == "":
		return t, cluster.Errorf(cluster.CodeInvalidParameter, "Version %d of launch template %s names no image, and the request no releaseVersion", lt.Version, lt.ID)
	case lt.Image != "" && (t.ReleaseVersion != "" || t.Version != ""):
		return t, cluster.Errorf(cluster.CodeInvalidRequest, "You cannot specify version or releaseVersion: the launch template names an image")
	case lt.Image != "":
		t.Image = lt.Image
	}
	t.SourceTemplate, t.SourceName, t.SourceVersion = lt.ID, lt.Name, strconv.FormatInt(lt.Version, 10)
	return t, nil
}

func (n *NodeGroups) template(ctx context.Context, ref cluster.TemplateRef) (*cluster.LaunchTemplate, error) {
	lt, err := n.Templates.LaunchTemplate(ctx, ref)
	return lt, foreign(err, "describing the launch template")
}

// group is an Auto Scaling group that can be a node group's.
func (n *NodeGroups) group(ctx context.Context, name string) (*cluster.AutoScalingGroup, error) {
	groups, err := n.Auto.DescribeGroups(ctx, []string{name})
	switch {
	case err != nil:
		return nil, foreign(err, "describing the Auto Scaling group")
	case len(groups) == 0:
		return nil, cluster.Errorf(cluster.CodeInvalidParameter, "There is no Auto Scaling group %s", name)
	case groups[0].Template == "":
		return nil, cluster.Errorf(cluster.CodeInvalidParameter, "The Auto Scaling group %s has no launch template", name)
	case templateOf(groups[0].Template).Version == "$Latest":
		// The version that an update makes would be the latest at once, before its time and after its failure.
		return nil, cluster.Errorf(cluster.CodeInvalidParameter, "The Auto Scaling group %s launches $Latest of its launch template; it must name a version", name)
	}
	return groups[0], nil
}

// resize checks sizes and gives them to the group.
func (n *NodeGroups) resize(ctx context.Context, group string, s cluster.Sizes) error {
	switch {
	case s.Min < 0 || s.Max < 1:
		return cluster.Errorf(cluster.CodeInvalidParameter, "minSize must be at least 0 and maxSize at least 1")
	case s.Min > s.Max:
		return cluster.Errorf(cluster.CodeInvalidParameter, "Minimum capacity %d can't be greater than maximum size %d", s.Min, s.Max)
	case s.Desired < s.Min:
		return cluster.Errorf(cluster.CodeInvalidParameter, "Minimum capacity %d can't be greater than desired size %d", s.Min, s.Desired)
	case s.Desired > s.Max:
		return cluster.Errorf(cluster.CodeInvalidParameter, "desired capacity %d can't be greater than max size %d", s.Desired, s.Max)
	}
	return foreign(n.Updates.SetSizes(ctx, group, s), "resizing the Auto Scaling group")
}

// foreign is an error of another API as one of EKS's: what Auto Scaling or EC2 refuses is an invalid request.
func foreign(err error, what string) error {
	var e *cluster.Error
	if errors.As(err, &e) && e.Code != cluster.CodeServer && e.Code != cluster.CodeThrottling {
		return cluster.Errorf(cluster.CodeInvalidRequest, "%s: %s: %s", what, e.Code, e.Message)
	}
	return wrap(err, "%s", what)
}

// NodeGroup is one node group.
func (n *NodeGroups) NodeGroup(ctx context.Context, clusterName, name string) (*cluster.NodeGroup, error) {
	if _, err := n.known(ctx, clusterName); err != nil {
		return nil, err
	}
	g, err := n.nodeGroup(ctx, clusterName, name)
	if err == nil && g == nil {
		err = cluster.Errorf(cluster.CodeResourceNotFound, "No node group found for name: %s.", name)
	}
	return g, err
}

func (n *NodeGroups) nodeGroup(ctx context.Context, clusterName, name string) (*cluster.NodeGroup, error) {
	row, err := n.State.Get(ctx, cluster.NodeGroupKey(clusterName, name))
	if err != nil {
		return nil, fmt.Errorf("reading node group %s: %w", name, err)
	}
	g, _ := row.(*cluster.NodeGroup)
	return g, nil
}

// ListNodeGroups are the names of a cluster's node groups.
func (n *NodeGroups) ListNodeGroups(ctx context.Context, q cluster.NodeGroupQuery) (names []string, more bool, err error) {
	if _, err := n.known(ctx, q.Cluster); err != nil {
		return nil, false, err
	}
	return n.names(ctx, q, cluster.PrefixNodeGroup)
}

// ListNodeGroupUpdates are the ids of a node group's updates; a query without a node group finds none, as a cluster of
// container instances has no updates.
func (n *NodeGroups) ListNodeGroupUpdates(ctx context.Context, q cluster.NodeGroupQuery) (ids []string, more bool, err error) {
	if q.NodeGroup == "" {
		_, err := n.known(ctx, q.Cluster)
		return nil, false, err
	}
	if _, err := n.NodeGroup(ctx, q.Cluster, q.NodeGroup); err != nil {
		return nil, false, err
	}
	return n.names(ctx, q, cluster.PrefixUpdate+q.NodeGroup+"#")
}

// names are what follows a prefix in a page of keys.
func (n *NodeGroups) names(ctx context.Context, q cluster.NodeGroupQuery, prefix string) (out []string, more bool, err error) {
	r := cluster.Prefix(q.Cluster, prefix)
	if q.After != "" {
		r.From = prefix + q.After + "\x00"
	}
	r.Limit = q.Limit + 1
	rows, err := n.State.List(ctx, r)
	if err != nil {
		return nil, false, fmt.Errorf("listing %s: %w", prefix, err)
	}
	for _, row := range rows {
		out = append(out, strings.TrimPrefix(row.Key().Sort, prefix))
	}
	if len(out) > q.Limit {
		return out[:q.Limit], true, nil
	}
	return out, false, nil
}

// NodeGroupUpdate is one update of a node group.
func (n *NodeGroups) NodeGroupUpdate(ctx context.Context, clusterName, nodeGroup, id string) (*cluster.Update, error) {
	if _, err := n.NodeGroup(ctx, clusterName, nodeGroup); err != nil {
		return nil, err
	}
	u, err := n.update(ctx, clusterName, nodeGroup, id)
	if err == nil && u == nil {
		err = cluster.Errorf(cluster.CodeResourceNotFound, "No update found for ID: %s", id)
	}
	return u, err
}

func (n *NodeGroups) update(ctx context.Context, clusterName, nodeGroup, id string) (*cluster.Update, error) {
	if id == "" {
		return nil, nil
	}
	row, err := n.State.Get(ctx, cluster.UpdateKey(clusterName, nodeGroup, id))
	if err != nil {
		return nil, fmt.Errorf("reading update %s: %w", id, err)
	}
	u, _ := row.(*cluster.Update)
	return u, nil
}

// DeleteNodeGroup forgets a node group and its updates; the Auto Scaling group and its instances stay, as they were there
// before. It fails with ResourceInUseException while an update is in progress.
func (n *NodeGroups) DeleteNodeGroup(ctx context.Context, clusterName, name string) (*cluster.NodeGroup, error) {
	g, last, err := n.read(ctx, clusterName, name)
	if err != nil {
		return nil, err
	}
	if last != nil && !last.Ended() {
		return nil, cluster.Errorf(cluster.CodeResourceInUse, "Nodegroup %s cannot be deleted while update %s is in progress", name, last.ID)
	}
	// Nothing may begin on it any more before its rows go.
	gone := *g
	gone.Rev, gone.Status, gone.ModifiedAt = g.Rev+1, cluster.NodeGroupDeleting, n.Clock.Now()
	if _, err := n.State.Write(ctx, cluster.Write{Put: &gone}); err != nil {
		return nil, inUse(err, name)
	}
	updates, err := n.State.List(ctx, cluster.Prefix(clusterName, cluster.PrefixUpdate+name+"#"))
	if err != nil {
		return nil, fmt.Errorf("listing the updates of node group %s: %w", name, err)
	}
	for _, row := range append(updates, &gone) {
		key := row.Key()
		if _, err := n.State.Write(ctx, cluster.Write{Delete: &key}); err != nil {
			return nil, fmt.Errorf("deleting node group %s: %w", name, err)
		}
	}
	return &gone, nil
}

// read is a node group and its last update of its version, nil where there was none.
func (n *NodeGroups) read(ctx context.Context, clusterName, name string) (*cluster.NodeGroup, *cluster.Update, error) {
	g, err := n.NodeGroup(ctx, clusterName, name)
	if err != nil {
		return nil, nil, err
	}
	last, err := n.update(ctx, clusterName, name, g.Update)
	return g, last, err
}

// inUse is a lost race for a node group as an answer of the API.
func inUse(err error, name string) error {
	var c *cluster.Conflict
	if errors.As(err, &c) {
		return cluster.Errorf(cluster.CodeResourceInUse, "Nodegroup %s is being changed by somebody else", name)
	}
	return wrap(err, "changing node group %s", name)
}

// uuid is 32 hex digits as a UUID.
func uuid(hex string) string {
	return strings.Join([]string{hex[:8], hex[8:12], hex[12:16], hex[16:20], hex[20:32]}, "-")
}

// seedOf is a number that looks like any other for each id.
func seedOf(id string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(id))
	return h.Sum64()
}
