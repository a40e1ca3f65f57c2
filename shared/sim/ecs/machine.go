package ecs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/ec2"
	"berth/shared/sim/kernel"
)

// capabilities are the attributes that every simulated agent registers, as a recent agent on Amazon
// Linux does. A task definition that needs another (a log driver such as splunk) finds no instance.
var capabilities = []string{
	"com.amazonaws.ecs.capability.docker-remote-api.1.18", "com.amazonaws.ecs.capability.docker-remote-api.1.24",
	"com.amazonaws.ecs.capability.docker-remote-api.1.44", "com.amazonaws.ecs.capability.ecr-auth",
	"com.amazonaws.ecs.capability.logging-driver.awslogs", "com.amazonaws.ecs.capability.logging-driver.json-file",
	"com.amazonaws.ecs.capability.logging-driver.none", "com.amazonaws.ecs.capability.logging-driver.syslog",
	"com.amazonaws.ecs.capability.logging-driver.awsfirelens",
	"com.amazonaws.ecs.capability.privileged-container", "com.amazonaws.ecs.capability.task-iam-role",
	"ecs.capability.container-health-check", "ecs.capability.container-ordering",
	"ecs.capability.execution-role-awslogs", volumeCapability,
	"ecs.capability.task-eni",
}

// AddInstances registers n machines with the cluster and returns their container instance ids. The
// machine's zones are taken in turn. It is an error, and registers none, if there is no such
// cluster, type or size.
func (e *Machines) AddInstances(clusterName string, n int, m ec2.Machine) (ids []string, err error) {
	if _, _, _, err := m.RegisteredSize(); err != nil {
		return nil, err
	}
	zones := m.ZonesIn(e.kernel.Account.Region)
	err = e.kernel.Change(e.agents.inCluster(clusterName, func(c *ecsCluster, now time.Time) error {
		for k := range n {
			i, err := e.agents.registerMachine(c, m, ec2.Launch{Zone: zones[k%len(zones)], At: now})
			if err != nil {
				return err
			}
			ids = append(ids, i.ID)
		}
		return nil
	}))
	return ids, err
}

// registerMachine registers a machine with the cluster, at the time of its launch.
func (e *agents) registerMachine(c *ecsCluster, m ec2.Machine, l ec2.Launch) (*instance, error) {
	cpu, memory, gpus, err := m.RegisteredSize()
	if err != nil {
		return nil, err
	}
	custom, err := customAttributes(m.Attributes)
	if err != nil {
		return nil, err
	}
	i := e.newInstance(c, l.At)
	i.CPU, i.Memory, i.Zone, i.Metrics = cpu, memory, l.Zone, m.Metrics
	i.Provider, i.EC2 = m.Provider, cmp.Or(l.ID, i.EC2)
	if m.ENIs > 0 {
		i.ENIs = &m.ENIs
	}
	for g := range gpus {
		i.GPUs = append(i.GPUs, "GPU-"+kernel.FormatUUID(cluster.Digest(i.ID, strconv.Itoa(g))))
	}
	i.Attributes = append(builtInAttributes(i.Zone, m.Type, l.Image), custom...)
	slices.SortFunc(i.Attributes, byName)
	e.addInstance(i)
	e.instanceChanged(i, l.At)
	return i, nil
}

// builtInAttributes are those that the agent registers by itself.
func builtInAttributes(zone, machine, image string) []attribute {
	out := []attribute{
		{Name: cluster.AttributeZone, Value: zone}, {Name: cluster.AttributeInstanceType, Value: machine},
		{Name: "ecs.os-type", Value: "linux"}, {Name: "ecs.ami-id", Value: cmp.Or(image, ec2.DefaultImage)},
		{Name: "ecs.cpu-architecture", Value: ec2.Architecture(machine)},
	}
	for _, name := range capabilities {
		out = append(out, attribute{Name: name})
	}
	return out
}

// customAttributes returns custom attributes by name, or the error that ECS would give.
func customAttributes(m map[string]string) ([]attribute, error) {
	if len(m) > maxCustom {
		return nil, fmt.Errorf("adding instances: %d custom attributes, at most %d are allowed", len(m), maxCustom)
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
