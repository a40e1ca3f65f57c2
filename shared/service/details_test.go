package service

import (
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
)

func stabilizingTask(t *cluster.Task) { t.Started = cluster.At(noon.Add(-10 * time.Second)) }

// A plan looks again when a task that stabilizes counts as healthy, if anything waits for that:
// another revision, a stop that would have left too few, a task to replace, or a move (S6, S8).
func TestLooksAgainWhenATaskIsStable(t *testing.T) {
	for _, c := range []struct {
		name string
		in   Input
		want bool
	}{
		{"NothingWaits", with(2, 100, 200, newTask("t1"), newTask("t2", stabilizingTask)), false},
		{"ARolloutWaits", deploying(with(2, 100, 150, newTask("t1"), newTask("t2", stabilizingTask)), 1), true},
		{"AnUnhealthyTaskWaits", with(2, 100, 150, newTask("t1"), newTask("t2", stabilizingTask),
			newTask("t3", unhealthyTask)),
			true},
		{"ADrainingInstanceWaits", drainingHosts(with(2, 100, 150, newTask("t1"), newTask("t2", stabilizingTask),
			newTask("t3")), "t3"),
			true},
		{"TheDrainingTaskStabilizes", drainingHosts(with(2, 100, 200, newTask("t1"), newTask("t2", stabilizingTask)),
			"t2"), true},
		{"AMoveWaits", func() Input {
			in := with(2, 100, 200, newTask("t1"), newTask("t2", stabilizingTask))
			in.Service.Moving = true
			return in
		}(), true},
		{"AReplacementWaits", with(1, 100, 200, newTask("t1"), newTask("t2", stabilizingTask, replacing("t1"))), true},
		{"DaemonsNeedNothing", daemons([]string{"i-t1", "i-t2"}, newTask("t1"), newTask("t2", stabilizingTask)), false},
		{"DaemonsOfARollout", func() Input {
			in := deploying(daemons([]string{"i-t1", "i-t2"}, newTask("t1"), newTask("t2", stabilizingTask)), 1)
			in.Service.MinHealthy = 100
			return in
		}(), true},
		{"DaemonsAtTheMinimum", func() Input {
			in := daemons([]string{"i-t1", "i-t2"}, newTask("t1", on("i-t1")), newTask("t2", stabilizingTask),
				newTask("t3", on("i-t1")))
			in.Service.MinHealthy = 100
			in.Tasks[2].CreatedAt = cluster.At(noon)
			in.Tasks = in.Tasks[1:]
			in.MeetsConstraints = func(string) bool { return false }
			in.Eligible = []string{"i-t2", "i-t9"}
			return in
		}(), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Reconcile(c.in)
			want := time.Time{}
			if c.want {
				want = noon.Add(30 * time.Second)
			}
			expect(t, "looks again", p.ReconsiderAt, want)
		})
	}
}

// While starts of a revision are delayed, its tasks that wait for an instance are not placed, and
// the plan says so; moves wait too (S7).
func TestDelayedStartsAreHeld(t *testing.T) {
	p := Reconcile(throttled(with(3, 100, 200, newTask("t1"), newTask("t2", waitingTask)), "ecs-svc/a", 1, time.Minute))
	expect(t, "held", p.HeldRevisions["ecs-svc/a"], true)
	expect(t, "plan", says(p), "")
	expect(t, "looks again", p.ReconsiderAt, noon.Add(time.Minute))
	p = Reconcile(throttled(with(3, 100, 200, newTask("t1")), "ecs-svc/a", 1, -time.Minute))
	expect(t, "held no more", len(p.HeldRevisions), 0)
	expect(t, "one at a time", started(p), 1)
	p = Reconcile(throttled(with(3, 100, 200, newTask("t1"), newTask("t2", pendingTask)), "ecs-svc/a", 1, -time.Minute))
	expect(t, "not while one starts", started(p), 0)
	p = Reconcile(throttled(with(3, 100, 200, newTask("t1"), newTask("t2", waitingTask)), "ecs-svc/a", 1, -time.Minute))
	expect(t, "not while one waits", started(p), 0)

	steady := func() Input { return with(2, 100, 200, newTask("t1"), newTask("t2")) }
	expect(t, "moves", Reconcile(steady()).Moves.StartFirst, 2)
	p = Reconcile(throttled(steady(), "ecs-svc/a", 1, time.Minute))
	expect(t, "moves during the delay", p.Moves, MoveLimits{})
	expect(t, "looks again for them", p.ReconsiderAt, noon.Add(time.Minute))
	expect(t, "moves after it", Reconcile(throttled(steady(), "ecs-svc/a", 1, -time.Minute)).Moves.StartFirst, 1)

	failed := with(2, 100, 200, newTask("t1"), newTask("t2", waitingTask))
	failed.Service.Deployment.State = cluster.RolloutFailed
	p = Reconcile(failed)
	expect(t, "a failed deployment starts nothing, and what waits ends", says(p), "stop t2")
	p = Reconcile(deploying(with(1, 100, 200, newTask("t1")), 1))
	expect(t, "nothing of an older one is held", len(p.HeldRevisions), 0)
}

