package nodegroup

import "berth/shared/cluster"

// The labels that a node has as attributes once it is up to date.
// The last two are only in node groups with a launch template of the user's own.
const (
	LabelImage          = "eks.amazonaws.com/nodegroup-image"
	LabelNodeGroup      = "eks.amazonaws.com/nodegroup"
	LabelSourceTemplate = "eks.amazonaws.com/sourceLaunchTemplateId"
	LabelSourceVersion  = "eks.amazonaws.com/sourceLaunchTemplateVersion"
)

// TargetLabels returns the labels of nodes that have an update's target (N2).
func TargetLabels(u *cluster.Update) map[string]string {
	labels := map[string]string{LabelImage: u.Target.Image, LabelNodeGroup: u.NodeGroup}
	if u.Target.SourceTemplate != "" {
		labels[LabelSourceTemplate], labels[LabelSourceVersion] = u.Target.SourceTemplate, u.Target.SourceVersion
	}
	return labels
}

// hasLabels reports whether the node has all of the labels.
func (i *Instance) hasLabels(labels map[string]string) bool {
	if i.Row == nil {
		return false
	}
	for k, v := range labels {
		if i.Row.Attributes[k] != v {
			return false
		}
	}
	return true
}

// GroupLabels returns the labels that all nodes of a node group have, and their taints as one more.
func GroupLabels(g *cluster.NodeGroup) map[string]string {
	labels := g.Attributes()
	labels[LabelNodeGroup] = g.Name
	return labels
}

// LacksLabels reports whether a node of the group lacks a label.
func LacksLabels(g *cluster.NodeGroup, node *cluster.Instance) bool {
	return node.Attributes[LabelImage] == "" || !HasAttributes(node, GroupLabels(g))
}

// RemovableLabels returns the labels that the node has and that were removed from the node group.
func RemovableLabels(g *cluster.NodeGroup, node *cluster.Instance) (names []string) {
	for _, name := range g.RemovedLabels {
		if _, has := node.Attributes[name]; has {
			names = append(names, name)
		}
	}
	return names
}

// HasAttributes reports whether the node has all of the attributes, including those with an empty
// value.
func HasAttributes(node *cluster.Instance, attributes map[string]string) bool {
	for k, v := range attributes {
		if got, ok := node.Attributes[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// LabelsOfTemplate returns the labels that say what a node of an ACTIVE node group is made of.
//
// If the group's last update made the node's launch template version, they are those of the
// update's target. Otherwise they name the image of that version: the group's own image may be
// another one by now.
func LabelsOfTemplate(g *cluster.NodeGroup, last *cluster.Update, template, image string) map[string]string {
	made := &cluster.Update{NodeGroup: g.Name}
	if made.Target.Image = image; IsMadeBy(last, template) {
		made.Target = last.Target
	}
	// A launch template that Berth made is a copy of the user's.
	if t := g.Target; t.SourceTemplate != "" && made.Target.SourceTemplate == "" &&
		(template == t.SourceTemplate+":"+t.SourceVersion || g.IsMade() && image == t.Image) {
		made.Target.SourceTemplate, made.Target.SourceVersion = t.SourceTemplate, t.SourceVersion
	}
	return TargetLabels(made)
}

// IsMadeBy reports whether the update, nil for none, has made the launch template version.
func IsMadeBy(u *cluster.Update, template string) bool { return u != nil && u.Template == template }
