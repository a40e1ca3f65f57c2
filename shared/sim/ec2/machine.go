package ec2

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Machine is a kind of instance. A type of [MachineTypes] has a size; any other name needs one.
// Example, a machine with 3.5 vCPUs, 8 GiB and a metric of its own:
//
//	Machine{Type: "edge", CPU: 3500, Memory: 8192, Metrics: map[string]int64{"disk": 500}}
type Machine struct {
	Type  string
	Zones []string // taken in turn; the Region's a, b and c where empty

	// CPU is in thousandths of a vCPU, rounded down to CPU units at registration. Memory is in MiB.
	// If CPU is zero, all three are those of the type.
	CPU    int64
	Memory int64
	GPUs   int

	// ENIs is how many tasks can have a network interface of their own; 0 is any number.
	ENIs int
	// Metrics are capacities per metric (P9).
	Metrics map[string]int64
	// Provider is the capacity provider, or empty.
	Provider string
	// Attributes are custom attributes, at most 10.
	Attributes map[string]string
}

// machineSize is the size of an EC2 type. Registered is the memory that ECS registers, which is
// without the share of the operating system; advertised is EC2's figure. Both are in MiB.
type machineSize struct {
	vcpu, registered int64
	gpus             int
	advertised       int64
	interfaces       int
}

// machines are common EC2 types.
var machines = map[string]machineSize{
	"t3.micro": {2, 904, 0, 1024, 2}, "t3.small": {2, 1904, 0, 2048, 3}, "t3.medium": {2, 3827, 0, 4096, 3},
	"t3.large": {2, 7764, 0, 8192, 3}, "t3.xlarge": {4, 15758, 0, 16384, 4}, "t3.2xlarge": {8, 31745, 0, 32768, 4},
	"t4g.small": {2, 1849, 0, 2048, 3}, "t4g.medium": {2, 3773, 0, 4096, 3}, "m5.large": {2, 7689, 0, 8192, 3},
	"m5.xlarge": {4, 15605, 0, 16384, 4}, "m5.2xlarge": {8, 31438, 0, 32768, 4},
	"m5.4xlarge": {16, 63094, 0, 65536, 8}, "m6i.large": {2, 7709, 0, 8192, 3}, "m6i.xlarge": {4, 15651, 0, 16384, 4},
	"m6i.2xlarge": {8, 31532, 0, 32768, 4}, "m6i.4xlarge": {16, 63294, 0, 65536, 8},
	"m6g.large": {2, 7652, 0, 8192, 3}, "m6g.xlarge": {4, 15552, 0, 16384, 4}, "c5.large": {2, 3713, 0, 4096, 3},
	"c5.xlarge": {4, 7652, 0, 8192, 4}, "c5.2xlarge": {8, 15529, 0, 16384, 4}, "c5.4xlarge": {16, 31281, 0, 32768, 8},
	"r5.large": {2, 15618, 0, 16384, 3}, "r5.xlarge": {4, 31464, 0, 32768, 4}, "r5.2xlarge": {8, 63155, 0, 65536, 4},
	"g4dn.xlarge": {4, 15559, 1, 16384, 3}, "g4dn.2xlarge": {8, 31373, 1, 32768, 3},
	"g4dn.12xlarge": {48, 189283, 4, 196608, 8}, "g5.xlarge": {4, 15559, 1, 16384, 4},
	"g5.12xlarge": {48, 189283, 4, 196608, 15}, "p3.2xlarge": {8, 61122, 1, 62464, 4},
	"p3.8xlarge": {32, 245671, 4, 249856, 8}, "p3.16xlarge": {64, 491839, 8, 499712, 8},
}

// MachineTypes returns the EC2 types that have a size, sorted.
func MachineTypes() []string { return slices.Sorted(maps.Keys(machines)) }

// MaxSize is the exclusive bound of sizes in CPU units and MiB, because ECS's integers have 32
// bits.
const MaxSize = 1 << 31

// ZonesIn returns the zones that machines are launched in, in turn.
func (m Machine) ZonesIn(region string) []string {
	if len(m.Zones) > 0 {
		return m.Zones
	}
	return []string{region + "a", region + "b", region + "c"}
}

// RegisteredSize returns what the machine registers: CPU units (1024 a vCPU), MiB, GPUs. Example: a
// CPU of 2500 thousandths is 2560 units. An unknown type without a size is an error.
func (m Machine) RegisteredSize() (cpu, memory int64, gpus int, err error) {
	if m.CPU == 0 {
		known, ok := machines[m.Type]
		if !ok {
			return 0, 0, 0, fmt.Errorf("adding instances: type %q is unknown and has no size", m.Type)
		}
		return known.vcpu * 1024, known.registered, known.gpus, nil
	}
	cpu = m.CPU * 1024 / 1000
	if m.CPU < 0 || m.Memory < 0 || m.GPUs < 0 || cpu >= MaxSize || m.Memory >= MaxSize {
		return 0, 0, 0,
			fmt.Errorf("adding instances: a size of %d thousandths of a vCPU, %d MiB and %d GPUs is out of bounds",
				m.CPU, m.Memory, m.GPUs)
	}
	return cpu, m.Memory, m.GPUs, nil
}

// Launch is where and when one machine is launched.
type Launch struct {
	Zone, Image string
	ID          string // the instance's; empty to make one
	At          time.Time
}
