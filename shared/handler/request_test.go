package handler_test

import (
	"fmt"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/handler/api"
	"berth/shared/operation"
	"berth/shared/scaling"
	"berth/shared/state"
)

// submit writes a request for standalone tasks. What spec leaves out is one task of "web".
func (w *world) submit(t testing.TB, spec operation.SubmitTasks) *state.Request {
	t.Helper()
	r, err := w.api.Tasks.SubmitRequest(ctx, complete(spec))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func complete(spec operation.SubmitTasks) operation.SubmitTasks {
	spec.Cluster = prod
	if spec.TaskDefinition == "" {
		spec.TaskDefinition = "web"
	}
	if spec.Kind == "" {
		spec.Kind = cluster.RunTask
	}
	if spec.Count == 0 && spec.Instances == nil {
		spec.Count = 1
	}
	return spec
}

// run submits a request and waits for the answer.
func (w *world) run(t testing.TB, spec operation.SubmitTasks) *state.Request {
	t.Helper()
	r := w.submit(t, spec)
	w.pump()
	return w.request(t, r.ID)
}

func (w *world) request(t testing.TB, id string) *state.Request {
	t.Helper()
	row, err := w.store.Get(ctx, state.RequestKey(prod, id))
	if err != nil || row == nil {
		t.Fatalf("request %s: %v, %v", id, row, err)
	}
	return row.(*state.Request)
}

func TestPlacement_RunTask(t *testing.T) {
	t.Run("StartsTasks", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 3, 4096, 8192)
		r := w.run(t, operation.SubmitTasks{Count: 5, StartedBy: "me", Tags: map[string]string{"a": "b"}})
		want(t, "answered", r.Answered, true)
		wantCount(t, "tasks", r.Tasks, 5)
		wantCount(t, "failures", r.Failures, 0)
		for _, id := range r.Tasks {
			task := w.task(id)
			want(t, "status", task.Status(), cluster.TaskRunning)
			want(t, "startedBy", task.StartedByUser, "me")
			want(t, "group", task.Group, "family:web")
			want(t, "tag", task.Tags["a"], "b")
			want(t, "request", task.Request, r.ID)
		}
	})
	t.Run("PropagatesTags", func(t *testing.T) {
		w := newWorld(t)
		tagged := definition("tagged", 1, 256, 512)
		tagged.Tags = map[string]string{"of": "definition", "a": "definition"}
		w.ecs.define(tagged)
		w.instances("i", 1, 4096, 8192)
		r := w.run(t, operation.SubmitTasks{TaskDefinition: "tagged:1", Count: 1, PropagateTags: true,
			ManagedTags: true,
			Tags:        map[string]string{"a": "b", "berth:wait": "1m"}})
		want(t, "tags", fmt.Sprint(w.task(r.Tasks[0]).Tags),
			"map[a:b aws:ecs:clusterName:prod berth:wait:1m of:definition]")
		launch := w.ecs.starts[0].Launch
		want(t, "tags at ECS", fmt.Sprint(launch.Tags, launch.ManagedTags), "map[a:b of:definition] true")
	})
	t.Run("FailsWhatDoesNotFitWithECSsReason", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 512, 8192)
		r := w.run(t, operation.SubmitTasks{Count: 3})
		wantCount(t, "tasks", r.Tasks, 2)
		wantCount(t, "failures", r.Failures, 1)
		want(t, "reason", r.Failures[0].Reason, "RESOURCE:CPU")
		want(t, "instance", r.Failures[0].ARN, "i000")
		want(t, "detail", r.Failures[0].Detail, "0/1: 1 insufficient CPU (needs 256 units, best free 0)")
	})
	t.Run("FailsWithoutInstances", func(t *testing.T) {
		w := newWorld(t)
		r := w.run(t, operation.SubmitTasks{Count: 2})
		wantCount(t, "tasks", r.Tasks, 0)
		wantCount(t, "failures", r.Failures, 2)
		want(t, "reason", r.Failures[0].Reason, cluster.NoInstances)
		wantCount(t, "task rows", w.tasks(), 0)
	})
	t.Run("StartsTasksWithOverridesAlone", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 3, 4096, 8192)
		over := &cluster.Overrides{Containers: []cluster.ContainerOverride{{Name: "app", Command: []string{"sh"}}}}
		r := w.run(t, operation.SubmitTasks{Count: 3, Overrides: over})
		wantCount(t, "tasks", r.Tasks, 3)
		wantCount(t, "StartTask calls", w.ecs.starts, 3)
		for _, c := range w.ecs.starts {
			wantCount(t, "instances", c.Instances, 1)
			want(t, "command", c.Overrides.Containers[0].Command[0], "sh")
		}
	})
}

