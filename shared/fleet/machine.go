package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/shared/cluster"
)

// Machine is what kind of instances to add. A type of the table needs nothing more; any other name needs a size.
type Machine struct {
	Type  string
	Zones []string // taken in turn; the Region's a, b and c where empty

	// CPU, in thousandths of a vCPU (whole CPU units are registered, rounded down), Memory in MiB and GPUs are the
	// table's where CPU is zero.
	CPU    int64
	Memory int64
	GPUs   int

	// ENIs is how many task network interfaces there are; 0 is any number.
	ENIs int
	// Metrics are capacities per metric (P9).
	Metrics map[string]int64
	// Provider is the capacity provider that the machines belong to; empty for none.
	Provider string
	// Attributes are custom ones, at most 10.
	Attributes map[string]string
}

// machines are common EC2 types: vCPUs, MiB about as ECS registers them (the kernel's share is gone), GPUs.
var machines = map[string]struct {
	vcpu   int64
	memory int64
	gpus   int
}{
	"t3.micro": {2, 904, 0}, "t3.small": {2, 1904, 0}, "t3.medium": {2, 3827, 0}, "t3.large": {2, 7764, 0},
	"t3.xlarge": {4, 15758, 0}, "t3.2xlarge": {8, 31745, 0},
	"t4g.small": {2, 1849, 0}, "t4g.medium": {2, 3773, 0},
	"m5.large": {2, 7689, 0}, "m5.xlarge": {4, 15605, 0}, "m5.2xlarge": {8, 31438, 0}, "m5.4xlarge": {16, 63094, 0},
	"m6i.large": {2, 7709, 0}, "m6i.xlarge": {4, 15651, 0}, "m6i.2xlarge": {8, 31532, 0}, "m6i.4xlarge": {16, 63294, 0},
	"m6g.large": {2, 7652, 0}, "m6g.xlarge": {4, 15552, 0},
	"c5.large": {2, 3713, 0}, "c5.xlarge": {4, 7652, 0}, "c5.2xlarge": {8, 15529, 0}, "c5.4xlarge": {16, 31281, 0},
	"r5.large": {2, 15618, 0}, "r5.xlarge": {4, 31464, 0}, "r5.2xlarge": {8, 63155, 0},
	"g4dn.xlarge": {4, 15559, 1}, "g4dn.2xlarge": {8, 31373, 1}, "g4dn.12xlarge": {48, 189283, 4},
	"g5.xlarge": {4, 15559, 1}, "g5.12xlarge": {48, 189283, 4},
	"p3.2xlarge": {8, 61122, 1}, "p3.8xlarge": {32, 245671, 4}, "p3.16xlarge": {64, 491839, 8},
}

// MachineTypes are the EC2 types that need no size, sorted.
func MachineTypes() []string { return slices.Sorted(maps.Keys(machines)) }

// agentReserved are the ports that the agent and its host keep for themselves.
var agentReserved = []cluster.Port{
	{Number: 22, Protocol: cluster.TCP}, {Number: 2376, Protocol: cluster.TCP}, {Number: 2375, Protocol: cluster.TCP},
	{Number: 51678, Protocol: cluster.TCP}, {Number: 51679, Protocol: cluster.TCP},
}

// capabilities are what every agent of the fleet can do.
var capabilities = []string{
	"com.amazonaws.ecs.capability.docker-remote-api.1.18", "com.amazonaws.ecs.capability.docker-remote-api.1.24",
	"com.amazonaws.ecs.capability.docker-remote-api.1.44", "com.amazonaws.ecs.capability.ecr-auth",
	"com.amazonaws.ecs.capability.logging-driver.awslogs", "com.amazonaws.ecs.capability.logging-driver.json-file",
	"com.amazonaws.ecs.capability.logging-driver.none", "com.amazonaws.ecs.capability.logging-driver.syslog",
	"com.amazonaws.ecs.capability.privileged-container", "com.amazonaws.ecs.capability.task-iam-role",
	"ecs.capability.container-health-check", "ecs.capability.container-ordering", "ecs.capability.execution-role-awslogs",
	"ecs.capability.task-eni",
}

const maxCPUUnits = 1 << 31

