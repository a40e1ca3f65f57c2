package service

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
)

// at returns a world whose tasks have been RUNNING for over a minute.
func at(t *testing.T, desired int) *world {
	w := newWorld(t, desired)
	w.rest(50)
	w.pass(time.Minute)
	w.step()
	return w
}

func (w *world) emitted(part string) bool {
	return slices.ContainsFunc(w.said, func(s string) bool { return strings.Contains(s, part) })
}

func TestReplica(t *testing.T) {
	t.Run("StartsMissingTasks", func(t *testing.T) {
		w := newWorld(t, 3)
		p := w.step()
		expect(t, "starts", p.Starts[0].Count, 3)
		p = w.rest(20)
		expect(t, "steady", p.Steady, true)
		expect(t, "state", w.service.Deployment.State, cluster.RolloutCompleted)
		expect(t, "emitted", w.emitted("(deployment ecs-svc/a) deployment completed."), true)
	})
	t.Run("ReplacesEndedTasks", func(t *testing.T) {
		w := at(t, 3)
		w.die(w.ids()[0])
		p := w.step()
		expect(t, "starts", p.Starts[0].Count, 1)
	})
	t.Run("ReplacesNoSoonerThanTenSecondsAfterTheStart", func(t *testing.T) {
		w := newWorld(t, 1)
		w.step()
		w.pass(time.Second)
		w.step()
		w.pass(3 * time.Second)
		w.die(w.ids()[0])
		p := w.step()
		expect(t, "starts", len(p.Starts), 0)
		expect(t, "look again", p.ReconsiderAt, w.now.Add(7*time.Second))
		w.pass(7 * time.Second)
		expect(t, "starts then", len(w.step().Starts), 1)
	})
	t.Run("ScalesIn", func(t *testing.T) {
		w := at(t, 5)
		w.service.Desired = 2
		p := w.step()
		expect(t, "choice", p.Choices[0].Count, 3)
		expect(t, "of", len(p.Choices[0].Candidates), 5)
	})
	t.Run("NeverStopsProtectedTasks", func(t *testing.T) {
		w := at(t, 3)
		for _, id := range w.ids() {
			w.protect[id] = w.now.Add(time.Hour)
		}
		w.service.Desired = 1
		p := w.step()
		expect(t, "stops", len(p.Stops)+len(p.Choices), 0)
		expect(t, "emitted", w.emitted("was unable to scale in due to (reason 2 tasks under protection)"), true)
		expect(t, "look again", p.ReconsiderAt, w.now.Add(time.Hour))
		expect(t, "said again", len(w.step().EventsAfter), 0)
	})
	t.Run("StopsAllTasksOfADeletedService", func(t *testing.T) {
		w := at(t, 3)
		w.service.Status = cluster.ServiceDraining
		p := w.step()
		expect(t, "stops", len(p.Stops), 3)
		expect(t, "status", p.Next.Status, cluster.ServiceInactive)
	})
}

func TestUnhealthy(t *testing.T) {
	ill := func(w *world, n int) {
		for _, id := range w.ids()[:n] {
			w.set(id, func(t *cluster.Task) { t.Health = cluster.Unhealthy })
		}
	}
	t.Run("TheReplacementComesFirst", func(t *testing.T) {
		w := at(t, 4)
		ill(w, 1)
		p := w.step()
		expect(t, "starts", p.Starts[0].Count, 1)
		expect(t, "replaced", p.Starts[0].ReplacesUnhealthy, 1)
		expect(t, "stops", len(p.Stops), 0)
		expect(t, "emitted", w.emitted("failed container health checks."), true)
		w.pass(5 * time.Second)
		expect(t, "stops while it settles", len(w.step().Stops), 0)
		w.pass(time.Minute)
		p = w.step()
		expect(t, "stops", len(p.Stops), 1)
		expect(t, "stopped is the unhealthy one", p.Stops[0].Task.Health, cluster.Unhealthy)
	})
	t.Run("OneAtATimeIfNoneMayStartFirst", func(t *testing.T) {
		w := newWorld(t, 4)
		w.service.MinHealthy, w.service.MaxPercent = 50, 100
		w.rest(20)
		w.pass(time.Minute)
		ill(w, 2)
		p := w.step()
		expect(t, "stops", len(p.Stops), 1)
		expect(t, "starts", p.Starts[0].Count, 1)
		expect(t, "stops before it is replaced", len(w.step().Stops), 0)
		w.pass(time.Second)
		w.step()
		w.pass(time.Minute)
		expect(t, "stops then", len(w.step().Stops), 1)
	})
	t.Run("TheNextOneDoesNotWaitForTargetsToDeregister", func(t *testing.T) {
		w := newWorld(t, 4)
		w.service.MinHealthy, w.service.MaxPercent = 50, 100
		w.rest(20)
		w.pass(time.Minute)
		ill(w, 2)
		w.deregistering = true
		expect(t, "stops", len(w.step().Stops), 1)
		w.pass(time.Second)
		expect(t, "stops while the replacement starts", len(w.step().Stops), 0)
		w.pass(time.Minute) // the replacement is healthy, the stopped task still deregisters
		expect(t, "stops then", len(w.step().Stops), 1)
	})
	t.Run("EitherStopsIfTheReplacementIsUnhealthyToo", func(t *testing.T) {
		w := at(t, 4)
		ill(w, 1)
		w.step()
		w.pass(time.Second)
		for _, id := range w.ids()[4:] {
			w.set(id, func(t *cluster.Task) { t.Health = cluster.Unhealthy })
		}
		p := w.step()
		expect(t, "stops", len(p.Stops), 1)
	})
	t.Run("GracePeriodIsHonoured", func(t *testing.T) {
		w := at(t, 2)
		w.service.Grace = 3600
		ill(w, 1)
		p := w.step()
		expect(t, "idle", idle(p), true)
		expect(t, "look again", p.ReconsiderAt.IsZero(), false)
	})
	t.Run("NoneWhileMostOfTheClusterLooksUnhealthy", func(t *testing.T) {
		w := at(t, 2)
		w.distrusted = true
		ill(w, 2)
		p := w.step()
		expect(t, "idle", idle(p), true)
		expect(t, "emitted", w.emitted("is not replacing 2 unhealthy tasks"), true)
	})
	t.Run("ReplacePercentBoundsReplacements", func(t *testing.T) {
		w := at(t, 20)
		ill(w, 10)
		expect(t, "starts", w.step().Starts[0].Count, 4)
		expect(t, "starts again", len(w.step().Starts), 0)
	})
}

