package ecs

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
)

// StartInfo is a task that is about to be started.
type StartInfo struct {
	// TaskDefinition is family:revision; the others are ids and names, not ARNs.
	Cluster, TaskID, Instance, TaskDefinition, StartedBy, Group string
	// Start is how many tasks the fleet has started, this one included.
	Start int64
}

// Behaviour is what a task will do. The zero value starts after a random time, stays healthy and
// runs until it is stopped.
type Behaviour struct {
	Latency time.Duration // from StartTask to RUNNING, or to the failure; 0 lets the seed choose
	// FailStart is the reason why it never becomes RUNNING; empty for a task that starts.
	FailStart string
	RunFor    time.Duration // from RUNNING to its exit; 0 runs until stopped
	ExitCode  int
	// HealthyAfter is how long after RUNNING a health-checked task becomes HEALTHY; 0 is the
	// interval of its check.
	HealthyAfter time.Duration
	// UnhealthyAfter is how long after HEALTHY it turns UNHEALTHY, Flap how long until each further
	// turn; 0 is never.
	UnhealthyAfter, Flap time.Duration
	// IgnoreStop makes the task run until SIGKILL, which comes after the stop timeout of its
	// containers.
	IgnoreStop bool
}

// plan is a Behaviour in which every open choice has been made. It is stored with the task, so that
// a task does after a restart what it would have done without one.
type plan struct {
	Behaviour
	Checked     bool          // by a container health check
	StopLatency time.Duration // from the agent's hearing of the stop to the end of the containers
}

// SetTaskBehaviour makes decide choose what each task started from now on will do. A nil decide
// gives every task the zero Behaviour. decide must not call a service.
//
// Environment variables of the task override decide: BERTH_FLEET_RUN_SECONDS,
// BERTH_FLEET_EXIT_CODE, BERTH_FLEET_LATENCY_MS, and BERTH_FLEET_FAIL: start, or the reason that ECS
// gives, as "CannotPullContainerError: ...".
func (e *Machines) SetTaskBehaviour(decide func(StartInfo) Behaviour) {
	e.kernel.WithLock(func() { e.agents.behaviour = decide })
}

// phase is where a task is on its machine, whether or not ECS has heard of it. The numbers are
// stored.
type phase int

const (
	phaseStarting phase = iota
	phaseRunning
	phaseGone
)

// report is what an agent tells ECS of a task. While the agent is disconnected, reports are stored
// with the task.
type report struct {
	Last     cluster.TaskStatus // empty where only the health changed
	At       time.Time
	Health   string `json:",omitempty"`
	StopCode string `json:",omitempty"`
	Reason   string `json:",omitempty"`
	ExitCode *int   `json:",omitempty"`
}

// planBehaviour decides once what a task will do. Random choices are drawn from the seed and the
// task's number alone, so that they do not depend on what other tasks do. Latencies are whole
// milliseconds, the resolution of events.
func (e *agents) planBehaviour(t *task) plan {
	p := plan{}
	if e.behaviour != nil {
		p.Behaviour = e.behaviour(StartInfo{
			Cluster: t.Cluster, TaskID: t.ID, Instance: t.Instance, TaskDefinition: t.Definition,
			StartedBy: t.StartedBy, Group: t.Group, Start: t.Seq,
		})
	}
	p.fromEnvironment(t)
	random := rand.New(rand.NewPCG(e.kernel.Seed, uint64(t.Seq)))
	spread := random.Float64()
	if p.Latency <= 0 {
		p.Latency = e.options.MinStart + time.Duration(spread*float64(e.options.MaxStart-e.options.MinStart))
	}
	p.Latency = (p.Latency + t.on.machineFaults.StartDelay).Truncate(time.Millisecond)
	p.StopLatency = (100 * time.Millisecond) + time.Duration(random.IntN(900))*time.Millisecond
	if p.IgnoreStop {
		p.StopLatency = t.def.stopTimeout()
	}
	if check := t.def.healthCheck(); check != nil {
		p.Checked = true
		if p.HealthyAfter <= 0 {
			p.HealthyAfter = time.Duration(max(value(check.Interval), 0)) * time.Second
			if check.Interval == nil {
				p.HealthyAfter = 30 * time.Second // ECS's default
			}
		}
	}
	return p
}

