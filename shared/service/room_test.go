package service

import (
	"testing"
	"time"

	"berth/shared/cluster"
)

// blockedFor makes a service blocked since d ago for lack of CPU.
func blockedFor(d time.Duration, in Input) Input {
	in.Service.Blocked = &cluster.Diagnosis{Evaluated: 1,
		Rejected: []cluster.Rejection{{Filter: cluster.FilterCPU, Count: 1}}}
	in.Service.BlockedSince = noon.Add(-d)
	return in
}

// drainingHosts says that the instances of these tasks are draining.
func drainingHosts(in Input, ids ...string) Input {
	return hostsIn(in, InstanceDraining, ids...)
}

func hostsIn(in Input, state InstanceState, ids ...string) Input {
	of, before := map[string]bool{}, in.InstanceState
	for _, id := range ids {
		of["i-"+id] = true
	}
	in.InstanceState = func(instance string) InstanceState {
		switch {
		case of[instance]:
			return state
		case before != nil:
			return before(instance)
		}
		return InstanceUsable
	}
	return in
}

// throttled says that so many attempts of a revision have failed, and when the next one is due.
func throttled(in Input, revision string, step int, next time.Duration) Input {
	if in.Throttle == nil {
		in.Throttle = &cluster.Throttle{Revisions: map[string]cluster.Backoff{}}
	}
	in.Throttle.Revisions[revision] = cluster.Backoff{Step: step, Since: noon.Add(-time.Minute), Failures: step,
		NextAttemptAt: noon.Add(next), Settled: noon.Add(-time.Minute)}
	return in
}

// A task on a draining instance stops for one that has found no room for a minute, or for 15 where
// managed scaling may add an instance, but not below minimumHealthyPercent (S11).
func TestRoomIsMade(t *testing.T) {
	waiting := func() Input { return with(2, 50, 200, newTask("t1"), newTask("t2"), newTask("t3", waitingTask)) }
	providers := func(in Input) Input {
		in.Service.Providers = []cluster.ProviderShare{{Provider: "p", Weight: 1}}
		in.Service.Deployment.Providers = in.Service.Providers
		return in
	}
	for _, c := range []struct {
		name string
		in   Input
		want string
	}{
		{"NotAtOnce", blockedFor(59*time.Second, drainingHosts(waiting(), "t1")), ""},
		{"AfterAMinute", blockedFor(time.Minute, drainingHosts(waiting(), "t1")), "stop t1"},
		{"NotIfTheServiceIsNotBlocked", drainingHosts(waiting(), "t1"), ""},
		{"NotWhileScalingMayHelp", blockedFor(14*time.Minute, providers(drainingHosts(waiting(), "t1"))), ""},
		{"AfterFifteenMinutesOfScaling", blockedFor(15*time.Minute, providers(drainingHosts(waiting(), "t1"))),
			"stop t1"},
		{"OneForEachTaskThatWaits", blockedFor(time.Hour, drainingHosts(
			with(4, 0, 200, newTask("t1"), newTask("t2"), newTask("t3"), newTask("t4"), newTask("t5", waitingTask),
				newTask("t6", waitingTask)), "t1", "t2", "t3")), "stop t1; stop t2; start"},
		{"NotBelowTheMinimum", blockedFor(time.Hour, drainingHosts(
			with(2, 100, 200, newTask("t1"), newTask("t2"), newTask("t3", waitingTask)), "t1", "t2")), "start"},
		{"ATaskThatIsStoppingMakesRoomAlready", blockedFor(time.Hour, drainingHosts(
			with(2, 50, 200, newTask("t1"), newTask("t2"), newTask("t3", waitingTask), newTask("t4", stoppingTask)),
			"t1")), ""},
		{"NotWhileStartsAreDelayed", throttled(blockedFor(time.Hour, drainingHosts(waiting(), "t1")), "ecs-svc/a", 2,
			time.Minute), ""},
		{"OneAtATimeAfterAFailedStart", throttled(blockedFor(time.Hour, drainingHosts(
			with(4, 0, 200, newTask("t1"), newTask("t2"), newTask("t3"), newTask("t4"), newTask("t5", waitingTask),
				newTask("t6", waitingTask)), "t1", "t2", "t3")), "ecs-svc/a", 1, -time.Second), "stop t1"},
		{"AnUnhealthyTaskFirst", blockedFor(time.Hour, drainingHosts(
			with(3, 0, 200, newTask("t1"), newTask("t2", unhealthyTask), newTask("t3"), newTask("t4", waitingTask)),
			"t1")),
			"stop t2; start"},
		{"NothingForAFailedDeployment", blockedFor(time.Hour, drainingHosts(func() Input {
			in := with(2, 0, 200, newTask("t1"), newTask("t2"), newTask("t3", waitingTask))
			in.Service.Deployment.State = cluster.RolloutFailed
			return in
		}(), "t1")), "stop t3"},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, "plan", says(Reconcile(c.in)), c.want) })
	}
	t.Run("NotForWhatNoStopWouldHelp", func(t *testing.T) {
		unhealthy := func() Input {
			return blockedFor(time.Hour, with(2, 0, 200, newTask("t1", unhealthyTask), newTask("t2"),
				newTask("t3", waitingTask)))
		}
		expect(t, "for lack of CPU", says(Reconcile(unhealthy())), "stop t1")
		in := unhealthy()
		in.Service.Blocked.Rejected[0].Filter = cluster.FilterStatus
		expect(t, "for lack of instances", says(Reconcile(in)), "")
		in = unhealthy()
		in.FitsEmptyInstance = func(definition string) bool { return definition != "web:a" }
		expect(t, "if it fits on no instance at all", says(Reconcile(in)), "")
	})
}

