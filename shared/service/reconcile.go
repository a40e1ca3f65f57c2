// Package service decides how many tasks of which revision a service should have, which of them must go, and how its
// deployments go. It never decides where a task runs, and it reads no clock: rows and the time in, a plan out.
package service

import (
	"berth/shared/cluster"
)

// Reconcile compares a service's tasks with what was asked for (S1): what is missing, what is too many, what is unhealthy,
// what is on an instance that it has to leave, what is of an older revision. It keeps within the deployment percentages
// (maximumPercent of the desired count, rounded down, bounds what is started; minimumHealthyPercent, rounded up, bounds
// what is stopped), holds starts back that keep failing, and brings deployments to their end: completed, failed or rolled
// back (S8). A plan once carried out, a second call plans nothing more.
func Reconcile(in Input) Plan {
	c := take(in)
	c.see()
	c.judge()
	c.plan.EventsBefore, c.plan.EventsAfter = c.plan.EventsAfter, nil
	if in.Service.Strategy == cluster.Daemon {
		c.daemon()
	} else {
		c.replica()
	}
	c.close()
	return c.plan
}

// close writes down what came of it.
func (c *census) close() {
	p, n := &c.plan, c.next
	n.Running, n.Pending = 0, 0
	for _, g := range c.groups {
		g.tally()
		n.Running += g.Running
		n.Pending += g.Pending
	}
	c.complete()
	c.record()
	p.Steady = p.Steady && n.Status == cluster.ServiceActive && c.idle()
	if n.Status == cluster.ServiceDraining && c.active == 0 {
		n.Status = cluster.ServiceInactive // S10: every task is STOPPING or STOPPED
	}
	c.tell()
	var older []cluster.Deployment
	for _, g := range c.groups[1:] {
		if !c.over(g) && g.listed {
			older = append(older, *g.Deployment)
		}
	}
	n.Older = older
	p.Next, p.ReconsiderAt = n, c.later
}

// tally writes the deployment's counts as they are before the plan; PROVISIONING ones are pending.
func (g *group) tally() {
	g.Running, g.Pending, g.Healthy = 0, 0, 0
	for _, m := range g.members {
		if m.Last == cluster.TaskRunning {
			g.Running++
		} else {
			g.Pending++
		}
		if m.up() {
			g.Healthy++
		}
	}
}

// idle reports whether the plan leaves all tasks as they are.
func (c *census) idle() bool {
	p := &c.plan
	return len(p.Stops)+len(p.Choices)+len(p.Starts)+len(p.LostTasks) == 0
}

// scaling is the reason of tasks that go as fewer are wanted of their deployment, in ECS's words.
func (c *census) scaling(g *group) string {
	return "Scaling activity initiated by (deployment " + g.ID + ")"
}
