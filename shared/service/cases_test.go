package service

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
)

func protecting(in Input, ids ...string) Input {
	in.ProtectedUntil = func(id string) time.Time {
		if slices.Contains(ids, id) {
			return noon.Add(time.Hour)
		}
		return time.Time{}
	}
	return in
}

// A replacement that cannot stop, or whose task cannot, stays paired with it: both count as one.
func TestPairsThatCannotPartStayPairs(t *testing.T) {
	for name, c := range map[string]struct {
		in   Input
		want string
	}{
		"TheTaskIsProtected": {protecting(with(1, 100, 200, newTask("t1"), newTask("t2", replacing("t1"))), "t1"), ""},
		"TheReplacementIsProtected": {protecting(with(1, 100, 200, newTask("t1"), newTask("t2"),
			newTask("t3", pendingTask, replacing("t1"))), "t3"), "stop t2"},
		"AnotherTaskStopsForIt": {protecting(with(1, 100, 200, newTask("t1"), newTask("t2", replacing("t1")),
			newTask("t3")), "t1"), "stop t3"},
	} {
		t.Run(name, func(t *testing.T) { expect(t, "plan", says(Reconcile(c.in)), c.want) })
	}
}

// No stop leaves fewer healthy tasks than the minimum, and a stabilizing task is not one yet: of
// three healthy and one stabilizing daemon at 50 %, one of each may stop (S8).
func TestStabilizingTasksDoNotStandInForHealthyOnes(t *testing.T) {
	in := deploying(daemons([]string{"i-t1", "i-t2", "i-t3", "i-t4"}, newTask("t1"), newTask("t2"), newTask("t3"),
		newTask("t4", stabilizingTask)), 4)
	in.Service.MinHealthy = 50
	expect(t, "plan", says(Reconcile(in)), "stop t1; stop t4")
}

// While the new revision is delayed, daemons start of an older one only if that works: not if it
// never completed, has no task that works and fails to start, too (S4).
func TestDaemonsOfAnAbandonedRevisionDoNotStart(t *testing.T) {
	in := throttled(throttled(daemons([]string{"i-x"}, newTask("t1", olderRevision, failedStart)), "ecs-svc/a", 1,
		time.Minute),
		"ecs-svc/b", 1, -time.Minute)
	in.Service.Deployment.State = cluster.RolloutInProgress
	in.Service.Older = []cluster.Deployment{{Revision: cluster.Revision{ID: "ecs-svc/b"},
		State: cluster.RolloutInProgress, Desired: 1}}
	expect(t, "plan", says(Reconcile(in)), "")
	in.Service.Older[0].State = cluster.RolloutCompleted
	expect(t, "plan if it once completed", says(Reconcile(in)), "start")
	expect(t, "older deployments if it once completed", len(Reconcile(in).Next.Older), 1)
}

// An older revision of daemons that never worked is not tried again once the throttle has forgotten
// that it failed: its deployment is over when its last task has stopped (S4, S8).
func TestDaemonsOfAnAbandonedRevisionNeverStartAgain(t *testing.T) {
	throttle := func(in Input) Input {
		return throttled(throttled(in, "ecs-svc/a", 5, 20*time.Minute), "ecs-svc/b", 1, -time.Minute)
	}
	in := throttle(daemons([]string{"i-t1"}, newTask("t1", olderRevision, pendingTask)))
	in.Service.Deployment.State = cluster.RolloutInProgress
	in.Service.Older = []cluster.Deployment{{Revision: cluster.Revision{ID: "ecs-svc/b"},
		State: cluster.RolloutInProgress, Desired: 1}}
	next := Reconcile(in).Next
	expect(t, "older deployments while its task is starting", len(next.Older), 1)
	in.Tasks = []*cluster.Task{newTask("t1", olderRevision, failedStart)}
	next = Reconcile(in).Next
	expect(t, "older deployments once it has failed", len(next.Older), 0)
	in.Service, in.Tasks, in.Throttle = next, nil, nil
	in = throttled(in, "ecs-svc/a", 5, 20*time.Minute)
	expect(t, "plan after the throttle has forgotten it", says(Reconcile(in)), "")
}

// A deployment that its circuit breaker has ended keeps the breaker's reason when it is rolled
// back, and the deployments before it stay in the list.
func TestRollbackKeepsReasonsAndOlderDeployments(t *testing.T) {
	in := deploying(with(2, 50, 200, newTask("t1"), newTask("t2"), newTask("t3"), newTask("t4", failedStart),
		newTask("t5", failedStart), newTask("t6", failedStart), newTask("t7")), 2)
	in.Tasks[6].Revision = "ecs-svc/c"
	in.Service.Breaker = cluster.CircuitBreaker{Enable: true, Rollback: true}
	in.Service.Older = append(in.Service.Older, cluster.Deployment{Revision: cluster.Revision{ID: "ecs-svc/c"},
		State: cluster.RolloutCompleted, Desired: 1})
	older := Reconcile(in).Next.Older
	if len(older) != 2 || older[0].ID != "ecs-svc/a" || older[1].ID != "ecs-svc/c" {
		t.Fatalf("older are %+v", older)
	}
	expect(t, "reason", older[0].Reason, "ECS deployment circuit breaker: tasks failed to start.")
	expect(t, "state of the other", older[1].State, cluster.RolloutCompleted)
}

