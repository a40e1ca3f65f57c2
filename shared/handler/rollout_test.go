package handler_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/operation"
	"berth/shared/state"
)

// deploy changes a service's task definition.
func (w *world) deploy(name, definition string) {
	w.t.Helper()
	if _, err := w.update(operation.UpdateService{Name: name, TaskDefinition: definition}); err != nil {
		w.t.Fatal(err)
	}
}

// of returns the tasks of a task definition with a status.
func (w *world) of(definition string, status cluster.TaskStatus) []*cluster.Task {
	w.t.Helper()
	return slices.DeleteFunc(w.with(status), func(t *cluster.Task) bool { return t.TaskDefinition != definition })
}

// minutes lets n minutes pass, with dispatch's schedule.
func (w *world) minutes(n int) {
	w.t.Helper()
	for range n {
		w.advance(time.Minute)
		w.minute()
	}
}

// bounds returns the lowest number of RUNNING and wanted tasks of services, and the highest number
// of wanted ones, since the n-th record.
func (w *world) bounds(n int) (fewest, most int) {
	tasks := map[string]*cluster.Task{}
	fewest = -1
	for at, r := range w.changed {
		t, ok := r.New.(*cluster.Task)
		if !ok || t.Service == "" {
			continue
		}
		tasks[t.ID] = t
		if at < n {
			continue
		}
		running, active := 0, 0
		for _, t := range tasks {
			if t.IsActive() {
				active++
			}
			if t.IsActive() && t.Last == cluster.TaskRunning {
				running++
			}
		}
		if most = max(most, active); fewest < 0 || running < fewest {
			fewest = running
		}
	}
	return fewest, most
}

func (w *world) releases() []*cluster.ServiceDeployment {
	return rows[*cluster.ServiceDeployment](w, state.PrefixDeployment)
}

// rolled is a world with a service of n tasks of web:1 at rest, and web:2 defined.
func rolled(t *testing.T, n int, spec operation.CreateService, change ...func(*handler.Settings)) *world {
	t.Helper()
	w := newWorld(t, change...)
	w.ecs.define(definition("web", 2, 256, 512))
	w.instances("i", 3, 8192, 16384)
	spec.Cluster, spec.Name, spec.TaskDefinition, spec.Desired = prod, "web", "web:1", &n
	w.createAs(spec)
	w.advance(time.Minute)
	wantCount(t, "running tasks at first", w.with(cluster.TaskRunning), n)
	return w
}

