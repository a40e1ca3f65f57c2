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

// TaskProtections keeps tasks from being stopped by the scheduler.
type TaskProtections struct{ *Dependencies }

// keepProtection is how long the row of a protection outlives it.
const keepProtection = time.Hour

// Why a task cannot be protected (ECS developer guide, API failure reasons).
const (
	taskNotValid      = "TASK_NOT_VALID"
	deploymentBlocked = "DEPLOYMENT_BLOCKED"
)

// ProtectTasks keeps tasks of services from being stopped by the scheduler for d; 0 ends their
// protection. Tasks that cannot be protected come as failures: MISSING, TASK_NOT_VALID for one that
// is of no service or is stopping, and DEPLOYMENT_BLOCKED for one of an older deployment whose end
// other protected tasks hold up already.
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
	// The tasks are read with the version that the commit holds to: no decision to stop one comes
	// in between.
	err = state.CommitNarrowingAll(ctx, a.State, clusterName, func(stamp int64) ([]state.Write, error) {
		var writes []state.Write
		out, failed = nil, nil
		for _, id := range ids {
			t, failure, err := a.findProtectable(ctx, clusterName, id, d > 0)
			if err != nil {
				return nil, err
			}
			if failure != nil {
				failed = append(failed, *failure)
				continue
			}
			out = append(out, operation.ProtectedTask{Task: t.ID, Until: until})
			writes = append(writes, state.Write{Any: true, Put: &cluster.Protection{
				Head: cluster.Head{Cluster: clusterName, Stamp: stamp, Expires: a.expiresAfter(d + keepProtection)},
				Task: t.ID, Owner: t.Owner, Until: until,
			}})
		}
		if len(writes) == 0 {
			return nil, errUnchanged
		}
		return writes, nil
	})
	if errors.Is(err, errUnchanged) {
		err = nil
	}
	return out, failed, cluster.Wrap(err, "protecting tasks")
}

// DescribeTaskProtections says until when tasks are protected; those that are not there, or of no
// service, come as failures.
func (a *TaskProtections) DescribeTaskProtections(
	ctx context.Context, clusterName string, ids []string,
) (out []operation.ProtectedTask, failed []cluster.Failure, err error) {
	if _, err := a.findCluster(ctx, clusterName); err != nil {
		return nil, nil, err
	}
	for _, id := range ids {
		t, failure, err := a.findProtectable(ctx, clusterName, id, false)
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

// protectedUntil is until when a task is protected; zero where it is not.
func (a *TaskProtections) protectedUntil(ctx context.Context, t *cluster.Task) (time.Time, error) {
	p, err := findRow[*cluster.Protection](ctx, a.State, state.ProtectionKey(t.Cluster, t.Owner, t.ID),
		"the protection of task "+t.ID)
	if err != nil || p == nil || !p.Until.After(a.Clock.Now()) {
		return time.Time{}, err
	}
	return p.Until, nil
}

// findProtectable is the task, or why it cannot be protected; on reports whether it is about to be.
func (a *TaskProtections) findProtectable(
	ctx context.Context, clusterName, id string, on bool,
) (*cluster.Task, *cluster.Failure, error) {
	t, err := a.findTask(ctx, clusterName, id)
	switch {
	case err != nil:
		return nil, nil, err
	case t == nil:
		return nil, new(missingFailure(id)), nil
	case t.Service == "":
		return nil, &cluster.Failure{ARN: id, Reason: taskNotValid, Detail: "The task is not part of a service."}, nil
	case t.HasEnded() || t.Desired == cluster.TaskStopped:
		return nil, &cluster.Failure{ARN: id, Reason: taskNotValid, Detail: "The task is " + string(t.Status()) + "."},
			nil
	case !on:
		return t, nil, nil
	}
	blocked, err := a.blocksDeployment(ctx, t)
	if blocked {
		return nil, &cluster.Failure{
			ARN: id, Reason: deploymentBlocked,
			Detail: "The task is of an older deployment, and other protected tasks of older deployments hold up the current one.",
		}, err
	}
	return t, nil, err
}

// blocksDeployment reports whether protecting the task would go on holding up a deployment that
// other protected tasks hold up. To prolong what a task has is allowed.
func (a *TaskProtections) blocksDeployment(ctx context.Context, t *cluster.Task) (bool, error) {
	s, err := a.findService(ctx, t.Cluster, t.Service)
	if err != nil || s == nil || s.Short != t.Owner {
		return false, err
	}
	older := func(revision string) bool {
		return slices.ContainsFunc(s.Older, func(d cluster.Deployment) bool { return d.ID == revision })
	}
	if !older(t.Revision) {
		return false, nil
	}
	protections, err := listRows[*cluster.Protection](
		ctx, a.State, state.Prefix(t.Cluster, state.PrefixProtection+t.Owner+"#"),
		"the protected tasks of service "+t.Service)
	if err != nil {
		return false, err
	}
	others := false
	for _, p := range protections {
		if !p.Until.After(a.Clock.Now()) {
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
