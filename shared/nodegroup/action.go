package nodegroup

import (
	"fmt"
	"strings"
)

// Kind says what an action does.
type Kind string

// The kinds of action. Each says how something is to be, not what is to change: it can be done twice.
const (
	// CreateTemplate makes a version of the group's launch template for the update's target, with the description
	// [TemplateName]: one that is there already is not made again.
	CreateTemplate Kind = "create template"
	// UseTemplate has the group launch from Template.
	UseTemplate Kind = "use template"
	// Resize sets the group's maximum and desired capacity. There is none for the minimum.
	Resize Kind = "resize"
	// Mark gives Node the attribute berth.unschedulable with the update's id (N3), Clear takes it away.
	Mark  Kind = "mark"
	Clear Kind = "clear"
	// Drain makes Node DRAINING, Activate makes it ACTIVE.
	Drain    Kind = "drain"
	Activate Kind = "activate"
	// StopTasks stops Tasks on Node whatever their services' percentages.
	StopTasks Kind = "stop tasks"
	// Terminate terminates Instance through the group, its desired capacity falling by one where Decrement is set. One
	// that is already Terminating is left alone.
	Terminate Kind = "terminate"
)

// Action is one thing to be done, once the update's row is written.
type Action struct {
	Kind      Kind
	Instance  string // EC2 instance id
	Node      string // container instance id; of Terminate, of one that is to have no tasks
	Template  string
	Max       int
	Desired   int
	Decrement bool
	Tasks     []string // task ids
}

// String is the action in words.
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
