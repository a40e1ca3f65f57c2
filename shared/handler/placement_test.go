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

func TestPlacement_Replica(t *testing.T) {
	t.Run("StartsTheDesiredNumberWithOneOutboxRow", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 3, 4096, 8192)
		w.dispatchAsleep = true
		w.create("web", "web", 3)
		w.state.commits = nil
		w.pump()
		wantCount(t, "tasks", w.with(cluster.TaskPending), 3)
		want(t, "instances in use", len(placed(w.tasks())), 3)
		wantCount(t, "outbox rows", w.outbox(), 1)
		o := w.outbox()[0]
		wantCount(t, "starts", o.Starts, 3)
		want(t, "owner", o.Owner, w.service("web").Service.Short)
		wantCount(t, "commits", w.state.commits, 1)
		for _, task := range w.tasks() {
			want(t, "id", task.ID, cluster.TaskID(o.Batch, task.Instance))
			want(t, "batch", task.Batch, o.Batch)
			want(t, "group", task.Group, "service:web")
		}
		s := w.service("web")
		want(t, "running", s.Service.Running, 0)
		want(t, "pending", s.Service.Pending, 3)
		wantEvent(t, w.events("web"), "(service web) has started 3 tasks: (task ")
	})
	t.Run("GivesEachTaskOfOneInstanceABatchOfItsOwn", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.dispatchAsleep = true
		w.create("web", "web", 3)
		w.pump()
		wantCount(t, "outbox rows", w.outbox(), 3)
		wantCount(t, "tasks", w.with(cluster.TaskPending), 3)
		w.dispatchAsleep = false
		w.pump()
		wantCount(t, "ECS tasks", w.ecs.live(), 3)
	})
	t.Run("IsSteadyOnceAllAreRunning", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 2, 4096, 8192)
		w.create("web", "web", 4)
		w.pump()
		s := w.service("web")
		want(t, "running", s.Service.Running, 4)
		want(t, "pending", s.Service.Pending, 0)
		want(t, "completed", s.Service.Deployment.IsCompleted(), true)
		events := w.events("web")
		want(t, "last event", events[len(events)-1], "(service web) has reached a steady state.")
		wantEvent(t, events, "(deployment "+s.Service.Deployment.ID+") deployment completed.")
		wantCount(t, "outbox rows", w.outbox(), 0)
		want(t, "number of the newest event", s.EventLog[0].Number, len(events)-1)
	})
	t.Run("StopsTheRightNumberWhenScaledDown", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 2, 4096, 8192)
		w.create("web", "web", 5)
		w.pump()
		w.scale("web", 2)
		w.pump()
		wantCount(t, "running tasks", w.with(cluster.TaskRunning), 2)
		wantCount(t, "stopped tasks", w.with(cluster.TaskStopped), 3)
		wantCount(t, "StopTask calls", w.ecs.stops, 3)
		for _, task := range w.with(cluster.TaskStopped) {
			want(t, "stop code", task.StopCode, cluster.StopByScheduler)
		}
		events := w.events("web")
		wantEvent(t, events, "(service web) has stopped 3 running tasks: (task ")
		want(t, "last event", events[len(events)-1], "(service web) has reached a steady state.")
		s := w.service("web")
		want(t, "running", s.Service.Running, 2)
		want(t, "steady", s.Service.Steady, true)
	})
	t.Run("ReplacesAStoppedTask", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 2, 4096, 8192)
		w.create("web", "web", 2)
		w.pump()
		w.advance(4 * time.Second)
		w.ecs.exit(w.ecs.live()[0], 1)
		w.pump()
		stopped := w.with(cluster.TaskStopped)
		wantCount(t, "stopped tasks", stopped, 1)
		want(t, "exit code", *stopped[0].ExitCode, 1)
		want(t, "expires", stopped[0].Expires, w.clock.now.Add(time.Hour).Unix())
		w.advance(5 * time.Second)
		wantCount(t, "running tasks 9 s after it started", w.with(cluster.TaskRunning), 1)
		w.advance(time.Second)
		wantCount(t, "running tasks", w.with(cluster.TaskRunning), 2)
		w.ecs.exit(w.ecs.live()[0], 1)
		w.advance(time.Second)
		wantCount(t, "running tasks where the one before had run for longer", w.with(cluster.TaskRunning), 2)
	})
	t.Run("WaitsAMinuteAfterATaskThatNeverRan", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.ecs.onStart = func(n int, _ cluster.StartCall) fault {
			if n == 1 {
				return fault{err: denied}
			}
			return fault{}
		}
		w.create("web", "web", 1)
		w.pump()
		wantCount(t, "StartTask calls", w.ecs.starts, 1)
		dues := w.dues()
		wantCount(t, "due rows", dues, 1)
		want(t, "kind", dues[0].Kind, state.DueService)
		if wait := dues[0].At.Sub(epoch); wait < 54*time.Second || wait > 67*time.Second {
			t.Errorf("held back for %s", wait)
		}
		want(t, "failed", w.service("web").Service.Deployment.Failed, 1)
		want(t, "counted", w.with(cluster.TaskStopped)[0].Counted, true)
		w.advance(dues[0].At.Sub(w.clock.now) - time.Second)
		wantCount(t, "StartTask calls before it is due", w.ecs.starts, 1)
		w.advance(time.Second)
		wantCount(t, "running tasks", w.with(cluster.TaskRunning), 1)
		wantCount(t, "due rows", w.dues(), 0)
		want(t, "failed once one is healthy", w.service("web").Service.Deployment.Failed, 0)
	})
	t.Run("ReplacesATaskStoppedByAUser", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.create("web", "web", 1)
		w.pump()
		first := w.tasks()[0].ID
		if _, err := w.api.Tasks.StopTask(ctx, prod, first, ""); err != nil {
			t.Fatal(err)
		}
		w.pump()
		running := w.with(cluster.TaskRunning)
		wantCount(t, "running tasks", running, 1)
		want(t, "first task", w.task(first).Status(), cluster.TaskStopped)
		want(t, "another task runs", running[0].ID != first, true)
	})
}

