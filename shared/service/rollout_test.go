package service

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
)

func TestRollout(t *testing.T) {
	t.Run("StartsFirstThenStops", func(t *testing.T) {
		w := at(t, 4)
		w.deploy("b")
		p := w.step()
		expect(t, "starts", p.Starts[0].Count, 4)
		expect(t, "revision", p.Starts[0].Revision.ID, "ecs-svc/b")
		expect(t, "stops", len(p.Stops)+len(p.Choices), 0)
		w.pass(time.Second)
		expect(t, "stops before they count as healthy", len(w.step().Stops), 0)
		w.pass(40 * time.Second)
		expect(t, "stops", len(w.step().Stops), 4)
		w.rest(20)
		expect(t, "completed", w.service.Deployment.IsCompleted(), true)
		expect(t, "older", len(w.service.Older), 0)
		expect(t, "status", w.service.Release.Status, cluster.DeploymentSuccessful)
	})
	t.Run("StopsFirstWhereMaximumPercentIs100", func(t *testing.T) {
		w := newWorld(t, 4)
		w.service.MinHealthy, w.service.MaxPercent = 50, 100
		w.rest(20)
		w.pass(time.Minute)
		w.deploy("b")
		p := w.step()
		expect(t, "choice", p.Choices[0].Count, 2)
		expect(t, "starts", p.Starts[0].Count, 2)
		w.rest(40)
		expect(t, "new", w.running()["ecs-svc/b"], 4)
		expect(t, "completed", w.service.Deployment.IsCompleted(), true)
	})
	t.Run("ReportsAStuckDeployment", func(t *testing.T) {
		w := newWorld(t, 2)
		w.service.MinHealthy, w.service.MaxPercent = 75, 100
		w.rest(20)
		w.pass(time.Minute)
		w.deploy("b")
		p := w.step()
		expect(t, "idle", idle(p), true)
		expect(t, "emitted", w.emitted("Update the minimumHealthyPercent or maximumPercent value and try again."), true)
	})
	t.Run("EndedTasksAreReplacedByTheirOwnRevision", func(t *testing.T) {
		w := at(t, 4)
		w.broken["ecs-svc/b"] = true
		w.deploy("b")
		w.step()
		w.pass(time.Second)
		w.die(w.ids()[0])
		p := w.step()
		expect(t, "starts", len(p.Starts), 1)
		expect(t, "revision", p.Starts[0].Revision.ID, "ecs-svc/a")
	})
	t.Run("UnhealthyTasksAreReplacedByTheirOwnRevision", func(t *testing.T) {
		w := at(t, 4)
		w.broken["ecs-svc/b"] = true
		w.deploy("b")
		w.step()
		w.pass(time.Second)
		w.step()
		ill := w.ids()[0]
		expect(t, "revision of the unhealthy one", w.tasks[ill].Revision, "ecs-svc/a")
		w.set(ill, func(t *cluster.Task) { t.Health = cluster.Unhealthy })
		p := w.step()
		expect(t, "starts", len(p.Starts), 1)
		expect(t, "revision", p.Starts[0].Revision.ID, "ecs-svc/a")
		expect(t, "replaced", p.Starts[0].ReplacesUnhealthy, 1)
		expect(t, "stops", len(p.Stops)+len(p.Choices), 0)
	})
	t.Run("OldTasksStayWhileATaskThatJustEndedHasToWait", func(t *testing.T) {
		revision := func(id string) about {
			return func(t *cluster.Task) { t.Revision, t.TaskDefinition = "ecs-svc/"+id, "web:"+id }
		}
		for age, stops := range map[time.Duration]int{time.Second: 0, 10 * time.Second: 1} {
			in := with(4, 25, 100, newTask("t1"), newTask("t2", revision("b")), newTask("t3", revision("b")),
				newTask("t4", revision("b"), createdAgo(age), endedTask))
			old := in.Service.Deployment
			old.Desired = 1
			in.Service.Older = []cluster.Deployment{old}
			in.Service.Deployment.Revision = cluster.Revision{ID: "ecs-svc/b", TaskDefinition: "web:b"}
			in.Service.Deployment.State = cluster.RolloutInProgress
			p := Reconcile(in)
			n := len(p.Stops)
			for _, c := range p.Choices {
				n += c.Count
			}
			expect(t, fmt.Sprint("old tasks that stop for one that ended ", age, " after its start"), n, stops)
		}
	})
	t.Run("EarlySuccessDoesNotWaitForAll", func(t *testing.T) {
		for _, deferred := range []bool{true, false} {
			w := at(t, 4)
			w.service.MinHealthy, w.service.MaxPercent = 50, 150
			w.service.Early = cluster.EarlySuccess{Enable: true, Percent: 50, Deferred: deferred}
			w.deploy("b")
			w.step()
			w.pass(time.Minute)
			w.step()
			w.pass(50 * time.Second)
			p := w.step()
			expect(t, "completed at once", p.Next.Deployment.IsCompleted(), deferred)
			w.pass(time.Second)
			p = w.step()
			expect(t, "completed once the old ones have gone", p.Next.Deployment.IsCompleted(), true)
			w.rest(40)
			expect(t, "new", w.running()["ecs-svc/b"], 4)
			expect(t, "older", len(w.service.Older), 0)
		}
	})
	t.Run("ScaleOutReachesBothRevisions", func(t *testing.T) {
		w := at(t, 4)
		w.broken["ecs-svc/b"] = true
		w.deploy("b")
		w.step()
		w.pass(time.Second)
		w.service.Desired = 6
		p := w.step()
		expect(t, "starts", p.Starts[0].Count, 2)
		expect(t, "revision", p.Starts[0].Revision.ID, "ecs-svc/a")
	})
}

