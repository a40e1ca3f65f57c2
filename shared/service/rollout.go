package service

import (
	"fmt"
	"slices"
	"strings"

	"berth/shared/cluster"
)

// The words of deployments, as ECS has them.
const (
	tripped = "tasks failed to start"
	alarmed = "alarm detected"
	drained = "Task stopped during instance draining"
)

// judge decides how the PRIMARY deployment goes before anything else is decided: what its circuit breaker has counted,
// whether an alarm is on, whether its end was asked for (S8).
func (c *census) judge() {
	d := &c.next.Deployment
	if d.State == "" {
		d.State = cluster.RolloutInProgress
	}
	c.begin()
	healthy := 0
	for _, m := range c.primary().members {
		if m.up() {
			healthy++
		}
	}
	if healthy > c.Service.Deployment.Healthy && !c.Service.Breaker.Cumulative {
		d.Failed = 0
	}
	for _, t := range c.failures {
		if c.of(t).primary {
			d.Failed++
		}
	}
	c.plan.CountedFailures = c.failures // all: a deployment that is gone back to begins without failures
	if d.State != cluster.RolloutInProgress || c.Service.Status != cluster.ServiceActive {
		return
	}
	switch r := c.next.Release; {
	case r != nil && r.Stop != "":
		c.halt(r.Stop)
	case c.Service.Breaker.Enable && d.Failed >= c.threshold():
		c.fail(tripped, c.Service.Breaker.Rollback, nil)
	case len(c.inAlarm()) > 0:
		c.fail(alarmed, c.Service.Alarms.Rollback, c.inAlarm())
	}
}

// begin notes that the service deployment is under way.
func (c *census) begin() {
	if r := c.next.Release; r != nil && r.Status == cluster.DeploymentPending {
		r.Status, r.StartedAt, r.UpdatedAt = cluster.DeploymentInProgress, c.Now, c.Now
		c.rollout("", "SERVICE_DEPLOYMENT_IN_PROGRESS")
	}
}

// rollout tells how the PRIMARY deployment goes, and why: it may be gone when the event is sent.
func (c *census) rollout(message, name string) {
	d := &c.next.Deployment
	c.event(Event{Message: message, Name: name, Deployment: d.ID, Reason: d.Reason})
}

// exhausted reports whether the circuit breaker has counted enough since the deployment was judged: the next decision ends
// it, and nothing more of it is started meanwhile.
func (c *census) exhausted() bool {
	d := &c.next.Deployment
	if d.State != cluster.RolloutInProgress || !c.Service.Breaker.Enable || d.Failed < c.threshold() {
		return false
	}
	c.lookAgain(c.Now)
	return true
}

// threshold is how many failures the circuit breaker takes: half the desired count by default, at least 3 and at most 200.
func (c *census) threshold() int { return Threshold(c.Service.Breaker, c.wants(c.next.Desired)) }

// Threshold is how many failures a circuit breaker of a service with a desired count takes (S8): a COUNT, or a percentage
// of the count, rounded up, which is at least 3 and at most 200 where it is bounded.
func Threshold(b cluster.CircuitBreaker, desired int) int {
	value := b.Value
	if value == 0 {
		value = 50
	}
	n := (desired*value + 99) / 100
	switch b.Type {
	case cluster.ThresholdCount:
		return max(1, b.Value)
	case cluster.ThresholdUnboundedPercent:
		return max(1, n)
	}
	return min(max(n, 3), 200)
}

// inAlarm are the alarms that fail the deployment; none where one was on when it began.
func (c *census) inAlarm() []string {
	if w := c.watch(); w != nil && !w.Ignored {
		return w.InAlarm
	}
	return nil
}

// watch is what was seen of this deployment's alarms; nil while nothing was, or there are none.
func (c *census) watch() *cluster.AlarmWatch {
	if w := c.Alarms; w != nil && w.Deployment == c.next.Deployment.ID && c.watched() {
		return w
	}
	return nil
}