func TestPlacement_Daemon(t *testing.T) {
	daemon := operation.CreateService{Cluster: prod, Name: "agent", TaskDefinition: "web", Strategy: cluster.Daemon}
	t.Run("RunsOneOnEachInstance", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 3, 4096, 8192)
		w.createAs(daemon)
		w.pump()
		want(t, "running", w.service("agent").Service.Running, 3)
		for id, n := range placed(w.tasks()) {
			want(t, "tasks on "+id, n, 1)
		}
		want(t, "steady", w.service("agent").Service.Steady, true)
	})
	t.Run("StartsOnANewInstance", func(t *testing.T) {
		w := newWorld(t)
		w.createAs(daemon)
		w.pump()
		wantCount(t, "tasks", w.tasks(), 0)
		w.instances("i", 2, 4096, 8192)
		wantCount(t, "running tasks", w.with(cluster.TaskRunning), 2)
	})
	t.Run("ComesBeforeReplicas", func(t *testing.T) {
		w := newWorld(t)
		w.createAs(daemon)
		w.create("big", "big", 1)
		w.instances("i", 1, 4096, 8192)
		tasks := w.with(cluster.TaskRunning)
		wantCount(t, "running tasks", tasks, 1)
		want(t, "service", tasks[0].Service, "agent")
		wantCount(t, "provisioning tasks", w.with(cluster.TaskProvisioning), 1)
	})
	t.Run("SaysWhyItIsBlockedAndStartsWhenThereIsRoom", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.create("big", "big", 1)
		w.pump()
		w.createAs(daemon)
		w.pump()
		s := w.service("agent")
		if s.Service.Blocked == nil {
			t.Fatal("the daemon is not blocked")
		}
		wantEvent(t, w.events("agent"), "unable to place a task")
		wantCount(t, "provisioning tasks", w.with(cluster.TaskProvisioning), 0)
		w.scale("big", 0)
		w.pump()
		want(t, "running", w.service("agent").Service.Running, 1)
	})
}

