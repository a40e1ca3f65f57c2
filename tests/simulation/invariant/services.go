package invariant

import (
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
	"berth/tests/simulation/coverage"
	"berth/tests/simulation/model"
)

// What the checker holds a service's starts and stops against (invariant 3).

// allowedSurplus is how many tasks the service may have beside its desired count for what is to be replaced. What changed lately
// may have looked as if it had to be.
func (c *Checker) allowedSurplus(s *cluster.Service) int {
	var all []model.Task
	n := 0
	for key, t := range c.ByOwner[s.Short] {
		switch {
		case (!c.isSettled(key) || !c.isInstanceSettled(t)) && !c.isWithinGrace(s, t):
			n++
		case t.IsActive():
			all = append(all, c.ModelTask(s, t))
		}
	}
	if s.ZoneRebalancing {
		n++
	}
	return n + ModelService(s).AllowedSurplus(all, s.Deployment.ID, c.TrustsHealth(), c.now())
}

// isWithinGrace reports that nobody can have taken the task for one to be replaced, whatever has become of its health lately: it is
// of a deployment that has been PRIMARY for a while, and within its grace period.
func (c *Checker) isWithinGrace(s *cluster.Service, t *cluster.Task) bool {
	end := t.Started.Time().Add(time.Duration(s.Grace) * time.Second)
	return t.IsActive() && t.Last == cluster.TaskRunning && t.Health == cluster.Unhealthy && t.Revision == s.Deployment.ID && c.isInstanceSettled(t) &&
		end.Sub(c.now()) > time.Minute && c.now().Sub(c.specChangedAt[s.Short]) >= MaxStaleness
}

// isInstanceSettled reports that nothing about the task's instance has changed lately.
func (c *Checker) isInstanceSettled(t *cluster.Task) bool {
	return t.Instance == "" || c.now().Sub(c.instanceChangedAt(&cluster.Instance{Head: cluster.Head{Cluster: t.Cluster}, ID: t.Instance})) >= c.Staleness
}

// TrustsHealth reports that unhealthy tasks are replaced: no more than a few look unhealthy, or not more than half of those in
// the cluster that are checked, or it was so lately.
func (c *Checker) TrustsHealth() bool {
	bad, all := 0, 0
	for _, owned := range c.ByOwner {
		for key, t := range owned {
			def := c.definitionOf(t.Cluster, t.TaskDefinition)
			if !t.IsActive() || t.Last != cluster.TaskRunning || t.Foreign || def == nil || !def.HealthChecked && c.TargetOf(t) == nil {
				continue
			}
			all++
			if c.isSettled(key) && (t.Health == cluster.Unhealthy || c.isTargetUnhealthy(t)) {
				bad++
			}
		}
	}
	return bad <= fewUnhealthy || 2*bad <= all
}

// fewUnhealthy is how many unhealthy tasks are replaced whatever share they are.
const fewUnhealthy = 10

// checkStop checks invariant 3 of a task that Berth itself decided to stop: healthy ones stop only where enough others are,
// protected ones not at all, and those that nothing is wrong with only where there are too many. What changed lately may
// not have been among the rows that the decision read.
func (c *Checker) checkStop(old, now *cluster.Task) {
	s := c.ServiceOf(now)
	if s == nil || s.Strategy != cluster.Replica || s.Status != cluster.ServiceActive || now.StopCode != cluster.StopByScheduler {
		return
	}
	activeCount, well := 0, 0
	for key, o := range c.ByOwner[now.Owner] {
		news := !c.isSettled(key)
		if o.ID != now.ID && o.Last == cluster.TaskRunning && c.wasJustMoved(o) {
			activeCount++ // it stops to start anew, in the same commit
			continue
		}
		if o.Desired == cluster.TaskStopped && (o.StopCode == cluster.StopByScheduler || !news) {
			continue
		}
		if o.Last != cluster.TaskStopped || news {
			activeCount++
		}
		if c.ModelTask(s, o).IsHealthy(c.now()) || news && (o.Last == cluster.TaskRunning || o.Last == cluster.TaskStopped) {
			well++
		}
	}
	if c.ReplacedTasks(now.Owner, nil)[now.ID] {
		c.cover(coverage.MoveOver)
	}
	task := c.ModelTask(s, old)
	settled := c.isSettled(state.KeyOf(now)) && c.isInstanceSettled(now)
	amiss := task.Revision != s.Deployment.ID || task.MustLeave || task.MustMove || task.IsUnhealthy(ModelService(s), c.now()) && c.TrustsHealth()
	if c.IsProtectedFor(old, c.ClockSkew) && !task.MustLeave && !task.IsUnhealthy(ModelService(s), c.now()) {
		c.Fail("invariant 3: task %s of service %s is protected and was stopped: %s", now.ID, s.Name, now.Reason)
	}
	if ill := strings.Contains(now.Reason, "health checks"); ill && c.isWithinGrace(s, old) {
		c.Fail("invariant 3: task %s of service %s was stopped within its grace period: %s", now.ID, s.Name, now.Reason)
	} else if ill && settled && !c.TrustsHealth() {
		c.Fail("invariant 3: task %s of service %s was stopped for its health, and most of the cluster's look unhealthy: %s", now.ID, s.Name, now.Reason)
	}
	// A task that has to leave may stop first where its replacement cannot start first.
	if activeCount < s.Desired && !amiss && settled && !c.wasJustMoved(now) {
		c.Fail("invariant 3: stopping task %s leaves service %s with %d tasks of %d", now.ID, s.Name, activeCount, s.Desired)
	}
	if least := ModelService(s).Floor(s.Desired); task.IsHealthy(c.now()) && !c.isLost(old) && settled && well < least {
		c.Fail("invariant 3: stopping task %s leaves service %s with %d healthy tasks, at least %d must be", now.ID, s.Name, well, least)
	}
}

// IsOfFailedDeployment reports whether a task is of a deployment that has failed: that starts none any more.
func (c *Checker) IsOfFailedDeployment(t *cluster.Task) bool {
	s, ok := c.Rows[state.ServiceKey(c.cluster, t.Service)].(*cluster.Service)
	return ok && s.Deployment.ID == t.Revision && s.Deployment.State == cluster.RolloutFailed
}

// SpecToStart is the law of the tasks that a DAEMON service starts: of a deployment that has failed none, but of the one before,
// unless that never was completed and has nothing that runs.
func (h *RowHistory) SpecToStart(s *cluster.Service) *TaskSpec {
	switch {
	case s.Deployment.State != cluster.RolloutFailed:
		return h.SpecOfService(s)
	case len(s.Older) > 0 && (s.Older[0].State == cluster.RolloutCompleted || s.Older[0].State != cluster.RolloutFailed && h.hasRunningTask(s.Older[0].ID)):
		return h.specOfRevision(s, s.Older[0].ID, s.Older[0].TaskDefinition)
	}
	return nil
}

// hasRunningTask reports whether a task of the deployment is RUNNING.
func (h *RowHistory) hasRunningTask(deployment string) bool {
	for _, owned := range h.ByOwner {
		for _, t := range owned {
			if t.Revision == deployment && t.IsActive() && t.Last == cluster.TaskRunning {
				return true
			}
		}
	}
	return false
}

// HasOtherTasks reports that tasks of others than the daemon's run on the instance, that are no daemon's.
func (h *RowHistory) HasOtherTasks(i *cluster.Instance, daemon string) bool {
	for _, t := range h.ByInstance[i.ID] {
		if s := h.ServiceOf(t); t.Owner != daemon && (s == nil || s.Strategy != cluster.Daemon) {
			return true
		}
	}
	return false
}
