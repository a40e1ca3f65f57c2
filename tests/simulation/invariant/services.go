package invariant

import (
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
	"berth/tests/simulation/coverage"
	"berth/tests/simulation/model"
)

// The rules for a service's starts and stops (invariant 3).

// allowedSurplus returns how many tasks the service may have above its desired count for tasks that
// are being replaced. A task that changed recently may have looked as if it had to be replaced.
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

// isWithinGrace reports whether no decision can have taken the unhealthy task for one to replace:
// its deployment has been PRIMARY for a while, and its grace period is not over.
func (c *Checker) isWithinGrace(s *cluster.Service, t *cluster.Task) bool {
	end := t.Started.Time().Add(time.Duration(s.Grace) * time.Second)
	return t.IsActive() && t.Last == cluster.TaskRunning && t.Health == cluster.Unhealthy &&
		t.Revision == s.Deployment.ID && c.isInstanceSettled(t) &&
		end.Sub(c.now()) > time.Minute && c.now().Sub(c.specChangedAt[s.Short]) >= MaxStaleness
}

// isInstanceSettled reports whether nothing about the task's instance, or what its service tolerates
// of it, has changed recently.
func (c *Checker) isInstanceSettled(t *cluster.Task) bool {
	tolerated := c.Changes[state.ServiceKey(t.Cluster, t.Service)].tolerationsAt
	return t.Instance == "" || c.now().Sub(tolerated) >= c.Staleness &&
		c.now().Sub(c.Changes[state.InstanceKey(t.Cluster, t.Instance)].At) >= c.Staleness
}

// isTargetSettled reports whether a decision that is committed now must know the task's targets as they
// are.
func (c *Checker) isTargetSettled(t *cluster.Task) bool {
	return c.now().Sub(c.Changes[state.TargetKey(t.Cluster, t.Owner, t.ID)].At) >= c.Staleness
}

// TrustsHealth reports whether unhealthy tasks are replaced: only a few look unhealthy, or no more
// than half of the cluster's checked tasks, or a recent decision may have seen it so.
func (c *Checker) TrustsHealth() bool {
	unhealthy, all := 0, 0
	for _, owned := range c.ByOwner {
		for key, t := range owned {
			def := c.definitionOf(t.Cluster, t.TaskDefinition)
			// a task that has just been stopped was one of them when this was decided
			isRecent := c.now().Sub(c.Changes[key].At) < c.Staleness
			if !t.IsActive() && !isRecent || t.Last != cluster.TaskRunning || t.Foreign || def == nil || !def.HealthChecked &&
				c.TargetOf(t) == nil {
				continue
			}
			all++
			if t.IsActive() && c.isSettled(key) && (t.Health == cluster.Unhealthy || c.isTargetUnhealthy(t)) {
				unhealthy++
			}
		}
	}
	return unhealthy <= fewUnhealthy || 2*unhealthy <= all
}

// fewUnhealthy is how many unhealthy tasks are replaced even if they are most of the cluster's
// tasks.
const fewUnhealthy = 10

