package snapshot

import (
	"time"

	"berth/shared/cluster"
)

// Facts is what constraint expressions ask of an instance (S3, P7): its row, its node type's
// properties and its tasks. The zero answers are those of an instance of which only tasks are
// known.
type Facts struct{ view *InstanceView }

// Facts answers for the instance as it is at the time of each question.
func (v *InstanceView) Facts() Facts { return Facts{v} }

// Attribute is the value of an ECS attribute; false where the instance has none of the name.
func (f Facts) Attribute(name string) (string, bool) {
	if f.view.Instance == nil {
		return "", false
	}
	value, ok := f.view.Attributes[name]
	return value, ok
}

// Property is the value of a node property, see [Instance.Property].
func (f Facts) Property(name string) (string, bool) {
	if f.view.Instance == nil {
		return "", false
	}
	return f.view.Instance.Property(name, f.view.snap.Configuration.NodeTypes)
}

// AgentConnected reports whether the container agent is connected to ECS.
func (f Facts) AgentConnected() bool { return f.view.Instance != nil && f.view.Instance.AgentConnected }

// AgentVersion is the container agent's version, such as 1.14.5; empty where it is not known.
func (f Facts) AgentVersion() string {
	if f.view.Instance == nil {
		return ""
	}
	return f.view.Instance.AgentVersion
}

// EC2InstanceID is the id of the EC2 instance, empty outside EC2.
func (f Facts) EC2InstanceID() string {
	if f.view.Instance == nil {
		return ""
	}
	return f.view.Instance.EC2InstanceID
}

// RegisteredAt is when the instance registered.
func (f Facts) RegisteredAt() time.Time {
	if f.view.Instance == nil {
		return time.Time{}
	}
	return f.view.Instance.RegisteredAt.Time()
}

// RunningTasks is how many tasks on the instance are RUNNING, foreign ones included.
func (f Facts) RunningTasks() int {
	n := 0
	for _, t := range f.view.Tasks {
		if t.Last == cluster.TaskRunning {
			n++
		}
	}
	return n
}

// Groups yields the group of each task on the instance that is not ending, as often as there are
// tasks of it.
func (f Facts) Groups(yield func(group string) bool) {
	for _, t := range f.view.Tasks {
		if t.Group != "" && t.IsActive() && !yield(t.Group) {
			return
		}
	}
}
