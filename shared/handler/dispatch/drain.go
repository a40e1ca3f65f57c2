package dispatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// A drainingTask is deregistered and waits for its connections to drain before it is stopped.
type drainingTask struct {
	target *cluster.Target
	out    map[string]time.Duration // by ARN where it was deregistered: how long connections drain
	// untried is set if there were too many calls in this round for one about the task.
	untried bool
}

func markUntried(tasks []*drainingTask) {
	for _, b := range tasks {
		b.untried = true
	}
}

// drainStops deregisters the tasks whose stop asks for it from their target groups and from Cloud
// Map, and waits until their connections have drained (S9). It returns, by key, the tasks that may
// be stopped now. It does not wait for a task that is registered nowhere or has ended, nor longer
// than [deregistrationTimeout] for one whose deregistration fails.
func drainStops(ctx context.Context, r *round, o *state.Outbox) (drained map[state.Key]bool, err error) {
	drained = map[state.Key]bool{}
	var busy []*drainingTask
	var failed []error
	for _, s := range o.Stops {
		if !s.Drain {
			continue
		}
		reg, err := readRegistration(ctx, r, state.TargetItem{Owner: s.Owner, ID: s.ID})
		key := state.TaskKey(r.cluster, s.Owner, s.ID)
		switch {
		case err != nil:
			failed = append(failed, err)
			r.retryIn(time.Second)
		case reg.target == nil || reg.task == nil || reg.task.HasEnded():
			drained[key] = true
		default:
			busy = append(busy, &drainingTask{target: reg.target, out: map[string]time.Duration{}})
		}
	}
	failed = append(failed, deregisterDraining(ctx, r, busy))
	for _, b := range busy {
		wait, err := recordDeregistered(ctx, r, b)
		failed = append(failed, err)
		isOverdue := !b.untried &&
			cluster.RemainingWait(o.CreatedAt.Add(deregistrationTimeout), r.now, deregistrationTimeout) == 0
		switch {
		case wait > 0:
			r.retryIn(wait)
		case err != nil && !isOverdue:
			r.retryIn(time.Second)
		case slices.ContainsFunc(b.target.Registrations, isRegistered) && !isOverdue:
			r.retryIn(time.Second)
		default:
			drained[state.TaskKey(r.cluster, b.target.Owner, b.target.Task)] = true
		}
	}
	return drained, errors.Join(failed...)
}

// deregisterDraining deregisters tasks, those of one target group in one call.
func deregisterDraining(ctx context.Context, r *round, busy []*drainingTask) error {
	groups, registry := map[string][]*drainingTask{}, map[string]bool{}
	for _, b := range busy {
		for _, g := range b.target.Registrations {
			switch {
			case !isRegistered(g):
			case g.Address == "":
				b.out[g.ARN] = 0 // never located, so never registered
			default:
				groups[g.ARN], registry[g.ARN] = append(groups[g.ARN], b), g.Registry
			}
		}
	}
	var failed []error
	for _, arn := range slices.Sorted(maps.Keys(groups)) {
		if registry[arn] {
			failed = append(failed, leaveCloudMap(ctx, r, arn, groups[arn]))
		} else {
			failed = append(failed, leaveTargetGroup(ctx, r, arn, groups[arn]))
		}
	}
	return errors.Join(failed...)
}

// leaveTargetGroup deregisters tasks from one target group.
func leaveTargetGroup(ctx context.Context, r *round, arn string, group []*drainingTask) error {
	var addresses []cluster.Address
	for _, b := range group {
		for _, g := range b.target.Registrations {
			if g.ARN == arn && isRegistered(g) && g.Address != "" && !slices.Contains(addresses, TargetAddress(g)) {
				addresses = append(addresses, TargetAddress(g))
			}
		}
	}
	if !r.takeBalancerCall(ctx) {
		markUntried(group)
		return nil
	}
	var delay time.Duration
	err := r.LoadBalancers.DeregisterTargets(ctx, arn, addresses)
	if err == nil {
		delay, err = deregistrationDelay(ctx, r, arn)
	}
	if err != nil && !isRefused(err) {
		r.retryIn(retryDelay(err))
		return fmt.Errorf("deregistering from %s: %w", arn, err)
	}
	if err != nil && len(group) > 1 && !isBalancerGone(err) { // for one of them
		var failed []error
		for _, b := range group {
			failed = append(failed, leaveTargetGroup(ctx, r, arn, []*drainingTask{b}))
		}
		return errors.Join(failed...)
	}
	for _, b := range group {
		b.out[arn] = delay
	}
	return nil
}

