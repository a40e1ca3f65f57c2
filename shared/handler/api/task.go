package api

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/observe"
	"berth/shared/operation"
	"berth/shared/state"
)

// Tasks starts, stops and looks up tasks.
type Tasks struct{ *Dependencies }

// StopTask wants a task stopped, by a user. Stopping one that is stopped, or being stopped, changes
// nothing.
func (a *Tasks) StopTask(ctx context.Context, clusterName, id, reason string) (*cluster.Task, error) {
	if _, err := a.findCluster(ctx, clusterName); err != nil {
		return nil, err
	}
	return a.StopKnownTask(ctx, clusterName, id, reason)
}

// StopKnownTask stops a task of a cluster that Berth keeps.
func (a *Tasks) StopKnownTask(ctx context.Context, clusterName, id, reason string) (*cluster.Task, error) {
	var out *cluster.Task
	err := state.RetryRaces("stopping task "+id, func() error {
		t, err := a.findTask(ctx, clusterName, id)
		if err != nil {
			return err
		}
		if t == nil {
			return cluster.Errorf(cluster.CodeInvalidParameter, "The referenced task was not found.")
		}
		if out = t; t.HasEnded() || t.Desired == cluster.TaskStopped {
			return nil
		}
		out, err = a.commitStop(ctx, t, cmp.Or(reason, "Task stopped by user"))
		return err
	})
	return out, err
}

func (a *Tasks) commitStop(ctx context.Context, t *cluster.Task, reason string) (*cluster.Task, error) {
	next := *t
	next.Rev++
	next.Desired, next.StopCode, next.Reason = cluster.TaskStopped, cluster.StopUserInitiated, reason
	if t.Instance == "" {
		next.Last, next.Stopped, next.Expires = cluster.TaskStopped, cluster.At(a.Clock.Now()),
			a.expiresAfter(a.Settings.KeepStopped)
		_, err := a.State.Write(ctx, state.Write{Put: &next})
		return &next, err
	}
	registered, err := a.hasRegistrations(ctx, t)
	if err != nil {
		return nil, err
	}
	out := &state.Outbox{
		Head: cluster.Head{Cluster: t.Cluster}, ID: "stop-" + t.ID, CreatedAt: a.Clock.Now(),
		Stops: []state.StopItem{{Owner: t.Owner, ID: t.ID, ECSID: t.ECSID, Reason: reason, Drain: registered}},
	}
	return &next, a.State.Commit(ctx, state.Commit{
		Cluster: t.Cluster, Version: state.NoVersion, Writes: []state.Write{
			{Stop: &state.Stop{Task: state.KeyOf(t), Code: cluster.StopUserInitiated, Reason: reason}},
			{Put: out, Any: true},
		},
	})
}

// hasRegistrations reports whether a task is in target groups or Cloud Map, or may be: it is taken
// out before it is stopped (S9).
func (a *Tasks) hasRegistrations(ctx context.Context, t *cluster.Task) (bool, error) {
	if t.Service == "" {
		return false, nil
	}
	target, err := findRow[*cluster.Target](ctx, a.State, state.TargetKey(t.Cluster, t.Owner, t.ID),
		"the registrations of task "+t.ID)
	return target != nil, err
}

// DescribeTasks gives the tasks named, by their own ids or ECS's; those that are not there as
// failures.
func (a *Tasks) DescribeTasks(
	ctx context.Context, clusterName string, ids []string,
) ([]*cluster.Task, []cluster.Failure, error) {
	if _, err := a.findCluster(ctx, clusterName); err != nil {
		return nil, nil, err
	}
	return describeEach(ids, func(id string) (*cluster.Task, error) { return a.findTask(ctx, clusterName, id) })
}

// ListTasks gives the ids of the tasks that match, in order of id; more reports whether there are
// others after them.
func (a *Tasks) ListTasks(ctx context.Context, q operation.ListTasks) (ids []string, more bool, err error) {
	if _, err := a.findCluster(ctx, q.Cluster); err != nil {
		return nil, false, err
	}
	prefix := state.PrefixTask
	if q.Service != "" {
		s, err := a.requireService(ctx, q.Cluster, q.Service)
		if err != nil {
			return nil, false, err
		}
		prefix += s.Short + "#"
	}
	tasks, err := listRows[*cluster.Task](ctx, a.State, state.Prefix(q.Cluster, prefix), "tasks")
	if err != nil {
		return nil, false, err
	}
	desired, asked := cmp.Or(q.Desired, cluster.TaskRunning),
		&launchLookup{store: a.State, known: map[string]*cluster.Service{}}
	for _, t := range tasks {
		if t.ID <= q.After || !matchesQuery(t, q, desired) {
			continue
		}
		if q.External != nil {
			if _, external, err := asked.findLaunch(ctx, t); err != nil || external != *q.External {
				if err != nil {
					return nil, false, err
				}
				continue
			}
		}
		ids = append(ids, t.ID)
	}
	slices.Sort(ids)
	if q.Limit > 0 && len(ids) > q.Limit {
		return ids[:q.Limit], true, nil
	}
	return ids, false, nil
}

func matchesQuery(t *cluster.Task, q operation.ListTasks, desired cluster.TaskStatus) bool {
	status := t.Desired
	if t.HasEnded() {
		status = cluster.TaskStopped
	}
	family, _, _ := strings.Cut(t.TaskDefinition, ":")
	return status == desired && (q.Family == "" || family == q.Family) &&
		(q.Instance == "" || t.Instance == q.Instance) &&
		(q.StartedBy == "" || t.StartedByUser == q.StartedBy || t.Revision == q.StartedBy)
}

// findTask finds a task by its own id, or by ECS's.
func (a *Dependencies) findTask(ctx context.Context, clusterName, id string) (*cluster.Task, error) {
	t, err := a.readTask(ctx, state.TaskKey(clusterName, cluster.TaskOwner(id), id))
	if t != nil || err != nil || cluster.TaskOwner(id) == "" {
		return t, err
	}
	got, err := a.ECS.DescribeTasks(ctx, clusterName, []string{id})
	if err != nil {
		return nil, fmt.Errorf("describing task %s: %w", id, err)
	}
	if len(got) == 0 {
		return nil, nil
	}
	if t, err := a.findStartedTask(ctx, got[0]); t != nil || err != nil {
		return t, err
	}
	return a.readTask(ctx, state.TaskKey(clusterName, observe.ForeignOwner, id))
}

// findStartedTask finds the row of a task that Berth started: ECS says for whom and where, and that
// gives its key.
func (a *Dependencies) findStartedTask(ctx context.Context, e cluster.ECSTask) (*cluster.Task, error) {
	short, ours := cluster.ParseStartedBy(e.StartedBy)
	if !ours {
		return nil, nil
	}
	derived := cluster.TaskID(e.StartedBy, e.Instance)
	if t, err := a.readTask(ctx, state.TaskKey(e.Cluster, short, derived)); t != nil || err != nil {
		return t, err
	}
	alias, err := findRow[*state.Alias](ctx, a.State, state.AliasKey(e.Cluster, derived), "the alias of task "+e.ID)
	if err != nil || alias == nil {
		return nil, err
	}
	return a.readTask(ctx, state.TaskKey(e.Cluster, alias.Owner, alias.ID))
}

// readTask reads a task's row; nil where there is none.
func (a *Dependencies) readTask(ctx context.Context, key state.Key) (*cluster.Task, error) {
	return findRow[*cluster.Task](ctx, a.State, key, "task "+cluster.LastPart(key.Sort))
}
