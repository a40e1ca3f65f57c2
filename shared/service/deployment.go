package service

import (
	"fmt"
	"strings"

	"berth/shared/cluster"
)

// Why a deployment fails, in ECS's words.
const (
	failedStarts  = "tasks failed to start"
	alarmDetected = "alarm detected"
)

// assessRollout decides how the PRIMARY deployment goes before anything is decided about tasks
// (S8): it fails when its circuit breaker or an alarm trips, or when its end was requested, and may
// roll back. It returns the service's next row and the events.
func assessRollout(in *Input, next cluster.Service, sorted sortedTasks) (cluster.Service, []keyedEvent) {
	var events []keyedEvent
	if next.Deployment.State == "" {
		next.Deployment.State = cluster.RolloutInProgress
	}
	if r := next.Release; r != nil && r.Status == cluster.DeploymentPending {
		r.Status, r.StartedAt, r.UpdatedAt = cluster.DeploymentInProgress, in.Now, in.Now
		events = append(events, rolloutEvent(&next, "", "SERVICE_DEPLOYMENT_IN_PROGRESS"))
	}
	next.Deployment.Failed = countFailures(in, sorted)
	if next.Deployment.State != cluster.RolloutInProgress || next.Status != cluster.ServiceActive {
		return next, events
	}
	var ended []keyedEvent
	remaining := len(sorted.revisions[0].all)
	switch alarms := activeAlarms(in, &next); {
	case next.Release != nil && next.Release.Stop != "":
		next, ended = stopDeployment(in, next, remaining)
	case reachedThreshold(in, &next):
		next, ended = failDeployment(in, next, failure{why: failedStarts, rollback: in.Service.Breaker.Rollback},
			remaining)
	case len(alarms) > 0:
		next, ended = failDeployment(in, next, failure{alarmDetected, in.Service.Alarms.Rollback, alarms}, remaining)
	}
	return next, append(events, ended...)
}

// rolloutEvent says how the PRIMARY deployment goes. It carries the reason, because the deployment
// may be gone when the event is sent.
func rolloutEvent(s *cluster.Service, message, name string) keyedEvent {
	d := &s.Deployment
	return keyedEvent{Event: Event{Message: message, Name: name, Deployment: d.ID, Reason: d.Reason}}
}

// stopDeployment ends the deployment as StopServiceDeployment asked.
func stopDeployment(in *Input, next cluster.Service, remaining int) (cluster.Service, []keyedEvent) {
	r, d := next.Release, &next.Deployment
	rollback := r.Stop == cluster.StopRollback && next.Last != nil
	r.Stop, r.StoppedAt = "", in.Now
	if rollback {
		r.RollbackReason = "Service deployment rolled back because of a request to stop it."
		return rollBack(in, next, "ECS deployment rollback requested", remaining)
	}
	d.State = cluster.RolloutFailed
	d.Reason = "ECS deployment " + d.ID + " was stopped."
	message := DeploymentFailedMessage(next.Name, d.ID, "stopped on request")
	event := rolloutEvent(&next, message, "SERVICE_DEPLOYMENT_FAILED")
	endRelease(in, &next, cluster.DeploymentStopped, "The service deployment was stopped.")
	return next, []keyedEvent{event}
}

// failure is why a deployment fails.
type failure struct {
	why      string
	rollback bool     // if there is a completed revision to return to
	alarms   []string // that detected it
}

func (f failure) detector() string {
	if f.why == alarmDetected {
		return "ECS deployment alarms"
	}
	return "ECS deployment circuit breaker"
}

func (f failure) reason() string {
	if f.why == failedStarts {
		return "the circuit breaker threshold was exceeded"
	}
	return "these alarms were on: " + strings.Join(f.alarms, ", ")
}

