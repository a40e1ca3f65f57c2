package service_test

import (
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/service"
)

func TestReplica(t *testing.T) {
	gone := func(in service.Input, ids ...string) service.Input {
		in.Gone = func(id string) bool {
			for _, g := range ids {
				if g == id {
					return true
				}
			}
			return false
		}
		return in
	}
	for _, c := range []struct {
		name string
		in   service.Input
		want string
	}{
		{"StartsWhatIsMissing", input(replica(3), task("t1")), "start 2"},
		{"ReplacesWhatStopped", input(replica(2), task("t1"), task("t2", stopped)), "start 1"},
		{"ReplacesWhatIsBeingStopped", input(replica(2), task("t1"), task("t2", stopping)), "start 1"},
		{"ReplacesWhatECSStops", input(replica(2), task("t1"), task("t2", dying)), "start 1"},
		{"CountsPendingAndWaiting", input(replica(3), task("t1"), task("t2", pending), task("t3", waiting)), ""},
		{"ReplacesWhatIsLost", gone(input(replica(2), task("t1"), task("t2")), "i-2"), "start 1; lost t2"},
		{"WritesOffWhatStopsOnAGoneInstance", gone(input(replica(1), task("t1"), task("t2", stopping)), "i-2"), "lost t2"},
		{"LeavesAloneWhatHasStoppedThere", gone(input(replica(1), task("t1"), task("t2", stopped)), "i-2"), ""},
		{"MaxPercentBoundsStarts", input(replica(4, percent(0, 50)), task("t1")), "start 1"},
		{"MaxPercentRoundsDown", input(replica(3, percent(0, 50))), "start 1"},

		{"LeavesTheChoiceToPlacement", input(replica(1), task("t2"), task("t1")), "1 of t1 t2"},
		{"StopsWaitingThenPendingFirst", input(replica(1), task("t1"), task("t2"), task("t3", pending), task("t4", waiting)),
			"stop t4 t3; 1 of t1 t2"},
		{"LeavesTheChoiceAmongPending", input(replica(2), task("t1"), task("t2", pending), task("t3", pending)), "1 of t2 t3"},
		{"StopsTheUnhealthyBeforeTheHealthy", input(replica(1), task("t1"), task("t2", sick)), "stop t2"},
		{"StopsAllOfNone", input(replica(0), task("t1"), task("t2", pending)), "stop t2 t1"},
		{"KeepsEnoughHealthyOnes", input(replica(2), task("t1"), task("t2"), task("t3", sick)), "stop t3"},
		{"KeepsMoreThanDesiredIfSoMuchMustBeHealthy", input(replica(2, percent(150, 200)), task("t1"), task("t2"), task("t3"), task("t4")),
			"1 of t1 t2 t3 t4"},
		{"StopsNoneTwice", input(replica(1), task("t1"), task("t2", stopping)), ""},

		{"StopsAllWhenDeleted", input(replica(2, deleted), task("t1"), task("t2")), "stop t1 t2"},
		{"StartsNoneWhenDeleted", input(replica(2, deleted)), ""},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, "plan", says(service.Reconcile(c.in)), c.want) })
	}
}

func TestCounts(t *testing.T) {
	p := service.Reconcile(input(replica(9), task("t1"), task("t2", pending), task("t3", waiting), task("t4", stopping),
		task("t5", dying), task("t6", stopped), task("t7", neverRan(time.Hour)), task("t8", neverRan(time.Hour), func(t *cluster.Task) {
			t.Revision = "ecs-svc/0"
		})))
	expect(t, "running", p.Running, 1)
	expect(t, "pending", p.Pending, 2)
	expect(t, "failed", p.Failed, 1)
}

func TestSteady(t *testing.T) {
	for _, c := range []struct {
		name string
		in   service.Input
		want bool
	}{
		{"AllRunning", input(replica(2), task("t1"), task("t2"), task("t3", stopped)), true},
		{"NoneDesired", input(replica(0)), true},
		{"OnePending", input(replica(2), task("t1"), task("t2", pending)), false},
		{"OneMissing", input(replica(2), task("t1")), false},
		{"OneTooMany", input(replica(1), task("t1"), task("t2")), false},
		{"OneTooManyThatMustStay", input(replica(1), task("t1"), task("t2", pending)), false},
		{"HeldBack", input(replica(1), task("t1", neverRan(time.Second))), false},
		{"Deleted", input(replica(0, deleted)), false},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, "steady", service.Reconcile(c.in).Steady, c.want) })
	}
}

