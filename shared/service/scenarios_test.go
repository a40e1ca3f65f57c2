package service

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"berth/shared/cluster"
)

// A bad revision whose tasks all become unhealthy at once makes the checks of the whole cluster
// look wrong. Its circuit breaker must still trip.
func TestBreakerTripsWhileChecksAreDistrusted(t *testing.T) {
	w := newWorld(t, 30)
	w.checked = true
	w.service.MinHealthy, w.service.MaxPercent = 50, 150
	w.service.Breaker = cluster.CircuitBreaker{Enable: true, Rollback: true}
	w.rest(40)
	expect(t, "first completed", w.service.Deployment.IsCompleted(), true)
	w.deploy("b")
	w.unhealthy["ecs-svc/b"] = true
	for range 2000 {
		un, all := 0, 0
		for _, x := range w.tasks {
			if x.IsActive() && x.Last == cluster.TaskRunning {
				all++
				if x.Health == cluster.Unhealthy {
					un++
				}
			}
		}
		w.distrusted = un > 10 && 100*un > 50*all
		w.step()
		w.pass(5 * time.Second)
	}
	expect(t, "rolled back", w.service.Deployment.ID, "ecs-svc/a")
}

func TestServiceRowStaysSmall(t *testing.T) {
	w := newWorld(t, 5000)
	w.checked = true
	w.rest(10)
	for id := range w.tasks {
		x := *w.tasks[id]
		x.ID = cluster.TaskID("berth/"+id, "i"+id)
		x.Health = cluster.Unhealthy
		delete(w.tasks, id)
		w.tasks[x.ID] = &x
	}
	w.distrusted = true
	w.now = w.now.Add(123456789)
	p := w.step()
	b, _ := json.Marshal(p.Next)
	expect(t, "row below 400 KB", len(b) < 400<<10, true)
	expect(t, "events at most the ring", len(p.EventsBefore) <= 100, true)
}

// Failures of a's tasks while a was an older deployment do not count against the rollback to it.
func TestRollbackStartsWithNoFailures(t *testing.T) {
	w := at(t, 4)
	w.service.Breaker = cluster.CircuitBreaker{Enable: true, Rollback: true}
	w.deploy("b")
	w.broken["ecs-svc/b"] = true
	// the registry is down for a while, so a's replacements fail, too
	for n := range 3 {
		id := fmt.Sprintf("old%d", n)
		w.tasks[id] = &cluster.Task{
			TaskSpec: cluster.TaskSpec{
				ID: id, Owner: "web", Revision: "ecs-svc/a", TaskDefinition: "web:a", CreatedAt: cluster.At(w.now),
			},
			TaskAssignment: cluster.TaskAssignment{
				Instance: "i1", Desired: cluster.TaskRunning, ClaimedAt: cluster.At(w.now),
			},
			TaskReport: cluster.TaskReport{Last: cluster.TaskStopped, Stopped: cluster.At(w.now)},
		}
	}
	for range 400 {
		w.step()
		if w.service.Deployment.ID == "ecs-svc/a" {
			break
		}
		w.pass(5 * time.Second)
	}
	expect(t, "rolled back to", w.service.Deployment.ID, "ecs-svc/a")
	w.pass(5 * time.Second)
	w.step()
	expect(t, "not failed", w.service.Deployment.State != cluster.RolloutFailed, true)
}

// While checks are distrusted, a rollout with maximumPercent 100 must not stop all of the unhealthy
// tasks at once.
func TestDistrustedTasksCountForMinimumHealthyPercent(t *testing.T) {
	w := newWorld(t, 20)
	w.service.MinHealthy, w.service.MaxPercent = 50, 100
	w.checked = true
	w.rest(20)
	for id := range w.tasks {
		w.set(id, func(t *cluster.Task) { t.Health = cluster.Unhealthy })
	}
	w.distrusted = true
	w.deploy("b")
	p := w.step()
	n := len(p.Stops)
	for _, c := range p.Choices {
		n += c.Count
	}
	expect(t, "stops", n <= 10, true)
}

