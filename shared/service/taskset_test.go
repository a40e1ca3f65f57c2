package service

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/shared/cluster"
)

// newSetWorld returns a service with the deployment controller EXTERNAL and no task sets.
func newSetWorld(t *testing.T, desired int) *world {
	w := newWorld(t, desired)
	w.service.Controller = cluster.ExternalController
	w.service.SetTaskSets(nil, "")
	return w
}

// changeSets changes the service's task sets, as the API does.
func (w *world) changeSets(change func(sets []cluster.Deployment) []cluster.Deployment, primary string) {
	s := *w.service
	sets := s.TaskSets()
	for i := range sets {
		sets[i].Set = new(*sets[i].Set)
	}
	s.SetTaskSets(change(sets), primary)
	w.service = &s
}

func (w *world) addSet(id string, scale float64) {
	d := cluster.Deployment{
		Revision: cluster.Revision{ID: "ecs-svc/" + id, TaskDefinition: "web:" + id, CreatedAt: w.now},
		State:    cluster.RolloutCompleted, Set: &cluster.TaskSet{Scale: scale},
	}
	w.changeSets(func(sets []cluster.Deployment) []cluster.Deployment { return append(sets, d) },
		w.service.Deployment.ID)
}

func (w *world) changeSet(id string, change func(*cluster.TaskSet)) {
	w.changeSets(func(sets []cluster.Deployment) []cluster.Deployment {
		for i := range sets {
			if sets[i].ID == "ecs-svc/"+id {
				change(sets[i].Set)
			}
		}
		return sets
	}, w.service.Deployment.ID)
}

func (w *world) scaleSet(id string, scale float64) {
	w.changeSet(id, func(s *cluster.TaskSet) { s.Scale = scale })
}

func (w *world) deleteSet(id string) { w.changeSet(id, func(s *cluster.TaskSet) { s.Draining = true }) }

// sets describes the task sets, the oldest first: id, RUNNING tasks, and * if steady.
func (w *world) sets() (out string) {
	running := w.running()
	for _, d := range w.service.TaskSets() {
		out += fmt.Sprintf("%s=%d", d.ID[len("ecs-svc/"):], running[d.ID])
		if d.Set.Steady {
			out += "*"
		}
		out += " "
	}
	return out
}

// checkTaskSets checks a plan of a service of task sets: each set keeps within the percentages of
// its own count, and no stop leaves another one's share.
func (w *world) checkTaskSets(p Plan) {
	bounds := map[string]*cluster.Service{}
	for _, d := range w.service.TaskSets() {
		bounds[d.ID] = w.service.OfTaskSet(d)
	}
	active, up, stops, ups, starts := map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{},
		map[string]int{}
	for _, t := range w.tasks {
		if t.IsActive() && w.hosts[t.Instance] != InstanceDeregistered {
			active[t.Revision]++
			if w.well(t) {
				up[t.Revision]++
			}
		}
	}
	for _, s := range p.Stops {
		stops[s.Task.Revision]++
		if w.protect[s.Task.ID].After(w.now) {
			w.fatal("protected task %s is stopped", s.Task.ID)
		}
		if w.well(s.Task) {
			ups[s.Task.Revision]++
		}
	}
	for _, c := range p.Choices {
		revision := c.Candidates[0].Revision
		for _, t := range c.Candidates {
			if t.Revision != revision {
				w.fatal("a choice among tasks of %s and %s", revision, t.Revision)
			}
		}
		stops[revision] += c.Count
		if w.well(c.Candidates[0]) {
			ups[revision] += c.Count
		}
	}
	for _, s := range p.Starts {
		if starts[s.Revision.ID] += s.Count; bounds[s.Revision.ID] == nil {
			w.fatal("a task of %s starts, which is no task set", s.Revision.ID)
		}
	}
	for id, s := range bounds {
		least, most := s.TaskBounds(s.Desired)
		if ups[id] > 0 && up[id]-ups[id] < least && !w.checked {
			w.fatal("%d of %d healthy tasks of %s are stopped, %d must be left", ups[id], up[id], id, least)
		}
		if n := active[id] - stops[id] + starts[id]; starts[id] > 0 && n > most {
			w.fatal("%s would have %d tasks, at most %d are allowed", id, n, most)
		}
	}
}

