package service

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
)

// deploying returns a service that replaces ecs-svc/b, which completed and has so many tasks, by
// ecs-svc/a, which has the other ones.
func deploying(in Input, old int) Input {
	s := in.Service
	s.Deployment.State = cluster.RolloutInProgress
	b := cluster.Revision{ID: "ecs-svc/b", TaskDefinition: "web:b"}
	s.Older = []cluster.Deployment{{Revision: b, State: cluster.RolloutCompleted, Desired: s.Desired}}
	s.Last = &b
	s.Release = &cluster.Release{ID: "1", Status: cluster.DeploymentInProgress, Target: "ecs-svc/a",
		StartedAt: noon.Add(-time.Hour)}
	for _, t := range in.Tasks[:old] {
		t.Revision = "ecs-svc/b"
	}
	return in
}

// failedStart is a task that never ran, and that no circuit breaker has counted.
func failedStart(t *cluster.Task) {
	endedTask(t)
	t.Started = 0
}

// The record of a rollout has the counts of its own revision, when it began, and the count of the
// circuit breaker beside its threshold (S8).
func TestReleaseRecord(t *testing.T) {
	in := deploying(with(4, 50, 200, newTask("t1"), newTask("t2"), newTask("t3"), newTask("t4", pendingTask),
		newTask("t5", failedStart)), 2)
	in.Service.Breaker = cluster.CircuitBreaker{Enable: true}
	r := Reconcile(in).Next.Release
	expect(t, "counts", [3]int{r.Requested, r.Running, r.Pending}, [3]int{4, 1, 1})
	expect(t, "failures", [2]int{r.Failures, r.Threshold}, [2]int{1, 3})

	in.Service.Release.Status = cluster.DeploymentPending
	p := Reconcile(in)
	r = p.Next.Release
	expect(t, "status", r.Status, cluster.DeploymentInProgress)
	expect(t, "begins", [2]time.Time{r.StartedAt, r.UpdatedAt}, [2]time.Time{noon, noon})
	expect(t, "emitted", slices.Contains(eventNames(p), "SERVICE_DEPLOYMENT_IN_PROGRESS"), true)
	expect(t, "the row that was given", in.Service.Release.Status, cluster.DeploymentPending)

	in.Service.Release.Status, in.Service.Release.Requested = cluster.DeploymentSuccessful, 9
	in.Service.Deployment.State = cluster.RolloutCompleted
	r = Reconcile(in).Next.Release
	expect(t, "counts of one that ended before", [3]int{r.Requested, r.Running, r.Pending}, [3]int{9, 0, 0})
}

