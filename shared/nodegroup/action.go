package nodegroup

import (
	"fmt"
	"strings"
)

// ActionKind says what an action does.
type ActionKind string

// The kinds of action. Each states how something must be rather than what must change, so it can be
// repeated.
const (
	// CreateTemplate makes a version of the group's launch template for the update's target, with
	// the description [TemplateDescription]. One that exists already is not made again.
	CreateTemplate ActionKind = "create template"
	// UseTemplate lets the group launch from Template.
	UseTemplate ActionKind = "use template"
	// Resize sets the group's maximum and desired capacity. The minimum never changes.
	Resize ActionKind = "resize"
	// Cordon gives Node the attribute berth.unschedulable with the update's id (N3), Clear removes
	// it.
	Cordon   ActionKind = "mark"
	Uncordon ActionKind = "clear"
	// Drain makes Node DRAINING, Activate makes it ACTIVE.
	Drain    ActionKind = "drain"
	Activate ActionKind = "activate"
	// StopTasks stops Tasks on Node regardless of their services' percentages.
	StopTasks ActionKind = "stop tasks"
	// Terminate terminates Instance through the group. With Decrement the desired capacity falls by
	// one. One that is Terminating already is left alone.
	Terminate ActionKind = "terminate"
)

// Action is one thing to do once the update's row is written.
type Action struct {
	Kind     ActionKind
	Instance string // EC2 instance id
	// Node is the container instance id. Terminate has it only if the node must have no tasks.
	Node      string
	Template  string
	Max       int
	Desired   int
	Decrement bool
	Tasks     []string // task ids
}

// String describes the action, as in error messages.
func (a Action) String() string {
	switch a.Kind {
	case CreateTemplate:
		return string(a.Kind)
	case UseTemplate:
		return fmt.Sprintf("%s %s", a.Kind, a.Template)
	case Resize:
		return fmt.Sprintf("%s to maximum %d, desired %d", a.Kind, a.Max, a.Desired)
	case StopTasks:
		return fmt.Sprintf("%s %s on %s", a.Kind, strings.Join(a.Tasks, " "), a.Instance)
	case Terminate:
		if a.Decrement {
			return fmt.Sprintf("%s %s, one less desired", a.Kind, a.Instance)
		}
	}
	return fmt.Sprintf("%s %s", a.Kind, a.Instance)
}