// failDeployment ends the deployment, and rolls back if that is wanted and some revision has
// completed. Otherwise the service stalls: no more of the deployment's tasks start.
func failDeployment(in *Input, next cluster.Service, f failure, remaining int) (cluster.Service, []keyedEvent) {
	r, d := next.Release, &next.Deployment
	d.State, d.UpdatedAt, d.Reason = cluster.RolloutFailed, in.Now, f.detector()+": "+f.why+"."
	events := []keyedEvent{rolloutEvent(&next, DeploymentFailedMessage(next.Name, d.ID, f.why),
		"SERVICE_DEPLOYMENT_FAILED")}
	if r != nil {
		r.Tripped, r.Triggered, r.Failures = f.why == failedStarts, f.alarms, d.Failed
		recordFailure(in, r, d)
	}
	if f.rollback && next.Last != nil {
		if r != nil {
			r.RollbackReason = "Service deployment rolled back because " + f.reason() + "."
		}
		rolledBack, started := rollBack(in, next, f.detector(), remaining)
		return rolledBack, append(events, started...)
	}
	status := cluster.DeploymentStopped
	if r != nil && r.RollbackTo != "" {
		status = cluster.DeploymentRollbackFailed
	}
	endRelease(in, &next, status, "The service deployment failed because "+f.reason()+".")
	return next, events
}

// recordFailure records what the rows of the failed deployment say as long as they exist.
func recordFailure(in *Input, r *cluster.Release, failed *cluster.Deployment) {
	if len(r.Triggered) > 0 && in.Alarms != nil {
		r.TriggeredSince = in.Alarms.Since
	}
	if r.Target == failed.ID {
		r.TargetDefinition = failed.TaskDefinition
	}
	var last *cluster.Task
	for _, t := range in.Tasks {
		if t.Revision == failed.ID && t.NeverRan() && (last == nil || t.Stopped.Compare(last.Stopped) > 0) {
			last = t
		}
	}
	if last != nil {
		r.LastFailure = last.Reason
	}
}

// rollBack makes the last completed revision the PRIMARY deployment's again. Nothing can roll back
// to it once more before it has completed anew. The failed deployment keeps its remaining tasks
// until others replace them.
func rollBack(in *Input, next cluster.Service, cause string, remaining int) (cluster.Service, []keyedEvent) {
	failed, target := next.Deployment, *next.Last
	if failed.State == cluster.RolloutInProgress {
		failed.Reason = "ECS deployment " + failed.ID + " was stopped."
	}
	failed.State, failed.Desired = cluster.RolloutFailed, remaining
	older := []cluster.Deployment{failed}
	for _, d := range next.Older {
		if d.ID != target.ID {
			older = append(older, d)
		}
	}
	next.Older = older
	next.Deployment = cluster.Deployment{
		Revision: target, UpdatedAt: in.Now, State: cluster.RolloutInProgress, Desired: in.Service.Desired,
		Reason: fmt.Sprintf("%s: rolling back to deploymentId %s.", cause, target.ID),
	}
	next.Last, next.Providers = nil, target.Providers
	if r := next.Release; r != nil {
		r.Status, r.RollbackTo = cluster.DeploymentRollbackInProgress, target.ID
		r.RollbackAt, r.UpdatedAt = in.Now, in.Now
	}
	message := RollingBackMessage(next.Name, target.ID)
	return next, []keyedEvent{rolloutEvent(&next, message, "SERVICE_DEPLOYMENT_IN_PROGRESS")}
}

// endRelease records how the service deployment ended.
func endRelease(in *Input, s *cluster.Service, status cluster.ServiceDeploymentStatus, reason string) {
	if r := s.Release; r != nil && !r.Status.HasEnded() {
		r.Status, r.Reason, r.FinishedAt, r.UpdatedAt = status, reason, in.Now, in.Now
	}
}

// groupByDeployment assigns sorted tasks to the deployments of the service's next row, which a
// rollback may have changed. Revisions that it does not list follow.
func groupByDeployment(next *cluster.Service, sorted []revisionTasks) []revisionTasks {
	out := revisionsOf(next)
	for _, old := range sorted {
		listed := false
		for i := range out {
			if r := &out[i]; r.deployment.ID == old.deployment.ID {
				listed = true
				old.deployment, old.desired, old.primary, old.listed = r.deployment, r.desired, r.primary, true
				*r = old
			}
		}
		if !listed {
			out = append(out, old)
		}
	}
	return out
}
