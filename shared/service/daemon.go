package service

import (
	"cmp"
	"slices"

	"berth/shared/cluster"
)

// daemon brings a DAEMON service to exactly one task on each eligible instance (S4). Another task on the same instance is
// stopped, and so is one whose instance no longer meets the constraints, one of an older revision, an unhealthy one, and,
// last of all tasks, one on an instance that is draining. An instance whose task is being stopped gets the next one when
// that has STOPPED: there are never two.
func (c *census) daemon() {
	eligible := c.Eligible
	if c.Service.Status != cluster.ServiceActive {
		c.stopAll()
		return
	}
	c.floor, _ = c.Service.Bounds(len(eligible))
	c.ceiling = len(eligible)
	if c.Service.Desired != len(eligible) {
		c.event(Event{Name: "SERVICE_DESIRED_COUNT_UPDATED"})
	}
	keep := c.divide()
	c.renew(keep)
	var short []string
	running := 0
	for _, id := range eligible {
		m := keep[id]
		if m == nil && !c.held[id] {
			short = append(short, id)
		}
		if m != nil && !m.gone && m.Last == cluster.TaskRunning && c.of(m.Task).primary {
			running++
		}
	}
	c.startDaemons(short)
	if len(c.groups) > 1 || c.refused {
		c.awaitSettling()
	}
	c.plan.Steady = running == len(eligible) && c.alone()
}

// divide gives the one task that each instance keeps, and stops the others.
func (c *census) divide() map[string]*member {
	keep := map[string]*member{}
	var drop []*member
	violated := false
	for _, g := range c.groups {
		for _, m := range g.members {
			other := keep[m.Instance]
			switch {
			case !c.stays(m):
				drop = append(drop, m)
				violated = violated || c.unmatched(m)
			case other == nil:
				keep[m.Instance] = m
			case betterDaemon(m, other) < 0:
				keep[m.Instance] = m
				drop = append(drop, other)
			default:
				drop = append(drop, m)
			}
		}
	}
	if violated {
		c.say("constraint", Event{Name: "SERVICE_DAEMON_PLACEMENT_CONSTRAINT_VIOLATED"})
	}
	slices.SortFunc(drop, func(a, b *member) int { return cmp.Or(cmp.Compare(a.state, b.state), cmp.Compare(a.ID, b.ID)) })
	for _, m := range drop {
		c.stop(m, c.scaling(c.of(m.Task)))
	}
	return keep
}

// stays reports whether a task may be the one of its instance: by the constraints of its deployment, or by today's, which
// let it be started there.
func (c *census) stays(m *member) bool {
	switch {
	case m.Instance == "" || c.unmatched(m):
		return false
	case m.leaving:
		return c.HasOtherTasks != nil && c.HasOtherTasks(m.Instance)
	}
	return true
}

// unmatched reports whether a task's instance meets neither the constraints of its deployment nor today's.
func (c *census) unmatched(m *member) bool {
	return m.Instance != "" && c.MeetsConstraints != nil && !c.MeetsConstraints(m.Instance) && !c.eligible(m.Instance)
}

// eligible reports whether the instance is one of the eligible, which are in order.
func (c *census) eligible(instance string) bool {
	_, found := slices.BinarySearch(c.Eligible, instance)
	return found
}

// betterDaemon orders the tasks of one instance by which is to be kept: the one in the better state, the oldest.
func betterDaemon(a, b *member) int {
	return cmp.Or(cmp.Compare(daemonRank(b), daemonRank(a)), a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
}

// daemonRank is a task's state; that it has been RUNNING for longer makes it no better.
func daemonRank(m *member) state {
	if m.state == settling {
		return good
	}
	return m.state
}

// renew stops the tasks of older revisions, as many as may go while the new one's do not keep failing, and unhealthy ones,
// so many at once as the bound on that allows: where another can be started.
func (c *census) renew(keep map[string]*member) {
	wave := max(1, (len(c.Eligible)*c.Limits.ReplacePercent+99)/100) - c.ending
	rolling := c.mayRoll(keep)
	for _, id := range c.turned(sortedKeys(keep), c.primary()) {
		m := keep[id]
		g := c.of(m.Task)
		switch {
		case m.leaving: // none may be started there: it stays until the others have left
		case !g.primary && rolling > 0:
			if c.stop(m, c.scaling(g)) {
				rolling--
			}
		case m.state != bad || m.lost:
		case c.DistrustChecks:
			c.unhealthy++
		case wave > 0 && c.stop(m, c.ailment(m)):
			wave--
		}
	}
}

// mayRoll is how many of the tasks kept may be stopped for being of an older revision: after an attempt of the new one that
// failed one at a time, when its delay is over and no other instance is there to try it on.
func (c *census) mayRoll(keep map[string]*member) int {
	p := c.primary()
	b := c.backoffs[p.ID]
	switch {
	case p.State == cluster.RolloutFailed:
		return 0
	case b.Step == 0:
		return len(keep)
	case b.NextAttemptAt.After(c.Now):
		c.lookAgain(b.NextAttemptAt)
		return 0
	case c.ending > 0 || p.count[pending] > 0:
		return 0
	case c.Service.Blocked != nil: // those without a task have no room
		return 1
	case slices.ContainsFunc(c.Eligible, func(id string) bool { return keep[id] == nil }):
		return 0
	}
	return 1
}

// turned are the instances in an order that differs from one failed attempt of the deployment to the next.
func (c *census) turned(ids []string, g *group) []string {
	step := c.backoffs[g.ID].Step
	if step == 0 || len(ids) == 0 {
		return ids
	}
	first := int(draw(uint64(step), g.ID) % uint64(len(ids)))
	return slices.Concat(ids[first:], ids[:first])
}

// startDaemons starts a task on each of the instances, as far as the throttle allows: after an attempt that failed on one
// of them, another each time.
func (c *census) startDaemons(short []string) {
	p := c.newest()
	short = slices.DeleteFunc(short, func(id string) bool { return !c.died[id].IsZero() || c.isRefused(id) })
	if len(short) == 0 || p.State == cluster.RolloutFailed {
		return
	}
	p.dying = 0 // held back above, instance by instance
	n := c.ready(p, len(short))
	if n <= 0 {
		return
	}
	if n < len(short) { // on those that have room: it may be that one never has
		short = c.turned(short, p)
	}
	c.plan.Starts = append(c.plan.Starts, Start{Revision: &p.Revision, Count: n, Instances: short})
	c.active += n
}

// newest is the deployment that missing tasks are of: the PRIMARY, or while that starts none the last one before it that is of
// any use.
func (c *census) newest() *group {
	p := c.primary()
	b := c.backoffs[p.ID]
	if p.State != cluster.RolloutFailed && !(b.Step > 0 && b.NextAttemptAt.After(c.Now)) {
		return p
	}
	for _, g := range c.groups[1:] {
		if g.State != cluster.RolloutFailed && !c.hopeless(g) {
			return g
		}
	}
	return p
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
