package service

import (
	"cmp"
	"slices"
	"time"

	"berth/shared/cluster"
)

// registrationGrace is how long a task that its target groups refuse is not held against its
// deployment. What is refused at once may be on an instance that is just leaving.
const registrationGrace = 2 * time.Minute

// sortedTasks are a service's tasks by what they mean for the plan.
type sortedTasks struct {
	// revisions have the active tasks: the PRIMARY revision first, then newer before older, then
	// revisions that the service's row no longer lists.
	revisions []revisionTasks
	// lost are on instances that have left the cluster.
	lost []*cluster.Task
	// failures are failed starts, and unhealthy tasks of a rollout, that no circuit breaker has
	// counted.
	failures []*cluster.Task
	// register have no row of registrations and need one; deregister have one and have ended.
	register, deregister []*cluster.Task
	targets              []*cluster.Target
	// occupied are instances where a task of the service holds capacity, coolingDown those where
	// one ended within [Limits.RestartGap] of its start.
	occupied, coolingDown map[string]bool
	reconsiderAt          time.Time
}

// sortTasks sorts a service's tasks into buckets, once.
func sortTasks(in *Input) sortedTasks {
	s := sortedTasks{
		revisions: revisionsOf(in.Service), occupied: map[string]bool{}, coolingDown: map[string]bool{},
	}
	all := make([]task, 0, len(in.Tasks)) // never grows: revisions point into it
	for _, row := range in.Tasks {
		state, target := stateOf(in, row), targetOf(in, row)
		if state == InstanceDeregistered {
			s.lost = append(s.lost, row)
			continue
		}
		if target != nil {
			s.targets = append(s.targets, target)
		}
		if row.HasEnded() {
			s.addEnded(in, row, target)
			continue
		}
		if row.HoldsCapacity() {
			s.occupied[row.Instance] = true
		}
		i := s.revisionOf(row)
		if i < 0 {
			i, s.revisions = len(s.revisions), append(s.revisions, unlistedRevision(row))
		}
		r := &s.revisions[i]
		switch {
		case row.IsActive():
			all = append(all, task{row: row, target: target, revision: r.deployment.ID,
				onDraining: state == InstanceDraining})
			s.addActive(in, r, &all[len(all)-1], state == InstanceTimedOut)
		case state != InstanceTimedOut:
			r.stopping++
		}
	}
	s.putInOrder()
	return s
}

// putInOrder fills the buckets and sorts everything by id, so that the plan does not depend
// on the order in which the tasks came.
func (s *sortedTasks) putInOrder() {
	for i := range s.revisions {
		s.revisions[i].fillBuckets()
	}
	for _, rows := range [][]*cluster.Task{s.lost, s.failures, s.register, s.deregister} {
		slices.SortFunc(rows, func(a, b *cluster.Task) int { return cmp.Compare(a.ID, b.ID) })
	}
	slices.SortFunc(s.targets, func(a, b *cluster.Target) int { return cmp.Compare(a.Task, b.Task) })
}

// revisionsOf returns the revisions that the service's row lists, without tasks.
func revisionsOf(s *cluster.Service) []revisionTasks {
	out := []revisionTasks{{deployment: &s.Deployment, primary: true, listed: true, desired: s.Deployment.Desired}}
	for i := range s.Older {
		out = append(out, revisionTasks{deployment: &s.Older[i], listed: true, desired: s.Older[i].Desired})
	}
	return out
}

// unlistedRevision stands for the deployment of a task that the service's row does not list any
// more. It wants no tasks.
func unlistedRevision(row *cluster.Task) revisionTasks {
	return revisionTasks{deployment: &cluster.Deployment{
		Revision: cluster.Revision{ID: row.Revision, TaskDefinition: row.TaskDefinition}, State: cluster.RolloutFailed,
	}}
}

// revisionOf returns the position of the task's revision, -1 if there is none. A task without one
// is of the PRIMARY.
func (s *sortedTasks) revisionOf(row *cluster.Task) int {
	if row.Revision == "" {
		return 0
	}
	for i := range s.revisions {
		if s.revisions[i].deployment.ID == row.Revision {
			return i
		}
	}
	return -1
}