// Why a deployment failed is in its record, in its reason and in its event, and what it returns to
// (S8).
func TestFailedDeploymentSaysWhy(t *testing.T) {
	began := func() Input {
		in := deploying(with(2, 50, 200, newTask("t1"), newTask("t2"), newTask("t3"), newTask("t4", failedStart),
			newTask("t5", failedStart), newTask("t6", failedStart)), 2)
		return in
	}
	broken := func(rollback bool) Input {
		in := began()
		in.Service.Breaker = cluster.CircuitBreaker{Enable: true, Rollback: rollback}
		return in
	}
	alarmed := func() Input {
		in := began()
		in.Service.Alarms = cluster.DeploymentAlarms{Names: []string{"slow", "errors"}, Enable: true}
		in.Alarms = &cluster.AlarmWatch{Deployment: "ecs-svc/a", InAlarm: []string{"slow", "errors"},
			Since: noon.Add(-time.Minute)}
		return in
	}
	t.Run("CircuitBreaker", func(t *testing.T) {
		p := Reconcile(broken(false))
		d, r := p.Next.Deployment, p.Next.Release
		expect(t, "state", d.State, cluster.RolloutFailed)
		expect(t, "reason", d.Reason, "ECS deployment circuit breaker: tasks failed to start.")
		expect(t, "updated", d.UpdatedAt, noon)
		expect(t, "tripped", r.Tripped, true)
		expect(t, "failures", r.Failures, 3)
		expect(t, "status", r.Status, cluster.DeploymentStopped)
		expect(t, "record", r.Reason,
			"The service deployment failed because the circuit breaker threshold was exceeded.")
		expect(t, "finished", [2]time.Time{r.FinishedAt, r.UpdatedAt}, [2]time.Time{noon, noon})
		expect(t, "rollback", r.RollbackTo+r.RollbackReason, "")
		expect(t, "requested", [2]int{r.Requested, r.Running}, [2]int{2, 1})
	})
	t.Run("WhatItsRowsSay", func(t *testing.T) {
		in := broken(false)
		in.Service.Deployment.TaskDefinition = "web:2"
		for n, at := range []time.Time{noon.Add(-2 * time.Minute), noon, noon.Add(-time.Minute)} {
			in.Tasks[3+n].Stopped, in.Tasks[3+n].Reason = cluster.At(at), fmt.Sprintf("reason %d", n)
		}
		in.Service.Release.Target = in.Service.Deployment.ID
		r := Reconcile(in).Next.Release
		expect(t, "definition", r.TargetDefinition, "web:2")
		expect(t, "last failure", r.LastFailure, "reason 1")
		in.Service.Release.Target = "ecs-svc/other" // its rollback fails
		expect(t, "definition of another target", Reconcile(in).Next.Release.TargetDefinition, "")
	})
	t.Run("Alarm", func(t *testing.T) {
		p := Reconcile(alarmed())
		d, r := p.Next.Deployment, p.Next.Release
		expect(t, "state", d.State, cluster.RolloutFailed)
		expect(t, "reason", d.Reason, "ECS deployment alarms: alarm detected.")
		expect(t, "tripped", r.Tripped, false)
		expect(t, "triggered", slices.Equal(r.Triggered, []string{"slow", "errors"}), true)
		expect(t, "triggered since", r.TriggeredSince, noon.Add(-time.Minute))
		expect(t, "record", r.Reason, "The service deployment failed because these alarms were on: slow, errors.")
	})
	for _, c := range []struct {
		name   string
		change func(*Input)
	}{
		{"AlarmsOff", func(in *Input) { in.Service.Alarms.Enable = false }},
		{"AlarmsOfAnotherDeployment", func(in *Input) { in.Alarms.Deployment = "ecs-svc/b" }},
		{"NoAlarmNamed", func(in *Input) { in.Service.Alarms.Names = nil }},
		{"AlarmsWereOnBefore", func(in *Input) { in.Alarms.Ignored = true }},
		{"AlarmsOfARollback", func(in *Input) { in.Service.Release.RollbackTo = "ecs-svc/a" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := alarmed()
			c.change(&in)
			expect(t, "state", Reconcile(in).Next.Deployment.State, cluster.RolloutInProgress)
		})
	}
	t.Run("RollsBack", func(t *testing.T) {
		in := broken(true)
		in.Service.Older = append(in.Service.Older, cluster.Deployment{
			Revision: cluster.Revision{ID: "ecs-svc/c"}, State: cluster.RolloutFailed, Desired: 1,
		})
		in.Tasks = append(in.Tasks, newTask("t7"))
		in.Tasks[6].Revision = "ecs-svc/c"
		p := Reconcile(in)
		d, r := p.Next.Deployment, p.Next.Release
		expect(t, "primary", d.ID, "ecs-svc/b")
		expect(t, "state", d.State, cluster.RolloutInProgress)
		expect(t, "reason", d.Reason, "ECS deployment circuit breaker: rolling back to deploymentId ecs-svc/b.")
		expect(t, "status", r.Status, cluster.DeploymentRollbackInProgress)
		expect(t, "to", r.RollbackTo, "ecs-svc/b")
		expect(t, "why", r.RollbackReason,
			"Service deployment rolled back because the circuit breaker threshold was exceeded.")
		expect(t, "at", [2]time.Time{r.RollbackAt, r.UpdatedAt}, [2]time.Time{noon, noon})
		expect(t, "nothing to return to", p.Next.Last == nil, true)
		var older []string
		for _, o := range p.Next.Older {
			older = append(older, o.ID+" "+string(o.State))
		}
		expect(t, "older", slices.Equal(older, []string{"ecs-svc/a FAILED", "ecs-svc/c FAILED"}), true)
		expect(t, "tasks that it keeps", p.Next.Older[0].Desired <= 1, true)
	})
	t.Run("ARollbackKeepsTheCountOfTheBreaker", func(t *testing.T) {
		in := began()
		r := in.Service.Release
		r.Status, r.RollbackTo, r.Failures, r.Threshold = cluster.DeploymentRollbackInProgress, "ecs-svc/a", 7, 5
		r = Reconcile(in).Next.Release
		expect(t, "status", r.Status, cluster.DeploymentRollbackInProgress)
		expect(t, "failures", [2]int{r.Failures, r.Threshold}, [2]int{7, 5})
	})
	t.Run("ARollbackThatFails", func(t *testing.T) {
		in := broken(true)
		in.Service.Last = nil
		in.Service.Release.Status, in.Service.Release.RollbackTo = cluster.DeploymentRollbackInProgress, "ecs-svc/a"
		expect(t, "status", Reconcile(in).Next.Release.Status, cluster.DeploymentRollbackFailed)
	})
	t.Run("OnRequest", func(t *testing.T) {
		in := began()
		in.Service.Release.Stop = cluster.StopRollback
		p := Reconcile(in)
		r := p.Next.Release
		expect(t, "why", r.RollbackReason, "Service deployment rolled back because of a request to stop it.")
		expect(t, "stopped", r.StoppedAt, noon)
		expect(t, "reason of the old one", p.Next.Older[0].Reason, "ECS deployment ecs-svc/a was stopped.")
		expect(t, "its state", p.Next.Older[0].State, cluster.RolloutFailed)
		expect(t, "reason", p.Next.Deployment.Reason,
			"ECS deployment rollback requested: rolling back to deploymentId ecs-svc/b.")
	})
	t.Run("NotOnceItHasCompleted", func(t *testing.T) {
		in := broken(false)
		in.Service.Deployment.State = cluster.RolloutCompleted
		expect(t, "state", Reconcile(in).Next.Deployment.State, cluster.RolloutCompleted)
	})
	t.Run("NotOfADeletedService", func(t *testing.T) {
		in := broken(false)
		in.Service.Status = cluster.ServiceDraining
		expect(t, "state", Reconcile(in).Next.Deployment.State, cluster.RolloutInProgress)
	})
	t.Run("WithoutARecord", func(t *testing.T) {
		in := broken(true)
		in.Service.Release = nil
		expect(t, "primary", Reconcile(in).Next.Deployment.ID, "ecs-svc/b")
		in.Service.Breaker.Rollback = false
		expect(t, "state", Reconcile(in).Next.Deployment.State, cluster.RolloutFailed)
	})
}

