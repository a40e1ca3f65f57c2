package service

import (
	"time"

	"berth/shared/cluster"
)

// RoomTimeout returns how long tasks of a service wait for room before others may be stopped to
// make some. It is longer where managed scaling may add an instance.
func RoomTimeout(s *cluster.Service) time.Duration {
	if len(s.UsedProviders()) > 0 {
		return 15 * time.Minute
	}
	return time.Minute
}

// RoomWait returns how long a blocked service still waits for room.
func RoomWait(s *cluster.Service, now time.Time) time.Duration {
	return cluster.RemainingWait(s.BlockedSince.Add(RoomTimeout(s)), now, RoomTimeout(s))
}

// makeRoom stops one unhealthy task, and tasks on draining instances, whose replacements have found
// no room for [RoomTimeout]. minimumHealthyPercent bounds that, too (S11).
func makeRoom(i int) policy {
	return func(v view) decision {
		r := &v.revisions[i]
		d := decision{makesRoom: !r.primary && r.totalCount() > 0 || r.drainingCount()+toReplaceCount(v, r) > 0}
		n := blockedCount(v, r)
		if n > 0 && toReplaceCount(v, r) > 0 && lacksRoom(v, r) {
			step := stopFailing(v, r, 1, unhealthyReason(v, r))
			n -= step.stopCount()
			v, d = v.afterDecision(step), d.plus(step)
		}
		return d.plus(stopDraining(v, &v.revisions[i], n))
	}
}

// blockedCount returns how many tasks that a revision wants have been blocked for [RoomTimeout].
// Tasks that are being stopped make room already and count against it.
func blockedCount(v view, r *revisionTasks) int {
	s, b := v.Service, v.backoffs[r.deployment.ID]
	switch {
	case r.isFailed() || r.abandoned:
		return 0
	case s.Blocked == nil || s.BlockedSince.IsZero() || RoomWait(s, v.Now) > 0:
		return 0
	case b.Step > 0 && b.NextAttemptAt.After(v.Now):
		return 0
	}
	n := r.count(provisioning) + max(0, r.desired-r.stayingCount()-r.drainingCount()-r.failingCount())
	if b.Step > 0 {
		n = min(n, 1)
	}
	return max(0, n-v.stoppingCount())
}

// lacksRoom reports whether it is room that the revision's blocked tasks lack: to stop others would
// help.
func lacksRoom(v view, r *revisionTasks) bool {
	return v.Service.Blocked.StopsWouldHelp() && (v.FitsEmptyInstance == nil ||
		v.FitsEmptyInstance(r.deployment.TaskDefinition))
}
