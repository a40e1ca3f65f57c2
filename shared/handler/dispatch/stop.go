package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/quota"
	"berth/shared/state"
)

// isNotFound reports whether ECS answered that it has no such task.
func isNotFound(err error) bool {
	var e *cluster.Error
	return errors.As(err, &e) && (e.Code == cluster.CodeInvalidParameter || e.Code == cluster.CodeClusterNotFound)
}

// stopTasks makes the stops of an outbox row, but for those whose connections still drain, and returns
// what is left to stop.
func stopTasks(ctx context.Context, r *round, o *state.Outbox, drained map[state.Key]bool) ([]state.StopItem, error) {
	var left, ready []state.StopItem
	for _, s := range o.Stops {
		if s.Drain && !drained[state.TaskKey(r.cluster, s.Owner, s.ID)] {
			left = append(left, s)
		} else {
			ready = append(ready, s)
		}
	}
	done, failed := make([]bool, len(ready)), make([]error, len(ready))
	r.Parallel.Run(ctx, len(ready), func(ctx context.Context, i int) {
		done[i], failed[i] = stopTask(ctx, r, ready[i])
	})
	for i, s := range ready {
		if !done[i] {
			left = append(left, s)
		}
	}
	return left, errors.Join(failed...)
}

// stopTask carries out one stop. done is false if the stop is left for a later round. The ECS task
// is known from the item, or from the row if ECS has reported it meanwhile. A task that was never
// started is only recorded as STOPPED.
func stopTask(ctx context.Context, r *round, s state.StopItem) (done bool, err error) {
	if s.ECSID != "" {
		done, known, err := stopAtECS(ctx, r, s.ECSID, s.Reason)
		if !done || known || s.ID == "" {
			return done, err
		}
	}
	t, err := state.ReadRow[*cluster.Task](ctx, r.State, state.TaskKey(r.cluster, s.Owner, s.ID), "task "+s.ID)
	switch {
	case err != nil:
		return false, err
	case t == nil:
		return true, nil
	case t.Last == cluster.TaskStopped:
		r.State.Announce(t)
		return true, nil
	case t.ECSID != "":
		done, known, err := stopAtECS(ctx, r, t.ECSID, s.Reason)
		if !done || known {
			return done, err
		}
		return recordStopped(ctx, r, t, s.Reason)
	case t.Attempt == 0:
		// It was never started, and as its row wants STOPPED no environment can claim it now.
		return recordStopped(ctx, r, t, s.Reason)
	}
	return stopUnknownStart(ctx, r, t, s.Reason)
}

// stopUnknownStart stops a task that was started but not reported yet, so that its ECS task has to
// be found first. If ECS lists none, the task is recorded as STOPPED once the lists must have
// settled.
func stopUnknownStart(ctx context.Context, r *round, t *cluster.Task, reason string) (bool, error) {
	found, err := findStarted(ctx, r, t)
	if err != nil {
		return false, err
	}
	for _, f := range found {
		if err := adoptTask(ctx, r, t, f); err != nil {
			return false, err
		}
		if done, _, err := stopAtECS(ctx, r, f.ID, reason); !done {
			return false, err
		}
	}
	if len(found) > 0 {
		return true, nil
	}
	if wait := r.settleWait(t); wait > 0 {
		r.retryIn(wait)
		return false, nil
	}
	return recordStopped(ctx, r, t, reason)
}

// recordStopped records a task as STOPPED that ECS does not have. One that was reported meanwhile
// is left for the next round.
func recordStopped(ctx context.Context, r *round, t *cluster.Task, reason string) (done bool, err error) {
	_, err = r.State.Write(ctx, state.Write{Observe: stoppedObservation(r, t, cluster.StopByScheduler, reason)})
	if err != nil && state.IgnoreConflict(err) == nil {
		r.retryIn(time.Second)
		return false, nil
	}
	return err == nil, cluster.Wrap(err, "recording task %s as stopped", t.ID)
}

// stopAtECS calls StopTask once. done with known false means that ECS has no such task.
func stopAtECS(ctx context.Context, r *round, ecsID, reason string) (done, known bool, err error) {
	if !r.takeToken(ctx, quota.Stops) {
		return false, true, nil
	}
	err = r.ECS.StopTask(ctx, r.cluster, ecsID, reason)
	if err == nil {
		r.Telemetry.AddCount(handler.TasksStopped, 1)
	}
	if err == nil || isNotFound(err) {
		return true, err == nil, nil
	}
	if cluster.ErrorCode(err) == cluster.CodeAccessDenied {
		r.retryIn(accessDeniedDelay)
	} else {
		r.retryIn(time.Second)
	}
	return false, true, fmt.Errorf("stopping task %s: %w", ecsID, err)
}
