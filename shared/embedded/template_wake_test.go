package embedded_test

import (
	"testing"

	"berth/shared/cluster"
	"berth/shared/state"
)

// TestShippedFiltersPassWhatFunctionsWaitFor checks that dispatch sees the changes of instances and
// tasks that it wakes other functions for, and is spared the many others.
func TestShippedFiltersPassWhatFunctionsWaitFor(t *testing.T) {
	stream := shipped(t, nil).Functions["dispatch"].Streams[0]
	head := cluster.Head{Cluster: "c", Rev: 2}
	instance := func(status cluster.InstanceStatus) state.Row {
		return &cluster.Instance{Head: head, ID: "i", Status: status, AgentConnected: true}
	}
	task := func(instance string, desired, last cluster.TaskStatus) state.Row {
		return &cluster.Task{Head: head, TaskSpec: cluster.TaskSpec{ID: "t", Owner: "o"},
			TaskAssignment: cluster.TaskAssignment{Instance: instance, Desired: desired},
			TaskReport:     cluster.TaskReport{Last: last}}
	}
	disconnected := &cluster.Instance{Head: head, ID: "i", Status: cluster.InstanceActive}
	nodeGroup := func(status cluster.NodeGroupStatus) state.Row {
		return &cluster.NodeGroup{Head: head, Name: "g", Status: status}
	}
	service := func(enough bool) state.Row {
		return &cluster.Service{Head: head, ServiceIdentity: cluster.ServiceIdentity{Name: "s"},
			ServiceStatus: cluster.ServiceStatus{EnoughHealthy: enough}}
	}
	const running, stopped = cluster.TaskRunning, cluster.TaskStopped
	for name, c := range map[string]struct {
		before, after state.Row
		want          bool
	}{
		"InstanceRegisters":          {nil, instance(cluster.InstanceActive), true},
		"InstanceIsRegistered":       {instance(cluster.InstanceRegistering), instance(cluster.InstanceActive), true},
		"InstanceIsDrained":          {instance(cluster.InstanceActive), instance(cluster.InstanceDraining), true},
		"InstanceLeaves":             {instance(cluster.InstanceDraining), instance(cluster.InstanceInactive), true},
		"InstanceIsReportedAgain":    {instance(cluster.InstanceActive), instance(cluster.InstanceActive), false},
		"InstanceIsConnectedAgain":   {disconnected, instance(cluster.InstanceActive), true},
		"InstanceIsDisconnected":     {instance(cluster.InstanceActive), disconnected, false},
		"NodeGroupIsRequested":       {nil, nodeGroup(cluster.NodeGroupCreating), true},
		"NodeGroupIsUpdated":         {nodeGroup(cluster.NodeGroupActive), nodeGroup(cluster.NodeGroupUpdating), true},
		"NodeGroupIsActive":          {nodeGroup(cluster.NodeGroupCreating), nodeGroup(cluster.NodeGroupActive), false},
		"ServiceRecovers":            {service(false), service(true), true},
		"ServiceStaysHealthy":        {service(true), service(true), false},
		"ServiceFails":               {service(true), service(false), false},
		"ServiceIsCreated":           {nil, service(true), false},
		"ServiceIsForgotten":         {service(true), nil, false},
		"InstanceExpires":            {instance(cluster.InstanceInactive), nil, false},
		"TaskBeginsToWait":           {nil, task("", running, ""), true},
		"WaitingTaskIsPlaced":        {task("", running, ""), task("i", running, ""), false},
		"WaitingTaskIsGivenUp":       {task("", running, ""), task("", stopped, ""), false},
		"TaskIsPlacedAtOnce":         {nil, task("i", running, ""), false},
		"TaskRuns":                   {task("i", running, ""), task("i", running, running), false},
		"TaskEnds":                   {task("i", running, running), task("i", running, stopped), true},
		"TaskEndsUnreported":         {task("i", stopped, ""), task("i", stopped, stopped), true},
		"EndedTaskIsChanged":         {task("i", stopped, stopped), task("i", stopped, stopped), false},
		"TaskThatNeverHadAnInstance": {task("", stopped, ""), task("", stopped, stopped), false},
		"EndedTaskExpires":           {task("i", stopped, stopped), nil, false},
	} {
		r := state.Record{Sequence: "1", Op: state.Modify, Old: c.before, New: c.after}
		switch {
		case c.before == nil:
			r.Op = state.Insert
		case c.after == nil:
			r.Op = state.Remove
		}
		r.Key = state.KeyOf(r.Row())
		equal(t, name, stream.PassesFilters(&r), c.want)
	}
}