// While maximumPercent is exceeded, tasks that wait for an instance stop first: nothing is lost
// with them (S8).
func TestWaitingTasksStopFirst(t *testing.T) {
	in := with(1, 100, 200, newTask("t1"), newTask("t2", waitingTask), newTask("t3", waitingTask),
		newTask("t4", waitingTask))
	in.Service.Older = []cluster.Deployment{{
		Revision: cluster.Revision{ID: "ecs-svc/b"}, State: cluster.RolloutCompleted, Desired: 1,
	}}
	in.Tasks[0].Revision = "ecs-svc/b"
	in.Service.Deployment.State = cluster.RolloutInProgress
	p := Reconcile(in)
	expect(t, "plan", says(p), "stop t2; stop t3")
	expect(t, "reason", p.Stops[0].Reason, "Scaling activity initiated by (deployment ecs-svc/a)")
}

// Of an earlier deployment, only tasks that hold capacity stop for new ones that find no room: one that
// itself waits for an instance makes none (S11).
func TestWaitingTasksMakeNoRoom(t *testing.T) {
	in := blockedFor(time.Hour, with(2, 100, 200, newTask("t1"), newTask("t2", waitingTask), newTask("t3", waitingTask),
		newTask("t4", waitingTask)))
	in.Service.Older = []cluster.Deployment{{
		Revision: cluster.Revision{ID: "ecs-svc/b"}, State: cluster.RolloutCompleted, Desired: 2,
	}}
	in.Tasks[0].Revision, in.Tasks[1].Revision = "ecs-svc/b", "ecs-svc/b"
	in.Service.Deployment.State = cluster.RolloutInProgress
	expect(t, "at the minimum", says(Reconcile(in)), "")
	in.Service.MinHealthy = 0
	expect(t, "above the minimum", says(Reconcile(in)), "stop t1")
}

// Of an earlier deployment, a task that has to go and the one that waits in its place are one: while the new
// deployment finds no room, the next look stops neither (S11).
func TestReplacementsOfEarlierDeploymentsWait(t *testing.T) {
	in := drainingHosts(with(3, 100, 200, newTask("t1"), newTask("t2"), newTask("t3"), newTask("t4", waitingTask),
		newTask("t5", waitingTask)), "t1")
	in.Service.Older = []cluster.Deployment{{
		Revision: cluster.Revision{ID: "ecs-svc/b"}, State: cluster.RolloutCompleted, Desired: 2,
	}}
	in.Tasks[0].Revision, in.Tasks[1].Revision = "ecs-svc/b", "ecs-svc/b"
	in.Service.Deployment.State = cluster.RolloutInProgress
	p := Reconcile(in)
	expect(t, "the task has to go", says(p), "start")
	expect(t, "its deployment", p.Starts[0].Revision.ID, "ecs-svc/b")
	in.Tasks = append(in.Tasks, newTask("t6", waitingTask))
	in.Tasks[5].Revision = "ecs-svc/b"
	expect(t, "another waits in its place", says(Reconcile(in)), "")
	in.Tasks[3] = newTask("t4") // the new deployment has found room
	expect(t, "a new task is healthy", says(Reconcile(in)), "stop t6; stop t1")
}
