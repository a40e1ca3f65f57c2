package service

import "berth/shared/cluster"

// A task that has to leave its instance is replaced there first: its replacement names it ([cluster.Task.Replaces]), and
// until one of them ends the two count as one.

// pair finds the replacements whose task is still there. Of several for one task the first by id counts, and no task is in
// two pairs; the others are tasks like any.
func (c *census) pair() {
	c.moving, c.successors, c.settled = map[*cluster.Task]*cluster.Task{}, map[*cluster.Task]bool{}, map[*cluster.Task]bool{}
	byID := make(map[string]*cluster.Task, len(c.active))
	for _, t := range c.active {
		byID[t.ID] = t
	}
	for _, t := range c.active {
		old := byID[t.Replaces]
		if old != nil && old != t && c.moving[old] == nil && !c.successors[old] && c.moving[t] == nil {
			c.moving[old], c.successors[t] = t, true
		}
	}
}

// part makes two tasks of up to n pairs, those first whose task is first by id: where more tasks are wanted, nothing has
// to stop.
func (c *census) part(n int) (parted []*cluster.Task) {
	for _, t := range c.active {
		if next := c.moving[t]; next != nil && len(parted) < n {
			delete(c.moving, t)
			delete(c.successors, next)
			parted = append(parted, next)
		}
	}
	return parted
}

// settle ends replacements: the task goes where its replacement is RUNNING, and HEALTHY where that is checked; where all
// are to end, the replacement goes otherwise. Of the healthy no more than may go.
func (c *census) settle(p *Plan, all bool) {
	for _, t := range c.active {
		next := c.moving[t]
		if next == nil {
			continue
		}
		over := c.takesOver(next)
		if !over {
			if !all {
				continue
			}
			t = next
		}
		if healthy(t) {
			if c.healthy <= c.floor {
				continue
			}
			c.healthy--
		}
		p.Stop = append(p.Stop, t)
		c.settled[t] = true
		if over {
			delete(c.successors, next)
		}
	}
}

func (c *census) takesOver(t *cluster.Task) bool {
	return healthy(t) && (t.Health == cluster.Healthy || !c.HealthChecked)
}

// ready is how many replacements are RUNNING beside the task that they replace.
func (c *census) ready() (n int) {
	for _, next := range c.moving {
		if next.Last == cluster.TaskRunning {
			n++
		}
	}
	return n
}
