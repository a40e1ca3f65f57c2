package service

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/shared/cluster"
)

// daemons returns a DAEMON service that is eligible on these instances. Tasks are on the instances
// of their ids.
func daemons(eligible []string, tasks ...*cluster.Task) Input {
	in := with(len(eligible), 0, 100, tasks...)
	in.Service.Strategy, in.Eligible = cluster.Daemon, eligible
	return in
}

func on(instance string) about { return func(t *cluster.Task) { t.Instance = instance } }

func createdAgo(d time.Duration) about {
	return func(t *cluster.Task) { t.CreatedAt, t.Started = cluster.At(noon.Add(-d)), cluster.At(noon.Add(-d)) }
}

func runningFor(d time.Duration) about {
	return func(t *cluster.Task) { t.Started = cluster.At(noon.Add(-d)) }
}

func olderRevision(t *cluster.Task) { t.Revision = "ecs-svc/b" }

// Of two daemons on an instance the better one stays: the one in the better condition, then the
// older one (S4).
func TestOneDaemonStays(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b *cluster.Task
		want string
	}{
		{"TheOlder", newTask("t1", on("x"), createdAgo(time.Hour)), newTask("t2", on("x"), createdAgo(2*time.Hour)),
			"stop t1"},
		{"TheOlderComesFirst", newTask("t1", on("x"), createdAgo(2*time.Hour)),
			newTask("t2", on("x"), createdAgo(time.Hour)), "stop t2"},
		{"OfTheSameAgeTheFirstById", newTask("t1", on("x")), newTask("t2", on("x")), "stop t2"},
		{"TheHealthy", newTask("t1", on("x"), unhealthyTask), newTask("t2", on("x"), createdAgo(time.Minute)),
			"stop t1"},
		{"TheRunning", newTask("t1", on("x"), pendingTask), newTask("t2", on("x"), createdAgo(time.Second)), "stop t1"},
		{"ToStabilizeIsNoWorse", newTask("t1", on("x"), createdAgo(2*time.Hour), runningFor(time.Second)),
			newTask("t2", on("x"), createdAgo(time.Hour)), "stop t2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			expect(t, "plan", says(Reconcile(daemons([]string{"x"}, c.a, c.b))),
				c.want)
		})
	}
	t.Run("TheWorstStopFirst", func(t *testing.T) {
		p := Reconcile(daemons([]string{"x"}, newTask("t1", on("x")), newTask("t2", on("x")),
			newTask("t3", on("x"), pendingTask)))
		expect(t, "plan", says(p), "stop t3; stop t2")
	})
	t.Run("DisconnectedIsNoBetterThanUnhealthy", func(t *testing.T) {
		in := hostsIn(daemons([]string{}, newTask("t1", on("i-x")), newTask("t2", on("i-x"), createdAgo(2*time.Hour))),
			InstanceTimedOut, "x")
		expect(t, "plan", says(Reconcile(in)), "stop t1")
	})
}

