package handler_test

import (
	"fmt"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
)

// scaled creates a service of two tasks with the metric connections, whose count follows it.
func (w *world) scaled(rules cluster.Rules) (*operation.ServiceDetail, error) {
	w.t.Helper()
	rules.Metrics = []cluster.Metric{{Name: "connections", Load: 15}}
	return w.ruled(2, rules)
}

// reportAll reports the load of all RUNNING tasks, and lets it count.
func (w *world) reportAll(load int64) {
	w.t.Helper()
	for _, task := range w.with(cluster.TaskRunning) {
		want(w.t, "error", w.report(task.ID, load), nil)
	}
	w.advance(2 * cluster.LoadWindow)
}

func TestPlacement_LoadScaling(t *testing.T) {
	byConnections := func() *cluster.LoadScaling {
		return &cluster.LoadScaling{Metric: "connections", Lower: 10, Upper: 20, Increment: 2, Min: 2, Max: 5,
			IntervalSeconds: 120}
	}
	follows := func(t *testing.T) *world {
		w := newWorld(t)
		w.instances("i", 3, 4096, 8192)
		_, err := w.scaled(cluster.Rules{Scaling: byConnections()})
		want(t, "error", err, nil)
		w.advance(time.Minute)
		return w
	}
	t.Run("UpAndDown", func(t *testing.T) {
		w := follows(t)
		w.reportAll(30)
		want(t, "desired within the first interval", w.service("web").Desired, 2)
		w.advance(50 * time.Second)
		want(t, "desired after it", w.service("web").Desired, 4)
		wantEvent(t, w.events("web"),
			"has set its desired count from 2 to 4: the average load of connections is 30, above 20")
		w.advance(time.Minute)
		wantCount(t, "RUNNING tasks", w.with(cluster.TaskRunning), 4)
		w.reportAll(50)
		w.advance(10 * time.Minute)
		want(t, "desired at most", w.service("web").Desired, 5)
		w.reportAll(1)
		w.advance(10 * time.Minute)
		want(t, "desired at least", w.service("web").Desired, 2)
		wantCount(t, "RUNNING tasks in the end", w.with(cluster.TaskRunning), 2)
	})
	t.Run("OncePerInterval", func(t *testing.T) {
		w := follows(t)
		w.reportAll(30)
		w.advance(45 * time.Second)
		want(t, "desired", w.service("web").Desired, 4)
		before := len(w.events("web"))
		w.reportAll(30)
		for range 5 { // anything that makes placement look at the service
			want(t, "error", w.api.Tags.TagResource(ctx,
				cluster.ResourceARN{Kind: "service", Cluster: prod, Name: "web"},
				map[string]string{"berth:move-cost": fmt.Sprint(len(w.events("web")))}, nil), nil)
			w.pump()
		}
		want(t, "desired in the same interval", w.service("web").Desired, 4)
		want(t, "events", len(w.events("web")) >= before, true)
	})
	t.Run("UpToTheInstances", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 3, 4096, 8192)
		scaling := byConnections()
		scaling.Max, scaling.Increment = -1, 100
		_, err := w.scaled(cluster.Rules{Scaling: scaling})
		want(t, "error", err, nil)
		w.advance(time.Minute)
		w.reportAll(30)
		w.advance(10 * time.Minute)
		want(t, "desired", w.service("web").Desired, 3)
	})
	t.Run("OffWritesNothing", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 3, 4096, 8192)
		_, err := w.scaled(cluster.Rules{})
		want(t, "error", err, nil)
		w.advance(time.Minute)
		w.reportAll(30)
		w.advance(10 * time.Minute)
		want(t, "desired", w.service("web").Desired, 2)
		wantCount(t, "due rows", w.dues(), 0)
	})
	t.Run("Refused", func(t *testing.T) {
		w := newWorld(t)
		_, err := w.ruled(2, cluster.Rules{Scaling: byConnections()})
		wantCode(t, err, cluster.CodeInvalidParameter,
			"names the metric connections, expected one of those of the service")
		_, err = w.api.Services.CreateService(ctx, operation.CreateService{Cluster: prod, Name: "agent",
			TaskDefinition: "web", Strategy: cluster.Daemon, Rules: cluster.Rules{Scaling: byConnections()}})
		wantCode(t, err, cluster.CodeInvalidParameter,
			"daemon scheduling strategy does not support the tag berth:scaling")
		_, _, err = w.api.Tasks.SubmitTasks(ctx, operation.SubmitTasks{Kind: cluster.RunTask, Cluster: prod,
			TaskDefinition: "web", Count: 1, Rules: cluster.Rules{Scaling: byConnections()}})
		wantCode(t, err, cluster.CodeInvalidParameter, "expected only for services")
	})
}
