package ecs

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
)

// containerNames are the names of containers (ECS API, ContainerDefinition).
var containerNames = familyNames

// Bounds of a container (ECS API, ContainerDefinition; quotas of ECS). 6 MiB is Docker's least
// memory for a container.
const (
	maxContainers       = 10
	maxEnvironmentFiles = 10
	minMemory           = 6
)

// completeContainers checks the containers and returns them with ECS's defaults. taskMemory is the
// memory of the task, in MiB; with one its containers need none of their own.
func completeContainers(
	in *ecs.RegisterTaskDefinitionInput, taskMemory *string,
) ([]types.ContainerDefinition, error) {
	if len(in.ContainerDefinitions) == 0 {
		return nil, clientError("Container list cannot be empty.")
	}
	if len(in.ContainerDefinitions) > maxContainers {
		return nil, clientError("Task definitions can have at most %d containers.", maxContainers)
	}
	out := slices.Clone(in.ContainerDefinitions)
	all := map[string]*types.ContainerDefinition{}
	ports := taskPorts{in.NetworkMode, map[cluster.Port]bool{}, map[string]bool{}}
	essential := false
	for n := range out {
		c := &out[n]
		if c.Essential == nil {
			c.Essential = new(true)
		}
		essential = essential || *c.Essential
		if all[value(c.Name)] != nil {
			return nil, clientError("Container names must be unique within a task definition")
		}
		all[value(c.Name)] = c
		if err := checkContainer(c, taskMemory); err != nil {
			return nil, err
		}
		if err := checkSurroundings(c, in); err != nil {
			return nil, err
		}
		if err := ports.add(c); err != nil {
			return nil, err
		}
	}
	if !essential {
		return nil, clientError("Task definition doesn't have any essential container")
	}
	if err := checkLinks(out); err != nil {
		return nil, err
	}
	return out, checkDependencies(out, all)
}

// checkContainer refuses what ECS refuses of one container.
func checkContainer(c *types.ContainerDefinition, taskMemory *string) error {
	name := value(c.Name)
	switch {
	case name == "":
		return clientError("Container.name should not be null or empty.")
	case !containerNames.MatchString(name):
		return clientError("Container name %.100q is too long or contains invalid characters.", name)
	case value(c.Image) == "":
		return clientError("Container.image should not be null or empty.")
	case c.Cpu < 0:
		return clientError("Invalid 'cpu' setting for container '%s'.", name)
	case len(c.EnvironmentFiles) > maxEnvironmentFiles:
		return clientError("The maximum number of environment files was exceeded. Specify ten or less and try again.")
	}
	for _, r := range c.ResourceRequirements {
		if n, err := strconv.Atoi(value(r.Value)); r.Type == types.ResourceTypeGpu && (err != nil || n < 1) {
			return clientError("Invalid number of GPUs for container '%s'.", name)
		}
	}
	if err := checkMemory(c, taskMemory); err != nil {
		return err
	}
	if err := checkHealthCheck(c); err != nil {
		return err
	}
	return checkRestarts(c)
}

// checkMemory refuses sizes that contradict each other or the task's.
func checkMemory(c *types.ContainerDefinition, taskMemory *string) error {
	name, most := value(c.Name), int64(math.MaxInt64)
	if taskMemory != nil {
		most, _ = strconv.ParseInt(*taskMemory, 10, 64) // it was written from a number
	}
	switch {
	case taskMemory == nil && c.Memory == nil && c.MemoryReservation == nil:
		return clientError(
			"Invalid setting for container '%s'. At least one of 'memory' or 'memoryReservation' must be "+
				"specified.", name)
	case c.Memory != nil && *c.Memory < minMemory || c.MemoryReservation != nil && *c.MemoryReservation < minMemory:
		return clientError(
			"Invalid setting for container '%s'. 'memory' and 'memoryReservation' must be at least %d MiB.", name,
			minMemory)
	case c.Memory != nil && c.MemoryReservation != nil && *c.MemoryReservation > *c.Memory:
		return clientError(
			"Invalid setting for container '%s'. 'memory' must be greater than or equal to 'memoryReservation'.", name)
	case int64(value(c.Memory)) > most:
		return clientError("The 'memory' setting for container '%s' is greater than for the task", name)
	}
	return nil
}

