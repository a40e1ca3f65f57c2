package dispatch

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// updateRegistrations registers the tasks that run and deregisters those that have ended (S9). The
// rows decide which, not the reason why the item was written. It returns the items that need
// another round. begun means that another environment may have begun with these items.
func updateRegistrations(
	ctx context.Context, r *round, items []state.TargetItem, begun bool,
) (left []state.TargetItem, err error) {
	var wanted, ended []*taskRegistration
	var failed []error
	for _, item := range items {
		reg, err := readRegistration(ctx, r, item)
		switch {
		case err != nil:
			failed, left = append(failed, err), append(left, item)
		case reg.target == nil:
		case reg.task == nil || reg.task.HasEnded():
			reg.begun = begun
			ended = append(ended, reg)
		case reg.task.IsActive() && reg.task.Last == cluster.TaskRunning:
			wanted = append(wanted, reg)
		default:
			failed = append(failed, deregisterUnwanted(ctx, r, reg))
		}
	}
	failed = append(failed, registerTasks(ctx, r, wanted), deregisterStopped(ctx, r, ended))
	for _, reg := range slices.Concat(wanted, ended) {
		if reg.left {
			left = append(left, reg.item)
		}
	}
	r.progress = r.progress || len(left) < len(items)
	return left, errors.Join(failed...)
}

// registerTasks makes the registrations that are missing. It records each address before it calls,
// so that the function that deregisters the task later knows the address even if this environment
// dies during the call.
func registerTasks(ctx context.Context, r *round, wanted []*taskRegistration) error {
	located, err := locateTasks(ctx, r, wanted)
	if err != nil {
		for _, reg := range wanted {
			reg.left = true // those already located are not registered yet either
		}
		return err
	}
	wanted = located
	groups := map[string][]pendingRegistration{}
	for _, reg := range wanted {
		for n, g := range reg.missingRegistrations() {
			groups[g.ARN] = append(groups[g.ARN], pendingRegistration{reg, n})
		}
	}
	var failed []error
	for _, arn := range slices.Sorted(maps.Keys(groups)) {
		if pending := groups[arn]; pending[0].current().Registry {
			failed = append(failed, registerInCloudMap(ctx, r, pending))
		} else {
			failed = append(failed, registerWithGroup(ctx, r, arn, pending))
		}
	}
	for _, reg := range wanted {
		failed = append(failed, recordOutcome(ctx, r, reg))
	}
	return errors.Join(failed...)
}

// A pendingRegistration is one registration of a task: that at position n.
type pendingRegistration struct {
	*taskRegistration
	n int
}

// current returns the registration as the row has it.
func (p pendingRegistration) current() cluster.Registration { return p.target.Registrations[p.n] }

// missingRegistrations returns the registrations that have an address and are not made yet, by
// position.
func (reg *taskRegistration) missingRegistrations() map[int]cluster.Registration {
	missing := map[int]cluster.Registration{}
	for n, g := range reg.target.Registrations {
		if !reg.left && reg.isWanted(g) && g.Address != "" && reg.failed[n] == "" {
			missing[n] = g
		}
	}
	return missing
}

// registerWithGroup registers addresses with a target group in one call. If that is refused it
// registers them one by one, as the refusal may concern only one of them.
func registerWithGroup(ctx context.Context, r *round, arn string, pending []pendingRegistration) error {
	err := registerTargets(ctx, r, arn, pending)
	if len(pending) == 1 || pending[0].failed[pending[0].n] == "" {
		return err
	}
	var failed []error
	for _, p := range pending {
		delete(p.failed, p.n)
		failed = append(failed, registerTargets(ctx, r, arn, []pendingRegistration{p}))
	}
	return errors.Join(failed...)
}

// registerTargets registers addresses with a target group in one call.
func registerTargets(ctx context.Context, r *round, arn string, pending []pendingRegistration) error {
	return callAndNote(ctx, r, pending, func() error {
		addresses := make([]cluster.Address, len(pending))
		for i, p := range pending {
			addresses[i] = TargetAddress(p.current())
		}
		return r.LoadBalancers.RegisterTargets(ctx, arn, addresses)
	})
}

// registerInCloudMap registers tasks with Cloud Map, which takes one instance a call.
func registerInCloudMap(ctx context.Context, r *round, pending []pendingRegistration) error {
	var failed []error
	for _, p := range pending {
		failed = append(failed, callAndNote(ctx, r, []pendingRegistration{p}, func() error {
			g := p.current()
			return r.Registries.RegisterInstance(ctx, g.ARN, p.item.ID, TargetAddress(g))
		}))
	}
	return errors.Join(failed...)
}

// callAndNote makes one call for some registrations and notes the outcome of each. A refusal is not
// an error: it is recorded in the row, where the service sees it.
func callAndNote(ctx context.Context, r *round, pending []pendingRegistration, call func() error) error {
	stale := r.Clock.Now().Sub(pending[0].readAt) > registrationLease
	if stale {
		r.retryIn(time.Second)
	}
	if stale || !r.takeBalancerCall(ctx) {
		for _, p := range pending {
			p.left = true
		}
		return nil
	}
	err := call()
	for _, p := range pending {
		switch {
		case err == nil:
			p.made[p.n] = true
		case isRefused(err):
			p.failed[p.n] = apiMessage(err)
		default:
			p.left = true
		}
	}
	if err == nil || isRefused(err) {
		return nil
	}
	r.retryIn(retryDelay(err))
	return err
}

// recordOutcome records the outcome of a task's registrations. It ends those that were made
// although the task was deregistered meanwhile.
func recordOutcome(ctx context.Context, r *round, reg *taskRegistration) error {
	now, err := UpdateTarget(ctx, r.State, r.Clock, reg.target, func(t *cluster.Target) bool {
		changed := false
		for n := range t.Registrations {
			g := &t.Registrations[n]
			why, failed := reg.failed[n]
			switch {
			case !reg.isWanted(*g) || !failed && !reg.made[n],
				failed && g.State == cluster.RegistrationFailed && g.Reason == why:
				continue
			case failed:
				g.State, g.Reason = cluster.RegistrationFailed, why
			default:
				others := slices.ContainsFunc(t.Registrations,
					func(o cluster.Registration) bool { return o.State == cluster.Registered })
				// an event already said that it failed, or that the others were made
				t.RegistrationEmitted = t.RegistrationEmitted && (g.State == "" || others)
				g.State, g.Reason = cluster.Registered, ""
			}
			changed = true
		}
		return changed
	})
	if err != nil {
		reg.left = true
		return err
	}
	var failed []error
	for n := range reg.made {
		if now == nil || now.Registrations[n].State == cluster.Deregistered {
			failed = append(failed, deregisterAddress(ctx, r, reg.target, reg.target.Registrations[n]))
		}
	}
	return errors.Join(failed...)
}