// A deployment by hand: each step changes one task set and leaves the other one's tasks alone.
func TestTaskSetsBlueGreen(t *testing.T) {
	w := newSetWorld(t, 4)
	step := func(what, want string) {
		t.Helper()
		w.rest(100)
		if got := w.sets(); got != want {
			t.Fatalf("%s: %s, want %s", what, got, want)
		}
	}
	w.addSet("blue", 100)
	step("blue is created with 100 %", "blue=4* ")
	w.changeSets(func(sets []cluster.Deployment) []cluster.Deployment { return sets }, "ecs-svc/blue")
	kept := w.ids()
	w.pass(time.Second)
	w.addSet("green", 0)
	step("green is created with 0 %", "blue=4* green=0* ")
	w.scaleSet("green", 26)
	step("green is scaled to 26 %, which is 1.04 tasks", "blue=4* green=2* ")
	w.scaleSet("green", 100)
	step("green is scaled to 100 %", "blue=4* green=4* ")
	for _, id := range kept {
		expect(t, "a task of blue is kept: "+id, slices.Contains(w.ids(), id), true)
	}
	w.changeSets(func(sets []cluster.Deployment) []cluster.Deployment { return sets }, "ecs-svc/green")
	step("green is made primary", "blue=4* green=4* ")
	expect(t, "primary", w.service.Deployment.ID, "ecs-svc/green")
	w.deleteSet("blue")
	w.step()
	if got := w.sets(); got != "blue=0 green=4* " {
		t.Fatalf("blue is DRAINING until its tasks have ended: %s", got)
	}
	step("blue is deleted", "green=4* ")
}

// What a task set should have follows the desired count of its service, each rounded up.
func TestTaskSetsFollowTheDesiredCount(t *testing.T) {
	w := newSetWorld(t, 10)
	w.addSet("a", 33.3)
	w.pass(time.Second)
	w.addSet("b", 10)
	w.rest(100)
	expect(t, "of 10", w.sets(), "a=4* b=1* ")
	s := *w.service
	s.Desired = 11
	w.service = &s
	w.rest(100)
	expect(t, "of 11", w.sets(), "a=4* b=2* ")
	s = *w.service
	s.Desired = 0
	w.service = &s
	w.rest(100)
	expect(t, "of 0", w.sets(), "a=0* b=0* ")
}

func TestTaskSetCount(t *testing.T) {
	for _, c := range []struct {
		desired int
		scale   float64
		want    int
	}{
		{10, 0, 0}, {10, 100, 10}, {10, 12, 2}, {3, 1, 1}, {0, 100, 0}, {1000, 14.3, 143}, {5000, 0.02, 1},
		{10, 10.0001, 2}, {7, 50, 4}, {250, 64.4, 161}, {375, 8.8, 33},
	} {
		set := cluster.TaskSet{Scale: c.scale}
		expect(t, fmt.Sprintf("%g %% of %d", c.scale, c.desired), set.Count(c.desired), c.want)
		set.Draining = true
		expect(t, "of a deleted set", set.Count(c.desired), 0)
	}
}

// A task set is steady while exactly its count is RUNNING, healthy and on instances that stay.
func TestTaskSetStability(t *testing.T) {
	w := newSetWorld(t, 2)
	w.checked = true
	w.addSet("a", 100)
	w.step()
	expect(t, "starting", w.sets(), "a=0 ")
	w.rest(50)
	expect(t, "healthy", w.sets(), "a=2* ")
	since := w.service.TaskSets()[0].Set.StabilityAt
	w.pass(time.Minute)
	w.step()
	expect(t, "since when", w.service.TaskSets()[0].Set.StabilityAt, since)
	id := w.ids()[0]
	w.set(id, func(t *cluster.Task) { t.Health = cluster.Unhealthy })
	w.step()
	expect(t, "with an unhealthy task", w.sets(), "a=2 ")
	w.rest(50)
	expect(t, "once it is replaced", w.sets(), "a=2* ")
	for on := range 7 {
		w.hosts[fmt.Sprintf("i%d", on)] = InstanceDraining
	}
	w.protect[w.ids()[0]] = w.now.Add(time.Hour)
	for range 20 {
		w.step()
		w.pass(5 * time.Second)
	}
	if w.service.TaskSets()[0].Set.Steady {
		t.Error("a task is on a draining instance, and the set is STEADY_STATE")
	}
}

// Neither the circuit breaker nor an alarm concerns task sets; a set whose tasks cannot start waits
// longer and longer and leaves the others alone.
func TestTaskSetThatCannotRun(t *testing.T) {
	w := newSetWorld(t, 3)
	w.service.Breaker = cluster.CircuitBreaker{Enable: true, Rollback: true}
	w.broken["ecs-svc/bad"] = true
	w.addSet("good", 100)
	w.rest(50)
	w.pass(time.Second)
	w.addSet("bad", 100)
	started := w.made
	for range 100 {
		w.step()
		w.pass(5 * time.Second)
	}
	if n := w.made - started; n < 4 || n > 10 {
		t.Errorf("%d tasks of the set that cannot run were started in 500 s", n)
	}
	expect(t, "sets", w.sets(), "good=3* bad=0 ")
	w.deleteSet("bad")
	w.rest(50)
	expect(t, "after the deletion", w.sets(), "good=3* ")
	w.broken["ecs-svc/good"] = true
	w.die(w.ids()[0])
	for range 5 {
		w.step()
		w.pass(5 * time.Second)
	}
	w.addSet("idle", 0)
	if at := w.step().ReconsiderAt; !at.After(w.now) {
		t.Errorf("the older set waits for its next attempt, and the service is reconsidered at %v", at)
	}
}

