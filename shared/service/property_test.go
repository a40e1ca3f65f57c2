package service

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/shared/cluster"
)

// In any history, no plan breaks the service's percentages ([world.check]), planning at one time
// ends, and once nothing more happens the service reaches its spec.
func TestPlansKeepTheRulesInAnyHistory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, rapid.IntRange(0, 9).Draw(rt, "desired"))
		w.fatal = rt.Fatalf
		w.service.MinHealthy = rapid.SampledFrom([]int{0, 50, 75, 100}).Draw(rt, "min")
		w.service.MaxPercent = rapid.SampledFrom([]int{100, 125, 150, 200}).Draw(rt, "max")
		w.service.Breaker = cluster.CircuitBreaker{Enable: rapid.Bool().Draw(rt, "breaker"),
			Rollback: rapid.Bool().Draw(rt, "rollback")}
		w.checked = rapid.Bool().Draw(rt, "checked")
		for i := range rapid.IntRange(5, 60).Draw(rt, "steps") {
			w.happen(rt, i)
			rounds := 0
			for !idle(w.step()) {
				if rounds++; rounds > 20 {
					rt.Fatalf("step %d: plans without end", i)
				}
			}
			w.pass(time.Duration(rapid.IntRange(1, 60).Draw(rt, "seconds")) * time.Second)
		}
		w.endFaults()
		w.rest(400)
		w.converged(rt)
	})
}

func (w *world) happen(rt *rapid.T, i int) {
	ids := w.ids()
	var id string
	if len(ids) > 0 {
		id = ids[rapid.IntRange(0, len(ids)-1).Draw(rt, "task")]
	}
	switch rapid.SampledFrom([]string{"", "", "die", "ill", "well", "deploy", "bad", "scale", "drain", "lose", "return",
		"protect", "stop"}).Draw(rt, "event") {
	case "die":
		if id != "" {
			w.die(id)
		}
	case "ill":
		if id != "" && w.tasks[id].Last == cluster.TaskRunning {
			w.set(id, func(t *cluster.Task) { t.Health = cluster.Unhealthy })
		}
	case "well":
		if id != "" && w.tasks[id].Health == cluster.Unhealthy {
			w.set(id, func(t *cluster.Task) { t.Health = cluster.Healthy })
		}
	case "deploy":
		w.deploy(fmt.Sprint(i))
	case "bad":
		w.broken[fmt.Sprintf("ecs-svc/%d", i)] = true
		w.deploy(fmt.Sprint(i))
	case "scale":
		s := *w.service
		s.Desired = rapid.IntRange(0, 9).Draw(rt, "to")
		w.service = &s
	case "drain":
		w.hosts[fmt.Sprintf("i%d", i%7)] = InstanceDraining
	case "lose":
		w.hosts[fmt.Sprintf("i%d", i%7)] = rapid.SampledFrom([]InstanceState{InstanceTimedOut,
			InstanceDeregistered}).Draw(rt, "host")
	case "return":
		delete(w.hosts, fmt.Sprintf("i%d", i%7))
	case "protect":
		if id != "" {
			w.protect[id] = w.now.Add(10 * time.Minute)
		}
	case "stop":
		if r := w.service.Release; r != nil && !r.Status.HasEnded() {
			s := *w.service
			s.Release = new(*r)
			s.Release.Stop = cluster.StopRollback
			w.service = &s
		}
	}
}

// endFaults ends all faults, except that some revisions cannot run.
func (w *world) endFaults() {
	clear(w.hosts)
	clear(w.protect)
	for id, t := range w.tasks {
		if t.Health == cluster.Unhealthy {
			w.set(id, func(t *cluster.Task) { t.Health = cluster.Healthy })
		}
	}
}

// converged checks that the service has all its tasks of the PRIMARY revision if that can run, and
// else of the one before.
func (w *world) converged(rt *rapid.T) {
	s := w.service
	running := w.running()
	total := 0
	for _, n := range running {
		total += n
	}
	floor := (s.Desired*s.MinHealthy + 99) / 100
	switch {
	case s.Deployment.IsCompleted() && !w.broken[s.Deployment.ID]:
		if running[s.Deployment.ID] != s.Desired || total != s.Desired || len(s.Older) > 0 {
			rt.Fatalf("completed with %v RUNNING of %d, %d older deployments", running, s.Desired, len(s.Older))
		}
	case w.broken[s.Deployment.ID] || s.Deployment.State == cluster.RolloutFailed:
		if s.Breaker.Enable && s.Deployment.State == cluster.RolloutInProgress && s.Desired > 0 && len(s.Older) == 0 {
			rt.Fatalf("the circuit breaker has not tripped: %d failed", s.Deployment.Failed)
		}
		room := s.Desired*s.MaxPercent/100 - total
		for _, d := range s.Older {
			if works := d.IsCompleted() && !w.broken[d.ID]; works && running[d.ID] < d.Desired && room > 0 {
				rt.Fatalf("%s does not run, and of %s, that was there before, %d tasks of %d do", s.Deployment.ID, d.ID,
					running[d.ID], d.Desired)
			}
		}
	case w.stuck():
	default:
		rt.Fatalf("%s of %d is %s with %v RUNNING, at least %d, older %d, failed %d", s.Deployment.ID, s.Desired,
			s.Deployment.State, running, floor, len(s.Older), s.Deployment.Failed)
	}
	for _, t := range w.tasks {
		if t.IsActive() && t.Last == "" && !w.broken[t.Revision] {
			rt.Fatalf("task %s of %s is still pending", t.ID, t.Revision)
		}
	}
}

// stuck reports whether the percentages allow no step, which an event reports.
func (w *world) stuck() bool {
	return w.emitted("Update the minimumHealthyPercent or maximumPercent value and try again.")
}
