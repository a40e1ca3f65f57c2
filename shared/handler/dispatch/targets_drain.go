package dispatch

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// draining is a task that is taken out of its target groups before it is stopped.
type draining struct {
	target *cluster.Target
	out    map[string]time.Duration // by ARN, how long connections are drained where it has been taken out
}

// drained takes the tasks of those stops that want it out of their target groups and of Cloud Map, and waits until
// connections are drained (S9). It returns those that may be stopped by now, by key: a task that is registered nowhere,
// that has ended, or that cannot be taken out for as long as [drainPatience] is not waited for.
func (d *drainer) drained(o *state.Outbox) (ripe map[state.Key]bool, err error) {
	ripe = map[state.Key]bool{}
	var busy []*draining
	var failed []error
	for _, s := range o.Stops {
		if !s.Drain {
			continue
		}
		r, err := d.look(state.TargetItem{Owner: s.Owner, ID: s.ID})
		key := state.TaskKey(d.cluster, s.Owner, s.ID)
		switch {
		case err != nil:
			failed = append(failed, err)
			d.again(time.Second)
		case r.target == nil || r.task == nil || r.task.Ended():
			ripe[key] = true
		default:
			busy = append(busy, &draining{target: r.target, out: map[string]time.Duration{}})
		}
	}
	failed = append(failed, d.takeOut(busy))
	for _, b := range busy {
		wait, err := d.takenOut(b)
		failed = append(failed, err)
		late := d.now.Sub(o.CreatedAt) > drainPatience
		switch {
		case wait > 0:
			d.again(wait)
		case err != nil && !late:
			d.again(time.Second)
		case slices.ContainsFunc(b.target.Registrations, in) && !late:
			d.again(time.Second)
		default:
			ripe[state.TaskKey(d.cluster, b.target.Owner, b.target.Task)] = true
		}
	}
	return ripe, errors.Join(failed...)
}

// in reports whether the registration stands, or may be about to.
func in(g cluster.Registration) bool { return g.State == "" || g.State == cluster.Registered }

// takeOut deregisters tasks, those of one target group in one call.
func (d *drainer) takeOut(busy []*draining) error {
	groups, registry := map[string][]*draining{}, map[string]bool{}
	for _, b := range busy {
		for _, g := range b.target.Registrations {
			switch {
			case !in(g):
			case g.Address == "":
				b.out[g.ARN] = 0 // nobody has begun to register it
			default:
				groups[g.ARN], registry[g.ARN] = append(groups[g.ARN], b), g.Registry
			}
		}
	}
	var failed []error
	for _, arn := range slices.Sorted(maps.Keys(groups)) {
		if registry[arn] {
			failed = append(failed, d.leaveRegistry(arn, groups[arn]))
		} else {
			failed = append(failed, d.leaveGroup(arn, groups[arn]))
		}
	}
	return errors.Join(failed...)
}

func (d *drainer) leaveGroup(arn string, group []*draining) error {
	var addresses []cluster.Address
	for _, b := range group {
		for _, g := range b.target.Registrations {
			if g.ARN == arn && in(g) && g.Address != "" && !slices.Contains(addresses, Address(g)) {
				addresses = append(addresses, Address(g))
			}
		}
	}
	if !d.balancing() {
		return nil
	}
	var delay time.Duration
	err := d.LoadBalancers.DeregisterTargets(d.ctx, arn, addresses)
	if err == nil {
		delay, err = d.delay(arn)
	}
	if err != nil && !refused(err) {
		d.again(patience(err))
		return fmt.Errorf("deregistering from %s: %w", arn, err)
	}
	for _, b := range group {
		b.out[arn] = delay
	}
	return nil
}

// delay is the deregistration delay of a target group, asked for once a round.
func (d *drainer) delay(arn string) (time.Duration, error) {
	if delay, known := d.delays[arn]; known {
		return delay, nil
	}
	delay, err := d.LoadBalancers.DeregistrationDelay(d.ctx, arn)
	switch {
	case cluster.ErrorCode(err) == cluster.CodeAccessDenied:
		delay = unknownDelay
	case err != nil:
		return 0, err
	}
	if d.delays == nil {
		d.delays = map[string]time.Duration{}
	}
	d.delays[arn] = delay
	return delay, nil
}

func (d *drainer) leaveRegistry(arn string, group []*draining) error {
	var failed []error
	for _, b := range group {
		if !d.balancing() {
			break
		}
		err := d.Registries.DeregisterInstance(d.ctx, arn, b.target.Task)
		if err != nil && !refused(err) {
			d.again(patience(err))
			failed = append(failed, fmt.Errorf("deregistering from %s: %w", arn, err))
			continue
		}
		b.out[arn] = 0
	}
	return errors.Join(failed...)
}

// takenOut writes down where the task has been taken out, and says how long its connections are still being drained.
func (d *drainer) takenOut(b *draining) (wait time.Duration, err error) {
	now, err := ChangeTarget(d.ctx, d.State, b.target, func(t *cluster.Target) bool {
		changed := false
		for n := range t.Registrations {
			g := &t.Registrations[n]
			delay, out := b.out[g.ARN]
			// One that was located meanwhile may be being registered: it is taken out with the next round.
			if !out || !in(*g) || n >= len(b.target.Registrations) || g.Address != b.target.Registrations[n].Address {
				continue
			}
			g.State, changed = cluster.Deregistered, true
			if delay > 0 {
				g.DrainedAt = d.now.Add(delay)
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
	d.progress = d.progress || now != b.target
	b.target = now
	for _, g := range now.Registrations {
		wait = max(wait, g.DrainedAt.Sub(d.now))
	}
	return wait, nil
}