// addActive adds an active task to its revision.
func (s *sortedTasks) addActive(in *Input, r *revisionTasks, t *task, timedOut bool) {
	checked := in.HealthChecked != nil && in.HealthChecked(t.row.TaskDefinition)
	balanced := r.deployment.RegistersTasks()
	var graceEnds, refusedUntil time.Time
	t.condition, graceEnds = conditionOf(in, t, checked, balanced, timedOut)
	if in.ProtectedUntil != nil && in.Service.Status == cluster.ServiceActive {
		if until := in.ProtectedUntil(t.row.ID); until.After(in.Now) {
			t.protectedUntil = until
		}
	}
	failed := t.condition == unhealthy
	if !failed && t.target.HasFailedRegistration() {
		failed, refusedUntil = elapsed(t.row.Started.Time().Add(registrationGrace), in.Now)
	}
	s.reconsiderAt = earliest(s.reconsiderAt, earliest(graceEnds, refusedUntil))
	if failed && r.primary && !t.row.Counted && r.deployment.State != cluster.RolloutCompleted {
		s.failures = append(s.failures, t.row)
	}
	if t.target == nil && balanced && t.row.Last == cluster.TaskRunning &&
		(!checked || t.row.Health == cluster.Healthy) {
		s.register = append(s.register, t.row)
	}
	r.all = append(r.all, t)
}

// addEnded adds a task that has ended: it may be a failed start, or have ended so soon that its
// replacement has to wait.
func (s *sortedTasks) addEnded(in *Input, row *cluster.Task, target *cluster.Target) {
	if target != nil {
		s.deregister = append(s.deregister, row)
	}
	i := s.revisionOf(row)
	switch {
	case i < 0 || row.Revision == "" || row.Desired != cluster.TaskRunning:
	case row.NeverRan():
		if !row.Counted {
			s.failures = append(s.failures, row)
		}
	default:
		over, at := elapsed(row.Started.Time().Add(in.Limits.RestartGap), in.Now)
		if !over {
			s.revisions[i].justEnded++
			s.coolingDown[row.Instance] = true
		}
		s.reconsiderAt = earliest(s.reconsiderAt, at)
	}
}

// fillBuckets puts the tasks in order, into their buckets and into pairs.
func (r *revisionTasks) fillBuckets() {
	slices.SortFunc(r.all, compareIDs)
	for _, t := range r.all {
		b := r.bucketOf(t)
		if b.tasks == nil {
			b.tasks = make([]*task, 0, len(r.all)) // most tasks of a revision are in one condition
		}
		b.tasks = append(b.tasks, t)
	}
	r.pairs = findPairs(r.all)
}

// conditionOf returns a task's condition (S6, and minimumHealthyPercent of the ECS API), and when
// it changes by itself.
func conditionOf(in *Input, t *task, checked, balanced, timedOut bool) (c condition, until time.Time) {
	row := t.row
	switch {
	case row.IsProvisioning():
		return provisioning, until
	case timedOut:
		return disconnected, until
	case row.Last != cluster.TaskRunning:
		return starting, until
	case row.Health == cluster.Unhealthy || t.target != nil && t.target.WorstHealth() == cluster.Unhealthy:
		grace := time.Duration(in.Service.Grace) * time.Second
		if over, at := elapsed(row.Started.Time().Add(grace), in.Now); !over {
			return awaitingChecks, at
		}
		return unhealthy, until
	case checked && row.Health != cluster.Healthy, balanced &&
		(t.target == nil || t.target.WorstHealth() != cluster.Healthy):
		return awaitingChecks, until
	case !checked && !balanced && row.Started.Time().Add(in.Limits.StabilizeFor).After(in.Now):
		return stabilizing, until
	}
	return healthy, until
}

func stateOf(in *Input, row *cluster.Task) InstanceState {
	if in.InstanceState == nil || !row.HoldsCapacity() {
		return InstanceUsable
	}
	return in.InstanceState(row.Instance)
}

func targetOf(in *Input, row *cluster.Task) *cluster.Target {
	if in.Target == nil {
		return nil
	}
	return in.Target(row.ID)
}

// elapsed reports whether a time has come; if it has not, it returns it as the time to reconsider.
func elapsed(at, now time.Time) (bool, time.Time) {
	if at.After(now) {
		return false, at
	}
	return true, time.Time{}
}

// earliest returns the earlier of two times; a zero time is never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
