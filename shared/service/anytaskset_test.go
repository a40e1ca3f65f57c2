package service

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/shared/cluster"
)

// drawTaskSets makes the scene's service one of task sets, of which one may be the PRIMARY one.
// Some tasks may be of a set that is gone.
func (s *scene) drawTaskSets(t *rapid.T) {
	s.Service.Controller = cluster.ExternalController
	var sets []cluster.Deployment
	for n, id := range []string{"ecs-svc/a", "ecs-svc/b", "ecs-svc/c"}[:rapid.IntRange(0, 3).Draw(t, "sets")] {
		sets = append(sets, cluster.Deployment{
			Revision: cluster.Revision{ID: id, TaskDefinition: "web:" + id,
				CreatedAt:     noon.Add(-time.Duration(n) * time.Hour),
				LoadBalancers: []cluster.LoadBalancer{{TargetGroup: "x"}}[:rapid.IntRange(0, 1).Draw(t, "balanced")]},
			State: cluster.RolloutCompleted, Desired: 1,
			Set: &cluster.TaskSet{Scale: rapid.SampledFrom([]float64{0, 50, 100}).Draw(t, "scale"),
				Draining: rapid.IntRange(0, 3).Draw(t, "deleted") == 0},
		})
	}
	s.Service.SetTaskSets(sets, rapid.SampledFrom([]string{"", "ecs-svc/a", "ecs-svc/b"}).Draw(t, "primary"))
	for _, task := range s.Tasks {
		switch rapid.IntRange(0, 3).Draw(t, "registration") {
		case 0:
			s.targets[task.ID] = &cluster.Target{Task: task.ID, Registrations: []cluster.Registration{{ARN: "x",
				State: rapid.SampledFrom([]cluster.RegistrationState{"", cluster.Registered,
					cluster.Deregistered}).Draw(t, "registered"),
				Health: rapid.SampledFrom([]cluster.Health{cluster.Healthy, cluster.Unhealthy}).Draw(t,
					"target health"),
			}}}
		case 1:
			task.Replaces = fmt.Sprintf("t%02d", rapid.IntRange(0, 9).Draw(t, "replaces"))
		}
	}
	s.Service.EmittedKeys = map[string]time.Time{"unhealthy/t01": noon.Add(-time.Hour), "over": noon.Add(-time.Hour)}
	if rapid.Bool().Draw(t, "throttled") {
		s.Input = throttled(s.Input, "ecs-svc/b", 1, time.Duration(rapid.IntRange(-1, 1).Draw(t, "next"))*time.Minute)
	}
}

// aloneInOrder returns the inputs of the task sets as services of their own: the PRIMARY one, then
// the oldest first, then revisions that are no task set any more, by id.
func (s *scene) aloneInOrder() (parts []Input) {
	byRevision := map[string][]*cluster.Task{}
	for _, task := range s.Tasks {
		byRevision[task.Revision] = append(byRevision[task.Revision], task)
	}
	add := func(d cluster.Deployment) {
		part := s.Input
		part.Service, part.Tasks = s.Service.OfTaskSet(d), byRevision[d.ID]
		parts = append(parts, part)
		delete(byRevision, d.ID)
	}
	if s.Service.Deployment.Set != nil {
		add(s.Service.Deployment)
	}
	for _, d := range s.Service.TaskSets() {
		if d.ID != s.Service.Deployment.ID {
			add(d)
		}
	}
	for _, id := range []string{"ecs-svc/a", "ecs-svc/b", "ecs-svc/c"} {
		if tasks := byRevision[id]; slices.ContainsFunc(tasks, func(t *cluster.Task) bool {
			return !t.HasEnded() || s.targets[t.ID] != nil
		}) {
			tasks = slices.DeleteFunc(tasks, func(t *cluster.Task) bool {
				return t.HasEnded() &&
					s.targets[t.ID] == nil
			})
			byRevision[id] = tasks
			add(cluster.Deployment{State: cluster.RolloutFailed,
				Revision: cluster.Revision{ID: id, TaskDefinition: tasks[0].TaskDefinition}})
		}
	}
	return parts
}

// Each task set is planned as a service of its own: the plan does and reports what the plans of all
// of them do, one after the other (S15).
func TestTaskSetsArePlannedOneByOne(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		for range scenes {
			s := drawScene(rt)
			s.drawTaskSets(rt)
			p := Reconcile(s.Input)
			s.checkTaskSets(rt, p)
		}
	})
}