// When the circuit breaker has counted enough while the plan is made, nothing more starts, and the
// next plan, at once, fails the deployment (S8).
func TestNothingStartsOnceTheBreakerTrips(t *testing.T) {
	in := with(2, 50, 200, newTask("t1", failedStart), newTask("t2", failedStart), newTask("t3", failedStart))
	in.Service.Breaker = cluster.CircuitBreaker{Enable: true}
	in.Service.Deployment.State = cluster.RolloutInProgress
	p := Reconcile(in)
	expect(t, "state", p.Next.Deployment.State, cluster.RolloutFailed)
	expect(t, "starts", started(p), 0)
	expect(t, "counted", len(p.CountedFailures), 3)
}

// A plan makes room for tasks that find none if that may help: others are to go anyway (S11).
func TestMakesRoom(t *testing.T) {
	for name, c := range map[string]struct {
		in   Input
		want bool
	}{
		"NothingIsToGo":   {with(2, 100, 200, newTask("t1"), newTask("t2")), false},
		"OneDrains":       {drainingHosts(with(2, 100, 200, newTask("t1"), newTask("t2")), "t1"), true},
		"OneIsUnhealthy":  {with(2, 100, 200, newTask("t1", unhealthyTask), newTask("t2")), true},
		"OneOfEach":       {drainingHosts(with(2, 100, 200, newTask("t1", unhealthyTask), newTask("t2")), "t2"), true},
		"OneIsOlder":      {deploying(with(2, 100, 200, newTask("t1"), newTask("t2")), 1), true},
		"TheOlderAreGone": {deploying(with(2, 100, 200, newTask("t1"), newTask("t2", stabilizingTask)), 0), false},
	} {
		t.Run(name, func(t *testing.T) { expect(t, "makes room", Reconcile(c.in).MakesRoom, c.want) })
	}
}

// While a rollout lacks room for its tasks, older ones stop for them after a minute, as the minimum
// allows (S8, S11).
func TestOlderTasksMakeRoom(t *testing.T) {
	in := func(d time.Duration) Input {
		return blockedFor(d, deploying(with(2, 50, 200, newTask("t1"), newTask("t2"), newTask("t3", waitingTask),
			newTask("t4", waitingTask)), 2))
	}
	expect(t, "not at once", says(Reconcile(in(59*time.Second))), "")
	expect(t, "after a minute", says(Reconcile(in(time.Minute))), "one of t1 t2")
	memory := in(time.Minute)
	memory.Service.Blocked.Rejected[0].Filter = cluster.FilterStatus
	expect(t, "if stops would not help", says(Reconcile(memory)), "")
}