// isBalancerGone reports whether a target group or Classic Load Balancer does not exist, so that no task is
// registered there.
func isBalancerGone(err error) bool {
	code := cluster.ErrorCode(err)
	return code == cluster.CodeTargetGroupNotFound || code == cluster.CodeBalancerNotFound
}

// deregistrationDelay returns the deregistration delay of a target group. It asks once a round.
func deregistrationDelay(ctx context.Context, r *round, arn string) (time.Duration, error) {
	if delay, known := r.delays[arn]; known {
		return delay, nil
	}
	delay, err := r.LoadBalancers.DeregistrationDelay(ctx, arn)
	switch {
	case cluster.ErrorCode(err) == cluster.CodeAccessDenied:
		delay = defaultDeregistrationDelay
	case err != nil:
		return 0, err
	}
	if r.delays == nil {
		r.delays = map[string]time.Duration{}
	}
	r.delays[arn] = delay
	return delay, nil
}

// leaveCloudMap deregisters tasks from one Cloud Map service.
func leaveCloudMap(ctx context.Context, r *round, arn string, group []*drainingTask) error {
	var failed []error
	for _, b := range group {
		if !r.takeBalancerCall(ctx) {
			markUntried(group)
			break
		}
		err := r.Registries.DeregisterInstance(ctx, arn, b.target.Task)
		if err != nil && !isRefused(err) {
			r.retryIn(retryDelay(err))
			failed = append(failed, fmt.Errorf("deregistering from %s: %w", arn, err))
			continue
		}
		b.out[arn] = 0
	}
	return errors.Join(failed...)
}

// recordDeregistered records where the task was deregistered, and returns how long its connections
// still drain.
func recordDeregistered(ctx context.Context, r *round, b *drainingTask) (wait time.Duration, err error) {
	now, err := UpdateTarget(ctx, r.State, r.Clock, b.target, func(t *cluster.Target) bool {
		changed := false
		for n := range t.Registrations {
			g := &t.Registrations[n]
			delay, out := b.out[g.ARN]
			// A registration that was located meanwhile may be in the making. The next round
			// deregisters it.
			if !out || !isRegistered(*g) || n >= len(b.target.Registrations) ||
				g.Address != b.target.Registrations[n].Address {
				continue
			}
			g.State, changed = cluster.Deregistered, true
			if delay > 0 {
				g.DrainedAt = r.now.Add(delay)
			}
		}
		return changed
	})
	if err != nil {
		return 0, err
	}
	if now == nil {
		b.target = &cluster.Target{Head: b.target.Head, Owner: b.target.Owner, Task: b.target.Task}
		return 0, nil
	}
	r.progress = r.progress || now != b.target
	b.target = now
	for _, g := range now.Registrations {
		wait = max(wait, cluster.RemainingWait(g.DrainedAt, r.now, maxDeregistrationDelay))
	}
	return wait, nil
}

// deregistrationTimeout is how long the stop of a task waits for a target group whose calls fail.
// Then the task is stopped anyway.
const deregistrationTimeout = 5 * time.Minute

// maxDeregistrationDelay is the longest that Elastic Load Balancing allows.
const maxDeregistrationDelay = time.Hour

// defaultDeregistrationDelay is Elastic Load Balancing's default, used when the target group's own
// may not be read.
const defaultDeregistrationDelay = 300 * time.Second