func TestPlacement_Rollout(t *testing.T) {
	t.Run("FirstDeploymentCompletes", func(t *testing.T) {
		w := rolled(t, 2, operation.CreateService{})
		s := w.service("web")
		want(t, "state", s.Service.Deployment.State, cluster.RolloutCompleted)
		want(t, "release", s.Service.Release.Status, cluster.DeploymentSuccessful)
		wantCount(t, "service deployments", w.releases(), 1)
		want(t, "in the history", w.releases()[0].Status, cluster.DeploymentSuccessful)
		want(t, "kept until", w.releases()[0].Expires, s.Service.Release.FinishedAt.Add(90*24*time.Hour).Unix())
	})
	t.Run("ReplacesAllTasksOneRevisionByTheOther", func(t *testing.T) {
		w := rolled(t, 4, operation.CreateService{})
		from := len(w.changed)
		w.deploy("web", "web:2")
		w.advance(5 * time.Minute)
		wantCount(t, "tasks of the new revision", w.of("web:2", cluster.TaskRunning), 4)
		wantCount(t, "tasks of the old one", w.of("web:1", cluster.TaskRunning), 0)
		fewest, most := w.bounds(from)
		want(t, "fewest running", fewest, 4)
		want(t, "most at once", most, 8)
		s := w.service("web")
		want(t, "state", s.Service.Deployment.State, cluster.RolloutCompleted)
		wantCount(t, "older deployments", s.Service.Older, 0)
		events := w.events("web")
		wantEvent(t, events, "(deployment "+s.Service.Deployment.ID+") deployment completed.")
		want(t, "last event", events[len(events)-1], "(service web) has reached a steady state.")
	})
	t.Run("StopsFirstWhereMaximumPercentLeavesNoRoom", func(t *testing.T) {
		half, all := 50, 100
		w := rolled(t, 4, operation.CreateService{
			MinHealthy: &half, MaxPercent: &all, ServiceParameters: operation.ServiceParameters{ZoneRebalancing: new(false)},
		})
		from := len(w.changed)
		w.deploy("web", "web:2")
		w.advance(10 * time.Minute)
		wantCount(t, "tasks of the new revision", w.of("web:2", cluster.TaskRunning), 4)
		fewest, most := w.bounds(from)
		want(t, "fewest running", fewest, 2)
		want(t, "most at once", most, 4)
	})
	t.Run("AWaitingTaskOfAnOlderRevisionKeepsIt", func(t *testing.T) {
		w := rolled(t, 2, operation.CreateService{})
		w.ecs.define(definition("web", 3, 100_000, 512)) // fits nowhere
		w.deploy("web", "web:3")
		w.advance(time.Minute)
		w.ecs.exit(w.ecs.live()[0], 1)
		w.advance(time.Minute)
		wantCount(t, "tasks of the old revision", w.of("web:1", cluster.TaskRunning), 2)
		wantEvent(t, w.events("web"), "was unable to place a task")
	})
	t.Run("StopsFirstWhereNoInstanceHasRoom", func(t *testing.T) {
		w := newWorld(t)
		for n := 1; n <= 2; n++ {
			d := definition("port", n, 256, 512)
			d.Ports = []cluster.Port{{Number: 80, Protocol: cluster.TCP}}
			w.ecs.define(d)
		}
		w.instances("i", 4, 2048, 4096)
		w.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "port:1", Desired: new(4), MinHealthy: new(50)})
		w.minutes(2)
		from := len(w.changed)
		w.deploy("web", "port:2")
		w.advance(30 * time.Second)
		wantCount(t, "old tasks, as yet", w.of("port:1", cluster.TaskRunning), 4)
		w.minutes(15)
		wantCount(t, "new tasks", w.of("port:2", cluster.TaskRunning), 4)
		want(t, "state", w.service("web").Service.Deployment.State, cluster.RolloutCompleted)
		if fewest, _ := w.bounds(from); fewest < 2 {
			t.Errorf("%d tasks were RUNNING and wanted, want 2 at least", fewest)
		}
	})
	picky, big := definition("web", 2, 256, 512), definition("web", 2, 100_000, 512)
	picky.Constraints = []cluster.PlacementConstraint{{Type: cluster.MemberOf, Expression: "attribute:kind exists"}}
	for why, d := range map[string]*cluster.TaskDefinition{"NoInstanceMeetsItsConstraints": picky, "NoneIsLargeEnough": big} {
		t.Run("StopsNoneWhere"+why, func(t *testing.T) {
			w := newWorld(t)
			w.ecs.define(d)
			w.instances("i", 2, 2048, 4096)
			w.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web:1", Desired: new(4), MinHealthy: new(0)})
			w.minutes(2)
			w.deploy("web", "web:2")
			w.minutes(30)
			wantCount(t, "old tasks", w.of("web:1", cluster.TaskRunning), 4)
		})
	}
	t.Run("StopsNoneWhereNoInstanceOfItsCapacityProviderIsLargeEnough", func(t *testing.T) {
		w := newWorld(t)
		w.ecs.define(definition("web", 2, 30*256, 512))
		w.associate("spot")
		w.provide("s", "spot", 20)
		w.provide("o", "", 100)
		w.createAs(operation.CreateService{
			Cluster: prod, Name: "web", TaskDefinition: "web:1", Desired: new(4), MinHealthy: new(0),
			ServiceParameters: operation.ServiceParameters{Providers: &[]cluster.ProviderShare{{Provider: "spot", Weight: 1}}},
		})
		w.minutes(2)
		w.deploy("web", "web:2")
		w.minutes(60)
		wantCount(t, "old tasks", w.of("web:1", cluster.TaskRunning), 4)
	})
	t.Run("AnInstanceIsDrainedThoughNoOtherHasRoom", func(t *testing.T) {
		w := newWorld(t)
		ids := w.instances("i", 2, 512, 1024) // two tasks each
		w.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web:1", Desired: new(4), MinHealthy: new(75)})
		w.minutes(2)
		w.drain(ids[0])
		w.minutes(10)
		want(t, "tasks left, of 3 that have to be healthy", placed(w.with(cluster.TaskRunning))[ids[0]], 1)
		if _, err := w.update(operation.UpdateService{Name: "web", MinHealthy: new(50)}); err != nil {
			t.Fatal(err)
		}
		w.minutes(10)
		want(t, "tasks left, of 2", placed(w.with(cluster.TaskRunning))[ids[0]], 0)
	})
	t.Run("AnUnhealthyTaskMakesRoomForTheNext", func(t *testing.T) {
		w := newWorld(t)
		d := definition("port", 1, 256, 512)
		d.Ports, d.HealthChecked = []cluster.Port{{Number: 80, Protocol: cluster.TCP}}, true
		w.ecs.define(d)
		w.instances("i", 3, 2048, 4096)
		w.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "port:1", Desired: new(3)})
		w.minutes(2)
		for _, task := range w.with(cluster.TaskRunning) {
			w.ecs.turn(task.ECSID, cluster.Healthy)
		}
		w.minutes(2)
		ill := w.with(cluster.TaskRunning)[0]
		w.ecs.turn(ill.ECSID, cluster.Unhealthy)
		w.minutes(5)
		want(t, "status", w.task(ill.ID).Status(), cluster.TaskStopped)
		wantCount(t, "tasks", w.with(cluster.TaskRunning), 3)
	})
	t.Run("CircuitBreakerRollsBack", func(t *testing.T) {
		w := rolled(t, 2, operation.CreateService{
			ServiceParameters: operation.ServiceParameters{Breaker: &cluster.CircuitBreaker{Enable: true, Rollback: true}},
		})
		first := w.service("web").Service.Deployment.ID
		w.ecs.onStart = func(_ int, c cluster.StartCall) fault {
			if c.TaskDefinition == "web:2" {
				return fault{err: denied}
			}
			return fault{}
		}
		w.deploy("web", "web:2")
		second := w.service("web").Service.Deployment.ID
		w.advance(30 * time.Minute)
		s := w.service("web")
		want(t, "deployment", s.Service.Deployment.ID, first)
		want(t, "state", s.Service.Deployment.State, cluster.RolloutCompleted)
		want(t, "release", s.Service.Release.Status, cluster.DeploymentRollbackSuccessful)
		wantCount(t, "tasks of the first revision", w.of("web:1", cluster.TaskRunning), 2)
		wantCount(t, "older deployments", s.Service.Older, 0)
		events := strings.Join(w.events("web"), "\n")
		failed, back := strings.Index(events, "(deployment "+second+") deployment failed: tasks failed to start."), strings.Index(events, "rolling back to deployment "+first+".")
		if failed < 0 || back < failed {
			t.Errorf("events\n%s", events)
		}
		statuses := map[cluster.ServiceDeploymentStatus]int{}
		for _, r := range w.releases() {
			statuses[r.Status]++
		}
		want(t, "rolled back in the history", statuses[cluster.DeploymentRollbackSuccessful], 1)
		for _, task := range w.of("web:2", cluster.TaskStopped) {
			want(t, "counted", task.Counted, true)
		}
	})
	t.Run("CountsManyFailuresAtOnce", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 100, 4096, 8192)
		w.ecs.onStart = func(int, cluster.StartCall) fault { return fault{err: denied} }
		w.create("web", "web", 90)
		w.pump()
		want(t, "failed", w.service("web").Service.Deployment.Failed, 90)
		for _, task := range w.with(cluster.TaskStopped) {
			want(t, "counted", task.Counted, true)
		}
		for _, c := range w.state.commits {
			counted := 0
			row := false
			for _, write := range c.Writes {
				task, ok := write.Put.(*cluster.Task)
				if ok && task.Counted {
					counted++
				}
				_, is := write.Put.(*cluster.Service)
				row = row || is
			}
			if counted > 0 && !row {
				t.Errorf("%d failures are marked without the row that counts them", counted)
			}
		}
	})
}

