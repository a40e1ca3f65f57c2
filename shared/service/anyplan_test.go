package service

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/shared/cluster"
)

// scene is one input, drawn without regard to how it came about.
type scene struct {
	Input
	hosts   map[string]InstanceState
	targets map[string]*cluster.Target
	protect map[string]time.Time
	checked bool
}

// drawScene draws a service with up to two older deployments, and up to 10 tasks in every state.
func drawScene(t *rapid.T) *scene {
	s := &scene{
		Input: with(rapid.IntRange(0, 6).Draw(t, "desired"),
			rapid.SampledFrom([]int{0, 50, 75, 100}).Draw(t, "minimum"),
			rapid.SampledFrom([]int{100, 125, 150, 200}).Draw(t, "maximum")),
		hosts: map[string]InstanceState{}, targets: map[string]*cluster.Target{}, protect: map[string]time.Time{},
		checked: rapid.Bool().Draw(t, "checked"),
	}
	states := []cluster.RolloutState{cluster.RolloutInProgress, cluster.RolloutCompleted, cluster.RolloutFailed}
	revisions := []string{"ecs-svc/a", "ecs-svc/b", "ecs-svc/c"}[:rapid.IntRange(1, 3).Draw(t, "revisions")]
	s.Service.Deployment.State = rapid.SampledFrom(states).Draw(t, "state")
	for _, id := range revisions[1:] {
		s.Service.Older = append(s.Service.Older, cluster.Deployment{
			Revision: cluster.Revision{ID: id, TaskDefinition: "web:" + id},
			State:    rapid.SampledFrom(states).Draw(t, "state"),
			Desired:  rapid.IntRange(0, 4).Draw(t, "older desired"),
		})
	}
	for n := range rapid.IntRange(0, 10).Draw(t, "tasks") {
		s.drawTask(t, fmt.Sprintf("t%02d", n), revisions)
	}
	if rapid.Bool().Draw(t, "blocked") {
		s.Service.Blocked = &cluster.Diagnosis{Evaluated: 1,
			Rejected: []cluster.Rejection{{Filter: cluster.FilterCPU, Count: 1}}}
		s.Service.BlockedSince = noon.Add(-time.Duration(rapid.IntRange(0, 20).Draw(t, "blocked for")) * time.Minute)
	}
	s.DistrustChecks = rapid.Bool().Draw(t, "distrusted")
	s.Seed = rapid.Uint64().Draw(t, "seed")
	s.InstanceState = func(id string) InstanceState { return s.hosts[id] }
	s.ProtectedUntil = func(id string) time.Time { return s.protect[id] }
	s.HealthChecked = func(string) bool { return s.checked }
	s.Target = func(id string) *cluster.Target { return s.targets[id] }
	return s
}

func (s *scene) drawTask(t *rapid.T, id string, revisions []string) {
	task := newTask(id)
	task.Revision = rapid.SampledFrom(revisions).Draw(t, "revision")
	age := time.Duration(rapid.SampledFrom([]int{3, 20, 60, 3600}).Draw(t, "age")) * time.Second
	task.CreatedAt, task.Started = cluster.At(noon.Add(-age)), cluster.At(noon.Add(-age))
	task.Health = rapid.SampledFrom([]cluster.Health{cluster.UnknownHealth, cluster.Healthy, cluster.Unhealthy}).Draw(t,
		"health")
	switch rapid.SampledFrom([]string{"", "", "", "", "waiting", "pending", "stopping", "ended", "failed"}).Draw(t,
		"status") {
	case "waiting":
		waitingTask(task)
	case "pending":
		pendingTask(task)
	case "stopping":
		stoppingTask(task)
	case "ended":
		endedTask(task)
	case "failed":
		endedTask(task)
		task.Started = 0
	}
	if task.Instance != "" {
		s.hosts[task.Instance] = rapid.SampledFrom([]InstanceState{InstanceUsable, InstanceUsable, InstanceUsable,
			InstanceDraining, InstanceTimedOut, InstanceDeregistered}).Draw(t, "host")
	}
	if rapid.IntRange(0, 3).Draw(t, "protection") == 0 {
		s.protect[id] = noon.Add(time.Duration(rapid.IntRange(-1, 5).Draw(t, "protected for")) * time.Minute)
	}
	if rapid.IntRange(0, 3).Draw(t, "replacement") == 0 {
		task.Replaces = fmt.Sprintf("t%02d", rapid.IntRange(0, 9).Draw(t, "replaces"))
	}
	s.Tasks = append(s.Tasks, task)
}

