package simulation

import (
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/tests/simulation/model"
)

// What starts are held against after tasks that failed (S7), or ended as soon as they ran (S6).

// restartGap is how long after its predecessor ran a task that takes its place may start (S6).
const restartGap = 10 * time.Second

// failedStart reports that a task ended before it ran, by its own fault: it was wanted, ECS took it, and its instance did not
// go.
func failedStart(t *cluster.Task) bool {
	if t.Last != cluster.TaskStopped || !t.Started.IsZero() || t.Desired != cluster.TaskRunning {
		return false
	}
	return !slices.Contains([]string{"StartRefused", "InfrastructureHealth", "TerminationNotice", "SpotInterruption"}, t.StopCode)
}

// tries are what became of the starts of a revision's tasks, in order of time; where known, of those that failed only what
// everybody has known for a while.
func (c *checker) tries(owner, revision string, known bool) []model.Try {
	var out []model.Try
	for key, t := range c.owned[owner] {
		if t.Revision != revision || known && !c.settled(key) && t.Started.IsZero() {
			continue
		}
		if try, ok := c.try(t); ok {
			out = append(out, try)
		}
	}
	slices.SortFunc(out, func(a, b model.Try) int { return a.Ended.Compare(b.Ended) })
	return out
}

func (c *checker) try(t *cluster.Task) (model.Try, bool) {
	switch {
	case !t.Started.IsZero():
		return model.Try{Ended: t.Started.Time(), Ran: true}, true
	case failedStart(t):
		return model.Try{Began: c.placedAt[t.ID].Add(-c.skew), Ended: t.Stopped.Time()}, true
	}
	return model.Try{}, false
}

// throttled checks a new task of a service against what became of those before it.
func (c *checker) throttled(t *cluster.Task) {
	s := c.service(t)
	if s == nil {
		return
	}
	now := c.now().Add(c.skew)
	tries := c.tries(t.Owner, t.Revision, true)
	earliest, _ := model.Held(tries)
	if earliest.IsZero() {
		c.gap(s, t, now)
		return
	}
	c.mark(MarkThrottled)
	if now.Before(earliest) {
		c.fail("invariant 3: task %s of service %s was started %s before the throttle of %s lets it, after %d tries",
			t.ID, s.Name, earliest.Sub(c.now()), t.Revision, len(tries))
	}
}

// gap checks that nothing starts at once in place of a task that has only just come to run and ended.
func (c *checker) gap(s *cluster.Service, t *cluster.Task, now time.Time) {
	active, dying, n := -c.pairs(t.Owner), 0, 0
	var all []model.Task
	for key, o := range c.owned[t.Owner] {
		died := o.Last == cluster.TaskStopped && o.Desired == cluster.TaskRunning && !o.Started.IsZero() && o.Revision == t.Revision &&
			now.Before(o.Started.Time().Add(restartGap))
		switch {
		case died && s.Strategy == cluster.Daemon && o.Instance == t.Instance:
			c.fail("invariant 3: task %s of service %s was started on instance %s, where task %s had just begun and ended", t.ID, s.Name, t.Instance, o.ID)
		case died:
			dying++
		case !o.IsActive():
			continue
		case o.Revision != t.Revision:
			return // a deployment is under way
		case c.placedAt[o.ID].Equal(c.now()):
			active++
		case !c.settled(key) || !c.steadyHost(o):
			active, n = active+1, n+1
		default:
			active++
			all = append(all, c.told(s, o))
		}
	}
	if s.Strategy == cluster.Daemon || dying == 0 || len(s.Older) > 0 {
		return
	}
	c.mark(MarkDying)
	if s.ZoneRebalancing {
		n++
	}
	if n += asked(s).Surplus(all, s.Deployment.ID, c.believed(), c.now()); active+dying > s.Desired+n {
		c.fail("invariant 3: task %s was started of service %s, which then has %d tasks of %d, and %d of it had just begun and ended", t.ID, s.Name, active, s.Desired, dying)
	}
}