func TestCircuitBreaker(t *testing.T) {
	breaker := func(t *testing.T, rollback bool) *world {
		w := at(t, 2)
		w.service.Breaker = cluster.CircuitBreaker{Enable: true, Rollback: rollback}
		w.broken["ecs-svc/b"] = true
		w.deploy("b")
		return w
	}
	t.Run("RollsBackToTheLastCompletedRevision", func(t *testing.T) {
		w := breaker(t, true)
		w.rest(60)
		expect(t, "primary", w.service.Deployment.ID, "ecs-svc/a")
		expect(t, "completed", w.service.Deployment.IsCompleted(), true)
		expect(t, "status", w.service.Release.Status, cluster.DeploymentRollbackSuccessful)
		expect(t, "older", len(w.service.Older), 0)
		expect(t, "failed", w.emitted("(service web) (deployment ecs-svc/b) deployment failed: tasks failed to start."),
			true)
		expect(t, "back", w.emitted("(service web) rolling back to deployment ecs-svc/a."), true)
		expect(t, "running", w.running()["ecs-svc/a"], 2)
	})
	t.Run("NamesTheDeploymentWhoseTasksAreProtected", func(t *testing.T) {
		w := breaker(t, true)
		for range 60 {
			w.step()
			w.pass(5 * time.Second)
			if w.service.Release.RollbackTo != "" {
				break
			}
		}
		for _, id := range w.ids() {
			w.protect[id] = w.now.Add(time.Hour)
		}
		w.service.Desired = 1
		w.step()
		expect(t, "emitted", w.emitted("(taskSet ecs-svc/a) was unable to scale in"), true)
		expect(t, "unnamed", w.emitted("(taskSet )"), false)
	})
	t.Run("StallsWithoutRollback", func(t *testing.T) {
		w := breaker(t, false)
		w.rest(60)
		expect(t, "state", w.service.Deployment.State, cluster.RolloutFailed)
		expect(t, "status", w.service.Release.Status, cluster.DeploymentStopped)
		expect(t, "old", w.running()["ecs-svc/a"], 2)
		w.die(w.ids()[0])
		p := w.step()
		expect(t, "starts", p.Starts[0].Revision.ID, "ecs-svc/a")
	})
	t.Run("ScalesInWithinMaximumPercentOnceStopped", func(t *testing.T) {
		w := at(t, 6)
		w.service.MinHealthy, w.service.MaxPercent = 100, 150
		w.deploy("b")
		w.step()
		w.pass(time.Second)
		w.service.Release.Stop = cluster.StopAbort
		w.step()
		expect(t, "state", w.service.Deployment.State, cluster.RolloutFailed)
		w.service.Desired = 5
		w.rest(20)
		expect(t, "old", w.running()["ecs-svc/a"], 5)
		expect(t, "new", w.running()["ecs-svc/b"], 2)
		w.service.Desired = 1
		w.rest(20)
		expect(t, "old", w.running()["ecs-svc/a"], 1)
		expect(t, "new", w.running()["ecs-svc/b"], 0)
	})
	t.Run("StallsIfNothingEverCompleted", func(t *testing.T) {
		w := newWorld(t, 2)
		w.service.Breaker = cluster.CircuitBreaker{Enable: true, Rollback: true}
		w.broken["ecs-svc/a"] = true
		w.rest(60)
		expect(t, "state", w.service.Deployment.State, cluster.RolloutFailed)
		expect(t, "starts", len(w.step().Starts), 0)
	})
	t.Run("CountsUnhealthyTasks", func(t *testing.T) {
		w := newWorld(t, 2)
		w.checked = true
		w.rest(20)
		w.service.Breaker = cluster.CircuitBreaker{Enable: true, Rollback: true}
		w.unhealthy["ecs-svc/b"] = true
		w.deploy("b")
		w.rest(200)
		expect(t, "primary", w.service.Deployment.ID, "ecs-svc/a")
		expect(t, "healthy", w.running()["ecs-svc/a"], 2)
		expect(t, "unhealthy", w.running()["ecs-svc/b"], 0)
	})
	t.Run("Thresholds", func(t *testing.T) {
		b := func(kind cluster.ThresholdType, value int) cluster.CircuitBreaker {
			return cluster.CircuitBreaker{Type: kind, Value: value}
		}
		expect(t, "1", Threshold(b("", 0), 1), 3)
		expect(t, "25", Threshold(b("", 0), 25), 13)
		expect(t, "400", Threshold(b("", 0), 400), 200)
		expect(t, "count", Threshold(b(cluster.ThresholdCount, 7), 400), 7)
		expect(t, "unbounded", Threshold(b(cluster.ThresholdUnboundedPercent, 75), 400), 300)
		expect(t, "bounded", Threshold(b(cluster.ThresholdBoundedPercent, 10), 10), 3)
	})
}

