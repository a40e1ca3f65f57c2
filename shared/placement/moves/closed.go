package moves

import (
	"slices"

	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/placement"
	"berth/shared/snapshot"
)

// A constraint that depends on the tasks of an instance binds new tasks: those that are there stay, and
// a domain whose instances all take no more of them is none, as when tasks are placed. Only tasks of
// others close an instance to moves. An owner whose own tasks do, as with runningTasksCount < 1, still
// has them counted in their domain, and evened out.

// dynamicConstraints returns the spec's constraints that depend on the tasks of an instance.
func dynamicConstraints(spec *placement.Spec) (out []*constraint.Expression) {
	for _, x := range spec.Constraints {
		if !x.Static() {
			out = append(out, x)
		}
	}
	return out
}

// isClosed reports whether one of the constraints keeps tasks of the owner away from the instance as it
// is, and would without the owner's tasks there.
func isClosed(v *snapshot.InstanceView, owner string, dynamic []*constraint.Expression) bool {
	unmet := func(subject constraint.Subject) bool {
		return slices.ContainsFunc(dynamic, func(x *constraint.Expression) bool { return !x.Matches(subject) })
	}
	return unmet(v.Facts()) && unmet(subjectWithout{v.Facts(), v, owner})
}

// A subjectWithout is an instance as constraints see it without the owner's tasks.
type subjectWithout struct {
	snapshot.Facts
	view  *snapshot.InstanceView
	owner string
}

// RunningTasks returns how many of the others' tasks run.
func (s subjectWithout) RunningTasks() (n int) {
	for _, t := range s.view.Tasks {
		if t.Owner != s.owner && t.Last == cluster.TaskRunning {
			n++
		}
	}
	return n
}

// Groups yields the groups of the others' active tasks.
func (s subjectWithout) Groups(yield func(group string) bool) {
	for _, t := range s.view.Tasks {
		if t.Owner != s.owner && t.Group != "" && t.IsActive() && !yield(t.Group) {
			return
		}
	}
}
