package handler_test

import (
	"testing"

	"berth/shared/cluster"
	"berth/shared/operation"
)

// The counts of a cluster are those of the tasks that ListTasks and DescribeTasks show.
func TestAPI_ClusterCounts(t *testing.T) {
	w := newWorld(t)
	w.instances("i", 1, 1024, 8192)
	counts := func() operation.ClusterCounts {
		t.Helper()
		n, err := w.api.Clusters.ClusterCounts(ctx, prod)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	two, four := 2, 4
	w.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: &two})
	w.createAs(operation.CreateService{Cluster: prod, Name: "idle", TaskDefinition: "web", Desired: new(int)})
	w.run(t, operation.SubmitTasks{Count: 1})
	w.run(t, operation.SubmitTasks{Count: four, Wait: "forever"})
	want(t, "counts", counts(), operation.ClusterCounts{
		EC2: operation.LaunchTypeCounts{Running: 4, Pending: 3, ActiveServices: 2},
	})
	if _, err := w.api.Services.DeleteService(ctx, prod, "web", true); err != nil {
		t.Fatal(err)
	}
	n := counts()
	want(t, "services after a deletion", [2]int{n.EC2.ActiveServices, n.EC2.DrainingServices}, [2]int{1, 1})
	w.pump()
	running := 0
	page, err := w.api.Tasks.ListTasks(ctx, operation.ListTasks{Cluster: prod, Desired: cluster.TaskRunning})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range page.IDs {
		if w.task(id).Status() == cluster.TaskRunning {
			running++
		}
	}
	want(t, "running tasks", counts().EC2.Running, running)
	want(t, "counts of an unknown cluster", func() operation.ClusterCounts {
		n, _ := w.api.Clusters.ClusterCounts(ctx, "none")
		return n
	}(), operation.ClusterCounts{})
}