// counts reports whether a task is one of the service's: wanted, and on an instance that has not
// left the cluster.
func (s *scene) counts(t *cluster.Task) bool {
	return t.IsActive() && s.hosts[t.Instance] != InstanceDeregistered
}

// unhealthy says whether the checks find a RUNNING task unhealthy.
func (s *scene) unhealthy(t *cluster.Task) bool {
	return t.Last == cluster.TaskRunning && t.Health == cluster.Unhealthy && s.hosts[t.Instance] != InstanceTimedOut
}

// up says whether a task is RUNNING and, if its container has a check, HEALTHY.
func (s *scene) up(t *cluster.Task) bool {
	return t.Last == cluster.TaskRunning && t.Health != cluster.Unhealthy && s.hosts[t.Instance] != InstanceTimedOut &&
		(!s.checked || t.Health == cluster.Healthy)
}

// settled says whether a task that is up has been so for long enough to be called healthy.
func (s *scene) settled(t *cluster.Task) bool {
	return s.up(t) && (s.checked || noon.Sub(t.Started.Time()) >= 40*time.Second)
}

// isReplaced says whether another task that counts was started to replace this one.
func (s *scene) isReplaced(t *cluster.Task) bool {
	return slices.ContainsFunc(s.Tasks, func(by *cluster.Task) bool { return by.Replaces == t.ID && s.counts(by) })
}

func (s *scene) number(of func(*cluster.Task) bool) (n int) {
	for _, t := range s.Tasks {
		if s.counts(t) && of(t) {
			n++
		}
	}
	return n
}

func all(*cluster.Task) bool { return true }

func started(p Plan) (n int) {
	for _, start := range p.Starts {
		n += start.Count
	}
	return n
}

// stopped returns how many tasks of a kind the plan stops. The candidates of a choice are all of
// one kind.
func stopped(p Plan, of func(*cluster.Task) bool) (n int) {
	for _, stop := range p.Stops {
		if of(stop.Task) {
			n++
		}
	}
	for _, c := range p.Choices {
		if of(c.Candidates[0]) {
			n += c.Count
		}
	}
	return n
}

// scenes is how many inputs each check draws: what matters is rare in one.
const scenes = 15

// A plan for any tasks keeps the rules that need no history.
func TestAnyPlanKeepsTheRules(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		for range scenes {
			drawScene(rt).checkPlan(rt)
		}
	})
}

func (s *scene) checkPlan(t *rapid.T) {
	before, err := json.Marshal(s.Service)
	if err != nil {
		t.Fatal(err)
	}
	p := Reconcile(s.Input)
	if after, _ := json.Marshal(s.Service); string(before) != string(after) {
		t.Fatalf("the service was changed: %s, before %s", after, before)
	}
	s.checkBounds(t, p)
	s.checkReasons(t, p)
	s.checkCounts(t, p)
	s.checkNextTime(t, p)
	s.Tasks = rapid.Permutation(s.Tasks).Draw(t, "order")
	if again := Reconcile(s.Input); !reflect.DeepEqual(p, again) {
		t.Fatalf("in another order of the tasks the plan is %s, not %s\n%+v\n%+v", says(again), says(p), again, p)
	}
}

// Nothing happens by itself before the time at which a plan wants to look again (S1): until then
// the same tasks need nothing done.
func TestNothingHappensBeforeTheNextLook(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		for range scenes {
			s := drawScene(rt)
			s.Service.Blocked = nil // who makes room looks again by itself
			p := Reconcile(s.Input)
			later := noon.Add(time.Duration(rapid.IntRange(1, 400).Draw(rt, "seconds")) * time.Second)
			if !idle(p) || !p.ReconsiderAt.IsZero() && !later.Before(p.ReconsiderAt) {
				continue
			}
			s.Service, s.Now = p.Next, later
			for _, task := range s.Tasks {
				task.Counted = task.Counted || slices.Contains(p.CountedFailures, task)
			}
			then := Reconcile(s.Input)
			if len(p.LostTasks) == 0 && (!idle(then) || then.Steady != p.Steady ||
				then.Next.Deployment.State != p.Next.Deployment.State) {
				rt.Fatalf("%s later: %s, steady %v, %s; before nothing, steady %v, %s, and the next look is at %s",
					later.Sub(noon), says(then), then.Steady, then.Next.Deployment.State, p.Steady,
					p.Next.Deployment.State,
					p.ReconsiderAt)
			}
		}
	})
}