func TestStatus(t *testing.T) {
	t.Run("ActiveStays", func(t *testing.T) {
		expect(t, "status", service.Reconcile(input(replica(0))).Status, cluster.ServiceActive)
	})
	t.Run("InactiveOnceAllAreStopping", func(t *testing.T) {
		p := service.Reconcile(input(replica(2, deleted), task("t1"), task("t2", waiting), task("t3", stopping)))
		expect(t, "plan", says(p), "stop t2 t1")
		expect(t, "status", p.Status, cluster.ServiceInactive)
	})
	t.Run("InactiveStillStopsWhatIsLeft", func(t *testing.T) {
		s := replica(2, deleted)
		s.Status = cluster.ServiceInactive
		p := service.Reconcile(input(s, task("t1")))
		expect(t, "plan", says(p), "stop t1")
		expect(t, "status", p.Status, cluster.ServiceInactive)
	})
	t.Run("DaemonToo", func(t *testing.T) {
		in := input(daemon(deleted), task("t1"), task("t2", pending))
		in.Eligible = []string{"i-1", "i-2", "i-3"}
		p := service.Reconcile(in)
		expect(t, "plan", says(p), "stop t2 t1")
		expect(t, "status", p.Status, cluster.ServiceInactive)
	})
}

func TestATaskThatNeverRanHoldsBackTheNext(t *testing.T) {
	failed := func(ago ...time.Duration) service.Plan {
		in := input(replica(3), task("t0"))
		for n, a := range ago {
			in.Tasks = append(in.Tasks, task("t"+string(rune('1'+n)), neverRan(a)))
		}
		return service.Reconcile(in)
	}
	t.Run("TenSeconds", func(t *testing.T) {
		p := failed(4*time.Second, time.Minute)
		expect(t, "plan", says(p), "")
		expect(t, "not before", p.NotBefore, noon.Add(6*time.Second))
		expect(t, "look again", p.LookAgain, noon.Add(6*time.Second))
	})
	t.Run("NoLonger", func(t *testing.T) {
		p := failed(delay)
		expect(t, "plan", says(p), "start 2")
		expect(t, "not before", p.NotBefore, time.Time{})
		expect(t, "look again", p.LookAgain, time.Time{})
	})
	t.Run("NothingToLookAtWhereNoneIsMissing", func(t *testing.T) {
		p := service.Reconcile(input(replica(1), task("t1"), task("t2", neverRan(time.Second))))
		expect(t, "not before", p.NotBefore, noon.Add(9*time.Second))
		expect(t, "look again", p.LookAgain, time.Time{})
	})
	t.Run("NotOneThatRan", func(t *testing.T) {
		expect(t, "plan", says(service.Reconcile(input(replica(1), task("t1", stopped)))), "start 1")
	})
	t.Run("NotOneThatBerthStopped", func(t *testing.T) {
		expect(t, "plan", says(service.Reconcile(input(replica(1), task("t1", neverRan(0), stopping)))), "start 1")
	})
	t.Run("NotOneOfAnEarlierDeployment", func(t *testing.T) {
		old := task("t1", neverRan(0), func(t *cluster.Task) { t.Revision = "ecs-svc/0" })
		expect(t, "plan", says(service.Reconcile(input(replica(1), old))), "start 1")
	})
	t.Run("OneThatNamesNoDeployment", func(t *testing.T) {
		unnamed := task("t1", neverRan(0), func(t *cluster.Task) { t.Revision = "" })
		expect(t, "plan", says(service.Reconcile(input(replica(1), unnamed))), "")
	})
	t.Run("StopsGoOn", func(t *testing.T) {
		p := service.Reconcile(input(replica(0), task("t1"), task("t2", neverRan(0))))
		expect(t, "plan", says(p), "stop t1")
	})
}

