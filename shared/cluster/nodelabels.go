package cluster

import (
	"maps"
	"slices"
)

// NodeLabels says what the nodes of a node group are labelled with.
type NodeLabels struct {
	Labels map[string]string `json:"lb,omitempty"`
	// RemovedLabels names labels that nodes of a group that Berth makes may come with although they
	// were removed: an agent that restarts reports those that its instance was launched with. The
	// last one was removed last.
	RemovedLabels []string `json:"rl,omitempty"`
}

// maxRemovedLabels bounds NodeLabels.RemovedLabels. It is the number of labels that EKS allows.
const maxRemovedLabels = 50

// LabelsChange is a change of a node group's labels.
type LabelsChange struct {
	Set    map[string]string `json:"s,omitempty"`
	Remove []string          `json:"r,omitempty"`
}

// ApplyTo returns the labels after the change. A label that is not there may be removed.
func (c *LabelsChange) ApplyTo(l NodeLabels) NodeLabels {
	next := map[string]string{}
	maps.Copy(next, l.Labels)
	maps.Copy(next, c.Set)
	for _, name := range c.Remove {
		delete(next, name)
	}
	removed := slices.Clone(l.RemovedLabels)
	for _, name := range slices.Sorted(maps.Keys(l.Labels)) {
		if _, stays := next[name]; !stays {
			removed = append(removed, name)
		}
	}
	removed = slices.DeleteFunc(removed, func(name string) bool { _, is := next[name]; return is })
	l.Labels, l.RemovedLabels = next, removed[max(0, len(removed)-maxRemovedLabels):]
	return l
}
