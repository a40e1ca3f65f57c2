package cluster

import (
	"maps"
	"slices"
)

// Units of [Resources].
const (
	// CPUUnit is one ECS CPU unit; 1,024 of them are one vCPU. CPU is counted in thousandths of a
	// unit, so that ECS's units and thousandths of a vCPU are both whole numbers.
	CPUUnit = 1000
	// VCPU is one vCPU.
	VCPU = 1024 * CPUUnit
	// MilliVCPU is a thousandth of a vCPU, the unit of the tag berth:cpu-milli.
	MilliVCPU = VCPU / 1000
	// WholeGPU is one GPU device, in thousandths.
	WholeGPU = 1000
)

// Resources is the capacity that a task needs. Attributes and ports, which an instance has or has
// not, are elsewhere.
type Resources struct {
	CPU    int64 `json:"c,omitempty"` // thousandths of an ECS CPU unit
	Memory int64 `json:"m,omitempty"` // MiB
	GPUs   int   `json:"g,omitempty"` // devices; 1 if GPUMilli is below 1000
	// GPUMilli is the part of each device in thousandths: 0 or 1000 for whole devices. A task with
	// less needs one device with that much free. ECS itself has only whole devices.
	GPUMilli int32 `json:"s,omitempty"`
	// ENIs is 1 for a task with a network interface of its own (awsvpc).
	ENIs int32 `json:"e,omitempty"`
}

// PerGPU returns the thousandths that each of the task's devices must have free.
func (r Resources) PerGPU() int {
	if r.GPUMilli == 0 {
		return WholeGPU
	}
	return int(r.GPUMilli)
}

// Protocol is the transport protocol of a port mapping. Ports of different protocols do not
// collide.
type Protocol string

// The transport protocols of a port mapping.
const (
	TCP Protocol = "tcp"
	UDP Protocol = "udp"
)

// Port is a static host port. Dynamic ports (host port 0) never collide and are not stored.
type Port struct {
	Number   int      `json:"n"`
	Protocol Protocol `json:"p"`
}

// Capacity is what an instance registered with ECS.
type Capacity struct {
	CPU    int64    `json:"c"`           // thousandths of an ECS CPU unit
	Memory int64    `json:"m"`           // MiB
	GPUs   []string `json:"g,omitempty"` // device ids
	Ports  []Port   `json:"p,omitempty"` // reserved by the agent
	// ENIs is how many task network interfaces the instance can have; nil if no limit is known.
	ENIs *int `json:"e,omitempty"`
	// Metrics are capacities per metric (P9): all other whole numbers that the instance registered.
	Metrics map[string]int64 `json:"x,omitempty"`
}

// Equal reports whether two capacities are the same, including the order of devices and ports.
func (c Capacity) Equal(o Capacity) bool {
	return c.CPU == o.CPU && c.Memory == o.Memory && slices.Equal(c.GPUs, o.GPUs) && slices.Equal(c.Ports, o.Ports) &&
		(c.ENIs == nil) == (o.ENIs == nil) && (c.ENIs == nil || *c.ENIs == *o.ENIs) && maps.Equal(c.Metrics, o.Metrics)
}