func (s *scene) checkTaskSets(t *rapid.T, got Plan) {
	var want Plan
	running, pending, makesRoom := 0, 0, false
	var held []string
	keys := map[string]time.Time{}
	for _, part := range s.aloneInOrder() {
		p := Reconcile(part)
		want.Stops, want.Choices = append(want.Stops, p.Stops...), append(want.Choices, p.Choices...)
		want.Starts, want.LostTasks = append(want.Starts, p.Starts...), append(want.LostTasks, p.LostTasks...)
		want.CountedFailures = append(want.CountedFailures, p.CountedFailures...)
		want.RegisterTargets = append(want.RegisterTargets, p.RegisterTargets...)
		want.DeregisterTargets = append(want.DeregisterTargets, p.DeregisterTargets...)
		want.EmittedTargets, want.EndedPairs = append(want.EmittedTargets, p.EmittedTargets...),
			append(want.EndedPairs, p.EndedPairs...)
		want.EventsBefore = append(want.EventsBefore, p.EventsBefore...)
		want.EventsAfter = append(want.EventsAfter, p.EventsAfter...)
		want.ReconsiderAt = earliest(want.ReconsiderAt, p.ReconsiderAt)
		running, pending, makesRoom = running+p.Next.Running, pending+p.Next.Pending, makesRoom || p.MakesRoom
		for id := range p.HeldRevisions {
			held = append(held, id)
		}
		for key, at := range p.Next.EmittedKeys {
			if at.After(keys[key]) {
				keys[key] = at
			}
		}
	}
	same := func(what string, got, want any) {
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%s: got %v, want %v", what, got, want)
		}
	}
	same("plan", says(got), says(want))
	same("stops", got.Stops, want.Stops)
	same("lost tasks", got.LostTasks, want.LostTasks)
	same("counted failures", got.CountedFailures, want.CountedFailures)
	same("tasks to register", got.RegisterTargets, want.RegisterTargets)
	same("tasks to deregister", got.DeregisterTargets, want.DeregisterTargets)
	same("reported targets", got.EmittedTargets, want.EmittedTargets)
	same("ended pairs", got.EndedPairs, want.EndedPairs)
	same("events before", got.EventsBefore, want.EventsBefore)
	same("events after", got.EventsAfter, want.EventsAfter)
	same("next look", got.ReconsiderAt, want.ReconsiderAt)
	same("counts", [2]int{got.Next.Running, got.Next.Pending}, [2]int{running, pending})
	same("makes room", got.MakesRoom, makesRoom)
	same("keys of events", got.Next.EmittedKeys, keys)
	same("number held", len(got.HeldRevisions), len(held))
	for _, id := range held {
		same("held "+id, got.HeldRevisions[id], true)
	}
	if got.ThrottleCleared != (s.Throttle != nil && len(Backoffs(s.Throttle, s.Tasks, s.Limits, s.Now)) == 0) {
		t.Fatalf("throttle cleared is %v, with %v left", got.ThrottleCleared, Backoffs(s.Throttle, s.Tasks, s.Limits, s.Now))
	}
	listed := map[string]bool{}
	for _, d := range got.Next.TaskSets() {
		listed[d.ID] = true
		before := s.Service.OfRevision(d.ID)
		isReady := func(task *cluster.Task) bool {
			return task.Revision == d.ID && task.Last == cluster.TaskRunning && task.Health != cluster.Unhealthy
		}
		if d.Set.Steady && (d.Set.Draining || s.number(isReady) != before.Desired || !idle(got) &&
			stopped(got, isReady) > 0) {
			t.Fatalf("task set %s is steady with %d of %d tasks", d.ID, s.number(isReady), before.Desired)
		}
	}
	for _, d := range s.Service.TaskSets() {
		left := slices.ContainsFunc(s.Tasks, func(task *cluster.Task) bool {
			host := s.hosts[task.Instance]
			return task.Revision == d.ID && !task.HasEnded() && host != InstanceDeregistered &&
				(task.IsActive() || host != InstanceTimedOut)
		})
		if want := !d.Set.Draining || left; listed[d.ID] != want {
			t.Fatalf("task set %s is listed: %v, want %v", d.ID, listed[d.ID], want)
		}
	}
}

// A throttle is over once a task has been RUNNING after its failed starts. Where its row has none, it
// is over already and is not written again, whether or not the service has task sets (S7).
func TestThrottleIsOverOnce(t *testing.T) {
	failed := func() *cluster.Throttle {
		return throttled(with(1, 100, 200), "ecs-svc/a", 1, -time.Minute).Throttle
	}
	for name, c := range map[string]struct {
		throttle *cluster.Throttle
		running  bool
		want     bool
	}{
		"ATaskIsRunning":   {failed(), true, true},
		"NoTaskIsRunning":  {failed(), false, false},
		"NoStartHasFailed": {nil, true, false},
		"ItIsOverAlready":  {&cluster.Throttle{Revisions: map[string]cluster.Backoff{}}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := with(1, 100, 200, newTask("t1", runningFor(time.Second)))
			if in.Throttle = c.throttle; !c.running {
				in.Tasks = nil
			}
			expect(t, "over", Reconcile(in).ThrottleCleared, c.want)
			in.Service.Controller = cluster.ExternalController
			in.Service.SetTaskSets([]cluster.Deployment{{Revision: cluster.Revision{ID: "ecs-svc/a"},
				State: cluster.RolloutCompleted, Set: &cluster.TaskSet{Scale: 100}}}, "ecs-svc/a")
			expect(t, "over, of task sets", Reconcile(in).ThrottleCleared, c.want)
		})
	}
}
