package handler_test

import (
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
)

// limit sets the limits of the application shop.
func (w *world) limit(a cluster.Application) {
	w.t.Helper()
	want(w.t, "error", w.api.Configurations.PutConfiguration(ctx, &cluster.Configuration{
		Head:         cluster.Head{Cluster: prod},
		NodeTypes:    map[string]cluster.NodeType{"": {Capacities: map[string]int64{"connections": 100}}},
		Applications: map[string]cluster.Application{"shop": a}}), nil)
}

// ofShop creates a service of the application shop.
func (w *world) ofShop(name string, n int, load int64) {
	w.createAs(operation.CreateService{Cluster: prod, Name: name, TaskDefinition: "web", Desired: &n,
		Rules: cluster.Rules{Application: "shop", Metrics: []cluster.Metric{{Name: "connections", Load: load}}}})
}

func TestPlacement_Application(t *testing.T) {
	t.Run("KeepsToTheMaximumOfInstances", func(t *testing.T) {
		w := newWorld(t)
		ids := w.instances("i", 4, 4096, 8192)
		w.limit(cluster.Application{MaximumNodes: 2})
		w.ofShop("web", 3, 10)
		w.ofShop("side", 3, 10)
		w.advance(2 * time.Minute)
		wantCount(t, "tasks running", w.with(cluster.TaskRunning), 6)
		want(t, "instances with tasks", len(placed(w.tasks())), 2)
		for id := range placed(w.wanted()) {
			w.drain(id)
			break
		}
		w.advance(10 * time.Minute)
		wantCount(t, "tasks that run after a drain", w.wanted(), 6)
		want(t, "instances with tasks after a drain", len(placed(w.wanted())), 2)
		want(t, "instances", len(ids), 4)
	})
	t.Run("MovesOntoFewerInstances", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 5, 8192, 16384)
		w.limit(cluster.Application{MaximumNodes: 4})
		w.ofShop("web", 4, 10)
		w.ofShop("side", 2, 10)
		w.advance(2 * time.Minute)
		want(t, "instances with tasks", len(placed(w.tasks())), 4)
		least := w.watch()
		w.limit(cluster.Application{MaximumNodes: 2})
		w.advance(10 * time.Minute)
		wantCount(t, "tasks wanted", w.wanted(), 6)
		want(t, "instances with tasks under the lower limit", len(placed(w.wanted())), 2)
		want(t, "fewest running", least() >= 6, true)
		wantEvent(t, w.events("web"), "application shop goes from 4 to 2 instances, at most 2 are allowed")
	})
	t.Run("MovesWhatAnInstanceHasTooMuchOf", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 4, 8192, 16384)
		perNode := func(n int64) cluster.Application {
			return cluster.Application{MaximumNodes: 3,
				Metrics: map[string]cluster.ApplicationMetric{"connections": {NodeCapacity: n}}}
		}
		w.limit(cluster.Application{MaximumNodes: 1})
		w.ofShop("web", 6, 10)
		w.advance(2 * time.Minute)
		want(t, "instances with tasks", len(placed(w.tasks())), 1)
		w.limit(perNode(20))
		w.advance(15 * time.Minute)
		wantCount(t, "tasks wanted", w.wanted(), 6)
		for id, n := range placed(w.wanted()) {
			if n > 2 {
				t.Errorf("%d tasks on %s, expected at most 2", n, id)
			}
		}
	})
	t.Run("KeepsToTheTotal", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 4, 4096, 8192)
		total := func(n int64) cluster.Application {
			return cluster.Application{Metrics: map[string]cluster.ApplicationMetric{"connections": {TotalCapacity: n}}}
		}
		w.limit(total(35))
		w.ofShop("web", 5, 10)
		w.advance(2 * time.Minute)
		wantCount(t, "tasks running", w.with(cluster.TaskRunning), 3)
		blocked := w.service("web").Service.Blocked
		want(t, "why", blocked != nil &&
			blocked.String() == "0/4: 4 insufficient application capacity in all (shop, connections: needs 10, best free 5)", true)
		w.limit(total(50))
		w.advance(2 * time.Minute)
		wantCount(t, "tasks running with more in all", w.with(cluster.TaskRunning), 5)
	})
	t.Run("LeavesADrainingInstanceAtTheFullTotal", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 3, 4096, 8192)
		w.limit(cluster.Application{Metrics: map[string]cluster.ApplicationMetric{"connections": {TotalCapacity: 30}}})
		w.ofShop("web", 3, 10)
		w.advance(2 * time.Minute)
		wantCount(t, "tasks running", w.with(cluster.TaskRunning), 3)
		drained := w.with(cluster.TaskRunning)[0].Instance
		leaving := len(placed(w.wanted()))
		w.drain(drained)
		for range 60 { // the replacement starts first: three tasks run at each moment
			w.advance(5 * time.Second)
			if n := len(w.with(cluster.TaskRunning)); n < 3 {
				t.Fatalf("%d tasks run while one instance of %d drains", n, leaving)
			}
		}
		wantCount(t, "tasks wanted after the drain", w.wanted(), 3)
		want(t, "tasks on the drained instance", placed(w.with(cluster.TaskRunning))[drained], 0)
		w.scale("web", 4)
		w.advance(2 * time.Minute)
		wantCount(t, "tasks wanted above the total", w.wanted(), 3)
	})
	t.Run("KeepsReservedRoomFromOthers", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 2, 4096, 8192)
		w.limit(cluster.Application{MaximumNodes: 1,
			Metrics: map[string]cluster.ApplicationMetric{"connections": {Reservation: 80}}})
		w.ofShop("web", 1, 10)
		w.advance(2 * time.Minute)
		home := w.with(cluster.TaskRunning)[0].Instance
		four := 4
		w.createAs(operation.CreateService{Cluster: prod, Name: "other", TaskDefinition: "web", Desired: &four,
			Rules: cluster.Rules{Metrics: []cluster.Metric{{Name: "connections", Load: 30}}}})
		w.advance(2 * time.Minute)
		on := placed(w.with(cluster.TaskRunning))
		want(t, "tasks beside the application", on[home], 1)
		wantCount(t, "tasks of others and of the application", w.with(cluster.TaskRunning), 4)
		w.scale("web", 8)
		w.advance(2 * time.Minute)
		want(t, "tasks in the application's room", placed(w.with(cluster.TaskRunning))[home], 8)
	})
}

func TestAPI_Application(t *testing.T) {
	w := newWorld(t)
	w.instances("i", 2, 4096, 8192)
	w.limit(cluster.Application{MinimumNodes: 2,
		Metrics: map[string]cluster.ApplicationMetric{"connections": {Reservation: 60}}})
	_, err := w.api.Services.CreateService(ctx, operation.CreateService{Cluster: prod, Name: "agent",
		TaskDefinition: "web", Strategy: cluster.Daemon, Rules: cluster.Rules{Application: "shop"}})
	wantCode(t, err, cluster.CodeInvalidParameter, "does not support the tag berth:application")
	three := 3
	many := operation.CreateService{Cluster: prod, Name: "other", TaskDefinition: "web", Desired: &three,
		Rules: cluster.Rules{Metrics: []cluster.Metric{{Name: "connections", Load: 30}}}}
	_, err = w.api.Services.CreateService(ctx, many)
	wantCode(t, err, cluster.CodeInvalidParameter, "90 more required, 80 available (capacity 200, 200 without the "+
		"buffer, load 0, 120 reserved for applications)")
	many.Rules.Application = "shop"
	_, err = w.api.Services.CreateService(ctx, many)
	want(t, "error of the application's own service", err, nil)
}
