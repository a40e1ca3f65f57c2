package cluster

import (
	"maps"
	"slices"
)

// Units of [Resources].
const (
	// CPUUnit is one ECS CPU unit; 1,024 of them are one vCPU. CPU is kept in thousandths of a
	// unit, so that both ECS's units and thousandths of a vCPU (1,024 of these) are whole numbers.
	CPUUnit = 1000
	// VCPU is one vCPU.
	VCPU = 1024 * CPUUnit
	// MilliVCPU is a thousandth of a vCPU, the unit of the tag berth:cpu-milli.
	MilliVCPU = VCPU / 1000
	// WholeGPU is one GPU device, in thousandths.
	WholeGPU = 1000
)

// Resources is what a task needs, besides what an instance merely has or has not (attributes,
// ports).
type Resources struct {
	CPU    int64 `json:"c,omitempty"` // thousandths of an ECS CPU unit
	Memory int64 `json:"m,omitempty"` // MiB
	GPUs   int   `json:"g,omitempty"` // devices; 1 where GPUMilli is a share
	// GPUMilli is the share of each device in thousandths: 0 or 1000 for whole devices. A share
	// below 1000 needs one device with that much free (Berth's own; ECS has whole devices only).
	GPUMilli int32 `json:"s,omitempty"`
	// ENIs is 1 for a task with a network interface of its own (awsvpc).
	ENIs int32 `json:"e,omitempty"`
}

// PerGPU is the thousandths that each of the task's devices must have free.
func (r Resources) PerGPU() int {
	if r.GPUMilli == 0 {
		return WholeGPU
	}
	return int(r.GPUMilli)
}

// Protocol tells apart the two kinds of host port that can collide.
type Protocol string

// The transport protocols of a port mapping.
const (
	TCP Protocol = "tcp"
	UDP Protocol = "udp"
)

// Port is a static host port. Dynamic ports (host port 0) never collide and are not kept.
type Port struct {
	Number   int      `json:"n"`
	Protocol Protocol `json:"p"`
}

// Capacity is what an instance registered with ECS.
type Capacity struct {
	CPU    int64    `json:"c"`           // thousandths of an ECS CPU unit
	Memory int64    `json:"m"`           // MiB
	GPUs   []string `json:"g,omitempty"` // device ids
	Ports  []Port   `json:"p,omitempty"` // reserved by the agent, never available
	// ENIs is how many task network interfaces the instance can have; nil is no limit known.
	ENIs *int `json:"e,omitempty"`
	// Metrics are capacities per metric (P9): every other whole number that the instance
	// registered.
	Metrics map[string]int64 `json:"x,omitempty"`
}

// Equal reports whether two capacities are the same, the order of devices and ports included.
func (c Capacity) Equal(o Capacity) bool {
	return c.CPU == o.CPU && c.Memory == o.Memory && slices.Equal(c.GPUs, o.GPUs) && slices.Equal(c.Ports, o.Ports) &&
		(c.ENIs == nil) == (o.ENIs == nil) && (c.ENIs == nil || *c.ENIs == *o.ENIs) && maps.Equal(c.Metrics, o.Metrics)
}
