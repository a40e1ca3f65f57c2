package service

import (
	"maps"
	"strings"
	"time"

	"berth/shared/cluster"
)

// repeatAfter is how long an event with the same key is not emitted again.
const repeatAfter = 6 * time.Hour

// PlacementKeyPrefix starts the event keys in [cluster.Service.EmittedKeys] that belong to the
// caller.
const PlacementKeyPrefix = "place/"

// ThrottleKeyPrefix starts the key of the event that starts of a revision fail; the deployment's id
// follows.
const ThrottleKeyPrefix = "throttle/"

// keyedEvent is an event that is not repeated while its cause lasts (S12). An event without a key
// is always emitted.
type keyedEvent struct {
	key string
	Event
}

// dueEvents returns the events that are due and marks them as emitted in the service's row.
func dueEvents(s *cluster.Service, events []keyedEvent, now time.Time) (due []Event) {
	for _, e := range events {
		if e.key == "" || MarkEmitted(s, e.key, now) {
			due = append(due, e.Event)
		}
	}
	return due
}

// MarkEmitted reports whether the event with a key is due, and marks it as emitted if it is. It is
// not due if it was emitted within the last 6 hours and its cause has lasted since. The caller
// removes keys whose cause is over from [cluster.Service.EmittedKeys].
func MarkEmitted(s *cluster.Service, key string, now time.Time) bool {
	if at, ok := s.EmittedKeys[key]; ok && cluster.RemainingWait(at.Add(repeatAfter), now, repeatAfter) > 0 {
		return false
	}
	said := maps.Clone(s.EmittedKeys)
	if said == nil {
		said = map[string]time.Time{}
	}
	said[key] = now
	s.EmittedKeys = said
	return true
}

// lastingKeys returns the emitted keys whose cause lasts: these events have it, or the caller looks
// after them.
func lastingKeys(emitted map[string]time.Time, events []keyedEvent) map[string]time.Time {
	current := map[string]bool{}
	for _, e := range events {
		current[e.key] = true
	}
	var lasting map[string]time.Time
	for key, at := range emitted {
		if !current[key] && !strings.HasPrefix(key, PlacementKeyPrefix) {
			continue
		}
		if lasting == nil {
			lasting = map[string]time.Time{}
		}
		lasting[key] = at
	}
	return lasting
}

// reportThrottle reports the revision whose starts have failed most often in a row, from the first
// failure on, as ECS does (S7).
func reportThrottle(v view) decision {
	var worst cluster.Backoff
	var id string
	for i := range v.revisions {
		if b := v.backoffs[v.revisions[i].deployment.ID]; b.Step > worst.Step {
			worst, id = b, v.revisions[i].deployment.ID
		}
	}
	if id == "" || v.Service.Status != cluster.ServiceActive {
		return decision{}
	}
	return decision{events: []keyedEvent{{ThrottleKeyPrefix + id, Event{
		Message: StartsImpairedMessage(v.Service.Name), Name: "SERVICE_TASK_START_IMPAIRED", Deployment: id,
		Reason: worst.Reason, Failures: worst.Failures, NextAttemptAt: worst.NextAttemptAt,
	}}}}
}

// reportMissingAlarms reports alarms of a deployment in progress that do not exist: a misspelled
// name protects nothing.
func reportMissingAlarms(v view) decision {
	state := v.Service.Deployment.State
	w := alarmWatch(v.Input, v.next)
	if w == nil || len(w.Missing) == 0 || state != "" && state != cluster.RolloutInProgress {
		return decision{}
	}
	e := Event{Message: MissingAlarmsMessage(v.Service.Name, v.next.Deployment.ID, w.Missing)}
	return decision{events: []keyedEvent{{"alarms/" + strings.Join(w.Missing, ","), e}}}
}

// reportDistrusted reports unhealthy tasks that are not replaced while checks are distrusted. It
// reconsiders the service soon, because no event says that fewer tasks of the cluster are
// unhealthy.
func reportDistrusted(v view, count int) decision {
	if count == 0 {
		return decision{}
	}
	e := Event{Message: TooManyUnhealthyMessage(v.Service.Name, count)}
	return decision{events: []keyedEvent{{"unhealthy", e}}, reconsiderAt: v.Now.Add(time.Minute)}
}

// StuckKey marks in a service's EmittedKeys that its percentages let it neither start nor stop a task.
const StuckKey = "stuck"

// reportStuck reports a deployment whose percentages allow neither a start nor a stop, and a service whose
// maximumPercent is too small for all its tasks.
func reportStuck(v view) decision {
	p, tooSmall := v.primary(), v.ceiling < v.desired
	mayAct := v.Service.Strategy == cluster.Replica && v.Service.Status == cluster.ServiceActive &&
		(v.next.Deployment.State == cluster.RolloutInProgress || tooSmall && !p.isFailed())
	blocked := !v.acted && (v.floorReached || tooSmall) && v.stoppingCount() == 0 && v.activeCount() >= v.ceiling
	if !mayAct || !blocked || p.stayingCount() >= v.desired ||
		v.backoffs[p.deployment.ID].NextAttemptAt.After(v.Now) {
		return decision{}
	}
	for i := range v.revisions {
		if v.revisions[i].undecidedCount() > 0 {
			return decision{} // a task may still become healthy by itself
		}
	}
	message := DeploymentStuckMessage(v.Service.Name)
	if tooSmall {
		message = MaximumTooSmallMessage(v.Service.Name, v.desired, v.Service.MaxPercent, v.ceiling)
	}
	return decision{events: []keyedEvent{{StuckKey, Event{Message: message}}}}
}
