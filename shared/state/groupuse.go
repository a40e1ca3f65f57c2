package state

import "berth/shared/cluster"

// GroupUse says who has an Auto Scaling group: one node group and one capacity provider at most, of
// whatever cluster, and often both. It is written with the row of who takes the group, so that no
// two can; whoever it names holds the group only while that row is there.
type GroupUse struct {
	cluster.Head
	Group     string               `json:"gn"`
	Provider  string               `json:"pr,omitempty"` // name of the capacity provider
	NodeGroup cluster.NodeGroupRef `json:"ng,omitzero"`
}
