package healthcheck

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/observe"
	"berth/shared/state"
)

// maxTasksAge is how long the tasks of a service are remembered. A decision that does not change the service's row
// is not known to exist.
const maxTasksAge = 30 * time.Minute

// A checkedService is what the function remembers of a service whose containers have health checks: its active
// tasks by ECS's id, as they were when the service's row had a revision. Every decision about the service moves
// that. Meanwhile the tasks are kept as ECS describes them.
type checkedService struct {
	rev    int64
	readAt time.Time
	tasks  map[string]*cluster.Task
	// isComplete says that all active tasks ran and had a health. Until then the rows are read each time.
	isComplete bool
}

// checkContainers records what the containers' health checks say of the running tasks of a cluster's services.
// It asks ECS, 100 tasks at a time: ECS sends no event when the health of a task changes, and its events do not
// have it (Amazon ECS developer guide, task state change events).
func (h *Handler) checkContainers(ctx context.Context, name string, list *watchList) error {
	running := map[string]*cluster.Task{}
	for _, short := range slices.Sorted(maps.Keys(list.checked)) {
		s := list.checked[short]
		if !s.isComplete || cluster.RemainingWait(s.readAt.Add(maxTasksAge), h.Clock.Now(), maxTasksAge) == 0 {
			if err := h.readTasks(ctx, name, short, s); err != nil {
				return err
			}
		}
		maps.Copy(running, s.tasks)
	}
	batches := slices.Collect(slices.Chunk(slices.Sorted(maps.Keys(running)), cluster.DescribeBatch))
	got, failed := make([][]cluster.ECSTask, len(batches)), make([]error, len(batches))
	h.Parallel.Run(ctx, len(batches), func(ctx context.Context, i int) {
		got[i], failed[i] = h.describeTasks(ctx, name, batches[i])
	})
	o := h.newObserver()
	for _, some := range got {
		failed = append(failed, h.recordContainers(ctx, o, some, running))
	}
	for _, s := range list.checked {
		s.keep(running)
	}
	return errors.Join(append(failed, o.State.Flush(ctx))...)
}

// readTasks reads the active tasks of a service.
func (h *Handler) readTasks(ctx context.Context, name, short string, s *checkedService) error {
	s.readAt = h.Clock.Now()
	rows, err := state.ListRows[*cluster.Task](
		ctx, h.State, state.Prefix(name, state.PrefixTask+short+"#"), "the tasks of a service")
	if err != nil {
		return err
	}
	s.tasks, s.isComplete = map[string]*cluster.Task{}, true
	for _, t := range rows {
		switch {
		case !t.IsActive():
		case t.Last != cluster.TaskRunning || t.ECSID == "":
			s.isComplete = false
		default:
			s.tasks[t.ECSID] = t
			s.isComplete = s.isComplete && t.Health != cluster.UnknownHealth
		}
	}
	return nil
}

// keep takes over what is known of the service's tasks now. Those that are no longer among the running ones have
// ended.
func (s *checkedService) keep(running map[string]*cluster.Task) {
	for id := range s.tasks {
		if t := running[id]; t != nil {
			s.tasks[id] = t
		} else {
			delete(s.tasks, id)
		}
	}
}

func (h *Handler) describeTasks(ctx context.Context, name string, ids []string) ([]cluster.ECSTask, error) {
	got, err := h.ECS.DescribeTasks(ctx, name, ids)
	return got, cluster.Wrap(err, "describing %d tasks of cluster %s", len(ids), name)
}

// recordContainers records the health of tasks, and the end of those that have stopped, where the rows that are
// known say something else. It takes what it has recorded over into running, without the tasks that have ended.
func (h *Handler) recordContainers(
	ctx context.Context, o *observe.Observer, got []cluster.ECSTask, running map[string]*cluster.Task,
) error {
	var failed []error
	for _, t := range got {
		row := running[t.ID]
		switch {
		case row == nil || !o.NewObservation(state.KeyOf(row), t).IsNews(row.Version, row.Health):
		case t.Last == cluster.TaskStopped:
			err := cluster.IgnoreDrop(o.RecordTask(ctx, t))
			if failed = append(failed, err); err == nil {
				delete(running, t.ID)
			}
		case t.Health != cluster.UnknownHealth:
			next, err := o.RecordReport(ctx, state.KeyOf(row), t)
			if failed = append(failed, err); err == nil && next != nil {
				running[t.ID] = next
			}
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
	got, err := h.describeTasks(ctx, w.Cluster, ids)
	if err != nil {
		return err
	}
	o := h.newObserver()
	return errors.Join(h.recordContainers(ctx, o, got, running), o.State.Flush(ctx))
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