func TestRollbackByAlarmStartsWithNoFailures(t *testing.T) {
	w := at(t, 4)
	w.service.Breaker = cluster.CircuitBreaker{Enable: true, Rollback: true}
	w.service.Alarms = cluster.DeploymentAlarms{Enable: true, Rollback: true, Names: []string{"x"}}
	w.deploy("b")
	w.step()
	w.pass(time.Second)
	for n := range 3 { // replacements of a's own tasks that did not start, an hour ago at most
		id := fmt.Sprintf("old%d", n)
		w.tasks[id] = &cluster.Task{
			TaskSpec: cluster.TaskSpec{
				ID: id, Owner: "web", Revision: "ecs-svc/a", TaskDefinition: "web:a", CreatedAt: cluster.At(w.now),
			},
			TaskAssignment: cluster.TaskAssignment{
				Instance: "i1", Desired: cluster.TaskRunning, ClaimedAt: cluster.At(w.now),
			},
			TaskReport: cluster.TaskReport{Last: cluster.TaskStopped, Stopped: cluster.At(w.now)},
		}
	}
	w.step()
	w.pass(time.Minute)
	w.step() // b's are healthy: a's stop
	w.pass(time.Second)
	w.alarms = &cluster.AlarmWatch{Deployment: "ecs-svc/b", InAlarm: []string{"x"}, Bake: time.Minute}
	w.step()
	expect(t, "rolled back to", w.service.Deployment.ID, "ecs-svc/a")
	for range 50 {
		w.pass(5 * time.Second)
		w.step()
	}
	expect(t, "not failed", w.service.Deployment.State != cluster.RolloutFailed, true)
}

// After a few failed starts the missing daemons are of the old revision. The new revision must
// still be retried.
func TestDaemonRetriesTheNewRevision(t *testing.T) {
	w := newWorld(t, 0)
	w.service.Strategy, w.service.MinHealthy, w.service.MaxPercent = cluster.Daemon, 90, 100
	w.service.Breaker = cluster.CircuitBreaker{Enable: true, Rollback: true}
	for i := range 20 {
		w.eligible = append(w.eligible, fmt.Sprintf("i%02d", i))
	}
	w.rest(40)
	w.pass(time.Minute)
	expect(t, "completed", w.service.Deployment.IsCompleted(), true)
	w.deploy("b")
	w.broken["ecs-svc/b"] = true
	last := w.now
	begun := w.now
	for range 5000 {
		if p := w.step(); len(p.Starts) > 0 && p.Starts[0].Revision.ID == "ecs-svc/b" {
			last = w.now
		}
		w.pass(5 * time.Second)
	}
	expect(t, "tried again or failed", last.Sub(begun) > time.Hour || w.service.Deployment.ID == "ecs-svc/a", true)
}

// A protected task on a draining instance, or an unhealthy one, stays until its protection expires.
func TestReconsidersWhenProtectionExpires(t *testing.T) {
	for _, isUnhealthy := range []bool{false, true} {
		w := at(t, 2)
		id := w.ids()[0]
		w.protect[id] = w.now.Add(2 * time.Hour)
		if isUnhealthy {
			w.set(id, func(t *cluster.Task) { t.Health = cluster.Unhealthy })
		} else {
			w.set(id, func(t *cluster.Task) { t.Instance = "leaving" })
			w.hosts["leaving"] = InstanceDraining
		}
		var p Plan
		for range 40 {
			p = w.step()
			w.pass(5 * time.Second)
		}
		if p.ReconsiderAt.IsZero() {
			t.Errorf("unhealthy %v: nothing reconsiders the service when the protection expires", isUnhealthy)
		}
	}
}

// Tasks on lost instances are replaced even while the health checks of others are distrusted.
func TestLostTasksAreReplacedWhileChecksAreDistrusted(t *testing.T) {
	w := at(t, 10)
	for _, id := range w.ids()[:3] {
		w.set(id, func(t *cluster.Task) { t.Instance = "away" })
	}
	w.hosts["away"] = InstanceTimedOut
	w.distrusted = true
	starts := 0
	for range 100 {
		p := w.step()
		for _, s := range p.Starts {
			starts += s.Count
		}
		w.pass(5 * time.Second)
	}
	expect(t, "starts", starts, 3)
}

