package cluster

// GroupUse says who has an Auto Scaling group: one node group and one capacity provider at most, of whatever cluster, and often
// both. It is written with the row of who takes the group, so that no two can; whoever it names holds the group only while that
// row is there.
type GroupUse struct {
	Head
	Group     string       `json:"gn"`
	Provider  string       `json:"pr,omitempty"` // name of the capacity provider
	NodeGroup NodeGroupRef `json:"ng,omitzero"`
}

// NodeGroupRef names a node group, and by its id the one of several that had the name.
type NodeGroupRef struct {
	Cluster string `json:"c"`
	Name    string `json:"n"`
	ID      string `json:"i"`
}

// Ref is what a [GroupUse] calls the node group.
func (g *NodeGroup) Ref() NodeGroupRef { return NodeGroupRef{g.Cluster, g.Name, g.ID} }

// Key is in the [Directory], as an Auto Scaling group belongs to no cluster.

// GroupUseKey names the row of an Auto Scaling group.
