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

// RegisterContainerInstance has a machine of the caller's own size and attributes join the cluster, as its agent would
// ask for: whole numbers besides CPU and MEMORY are capacities of metrics. With the ARN of an instance that is there, it
// registers anew.
func (e *Instances) RegisterContainerInstance(
	_ context.Context, in *ecs.RegisterContainerInstanceInput,
) (*ecs.RegisterContainerInstanceOutput, error) {
	size, err := offered(in.TotalResources)
	if err != nil {
		return nil, err
	}
	attributes, err := registeredAttributes(in.Attributes)
	if err != nil {
		return nil, err
	}
	var out ecs.RegisterContainerInstanceOutput
	err = e.kernel.Change(func(now time.Time) error {
		c, err := e.agents.cluster(value(in.Cluster))
		if err != nil {
			return err
		}
		i, err := e.agents.registering(c, value(in.ContainerInstanceArn), size, now)
		if err != nil {
			return err
		}
		machine, zone := attributes[cluster.AttributeInstanceType], attributes[cluster.AttributeZone]
		i.Zone = cmp.Or(zone, i.Zone, e.kernel.Account.Region+"a")
		i.CPU, i.Memory, i.GPUs, i.Metrics, i.ENIs = size.CPU, size.Memory, size.GPUs, size.Metrics, size.ENIs
		i.Attributes = builtIn(i.Zone, cmp.Or(machine, "m5.large"), "")
		for _, name := range slices.Sorted(maps.Keys(attributes)) {
			i.Attributes = slices.DeleteFunc(i.Attributes, func(a attribute) bool { return a.Name == name })
			custom := name != cluster.AttributeZone && name != cluster.AttributeInstanceType
			i.Attributes = append(i.Attributes, attribute{Name: name, Value: attributes[name], Custom: custom})
		}
		slices.SortFunc(i.Attributes, byName)
		i.attributesChanged()
		if e.agents.instances[i.ID] == nil {
			i.Tags = in.Tags
			e.agents.register(i)
		} else {
			e.agents.refit(i)
		}
		e.agents.instanceChanged(i, now)
		out.ContainerInstance = new(i.describe())
		return nil
	})
	return &out, err
}

// registering is the instance that registers: a new one, or one that is there and comes back.
func (e *agents) registering(c *ecsCluster, arn string, size offer, now time.Time) (*instance, error) {
	if arn == "" {
		return e.newInstance(c, now), nil
	}
	i := e.instanceIn(c, arn)
	switch {
	case i == nil || i.Status == cluster.InstanceInactive:
		return nil, invalid("Container instance %.200s is not registered here.", arn)
	case len(size.GPUs) != len(i.GPUs):
		return nil, invalid("Container instance %.200s has %d GPUs, which cannot change.", arn, len(i.GPUs))
	}
	i.Connected = true
	return i, nil
}

// refit counts again what is free on an instance whose size may have changed.
func (e *tables) refit(i *instance) {
	i.freeCPU, i.freeMemory, i.gpuInUse = i.CPU, i.Memory, make([]bool, len(i.GPUs))
	i.ports = map[cluster.Port]bool{}
	for _, p := range agentReserved {
		i.ports[p] = true
	}
	for _, t := range i.tasks {
		if t.Last != cluster.TaskStopped {
			i.hold(t, 1)
		}
	}
}

// offer is what a machine registers: CPU units, MiB, devices, capacities of metrics.
type offer struct {
	CPU, Memory int64
	GPUs        []string
	ENIs        *int
	Metrics     map[string]int64
}

func offered(resources []types.Resource) (offer, error) {
	out := offer{}
	for _, r := range resources {
		n := cmp.Or(int64(r.IntegerValue), r.LongValue)
		if n < 0 || n > math.MaxInt32 || value(r.Name) == "" || len(value(r.Name)) > 128 {
			return out, invalid("Resource %.130q is %d, but must have a name and be between 0 and %d.", value(r.Name), n, math.MaxInt32)
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
		return out, invalid("totalResources must have CPU and MEMORY.")
	}
	return out, nil
}

// registeredAttributes are the attributes of an instance as its agent names them: its zone and type may be among them.
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
		return nil, invalid("There are %d custom attributes, but an instance has at most %d.", custom, maxCustom)
	}
	return out, nil
}
