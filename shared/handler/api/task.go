package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/observe"
	"berth/shared/operation"
	"berth/shared/scaling"
	"berth/shared/state"
)

// WaitForever is the value of the tag berth:wait that never gives a task up.
const WaitForever = "forever"

// SubmitTasks is RunTask and StartTask: it writes a request, waits for placement's answer, and returns the tasks and
// the failures. If no answer comes in time it returns the tasks as PROVISIONING, and they keep their ids.
func (a *Handler) SubmitTasks(ctx context.Context, spec operation.SubmitTasks) ([]*cluster.Task, []cluster.Failure, error) {
	req, err := a.Submit(ctx, spec)
	if err != nil {
		return nil, nil, err
	}
	return a.answered(ctx, req)
}

// answered waits for placement's answer to a request and gives it.
func (a *Handler) answered(ctx context.Context, r *state.Request) ([]*cluster.Task, []cluster.Failure, error) {
	r, err := a.await(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	meta, err := a.known(ctx, r.Cluster)
	if err != nil {
		return nil, nil, err
	}
	return a.answer(ctx, meta, r)
}

// Submit is SubmitTasks without the wait: the request, as written.
func (a *Handler) Submit(ctx context.Context, spec operation.SubmitTasks) (*state.Request, error) {
	if _, err := a.known(ctx, spec.Cluster); err != nil {
		return nil, err
	}
	if old, err := a.submitted(ctx, spec); old != nil || err != nil {
		return old, err
	}
	def, err := a.definition(ctx, spec.Cluster, spec.TaskDefinition)
	if err != nil {
		return nil, err
	}
	managed, err := a.route(ctx, &spec)
	if err != nil {
		return nil, err
	}
	req, err := a.request(spec, def)
	if err != nil {
		return nil, err
	}
	if managed && !req.Wait { // as with ECS: the group is scaled out for them (C2)
		req.Wait = true
		if a.Settings.ProvisioningTimeout > 0 {
			req.WaitUntil = req.CreatedAt.Add(a.Settings.ProvisioningTimeout)
		}
	}
	return a.submit(ctx, req)
}

// request is the row that asks placement for the tasks of spec.
func (a *Handler) request(spec operation.SubmitTasks, def *cluster.TaskDefinition) (*state.Request, error) {
	needs, err := cluster.Needs(def, spec.Overrides)
	if err != nil {
		return nil, err
	}
	now := a.Clock.Now()
	r := &state.Request{
		Head: cluster.Head{Cluster: spec.Cluster, Rev: 1, Expires: a.expiry(a.Settings.KeepRequests)}, Kind: spec.Kind,
		CreatedAt: now, TaskDefinition: def.Name(), Count: spec.Count, Instances: spec.Instances,
		Group: cmp.Or(spec.Group, "family:"+def.Family), StartedBy: spec.StartedBy, Overrides: spec.Overrides,
		Needs: needs, Network: spec.Network, Tags: spec.Tags, Params: spec.Params,
	}
	if err := errors.Join(checkRules(&spec.Rules, def, cluster.Replica), networked(def, spec.Network)); err != nil {
		return nil, err
	}
	if !spec.Rules.Empty() {
		r.Rules = &spec.Rules
	}
	if spec.Token != "" {
		r.ID = tokenID(spec)
	} else {
		r.ID = a.NewID()
	}
	if spec.Wait != "" {
		r.Wait = true
		if spec.Wait != WaitForever {
			d, err := time.ParseDuration(spec.Wait)
			if err != nil || d <= 0 {
				return nil, cluster.Errorf(cluster.CodeInvalidParameter, "Tag berth:wait is %q, expected %q or a duration above 0 such as 10m.", spec.Wait, WaitForever)
			}
			r.WaitUntil = now.Add(d)
		}
	}
	return r, nil
}

// submit writes the request, or finds the one that the same clientToken wrote.
func (a *Handler) submit(ctx context.Context, r *state.Request) (*state.Request, error) {
	_, err := a.State.Write(ctx, state.Write{Put: r})
	var c *state.Conflict
	if !errors.As(err, &c) {
		return r, cluster.Wrap(err, "submitting request %s", r.ID)
	}
	old, ok := c.Row.(*state.Request)
	if !ok || old == nil {
		return nil, fmt.Errorf("submitting request %s: %w", r.ID, err)
	}
	return sameRequest(old, r.Params)
}

// await reads the request until it is answered. When time is up it binds the ids that the caller will be given.
func (a *Handler) await(ctx context.Context, r *state.Request) (*state.Request, error) {
	key := state.KeyOf(r)
	end := a.Clock.Now().Add(a.Settings.RequestWait)
	for !r.Answered {
		if !a.Clock.Now().Before(end) && r.Provisional {
			return r, nil
		}
		if !a.Clock.Now().Before(end) {
			next := *r
			next.Rev++
			next.Provisional = true
			if _, err := a.State.Write(ctx, state.Write{Put: &next}); err == nil {
				return &next, nil
			} else if state.IgnoreConflict(err) != nil {
				return nil, fmt.Errorf("answering request %s provisionally: %w", r.ID, err)
			}
		} else if err := a.Clock.Sleep(ctx, a.Settings.RequestPoll); err != nil {
			return nil, fmt.Errorf("waiting for request %s: %w", r.ID, err)
		}
		row, err := a.State.Get(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("reading request %s: %w", r.ID, err)
		}
		got, ok := row.(*state.Request)
		if !ok || got == nil {
			return nil, fmt.Errorf("reading request %s: its row has gone", r.ID)
		}
		r = got
	}
	return r, nil
}

func (a *Handler) answer(ctx context.Context, meta *state.Meta, r *state.Request) ([]*cluster.Task, []cluster.Failure, error) {
	if !r.Answered {
		return provisional(meta, r), nil, nil
	}
	if err := refusal(r); err != nil {
		return nil, nil, err
	}
	tasks, _, err := a.DescribeTasks(ctx, r.Cluster, r.Tasks)
	return tasks, r.Failures, err
}

// refusal is the error of a request that failed as a whole for a reason that ECS reports as an error.
func refusal(r *state.Request) error {
	if len(r.Tasks) > 0 || len(r.Failures) == 0 {
		return nil
	}
	switch f := r.Failures[0]; f.Reason {
	case cluster.NoInstances:
		return cluster.Errorf(cluster.CodeInvalidParameter, cluster.NoInstances)
	case scaling.LimitExceeded:
		return cluster.Errorf(cluster.CodeClient, "%s %s", f.Reason, f.Detail)
	}
	return nil
}

// provisional are the tasks of a request that was not answered in time.
func provisional(meta *state.Meta, r *state.Request) []*cluster.Task {
	var out []*cluster.Task
	for n := range max(r.Count, len(r.Instances)) {
		out = append(out, &cluster.Task{
			Head: cluster.Head{Cluster: r.Cluster}, ID: cluster.RequestedTaskID(meta.Short, r.ID, n), Owner: meta.Short,
			Group: r.Group, Request: r.ID, TaskDefinition: r.TaskDefinition, Needs: r.Needs, Overrides: r.Overrides,
			StartedByUser: r.StartedBy, Tags: r.Tags, Desired: cluster.TaskRunning, CreatedAt: cluster.At(r.CreatedAt),
		})
	}
	return out
}

// task finds a task by its own id, or by ECS's.
func (a *Handler) task(ctx context.Context, clusterName, id string) (*cluster.Task, error) {
	t, err := a.taskRow(ctx, state.TaskKey(clusterName, cluster.TaskOwner(id), id))
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
	if t, err := a.started(ctx, got[0]); t != nil || err != nil {
		return t, err
	}
	return a.taskRow(ctx, state.TaskKey(clusterName, observe.ForeignOwner, id))
}

// started finds the row of a task that Berth started: ECS says for whom and where, and that gives its key.
func (a *Handler) started(ctx context.Context, e cluster.ECSTask) (*cluster.Task, error) {
	short, ours := cluster.ParseStartedBy(e.StartedBy)
	if !ours {
		return nil, nil
	}
	derived := cluster.TaskID(e.StartedBy, e.Instance)
	if t, err := a.taskRow(ctx, state.TaskKey(e.Cluster, short, derived)); t != nil || err != nil {
		return t, err
	}
	alias, err := a.State.Get(ctx, state.AliasKey(e.Cluster, derived))
	if err != nil {
		return nil, fmt.Errorf("looking up the alias of task %s: %w", e.ID, err)
	}
	if al, ok := alias.(*state.Alias); ok && al != nil {
		return a.taskRow(ctx, state.TaskKey(e.Cluster, al.Owner, al.ID))
	}
	return nil, nil
}

// taskRow reads a task's row; nil where there is none.
func (a *Handler) taskRow(ctx context.Context, key state.Key) (*cluster.Task, error) {
	row, err := a.State.Get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("reading task %s: %w", cluster.LastPart(key.Sort), err)
	}
	t, _ := row.(*cluster.Task)
	return t, nil
}