func TestAlarms(t *testing.T) {
	alarmed := func(t *testing.T) *world {
		w := at(t, 2)
		w.service.Alarms = cluster.DeploymentAlarms{Names: []string{"errors"}, Enable: true, Rollback: true}
		w.deploy("b")
		w.alarms = &cluster.AlarmWatch{Deployment: "ecs-svc/b", Bake: 10 * time.Minute}
		return w
	}
	t.Run("AreWatchedThroughTheBakeTime", func(t *testing.T) {
		w := alarmed(t)
		began := w.now
		w.rest(60)
		expect(t, "completed", w.service.Deployment.IsCompleted(), true)
		expect(t, "baked", w.service.Deployment.UpdatedAt.Sub(began) >= 10*time.Minute, true)
	})
	t.Run("RollBack", func(t *testing.T) {
		w := alarmed(t)
		w.step()
		w.pass(time.Second)
		w.alarms = &cluster.AlarmWatch{Deployment: "ecs-svc/b", InAlarm: []string{"errors"}}
		w.rest(60)
		expect(t, "primary", w.service.Deployment.ID, "ecs-svc/a")
		expect(t, "status", w.service.Release.Status, cluster.DeploymentRollbackSuccessful)
		expect(t, "failed", w.emitted("deployment failed: alarm detected."), true)
	})
	t.Run("AreIgnoredIfOneWasOnAtTheStart", func(t *testing.T) {
		w := alarmed(t)
		w.alarms = &cluster.AlarmWatch{Deployment: "ecs-svc/b", InAlarm: []string{"errors"}, Ignored: true}
		w.rest(60)
		expect(t, "completed", w.service.Deployment.IsCompleted(), true)
	})
	t.Run("MissingAlarmsAreReportedOnce", func(t *testing.T) {
		w := alarmed(t)
		w.alarms.Missing = []string{"erors", "lateny"}
		var emitted int
		count := func() {
			p := w.step()
			emitted += len(slices.DeleteFunc(p.EventsAfter, func(e Event) bool {
				return e.Message != "(service web) (deployment ecs-svc/b) has alarms that do not exist: erors, lateny."
			}))
		}
		for range 30 {
			count()
			w.pass(time.Minute)
		}
		expect(t, "completed", w.service.Deployment.IsCompleted(), true)
		expect(t, "times", emitted, 1)
		for range 30 {
			w.pass(time.Hour)
			count()
		}
		expect(t, "times, later", emitted, 1)
	})
	t.Run("NothingCompletesBeforeTheyWereObserved", func(t *testing.T) {
		w := alarmed(t)
		w.alarms = nil
		w.rest(60)
		expect(t, "completed", w.service.Deployment.IsCompleted(), false)
	})
}

