package handler_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/awsevent"
	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/state"
)

// started is a world in which ECS has one task of a service that no event has reported.
func started(t testing.TB) (*world, cluster.ECSTask) {
	t.Helper()
	w := newWorld(t)
	w.instances("i", 1, 4096, 8192)
	w.ecs.frozen = true
	w.create("web", "web", 1)
	w.pump()
	wantCount(t, "ECS tasks", w.ecs.live(), 1)
	return w, *w.ecs.tasks[w.ecs.live()[0]]
}

func TestTaskStateChange_Tasks(t *testing.T) {
	at := func(s int) time.Time { return epoch.Add(time.Duration(s) * time.Second) }
	running := func(t cluster.ECSTask) cluster.ECSTask {
		t.Last, t.Version, t.Started = cluster.TaskRunning, 3, at(1)
		return t
	}
	later := func(t cluster.ECSTask) cluster.ECSTask {
		t = running(t)
		t.Version = 5
		return t
	}
	stopped := func(t cluster.ECSTask) cluster.ECSTask {
		t = running(t)
		t.Last, t.Desired, t.Version, t.Stopped = cluster.TaskStopped, cluster.TaskStopped, 7, at(2)
		t.StopCode, t.Reason, t.ExitCode = cluster.StopContainerExited, "it was over", new(3)
		return t
	}
	pending := func(t cluster.ECSTask) cluster.ECSTask { return t }
	type state func(cluster.ECSTask) cluster.ECSTask
	for _, c := range []struct {
		name   string
		events []state
		status cluster.TaskStatus
		rev    int64 // 2 before: made and claimed
	}{
		{"Running", []state{running}, cluster.TaskRunning, 3},
		{"PendingSaysNothingNew", []state{pending}, cluster.TaskPending, 2},
		{"Duplicate", []state{running, running, running}, cluster.TaskRunning, 3},
		{"Stale", []state{later, running}, cluster.TaskRunning, 3},
		{"Stopped", []state{running, stopped}, cluster.TaskStopped, 4},
		{"StoppedFirst", []state{stopped, running, later}, cluster.TaskStopped, 3},
		{"NeverLeavesStopped", []state{stopped, func(t cluster.ECSTask) cluster.ECSTask {
			t = running(t)
			t.Version = 7
			return t
		}}, cluster.TaskStopped, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, task := started(t)
			id := w.tasks()[0].ID
			for _, s := range c.events {
				w.observe(taskEvent(s(task)))
			}
			row := w.task(id)
			want(t, "status", row.Status(), c.status)
			want(t, "writes", row.Rev, c.rev)
			if row.Last != "" {
				want(t, "started", row.Started.Time(), at(1))
				want(t, "ECS's id", row.ECSID, task.ID)
			}
			if c.status == cluster.TaskStopped {
				want(t, "stopped", row.Stopped.Time(), at(2))
				want(t, "exit code", *row.ExitCode, 3)
				want(t, "code", row.StopCode, cluster.StopContainerExited)
			}
			wantCount(t, "outbox rows", w.outbox(), 0)
		})
	}
	t.Run("KeepsWhyItWasStopped", func(t *testing.T) {
		w, task := started(t)
		id := w.tasks()[0].ID
		w.observe(taskEvent(running(task)))
		if _, err := w.api.Tasks.StopTask(ctx, prod, id, "mine"); err != nil {
			t.Fatal(err)
		}
		w.observe(taskEvent(stopped(task)))
		want(t, "reason", w.task(id).Reason, "mine")
		want(t, "code", w.task(id).StopCode, cluster.StopUserInitiated)
	})
	t.Run("StopsAnExtraTask", func(t *testing.T) {
		w, task := started(t)
		w.observe(taskEvent(running(task)))
		extra := w.ecs.add(task)
		w.observe(taskEvent(running(extra)))
		wantCount(t, "outbox rows", w.outbox(), 1)
		want(t, "to be stopped", w.outbox()[0].Stops[0].ECSID, extra.ID)
		w.observe(taskEvent(running(extra)))
		wantCount(t, "outbox rows", w.outbox(), 1)
		w.ecs.frozen = false
		w.pump()
		w.agree(t, 1)
		want(t, "adopted", w.with(cluster.TaskRunning)[0].ECSID, task.ID)
	})
	t.Run("LeavesAnExtraTaskThatHasStopped", func(t *testing.T) {
		w, task := started(t)
		w.observe(taskEvent(running(task)))
		extra := w.ecs.add(task)
		w.observe(taskEvent(stopped(extra)))
		wantCount(t, "outbox rows", w.outbox(), 0)
		wantCount(t, "running tasks", w.with(cluster.TaskRunning), 1)
	})
}