// While checks are distrusted, an unhealthy task is not replaced because the replacement of a lost one
// has yet to become healthy.
func TestUnhealthyTasksStayBesideTheReplacementOfALostOne(t *testing.T) {
	tasks := []*cluster.Task{newTask("t1"), newTask("t2", healthyTask), newTask("t3", pendingTask)}
	for _, id := range []string{"u1", "u2", "u3", "u4", "u5"} {
		tasks = append(tasks, newTask(id, unhealthyTask))
	}
	in := hostsIn(with(7, 100, 200, tasks...), InstanceTimedOut, "t1")
	in.DistrustChecks = true
	expect(t, "plan", says(Reconcile(in)), "")
	in.Tasks = slices.Delete(in.Tasks, 2, 3)
	expect(t, "plan without the replacement", says(Reconcile(in)), "start")
}

// ReplacePercent bounds replacements of unhealthy tasks. It does not bound replacements of tasks
// whose instance is disconnected.
func TestReplacePercentDoesNotBoundLostTasks(t *testing.T) {
	w := at(t, 10)
	w.checked = true
	for _, id := range w.ids() {
		w.set(id, func(t *cluster.Task) { t.Health = cluster.Healthy })
	}
	for n, id := range w.ids()[:8] {
		w.set(id, func(t *cluster.Task) {
			if t.Instance = "away"; n >= 5 {
				t.Instance, t.Health = "i0", cluster.Unhealthy
			}
		})
	}
	w.hosts["away"] = InstanceTimedOut
	p := w.step()
	expect(t, "starts", p.Starts[0].Count, 7) // 5, and a fifth of the service's tasks
	expect(t, "of them for unhealthy ones", p.Starts[0].ReplacesUnhealthy, 2)
}

// If the start of a missing task takes the room that maximumPercent leaves, a task on a draining
// instance stops in the same plan, because nothing would wake placement for it later.
func TestDrainingTaskStopsWhenAnotherStartTakesItsRoom(t *testing.T) {
	w := at(t, 4)
	w.service.MinHealthy, w.service.MaxPercent = 0, 100
	ids := w.ids()
	w.set(ids[0], func(t *cluster.Task) { t.Instance = "leaving" })
	w.hosts["leaving"] = InstanceDraining
	w.die(ids[1])
	w.now = w.now.Add(time.Minute)
	p := w.step()
	expect(t, "stops", len(p.Stops), 1)
	expect(t, "of", p.Stops[0].Task.ID, ids[0])
}

// Tasks that are being stopped on a disconnected instance delay neither the replacement of
// unhealthy tasks nor a deployment.
func TestStoppingTasksOnLostInstancesAreNotWaitedFor(t *testing.T) {
	w := newWorld(t, 4)
	w.checked = true
	w.service.MinHealthy, w.service.MaxPercent = 50, 100
	w.rest(20)
	ids := w.ids()
	w.set(ids[0], func(t *cluster.Task) { t.Instance = "away" })
	w.hosts["away"] = InstanceTimedOut
	w.rest(20)
	expect(t, "being stopped", w.tasks[ids[0]].Desired, cluster.TaskStopped)
	w.set(ids[1], func(t *cluster.Task) { t.Health = cluster.Unhealthy })
	w.rest(20)
	expect(t, "the unhealthy one", w.tasks[ids[1]].IsActive(), false)
	w.deploy("b")
	w.rest(60)
	expect(t, "completed", w.service.Deployment.IsCompleted(), true)
	expect(t, "older", len(w.service.Older), 0)
}

// After an early success with deferred clean-up the older tasks stop, too.
func TestDeferredEarlySuccessStopsOlderTasksLater(t *testing.T) {
	w := at(t, 10)
	w.service.Early = cluster.EarlySuccess{Enable: true, Percent: 100, Deferred: true}
	w.deploy("b")
	for range 400 {
		w.step()
		w.pass(5 * time.Second)
	}
	expect(t, "b", w.running()["ecs-svc/b"], 10)
	expect(t, "a", w.running()["ecs-svc/a"], 0)
}

