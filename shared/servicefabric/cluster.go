package servicefabric

import (
	"bytes"

	"berth/shared/cluster"
)

// A Cluster is the content of a description.
type Cluster struct {
	Name  string
	Nodes []Node
	// Configuration has the node types, buffers, overbooking, thresholds and priorities. Its Head
	// is empty.
	Configuration cluster.Configuration
	// Ignored names what Berth does not have, sorted: parameters of fabricSettings with their
	// section (Hosting/EndpointProviderEnabled), elements and members by their path.
	Ignored []string
	// Reasons says why, by these names, where there is more to say than that.
	Reasons map[string]string
}

// A Node is one node of the description. It becomes a container instance when its host registers
// with the cluster.
type Node struct {
	Name          string
	Address       string
	Type          string
	FaultDomain   string // such as fd:/dc1/r0; may be empty
	UpgradeDomain string
}

// Attributes returns the attributes that make a container instance this node: its name, node type
// and domains.
func (n Node) Attributes() map[string]string {
	out := map[string]string{cluster.PropertyPrefix + "NodeName": n.Name, cluster.AttributeNodeType: n.Type}
	if n.FaultDomain != "" {
		out[cluster.AttributeFaultDomain] = n.FaultDomain
	}
	if n.UpgradeDomain != "" {
		out[cluster.AttributeUpgrade] = n.UpgradeDomain
	}
	return out
}

// The limits of a description.
const (
	maxSize  = 8 << 20
	maxNodes = 10_000
	maxDepth = 64
)

// Read reads a description: XML if it begins with "<", and otherwise JSON, which may have comments
// and trailing commas. A description that is malformed, contradicts itself or has a value that
// Berth cannot store gives an *[Error]: a buffer of 15 where 0.15 is meant, or a node whose type is
// described nowhere.
func Read(data []byte) (*Cluster, error) {
	if len(data) > maxSize {
		return nil, errorAt(1, "the description has %d bytes, at most %d are read", len(data), maxSize)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	b := newBuilder()
	var err error
	switch text := bytes.TrimSpace(data); {
	case len(text) == 0:
		err = errorAt(1, "the description is empty")
	case text[0] == '<':
		err = readXML(b, data)
	default:
		err = readJSON(b, data)
	}
	if err != nil {
		return nil, err
	}
	return b.finish()
}
