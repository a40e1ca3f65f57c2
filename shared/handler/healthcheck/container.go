package healthcheck

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/observe"
	"berth/shared/state"
)

const (
	// maxTasksAge is how long the tasks of a service are remembered: the sweep, too, records their health.
	maxTasksAge = 20 * time.Minute
	// maxLookGap is how long ago the last look of this environment may be. After a longer gap another one has
	// looked meanwhile.
	maxLookGap = 90 * time.Second
	// batchesAtOnce is how many batches of tasks are described before their health is recorded.
	batchesAtOnce = 8
	// maxHealthWrites is how many tasks one commit changes.
	maxHealthWrites = 25
)

// A checkedService is what the function remembers of a service whose containers have health checks: the rows of
// its active tasks by ECS's id, as they were when the service's row had a revision, with the health that was
// recorded since.
type checkedService struct {
	rev    int64
	readAt time.Time
	tasks  map[string]*cluster.Task
	// isComplete says that all active tasks ran and had a health. Until then the rows are read each time.
	isComplete bool
}

// isCurrent reports whether the tasks need not be read again.
func (s *checkedService) isCurrent(now time.Time) bool {
	return s.isComplete && cluster.RemainingWait(s.readAt.Add(maxTasksAge), now, maxTasksAge) > 0
}

// checkContainers records what the containers' health checks say of the running tasks of a cluster's services.
// It asks ECS, 100 tasks at a time: ECS sends no event when the health of a task changes, and its events do not
// have it (Amazon ECS developer guide, task state change events). If the invocation's time ends, the next one
// begins behind the last task that was asked about.
func (h *Handler) checkContainers(ctx context.Context, name string, list *watchList) error {
	now := h.Clock.Now()
	if cluster.RemainingWait(list.lookedAt.Add(maxLookGap), now, maxLookGap) == 0 {
		list.forgetTasks()
	}
	list.lookedAt = now
	rows, failed := h.readTasks(ctx, name, list)
	ids := slices.Sorted(maps.Keys(rows))
	if at, _ := slices.BinarySearch(ids, list.next); at < len(ids) {
		ids = slices.Concat(ids[at:], ids[:at])
	}
	for some := range slices.Chunk(ids, batchesAtOnce*cluster.DescribeBatch) {
		if list.next = some[0]; h.isOutOfTime(ctx) {
			handler.Logger(h.Log).Warn("out of time: the remaining tasks are asked about in the next round",
				"cluster", name)
			return failed
		}
		got, err := h.describeTasks(ctx, name, some)
		written, stale, wrong := h.recordContainers(ctx, name, got, rows)
		failed = errors.Join(failed, err, wrong)
		list.update(written, stale)
	}
	return failed
}

// isOutOfTime reports whether the invocation ends too soon for another step.
func (h *Handler) isOutOfTime(ctx context.Context) bool {
	end, limited := ctx.Deadline()
	return limited && end.Sub(h.Clock.Now()) < handler.Reserve
}

// readTasks returns the rows of the services' running tasks by ECS's id. It reads those of services that have no
// current ones.
func (h *Handler) readTasks(
	ctx context.Context, name string, list *watchList,
) (rows map[string]*cluster.Task, failed error) {
	rows = map[string]*cluster.Task{}
	for _, short := range slices.Sorted(maps.Keys(list.checked)) {
		s := list.checked[short]
		if !s.isCurrent(h.Clock.Now()) {
			if err := h.readService(ctx, name, short, s); err != nil {
				failed = errors.Join(failed, err)
				continue
			}
		}
		maps.Copy(rows, s.tasks)
	}
	return rows, failed
}

// readService reads the active tasks of a service whose containers have health checks.
func (h *Handler) readService(ctx context.Context, name, short string, s *checkedService) error {
	all, err := state.ListRows[*cluster.Task](
		ctx, h.State, state.Prefix(name, state.PrefixTask+short+"#"), "the tasks of a service")
	if err != nil {
		return err
	}
	tasks, isComplete := map[string]*cluster.Task{}, true
	for _, t := range all {
		if !t.IsActive() {
			continue
		}
		checked, err := h.definitions.IsChecked(ctx, h.State, name, t.TaskDefinition)
		switch {
		case err != nil:
			return err
		case !checked:
		case t.Last != cluster.TaskRunning || t.ECSID == "":
			isComplete = false
		default:
			tasks[t.ECSID] = t
			isComplete = isComplete && t.Health != cluster.UnknownHealth
		}
	}
	s.tasks, s.isComplete, s.readAt = tasks, isComplete, h.Clock.Now()
	return nil
}

// describeTasks asks ECS about tasks, a hundred in a call. Calls that ECS throttles are left to the next look.
func (h *Handler) describeTasks(ctx context.Context, name string, ids []string) ([]cluster.ECSTask, error) {
	batches := slices.Collect(slices.Chunk(ids, cluster.DescribeBatch))
	got, failed := make([][]cluster.ECSTask, len(batches)), make([]error, len(batches))
	h.Parallel.Run(ctx, len(batches), func(ctx context.Context, i int) {
		got[i], failed[i] = h.ECS.DescribeTasks(ctx, name, batches[i])
	})
	for i, err := range failed {
		if cluster.ErrorCode(err) == cluster.CodeThrottling {
			handler.Logger(h.Log).Warn("ECS does not say how tasks are", "cluster", name, "tasks", len(batches[i]),
				"error", err)
			failed[i] = nil
		}
	}
	return slices.Concat(got...), cluster.Wrap(errors.Join(failed...), "describing tasks of cluster %s", name)
}