func TestDraining(t *testing.T) {
	t.Run("ReplacesWithinThePercentages", func(t *testing.T) {
		w := at(t, 4)
		w.hosts[w.tasks[w.ids()[0]].Instance] = InstanceDraining
		p := w.step()
		expect(t, "starts", p.Starts[0].Count, 1)
		expect(t, "stops", len(p.Stops), 0)
		w.pass(time.Second)
		w.step()
		w.pass(time.Minute)
		expect(t, "stops then", len(w.step().Stops), 1)
	})
	t.Run("StopsFirstIfMaximumPercentLeavesNoRoom", func(t *testing.T) {
		w := newWorld(t, 4)
		w.service.MinHealthy, w.service.MaxPercent = 50, 100
		w.rest(20)
		w.pass(time.Minute)
		for _, id := range w.ids()[:3] {
			w.hosts[w.tasks[id].Instance] = InstanceDraining
		}
		p := w.step()
		expect(t, "stops", len(p.Stops), 2)
		expect(t, "starts", p.Starts[0].Count, 2)
	})
	t.Run("StopsPendingTasksAtOnce", func(t *testing.T) {
		w := newWorld(t, 2)
		w.step()
		w.hosts[w.tasks[w.ids()[0]].Instance] = InstanceDraining
		p := w.step()
		expect(t, "stops", len(p.Stops), 1)
		expect(t, "starts", p.Starts[0].Count, 1)
	})
	t.Run("ReplacesTasksOfLostInstancesFirst", func(t *testing.T) {
		w := at(t, 2)
		w.hosts[w.tasks[w.ids()[0]].Instance] = InstanceTimedOut
		p := w.step()
		expect(t, "starts", p.Starts[0].Count, 1)
		expect(t, "stops", len(p.Stops), 0)
	})
}

// daemon returns a DAEMON service that is steady on these instances.
func daemon(t *testing.T, on ...string) *world {
	w := newWorld(t, 0)
	w.service.Strategy, w.service.MinHealthy, w.service.MaxPercent = cluster.Daemon, 0, 100
	w.eligible = on
	w.rest(20)
	w.pass(time.Minute)
	w.step()
	return w
}