// fromEnvironment applies the task's environment variables. Those of overrides win over those of
// the task definition. A value that should be a number and is not is ignored, because a container
// would start with it all the same. Example, a job that fails after a minute:
//
//	"environment": [
//	  {"name": "BERTH_FLEET_RUN_SECONDS", "value": "60"},
//	  {"name": "BERTH_FLEET_EXIT_CODE", "value": "1"}
//	]
func (p *plan) fromEnvironment(t *task) {
	if s, err := strconv.ParseFloat(t.environmentVariable("BERTH_FLEET_RUN_SECONDS"), 64); err == nil && s >= 0 &&
		s < 1e9 {
		p.RunFor = max(time.Duration(s*float64(time.Second)).Truncate(time.Millisecond), time.Millisecond)
	}
	if n, err := strconv.Atoi(t.environmentVariable("BERTH_FLEET_EXIT_CODE")); err == nil {
		p.ExitCode = n
	}
	if ms, err := strconv.Atoi(t.environmentVariable("BERTH_FLEET_LATENCY_MS")); err == nil && ms >= 0 && ms < 1e9 {
		p.Latency = max(time.Duration(ms)*time.Millisecond, time.Millisecond)
	}
	switch fail := t.environmentVariable("BERTH_FLEET_FAIL"); {
	case strings.EqualFold(fail, "start"):
		p.FailStart = "CannotStartContainerError: asked for by BERTH_FLEET_FAIL"
	case strings.Contains(fail, "Error: "):
		p.FailStart = fail
	}
}

// environmentVariable returns the value that the first container with the variable gives it.
func (t *task) environmentVariable(name string) string {
	for _, c := range t.Overrides.ContainerOverrides {
		if v, ok := lookupVariable(c.Environment, name); ok {
			return v
		}
	}
	for _, c := range t.def.Def.ContainerDefinitions {
		if v, ok := lookupVariable(c.Environment, name); ok {
			return v
		}
	}
	return ""
}

// lookupVariable reports false if the variable is absent, which an empty one is not.
func lookupVariable(environment []types.KeyValuePair, name string) (string, bool) {
	for _, kv := range environment {
		if value(kv.Name) == name {
			return value(kv.Value), true
		}
	}
	return "", false
}

// nextTransition returns when the task will next do something on its own, or false if it never
// will. A task that is to stop while it starts never becomes RUNNING.
func (t *task) nextTransition() (time.Time, bool) {
	var at time.Time
	earliest := func(o time.Time) {
		if !o.IsZero() && (at.IsZero() || o.Before(at)) {
			at = o
		}
	}
	switch t.Phase {
	case phaseGone:
		return at, false
	case phaseStarting:
		earliest(t.StopAt)
		if t.StopAt.IsZero() {
			earliest(t.Created.Add(t.Plan.Latency))
		}
	case phaseRunning:
		earliest(t.StopAt)
		earliest(t.HealthNext)
		if t.Plan.RunFor > 0 {
			earliest(t.Ran.Add(t.Plan.RunFor))
		}
	}
	return at, !at.IsZero()
}

// armTaskTimer sets a timer for the task's next transition, at once if that has passed. It disarms
// the timer before: the clock cannot cancel a callback, so a timer of an older epoch does nothing.
func (e *agents) armTaskTimer(t *task, now time.Time) {
	at, ok := t.nextTransition()
	t.epoch++
	if !ok {
		return
	}
	epoch := t.epoch
	e.kernel.After(max(at.Sub(now), 0), func() {
		e.kernel.Advance(func(now time.Time) {
			if t.epoch == epoch {
				e.advanceTask(t, now)
			}
		})
	})
}

// advanceTask makes the task's next transition. It counts from when it was due, even if the timer
// is late: after a restart a task has the history that it would have had. A stop that is due at the
// same moment as anything else comes first.
func (e *agents) advanceTask(t *task, now time.Time) {
	at, ok := t.nextTransition()
	if !ok || at.After(now) {
		e.armTaskTimer(t, now)
		return
	}
	switch {
	case at.Equal(t.StopAt):
		e.sendReport(t, t.stoppedReport(at), now)
	case t.Phase == phaseStarting && t.Plan.FailStart != "":
		e.sendReport(t, report{Last: cluster.TaskStopped, At: at, StopCode: cluster.StopFailedToStart,
			Reason: t.Plan.FailStart}, now)
	case t.Phase == phaseStarting:
		t.Phase, t.Ran = phaseRunning, at
		if t.Plan.Checked {
			t.HealthNext = at.Add(t.Plan.HealthyAfter)
		}
		e.sendReport(t, report{Last: cluster.TaskRunning, At: at}, now)
	case at.Equal(t.HealthNext):
		t.toggleHealth(at, now)
		e.sendReport(t, report{At: at, Health: t.HealthNow}, now)
	default:
		e.sendReport(t, exitReport(at, t.Plan.ExitCode), now)
	}
	e.kernel.SaveRow(t)
	e.armTaskTimer(t, now)
}