func TestPlacement_Throttle(t *testing.T) {
	t.Run("ClimbsAndIsTold", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.ecs.onStart = func(int, cluster.StartCall) fault { return fault{err: denied} }
		w.create("web", "web", 1)
		w.minutes(60)
		// After about 0, 1, 4, 13 and 40 minutes.
		wantCount(t, "StartTask calls", w.ecs.starts, 5)
		said := slices.DeleteFunc(w.events("web"), func(m string) bool { return !strings.Contains(m, "unable to consistently start") })
		wantCount(t, "times it was said", said, 1)
		w.ecs.onStart = nil
		w.ecs.define(definition("web", 2, 256, 512))
		w.deploy("web", "web:2")
		w.pump()
		wantCount(t, "running tasks of another task definition", w.with(cluster.TaskRunning), 1)
	})
	t.Run("SlowsNoOtherService", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.ecs.onStart = func(_ int, c cluster.StartCall) fault {
			if c.TaskDefinition == "big:1" {
				return fault{err: denied}
			}
			return fault{}
		}
		w.create("bad", "big", 1)
		w.pump()
		w.create("web", "web", 1)
		w.pump()
		wantCount(t, "running tasks", w.with(cluster.TaskRunning), 1)
	})
}

// A rollback by the circuit breaker ends the same wherever placement dies: every prefix of its
// commits is safe, and no failure is counted twice.
func TestRolloutSurvivesACrashAtAnyWrite(t *testing.T) {
	for crash := 0; ; crash++ {
		w := rolled(t, 2, operation.CreateService{
			ServiceParameters: operation.ServiceParameters{Breaker: &cluster.CircuitBreaker{Enable: true, Rollback: true}},
		})
		w.ecs.onStart = func(_ int, c cluster.StartCall) fault {
			if c.TaskDefinition == "web:2" {
				return fault{err: denied}
			}
			return fault{}
		}
		w.redelivers = true
		n, crashed := 0, false
		fail := func() error {
			if n++; n == crash+1 {
				crashed = true
				w.placement = w.newPlacement("env-2", w.placement.Settings)
				return errTimedOut
			}
			return nil
		}
		w.state.beforeCommit = func(state.Commit) error { return fail() }
		w.state.beforeWrite = func(state.Write) error { return fail() }
		w.deploy("web", "web:2")
		w.minutes(20)
		s := w.service("web")
		want(t, fmt.Sprint("after a crash at write ", crash+1, ": release"), s.Service.Release.Status, cluster.DeploymentRollbackSuccessful)
		wantCount(t, "running tasks", w.of("web:1", cluster.TaskRunning), 2)
		if failed := len(w.of("web:2", cluster.TaskStopped)); failed < 3 || s.Service.Release.Failures > failed {
			t.Fatalf("after a crash at write %d: %d failures were counted of %d", crash+1, s.Service.Release.Failures, failed)
		}
		if !crashed {
			if crash < 5 {
				t.Fatalf("only %d writes", n)
			}
			return
		}
	}
}

