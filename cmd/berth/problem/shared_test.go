package problem_test

import (
	"testing"

	"berth/cmd/berth/problem"
	"berth/shared/cluster"
)

// What a service lacks because of other services names these, and a command that is about them.
func TestServicesThatOthersHoldBack(t *testing.T) {
	child := func(prepare func(w *world)) func(w *world) {
		return func(w *world) {
			w.instance(1)
			w.instance(2)
			prepare(w)
			w.service("side", 1, func(s *cluster.Service) { s.Rules.Affinity = "web" })
		}
	}
	shop := func(desired int, limits cluster.Application) func(w *world) {
		return func(w *world) {
			w.instance(1)
			w.application("web", desired, limits)
			w.application("api", 2, limits)
			w.task("web", 1, "n-1")
			w.task("api", 2, "n-1")
			w.task("api", 3, "n-1")
		}
	}
	connections := func(m cluster.ApplicationMetric) cluster.Application {
		return cluster.Application{Metrics: map[string]cluster.ApplicationMetric{"connections": m}}
	}
	for _, c := range []situation{
		{"AChildWhoseParentIsFull", child(func(w *world) {
			w.service("web", 4)
			for k := range 4 {
				w.task("web", k+1, "n-1")
			}
		}), problem.ServiceShort, "Service side runs 0 of 1 task: no instance can take 1 more.",
			"Tasks of service side run only beside those of service web, which has tasks on 1 instance: n-1.",
			"berth explain service web --cluster prod"},
		{"AChildWhoseParentRunsNowhere", child(func(w *world) { w.service("web", 0) }), problem.ServiceShort,
			"Service side runs 0 of 1 task: no instance can take 1 more.",
			"Tasks of service side run only beside those of service web, which runs nowhere.",
			"berth explain service web --cluster prod"},
		{"CapacityInAllThatAnotherServiceUses", shop(2, connections(cluster.ApplicationMetric{TotalCapacity: 35})),
			problem.ServiceShort, "Service web runs 1 of 2 tasks: no instance can take 1 more.",
			"Application shop has reached its totalApplicationCapacity. It has " +
				"2 tasks of service api, 1 task of service web.",
			"aws ecs update-service --cluster prod --service api --desired-count 1"},
		{"CapacityOfANodeThatAnotherServiceUses", shop(4, connections(cluster.ApplicationMetric{NodeCapacity: 35})),
			problem.ServiceShort, "Service web runs 1 of 4 tasks: no instance can take 3 more.",
			"Application shop has reached its maximumNodeCapacity. It has " +
				"2 tasks of service api, 1 task of service web.",
			"aws ecs update-service --cluster prod --service api --desired-count 0"},
	} {
		t.Run(c.name, c.check)
	}
}

// The command that raises an application's limit has numbers in which more of the waiting tasks fit, and
// which Berth does not refuse: in all there must be as much as the instances may have together.
func TestCommandsThatRaiseLimits(t *testing.T) {
	type metrics = map[string]cluster.ApplicationMetric
	for name, c := range map[string]struct {
		desired int // of web, which has 1 task; its tasks have 10 connections
		limits  cluster.Application
		want    string
	}{
		"Nodes": {5, cluster.Application{MaximumNodes: 1}, "--maximum-nodes 2"},
		"Total": {4, cluster.Application{Metrics: metrics{"connections": {TotalCapacity: 15}}},
			"--total-capacity connections=40"},
		"Node": {3, cluster.Application{Metrics: metrics{"connections": {NodeCapacity: 15}}},
			"--node-capacity connections=20"},
		"NodeWithTotal": {3, cluster.Application{MaximumNodes: 2, Metrics: metrics{"connections": {NodeCapacity: 9,
			TotalCapacity: 18}}}, "--node-capacity connections=10 --total-capacity connections=20"},
	} {
		w := newWorld()
		w.instance(1)
		w.instance(2)
		w.application("web", c.desired, c.limits)
		tasks := 1
		if name == "Nodes" {
			tasks = 4 // n-1 is full
		}
		for k := range tasks {
			w.task("web", k+1, "n-1")
		}
		all := w.find(t)
		if want := "berth limit shop " + c.want + " --cluster prod"; len(all) != 1 || commandsOf(all[0])[0] != want {
			t.Errorf("%s: %+v, want the command %s", name, all, want)
		}
	}
}