// Alarms that were on before the deployment are not watched through the bake time. A plan that
// still starts or stops tasks does not complete a deployment, unless criteria for early success are
// met (S8).
func TestWhatDelaysCompletion(t *testing.T) {
	in := deploying(with(2, 50, 200, newTask("t1"), newTask("t2")), 0)
	in.Service.Older = nil
	in.Service.Alarms = cluster.DeploymentAlarms{Names: []string{"errors"}, Enable: true}
	in.Alarms = &cluster.AlarmWatch{Deployment: "ecs-svc/a", Bake: 10 * time.Minute}
	p := Reconcile(in)
	expect(t, "completed in the bake time", p.Next.Deployment.IsCompleted(), false)
	expect(t, "looks again", p.ReconsiderAt, noon.Add(10*time.Minute))
	in.Alarms.Ignored = true
	expect(t, "completed with ignored alarms", Reconcile(in).Next.Deployment.IsCompleted(), true)

	in = deploying(with(2, 50, 200, newTask("t1"), newTask("t2"), newTask("t3")), 0)
	in.Service.Older = nil
	expect(t, "completed while one is too many", Reconcile(in).Next.Deployment.IsCompleted(), false)
	in = deploying(with(4, 50, 200, newTask("t1"), newTask("t2")), 0)
	in.Service.Older = nil
	in.Service.Early = cluster.EarlySuccess{Enable: true, Percent: 50}
	p = Reconcile(in)
	expect(t, "starts the rest", started(p), 2)
	expect(t, "completed early", p.Next.Deployment.IsCompleted(), true)
}

// Tasks that stay because of the minimum are not reported as protected.
func TestMinimumIsNoProtection(t *testing.T) {
	in := drainingHosts(with(2, 100, 100, newTask("t1"), newTask("t2")), "t1", "t2")
	p := Reconcile(in)
	expect(t, "plan", says(p), "")
	expect(t, "event", strings.Contains(messages(p), "protection"), false)
}

// Events of registrations come in the order of the tasks' ids, for any order of the tasks.
func TestRegistrationEventsAreSorted(t *testing.T) {
	in := with(2, 100, 200, newTask("t2"), newTask("t1"))
	in.Target = func(id string) *cluster.Target {
		return &cluster.Target{Task: id, Registrations: []cluster.Registration{registration("group of "+id,
			cluster.Registered)}}
	}
	want := "registered 1 targets in (target-group group of t1); registered 1 targets in (target-group group of t2)"
	expect(t, "events", messages(Reconcile(in)), want)
	slices.Reverse(in.Tasks)
	expect(t, "events in the other order", messages(Reconcile(in)), want)
}

// Missing, draining and unhealthy tasks are all replaced at once where maximumPercent allows it
// (S6, S11).
func TestEachTaskThatIsToGoIsReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		in   Input
		want int
	}{
		"Draining":  {drainingHosts(with(3, 0, 300, newTask("t1"), newTask("t2"), newTask("t3")), "t3"), 1},
		"Unhealthy": {with(3, 0, 300, newTask("t1"), newTask("t2", unhealthyTask), newTask("t3")), 1},
		"DrainingAndUnhealthy": {drainingHosts(with(3, 0, 300, newTask("t1"), newTask("t2", unhealthyTask),
			newTask("t3")), "t3"), 2},
		"AndOneMissing": {drainingHosts(with(4, 0, 300, newTask("t1"), newTask("t2", unhealthyTask),
			newTask("t3")), "t3"), 3},
		"Disconnected": {hostsIn(with(4, 0, 300, newTask("t1"), newTask("t2"), newTask("t3"),
			newTask("t4", unhealthyTask)),
			InstanceTimedOut, "t1", "t2"), 3},
	} {
		t.Run(name, func(t *testing.T) { expect(t, "starts", started(Reconcile(c.in)), c.want) })
	}
}

// A task on a draining instance stops before its replacement starts only where maximumPercent
// leaves no room for that (S11).
func TestDrainingTasksWaitForTheirReplacementsIfThereIsRoom(t *testing.T) {
	for most, want := range map[int]string{125: "start", 150: "start start", 100: "stop t3; stop t4; start start"} {
		in := drainingHosts(with(4, 0, most, newTask("t1"), newTask("t2"), newTask("t3", unhealthyTask), newTask("t4")),
			"t4")
		expect(t, "plan", says(Reconcile(in)), want)
	}
}

// A task on a draining instance stops first where there is no room for its replacement, also one of
// an older deployment while the new one cannot start. A failed older deployment starts no
// replacement, so that its task stays. One of a failed PRIMARY leaves: nothing else would end the
// draining (S8, S11).
func TestDrainingTasksOfAFailedDeploymentStay(t *testing.T) {
	for state, want := range map[cluster.RolloutState]string{
		cluster.RolloutCompleted: "stop t1; start", cluster.RolloutFailed: "",
	} {
		in := deploying(drainingHosts(with(4, 50, 100, newTask("t1"), newTask("t2"), newTask("t3"), newTask("t4")), "t1"), 4)
		in.Service.Older[0].State = state
		expect(t, string(state), says(Reconcile(throttled(in, "ecs-svc/a", 1, time.Minute))), want)
	}
	for minimum, want := range map[int]string{75: "stop t1", 100: ""} {
		in := drainingHosts(with(4, minimum, 100, newTask("t1"), newTask("t2"), newTask("t3"), newTask("t4")), "t1")
		in.Service.Deployment.State = cluster.RolloutFailed
		expect(t, "of a failed PRIMARY", says(Reconcile(in)), want)
	}
}

// A message names a task if its name and the count of the others fit into 4,096 bytes.
func TestTheLastTaskThatFitsIsNamed(t *testing.T) {
	room := 4096 - len("(service web) has stopped 1 running tasks: (task )") - len(" and 2147483647 more.")
	for n, named := range map[int]bool{room: true, room + 1: false} {
		id := strings.Repeat("x", n)
		expect(t, "named", strings.Contains(TasksStoppedMessage("web", []string{id}), id), named)
	}
}