func TestStopServiceDeployment(t *testing.T) {
	begun := func(t *testing.T, how cluster.StopType) *world {
		w := at(t, 2)
		w.deploy("b")
		w.step()
		w.pass(time.Minute)
		w.service.Release.Stop = how
		return w
	}
	t.Run("RollsBack", func(t *testing.T) {
		w := begun(t, cluster.StopRollback)
		w.rest(60)
		expect(t, "primary", w.service.Deployment.ID, "ecs-svc/a")
		expect(t, "status", w.service.Release.Status, cluster.DeploymentRollbackSuccessful)
	})
	t.Run("LeavesRunningTasks", func(t *testing.T) {
		w := begun(t, cluster.StopAbort)
		before := w.ids()
		w.rest(60)
		s := w.service
		expect(t, "primary", s.Deployment.ID, "ecs-svc/b")
		expect(t, "state", s.Deployment.State, cluster.RolloutFailed)
		expect(t, "reason", s.Deployment.Reason, "ECS deployment ecs-svc/b was stopped.")
		expect(t, "status", s.Release.Status, cluster.DeploymentStopped)
		expect(t, "stop", s.Release.Stop, cluster.StopType(""))
		expect(t, "emitted", w.emitted("(deployment ecs-svc/b) deployment failed: stopped on request."), true)
		// of both revisions together, more than are desired
		expect(t, "tasks", strings.Join(w.ids(), " "), strings.Join(before, " "))
		if len(before) <= s.Desired {
			t.Errorf("%d tasks ran when it was stopped, no more than desired", len(before))
		}
	})
}

