package problem

import (
	"fmt"
	"slices"
	"time"

	"berth/cmd/berth/listing"
	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
	"berth/shared/service"
	"berth/shared/wire/berthapi"
)

// checkThrottle reports starts that are held back after failures: of the first revision that has
// some, and of each task set.
func (f serviceFinder) checkThrottle(s *cluster.Service, c taskCounts) (throttled bool) {
	for _, r := range berthapi.ThrottleOf(s, listing.ThrottleOf(f.in.Snapshot, s, f.in.Now)).Revisions {
		part, owner := s, "service "+s.Name
		if s.HasTaskSets() {
			part, owner = s.OfRevision(r.Deployment), describeTaskSet(s, r.Deployment)
			c = f.countTasks(s, r.Deployment)
		}
		isDue := !r.NextAttemptAt.After(f.in.Now)
		// Once the attempt is due, what stands in its way is room.
		if isDue && (c.running >= part.Desired || s.Blocked != nil) || hasFailed(s, r.Deployment) {
			continue
		}
		next := "The next attempt is at " + formatTime(r.NextAttemptAt)
		if isDue {
			next = "The next attempt has been due since " + formatTime(r.NextAttemptAt)
		}
		why := fmt.Sprintf("%s: %s of %s never ran. %s.",
			whatif.CountFailedAttempts(r.Step), whatif.CountNoun(r.Failures, "task"), r.TaskDefinition, next)
		if r.Reason != "" {
			why += " Last failure: " + describeReason(r.Reason)
		}
		f.add(Problem{Kind: ServiceThrottled, Type: "service", Name: s.Name, Count: max(1, part.Desired-c.running),
			What: sentence(fmt.Sprintf("%s runs %d of %s: its starts are throttled", owner, c.running,
				whatif.CountNoun(part.Desired, "task"))), Why: why}, throttledSince(s, r), f.throttleHelp(s, r)...)
		if throttled = true; !s.HasTaskSets() {
			break
		}
	}
	return throttled
}

// throttleHelp returns what shows why the starts of a revision fail, and what replaces it.
func (f serviceFinder) throttleHelp(s *cluster.Service, r berthapi.Throttle) (help []Help) {
	if last := lastFailed(f.in.Snapshot, s, r.Deployment); last != nil {
		help = append(help, f.stoppedHelp(last))
	} else {
		help = append(help, Help{"See the tasks that stopped", f.aws(
			"list-tasks --service-name %s --desired-status STOPPED", s.Name)})
	}
	return slices.Concat(help, f.startHelp(r.TaskDefinition, r.Reason), f.returnHelp(s),
		deployHelp(f.finder, s, r.Deployment, r.TaskDefinition,
			"Register a revision that works and deploy it, which ends the throttle"))
}

// throttledSince returns when the starts of a revision began to fail: when Berth emitted that, or if
// it did not, when the last attempt failed.
func throttledSince(s *cluster.Service, r berthapi.Throttle) time.Time {
	if at, ok := s.EmittedKeys[service.ThrottleKeyPrefix+r.Deployment]; ok && at.Before(r.Since) {
		return at
	}
	return r.Since
}

// describeEarlierFailures says which attempts failed before the one that is due and finds no room;
// empty if none is due.
func describeEarlierFailures(in *Input, s *cluster.Service) (text string) {
	for _, r := range berthapi.ThrottleOf(s, listing.ThrottleOf(in.Snapshot, s, in.Now)).Revisions {
		if r.NextAttemptAt.After(in.Now) {
			continue // a problem of its own
		}
		text += fmt.Sprintf(" Before that, %s.", whatif.CountFailedAttempts(r.Step))
		if r.Reason != "" {
			text += " Last failure: " + sentence(r.Reason)
		}
	}
	return text
}
