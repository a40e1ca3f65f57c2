package nodegroup

import (
	"cmp"
	"slices"
	"strings"

	"berth/shared/cluster"
)

// Lifecycle is an instance's lifecycle state in its Auto Scaling group.
type Lifecycle uint8

// The lifecycle states that an update tells apart.
const (
	InService   Lifecycle = iota
	Pending               // being launched
	Terminating           // leaving the group in any way
)

// LifecycleOf returns the lifecycle of an instance with a LifecycleState of Auto Scaling.
// Instances that leave the group in any way, such as to Standby, are Terminating.
func LifecycleOf(state string) Lifecycle {
	switch {
	case state == "InService":
		return InService
	case strings.HasPrefix(state, "Pending"):
		return Pending
	}
	return Terminating
}

// Instance is a member of the Auto Scaling group.
type Instance struct {
	ID        string // EC2 instance id
	Zone      string
	Template  string // launch template version that it was made from, as ID:VERSION
	Lifecycle Lifecycle
	// Row is the container instance that it registered as; nil if it has not registered.
	Row *cluster.Instance
	// Tasks hold capacity on it.
	Tasks []Task
}

// Task is a task on a node.
type Task struct {
	*cluster.Task
	Daemon    bool // of a DAEMON service
	Protected bool
	// BlockedReason says why its service does not let it go, if that is known.
	BlockedReason string
}

// isStopping reports whether the task will end without anybody doing more.
func (t *Task) isStopping() bool {
	return t.Task.Desired == cluster.TaskStopped || t.Task.Last == cluster.TaskStopping
}

// ownerName names who started the task.
func (t *Task) ownerName() string {
	if t.Task.Service == "" {
		return t.Task.Group
	}
	return "service " + t.Task.Service
}

// UpgradeDomain returns a node's upgrade domain. A node without one is a domain of its own.
func (i *Instance) UpgradeDomain() string {
	if i.Row == nil {
		return i.ID
	}
	return cmp.Or(i.Row.Attributes[cluster.AttributeUpgrade], i.ID)
}

// hasUpgradeDomain reports whether the node is in an upgrade domain that somebody gave it.
func (i *Instance) hasUpgradeDomain() bool {
	return i.Row != nil && i.Row.Attributes[cluster.AttributeUpgrade] != ""
}

// nodeID returns the id of the container instance; empty if there is none, or none any more.
func (i *Instance) nodeID() string {
	if i.Row == nil || i.Row.IsDeregistered() {
		return ""
	}
	return i.Row.ID
}

// isConnected reports whether the node is registered and its agent is connected. It may be
// DRAINING.
func (i *Instance) isConnected() bool {
	return i.Lifecycle == InService && i.Row != nil && i.Row.AgentConnected &&
		(i.Row.Status == cluster.InstanceActive || i.Row.Status == cluster.InstanceDraining)
}

func (i *Instance) isDraining() bool {
	return i.nodeID() != "" && i.Row.Status == cluster.InstanceDraining
}

// cordonMark returns the node's attribute berth.unschedulable, and whether it has one.
func (i *Instance) cordonMark() (value string, marked bool) {
	if i.nodeID() == "" {
		return "", false
	}
	value, marked = i.Row.Attributes[cluster.AttributeUnschedulable]
	return value, marked
}

// remainingTasks returns the tasks that still hold capacity on the node, sorted by id.
func (i *Instance) remainingTasks() (remaining []Task) {
	for _, t := range i.Tasks {
		if !t.HasEnded() {
			remaining = append(remaining, t)
		}
	}
	slices.SortFunc(remaining, func(a, b Task) int { return cmp.Compare(a.Task.ID, b.Task.ID) })
	return remaining
}

// countTasks counts the remaining tasks of one kind.
func (i *Instance) countTasks(is func(Task) bool) (n int) {
	for _, t := range i.remainingTasks() {
		if is(t) {
			n++
		}
	}
	return n
}