// The circuit breaker counts failed starts of the PRIMARY revision only. A task that has become
// healthy since the last count starts it again, unless the breaker is cumulative (S8).
func TestFailuresAreCounted(t *testing.T) {
	count := func(change func(*Input)) int {
		in := deploying(with(4, 50, 200, newTask("t1"), newTask("t2"), newTask("t3", failedStart)), 1)
		in.Service.Deployment.Failed, in.Service.Deployment.Healthy = 5, 1
		change(&in)
		return Reconcile(in).Next.Deployment.Failed
	}
	expect(t, "failures", count(func(*Input) {}), 6)
	expect(t, "of an older revision", count(func(in *Input) { in.Tasks[2].Revision = "ecs-svc/b" }), 5)
	expect(t, "counted before", count(func(in *Input) { in.Tasks[2].Counted = true }), 5)
	one := func(in *Input) { in.Service.Deployment.Healthy = 0 }
	expect(t, "after one became healthy", count(one), 1)
	expect(t, "of a cumulative breaker", count(func(in *Input) { one(in); in.Service.Breaker.Cumulative = true }), 6)
	expect(t, "after an unhealthy one", count(func(in *Input) { one(in); in.Tasks[1].Health = cluster.Unhealthy }), 7)
}

// A deployment is completed once all its tasks are up and no others are left, those that are being
// stopped included; or as many as the criteria for early success ask for.
func TestCompletion(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Input)
		want   bool
	}{
		{"AllAreUp", func(*Input) {}, true},
		{"OneIsMissing", func(in *Input) { in.Service.Desired = 5 }, false},
		{"OneIsPending", func(in *Input) { pendingTask(in.Tasks[0]) }, false},
		{"OneOfTheOldIsLeft", func(in *Input) {
			in.Tasks = append(in.Tasks,
				newTask("t9"))
			in.Tasks[4].Revision = "ecs-svc/b"
		}, false},
		{"OneOfTheOldIsStopping", func(in *Input) {
			in.Tasks = append(in.Tasks, newTask("t9", stoppingTask))
			in.Tasks[4].Revision = "ecs-svc/b"
		}, false},
		{"HalfAreEnough", func(in *Input) {
			in.Service.Early = cluster.EarlySuccess{Enable: true, Percent: 50}
			pendingTask(in.Tasks[0])
			pendingTask(in.Tasks[1])
		}, true},
		{"HalfAreNotThere", func(in *Input) {
			in.Service.Early = cluster.EarlySuccess{Enable: true, Percent: 50}
			pendingTask(in.Tasks[0])
			pendingTask(in.Tasks[1])
			pendingTask(in.Tasks[2])
		}, false},
		{"AProtectedTaskAndItsReplacementAreOne", func(in *Input) {
			in.Service.Early = cluster.EarlySuccess{Enable: true, Percent: 75}
			in.Tasks = append(in.Tasks, newTask("t5", replacing("t1")))
			pendingTask(in.Tasks[2])
			pendingTask(in.Tasks[3])
			in.ProtectedUntil = func(string) time.Time { return noon.Add(time.Hour) }
		}, false},
		{"AndTwoWhereTheReplacementMayStayAsWell", func(in *Input) {
			in.Service.Early = cluster.EarlySuccess{Enable: true, Percent: 75}
			in.Tasks[2].Replaces = in.Tasks[1].ID
			in.Tasks = in.Tasks[:3]
		}, true},
		{"AReplacedTaskThatThisPlanStopsIsNotCounted", func(in *Input) {
			in.Service.Early = cluster.EarlySuccess{Enable: true, Percent: 100}
			in.Tasks = append(in.Tasks, newTask("t5", replacing("t1")))
			pendingTask(in.Tasks[3])
		}, false},
		{"ItsReplacementIs", func(in *Input) {
			in.Service.Early = cluster.EarlySuccess{Enable: true, Percent: 75}
			in.Tasks = append(in.Tasks, newTask("t5", replacing("t1")))
			pendingTask(in.Tasks[3])
		}, true},
		{"ADrainingTaskThatThisPlanStopsIsNotCounted", func(in *Input) {
			in.Service.Early = cluster.EarlySuccess{Enable: true, Percent: 100}
			in.Service.MaxPercent = 100
			*in = drainingHosts(*in, "t1")
		}, false},
		{"AThirdIsRoundedUp", func(in *Input) {
			in.Service.Early = cluster.EarlySuccess{Enable: true, Percent: 30}
			for _, task := range in.Tasks[:3] {
				pendingTask(task)
			}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := deploying(with(4, 50, 200, newTask("t1"), newTask("t2"), newTask("t3"), newTask("t4")), 0)
			in.Service.Older[0].Desired = 0
			c.change(&in)
			next := Reconcile(in).Next
			expect(t, "completed", next.Deployment.IsCompleted(), c.want)
			if c.want {
				expect(t, "reason", next.Deployment.Reason, "ECS deployment ecs-svc/a completed.")
				expect(t, "nothing to return to", next.Last == nil, true)
				expect(t, "status", next.Release.Status, cluster.DeploymentSuccessful)
			}
		})
	}
}

