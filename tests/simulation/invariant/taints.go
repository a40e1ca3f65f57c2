package invariant

import (
	"slices"
	"strings"

	"berth/shared/cluster"
)

// NoSchedule and NoExecute are the effects of taints: both keep new tasks off an instance, and the
// second makes a service's tasks leave it (N11).
const (
	NoSchedule = "NO_SCHEDULE"
	NoExecute  = "NO_EXECUTE"
)

// UntoleratedTaint returns the first taint of the instance, with one of the effects, that the tasks
// do not tolerate, or "".
func (spec *TaskSpec) UntoleratedTaint(i *cluster.Instance, effects ...string) string {
	for taint := range strings.FieldsSeq(i.Attributes["berth.taints"]) {
		parts := strings.SplitN(taint, ":", 3) // such as team:a:NO_SCHEDULE
		tolerated := slices.ContainsFunc(spec.Rules.Tolerations, func(t cluster.Toleration) bool {
			return (t.Key == "" || t.Key == parts[0]) && (t.AnyValue || t.Value == parts[1]) &&
				(t.Effect == "" || string(t.Effect) == parts[2])
		})
		if !tolerated && slices.Contains(effects, parts[2]) {
			return taint
		}
	}
	return ""
}

// isEvicted reports whether a service's task is on an instance with a taint that makes it leave.
// Standalone tasks stay.
func (h *RowHistory) isEvicted(t *cluster.Task, i *cluster.Instance) bool {
	spec := h.SpecOfTask(t)
	return t.Service != "" && spec != nil && spec.UntoleratedTaint(i, NoExecute) != ""
}