func TestPlacement_Waiting(t *testing.T) {
	limited := func(n int) func(*handler.Settings) { return func(s *handler.Settings) { s.ProvisioningLimit = n } }
	t.Run("LetsTasksWaitUpToTheLimit", func(t *testing.T) {
		w := newWorld(t, limited(3))
		w.create("web", "web", 5)
		w.pump()
		wantCount(t, "provisioning tasks", w.with(cluster.TaskProvisioning), 3)
		s := w.service("web")
		want(t, "pending", s.Service.Pending, 3)
		want(t, "unplaced", s.Service.Blocked.Unplaced, 5)
		wantEvent(t, w.events("web"), "unable to place a task")
		limit := "(service web) was unable to place tasks in your cluster because the tasks provisioning capacity limit was exceeded."
		wantEvent(t, w.events("web"), limit)
		n := len(w.events("web"))
		w.advance(10 * time.Minute)
		w.scale("web", 6)
		w.pump()
		want(t, "events where it goes on", len(w.events("web")), n)
		w.scale("web", 5)
		w.instances("i", 1, 4096, 8192)
		wantCount(t, "running tasks", w.with(cluster.TaskRunning), 5)
		if s := w.service("web"); s.Service.Blocked != nil || !s.Service.Steady {
			t.Fatalf("service %s", show(s.Service))
		}
	})
	t.Run("SharesTheLimitAmongServices", func(t *testing.T) {
		w := newWorld(t, limited(3))
		w.create("a", "web", 2)
		w.create("b", "web", 2)
		w.pump()
		wantCount(t, "provisioning tasks", w.with(cluster.TaskProvisioning), 3)
	})
	t.Run("StartsThemUnderTheirIDWithAnAlias", func(t *testing.T) {
		w := newWorld(t)
		w.create("web", "web", 2)
		w.pump()
		var waiting []string
		for _, task := range w.with(cluster.TaskProvisioning) {
			waiting = append(waiting, task.ID)
		}
		wantCount(t, "provisioning tasks", waiting, 2)
		w.instances("i", 2, 4096, 8192)
		for _, id := range waiting {
			task := w.task(id)
			want(t, "status", task.Status(), cluster.TaskRunning)
			want(t, "has ECS's id", task.ECSID != "", true)
		}
		wantCount(t, "tasks", w.tasks(), 2)
		wantCount(t, "alias rows", w.taskAliases(), 2)
	})
	t.Run("ExpiresTheAliasOnceTheTaskHasStopped", func(t *testing.T) {
		w := newWorld(t)
		w.create("web", "web", 1)
		w.pump()
		w.instances("i", 1, 4096, 8192)
		w.advance(10 * time.Second)
		w.ecs.exit(w.ecs.live()[0], 0)
		w.pump()
		aliases := w.taskAliases()
		wantCount(t, "alias rows", aliases, 1)
		want(t, "expires", aliases[0].Expires, w.clock.now.Add(time.Hour).Unix())
		wantCount(t, "running tasks", w.with(cluster.TaskRunning), 1)
	})
	t.Run("KeepsTheAliasWhenASecondStartOfTheTaskHasStopped", func(t *testing.T) {
		w := newWorld(t)
		w.create("web", "web", 1)
		w.pump()
		w.instances("i", 1, 4096, 8192)
		extra := w.ecs.add(*w.ecs.tasks[w.ecs.live()[0]])
		w.ecs.exit(extra.ID, 0)
		w.pump()
		aliases := w.taskAliases()
		wantCount(t, "alias rows", aliases, 1)
		want(t, "expires", aliases[0].Expires, 0)
		wantCount(t, "rows of tasks", w.tasks(), 1)
	})
	t.Run("StopsWaitingTasksFirst", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 512, 8192)
		w.create("web", "web", 4)
		w.pump()
		wantCount(t, "provisioning tasks", w.with(cluster.TaskProvisioning), 2)
		w.scale("web", 2)
		w.pump()
		wantCount(t, "running tasks", w.with(cluster.TaskRunning), 2)
		wantCount(t, "provisioning tasks", w.with(cluster.TaskProvisioning), 0)
		wantCount(t, "StopTask calls", w.ecs.stops, 0)
		wantEvent(t, w.events("web"), "(service web) stopped 2 pending tasks.")
	})
	for _, counts := range [][]int{{2050, 0, 1, 60}, {10, 10, 1, 10}} {
		t.Run(fmt.Sprint("GivesEachAnIDOfItsOwnAfter", counts[0]), func(t *testing.T) {
			w := newWorld(t, limited(10000))
			w.create("web", "web", counts[0])
			w.pump()
			w.scale("web", counts[1])
			w.pump()
			w.scale("web", counts[2])
			w.advance(2 * time.Hour)
			w.store.ExpireRows(w.clock.now)
			w.scale("web", counts[3])
			w.pump()
			wantCount(t, "tasks", w.tasks(), counts[3])
		})
	}
	t.Run("LetsAsManyMoreWaitWhereThoseBeforeFindRoom", func(t *testing.T) {
		w := newWorld(t)
		w.create("web", "web", 2)
		w.pump()
		w.placementAsleep = true
		w.scale("web", 4)
		w.instances("i", 1, 512, 8192)
		w.placementAsleep, w.dispatchAsleep = false, true
		w.pump()
		wantCount(t, "pending tasks", w.with(cluster.TaskPending), 2)
		wantCount(t, "provisioning tasks", w.with(cluster.TaskProvisioning), 2)
	})
	t.Run("SaysWhyDuringTheDelayToo", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 256, 8192)
		w.ecs.onStart = failing(fault{err: denied})
		w.create("web", "web", 2)
		w.pump()
		want(t, "says why", w.service("web").Service.Blocked != nil, true)
		w.advance(10 * time.Second)
		said := slices.DeleteFunc(w.events("web"), func(m string) bool { return !strings.Contains(m, "unable to place") })
		wantCount(t, "times it was said", said, 1)
	})
	t.Run("ChecksAgainAfterTheDelay", func(t *testing.T) {
		w := newWorld(t)
		ids := w.instances("i", 1, 256, 8192)
		w.ecs.frozen = true
		w.create("web", "web", 2)
		w.pump()
		wantCount(t, "provisioning tasks", w.with(cluster.TaskProvisioning), 1)
		w.scale("web", 1) // the waiting one goes
		w.pump()
		w.scale("web", 2)
		w.pump()
		wantCount(t, "provisioning tasks", w.with(cluster.TaskProvisioning), 1)
		// The other one never runs and is not to be replaced. A waiting task may take its place
		// after the delay.
		w.ecs.exit(w.ecs.live()[0], 1)
		w.scale("web", 1)
		w.pump()
		want(t, "starts on "+ids[0], len(w.ecs.starts), 1)
		w.ecs.frozen = false
		w.advance(2 * time.Minute)
		wantCount(t, "running tasks", w.with(cluster.TaskRunning), 1)
	})
}