// An agent disconnects just before a deployment. ECS's refusals of its starts say nothing about the
// new revision (S7).
func TestPlacement_RefusedStartsAreNotCounted(t *testing.T) {
	w := newWorld(t)
	ids := w.instances("i", 2, 8192, 16384)
	w.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web:1", Desired: new(8), ServiceParameters: operation.ServiceParameters{
		Breaker: &cluster.CircuitBreaker{Enable: true, Rollback: true, Type: cluster.ThresholdCount, Value: 2},
	}})
	w.advance(5 * time.Minute)
	want(t, "state", w.service("web").Service.Deployment.State, cluster.RolloutCompleted)
	w.ecs.mute = true
	w.connect(ids[0], false)
	w.ecs.mute = false
	if _, err := w.api.Services.UpdateService(ctx, operation.UpdateService{Cluster: prod, Name: "web", Force: true}); err != nil {
		t.Fatal(err)
	}
	w.advance(5 * time.Minute)
	want(t, "failed", w.service("web").Service.Deployment.Failed, 0)
	want(t, "release", w.service("web").Service.Release.Status, cluster.DeploymentSuccessful)
}

// Nothing is done for tasks that will never start: those of a deployment that was stopped.
func TestPlacement_StoppedDeployment(t *testing.T) {
	abort := func(w *world, name string) {
		want(w.t, "error", w.api.Deployments.StopServiceDeployment(ctx, operation.RecordRef{
			Cluster: prod, Service: name, ID: w.service(name).Service.Release.ID,
		}, cluster.StopAbort), nil)
		w.advance(2 * time.Minute)
	}
	t.Run("LaunchesNothing", func(t *testing.T) {
		s := newScaled(t, nil)
		s.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: new(2)})
		s.pump()
		wantCount(t, "waiting", s.with(cluster.TaskProvisioning), 2)
		abort(s.world, "web")
		s.minute(30)
		want(t, "desired capacity", s.groups["g"].Desired, 0)
		want(t, "pending", s.service("web").Service.Pending, 0)
	})
	t.Run("MovesNothing", func(t *testing.T) {
		w := newWorld(t)
		metered := func(n int64, ids ...string) {
			for _, id := range ids {
				i := zoned(id, "zone-a")
				i.Registered.Metrics = map[string]int64{"connections": n}
				w.ecs.register(i)
			}
			w.pump()
		}
		runs := func(name string, n int, load int64) {
			w.createAs(operation.CreateService{
				Cluster: prod, Name: name, TaskDefinition: "web", Desired: &n,
				Rules: cluster.Rules{Metrics: []cluster.Metric{{Name: "connections", Load: load}}},
			})
			w.advance(2 * time.Minute)
		}
		metered(100, "a")
		runs("shop", 2, 30)
		metered(25, "c", "d", "e")
		runs("big", 1, 100)
		abort(w, "big")
		before := len(w.ecs.starts)
		metered(60, "b") // has room for what shop runs
		w.minutes(10)
		want(t, "starts", len(w.ecs.starts)-before, 0)
		want(t, "big waits for room", w.service("big").Service.Blocked != nil, false)
	})
}