func TestBackoffs(t *testing.T) {
	failed := func(w *world, after time.Duration) *cluster.Task {
		w.made++
		began := w.now
		w.now = w.now.Add(after)
		return &cluster.Task{
			TaskSpec:       cluster.TaskSpec{ID: string(rune('a' + w.made)), Revision: "ecs-svc/a"},
			TaskAssignment: cluster.TaskAssignment{Desired: cluster.TaskRunning, ClaimedAt: cluster.At(began)},
			TaskReport: cluster.TaskReport{
				Last: cluster.TaskStopped, Stopped: cluster.At(w.now), Reason: "CannotPullContainer",
			},
		}
	}
	t.Run("HoldMovesBack", func(t *testing.T) {
		w := newWorld(t, 3)
		w.rest(20)
		expect(t, "moves", w.step().Moves.StartFirst, 3)
		w.pass(time.Minute)
		x := failed(w, time.Second)
		x.Revision = w.service.Deployment.ID
		w.tasks[x.ID] = x
		p := w.step()
		expect(t, "moves and stops for moves while held back", [2]int{p.Moves.StartFirst, p.Moves.StopFirst}, [2]int{})
		expect(t, "looks again", p.ReconsiderAt.After(w.now), true)
		w.now = p.ReconsiderAt
		expect(t, "moves then", w.step().Moves.StartFirst, 1)
	})
	t.Run("HoldMovesBackAfterTheDeploymentHasFailed", func(t *testing.T) {
		in := throttled(with(2, 100, 200, newTask("t1"), newTask("t2")), "ecs-svc/a", 1, time.Minute)
		in.Service.Deployment.State = cluster.RolloutFailed
		p := Reconcile(in)
		expect(t, "moves while held back", p.Moves.StartFirst, 0)
		expect(t, "looks again", p.ReconsiderAt, noon.Add(time.Minute))
		in.Now = p.ReconsiderAt
		expect(t, "moves then", Reconcile(in).Moves.StartFirst, 1)
	})
	t.Run("GoOnFromRowsOfEarlierVersions", func(t *testing.T) {
		w := newWorld(t, 1)
		tasks := []*cluster.Task{failed(w, time.Second), failed(w, time.Minute), failed(w, time.Minute)}
		b := Backoffs(nil, tasks, testLimits, w.now)["ecs-svc/a"]
		b.Earlier, b.Settled = 0, time.Time{} // they had no such fields
		row := &cluster.Throttle{Revisions: map[string]cluster.Backoff{"ecs-svc/a": b}}
		w.now = b.NextAttemptAt
		next := failed(w, time.Second)
		for name, tasks := range map[string][]*cluster.Task{"with": append(tasks, next), "without": {next}} {
			expect(t, "failures "+name+" the rows of the earlier tasks",
				Backoffs(row, tasks, testLimits, w.now)["ecs-svc/a"].Failures, 4)
		}
	})
	t.Run("DoNotCountWhatLiesAhead", func(t *testing.T) {
		w := newWorld(t, 1)
		tasks := []*cluster.Task{failed(w, time.Second)}
		before := w.now.Add(-time.Hour) // the clock that wrote the report was an hour ahead
		expect(t, "backoffs of a report", len(Backoffs(nil, tasks, testLimits, before)), 0)
		row := &cluster.Throttle{Revisions: Backoffs(nil, tasks, testLimits, w.now)}
		expect(t, "backoffs", len(row.Revisions), 1)
		expect(t, "backoffs of a row", len(Backoffs(row, nil, testLimits, before)), 0)
		expect(t, "backoffs of a row, once its time has come", len(Backoffs(row, nil, testLimits, w.now)), 1)
	})
	t.Run("ClimbTheLadder", func(t *testing.T) {
		w := newWorld(t, 1)
		var tasks []*cluster.Task
		for i, want := range []int{1, 3, 9, 27, 27} {
			tasks = append(tasks, failed(w, time.Second))
			b := Backoffs(nil, tasks, testLimits, w.now)["ecs-svc/a"]
			expect(t, "step", b.Step, i+1)
			wait := b.NextAttemptAt.Sub(w.now).Minutes()
			if wait < 0.9*float64(want) || wait > 1.1*float64(want) {
				t.Errorf("step %d: %.2f minutes, want about %d", i+1, wait, want)
			}
			if wait > 27 {
				t.Errorf("step %d: %.2f minutes, which is above the most", i+1, wait)
			}
			w.now = b.NextAttemptAt
		}
	})
	t.Run("CountOneAttemptOnce", func(t *testing.T) {
		w := newWorld(t, 1)
		tasks := []*cluster.Task{failed(w, time.Second), failed(w, time.Second)}
		b := Backoffs(nil, tasks, testLimits, w.now)["ecs-svc/a"]
		expect(t, "step", b.Step, 1)
		expect(t, "failures", b.Failures, 2)
		row := &cluster.Throttle{Revisions: map[string]cluster.Backoff{"ecs-svc/a": b}}
		expect(t, "the same again", Backoffs(row, tasks, testLimits, w.now)["ecs-svc/a"], b)
	})
	t.Run("CountSimultaneousFailuresOnce", func(t *testing.T) {
		w := newWorld(t, 1)
		tasks := []*cluster.Task{failed(w, time.Second), failed(w, 0), failed(w, 0)}
		row := &cluster.Throttle{Revisions: Backoffs(nil, tasks[1:2], testLimits, w.now)}
		expect(t, "failures of one", row.Revisions["ecs-svc/a"].Failures, 1)
		expect(t, "failures", Backoffs(nil, tasks, testLimits, w.now)["ecs-svc/a"].Failures, 3)
		expect(t, "failures, one after the other", Backoffs(row, tasks, testLimits, w.now)["ecs-svc/a"].Failures, 3)
	})
	t.Run("CountLateReports", func(t *testing.T) {
		w := newWorld(t, 1)
		tasks := []*cluster.Task{failed(w, time.Second), failed(w, time.Second), failed(w, time.Second)}
		row := &cluster.Throttle{Revisions: Backoffs(nil, tasks[2:], testLimits, w.now)}
		expect(t, "failures", Backoffs(row, tasks, testLimits, w.now)["ecs-svc/a"].Failures, 3)
	})
	t.Run("KeepCountingAfterTheFirstRowsExpired", func(t *testing.T) {
		w := newWorld(t, 1)
		row := &cluster.Throttle{}
		var tasks []*cluster.Task
		for n := range 20 { // seven hours or so
			tasks = append(tasks, failed(w, time.Second))
			tasks = slices.DeleteFunc(tasks,
				func(t *cluster.Task) bool { return w.now.Sub(t.Stopped.Time()) > time.Hour })
			row = &cluster.Throttle{Revisions: Backoffs(row, tasks, testLimits, w.now)}
			expect(t, "failures", row.Revisions["ecs-svc/a"].Failures, n+1)
			w.now = row.Revisions["ecs-svc/a"].NextAttemptAt
		}
	})
	t.Run("StartAgainAfterATaskThatRan", func(t *testing.T) {
		w := newWorld(t, 1)
		before := failed(w, time.Second)
		ran := &cluster.Task{
			TaskSpec:       cluster.TaskSpec{ID: "z", Revision: "ecs-svc/a"},
			TaskAssignment: cluster.TaskAssignment{Desired: cluster.TaskRunning},
			TaskReport:     cluster.TaskReport{Last: cluster.TaskRunning, Started: cluster.At(w.now.Add(time.Second))},
		}
		w.now = w.now.Add(time.Minute)
		tasks := []*cluster.Task{before, ran, failed(w, time.Second)}
		b := Backoffs(nil, tasks, testLimits, w.now)
		expect(t, "failures", b["ecs-svc/a"].Failures, 1)
		expect(t, "failures again", Backoffs(&cluster.Throttle{Revisions: b}, tasks, testLimits, w.now)["ecs-svc/a"].Failures,
			1)
	})
	t.Run("EndWithATaskThatRuns", func(t *testing.T) {
		w := newWorld(t, 1)
		tasks := []*cluster.Task{failed(w, time.Second)}
		row := &cluster.Throttle{Revisions: Backoffs(nil, tasks, testLimits, w.now)}
		tasks = append(tasks, &cluster.Task{
			TaskSpec:       cluster.TaskSpec{ID: "z", Revision: "ecs-svc/a"},
			TaskAssignment: cluster.TaskAssignment{Desired: cluster.TaskRunning},
			TaskReport:     cluster.TaskReport{Last: cluster.TaskRunning, Started: cluster.At(w.now.Add(time.Minute))},
		})
		expect(t, "left", len(Backoffs(row, tasks, testLimits, w.now)), 0)
	})
	t.Run("OneTaskAtATimeUntilOneRuns", func(t *testing.T) {
		w := newWorld(t, 5)
		w.broken["ecs-svc/a"] = true
		w.step()
		w.pass(time.Second)
		p := w.step()
		expect(t, "starts", len(p.Starts), 0)
		w.pass(p.ReconsiderAt.Sub(w.now))
		expect(t, "starts", w.step().Starts[0].Count, 1)
		w.broken["ecs-svc/a"] = false
		w.pass(time.Second)
		expect(t, "starts once one runs", w.step().Starts[0].Count, 4)
	})
	t.Run("AreReported", func(t *testing.T) {
		w := newWorld(t, 1)
		w.broken["ecs-svc/a"] = true
		w.rest(12)
		expect(t, "emitted", w.emitted("is unable to consistently start tasks successfully."), true)
	})
}