// Tasks whose task set is gone are stopped; the service can be deleted with task sets.
func TestTaskSetsEnd(t *testing.T) {
	w := newSetWorld(t, 2)
	w.addSet("a", 100)
	w.rest(50)
	w.changeSets(func([]cluster.Deployment) []cluster.Deployment { return nil }, "")
	w.rest(50)
	expect(t, "tasks without a set", len(w.ids()), 0)
	w.addSet("b", 100)
	w.rest(50)
	s := *w.service
	s.Status, s.Desired = cluster.ServiceDraining, 0
	w.service = &s
	for range 5 {
		w.step()
		w.pass(5 * time.Second)
	}
	w.step()
	expect(t, "status", w.service.Status, cluster.ServiceInactive)
	expect(t, "tasks", len(w.ids()), 0)
}

// In any history of task sets, each set keeps within its own bounds ([world.checkTaskSets]),
// planning at one time ends, and once nothing more happens each set has exactly its count.
func TestTaskSetsKeepTheRulesInAnyHistory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newSetWorld(t, rapid.IntRange(0, 9).Draw(rt, "desired"))
		w.fatal = rt.Fatalf
		w.service.MinHealthy = rapid.SampledFrom([]int{0, 50, 75, 100}).Draw(rt, "min")
		w.service.MaxPercent = rapid.SampledFrom([]int{100, 125, 150, 200}).Draw(rt, "max")
		w.checked = rapid.Bool().Draw(rt, "checked")
		for i := range rapid.IntRange(5, 50).Draw(rt, "steps") {
			w.changeTaskSets(rt, i)
			rounds := 0
			for !idle(w.step()) {
				if rounds++; rounds > 30 {
					rt.Fatalf("step %d: plans without end", i)
				}
			}
			w.pass(time.Duration(rapid.IntRange(1, 60).Draw(rt, "seconds")) * time.Second)
		}
		w.endFaults()
		w.rest(400)
		running := w.running()
		for _, d := range w.service.TaskSets() {
			want := d.Set.Count(w.service.Desired)
			if d.Set.Draining || running[d.ID] != want || !d.Set.Steady {
				rt.Fatalf("%s of %d has %d tasks RUNNING, want %d: %+v", d.ID, w.service.Desired, running[d.ID], want,
					d.Set)
			}
			delete(running, d.ID)
		}
		if len(running) > 0 {
			rt.Fatalf("tasks of no task set: %v", running)
		}
	})
}

// changeTaskSets does what a caller may do with task sets, or lets something happen to tasks.
func (w *world) changeTaskSets(rt *rapid.T, i int) {
	sets := w.service.TaskSets()
	if len(sets) == 0 || rapid.IntRange(0, 2).Draw(rt, "kind") == 0 {
		if len(sets) < cluster.MaxTaskSets {
			w.addSet(fmt.Sprint(i), rapid.SampledFrom([]float64{0, 1, 25, 50, 100}).Draw(rt, "scale"))
		}
		return
	}
	id := rapid.SampledFrom(sets).Draw(rt, "set").ID
	switch rapid.SampledFrom([]string{"task", "task", "scale", "delete", "primary"}).Draw(rt, "change") {
	case "scale":
		w.scaleSet(id[len("ecs-svc/"):], rapid.SampledFrom([]float64{0, 1, 25, 50, 100}).Draw(rt, "scale"))
	case "delete":
		w.deleteSet(id[len("ecs-svc/"):])
	case "primary":
		w.changeSets(func(sets []cluster.Deployment) []cluster.Deployment { return sets }, id)
	default:
		w.happenToTask(rt, i)
	}
}

// happenToTask lets something happen to a task or to an instance, or changes the desired count.
func (w *world) happenToTask(rt *rapid.T, i int) {
	ids := w.ids()
	host := fmt.Sprintf("i%d", i%7)
	switch rapid.SampledFrom([]string{"die", "ill", "scale", "drain", "lose", "return", "protect"}).Draw(rt, "event") {
	case "die":
		if len(ids) > 0 {
			w.die(rapid.SampledFrom(ids).Draw(rt, "task"))
		}
	case "ill":
		if len(ids) > 0 {
			if id := rapid.SampledFrom(ids).Draw(rt, "task"); w.tasks[id].Last == cluster.TaskRunning {
				w.set(id, func(t *cluster.Task) { t.Health = cluster.Unhealthy })
			}
		}
	case "protect":
		if len(ids) > 0 {
			w.protect[rapid.SampledFrom(ids).Draw(rt, "task")] = w.now.Add(10 * time.Minute)
		}
	case "scale":
		s := *w.service
		s.Desired = rapid.IntRange(0, 9).Draw(rt, "to")
		w.service = &s
	case "drain":
		w.hosts[host] = InstanceDraining
	case "lose":
		w.hosts[host] = rapid.SampledFrom([]InstanceState{InstanceTimedOut, InstanceDeregistered}).Draw(rt, "host")
	case "return":
		delete(w.hosts, host)
	}
}
