package scaling

import (
	"cmp"
	"fmt"
	"strings"

	"berth/shared/cluster"
)

// maxNamed is how many tasks a sentence names.
const maxNamed = 3

// explain says of each instance why it stays, or that it may go.
func (c *census) explain() {
	for _, m := range c.members {
		v := Verdict{EC2InstanceID: m.ID, Why: c.verdict(m)}
		if m.view != nil {
			v.Instance = m.view.ID
		}
		c.out.Instances = append(c.out.Instances, v)
	}
}

func (c *census) verdict(m *member) string {
	switch {
	case !m.Running() && !m.Launching():
		return "the group does not count it: it is " + m.Lifecycle
	case !c.settings.Enabled:
		return c.out.Why
	case m.foreign != "":
		return cmp.Or(m.obstacle, m.foreign)
	case m.view == nil && !m.lost():
		return fmt.Sprintf("it was launched at %s and has yet to register", stamp(m.launched))
	case len(m.load) > 0:
		return strings.TrimSuffix(fmt.Sprintf("it runs %s; %s", c.tasks(m), m.obstacle), "; ")
	case m.obstacle != "":
		return m.obstacle
	}
	state := "it has no task but daemons'"
	switch {
	case m.lost():
		state = "it never registered with the cluster"
	case len(m.view.Tasks) == 0:
		state = "it has no task"
	}
	if !m.Running() {
		return state + "; the group is still launching it"
	}
	if !c.takeable(m) && (c.Provider.Protection || m.Protected) {
		return state + "; it is protected from scale-in" + c.because(m)
	}
	return state + "; " + c.hold
}

func (c *census) because(m *member) string {
	if m.warming && c.Provider.Protection {
		return fmt.Sprintf(" while it warms up, until %s", stamp(m.launched.Add(c.settings.Warmup)))
	}
	return ", and not by Berth"
}

// tasks names the instance's tasks: "2 non-daemon tasks (t1 of service web, t2)".
func (c *census) tasks(m *member) string {
	var names []string
	for _, t := range m.load[:min(len(m.load), maxNamed)] {
		name := t.ID
		if t.Service != "" {
			name += " of service " + t.Service
		}
		if t.Status() != cluster.TaskRunning {
			name += " (" + string(t.Status()) + ")"
		}
		names = append(names, name)
	}
	if more := len(m.load) - maxNamed; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("%s (%s)", counted(len(m.load), "non-daemon task"), strings.Join(names, ", "))
}
