package cluster

import (
	"slices"
	"strconv"
)

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

// AttributeENIs says how many task network interfaces an instance can have, where it registered no
// resource ENI: ECS knows, and does not tell.
const AttributeENIs = "berth.task-enis"

// SetENIs takes the number from the attribute, if the instance has that and registered none.
func (i *Instance) SetENIs() {
	n, err := strconv.ParseUint(i.Attributes[AttributeENIs], 10, 16)
	if err == nil && i.Registered.ENIs == nil {
		i.Registered.ENIs = new(int(n))
	}
}
