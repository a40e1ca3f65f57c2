package handler_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/handler/api"
	"berth/shared/operation"
	"berth/shared/state"
)

// eventful is a history with everything in it that events report.
func eventful(w *world, after func()) {
	w.instances("i", 4, 1024, 8192)
	after()
	w.create("web", "web", 6)
	after()
	w.createAs(operation.CreateService{Cluster: prod, Name: "agent", TaskDefinition: "web", Strategy: cluster.Daemon})
	w.run(w.t, operation.SubmitTasks{TaskDefinition: "big", Wait: "10h"})
	after()
	live := w.ecs.live()
	w.ecs.exit(live[0], 1)
	after()
	w.ecs.change("i000", func(i *cluster.Instance) { i.Status = cluster.InstanceDraining })
	w.ecs.change("i001", func(i *cluster.Instance) { i.Status, i.AgentConnected = cluster.InstanceInactive, false })
	for _, id := range live {
		if w.ecs.tasks[id].Instance == "i001" {
			delete(w.ecs.tasks, id)
		}
	}
	after()
	w.ecs.add(cluster.ECSTask{
		Cluster: prod, Instance: "i002", TaskDefinition: "other:1", Group: "family:other", Needs: cluster.Resources{CPU: 100, Memory: 100},
	})
	after()
	w.scale("web", 3)
	after()
	w.instances("j", 1, 8192, 16384)
	after()
}

// summary is the outcome without ids and times.
func (w *world) summary() string {
	var out []string
	for _, i := range rows[*cluster.Instance](w, state.PrefixInstance) {
		out = append(out, fmt.Sprintf("instance %s %s connected %t", i.ID, i.Status, i.AgentConnected))
	}
	for _, s := range rows[*cluster.Service](w, state.PrefixService) {
		out = append(out, fmt.Sprintf("service %s running %d pending %d steady %t blocked %t", s.Name, s.Running, s.Pending, s.Steady, s.Blocked != nil))
	}
	count := map[string]int{}
	for _, t := range w.tasks() {
		if !t.HasEnded() {
			count[fmt.Sprintf("tasks of %q %s %s foreign %t", t.Service, t.TaskDefinition, t.Status(), t.Foreign)]++
		}
	}
	for _, k := range slices.Sorted(maps.Keys(count)) {
		out = append(out, fmt.Sprint(k, " ", count[k]))
	}
	return strings.Join(out, "\n")
}

func TestSweep_WritesWhatLostEventsWouldHaveWritten(t *testing.T) {
	heard := newWorld(t)
	eventful(heard, func() { heard.advance(15 * time.Minute) })
	deaf := newWorld(t)
	deaf.ecs.mute = true
	eventful(deaf, func() {
		for range 3 {
			deaf.advance(5 * time.Minute)
			deaf.sweep()
		}
		deaf.pump()
	})
	if a, b := heard.summary(), deaf.summary(); a != b {
		t.Fatalf("with events:\n%s\nwith sweeps alone:\n%s", a, b)
	}
	want(t, "running", deaf.service("web").Service.Running, 3)
}

func TestSweep_WritesNothingWhereNothingWasLost(t *testing.T) {
	still := func(t *testing.T, w *world) {
		t.Helper()
		w.advance(time.Second)
		before := w.units()
		w.sweep()
		want(t, "write units", w.units()-before, 0)
		w.pump()
		want(t, "write units after", w.units()-before, 0)
	}
	t.Run("AfterAHistory", func(t *testing.T) {
		w := newWorld(t)
		eventful(w, func() { w.advance(2 * time.Minute) })
		still(t, w)
	})
	t.Run("WithServicesThatAreBlocked", func(t *testing.T) {
		w := newWorld(t, func(s *handler.Settings) { s.ProvisioningLimit = 2 })
		w.instances("i", 2, 512, 8192)
		w.create("web", "web", 10)
		w.create("big", "big", 1)
		w.createAs(operation.CreateService{Cluster: prod, Name: "agent", TaskDefinition: "big", Strategy: cluster.Daemon})
		still(t, w)
	})
	t.Run("WithTasksWhoseRowsHaveExpired", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.create("web", "web", 2)
		w.pump()
		w.ecs.exit(w.ecs.live()[0], 0)
		w.advance(3 * time.Hour)
		w.store.ExpireRows(w.clock.now)
		wantCount(t, "task rows", w.tasks(), 2)
		wantCount(t, "ECS tasks, the stopped one included", slices.Collect(maps.Keys(w.ecs.tasks)), 3)
		still(t, w)
	})
	t.Run("WithAnExtraTaskThatWasStopped", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.create("web", "web", 1)
		w.pump()
		extra := *w.ecs.tasks[w.ecs.live()[0]]
		w.ecs.add(extra)
		w.pump()
		w.agree(t, 1)
		still(t, w)
	})
	t.Run("WithTasksThatECSRefused", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.ecs.onStart = failing(fault{err: denied})
		w.run(t, operation.SubmitTasks{})
		still(t, w)
	})
	t.Run("WithAServiceThatWasDeleted", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.create("web", "web", 2)
		w.pump()
		if _, err := w.api.Services.DeleteService(ctx, prod, "web", true); err != nil {
			t.Fatal(err)
		}
		w.pump()
		w.sweep() // retires its events
		still(t, w)
	})
	t.Run("WhileItIsThrottled", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.ecs.onStart = failing(fault{err: denied})
		w.create("web", "web", 1)
		still(t, w)
	})
	t.Run("WithForeignTasks", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		foreign := w.ecs.add(cluster.ECSTask{Cluster: prod, Instance: "i000", TaskDefinition: "other:1"})
		w.ecs.add(cluster.ECSTask{Cluster: prod, Instance: "i999", TaskDefinition: "other:1"})
		w.pump()
		still(t, w)
		w.ecs.exit(foreign.ID, 0)
		w.advance(2 * time.Hour)
		w.store.ExpireRows(w.clock.now)
		still(t, w)
	})
}