// An event with a key is repeated after six hours while its cause lasts, and at once when the cause
// is back after it was over (S12). Keys of placement are left to it.
func TestEventsAreNotRepeated(t *testing.T) {
	in := with(2, 100, 200, newTask("t1", unhealthyTask), newTask("t2"))
	emitted := func(ago time.Duration) int {
		in.Service.EmittedKeys = map[string]time.Time{"unhealthy/t1": noon.Add(-ago), "place/x": noon,
			"unhealthy/t9": noon}
		return len(Reconcile(in).EventsBefore)
	}
	expect(t, "within six hours", emitted(6*time.Hour-time.Second), 0)
	expect(t, "after six hours", emitted(6*time.Hour), 1)
	next := Reconcile(in).Next
	expect(t, "keys", len(next.EmittedKeys), 2)
	expect(t, "key of this event", next.EmittedKeys["unhealthy/t1"], noon)
	expect(t, "key of placement", next.EmittedKeys["place/x"], noon)
	expect(t, "keys of the row that was given", in.Service.EmittedKeys["unhealthy/t1"], noon.Add(-6*time.Hour))
}

// maximumOf makes a service without a deployment in progress, which wants four tasks and has two, start no more
// than the percentage of them.
func maximumOf(percent int) func(*Input) {
	return func(in *Input) {
		in.Service.Deployment.State, in.Service.Older = cluster.RolloutCompleted, nil
		in.Service.Desired, in.Service.MinHealthy, in.Service.MaxPercent = 4, 0, percent
		for _, t := range in.Tasks {
			t.Revision = in.Service.Deployment.ID
		}
	}
}

