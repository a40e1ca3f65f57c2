package service

// drainingReason is why a task on a draining instance stops, in ECS's words.
const drainingReason = "Task stopped during instance draining"

// stopUseless stops tasks that can never run: those that are not RUNNING yet on draining instances (S11),
// those of abandoned deployments that are not up, and those that wait for an instance though their deployment
// has failed.
func stopUseless(v view) (d decision) {
	b := v.stopBudget()
	for i := range v.revisions {
		r := &v.revisions[i]
		useless := r.tasksLeft(func(t *task) bool {
			return t.condition == starting && t.onDraining || r.abandoned && !t.isUp() ||
				r.isFailed() && t.condition == provisioning
		})
		for _, t := range useless {
			var step decision
			if t.condition == starting && t.onDraining {
				b, step = b.tryStop(t, drainingReason)
			} else {
				b, step = b.tryStop(t, r.scalingReason(t))
				for j := range step.stops {
					step.stops[j].lowersDesired = r.abandoned
				}
			}
			d = d.plus(step)
		}
	}
	return d
}

// stopDraining stops up to n RUNNING tasks on draining instances.
func stopDraining(v view, r *revisionTasks, n int) decision {
	var tasks []*task
	for _, c := range []condition{awaitingChecks, stabilizing, healthy} {
		tasks = append(tasks, r.onDraining[c].tasks...)
	}
	d := stopInOrder(v, tasks, n, func(*task) string { return drainingReason })
	return d.plus(reportProtected(v, r, tasks, n-d.stopCount()))
}
