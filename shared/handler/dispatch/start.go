package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/quota"
	"berth/shared/state"
)

// groupStarts splits starts into those that one StartTask call can make: ten at most, and one where
// the overrides are its own.
func groupStarts(starts []state.StartItem) [][]state.StartItem {
	var groups [][]state.StartItem
	var shared []state.StartItem
	for _, s := range starts {
		if s.Alone {
			groups = append(groups, []state.StartItem{s})
		} else {
			shared = append(shared, s)
		}
	}
	for g := range slices.Chunk(shared, cluster.MaxStart) {
		groups = append(groups, g)
	}
	return groups
}

// taskKey returns the key of the task that a start item names.
func taskKey(clusterName string, o *state.Outbox, s state.StartItem) state.Key {
	id := cmp.Or(s.ID, cluster.TaskID(o.Batch, s.Instance))
	return state.TaskKey(clusterName, o.Owner, id)
}

// startTasks makes the starts of an outbox row and returns what is left to start. The tokens are taken
// before the claims: a claimed task must be started, or its start counts as unknown and has to
// settle.
func startTasks(ctx context.Context, r *round, o *state.Outbox) ([]state.StartItem, error) {
	groups := groupStarts(o.Starts)
	var left []state.StartItem
	ready := groups[:0]
	for _, group := range groups {
		switch {
		case !r.takeToken(ctx, quota.Starts):
			left = append(left, group...)
		case !protectInstances(ctx, r, group):
			r.returnToken(quota.Starts)
			r.retryIn(time.Second)
			left = append(left, group...)
		default:
			ready = append(ready, group)
		}
	}
	rest, failed := make([][]state.StartItem, len(ready)), make([]error, len(ready))
	r.Parallel.Run(ctx, len(ready), func(ctx context.Context, i int) {
		rest[i], failed[i] = startGroup(ctx, r, o, ready[i])
	})
	return append(left, slices.Concat(rest...)...), errors.Join(failed...)
}

// startGroup claims the tasks of one StartTask call and starts those that it could claim. It
// returns what is left to start.
func startGroup(ctx context.Context, r *round, o *state.Outbox, group []state.StartItem) (left []state.StartItem,
	err error) {
	var claimed []*cluster.Task
	var items []state.StartItem
	claims := make([]claim, len(group))
	r.Parallel.Run(ctx, len(group), func(ctx context.Context, i int) { claims[i] = claimTask(ctx, r, o, group[i]) })
	for i, s := range group {
		c := claims[i]
		switch {
		case c.err != nil || !c.done:
			left = append(left, s)
		case c.task != nil:
			claimed, items = append(claimed, c.task), append(items, s)
		}
		if c.err != nil {
			handler.Logger(r.Log).Error("claiming a task", "cluster", r.cluster, "instance", s.Instance, "error", c.err)
			r.retryIn(time.Second)
		}
	}
	if len(claimed) == 0 {
		r.returnToken(quota.Starts)
		return left, nil
	}
	if err := callStartTask(ctx, r, o, claimed); err != nil {
		return append(left, items...), err
	}
	return left, nil
}

// A claim is what became of the attempt to claim a task. A nil task with done means that it no longer
// needs to be started. done is false while the outcome of its last attempt is unknown and has to
// settle first.
type claim struct {
	task *cluster.Task
	done bool
	err  error
}

// claimTask takes the right to start a task.
func claimTask(ctx context.Context, r *round, o *state.Outbox, s state.StartItem) claim {
	key := taskKey(r.cluster, o, s)
	// An attempt that ECS certainly did not carry out need not settle: it is claimed again at once.
	attempt := r.refusedAttempt(key) + 1
	for range state.MaxRaces {
		row, err := r.State.Write(ctx, state.Write{Claim: &state.Claim{Task: key, Attempt: attempt, At: r.Clock.Now()}})
		var c *state.Conflict
		if err == nil {
			r.setRefusedAttempt(key, 0)
			t, _ := row.(*cluster.Task)
			return claim{task: t, done: true}
		}
		if !errors.As(err, &c) {
			return claim{err: fmt.Errorf("claiming task %s: %w", key.Sort, err)}
		}
		old, ok := c.Row.(*cluster.Task)
		if !ok || old == nil || old.Desired != cluster.TaskRunning || old.Last != "" {
			r.setRefusedAttempt(key, 0)
			return claim{done: true}
		}
		if old.Attempt >= attempt {
			mayStart, err := resolveUnknownStart(ctx, r, old)
			if err != nil || !mayStart {
				return claim{err: err}
			}
		}
		attempt = old.Attempt + 1
	}
	return claim{err: fmt.Errorf("claiming task %s: lost %d races", key.Sort, state.MaxRaces)}
}

