package service

import (
	"fmt"
	"testing"
	"time"

	"berth/shared/cluster"
)

func BenchmarkReconcile(b *testing.B) {
	in := Input{Limits: testLimits, Now: noon, Service: &cluster.Service{
		ServiceIdentity: cluster.ServiceIdentity{Name: "web"},
		ServiceSpec: cluster.ServiceSpec{
			Strategy: cluster.Replica, Desired: 5000, MinHealthy: 100, MaxPercent: 200,
		},
		ServiceStatus: cluster.ServiceStatus{
			Status: cluster.ServiceActive,
			Deployment: cluster.Deployment{Revision: cluster.Revision{ID: "ecs-svc/a", TaskDefinition: "web:1"},
				State: cluster.RolloutCompleted},
		},
	}}
	for n := range 5000 {
		in.Tasks = append(in.Tasks, &cluster.Task{
			TaskSpec: cluster.TaskSpec{
				ID: fmt.Sprintf("t%04d", n*7919%5000), Revision: "ecs-svc/a", TaskDefinition: "web:1",
			},
			TaskAssignment: cluster.TaskAssignment{
				Instance: fmt.Sprintf("i-%04d", n), Desired: cluster.TaskRunning,
			},
			TaskReport: cluster.TaskReport{Last: cluster.TaskRunning, Started: cluster.At(noon.Add(-time.Hour))},
		})
		in.Eligible = append(in.Eligible, fmt.Sprintf("i-%04d", n))
	}
	b.Run("Replica", func(b *testing.B) {
		for b.Loop() {
			Reconcile(in)
		}
	})
	daemon := *in.Service
	daemon.Strategy, daemon.MinHealthy, daemon.MaxPercent = cluster.Daemon, 0, 100
	in.Service = &daemon
	b.Run("Daemon", func(b *testing.B) {
		for b.Loop() {
			Reconcile(in)
		}
	})
}