// checkHealthCheck refuses numbers out of ECS's bounds (ECS API, HealthCheck).
func checkHealthCheck(c *types.ContainerDefinition) error {
	check := c.HealthCheck
	if check == nil {
		return nil
	}
	for _, n := range []struct {
		member      string
		given       *int32
		least, most int32
	}{
		{"interval", check.Interval, 5, 300}, {"timeout", check.Timeout, 2, 60}, {"retries", check.Retries, 1, 10},
		{"startPeriod", check.StartPeriod, 0, 300},
	} {
		switch {
		case n.given != nil && *n.given < n.least:
			return clientError("Health check %s must be greater than or equal to the minimum allowed value %d for "+
				"container '%s'", n.member, n.least, *c.Name)
		case n.given != nil && *n.given > n.most:
			return clientError("Health check %s must be less than or equal to the maximum allowed value %d for "+
				"container '%s'", n.member, n.most, *c.Name)
		}
	}
	return nil
}

// checkRestarts refuses a restart policy with a period out of ECS's bounds.
func checkRestarts(c *types.ContainerDefinition) error {
	const least, most = 60, 1800
	if p := c.RestartPolicy; p != nil && p.RestartAttemptPeriod != nil &&
		(*p.RestartAttemptPeriod < least || *p.RestartAttemptPeriod > most) {
		return clientError("The 'restartAttemptPeriod' setting for container '%s' must be between %d and %d.", *c.Name,
			least, most)
	}
	return nil
}

// checkSurroundings refuses what the rest of the definition does not go with: its network mode, its
// volumes and its roles.
func checkSurroundings(c *types.ContainerDefinition, in *ecs.RegisterTaskDefinitionInput) error {
	awsvpc := in.NetworkMode == types.NetworkModeAwsvpc
	switch {
	case awsvpc && value(c.Hostname) != "":
		return clientError("hostname is not supported on container when networkMode=awsvpc.")
	case awsvpc && len(c.ExtraHosts) > 0:
		return clientError("Extra hosts are not supported on container when networkMode=awsvpc.")
	case awsvpc && value(c.DisableNetworking):
		return clientError("Disable Networking is not supported on container when networkMode=awsvpc.")
	case awsvpc && len(c.Links) > 0:
		return clientError("Links are not supported when networkMode=awsvpc.")
	case len(c.Secrets) > 0 && value(in.ExecutionRoleArn) == "":
		return clientError("When you are specifying container secrets, you must also specify a value for " +
			"'executionRoleArn'.")
	}
	for _, m := range c.MountPoints {
		name := value(m.SourceVolume)
		if !slices.ContainsFunc(in.Volumes, func(v types.Volume) bool { return value(v.Name) == name }) {
			return clientError("Unknown volume '%s'.", name)
		}
	}
	if l := c.LogConfiguration; l != nil && l.LogDriver == types.LogDriverAwslogs && l.Options["awslogs-group"] == "" {
		return clientError("Log driver awslogs requires options: awslogs-group")
	}
	return nil
}

// checkDependencies refuses containers that wait for one that does not exist, for a state that it
// never has while the task runs, or for themselves.
func checkDependencies(in []types.ContainerDefinition, all map[string]*types.ContainerDefinition) error {
	for _, c := range in {
		for _, d := range c.DependsOn {
			on := all[value(d.ContainerName)]
			switch {
			case on == nil:
				return clientError("Cannot depend on container + '%s' because it does not exist",
					value(d.ContainerName))
			case *on.Essential && (d.Condition == types.ContainerConditionComplete ||
				d.Condition == types.ContainerConditionSuccess):
				return clientError("A dependency container with SUCCESS or COMPLETE condition cannot be an essential " +
					"container")
			case d.Condition == types.ContainerConditionHealthy && on.HealthCheck == nil:
				return clientError("A dependency container with HEALTHY condition must have health check configured")
			}
		}
	}
	if hasCycle(in, func(c *types.ContainerDefinition) (names []string) {
		for _, d := range c.DependsOn {
			names = append(names, value(d.ContainerName))
		}
		return names
	}) {
		return clientError("Container dependencies should not have a cycle")
	}
	return nil
}

