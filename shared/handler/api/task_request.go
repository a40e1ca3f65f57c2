package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/operation"
	"berth/shared/scaling"
	"berth/shared/state"
)

// WaitForever is the value of the tag berth:wait that lets a task wait for an instance without
// limit.
const WaitForever = "forever"

// SubmitTasks answers RunTask and StartTask. It writes a request, waits for placement's answer, and
// returns the tasks and failures. If there is no answer within Settings.RequestWait (5 s by
// default), it returns the tasks as PROVISIONING; placement later uses the same ids, or records the
// tasks as STOPPED.
func (a *Tasks) SubmitTasks(
	ctx context.Context, spec operation.SubmitTasks,
) ([]*cluster.Task, []cluster.Failure, error) {
	req, err := a.SubmitRequest(ctx, spec)
	if err != nil {
		return nil, nil, err
	}
	return a.awaitAnswer(ctx, req)
}

// FindSubmittedTasks answers a call of RunTask that was submitted before with the same clientToken;
// found is false if none was. Like [Services.FindCreatedService] it comes before all checks.
func (a *Tasks) FindSubmittedTasks(
	ctx context.Context, spec operation.SubmitTasks,
) (tasks []*cluster.Task, failed []cluster.Failure, found bool, err error) {
	r, err := a.findRequest(ctx, spec)
	if err != nil || r == nil {
		return nil, nil, false, err
	}
	tasks, failed, err = a.awaitAnswer(ctx, r)
	return tasks, failed, true, err
}

// findRequest returns the request that an earlier call with the same clientToken wrote, nil if none
// did. The token with other parameters is a ConflictException.
func (a *Tasks) findRequest(ctx context.Context, spec operation.SubmitTasks) (*state.Request, error) {
	if spec.Token == "" {
		return nil, nil
	}
	id := tokenID(spec)
	old, err := state.ReadRow[*state.Request](ctx, a.State, state.RequestKey(spec.Cluster, id), "request "+id)
	if err != nil || old == nil {
		return nil, err
	}
	return a.sameRequest(ctx, old, spec.Params)
}

// tokenID returns the id of the request that a clientToken leads to. A token is good for one kind
// of call in one cluster.
func tokenID(spec operation.SubmitTasks) string {
	return cluster.Digest("token", spec.Cluster, string(spec.Kind), spec.Token)
}

// sameRequest returns the request, or refuses a clientToken that comes with other parameters than
// before. The refusal names the tasks of the request that callers may know: placement has chosen them,
// or an answer has promised them.
func (a *Tasks) sameRequest(ctx context.Context, old *state.Request, params string) (*state.Request, error) {
	if old.Params == params {
		return old, nil
	}
	ids := slices.Clone(old.Tasks)
	if !old.Answered && old.Provisional {
		meta, err := a.findCluster(ctx, old.Cluster)
		if err != nil {
			return nil, err
		}
		for _, t := range provisionalTasks(meta, old) {
			ids = append(ids, t.ID)
		}
	}
	return nil, &cluster.Error{Code: cluster.CodeConflict, Resources: ids,
		Message: "The clientToken was used before with other parameters."}
}

// awaitAnswer waits for placement's answer to a request and returns what the caller gets.
func (a *Tasks) awaitAnswer(ctx context.Context, r *state.Request) ([]*cluster.Task, []cluster.Failure, error) {
	r, err := a.pollRequest(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	meta, err := a.findCluster(ctx, r.Cluster)
	if err != nil {
		return nil, nil, err
	}
	return a.answerRequest(ctx, meta, r)
}

// SubmitRequest is [Tasks.SubmitTasks] without the wait. It returns the request as it was written.
func (a *Tasks) SubmitRequest(ctx context.Context, spec operation.SubmitTasks) (*state.Request, error) {
	if _, err := a.findCluster(ctx, spec.Cluster); err != nil {
		return nil, err
	}
	if old, err := a.findRequest(ctx, spec); old != nil || err != nil {
		return old, err
	}
	def, err := a.lookUpDefinition(ctx, spec.Cluster, spec.TaskDefinition)
	if err != nil {
		return nil, err
	}
	managed, err := a.chooseProviders(ctx, &spec)
	if err != nil {
		return nil, err
	}
	req, err := a.newRequest(spec, def)
	if err != nil {
		return nil, err
	}
	// Like ECS, tasks wait while their provider's group is scaled out for them (C2), until the
	// provisioning timeout.
	if managed && !req.Wait {
		req.Wait = true
		if a.Settings.ProvisioningTimeout > 0 {
			req.WaitUntil = req.CreatedAt.Add(a.Settings.ProvisioningTimeout)
		}
	}
	return a.writeRequest(ctx, req)
}

// newRequest returns the row that asks placement for the tasks of spec. It expires after
// Settings.KeepRequests, so a clientToken is remembered that long.
func (a *Tasks) newRequest(spec operation.SubmitTasks, def *cluster.TaskDefinition) (*state.Request, error) {
	needs, err := cluster.TaskNeeds(def, spec.Overrides)
	if err != nil {
		return nil, err
	}
	now, tags := a.Clock.Now(), spec.Tags
	if spec.PropagateTags {
		tags = cluster.MergeTags(def.Tags, tags)
	}
	// Berth's own tags are not sent to ECS, and ECS does not count its own.
	err = checkTagCount("A task of "+def.Name()+" with its propagated tags", cluster.UserTags(tags))
	if err == nil && spec.Options != nil {
		err = checkVolumeTags(spec.Options.Volumes, nil, def.Tags)
	}
	if err != nil {
		return nil, err
	}
	if spec.ManagedTags {
		tags = cluster.MergeTags(tags, cluster.ManagedTags(spec.Cluster, ""))
	}
	r := &state.Request{
		Head: cluster.Head{Cluster: spec.Cluster, Rev: 1, Expires: a.expiresAfter(a.Settings.KeepRequests)},
		Kind: spec.Kind, CreatedAt: now, TaskDefinition: def.Name(), Count: spec.Count, Instances: spec.Instances,
		Group: cmp.Or(spec.Group, "family:"+def.Family), StartedBy: spec.StartedBy,
		Overrides: spec.Overrides.WithOptions(spec.Options),
		Needs:     needs, Network: spec.Network, Tags: tags, Params: spec.Params,
	}
	if spec.Rules.Scaling != nil {
		return nil, cluster.Errorf(cluster.CodeInvalidParameter,
			"Tag %s is given, expected only for services: it changes their desired count.", cluster.TagScaling)
	}
	if err := errors.Join(checkRules(&spec.Rules, def, cluster.Replica), checkNetwork(def, spec.Network)); err != nil {
		return nil, err
	}
	if !spec.Rules.IsEmpty() {
		r.Rules = &spec.Rules
	}
	// The same token leads to the same row.
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
				return nil, cluster.Errorf(cluster.CodeInvalidParameter,
					"Tag berth:wait is %q, expected %q or a duration above 0 such as 10m.", spec.Wait, WaitForever)
			}
			r.WaitUntil = now.Add(d)
		}
	}
	return r, nil
}

