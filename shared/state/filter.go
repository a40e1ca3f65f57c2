package state

import (
	"cmp"
	"strings"

	"berth/shared/cluster"
)

// A TaskFilter selects tasks as ListTasks of the ECS API does. An empty field selects all tasks.
type TaskFilter struct {
	// Desired is a desired status as the API shows it: a task that has ended has STOPPED, even if
	// its row says RUNNING.
	Desired   cluster.TaskStatus
	Family    string // of the task definition
	Instance  string // id
	StartedBy string // what a caller of RunTask gave, or a deployment's id
}

// Matches reports whether the row is a task that the filter selects.
func (f *TaskFilter) Matches(row Row) bool {
	t, ok := row.(*cluster.Task)
	if !ok {
		return false
	}
	desired := t.Desired
	if t.Last == cluster.TaskStopped {
		desired = cluster.TaskStopped
	}
	return desired == cmp.Or(f.Desired, desired) && t.Instance == cmp.Or(f.Instance, t.Instance) &&
		(f.Family == "" || isOfFamily(t.TaskDefinition, f.Family)) &&
		(f.StartedBy == "" || t.StartedByUser == f.StartedBy || t.Revision == f.StartedBy)
}

// isOfFamily compares without a copy of the name: a list may compare every task of a cluster.
func isOfFamily(definition, family string) bool {
	rest, ok := strings.CutPrefix(definition, family)
	return ok && (rest == "" || rest[0] == ':')
}
