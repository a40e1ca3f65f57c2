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

// maxBalancerCalls bounds the calls of Elastic Load Balancing and Cloud Map in one round. They take
// no token of the bucket that StartTask and StopTask share.
const maxBalancerCalls = 100

// deregistrationTimeout is how long the stop of a task waits for a target group whose calls fail.
// Then the task is stopped anyway.
const deregistrationTimeout = 5 * time.Minute

// registrationLease is how long after reading a task's rows it may still be registered. Later its
// stop may have deregistered it already. An outbox row older than this may have been begun by an
// environment that was cut off.
const registrationLease = 30 * time.Second

// defaultDeregistrationDelay is Elastic Load Balancing's default, used when the target group's own
// may not be read.
const defaultDeregistrationDelay = 300 * time.Second

// A taskRegistration is one task whose registrations are being made or ended in this round.
type taskRegistration struct {
	item   state.TargetItem
	target *cluster.Target
	task   *cluster.Task
	readAt time.Time // when both rows were read
	begun  bool      // another environment may have begun, and may have registered the task after its deregistration
	left   bool      // something is left for a later round
	// made and failed are this round's outcomes by position in target.Registrations; a failure has
	// its reason.
	made   map[int]bool
	failed map[int]string
}

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
			failed = append(failed, deregisterAgain(ctx, r, reg))
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

// readRegistration reads the task and its registrations. A target of nil means that there is
// nothing to do.
func readRegistration(ctx context.Context, r *round, item state.TargetItem) (*taskRegistration, error) {
	reg := &taskRegistration{item: item, readAt: r.Clock.Now(), made: map[int]bool{}, failed: map[int]string{}}
	row, err := r.State.Get(ctx, state.TargetKey(r.cluster, item.Owner, item.ID))
	if err != nil {
		return nil, fmt.Errorf("reading the registrations of task %s: %w", item.ID, err)
	}
	if reg.target, _ = row.(*cluster.Target); reg.target == nil {
		return reg, nil
	}
	row, err = r.State.Get(ctx, state.TaskKey(r.cluster, item.Owner, item.ID))
	if err != nil {
		return nil, fmt.Errorf("reading task %s: %w", item.ID, err)
	}
	reg.task, _ = row.(*cluster.Task)
	return reg, nil
}

// registerTasks makes the registrations that are missing. It records each address before it calls,
// so that whoever deregisters the task later knows the address even if this environment dies during
// the call.
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
		for n, g := range reg.missing() {
			groups[g.ARN] = append(groups[g.ARN], pendingRegistration{reg, n})
		}
	}
	var failed []error
	for _, arn := range slices.Sorted(maps.Keys(groups)) {
		if pending := groups[arn]; pending[0].registration().Registry {
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

func (p pendingRegistration) registration() cluster.Registration { return p.target.Registrations[p.n] }

// wants reports whether a registration has not been made yet, or has failed and should be retried.
func (reg *taskRegistration) wants(g cluster.Registration) bool {
	return g.State == "" || reg.item.Again && g.State == cluster.RegistrationFailed
}

// missing returns the registrations that have an address and are not made yet, by position.
func (reg *taskRegistration) missing() map[int]cluster.Registration {
	missing := map[int]cluster.Registration{}
	for n, g := range reg.target.Registrations {
		if !reg.left && reg.wants(g) && g.Address != "" && reg.failed[n] == "" {
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
			addresses[i] = Address(p.registration())
		}
		return r.LoadBalancers.RegisterTargets(ctx, arn, addresses)
	})
}

// registerInCloudMap registers tasks with Cloud Map, which takes one instance a call.
func registerInCloudMap(ctx context.Context, r *round, pending []pendingRegistration) error {
	var failed []error
	for _, p := range pending {
		failed = append(failed, callAndNote(ctx, r, []pendingRegistration{p}, func() error {
			g := p.registration()
			return r.Registries.RegisterInstance(ctx, g.ARN, p.item.ID, Address(g))
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
	now, err := UpdateTarget(ctx, r.State, reg.target, func(t *cluster.Target) bool {
		changed := false
		for n := range t.Registrations {
			g := &t.Registrations[n]
			why, failed := reg.failed[n]
			switch {
			case !reg.wants(*g) || !failed && !reg.made[n],
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

// deregisterAgain repeats the deregistration of a task that another environment may have registered
// after it was deregistered.
func deregisterAgain(ctx context.Context, r *round, reg *taskRegistration) error {
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
		err = r.LoadBalancers.DeregisterTargets(ctx, g.ARN, []cluster.Address{Address(g)})
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
// service has taken over.
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
	key := state.KeyOf(reg.target)
	_, err := r.State.Write(ctx, state.Write{Delete: &key})
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
				return o.ARN == g.ARN && Address(o) == Address(g) && (o.State == "" || o.State == cluster.Registered)
			})
	}), nil
}

// Address returns the registration's address as load balancers take it.
func Address(g cluster.Registration) cluster.Address {
	return cluster.Address{Host: g.Address, Port: g.Port}
}

// isRefused reports whether the API understood the call and will never carry it out: the target
// group or target does not exist, or is of the wrong type.
func isRefused(err error) bool {
	var e *cluster.Error
	if err == nil || errors.Is(err, cluster.ErrAmbiguous) || !errors.As(err, &e) {
		return false
	}
	return !slices.Contains([]cluster.Code{
		cluster.CodeThrottling, cluster.CodeServer, cluster.CodeAccessDenied, cluster.CodeDuplicateRequest,
		cluster.CodeEntryInUse,
	}, e.Code)
}

// apiMessage returns the error text as the API gave it.
func apiMessage(err error) string {
	var e *cluster.Error
	if errors.As(err, &e) {
		return e.Error()
	}
	return err.Error()
}

// retryDelay returns how long to wait after a failed call.
func retryDelay(err error) time.Duration {
	if cluster.ErrorCode(err) == cluster.CodeAccessDenied {
		return denied
	}
	return time.Second
}

// UpdateTarget applies change to the newest version of a row, retrying when another writer was
// first. It returns the row as it is then, nil if it was deleted. change returns false if nothing
// changes.
func UpdateTarget(
	ctx context.Context, store state.Store, row *cluster.Target, change func(*cluster.Target) bool,
) (*cluster.Target, error) {
	for range state.MaxRaces {
		next := *row
		next.Registrations = slices.Clone(row.Registrations)
		if !change(&next) {
			return row, nil
		}
		next.Rev++
		_, err := store.Write(ctx, state.Write{Put: &next})
		var c *state.Conflict
		if !errors.As(err, &c) {
			return &next, cluster.Wrap(err, "writing the registrations of task %s", row.Task)
		}
		now, err := store.Get(ctx, state.KeyOf(row))
		if err != nil {
			return nil, fmt.Errorf("reading the registrations of task %s: %w", row.Task, err)
		}
		var ok bool
		if row, ok = now.(*cluster.Target); !ok || row == nil {
			return nil, nil
		}
	}
	return nil, fmt.Errorf("writing the registrations of task %s: lost %d races", row.Task, state.MaxRaces)
}