// The event about a deployment that is stuck comes only while nothing can change it: percentages
// forbid a start and a stop, and no task may still become healthy.
func TestStuckDeployment(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Input)
		want   bool
	}{
		{"Stuck", func(*Input) {}, true},
		{"MaximumLeavesRoom", func(in *Input) { in.Service.MaxPercent = 150 }, false},
		{"MinimumLeavesRoom", func(in *Input) { in.Service.MinHealthy = 50 }, false},
		{"NotInARollout", func(in *Input) { in.Service.Deployment.State = cluster.RolloutFailed }, false},
		{"TheRolloutIsOver", func(in *Input) { in.Service.Deployment.State = cluster.RolloutCompleted }, false},
		{"ATaskIsStopping", func(in *Input) { in.Tasks = append(in.Tasks, newTask("t3", stoppingTask)) }, false},
		{"ATaskMayBecomeHealthy", func(in *Input) { in.Tasks[1].Started = cluster.At(noon.Add(-time.Second)) }, false},
		{"StartsAreDelayed", func(in *Input) { *in = throttled(*in, "ecs-svc/a", 1, time.Minute) }, false},
		{"DeletedService", func(in *Input) { in.Service.Status = cluster.ServiceDraining }, false},
		{"TheMaximumIsTooSmallForAllTasks", maximumOf(50), true},
		{"TheMaximumIsTooSmallAndATaskIsStopping", func(in *Input) {
			maximumOf(50)(in)
			in.Tasks = append(in.Tasks, newTask("t3", stoppingTask))
		}, false},
		{"TheMaximumLeavesRoomForAllTasks", maximumOf(100), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := deploying(with(2, 100, 100, newTask("t1"), newTask("t2")), 2)
			c.change(&in)
			stuck := slices.ContainsFunc(Reconcile(in).EventsAfter, func(e Event) bool {
				return e.Message == DeploymentStuckMessage("web") || e.Message == MaximumTooSmallMessage("web", 4, 50, 2)
			})
			expect(t, "stuck", stuck, c.want)
		})
	}
}

// Tasks that wait for room do not make the service say that protected tasks should stop: those on no
// draining instance are to stay (S5).
func TestProtectedTasksThatStayAreNotReported(t *testing.T) {
	in := protecting(with(3, 0, 200, newTask("t1"), newTask("t2"), newTask("t3", waitingTask)), "t1", "t2")
	in.Service.Blocked, in.Service.BlockedSince = &cluster.Diagnosis{Evaluated: 2}, noon.Add(-time.Hour)
	expect(t, "event", messages(Reconcile(in)), "")
	expect(t, "event while one is draining", strings.Count(messages(Reconcile(drainingHosts(in, "t1"))),
		"1 tasks under protection"), 1)
}

// An event says how many of the tasks that should stop are protected, no more than should (S5).
func TestProtectedTasksAreReported(t *testing.T) {
	for _, c := range []struct {
		name      string
		desired   int
		protected []string
		want      string
	}{
		{"OneOfThree", 1, []string{"t1", "t2", "t3"}, "2 tasks under protection"},
		{"AllThatAre", 0, []string{"t1"}, "1 tasks under protection"},
		{"NoneThatAre", 1, nil, ""},
		{"NoneTooMany", 3, []string{"t1"}, ""},
		{"OthersCanStop", 2, []string{"t1"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := with(c.desired, 0, 200, newTask("t1"), newTask("t2"), newTask("t3"))
			in.ProtectedUntil = func(id string) time.Time {
				if slices.Contains(c.protected, id) {
					return noon.Add(time.Hour)
				}
				return noon
			}
			want := ""
			if c.want != "" {
				want = "was unable to reach steady state because (taskSet ecs-svc/a) was unable to scale in due to (reason " + c.want + ")"
			}
			p := Reconcile(in)
			expect(t, "event", messages(p), want)
			expect(t, "looks again", !p.ReconsiderAt.IsZero(), len(c.protected) > 0 && c.desired < 3)
		})
	}
}
