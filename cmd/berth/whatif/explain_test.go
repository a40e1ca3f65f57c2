package whatif_test

import (
	"strings"
	"testing"
	"time"

	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
	"berth/shared/snapshot"
)

// whyTask returns the answer in words, and checks that the cluster is unchanged.
func whyTask(t *testing.T, s *snapshot.Snapshot, id string) string {
	t.Helper()
	before := hash(t, s)
	a, err := whatif.ExplainTask(s, id)
	if err != nil {
		t.Fatal(err)
	}
	if hash(t, s) != before {
		t.Error("the question changed the cluster")
	}
	return text(t, a.Print)
}

func whyService(t *testing.T, s *snapshot.Snapshot, name string) string {
	t.Helper()
	before := hash(t, s)
	a, err := whatif.ExplainService(s, nil, name, noon)
	if err != nil {
		t.Fatal(err)
	}
	if hash(t, s) != before {
		t.Error("the question changed the cluster")
	}
	return text(t, a.Print)
}

func TestExplainTask(t *testing.T) {
	t.Run("WhereItWouldGoAgain", func(t *testing.T) {
		golden(t, whyTask(t, snapshotOf(t, rows()), "ecs-3"), `
Task t-3 of service web is RUNNING on i-3.
If it were placed again, it would go to the same instance.
  4 instances: 1 not active (DRAINING); of the 3 that can run it, i-3 has the fewest tasks of the service in its zone (0, runner-up i-1: 2)
`)
	})
	t.Run("ElsewhereNow", func(t *testing.T) {
		with := append(rows(), instance("i-5", "c", nil))
		golden(t, whyTask(t, snapshotOf(t, with), "t-1"), `
Task t-1 of service web is RUNNING on i-1.
If it were placed again, it would go to i-5.
  5 instances: 1 not active (DRAINING); of the 4 that can run it, i-5 has the fewest tasks of the service in its zone (0, runner-up i-1: 1)
  i-1 could take it, but i-5 has the fewest tasks of the service in its zone (0, i-1: 1)
`)
	})
	t.Run("NoLongerAllowedThere", func(t *testing.T) {
		barred := rows()
		barred[6].(*cluster.Service).Rules.NodeConstraint = "NodeName == i-3"
		golden(t, whyTask(t, snapshotOf(t, barred), "t-1"), `
Task t-1 of service web is RUNNING on i-1.
If it were placed again, it would go to i-3.
  4 instances: 2 constraint not met (NodeName == i-3), 1 not active (DRAINING); only i-3 can run it
  i-1 cannot take it: constraint not met (NodeName == i-3)
It would be moved to i-3 (start first): i-1 no longer meets the placement constraint, i-3 does
`)
	})
	t.Run("ThatHoldsItsPort", func(t *testing.T) {
		with := rows()
		port := []cluster.Port{{Number: 80, Protocol: cluster.TCP}}
		with[0].(*cluster.TaskDefinition).Ports = port
		for _, r := range with {
			if task, ok := r.(*cluster.Task); ok && task.Service == "web" {
				task.Ports = port
			}
		}
		golden(t, whyTask(t, snapshotOf(t, with), "t-3"), `
Task t-3 of service web is RUNNING on i-3.
If it were placed again, it would go to the same instance.
  4 instances: 2 port in use (80/tcp), 1 not active (DRAINING); only i-3 can run it
`)
	})
	t.Run("ThatWaits", func(t *testing.T) {
		waits := task("big", 8, "")
		waits.Last = ""
		golden(t, whyTask(t, snapshotOf(t, append(rows(), waits, task("big", 6, "i-2"), task("big", 7, "i-3"))), "t-8"), `
Task t-8 of service big is PROVISIONING and has no instance.
Now no instance can take it.
  4 instances: 3 insufficient memory (needs 3000 MiB, best free 688), 1 not active (DRAINING); none can run it, closest is i-1 (insufficient memory)
`)
	})
	t.Run("Standalone", func(t *testing.T) {
		alone := task("web", 9, "i-2")
		alone.Service, alone.Owner, alone.Group = "", "standalone", "family:web"
		golden(t, whyTask(t, snapshotOf(t, append(rows(), alone)), "t-9"), `
Task t-9 is RUNNING on i-2.
If it were placed again, it would go to i-1.
  4 instances: 1 not active (DRAINING); of the 3 that can run it, i-1 is the tightest fit (1280 CPU units and 688 MiB free, runner-up i-2: 1792 CPU units and 3688 MiB free)
  i-2 could take it, but i-1 is the tightest fit (1280 CPU units and 688 MiB free, i-2: 1792 CPU units and 3688 MiB free)
`)
	})
	t.Run("OfSomebodyElse", func(t *testing.T) {
		foreign := task("web", 9, "i-2")
		foreign.Service, foreign.Foreign = "", true
		golden(t, whyTask(t, snapshotOf(t, append(rows(), foreign)), "t-9"), `
Task t-9 is RUNNING on i-2.
  Somebody else started it there; Berth only counts what it uses.
`)
	})
	t.Run("Stopped", func(t *testing.T) {
		stopped := task("web", 9, "i-2")
		stopped.Last, stopped.Reason = cluster.TaskStopped, "it was told to"
		golden(t, whyTask(t, snapshotOf(t, append(rows(), stopped)), "t-9"), `
Task t-9 of service web is STOPPED on i-2.
  it was told to
`)
	})
	t.Run("OnTheMove", func(t *testing.T) {
		next := task("web", 9, "i-2")
		next.Replaces = "t-1"
		s := snapshotOf(t, append(rows(), next))
		for id, want := range map[string]string{"t-1": "Task t-9 was started to replace it.",
			"t-9": "started to replace task t-1."} {
			if got := whyTask(t, s, id); !strings.Contains(got, want) {
				t.Errorf("no %q in:\n%s", want, got)
			}
		}
	})
	if _, err := whatif.ExplainTask(snapshotOf(t, rows()), "t-77"); err == nil ||
		!strings.Contains(err.Error(), `task "t-77" is not in the cluster, expected one of: t-1, t-2, t-3, t-4`) {
		t.Errorf("a task that is not there: %v", err)
	}
}

