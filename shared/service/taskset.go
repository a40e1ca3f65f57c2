package service

import (
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
)

// reconcileTaskSets plans for each task set as for a service of its own (S15).
func reconcileTaskSets(in Input) Plan {
	parts := splitByTaskSet(&in)
	plans := make([]Plan, len(parts))
	var starts []Start
	for i, part := range parts {
		plans[i] = Reconcile(part)
		starts = append(starts, plans[i].Starts...)
	}
	all := mergePlans(&in, parts, plans)
	all.Starts = starts
	return all
}

// mergePlans returns one plan that does what all the plans for parts of a service do, but for their
// starts.
func mergePlans(in *Input, parts []Input, plans []Plan) Plan {
	next := *in.Service
	next.Running, next.Pending, next.EmittedKeys = 0, 0, nil
	all := Plan{Next: &next, Steady: true}
	var sets []cluster.Deployment
	for i, p := range plans {
		part := &parts[i]
		all = all.plus(p)
		next.Running, next.Pending = next.Running+p.Next.Running, next.Pending+p.Next.Pending
		next.EmittedKeys = mergeKeys(next.EmittedKeys, p.Next.EmittedKeys)
		d := p.Next.Deployment
		switch {
		case part.Service.Deployment.Set == nil:
			all.Steady = all.Steady && p.Steady
			continue
		case d.Set.Draining && !hasTasksLeft(part):
			continue // it has ended
		}
		d.Set = assessStability(part, &p)
		sets, all.Steady = append(sets, d), all.Steady && d.Set.Steady
	}
	all.Steady = all.Steady && len(sets) > 0
	next.SetTaskSets(sets, in.Service.Deployment.ID)
	all.RefusedInstances, _ = refusedInstances(in.Tasks, in.Limits, in.Now)
	all.ThrottleCleared = in.Throttle != nil && len(in.Throttle.Revisions) > 0 &&
		len(Backoffs(in.Throttle, in.Tasks, in.Limits, in.Now)) == 0
	return all
}

// splitByTaskSet returns an input for each task set, the PRIMARY one first, and then one for each
// revision that is no task set of the service any more and still has tasks. It wants none of those.
func splitByTaskSet(in *Input) (parts []Input) {
	tasks := map[string][]*cluster.Task{}
	for _, row := range in.Tasks {
		tasks[row.Revision] = append(tasks[row.Revision], row)
	}
	add := func(d cluster.Deployment) {
		part := *in
		part.Service, part.Tasks, part.Alarms = in.Service.OfTaskSet(d), tasks[d.ID], nil
		parts = append(parts, part)
		delete(tasks, d.ID)
	}
	sets := in.Service.TaskSets()
	if i := slices.IndexFunc(sets, func(d cluster.Deployment) bool { return d.ID == in.Service.Deployment.ID }); i > 0 {
		sets = slices.Concat(sets[i:i+1], sets[:i], sets[i+1:])
	}
	for _, d := range sets {
		add(d)
	}
	for _, id := range slices.Sorted(maps.Keys(tasks)) {
		tasks[id] = slices.DeleteFunc(tasks[id], func(row *cluster.Task) bool {
			return row.HasEnded() && targetOf(in, row) == nil
		})
		if len(tasks[id]) > 0 {
			add(*unlistedRevision(tasks[id][0]).deployment)
		}
	}
	return parts
}

// assessStability returns the task set with its stability after a plan for it: steady if exactly
// its count of tasks is RUNNING, all healthy and none on a draining instance, and the plan changes
// nothing.
func assessStability(part *Input, p *Plan) *cluster.TaskSet {
	set, d := *part.Service.Deployment.Set, &p.Next.Deployment
	onDraining := slices.ContainsFunc(part.Tasks, func(row *cluster.Task) bool {
		return row.IsActive() && stateOf(part, row) == InstanceDraining
	})
	steady := p.Steady && !set.Draining && !onDraining && d.Running == part.Service.Desired && d.Pending == 0
	if steady != set.Steady || set.StabilityAt.IsZero() {
		set.Steady, set.StabilityAt = steady, part.Now
	}
	return &set
}

// hasTasksLeft reports whether any of the tasks runs or is being stopped. Those that are being
// stopped on a disconnected instance are not waited for.
func hasTasksLeft(part *Input) bool {
	return slices.ContainsFunc(part.Tasks, func(row *cluster.Task) bool {
		state := stateOf(part, row)
		return !row.HasEnded() && state != InstanceDeregistered && (row.IsActive() || state != InstanceTimedOut)
	})
}

// mergeKeys returns the event keys of both, each with the later of its times.
func mergeKeys(keys, others map[string]time.Time) map[string]time.Time {
	if len(keys) == 0 {
		return others
	}
	merged := maps.Clone(keys)
	for key, at := range others {
		if at.After(merged[key]) {
			merged[key] = at
		}
	}
	return merged
}

// plus returns the plan with what another one does and reports added, but for its starts. The
// service's next row stays that of the first.
func (p Plan) plus(q Plan) Plan {
	p.Stops, p.Choices = append(p.Stops, q.Stops...), append(p.Choices, q.Choices...)
	p.MakesRoom = p.MakesRoom || q.MakesRoom
	if len(q.HeldRevisions) > 0 && p.HeldRevisions == nil {
		p.HeldRevisions = map[string]bool{}
	}
	maps.Copy(p.HeldRevisions, q.HeldRevisions)
	p.LostTasks = append(p.LostTasks, q.LostTasks...)
	p.CountedFailures = append(p.CountedFailures, q.CountedFailures...)
	p.RegisterTargets = append(p.RegisterTargets, q.RegisterTargets...)
	p.DeregisterTargets = append(p.DeregisterTargets, q.DeregisterTargets...)
	p.EmittedTargets = append(p.EmittedTargets, q.EmittedTargets...)
	p.EventsBefore = append(p.EventsBefore, q.EventsBefore...)
	p.EventsAfter = append(p.EventsAfter, q.EventsAfter...)
	p.EndedPairs = append(p.EndedPairs, q.EndedPairs...)
	p.ReconsiderAt = earliest(p.ReconsiderAt, q.ReconsiderAt)
	return p
}
