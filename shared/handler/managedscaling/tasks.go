package managedscaling

import (
	"context"
	"fmt"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// A generation says which changes of a cluster placement has seen and made. While it stays, no task,
// throttle or definition in use has changed in a way that placement had to look at.
type generation struct{ version, batch int64 }

// readTasks are the tasks, task definitions and throttles of a cluster as they were read at a
// generation.
type readTasks struct {
	generation generation
	at         time.Time
	rows       []state.Row
}

// maxTasksAge is how long tasks are used without another look. Placement may be down.
const maxTasksAge = 30 * time.Minute

// listTasks returns the tasks, task definitions and throttles of a cluster. They are read only if
// placement has handled a batch since they were read last: in a cluster in which nothing happens their
// sixteen partitions would be most of what a look costs. The tasks are copies. The version is that of
// placement, which the caller has read. The checkpoint may be that of a second ago: tasks that begin to
// wait move the version, too.
func (h *Handler) listTasks(ctx context.Context, clusterName string, version int64) ([]state.Row, error) {
	row, err := h.State.Peek(ctx, state.Key{Cluster: clusterName, Sort: state.PrefixCheckpoint})
	if err != nil {
		return nil, fmt.Errorf("reading the checkpoint of cluster %s: %w", clusterName, err)
	}
	now, g := h.Clock.Now(), generation{version: version}
	if checkpoint, ok := row.(*state.Checkpoint); ok && checkpoint != nil {
		g.batch = checkpoint.Batch
	}
	known := h.tasks[clusterName]
	if known == nil || known.generation != g || now.Sub(known.at) > maxTasksAge || now.Before(known.at) {
		rows, err := h.State.List(ctx,
			state.Range{Cluster: clusterName, From: state.PrefixTask, To: state.PrefixThrottle + "\xff"})
		if err != nil {
			return nil, fmt.Errorf("reading the tasks of cluster %s: %w", clusterName, err)
		}
		if h.tasks == nil {
			h.tasks = map[string]*readTasks{}
		}
		known = &readTasks{g, now, rows}
		h.tasks[clusterName] = known
	}
	out := make([]state.Row, len(known.rows))
	for i, row := range known.rows {
		if t, ok := row.(*cluster.Task); ok { // a snapshot changes the tasks that it is given
			row = new(*t)
		}
		out[i] = row
	}
	return out, nil
}

// listRest returns the configuration, the histories and services of a cluster, and what belongs to
// services.
func (h *Handler) listRest(ctx context.Context, clusterName string) (all []state.Row, err error) {
	for _, part := range []state.Range{
		state.Prefix(clusterName, state.PrefixConfiguration),
		{Cluster: clusterName, From: state.PrefixScaling, To: state.PrefixTask},
	} {
		rows, err := h.State.List(ctx, part)
		if err != nil {
			return nil, fmt.Errorf("reading the rows of cluster %s from %s on: %w", clusterName, part.From, err)
		}
		all = append(all, rows...)
	}
	return all, nil
}
