package state_test

import (
	"testing"

	"berth/shared/cluster"
)

func instance(id, zone string, rev int64) *cluster.Instance {
	return &cluster.Instance{
		Head: cluster.Head{Cluster: "c", Rev: rev}, ID: id, Status: cluster.InstanceActive, AgentConnected: true,
		Registered: cluster.Capacity{CPU: 2 * cluster.VCPU, Memory: 4096, GPUs: []string{"g0", "g1"},
			Ports: []cluster.Port{ssh}},
		Attributes: map[string]string{cluster.AttributeZone: zone},
	}
}

func running(id, instance string, rev int64) *cluster.Task {
	return &cluster.Task{
		Head: cluster.Head{Cluster: "c", Rev: rev},
		TaskSpec: cluster.TaskSpec{
			ID: id, Owner: "web", Group: "service:web",
			Needs: cluster.Resources{CPU: cluster.VCPU, Memory: 1024},
		},
		TaskAssignment: cluster.TaskAssignment{Instance: instance, Desired: cluster.TaskRunning},
		TaskReport:     cluster.TaskReport{Last: cluster.TaskRunning},
	}
}

var ssh = cluster.Port{Number: 22, Protocol: cluster.TCP}

func expect[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