// A daemon is started on each eligible instance that has none, at once on all of them, but not
// where a task of the service still holds capacity or ended a moment ago (S4, S6).
func TestDaemonsStart(t *testing.T) {
	instances := []string{"i1", "i2", "i3"}
	ended := newTask("t1", on("i1"), endedTask)
	ended.Started = cluster.At(noon.Add(-5 * time.Second))
	refused := newTask("t1", on("i1"), endedTask)
	refused.Started, refused.StopCode, refused.Stopped = 0, cluster.StopRefused, cluster.At(noon.Add(-time.Second))
	for _, c := range []struct {
		name string
		task *cluster.Task
		want []string
	}{
		{"OnAll", newTask("t1", on("elsewhere"), endedTask), instances},
		{"NotWhereOneRuns", newTask("t1", on("i1")), instances[1:]},
		{"NotWhereOneIsStopping", newTask("t1", on("i1"), stoppingTask), instances[1:]},
		{"NotWhereOneEndedJustNow", ended, instances[1:]},
		{"NotWhereOneWasRefused", refused, instances[1:]},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Reconcile(daemons(instances, c.task))
			if len(p.Starts) != 1 || !slices.Equal(p.Starts[0].Instances, c.want) || p.Starts[0].Count != len(c.want) {
				t.Errorf("starts are %+v, want one on each of %v", p.Starts, c.want)
			}
			expect(t, "steady", p.Steady, false)
		})
	}
	t.Run("NoneOfAFailedDeployment", func(t *testing.T) {
		in := daemons(instances)
		in.Service.Deployment.State = cluster.RolloutFailed
		expect(t, "plan", says(Reconcile(in)), "")
	})
	t.Run("WhileTheNewRevisionIsDelayedOfTheOlderOne", func(t *testing.T) {
		for state, want := range map[cluster.RolloutState]string{cluster.RolloutCompleted: "ecs-svc/b",
			cluster.RolloutFailed: ""} {
			in := throttled(daemons(instances, newTask("t1", on("i1"), olderRevision)), "ecs-svc/a", 1, time.Minute)
			in.Service.Deployment.State = cluster.RolloutInProgress
			in.Service.Older = []cluster.Deployment{{Revision: cluster.Revision{ID: "ecs-svc/b"}, State: state}}
			p := Reconcile(in)
			got := ""
			for _, s := range p.Starts {
				got = s.Revision.ID
			}
			expect(t, "revision", got, want)
			expect(t, "stops", len(p.Stops), 0)
			expect(t, "looks again", p.ReconsiderAt, noon.Add(time.Minute))
		}
	})
	t.Run("AfterAFailedStartOnChangingInstances", func(t *testing.T) {
		first := map[string]bool{}
		for step := 1; step < 20; step++ {
			p := Reconcile(throttled(daemons(instances), "ecs-svc/a", step, -time.Second))
			expect(t, "starts", p.Starts[0].Count, 1)
			expect(t, "to choose from", len(p.Starts[0].Instances), 3)
			first[p.Starts[0].Instances[0]] = true
		}
		expect(t, "instances that came first", len(first), 3)
	})
}

// Unhealthy daemons are replaced a fifth at a time, those that are stopping already included, and
// none while checks are distrusted (S4, S6).
func TestUnhealthyDaemons(t *testing.T) {
	many := func(unhealthy int) Input {
		var instances []string
		var tasks []*cluster.Task
		for n := range 10 {
			task := newTask(fmt.Sprintf("t%d", n))
			if n < unhealthy {
				unhealthyTask(task)
			}
			instances, tasks = append(instances, task.Instance), append(tasks, task)
		}
		return daemons(instances, tasks...)
	}
	expect(t, "of ten", len(Reconcile(many(5)).Stops), 2)
	expect(t, "of one", len(Reconcile(many(1)).Stops), 1)
	in := many(5)
	stoppingTask(in.Tasks[9])
	expect(t, "while one is stopping", len(Reconcile(in).Stops), 1)
	in = many(5)
	in.DistrustChecks = true
	p := Reconcile(in)
	expect(t, "while checks are distrusted", len(p.Stops), 0)
	expect(t, "event", messages(p), "is not replacing 5 unhealthy tasks, because too many tasks of the cluster appear "+
		"unhealthy at once.")
	expect(t, "looks again", p.ReconsiderAt, noon.Add(time.Minute))
}

