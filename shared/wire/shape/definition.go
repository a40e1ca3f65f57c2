package shape

import (
	"math"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/wire/input"
)

// Tags of a task definition for what ECS cannot express. They count from its registration on.
const (
	// TagCPUMilli is the task's exact CPU in thousandths of a vCPU, 0 to 10,000,000. It replaces
	// the definition's CPU units: "berth:cpu-milli" 250 is a quarter of a vCPU.
	TagCPUMilli = "berth:cpu-milli"
	// TagGPUMilli is a share of one GPU in thousandths, 1 to 999. Such a definition requires no
	// whole GPUs.
	TagGPUMilli = "berth:gpu-milli"
)

// maxCPUMilli is 10,000 vCPUs, more than any instance has.
const maxCPUMilli = 10_000_000

// DefinitionTags are the checks of the tags of Berth's own that a task definition can have, by tag.
var DefinitionTags = map[string]func(types.Tag) error{
	TagCPUMilli: func(t types.Tag) error { _, err := parseMilli(t, 0, maxCPUMilli); return err },
	TagGPUMilli: func(t types.Tag) error { _, err := parseMilli(t, 1, cluster.WholeGPU-1); return err },
}

// ParseTaskDefinition returns what placement needs of a task definition. CPU and memory are the
// task's own size if it has one, else the sum over its containers; a container's memory is its
// reservation, or else its limit. Static ports are the host ports that placement must keep free. A
// definition that cannot be placed is an InvalidParameterException.
func ParseTaskDefinition(d types.TaskDefinition, tags []types.Tag) (*cluster.TaskDefinition, error) {
	out := &cluster.TaskDefinition{
		Family: input.Value(d.Family), Revision: int(d.Revision),
		Inactive: d.Status != "" && d.Status != types.TaskDefinitionStatusActive,
		OwnCPU:   input.Value(d.Cpu) != "", OwnMemory: input.Value(d.Memory) != "",
	}
	for _, a := range d.RequiresAttributes {
		out.Attributes = append(out.Attributes, attributeRequirement(a))
	}
	out.Constraints = definitionConstraints(d.PlacementConstraints)
	if d.NetworkMode == types.NetworkModeAwsvpc {
		out.Needs.ENIs = 1
	}
	for _, role := range []*string{d.TaskRoleArn, d.ExecutionRoleArn} {
		if input.Value(role) != "" {
			out.Roles = append(out.Roles, *role)
		}
	}
	for _, c := range d.ContainerDefinitions {
		if err := addContainer(out, &c, d.NetworkMode); err != nil {
			return nil, err
		}
	}
	if err := applyTaskSize(out, d); err != nil {
		return nil, err
	}
	if err := applyTags(out, tags); err != nil {
		return nil, err
	}
	for _, t := range tags {
		if out.Tags == nil {
			out.Tags = map[string]string{}
		}
		out.Tags[input.Value(t.Key)] = input.Value(t.Value)
	}
	if out.Tags = cluster.UserTags(out.Tags); len(out.Tags) == 0 {
		out.Tags = nil
	}
	return out, nil
}

// attributeRequirement returns a required attribute as NAME or NAME=VALUE.
func attributeRequirement(a types.Attribute) string {
	if input.Value(a.Value) == "" {
		return input.Value(a.Name)
	}
	return *a.Name + "=" + *a.Value
}

// addContainer adds what one container needs: CPU, memory (its reservation, or else its limit),
// GPUs and static ports.
func addContainer(out *cluster.TaskDefinition, c *types.ContainerDefinition, mode types.NetworkMode) error {
	size := cluster.ContainerSize{CPU: int64(c.Cpu), Memory: int64(input.Value(c.Memory)),
		Reservation: int64(input.Value(c.MemoryReservation))}
	if size.CPU < 0 || size.Memory < 0 || size.Reservation < 0 {
		return input.Invalid("Container %.255s asks for less than nothing.", input.Value(c.Name))
	}
	out.Containers = append(out.Containers, input.Value(c.Name))
	out.Needs.CPU += size.CPU * cluster.CPUUnit
	out.Needs.Memory += size.ReservedMemory()
	out.Sizes = append(out.Sizes, size)
	for _, r := range c.ResourceRequirements {
		if r.Type != types.ResourceTypeGpu {
			continue
		}
		n, err := strconv.ParseUint(input.Value(r.Value), 10, 16)
		if err != nil {
			return input.Invalid("Container %.255s requires %.40q GPUs.", input.Value(c.Name), input.Value(r.Value))
		}
		out.Needs.GPUs += int(n)
	}
	for _, m := range c.PortMappings {
		if err := addPort(out, m, mode); err != nil {
			return err
		}
	}
	// Only the health of essential containers decides about the task's (ECS API reference,
	// HealthCheck).
	essential := c.Essential == nil || *c.Essential
	out.HealthChecked = out.HealthChecked || essential && c.HealthCheck != nil
	return nil
}

