package shape

import (
	"math"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/wire/input"
)

// Bounds of overrides (ECS API reference, RunTask).
const (
	// maxOverrides is how many characters all overrides of a request have together.
	maxOverrides = 8192
	// maxContainers is how many containers can be overridden.
	maxContainers = 10
	// maxEnvironmentFiles is how many files of variables a container has.
	maxEnvironmentFiles = 10
)

// ParseOverrides reads the overrides of RunTask and StartTask, nil if there are none or all are
// empty. What Berth does not pass on is an UnsupportedFeatureException, what is too long or
// negative an InvalidParameterException.
func ParseOverrides(o *types.TaskOverride) (*cluster.Overrides, error) {
	if o == nil {
		return nil, nil
	}
	switch {
	case o.EphemeralStorage != nil:
		return nil, input.Unsupported("overrides.ephemeralStorage")
	//lint:ignore SA1019 callers can still send it, and it is refused by name
	case len(o.InferenceAcceleratorOverrides) > 0:
		return nil, input.Unsupported("overrides.inferenceAcceleratorOverrides")
	case len(o.ContainerOverrides) > maxContainers:
		return nil, input.Invalid("containerOverrides cannot have more than %d items.", maxContainers)
	}
	out := &cluster.Overrides{
		TaskRole: input.Value(o.TaskRoleArn), ExecutionRole: input.Value(o.ExecutionRoleArn), CPU: input.Value(o.Cpu),
		Memory: input.Value(o.Memory),
	}
	// ECS counts the characters of the whole structure; Berth counts those of its values.
	length := len(out.TaskRole) + len(out.ExecutionRole) + len(out.CPU) + len(out.Memory)
	for _, c := range o.ContainerOverrides {
		own, n, err := containerOverride(c)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out.Containers, func(x cluster.ContainerOverride) bool { return x.Name == own.Name }) {
			return nil, input.Invalid("Container %.255s is overridden twice.", own.Name)
		}
		out.Containers = append(out.Containers, own)
		length += n
	}
	if length > maxOverrides {
		return nil, input.Invalid("overrides has %d characters, more than %d.", length, maxOverrides)
	}
	if length == 0 && len(out.Containers) == 0 {
		return nil, nil
	}
	return out, nil
}

// minMemory is the least memory that Docker gives a container, in MiB.
const minMemory = 6

// isBelow reports whether a value is given and less than the bound.
func isBelow(value *int32, bound int32) bool { return value != nil && *value < bound }

// containerOverride reads the override of one container. length counts its characters towards the
// limit.
func containerOverride(c types.ContainerOverride) (out cluster.ContainerOverride, length int, err error) {
	switch {
	case input.Value(c.Name) == "":
		return out, 0, input.Invalid("Container override must have a name.")
	case len(c.ResourceRequirements) > 0:
		return out, 0, input.Unsupported("overrides.containerOverrides.resourceRequirements")
	case len(c.EnvironmentFiles) > maxEnvironmentFiles:
		return out, 0, input.Invalid("environmentFiles cannot have more than %d items.", maxEnvironmentFiles)
	case input.Value(c.Cpu) < 0 || input.Value(c.Memory) < 0 || input.Value(c.MemoryReservation) < 0:
		return out, 0, input.Invalid("Override for container named %.255s must not be negative.", *c.Name)
	case input.Value(c.Cpu) > math.MaxInt32/2 || input.Value(c.Memory) > math.MaxInt32/2 ||
		input.Value(c.MemoryReservation) > math.MaxInt32/2:
		return out, 0, input.Invalid("Override for container named %.255s is out of range.", *c.Name)
	case isBelow(c.Memory, minMemory) || isBelow(c.MemoryReservation, minMemory):
		return out, 0, input.Invalid(
			"Invalid setting for container '%.255s'. 'memory' and 'memoryReservation' must be at least %d MiB.",
			*c.Name, minMemory)
	case c.MemoryReservation != nil && isBelow(c.Memory, *c.MemoryReservation):
		return out, 0, input.Invalid(
			"Invalid setting for container '%.255s'. 'memory' must be greater than or equal to 'memoryReservation'.",
			*c.Name)
	}
	out = cluster.ContainerOverride{
		Name: *c.Name, Command: c.Command, CPU: c.Cpu, Memory: c.Memory, Reservation: c.MemoryReservation,
	}
	length = len(out.Name)
	for _, s := range c.Command {
		length += len(s)
	}
	for _, v := range c.Environment {
		if input.Value(v.Name) == "" {
			return out, 0, input.Invalid("Environment variable of container %.255s must have a name.", *c.Name)
		}
		out.Environment = append(out.Environment, cluster.Variable{Name: *v.Name, Value: input.Value(v.Value)})
		length += len(*v.Name) + len(input.Value(v.Value))
	}
	for _, f := range c.EnvironmentFiles {
		if f.Type != types.EnvironmentFileTypeS3 || input.Value(f.Value) == "" {
			return out, 0, input.Invalid("environmentFiles of container %.255s must have the type s3 and a value.",
				*c.Name)
		}
		out.EnvironmentFiles = append(out.EnvironmentFiles, *f.Value)
		length += len(*f.Value)
	}
	return out, length, nil
}

// OverrideShape returns overrides as ECS takes and shows them; nil for none.
func OverrideShape(o *cluster.Overrides) *types.TaskOverride {
	if o.IsEmpty() {
		return nil
	}
	out := &types.TaskOverride{
		TaskRoleArn: TextOrNil(o.TaskRole), ExecutionRoleArn: TextOrNil(o.ExecutionRole), Cpu: TextOrNil(o.CPU),
		Memory: TextOrNil(o.Memory),
	}
	for _, c := range o.Containers {
		own := types.ContainerOverride{
			Name: new(c.Name), Command: c.Command, Cpu: c.CPU, Memory: c.Memory, MemoryReservation: c.Reservation,
		}
		for _, v := range c.Environment {
			own.Environment = append(own.Environment, types.KeyValuePair{Name: new(v.Name), Value: new(v.Value)})
		}
		for _, f := range c.EnvironmentFiles {
			own.EnvironmentFiles = append(own.EnvironmentFiles, types.EnvironmentFile{
				Type: types.EnvironmentFileTypeS3, Value: new(f)})
		}
		out.ContainerOverrides = append(out.ContainerOverrides, own)
	}
	return out
}
