package ecs

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/sim/kernel"
)

// taskRecord is what is stored of a task.
type taskRecord struct {
	taskSpec
	reportedTask
	actualTask
}

// taskSpec is what is fixed when a task is started.
type taskSpec struct {
	Seq                   int64
	Cluster, ID, Instance string
	Definition            string // family:revision
	StartedBy, Group      string
	Overrides             types.TaskOverride
	Tags                  []types.Tag
	CPU, Memory           int64 // CPU units, MiB
	Ports                 []cluster.Port
	GPUs                  []int // positions of devices
	ENI                   bool  `json:",omitempty"` // has a network interface of its own
	// ExecuteCommand is its enableExecuteCommand. No session can be opened here all the same.
	ExecuteCommand bool `json:",omitempty"`
	// Subnet is where its network interface is; empty in files of earlier versions.
	Subnet string `json:",omitempty"`
	// Volumes are those that ECS created for the task.
	Volumes []types.TaskVolumeConfiguration `json:",omitempty"`
}

// reportedTask is what ECS knows of a task: what its agent reported.
type reportedTask struct {
	Last, Desired             cluster.TaskStatus
	Version                   int64
	Health                    string
	Created, Started          time.Time
	Stopping, Ended, Reported time.Time // Reported is when ECS learnt that it has stopped
	StopCode, Reason          string
	ExitCode                  *int
}

// actualTask is what a task does on its machine.
type actualTask struct {
	Plan       plan
	Phase      phase
	Ran        time.Time // when it became RUNNING on its machine
	StopAt     time.Time // when it will have stopped, once the agent knows that it should
	Killed     bool      // by SIGKILL then
	HealthNow  string
	HealthNext time.Time
	Unreported []report // while the agent is disconnected
	// TargetFault is why it fails the checks of its target groups; empty if it passes them.
	TargetFault string `json:",omitempty"`
}

// task is a task with both views of it, and where it belongs.
type task struct {
	taskSpec
	reportedTask
	actualTask
	on    *instance
	def   *definition
	epoch int // the number of the timer in force
}

// requiredResources returns what ECS reserves for a task: CPU units, MiB and GPUs. CPU and memory
// are the task's own or else the sum of its containers'. Of a container's memory the reservation
// counts, if it has one. Overrides win.
//
// Example: containers of 256 units and 512 MiB with a reservation of 128, and of 64 units and 64
// MiB, hold 320 units and 192 MiB. With "memory": "1024" for the task it is 320 units and 1,024
// MiB.
func (d *definition) requiredResources(o *types.TaskOverride) (cpu, memory int64, gpus int) {
	for _, c := range d.Def.ContainerDefinitions {
		over := containerOverride(o, value(c.Name))
		units := c.Cpu
		if over.Cpu != nil {
			units = *over.Cpu
		}
		cpu += int64(units)
		limit := cmp.Or(value(over.MemoryReservation), value(c.MemoryReservation), value(over.Memory), value(c.Memory))
		memory += int64(limit)
		requirements := c.ResourceRequirements
		if over.ResourceRequirements != nil {
			requirements = over.ResourceRequirements
		}
		for _, r := range requirements {
			if r.Type == types.ResourceTypeGpu {
				n, _ := strconv.Atoi(value(r.Value)) // checked at registration
				gpus += n
			}
		}
	}
	if s := cmp.Or(value(o.Cpu), value(d.Def.Cpu)); s != "" {
		cpu, _ = strconv.ParseInt(s, 10, 64)
	}
	if s := cmp.Or(value(o.Memory), value(d.Def.Memory)); s != "" {
		memory, _ = strconv.ParseInt(s, 10, 64)
	}
	return cpu, memory, gpus
}

// containerOverride returns what is overridden of a container, the zero value for nothing.
func containerOverride(o *types.TaskOverride, name string) types.ContainerOverride {
	for _, c := range o.ContainerOverrides {
		if value(c.Name) == name {
			return c
		}
	}
	return types.ContainerOverride{}
}

// staticHostPorts returns the static host ports that a task of the definition reserves. ECS
// reserves only these; dynamic ones are Docker's.
func (d *definition) staticHostPorts() (ports []cluster.Port) {
	for _, c := range d.Def.ContainerDefinitions {
		for _, m := range c.PortMappings {
			if p, static := staticHostPort(m, d.Def.NetworkMode); static {
				ports = append(ports, p)
			}
		}
	}
	return ports
}

