package cluster_test

import (
	"testing"
	"time"

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

var ssh = cluster.Port{Number: 22, Protocol: cluster.TCP}

func expect[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func edit(t *cluster.Task, change func(*cluster.Task)) *cluster.Task {
	next := *t
	change(&next)
	return &next
}
