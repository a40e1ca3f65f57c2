package shape

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/wire/input"
)

// ParseInstance returns a container instance as ECS describes it. Registered CPU comes in CPU
// units, memory in MiB, GPUs and reserved ports as sets of text. Ports that are no numbers are left
// out.
func ParseInstance(clusterName string, i types.ContainerInstance) *cluster.Instance {
	out := &cluster.Instance{
		Head: cluster.Head{Cluster: clusterName}, ID: cluster.LastPart(input.Value(i.ContainerInstanceArn)),
		EC2InstanceID: input.Value(i.Ec2InstanceId), Status: cluster.InstanceStatus(input.Value(i.Status)),
		AgentConnected: i.AgentConnected, Version: i.Version, RegisteredAt: cluster.At(input.Value(i.RegisteredAt)),
		Provider: input.Value(i.CapacityProviderName),
	}
	if i.VersionInfo != nil {
		out.AgentVersion = input.Value(i.VersionInfo.AgentVersion)
	}
	// Without attributes the map stays nil, as many instances are kept in memory.
	if len(i.Attributes) > 0 {
		out.Attributes = make(map[string]string, len(i.Attributes))
	}
	for _, a := range i.Attributes {
		out.Attributes[input.Value(a.Name)] = input.Value(a.Value)
	}
	for _, r := range i.RegisteredResources {
		switch input.Value(r.Name) {
		case "CPU":
			out.Registered.CPU = int64(r.IntegerValue) * cluster.CPUUnit
		case "MEMORY":
			out.Registered.Memory = int64(r.IntegerValue)
		case "GPU":
			out.Registered.GPUs = slices.Clone(r.StringSetValue)
		case "PORTS":
			out.Registered.Ports = append(out.Registered.Ports, parsePorts(r.StringSetValue, cluster.TCP)...)
		case "PORTS_UDP":
			out.Registered.Ports = append(out.Registered.Ports, parsePorts(r.StringSetValue, cluster.UDP)...)
		case resourceENI:
			out.Registered.ENIs = new(int(r.IntegerValue))
		default:
			addMetric(&out.Registered, r)
		}
	}
	// An instance that registered none may have the number in an attribute.
	out.SetENIs()
	return out
}

// resourceENI is the registered resource that says how many network interfaces of tasks an instance
// can have.
const resourceENI = "ENI"

// addMetric records any other whole number that the instance registered as its capacity of a metric
// (P9).
func addMetric(c *cluster.Capacity, r types.Resource) {
	n := int64(r.IntegerValue)
	switch input.Value(r.Type) {
	case "INTEGER":
	case "LONG":
		n = r.LongValue
	default:
		return
	}
	if c.Metrics == nil {
		c.Metrics = map[string]int64{}
	}
	c.Metrics[input.Value(r.Name)] = n
}

// parsePorts returns the static ports among numbers.
func parsePorts(numbers []string, protocol cluster.Protocol) []cluster.Port {
	var out []cluster.Port
	for _, s := range numbers {
		if n, err := strconv.ParseUint(s, 10, 16); err == nil {
			out = append(out, cluster.Port{Number: int(n), Protocol: protocol})
		}
	}
	return out
}

// transitionalStatuses are the statuses that ECS shows between two of Berth's, with the one that
// Berth counts them as.
var transitionalStatuses = map[string]cluster.TaskStatus{
	"PROVISIONING": cluster.TaskPending, "ACTIVATING": cluster.TaskPending, "DEACTIVATING": cluster.TaskStopping,
	"DEPROVISIONING": cluster.TaskStopping, "DELETED": cluster.TaskStopped,
}

