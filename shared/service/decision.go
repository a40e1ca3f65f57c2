package service

import (
	"math"
	"slices"
	"time"

	"berth/shared/cluster"
)

// A view is the service as the decisions made so far leave it. Policies read it and never change
// it: [view.afterDecision] makes the next one.
type view struct {
	*Input
	// next is the service's row, with the rollout assessed. It says which deployment is the PRIMARY
	// one now.
	next      *cluster.Service
	revisions []revisionTasks // as in sortedTasks
	backoffs  map[string]cluster.Backoff
	refused   []string // instances that get no task now, sorted by id
	// occupied and coolingDown are as in sortedTasks.
	occupied, coolingDown map[string]bool
	// desired is how many tasks there are to be, none of a service that is being deleted. There
	// must never be fewer than floor that serve, and no task starts if that makes more than
	// ceiling.
	desired, floor, ceiling int
	// toStart is how many tasks the decisions so far start.
	toStart int
	// acted is set if the plan starts, stops or gives up tasks; floorReached if a stop would have
	// left too few.
	acted, floorReached bool
	// reconsiderAt is when something about the tasks changes by itself; zero if never.
	reconsiderAt time.Time
}

// A policy decides one thing about a service.
type policy func(view) decision

// decision is what one policy decides.
type decision struct {
	stops  []stopSet
	starts []Start
	held   []string // ids of deployments whose provisioning tasks are not to be placed
	events []keyedEvent
	// pairs, unless nil, are the PRIMARY revision's pairs from now on; endedPairs are replacements
	// that are ordinary tasks now.
	pairs      []pair
	endedPairs []*cluster.Task
	// makesRoom is set if tasks may have to stop for others that find no instance.
	makesRoom bool
	// floorReached is set if a task was not stopped because too few healthy ones would be left.
	floorReached bool
	// distrusted is how many unhealthy tasks are left as they are while checks are distrusted.
	distrusted   int
	moves        MoveLimits
	steady       bool
	reconsiderAt time.Time
}

// stopSet is a number of tasks to be stopped out of a set of one condition and revision, or all of
// it.
type stopSet struct {
	tasks  []*task
	count  int
	reason string
	// lowersDesired is set if the deployment wants as many tasks fewer from now on: those stopped
	// are not replaced by their own revision.
	lowersDesired bool
}

// plus returns both decisions as one, e made after d.
func (d decision) plus(e decision) decision {
	d.stops = append(d.stops, e.stops...)
	d.starts = append(d.starts, e.starts...)
	d.held = append(d.held, e.held...)
	d.events = append(d.events, e.events...)
	if e.pairs != nil {
		d.pairs = e.pairs
	}
	d.endedPairs = append(d.endedPairs, e.endedPairs...)
	d.makesRoom = d.makesRoom || e.makesRoom
	d.floorReached = d.floorReached || e.floorReached
	d.distrusted += e.distrusted
	if e.moves != (MoveLimits{}) {
		d.moves = e.moves
	}
	d.steady = d.steady || e.steady
	d.reconsiderAt = earliest(d.reconsiderAt, e.reconsiderAt)
	return d
}

// stopCount returns how many tasks the decision stops.
func (d decision) stopCount() (n int) {
	for _, s := range d.stops {
		n += s.count
	}
	return n
}

// freedCount returns how many of the tasks that the decision stops have an instance.
func (d decision) freedCount() (n int) {
	for _, s := range d.stops {
		if s.tasks[0].condition != provisioning {
			n += s.count
		}
	}
	return n
}

// inTurn asks policies one after the other, each about what the decisions before it leave, and
// returns what all of them decide.
func inTurn(v view, policies ...policy) (view, decision) {
	var all decision
	for _, decide := range policies {
		d := decide(v)
		v, all = v.afterDecision(d), all.plus(d)
	}
	return v, all
}

// afterDecision returns the view that a decision leaves.
func (v view) afterDecision(d decision) view {
	for _, s := range d.starts {
		v.toStart += s.Count
	}
	v.acted = v.acted || len(d.stops)+len(d.starts) > 0
	v.floorReached = v.floorReached || d.floorReached
	if len(d.stops) == 0 && d.pairs == nil {
		return v
	}
	v.revisions = slices.Clone(v.revisions)
	if d.pairs != nil {
		v.revisions[0].pairs = d.pairs
	}
	gone := map[*task]bool{}
	for _, s := range d.stops {
		for _, t := range s.tasks {
			gone[t] = true
		}
		r := v.revisionOf(s.tasks[0])
		r.bucketOf(s.tasks[0]).kept += len(s.tasks) - s.count
		if s.lowersDesired {
			r.desired = max(0, r.desired-s.count)
		}
	}
	for i := range v.revisions {
		v.revisions[i] = v.revisions[i].withoutTasks(gone)
	}
	return v
}