// stoppedReport returns the report of a task that stops because ECS asked for it. It has no stop
// code and no reason: ECS knows them. A task that never ran has no exit code.
func (t *task) stoppedReport(at time.Time) report {
	r := report{Last: cluster.TaskStopped, At: at}
	if t.Phase == phaseRunning {
		r.ExitCode = new(143) // SIGTERM
		if t.Killed {
			r.ExitCode = new(137)
		}
	}
	return r
}

// exitReport returns the report of a task whose essential container has exited.
func exitReport(at time.Time, code int) report {
	return report{
		Last: cluster.TaskStopped, At: at, StopCode: cluster.StopContainerExited,
		Reason: "Essential container in task exited", ExitCode: &code,
	}
}

// toggleHealth makes an unchecked or unhealthy task HEALTHY and a healthy one UNHEALTHY. While the
// file was closed turns were missed. It skips them in pairs, so that the health comes out as if
// none was missed: with a flap of 1 min, 7 min late, three pairs are skipped and one turn is made
// up.
func (t *task) toggleHealth(at, now time.Time) {
	wait := t.Plan.Flap
	switch t.HealthNow {
	case "":
		t.HealthNow, wait = "HEALTHY", t.Plan.UnhealthyAfter
	case "HEALTHY":
		t.HealthNow = "UNHEALTHY"
	default:
		t.HealthNow = "HEALTHY"
	}
	t.HealthNext = time.Time{}
	if wait <= 0 {
		return
	}
	t.HealthNext = at.Add(wait)
	if pair := 2 * t.Plan.Flap; pair > 0 && now.Sub(t.HealthNext) > pair {
		t.HealthNext = t.HealthNext.Add(now.Sub(t.HealthNext) / pair * pair)
	}
}

// sendReport sends an agent's report to ECS, or keeps it while the agent is disconnected. On the
// machine the task has changed either way.
func (e *agents) sendReport(t *task, r report, now time.Time) {
	if r.Last == cluster.TaskStopped {
		t.Phase = phaseGone
	}
	e.kernel.SaveRow(t)
	if !t.on.Connected {
		t.Unreported = append(t.Unreported, r)
		return
	}
	e.applyReport(t, r, now)
}

// applyReport changes what ECS knows of a task, and emits the event. A change of health counts no version and
// emits none (Amazon ECS developer guide, task state change events). No task that ECS holds STOPPED
// is ever reported again: deregister, which stops tasks without their agent, drops the agent's
// unsent reports.
func (e *agents) applyReport(t *task, r report, now time.Time) {
	if r.Last == "" {
		t.Health = r.Health
		e.kernel.SaveRow(t)
		return
	}
	t.Version++
	switch r.Last {
	case cluster.TaskRunning:
		t.Last, t.Started = cluster.TaskRunning, r.At
	case cluster.TaskStopped:
		e.recordTaskStop(t, r, now)
	}
	e.kernel.SaveRow(t)
	e.emitTask(t, now)
	if r.Last == cluster.TaskStopped && !t.on.machineFaults.Off {
		e.instanceChanged(t.on, now) // its resources are free again
	}
}

// recordTaskStop records why a task stopped. What ECS knew before the agent's report stands: a
// user's reason wins over the exit code that it led to. The resources are free from here on, and
// the task stays visible for a while ([Options].KeepStopped).
func (e *agents) recordTaskStop(t *task, r report, now time.Time) {
	t.Last, t.Desired, t.Ended, t.Reported, t.ExitCode = cluster.TaskStopped, cluster.TaskStopped, r.At, now, r.ExitCode
	t.Health = ""
	if t.Stopping.IsZero() {
		t.Stopping = r.At
	}
	if t.StopCode == "" {
		t.StopCode = r.StopCode
	}
	if t.Reason == "" {
		t.Reason = r.Reason
	}
	t.on.reserveFor(t, -1)
	e.kernel.ScheduleRemoval(now.Add(e.options.KeepStopped), func() { e.purgeTask(t) })
}
