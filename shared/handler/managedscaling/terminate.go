package managedscaling

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// maxTerminationCalls bounds the calls that this environment makes within terminationGap for
// instances that are being terminated. If more are needed, the next look comes after that time.
const (
	maxTerminationCalls = 20
	terminationGap      = time.Second
)

// recallAfter is the time for which a call for an instance is not repeated after it worked. Looks may
// follow each other within a second, before an event says what the call has changed; an instance
// may also wait for somebody else's lifecycle hook.
const recallAfter = time.Minute

// terminationCalls remembers the calls that this environment has made for instances that are being
// terminated.
type terminationCalls struct {
	worked map[string]time.Time // by purpose, which names the instance; those of the last minute
	made   []time.Time          // within the last second, whether they worked or not
}

// start begins a call. It returns false if there were enough within a second.
func (c *terminationCalls) start(now time.Time) bool {
	c.made = slices.DeleteFunc(c.made, func(at time.Time) bool { return !isWithin(terminationGap, at, now) })
	if len(c.made) >= maxTerminationCalls {
		return false
	}
	c.made = append(c.made, now)
	return true
}

// hasWorked reports whether a call worked so lately that it is not repeated.
func (c *terminationCalls) hasWorked(purpose string, now time.Time) bool {
	at, known := c.worked[purpose]
	return known && isWithin(recallAfter, at, now)
}

// record records that the call has worked now.
func (c *terminationCalls) record(purpose string, now time.Time) {
	if c.worked == nil {
		c.worked = map[string]time.Time{}
	}
	maps.DeleteFunc(c.worked, func(_ string, at time.Time) bool { return !isWithin(recallAfter, at, now) })
	c.worked[purpose] = now
}

// isWithin reports whether less than d has passed since at. If the clock has gone back, more has.
func isWithin(d time.Duration, at, now time.Time) bool {
	age := now.Sub(at)
	return age >= 0 && age < d
}

// drainTerminating drains instances that the group is terminating, and makes the termination wait
// for their tasks (C6). It lets a termination continue once the instance has no tasks, or once
// nothing could end them any more: the instance has left the cluster, or its agent has been
// disconnected for too long. An instance of another of the provider's clusters is left to that
// cluster's round.
//
// due are those of the instances whose lifecycle hook needs a heartbeat. Their calls come first, because the
// hook ends the instance otherwise. sent are those that got one.
//
// At most 20 calls are made within a second, and the next look continues: a thousand instances that end
// together would otherwise take the calls of the whole account.
func (e *execution) drainTerminating(ctx context.Context, terminating, due []string) (sent []string, err error) {
	if len(terminating) == 0 {
		return nil, nil
	}
	byEC2ID := instancesByEC2ID(e.snap)
	// An instance that is in none of this cluster's rows may belong to another cluster of the
	// provider.
	var unknown []string
	for _, id := range terminating {
		if byEC2ID[id] == nil {
			unknown = append(unknown, id)
		}
	}
	elsewhere, err := findElsewhere(ctx, e.round.State, e.provider.Clusters, e.of.Cluster, unknown)
	if err != nil {
		return nil, err
	}
	h, more := e.round.Handler, false
	var failed []error
	isDue := func(id string) bool { return slices.Contains(due, id) }
	for _, id := range slices.Concat(due, slices.DeleteFunc(slices.Clone(terminating), isDue)) {
		if elsewhere[id] != "" {
			continue
		}
		purpose, call := e.terminationCall(id, byEC2ID[id], isDue(id))
		if call == nil || h.calls.hasWorked(purpose, h.Clock.Now()) {
			continue
		}
		if more = !h.calls.start(h.Clock.Now()); more {
			break
		}
		worked, err := call(ctx)
		if worked {
			h.calls.record(purpose, h.Clock.Now())
			if isDue(id) {
				sent = append(sent, id)
			}
		}
		failed = append(failed, cluster.Wrap(err, "%s", purpose))
	}
	if more {
		now := h.Clock.Now()
		failed = append(failed, writeDue(ctx, h.State,
			state.NewDue(e.of.Cluster, state.DueScaling, e.provider.Name, now.Add(terminationGap), now)))
	}
	return sent, errors.Join(failed...)
}

// terminationCall returns the call that an instance needs now that the group is terminating it, and
// what for; nil if it waits for its tasks. v is nil if the instance is not registered.
func (e *execution) terminationCall(
	id string, v *snapshot.InstanceView, isExtended bool,
) (purpose string, call func(context.Context) (worked bool, err error)) {
	h := e.round.Handler
	switch {
	case v == nil, e.isLost(v), v.Status == cluster.InstanceDraining && len(v.Tasks) == 0:
		return "completing the termination of instance " + id,
			func(ctx context.Context) (bool, error) { return e.completeTermination(ctx, id, v) }
	case v.Status != cluster.InstanceDraining:
		return "draining instance " + id, func(ctx context.Context) (bool, error) {
			err := h.ECS.DrainInstance(ctx, e.of.Cluster, v.ID)
			return err == nil, err
		}
	case isExtended:
		return "recording a heartbeat for instance " + id, func(ctx context.Context) (bool, error) {
			err := ignoreEndedAction(h.Groups.RecordHeartbeat(ctx, e.group.Name, cluster.DrainingHook, id))
			return err == nil, err
		}
	}
	return "", nil
}

// completeTermination lets the termination of an instance continue. v is nil if the instance is not
// registered. If it is, ECS must agree that it has no task: a start may have taken effect that no
// event has reported. Otherwise the termination waits.
func (e *execution) completeTermination(
	ctx context.Context, id string, v *snapshot.InstanceView,
) (completed bool, err error) {
	h := e.round.Handler
	if v != nil && !e.isLost(v) {
		if busy, err := e.isBusyAtECS(ctx, v); err != nil || busy {
			return false, err
		}
	}
	err = ignoreEndedAction(h.Groups.CompleteLifecycleAction(ctx, e.group.Name, cluster.DrainingHook, id))
	return err == nil, err
}

// isLost reports whether the instance's agent has been disconnected for longer than the disconnect
// timeout, so that its tasks are lost (S11).
func (e *execution) isLost(v *snapshot.InstanceView) bool {
	h := e.round.Handler
	timeout := h.Settings.DisconnectTimeout
	return !v.AgentConnected && v.DisconnectedAt != 0 &&
		cluster.RemainingWait(v.DisconnectedAt.Time().Add(timeout), h.Clock.Now(), timeout) == 0
}

// ignoreEndedAction ignores that there is no lifecycle action to continue: the instance may be
// waiting for somebody else's hook, or has just been terminated.
func ignoreEndedAction(err error) error {
	if e := (*cluster.Error)(nil); errors.As(err, &e) &&
		strings.Contains(e.Message, "No active Lifecycle Action found") {
		return nil
	}
	return err
}
