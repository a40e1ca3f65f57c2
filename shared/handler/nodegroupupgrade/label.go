package nodegroupupgrade

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/nodegroup"
	"berth/shared/state"
)

// A labelling sets and removes the labels of nodes, and removes stale marks of updates.
type labelling struct{ *Handler }

// labelActiveGroups labels the nodes of a cluster's ACTIVE node groups that lack a label: those
// that were there before the node group, and those that were launched since. It asks Auto Scaling
// once for all groups.
func (h *Handler) labelActiveGroups(ctx context.Context, clusterName string, active []*cluster.NodeGroup) error {
	var names []string
	for _, g := range active {
		names = append(names, g.AutoScalingGroup)
	}
	if len(names) == 0 {
		return nil
	}
	found, err := h.Auto.DescribeGroups(ctx, names)
	if err != nil {
		return fmt.Errorf("describing the Auto Scaling groups of node groups: %w", err)
	}
	instances, err := readRows(ctx, h.State, clusterName, state.PrefixInstance)
	if err != nil {
		return err
	}
	return labelGroups(ctx, h, active, groupsByName(found), instances)
}

// labelGroups labels the nodes of ACTIVE node groups of one cluster, which has these instances.
func labelGroups(
	ctx context.Context, h *Handler, active []*cluster.NodeGroup, found map[string]*cluster.AutoScalingGroup,
	instances []state.Row,
) error {
	rows := nodegroup.NewRows()
	rows.AddAll(instances, h.Clock.Now())
	var failed []error
	for _, g := range active {
		if auto := found[g.AutoScalingGroup]; auto != nil {
			failed = append(failed,
				cluster.Wrap(configuring{h}.keepTemplate(ctx, g, auto), "the launch template of node group %s", g.Name),
				cluster.Wrap(labelling{h}.labelGroup(ctx, g, auto, rows), "labelling the nodes of node group %s",
					g.Name))
		}
	}
	return errors.Join(failed...)
}

// labelGroup labels the nodes of a group that lack a label, and removes labels that were removed from
// the group and marks of updates that have ended. A permanent refusal concerns one node only.
func (h labelling) labelGroup(
	ctx context.Context, g *cluster.NodeGroup, auto *cluster.AutoScalingGroup, rows *nodegroup.Rows,
) error {
	// Read at most once, and not at all if every node has its labels.
	lastUpdate := sync.OnceValues(func() (*cluster.Update, error) { return readUpdate(ctx, h.State, g, g.Update) })
	for _, i := range auto.Instances {
		node := rows.Instance(i.ID)
		if node == nil || node.IsDeregistered() {
			continue
		}
		err := h.removeStaleMark(ctx, g, node)
		if err == nil {
			err = h.removeLabels(ctx, g.Cluster, node, nodegroup.RemovableLabels(g, node))
		}
		if err == nil && nodegroup.LifecycleOf(i.Lifecycle) == nodegroup.InService && node.IsAvailable() &&
			nodegroup.LacksLabels(g, node) {
			err = h.labelNode(ctx, g, node, lastUpdate, i.Template)
		}
		if cluster.PermanentError(err) != nil {
			handler.Logger(h.Log).
				Warn("the attributes of a node cannot be changed", "cluster", g.Cluster, "nodeGroup", g.Name,
					"instance", i.ID, "error", err)
		} else if err != nil {
			return fmt.Errorf("node %s: %w", i.ID, err)
		}
	}
	return nil
}

// removeStaleMark removes the mark of an update that has ended, and activates the node if that update had
// drained it: a call of the update may arrive after its end. A node that somebody else has drained stays
// DRAINING. What ECS refused the update is not tried again.
func (h labelling) removeStaleMark(ctx context.Context, g *cluster.NodeGroup, node *cluster.Instance) error {
	by := node.Attributes[cluster.AttributeUnschedulable]
	if by == "" {
		return nil
	}
	u, err := readUpdate(ctx, h.State, g, by)
	if err != nil || u == nil || !nodegroup.HasStaleMark(u, node) {
		return err
	}
	if nodegroup.IsDrainedBy(u, node) {
		if err := h.Hosts.ActivateInstance(ctx, g.Cluster, node.ID); err != nil {
			return err
		}
	}
	return h.removeLabels(ctx, g.Cluster, node, []string{cluster.AttributeUnschedulable})
}

