package snapshot

import (
	"time"

	"berth/shared/cluster"
)

// Facts answers what constraint expressions ask about an instance (S3, P7): its row, its node
// type's properties and its tasks. For an instance without a row the answers are zero values.
type Facts struct{ view *InstanceView }

// Facts returns the facts of the instance. Each answer is as of the time of the question.
func (v *InstanceView) Facts() Facts { return Facts{v} }

// Attribute returns the value of an ECS attribute, and whether the instance has it.
func (f Facts) Attribute(name string) (string, bool) {
	if f.view.Instance == nil {
		return "", false
	}
	value, ok := f.view.Attributes[name]
	return value, ok
}

// Property returns the value of a node property, see [cluster.Instance.Property].
func (f Facts) Property(name string) (string, bool) {
	if f.view.Instance == nil {
		return "", false
	}
	return f.view.Instance.Property(name, f.view.snap.Configuration.NodeTypes)
}

// AgentConnected reports whether the container agent is connected to ECS.
func (f Facts) AgentConnected() bool { return f.view.Instance != nil && f.view.Instance.AgentConnected }

// AgentVersion returns the container agent's version, such as 1.14.5. It is empty if unknown.
func (f Facts) AgentVersion() string {
	if f.view.Instance == nil {
		return ""
	}
	return f.view.Instance.AgentVersion
}

// EC2InstanceID returns the id of the EC2 instance. It is empty outside EC2.
func (f Facts) EC2InstanceID() string {
	if f.view.Instance == nil {
		return ""
	}
	return f.view.Instance.EC2InstanceID
}

// RegisteredAt returns when the instance registered.
func (f Facts) RegisteredAt() time.Time {
	if f.view.Instance == nil {
		return time.Time{}
	}
	return f.view.Instance.RegisteredAt.Time()
}

// RunningTasks returns how many tasks on the instance are RUNNING, including foreign ones.
func (f Facts) RunningTasks() int {
	n := 0
	for _, t := range f.view.Tasks {
		if t.Last == cluster.TaskRunning {
			n++
		}
	}
	return n
}

// Groups yields the group of each active task on the instance. A group with two tasks is yielded
// twice.
func (f Facts) Groups(yield func(group string) bool) {
	for _, t := range f.view.Tasks {
		if t.Group != "" && t.IsActive() && !yield(t.Group) {
			return
		}
	}
}
