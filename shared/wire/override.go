package wire

import (
	"math"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
)

// Bounds of overrides: ECS takes 8,192 characters in all (ECS API reference, RunTask.overrides).
const (
	maxOverrides  = 8192
	maxContainers = 10
)

// Overrides reads the overrides of RunTask and StartTask, nil where there are none. What Berth does not pass on is
// UnsupportedFeatureException, what is too long or negative InvalidParameterException.
func Overrides(o *types.TaskOverride) (*cluster.Overrides, error) {
	if o == nil {
		return nil, nil
	}
	switch {
	case o.EphemeralStorage != nil:
		return nil, unsupported("overrides.ephemeralStorage")
	case len(o.InferenceAcceleratorOverrides) > 0: //lint:ignore SA1019 callers can still send it, and it is refused by name
		return nil, unsupported("overrides.inferenceAcceleratorOverrides")
	case len(o.ContainerOverrides) > maxContainers:
		return nil, invalid("containerOverrides cannot have more than %d items.", maxContainers)
	}
	out := &cluster.Overrides{
		TaskRole: value(o.TaskRoleArn), ExecutionRole: value(o.ExecutionRoleArn), CPU: value(o.Cpu), Memory: value(o.Memory),
	}
	length := len(out.TaskRole) + len(out.ExecutionRole) + len(out.CPU) + len(out.Memory)
	for _, c := range o.ContainerOverrides {
		own, n, err := containerOverride(c)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out.Containers, func(x cluster.ContainerOverride) bool { return x.Name == own.Name }) {
			return nil, invalid("Container %.255s is overridden twice.", own.Name)
		}
		out.Containers = append(out.Containers, own)
		length += n
	}
	if length > maxOverrides {
		return nil, invalid("overrides has %d characters, more than %d.", length, maxOverrides)
	}
	if length == 0 && len(out.Containers) == 0 {
		return nil, nil
	}
	return out, nil
}

func containerOverride(c types.ContainerOverride) (out cluster.ContainerOverride, length int, err error) {
	switch {
	case value(c.Name) == "":
		return out, 0, invalid("Container override must have a name.")
	case len(c.ResourceRequirements) > 0:
		return out, 0, unsupported("overrides.containerOverrides.resourceRequirements")
	case len(c.EnvironmentFiles) > 0:
		return out, 0, unsupported("overrides.containerOverrides.environmentFiles")
	case value(c.Cpu) < 0 || value(c.Memory) < 0 || value(c.MemoryReservation) < 0:
		return out, 0, invalid("Override for container named %.255s must not be negative.", *c.Name)
	case value(c.Cpu) > math.MaxInt32/2 || value(c.Memory) > math.MaxInt32/2 || value(c.MemoryReservation) > math.MaxInt32/2:
		return out, 0, invalid("Override for container named %.255s is out of range.", *c.Name)
	}
	out = cluster.ContainerOverride{
		Name: *c.Name, Command: c.Command, CPU: c.Cpu, Memory: c.Memory, Reservation: c.MemoryReservation,
	}
	length = len(out.Name)
	for _, s := range c.Command {
		length += len(s)
	}
	for _, v := range c.Environment {
		if value(v.Name) == "" {
			return out, 0, invalid("Environment variable of container %.255s must have a name.", *c.Name)
		}
		out.Environment = append(out.Environment, cluster.Variable{Name: *v.Name, Value: value(v.Value)})
		length += len(*v.Name) + len(value(v.Value))
	}
	return out, length, nil
}

// TaskOverride is [Overrides] the other way round; nil for nil.
func TaskOverride(o *cluster.Overrides) *types.TaskOverride {
	if o == nil {
		return nil
	}
	out := &types.TaskOverride{
		TaskRoleArn: text(o.TaskRole), ExecutionRoleArn: text(o.ExecutionRole), Cpu: text(o.CPU), Memory: text(o.Memory),
	}
	for _, c := range o.Containers {
		own := types.ContainerOverride{
			Name: new(c.Name), Command: c.Command, Cpu: c.CPU, Memory: c.Memory, MemoryReservation: c.Reservation,
		}
		for _, v := range c.Environment {
			own.Environment = append(own.Environment, types.KeyValuePair{Name: new(v.Name), Value: new(v.Value)})
		}
		out.ContainerOverrides = append(out.ContainerOverrides, own)
	}
	return out
}
