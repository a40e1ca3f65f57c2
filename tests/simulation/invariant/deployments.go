package invariant

import (
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
	"berth/tests/simulation/coverage"
	"berth/tests/simulation/model"
)

// checkDeployments takes a change of a service's row to the model of its deployments: what became of them has to be a course that
// the model allows (invariants 3 and 8).
func (c *Checker) checkDeployments(old, now *cluster.Service) {
	fate := OutcomeOf(now.Deployment.TaskDefinition)
	course := c.Deployments[now.Short]
	if course == nil {
		course = model.StartHistory(now.Deployment.ID, fate)
		c.Deployments[now.Short] = course
		c.deploymentDefinitions[now.Deployment.ID] = now.Deployment.TaskDefinition
	}
	if old == nil || old.Short != now.Short {
		c.specChangedAt[now.Short] = c.now()
		return
	}
	if old.Grace != now.Grace || old.Desired != now.Desired || old.MaxPercent != now.MaxPercent || old.Deployment.ID != now.Deployment.ID {
		c.specChangedAt[now.Short] = c.now()
	}
	if was := c.deploymentDefinitions[now.Deployment.ID]; was != "" && was != now.Deployment.TaskDefinition {
		c.Fail("invariant 3: deployment %s of service %s was of %s and is of %s", now.Deployment.ID, now.Name, was, now.Deployment.TaskDefinition)
	}
	switch {
	case now.Deployment.ID == old.Deployment.ID:
		if now.Deployment.State == cluster.RolloutFailed && old.Deployment.State != cluster.RolloutFailed {
			c.checkFailedDeployment(course, old, now)
		}
	case c.deploymentDefinitions[now.Deployment.ID] != "": // that of an earlier one
		c.checkFailedDeployment(course, old, now)
	default:
		c.deploymentDefinitions[now.Deployment.ID] = now.Deployment.TaskDefinition
		if err := course.Begin(now.Deployment.ID, fate); err != nil {
			c.Fail("invariant 3: service %s: %v", now.Name, err)
		}
	}
	same := now.Deployment.ID == old.Deployment.ID
	if now.Deployment.IsCompleted() && !(same && old.Deployment.IsCompleted()) {
		c.checkCompletedDeployment(course, now)
	}
}

// checkFailedDeployment checks a deployment that failed: it had a reason to, and what takes its place is what was completed last.
func (c *Checker) checkFailedDeployment(course *model.DeploymentHistory, old, now *cluster.Service) {
	cause, rollback := model.ByBreaker, now.Alarms.Rollback
	switch {
	case now.Release != nil && len(now.Release.Triggered) > 0:
		cause = model.ByAlarm
	case old.Release != nil && old.Release.Stop == cluster.StopAbort:
		cause = model.ByAbort
		c.cover(coverage.Aborted)
	case old.Release != nil && old.Release.Stop != "" || now.Release != nil && now.Release.Stop != "":
		cause = model.ByRequest
	}
	target, err := course.Fail(ModelService(now), cause, rollback)
	if err != nil {
		c.Fail("invariant 3: service %s: %v", now.Name, err)
	}
	if target == "" {
		target = old.Deployment.ID
		c.cover(coverage.Stalled)
	} else {
		c.cover(coverage.RolledBack)
	}
	if now.Deployment.ID != target {
		c.Fail("invariant 3: deployment %s of service %s failed, and %s took its place; it should be %s",
			old.Deployment.ID, now.Name, now.Deployment.ID, target)
	}
	switch {
	case cause == model.ByAlarm && !(c.AlarmFired && old.Alarms.Enable):
		c.Fail("invariant 3: an alarm failed deployment %s of service %s, and none was on that it watches", old.Deployment.ID, now.Name)
	case (cause == model.ByRequest || cause == model.ByAbort) && (old.Release == nil || !c.RequestedStops[old.Release.ID+string(old.Release.Stop)]):
		c.Fail("invariant 3: deployment %s of service %s was stopped, and nobody asked for that", old.Deployment.ID, now.Name)
	}
	if cause != model.ByBreaker {
		return
	}
	c.cover(coverage.Tripped)
	if n, least := len(c.deploymentFailures[old.Deployment.ID]), ModelService(now).Breaker.Threshold(now.Desired); n < least {
		c.Fail("invariant 3: the circuit breaker of service %s failed deployment %s after %d failures of %d", now.Name, old.Deployment.ID, n, least)
	}
}

// checkCompletedDeployment checks that a deployment that is said to be completed has all tasks, and there are none of others.
func (c *Checker) checkCompletedDeployment(course *model.DeploymentHistory, s *cluster.Service) {
	c.cover(coverage.Completed)
	if err := course.Complete(); err != nil {
		c.Fail("invariant 3: service %s: %v", s.Name, err)
	}
	if s.Strategy == cluster.Daemon {
		return
	}
	have, others := 0, 0
	for key, t := range c.ByOwner[s.Short] {
		news := !c.isSettled(key)
		switch {
		case t.Revision == s.Deployment.ID && (t.IsActive() && t.Last == cluster.TaskRunning || news):
			have++
		case t.Revision != s.Deployment.ID && t.IsActive() && !news:
			others++
		}
	}
	least := s.Desired
	if s.Early.Enable {
		if least = (least*s.Early.Percent + 99) / 100; have < s.Desired {
			c.cover(coverage.Early)
		}
		if s.Early.Deferred && others > 0 {
			c.cover(coverage.Deferred)
			others = 0
		}
	}
	if have < least || others > 0 {
		c.Fail("invariant 3: deployment %s of service %s is completed, with %d tasks of %d, and %d of others", s.Deployment.ID, s.Name, have, least, others)
	}
}