// callStartTask calls StartTask once. Started tasks report themselves through events; those that
// ECS refused are recorded as STOPPED.
func callStartTask(ctx context.Context, r *round, o *state.Outbox, claimed []*cluster.Task) error {
	c := cluster.StartCall{
		Cluster: r.cluster, TaskDefinition: o.TaskDefinition, StartedBy: o.Batch, Overrides: claimed[0].Overrides,
		Network: o.Network, Launch: o.Launch,
	}
	for _, t := range claimed {
		c.Instances = append(c.Instances, t.Instance)
	}
	answer, err := r.ECS.StartTask(ctx, c)
	if err != nil {
		return handleFailedCall(ctx, r, claimed, err)
	}
	r.Telemetry.AddCount(handler.TasksStarted, len(claimed)-len(answer.Failures))
	r.Telemetry.AddCount(handler.TasksRefused, len(answer.Failures))
	reasons := map[string]string{}
	for _, f := range answer.Failures {
		reasons[cluster.LastPart(f.ARN)] = f.Reason
	}
	for _, t := range claimed {
		reason, refused := reasons[t.Instance]
		if !refused {
			continue
		}
		// Recheck the instance before recording the refusal: ECS knows something about it that its
		// row does not say. While that lasts, the service must not try the instance again at once.
		if err := r.newObserver(r.State).SchedulePollAt(ctx, r.cluster, t.Instance, r.now); err != nil {
			return err
		}
		if adopted, err := adoptEarlierStart(ctx, r, t); err != nil {
			return err
		} else if adopted {
			continue
		}
		// The instance could not take the task. That says nothing about the revision, so it is no
		// failed start (S7).
		if err := recordRefused(ctx, r, t, cluster.StopRefused, cluster.StartFailed+reason); err != nil {
			return err
		}
	}
	return nil
}

// handleFailedCall decides what follows a StartTask that returned an error:
//   - The outcome is unknown: the attempt has to settle, then ECS is asked what became of it.
//   - ECS did nothing: the start is retried, after a second when throttled, after
//     [accessDeniedDelay] without permission.
//   - ECS refuses this start and would refuse it again: the tasks are recorded as STOPPED.
func handleFailedCall(ctx context.Context, r *round, claimed []*cluster.Task, err error) error {
	switch code := cluster.ErrorCode(err); {
	case errors.Is(err, cluster.ErrAmbiguous) || code == cluster.CodeServer:
		r.retryIn(r.Settings.Settle)
	case code == cluster.CodeThrottling:
		retryStarts(r, claimed, time.Second)
	case code == cluster.CodeClient || code == cluster.CodeInvalidParameter || code == cluster.CodeClusterNotFound:
		r.Telemetry.AddCount(handler.TasksRefused, len(claimed))
		for _, t := range claimed {
			if err := recordRefused(ctx, r, t, cluster.StopFailedToStart, cluster.StartFailed+err.Error()); err != nil {
				return err
			}
		}
		return nil
	default:
		retryStarts(r, claimed, accessDeniedDelay)
	}
	return fmt.Errorf("starting tasks: %w", err)
}

// retryStarts asks for another attempt at tasks that ECS certainly did not start. Their attempts
// need not settle.
func retryStarts(r *round, claimed []*cluster.Task, wait time.Duration) {
	for _, t := range claimed {
		r.setRefusedAttempt(state.KeyOf(t), t.Attempt)
	}
	r.retryIn(wait)
}

// recordRefused records a task that ECS refused as STOPPED, unless its row has changed meanwhile: a
// later attempt may have started it.
func recordRefused(ctx context.Context, r *round, t *cluster.Task, code, reason string) error {
	refusal := stoppedObservation(r, t, code, reason)
	refusal.Attempt = t.Attempt
	_, err := r.State.Write(ctx, state.Write{Observe: refusal})
	return cluster.Wrap(state.IgnoreConflict(err), "recording task %s as stopped", t.ID)
}
