package scaling

import (
	"cmp"
	"fmt"
	"strings"
)

// explainInstances says of each instance why it stays, or that it may go.
// Hold says why no instance without tasks is taken away now.
func explainInstances(v *view, hold string, why reasons) (verdicts []Verdict) {
	for _, m := range v.instances {
		verdicts = append(verdicts, m.newVerdict(explainInstance(v, m, hold, why[m.ID])))
	}
	return verdicts
}

func (m *instance) newVerdict(why string) Verdict {
	out := Verdict{EC2InstanceID: m.ID, Why: why}
	if m.node != nil {
		out.Instance = m.node.ID
	}
	return out
}

// notCounted says why the group does not count an instance; empty if it does.
func notCounted(m *instance) string {
	if m.IsInService() || m.IsLaunching() {
		return ""
	}
	return "it is not counted in the group: it is " + m.Lifecycle
}

func explainInstance(v *view, m *instance, hold, reason string) string {
	switch why := notCounted(m); {
	case why != "":
		return why
	case m.foreign != "":
		return cmp.Or(reason, m.foreign)
	case m.node == nil && !m.neverRegistered():
		return fmt.Sprintf("it was launched at %s and has not registered yet", formatTime(m.launchedAt))
	case len(m.load) > 0:
		return strings.TrimSuffix(fmt.Sprintf("it runs %s; %s", m.describeLoad(), reason), "; ")
	case reason != "":
		return reason
	}
	state := "it runs only daemon tasks"
	switch {
	case m.neverRegistered():
		state = "it never registered with the cluster"
	case len(m.node.Tasks) == 0:
		state = "it runs no task"
	}
	switch {
	case !m.IsInService():
		return state + "; the group is still launching it"
	case v.isTakeable(m):
		return state + "; " + hold
	case m.isWarming && v.Provider.Protection:
		return fmt.Sprintf("%s; it is protected from scale-in while it warms up, until %s", state,
			formatTime(m.launchedAt.Add(v.settings.Warmup)))
	}
	return state + "; it is protected from scale-in by someone else"
}
