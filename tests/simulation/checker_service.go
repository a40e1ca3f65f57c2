package simulation

import (
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
	"berth/tests/simulation/model"
)

// What the checker holds a service's starts and stops against (invariant 3).

// surplus is how many tasks the service may have beside its desired count for what is to be replaced. What changed lately
// may have looked as if it had to be.
func (c *checker) surplus(s *cluster.Service) int {
	var all []model.Task
	n := 0
	for key, t := range c.owned[s.Short] {
		switch {
		case (!c.settled(key) || !c.steadyHost(t)) && !c.graced(s, t):
			n++
		case t.IsActive():
			all = append(all, c.told(s, t))
		}
	}
	if s.ZoneRebalancing {
		n++
	}
	return n + asked(s).Surplus(all, s.Deployment.ID, c.believed(), c.now())
}

// graced reports that nobody can have taken the task for one to be replaced, whatever has become of its health lately: it is
// of a deployment that has been PRIMARY for a while, and within its grace period.
func (c *checker) graced(s *cluster.Service, t *cluster.Task) bool {
	end := t.Started.Time().Add(time.Duration(s.Grace) * time.Second)
	return t.IsActive() && t.Last == cluster.TaskRunning && t.Health == cluster.Unhealthy && t.Revision == s.Deployment.ID && c.steadyHost(t) &&
		end.Sub(c.now()) > time.Minute && c.now().Sub(c.asked[s.Short]) >= lately
}

// steadyHost reports that nothing about the task's instance has changed lately.
func (c *checker) steadyHost(t *cluster.Task) bool {
	return t.Instance == "" || c.now().Sub(c.touchedRow(&cluster.Instance{Head: cluster.Head{Cluster: t.Cluster}, ID: t.Instance})) >= c.tolerance
}

// believed reports that unhealthy tasks are replaced: no more than a few look unhealthy, or not more than half of those in
// the cluster that are checked, or it was so lately.
func (c *checker) believed() bool {
	bad, all := 0, 0
	for _, owned := range c.owned {
		for key, t := range owned {
			def := c.definition(t.Cluster, t.TaskDefinition)
			if !t.IsActive() || t.Last != cluster.TaskRunning || t.Foreign || def == nil || !def.HealthChecked && c.target(t) == nil {
				continue
			}
			all++
			if c.settled(key) && (t.Health == cluster.Unhealthy || c.targetUnhealthy(t)) {
				bad++
			}
		}
	}
	return bad <= aFew || 2*bad <= all
}

// aFew is how many unhealthy tasks are replaced whatever share they are.
const aFew = 10

// stopped checks invariant 3 of a task that Berth itself decided to stop: healthy ones stop only where enough others are,
// protected ones not at all, and those that nothing is wrong with only where there are too many. What changed lately may
// not have been among the rows that the decision read.
func (c *checker) stopped(old, now *cluster.Task) {
	s := c.service(now)
	if s == nil || s.Strategy != cluster.Replica || s.Status != cluster.ServiceActive || now.StopCode != cluster.StopByScheduler {
		return
	}
	active, well := 0, 0
	for key, o := range c.owned[now.Owner] {
		news := !c.settled(key)
		if o.ID != now.ID && o.Last == cluster.TaskRunning && c.justMoved(o) {
			active++ // it stops to start anew, in the same commit
			continue
		}
		if o.Desired == cluster.TaskStopped && (o.StopCode == cluster.StopByScheduler || !news) {
			continue
		}
		if o.Last != cluster.TaskStopped || news {
			active++
		}
		if c.told(s, o).Healthy(c.now()) || news && (o.Last == cluster.TaskRunning || o.Last == cluster.TaskStopped) {
			well++
		}
	}
	if c.moving(now.Owner, nil)[now.ID] {
		c.mark(MarkMoveOver)
	}
	task := c.told(s, old)
	settled := c.settled(state.KeyOf(now)) && c.steadyHost(now)
	amiss := task.Revision != s.Deployment.ID || task.Leaving || task.Going || task.Unhealthy(asked(s), c.now()) && c.believed()
	if c.protects(old, c.skew) && !task.Leaving && !task.Unhealthy(asked(s), c.now()) {
		c.fail("invariant 3: task %s of service %s is protected and was stopped: %s", now.ID, s.Name, now.Reason)
	}
	if ill := strings.Contains(now.Reason, "health checks"); ill && c.graced(s, old) {
		c.fail("invariant 3: task %s of service %s was stopped within its grace period: %s", now.ID, s.Name, now.Reason)
	} else if ill && settled && !c.believed() {
		c.fail("invariant 3: task %s of service %s was stopped for its health, and most of the cluster's look unhealthy: %s", now.ID, s.Name, now.Reason)
	}
	// A task that has to leave may stop first where its replacement cannot start first.
	if active < s.Desired && !amiss && settled && !c.justMoved(now) {
		c.fail("invariant 3: stopping task %s leaves service %s with %d tasks of %d", now.ID, s.Name, active, s.Desired)
	}
	if least := asked(s).Floor(s.Desired); task.Healthy(c.now()) && !c.lost(old) && settled && well < least {
		c.fail("invariant 3: stopping task %s leaves service %s with %d healthy tasks, at least %d must be", now.ID, s.Name, well, least)
	}
}