// StopTask wants a task stopped, by a user. Stopping one that is stopped, or being stopped, changes nothing.
func (a *Handler) StopTask(ctx context.Context, clusterName, id, reason string) (*cluster.Task, error) {
	if _, err := a.known(ctx, clusterName); err != nil {
		return nil, err
	}
	return a.StopKnownTask(ctx, clusterName, id, reason)
}

// StopKnownTask stops a task of a cluster that Berth keeps.
func (a *Handler) StopKnownTask(ctx context.Context, clusterName, id, reason string) (*cluster.Task, error) {
	var out *cluster.Task
	err := state.RetryRaces("stopping task "+id, func() error {
		t, err := a.task(ctx, clusterName, id)
		if err != nil {
			return err
		}
		if t == nil {
			return cluster.Errorf(cluster.CodeInvalidParameter, "The referenced task was not found.")
		}
		if out = t; t.Ended() || t.Desired == cluster.TaskStopped {
			return nil
		}
		out, err = a.stop(ctx, t, cmp.Or(reason, "Task stopped by user"))
		return err
	})
	return out, err
}

func (a *Handler) stop(ctx context.Context, t *cluster.Task, reason string) (*cluster.Task, error) {
	next := *t
	next.Rev++
	next.Desired, next.StopCode, next.Reason = cluster.TaskStopped, cluster.StopUserInitiated, reason
	if t.Instance == "" {
		next.Last, next.Stopped, next.Expires = cluster.TaskStopped, cluster.At(a.Clock.Now()), a.expiry(a.Settings.KeepStopped)
		_, err := a.State.Write(ctx, state.Write{Put: &next})
		return &next, err
	}
	registered, err := a.registered(ctx, t)
	if err != nil {
		return nil, err
	}
	out := &state.Outbox{
		Head: cluster.Head{Cluster: t.Cluster}, ID: "stop-" + t.ID, CreatedAt: a.Clock.Now(),
		Stops: []state.StopItem{{Owner: t.Owner, ID: t.ID, ECSID: t.ECSID, Reason: reason, Drain: registered}},
	}
	return &next, a.State.Commit(ctx, state.Commit{
		Cluster: t.Cluster, Version: state.NoVersion, Writes: []state.Write{
			{Stop: &state.Stop{Task: state.KeyOf(t), Code: cluster.StopUserInitiated, Reason: reason}}, {Put: out, Any: true},
		},
	})
}