// checkStop checks a task that Berth decided to stop (invariant 3): a healthy one only if enough
// others are healthy, a protected one never, and one without a defect only if there are too many.
// What changed recently may have been different in the rows that the decision read.
func (c *Checker) checkStop(old, now *cluster.Task) {
	s := c.ServiceOf(now)
	if s == nil || s.Strategy != cluster.Replica || s.Status != cluster.ServiceActive ||
		now.StopCode != cluster.StopByScheduler {
		return
	}
	c.checkStopReason(s, old, now)
	if s.Controller == cluster.ExternalController {
		c.checkTaskSetStop(s, old, now)
		return
	}
	activeCount, healthyCount := 0, 0
	for key, o := range c.ByOwner[now.Owner] {
		unsettled := !c.isSettled(key)
		if o.ID != now.ID && o.Last == cluster.TaskRunning && c.wasJustMoved(o) {
			activeCount++ // it is moved by the same commit
			continue
		}
		if o.Desired == cluster.TaskStopped && (o.StopCode == cluster.StopByScheduler || !unsettled) {
			continue
		}
		if o.Last != cluster.TaskStopped || unsettled {
			activeCount++
		}
		if c.ModelTask(s, o).IsHealthy(c.latestClock()) || unsettled &&
			(o.Last == cluster.TaskRunning || o.Last == cluster.TaskStopped) {
			healthyCount++
		}
	}
	if c.ReplacedTasks(now.Owner, nil)[now.ID] {
		c.cover(coverage.MoveOver)
	}
	stopping := c.ModelTask(s, old)
	if i := c.InstanceRows[old.Instance]; i != nil && i.Status == cluster.InstanceActive && c.isEvicted(old, i) {
		c.cover(coverage.Evicted)
	}
	settled := c.isSettled(state.KeyOf(now)) && c.isTargetSettled(now) && c.isInstanceSettled(now)
	mustGo := stopping.Revision != s.Deployment.ID || stopping.MustLeave || stopping.MustMove ||
		stopping.IsUnhealthy(ModelService(s), c.now()) && c.TrustsHealth()
	// A task that has to leave may stop first if its replacement cannot start first.
	isLost := c.isLost(old, c.latestClock())
	if activeCount < s.Desired && !mustGo && !isLost && settled && !c.wasJustMoved(now) {
		c.Fail("invariant 3: stopping task %s leaves service %s with %d tasks of %d", now.ID, s.Name, activeCount,
			s.Desired)
	}
	least := ModelService(s).Floor(s.Desired)
	if stopping.IsHealthy(c.now()) && settled && healthyCount < least && !isLost {
		c.Fail("invariant 3: stopping task %s leaves service %s with %d healthy tasks, at least %d must be", now.ID,
			s.Name, healthyCount, least)
	}
}

// latestClock returns what a clock may show that has jumped ahead, or now if none jumps.
func (c *Checker) latestClock() time.Time {
	if c.ClockSkew > time.Minute {
		return c.now().Add(c.ClockSkew)
	}
	return c.now()
}

// checkStopReason checks why a task was stopped: a protected one not because there are too many,
// and one for its health only if it had time to become healthy and most of the others are.
func (c *Checker) checkStopReason(s *cluster.Service, old, now *cluster.Task) {
	stopping := c.ModelTask(s, old)
	if c.IsProtectedFor(old, c.ClockSkew) && !stopping.MustLeave && !stopping.IsUnhealthy(ModelService(s), c.now()) {
		c.Fail("invariant 3: task %s of service %s is protected and was stopped: %s", now.ID, s.Name, now.Reason)
	}
	settled := c.isSettled(state.KeyOf(now)) && c.isInstanceSettled(now)
	if forHealth := strings.Contains(now.Reason, "health checks"); forHealth && c.isWithinGrace(s, old) {
		c.Fail("invariant 3: task %s of service %s was stopped within its grace period: %s", now.ID, s.Name, now.Reason)
	} else if forHealth && settled && !c.TrustsHealth() {
		c.Fail("invariant 3: task %s of service %s was stopped for its health, and most of the cluster's look unhealthy: %s",
			now.ID, s.Name, now.Reason)
	}
}

// IsOfFailedDeployment reports whether a task belongs to a failed deployment, which starts no
// tasks.
func (c *Checker) IsOfFailedDeployment(t *cluster.Task) bool {
	s, ok := c.Rows[state.ServiceKey(c.cluster, t.Service)].(*cluster.Service)
	return ok && s.Deployment.ID == t.Revision && s.Deployment.State == cluster.RolloutFailed
}

// SpecToStart returns the spec of the tasks that a DAEMON service starts. After a failed deployment
// that is the previous revision, unless it never completed and has no running task; then it is nil.
func (h *RowHistory) SpecToStart(s *cluster.Service) *TaskSpec {
	switch {
	case s.Deployment.State != cluster.RolloutFailed:
		return h.SpecOfService(s)
	case len(s.Older) > 0 && (s.Older[0].State == cluster.RolloutCompleted ||
		s.Older[0].State != cluster.RolloutFailed && h.hasRunningTask(s.Older[0].ID)):
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

// HasOtherTasks reports whether tasks run on the instance that are no daemons.
func (h *RowHistory) HasOtherTasks(i *cluster.Instance, daemon string) bool {
	for _, t := range h.ByInstance[i.ID] {
		if s := h.ServiceOf(t); t.Owner != daemon && (s == nil || s.Strategy != cluster.Daemon) {
			return true
		}
	}
	return false
}