// A grace period delays what the circuit breaker counts, but does not prevent it.
func TestGracePeriodOnlyDelaysTheBreaker(t *testing.T) {
	w := newWorld(t, 2)
	w.checked = true
	w.service.Grace = 60
	w.service.Breaker = cluster.CircuitBreaker{Enable: true, Rollback: true}
	w.rest(20)
	w.pass(2 * time.Minute)
	w.step()
	expect(t, "done", w.service.Deployment.IsCompleted(), true)
	w.deploy("b")
	w.unhealthy["ecs-svc/b"] = true
	n := 0
	for range 1000 {
		w.step()
		n++
		if w.service.Deployment.ID == "ecs-svc/a" {
			break
		}
		w.pass(5 * time.Second)
	}
	expect(t, "rolled back", w.service.Deployment.ID, "ecs-svc/a")
}

// Protected tasks of the old revision stay until their protection expires.
func TestProtectedTasksStayUntilProtectionExpires(t *testing.T) {
	w := at(t, 4)
	for _, id := range w.ids() {
		w.protect[id] = w.now.Add(20 * time.Minute)
	}
	w.deploy("b")
	for range 30 {
		w.step()
		w.pass(5 * time.Second)
	}
	s := *w.service
	s.Desired = 2
	w.service = &s
	for range 30 {
		w.step()
		w.pass(5 * time.Second)
	}
	var p Plan
	for range 400 {
		p = w.step()
		if !p.ReconsiderAt.IsZero() && idle(p) {
			w.pass(p.ReconsiderAt.Sub(w.now))
			continue
		}
		w.pass(5 * time.Second)
	}
	expect(t, "b", w.running()["ecs-svc/b"], 2)
	expect(t, "a", w.running()["ecs-svc/a"], 0)
}

// A task that its target group refuses counts as failed after two minutes. Before, its instance may
// just be terminating.
func TestRefusedRegistrationCountsAsFailure(t *testing.T) {
	in := with(1, 100, 200, newTask("t1", func(t *cluster.Task) { t.Started = cluster.At(noon.Add(-time.Minute)) }))
	in.Service.Deployment.State = cluster.RolloutInProgress
	in.Service.Deployment.LoadBalancers = []cluster.LoadBalancer{{TargetGroup: "arn:tg", Container: "web", Port: 80}}
	target := &cluster.Target{Task: "t1", Owner: "web",
		Registrations: []cluster.Registration{{ARN: "arn:tg", State: cluster.RegistrationFailed,
			Reason: "TargetGroupNotFound"}}}
	in.Target = func(string) *cluster.Target { return target }
	p := Reconcile(in)
	expect(t, "counted at once", len(p.CountedFailures), 0)
	expect(t, "emitted", p.EventsAfter[0].Message,
		"(service web) failed to register targets in (target-group arn:tg) with (error TargetGroupNotFound)")
	in.Now = p.ReconsiderAt
	in.Service = p.Next
	p = Reconcile(in)
	expect(t, "counted", p.Next.Deployment.Failed, 1)
	expect(t, "emitted again", len(p.EventsAfter), 0)
}

// A RUNNING task clears the throttle's row, because the task's own row expires one day.
func TestRunningTaskClearsTheThrottle(t *testing.T) {
	in := with(1, 100, 200, newTask("t1"))
	in.Throttle = &cluster.Throttle{Owner: "web", Revisions: map[string]cluster.Backoff{
		"ecs-svc/a": {Step: 4, Failures: 4, Since: noon.Add(-2 * time.Hour), NextAttemptAt: noon.Add(-time.Hour)},
	}}
	expect(t, "unthrottled", Reconcile(in).ThrottleCleared, true)
	in.Tasks = nil
	expect(t, "unthrottled by nothing", Reconcile(in).ThrottleCleared, false)
}

