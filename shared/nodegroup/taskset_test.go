package nodegroup_test

import (
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
)

// Whether a service of task sets is healthy, and why its tasks may not leave, is judged set by set:
// each against its own share of the desired count.
func TestTaskSetsAreJudgedOneByOne(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	set := func(id string, scale float64, running int) cluster.Deployment {
		return cluster.Deployment{Revision: cluster.Revision{ID: id, TaskDefinition: "web:1"}, Running: running,
			Healthy: running, Set: &cluster.TaskSet{Scale: scale}}
	}
	rows := func(blue, green int) *nodegroup.Rows {
		r := nodegroup.NewRows()
		s := &cluster.Service{
			ServiceIdentity: cluster.ServiceIdentity{Name: "web", Short: "w", Controller: cluster.ExternalController},
			ServiceSpec: cluster.ServiceSpec{Strategy: cluster.Replica, Desired: 4, MinHealthy: 100,
				MaxPercent: 100},
			ServiceStatus: cluster.ServiceStatus{Status: cluster.ServiceActive, Running: blue + green},
		}
		s.SetTaskSets([]cluster.Deployment{set("blue", 50, blue), set("green", 25, green)}, "blue")
		r.Add(s, now)
		r.Add(&cluster.Instance{Head: cluster.Head{Cluster: "prod"}, ID: "c-1", EC2InstanceID: "i-1"}, now)
		r.Add(&cluster.Task{
			TaskSpec:       cluster.TaskSpec{ID: "t-1", Service: "web", Owner: "w", Revision: "green"},
			TaskAssignment: cluster.TaskAssignment{Instance: "c-1", Desired: cluster.TaskRunning},
			TaskReport:     cluster.TaskReport{Last: cluster.TaskRunning},
		}, now)
		return r
	}
	for _, c := range []struct {
		blue, green int
		unhealthy   string
	}{
		{2, 1, ""},
		{3, 0, "service web has 0 of 1 tasks healthy"},
		{1, 2, "service web has 1 of 2 tasks healthy"},
	} {
		if got := rows(c.blue, c.green).Unhealthy()["w"]; got != c.unhealthy {
			t.Errorf("blue %d, green %d: %q, want %q", c.blue, c.green, got, c.unhealthy)
		}
	}
	members := rows(2, 1).Members(&cluster.AutoScalingGroup{Instances: []cluster.GroupInstance{{ID: "i-1"}}})
	want := "service web must keep 1 of its tasks RUNNING and may have at most 1"
	if len(members) != 1 || len(members[0].Tasks) != 1 || members[0].Tasks[0].BlockedReason != want {
		t.Errorf("got %+v, want a task that is blocked: %s", members, want)
	}
}