// When the desired count grows during a rollout, the newest deployment that still works grows with
// it. Older ones want no more than is left, and one that was given up no more than it has (S8).
func TestDesiredCountIsShared(t *testing.T) {
	rolling := func(was, desired, b, c int, change func(*Input)) Input {
		in := with(desired, 100, 400)
		in.Service.Deployment.State, in.Service.Deployment.Desired = cluster.RolloutInProgress, was
		in.Service.Older = []cluster.Deployment{
			{Revision: cluster.Revision{ID: "ecs-svc/b"}, State: cluster.RolloutCompleted, Desired: b},
			{Revision: cluster.Revision{ID: "ecs-svc/c"}, State: cluster.RolloutCompleted, Desired: c},
		}
		change(&in)
		return in
	}
	task := func(id, revision string) func(*Input) {
		return func(in *Input) {
			in.Tasks = append(in.Tasks, newTask(id))
			in.Tasks[len(in.Tasks)-1].Revision = revision
		}
	}
	for _, c := range []struct {
		name string
		in   Input
		b, c int
	}{
		{"AsItWas", rolling(4, 4, 2, 2, func(*Input) {}), 2, 2},
		{"Grown", rolling(4, 7, 2, 2, func(*Input) {}), 5, 2},
		{"GrownFromNone", rolling(0, 3, 1, 1, func(*Input) {}), 1, 1},
		{"TheNewestWantsNone", rolling(4, 7, 0, 2, task("t1", "ecs-svc/b")), 0, 5},
		{"TheNewestHasFailed", rolling(4, 7, 2, 2, func(in *Input) {
			task("t1", "ecs-svc/b")(in)
			in.Service.Older[0].State = cluster.RolloutFailed
		}), 1, 5},
		{"Shrunk", rolling(8, 4, 4, 3, func(*Input) {}), 1, 3},
		{"TheOlderFirst", rolling(10, 10, 8, 4, func(*Input) {}), 6, 4},
		{"GivenUp", rolling(4, 4, 2, 2, func(in *Input) {
			in.Service.Older[0].State = cluster.RolloutInProgress
			task("t1", "ecs-svc/b")(in)
			in.Tasks[0].Health = cluster.Unhealthy
		}), 0, 2}, // its unhealthy task stops
	} {
		t.Run(c.name, func(t *testing.T) {
			want := map[string]int{}
			for _, d := range Reconcile(c.in).Next.Older {
				want[d.ID] = d.Desired
			}
			expect(t, "of b and c", [2]int{want["ecs-svc/b"], want["ecs-svc/c"]}, [2]int{c.b, c.c})
		})
	}
}

// Tasks that are not RUNNING yet on a draining instance stop at once and are replaced elsewhere;
// those of a deployment that was given up are not replaced (S11).
func TestUselessTasksStop(t *testing.T) {
	p := Reconcile(drainingHosts(with(2, 100, 200, newTask("t1"), newTask("t2", pendingTask)), "t2"))
	expect(t, "plan", says(p), "stop t2; start")
	expect(t, "reason", p.Stops[0].Reason, "Task stopped during instance draining")
	expect(t, "elsewhere it stays", says(Reconcile(drainingHosts(with(2, 100, 200, newTask("t1"),
		newTask("t2", pendingTask)), "t3"))), "")

	in := deploying(with(2, 100, 200, newTask("t1"), newTask("t2"), newTask("t3", pendingTask)), 0)
	in.Tasks[2].Revision = "ecs-svc/b"
	in.Service.Older[0].State, in.Service.Older[0].Desired = cluster.RolloutFailed, 1
	in.Service.Last = nil
	p = Reconcile(in)
	expect(t, "plan of a failed deployment", says(p), "stop t3")
	expect(t, "reason", p.Stops[0].Reason, "Scaling activity initiated by (deployment ecs-svc/b)")
}

// Protected tasks of an older revision and on a draining instance stay, which an event says (S5).
func TestProtectedTasksStay(t *testing.T) {
	protect := func(in Input, ids ...string) Input {
		in.ProtectedUntil = func(id string) time.Time {
			if strings.Contains(strings.Join(ids, " "), id) {
				return noon.Add(time.Hour)
			}
			return time.Time{}
		}
		return in
	}
	unable := func(id, n string) string {
		return "was unable to reach steady state because (taskSet " + id + ") was unable to scale in due to (reason " + n +
			" tasks under protection)"
	}
	in := protect(deploying(with(2, 100, 200, newTask("t1"), newTask("t2"), newTask("t3"), newTask("t4")), 2), "t1")
	p := Reconcile(in)
	expect(t, "plan", says(p), "stop t2")
	expect(t, "event", messages(p), unable("ecs-svc/b", "1"))
	in = protect(drainingHosts(with(2, 0, 200, newTask("t1"), newTask("t2"), newTask("t3"), newTask("t4")), "t1", "t2"),
		"t1")
	p = Reconcile(in)
	expect(t, "plan of a drain", says(p), "stop t2")
	expect(t, "event of a drain", messages(p), unable("ecs-svc/a", "1"))
	in = protect(drainingHosts(with(2, 0, 200, newTask("t1"), newTask("t2"), newTask("t3"), newTask("t4")), "t1", "t2"),
		"t3")
	p = Reconcile(in)
	expect(t, "plan where another is protected", says(p), "stop t1; stop t2")
	expect(t, "event", messages(p), "")
}