// Placement learns of a task that a sweep has recorded, wherever the sweep is cut off. If it kept
// counting the task, no DAEMON task would leave the instance once that drains.
func TestSweep_TellsPlacementWhereverItIsCutOff(t *testing.T) {
	for writes := 0; ; writes++ {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.createAs(operation.CreateService{Cluster: prod, Name: "agent", TaskDefinition: "web", Strategy: cluster.Daemon})
		w.pump()
		r := w.run(t, operation.SubmitTasks{TaskDefinition: "web"})
		w.advance(2 * time.Minute)
		w.ecs.mute = true
		w.ecs.exit(w.task(r.Tasks[0]).ECSID, 0)
		dying := &dyingState{Store: w.store, writes: writes}
		w.observer.State = dying
		_ = w.observer.RunSchedule(ctx, "sweep")
		w.observer.State, w.ecs.mute = w.store, false
		w.advance(5 * time.Minute)
		w.sweep()
		w.advance(5 * time.Minute)
		w.ecs.change("i000", func(i *cluster.Instance) { i.Status = cluster.InstanceDraining })
		w.advance(time.Minute)
		if on := placed(w.with(cluster.TaskRunning)); len(on) > 0 {
			t.Fatalf("after %d writes of the sweep: %v", writes, on)
		}
		if dying.writes >= 0 { // it was not cut off
			want(t, "writes of a sweep", writes, 3)
			return
		}
	}
}

