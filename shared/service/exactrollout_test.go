package service

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/shared/cluster"
)

// rollout is a service whose PRIMARY revision replaces two older ones, b before c. Nothing is
// wrong with any task, so the percentages alone say what happens.
type rollout struct {
	Input
	floor, ceiling int
	healthy        int               // of the PRIMARY
	tasks          int               // of the PRIMARY, in any state
	old            map[string][4]int // by revision: waiting, pending, stabilizing and healthy tasks
	order          []string          // the oldest first
	early          int               // percentage that is enough; 0 for all
}

func drawRollout(t *rapid.T) *rollout {
	desired := rapid.IntRange(1, 8).Draw(t, "desired")
	r := &rollout{
		Input: with(desired, rapid.SampledFrom([]int{0, 50, 75, 100}).Draw(t, "minimum"),
			rapid.SampledFrom([]int{100, 125, 150, 200}).Draw(t, "maximum")),
		old: map[string][4]int{}, order: []string{"ecs-svc/c", "ecs-svc/b"},
	}
	r.floor, r.ceiling = (desired*r.Service.MinHealthy+99)/100, desired*r.Service.MaxPercent/100
	r.Service.Deployment.State = cluster.RolloutInProgress
	kinds := []about{waitingTask, pendingTask, func(t *cluster.Task) { t.Started = cluster.At(noon.Add(-time.Second)) },
		func(*cluster.Task) {}}
	add := func(revision string, kind, n int) {
		for range n {
			task := newTask(fmt.Sprintf("t%02d", len(r.Tasks)), kinds[kind])
			task.Revision = revision
			r.Tasks = append(r.Tasks, task)
		}
	}
	r.healthy = rapid.IntRange(0, desired).Draw(t, "new")
	add("ecs-svc/a", 3, r.healthy)
	starting := rapid.IntRange(0, desired-r.healthy).Draw(t, "starting")
	add("ecs-svc/a", 1, starting)
	r.tasks = r.healthy + starting
	left := min(desired, r.ceiling-r.tasks)
	for _, id := range r.order {
		var count [4]int
		for kind := range kinds {
			count[kind] = rapid.IntRange(0, left).Draw(t, "old")
			left -= count[kind]
			add(id, kind, count[kind])
		}
		r.old[id] = count
		n := count[0] + count[1] + count[2] + count[3]
		r.Service.Older = append([]cluster.Deployment{{
			Revision: cluster.Revision{ID: id}, State: cluster.RolloutCompleted, Desired: n,
		}}, r.Service.Older...)
	}
	if rapid.IntRange(0, 3).Draw(t, "criteria") == 0 {
		r.early = rapid.SampledFrom([]int{25, 50, 100}).Draw(t, "early")
		r.Service.Early = cluster.EarlySuccess{Enable: true, Percent: r.early, Deferred: true}
	}
	return r
}

// stops returns how many tasks of each older revision have to stop, and how many of the PRIMARY
// start after that, by the rules alone (S8).
func (r *rollout) expected() (stops map[string]int, starts int) {
	oldTasks, serving, settled := 0, r.healthy, r.healthy
	for _, count := range r.old {
		oldTasks += count[0] + count[1] + count[2] + count[3]
		serving, settled = serving+count[2]+count[3], settled+count[3]
	}
	missing := r.Service.Desired - r.tasks
	// Healthy new tasks take over from as many old ones; more old ones stop first where the new
	// ones have no room.
	want := max(oldTasks-(r.Service.Desired-r.healthy), missing-max(0, r.ceiling-oldTasks-r.tasks))
	if r.early > 0 && 100*r.healthy >= r.early*r.Service.Desired {
		want = oldTasks
	}
	stops = map[string]int{}
	total := 0
	for _, id := range r.order {
		for kind, n := range r.old[id] {
			n = min(n, max(0, want-total))
			switch kind {
			case 2:
				n = min(n, max(0, serving-r.floor))
				serving -= n
			case 3:
				n = min(n, max(0, min(serving, settled)-r.floor))
				serving, settled = serving-n, settled-n
			}
			stops[id] += n
			total += n
		}
	}
	return stops, max(0, min(missing, r.ceiling-(r.tasks+oldTasks-total)))
}

// A rollout stops the oldest revision's tasks first and, of a revision, first those that serve
// least. It stops as many as are replaced or in the way, and as the minimum allows; it starts as
// many as the maximum leaves room for (S8).
func TestRolloutIsExact(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		for range scenes {
			r := drawRollout(rt)
			p := Reconcile(r.Input)
			stops, starts := r.expected()
			for _, id := range r.order {
				of := func(task *cluster.Task) bool { return task.Revision == id }
				if got := stopped(p, of); got != stops[id] {
					rt.Fatalf("%d of %s stop, not %d; old are %v, new %d of %d, %d healthy, from %d to %d: %s", got, id,
						stops[id], r.old, r.tasks, r.Service.Desired, r.healthy, r.floor, r.ceiling, says(p))
				}
			}
			got := 0
			for _, s := range p.Starts {
				if s.Revision.ID == "ecs-svc/a" {
					got += s.Count
				}
			}
			if got != starts {
				rt.Fatalf("%d start, not %d; old are %v, new %d of %d, %d healthy, from %d to %d: %s", got, starts,
					r.old,
					r.tasks, r.Service.Desired, r.healthy, r.floor, r.ceiling, says(p))
			}
		}
	})
}