// AddInstances has n machines join the cluster and returns their container instance ids. Each registers with an event.
func (f *Fleet) AddInstances(clusterName string, n int, m Machine) (ids []string, err error) {
	if _, _, _, err := m.size(); err != nil {
		return nil, err
	}
	zones := f.zones(m)
	err = f.change(func(now time.Time) error {
		c, err := f.cluster(clusterName)
		if err != nil {
			return err
		}
		for k := range n {
			i, err := f.launch(c, m, launched{zone: zones[k%len(zones)], at: now})
			if err != nil {
				return err
			}
			ids = append(ids, i.ID)
		}
		return nil
	})
	return ids, err
}

// zones are those that the machines are in, taken in turn.
func (f *Fleet) zones(m Machine) []string {
	if len(m.Zones) > 0 {
		return m.Zones
	}
	return []string{f.opt.Account.Region + "a", f.opt.Account.Region + "b", f.opt.Account.Region + "c"}
}

// launched is where and when a machine was launched, from what image, and what EC2 calls it where that is settled already.
type launched struct {
	zone, ec2, image string
	at               time.Time
}

// launch has a machine register with the cluster.
func (f *Fleet) launch(c *ecsCluster, m Machine, l launched) (*instance, error) {
	cpu, memory, gpus, err := m.size()
	if err != nil {
		return nil, err
	}
	custom, err := customAttributes(m.Attributes)
	if err != nil {
		return nil, err
	}
	i := f.newInstance(c, l.at)
	i.CPU, i.Memory, i.Zone, i.Metrics = cpu, memory, l.zone, m.Metrics
	i.Provider, i.EC2 = m.Provider, cmp.Or(l.ec2, i.EC2)
	if m.ENIs > 0 {
		i.ENIs = &m.ENIs
	}
	for g := range gpus {
		i.GPUs = append(i.GPUs, "GPU-"+hyphened(cluster.Digest(i.ID, strconv.Itoa(g))))
	}
	i.Attributes = append(builtIn(i.Zone, m.Type, l.image), custom...)
	slices.SortFunc(i.Attributes, byName)
	f.register(i)
	f.instanceChanged(i, l.at)
	return i, nil
}

// size is what the machine registers: CPU units, MiB, GPUs.
func (m Machine) size() (cpu, memory int64, gpus int, err error) {
	if m.CPU == 0 {
		known, ok := machines[m.Type]
		if !ok {
			return 0, 0, 0, fmt.Errorf("adding instances: type %q is unknown and has no size", m.Type)
		}
		return known.vcpu * 1024, known.memory, known.gpus, nil
	}
	cpu = m.CPU * 1024 / 1000
	if m.CPU < 0 || m.Memory < 0 || m.GPUs < 0 || cpu >= maxCPUUnits || m.Memory >= maxCPUUnits {
		return 0, 0, 0, fmt.Errorf("adding instances: a size of %d thousandths of a vCPU, %d MiB and %d GPUs is out of bounds", m.CPU, m.Memory, m.GPUs)
	}
	return cpu, m.Memory, m.GPUs, nil
}

func builtIn(zone, machine, image string) []attribute {
	arch := "x86_64"
	if strings.HasPrefix(machine, "t4g.") || strings.HasPrefix(machine, "m6g.") {
		arch = "arm64"
	}
	out := []attribute{
		{Name: cluster.AttributeZone, Value: zone}, {Name: cluster.AttributeInstanceType, Value: machine},
		{Name: "ecs.os-type", Value: "linux"}, {Name: "ecs.ami-id", Value: cmp.Or(image, firstImage)},
		{Name: "ecs.cpu-architecture", Value: arch},
	}
	for _, name := range capabilities {
		out = append(out, attribute{Name: name})
	}
	return out
}

func customAttributes(m map[string]string) ([]attribute, error) {
	if len(m) > maxCustom {
		return nil, fmt.Errorf("adding instances: %d custom attributes, the most is %d", len(m), maxCustom)
	}
	var out []attribute
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if err := checkAttribute(name, m[name]); err != nil {
			return nil, fmt.Errorf("adding instances: %w", err)
		}
		out = append(out, attribute{Name: name, Value: m[name], Custom: true})
	}
	return out, nil
}

// hyphened is the first 32 hex digits of s in the form of a UUID.
func hyphened(s string) string {
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:32]
}
