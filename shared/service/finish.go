package service

import "berth/shared/cluster"

// taskCounts are the tasks of one revision as they were before the plan. Those that wait for an
// instance are pending.
type taskCounts struct{ running, pending, healthy int }

func countTasks(r *revisionTasks) (n taskCounts) {
	for _, t := range r.all {
		if t.row.Last == cluster.TaskRunning {
			n.running++
		} else {
			n.pending++
		}
		if t.isUp() {
			n.healthy++
		}
	}
	return n
}

// withCounts returns a deployment with its counts.
func withCounts(r *revisionTasks) cluster.Deployment {
	d, n := *r.deployment, countTasks(r)
	d.Desired, d.Running, d.Pending, d.Healthy = r.desired, n.running, n.pending, n.healthy
	return d
}

// nextService returns the service's row as it is once the plan is carried out.
func nextService(v view) *cluster.Service {
	next := *v.next
	next.Running, next.Pending, next.Older = 0, 0, nil
	for i := range v.revisions {
		r := &v.revisions[i]
		n := countTasks(r)
		next.Running += n.running
		next.Pending += n.pending
		if i > 0 && r.listed && !isOver(v, r) {
			next.Older = append(next.Older, withCounts(r))
		}
	}
	next.Deployment = withCounts(v.primary())
	if next.Release != nil {
		next.Release = new(releaseWithCounts(v, *next.Release))
	}
	if next.Status == cluster.ServiceDraining && v.activeCount() == 0 {
		next.Status = cluster.ServiceInactive // S10: every task is STOPPING or STOPPED
	}
	return &next
}

// releaseWithCounts returns the current service deployment with its counts. One that has ended
// before stays as it is.
func releaseWithCounts(v view, r cluster.Release) cluster.Release {
	if before := v.Service.Release; r.Status.HasEnded() && (before == nil || before.Status.HasEnded()) {
		return r
	}
	r.Requested, r.Running, r.Pending = v.desired, 0, 0
	for i := range v.revisions {
		if v.revisions[i].deployment.ID == r.Target {
			n := countTasks(&v.revisions[i])
			r.Running, r.Pending = n.running, n.pending
		}
	}
	if r.RollbackTo == "" {
		r.Failures, r.Threshold = v.next.Deployment.Failed, Threshold(v.Service.Breaker, v.desired)
	}
	return r
}

// completeDeployment ends the PRIMARY deployment well: all its tasks are RUNNING and healthy, no
// older ones are left, and its alarms have been watched for long enough. It returns the service's
// row with that outcome.
func completeDeployment(v view, d decision) (cluster.Service, decision) {
	next := *v.next
	primary := &next.Deployment
	if primary.State != cluster.RolloutInProgress || next.Status != cluster.ServiceActive || !isRolledOut(v, d.steady) {
		return next, decision{}
	}
	if watchesAlarms(&next) {
		w := alarmWatch(v.Input, &next)
		if w == nil {
			return next, decision{} // the first observation reconciles the service
		}
		if !w.Ignored {
			primary.BakeUntil = bakeUntil(v.Input, &next, w)
			if primary.BakeUntil.After(v.Now) {
				return next, decision{reconsiderAt: primary.BakeUntil}
			}
		}
	}
	primary.State, primary.UpdatedAt = cluster.RolloutCompleted, v.Now
	primary.Reason = "ECS deployment " + primary.ID + " completed."
	next.Last = nil
	message := DeploymentCompletedMessage(next.Name, primary.ID)
	completed := decision{events: []keyedEvent{rolloutEvent(&next, message, "SERVICE_DEPLOYMENT_COMPLETED")}}
	if r := next.Release; r != nil && r.RollbackTo != "" {
		endRelease(v.Input, &next, cluster.DeploymentRollbackSuccessful, r.RollbackReason)
	} else {
		endRelease(v.Input, &next, cluster.DeploymentSuccessful, "")
	}
	return next, completed
}

// isRolledOut reports whether the PRIMARY deployment has all its tasks, and no other deployment
// any, those that are being stopped included; or as many as the service's criteria for early
// success ask for.
func isRolledOut(v view, steady bool) bool {
	early := v.Service.Early
	if !early.Enable && v.acted || !(early.Enable && early.Deferred) && !v.onlyPrimaryLeft() {
		return false
	}
	switch {
	case early.Enable:
		return reachedEarlySuccess(v)
	case v.Service.Strategy == cluster.Daemon && !steady:
		return false
	}
	return v.primary().steadyCount() >= v.desired
}