// A deployment that comes back while it is among the older ones is the PRIMARY once, not twice.
func TestRollbackToAnOlderDeployment(t *testing.T) {
	in := deploying(with(2, 50, 200, newTask("t1"), newTask("t2"), newTask("t3")), 2)
	in.Service.Release.Stop = cluster.StopRollback
	p := Reconcile(in)
	expect(t, "primary", p.Next.Deployment.ID, "ecs-svc/b")
	expect(t, "its tasks", p.Next.Deployment.Running, 2)
	var older []string
	for _, d := range p.Next.Older {
		older = append(older, d.ID)
	}
	expect(t, "older", strings.Join(older, " "), "ecs-svc/a")
	in.Service.Deployment.State, in.Service.Deployment.Reason = "", ""
	in.Service.Release.Stop = ""
	expect(t, "a deployment without a state", Reconcile(in).Next.Deployment.State, cluster.RolloutInProgress)
}

// A refused start keeps its instance free of the service's tasks for a minute, twice as long each
// further time. One that has run there since ends that (S7).
func TestRefusedInstancesComeBack(t *testing.T) {
	refused := func(id string, ago time.Duration) *cluster.Task {
		task := newTask(id, on("i-x"), endedTask)
		task.Started, task.StopCode, task.Stopped = 0, cluster.StopRefused, cluster.At(noon.Add(-ago))
		task.CreatedAt = cluster.At(noon.Add(-ago - time.Second))
		return task
	}
	ran := newTask("t9", on("i-x"))
	ran.Started = cluster.At(noon.Add(-30 * time.Second))
	for _, c := range []struct {
		name  string
		tasks []*cluster.Task
		want  time.Duration // until it is tried again; 0 if it may be now
	}{
		{"Once", []*cluster.Task{refused("t1", 20*time.Second)}, 40 * time.Second},
		{"OnceAMinuteAgo", []*cluster.Task{refused("t1", time.Minute)}, 0},
		{"Twice", []*cluster.Task{refused("t1", 90*time.Second), refused("t2", 20*time.Second)}, 100 * time.Second},
		{"TwiceInTheOtherOrder", []*cluster.Task{refused("t1", 20*time.Second), refused("t2", 90*time.Second)},
			100 * time.Second},
		{"OneHasRunSince", []*cluster.Task{refused("t1", 40*time.Second), ran}, 0},
		{"OneRanBefore", []*cluster.Task{refused("t1", 20*time.Second), ran}, 40 * time.Second},
		{"OneRanAtThatTime", []*cluster.Task{refused("t1", 30*time.Second), ran}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Reconcile(with(len(c.tasks), 0, 300, c.tasks...))
			expect(t, "refused", strings.Join(p.RefusedInstances, " "), map[bool]string{true: "i-x"}[c.want > 0])
			want := time.Time{}
			if c.want > 0 {
				want = noon.Add(c.want)
			}
			expect(t, "looks again", p.ReconsiderAt, want)
		})
	}
	other := refused("t2", 50*time.Second)
	other.Instance = "i-y"
	p := Reconcile(with(2, 0, 300, refused("t1", 20*time.Second), other))
	expect(t, "two instances", strings.Join(p.RefusedInstances, " "), "i-x i-y")
	expect(t, "looks again for the first", p.ReconsiderAt, noon.Add(10*time.Second))
}

// An event names at most as many tasks as fit into 4,096 bytes, exactly that many included.
func TestLongestMessages(t *testing.T) {
	moves := []Move{{Task: "t1", From: "a", To: "b", Why: "zone"}}
	expect(t, "moves", MovingTasksMessage("web", moves),
		"(service web) is moving 1 tasks: (task t1) (from a to b: zone).")
	d := func(n int) *cluster.Registration {
		return &cluster.Registration{ARN: "x", Port: 1, Reason: strings.Repeat("r", n)}
	}
	fixed := len(UnhealthyTargetMessage("web", "t", d(0)))
	expect(t, "that just fits", strings.HasSuffix(UnhealthyTargetMessage("web", "t", d(4096-fixed)), "r)."), true)
	expect(t, "that does not", strings.HasSuffix(UnhealthyTargetMessage("web", "t", d(4097-fixed)), "…"), true)
}
