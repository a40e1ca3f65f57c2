package handler_test

import (
	"cmp"
	"fmt"
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

// A filter about tasks knows the groups of services, which tasks do not have at ECS.
func TestAPI_ListInstances(t *testing.T) {
	w := newWorld(t)
	ids := w.instances("i", 3, 1024, 8192)
	w.create("web", "web", 1)
	w.pump()
	var of string
	for _, x := range w.tasks() {
		of = x.Instance
	}
	w.drain(ids[2])
	w.pump()
	for _, c := range []struct {
		name string
		q    operation.ListInstances
		want string
		more bool
	}{
		{"OfAService", operation.ListInstances{Filter: "task:group == service:web"}, fmt.Sprint([]string{of}), false},
		{"OfNone", operation.ListInstances{Filter: "task:group == service:api"}, "[]", false},
		{"AndAnAttribute", operation.ListInstances{Filter: "task:group == service:web and attribute:none exists"}, "[]",
			false},
		{"OfAStatus", operation.ListInstances{Filter: "not(task:group == service:api)",
			Status: cluster.InstanceDraining}, fmt.Sprint(ids[2:]), false},
		{"FirstPage", operation.ListInstances{Filter: "task:group != service:api", Limit: 2}, fmt.Sprint(ids[:2]), true},
		{"SecondPage", operation.ListInstances{Filter: "task:group != service:api", After: ids[1], Limit: 2},
			fmt.Sprint(ids[2:]), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.q.Cluster, c.q.Limit = prod, cmp.Or(c.q.Limit, 100)
			got, more, err := w.api.Clusters.ListInstances(ctx, c.q)
			want(t, "error", err, nil)
			want(t, "instances", fmt.Sprint(got), c.want)
			want(t, "another page", more, c.more)
		})
	}
	_, _, err := w.api.Clusters.ListInstances(ctx, operation.ListInstances{Cluster: prod, Filter: "task:group =="})
	wantCode(t, err, cluster.CodeInvalidParameter, "The filter is not valid")
	_, _, err = w.api.Clusters.ListInstances(ctx, operation.ListInstances{Cluster: "none", Filter: "task:group exists"})
	wantCode(t, err, cluster.CodeClusterNotFound, "")
}

// A node property that no constraint can name would be of no effect.
func TestConfigurations_RefuseUnwritableProperties(t *testing.T) {
	w := newWorld(t)
	put := func(name string) error {
		return w.api.Configurations.PutConfiguration(ctx, &cluster.Configuration{Head: cluster.Head{Cluster: prod},
			NodeTypes: map[string]cluster.NodeType{"big": {Properties: map[string]string{name: "1"}}}})
	}
	want(t, "error", put("Has SSD"), nil)
	wantCode(t, put("a == b"), cluster.CodeInvalidParameter, `Node type big has the property "a == b"`)
	wantCode(t, put(""), cluster.CodeInvalidParameter, `the property ""`)
}