// The new revision replaces daemons as fast as minimumHealthyPercent allows; after a failed start
// one at a time, once nothing is starting or stopping and each other instance has its task (S4).
func TestDaemonRollout(t *testing.T) {
	rolling := func(change func(*Input)) Input {
		in := daemons([]string{"i-t1", "i-t2", "i-t3"}, newTask("t1", olderRevision), newTask("t2", olderRevision),
			newTask("t3", olderRevision))
		in.Service.Deployment.State = cluster.RolloutInProgress
		in.Service.Older = []cluster.Deployment{{Revision: cluster.Revision{ID: "ecs-svc/b"},
			State: cluster.RolloutCompleted}}
		change(&in)
		return in
	}
	for _, c := range []struct {
		name   string
		change func(*Input)
		want   int
	}{
		{"AllAtOnce", func(*Input) {}, 3},
		{"WithinTheMinimum", func(in *Input) { in.Service.MinHealthy = 34 }, 1},
		{"NoneOfAFailedDeployment", func(in *Input) { in.Service.Deployment.State = cluster.RolloutFailed }, 0},
		{"NoneDuringTheDelay", func(in *Input) { *in = throttled(*in, "ecs-svc/a", 1, time.Minute) }, 0},
		{"OneAfterTheDelay", func(in *Input) { *in = throttled(*in, "ecs-svc/a", 1, -time.Second) }, 1},
		{"NoneWhileOneIsStarting", func(in *Input) {
			*in = throttled(*in, "ecs-svc/a", 1, -time.Second)
			in.Tasks[0] = newTask("t1", pendingTask)
		}, 0},
		{"NoneWhileOneIsStopping", func(in *Input) {
			*in = throttled(*in, "ecs-svc/a", 1, -time.Second)
			stoppingTask(in.Tasks[0])
		}, 0},
		{"NoneWhileAnInstanceHasNone", func(in *Input) {
			*in = throttled(*in, "ecs-svc/a", 1, -time.Second)
			in.Eligible = append(in.Eligible, "i-t4")
		}, 0},
		{"OneIfThatHasNoRoom", func(in *Input) {
			*in = throttled(*in, "ecs-svc/a", 1, -time.Second)
			in.Eligible = append(in.Eligible, "i-t4")
			in.Service.Blocked = &cluster.Diagnosis{Evaluated: 1}
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, "stops", len(Reconcile(rolling(c.change)).Stops), c.want) })
	}
	t.Run("TheyTakeTurns", func(t *testing.T) {
		stopped := map[string]bool{}
		for step := 1; step < 20; step++ {
			p := Reconcile(rolling(func(in *Input) { *in = throttled(*in, "ecs-svc/a", step, -time.Second) }))
			stopped[p.Stops[0].Task.ID] = true
		}
		expect(t, "tasks that were stopped", len(stopped), 3)
	})
}

// At most one task of a DAEMON service is left on an instance, for any tasks, none
// is started beside another, and a service with all its tasks is left alone (S4).
func TestAnyDaemonPlanKeepsTheRules(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawScene(rt)
		s.Service.Strategy, s.Service.MinHealthy, s.Service.MaxPercent, s.Service.Older = cluster.Daemon, 0, 100, nil
		for n := range 5 {
			if id := fmt.Sprintf("i-%d", n); rapid.Bool().Draw(rt, id) {
				s.Eligible = append(s.Eligible, id)
			}
		}
		for _, task := range s.Tasks {
			if task.Instance == "" {
				continue
			}
			state := s.hosts[task.Instance]
			task.Instance = fmt.Sprintf("i-%d", rapid.IntRange(0, 4).Draw(rt, "on"))
			if !slices.Contains(s.Eligible, task.Instance) {
				s.hosts[task.Instance] = state
			}
			task.Revision = "ecs-svc/a"
		}
		p := Reconcile(s.Input)
		gone := map[*cluster.Task]bool{}
		for _, stop := range p.Stops {
			gone[stop.Task] = true
		}
		left, held, recent := map[string]int{}, map[string]bool{}, map[string]bool{}
		for _, task := range s.Tasks {
			if s.counts(task) && !gone[task] && !s.protect[task.ID].After(noon) {
				left[task.Instance]++
			}
			held[task.Instance] = held[task.Instance] || task.HoldsCapacity() &&
				s.hosts[task.Instance] != InstanceDeregistered
			recent[task.Instance] = recent[task.Instance] || task.HasEnded() && task.Started != 0 &&
				noon.Sub(task.Started.Time()) < 10*time.Second
		}
		for instance, n := range left {
			if n > 1 || n > 0 && instance == "" {
				rt.Fatalf("%d tasks are left on instance %q: %s", n, instance, says(p))
			}
		}
		for _, start := range p.Starts {
			for _, instance := range start.Instances {
				if held[instance] || recent[instance] || !slices.Contains(s.Eligible, instance) {
					rt.Fatalf("a task starts on %s, which has one, had one just now, or is not eligible", instance)
				}
			}
		}
		s.Service.Desired = len(s.Eligible) // as the row says from now on
		if p.Next.Desired != len(s.Eligible) {
			rt.Fatalf("%d are desired on %d instances", p.Next.Desired, len(s.Eligible))
		}
		s.checkCounts(rt, p)
	})
}
