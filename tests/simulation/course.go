package simulation

import (
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
	"berth/tests/simulation/model"
)

// follow takes a change of a service's row to the model of its deployments: what became of them has to be a course that
// the model allows (invariants 3 and 8).
func (c *checker) follow(old, now *cluster.Service) {
	fate := fateOf(now.Deployment.TaskDefinition)
	course := c.courses[now.Short]
	if course == nil {
		course = model.Start(now.Deployment.ID, fate)
		c.courses[now.Short] = course
		c.definitions[now.Deployment.ID] = now.Deployment.TaskDefinition
	}
	if old == nil || old.Short != now.Short {
		c.asked[now.Short] = c.now()
		return
	}
	if old.Grace != now.Grace || old.Desired != now.Desired || old.MaxPercent != now.MaxPercent || old.Deployment.ID != now.Deployment.ID {
		c.asked[now.Short] = c.now()
	}
	if was := c.definitions[now.Deployment.ID]; was != "" && was != now.Deployment.TaskDefinition {
		c.fail("invariant 3: deployment %s of service %s was of %s and is of %s", now.Deployment.ID, now.Name, was, now.Deployment.TaskDefinition)
	}
	switch {
	case now.Deployment.ID == old.Deployment.ID:
		if now.Deployment.State == cluster.RolloutFailed && old.Deployment.State != cluster.RolloutFailed {
			c.failed(course, old, now)
		}
	case c.definitions[now.Deployment.ID] != "": // that of an earlier one
		c.failed(course, old, now)
	default:
		c.definitions[now.Deployment.ID] = now.Deployment.TaskDefinition
		if err := course.Ask(now.Deployment.ID, fate); err != nil {
			c.fail("invariant 3: service %s: %v", now.Name, err)
		}
	}
	same := now.Deployment.ID == old.Deployment.ID
	if now.Deployment.IsCompleted() && !(same && old.Deployment.IsCompleted()) {
		c.completed(course, now)
	}
}

// failed checks a deployment that failed: it had a reason to, and what takes its place is what was completed last.
func (c *checker) failed(course *model.Course, old, now *cluster.Service) {
	cause, rollback := model.ByBreaker, now.Alarms.Rollback
	switch {
	case now.Release != nil && len(now.Release.Triggered) > 0:
		cause = model.ByAlarm
	case old.Release != nil && old.Release.Stop == cluster.StopAbort:
		cause = model.ByAbort
		c.mark(MarkAborted)
	case old.Release != nil && old.Release.Stop != "" || now.Release != nil && now.Release.Stop != "":
		cause = model.ByRequest
	}
	target, err := course.Fail(asked(now), cause, rollback)
	if err != nil {
		c.fail("invariant 3: service %s: %v", now.Name, err)
	}
	if target == "" {
		target = old.Deployment.ID
		c.mark(MarkStalled)
	} else {
		c.mark(MarkRolledBack)
	}
	if now.Deployment.ID != target {
		c.fail("invariant 3: deployment %s of service %s failed, and %s took its place; it should be %s",
			old.Deployment.ID, now.Name, now.Deployment.ID, target)
	}
	switch {
	case cause == model.ByAlarm && !(c.alarmed && old.Alarms.Enable):
		c.fail("invariant 3: an alarm failed deployment %s of service %s, and none was on that it watches", old.Deployment.ID, now.Name)
	case (cause == model.ByRequest || cause == model.ByAbort) && (old.Release == nil || !c.halted[old.Release.ID+string(old.Release.Stop)]):
		c.fail("invariant 3: deployment %s of service %s was stopped, and nobody asked for that", old.Deployment.ID, now.Name)
	}
	if cause != model.ByBreaker {
		return
	}
	c.mark(MarkTripped)
	if n, least := len(c.failures[old.Deployment.ID]), asked(now).Breaker.Threshold(now.Desired); n < least {
		c.fail("invariant 3: the circuit breaker of service %s failed deployment %s after %d failures of %d", now.Name, old.Deployment.ID, n, least)
	}
}

// completed checks that a deployment that is said to be completed has all tasks, and there are none of others.
func (c *checker) completed(course *model.Course, s *cluster.Service) {
	c.mark(MarkCompleted)
	if err := course.Complete(); err != nil {
		c.fail("invariant 3: service %s: %v", s.Name, err)
	}
	if s.Strategy == cluster.Daemon {
		return
	}
	have, others := 0, 0
	for key, t := range c.owned[s.Short] {
		news := !c.settled(key)
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
			c.mark(MarkEarly)
		}
		if s.Early.Deferred && others > 0 {
			c.mark(MarkDeferred)
			others = 0
		}
	}
	if have < least || others > 0 {
		c.fail("invariant 3: deployment %s of service %s is completed, with %d tasks of %d, and %d of others", s.Deployment.ID, s.Name, have, least, others)
	}
}