// ECS is asked before an old event moves tasks.
func TestTaskStateChange_OldEvents(t *testing.T) {
	at := func(when time.Time, event []byte) []byte {
		return []byte(strings.Replace(string(event), `"time":`, `"time":"`+when.Format(time.RFC3339)+`","was":`, 1))
	}
	for _, age := range []time.Duration{time.Minute, time.Hour} {
		old := age == time.Hour
		t.Run("DrainingInstance/"+age.String(), func(t *testing.T) {
			w, _ := started(t)
			drains := *w.ecs.instances["i000"]
			drains.Status, drains.Version = cluster.InstanceDraining, drains.Version+1
			w.ecs.instances["i000"].Version += 2
			w.observe(at(w.clock.now.Add(-age), instanceEvent(&drains)))
			want(t, "DRAINING", w.instance("i000").Status == cluster.InstanceDraining, !old)
		})
	}
}

func TestTaskStateChange_ForeignTasks(t *testing.T) {
	foreign := func(w *world, cpu int64) cluster.ECSTask {
		return w.ecs.add(cluster.ECSTask{
			Cluster: prod, Instance: "i000", StartedBy: "somebody", Group: "family:other", TaskDefinition: "other:4",
			Needs: cluster.Resources{CPU: cpu * cluster.CPUUnit, Memory: 100},
		})
	}
	t.Run("MoveTheVersionAndHoldCapacity", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		version := w.version()
		e := foreign(w, 4000)
		w.pump()
		want(t, "version", w.version(), version+1)
		row := w.task(e.ID)
		want(t, "foreign", row.Foreign, true)
		want(t, "stamp", row.Stamp, version+1)
		want(t, "started by", row.StartedByUser, "somebody")
		want(t, "status", row.Status(), cluster.TaskRunning)
		r := w.run(t, operation.SubmitTasks{})
		want(t, "failure", r.Failures[0].Reason, "RESOURCE:CPU")
	})
	t.Run("FreeWithoutMovingTheVersion", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		e := foreign(w, 4000)
		w.pump()
		w.create("web", "web", 1)
		w.pump()
		wantCount(t, "provisioning tasks", w.with(cluster.TaskProvisioning), 1)
		w.placementAsleep = true
		version := w.version()
		w.ecs.exit(e.ID, 0)
		w.pump()
		want(t, "version", w.version(), version)
		w.placementAsleep = false
		w.pump()
		want(t, "running", w.service("web").Service.Running, 1)
		wantCount(t, "StopTask calls", w.ecs.stops, 0)
	})
	t.Run("CountAgainstGPUs", func(t *testing.T) {
		w := newWorld(t)
		gpu := definition("gpu", 1, 128, 128)
		gpu.Needs.GPUs = 1
		w.ecs.define(gpu)
		w.ecs.register(&cluster.Instance{Head: cluster.Head{Cluster: prod}, ID: "i000", Registered: cluster.Capacity{
			CPU: 4096 * cluster.CPUUnit, Memory: 8192, GPUs: []string{"a", "b"},
		}})
		w.pump()
		first := w.run(t, operation.SubmitTasks{TaskDefinition: "gpu"})
		second := w.run(t, operation.SubmitTasks{TaskDefinition: "gpu"})
		want(t, "devices", fmt.Sprint(w.task(first.Tasks[0]).GPUs, w.task(second.Tasks[0]).GPUs), "[0] [1]")
		w.ecs.exit(w.task(first.Tasks[0]).ECSID, 0)
		w.pump()
		e := w.ecs.add(cluster.ECSTask{Cluster: prod, Instance: "i000", TaskDefinition: "other:1", Needs: cluster.Resources{GPUs: 1}})
		w.pump()
		r := w.run(t, operation.SubmitTasks{TaskDefinition: "gpu"})
		wantCount(t, "tasks where both devices are taken", r.Tasks, 0)
		w.ecs.exit(e.ID, 0)
		w.pump()
		r = w.run(t, operation.SubmitTasks{TaskDefinition: "gpu"})
		wantCount(t, "tasks where one is free again", r.Tasks, 1)
	})
	t.Run("HoldPortsOnceTheyRun", func(t *testing.T) {
		w := newWorld(t)
		port := definition("port", 1, 128, 128)
		port.Ports = []cluster.Port{{Number: 8080, Protocol: cluster.TCP}}
		w.ecs.define(port)
		w.instances("i", 1, 4096, 8192)
		w.ecs.frozen = true
		e := foreign(w, 100)
		w.pump()
		version := w.version()
		w.ecs.report(e.ID, func(t *cluster.ECSTask) { t.Last, t.Ports = cluster.TaskRunning, port.Ports })
		w.pump()
		want(t, "version", w.version(), version+1)
		want(t, "stamp", w.task(e.ID).Stamp, version+1)
		want(t, "status", w.task(e.ID).Status(), cluster.TaskRunning)
		r := w.run(t, operation.SubmitTasks{TaskDefinition: "port"})
		wantCount(t, "tasks", r.Tasks, 0)
		want(t, "reason", r.Failures[0].Reason, "RESOURCE:PORTS")
	})
	t.Run("MoveTheVersionOnceHoweverOftenTheyReport", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		e := foreign(w, 100)
		w.pump()
		version := w.version()
		w.ecs.report(e.ID, func(*cluster.ECSTask) {})
		w.pump()
		want(t, "version", w.version(), version)
	})
	t.Run("AreTriedAgainWhereTheVersionHasMovedOn", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		raced := 0
		spy := &spyState{Store: w.store}
		spy.beforeCommit = func(state.Commit) error {
			if raced++; raced <= 3 {
				w.bump()
			}
			return nil
		}
		w.observer.State = spy
		e := foreign(w, 100)
		w.pump()
		want(t, "stamp", w.task(e.ID).Stamp, w.version())
		want(t, "commits tried", raced, 4)
	})
}

