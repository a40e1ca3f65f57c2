package nodegroup

import (
	"cmp"
	"slices"

	"berth/shared/cluster"
)

// The labels that a node has as attributes once it is up to date; those of a source only in a node group with a launch
// template of the user's own.
const (
	LabelImage          = "eks.amazonaws.com/nodegroup-image"
	LabelNodeGroup      = "eks.amazonaws.com/nodegroup"
	LabelSourceTemplate = "eks.amazonaws.com/sourceLaunchTemplateId"
	LabelSourceVersion  = "eks.amazonaws.com/sourceLaunchTemplateVersion"
)

// Labels are those that the nodes of an update's target have (N2): the user data of the launch template gives them.
func Labels(u *cluster.Update) map[string]string {
	out := map[string]string{LabelImage: u.Target.Image, LabelNodeGroup: u.NodeGroup}
	if u.Target.SourceTemplate != "" {
		out[LabelSourceTemplate], out[LabelSourceVersion] = u.Target.SourceTemplate, u.Target.SourceVersion
	}
	return out
}

// labelled reports whether an instance has the labels of the update's target.
func (w *work) labelled(i *Instance) bool {
	if i.Row == nil {
		return false
	}
	for k, v := range w.labels {
		if i.Row.Attributes[k] != v {
			return false
		}
	}
	return true
}

// updated reports whether a node is up to date: made by this update, or by an earlier one with the same target (N3).
func (w *work) updated(i *Instance) bool {
	return w.labelled(i) || w.Template != "" && i.Template == w.Template && !slices.Contains(w.Unready, i.ID)
}

// connected reports whether a node is registered and its agent is there; one that its user drains is.
func (i *Instance) connected() bool {
	return i.Lifecycle == InService && i.Row != nil && i.Row.AgentConnected &&
		(i.Row.Status == cluster.InstanceActive || i.Row.Status == cluster.InstanceDraining)
}

// ready reports whether a new node is Ready and has its labels.
func (w *work) ready(i *Instance) bool { return i.connected() && w.labelled(i) }

// old are the nodes that are not up to date, those on their way out included.
func (w *work) old() (out []*Instance) {
	for i := range w.members {
		if m := &w.members[i]; !w.updated(m) {
			out = append(out, m)
		}
	}
	return out
}

// readyCount is how many new nodes are Ready.
func (w *work) readyCount() (n int) {
	for i := range w.members {
		if m := &w.members[i]; w.updated(m) && w.ready(m) {
			n++
		}
	}
	return n
}

// count is how many nodes there are, those on their way out not included.
func (w *work) count() (n int) {
	for _, m := range w.members {
		if m.Lifecycle != Terminating {
			n++
		}
	}
	return n
}

// oldZones are the zones that have old nodes, in order.
func (w *work) oldZones() (out []string) {
	for _, m := range w.old() {
		if m.Lifecycle != Terminating {
			out = append(out, m.Zone)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// UpgradeDomain is a node's upgrade domain: the node itself where nothing says.
func (i *Instance) UpgradeDomain() string {
	if i.Row == nil {
		return i.ID
	}
	return cmp.Or(i.Row.Attributes[cluster.AttributeUpgrade], i.ID)
}

// node is the container instance's id, empty where there is none (any more).
func (i *Instance) node() string {
	if i.Row == nil || i.Row.Gone() {
		return ""
	}
	return i.Row.ID
}

// mark is what a node's berth.unschedulable says; empty where it has none.
func (i *Instance) mark() (value string, marked bool) {
	if i.node() == "" {
		return "", false
	}
	value, marked = i.Row.Attributes[cluster.AttributeUnschedulable]
	return value, marked
}

func (i *Instance) draining() bool { return i.node() != "" && i.Row.Status == cluster.InstanceDraining }

// held are the tasks that hold something on the node.
func (i *Instance) held() (out []Task) {
	for _, t := range i.Tasks {
		if !t.Ended() {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b Task) int { return compare(a.ID, b.ID) })
	return out
}

func compare(a, b string) int { return cmp.Compare(a, b) }
