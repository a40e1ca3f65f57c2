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

// mostBalancing is how many calls of Elastic Load Balancing and Cloud Map one round over an outbox makes: they have no
// part in the token bucket of StartTask and StopTask.
const mostBalancing = 100

// drainPatience is how long a task's stop waits for a target group that cannot be had, before it is stopped all the same.
const drainPatience = 5 * time.Minute

// cutOff is how long after a look at a task it may be registered: later its stop may have taken it out already. Work that is
// older may have been begun by somebody who was cut off.
const cutOff = 30 * time.Second

// unknownDelay is how long connections are drained where the target group does not say: the default of Elastic Load
// Balancing.
const unknownDelay = 300 * time.Second

// balancing takes one call's place in the round; false means that the rest has to wait.
func (d *drainer) balancing() bool {
	if d.balanced >= mostBalancing || d.late() {
		d.again(time.Second)
		return false
	}
	d.balanced++
	return true
}

// registering is a task whose registrations are being made.
type registering struct {
	item   state.TargetItem
	target *cluster.Target
	task   *cluster.Task
	looked time.Time
	begun  bool // by somebody else, perhaps, who may have registered it after it was taken out
	left   bool
	// made are registrations that came about, failed those that never will, with the reason; by position.
	made   map[int]bool
	failed map[int]string
}

// targets has tasks registered that run and are wanted, and those deregistered that have ended (S9); what is in the rows
// decides, not what the item was written for. It returns what it has to come back to; begun reports that somebody else may have
// begun with it.
func (d *drainer) targets(items []state.TargetItem, begun bool) (left []state.TargetItem, err error) {
	var wanted, ended []*registering
	var failed []error
	for _, item := range items {
		r, err := d.look(item)
		switch {
		case err != nil:
			failed, left = append(failed, err), append(left, item)
		case r.target == nil:
		case r.task == nil || r.task.Ended():
			r.begun = begun
			ended = append(ended, r)
		case r.task.Active() && r.task.Last == cluster.TaskRunning:
			wanted = append(wanted, r)
		default:
			failed = append(failed, d.undo(r))
		}
	}
	failed = append(failed, d.register(wanted), d.windUp(ended))
	for _, r := range slices.Concat(wanted, ended) {
		if r.left {
			left = append(left, r.item)
		}
	}
	d.progress = d.progress || len(left) < len(items)
	return left, errors.Join(failed...)
}

// look reads the two rows that say what is to be done.
func (d *drainer) look(item state.TargetItem) (*registering, error) {
	r := &registering{item: item, looked: d.Clock.Now(), made: map[int]bool{}, failed: map[int]string{}}
	row, err := d.State.Get(d.ctx, state.TargetKey(d.cluster, item.Owner, item.ID))
	if err != nil {
		return nil, fmt.Errorf("reading the registrations of task %s: %w", item.ID, err)
	}
	if r.target, _ = row.(*cluster.Target); r.target == nil {
		return r, nil
	}
	row, err = d.State.Get(d.ctx, state.TaskKey(d.cluster, item.Owner, item.ID))
	if err != nil {
		return nil, fmt.Errorf("reading task %s: %w", item.ID, err)
	}
	r.task, _ = row.(*cluster.Task)
	return r, nil
}

// register registers what is wanted and not yet registered: first it writes down where, so that whoever takes the task
// out knows of it even if this one dies in the middle of its call.
func (d *drainer) register(wanted []*registering) error {
	located, err := d.locate(wanted)
	if err != nil {
		for _, r := range wanted {
			r.left = true // what was located, too, has to be registered
		}
		return err
	}
	wanted = located
	groups := map[string][]place{}
	for _, r := range wanted {
		for n, g := range r.open() {
			groups[g.ARN] = append(groups[g.ARN], place{r, n})
		}
	}
	var failed []error
	for _, arn := range slices.Sorted(maps.Keys(groups)) {
		if places := groups[arn]; places[0].registration().Registry {
			failed = append(failed, d.registerEntries(places))
		} else {
			failed = append(failed, d.registerGroup(arn, places))
		}
	}
	for _, r := range wanted {
		failed = append(failed, d.registered(r))
	}
	return errors.Join(failed...)
}