// watched reports whether alarms can fail the deployment: none does that goes back to what was there before.
func (c *census) watched() bool {
	r := c.next.Release
	return c.Service.Alarms.Enable && len(c.Service.Alarms.Names) > 0 && (r == nil || r.RollbackTo != c.next.Deployment.ID)
}

// halt ends the deployment as StopServiceDeployment asked.
func (c *census) halt(stop cluster.StopType) {
	r := c.next.Release
	r.Stop, r.StoppedAt = "", c.Now
	if stop == cluster.StopRollback && c.next.Last != nil {
		r.RollbackReason = "Service deployment rolled back because of a request to stop it."
		c.rollback("ECS deployment rollback requested")
		return
	}
	c.next.Deployment.State = cluster.RolloutFailed
	c.next.Deployment.Reason = "ECS deployment " + c.next.Deployment.ID + " was stopped."
	c.rollout(DeploymentFailedMessage(c.Service.Name, c.next.Deployment.ID, "stopped on request"), "SERVICE_DEPLOYMENT_FAILED")
	c.end(cluster.DeploymentStopped, "The service deployment was stopped.")
}

// fail ends the deployment, and goes back to the last one that was completed if that is wanted and there is one. Else it
// stalls: nothing more of it is started.
func (c *census) fail(why string, rollback bool, alarms []string) {
	d := &c.next.Deployment
	cause := "ECS deployment circuit breaker"
	if why == alarmed {
		cause = "ECS deployment alarms"
	}
	d.State, d.UpdatedAt = cluster.RolloutFailed, c.Now
	d.Reason = cause + ": " + why + "."
	c.rollout(DeploymentFailedMessage(c.Service.Name, d.ID, why), "SERVICE_DEPLOYMENT_FAILED")
	r := c.next.Release
	if r != nil {
		r.Tripped, r.Triggered, r.Failures = why == tripped, alarms, d.Failed
	}
	if rollback && c.next.Last != nil {
		if r != nil {
			r.RollbackReason = "Service deployment rolled back because " + failedBy(why, alarms) + "."
		}
		c.rollback(cause)
		return
	}
	status := cluster.DeploymentStopped
	if r != nil && r.RollbackTo != "" {
		status = cluster.DeploymentRollbackFailed
	}
	c.end(status, "The service deployment failed because "+failedBy(why, alarms)+".")
}

func failedBy(why string, alarms []string) string {
	if why == tripped {
		return "the circuit breaker threshold was exceeded"
	}
	return "these alarms were on: " + strings.Join(alarms, ", ")
}

// rollback makes the last completed revision the PRIMARY deployment's again. It can be gone back to once more only when it
// has been completed anew.
func (c *census) rollback(cause string) {
	n := c.next
	failed, target := n.Deployment, *n.Last
	if failed.State == cluster.RolloutInProgress {
		failed.Reason = "ECS deployment " + failed.ID + " was stopped."
	}
	failed.State, failed.Desired = cluster.RolloutFailed, c.primary().left()
	older := []cluster.Deployment{failed}
	for _, d := range n.Older {
		if d.ID != target.ID {
			older = append(older, d)
		}
	}
	n.Older = older
	n.Deployment = cluster.Deployment{
		Revision: target, UpdatedAt: c.Now, State: cluster.RolloutInProgress, Desired: c.Service.Desired,
		Reason: fmt.Sprintf("%s: rolling back to deploymentId %s.", cause, target.ID),
	}
	n.Last, n.Providers = nil, target.Providers
	c.rollout(RollingBackMessage(c.Service.Name, target.ID), "SERVICE_DEPLOYMENT_IN_PROGRESS")
	if r := n.Release; r != nil {
		r.Status, r.RollbackTo, r.RollbackAt, r.UpdatedAt = cluster.DeploymentRollbackInProgress, target.ID, c.Now, c.Now
	}
	c.regroup()
}

