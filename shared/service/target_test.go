package service

import (
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
)

// balanced returns a service behind the target groups x and y, and its task t1's registrations.
func balanced(registrations ...cluster.Registration) (Input, *cluster.Target) {
	in := with(1, 100, 200, newTask("t1"))
	target := &cluster.Target{Task: "t1", Registrations: registrations}
	in.Target = func(id string) *cluster.Target {
		if id == "t1" {
			return target
		}
		return nil
	}
	return in, target
}

func registration(arn string, state cluster.RegistrationState) cluster.Registration {
	return cluster.Registration{ARN: arn, State: state, Health: cluster.Healthy}
}

func messages(p Plan) string {
	var out []string
	for _, e := range p.EventsAfter {
		out = append(out, strings.TrimPrefix(e.Message, "(service web) "))
	}
	return strings.Join(out, "; ")
}

// Events report each registration and each deregistration once, target group by target group (S9).
func TestRegistrationsAreReported(t *testing.T) {
	for _, c := range []struct {
		name          string
		registrations []cluster.Registration
		made, ended   bool // reported before
		want          string
		reports       int
	}{
		{"Made", []cluster.Registration{registration("x", cluster.Registered), registration("y", cluster.Registered)},
			false,
			false, "registered 1 targets in (target-group x); registered 1 targets in (target-group y)", 1},
		{"OnlyOnceAllAreMade", []cluster.Registration{registration("x", cluster.Registered), registration("y", "")},
			false,
			false, "", 0},
		{"OnlyOnce", []cluster.Registration{registration("x", cluster.Registered)}, true, false, "", 0},
		{"NotOfCloudMap", []cluster.Registration{{ARN: "m", Registry: true, State: cluster.Registered,
			Health: cluster.Healthy}},
			false, false, "", 1},
		{"Ended", []cluster.Registration{registration("x", cluster.Deregistered)}, true, false,
			"deregistered 1 targets in (target-group x)", 1},
		{"EndedOnlyOnce", []cluster.Registration{registration("x", cluster.Deregistered)}, true, true, "", 0},
		{"Draining", []cluster.Registration{{ARN: "x", State: cluster.Deregistered, DrainedAt: noon.Add(time.Second)}},
			true,
			false, "deregistered 1 targets in (target-group x); has begun draining connections on 1 tasks.", 1},
		{"DrainedAlready", []cluster.Registration{{ARN: "x", State: cluster.Deregistered, DrainedAt: noon}}, true,
			false,
			"deregistered 1 targets in (target-group x)", 1},
		{"Refused", []cluster.Registration{{ARN: "x", State: cluster.RegistrationFailed, Reason: "no such group"}},
			true,
			false, "failed to register targets in (target-group x) with (error no such group)", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, target := balanced(c.registrations...)
			target.RegistrationEmitted, target.DrainEmitted = c.made, c.ended
			p := Reconcile(in)
			expect(t, "events", messages(p), c.want)
			expect(t, "reported", len(p.EmittedTargets), c.reports)
		})
	}
	t.Run("TasksAreCounted", func(t *testing.T) {
		in := with(2, 100, 200, newTask("t1"), newTask("t2"))
		in.Target = func(id string) *cluster.Target {
			return &cluster.Target{Task: id, Registrations: []cluster.Registration{registration("x",
				cluster.Registered)}}
		}
		expect(t, "events", messages(Reconcile(in)), "registered 2 targets in (target-group x)")
	})
}

// A RUNNING task is registered once its container is HEALTHY, if that is checked; a task that has
// ended is deregistered (S9).
func TestTasksAreRegistered(t *testing.T) {
	in := with(4, 100, 200, newTask("t1"), newTask("t2", pendingTask), newTask("t3", healthyTask),
		newTask("t4", endedTask))
	in.Service.Deployment.LoadBalancers = []cluster.LoadBalancer{{TargetGroup: "x"}}
	names := func(tasks []*cluster.Task) string {
		var ids []string
		for _, task := range tasks {
			ids = append(ids, task.ID)
		}
		return strings.Join(ids, " ")
	}
	p := Reconcile(in)
	expect(t, "registered", names(p.RegisterTargets), "t1 t3")
	expect(t, "deregistered", names(p.DeregisterTargets), "")
	in.HealthChecked = func(string) bool { return true }
	expect(t, "registered if it is checked", names(Reconcile(in).RegisterTargets), "t3")
	in.Target = func(id string) *cluster.Target {
		return &cluster.Target{Task: id, Registrations: []cluster.Registration{registration("x", cluster.Registered)}}
	}
	p = Reconcile(in)
	expect(t, "registered again", names(p.RegisterTargets), "")
	expect(t, "deregistered", names(p.DeregisterTargets), "t4")
}

// Why a task is unhealthy is in its event and in the reason for its stop (S6).
func TestUnhealthyTasksSayWhy(t *testing.T) {
	for _, c := range []struct {
		name          string
		health        cluster.Health
		registration  *cluster.Registration
		event, reason string
	}{
		{"Container", cluster.Unhealthy, nil, "(task t1) failed container health checks.",
			"Task failed container health checks"},
		{"TargetGroup", cluster.UnknownHealth, &cluster.Registration{ARN: "x", Port: 80, State: cluster.Registered,
			Health: cluster.Unhealthy, Reason: "Timeout"},
			"(task t1) (port 80) is unhealthy in (target-group x) due to (reason Timeout).",
			"Task failed ELB health checks in (target-group x)"},
		{"CloudMap", cluster.UnknownHealth, &cluster.Registration{ARN: "m", Registry: true, Port: 80,
			State:  cluster.Registered,
			Health: cluster.Unhealthy, Reason: "Timeout"},
			"(task t1) (port 80) is unhealthy in (service-registry m) due to (reason Timeout).",
			"Task failed Cloud Map health checks"},
		{"ContainerBeforeTarget", cluster.Unhealthy, &cluster.Registration{ARN: "x", Port: 80,
			State:  cluster.Registered,
			Health: cluster.Unhealthy, Reason: "Timeout"},
			"(task t1) failed container health checks.", "Task failed container health checks"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := with(1, 0, 200, newTask("t1"), newTask("t2"))
			in.Tasks[0].Health = c.health
			in.Target = func(id string) *cluster.Target {
				if id != "t1" || c.registration == nil {
					return nil
				}
				healthy := cluster.Registration{ARN: "first", State: cluster.Registered, Health: cluster.Healthy}
				return &cluster.Target{Task: id, RegistrationEmitted: true,
					Registrations: []cluster.Registration{healthy, *c.registration}}
			}
			p := Reconcile(in)
			if len(p.EventsBefore) != 1 || len(p.Stops) != 1 {
				t.Fatalf("%d events, plan %s", len(p.EventsBefore), says(p))
			}
			expect(t, "event", p.EventsBefore[0].Message, "(service web) "+c.event)
			expect(t, "stop", p.Stops[0].Task.ID, "t1")
			expect(t, "reason", p.Stops[0].Reason, c.reason)
		})
	}
}