// recordContainers writes the health of running tasks where their rows say something else. It returns the rows that
// it has written, and those that somebody else has changed since they were read. Each row is written together with
// the inbox row that tells placement of it: what is cut off has either both or none.
func (h *Handler) recordContainers(
	ctx context.Context, name string, got []cluster.ECSTask, rows map[string]*cluster.Task,
) (written, stale []*cluster.Task, failed error) {
	o := observe.Observer{Now: h.Clock.Now(), Settings: h.Settings.Settings}
	var changed []*cluster.Task
	for _, t := range got {
		row := rows[t.ID]
		if row == nil || t.Last != cluster.TaskRunning || t.Health == cluster.UnknownHealth {
			continue
		}
		if next, isNews := (state.Write{Observe: o.NewObservation(state.KeyOf(row), t)}).Apply(row); isNews {
			changed = append(changed, next.(*cluster.Task))
		}
	}
	write := func(some []*cluster.Task) (conflicts bool) {
		err := h.commitTasks(ctx, name, some)
		if err == nil {
			written = append(written, some...)
		}
		failed = errors.Join(failed, state.IgnoreConflict(err))
		return err != nil && state.IgnoreConflict(err) == nil
	}
	for some := range slices.Chunk(changed, maxHealthWrites) {
		if !write(some) {
			continue
		}
		for _, t := range some {
			if write([]*cluster.Task{t}) {
				stale = append(stale, t)
			}
		}
	}
	return written, stale, failed
}

// commitTasks writes rows of tasks, and tells placement of them.
func (h *Handler) commitTasks(ctx context.Context, name string, tasks []*cluster.Task) error {
	c := state.Commit{Cluster: name, Version: state.NoVersion}
	for _, t := range tasks {
		c.Writes = append(c.Writes, state.Write{Put: t})
	}
	return state.NewFeed(h.State, h.Clock).Commit(ctx, c)
}

// recordFirstHealth records the health of tasks that have begun to run, unless their rows say it already.
func (h *Handler) recordFirstHealth(ctx context.Context, name string, tasks []state.TaskRef) error {
	for some := range slices.Chunk(tasks, cluster.DescribeBatch) {
		if h.isOutOfTime(ctx) {
			return errOutOfTime
		}
		found, failed := make([]*cluster.Task, len(some)), make([]error, len(some))
		h.Parallel.Run(ctx, len(some), func(ctx context.Context, i int) {
			found[i], failed[i] = h.findTask(ctx, name, some[i])
		})
		if err := errors.Join(failed...); err != nil {
			return err
		}
		rows := map[string]*cluster.Task{}
		for _, t := range found {
			if t != nil && t.Health == cluster.UnknownHealth && t.IsActive() && t.ECSID != "" {
				rows[t.ECSID] = t
			}
		}
		if len(rows) == 0 {
			continue
		}
		got, err := h.describeTasks(ctx, name, slices.Sorted(maps.Keys(rows)))
		_, _, wrong := h.recordContainers(ctx, name, got, rows)
		if err := errors.Join(err, wrong); err != nil {
			return err
		}
	}
	return nil
}

var errOutOfTime = errors.New("the invocation's time ends")

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

// healthWaits are the tasks of a batch of questions for their first health, by cluster, and the messages that
// asked.
type healthWaits struct {
	tasks    map[string]map[state.TaskRef]bool
	messages map[string][]string
}

func (w *healthWaits) add(m state.Message, q handler.HealthWait) {
	if w.tasks == nil {
		w.tasks, w.messages = map[string]map[state.TaskRef]bool{}, map[string][]string{}
	}
	if w.tasks[q.Cluster] == nil {
		w.tasks[q.Cluster] = map[state.TaskRef]bool{}
	}
	w.messages[q.Cluster] = append(w.messages[q.Cluster], m.ID)
	for _, ref := range q.Tasks {
		w.tasks[q.Cluster][ref] = true
	}
}

// answer records the first health that was asked for, and returns the messages to deliver again.
func (w *healthWaits) answer(ctx context.Context, h *Handler) (retry []string) {
	for _, name := range slices.Sorted(maps.Keys(w.tasks)) {
		tasks := slices.SortedFunc(maps.Keys(w.tasks[name]), func(a, b state.TaskRef) int {
			return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.ID, b.ID))
		})
		switch err := h.recordFirstHealth(ctx, name, tasks); {
		case err == nil:
		case cluster.PermanentError(err) != nil:
			handler.Logger(h.Log).Warn("the first health of tasks is left to the schedule", "cluster", name,
				"error", err)
		default:
			handler.Logger(h.Log).Error("recording the first health of tasks", "cluster", name, "error", err)
			retry = append(retry, w.messages[name]...)
		}
	}
	return retry
}