// The alarms of a deployment are watched for their bake time though a clock jumped when it began (S8).
func TestPlacement_BakeTimeOfAClockThatJumped(t *testing.T) {
	const day = 24 * time.Hour
	w := newWorld(t)
	w.instances("i", 1, 8192, 16384)
	s := w.createAs(operation.CreateService{
		Cluster: prod, Name: "web", TaskDefinition: "web", Desired: new(1),
		ServiceParameters: operation.ServiceParameters{
			Alarms: &cluster.DeploymentAlarms{Enable: true, Names: []string{"errors"}},
		},
	})
	w.advance(2 * time.Minute)
	w.clock.now = w.clock.now.Add(day)
	_, err := w.store.Write(ctx, state.Write{Put: &cluster.AlarmWatch{
		Head: cluster.Head{Cluster: prod, Rev: 1}, Owner: s.Short, Service: "web",
		Deployment: w.service("web").Service.Deployment.ID, Bake: time.Minute,
	}})
	want(t, "error", err, nil)
	w.pump()
	w.clock.now = w.clock.now.Add(-day)
	w.pump()
	want(t, "state at first", w.service("web").Service.Deployment.State, cluster.RolloutInProgress)
	w.minutes(5)
	want(t, "state after the bake time", w.service("web").Service.Deployment.State, cluster.RolloutCompleted)
}
