package ecs

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
)

// instanceRecord is what is stored of an instance. What its tasks hold is not stored: it follows
// from the tasks.
type instanceRecord struct {
	Seq          int64
	Cluster, ID  string
	EC2, Zone    string
	Status       cluster.InstanceStatus
	Connected    bool
	Version      int64
	RegisteredAt time.Time
	GoneAt       time.Time // when it became INACTIVE
	machineFaults
	CPU, Memory int64 // CPU units, MiB
	GPUs        []string
	ENIs        *int               `json:",omitempty"` // task network interfaces; nil is any number
	Metrics     map[string]int64   `json:",omitempty"` // capacities
	Provider    string             `json:",omitempty"` // capacity provider
	Attributes  []attribute        // by name
	Agent       *types.VersionInfo `json:",omitempty"` // nil: the newest
	Tags        []types.Tag
}

// machineFaults is what is wrong with the machine of an instance.
type machineFaults struct {
	Off     bool // the machine does not run, whether or not ECS knows
	Stopped bool `json:",omitempty"` // by EC2
	// StartDelay is how much longer tasks take to start here.
	StartDelay time.Duration `json:",omitempty"`
}

// attribute is one attribute of an instance. Only custom ones can be changed by PutAttributes.
type attribute struct {
	Name   string
	Value  string `json:",omitempty"` // empty for a capability, which is there or not
	Custom bool   `json:",omitempty"`
}

func byName(a, b attribute) int { return cmp.Compare(a.Name, b.Name) }

// instance is a container instance: what is stored of it, and what its tasks leave free.
type instance struct {
	instanceRecord
	in         *ecsCluster
	tasks      []*task               // those visible, in order of start
	freeCPU    int64                 // CPU units; negative where the instance was made smaller
	freeMemory int64                 // MiB; likewise
	ports      map[cluster.Port]bool // host ports in use
	gpuInUse   []bool                // by position in GPUs
	arn        string

	// view and attributes are what forScheduler gives out, shared by all callers: in large
	// simulations every sweep describes every instance. nil when to be made anew.
	view       *cluster.Instance
	attributes map[string]string
}

// newInstance returns an instance without resources, which is not in the tables yet. Its ids derive
// from the seed and its number.
func (e *tables) newInstance(c *ecsCluster, now time.Time) *instance {
	n := e.kernel.NextNumber("Instances")
	id := e.kernel.ResourceID("instance", n)
	return &instance{in: c, instanceRecord: instanceRecord{
		Seq: n, Cluster: c.name(), ID: id, EC2: "i-" + e.kernel.ResourceID("ec2", n)[:17],
		Status: cluster.InstanceActive, Connected: true, RegisteredAt: now,
	}}
}

// addInstance adds an instance to the tables, with all of its resources free.
func (e *tables) addInstance(i *instance) {
	i.arn = e.kernel.Account.ARN("container-instance", i.Cluster, i.ID)
	i.freeCPU, i.freeMemory = i.CPU, i.Memory
	i.gpuInUse = make([]bool, len(i.GPUs))
	i.ports = portsOfAgent()
	e.instances[i.ID] = i
	i.in.instances = append(i.in.instances, i)
	i.in.listed = nil
}

func (i *instance) attributesChanged() { i.attributes = nil }

// reserveFor reserves what the task needs (sign 1) or releases it (sign -1).
func (i *instance) reserveFor(t *task, sign int64) {
	i.freeCPU -= sign * t.CPU
	i.freeMemory -= sign * t.Memory
	for _, p := range t.Ports {
		if sign > 0 {
			i.ports[p] = true
		} else {
			delete(i.ports, p)
		}
	}
	for _, g := range t.GPUs {
		i.gpuInUse[g] = sign > 0
	}
}

// freeGPUs returns the positions of devices that no task holds, in order.
func (i *instance) freeGPUs() (free []int) {
	for g, used := range i.gpuInUse {
		if !used {
			free = append(free, g)
		}
	}
	return free
}

// countInterfaces returns how many tasks have a network interface of their own.
func (i *instance) countInterfaces() (n int) {
	for _, t := range i.tasks {
		if t.ENI && t.Last != cluster.TaskStopped {
			n++
		}
	}
	return n
}

// countTasks returns how many tasks are RUNNING and PENDING.
func (i *instance) countTasks() (running, pending int32) {
	for _, t := range i.tasks {
		switch t.Last {
		case cluster.TaskRunning:
			running++
		case cluster.TaskPending:
			pending++
		}
	}
	return running, pending
}

// hasAttribute reports whether the instance has the attribute, with any value if value is empty.
func (i *instance) hasAttribute(name, value string) bool {
	at, ok := slices.BinarySearchFunc(i.Attributes, attribute{Name: name}, byName)
	return ok && (value == "" || i.Attributes[at].Value == value)
}