// addPort adds the static host port of a mapping. In awsvpc mode and without a network a task holds
// none. In host mode the container's port is the host's. Port 0 is assigned when the task starts.
func addPort(out *cluster.TaskDefinition, m types.PortMapping, mode types.NetworkMode) error {
	n := input.Value(m.HostPort)
	switch mode {
	case types.NetworkModeAwsvpc, types.NetworkModeNone:
		return nil
	case types.NetworkModeHost:
		n = input.Value(m.ContainerPort)
	}
	if n < 0 || n > math.MaxUint16 {
		return input.Invalid("Port %d is out of range.", n)
	}
	p := cluster.Port{Number: int(n), Protocol: cluster.TCP}
	if m.Protocol == types.TransportProtocolUdp {
		p.Protocol = cluster.UDP
	}
	for _, q := range out.Ports {
		if p == q {
			return nil
		}
	}
	if n > 0 {
		out.Ports = append(out.Ports, p)
	}
	return nil
}

// applyTaskSize replaces the sum of the containers by the task's own CPU and memory, if the
// definition has them.
func applyTaskSize(out *cluster.TaskDefinition, d types.TaskDefinition) error {
	if out.OwnCPU {
		units, err := cluster.TaskCPU(*d.Cpu)
		if err != nil {
			return err
		}
		out.Needs.CPU = units * cluster.CPUUnit
	}
	if out.OwnMemory {
		mib, err := cluster.TaskMemory(*d.Memory)
		if err != nil {
			return err
		}
		out.Needs.Memory = mib
	}
	// The containers' own sizes matter for overrides only while the task has no size itself.
	if out.OwnCPU && out.OwnMemory {
		out.Sizes = nil
	}
	return nil
}

// applyTags applies the tags of Berth's own last, so that they override what ECS's members say.
func applyTags(out *cluster.TaskDefinition, tags []types.Tag) error {
	for _, t := range tags {
		switch input.Value(t.Key) {
		case TagCPUMilli:
			n, err := parseMilli(t, 0, maxCPUMilli)
			if err != nil {
				return err
			}
			out.Needs.CPU = n * cluster.MilliVCPU
		case TagGPUMilli:
			n, err := parseMilli(t, 1, cluster.WholeGPU-1)
			if err != nil {
				return err
			}
			if out.Needs.GPUs > 0 {
				return input.Invalid("A task definition has the tag %s or requires whole GPUs, not both.", TagGPUMilli)
			}
			out.Needs.GPUs, out.Needs.GPUMilli = 1, int32(n)
		}
	}
	return nil
}

// parseMilli reads the value of a tag as a whole number from least to most.
func parseMilli(t types.Tag, least, most int64) (int64, error) {
	n, err := strconv.ParseInt(input.Value(t.Value), 10, 64)
	if err != nil || n < least || n > most || strings.HasPrefix(*t.Value, "+") {
		return 0, input.Invalid("Tag %s is %.40q, expected a whole number from %d to %d.", *t.Key, input.Value(t.Value),
			least, most)
	}
	return n, nil
}

// definitionConstraints returns the constraints of a task definition, which are memberOf only.
func definitionConstraints(in []types.TaskDefinitionPlacementConstraint) (out []cluster.PlacementConstraint) {
	for _, c := range in {
		out = append(out, cluster.PlacementConstraint{Type: string(c.Type), Expression: input.Value(c.Expression)})
	}
	return out
}
