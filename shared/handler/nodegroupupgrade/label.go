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

// tend labels the nodes of ACTIVE node groups that lack a label, as those that were there before the node group, and those that
// were scaled out since. It asks Auto Scaling once for all groups, and goes on only for nodes that lack one.
func (n *Handler) tend(ctx context.Context, clusterName string, active []*cluster.NodeGroup) error {
	var names []string
	for _, g := range active {
		names = append(names, g.AutoScalingGroup)
	}
	if len(names) == 0 {
		return nil
	}
	found, err := n.Auto.DescribeGroups(ctx, names)
	if err != nil {
		return fmt.Errorf("describing the Auto Scaling groups of node groups: %w", err)
	}
	world := newNodeWorld()
	if err := n.read(ctx, world, clusterName, state.PrefixInstance); err != nil {
		return err
	}
	var failed []error
	for _, g := range active {
		for _, auto := range found {
			if auto.Name == g.AutoScalingGroup {
				failed = append(failed, cluster.Wrap(n.labelBare(ctx, g, auto, world), "labelling the nodes of node group %s", g.Name))
			}
		}
	}
	return errors.Join(failed...)
}

// labelBare labels the nodes of a group that lack a label. A refusal for good is of one node.
func (n *Handler) labelBare(ctx context.Context, g *cluster.NodeGroup, auto *cluster.AutoScalingGroup, world *nodeWorld) error {
	last := sync.OnceValues(func() (*cluster.Update, error) { return n.row(ctx, g, g.Update) })
	for _, i := range auto.Instances {
		row := world.instances[i.ID]
		if lifecycle(i.Lifecycle) != nodegroup.InService || row == nil || !row.Available() || !bare(g, row) {
			continue
		}
		labels, err := groupLabels(g), error(nil)
		if row.Attributes[nodegroup.LabelImage] == "" {
			err = n.describe(ctx, g, last, i.Template, labels)
		}
		if err == nil {
			err = n.give(ctx, g.Cluster, row, labels)
		}
		if cluster.ForGood(err) != nil {
			handler.Logger(n.Log).Warn("a node cannot be labelled", "cluster", g.Cluster, "nodeGroup", g.Name, "instance", i.ID, "error", err)
		} else if err != nil {
			return fmt.Errorf("node %s: %w", i.ID, err)
		}
	}
	return nil
}

// bare reports whether a node lacks a label.
func bare(g *cluster.NodeGroup, row *cluster.Instance) bool {
	return row.Attributes[nodegroup.LabelImage] == "" || !labelled(row, groupLabels(g))
}

// describe adds the labels that say what a node is made of: those of the last update where that has made the node's launch
// template version, else the image that the version names. The group's own may be another by now.
func (n *Handler) describe(ctx context.Context, g *cluster.NodeGroup, last func() (*cluster.Update, error), template string, labels map[string]string) error {
	u, err := last()
	if err != nil {
		return err
	}
	made := &cluster.Update{NodeGroup: g.Name}
	if u != nil && u.Template == template {
		made.Target = u.Target
	} else if made.Target.Image, err = n.image(ctx, template); err != nil {
		return err
	}
	if t := g.Target; t.SourceTemplate != "" && template == t.SourceTemplate+":"+t.SourceVersion {
		made.Target.SourceTemplate, made.Target.SourceVersion = t.SourceTemplate, t.SourceVersion
	}
	maps.Copy(labels, nodegroup.Labels(made))
	return nil
}

// image is the one that a launch template version names; empty where the version is gone, or names a parameter, which is of
// another image by and by. It is asked for once.
func (n *Handler) image(ctx context.Context, template string) (string, error) {
	if image, known := n.images[template]; known || template == "" {
		return image, nil
	}
	image := ""
	lt, err := n.Templates.LaunchTemplate(ctx, templateOf(template))
	switch why := cluster.ForGood(err); {
	case err == nil && imageID(lt.Image):
		image = lt.Image
	case err != nil && (why == nil || cluster.Denies(why.Code)):
		return "", fmt.Errorf("describing launch template %s: %w", template, err)
	}
	if n.images == nil {
		n.images = map[string]string{}
	}
	n.images[template] = image
	return image, nil
}

// groupLabels are those that all nodes of a node group have.
func groupLabels(g *cluster.NodeGroup) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, g.Labels)
	labels[nodegroup.LabelNodeGroup] = g.Name
	return labels
}

// label gives the labels of the target, and the node group's own, to nodes made from the update's launch template version that
// lack them: they are Ready with that.
func (n *Handler) label(ctx context.Context, g *cluster.NodeGroup, u *cluster.Update, template string, instances []nodegroup.Instance) error {
	labels := groupLabels(g)
	maps.Copy(labels, nodegroup.Labels(u))
	for k, i := range instances {
		if template == "" || i.Template != template || i.Row == nil || !i.Row.Available() || labelled(i.Row, labels) {
			continue
		}
		if err := n.give(ctx, g.Cluster, i.Row, labels); err != nil {
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

// give puts those labels on a node that it lacks, that of the image last: a node that has it needs no more that say what it is. The state learns
// of them without waiting for ECS's event.
func (n *Handler) give(ctx context.Context, clusterName string, row *cluster.Instance, labels map[string]string) error {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(labels)), func(name string) bool { return name == nodegroup.LabelImage })
	given := false
	for _, name := range append(names, nodegroup.LabelImage) {
		if value := labels[name]; value != "" && row.Attributes[name] != value {
			if err := n.Hosts.PutAttribute(ctx, clusterName, row.ID, name, value); err != nil {
				return err
			}
			given = true
		}
	}
	if !given {
		return nil
	}
	return n.api().InstancesChanged(ctx, clusterName, []string{row.ID})
}

func labelled(i *cluster.Instance, labels map[string]string) bool {
	for k, v := range labels {
		if got, ok := i.Attributes[k]; !ok || got != v {
			return false
		}
	}
	return true
}
