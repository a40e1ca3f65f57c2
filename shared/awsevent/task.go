package awsevent

import (
	"cmp"
	"strconv"
	"time"

	"berth/shared/cluster"
)

// taskDetail has the members of ECS's Task that Berth reads. An event's detail has the same form as
// an answer of DescribeTasks, without the health (ECS Developer Guide, "Amazon ECS task state change events").
type taskDetail struct {
	TaskARN        string          `json:"taskArn"`
	ClusterARN     string          `json:"clusterArn"`
	InstanceARN    string          `json:"containerInstanceArn"`
	TaskDefinition string          `json:"taskDefinitionArn"`
	Group          string          `json:"group"`
	StartedBy      string          `json:"startedBy"`
	LastStatus     string          `json:"lastStatus"`
	DesiredStatus  string          `json:"desiredStatus"`
	CPU            string          `json:"cpu"`
	Memory         string          `json:"memory"`
	StartedAt      time.Time       `json:"startedAt"`
	StoppedAt      time.Time       `json:"stoppedAt"`
	StopCode       string          `json:"stopCode"`
	StoppedReason  string          `json:"stoppedReason"`
	Version        int64           `json:"version"`
	Containers     []taskContainer `json:"containers"`
}

// taskContainer has what a task's container holds. Bindings are known only once it runs.
type taskContainer struct {
	ExitCode          *int          `json:"exitCode"`
	CPU               string        `json:"cpu"`
	Memory            string        `json:"memory"`
	MemoryReservation string        `json:"memoryReservation"`
	GPUIDs            []string      `json:"gpuIds"`
	NetworkBindings   []portBinding `json:"networkBindings"`
}

// portBinding is a host port that leads to a container; a static one keeps other tasks off the
// instance.
type portBinding struct {
	HostPort int    `json:"hostPort"`
	Protocol string `json:"protocol"`
}

// lastStatuses maps ECS's lastStatus to Berth's. A transitional status counts as the one before it.
var lastStatuses = map[string]cluster.TaskStatus{
	"PROVISIONING": cluster.TaskPending, "PENDING": cluster.TaskPending, "ACTIVATING": cluster.TaskPending,
	"RUNNING":      cluster.TaskRunning,
	"DEACTIVATING": cluster.TaskStopping, "STOPPING": cluster.TaskStopping, "DEPROVISIONING": cluster.TaskStopping,
	"STOPPED": cluster.TaskStopped, "DELETED": cluster.TaskStopped,
}

// desiredStatuses maps ECS's desiredStatus to Berth's.
var desiredStatuses = map[string]cluster.TaskStatus{
	"PENDING": cluster.TaskRunning, "RUNNING": cluster.TaskRunning, "STOPPED": cluster.TaskStopped,
}

// firstDynamicPort is the first host port that ECS assigns by itself (ECS API reference,
// PortMapping). Bindings below it are static.
const firstDynamicPort = 32768

// readTask reads a task's state. Version orders the events of a task, which may arrive in any
// order, so an event without one is malformed.
func readTask(e *envelope) (any, error) {
	var d taskDetail
	if err := e.readDetail(&d); err != nil {
		return nil, err
	}
	t := &cluster.ECSTask{
		StartedBy: d.StartedBy, Group: d.Group, Last: lastStatuses[d.LastStatus],
		Desired: desiredStatuses[d.DesiredStatus],
		Version: d.Version, Started: d.StartedAt, Stopped: d.StoppedAt, StopCode: d.StopCode, Reason: d.StoppedReason,
	}
	switch {
	case t.Last == "":
		return nil, malformed(e.DetailType, "lastStatus %.40q", d.LastStatus)
	case t.Desired == "":
		return nil, malformed(e.DetailType, "desiredStatus %.40q", d.DesiredStatus)
	case d.Version < 1:
		return nil, malformed(e.DetailType, "version %d", d.Version)
	}
	if err := d.readNames(e, t); err != nil {
		return nil, err
	}
	return t, d.readResources(e, t)
}

// readNames reads the ids and names in the task's ARNs.
func (d *taskDetail) readNames(e *envelope, t *cluster.ECSTask) (err error) {
	if _, t.ID, err = parseARN(e, "taskArn", d.TaskARN, "task"); err != nil {
		return err
	}
	if _, t.Cluster, err = parseARN(e, "clusterArn", d.ClusterARN, "cluster"); err != nil {
		return err
	}
	if d.InstanceARN != "" { // Fargate has none
		if _, t.Instance, err = parseARN(e, "containerInstanceArn", d.InstanceARN, "container-instance"); err != nil {
			return err
		}
	}
	if a, ok := cluster.ParseARN(d.TaskDefinition); ok && a.Kind == "task-definition" {
		t.TaskDefinition = a.Name
		return nil
	}
	return malformed(e.DetailType, "taskDefinitionArn %.200q", d.TaskDefinition)
}

// readResources reads what the task holds: the task's own size if it has one, and otherwise the sum
// of its containers'. Of their memory the reservation counts, as in ECS.
func (d *taskDetail) readResources(e *envelope, t *cluster.ECSTask) error {
	var cpu, memory int64
	for _, c := range d.Containers {
		one, err := parseUnits(e, "containers.cpu", c.CPU)
		if err != nil {
			return err
		}
		mib, err := parseUnits(e, "containers.memory", cmp.Or(c.MemoryReservation, c.Memory))
		if err != nil {
			return err
		}
		cpu, memory = cpu+one, memory+mib
		t.Needs.GPUs += len(c.GPUIDs)
		if t.ExitCode == nil {
			t.ExitCode = c.ExitCode
		}
		for _, b := range c.NetworkBindings {
			t.Ports = appendPort(t.Ports, b)
		}
	}
	return d.readSize(e, t, cpu, memory)
}

// readSize sets the task's CPU and memory: its own size where it has one, else the given sums.
func (d *taskDetail) readSize(e *envelope, t *cluster.ECSTask, cpu, memory int64) error {
	own, err := parseUnits(e, "cpu", d.CPU)
	if err != nil {
		return err
	}
	mib, err := parseUnits(e, "memory", d.Memory)
	if err != nil {
		return err
	}
	if own > 0 {
		cpu = own
	}
	if mib > 0 {
		memory = mib
	}
	t.Needs.CPU, t.Needs.Memory = cpu*cluster.CPUUnit, memory
	return nil
}

// appendPort appends a binding's port if it is static and not there yet.
func appendPort(ports []cluster.Port, b portBinding) []cluster.Port {
	p := cluster.Port{Number: b.HostPort, Protocol: cluster.TCP}
	if b.Protocol == string(cluster.UDP) {
		p.Protocol = cluster.UDP
	}
	if b.HostPort <= 0 || b.HostPort >= firstDynamicPort {
		return ports
	}
	for _, q := range ports {
		if p == q { // the port is bound for IPv4 and for IPv6
			return ports
		}
	}
	return append(ports, p)
}

// maxUnits limits CPU units and MiB, far above any machine, so that sums cannot overflow.
const maxUnits = 1 << 40

// parseUnits parses a number of CPU units or MiB; an empty text is 0.
func parseUnits(e *envelope, field, s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > maxUnits {
		return 0, malformed(e.DetailType, "%s %.40q is no number of units", field, s)
	}
	return n, nil
}
