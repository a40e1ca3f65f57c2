package listing_test

import (
	"fmt"
	"testing"
	"time"

	"berth/cmd/berth/listing"
	"berth/shared/cluster"
	"berth/shared/snapshot"
)

// A service of task sets is steady with the tasks of all of them, and throttled if one is.
func TestServiceStateOfTaskSets(t *testing.T) {
	head := cluster.Head{Cluster: "prod", Rev: 1}
	sets := []cluster.Deployment{
		{Revision: cluster.Revision{ID: "ecs-svc/1"}, Set: &cluster.TaskSet{Scale: 25}, State: cluster.RolloutCompleted},
		{Revision: cluster.Revision{ID: "ecs-svc/2"}, Set: &cluster.TaskSet{Scale: 50}, State: cluster.RolloutCompleted},
	}
	s := &cluster.Service{Head: head, ServiceIdentity: cluster.ServiceIdentity{Name: "web", Short: "web-short"},
		ServiceSpec:   cluster.ServiceSpec{Desired: 4},
		ServiceStatus: cluster.ServiceStatus{Status: cluster.ServiceActive}}
	s.Controller = cluster.ExternalController
	s.SetTaskSets(sets, "ecs-svc/1")
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		tasks     int // one of the first set and two of the second are wanted
		throttled string
		want      string
	}{{2, "", "changing"}, {3, "", "steady"}, {2, "ecs-svc/2", "throttled"}, {2, "ecs-svc/1", "throttled"},
		{3, "ecs-svc/2", "steady"}, {2, "ecs-svc/3", "changing"}} {
		snap := snapshot.NewSnapshot()
		snap.Put(s)
		if c.throttled != "" {
			snap.Put(&cluster.Throttle{Head: head, Owner: s.Short, Service: s.Name,
				Revisions: map[string]cluster.Backoff{c.throttled: {Step: 1, NextAttemptAt: now.Add(time.Minute)}}})
		}
		for n := range c.tasks {
			snap.Put(&cluster.Task{Head: head,
				TaskSpec:       cluster.TaskSpec{ID: fmt.Sprint("t", n), Owner: s.Short, Service: s.Name},
				TaskAssignment: cluster.TaskAssignment{Desired: cluster.TaskRunning, Instance: "i"},
				TaskReport:     cluster.TaskReport{Last: cluster.TaskRunning}})
		}
		if got := listing.NewService(snap, s, now).State; got != c.want {
			t.Errorf("with %d tasks, %q throttled, it is %s, want %s", c.tasks, c.throttled, got, c.want)
		}
	}
}

// A service is throttled while failed starts hold its new revision back, even if the tasks of the old one
// all run. Once the attempt is due, it is changing.
func TestServiceStateOfANewRevisionThatFails(t *testing.T) {
	head, now := cluster.Head{Cluster: "prod", Rev: 1}, time.Unix(1000, 0)
	for _, c := range []struct {
		next  time.Duration // until the next attempt
		state cluster.RolloutState
		want  string
	}{{time.Minute, cluster.RolloutInProgress, "throttled"}, {-time.Second, cluster.RolloutInProgress, "changing"},
		{time.Minute, cluster.RolloutCompleted, "steady"}} {
		s := &cluster.Service{Head: head, ServiceIdentity: cluster.ServiceIdentity{Name: "web", Short: "web-short"},
			ServiceSpec:   cluster.ServiceSpec{Desired: 1},
			ServiceStatus: cluster.ServiceStatus{Status: cluster.ServiceActive}}
		s.Deployment = cluster.Deployment{Revision: cluster.Revision{ID: "ecs-svc/2"}, State: c.state}
		s.Older = []cluster.Deployment{{Revision: cluster.Revision{ID: "ecs-svc/1"}}}
		snap := snapshot.NewSnapshot()
		snap.Put(s)
		snap.Put(&cluster.Throttle{Head: head, Owner: s.Short, Service: s.Name,
			Revisions: map[string]cluster.Backoff{"ecs-svc/2": {Step: 1, NextAttemptAt: now.Add(c.next)}}})
		snap.Put(&cluster.Task{Head: head,
			TaskSpec:       cluster.TaskSpec{ID: "t-1", Owner: s.Short, Service: s.Name, Revision: "ecs-svc/1"},
			TaskAssignment: cluster.TaskAssignment{Desired: cluster.TaskRunning, Instance: "i"},
			TaskReport:     cluster.TaskReport{Last: cluster.TaskRunning}})
		if got := listing.NewService(snap, s, now).State; got != c.want {
			t.Errorf("with an attempt in %s and a deployment that is %s, it is %s, want %s", c.next, c.state, got, c.want)
		}
	}
}

// The state of an instance is what limits its use most. An upgrade makes nodes unschedulable, and
// drains them one after the other.
func TestInstanceState(t *testing.T) {
	for _, c := range []struct {
		instance listing.Instance
		want     string
	}{
		{listing.Instance{Status: "ACTIVE", Connected: true}, "ACTIVE"},
		{listing.Instance{Status: "ACTIVE", Connected: true, Unschedulable: true}, "unschedulable"},
		{listing.Instance{Status: "DRAINING", Connected: true, Unschedulable: true}, "DRAINING"},
		{listing.Instance{Status: "DRAINING"}, "disconnected"},
	} {
		if got := c.instance.State(); got != c.want {
			t.Errorf("%+v is %s, want %s", c.instance, got, c.want)
		}
	}
}