// forScheduler returns the instance in Berth's terms. What it points to is shared and never
// changes.
func (i *instance) forScheduler() *cluster.Instance {
	if i.attributes == nil {
		i.attributes = make(map[string]string, len(i.Attributes))
		for _, a := range i.Attributes {
			i.attributes[a.Name] = a.Value
		}
		i.view = nil
	}
	if i.view == nil {
		i.view = &cluster.Instance{
			Head: cluster.Head{Cluster: i.Cluster}, ID: i.ID, EC2InstanceID: i.EC2, Status: i.Status,
			AgentConnected: i.Connected, AgentVersion: value(i.agent().AgentVersion), Version: i.Version,
			RegisteredAt: cluster.At(i.RegisteredAt), Attributes: i.attributes, Provider: i.Provider,
			Registered: cluster.Capacity{CPU: i.CPU * cluster.CPUUnit, Memory: i.Memory, GPUs: i.GPUs,
				Ports: agentReserved, Metrics: i.Metrics, ENIs: i.ENIs},
		}
		i.view.SetENIs()
	}
	own := *i.view
	return &own
}

// describe returns the instance in ECS's terms, without its tags.
func (i *instance) describe() types.ContainerInstance {
	running, pending := i.countTasks()
	d := types.ContainerInstance{
		ContainerInstanceArn: &i.arn, Ec2InstanceId: new(i.EC2), Status: new(string(i.Status)),
		AgentConnected: i.Connected, Version: i.Version, RegisteredAt: &i.RegisteredAt,
		RunningTasksCount: running, PendingTasksCount: pending, VersionInfo: i.agent(),
		RegisteredResources: i.registeredResources(), RemainingResources: i.remainingResources(),
	}
	if i.Provider != "" {
		d.CapacityProviderName = new(i.Provider)
	}
	d.Attributes = make([]types.Attribute, len(i.Attributes))
	for n := range i.Attributes {
		a := &i.Attributes[n] // never changed in place: a change replaces the list
		if d.Attributes[n].Name = &a.Name; a.Value != "" {
			d.Attributes[n].Value = &a.Value
		}
	}
	return d
}

// newestAgent is the agent that every machine runs that does not say otherwise.
const newestAgent = "1.98.0"

// agent returns what the machine says about its agent.
func (i *instance) agent() *types.VersionInfo {
	if i.Agent != nil {
		return i.Agent
	}
	return &types.VersionInfo{
		AgentVersion: new(newestAgent), AgentHash: new("b3a7f1c2"), DockerVersion: new("DockerVersion: 25.0.8"),
	}
}

func (i *instance) registeredResources() []types.Resource {
	return append(describeResources(i.CPU, i.Memory, agentReserved, i.GPUs), i.metricResources()...)
}

// remainingResources returns what is free. As in ECS, its ports are those that are taken.
func (i *instance) remainingResources() []types.Resource {
	taken := make([]cluster.Port, 0, len(i.ports))
	taken = append(taken, agentReserved...)
	for _, t := range i.tasks {
		if t.Last != cluster.TaskStopped {
			taken = append(taken, t.Ports...)
		}
	}
	var free []string
	if len(i.GPUs) > 0 {
		free = []string{}
	}
	for _, g := range i.freeGPUs() {
		free = append(free, i.GPUs[g])
	}
	return append(describeResources(i.freeCPU, i.freeMemory, taken, free), i.metricResources()...)
}

// metricResources returns the network interfaces and the capacities of metrics. ECS does not know
// how much is in use: registered and remaining resources are the same here.
func (i *instance) metricResources() (out []types.Resource) {
	if i.ENIs != nil {
		out = append(out, types.Resource{Name: new("ENI"), Type: new("INTEGER"), IntegerValue: int32(*i.ENIs)})
	}
	for _, name := range slices.Sorted(maps.Keys(i.Metrics)) {
		out = append(out, types.Resource{Name: &name, Type: new("INTEGER"), IntegerValue: int32(i.Metrics[name])})
	}
	return out
}

// describeResources returns resources as ECS lists them. An instance that never had GPUs (nil) has
// no such resource; one whose GPUs are all in use has an empty list.
func describeResources(cpu, memory int64, ports []cluster.Port, gpus []string) []types.Resource {
	tcp, udp := []string{}, []string{}
	for _, p := range ports {
		if p.Protocol == cluster.UDP {
			udp = append(udp, strconv.Itoa(p.Number))
		} else {
			tcp = append(tcp, strconv.Itoa(p.Number))
		}
	}
	out := []types.Resource{
		{Name: new("CPU"), Type: new("INTEGER"), IntegerValue: int32(cpu)},
		{Name: new("MEMORY"), Type: new("INTEGER"), IntegerValue: int32(memory)},
		{Name: new("PORTS"), Type: new("STRINGSET"), StringSetValue: tcp},
		{Name: new("PORTS_UDP"), Type: new("STRINGSET"), StringSetValue: udp},
	}
	if gpus != nil {
		out = append(out, types.Resource{Name: new("GPU"), Type: new("STRINGSET"), StringSetValue: gpus})
	}
	return out
}

// agentReserved are the host ports that the agent and its host use: ssh, Docker and the agent's own
// (ECS, container instance memory and ports). No task gets them.
var agentReserved = []cluster.Port{
	{Number: 22, Protocol: cluster.TCP}, {Number: 2376, Protocol: cluster.TCP}, {Number: 2375, Protocol: cluster.TCP},
	{Number: 51678, Protocol: cluster.TCP}, {Number: 51679, Protocol: cluster.TCP},
}

// portsOfAgent returns the host ports in use on an instance without tasks.
func portsOfAgent() map[cluster.Port]bool {
	ports := map[cluster.Port]bool{}
	for _, p := range agentReserved {
		ports[p] = true
	}
	return ports
}