// While most of the cluster looks unhealthy, a service behaves as if its own tasks were healthy.
func TestWhileChecksAreDistrusted(t *testing.T) {
	doubted := func(desired, minHealthy, maxPercent int) Input {
		in := with(desired, minHealthy, maxPercent, newTask("t1"), newTask("t2", unhealthyTask),
			newTask("t3", unhealthyTask))
		in.DistrustChecks = true
		return in
	}
	t.Run("NothingIsReplaced", func(t *testing.T) {
		expect(t, "plan", says(Reconcile(doubted(3, 100, 200))), "")
	})
	t.Run("TasksMayMove", func(t *testing.T) {
		expect(t, "moves", Reconcile(doubted(3, 100, 200)).Moves.StartFirst, 3)
		// one of three is healthy
		expect(t, "moves of tasks that stop first", Reconcile(doubted(3, 50, 100)).Moves.StopFirst, 0)
	})
	t.Run("SurplusTasksStopForScaling", func(t *testing.T) {
		p := Reconcile(doubted(1, 100, 200))
		expect(t, "stops", len(p.Stops), 2)
		for _, s := range p.Stops {
			expect(t, "reason", s.Reason, "Scaling activity initiated by (deployment ecs-svc/a)")
		}
	})
	for name, of := range map[string]struct {
		host   InstanceState
		reason string
	}{
		"ADrainingInstanceIsLeft": {InstanceDraining, drainingReason},
		"ALostInstanceIsLeft": {InstanceTimedOut,
			"The agent of its container instance has been disconnected for too long."},
	} {
		t.Run(name, func(t *testing.T) {
			host := func(id string) InstanceState {
				if id == "i-t3" {
					return of.host
				}
				return InstanceUsable
			}
			in := doubted(3, 100, 200)
			in.InstanceState = host
			expect(t, "plan", says(Reconcile(in)), "start")
			for seed := range uint64(20) { // whatever is drawn
				in.Seed = seed
				in.Tasks = append(in.Tasks[:3:3], newTask("t4"))
				p := Reconcile(in)
				expect(t, "plan", says(p), "stop t3")
				expect(t, "reason", p.Stops[0].Reason, of.reason)
			}
			in = doubted(3, 50, 100)
			in.InstanceState = host
			expect(t, "where nothing may start first", says(Reconcile(in)), "stop t3; start")
		})
	}
}

// An older deployment that never completed and has no running task is not retried. The new one may
// take long to start.
func TestAbandonedDeploymentStartsNothing(t *testing.T) {
	older := func(state cluster.RolloutState, tasks ...*cluster.Task) Input {
		in := with(2, 100, 200, append(tasks, newTask("b1", waitingTask, of("b")), newTask("b2", of("b")))...)
		old := in.Service.Deployment
		old.State, old.Desired = state, 1
		in.Service.Older = []cluster.Deployment{old}
		in.Service.Deployment = cluster.Deployment{Revision: cluster.Revision{ID: "ecs-svc/b", TaskDefinition: "web:b"},
			State: cluster.RolloutInProgress, Desired: 2}
		return in
	}
	failed := newTask("a1", func(t *cluster.Task) {
		t.Last, t.Started, t.Stopped, t.Counted = cluster.TaskStopped, 0, cluster.At(noon.Add(-time.Hour)), true
	})
	neverHealthy := newTask("a2", unhealthyTask)
	expect(t, "that failed to start", says(Reconcile(older(cluster.RolloutInProgress, failed))), "")
	expect(t, "that never was healthy", says(Reconcile(older(cluster.RolloutInProgress, neverHealthy))), "stop a2")
	expect(t, "that worked once", says(Reconcile(older(cluster.RolloutCompleted, failed))), "start")
	expect(t, "that still works", says(Reconcile(older(cluster.RolloutInProgress, newTask("a3"), failed))), "")
	expect(t, "that was cut off", says(Reconcile(older(cluster.RolloutInProgress))), "start")
}

func of(revision string) about {
	return func(t *cluster.Task) { t.Revision, t.TaskDefinition = "ecs-svc/"+revision, "web:"+revision }
}