// forScheduler returns the task in Berth's terms, as ECS knows it.
func (t *task) forScheduler() cluster.ECSTask {
	n := cluster.ECSTask{
		Cluster: t.Cluster, ID: t.ID, Instance: t.Instance, StartedBy: t.StartedBy, Group: t.Group,
		TaskDefinition: t.Definition, Last: t.Last, Desired: t.Desired, Version: t.Version,
		Health:  cluster.ParseHealth(t.Health),
		Started: t.Started, Stopped: t.Ended, StopCode: t.StopCode, Reason: t.Reason, ExitCode: t.ExitCode,
		Needs: cluster.Resources{CPU: t.CPU * cluster.CPUUnit, Memory: t.Memory, GPUs: len(t.GPUs)},
	}
	if !t.Started.IsZero() { // until then no port is bound
		n.Ports, n.Bindings = t.Ports, t.portBindings()
	}
	if t.ENI {
		n.Address = t.interfaceAddress()
	}
	return n
}

// portBindings returns the host ports that lead to the task's containers, none before it runs.
func (t *task) portBindings() (out []cluster.Binding) {
	for _, c := range t.def.Def.ContainerDefinitions {
		if len(c.PortMappings) == 0 {
			continue
		}
		for _, b := range t.containerBindings(c) {
			out = append(out, cluster.Binding{
				Container: value(c.Name), ContainerPort: int(value(b.ContainerPort)), HostPort: int(value(b.HostPort)),
				Protocol: cluster.Protocol(b.Protocol),
			})
		}
	}
	return out
}

// interfaceAddress returns the IP address of the task's network interface, 10.x.y.z after its
// number: the 65,538th task has 10.1.0.2. Addresses come again after 16 million tasks.
func (t *task) interfaceAddress() string {
	return fmt.Sprintf("10.%d.%d.%d", t.Seq>>16&255, t.Seq>>8&255, t.Seq&255)
}

// interfaceAttachment returns the task's network interface in ECS's terms. It is ATTACHED from the
// start; ECS's steps before that are not simulated.
func (t *task) interfaceAttachment(region string) types.Attachment {
	detail := func(name, v string) types.KeyValuePair { return types.KeyValuePair{Name: &name, Value: &v} }
	details := []types.KeyValuePair{detail("networkInterfaceId", "eni-"+t.ID[:17]),
		detail("macAddress", fmt.Sprintf("0a:00:%02x:%02x:%02x:%02x", t.Seq>>24&255, t.Seq>>16&255, t.Seq>>8&255,
			t.Seq&255)),
		detail("privateDnsName", privateName(region, t.interfaceAddress())),
		detail("privateIPv4Address", t.interfaceAddress())}
	if t.Subnet != "" {
		details = append([]types.KeyValuePair{detail("subnetId", t.Subnet)}, details...)
	}
	return types.Attachment{
		Id: new(t.attachmentID()), Type: new("ElasticNetworkInterface"), Status: new("ATTACHED"), Details: details,
	}
}

func (t *task) attachmentID() string { return kernel.FormatUUID(cluster.Digest("eni", t.ID)) }

// privateName returns the name that a VPC's DNS has for an address. us-east-1 has a domain of its
// own.
func privateName(region, address string) string {
	domain := region + ".compute.internal"
	if region == "us-east-1" {
		domain = "ec2.internal"
	}
	return "ip-" + strings.ReplaceAll(address, ".", "-") + "." + domain
}

// describe returns the task in ECS's terms, without its tags, which only some operations return.
// Absent values are nil: a task without startedBy has no such member.
func (t *task) describe(account cluster.Account) types.Task {
	d := types.Task{
		TaskArn: new(account.ARN("task", t.Cluster, t.ID)), ClusterArn: t.on.in.info.ClusterArn,
		ContainerInstanceArn: &t.on.arn, TaskDefinitionArn: t.def.Def.TaskDefinitionArn,
		AvailabilityZone: new(t.on.Zone), Attachments: []types.Attachment{}, LaunchType: types.LaunchTypeEc2,
		Cpu: new(strconv.FormatInt(t.CPU, 10)), Memory: new(strconv.FormatInt(t.Memory, 10)),
		Group: &t.Group, LastStatus: new(string(t.Last)), DesiredStatus: new(string(t.Desired)),
		HealthStatus: t.healthStatus(), Overrides: &t.Overrides, Version: t.Version, CreatedAt: &t.Created,
		StartedAt: timeOrNil(t.Started), StoppingAt: timeOrNil(t.Stopping), StoppedAt: timeOrNil(t.Ended),
		ExecutionStoppedAt: timeOrNil(t.Ended), StopCode: types.TaskStopCode(t.StopCode),
		Connectivity: types.ConnectivityConnected, ConnectivityAt: &t.Created,
		EnableExecuteCommand: t.ExecuteCommand,
	}
	// Simulated images are pulled the moment before the task runs.
	if !t.Started.IsZero() {
		d.PullStartedAt, d.PullStoppedAt = &t.Created, &t.Started
	}
	if t.StartedBy != "" {
		d.StartedBy = &t.StartedBy
	}
	if t.Reason != "" {
		d.StoppedReason = new(t.Reason)
	}
	if t.ENI {
		d.Attachments = append(d.Attachments, t.interfaceAttachment(account.Region))
	}
	for _, v := range t.Volumes {
		d.Attachments = append(d.Attachments, t.volumeAttachment(v))
	}
	gpus := t.GPUs
	for n, c := range t.def.Def.ContainerDefinitions {
		var own types.Container
		own, gpus = t.describeContainer(n, c, gpus)
		own.TaskArn = d.TaskArn
		own.ContainerArn = new(account.ARN("container", t.Cluster, t.ID,
			kernel.FormatUUID(cluster.Digest(t.ID, value(c.Name)))))
		d.Containers = append(d.Containers, own)
	}
	return d
}