// primary returns the tasks of the PRIMARY deployment.
func (v view) primary() *revisionTasks { return &v.revisions[0] }

// revisionOf returns the revision of a task.
func (v view) revisionOf(t *task) *revisionTasks {
	for i := range v.revisions {
		if v.revisions[i].deployment.ID == t.revision {
			return &v.revisions[i]
		}
	}
	panic("service: task " + t.row.ID + " of an unknown revision " + t.revision) // sortTasks has added its revision
}

// activeCount returns how many tasks there are once the decisions so far are carried out.
func (v view) activeCount() int {
	n := v.toStart
	for i := range v.revisions {
		n += v.revisions[i].totalCount()
	}
	return n
}

// roomToStart returns how many tasks maximumPercent leaves room to start.
func (v view) roomToStart() int { return max(0, v.ceiling-v.activeCount()) }

// stoppingCount returns how many tasks are being stopped already.
func (v view) stoppingCount() (n int) {
	for i := range v.revisions {
		n += v.revisions[i].stopping
	}
	return n
}

// budget is how many tasks may stop before minimumHealthyPercent is violated.
type budget struct {
	healthy, serving, floor int
	distrustChecks          bool
}

// stopBudget returns the budget that the decisions so far leave.
func (v view) stopBudget() budget {
	b := budget{floor: v.floor, distrustChecks: v.DistrustChecks}
	for i := range v.revisions {
		r := &v.revisions[i]
		b.healthy += r.count(healthy)
		b.serving += r.count(healthy) + r.count(stabilizing)
		if v.DistrustChecks {
			b.serving += r.count(unhealthy)
		}
	}
	return b
}

// allowedStops returns how many tasks like t may stop. Tasks that do not serve may always.
func (b budget) allowedStops(t *task) int {
	switch {
	case t.condition == healthy:
		return min(b.healthy, b.serving) - b.floor
	case t.isServing(b.distrustChecks):
		return b.serving - b.floor
	}
	return math.MaxInt
}

// withoutTasks returns the budget that is left once n tasks like t have stopped.
func (b budget) withoutTasks(t *task, n int) budget {
	if t.condition == healthy {
		b.healthy -= n
	}
	if t.isServing(b.distrustChecks) {
		b.serving -= n
	}
	return b
}

// tryStop stops a task, unless it is protected or too few would be left.
func (b budget) tryStop(t *task, reason string) (budget, decision) {
	switch {
	case t.isProtected():
		return b, decision{reconsiderAt: t.protectedUntil}
	case b.allowedStops(t) <= 0:
		return b, decision{floorReached: true}
	}
	return b.withoutTasks(t, 1), decision{stops: []stopSet{{tasks: []*task{t}, count: 1, reason: reason}}}
}

// stopInOrder stops up to n of the tasks, the first that may stop, each for its own reason.
func stopInOrder(v view, tasks []*task, n int, reason func(*task) string) (d decision) {
	b := v.stopBudget()
	for _, t := range tasks {
		if len(d.stops) >= n {
			break
		}
		var step decision
		b, step = b.tryStop(t, reason(t))
		d = d.plus(step)
	}
	return d
}

// stopAnyOf stops up to n tasks of one bucket. If there are more of them, placement chooses which.
func stopAnyOf(v view, tasks []*task, n int, reason string) (d decision) {
	if n <= 0 {
		return d
	}
	var stoppable []*task
	for _, t := range tasks {
		if t.isProtected() {
			d.reconsiderAt = earliest(d.reconsiderAt, t.protectedUntil)
			continue
		}
		stoppable = append(stoppable, t)
	}
	if len(stoppable) == 0 {
		return d
	}
	n = min(n, len(stoppable))
	if allowed := v.stopBudget().allowedStops(stoppable[0]); allowed < n {
		n, d.floorReached = allowed, true
	}
	if n > 0 {
		d.stops = []stopSet{{tasks: stoppable, count: n, reason: reason}}
	}
	return d
}
