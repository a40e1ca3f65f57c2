package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// deregisterUnwanted repeats the deregistration of a task that another environment may have
// registered after it was deregistered.
func deregisterUnwanted(ctx context.Context, r *round, reg *taskRegistration) error {
	var failed []error
	for _, g := range reg.target.Registrations {
		if g.State == cluster.Deregistered && g.Address != "" {
			failed = append(failed, deregisterAddress(ctx, r, reg.target, g))
		}
	}
	return errors.Join(failed...)
}

// deregisterAddress ends one registration. An address that is not registered is no error.
func deregisterAddress(ctx context.Context, r *round, t *cluster.Target, g cluster.Registration) error {
	var err error
	if g.Registry {
		err = r.Registries.DeregisterInstance(ctx, g.ARN, t.Task)
	} else {
		err = r.LoadBalancers.DeregisterTargets(ctx, g.ARN, []cluster.Address{TargetAddress(g)})
	}
	if isRefused(err) {
		err = nil
	}
	return cluster.Wrap(err, "deregistering task %s", t.Task)
}

// deregisterStopped ends the registrations of tasks that have ended and deletes their rows.
// Registrations that another environment may have made meanwhile are ended once more.
func deregisterStopped(ctx context.Context, r *round, ended []*taskRegistration) error {
	var failed []error
	for _, reg := range ended {
		if err := deregisterStoppedTask(ctx, r, reg); err != nil {
			failed, reg.left = append(failed, err), true
			r.retryIn(retryDelay(err))
		}
	}
	return errors.Join(failed...)
}

// deregisterStoppedTask does so for one task. It leaves an address alone that another task of the
// service has taken over, and the row if it has changed since it was read.
func deregisterStoppedTask(ctx context.Context, r *round, reg *taskRegistration) error {
	for _, g := range reg.target.Registrations {
		if g.Address == "" || g.State == cluster.Deregistered && !reg.begun || g.State == cluster.RegistrationFailed {
			continue
		}
		reused, err := isAddressReused(ctx, r, reg.target, g)
		if err != nil {
			return err
		}
		if reused {
			continue
		}
		if !r.takeBalancerCall(ctx) {
			reg.left = true
			return nil
		}
		if err := deregisterAddress(ctx, r, reg.target, g); err != nil {
			return err
		}
	}
	// What another environment has recorded since the row was read may already be registered. The
	// next round ends that, too.
	key := state.KeyOf(reg.target)
	_, err := r.State.Write(ctx, state.Write{Delete: &key, Rev: reg.target.Rev})
	if errors.As(err, new(*state.Conflict)) {
		reg.left = true
		r.retryIn(time.Second)
		return nil
	}
	return cluster.Wrap(err, "deleting the registrations of task %s", reg.item.ID)
}

// isAddressReused reports whether another task of the service has the address now. A task with a
// fixed host port that follows on the same instance does.
func isAddressReused(ctx context.Context, r *round, t *cluster.Target, g cluster.Registration) (bool, error) {
	if g.Registry {
		return false, nil
	}
	rows, err := r.State.List(ctx, state.Prefix(r.cluster, state.PrefixTarget+t.Owner+"#"))
	if err != nil {
		return false, fmt.Errorf("listing registrations: %w", err)
	}
	return slices.ContainsFunc(rows, func(row state.Row) bool {
		other, ok := row.(*cluster.Target)
		return ok && other.Task != t.Task && slices.ContainsFunc(other.Registrations,
			func(o cluster.Registration) bool {
				return o.ARN == g.ARN && TargetAddress(o) == TargetAddress(g) &&
					(o.State == "" || o.State == cluster.Registered)
			})
	}), nil
}
