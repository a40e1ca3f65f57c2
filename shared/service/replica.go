package service

import "berth/shared/cluster"

// replica brings a REPLICA service to its desired count.
func (c *census) replica(p *Plan) {
	desired := c.wants(c.Service.Desired)
	c.floor = c.least(desired)
	have := len(c.active) - len(c.moving) // a task and its replacement count as one
	ceiling := desired * c.Service.MaxPercent / 100
	p.Parted = c.part(desired - have)
	have += len(p.Parted)
	p.Replacing = len(c.moving)
	c.settle(p, have > desired)
	p.Start = max(0, min(desired-have, ceiling-len(c.active)+len(c.settled)))
	c.shrink(p, have-desired)
	if p.idle() && have == desired {
		p.Moves = max(0, ceiling-len(c.active))
		p.MoveStops = max(0, c.healthy-c.floor)
	}
	p.Steady = c.running-c.ready() == desired
}

// shrink stops n tasks, those first by which the least is lost: what waits, what is PENDING, what is UNHEALTHY, and of
// the healthy no more than may go. Of the first kind that need not go whole, placement chooses.
func (c *census) shrink(p *Plan, n int) {
	for _, tasks := range c.byLoss() {
		if n <= 0 {
			return
		}
		may := len(tasks)
		if may > 0 && healthy(tasks[0]) {
			may = max(0, c.healthy-c.floor)
		}
		k := min(n, may)
		n -= k
		if k == len(tasks) {
			p.Stop = append(p.Stop, tasks...)
		} else if k > 0 {
			p.Surplus, p.Candidates = k, tasks
		}
	}
}

// byLoss are the active tasks in the order in which they go, each kind in order of id.
func (c *census) byLoss() [4][]*cluster.Task {
	var kinds [4][]*cluster.Task
	for _, t := range c.active {
		if c.successors[t] || c.settled[t] {
			continue
		}
		k := 3
		switch {
		case t.Waiting():
			k = 0
		case t.Last != cluster.TaskRunning:
			k = 1
		case !healthy(t):
			k = 2
		}
		kinds[k] = append(kinds[k], t)
	}
	return kinds
}
