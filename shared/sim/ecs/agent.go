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
	Cluster, TaskID, Instance, TaskDefinition, StartedBy, Group string
	Start                                                       int64 // how many tasks the fleet has started, this one included
}

// Behaviour is what a task will do. The zero value starts in good time, is healthy and runs until it is stopped.
type Behaviour struct {
	Latency time.Duration // from StartTask to RUNNING, or to the failure; 0 lets the seed choose
	// FailStart is why it never becomes RUNNING.
	FailStart string
	RunFor    time.Duration // from RUNNING to its exit; 0 runs until stopped
	ExitCode  int
	// HealthyAfter is how long after RUNNING a health-checked task is HEALTHY: 0 is the interval of its check.
	HealthyAfter time.Duration
	// UnhealthyAfter is how long after HEALTHY it turns UNHEALTHY, Flap how long until it turns again; 0: never.
	UnhealthyAfter, Flap time.Duration
	// IgnoreStop waits for SIGKILL, which comes when the stop timeout of its containers has passed.
	IgnoreStop bool
}

// plan is a behaviour with nothing left open.
type plan struct {
	Behaviour
	Checked     bool // by a container health check
	StopLatency time.Duration
}

// SetBehaviour has decide say what each task started from now on will do; what environment variables of the task say
// (BERTH_FLEET_RUN_SECONDS, _EXIT_CODE, _LATENCY_MS, and _FAIL, whose value start is the only one) goes before it.
// decide must not call the fleet; nil gives every task the zero Behaviour.
func (e *Machines) SetBehaviour(decide func(StartInfo) Behaviour) {
	e.kernel.Lock(func() { e.agents.behaviour = decide })
}

// phase is where a task is on its machine, whether or not ECS has heard of it.
type phase int

const (
	phaseStarting phase = iota
	phaseRunning
	phaseGone
)

// report is what an agent tells ECS of a task.
type report struct {
	Last     cluster.TaskStatus // empty where only the health changed
	At       time.Time
	Health   string `json:",omitempty"`
	StopCode string `json:",omitempty"`
	Reason   string `json:",omitempty"`
	ExitCode *int   `json:",omitempty"`
}

func (e *agents) plan(t *task) plan {
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
	p.Latency = p.Latency.Truncate(time.Millisecond)
	p.StopLatency = (100 * time.Millisecond) + time.Duration(random.IntN(900))*time.Millisecond
	if p.IgnoreStop {
		p.StopLatency = t.def.stopTimeout()
	}
	if check := t.def.healthCheck(); check != nil {
		p.Checked = true
		if p.HealthyAfter <= 0 {
			p.HealthyAfter = time.Duration(max(value(check.Interval), 0)) * time.Second
			if check.Interval == nil {
				p.HealthyAfter = 30 * time.Second
			}
		}
	}
	return p
}

// fromEnvironment lets the task's own variables say what it does; overrides go before the definition. A value that is
// no number says nothing.
func (p *plan) fromEnvironment(t *task) {
	if s, err := strconv.ParseFloat(t.variable("BERTH_FLEET_RUN_SECONDS"), 64); err == nil && s >= 0 && s < 1e9 {
		p.RunFor = max(time.Duration(s*float64(time.Second)).Truncate(time.Millisecond), time.Millisecond)
	}
	if n, err := strconv.Atoi(t.variable("BERTH_FLEET_EXIT_CODE")); err == nil {
		p.ExitCode = n
	}
	if ms, err := strconv.Atoi(t.variable("BERTH_FLEET_LATENCY_MS")); err == nil && ms >= 0 && ms < 1e9 {
		p.Latency = max(time.Duration(ms)*time.Millisecond, time.Millisecond)
	}
	if strings.EqualFold(t.variable("BERTH_FLEET_FAIL"), "start") {
		p.FailStart = "CannotStartContainerError: asked for by BERTH_FLEET_FAIL"
	}
}

func (t *task) variable(name string) string {
	for _, c := range t.Overrides.ContainerOverrides {
		if v, ok := lookup(c.Environment, name); ok {
			return v
		}
	}
	for _, c := range t.def.Def.ContainerDefinitions {
		if v, ok := lookup(c.Environment, name); ok {
			return v
		}
	}
	return ""
}