// end writes down how the service deployment ended.
func (c *census) end(status cluster.ServiceDeploymentStatus, reason string) {
	if r := c.next.Release; r != nil && !r.Status.Ended() {
		r.Status, r.Reason, r.FinishedAt, r.UpdatedAt = status, reason, c.Now, c.Now
	}
}

// complete ends the PRIMARY deployment well: all its tasks are RUNNING and healthy, no older one is left, its alarms were
// watched for long enough.
func (c *census) complete() {
	n, d := c.next, &c.next.Deployment
	if d.State != cluster.RolloutInProgress || n.Status != cluster.ServiceActive || !c.rolledOut() || !c.baked() {
		return
	}
	d.State, d.UpdatedAt, d.Reason = cluster.RolloutCompleted, c.Now, "ECS deployment "+d.ID+" completed."
	n.Last = nil
	c.rollout(DeploymentCompletedMessage(n.Name, d.ID), "SERVICE_DEPLOYMENT_COMPLETED")
	if r := n.Release; r != nil && r.RollbackTo != "" {
		c.end(cluster.DeploymentRollbackSuccessful, r.RollbackReason)
		return
	}
	c.end(cluster.DeploymentSuccessful, "")
}

// rolledOut reports whether the PRIMARY deployment has all its tasks, and no other any, stopping ones included; or as many
// as are enough by the service's criteria for early success.
func (c *census) rolledOut() bool {
	early := c.Service.Early
	if !early.Enable && !c.idle() || !(early.Enable && early.Deferred) && !c.alone() {
		return false
	}
	if early.Enable {
		return c.early()
	}
	if c.Service.Strategy == cluster.Daemon && !c.plan.Steady {
		return false
	}
	return c.primary().steady() >= c.wants(c.next.Desired)
}

// early reports whether as many of the PRIMARY deployment's tasks are healthy as the criteria for early success want.
func (c *census) early() bool {
	e := c.Service.Early
	return e.Enable && c.primary().steady() >= (c.wants(c.next.Desired)*e.Percent+99)/100
}

// alone reports whether the PRIMARY deployment is the only one left.
func (c *census) alone() bool {
	return !slices.ContainsFunc(c.groups[1:], func(g *group) bool { return !c.over(g) })
}

// over reports whether an older deployment has no tasks any more and is to have none. Those that are being stopped where the
// agent is away do not keep it.
func (c *census) over(g *group) bool {
	ended := len(g.members)+g.ending == 0
	p := c.primary()
	return ended && (g.Desired == 0 || g.State == cluster.RolloutFailed || p.State != cluster.RolloutFailed && p.steady() >= c.wants(c.next.Desired))
}

// steady is how many of the members are RUNNING and as healthy as they are checked to be; of a task and the one that comes
// for it one.
func (g *group) steady() (n int) {
	for _, m := range g.members {
		if m.up() && !m.successor {
			n++
		}
	}
	return n
}

// baked reports whether the deployment's alarms have been watched for long enough since it was scaled out.
func (c *census) baked() bool {
	d := &c.next.Deployment
	if !c.watched() {
		return true
	}
	w := c.watch()
	switch {
	case w == nil:
		return false // seeing them wakes the service
	case w.Ignored:
		return true
	case d.BakeUntil.IsZero():
		d.BakeUntil = c.Now.Add(w.Bake)
	}
	if d.BakeUntil.After(c.Now) {
		c.lookAgain(d.BakeUntil)
		return false
	}
	return true
}

// record writes the counts of the current service deployment.
func (c *census) record() {
	r, d := c.next.Release, &c.next.Deployment
	if r == nil || r.Status.Ended() && (c.Service.Release == nil || c.Service.Release.Status.Ended()) {
		return
	}
	r.Requested, r.Running, r.Pending = c.wants(c.next.Desired), 0, 0
	if g := c.by[r.Target]; g != nil {
		r.Running, r.Pending = g.Running, g.Pending
	}
	if r.RollbackTo == "" {
		r.Failures, r.Threshold = d.Failed, c.threshold()
	}
}
