package healthcheck

import (
	"context"
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
		switch {
		case row == nil || !o.NewObservation(state.KeyOf(row), t).IsNews(row.Version, row.Health):
		case t.Last == cluster.TaskStopped:
			failed = append(failed, cluster.IgnoreDrop(o.RecordTask(ctx, t)))
		case t.Health != cluster.UnknownHealth:
			_, err := o.RecordReport(ctx, state.KeyOf(row), t)
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// recordFirstHealth records the health of tasks that have begun to run, unless their rows say it already.
func (h *Handler) recordFirstHealth(ctx context.Context, w handler.HealthWait) error {
	if len(w.Tasks) > cluster.DescribeBatch {
		return &cluster.Drop{Reason: fmt.Sprintf("%d tasks, expected at most %d", len(w.Tasks), cluster.DescribeBatch)}
	}
	running := map[string]*cluster.Task{}
	var ids []string
	for _, ref := range w.Tasks {
		row, err := h.findTask(ctx, w.Cluster, ref)
		if err != nil {
			return err
		}
		if row != nil && row.Health == cluster.UnknownHealth && !row.HasEnded() && row.ECSID != "" {
			running[row.ECSID] = row
			ids = append(ids, row.ECSID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	o := h.newObserver()
	return errors.Join(h.recordContainers(ctx, o, w.Cluster, ids, running), o.State.Flush(ctx))
}

// findTask returns the row of a task, directly or through its alias; nil if there is none.
func (h *Handler) findTask(ctx context.Context, name string, ref state.TaskRef) (*cluster.Task, error) {
	row, err := state.ReadRow[*cluster.Task](ctx, h.State, state.TaskKey(name, ref.Owner, ref.ID), "task "+ref.ID)
	if row != nil || err != nil {
		return row, err
	}
	alias, err := state.ReadRow[*state.Alias](ctx, h.State, state.AliasKey(name, ref.ID), "the alias of task "+ref.ID)
	if alias == nil || err != nil {
		return nil, err
	}
	return state.ReadRow[*cluster.Task](ctx, h.State, state.TaskKey(name, alias.Owner, alias.ID), "task "+alias.ID)
}

func (h *Handler) newObserver() *observe.Observer {
	return &observe.Observer{State: state.NewFeed(h.State, h.Clock), Clock: h.Clock, Now: h.Clock.Now(),
		Settings: h.Settings.Settings, Log: handler.Logger(h.Log)}
}