// ModelService is the service as the model sees it.
func ModelService(s *cluster.Service) model.Service {
	return model.Service{
		Name: s.Name, Daemon: s.Strategy == cluster.Daemon, Desired: s.Desired, MinHealthy: s.MinHealthy, MaxPercent: s.MaxPercent,
		Breaker: model.Breaker{
			Enable: s.Breaker.Enable, Rollback: s.Breaker.Rollback, Cumulative: s.Breaker.Cumulative,
			Type: string(s.Breaker.Type), Value: s.Breaker.Value,
		},
		Grace: time.Duration(s.Grace) * time.Second, EarlySuccess: s.Early.Enable,
	}
}

// recordFailure takes down that a task came to nothing, or was found bad: its deployment's circuit breaker may count it.
func (c *Checker) recordFailure(t *cluster.Task) {
	if t.Revision == "" || t.Health != cluster.Unhealthy && !isFailedStart(t) && !c.isTargetUnhealthy(t) {
		return
	}
	if c.deploymentFailures[t.Revision] == nil {
		c.deploymentFailures[t.Revision] = map[string]bool{}
	}
	c.deploymentFailures[t.Revision][t.ID] = true
}

func (h *RowHistory) TargetOf(t *cluster.Task) *cluster.Target {
	row, _ := h.Rows[state.TargetKey(t.Cluster, t.Owner, t.ID)].(*cluster.Target)
	return row
}

func (h *RowHistory) isTargetUnhealthy(t *cluster.Task) bool {
	row := h.TargetOf(t)
	return row != nil && row.WorstHealth() == cluster.Unhealthy
}

// IsProtected reports whether a task may not be stopped.
func (h *RowHistory) IsProtected(t *cluster.Task) bool {
	row, ok := h.Rows[state.ProtectionKey(t.Cluster, t.Owner, t.ID)].(*cluster.Protection)
	return ok && row.Until.After(h.now())
}

// ModelTask is the task as the model sees it.
func (h *RowHistory) ModelTask(s *cluster.Service, t *cluster.Task) model.Task {
	out := model.Task{
		Revision: t.Revision, Running: t.Last == cluster.TaskRunning, RunningSince: t.Started.Time(), Container: model.Health(t.Health),
		Protected: h.IsProtected(t), MustLeave: h.mustLeaveInstance(t),
	}
	if def := h.definitionOf(t.Cluster, t.TaskDefinition); def != nil {
		out.Checked = def.HealthChecked
	}
	if row := h.TargetOf(t); row != nil || h.RevisionOf(s, t.Revision).RegistersTasks() {
		out.Balanced = true
		if row != nil {
			out.Target = model.Health(row.WorstHealth())
		}
	}
	if spec := h.SpecOfTask(t); spec != nil {
		if i := h.InstanceRows[t.Instance]; i != nil {
			out.MustMove = h.ViolatesNodeRules(spec, i) || spec.UnmetConstraint(h.EvaluationOf(i, nil)) != ""
		}
	}
	return out
}

// RevisionOf is one of the service's, empty where it is not known.
func (h *RowHistory) RevisionOf(s *cluster.Service, id string) *cluster.Revision {
	if s.Deployment.ID == id {
		return &s.Deployment.Revision
	}
	if n := slices.IndexFunc(s.Older, func(d cluster.Deployment) bool { return d.ID == id }); n >= 0 {
		return &s.Older[n].Revision
	}
	return &cluster.Revision{}
}

// mustLeaveInstance reports that the task's instance drains, or has been disconnected for long, or has gone (S11).
func (h *RowHistory) mustLeaveInstance(t *cluster.Task) bool {
	if t.Instance == "" {
		return false
	}
	i := h.InstanceRows[t.Instance]
	return i == nil || i.Status != cluster.InstanceActive || h.isLost(t)
}

// isLost reports that the agent of the task's instance has been disconnected for long; clocks may be off.
func (h *RowHistory) isLost(t *cluster.Task) bool {
	i := h.InstanceRows[t.Instance]
	return i != nil && !i.DisconnectedAt.IsZero() && h.now().Sub(i.DisconnectedAt.Time()) >= disconnectTimeout-time.Minute
}

// instanceChangedAt is when the instance's row last changed.
func (h *RowHistory) instanceChangedAt(i *cluster.Instance) time.Time {
	return h.Changes[state.KeyOf(i)].At
}

// disconnectTimeout is how long an agent has to be disconnected for its tasks to be replaced.
const disconnectTimeout = 10 * time.Minute

// WrongRollbackTarget is a revision of the service that a rollback must not go back to.
func (c *Checker) WrongRollbackTarget(s *cluster.Service) (out *cluster.Revision) {
	course := c.Deployments[s.Short]
	for _, row := range c.Rows {
		r, ok := row.(*cluster.ServiceRevision)
		if ok && course != nil && r.Short == s.Short && r.ID != s.Deployment.ID && r.ID != course.LastCompleted && (out == nil || r.ID < out.ID) {
			out = &r.Revision
		}
	}
	return out
}
