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
)

// drainTerminating drains instances that the group is terminating, and makes the termination wait
// for their tasks (C6). It lets a termination continue once the instance has no tasks, or once
// nothing could end them any more: the instance has left the cluster, or its agent has been
// disconnected for too long. An instance of another of the provider's clusters is left to that
// cluster's round.
//
// The heartbeats of the last round and of this one say when each lifecycle hook was last told to
// wait.
func (e *execution) drainTerminating(ctx context.Context, before, now map[string]time.Time) error {
	h, group := e.round.Handler, e.group.Name
	byEC2ID := instancesByEC2ID(e.snap)
	terminating := slices.Sorted(maps.Keys(now))
	// An instance that is in none of this cluster's rows may belong to another cluster of the
	// provider.
	var unknown []string
	for _, id := range terminating {
		if byEC2ID[id] == nil {
			unknown = append(unknown, id)
		}
	}
	elsewhere, err := findElsewhere(ctx, h.State, e.provider.Clusters, e.of.Cluster, unknown)
	if err != nil {
		return err
	}
	var failed []error
	for _, id := range terminating {
		v := byEC2ID[id]
		switch {
		case elsewhere[id] != "":
		case v == nil, e.isLost(v), v.Status == cluster.InstanceDraining && len(v.Tasks) == 0:
			failed = append(failed, cluster.Wrap(e.completeTermination(ctx, id, v),
				"completing the termination of instance %s", id))
		case v.Status != cluster.InstanceDraining:
			failed = append(failed,
				cluster.Wrap(h.ECS.DrainInstance(ctx, e.of.Cluster, v.ID), "draining instance %s", id))
		case !before[id].IsZero() && !before[id].Equal(now[id]):
			err := h.Groups.RecordHeartbeat(ctx, group, cluster.DrainingHook, id)
			failed = append(failed, cluster.Wrap(ignoreEndedAction(err), "recording a heartbeat for instance %s", id))
		}
	}
	return errors.Join(failed...)
}

// completeTermination lets the termination of an instance continue. v is nil if the instance is not
// registered. If it is, ECS must agree that it has no task: a start may have taken effect that no
// event has reported.
func (e *execution) completeTermination(ctx context.Context, id string, v *snapshot.InstanceView) error {
	h := e.round.Handler
	if v != nil && !e.isLost(v) {
		if busy, err := h.newObserver().RecordUnreportedTasks(ctx, h.ECS, e.of.Cluster, v.ID); err != nil || busy {
			return err
		}
	}
	return ignoreEndedAction(h.Groups.CompleteLifecycleAction(ctx, e.group.Name, cluster.DrainingHook, id))
}

// isLost reports whether the instance's agent has been disconnected for longer than the disconnect
// timeout, so that its tasks are lost (S11).
func (e *execution) isLost(v *snapshot.InstanceView) bool {
	h := e.round.Handler
	return !v.AgentConnected && v.DisconnectedAt != 0 &&
		h.Clock.Now().Sub(v.DisconnectedAt.Time()) >= h.Settings.DisconnectTimeout
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
