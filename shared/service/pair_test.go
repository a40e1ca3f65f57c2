package service

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
)

// Tasks of these tests have been RUNNING for an hour unless a test says otherwise.
type about func(*cluster.Task)

func newTask(id string, facts ...about) *cluster.Task {
	t := &cluster.Task{
		TaskSpec: cluster.TaskSpec{
			ID: id, Owner: "web", Revision: "ecs-svc/a", TaskDefinition: "web:a",
			CreatedAt: cluster.At(noon.Add(-time.Hour)),
		},
		TaskAssignment: cluster.TaskAssignment{Instance: "i-" + id, Desired: cluster.TaskRunning},
		TaskReport:     cluster.TaskReport{Last: cluster.TaskRunning, Started: cluster.At(noon.Add(-time.Hour))},
	}
	for _, f := range facts {
		f(t)
	}
	return t
}

func pendingTask(t *cluster.Task) { t.Last, t.Started = "", 0 }
func waitingTask(t *cluster.Task) { t.Last, t.Started, t.Instance = "", 0, "" }
func stoppingTask(t *cluster.Task) {
	t.Desired = cluster.TaskStopped
}
func endedTask(t *cluster.Task)     { t.Last, t.Stopped = cluster.TaskStopped, cluster.At(noon) }
func unhealthyTask(t *cluster.Task) { t.Health = cluster.Unhealthy }
func healthyTask(t *cluster.Task)   { t.Health = cluster.Healthy }
func replacing(id string) about     { return func(t *cluster.Task) { t.Replaces = id } }

func with(desired, minHealthy, maxPercent int, tasks ...*cluster.Task) Input {
	return Input{Now: noon, Limits: testLimits, Tasks: tasks, Service: &cluster.Service{
		ServiceIdentity: cluster.ServiceIdentity{Name: "web", Short: "web"},
		ServiceSpec: cluster.ServiceSpec{
			Strategy: cluster.Replica, Desired: desired, MinHealthy: minHealthy, MaxPercent: maxPercent,
		},
		ServiceStatus: cluster.ServiceStatus{
			Status: cluster.ServiceActive,
			Deployment: cluster.Deployment{
				Revision: cluster.Revision{ID: "ecs-svc/a", TaskDefinition: "web:a"}, State: cluster.RolloutCompleted,
				Desired: desired,
			},
		},
	}}
}

// says returns the plan's stops, starts and choices as text.
func says(p Plan) string {
	var out []string
	for _, s := range p.Stops {
		out = append(out, "stop "+s.Task.ID)
	}
	for _, c := range p.Choices {
		var ids []string
		for _, t := range c.Candidates {
			ids = append(ids, t.ID)
		}
		slices.Sort(ids)
		out = append(out, "one of "+strings.Join(ids, " "))
	}
	for _, s := range p.Starts {
		out = append(out, strings.Repeat("start ", s.Count))
	}
	return strings.TrimSpace(strings.Join(out, "; "))
}

func TestReplacementOnAnotherInstance(t *testing.T) {
	checked := func(in Input) Input {
		in.HealthChecked = func(string) bool { return true }
		return in
	}
	distrusted := func(in Input) Input {
		in.DistrustChecks = true
		return in
	}
	for _, c := range []struct {
		name string
		in   Input
		want string
	}{
		{"CountsAsOneWhileItStarts", with(2, 100, 200, newTask("t1"), newTask("t2"),
			newTask("t3", pendingTask, replacing("t1"))), ""},
		{"TakesOverOnceRunning", with(2, 100, 200, newTask("t1"), newTask("t2"), newTask("t3", replacing("t1"))),
			"stop t1"},
		{"WaitsForItsHealth", checked(with(1, 100, 200, newTask("t1", healthyTask), newTask("t2", replacing("t1")))),
			""},
		{"TakesOverOnceHealthy", checked(with(1, 100, 200, newTask("t1", healthyTask),
			newTask("t2", healthyTask, replacing("t1")))), "stop t1"},
		{"GoesWhereItIsUnhealthyItself", with(1, 100, 200, newTask("t1"),
			newTask("t2", unhealthyTask, replacing("t1"))), "stop t2"},
		{"GoesAtOnceWhereItIsUnhealthyAndOthersMayBe", with(2, 100, 200, newTask("t1"),
			newTask("t2", runningFor(time.Second)), newTask("t3", unhealthyTask, replacing("t1"))), "stop t3"},
		{"StaysWhereChecksAreDistrusted", distrusted(with(2, 100, 200, newTask("t1"),
			newTask("t2", runningFor(time.Second)), newTask("t3", unhealthyTask, replacing("t1")))), ""},
		{"IsReplacedItselfOnceItHasTakenOver", with(1, 100, 200, newTask("t1", replacing("gone")),
			newTask("t2", pendingTask, replacing("t1"))), ""},
		{"LeavesTheTaskAloneWhenItEnds", with(1, 100, 200, newTask("t1"), newTask("t2", endedTask, replacing("t1"))),
			""},
		{"StandsInWhenTheTaskEndsFirst", with(1, 100, 200, newTask("t1", endedTask),
			newTask("t2", pendingTask, replacing("t1"))), ""},
		{"GivesWayWhenScaledIn", with(1, 100, 200, newTask("t1"), newTask("t2"),
			newTask("t3", pendingTask, replacing("t1"))), "stop t3; one of t1 t2"},
		{"StaysWhenScaledInAndReady", with(1, 100, 200, newTask("t1"), newTask("t2"), newTask("t3", replacing("t1"))),
			"stop t1; one of t2 t3"},
		{"IsATaskLikeAnyWhenMoreAreWanted", with(2, 0, 150, newTask("t1"), newTask("t2", pendingTask, replacing("t1"))),
			""},
		{"SecondReplacementIsATaskLikeAny", with(1, 100, 200, newTask("t1"),
			newTask("t2", pendingTask, replacing("t1")), newTask("t3", pendingTask, replacing("t1"))),
			"stop t2; stop t3"},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, "plan", says(Reconcile(c.in)), c.want) })
	}
}

