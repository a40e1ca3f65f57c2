package healthcheck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/observe"
	"berth/shared/state"
)

// checkContainers records what the containers' health checks say of the running tasks of a cluster's services.
// It asks ECS, 100 tasks at a time: ECS sends no event when the health of a task changes, and its events do not
// have it (Amazon ECS developer guide, task state change events).
func (h *Handler) checkContainers(ctx context.Context, name string, list *watchList) error {
	o := h.newObserver()
	var failed []error
	for _, short := range list.checked {
		rows, err := state.ListRows[*cluster.Task](
			ctx, h.State, state.Prefix(name, state.PrefixTask+short+"#"), "the tasks of a service")
		if err != nil {
			return errors.Join(append(failed, err, o.State.Flush(ctx))...)
		}
		running := map[string]*cluster.Task{}
		var ids []string
		for _, t := range rows {
			if t.IsActive() && t.Last == cluster.TaskRunning && t.ECSID != "" {
				running[t.ECSID] = t
				ids = append(ids, t.ECSID)
			}
		}
		for some := range slices.Chunk(ids, cluster.DescribeBatch) {
			failed = append(failed, h.recordContainers(ctx, o, name, some, running))
		}
	}
	return errors.Join(append(failed, o.State.Flush(ctx))...)
}

// recordContainers records the health of tasks, and the end of those that have stopped, where the row says
// something else.
func (h *Handler) recordContainers(
	ctx context.Context, o *observe.Observer, name string, ids []string, running map[string]*cluster.Task,
) error {
	got, err := h.ECS.DescribeTasks(ctx, name, ids)
	if err != nil {
		return fmt.Errorf("describing %d tasks of cluster %s: %w", len(ids), name, err)
	}
	var failed []error
	for _, t := range got {
		row := running[t.ID]
		isNews := row != nil && o.NewObservation(state.KeyOf(row), t).IsNews(row.Version, row.Health)
		if isNews && (t.Health != cluster.UnknownHealth || t.Last == cluster.TaskStopped) {
			failed = append(failed, cluster.IgnoreDrop(o.RecordTask(ctx, t)))
		}
	}
	return errors.Join(failed...)
}

// recordFirstHealth records the health of tasks that have begun to run, and asks again soon for those that have
// none yet. If that question is lost, the schedule finds those of services.
func (h *Handler) recordFirstHealth(ctx context.Context, w handler.HealthWait) error {
	if len(w.Tasks) > cluster.DescribeBatch {
		return &cluster.Drop{Reason: fmt.Sprintf("%d tasks, expected at most %d", len(w.Tasks), cluster.DescribeBatch)}
	}
	got, err := h.ECS.DescribeTasks(ctx, w.Cluster, w.Tasks)
	if err != nil {
		return fmt.Errorf("describing %d tasks of cluster %s: %w", len(w.Tasks), w.Cluster, err)
	}
	o := h.newObserver()
	next := handler.HealthWait{Cluster: w.Cluster, Attempt: w.Attempt + 1}
	var failed []error
	for _, t := range got {
		switch {
		case t.Health != cluster.UnknownHealth || t.Last == cluster.TaskStopped:
			failed = append(failed, cluster.IgnoreDrop(o.RecordTask(ctx, t)))
		case t.Desired == cluster.TaskRunning:
			next.Tasks = append(next.Tasks, t.ID)
		}
	}
	if err := errors.Join(append(failed, o.State.Flush(ctx))...); err != nil {
		return err
	}
	if len(next.Tasks) == 0 || next.Attempt >= handler.FirstHealthAttempts {
		return nil
	}
	body, err := json.Marshal(next)
	if err != nil {
		return err
	}
	return cluster.Wrap(h.Waits.Send(ctx, body, handler.FirstHealthInterval), "asking again for the health of tasks")
}

func (h *Handler) newObserver() *observe.Observer {
	return &observe.Observer{State: state.NewFeed(h.State, h.Clock), Clock: h.Clock, Now: h.Clock.Now(),
		Settings: h.Settings.Settings, Log: handler.Logger(h.Log)}
}