func TestSweep_Tasks(t *testing.T) {
	t.Run("AreWrittenOffOnlyAfterSettling", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.create("web", "web", 1)
		w.pump()
		delete(w.ecs.tasks, w.ecs.live()[0])
		w.advance(30 * time.Second)
		w.sweep()
		want(t, "status", w.tasks()[0].Status(), cluster.TaskRunning)
		w.advance(time.Minute)
		id := w.tasks()[0].ID
		w.sweep()
		task := w.task(id)
		want(t, "status", task.Status(), cluster.TaskStopped)
		want(t, "code", task.StopCode, cluster.StopInfrastructure)
		want(t, "expires", task.Expires, w.clock.now.Add(time.Hour).Unix())
		w.pump()
		w.agree(t, 1)
	})
	t.Run("NeverClaimedOnesAreLeftToDispatch", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.dispatchAsleep = true
		w.create("web", "web", 1)
		w.pump()
		w.clock.now = w.clock.now.Add(time.Hour)
		w.sweep()
		want(t, "status", w.tasks()[0].Status(), cluster.TaskPending)
	})
	t.Run("UnknownStartsAreLeftToDispatchForTenTimesAsLong", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.ecs.onStart = failing(fault{err: errTimedOut})
		r := w.run(t, operation.SubmitTasks{})
		w.dispatchAsleep = true
		w.clock.now = w.clock.now.Add(9 * time.Minute)
		w.sweep()
		want(t, "status", w.task(r.Tasks[0]).Status(), cluster.TaskPending)
		w.clock.now = w.clock.now.Add(2 * time.Minute)
		w.sweep()
		want(t, "status", w.task(r.Tasks[0]).Status(), cluster.TaskStopped)
	})
	t.Run("LostOnesThatStillRunAreStopped", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		r := w.run(t, operation.SubmitTasks{})
		id := w.ecs.live()[0]
		hidden := w.ecs.tasks[id]
		delete(w.ecs.tasks, id)
		w.advance(2 * time.Minute)
		w.sweep()
		want(t, "status", w.task(r.Tasks[0]).Status(), cluster.TaskStopped)
		w.ecs.tasks[id] = hidden // with a version that the row has, too
		hidden.Version = w.task(r.Tasks[0]).Version
		w.sweep()
		w.pump()
		w.agree(t, 0)
	})
	t.Run("ForeignTasksAreLostOnlyAfterSettling", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		foreign := w.ecs.add(cluster.ECSTask{Cluster: prod, Instance: "i000", TaskDefinition: "other:1"})
		w.pump()
		delete(w.ecs.tasks, foreign.ID)
		w.sweep()
		want(t, "status", w.task(foreign.ID).Status(), cluster.TaskRunning)
		w.advance(2 * time.Minute)
		w.sweep()
		want(t, "status", w.task(foreign.ID).Status(), cluster.TaskStopped)
	})
	t.Run("ThatOnceHadARowAreStopped", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 2, 4096, 8192)
		w.create("web", "web", 1)
		w.advance(2 * time.Minute)
		for _, c := range []struct {
			name    string
			version int64 // after the cluster's own
			want    cluster.TaskStatus
		}{{"WrittenOff", 0, cluster.TaskStopped}, {"OfATimeThatIsNotKnown", 1000, cluster.TaskRunning}} {
			t.Run(c.name, func(t *testing.T) {
				by := cluster.StartedBy(w.service("web").Service.Short, rows[*state.Meta](w, state.PrefixMeta)[0].Version+c.version, 9)
				w.ecs.mute = true
				stray := w.ecs.add(cluster.ECSTask{Cluster: prod, Instance: "i001", StartedBy: by, TaskDefinition: "web:1"})
				w.ecs.mute = false
				w.pump()
				w.sweep()
				w.advance(5 * time.Minute)
				want(t, "status at ECS", w.ecs.tasks[stray.ID].Last, c.want)
			})
		}
		wantCount(t, "tasks of the service", w.with(cluster.TaskRunning), 2) // and the one that is not known
	})
	t.Run("OfBerthWithoutARowStayForeign", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		by := cluster.StartedBy(cluster.ShortKey(prod, "old", epoch), 7, 0)
		stray := w.ecs.add(cluster.ECSTask{Cluster: prod, Instance: "i000", StartedBy: by, TaskDefinition: "web:1"})
		w.pump()
		want(t, "foreign", w.task(stray.ID).Foreign, true)
		for range 3 {
			w.advance(time.Hour)
			w.sweep()
			want(t, "status", w.task(stray.ID).Status(), cluster.TaskRunning)
		}
	})
}

func TestSweep_Instances(t *testing.T) {
	t.Run("UnlistedOnesAreDeregistered", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 2, 4096, 8192)
		w.create("web", "web", 2)
		w.advance(2 * time.Minute)
		for _, id := range w.ecs.live() {
			if w.ecs.tasks[id].Instance == "i000" {
				delete(w.ecs.tasks, id)
			}
		}
		delete(w.ecs.instances, "i000")
		version := w.version()
		w.sweep()
		row := w.instance("i000")
		want(t, "status", row.Status, cluster.InstanceInactive)
		want(t, "narrows", w.version() > version, true)
		w.pump()
		want(t, "running", w.service("web").Service.Running, 2)
		want(t, "tasks on the other", placed(w.tasks())["i001"], 2)
	})
	t.Run("ThatHaveJustRegisteredMayNotBeListedYet", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		delete(w.ecs.instances, "i000")
		w.advance(30 * time.Second)
		w.sweep()
		want(t, "status", w.instance("i000").Status, cluster.InstanceActive)
	})
	t.Run("OfALargeClusterAreDescribedInBatches", func(t *testing.T) {
		w := newWorld(t)
		w.ecs.mute = true
		w.instances("i", 230, 4096, 8192)
		w.sweep()
		wantCount(t, "instances", rows[*cluster.Instance](w, state.PrefixInstance), 230)
	})
}

func TestSweep_ExpiresAlarmWatches(t *testing.T) {
	w := newWorld(t)
	short := w.create("web", "web", 0).Short
	w.pump()
	watch := &cluster.AlarmWatch{Head: cluster.Head{Cluster: prod, Rev: 1}, Owner: short, Service: "web"}
	if _, err := w.store.Write(ctx, state.Write{Put: watch}); err != nil {
		t.Fatal(err)
	}
	w.sweep()
	want(t, "expires while the service is ACTIVE", rows[*cluster.AlarmWatch](w, state.PrefixAlarms)[0].Expires, 0)
	if _, err := w.api.Services.DeleteService(ctx, prod, "web", true); err != nil {
		t.Fatal(err)
	}
	w.pump()
	w.sweep()
	want(t, "expires", rows[*cluster.AlarmWatch](w, state.PrefixAlarms)[0].Expires, w.service("web").Service.Expires)
}