// Where tasks are missing, a task and its replacement count as two from now on: the plan says so, and no
// other time.
func TestReplacementsBecomeTasksLikeAny(t *testing.T) {
	for desired, want := range map[int]string{1: "", 2: "t2"} {
		in := with(desired, 0, 200, newTask("t1"), newTask("t2", pendingTask, replacing("t1")))
		var ended []string
		for _, task := range Reconcile(in).EndedPairs {
			ended = append(ended, task.ID)
		}
		expect(t, fmt.Sprintf("replacements that are tasks like any, with %d desired", desired),
			strings.Join(ended, " "), want)
	}
}

// What is beyond the desired count stops among the tasks that may still become healthy. An unhealthy
// one stays beside these until enough of them are.
func TestUnhealthyTasksAreNoSurplus(t *testing.T) {
	young := runningFor(time.Second)
	in := with(2, 0, 200, newTask("t1", young), newTask("t2", young), newTask("t3", young), newTask("t4", unhealthyTask))
	expect(t, "plan", says(Reconcile(in)), "one of t1 t2 t3")
}

func TestMoveLimits(t *testing.T) {
	for _, c := range []struct {
		name         string
		in           Input
		moves, stops int
	}{
		{"WithinMaximumPercent", with(2, 100, 150, newTask("t1"), newTask("t2")), 1, 0},
		{"LessThoseUnderWay", with(2, 100, 200, newTask("t1"), newTask("t2"),
			newTask("t3", pendingTask, replacing("t1"))), 1, 0},
		{"StopFirstWhereMaximumPercentLeavesNoRoom", with(2, 50, 100, newTask("t1"), newTask("t2")), 0, 1},
		{"NoneWhileTasksAreMissing", with(3, 100, 200, newTask("t1"), newTask("t2")), 0, 0},
		{"NoneWhileAReplacementThatJustEndedHasToWait", with(2, 100, 200, newTask("t1"), newTask("t2"),
			newTask("t3", createdAgo(time.Second), endedTask, replacing("t1"))), 0, 0},
		{"AgainWhenItHasWaited", with(2, 100, 200, newTask("t1"), newTask("t2"),
			newTask("t3", createdAgo(10*time.Second), endedTask, replacing("t1"))), 2, 0},
		{"OneAfterAFailedStart", throttled(with(2, 100, 200, newTask("t1"), newTask("t2")), "ecs-svc/a", 1, -time.Second),
			1, 0},
		{"NoneWhileTheNextAttemptIsUnderWay", throttled(with(2, 100, 200, newTask("t1"), newTask("t2", pendingTask)),
			"ecs-svc/a", 1, -time.Second), 0, 0},
		{"NoneWhileTheNextAttemptLooksForAnInstance", throttled(
			with(2, 100, 200, newTask("t1"), newTask("t2", waitingTask)), "ecs-svc/a", 1, -time.Second), 0, 0},
		{"OneWhileTheNextAttemptFindsNoRoom", throttled(blockedFor(time.Second,
			with(2, 100, 200, newTask("t1"), newTask("t2", waitingTask))), "ecs-svc/a", 1, -time.Second), 1, 0},
		{"NoneWhileTasksAreTooMany", with(1, 100, 200, newTask("t1"), newTask("t2")), 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Reconcile(c.in)
			expect(t, "moves", p.Moves.StartFirst, c.moves)
			expect(t, "stops first", p.Moves.StopFirst, c.stops)
		})
	}
	t.Run("ServiceStaysSteady", func(t *testing.T) {
		p := Reconcile(with(1, 100, 200, newTask("t1"), newTask("t2", pendingTask, replacing("t1"))))
		expect(t, "steady", p.Steady, true)
		expect(t, "replacing", p.Moves.InProgress, 1)
	})
	t.Run("ServiceIsNotSteadyWhileAReplacementFindsNoInstance", func(t *testing.T) {
		p := Reconcile(drainingHosts(with(2, 100, 200, newTask("t1"), newTask("t2"), newTask("t3", waitingTask)), "t1"))
		expect(t, "plan", says(p), "")
		expect(t, "steady", p.Steady, false)
	})
}