func TestDaemon(t *testing.T) {
	t.Run("OneOnEachInstance", func(t *testing.T) {
		w := daemon(t, "a", "b")
		expect(t, "tasks", len(w.ids()), 2)
		expect(t, "completed", w.service.Deployment.IsCompleted(), true)
		w.eligible = []string{"a", "b", "c"}
		p := w.step()
		expect(t, "starts on", p.Starts[0].Instances[0], "c")
	})
	t.Run("StopsLastOnADrainingInstance", func(t *testing.T) {
		w := daemon(t, "a", "b")
		w.eligible, w.hosts["a"], w.busy["a"] = []string{"b"}, InstanceDraining, true
		expect(t, "stops while others run", len(w.step().Stops), 0)
		w.busy["a"] = false
		p := w.step()
		expect(t, "stops", len(p.Stops), 1)
		expect(t, "starts", len(p.Starts), 0)
	})
	t.Run("StaysOnADrainingInstanceDuringARollout", func(t *testing.T) {
		w := daemon(t, "a", "b")
		w.eligible, w.hosts["a"], w.busy["a"] = []string{"b"}, InstanceDraining, true
		w.deploy("b")
		p := w.step()
		expect(t, "stops", len(p.Stops), 1)
		expect(t, "on", p.Stops[0].Task.Instance, "b")
		w.rest(5)
		expect(t, "old", w.running()["ecs-svc/a"], 1)
		w.busy["a"] = false
		w.rest(20)
		expect(t, "old once the others have left", w.running()["ecs-svc/a"], 0)
		expect(t, "completed", w.service.Deployment.IsCompleted(), true)
	})
	t.Run("DoesNotWaitForTasksOnDisconnectedInstances", func(t *testing.T) {
		w := daemon(t, "a", "b", "c")
		w.checked = true
		w.eligible, w.hosts["c"] = []string{"a", "b"}, InstanceTimedOut
		w.rest(20)
		w.deploy("b")
		w.rest(20)
		expect(t, "completed", w.service.Deployment.IsCompleted(), true)
		expect(t, "older", len(w.service.Older), 0)
		ill := w.daemonOn("a")
		w.set(ill, func(t *cluster.Task) { t.Health = cluster.Unhealthy })
		w.rest(20)
		expect(t, "the unhealthy one", w.tasks[ill].IsActive(), false)
	})
	t.Run("RolloutContinuesIfOneInstanceHasNoRoom", func(t *testing.T) {
		w := daemon(t, "a", "b")
		w.eligible, w.full = []string{"a", "b", "c"}, "c"
		w.deploy("b")
		w.broken["ecs-svc/b"] = true
		w.rest(8)
		expect(t, "old ones while none starts", w.running()["ecs-svc/a"], 2)
		delete(w.broken, "ecs-svc/b")
		for range 400 {
			w.step()
			w.pass(5 * time.Second)
		}
		expect(t, "new", w.running()["ecs-svc/b"], 2)
	})
	t.Run("StopsTheOldTaskBeforeStartingTheNewOne", func(t *testing.T) {
		w := daemon(t, "a", "b")
		w.deploy("b")
		p := w.step()
		expect(t, "stops", len(p.Stops), 2)
		expect(t, "starts before they have stopped", len(p.Starts), 0)
		w.rest(20)
		expect(t, "new", w.running()["ecs-svc/b"], 2)
		expect(t, "completed", w.service.Deployment.IsCompleted(), true)
	})
	t.Run("MinimumHealthyPercentBoundsTheStops", func(t *testing.T) {
		w := daemon(t, "a", "b", "c", "d")
		w.service.MinHealthy = 50
		w.deploy("b")
		expect(t, "stops", len(w.step().Stops), 2)
	})
	t.Run("RunningTasksKeepTheConstraintsOfTheirDeployment", func(t *testing.T) {
		w := daemon(t, "a")
		w.eligible = []string{"a", "b"}
		in := w.input()
		in.MeetsConstraints = func(instance string) bool { return instance == "a" } // as when the deployment was made
		p := Reconcile(in)
		expect(t, "starts on", p.Starts[0].Instances[0], "b")
		w.step()
		in = w.input()
		in.MeetsConstraints = func(instance string) bool { return instance == "a" }
		expect(t, "idle", idle(Reconcile(in)), true)
	})
	t.Run("BreakerThresholdFollowsEligibleInstances", func(t *testing.T) {
		w := daemon(t, "a", "b", "c", "d")
		w.deploy("b")
		w.service.Breaker = cluster.CircuitBreaker{Enable: true, Type: cluster.ThresholdUnboundedPercent, Value: 50}
		w.service.Deployment.Failed = 2
		w.eligible = []string{"a", "b", "c", "d", "e"}
		expect(t, "state", Reconcile(w.input()).Next.Deployment.State, cluster.RolloutInProgress)
		w.eligible = w.eligible[:4]
		expect(t, "state", Reconcile(w.input()).Next.Deployment.State, cluster.RolloutFailed)
	})
	t.Run("RetriesOnOneInstanceWithRoom", func(t *testing.T) {
		w := daemon(t, "a")
		w.eligible = []string{"a", "b", "c", "d"}
		w.broken["ecs-svc/a"] = true
		w.rest(2) // the first attempt has failed
		for range 40 {
			if p := w.step(); len(p.Starts) > 0 {
				expect(t, "starts at once", p.Starts[0].Count, 1)
				expect(t, "instances to choose from", len(p.Starts[0].Instances), 3)
				return
			}
			w.pass(5 * time.Second)
		}
		t.Fatal("nothing was tried again")
	})
	t.Run("RetriesOnAnotherInstance", func(t *testing.T) {
		w := daemon(t, "a")
		w.eligible = []string{"a", "b", "c", "d"}
		w.broken["ecs-svc/a"] = true
		w.step()
		w.pass(time.Second)
		p := w.step()
		expect(t, "starts in the delay", len(p.Starts), 0)
		w.pass(p.ReconsiderAt.Sub(w.now))
		expect(t, "starts after it", w.step().Starts[0].Count, 1)
	})
}
