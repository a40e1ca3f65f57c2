package invariant

import (
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
	"berth/tests/simulation/coverage"
	"berth/tests/simulation/model"
)

// checkDeployments repeats a change of a service's row on the model of its deployments, which
// refuses steps that must not happen (invariants 3 and 8).
func (c *Checker) checkDeployments(old, now *cluster.Service) {
	if now.Controller == cluster.ExternalController {
		return // its task sets are no rollouts
	}
	fate := OutcomeOf(now.Deployment.TaskDefinition)
	history := c.Deployments[now.Short]
	if history == nil {
		history = model.StartHistory(now.Deployment.ID, fate)
		c.Deployments[now.Short] = history
		c.deploymentDefinitions[now.Deployment.ID] = now.Deployment.TaskDefinition
	}
	if old == nil || old.Short != now.Short {
		c.specChangedAt[now.Short] = c.now()
		return
	}
	if old.Grace != now.Grace || old.Desired != now.Desired || old.MaxPercent != now.MaxPercent ||
		old.Deployment.ID != now.Deployment.ID {
		c.specChangedAt[now.Short] = c.now()
	}
	if was := c.deploymentDefinitions[now.Deployment.ID]; was != "" && was != now.Deployment.TaskDefinition {
		c.Fail("invariant 3: deployment %s of service %s was of %s and is of %s", now.Deployment.ID, now.Name, was,
			now.Deployment.TaskDefinition)
	}
	switch {
	case now.Deployment.ID == old.Deployment.ID:
		if now.Deployment.State == cluster.RolloutFailed && old.Deployment.State != cluster.RolloutFailed {
			c.checkFailedDeployment(history, old, now)
		}
	case c.deploymentDefinitions[now.Deployment.ID] != "": // the id of an earlier deployment
		c.checkFailedDeployment(history, old, now)
	default:
		c.deploymentDefinitions[now.Deployment.ID] = now.Deployment.TaskDefinition
		if err := history.Begin(now.Deployment.ID, fate); err != nil {
			c.Fail("invariant 3: service %s: %v", now.Name, err)
		}
	}
	same := now.Deployment.ID == old.Deployment.ID
	if now.Deployment.IsCompleted() && !(same && old.Deployment.IsCompleted()) {
		c.checkCompletedDeployment(history, now)
	}
}

// checkFailedDeployment checks that a deployment failed for a reason, and that the last completed
// one replaces it.
func (c *Checker) checkFailedDeployment(history *model.DeploymentHistory, old, now *cluster.Service) {
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
	target, err := history.Fail(ModelService(now), cause, rollback)
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
		c.Fail("invariant 3: an alarm failed deployment %s of service %s, and no alarm of the service has fired",
			old.Deployment.ID, now.Name)
	case (cause == model.ByRequest || cause == model.ByAbort) &&
		(old.Release == nil || !c.RequestedStops[old.Release.ID+string(old.Release.Stop)]):
		c.Fail("invariant 3: deployment %s of service %s was stopped without a request", old.Deployment.ID, now.Name)
	}
	if cause != model.ByBreaker {
		return
	}
	c.cover(coverage.Tripped)
	if n, least := len(c.deploymentFailures[old.Deployment.ID]),
		ModelService(now).Breaker.Threshold(now.Desired); n < least {
		c.Fail("invariant 3: the circuit breaker of service %s failed deployment %s after %d failures of %d", now.Name,
			old.Deployment.ID, n, least)
	}
}