func TestPlacement_InstanceGone(t *testing.T) {
	t.Run("MarksItsTasksLostAndReplacesThoseOfServices", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 2, 4096, 8192)
		w.create("web", "web", 2)
		w.pump()
		w.ecs.mute = true
		w.ecs.frozen = true
		w.run(t, operation.SubmitTasks{Count: 2})
		w.ecs.mute, w.ecs.frozen = false, false
		on := placed(w.tasks())
		w.ecs.change("i000", func(i *cluster.Instance) { i.Status, i.AgentConnected = cluster.InstanceInactive, false })
		w.pump()
		stopped := w.with(cluster.TaskStopped)
		wantCount(t, "stopped tasks", stopped, on["i000"])
		for _, task := range stopped {
			want(t, "reason", task.Reason, "Host EC2 (instance i-i000) terminated.")
			want(t, "code", task.StopCode, cluster.StopInfrastructure)
		}
		want(t, "running", w.service("web").Service.Running, 2)
	})
	t.Run("MarksMoreStandaloneTasksLostThanACommitHolds", func(t *testing.T) {
		w := newWorld(t)
		w.ecs.define(definition("tiny", 1, 1, 1))
		w.instances("i", 1, 4096, 8192)
		for range 25 {
			w.submit(t, operation.SubmitTasks{TaskDefinition: "tiny", Count: 10})
			w.advance(time.Second)
		}
		w.advance(time.Minute)
		wantCount(t, "running tasks", w.with(cluster.TaskRunning), 250)
		w.ecs.change("i000", func(i *cluster.Instance) { i.Status = cluster.InstanceInactive })
		w.pump()
		wantCount(t, "stopped tasks", w.with(cluster.TaskStopped), 250)
	})
}

