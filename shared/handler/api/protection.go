package api

import (
	"context"
	"errors"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/state"
)

// TaskProtections protects tasks from being stopped by the scheduler.
type TaskProtections struct{ *Dependencies }

// keepProtection is how long the row of a protection is kept after it has ended.
const keepProtection = time.Hour

// Reasons why a task cannot be protected (ECS developer guide, API failure reasons).
const (
	taskNotValid      = "TASK_NOT_VALID"
	deploymentBlocked = "DEPLOYMENT_BLOCKED"
)

// ProtectTasks protects tasks of services from being stopped by the scheduler for d; 0 ends their
// protection. Tasks that cannot be protected are failures:
//   - MISSING: there is no such task.
//   - TASK_NOT_VALID: it belongs to no service, or it is stopping.
//   - DEPLOYMENT_BLOCKED: it belongs to an older deployment, whose end other protected tasks
//     already delay.
func (a *TaskProtections) ProtectTasks(ctx context.Context, clusterName string, ids []string, d time.Duration) (
	out []operation.ProtectedTask, failed []cluster.Failure, err error,
) {
	if _, err := a.findCluster(ctx, clusterName); err != nil {
		return nil, nil, err
	}
	until := a.Clock.Now().Add(d)
	if d == 0 {
		until = time.Time{}
	}
	// The tasks are read under the placement version that the commit moves, so no decision to stop
	// one can come in between.
	protect := func(stamp int64) ([]state.Write, error) {
		var writes []state.Write
		// The function runs again after a lost race.
		out, failed = nil, nil
		found, err := a.findTasks(ctx, clusterName, ids...)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			t := found[id]
			failure, err := a.checkProtectable(ctx, id, t, d > 0)
			if err != nil {
				return nil, err
			}
			if failure != nil {
				failed = append(failed, *failure)
				continue
			}
			isRepeated := slices.ContainsFunc(out, func(p operation.ProtectedTask) bool { return p.Task == t.ID })
			out = append(out, operation.ProtectedTask{Task: t.ID, Until: until})
			if isRepeated { // such as by Berth's id and by ECS's
				continue
			}
			writes = append(writes, state.Write{Any: true, Put: &cluster.Protection{
				Head: cluster.Head{Cluster: clusterName, Stamp: stamp, Expires: a.expiresAfter(d + keepProtection)},
				Task: t.ID, Owner: t.Owner, Until: until,
			}})
		}
		if len(writes) == 0 {
			return nil, errUnchanged
		}
		return writes, nil
	}
	err = a.retryNarrowing(ctx, clusterName, "protecting tasks", func() error {
		return state.TryNarrowing(ctx, a.State, clusterName, a.Clock.Now(), protect)
	})
	if errors.Is(err, errUnchanged) {
		err = nil
	}
	return out, failed, cluster.Wrap(err, "protecting tasks")
}

// DescribeTaskProtections returns until when tasks are protected. Tasks that do not exist or belong
// to no service are failures.
func (a *TaskProtections) DescribeTaskProtections(
	ctx context.Context, clusterName string, ids []string,
) (out []operation.ProtectedTask, failed []cluster.Failure, err error) {
	if _, err := a.findCluster(ctx, clusterName); err != nil {
		return nil, nil, err
	}
	found, err := a.findTasks(ctx, clusterName, ids...)
	if err != nil {
		return nil, nil, err
	}
	for _, id := range ids {
		t := found[id]
		failure, err := a.checkProtectable(ctx, id, t, false)
		if err != nil {
			return nil, nil, err
		}
		if failure != nil {
			failed = append(failed, *failure)
			continue
		}
		p, err := a.protectedUntil(ctx, t)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, operation.ProtectedTask{Task: t.ID, Until: p})
	}
	return out, failed, nil
}

// protectedUntil returns until when a task is protected, zero if it is not. A protection that has
// ended counts as none, even while its row is kept.
func (a *TaskProtections) protectedUntil(ctx context.Context, t *cluster.Task) (time.Time, error) {
	p, err := state.ReadRow[*cluster.Protection](ctx, a.State, state.ProtectionKey(t.Cluster, t.Owner, t.ID),
		"the protection of task "+t.ID)
	return p.ActiveUntil(a.Clock.Now()), err
}

// checkProtectable returns the failure that says why a task cannot be protected, nil if it can. t is nil
// if nobody has a task of that id. on is whether the caller is about to protect it: only then may it
// block a deployment.
func (a *TaskProtections) checkProtectable(
	ctx context.Context, id string, t *cluster.Task, on bool,
) (*cluster.Failure, error) {
	switch {
	case t == nil:
		return new(missingFailure(id)), nil
	case t.Service == "":
		return &cluster.Failure{ARN: id, Reason: taskNotValid, Detail: "The task is not part of a service."}, nil
	case t.HasEnded() || t.Desired == cluster.TaskStopped:
		return &cluster.Failure{ARN: id, Reason: taskNotValid, Detail: "The task is " + string(t.Status()) + "."}, nil
	case !on:
		return nil, nil
	}
	blocked, err := a.blocksDeployment(ctx, t)
	if !blocked {
		return nil, err
	}
	return &cluster.Failure{
		ARN: id, Reason: deploymentBlocked,
		Detail: "The task is of an older deployment, and other protected tasks of older deployments hold up the " +
			"current one.",
	}, nil
}

// blocksDeployment reports whether protecting the task would keep an older deployment alive that
// other protected tasks keep alive already. Extending the task's own protection is allowed.
func (a *TaskProtections) blocksDeployment(ctx context.Context, t *cluster.Task) (bool, error) {
	s, err := a.findService(ctx, t.Cluster, t.Service)
	if err != nil || s == nil || s.Short != t.Owner || s.HasTaskSets() {
		return false, err // a task set holds up no other one
	}
	older := func(revision string) bool {
		return slices.ContainsFunc(s.Older, func(d cluster.Deployment) bool { return d.ID == revision })
	}
	if !older(t.Revision) {
		return false, nil
	}
	protections, err := state.ListRows[*cluster.Protection](ctx, a.State,
		state.Prefix(t.Cluster, state.PrefixProtection+t.Owner+"#"), "the protected tasks of service "+t.Service)
	if err != nil {
		return false, err
	}
	others := false
	for _, p := range protections {
		if !p.IsActive(a.Clock.Now()) {
			continue
		}
		if p.Task == t.ID {
			return false, nil
		}
		other, err := a.readTask(ctx, state.TaskKey(t.Cluster, p.Owner, p.Task))
		if err != nil {
			return false, err
		}
		others = others || other != nil && !other.HasEnded() && older(other.Revision)
	}
	return others, nil
}
