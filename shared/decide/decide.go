package decide

import (
	"time"

	"berth/shared/cluster"
	"berth/shared/decide/plan"
	"berth/shared/state"
)

// Decide decides what to do about the changes of one batch and returns the commits that do it.
//
// The order matters, because each phase takes capacity that the next ones no longer have: DAEMON
// services first, then standalone tasks that are provisioning, then REPLICA services, then new
// requests. Moves come last, when nothing else wants the room, and those that repair before others.
func Decide(warm *WarmSnapshot, changes *Changes, now time.Time, settings Settings) []state.Commit {
	view := newView(warm, now, settings)
	commits := plan.NewBuilder(warm.Snap, warm.requested, now)

	addAffectedServices(view, changes)
	scheduleDisconnectTimeouts(view, commits, changes)
	scaleServices(view, commits, changes)
	reserveForDaemons(view, warm, changes.services)
	placedDaemons := reconcileServices(view, commits, changes, cluster.Daemon)
	finishOrphanedTasks(view, commits, changes)
	placeProvisioning(view, commits, changes)
	placedReplicas := reconcileServices(view, commits, changes, cluster.Replica)
	answerRequests(view, commits, changes.requests)
	considerMoves(view, commits, changes, placedDaemons || placedReplicas)
	return commits.Commits()
}