// place is one registration of a task.
type place struct {
	*registering
	n int
}

func (p place) registration() cluster.Registration { return p.target.Registrations[p.n] }

// wants reports whether a registration is still to be made, or to be tried again.
func (r *registering) wants(g cluster.Registration) bool {
	return g.State == "" || r.item.Again && g.State == cluster.RegistrationFailed
}

// open are the registrations that are still to be made, by position.
func (r *registering) open() map[int]cluster.Registration {
	open := map[int]cluster.Registration{}
	for n, g := range r.target.Registrations {
		if !r.left && r.wants(g) && g.Address != "" && r.failed[n] == "" {
			open[n] = g
		}
	}
	return open
}

// registerGroup registers addresses with a target group, in one call; one by one where that is refused.
func (d *drainer) registerGroup(arn string, places []place) error {
	err := d.registerTargets(arn, places)
	if len(places) == 1 || places[0].failed[places[0].n] == "" {
		return err
	}
	var failed []error
	for _, p := range places {
		delete(p.failed, p.n) // the refusal may be about another
		failed = append(failed, d.registerTargets(arn, []place{p}))
	}
	return errors.Join(failed...)
}

func (d *drainer) registerTargets(arn string, places []place) error {
	return d.registration(places, func() error {
		addresses := make([]cluster.Address, len(places))
		for i, p := range places {
			addresses[i] = Address(p.registration())
		}
		return d.LoadBalancers.RegisterTargets(d.ctx, arn, addresses)
	})
}

func (d *drainer) registerEntries(places []place) error {
	var failed []error
	for _, p := range places {
		failed = append(failed, d.registration([]place{p}, func() error {
			g := p.registration()
			return d.Registries.RegisterInstance(d.ctx, g.ARN, p.item.ID, Address(g))
		}))
	}
	return errors.Join(failed...)
}

// registration makes one call for some registrations and notes what came of it. A refusal is nobody's error here: it
// stands in the row.
func (d *drainer) registration(places []place, call func() error) error {
	stale := d.Clock.Now().Sub(places[0].looked) > cutOff
	if stale {
		d.again(time.Second)
	}
	if stale || !d.balancing() {
		for _, p := range places {
			p.left = true
		}
		return nil
	}
	err := call()
	for _, p := range places {
		switch {
		case err == nil:
			p.made[p.n] = true
		case refused(err):
			p.failed[p.n] = reason(err)
		default:
			p.left = true
		}
	}
	if err == nil || refused(err) {
		return nil
	}
	d.again(patience(err))
	return err
}

// registered writes down what came of a task's registrations. Whatever came about though the task is being taken out by
// now is ended again.
func (d *drainer) registered(r *registering) error {
	now, err := ChangeTarget(d.ctx, d.State, r.target, func(t *cluster.Target) bool {
		changed := false
		for n := range t.Registrations {
			g := &t.Registrations[n]
			why, failed := r.failed[n]
			switch {
			case !r.wants(*g) || !failed && !r.made[n], failed && g.State == cluster.RegistrationFailed && g.Reason == why:
				continue
			case failed:
				g.State, g.Reason = cluster.RegistrationFailed, why
			default:
				others := slices.ContainsFunc(t.Registrations, func(o cluster.Registration) bool { return o.State == cluster.Registered })
				t.Told = t.Told && (g.State == "" || others) // that it failed was told, of others that they are made
				g.State, g.Reason = cluster.Registered, ""
			}
			changed = true
		}
		return changed
	})
	if err != nil {
		r.left = true
		return err
	}
	var failed []error
	for n := range r.made {
		if now == nil || now.Registrations[n].State == cluster.Deregistered {
			failed = append(failed, d.deregister(r.target, r.target.Registrations[n]))
		}
	}
	return errors.Join(failed...)
}

