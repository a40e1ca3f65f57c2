package service

import (
	"cmp"
	"slices"

	"berth/shared/cluster"
)

// daemon brings a DAEMON service to exactly one task on each eligible instance (S4). Another task on the same instance
// is stopped, and so is one whose instance no longer has the attributes; on an instance that is not eligible for
// another reason (DRAINING) it stays. An instance whose task is being stopped gets the next one when that has STOPPED:
// there are never two.
func (c *census) daemon(p *Plan) {
	eligible := c.Eligible
	if c.wants(1) == 0 {
		eligible = nil
	}
	c.floor = c.least(len(eligible))
	keep, drop := c.divide()
	c.drop(p, drop)
	running := 0
	for _, id := range eligible {
		t := keep[id]
		if t == nil && !c.held[id] {
			p.StartOn = append(p.StartOn, id)
		}
		if t != nil && t.Last == cluster.TaskRunning {
			running++
		}
	}
	p.Steady = running == len(eligible)
}

// divide gives the one task that each instance keeps, and those that should go.
func (c *census) divide() (keep map[string]*cluster.Task, drop []*cluster.Task) {
	keep = map[string]*cluster.Task{}
	for _, t := range c.active {
		if !c.stays(t) {
			drop = append(drop, t)
			continue
		}
		other := keep[t.Instance]
		if other == nil {
			keep[t.Instance] = t
			continue
		}
		if betterDaemon(t, other) < 0 {
			keep[t.Instance], t = t, other
		}
		drop = append(drop, t)
	}
	return keep, drop
}

// stays reports whether a task may be the one of its instance.
func (c *census) stays(t *cluster.Task) bool {
	return c.wants(1) == 1 && t.Instance != "" && (c.Matches == nil || c.Matches(t.Instance))
}

// betterDaemon orders the tasks of one instance by which is to be kept: a healthy one, a RUNNING one, the oldest.
func betterDaemon(a, b *cluster.Task) int {
	return cmp.Or(rank(a)-rank(b), a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
}

func rank(t *cluster.Task) int {
	switch {
	case healthy(t):
		return 0
	case t.Last == cluster.TaskRunning:
		return 1
	}
	return 2
}

// drop stops the tasks, of the healthy no more than may go.
func (c *census) drop(p *Plan, tasks []*cluster.Task) {
	slices.SortFunc(tasks, func(a, b *cluster.Task) int {
		return cmp.Or(rank(b)-rank(a), cmp.Compare(a.ID, b.ID))
	})
	spare := max(0, c.healthy-c.floor)
	for _, t := range tasks {
		if healthy(t) {
			if spare == 0 {
				return
			}
			spare--
		}
		p.Stop = append(p.Stop, t)
	}
}