func TestPlacement_Delete(t *testing.T) {
	t.Run("DrainsThenIsInactive", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 2, 4096, 8192)
		w.create("web", "web", 3)
		w.pump()
		if _, err := w.api.Services.DeleteService(ctx, prod, "web", true); err != nil {
			t.Fatal(err)
		}
		want(t, "status", w.service("web").Service.Status, cluster.ServiceDraining)
		w.pump()
		s := w.service("web")
		want(t, "status", s.Service.Status, cluster.ServiceInactive)
		want(t, "running", s.Service.Running, 0)
		if s.Service.Expires <= w.clock.now.Add(time.Hour).Unix() {
			t.Fatalf("expires at %d", s.Service.Expires)
		}
		wantCount(t, "ECS tasks", w.ecs.live(), 0)
	})
	t.Run("IsMissingOncePurged", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.create("web", "web", 1)
		w.pump()
		if _, err := w.api.Services.DeleteService(ctx, prod, "web", true); err != nil {
			t.Fatal(err)
		}
		w.pump()
		w.store.ExpireRows(w.clock.now)
		want(t, "status", w.service("web").Service.Status, cluster.ServiceInactive)
		w.store.ExpireRows(time.Unix(w.service("web").Service.Expires, 0).Add(time.Second))
		found, missing, err := w.api.Services.DescribeServices(ctx, prod, []string{"web"})
		if err != nil || len(found) > 0 || len(missing) != 1 || missing[0].Reason != "MISSING" {
			t.Fatalf("found %v, missing %v, %v", found, missing, err)
		}
		_, err = w.update(operation.UpdateService{Name: "web", Desired: new(1)})
		wantCode(t, err, cluster.CodeServiceNotFound, "Service not found.")
		_, err = w.api.Services.DeleteService(ctx, prod, "web", true)
		wantCode(t, err, cluster.CodeServiceNotFound, "Service not found.")
	})
	t.Run("MakesRoomForANewServiceOfTheName", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 2, 4096, 8192)
		old := w.create("web", "web", 3)
		w.pump()
		if _, err := w.api.Services.DeleteService(ctx, prod, "web", true); err != nil {
			t.Fatal(err)
		}
		w.advance(time.Second)
		next := w.create("web", "web", 2)
		w.pump()
		want(t, "short key differs", old.Short != next.Short, true)
		want(t, "running", w.service("web").Service.Running, 2)
		wantCount(t, "ECS tasks", w.ecs.live(), 2)
		want(t, "expires", w.service("web").Service.Expires, 0)
	})
}

func TestPlacement_GPUShare(t *testing.T) {
	w := newWorld(t)
	share := definition("share", 1, 128, 128)
	share.Needs.GPUs, share.Needs.GPUMilli = 1, 500
	w.ecs.define(share)
	w.ecs.register(&cluster.Instance{Head: cluster.Head{Cluster: prod}, ID: "gpu", Registered: cluster.Capacity{
		CPU: 4096 * cluster.CPUUnit, Memory: 8192, GPUs: []string{"GPU-a", "GPU-b"},
	}})
	w.create("share", "share", 4)
	w.pump()
	wantCount(t, "running tasks", w.with(cluster.TaskRunning), 4)
	devices := map[string]int{}
	for _, c := range w.ecs.starts {
		for _, v := range c.Overrides.Containers[0].Environment {
			devices[v.Name+"="+v.Value]++
		}
	}
	want(t, "tasks on the first device", devices["NVIDIA_VISIBLE_DEVICES=GPU-a"], 2)
	want(t, "tasks on the second device", devices["NVIDIA_VISIBLE_DEVICES=GPU-b"], 2)
	w.scale("share", 5)
	w.pump()
	wantCount(t, "provisioning tasks", w.with(cluster.TaskProvisioning), 1)
	if text := w.service("share").Service.Blocked.String(); !strings.Contains(text, "insufficient GPU") {
		t.Fatalf("blocked: %s", text)
	}
}

func TestPlacement_WakesDueRowsOnTime(t *testing.T) {
	record := func(op state.Op, in time.Duration, kind state.DueKind) state.Record {
		due := &state.Due{Head: cluster.Head{Cluster: prod}, At: epoch.Add(in), Kind: kind}
		return state.Record{Sequence: "1", Op: op, Key: state.KeyOf(due), New: due}
	}
	for _, c := range []struct {
		name    string
		records []state.Record
		want    []time.Duration
	}{
		{"RoundsUpToSeconds", []state.Record{record(state.Insert, 1500*time.Millisecond, state.DueOutbox)}, []time.Duration{2 * time.Second}},
		{"AtOnceWhatIsPast", []state.Record{record(state.Insert, -time.Hour, state.DueOutbox)}, []time.Duration{0}},
		{"LeavesWhatIsFarToTheSchedule", []state.Record{record(state.Insert, time.Hour, state.DueOutbox)}, nil},
		{"OneMessageForTheSameTime", []state.Record{
			record(state.Insert, time.Minute, state.DueOutbox), record(state.Insert, time.Minute, state.DueWaiting),
			record(state.Insert, 2*time.Minute, state.DueOutbox),
		}, []time.Duration{time.Minute, 2 * time.Minute}},
		{"NoneForWhatWasThere", []state.Record{record(state.Modify, time.Minute, state.DueOutbox)}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.decides(w.placement, c.records)
			if !slices.Equal(w.wake.sent, c.want) {
				t.Fatalf("sent %v, want %v", w.wake.sent, c.want)
			}
		})
	}
}