func TestDeletedService(t *testing.T) {
	deleted := func(in Input) Input {
		in.Service.Status = cluster.ServiceDraining
		return in
	}
	t.Run("ActiveServiceStaysActive", func(t *testing.T) {
		expect(t, "status", Reconcile(with(0, 100, 200)).Next.Status, cluster.ServiceActive)
	})
	t.Run("InactiveOnceAllTasksAreStopping", func(t *testing.T) {
		p := Reconcile(deleted(with(2, 100, 200, newTask("t1"), newTask("t2", waitingTask),
			newTask("t3", stoppingTask))))
		expect(t, "plan", says(p), "stop t1; stop t2")
		expect(t, "status", p.Next.Status, cluster.ServiceInactive)
	})
	t.Run("NoDeploymentWantsTasks", func(t *testing.T) {
		in := deleted(deploying(with(2, 100, 200, newTask("t1"), newTask("t2")), 1))
		in.Service.Desired = 0
		next := Reconcile(in).Next
		expect(t, "desired", [2]int{next.Deployment.Desired, next.Older[0].Desired}, [2]int{0, 0})
	})
	t.Run("InactiveServiceStopsRemainingTasks", func(t *testing.T) {
		in := with(2, 100, 200, newTask("t1"))
		in.Service.Status = cluster.ServiceInactive
		p := Reconcile(in)
		expect(t, "plan", says(p), "stop t1")
		expect(t, "status", p.Next.Status, cluster.ServiceInactive)
	})
	t.Run("DaemonServiceToo", func(t *testing.T) {
		in := deleted(with(0, 0, 100, newTask("t1"), newTask("t2", pendingTask)))
		in.Service.Strategy, in.Eligible = cluster.Daemon, []string{"i-t1", "i-t2", "i-t3"}
		p := Reconcile(in)
		expect(t, "plan", says(p), "stop t1; stop t2")
		expect(t, "status", p.Next.Status, cluster.ServiceInactive)
	})
}

// A replacement is in progress while both tasks could stay otherwise, and none is being stopped.
func TestReplacementInProgress(t *testing.T) {
	one, other := &task{condition: healthy}, &task{condition: starting}
	failing, draining := &task{condition: unhealthy}, &task{condition: healthy, onDraining: true}
	for name, c := range map[string]struct {
		pair pair
		want bool
	}{
		"BothStay":           {pair{task: one, replacement: other}, true},
		"OneIsStopped":       {pair{task: one, replacement: other, broken: true}, false},
		"TheTaskFails":       {pair{task: failing, replacement: other}, false},
		"TheTaskDrains":      {pair{task: draining, replacement: other}, false},
		"ReplacementDrains":  {pair{task: one, replacement: draining}, false},
		"ReplacementIsAlone": {pair{replacement: other}, false},
	} {
		expect(t, name, c.pair.inProgress(), c.want)
	}
}

// A task whose row names no revision is of the PRIMARY: nothing is started in its place.
func TestTasksWithoutARevision(t *testing.T) {
	w := at(t, 3)
	for _, row := range w.tasks {
		row.Revision = ""
	}
	p := w.step()
	expect(t, "starts", len(p.Starts), 0)
	expect(t, "stops", len(p.Stops), 0)
	expect(t, "steady", p.Steady, true)
}

// A task that does not serve is not missed once it has stopped.
func TestBudgetWithoutTasks(t *testing.T) {
	b := budget{healthy: 4, serving: 5, floor: 3}
	for name, c := range map[string]struct {
		task             *task
		healthy, serving int
	}{
		"Healthy":  {&task{condition: healthy}, 2, 3},
		"Starting": {&task{condition: starting}, 4, 5},
		"Failing":  {&task{condition: unhealthy}, 4, 5},
	} {
		left := b.withoutTasks(c.task, 2)
		expect(t, name+": healthy", left.healthy, c.healthy)
		expect(t, name+": serving", left.serving, c.serving)
	}
	b.distrustChecks = true
	expect(t, "failing, by checks that are distrusted", b.withoutTasks(&task{condition: unhealthy}, 2).serving, 3)
}

// A failed start counts once, also if its event comes after that of a later one.
func TestFailedStartsCountOnce(t *testing.T) {
	failed := func(at time.Time) *outcome { return &outcome{at: at, started: at, task: newTask("x")} }
	b := applyOutcome(cluster.Backoff{}, failed(noon), testLimits)
	expect(t, "failed starts", b.Step, 1)
	for _, ago := range []time.Duration{0, time.Second, time.Hour} {
		expect(t, "after the same or an earlier one", applyOutcome(b, failed(noon.Add(-ago)), testLimits), b)
	}
}
