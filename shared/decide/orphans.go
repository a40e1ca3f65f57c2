package decide

import (
	"maps"
	"slices"

	"berth/shared/cluster"
	"berth/shared/decide/plan"
)

// finishOrphanedTasks marks tasks lost that belong to no existing service and whose instance has
// left the cluster, and deregisters the targets of those that have ended. For tasks of a service,
// [reconcileService] does both.
func finishOrphanedTasks(view *clusterView, commits *plan.Builder, changes *Changes) {
	for _, id := range slices.Sorted(maps.Keys(changes.freed)) {
		v := view.snap.Instances[id]
		if v == nil || v.Instance == nil || !v.IsDeregistered() {
			continue
		}
		for _, t := range SortedTasks(v.Tasks) {
			if !hasService(view, t) {
				markTaskLost(view, commits, t)
				changes.ended = append(changes.ended, t)
			}
		}
	}
	for _, t := range changes.ended {
		if !hasService(view, t) && view.snap.Target(t.Owner, t.ID) != nil {
			commits.RequestDeregistration(t.Owner, t.ID)
		}
	}
}

// hasService reports whether the task's service exists. A service created again under the same name
// is another one.
func hasService(view *clusterView, t *cluster.Task) bool {
	s := view.snap.Services[t.Service]
	return s != nil && s.Short == t.Owner
}

// markTaskLost ends a task whose instance has left the cluster. ECS may never report it as STOPPED.
func markTaskLost(view *clusterView, commits *plan.Builder, t *cluster.Task) {
	commits.KeepTogether(1)
	next := endedTask(view, t, cluster.StopInfrastructure, "Host EC2 ("+hostName(view, t.Instance)+") terminated.")
	next.Version = t.Version + 1
	commits.PutRow(next)
}

func hostName(view *clusterView, id string) string {
	if v := view.snap.Instances[id]; v != nil && v.Instance != nil && v.EC2InstanceID != "" {
		return "instance " + v.EC2InstanceID
	}
	return "container-instance " + id
}