// checkLinks refuses containers that are linked to each other in a circle: Docker must start each
// after those that it has links to. Example of a link: "db:database", where database is an alias.
func checkLinks(in []types.ContainerDefinition) error {
	if hasCycle(in, func(c *types.ContainerDefinition) (names []string) {
		for _, link := range c.Links {
			name, _, _ := strings.Cut(link, ":")
			names = append(names, name)
		}
		return names
	}) {
		return clientError("Container links should not have a cycle")
	}
	return nil
}

// hasCycle reports whether a container would start after itself. before names the containers that
// one starts after.
func hasCycle(in []types.ContainerDefinition, before func(*types.ContainerDefinition) []string) bool {
	left := map[string][]string{}
	for n := range in {
		left[value(in[n].Name)] = before(&in[n])
	}
	for len(left) > 0 {
		size := len(left)
		for name, names := range left {
			if !slices.ContainsFunc(names, func(other string) bool { _, waits := left[other]; return waits }) {
				delete(left, name)
			}
		}
		if len(left) == size {
			return true
		}
	}
	return false
}

// taskPorts are what the port mappings of a task's containers have used so far.
type taskPorts struct {
	mode  types.NetworkMode
	held  map[cluster.Port]bool // host ports, or the containers' in awsvpc mode
	names map[string]bool
}

// add adds the ports of a container: one task cannot take the same port twice.
func (p taskPorts) add(c *types.ContainerDefinition) error {
	for _, m := range c.PortMappings {
		if err := p.checkNumbers(c, m); err != nil {
			return err
		}
		port, static := staticHostPort(m, p.mode)
		if p.mode == types.NetworkModeAwsvpc {
			port.Number, static = int(value(m.ContainerPort)), m.ContainerPort != nil
		}
		switch name := value(m.Name); {
		case static && p.held[port] && p.mode == types.NetworkModeAwsvpc:
			return clientError("%s container port '%d' is used multiple times in task when networkMode=awsvpc.",
				strings.ToUpper(string(port.Protocol)), port.Number)
		case static && p.held[port]:
			return clientError("Host port %d is used more than once in the task definition.", port.Number)
		case name != "" && p.names[name] && p.mode == types.NetworkModeAwsvpc:
			return clientError("When networkMode=awsvpc, port mapping name is already used")
		default:
			p.held[port], p.names[name] = static, true
		}
	}
	return nil
}

// checkNumbers refuses numbers that are no ports, and those that a network mode does not have.
func (p taskPorts) checkNumbers(c *types.ContainerDefinition, m types.PortMapping) error {
	if m.ContainerPortRange != nil {
		first, last, _ := strings.Cut(*m.ContainerPortRange, "-")
		from, err := strconv.ParseUint(first, 10, 16)
		to, wrong := strconv.ParseUint(last, 10, 16)
		switch {
		case m.ContainerPort != nil || m.HostPort != nil:
			return clientError("Invalid port mapping for container '%s', cannot specify both single port and port "+
				"range.", *c.Name)
		case err != nil || wrong != nil || from == 0 || from > to:
			return clientError("Invalid 'containerPortRange' setting for container '%s'.", *c.Name)
		}
	}
	container, host := value(m.ContainerPort), value(m.HostPort)
	if container < 0 || container > math.MaxUint16 || container == 0 && m.ContainerPortRange == nil {
		return clientError("Invalid 'containerPort' setting for container '%s'.", *c.Name)
	}
	if host < 0 || host > math.MaxUint16 {
		return clientError("Invalid 'hostPort' setting for container '%s'.", *c.Name)
	}
	if (p.mode == types.NetworkModeHost || p.mode == types.NetworkModeAwsvpc) && host != 0 && host != container {
		return clientError("When networkMode=%s, the host ports and container ports in port mappings must match.",
			p.mode)
	}
	return nil
}