func TestDaemon(t *testing.T) {
	run := func(tasks ...*cluster.Task) service.Plan {
		in := input(daemon(), tasks...)
		in.Eligible = []string{"i-1", "i-2"}
		in.Matches = func(id string) bool { return id != "i-8" }
		in.Gone = func(id string) bool { return id == "i-9" }
		return service.Reconcile(in)
	}
	for _, c := range []struct {
		name  string
		tasks []*cluster.Task
		want  string
	}{
		{"StartsOnEachEligible", nil, "start on i-1 i-2"},
		{"OnceEach", []*cluster.Task{task("t1"), task("t2", pending)}, ""},
		{"OnlyWhereNoneIs", []*cluster.Task{task("t2")}, "start on i-1"},
		{"AgainWhereItStopped", []*cluster.Task{task("t1", stopped), task("t2")}, "start on i-1"},
		{"NotBeforeThePredecessorStopped", []*cluster.Task{task("t1", stopping), task("t2", dying)}, ""},
		{"StaysOnADrainingInstance", []*cluster.Task{task("t1"), task("t2"), task("t3")}, ""},
		{"ADrainingOneDoesNotCountAgainstOthers", []*cluster.Task{task("t2"), task("t3")}, "start on i-1"},
		{"StopsWhereAttributesNoLongerMatch", []*cluster.Task{task("t1"), task("t2"), task("t8")}, "stop t8"},
		{"LostOnAGoneInstance", []*cluster.Task{task("t1"), task("t2"), task("t9")}, "lost t9"},
		{"StopsASecondOne", []*cluster.Task{task("t1"), task("t2"), task("t3", on("i-1"))}, "stop t3"},
		{"KeepsTheHealthyOne", []*cluster.Task{task("t1", sick), task("t2"), task("t3", on("i-1"))}, "stop t1"},
		{"KeepsTheRunningOne", []*cluster.Task{task("t1", pending), task("t2"), task("t3", on("i-1"), sick)}, "stop t1"},
		{"KeepsTheOldest", []*cluster.Task{task("t1"), task("t2"), task("t3", on("i-1"), older)}, "stop t1"},
		{"StopsASecondOneOnADrainingInstance", []*cluster.Task{task("t1"), task("t2"), task("t3"), task("t4", on("i-3"))}, "stop t4"},
		{"StopsOneWithoutInstance", []*cluster.Task{task("t1"), task("t2"), task("t3", waiting)}, "stop t3"},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, "plan", says(run(c.tasks...)), c.want) })
	}
	t.Run("SteadyWhileAnotherDrains", func(t *testing.T) {
		expect(t, "steady", run(task("t1"), task("t2"), task("t3")).Steady, true)
		expect(t, "steady", run(task("t1"), task("t3")).Steady, false)
		expect(t, "steady", run(task("t1"), task("t2", stopping)).Steady, false)
	})
	t.Run("WithoutKnowledgeOfAttributesNothingIsStopped", func(t *testing.T) {
		expect(t, "plan", says(service.Reconcile(input(daemon(), task("t1"), task("t2")))), "")
	})
	t.Run("KeepsEnoughHealthyOnes", func(t *testing.T) {
		in := input(daemon(), task("t1"), task("t8"), task("t9"))
		in.Service.MinHealthy = 100
		in.Eligible, in.Matches = []string{"i-1", "i-2"}, func(id string) bool { return id < "i-8" }
		expect(t, "plan", says(service.Reconcile(in)), "start on i-2; stop t8")
	})
	t.Run("RoundsUpHowManyMustBeLeft", func(t *testing.T) {
		in := input(daemon(percent(50, 100)), task("t7"), task("t8"), task("t9"))
		in.Eligible, in.Matches = []string{"i-1", "i-2", "i-3"}, func(id string) bool { return id < "i-7" }
		expect(t, "plan", says(service.Reconcile(in)), "start on i-1 i-2 i-3; stop t7")
	})
	t.Run("HeldBackAfterOneThatNeverRan", func(t *testing.T) {
		p := run(task("t1", neverRan(time.Second)), task("t2"))
		expect(t, "plan", says(p), "")
		expect(t, "look again", p.LookAgain, noon.Add(9*time.Second))
	})
}