// labelNode sets the labels that a node lacks, which was made from a launch template version.
func (h labelling) labelNode(
	ctx context.Context, g *cluster.NodeGroup, node *cluster.Instance,
	lastUpdate func() (*cluster.Update, error), template string,
) error {
	labels := nodegroup.GroupLabels(g)
	if node.Attributes[nodegroup.LabelImage] == "" {
		made, err := h.templateLabels(ctx, g, lastUpdate, template)
		if err != nil {
			return err
		}
		maps.Copy(labels, made)
	}
	return h.putLabels(ctx, g.Cluster, node, labels)
}

// templateLabels returns the labels that say what a node was made of, see
// [nodegroup.LabelsOfTemplate].
func (h labelling) templateLabels(
	ctx context.Context, g *cluster.NodeGroup, lastUpdate func() (*cluster.Update, error), template string,
) (map[string]string, error) {
	last, err := lastUpdate()
	if err != nil {
		return nil, err
	}
	image := ""
	if !nodegroup.IsMadeBy(last, template) {
		if image, err = h.images.imageOf(ctx, h.Templates, template); err != nil {
			return nil, err
		}
	}
	return nodegroup.LabelsOfTemplate(g, last, template, image), nil
}

// imageCache has the images of launch template versions, which never change.
type imageCache map[string]string

// imageOf returns the image that a launch template version names. It is empty if the version is
// gone, or names a parameter: that may stand for another image later.
func (c *imageCache) imageOf(ctx context.Context, templates handler.LaunchTemplates, template string) (string, error) {
	if image, known := (*c)[template]; known || template == "" {
		return image, nil
	}
	image := ""
	lt, err := templates.LaunchTemplate(ctx, nodegroup.ParseTemplate(template))
	switch why := cluster.PermanentError(err); {
	case err == nil && nodegroup.IsImageID(lt.Image):
		image = lt.Image
	case err != nil && (why == nil || cluster.IsAccessDenied(why.Code)):
		return "", fmt.Errorf("describing launch template %s: %w", template, err)
	}
	if *c == nil {
		*c = imageCache{}
	}
	(*c)[template] = image
	return image, nil
}

// labelUpdated labels the nodes that were made from the update's launch template version and lack a
// label of its target or of the node group. That makes them Ready, in the instances as well.
func (h labelling) labelUpdated(
	ctx context.Context, g *cluster.NodeGroup, u *cluster.Update, template string, instances []nodegroup.Instance,
) error {
	labels := nodegroup.GroupLabels(g)
	maps.Copy(labels, nodegroup.TargetLabels(u))
	for k, i := range instances {
		if template == "" || i.Template != template || i.Row == nil || !i.Row.IsAvailable() ||
			nodegroup.HasAttributes(i.Row, labels) {
			continue
		}
		if err := h.putLabels(ctx, g.Cluster, i.Row, labels); err != nil {
			return fmt.Errorf("labelling node %s: %w", i.ID, err)
		}
		row := *i.Row
		row.Attributes = map[string]string{}
		maps.Copy(row.Attributes, i.Row.Attributes)
		maps.Copy(row.Attributes, labels)
		instances[k].Row = &row
	}
	return nil
}

// putLabels sets the labels that a node lacks. The image's comes last: a node that has that one
// lacks none. The node is read anew at once, so that the state does not wait for ECS's event.
func (h labelling) putLabels(
	ctx context.Context, clusterName string, node *cluster.Instance, labels map[string]string,
) error {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(labels)),
		func(name string) bool { return name == nodegroup.LabelImage })
	changed := false
	for _, name := range append(names, nodegroup.LabelImage) {
		if value := labels[name]; value != "" && node.Attributes[name] != value {
			if err := h.Hosts.PutAttribute(ctx, clusterName, node.ID, name, value); err != nil {
				return err
			}
			changed = true
		}
	}
	if !changed {
		return nil
	}
	return h.newAPI().Clusters.InstancesChanged(ctx, clusterName, []string{node.ID})
}

// removeLabels removes labels from a node, and reads it anew at once.
func (h labelling) removeLabels(ctx context.Context, clusterName string, node *cluster.Instance, names []string) error {
	for _, name := range names {
		if err := h.Hosts.RemoveAttribute(ctx, clusterName, node.ID, name); err != nil {
			return err
		}
	}
	if len(names) == 0 {
		return nil
	}
	return h.newAPI().Clusters.InstancesChanged(ctx, clusterName, []string{node.ID})
}
