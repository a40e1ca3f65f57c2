package moves

import (
	"slices"

	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/placement"
	"berth/shared/snapshot"
)

// A dynamic constraint depends on the tasks of an instance. It binds new tasks: those that are there may
// stay. Where it closes every instance of a domain to an owner, the domain is none for that owner, in moves
// as in placement. But where only the owner's own tasks close an instance, as with runningTasksCount < 1,
// the domain remains, so that moves even the tasks out. A plan may move away what closes an instance, and
// another task there.

// An opening says what dynamic constraints say about an instance and one owner.
type opening uint8

const (
	isOpen opening = iota
	closedByOwn
	closedByOthers
)

// dynamicConstraints returns those of the spec.
func dynamicConstraints(spec *placement.Spec) (out []*constraint.Expression) {
	for _, x := range spec.Constraints {
		if !x.Static() {
			out = append(out, x)
		}
	}
	return out
}

// openingOf evaluates the constraints on the instance as it is, and without the owner's tasks.
func openingOf(v *snapshot.InstanceView, owner string, dynamic []*constraint.Expression) opening {
	unmet := func(subject constraint.Subject) bool {
		return slices.ContainsFunc(dynamic, func(x *constraint.Expression) bool { return !x.Matches(subject) })
	}
	switch {
	case !unmet(v.Facts()):
		return isOpen
	case !unmet(subjectWithout{v.Facts(), v, owner}):
		return closedByOwn
	}
	return closedByOthers
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