func TestPlacement_RunTaskWaits(t *testing.T) {
	t.Run("UntilThereIsRoom", func(t *testing.T) {
		w := newWorld(t)
		r := w.run(t, operation.SubmitTasks{Count: 2, Wait: api.WaitForever})
		wantCount(t, "tasks", r.Tasks, 2)
		wantCount(t, "provisioning tasks", w.with(cluster.TaskProvisioning), 2)
		wantCount(t, "due rows", w.dues(), 0)
		w.instances("i", 1, 4096, 8192)
		for _, id := range r.Tasks {
			want(t, "status", w.task(id).Status(), cluster.TaskRunning)
		}
	})
	t.Run("UntilARoomyTaskStops", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		first := w.run(t, operation.SubmitTasks{TaskDefinition: "big"})
		second := w.run(t, operation.SubmitTasks{Wait: "10m"})
		want(t, "status", w.task(second.Tasks[0]).Status(), cluster.TaskProvisioning)
		w.ecs.exit(w.task(first.Tasks[0]).ECSID, 0)
		w.pump()
		want(t, "status", w.task(second.Tasks[0]).Status(), cluster.TaskRunning)
	})
	t.Run("UntilTheTimeIsUp", func(t *testing.T) {
		w := newWorld(t)
		r := w.run(t, operation.SubmitTasks{Wait: "90s"})
		w.advance(89 * time.Second)
		want(t, "status", w.task(r.Tasks[0]).Status(), cluster.TaskProvisioning)
		w.advance(time.Second)
		task := w.task(r.Tasks[0])
		want(t, "status", task.Status(), cluster.TaskStopped)
		want(t, "code", task.StopCode, cluster.StopFailedToStart)
		w.instances("i", 1, 4096, 8192)
		wantCount(t, "StartTask calls", w.ecs.starts, 0)
	})
	t.Run("TheOldestFirst", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 256, 8192)
		first := w.run(t, operation.SubmitTasks{})
		var waiting []string
		for range 3 {
			waiting = append(waiting, w.run(t, operation.SubmitTasks{Wait: "1h"}).Tasks...)
			w.advance(time.Second)
		}
		w.ecs.exit(w.task(first.Tasks[0]).ECSID, 0)
		w.pump()
		want(t, "oldest", w.task(waiting[0]).Status(), cluster.TaskRunning)
		want(t, "second", w.task(waiting[1]).Status(), cluster.TaskProvisioning)
	})
	t.Run("WhereAnotherHasStoppedWaiting", func(t *testing.T) {
		w := newWorld(t, func(s *handler.Settings) { s.ProvisioningLimit = 1 })
		w.run(t, operation.SubmitTasks{Wait: "1h"})
		w.placementAsleep = true
		w.instances("i", 1, 256, 8192)
		w.placementAsleep = false
		r := w.run(t, operation.SubmitTasks{Wait: "1h"})
		wantCount(t, "failures", r.Failures, 0)
		want(t, "status", w.task(r.Tasks[0]).Status(), cluster.TaskProvisioning)
	})
	t.Run("NotBeyondTheProvisioningLimit", func(t *testing.T) {
		w := newWorld(t, func(s *handler.Settings) { s.ProvisioningLimit = 2 })
		r := w.run(t, operation.SubmitTasks{Count: 3, Wait: "1h"})
		wantCount(t, "tasks", r.Tasks, 2)
		wantCount(t, "failures", r.Failures, 1)
		want(t, "reason", r.Failures[0].Reason, scaling.LimitExceeded)
	})
}

