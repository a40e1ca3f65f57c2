// Package service decides how many tasks a service should have and which of them must go. It never decides where a
// task runs, and it reads no clock: rows and the time in, a plan out.
package service

import (
	"cmp"
	"slices"
	"time"

	"berth/shared/cluster"
)

// Input is all that a decision about one service rests on.
type Input struct {
	Service *cluster.Service
	Tasks   []*cluster.Task // all rows of the service, in any order, ended ones included
	// Gone reports that an instance has left the cluster or is unknown; nil: none has.
	Gone func(instance string) bool
	// Eligible are the instances that should have a task of a DAEMON service, in order of id.
	Eligible []string
	// Matches reports that an instance has the attributes that a DAEMON's task needs; its task stays only where this
	// holds, whatever the instance's status. nil: it holds everywhere.
	Matches func(instance string) bool
	// HealthChecked reports that an essential container of the task definition has a health check.
	HealthChecked bool
	Now           time.Time
	// RestartDelay is how long after a task that stopped without ever RUNNING the next one may be started.
	RestartDelay time.Duration
}

// Plan is what to do about a service. Everything in it is in the same order for the same input, in whatever order the
// tasks came.
type Plan struct {
	// Start is how many tasks a REPLICA service is short of; those that wait for an instance are not among them.
	Start int
	// StartOn are the instances that a DAEMON service is to start one task on each.
	StartOn []string
	// Stop are tasks to be stopped. Of Candidates, all RUNNING or all not, Surplus more are to be: which, is for
	// placement to choose.
	Stop       []*cluster.Task
	Surplus    int
	Candidates []*cluster.Task
	// Moves is how many tasks may be given a replacement on another instance now. Where it is zero as maximumPercent
	// leaves no room, MoveStops is how many may be stopped first.
	Moves, MoveStops int
	// Parted are replacements that are tasks like any from now on, as more tasks are wanted: they replace nobody.
	Parted []*cluster.Task
	// Replacing is how many replacements are under way.
	Replacing int
	// Lost are tasks on instances that are gone and of which ECS has not reported, and may never report, that they
	// STOPPED.
	Lost []*cluster.Task
	// Status is the service's once the plan is carried out: to be written no earlier than the last of its stops.
	Status cluster.ServiceStatus
	// Running and Pending are the tasks that count, as they are before the plan; Pending includes PROVISIONING.
	Running, Pending int
	// Failed is how many tasks of the deployment stopped without ever RUNNING, of those whose rows are still there.
	Failed int
	// NotBefore is when a start is allowed again; zero if one is now. LookAgain is when something is to be looked at
	// that no event will tell; zero if there is nothing.
	NotBefore, LookAgain time.Time
	// Steady reports that all desired tasks are RUNNING and nothing is left to be done.
	Steady bool
}

// Reconcile compares a service's tasks with what was asked for (S1): what is missing, what is too many, what is lost.
// It keeps within the deployment percentages (maximumPercent of the desired count, rounded down, bounds what is
// started; minimumHealthyPercent, rounded up, bounds what is stopped) and holds back starts after a task that never
// ran. A plan once carried out, a second call plans nothing more.
func Reconcile(in Input) Plan {
	c := take(in)
	p := Plan{
		Status: in.Service.Status, Lost: c.lost, Failed: c.failed, Running: c.running, Pending: len(c.active) - c.running,
	}
	if in.Service.Strategy == cluster.Daemon {
		c.daemon(&p)
	} else {
		c.replica(&p)
	}
	c.delay(&p)
	p.Steady = p.Steady && in.Service.Status == cluster.ServiceActive && p.idle()
	if in.Service.Status == cluster.ServiceDraining && len(c.active) == len(p.Stop) {
		p.Status = cluster.ServiceInactive // S10: every task is STOPPING or STOPPED
	}
	return p
}

// idle reports whether the plan leaves everything as it is.
func (p *Plan) idle() bool {
	return p.Start+len(p.StartOn)+len(p.Stop)+p.Surplus+len(p.Lost) == 0
}

// census is the service's tasks by what they count for.
type census struct {
	Input
	active  []*cluster.Task // that count: not ended, not being stopped, not on an instance that is gone
	running int             // of the active
	held    map[string]bool // instances that a task of the service holds capacity on, by one being stopped too
	lost    []*cluster.Task
	failed  int
	retry   time.Time                       // when the last failure allows another start
	moving  map[*cluster.Task]*cluster.Task // replacements under way, by the task that they replace
	// successors are those replacements, settled the tasks that the plan stops in favour of the other.
	successors, settled map[*cluster.Task]bool
	healthy             int // RUNNING and not UNHEALTHY
	floor               int // how many of the healthy must be left
}

func take(in Input) *census {
	c := &census{Input: in, held: map[string]bool{}}
	for _, t := range in.Tasks {
		c.count(t)
	}
	slices.SortFunc(c.active, byID)
	c.pair()
	slices.SortFunc(c.lost, byID)
	return c
}

func byID(a, b *cluster.Task) int { return cmp.Compare(a.ID, b.ID) }

func (c *census) count(t *cluster.Task) {
	if t.NeverRan() && (t.Revision == "" || t.Revision == c.Service.Deployment.ID) {
		c.failed++
		if at := t.Stopped.Time().Add(c.RestartDelay); at.After(c.retry) {
			c.retry = at
		}
	}
	if t.Holds() && c.Gone != nil && c.Gone(t.Instance) {
		c.lost = append(c.lost, t)
		return
	}
	if t.Holds() {
		c.held[t.Instance] = true
	}
	if !t.Active() {
		return
	}
	c.active = append(c.active, t)
	if t.Last == cluster.TaskRunning {
		c.running++
		if healthy(t) {
			c.healthy++
		}
	}
}

// No health checks are as good as passing ones.
func healthy(t *cluster.Task) bool {
	return t.Last == cluster.TaskRunning && t.Health != cluster.Unhealthy
}

// wants reports how many tasks there are to be: none of a service that is being deleted.
func (c *census) wants(desired int) int {
	if c.Service.Status != cluster.ServiceActive {
		return 0
	}
	return desired
}

// least is how many healthy tasks must be left: minHealthy percent of desired, rounded up.
func (c *census) least(desired int) int { return (desired*c.Service.MinHealthy + 99) / 100 }

// delay holds back the plan's starts until a task that never ran is long enough ago.
func (c *census) delay(p *Plan) {
	if !c.retry.After(c.Now) {
		return
	}
	p.NotBefore = c.retry
	if p.Start+len(p.StartOn) > 0 {
		p.Start, p.StartOn, p.LookAgain = 0, nil, c.retry
	}
}