func (t *task) healthStatus() types.HealthStatus {
	return types.HealthStatus(cmp.Or(t.Health, string(types.HealthStatusUnknown)))
}

// describeContainer describes the n-th container. It takes the container's GPUs from gpus and
// returns the rest. All containers have the task's status, because a simulated task has one life;
// the exit code is that of the first essential one.
func (t *task) describeContainer(n int, c types.ContainerDefinition, gpus []int) (types.Container, []int) {
	out := types.Container{
		Name: c.Name, Image: c.Image, LastStatus: new(string(t.Last)), Cpu: new(strconv.Itoa(int(c.Cpu))),
		NetworkInterfaces: []types.NetworkInterface{}, HealthStatus: types.HealthStatusUnknown,
	}
	if c.Memory != nil {
		out.Memory = new(strconv.Itoa(int(*c.Memory)))
	}
	if c.MemoryReservation != nil {
		out.MemoryReservation = new(strconv.Itoa(int(*c.MemoryReservation)))
	}
	if value(c.Essential) && c.HealthCheck != nil {
		out.HealthStatus = t.healthStatus()
	}
	if first := slices.IndexFunc(t.def.Def.ContainerDefinitions, isEssential); n == first && t.ExitCode != nil {
		out.ExitCode = new(int32(*t.ExitCode))
	}
	requirements := c.ResourceRequirements
	if over := containerOverride(&t.Overrides, value(c.Name)); over.ResourceRequirements != nil {
		requirements = over.ResourceRequirements
	}
	for _, r := range requirements {
		for k, _ := strconv.Atoi(value(r.Value)); r.Type == types.ResourceTypeGpu && k > 0 && len(gpus) > 0; k-- {
			out.GpuIds, gpus = append(out.GpuIds, t.on.GPUs[gpus[0]]), gpus[1:]
		}
	}
	out.NetworkBindings = t.containerBindings(c)
	if t.ENI {
		out.NetworkInterfaces = append(out.NetworkInterfaces, types.NetworkInterface{
			AttachmentId: new(t.attachmentID()), PrivateIpv4Address: new(t.interfaceAddress()),
		})
	}
	return out, gpus
}

func isEssential(c types.ContainerDefinition) bool { return value(c.Essential) }

// containerBindings returns the host ports of a container. Docker binds them when the task starts
// to run. Dynamic ones follow from the task's number; two tasks of one instance may get the same,
// which nothing here depends on.
func (t *task) containerBindings(c types.ContainerDefinition) []types.NetworkBinding {
	out := []types.NetworkBinding{}
	mode := t.def.Def.NetworkMode
	if t.Started.IsZero() || mode == types.NetworkModeAwsvpc || mode == types.NetworkModeNone {
		return out
	}
	for k, m := range c.PortMappings {
		p, static := staticHostPort(m, mode)
		if !static {
			p.Number = firstDynamic + int((t.Seq*7+int64(k))%(lastDynamic-firstDynamic))
		}
		out = append(out, types.NetworkBinding{
			BindIP: new("0.0.0.0"), ContainerPort: m.ContainerPort, HostPort: new(int32(p.Number)),
			Protocol: types.TransportProtocol(p.Protocol),
		})
	}
	return out
}

// The range of dynamic host ports. Docker picks free ones, so that ECS does not reserve them.
const (
	firstDynamic = 32768
	lastDynamic  = 60999
)