// checkBounds checks the percentages (S8), that protected tasks stay (S5), and that no task stops
// twice.
func (s *scene) checkBounds(t *rapid.T, p Plan) {
	floor, ceiling := (s.Service.Desired*s.Service.MinHealthy+99)/100, s.Service.Desired*s.Service.MaxPercent/100
	serving := func(t *cluster.Task) bool { return s.up(t) || s.DistrustChecks && s.unhealthy(t) }
	for name, of := range map[string]func(*cluster.Task) bool{"serving": serving} {
		if n := stopped(p, of); n > 0 && s.number(of)-n < floor {
			t.Fatalf("%d of %d %s tasks stop, %d must stay: %s", n, s.number(of), name, floor, says(p))
		}
	}
	if n := stopped(p, s.settled); n > 0 && s.number(s.settled)-n < floor {
		t.Fatalf("%d of %d healthy tasks stop, %d must stay: %s", n, s.number(s.settled), floor, says(p))
	}
	if n := started(p); n > 0 && s.number(all)-stopped(p, all)+n > ceiling {
		t.Fatalf("%d tasks, %d stop, %d start: more than %d", s.number(all), stopped(p, all), n, ceiling)
	}
	seen := map[string]bool{}
	check := func(task *cluster.Task) {
		if seen[task.ID] || !s.counts(task) || s.protect[task.ID].After(noon) {
			t.Fatalf("%s stops, but it stops twice, does not count or is protected: %s", task.ID, says(p))
		}
		seen[task.ID] = true
	}
	for _, stop := range p.Stops {
		check(stop.Task)
	}
	for _, c := range p.Choices {
		if c.Count <= 0 || c.Count >= len(c.Candidates) {
			t.Fatalf("a choice of %d of %d", c.Count, len(c.Candidates))
		}
		for _, task := range c.Candidates {
			check(task)
			if task.Revision != c.Candidates[0].Revision || s.settled(task) != s.settled(c.Candidates[0]) ||
				s.up(task) != s.up(c.Candidates[0]) {
				t.Fatalf("a choice between unequal tasks: %s", says(p))
			}
		}
	}
	// A task that is being replaced will stop, so it counts with its replacement as one.
	if room := s.Service.Desired - s.number(func(task *cluster.Task) bool {
		return !s.unhealthy(task) && s.hosts[task.Instance] == InstanceUsable && !s.isReplaced(task)
	}) + stopped(p, all); len(s.Service.Older) == 0 && started(p) > max(0, room) {
		t.Fatalf("%d start where at most %d are missing: %s", started(p), room, says(p))
	}
}

// checkReasons checks that each stop says why, in ECS's words (S6, S11).
func (s *scene) checkReasons(t *rapid.T, p Plan) {
	for _, stop := range p.Stops {
		host := s.hosts[stop.Task.Instance]
		switch {
		case stop.Reason == drainingReason:
			if host != InstanceDraining {
				t.Fatalf("%s is on no draining instance: %s", stop.Task.ID, stop.Reason)
			}
		case strings.HasPrefix(stop.Reason, "The agent of"):
			if host != InstanceTimedOut {
				t.Fatalf("%s is on no disconnected instance: %s", stop.Task.ID, stop.Reason)
			}
		case strings.HasPrefix(stop.Reason, "Task failed"):
			if !s.unhealthy(stop.Task) || s.DistrustChecks {
				t.Fatalf("%s is not unhealthy, or the checks are distrusted: %s", stop.Task.ID, stop.Reason)
			}
		case stop.Reason == "Replaced on another instance.":
			if !slices.ContainsFunc(s.Tasks, func(task *cluster.Task) bool {
				return task.Replaces == stop.Task.ID && s.counts(task) && s.settled(task)
			}) {
				t.Fatalf("%s stops, but no replacement of it is healthy: %s", stop.Task.ID, says(p))
			}
		case stop.Reason != "Scaling activity initiated by (deployment "+stop.Task.Revision+")":
			t.Fatalf("%s stops for %q", stop.Task.ID, stop.Reason)
		}
	}
}

