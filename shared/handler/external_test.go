package handler_test

import (
	"slices"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
)

// With the launch type EXTERNAL, tasks go only to instances outside EC2.
func TestPlacement_External(t *testing.T) {
	w := newWorld(t)
	w.instances("i", 2, 4096, 8192)
	marked, managed := zoned("x", "zone-a"), zoned("m", "zone-a")
	marked.Attributes[cluster.AttributeExternal], managed.EC2InstanceID = "", "mi-0123456789abcdef0"
	w.ecs.register(marked)
	w.ecs.register(managed)
	w.pump()
	w.createAs(operation.CreateService{Cluster: prod, Name: "edge", TaskDefinition: "web", Desired: new(4), Launched: true, Rules: cluster.Rules{External: true}})
	w.create("web", "web", 2)
	w.run(t, operation.SubmitTasks{Count: 1, Rules: cluster.Rules{External: true}})
	w.advance(time.Minute)
	var external []string
	for _, task := range w.with(cluster.TaskRunning) {
		outside := task.Instance == "x" || task.Instance == "m"
		if task.Service == "edge" || task.Service == "" {
			want(t, "outside of EC2", outside, true)
			external = append(external, task.ID)
		}
	}
	wantCount(t, "external tasks", external, 5)
	want(t, "of the service, on both", len(slices.Compact(slices.Sorted(func(yield func(string) bool) {
		for _, task := range w.with(cluster.TaskRunning) {
			if task.Service == "edge" && !yield(task.Instance) {
				return
			}
		}
	}))), 2)
	for outside, n := range map[bool]int{true: 5, false: 2} {
		page, err := w.api.Tasks.ListTasks(ctx, operation.ListTasks{Cluster: prod, External: &outside})
		want(t, "error", err, nil)
		wantCount(t, "tasks listed", page.IDs, n)
		names, _, err := w.api.Services.ListServices(ctx, operation.ListServices{Cluster: prod, External: &outside})
		want(t, "error", err, nil)
		want(t, "services listed", slices.Equal(names, []string{map[bool]string{true: "edge", false: "web"}[outside]}), true)
	}
	launches, err := w.api.Tasks.TaskLaunches(ctx, w.tasks())
	want(t, "error", err, nil)
	for _, task := range w.tasks() {
		want(t, "external", launches[task.ID].External, slices.Contains(external, task.ID))
	}
}