// checkCompletedDeployment checks that a completed deployment has all its tasks, and that no others
// are left.
func (c *Checker) checkCompletedDeployment(history *model.DeploymentHistory, s *cluster.Service) {
	c.cover(coverage.Completed)
	if err := history.Complete(); err != nil {
		c.Fail("invariant 3: service %s: %v", s.Name, err)
	}
	if s.Strategy == cluster.Daemon {
		return
	}
	have, others := 0, 0
	for key, t := range c.ByOwner[s.Short] {
		unsettled := !c.isSettled(key)
		switch {
		case t.Revision == s.Deployment.ID && (t.IsActive() && t.Last == cluster.TaskRunning || unsettled):
			have++
		case t.Revision != s.Deployment.ID && t.IsActive() && !unsettled:
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
		c.Fail("invariant 3: deployment %s of service %s is completed, with %d tasks of %d, and %d of others",
			s.Deployment.ID, s.Name, have, least, others)
	}
}

// ModelService returns the service for the model.
func ModelService(s *cluster.Service) model.Service {
	return model.Service{
		Name: s.Name, Daemon: s.Strategy == cluster.Daemon, Desired: s.Desired, MinHealthy: s.MinHealthy,
		MaxPercent: s.MaxPercent,
		Breaker: model.Breaker{
			Enable: s.Breaker.Enable, Rollback: s.Breaker.Rollback, Cumulative: s.Breaker.Cumulative,
			Type: string(s.Breaker.Type), Value: s.Breaker.Value,
		},
		Grace: time.Duration(s.Grace) * time.Second, EarlySuccess: s.Early.Enable,
	}
}

// recordFailure records that a task failed or was unhealthy: the circuit breaker of its deployment
// may count it.
func (c *Checker) recordFailure(t *cluster.Task) {
	if t.Revision == "" || t.Health != cluster.Unhealthy && !isFailedStart(t) && !c.isTargetUnhealthy(t) {
		return
	}
	if c.deploymentFailures[t.Revision] == nil {
		c.deploymentFailures[t.Revision] = map[string]bool{}
	}
	c.deploymentFailures[t.Revision][t.ID] = true
}

// TargetOf returns the row with the task's target registrations, or nil.
func (h *RowHistory) TargetOf(t *cluster.Task) *cluster.Target {
	row, _ := h.Rows[state.TargetKey(t.Cluster, t.Owner, t.ID)].(*cluster.Target)
	return row
}

func (h *RowHistory) isTargetUnhealthy(t *cluster.Task) bool {
	row := h.TargetOf(t)
	return row != nil && row.WorstHealth() == cluster.Unhealthy
}

// IsProtected reports whether a task must not be stopped.
func (h *RowHistory) IsProtected(t *cluster.Task) bool {
	row, ok := h.Rows[state.ProtectionKey(t.Cluster, t.Owner, t.ID)].(*cluster.Protection)
	return ok && row.Until.After(h.now())
}

// ModelTask returns the task for the model.
func (h *RowHistory) ModelTask(s *cluster.Service, t *cluster.Task) model.Task {
	out := model.Task{
		Revision: t.Revision, Running: t.Last == cluster.TaskRunning, RunningSince: t.Started.Time(),
		Container: model.Health(t.Health),
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

// RevisionOf returns a revision of the service, or an empty one if it is unknown.
func (h *RowHistory) RevisionOf(s *cluster.Service, id string) *cluster.Revision {
	if s.Deployment.ID == id {
		return &s.Deployment.Revision
	}
	if n := slices.IndexFunc(s.Older, func(d cluster.Deployment) bool { return d.ID == id }); n >= 0 {
		return &s.Older[n].Revision
	}
	return &cluster.Revision{}
}

// mustLeaveInstance reports whether the task's instance drains, is deregistered, has been
// disconnected for too long (S11), or has a taint that makes the task leave (N11).
func (h *RowHistory) mustLeaveInstance(t *cluster.Task) bool {
	if t.Instance == "" {
		return false
	}
	i := h.InstanceRows[t.Instance]
	return i == nil || i.Status != cluster.InstanceActive || h.isLost(t, h.now()) || h.isEvicted(t, i)
}

// isLost reports whether the agent of the task's instance has been disconnected for the disconnect
// timeout, less a minute of clock skew.
func (h *RowHistory) isLost(t *cluster.Task, now time.Time) bool {
	i := h.InstanceRows[t.Instance]
	return i != nil && !i.DisconnectedAt.IsZero() &&
		now.Sub(i.DisconnectedAt.Time()) >= disconnectTimeout-time.Minute
}

// disconnectTimeout is how long an agent must be disconnected before its tasks are replaced.
const disconnectTimeout = 10 * time.Minute

// WrongRollbackTarget returns a revision of the service to which a rollback must not return.
func (c *Checker) WrongRollbackTarget(s *cluster.Service) (out *cluster.Revision) {
	history := c.Deployments[s.Short]
	for _, row := range c.Rows {
		r, ok := row.(*cluster.ServiceRevision)
		if ok && history != nil && r.Short == s.Short && r.ID != s.Deployment.ID && r.ID != history.LastCompleted &&
			(out == nil || r.ID < out.ID) {
			out = &r.Revision
		}
	}
	return out
}