// checkCounts checks what DescribeServices shows: the tasks as they were before the plan.
func (s *scene) checkCounts(t *rapid.T, p Plan) {
	isRunning := func(task *cluster.Task) bool { return task.Last == cluster.TaskRunning }
	running := s.number(isRunning)
	if p.Next.Running != running || p.Next.Pending != s.number(all)-running {
		t.Fatalf("%d RUNNING and %d pending, not %d and %d", p.Next.Running, p.Next.Pending, running,
			s.number(all)-running)
	}
	for _, d := range append([]cluster.Deployment{p.Next.Deployment}, p.Next.Older...) {
		of := func(kind func(*cluster.Task) bool) int {
			return s.number(func(task *cluster.Task) bool { return task.Revision == d.ID && kind(task) })
		}
		if d.Running != of(isRunning) || d.Pending != of(all)-of(isRunning) || d.Healthy != of(s.up) {
			t.Fatalf("%s: %d RUNNING, %d pending, %d healthy, not %d, %d, %d", d.ID, d.Running, d.Pending, d.Healthy,
				of(isRunning), of(all)-of(isRunning), of(s.up))
		}
	}
	var lost []string
	for _, task := range s.Tasks {
		if task.Instance != "" && task.Last != cluster.TaskStopped && s.hosts[task.Instance] == InstanceDeregistered {
			lost = append(lost, task.ID)
		}
	}
	var got []string
	for _, task := range p.LostTasks {
		got = append(got, task.ID)
	}
	if !slices.Equal(got, lost) {
		t.Fatalf("lost are %v, not %v", got, lost)
	}
	up := s.up
	if s.Service.Strategy == cluster.Daemon {
		up = isRunning // S4 asks for no more
	}
	if p.Steady && (s.number(up) < s.Service.Desired || len(p.Next.Older) > 0) {
		t.Fatalf("steady with %d of %d tasks and %d older deployments", s.number(up), s.Service.Desired,
			len(p.Next.Older))
	}
}

// checkNextTime checks that the next time to look is in the future, unless something has to be
// done at once, and that it is set while a failed start delays the next one.
func (s *scene) checkNextTime(t *rapid.T, p Plan) {
	if !p.ReconsiderAt.IsZero() && p.ReconsiderAt.Before(noon) {
		t.Fatalf("the time to look again is over: %s", p.ReconsiderAt)
	}
	for id, b := range Backoffs(s.Throttle, s.Tasks, s.Limits, s.Now) {
		for _, start := range p.Starts {
			if start.Revision.ID == id && (start.Count > 1 || b.NextAttemptAt.After(noon)) {
				t.Fatalf("%d tasks of %s start, whose next attempt is at %s", start.Count, id, b.NextAttemptAt)
			}
		}
	}
}

// Tasks that are all up, on usable instances and of one deployment, become exactly as many as
// desired: nothing is started or stopped that is not missing or too many (S1).
func TestPlanIsExactWhereNothingElseIsWrong(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		desired, there := rapid.IntRange(0, 9).Draw(rt, "desired"), rapid.IntRange(0, 9).Draw(rt, "there")
		in := with(desired, 100, 200)
		for n := range there {
			in.Tasks = append(in.Tasks, newTask(fmt.Sprint(n)))
		}
		p := Reconcile(in)
		if got, want := started(p), max(0, desired-there); got != want {
			rt.Fatalf("%d start, not %d", got, want)
		}
		if got, want := stopped(p, all), max(0, there-desired); got != want {
			rt.Fatalf("%d stop, not %d", got, want)
		}
		if p.Steady != (there == desired) || len(p.HeldRevisions) > 0 || p.MakesRoom {
			rt.Fatalf("steady is %v, held %v, makes room %v", p.Steady, p.HeldRevisions, p.MakesRoom)
		}
	})
}