// The beginning of an id of ECS's or EC2's names an instance if it is of that one only. An EC2 instance that
// has registered twice is one.
func TestFindInstanceByABeginning(t *testing.T) {
	registered := func(id, ec2 string, at time.Time) *cluster.Instance {
		i := instance(id, "a", nil)
		i.EC2InstanceID, i.RegisteredAt = ec2, cluster.At(at)
		return i
	}
	snap := snapshotOf(t, append(rows(),
		registered("1325d9a842f94a29", "i-78d243d387a76ba54", noon),
		registered("50e48629eddaf7d8", "i-78d2ffd387a76ba54", noon),
		registered("58239f054d805372", "i-78d2ffd387a76ba54", noon.Add(time.Hour))))
	for name, want := range map[string]string{"i-78d243": "1325d9a842f94a29", "1325d9": "1325d9a842f94a29",
		"i-78d2ff": "58239f054d805372", "i-78d2": "", "i-78": "", "50e486": "50e48629eddaf7d8"} {
		if got, err := whatif.FindInstance(snap, name); got != want || (err == nil) != (want != "") {
			t.Errorf("%s names %q, want %q: %v", name, got, want, err)
		}
	}
	if a, err := whatif.ExplainInstance(snap, nil, "i-78d243", noon); err != nil || a.EC2 != "i-78d243d387a76ba54" {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestExplainService(t *testing.T) {
	t.Run("ThatHasAllItsTasks", func(t *testing.T) {
		golden(t, whyService(t, snapshotOf(t, rows()), "web"), `
Service web (REPLICA, ACTIVE, web:1) wants 3 tasks: 3 running, 0 starting, 0 without an instance.
  They are on i-1, i-2, i-3.
`)
	})
	t.Run("OfTaskSets", func(t *testing.T) {
		all := rows()
		for _, row := range all {
			switch row := row.(type) {
			case *cluster.Service:
				if row.Name != "web" {
					continue
				}
				row.Controller = cluster.ExternalController
				set := row.Deployment
				set.ID, set.Set = "ecs-svc/1", &cluster.TaskSet{Scale: 34}
				other := set
				other.ID, other.Set = "ecs-svc/2", &cluster.TaskSet{Scale: 100}
				row.SetTaskSets([]cluster.Deployment{set, other}, "ecs-svc/1")
			case *cluster.Task:
				if row.Service == "web" {
					row.Revision = map[bool]string{true: "ecs-svc/1", false: "ecs-svc/2"}[row.Instance == "i-1"]
				}
			}
		}
		got := whyService(t, snapshotOf(t, all), "web")
		for _, want := range []string{"wants 2 tasks: 1 running, 0 starting, 1 without an instance.",
			"This is its task set ecs-svc/1.", "They are on i-1."} {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in:\n%s", want, got)
			}
		}
		for _, row := range all {
			if s, ok := row.(*cluster.Service); ok && s.HasTaskSets() {
				s.SetTaskSets(s.TaskSets(), "") // none is primary
			}
		}
		if _, err := whatif.ExplainCluster(snapshotOf(t, all)); err != nil {
			t.Error(err)
		}
	})
	t.Run("ThatLacksSome", func(t *testing.T) {
		full := append(rows(), task("big", 6, "i-2"), task("big", 7, "i-3"))
		full[7].(*cluster.Service).Desired = 5
		full[7].(*cluster.Service).Deployment.ID = "ecs-svc/1"
		full = append(full, &cluster.Throttle{Head: head(), Owner: "big-short", Service: "big",
			Revisions: map[string]cluster.Backoff{
				"ecs-svc/1": {Step: 1, Failures: 1, NextAttemptAt: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)},
			}})
		golden(t, whyService(t, snapshotOf(t, full), "big"), `
Service big (REPLICA, ACTIVE, big:1) wants 5 tasks: 3 running, 0 starting, 2 without an instance.
  They are on i-1, i-2, i-3.
  When placement last tried: 0/4: 4 insufficient memory (needs 3000 MiB, best free 2500)
  After failed starts, the next start is at 2026-11-21T12:00:00Z.
Now:
None of 2 tasks of service big would find an instance.
  4 instances: 3 insufficient memory (needs 3000 MiB, best free 688), 1 not active (DRAINING); none can run it, closest is i-1 (insufficient memory)
`)
	})
	// The most common failed deployment: the tasks of the old revision all run, those of the new one fail.
	t.Run("WhoseNewRevisionFailsToStart", func(t *testing.T) {
		held := rows()
		web := held[6].(*cluster.Service)
		old := web.Deployment
		old.ID = "ecs-svc/1"
		web.Deployment.ID, web.Older = "ecs-svc/2", []cluster.Deployment{old}
		for _, row := range held {
			if t, ok := row.(*cluster.Task); ok && t.Service == "web" {
				t.Revision = "ecs-svc/1"
			}
		}
		held = append(held, &cluster.Throttle{Head: head(), Owner: web.Short, Service: "web",
			Revisions: map[string]cluster.Backoff{
				"ecs-svc/2": {Step: 2, Failures: 4, NextAttemptAt: noon.Add(3 * time.Minute)},
			}})
		golden(t, whyService(t, snapshotOf(t, held), "web"), `
Service web (REPLICA, ACTIVE, web:1) wants 3 tasks: 3 running, 0 starting, 0 without an instance.
  Deployment ecs-svc/2 (PRIMARY, web:1): 0 running, 0 starting.
  Deployment ecs-svc/1 (ACTIVE, web:1): 3 running, 0 starting.
  They are on i-1, i-2, i-3.
  After failed starts, the next start is at `+noon.Add(3*time.Minute).UTC().Format(time.RFC3339)+`.
`)
		web.Deployment.State = cluster.RolloutCompleted
		if said := whyService(t, snapshotOf(t, held), "web"); strings.Contains(said, "failed starts") {
			t.Errorf("a deployment that is completed and misses no task: %s", said)
		}
	})
	t.Run("WhoseDeploymentHasFailed", func(t *testing.T) {
		failed := rows()
		big := failed[7].(*cluster.Service)
		big.Blocked = nil
		big.Deployment.ID, big.Deployment.State = "ecs-svc/1", cluster.RolloutFailed
		big.Deployment.Reason = "ECS deployment circuit breaker: tasks failed to start."
		failed = append(failed, &cluster.Throttle{Head: head(), Owner: "big-short", Service: "big",
			Revisions: map[string]cluster.Backoff{
				"ecs-svc/1": {Step: 3, Failures: 3, NextAttemptAt: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)},
			}})
		golden(t, whyService(t, snapshotOf(t, failed), "big"), `
Service big (REPLICA, ACTIVE, big:1) wants 2 tasks: 1 running, 0 starting, 1 without an instance.
  They are on i-1.
Its deployment has FAILED: it starts no missing tasks and replaces none that stop.
  ECS deployment circuit breaker: tasks failed to start.
  To continue, deploy again: aws ecs update-service --service big with --task-definition of a revision that works, or --force-new-deployment.
`)
	})
	t.Run("WhoseLastDeploymentWasRolledBack", func(t *testing.T) {
		back := rows()
		web, lost := back[6].(*cluster.Service), task("web", 8, "i-2")
		web.Release = &cluster.Release{Status: cluster.DeploymentRollbackSuccessful, Target: "ecs-svc/2",
			ReleaseResult: cluster.ReleaseResult{RollbackTo: "ecs-svc/1",
				RollbackReason: "Three tasks failed to start."}}
		lost.Revision, lost.Last, lost.Desired = "ecs-svc/2", cluster.TaskStopped, cluster.TaskStopped
		lost.TaskDefinition, lost.StopCode, lost.Reason = "web:2", cluster.StopFailedToStart, "CannotPullContainerError"
		golden(t, whyService(t, snapshotOf(t, append(back, lost)), "web"), `
Service web (REPLICA, ACTIVE, web:1) wants 3 tasks: 3 running, 0 starting, 0 without an instance.
  They are on i-1, i-2, i-3.
Its last deployment, ecs-svc/2, was rolled back (ROLLBACK_SUCCESSFUL): Three tasks failed to start.
  Its task t-8 (web:2) never ran: CannotPullContainerError
`)
		web.Release.RollbackTo = ""
		if said := whyService(t, snapshotOf(t, append(back, lost)), "web"); strings.Contains(said, "rolled back") {
			t.Errorf("a deployment that was not rolled back: %s", said)
		}
	})
	t.Run("WhoseRoomHasComeSince", func(t *testing.T) {
		golden(t, whyService(t, snapshotOf(t, rows()), "big"), `
Service big (REPLICA, ACTIVE, big:1) wants 2 tasks: 1 running, 0 starting, 1 without an instance.
  They are on i-1.
  When placement last tried: 0/4: 4 insufficient memory (needs 3000 MiB, best free 2500)
Now:
A task of service big would go to i-3.
  4 instances: 1 insufficient memory (needs 3000 MiB, best free 688), 1 not active (DRAINING); of the 2 that can run it, i-3 has the fewest tasks of the service in its zone (0, runner-up i-2: 1)
`)
	})
	t.Run("WithMovesUnderWayAndBrokenRules", func(t *testing.T) {
		broken := rows()
		next := task("web", 9, "i-2")
		next.Replaces = "t-1"
		web := broken[6].(*cluster.Service)
		web.Rules.NodeConstraint, web.Moving, web.Unrepaired = "NodeName == i-2", true, "as it was"
		golden(t, whyService(t, snapshotOf(t, append(broken, next)), "web"), `
Service web (REPLICA, ACTIVE, web:1) wants 3 tasks: 4 running, 0 starting, 0 without an instance.
  They are on i-2 (2), i-1 (1), i-3 (1).
Moves in progress:
  task t-1 of web on i-1, by task t-9 on i-2
Planned moves:
  1. task t-3 of web: i-3 to i-2 (start first): i-3 no longer meets the placement constraint, i-2 does
No set of moves fixes this, as last decided: as it was
`)
	})
	t.Run("OnEachInstance", func(t *testing.T) {
		daemon := service("big", 3, cluster.Rules{})
		daemon.Strategy = cluster.Daemon
		with := rows()
		with[7] = daemon
		golden(t, whyService(t, snapshotOf(t, with), "big"), `
Service big (DAEMON, ACTIVE, big:1) wants 3 tasks: 1 running, 0 starting, 2 without an instance.
  They are on i-1.
Now:
2 tasks of service big would go to i-2, i-3.
  The first: 2 instances; of the 2 that can run it, i-2 comes first in the requested order (1, runner-up i-3: 2)
`)
	})
	t.Run("ThatEnds", func(t *testing.T) {
		ending := rows()
		ending[7].(*cluster.Service).Status, ending[7].(*cluster.Service).Blocked = cluster.ServiceDraining, nil
		golden(t, whyService(t, snapshotOf(t, ending), "big"), `
Service big (REPLICA, DRAINING, big:1) wants 2 tasks: 1 running, 0 starting, 0 without an instance.
  They are on i-1.
`)
	})
}
