package ecs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/sim/ec2"
)

// RegisterContainerInstance registers a machine of the caller's own size and attributes, as an
// agent does. Without totalResources it has the size of its type; the identity document says its id
// at EC2, zone and type. Resources other than CPU, MEMORY, GPU, ENI and ports are capacities of
// metrics. With the ARN of a registered instance it changes that one, as an agent does after a
// restart: its tasks go on, its number of GPUs cannot change. Example:
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
	attributes, err := registeredAttributes(in.Attributes)
	if err != nil {
		return nil, err
	}
	identity, err := parseIdentity(value(in.InstanceIdentityDocument))
	if err != nil {
		return nil, err
	}
	machine := cmp.Or(attributes[cluster.AttributeInstanceType], identity.InstanceType)
	size, err := registeredSize(in, machine)
	if err != nil {
		return nil, err
	}
	var out ecs.RegisterContainerInstanceOutput
	err = e.kernel.Change(e.agents.inCluster(value(in.Cluster), func(c *ecsCluster, now time.Time) error {
		i, err := e.agents.instanceToRegister(c, value(in.ContainerInstanceArn), now)
		if err != nil {
			return err
		}
		if err := i.resize(size, len(in.TotalResources) > 0); err != nil {
			return err
		}
		i.identify(identity, attributes[cluster.AttributeZone], e.kernel.Account.Region+"a")
		if in.VersionInfo != nil {
			i.Agent = in.VersionInfo
		}
		i.Attributes = builtInAttributes(i.Zone, cmp.Or(machine, i.machineType(), defaultMachine), identity.ImageID)
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

// defaultMachine is the type of a machine that does not say its own.
const defaultMachine = "m5.large"

// registeredSize returns the size that a machine registers. Without totalResources it is that of
// its type, or of [defaultMachine] if the type's is not known.
func registeredSize(in *ecs.RegisterContainerInstanceInput, machine string) (offer, error) {
	if len(in.TotalResources) > 0 {
		size, err := parseResources(in.TotalResources)
		if size.GPUs == nil {
			size.GPUs = deviceIDs(in.PlatformDevices)
		}
		return size, err
	}
	cpu, memory, gpus, err := ec2.Machine{Type: cmp.Or(machine, defaultMachine)}.RegisteredSize()
	if err != nil {
		cpu, memory, gpus, err = ec2.Machine{Type: defaultMachine}.RegisteredSize()
	}
	out := offer{CPU: cpu, Memory: memory, GPUs: deviceIDs(in.PlatformDevices)}
	for len(out.GPUs) < gpus {
		out.GPUs = append(out.GPUs, fmt.Sprintf("GPU-%d", len(out.GPUs)))
	}
	return out, err
}

// deviceIDs returns the ids of GPUs, nil if there are none.
func deviceIDs(devices []types.PlatformDevice) (ids []string) {
	for _, d := range devices {
		if d.Type == types.PlatformDeviceTypeGpu {
			ids = append(ids, value(d.Id))
		}
	}
	return ids
}

// An identity is what is read of a machine's identity document. Its signature is not checked: there
// is no EC2 that could have signed it.
type identity struct {
	InstanceID       string `json:"instanceId"`
	AvailabilityZone string `json:"availabilityZone"`
	InstanceType     string `json:"instanceType"`
	ImageID          string `json:"imageId"`
}

// What an identity document says in each member.
var (
	machineIDs   = regexp.MustCompile(`^i-[0-9a-f]{8,17}$`)
	zoneNames    = regexp.MustCompile(`^[a-z0-9-]{0,64}$`)
	machineTypes = regexp.MustCompile(`^[a-z0-9.-]{0,64}$`)
	imageIDs     = regexp.MustCompile(`^(ami-[0-9a-z]{1,32})?$`)
)

// parseIdentity reads an identity document; the zero identity if there is none.
func parseIdentity(document string) (identity, error) {
	var out identity
	if document == "" {
		return out, nil
	}
	err := json.Unmarshal([]byte(document), &out)
	if err != nil || !machineIDs.MatchString(out.InstanceID) || !zoneNames.MatchString(out.AvailabilityZone) ||
		!machineTypes.MatchString(out.InstanceType) || !imageIDs.MatchString(out.ImageID) {
		return out, invalidParameter("The instance identity document must have instanceId, and may have " +
			"availabilityZone, instanceType and imageId.")
	}
	return out, nil
}

// instanceToRegister returns a new instance, or the registered one with the ARN.
func (e *agents) instanceToRegister(c *ecsCluster, arn string, now time.Time) (*instance, error) {
	if arn == "" {
		return e.newInstance(c, now), nil
	}
	i := e.findInstance(c, arn)
	if i == nil || i.Status == cluster.InstanceInactive {
		return nil, invalidParameter("Container instance %.200s is not registered here.", arn)
	}
	return i, nil
}

// resize gives an instance the size that its agent registers. A registered one keeps its size where
// the agent gives none.
func (i *instance) resize(size offer, given bool) error {
	switch registered := i.arn != ""; {
	case registered && !given:
	case registered && len(size.GPUs) != len(i.GPUs):
		return invalidParameter("Container instance %.200s has %d GPUs, which cannot change.", i.arn, len(i.GPUs))
	default:
		i.CPU, i.Memory, i.GPUs, i.Metrics, i.ENIs = size.CPU, size.Memory, size.GPUs, size.Metrics, size.ENIs
	}
	i.Connected = true
	return nil
}

// identify records where the machine is and its EC2 instance id, if the agent says so.
func (i *instance) identify(of identity, zone, otherwise string) {
	i.EC2 = cmp.Or(of.InstanceID, i.EC2)
	i.Zone = cmp.Or(zone, of.AvailabilityZone, i.Zone, otherwise)
}

// machineType returns the type that the instance has registered, empty for a new one.
func (i *instance) machineType() string {
	return attributeValue(i.Attributes, cluster.AttributeInstanceType)
}

func attributeValue(attributes []attribute, name string) string {
	for _, a := range attributes {
		if a.Name == name {
			return a.Value
		}
	}
	return ""
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
