package handler_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/handler/healthcheck"
	"berth/shared/operation"
	"berth/shared/state"
)

var update = flag.Bool("update", false, "write the golden files anew")

// rolling is a service "web" behind a target group, whose tasks have their own addresses. Those of
// vpc:1 and vpc:2 are healthy 30 s after they were registered, those of vpc:3 never.
type rolling struct {
	*world
	elb    *fakeBalancer
	health *healthcheck.Handler
	since  map[cluster.Address]time.Time
}

func newRolling(t *testing.T, n int, change func(*operation.CreateService)) *rolling {
	t.Helper()
	r := &rolling{world: newWorld(t), elb: newFakeBalancer(), since: map[cluster.Address]time.Time{}}
	r.dispatch.LoadBalancers, r.dispatch.Registries, r.dispatch.Account = r.elb, r.elb, account
	r.health = &healthcheck.Handler{
		State: r.store, LoadBalancers: r.elb, Registries: r.elb, Alarms: r.elb, Clock: r.clock, Settings: handler.DefaultSettings(),
	}
	for k := range 3 {
		def := definition("vpc", k+1, 256, 512)
		def.Needs.ENIs = 1
		r.ecs.define(def)
	}
	r.instances("i", 2, 8192, 16384)
	spec := operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "vpc:1", Desired: &n, Network: subnet}
	spec.LoadBalancers = &[]cluster.LoadBalancer{{TargetGroup: groupOne, Container: "app", Port: 80}}
	if change != nil {
		change(&spec)
	}
	r.createAs(spec)
	r.pass(5 * time.Minute)
	wantCount(t, "running tasks at first", r.with(cluster.TaskRunning), n)
	return r
}

// pass lets time pass in steps of 10 s, with the load balancer's checks and the schedules.
func (r *rolling) pass(d time.Duration) {
	r.t.Helper()
	for range d / (10 * time.Second) {
		r.advance(10 * time.Second)
		r.check()
		if err := r.health.RunSchedule(ctx, "health"); err != nil {
			r.t.Fatal(err)
		}
		r.minute()
	}
}

// check runs the load balancer's own health checks.
func (r *rolling) check() {
	bad := map[string]bool{}
	for _, task := range r.ecs.tasks {
		bad[task.Address] = task.TaskDefinition == "vpc:3"
	}
	for at := range r.elb.groups[groupOne] {
		since, seen := r.since[at]
		switch {
		case !seen:
			r.since[at] = r.clock.now
		case r.clock.now.Sub(since) < 30*time.Second:
		case bad[at.Host]:
			r.elb.groups[groupOne][at] = failing50
		default:
			r.elb.groups[groupOne][at] = healthy
		}
	}
}

// timeline returns the service's events since an event, with their times, and with made-up names
// for what differs from one service to the next.
func (r *rolling) timeline(from int) string {
	r.t.Helper()
	names := map[string]string{}
	tasks := r.tasks()
	slices.SortStableFunc(tasks, func(a, b *cluster.Task) int { return a.CreatedAt.Compare(b.CreatedAt) })
	for n, task := range tasks {
		names[task.ID] = fmt.Sprint("task-", n+1)
	}
	revisions := rows[*cluster.ServiceRevision](r.world, state.PrefixRevision)
	slices.SortFunc(revisions, func(a, b *cluster.ServiceRevision) int { return a.CreatedAt.Compare(b.CreatedAt) })
	for n, revision := range revisions {
		names[revision.ID] = fmt.Sprint("ecs-svc/", n+1)
	}
	var out strings.Builder
	log := r.service("web").EventLog
	slices.Reverse(log)
	for _, e := range log {
		if e.Number < from {
			continue
		}
		text := e.Message
		for id, name := range names {
			text = strings.ReplaceAll(text, id, name)
		}
		fmt.Fprintln(&out, e.CreatedAt.Sub(epoch), text)
	}
	return out.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(data), got); diff != "" {
		t.Errorf("another timeline, -want +got:\n%s", diff)
	}
}

// The order and the words are those that ECS's own services show.
func TestTimeline(t *testing.T) {
	t.Run("RollingDeploymentOfOneTask", func(t *testing.T) {
		r := newRolling(t, 1, nil)
		from := r.service("web").Service.Events
		r.deploy("web", "vpc:2")
		r.pass(10 * time.Minute)
		golden(t, "timeline-rolling", r.timeline(from))
		want(t, "targets", len(r.elb.groups[groupOne]), 1)
		wantCount(t, "registrations", r.targets(), 1)
		fewest, _ := r.bounds(0)
		want(t, "fewest running after the first", fewest, 0)
	})
	t.Run("CircuitBreakerRollsBack", func(t *testing.T) {
		r := newRolling(t, 1, func(s *operation.CreateService) { s.Breaker = &cluster.CircuitBreaker{Enable: true, Rollback: true} })
		from := r.service("web").Service.Events
		r.deploy("web", "vpc:3")
		r.pass(40 * time.Minute)
		golden(t, "timeline-rollback", r.timeline(from))
		want(t, "release", r.service("web").Service.Release.Status, cluster.DeploymentRollbackSuccessful)
		want(t, "targets", len(r.elb.groups[groupOne]), 1)
	})
}