// registered reports whether a task is in target groups or Cloud Map, or may be: it is taken out before it is stopped (S9).
func (a *Handler) registered(ctx context.Context, t *cluster.Task) (bool, error) {
	if t.Service == "" {
		return false, nil
	}
	row, err := a.State.Get(ctx, state.TargetKey(t.Cluster, t.Owner, t.ID))
	if err != nil {
		return false, fmt.Errorf("reading the registrations of task %s: %w", t.ID, err)
	}
	target, ok := row.(*cluster.Target)
	return ok && target != nil, nil
}

// DescribeTasks gives the tasks named, by their own ids or ECS's; those that are not there as failures.
func (a *Handler) DescribeTasks(ctx context.Context, clusterName string, ids []string) ([]*cluster.Task, []cluster.Failure, error) {
	if _, err := a.known(ctx, clusterName); err != nil {
		return nil, nil, err
	}
	var out []*cluster.Task
	var missing []cluster.Failure
	for _, id := range ids {
		t, err := a.task(ctx, clusterName, id)
		if err != nil {
			return nil, nil, err
		}
		if t == nil {
			missing = append(missing, cluster.Failure{ARN: id, Reason: "MISSING"})
			continue
		}
		out = append(out, t)
	}
	return out, missing, nil
}

// ListTasks gives the ids of the tasks that match, in order of id; more reports whether there are others after them.
func (a *Handler) ListTasks(ctx context.Context, q operation.ListTasks) (ids []string, more bool, err error) {
	if _, err := a.known(ctx, q.Cluster); err != nil {
		return nil, false, err
	}
	prefix := state.PrefixTask
	if q.Service != "" {
		s, err := a.service(ctx, q.Cluster, q.Service)
		if err != nil {
			return nil, false, err
		}
		if s == nil {
			return nil, false, cluster.Errorf(cluster.CodeServiceNotFound, "Service not found.")
		}
		prefix += s.Short + "#"
	}
	rows, err := a.State.List(ctx, state.Prefix(q.Cluster, prefix))
	if err != nil {
		return nil, false, fmt.Errorf("listing tasks: %w", err)
	}
	desired, asked := cmp.Or(q.Desired, cluster.TaskRunning), &askedFor{Handler: a, known: map[string]*cluster.Service{}}
	for _, row := range rows {
		t, ok := row.(*cluster.Task)
		if !ok || t.ID <= q.After || !matches(t, q, desired) {
			continue
		}
		if q.External != nil {
			if _, external, err := asked.of(ctx, t); err != nil || external != *q.External {
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

func matches(t *cluster.Task, q operation.ListTasks, desired cluster.TaskStatus) bool {
	status := t.Desired
	if t.Ended() {
		status = cluster.TaskStopped
	}
	family, _, _ := strings.Cut(t.TaskDefinition, ":")
	return status == desired && (q.Family == "" || family == q.Family) && (q.Instance == "" || t.Instance == q.Instance) &&
		(q.StartedBy == "" || t.StartedByUser == q.StartedBy || t.Revision == q.StartedBy)
}
