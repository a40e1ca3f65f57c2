package simulation

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/tests/simulation/invariant"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestServiceEventTimelines compares the events of two deployments, with their times, with files.
// Their order and words are those of ECS.
func TestServiceEventTimelines(t *testing.T) {
	t.Run("RollingBehindATargetGroup", func(t *testing.T) {
		s := newScenario(t, 3, machine)
		s.createService("storefront", "port:1", 1, func(spec *operation.CreateService) {
			spec.LoadBalancers = &[]cluster.LoadBalancer{{TargetGroup: s.instanceTargets, Container: "main",
				Port: 8080}}
		})
		s.awaitSteady("storefront")
		s.passTime(time.Hour - s.Loop.Now().Sub(epoch))
		s.updateService("storefront", operation.UpdateService{TaskDefinition: "port:2"})
		s.awaitSteady("storefront")
		s.passTime(10 * time.Minute)
		s.compareGolden("storefront", "rolling", time.Hour,
			"has started 1 tasks: (task ", "registered 1 targets in (target-group ",
			"has stopped 1 running tasks: (task ",
			"deregistered 1 targets in (target-group ", "has begun draining connections on 1 tasks.",
			"deployment completed.", "has reached a steady state.")
	})
	t.Run("CircuitBreakerRollsBack", func(t *testing.T) {
		s := newScenario(t, 3, machine)
		s.createService("storefront", "checked:1", 1, func(spec *operation.CreateService) {
			spec.Breaker = &cluster.CircuitBreaker{Enable: true, Rollback: true}
		})
		s.awaitSteady("storefront")
		s.passTime(time.Hour - s.Loop.Now().Sub(epoch))
		before := s.serviceRow("storefront").Deployment.ID
		s.updateService("storefront", operation.UpdateService{TaskDefinition: invariant.UnhealthyFamily + ":1"})
		s.await("it is rolled back", time.Hour, func() bool {
			r := s.serviceRow("storefront").Release
			return r != nil && r.Status == cluster.DeploymentRollbackSuccessful
		})
		s.passTime(10 * time.Minute)
		if row := s.serviceRow("storefront"); row.Deployment.ID != before || len(row.Older) > 0 ||
			row.Release.Failures != 3 {
			t.Errorf("it is %+v, with %v before, by %+v", row.Deployment, row.Older, row.Release)
		}
		s.compareGolden("storefront", "rollback", time.Hour,
			"has started 1 tasks: (task ", "failed container health checks.", "has started 1 tasks: (task ",
			"has started 1 tasks: (task ",
			"deployment failed: tasks failed to start.", "rolling back to deployment ", "deployment completed.")
	})
}

var (
	taskID       = regexp.MustCompile(`\(task ([0-9a-f]{32})\)`)
	deploymentID = regexp.MustCompile(`ecs-svc/([0-9]+)`)
)

// compareGolden compares the events since a time with a file, in which ids are numbered in order of
// appearance, and checks that the given texts occur in this order.
func (s *scenario) compareGolden(name, file string, from time.Duration, order ...string) {
	s.t.Helper()
	var b strings.Builder
	tasks, deployments := map[string]int{}, map[string]int{}
	number := func(of map[string]int, id string) int {
		if of[id] == 0 {
			of[id] = len(of) + 1
		}
		return of[id]
	}
	for _, e := range s.serviceEvents(name) {
		text := taskID.ReplaceAllStringFunc(e.Message,
			func(id string) string { return fmt.Sprintf("(task %d)", number(tasks, id)) })
		text = deploymentID.ReplaceAllStringFunc(text,
			func(id string) string { return fmt.Sprintf("ecs-svc/%d", number(deployments, id)) })
		at := e.CreatedAt.Sub(epoch) - from
		if at < 0 {
			continue
		}
		fmt.Fprintf(&b, "%02d:%06.3f %s\n", int(at.Minutes()), (at % time.Minute).Seconds(), text)
		if len(order) > 0 && strings.Contains(text, order[0]) {
			order = order[1:]
		}
	}
	if len(order) > 0 {
		s.t.Errorf("no event, or none in its place, says %q:\n%s", order[0], &b)
	}
	path := filepath.Join("testdata", file+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	if got := b.String(); got != string(want) {
		s.t.Errorf("the events are\n%sand should be\n%s", got, want)
	}
}
