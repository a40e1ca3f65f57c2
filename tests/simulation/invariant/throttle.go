package invariant

import (
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/tests/simulation/coverage"
	"berth/tests/simulation/model"
)

// The delays of starts after failed starts (S7) and after tasks that stopped soon (S6).

// restartGap is how long after a task was started its replacement may start (S6).
const restartGap = 10 * time.Second

// isFailedStart reports whether a task stopped without having been RUNNING, through its own fault:
// it was wanted, ECS accepted it, and its instance was not lost.
func isFailedStart(t *cluster.Task) bool {
	if t.Last != cluster.TaskStopped || !t.Started.IsZero() || t.Desired != cluster.TaskRunning {
		return false
	}
	return !slices.Contains([]string{"StartRefused", "InfrastructureHealth", "TerminationNotice", "SpotInterruption"},
		t.StopCode)
}

// reportDelay is how late the report of a failed start may come and still be counted (S7).
const reportDelay = 30 * time.Minute

// StartAttempts returns what became of the starts of a revision's tasks, in order of time. If known
// is set, it leaves out failures so recent that a decision may not know of them, and those reported
// too late to be counted.
func (c *Checker) StartAttempts(owner, revision string, known bool) []model.StartAttempt {
	var out []model.StartAttempt
	for key, t := range c.ByOwner[owner] {
		if t.Revision != revision || known && !c.isSettled(key) && t.Started.IsZero() {
			continue
		}
		if known && isFailedStart(t) && c.Changes[key].At.Sub(t.Stopped.Time()) > reportDelay {
			continue
		}
		if try, ok := c.attemptOf(t); ok {
			out = append(out, try)
		}
	}
	slices.SortFunc(out, func(a, b model.StartAttempt) int { return a.EndedAt.Compare(b.EndedAt) })
	return out
}

// attemptOf returns what became of the start of a task. There is nothing to return while it is
// starting, or if it stopped through no fault of its own.
func (c *Checker) attemptOf(t *cluster.Task) (model.StartAttempt, bool) {
	switch {
	case !t.Started.IsZero():
		return model.StartAttempt{EndedAt: t.Started.Time(), Ran: true}, true
	case isFailedStart(t):
		return model.StartAttempt{PlacedAt: c.placedAt[t.ID].Add(-c.ClockSkew), EndedAt: t.Stopped.Time()}, true
	}
	return model.StartAttempt{}, false
}

// PlacedAt returns when a task was given its instance.
func (c *Checker) PlacedAt(id string) (at time.Time, placed bool) {
	at, placed = c.placedAt[id]
	return at, placed
}

// checkThrottle checks a new task of a service against the throttle that follows from earlier
// tasks.
func (c *Checker) checkThrottle(t *cluster.Task) {
	s := c.ServiceOf(t)
	if s == nil {
		return
	}
	now := c.now().Add(c.ClockSkew)
	tries := c.StartAttempts(t.Owner, t.Revision, true)
	earliest, _ := model.NextStartWindow(tries)
	if earliest.IsZero() {
		c.checkRestartGap(s, t, now)
		return
	}
	c.cover(coverage.Throttled)
	if now.Before(earliest) {
		c.Fail("invariant 3: task %s of service %s was started %s before the throttle of %s allows it, after %d starts",
			t.ID, s.Name, earliest.Sub(c.now()), t.Revision, len(tries))
	}
}

