package nodegroup_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
)

// What an update would name if it failed now.
func TestBlockingTasks(t *testing.T) {
	held := func(id, service string, change func(*nodegroup.Task)) nodegroup.Task {
		x := nodegroup.Task{Task: &cluster.Task{
			TaskSpec:       cluster.TaskSpec{ID: id, Service: service, Group: "family:job", TaskDefinition: "job:1"},
			TaskAssignment: cluster.TaskAssignment{Instance: "c-1", Desired: cluster.TaskRunning},
			TaskReport:     cluster.TaskReport{Last: cluster.TaskRunning},
		}}
		change(&x)
		return x
	}
	tight := func(x *nodegroup.Task) { x.BlockedReason = "it has to keep 2" }
	i := nodegroup.Instance{ID: "i-1", Tasks: []nodegroup.Task{
		held("t-1", "web", func(*nodegroup.Task) {}),
		held("t-2", "web", func(x *nodegroup.Task) { x.Protected = true }),
		held("t-3", "", func(*nodegroup.Task) {}),
		held("t-4", "", func(x *nodegroup.Task) { x.Task.Foreign = true }),
		held("t-5", "api", tight), held("t-6", "api", tight),
		held("t-7", "log", func(x *nodegroup.Task) { x.Daemon, x.BlockedReason = true, "it has to keep 1" }),
		held("t-8", "", func(x *nodegroup.Task) { x.Task.Desired = cluster.TaskStopped }),
		held("t-9", "", func(x *nodegroup.Task) { x.Task.Last = cluster.TaskStopped }),
	}}
	for _, c := range []struct {
		name             string
		force, protected bool
		want             []string
	}{
		{"Unforced", false, false, []string{
			"task t-2 of service web is protected", "standalone task t-3 (job:1)", "task t-4 was not started by Berth",
			"the deployment configuration of service api (it has to keep 2) (2 tasks)",
		}},
		{"Forced", true, false, []string{"task t-2 of service web is protected"}},
		{"ForcedProtected", true, true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, nodegroup.BlockingTasks(i, c.force, c.protected)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