// ParseTask returns a task as ECS describes it. Transitional statuses become the one they count as.
// Needs are the task's own size, or the sum of its containers'. The exit code is the first that a
// container has.
func ParseTask(t types.Task) cluster.ECSTask {
	out := cluster.ECSTask{
		Cluster: cluster.LastPart(input.Value(t.ClusterArn)), ID: cluster.LastPart(input.Value(t.TaskArn)),
		Instance: cluster.LastPart(input.Value(t.ContainerInstanceArn)), StartedBy: input.Value(t.StartedBy),
		Group: input.Value(t.Group), TaskDefinition: cluster.LastPart(input.Value(t.TaskDefinitionArn)),
		Last: cluster.TaskStatus(input.Value(t.LastStatus)), Desired: cluster.TaskRunning, Version: t.Version,
		StopCode: string(t.StopCode), Reason: input.Value(t.StoppedReason),
	}
	if s, ok := transitionalStatuses[input.Value(t.LastStatus)]; ok {
		out.Last = s
	}
	if input.Value(t.DesiredStatus) == string(cluster.TaskStopped) {
		out.Desired = cluster.TaskStopped
	}
	out.Health = cluster.ParseHealth(string(t.HealthStatus))
	if t.StartedAt != nil {
		out.Started = t.StartedAt.UTC()
	}
	if t.StoppedAt != nil {
		out.Stopped = t.StoppedAt.UTC()
	}
	addHeldResources(&out, t)
	out.Address = privateAddress(t)
	return out
}

// privateAddress returns the IPv4 address of a task's own network interface, from a container or
// else from the attachment; empty in host and bridge mode.
func privateAddress(t types.Task) string {
	for _, c := range t.Containers {
		for _, i := range c.NetworkInterfaces {
			if a := input.Value(i.PrivateIpv4Address); a != "" {
				return a
			}
		}
	}
	for _, a := range t.Attachments {
		for _, d := range a.Details {
			if input.Value(a.Type) == "ElasticNetworkInterface" && input.Value(d.Name) == "privateIPv4Address" {
				return input.Value(d.Value)
			}
		}
	}
	return ""
}

// firstEphemeralPort is the first host port that ECS assigns by itself. A lower one in a binding is
// a static port, which placement must keep free (S2).
const firstEphemeralPort = 32768

// addHeldResources adds what the task holds of its instance: CPU, memory, GPUs and ports.
func addHeldResources(out *cluster.ECSTask, t types.Task) {
	var cpu, memory int64
	for _, c := range t.Containers {
		cpu += parseUnits(input.Value(c.Cpu))
		memory += parseUnits(cmp.Or(input.Value(c.MemoryReservation), input.Value(c.Memory)))
		out.Needs.GPUs += len(c.GpuIds)
		if out.ExitCode == nil && c.ExitCode != nil {
			out.ExitCode = new(int(*c.ExitCode))
		}
		for _, b := range c.NetworkBindings {
			p := cluster.Port{Number: int(input.Value(b.HostPort)), Protocol: cluster.TCP}
			if b.Protocol == types.TransportProtocolUdp {
				p.Protocol = cluster.UDP
			}
			bound := cluster.Binding{
				Container: input.Value(c.Name), ContainerPort: int(input.Value(b.ContainerPort)), HostPort: p.Number,
				Protocol: p.Protocol,
			}
			if p.Number > 0 && !slices.Contains(out.Bindings, bound) {
				out.Bindings = append(out.Bindings, bound)
			}
			// A port that is bound for IPv4 and for IPv6 comes twice.
			if p.Number > 0 && p.Number < firstEphemeralPort && !slices.Contains(out.Ports, p) {
				out.Ports = append(out.Ports, p)
			}
		}
	}
	out.Needs.CPU = cmp.Or(parseUnits(input.Value(t.Cpu)), cpu) * cluster.CPUUnit
	out.Needs.Memory = cmp.Or(parseUnits(input.Value(t.Memory)), memory)
}

// parseUnits returns a number that ECS sends as text, 0 for anything else.
func parseUnits(s string) int64 {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0
	}
	return int64(n)
}

// ConvertEach converts every element. The result is never nil, because ECS shows empty lists as [].
func ConvertEach[I, O any](in []I, convert func(I) O) []O {
	out := make([]O, 0, len(in))
	for _, v := range in {
		out = append(out, convert(v))
	}
	return out
}

// TagShapes returns tags as the SDK has them, sorted by their keys.
func TagShapes(m map[string]string) []types.Tag {
	out := make([]types.Tag, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, types.Tag{Key: new(key), Value: new(m[key])})
	}
	return out
}

// TextOrNil returns nil for an empty string: the protocol leaves out what does not exist.
func TextOrNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// TimeOrNil returns nil for the zero time: the protocol leaves out what does not exist.
func TimeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
