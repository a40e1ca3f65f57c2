package cluster

import "slices"

// Network is where a task in awsvpc mode gets its network interface.
type Network struct {
	Subnets        []string `json:"s"`
	SecurityGroups []string `json:"g,omitempty"`
}

// Equal reports whether two networks are the same; nil is no network.
func (n *Network) Equal(o *Network) bool {
	if n == nil || o == nil {
		return n == o
	}
	return slices.Equal(n.Subnets, o.Subnets) && slices.Equal(n.SecurityGroups, o.SecurityGroups)
}