func lookup(environment []types.KeyValuePair, name string) (string, bool) {
	for _, kv := range environment {
		if value(kv.Name) == name {
			return value(kv.Value), true
		}
	}
	return "", false
}

// next is when the task will do something on its own next, or false.
func (t *task) next() (time.Time, bool) {
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

// arm has the clock call when the task's next moment comes; a time that has passed comes at once.
func (e *agents) arm(t *task, now time.Time) {
	at, ok := t.next()
	t.epoch++
	if !ok {
		return
	}
	epoch := t.epoch
	e.kernel.After(max(at.Sub(now), 0), func() {
		e.kernel.Advance(func(now time.Time) {
			if t.epoch == epoch {
				e.step(t, now)
			}
		})
	})
}

// step is one moment in the life of a task on its machine. It counts as of when it was due, also when it comes late.
func (e *agents) step(t *task, now time.Time) {
	at, ok := t.next()
	if !ok || at.After(now) {
		e.arm(t, now)
		return
	}
	switch {
	case at.Equal(t.StopAt):
		e.tell(t, t.stopped(at), now)
	case t.Phase == phaseStarting && t.Plan.FailStart != "":
		e.tell(t, report{Last: cluster.TaskStopped, At: at, StopCode: cluster.StopFailedToStart, Reason: t.Plan.FailStart}, now)
	case t.Phase == phaseStarting:
		t.Phase, t.Ran = phaseRunning, at
		if t.Plan.Checked {
			t.HealthNext = at.Add(t.Plan.HealthyAfter)
		}
		e.tell(t, report{Last: cluster.TaskRunning, At: at}, now)
	case at.Equal(t.HealthNext):
		t.turnHealth(at, now)
		e.tell(t, report{At: at, Health: t.HealthNow}, now)
	default:
		e.tell(t, exited(at, t.Plan.ExitCode), now)
	}
	e.kernel.Save(t)
	e.arm(t, now)
}

// stopped is the report of a task that was told to stop.
func (t *task) stopped(at time.Time) report {
	r := report{Last: cluster.TaskStopped, At: at}
	if t.Phase == phaseRunning {
		r.ExitCode = new(143) // SIGTERM
		if t.Killed {
			r.ExitCode = new(137)
		}
	}
	return r
}

func exited(at time.Time, code int) report {
	return report{
		Last: cluster.TaskStopped, At: at, StopCode: cluster.StopContainerExited,
		Reason: "Essential container in task exited", ExitCode: &code,
	}
}

// turnHealth makes an unchecked or unhealthy task HEALTHY and a healthy one UNHEALTHY. Turns that were missed are not
// made up for, but come out the same.
func (t *task) turnHealth(at, now time.Time) {
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

// tell has the agent report; while it is disconnected it keeps the report for later. What has stopped never goes on.
func (e *agents) tell(t *task, r report, now time.Time) {
	if r.Last == cluster.TaskStopped {
		t.Phase = phaseGone
	}
	e.kernel.Save(t)
	if !t.on.Connected {
		t.Unreported = append(t.Unreported, r)
		return
	}
	e.applyTo(t, r, now)
}

// applyTo is ECS taking in a report of an agent: its view, the version, the event. Nobody reports a task that ECS holds
// STOPPED: what stops tasks over the head of an agent takes its unsent reports away.
func (e *agents) applyTo(t *task, r report, now time.Time) {
	t.Version++
	switch r.Last {
	case cluster.TaskRunning:
		t.Last, t.Started = cluster.TaskRunning, r.At
	case cluster.TaskStopped:
		e.ended(t, r, now)
	default:
		t.Health = r.Health
	}
	e.kernel.Save(t)
	e.emitTask(t, now)
	if r.Last == cluster.TaskStopped && !t.on.Off {
		e.instanceChanged(t.on, now) // its resources are free again
	}
}

func (e *agents) ended(t *task, r report, now time.Time) {
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
	t.on.hold(t, -1)
	e.kernel.RemoveAt(now.Add(e.options.KeepStopped), func() { e.purgeTask(t) })
}