// writeRequest writes the request. If a call with the same clientToken wrote it meanwhile, it
// returns that one.
func (a *Tasks) writeRequest(ctx context.Context, r *state.Request) (*state.Request, error) {
	_, err := a.State.Write(ctx, state.Write{Put: r})
	var c *state.Conflict
	if !errors.As(err, &c) {
		return r, cluster.Wrap(err, "submitting request %s", r.ID)
	}
	old, ok := c.Row.(*state.Request)
	if !ok || old == nil {
		return nil, fmt.Errorf("submitting request %s: %w", r.ID, err)
	}
	return a.sameRequest(ctx, old, r.Params)
}

// pollRequest reads the request until placement has answered it, or the time is up. In that case it
// marks the request as Provisional: the caller is about to get ids, which placement must then use.
//
// The mark and the answer are writes of one row, so exactly one of them comes first.
func (a *Tasks) pollRequest(ctx context.Context, r *state.Request) (*state.Request, error) {
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
		got, err := state.ReadRow[*state.Request](ctx, a.State, key, "request "+r.ID)
		if err != nil {
			return nil, err
		}
		if got == nil {
			return nil, fmt.Errorf("reading request %s: its row no longer exists", r.ID)
		}
		r = got
	}
	return r, nil
}

// answerRequest returns the tasks and failures of a request. An unanswered one has its provisional
// tasks.
func (a *Tasks) answerRequest(
	ctx context.Context, meta *state.Meta, r *state.Request,
) ([]*cluster.Task, []cluster.Failure, error) {
	if !r.Answered {
		return provisionalTasks(meta, r), nil, nil
	}
	if err := requestError(r); err != nil {
		return nil, nil, err
	}
	tasks, _, err := a.DescribeTasks(ctx, r.Cluster, r.Tasks)
	return tasks, r.Failures, err
}

// requestError returns the error of a request for which ECS fails the call as a whole: no instances
// in the cluster, or too many tasks in PROVISIONING (C4). Other failures are items of the answer.
func requestError(r *state.Request) error {
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

// provisionalTasks returns the tasks of an unanswered request as PROVISIONING. Their ids derive
// from the request, so placement arrives at the same ones.
func provisionalTasks(meta *state.Meta, r *state.Request) []*cluster.Task {
	var out []*cluster.Task
	for n := range max(r.Count, len(r.Instances)) {
		out = append(out, &cluster.Task{
			Head: cluster.Head{Cluster: r.Cluster},
			TaskSpec: cluster.TaskSpec{
				ID: cluster.RequestedTaskID(meta.Short, r.ID, n), Owner: meta.Short, Group: r.Group, Request: r.ID,
				TaskDefinition: r.TaskDefinition, Needs: r.Needs, Overrides: r.Overrides, StartedByUser: r.StartedBy,
				Tags: r.Tags, CreatedAt: cluster.At(r.CreatedAt),
			},
			TaskAssignment: cluster.TaskAssignment{Desired: cluster.TaskRunning},
		})
	}
	return out
}

// chooseProviders gives tasks of RunTask the cluster's default capacity provider strategy, if the
// caller named neither a strategy nor a launch type (S14). managed reports whether one of their
// providers has managed scaling, so that waiting may help.
func (a *Tasks) chooseProviders(ctx context.Context, spec *operation.SubmitTasks) (managed bool, err error) {
	if spec.Kind != cluster.RunTask {
		return false, nil
	}
	if len(spec.Rules.Providers) == 0 && !spec.Launched {
		if spec.Rules.Providers, err = a.defaultStrategy(ctx, spec.Cluster); err != nil {
			return false, err
		}
	} else if err := a.checkAssociated(ctx, spec.Cluster, spec.Rules.Providers); err != nil {
		return false, err
	}
	for _, s := range spec.Rules.Providers {
		p, err := handler.FindProvider(ctx, a.State, s.Provider)
		if err != nil {
			return false, err
		}
		managed = managed || p != nil && p.Scaling.Enabled
	}
	return managed, nil
}
