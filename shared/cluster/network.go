package cluster

import (
	"slices"
	"strconv"
)

// Network says where a task in awsvpc mode gets its network interface.
type Network struct {
	Subnets        []string `json:"s"`
	SecurityGroups []string `json:"g,omitempty"`
}

// Equal reports whether two networks are the same. Nil is no network.
func (n *Network) Equal(o *Network) bool {
	if n == nil || o == nil {
		return n == o
	}
	return slices.Equal(n.Subnets, o.Subnets) && slices.Equal(n.SecurityGroups, o.SecurityGroups)
}

// AttributeENIs says how many task network interfaces an instance can have if it registered no
// resource ENI. ECS does not report the number.
const AttributeENIs = "berth.task-enis"

// SetENIs sets the number of network interfaces from the attribute, if the instance registered
// none.
func (i *Instance) SetENIs() {
	n, err := strconv.ParseUint(i.Attributes[AttributeENIs], 10, 16)
	if err == nil && i.Registered.ENIs == nil {
		i.Registered.ENIs = new(int(n))
	}
}
