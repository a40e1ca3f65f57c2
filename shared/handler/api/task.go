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

// Tasks starts, stops and describes tasks.
type Tasks struct{ *Dependencies }

// StopTask requests that a task is stopped on behalf of a user. A task that has stopped or is being
// stopped is returned as it is; an unknown one is an InvalidParameterException, as with ECS.
func (a *Tasks) StopTask(ctx context.Context, clusterName, id, reason string) (*cluster.Task, error) {
	if _, err := a.findCluster(ctx, clusterName); err != nil {
		return nil, err
	}
	return a.StopKnownTask(ctx, clusterName, id, reason)
}

// StopKnownTask is [Tasks.StopTask] for callers who know that Berth has the cluster:
// node-group-upgrade stops tasks with it.
func (a *Tasks) StopKnownTask(ctx context.Context, clusterName, id, reason string) (*cluster.Task, error) {
	var out *cluster.Task
	err := a.retryRaces(ctx, "stopping task "+id, func() error {
		found, err := a.findTasks(ctx, clusterName, id)
		if err != nil {
			return err
		}
		t := found[id]
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

// commitStop writes the stop of a task. A task without an instance is STOPPED at once. For any
// other, an outbox entry asks dispatch to stop it at ECS; both writes are one commit, so that no
// task is marked whose stop is never carried out.
func (a *Tasks) commitStop(ctx context.Context, t *cluster.Task, reason string) (*cluster.Task, error) {
	next := *t
	next.Rev++
	next.Desired, next.StopCode, next.Reason = cluster.TaskStopped, cluster.StopUserInitiated, reason
	// Nothing was started for it, and placement finds it STOPPED when it next looks.
	if t.Instance == "" {
		next.Last, next.Stopped, next.Expires = cluster.TaskStopped, cluster.At(a.Clock.Now()),
			a.expiresAfter(a.Settings.KeepStopped)
		return &next, state.NewFeed(a.State, a.Clock).Commit(ctx, state.Commit{
			Cluster: t.Cluster, Version: state.NoVersion, Writes: []state.Write{{Put: &next}},
		})
	}
	registered, err := a.hasRegistrations(ctx, t)
	if err != nil {
		return nil, err
	}
	out := &state.Outbox{
		Head: cluster.Head{Cluster: t.Cluster}, ID: state.OutboxStops + "-" + t.ID, CreatedAt: a.Clock.Now(),
		Deadline: a.Clock.Now().Add(a.Settings.RequestWait),
		Stops:    []state.StopItem{{Owner: t.Owner, ID: t.ID, ECSID: t.ECSID, Reason: reason, Drain: registered}},
	}
	// The row may have changed since it was read.
	inbox, err := state.NewInbox(t.Cluster, a.Clock.Now(), nil, state.TaskRef{Owner: t.Owner, ID: t.ID})
	if err != nil {
		return nil, err
	}
	return &next, a.State.Commit(ctx, state.Commit{
		Cluster: t.Cluster, Version: state.NoVersion, Writes: []state.Write{
			{Stop: &state.Stop{Task: state.KeyOf(t), Code: cluster.StopUserInitiated, Reason: reason}},
			{Put: out, Any: true}, {Put: inbox, Any: true},
		},
	})
}

// hasRegistrations reports whether the task is, or may be about to be, registered in target groups
// or Cloud Map. Then dispatch deregisters it and lets its connections drain before it stops it
// (S9).
func (a *Tasks) hasRegistrations(ctx context.Context, t *cluster.Task) (bool, error) {
	if t.Service == "" {
		return false, nil
	}
	target, err := state.ReadRow[*cluster.Target](ctx, a.State, state.TargetKey(t.Cluster, t.Owner, t.ID),
		"the registrations of task "+t.ID)
	return target != nil, err
}

// DescribeTasks returns the tasks named, by Berth's ids or ECS's, and the rest as failures.
func (a *Tasks) DescribeTasks(
	ctx context.Context, clusterName string, ids []string,
) ([]*cluster.Task, []cluster.Failure, error) {
	if _, err := a.findCluster(ctx, clusterName); err != nil {
		return nil, nil, err
	}
	found, err := a.findTasks(ctx, clusterName, ids...)
	if err != nil {
		return nil, nil, err
	}
	return describeEach(ids, func(id string) (*cluster.Task, error) { return found[id], nil })
}

// maxListedRows is how many rows ListTasks reads at a time where it must look at each. Otherwise it
// reads as many as the page has tasks.
const maxListedRows = 1000

// ListTasks returns a page of the ids of tasks that match. The store selects the tasks of the
// service, or of the cluster, in the order of their keys, from where the page begins until it is
// full. A filter by launch type is applied to those here.
func (a *Tasks) ListTasks(ctx context.Context, q operation.ListTasks) (page operation.TaskPage, err error) {
	if _, err := a.findCluster(ctx, q.Cluster); err != nil {
		return page, err
	}
	prefix := state.PrefixTask
	if q.Service != "" {
		s, err := a.requireService(ctx, q.Cluster, q.Service)
		if err != nil {
			return page, err
		}
		prefix += s.Short + "#"
	}
	rows := state.Prefix(q.Cluster, prefix)
	if q.After != "" {
		rows.From = state.PrefixTask + q.After + "\x00"
	}
	rows.Tasks = &state.TaskFilter{Desired: cmp.Or(q.Desired, cluster.TaskRunning), Family: q.Family,
		Instance: q.Instance, StartedBy: q.StartedBy}
	rows.Limit = maxListedRows
	if q.Limit > 0 {
		rows.Limit = min(q.Limit+1, maxListedRows) // one more says whether there is another page
	}
	launches := &launchLookup{store: a.State, known: map[string]*cluster.Service{}}
	for {
		tasks, err := state.ListRows[*cluster.Task](ctx, a.State, rows, "tasks")
		if err != nil {
			return operation.TaskPage{}, err
		}
		for _, t := range tasks {
			matches, err := hasLaunch(ctx, t, q.External, launches)
			switch {
			case err != nil:
				return operation.TaskPage{}, err
			case matches && q.Limit > 0 && len(page.IDs) == q.Limit:
				slices.Sort(page.IDs)
				return page, nil
			case matches:
				page.IDs = append(page.IDs, t.ID)
				page.Next = strings.TrimPrefix(state.KeyOf(t).Sort, state.PrefixTask)
			}
		}
		if len(tasks) < rows.Limit {
			page.Next = ""
			slices.Sort(page.IDs)
			return page, nil
		}
		rows.From, rows.Limit = state.KeyOf(tasks[len(tasks)-1]).Sort+"\x00", maxListedRows
	}
}

// hasLaunch reports whether the task is an external one, or is none; nil allows both.
func hasLaunch(ctx context.Context, t *cluster.Task, external *bool, launches *launchLookup) (bool, error) {
	if external == nil {
		return true, nil
	}
	_, is, err := launches.findLaunch(ctx, t)
	return is == *external, err
}

// findTasks finds tasks by Berth's ids or by ECS's, and returns those that exist by the id that was
// given. Berth's id leads to the row's key. About all other ids, ECS is asked once who started the task
// and where, which leads to the key too.
//
// If ECS does not answer, that is an error, also for the tasks that were found: without the answer an id
// of ECS's that leads to a running task cannot be told from one that nobody has, and callers take
// MISSING for the end of a task. If Berth knows all ids, ECS is not asked.
func (a *Dependencies) findTasks(
	ctx context.Context, clusterName string, ids ...string,
) (map[string]*cluster.Task, error) {
	found := map[string]*cluster.Task{}
	var unknown []string
	for _, id := range ids {
		t, err := a.readTask(ctx, state.TaskKey(clusterName, cluster.TaskOwner(id), id))
		switch {
		case err != nil:
			return nil, err
		case t != nil:
			found[id] = t
		case cluster.TaskOwner(id) != "" && !slices.Contains(unknown, id):
			unknown = append(unknown, id)
		}
	}
	if len(unknown) == 0 {
		return found, nil
	}
	got, err := a.ECS.DescribeTasks(ctx, clusterName, unknown)
	if err != nil {
		return nil, fmt.Errorf("asking ECS about %d tasks, among them %s: %w", len(unknown), unknown[0], err)
	}
	for _, e := range got {
		t, err := a.findStartedTask(ctx, e)
		if t == nil && err == nil {
			t, err = a.readTask(ctx, state.TaskKey(clusterName, observe.ForeignOwner, e.ID))
		}
		if err != nil {
			return nil, err
		}
		if t != nil {
			found[e.ID] = t
		}
	}
	return found, nil
}

// findStartedTask returns the row of an ECS task that Berth started: by the id derived from its
// startedBy and instance, or through the alias of a task that had its id before it had an instance.
func (a *Dependencies) findStartedTask(ctx context.Context, e cluster.ECSTask) (*cluster.Task, error) {
	short, ours := cluster.ParseStartedBy(e.StartedBy)
	if !ours {
		return nil, nil
	}
	derived := cluster.TaskID(e.StartedBy, e.Instance)
	if t, err := a.readTask(ctx, state.TaskKey(e.Cluster, short, derived)); t != nil || err != nil {
		return t, err
	}
	alias, err := state.ReadRow[*state.Alias](ctx, a.State, state.AliasKey(e.Cluster, derived),
		"the alias of task "+e.ID)
	if err != nil || alias == nil {
		return nil, err
	}
	return a.readTask(ctx, state.TaskKey(e.Cluster, alias.Owner, alias.ID))
}

// readTask reads a task's row; nil if there is none.
func (a *Dependencies) readTask(ctx context.Context, key state.Key) (*cluster.Task, error) {
	return state.ReadRow[*cluster.Task](ctx, a.State, key, "task "+cluster.LastPart(key.Sort))
}
