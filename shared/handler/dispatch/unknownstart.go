package dispatch

import (
	"context"
	"fmt"
	"time"

	"berth/shared/cluster"
	"berth/shared/observe"
	"berth/shared/state"
)

// resolveUnknownStart finds out what became of a start whose outcome is unknown. ECS's lists are
// consistent only after a settling time, so until then it asks for another round. If ECS has the
// task, it is adopted, and any second one is stopped. mayStart is true if ECS has none: the task
// may be started again.
func resolveUnknownStart(ctx context.Context, r *round, t *cluster.Task) (mayStart bool, err error) {
	if wait := r.settleWait(t); wait > 0 {
		r.retryIn(wait)
		return false, nil
	}
	adopted, err := adoptStarted(ctx, r, t)
	if adopted {
		r.retryIn(time.Second)
	}
	return err == nil && !adopted, err
}

// adoptStarted adopts what ECS has started for t. It reports whether there is any.
func adoptStarted(ctx context.Context, r *round, t *cluster.Task) (adopted bool, err error) {
	found, err := findStarted(ctx, r, t)
	if err != nil {
		return false, err
	}
	for _, f := range found {
		if err := adoptTask(ctx, r, t, f); err != nil {
			return false, err
		}
	}
	return len(found) > 0, nil
}

// adoptEarlierStart is called when ECS has refused an attempt for want of room. An earlier attempt that
// came late may have taken it: then its task is adopted.
func adoptEarlierStart(ctx context.Context, r *round, t *cluster.Task) (adopted bool, err error) {
	if t.Attempt <= 1 {
		return false, nil
	}
	return adoptStarted(ctx, r, t)
}

// settleWait returns how long ECS's lists may still miss the task that was claimed last.
func (r *round) settleWait(t *cluster.Task) time.Duration {
	return cluster.RemainingWait(t.ClaimedAt.Time().Add(r.Settings.Settle), r.Clock.Now(), r.Settings.Settle)
}

// findStarted asks ECS for the tasks that were started for t: those with its startedBy, which ECS
// accepts only as the sole filter, and those that have stopped on its instance.
func findStarted(ctx context.Context, r *round, t *cluster.Task) ([]cluster.ECSTask, error) {
	var out []cluster.ECSTask
	for _, f := range []cluster.TaskFilter{
		{Cluster: r.cluster, StartedBy: t.Batch},
		{Cluster: r.cluster, Instance: t.Instance, Desired: cluster.TaskStopped},
	} {
		err := observe.ForEachTask(ctx, r.ECS, f, func(e cluster.ECSTask) error {
			if e.StartedBy == t.Batch && e.Instance == t.Instance {
				out = append(out, e)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("listing the tasks started by %s: %w", t.Batch, err)
		}
	}
	return out, nil
}

// adoptTask records an ECS task as t's own. If t already has another one, it asks for this one to
// be stopped.
func adoptTask(ctx context.Context, r *round, t *cluster.Task, e cluster.ECSTask) error {
	_, err := r.newObserver(r.State).RecordReport(ctx, state.KeyOf(t), e)
	return err
}