func TestPlacement_StartTask(t *testing.T) {
	w := newWorld(t)
	w.instances("i", 3, 512, 8192)
	w.ecs.change("i001", func(i *cluster.Instance) { i.AgentConnected = false })
	w.ecs.change("i002", func(i *cluster.Instance) { i.Status = cluster.InstanceDraining })
	w.pump()
	r := w.run(t, operation.SubmitTasks{Kind: cluster.StartTask, Instances: []string{"i000", "i001", "i002", "i999"}})
	wantCount(t, "tasks", r.Tasks, 1)
	want(t, "instance", w.task(r.Tasks[0]).Instance, "i000")
	wantCount(t, "failures", r.Failures, 3)
	for n, f := range []cluster.Failure{
		{ARN: "i001", Reason: "AGENT", Detail: "0/1: 1 agent disconnected"},
		{ARN: "i002", Reason: "INACTIVE", Detail: "0/1: 1 not active (DRAINING)"}, {ARN: "i999", Reason: "MISSING"},
	} {
		want(t, "failure", r.Failures[n], f)
	}
}

func TestPlacement_ProvisionalIDs(t *testing.T) {
	for _, c := range []struct {
		name     string
		spec     operation.SubmitTasks
		statuses []cluster.TaskStatus
	}{
		{"OfStartedTasks", operation.SubmitTasks{Count: 2},
			[]cluster.TaskStatus{cluster.TaskRunning, cluster.TaskRunning}},
		{"OfTasksThatWait", operation.SubmitTasks{TaskDefinition: "big", Wait: "1h", Count: 2},
			[]cluster.TaskStatus{cluster.TaskProvisioning, cluster.TaskProvisioning}},
		{"OfTasksThatFitNowhere", operation.SubmitTasks{TaskDefinition: "big"},
			[]cluster.TaskStatus{cluster.TaskStopped}},
		{"OfTasksBeyondTheLimit", operation.SubmitTasks{TaskDefinition: "big", Wait: "1h", Count: 3},
			[]cluster.TaskStatus{cluster.TaskProvisioning, cluster.TaskProvisioning, cluster.TaskStopped}},
		{"OfInstancesThatAreMissing", operation.SubmitTasks{Kind: cluster.StartTask,
			Instances: []string{"i999", "i000"}}, []cluster.TaskStatus{cluster.TaskStopped, cluster.TaskRunning}},
		{"OfInstancesWithoutRoom", operation.SubmitTasks{Kind: cluster.StartTask, TaskDefinition: "big",
			Instances: []string{"i000"}}, []cluster.TaskStatus{cluster.TaskStopped}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, func(s *handler.Settings) { s.ProvisioningLimit = 2 })
			w.instances("i", 1, 512, 8192)
			tasks, failures, err := w.api.Tasks.SubmitTasks(ctx, complete(c.spec))
			if err != nil {
				t.Fatal(err)
			}
			want(t, "time waited", w.clock.now.Sub(epoch), 5*time.Second)
			wantCount(t, "tasks", tasks, len(c.statuses))
			wantCount(t, "failures", failures, 0)
			for _, task := range tasks {
				want(t, "status", task.Status(), cluster.TaskProvisioning)
			}
			w.pump()
			for n, status := range c.statuses {
				want(t, "status later", w.task(tasks[n].ID).Status(), status)
			}
			wantCount(t, "task rows", w.tasks(), len(c.statuses))
			want(t, "order of the answer", w.request(t, tasks[0].Request).Tasks[0], tasks[0].ID)
		})
	}
}