func TestTaskStateChange_Drops(t *testing.T) {
	w := newWorld(t)
	w.instances("i", 1, 4096, 8192)
	w.observer.Decoder = awsevent.Decoder{}
	ours := cluster.StartedBy(cluster.ShortKey("x", "y", epoch), 1, 0)
	task := cluster.ECSTask{Cluster: prod, ID: "t", Instance: "i999", TaskDefinition: "a:1", Last: cluster.TaskRunning, Desired: cluster.TaskRunning, Version: 1}
	elsewhere, mine, fargate := task, task, task
	elsewhere.Cluster, mine.StartedBy, fargate.Instance = "nowhere", ours, ""
	i := &cluster.Instance{Head: cluster.Head{Cluster: "nowhere"}, ID: "i000", Status: cluster.InstanceActive, Version: 1}
	left := &cluster.Instance{Head: cluster.Head{Cluster: prod}, ID: "i998", Status: cluster.InstanceInactive, Version: 4}
	before := w.units()
	again := w.observer.HandleMessages(ctx, messages(
		[]byte("{"), []byte(""), []byte(`{"source":"aws.ecs","detail-type":"ECS Task State Change","detail":{}}`), []byte(`{"schedule":"sweep"}`),
		event("ECS Something Else", object{}), taskEvent(task), taskEvent(elsewhere), taskEvent(mine), taskEvent(fargate), instanceEvent(i), instanceEvent(left),
	))
	wantCount(t, "messages again", again, 0)
	_, dropped := w.observer.Telemetry.Collect()
	for kind, n := range map[string]int{"malformed": 3, "unhandled": 2, "task": 4, "cluster": 1, "instance": 1} {
		want(t, "dropped: "+kind, dropped[kind], n)
	}
	// A report of a task that may have no row left costs one refused write.
	if units := w.units() - before; units > 1 {
		t.Fatalf("%g write units", units)
	}
}

