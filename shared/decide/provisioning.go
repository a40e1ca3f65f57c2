package decide

import (
	"slices"

	"berth/shared/cluster"
	"berth/shared/decide/plan"
	"berth/shared/decide/specs"
	"berth/shared/placement"
)

// placeProvisioning starts standalone tasks that are provisioning, oldest first, and ends those
// whose time is over.
func placeProvisioning(view *clusterView, commits *plan.Builder, changes *Changes) {
	if !changes.provisioning && len(changes.freed)+len(changes.joined) == 0 {
		return
	}
	unplaceable := map[specs.Shape]bool{}
	for _, t := range affectedProvisioning(view, changes) {
		if hasWaitedTooLong(view, t) {
			commits.KeepTogether(1)
			commits.PutRow(endedTask(view, t, cluster.StopFailedToStart,
				cluster.StartFailed+"no instance could take the task in time."))
			continue
		}
		if where := findInstance(view, t, commits.SeedFor(t.ID), unplaceable); where != nil {
			commits.KeepTogether(plan.RowsPerStart)
			next := *t
			startTask(view, commits, &next, *where, view.snap.Definitions[t.TaskDefinition])
		}
	}
}

// findInstance returns where a provisioning standalone task may start, or nil for nowhere. It adds
// shapes that found no instance to the unplaceable ones, and asks for those no more.
func findInstance(
	view *clusterView, t *cluster.Task, seed uint64, unplaceable map[specs.Shape]bool,
) *placement.Placement {
	if view.snap.Definitions[t.TaskDefinition] == nil {
		return nil
	}
	for _, k := range fallbackShapes(view, t) {
		if unplaceable[k] {
			continue
		}
		r := standaloneRequest(view, k, 1)
		r.Seed = seed
		if result := view.engine.Place(r); len(result.Placed) > 0 {
			return &result.Placed[0]
		}
		unplaceable[k] = true
	}
	return nil
}

// hasWaitedTooLong reports whether the task has waited for an instance as long as its request
// allows.
func hasWaitedTooLong(view *clusterView, t *cluster.Task) bool {
	return !t.WaitUntil.IsZero() && !view.now.Before(t.WaitUntil.Time())
}

// affectedProvisioning returns the provisioning standalone tasks that may find an instance now,
// oldest first: all, or those of a shape that a changed instance has room for.
func affectedProvisioning(view *clusterView, changes *Changes) []*cluster.Task {
	tasks := provisioningStandalone(view)
	if changes.provisioning {
		return sortByAge(tasks)
	}
	fits := map[specs.Shape]bool{}
	shapeFits := func(k specs.Shape) bool {
		known, ok := fits[k]
		if !ok {
			known = view.snap.Definitions[k.Definition] != nil &&
				fitsChanged(view, changes, standaloneRequest(view, k, 1))
			fits[k] = known
		}
		return known
	}
	tasks = slices.DeleteFunc(tasks, func(t *cluster.Task) bool {
		return !slices.ContainsFunc(fallbackShapes(view, t), shapeFits)
	})
	return sortByAge(tasks)
}

// provisioningStandalone returns the standalone tasks that wait for an instance, in no order.
func provisioningStandalone(view *clusterView) []*cluster.Task {
	tasks := make([]*cluster.Task, 0, len(view.snap.ProvisioningTasks()))
	for _, t := range view.snap.ProvisioningTasks() {
		if t.Service == "" {
			tasks = append(tasks, t)
		}
	}
	return tasks
}