// undo takes a task out again that was taken out before: somebody who had begun to register it may have done so after
// that.
func (d *drainer) undo(r *registering) error {
	var failed []error
	for _, g := range r.target.Registrations {
		if g.State == cluster.Deregistered && g.Address != "" {
			failed = append(failed, d.deregister(r.target, g))
		}
	}
	return errors.Join(failed...)
}

// deregister takes one address of a task out. What is not there is out.
func (d *drainer) deregister(t *cluster.Target, g cluster.Registration) error {
	var err error
	if g.Registry {
		err = d.Registries.DeregisterInstance(d.ctx, g.ARN, t.Task)
	} else {
		err = d.LoadBalancers.DeregisterTargets(d.ctx, g.ARN, []cluster.Address{Address(g)})
	}
	if refused(err) {
		err = nil
	}
	return cluster.Wrap(err, "deregistering task %s", t.Task)
}

// windUp takes tasks out that have ended, also once more those that somebody may have registered meanwhile, and deletes their
// rows.
func (d *drainer) windUp(ended []*registering) error {
	var failed []error
	for _, r := range ended {
		if err := d.windUpOne(r); err != nil {
			failed, r.left = append(failed, err), true
			d.again(patience(err))
		}
	}
	return errors.Join(failed...)
}

func (d *drainer) windUpOne(r *registering) error {
	for _, g := range r.target.Registrations {
		if g.Address == "" || g.State == cluster.Deregistered && !r.begun || g.State == cluster.RegistrationFailed {
			continue
		}
		taken, err := d.taken(r.target, g)
		if err != nil {
			return err
		}
		if taken {
			continue
		}
		if !d.balancing() {
			r.left = true
			return nil
		}
		if err := d.deregister(r.target, g); err != nil {
			return err
		}
	}
	key := state.KeyOf(r.target)
	_, err := d.State.Write(d.ctx, state.Write{Delete: &key})
	return cluster.Wrap(err, "deleting the registrations of task %s", r.item.ID)
}

// taken reports whether another task of the service has the address by now, as one with the same host port does that
// follows on the same instance.
func (d *drainer) taken(t *cluster.Target, g cluster.Registration) (bool, error) {
	if g.Registry {
		return false, nil
	}
	rows, err := d.State.List(d.ctx, state.Prefix(d.cluster, state.PrefixTarget+t.Owner+"#"))
	if err != nil {
		return false, fmt.Errorf("listing registrations: %w", err)
	}
	return slices.ContainsFunc(rows, func(row state.Row) bool {
		other, ok := row.(*cluster.Target)
		return ok && other.Task != t.Task && slices.ContainsFunc(other.Registrations, func(o cluster.Registration) bool {
			return o.ARN == g.ARN && Address(o) == Address(g) && (o.State == "" || o.State == cluster.Registered)
		})
	}), nil
}

// Address returns the registration's address as load balancers take it.
func Address(g cluster.Registration) cluster.Address {
	return cluster.Address{Host: g.Address, Port: g.Port}
}

// refused reports whether the call was understood and will never be carried out: the target group or the target is not
// there, or not what it must be.
func refused(err error) bool {
	var e *cluster.Error
	if err == nil || errors.Is(err, cluster.ErrAmbiguous) || !errors.As(err, &e) {
		return false
	}
	return !slices.Contains([]cluster.Code{
		cluster.CodeThrottling, cluster.CodeServer, cluster.CodeAccessDenied, cluster.CodeDuplicateRequest, cluster.CodeEntryInUse,
	}, e.Code)
}

// reason is an error in the words of the API.
func reason(err error) string {
	var e *cluster.Error
	if errors.As(err, &e) {
		return e.Error()
	}
	return err.Error()
}

// patience is how long to wait after a call that failed.
func patience(err error) time.Duration {
	if cluster.ErrorCode(err) == cluster.CodeAccessDenied {
		return denied
	}
	return time.Second
}

// ChangeTarget changes a row as it is by now. It gives the row as it is then, nil where there is none any more.
func ChangeTarget(
	ctx context.Context, store state.State, row *cluster.Target, change func(*cluster.Target) bool,
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