// checkRestartGap checks that no task replaces at once one that stopped soon after its start.
func (c *Checker) checkRestartGap(s *cluster.Service, t *cluster.Task, now time.Time) {
	if s.Controller == cluster.ExternalController {
		return // it looks at the tasks of one deployment only
	}
	stoppedEarly := func(o *cluster.Task) bool {
		return o.Last == cluster.TaskStopped && o.Desired == cluster.TaskRunning && !o.Started.IsZero() &&
			o.Revision == t.Revision && now.Before(o.Started.Time().Add(restartGap))
	}
	isAny := false
	for _, o := range c.ByOwner[t.Owner] {
		isAny = isAny || stoppedEarly(o)
	}
	if !isAny {
		return
	}
	active, stoppedSoon, n := -c.countPairs(t.Owner), 0, 0
	var all []model.Task
	for key, o := range c.ByOwner[t.Owner] {
		switch {
		case stoppedEarly(o) && s.Strategy == cluster.Daemon && o.Instance == t.Instance:
			c.Fail("invariant 3: task %s of service %s was started on instance %s, where task %s had just begun and ended", t.ID, s.Name, t.Instance, o.ID)
		case stoppedEarly(o):
			stoppedSoon++
		case !o.IsActive():
			continue
		case o.Revision != t.Revision:
			return // a deployment is in progress
		case c.placedAt[o.ID].Equal(c.now()):
			active++
		case !c.isSettled(key) || !c.isInstanceSettled(o):
			active, n = active+1, n+1
		default:
			active++
			all = append(all, c.ModelTask(s, o))
		}
	}
	if s.Strategy == cluster.Daemon || stoppedSoon == 0 || len(s.Older) > 0 {
		return
	}
	c.cover(coverage.Dying)
	if s.ZoneRebalancing {
		n++
	}
	// What replaces another task may take the place of the one that waits.
	n += ModelService(s).CountReplaced(all, s.Deployment.ID, c.TrustsHealth(), c.now())
	if active+stoppedSoon > s.Desired+n {
		c.Fail("invariant 3: task %s was started of service %s, which then has %d tasks of %d, and %d of it had just begun and ended", t.ID, s.Name, active, s.Desired, stoppedSoon)
	}
}

// CanStartNow reports whether nothing keeps a service from starting a task that it misses: no
// deployment, no blocked placement, no throttle, and no attempt whose agent is disconnected, so that it shows no
// outcome.
func (c *Checker) CanStartNow(s *cluster.Service) bool {
	d := &s.Deployment
	if s.Controller == cluster.ExternalController || s.Strategy == cluster.Daemon || s.Blocked != nil || len(s.MoveTargets)+len(s.Older) > 0 ||
		d.State == cluster.RolloutFailed || d.State != cluster.RolloutCompleted && s.Breaker.Enable {
		return false
	}
	active := c.countActive(s.Short)
	if active >= s.Desired || active >= ModelService(s).Ceiling(s.Desired) {
		return false
	}
	for _, t := range c.ByOwner[s.Short] {
		if i := c.InstanceRows[t.Instance]; t.IsActive() && t.Started == 0 && i != nil && !i.AgentConnected {
			return false
		}
	}
	_, latest := model.NextStartWindow(c.StartAttempts(s.Short, d.ID, false))
	return !latest.After(c.now())
}

// LastFailedStart returns when a task of the service last stopped without having been RUNNING.
func (h *RowHistory) LastFailedStart(s *cluster.Service) (at time.Time) {
	for _, t := range h.ByOwner[s.Short] {
		if t.NeverRan() && t.Stopped.Time().After(at) {
			at = t.Stopped.Time()
		}
	}
	return at
}

// wasRefusedLately reports whether ECS refused a task of the owner on the instance so recently that
// none is tried there: for 1, 2, 4 ... 10 minutes, by the number of refusals in a row (S7).
func (h *RowHistory) wasRefusedLately(owner, instance string) bool {
	var ran cluster.Instant
	for _, t := range h.ByOwner[owner] {
		if t.Instance == instance {
			ran = max(ran, t.Started)
		}
	}
	attempts, last := map[cluster.Instant]bool{}, cluster.Instant(0)
	for _, t := range h.ByOwner[owner] {
		if t.Instance == instance && t.Service != "" && t.StopCode == cluster.StopRefused && t.Stopped > ran {
			attempts[t.Stopped], last = true, max(last, t.Stopped)
		}
	}
	if len(attempts) == 0 {
		return false
	}
	wait := min(time.Minute<<min(len(attempts)-1, 4), 10*time.Minute)
	return h.now().Before(last.Time().Add(wait + h.Staleness))
}