func TestTaskStateChange_Instances(t *testing.T) {
	for _, c := range []struct {
		name    string
		before  func(*cluster.Instance) // a change that is known already
		change  func(*cluster.Instance)
		narrows bool
		due     int
	}{
		{"Draining", nil, func(i *cluster.Instance) { i.Status = cluster.InstanceDraining }, true, 1},
		{"Disconnected", nil, func(i *cluster.Instance) { i.AgentConnected = false }, true, 1},
		{"Gone", nil, func(i *cluster.Instance) { i.Status = cluster.InstanceInactive }, true, 0},
		{"Smaller", nil, func(i *cluster.Instance) { i.Registered.Memory = 1 }, true, 0},
		{"WithAnotherAttribute", nil, func(i *cluster.Instance) { i.Attributes["a"] = "b" }, true, 0},
		{"WithAnotherZone", nil, func(i *cluster.Instance) { i.Attributes[cluster.AttributeZone] = "z" }, true, 0},
		{
			"WithoutAnAttribute", func(i *cluster.Instance) { i.Attributes["a"] = "b" },
			func(i *cluster.Instance) { delete(i.Attributes, "a") }, true, 0,
		},
		{
			"ActiveAgain", func(i *cluster.Instance) { i.Status = cluster.InstanceDraining },
			func(i *cluster.Instance) { i.Status = cluster.InstanceActive }, false, 1,
		},
		{
			"ConnectedAgain", func(i *cluster.Instance) { i.AgentConnected = false },
			func(i *cluster.Instance) { i.AgentConnected = true }, false, 1,
		},
		{
			"GoneFromDraining", func(i *cluster.Instance) { i.Status = cluster.InstanceDraining },
			func(i *cluster.Instance) { i.Status = cluster.InstanceInactive }, true, 1,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.instances("i", 1, 4096, 8192)
			if c.before != nil {
				w.ecs.change("i000", c.before)
				w.pump()
			}
			version, rev := w.version(), w.instance("i000").Rev
			w.ecs.change("i000", c.change)
			w.pump()
			row := w.instance("i000")
			want(t, "writes", row.Rev, rev+1)
			want(t, "narrows", w.version() > version, c.narrows)
			want(t, "stamped", row.Stamp == w.version() && row.Stamp > version, c.narrows)
			wantCount(t, "due rows", w.dues(), c.due)
			want(t, "expires", row.Expires > 0, row.IsDeregistered())
		})
	}
	t.Run("AreNotWrittenWhereNothingHasChanged", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		old := *w.ecs.instances["i000"]
		before := w.units()
		w.ecs.change("i000", func(*cluster.Instance) {})
		w.pump()
		old.Status = cluster.InstanceDraining // and older
		w.observe(instanceEvent(&old))
		want(t, "write units", w.units(), before)
		want(t, "status", w.instance("i000").Status, cluster.InstanceActive)
	})
	t.Run("AreTriedAgainWhereSomebodyElseWroteTheRow", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		other := *w.observer
		spy := &spyState{Store: w.store}
		raced := false
		spy.beforeCommit = func(state.Commit) error {
			if !raced {
				raced = true
				i := *w.ecs.instances["i000"]
				i.Version, i.AgentConnected = 2, false
				other.HandleMessages(ctx, messages(instanceEvent(&i)))
			}
			return nil
		}
		w.observer.State = spy
		w.ecs.change("i000", func(i *cluster.Instance) { i.Version, i.Status = 2, cluster.InstanceDraining })
		w.pump()
		want(t, "raced", raced, true)
		want(t, "version", w.instance("i000").Version, int64(3))
		want(t, "status", w.instance("i000").Status, cluster.InstanceDraining)
		want(t, "connected", w.instance("i000").AgentConnected, true)
	})
}

func TestTaskStateChange_StoreErrors(t *testing.T) {
	w := newWorld(t)
	w.instances("i", 2, 4096, 8192)
	spy := &spyState{Store: w.store}
	w.observer.State = spy
	spy.beforeCommit = func(c state.Commit) error {
		if strings.HasSuffix(c.Writes[0].Key().Sort, "i000") {
			return errStore
		}
		return nil
	}
	drain := func(i *cluster.Instance) { i.Status = cluster.InstanceDraining }
	w.ecs.change("i000", drain)
	w.ecs.change("i001", drain)
	events := w.ecs.events
	again := w.observer.HandleMessages(ctx, messages(append(events, []byte("{"))...))
	if !slices.Equal(again, []string{"m0"}) {
		t.Fatalf("again: %v", again)
	}
	want(t, "status of the other", w.instance("i001").Status, cluster.InstanceDraining)
	spy.beforeCommit = nil
	w.observe(events...)
	want(t, "status", w.instance("i000").Status, cluster.InstanceDraining)
	due := func(id string) int {
		return len(slices.DeleteFunc(w.dues(), func(d *state.Due) bool { return d.Subject != id }))
	}
	want(t, "due rows", due("i000"), 1)
	want(t, "due rows of the other", due("i001"), 1)
}

func TestTaskStateChange_KnowsNoOtherSchedule(t *testing.T) {
	w := newWorld(t)
	if err := w.observer.RunSchedule(ctx, "due"); err == nil || !strings.Contains(err.Error(), `"due"`) {
		t.Fatalf("got %v", err)
	}
}