// asked is the service as the model sees it.
func asked(s *cluster.Service) model.Service {
	return model.Service{
		Name: s.Name, Daemon: s.Strategy == cluster.Daemon, Desired: s.Desired, MinHealthy: s.MinHealthy, MaxPercent: s.MaxPercent,
		Breaker: model.Breaker{
			Enable: s.Breaker.Enable, Rollback: s.Breaker.Rollback, Cumulative: s.Breaker.Cumulative,
			Type: string(s.Breaker.Type), Value: s.Breaker.Value,
		},
		Grace: time.Duration(s.Grace) * time.Second, Early: s.Early.Enable,
	}
}

// noteFailure takes down that a task came to nothing, or was found bad: its deployment's circuit breaker may count it.
func (c *checker) noteFailure(t *cluster.Task) {
	if t.Revision == "" || t.Health != cluster.Unhealthy && !failedStart(t) && !c.targetUnhealthy(t) {
		return
	}
	if c.failures[t.Revision] == nil {
		c.failures[t.Revision] = map[string]bool{}
	}
	c.failures[t.Revision][t.ID] = true
}

func (l *ledger) target(t *cluster.Task) *cluster.Target {
	row, _ := l.rows[state.TargetKey(t.Cluster, t.Owner, t.ID)].(*cluster.Target)
	return row
}

func (l *ledger) targetUnhealthy(t *cluster.Task) bool {
	row := l.target(t)
	return row != nil && row.WorstHealth() == cluster.Unhealthy
}

// protected reports whether a task may not be stopped.
func (l *ledger) protected(t *cluster.Task) bool {
	row, ok := l.rows[state.ProtectionKey(t.Cluster, t.Owner, t.ID)].(*cluster.Protection)
	return ok && row.Until.After(l.now())
}

// told is the task as the model sees it.
func (l *ledger) told(s *cluster.Service, t *cluster.Task) model.Task {
	out := model.Task{
		Revision: t.Revision, Running: t.Last == cluster.TaskRunning, Since: t.Started.Time(), Container: model.Health(t.Health),
		Protected: l.protected(t), Leaving: l.leaving(t),
	}
	if def := l.definition(t.Cluster, t.TaskDefinition); def != nil {
		out.Checked = def.HealthChecked
	}
	if row := l.target(t); row != nil || l.revision(s, t.Revision).RegistersTasks() {
		out.Balanced = true
		if row != nil {
			out.Target = model.Health(row.WorstHealth())
		}
	}
	if w := l.lawOf(t); w != nil {
		if i := l.known[t.Instance]; i != nil {
			out.Going = l.misfit(w, i) || w.unmet(l.scene(i, nil)) != ""
		}
	}
	return out
}

// revision is one of the service's, empty where it is not known.
func (l *ledger) revision(s *cluster.Service, id string) *cluster.Revision {
	if s.Deployment.ID == id {
		return &s.Deployment.Revision
	}
	if n := slices.IndexFunc(s.Older, func(d cluster.Deployment) bool { return d.ID == id }); n >= 0 {
		return &s.Older[n].Revision
	}
	return &cluster.Revision{}
}

// leaving reports that the task's instance drains, or has been disconnected for long, or has gone (S11).
func (l *ledger) leaving(t *cluster.Task) bool {
	if t.Instance == "" {
		return false
	}
	i := l.known[t.Instance]
	return i == nil || i.Status != cluster.InstanceActive || l.lost(t)
}

// lost reports that the agent of the task's instance has been disconnected for long; clocks may be off.
func (l *ledger) lost(t *cluster.Task) bool {
	i := l.known[t.Instance]
	return i != nil && !i.DisconnectedAt.IsZero() && l.now().Sub(i.DisconnectedAt.Time()) >= lostAfter-time.Minute
}

// touchedRow is when the instance's row last changed.
func (l *ledger) touchedRow(i *cluster.Instance) time.Time { return l.old[state.KeyOf(i)].at }

// lostAfter is how long an agent has to be disconnected for its tasks to be replaced.
const lostAfter = 10 * time.Minute
