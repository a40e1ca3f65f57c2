package ecs

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
)

// RegisterContainerInstance registers a machine of the caller's own size and attributes, as an
// agent does. Resources other than CPU, MEMORY, GPU, ENI and ports are capacities of metrics. With
// the ARN of a registered instance it changes that one, as an agent does after a restart: its tasks
// go on, its number of GPUs cannot change. Example:
//
//	{
//	  "cluster": "prod",
//	  "totalResources": [
//	    {"name": "CPU", "type": "INTEGER", "integerValue": 4096},
//	    {"name": "MEMORY", "type": "INTEGER", "integerValue": 15605},
//	    {"name": "disk", "type": "INTEGER", "integerValue": 500}
//	  ],
//	  "attributes": [{"name": "stack", "value": "blue"}]
//	}
func (e *Instances) RegisterContainerInstance(
	_ context.Context, in *ecs.RegisterContainerInstanceInput,
) (*ecs.RegisterContainerInstanceOutput, error) {
	size, err := parseResources(in.TotalResources)
	if err != nil {
		return nil, err
	}
	attributes, err := registeredAttributes(in.Attributes)
	if err != nil {
		return nil, err
	}
	var out ecs.RegisterContainerInstanceOutput
	err = e.kernel.Change(e.agents.inCluster(value(in.Cluster), func(c *ecsCluster, now time.Time) error {
		i, err := e.agents.instanceToRegister(c, value(in.ContainerInstanceArn), size, now)
		if err != nil {
			return err
		}
		machine, zone := attributes[cluster.AttributeInstanceType], attributes[cluster.AttributeZone]
		i.Zone = cmp.Or(zone, i.Zone, e.kernel.Account.Region+"a")
		i.CPU, i.Memory, i.GPUs, i.Metrics, i.ENIs = size.CPU, size.Memory, size.GPUs, size.Metrics, size.ENIs
		i.Attributes = builtInAttributes(i.Zone, cmp.Or(machine, "m5.large"), "")
		for _, name := range slices.Sorted(maps.Keys(attributes)) {
			i.Attributes = slices.DeleteFunc(i.Attributes, func(a attribute) bool { return a.Name == name })
			custom := name != cluster.AttributeZone && name != cluster.AttributeInstanceType
			i.Attributes = append(i.Attributes, attribute{Name: name, Value: attributes[name], Custom: custom})
		}
		slices.SortFunc(i.Attributes, byName)
		i.attributesChanged()
		if e.agents.instances[i.ID] == nil {
			i.Tags = in.Tags
			e.agents.addInstance(i)
		} else {
			e.agents.recountFree(i)
		}
		e.agents.instanceChanged(i, now)
		out.ContainerInstance = new(i.describe())
		return nil
	}))
	return &out, err
}

// instanceToRegister returns a new instance, or the registered one with the ARN.
func (e *agents) instanceToRegister(c *ecsCluster, arn string, size offer, now time.Time) (*instance, error) {
	if arn == "" {
		return e.newInstance(c, now), nil
	}
	i := e.findInstance(c, arn)
	switch {
	case i == nil || i.Status == cluster.InstanceInactive:
		return nil, invalidParameter("Container instance %.200s is not registered here.", arn)
	case len(size.GPUs) != len(i.GPUs):
		return nil, invalidParameter("Container instance %.200s has %d GPUs, which cannot change.", arn, len(i.GPUs))
	}
	i.Connected = true
	return i, nil
}

// recountFree computes what is free on an instance whose size may have changed. Its tasks go on, as
// on a machine whose agent was restarted.
func (e *tables) recountFree(i *instance) {
	i.freeCPU, i.freeMemory, i.gpuInUse = i.CPU, i.Memory, make([]bool, len(i.GPUs))
	i.ports = portsOfAgent()
	for _, t := range i.tasks {
		if t.Last != cluster.TaskStopped {
			i.reserveFor(t, 1)
		}
	}
}

// offer is the size that a machine registers: CPU units, MiB, devices, capacities of metrics.
type offer struct {
	CPU, Memory int64
	GPUs        []string
	ENIs        *int
	Metrics     map[string]int64
}

// parseResources reads totalResources. Names that ECS does not know are Berth's metrics (P9), which
// is how a machine of a user's own can bring some.
func parseResources(resources []types.Resource) (offer, error) {
	out := offer{}
	for _, r := range resources {
		n := cmp.Or(int64(r.IntegerValue), r.LongValue)
		if n < 0 || n > math.MaxInt32 || value(r.Name) == "" || len(value(r.Name)) > 128 {
			return out, invalidParameter("Resource %.130q is %d, but must have a name and be between 0 and %d.",
				value(r.Name), n, math.MaxInt32)
		}
		switch value(r.Name) {
		case "CPU":
			out.CPU = n
		case "MEMORY":
			out.Memory = n
		case "GPU":
			out.GPUs = r.StringSetValue
		case "ENI":
			out.ENIs = new(int(n))
		case "PORTS", "PORTS_UDP": // the agent's own, the same everywhere
		default:
			if out.Metrics == nil {
				out.Metrics = map[string]int64{}
			}
			out.Metrics[*r.Name] = n
		}
	}
	if out.CPU == 0 || out.Memory == 0 {
		return out, invalidParameter("totalResources must have CPU and MEMORY.")
	}
	return out, nil
}

// registeredAttributes returns the attributes that an agent registers. Its zone and its instance
// type can be among them.
func registeredAttributes(in []types.Attribute) (map[string]string, error) {
	out := map[string]string{}
	custom := 0
	for _, a := range in {
		name := value(a.Name)
		if name != cluster.AttributeZone && name != cluster.AttributeInstanceType {
			custom++
			if err := checkAttribute(name, value(a.Value)); err != nil {
				return nil, err
			}
		}
		out[name] = value(a.Value)
	}
	if custom > maxCustom {
		return nil, invalidParameter("There are %d custom attributes, but an instance has at most %d.", custom,
			maxCustom)
	}
	return out, nil
}