func TestSweep_WakesPlacement(t *testing.T) {
	t.Run("AtServicesWhoseRecordsWereLost", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.create("web", "web", 2)
		w.advance(10 * time.Second)
		w.placementAsleep = true
		w.ecs.exit(w.ecs.live()[0], 0)
		w.pump()
		w.decide, w.placementAsleep = nil, false
		w.sweep()
		dues := w.dues()
		wantCount(t, "due rows", dues, 1)
		want(t, "kind", dues[0].Kind, state.DueService)
		want(t, "subject", dues[0].Subject, "web")
		w.advance(time.Second)
		w.agree(t, 2)
		want(t, "running", w.service("web").Service.Running, 2)
	})
	t.Run("AtServicesThatWait", func(t *testing.T) {
		w := newWorld(t)
		w.create("web", "web", 2)
		w.pump()
		w.placementAsleep = true
		w.instances("i", 1, 4096, 8192)
		w.decide, w.placementAsleep = nil, false
		w.sweep()
		w.advance(time.Second)
		w.agree(t, 2)
	})
	t.Run("AtServicesBlockedBeyondTheLimit", func(t *testing.T) {
		w := newWorld(t, func(s *handler.Settings) { s.ProvisioningLimit = 0 })
		w.create("web", "web", 2)
		w.createAs(operation.CreateService{Cluster: prod, Name: "agent", TaskDefinition: "web", Strategy: cluster.Daemon})
		w.pump()
		w.placementAsleep = true
		w.instances("i", 1, 4096, 8192)
		w.decide, w.placementAsleep = nil, false
		w.sweep()
		wantCount(t, "due rows", w.dues(), 2)
		w.advance(time.Second)
		w.agree(t, 3)
	})
	t.Run("AtStandaloneTasksThatWait", func(t *testing.T) {
		w := newWorld(t)
		w.run(t, operation.SubmitTasks{Wait: api.WaitForever})
		w.placementAsleep = true
		w.instances("i", 1, 4096, 8192)
		w.decide, w.placementAsleep = nil, false
		w.sweep()
		want(t, "kind", w.dues()[0].Kind, state.DueWaiting)
		w.advance(time.Second)
		w.agree(t, 1)
	})
	t.Run("AtRequestsNobodyAnswered", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		r := w.submit(t, operation.SubmitTasks{})
		w.decide = nil
		w.sweep()
		wantCount(t, "due rows while the caller waits", w.dues(), 0)
		w.clock.now = w.clock.now.Add(time.Minute)
		w.sweep()
		w.advance(time.Second)
		want(t, "answered", w.request(t, r.ID).Answered, true)
		w.agree(t, 1)
	})
}

func TestSweep_ExpiresEventsOfInactiveServices(t *testing.T) {
	w := newWorld(t)
	w.instances("i", 1, 4096, 8192)
	w.create("web", "web", 1)
	w.create("other", "web", 1)
	w.pump()
	if _, err := w.api.Services.DeleteService(ctx, prod, "web", true); err != nil {
		t.Fatal(err)
	}
	w.pump()
	w.sweep()
	s, other := w.service("web"), w.service("other")
	if len(s.EventLog) == 0 || len(other.EventLog) == 0 {
		t.Fatal("there are no events")
	}
	for _, e := range s.EventLog {
		want(t, "expires", e.Expires, s.Service.Expires)
	}
	for _, e := range other.EventLog {
		want(t, "expires", e.Expires, 0)
	}
	w.advance(4 * time.Hour)
	w.store.ExpireRows(w.clock.now)
	wantCount(t, "event rows", rows[*cluster.ServiceEvent](w, state.PrefixEvent), len(other.EventLog))
	_, missing, err := w.api.Services.DescribeServices(ctx, prod, []string{"web"})
	if err != nil || len(missing) != 1 || missing[0].Reason != "MISSING" {
		t.Fatalf("%v, %v", missing, err)
	}
}

func TestSweep_FailsForOneClusterAlone(t *testing.T) {
	w := newWorld(t)
	w.ecs.clusters["a"] = true
	if err := w.api.Clusters.ClusterCreated(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	w.ecs.onList = func() error {
		w.ecs.onList = nil // the first cluster's alone
		return throttled
	}
	w.ecs.mute = true
	w.instances("i", 1, 4096, 8192)
	if err := w.observer.RunSchedule(ctx, "sweep"); err == nil || !strings.Contains(err.Error(), "cluster a") && !strings.Contains(err.Error(), "cluster prod") {
		t.Fatalf("got %v", err)
	}
	wantCount(t, "instances of the other", rows[*cluster.Instance](w, state.PrefixInstance), 1)
}
