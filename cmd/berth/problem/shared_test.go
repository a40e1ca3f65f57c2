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
			"Application shop has reached its totalApplicationCapacity: PutClusterConfiguration can raise it. It has " +
				"2 tasks of service api, 1 task of service web.",
			"aws ecs update-service --cluster prod --service api --desired-count 1"},
		{"CapacityOfANodeThatAnotherServiceUses", shop(4, connections(cluster.ApplicationMetric{NodeCapacity: 35})),
			problem.ServiceShort, "Service web runs 1 of 4 tasks: no instance can take 3 more.",
			"Application shop has reached its maximumNodeCapacity: PutClusterConfiguration can raise it. It has " +
				"2 tasks of service api, 1 task of service web.",
			"aws ecs update-service --cluster prod --service api --desired-count 0"},
	} {
		t.Run(c.name, c.check)
	}
}
