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
	"berth/shared/state"
)

// drain carries out the cluster's outbox rows, the oldest first, as far as tokens go. Each row ends deleted, or reduced
// to what is still to do, with a due row that has it looked at again. turn is that of the due row which asks for it.
func (h *Handler) drain(ctx context.Context, name string, turn int) error {
	d := &drainer{Handler: h, ctx: ctx, cluster: name, now: h.Clock.Now()}
	r := state.Prefix(name, state.PrefixOutbox)
	r.Limit = firstPage
	var failed []error
	for !d.empty {
		rows, err := h.State.List(ctx, r)
		if err != nil {
			return fmt.Errorf("listing the outbox: %w", err)
		}
		failed = append(failed, d.rows(rows))
		if len(rows) < r.Limit {
			break
		}
		r.Limit = min(2*r.Limit, lastPage)
		r.From = state.KeyOf(rows[len(rows)-1]).Sort + "\x00"
	}
	if d.next > 0 {
		if turn++; d.progress {
			turn = 0
		}
		h.Figures.Most(handler.Turns, float64(turn))
		if turn > 0 && turn%100 == 0 {
			handler.Logger(h.Log).Warn("the outbox keeps turning without progress", "cluster", name, "generation", turn)
		}
		failed = append(failed, h.later(ctx, name, d.next, turn))
	}
	return errors.Join(failed...)
}

func (d *drainer) rows(rows []state.Row) error {
	for _, row := range rows {
		o, ok := row.(*state.Outbox)
		if !ok {
			continue
		}
		d.Figures.Most(handler.OutboxAge, d.now.Sub(waitsSince(o)).Seconds())
		if !d.now.Before(o.NotBefore) {
			d.estimate += calls(o)
		}
	}
	var failed []error
	for _, row := range rows {
		o, ok := row.(*state.Outbox)
		if !ok {
			continue
		}
		if wait := o.NotBefore.Sub(d.now); wait > 0 {
			d.again(wait)
			continue
		}
		failed = append(failed, cluster.Wrap(d.row(o), "outbox row %s", o.ID))
	}
	return errors.Join(failed...)
}

// waitsSince is since when the row has waited for Berth: the time that connections take to drain is not Berth's.
func waitsSince(o *state.Outbox) time.Time {
	draining := len(o.Stops) > 0 && len(o.Starts)+len(o.Targets)+len(o.Publish) == 0 &&
		!slices.ContainsFunc(o.Stops, func(s state.StopItem) bool { return !s.Drain })
	if draining && o.NotBefore.After(o.CreatedAt) {
		return o.NotBefore
	}
	return o.CreatedAt
}

// calls is how many calls of ECS the row needs that take a token. Stops that have to drain first need none until they
// have waited; those that then do are few at once.
func calls(o *state.Outbox) int {
	shared, n := 0, 0
	for _, s := range o.Stops {
		if !s.Drain || !o.NotBefore.IsZero() {
			n++
		}
	}
	for _, s := range o.Starts {
		if s.Alone {
			n++
		} else {
			shared++
		}
	}
	return n + (shared+cluster.MaxStart-1)/cluster.MaxStart
}

// drainer is one round over one cluster's outbox.
type drainer struct {
	*Handler
	ctx      context.Context
	cluster  string
	now      time.Time
	tokens   int
	estimate int // calls that the rest of the round may need
	empty    bool
	balanced int                      // calls of Elastic Load Balancing and Cloud Map
	delays   map[string]time.Duration // deregistration delays, by target group
	progress bool                     // something was done
	next     time.Duration            // when to come back; 0 for no reason to
	wait     time.Duration            // the same, for the row at hand
}

// again asks for another round after wait, or earlier.
func (d *drainer) again(wait time.Duration) {
	if d.next == 0 || wait < d.next {
		d.next = wait
	}
	if d.wait == 0 || wait < d.wait {
		d.wait = wait
	}
}

// late reports that the round has to end.
func (d *drainer) late() bool {
	end, ok := d.ctx.Deadline()
	return ok && end.Sub(d.Clock.Now()) < handler.Reserve
}

// token takes one call's token; false means that the bucket is empty and the rest has to wait.
func (d *drainer) token() bool {
	if d.late() {
		d.empty, d.tokens = true, 0
	}
	if d.tokens == 0 && !d.empty {
		got, err := d.lease(d.ctx, max(1, d.estimate))
		if err != nil {
			handler.Logger(d.Log).Error("leasing tokens", "cluster", d.cluster, "error", err)
		}
		d.tokens, d.empty = got, got == 0
	}
	if d.tokens == 0 {
		d.again(time.Second)
		return false
	}
	d.tokens--
	d.estimate--
	return true
}

// row carries out one outbox row.
func (d *drainer) row(o *state.Outbox) error {
	left := *o
	left.Starts, left.Stops, left.Targets, left.Publish = nil, nil, nil, nil
	d.wait = 0
	ripe, err := d.drained(o)
	failed := []error{err}
	for _, group := range startGroups(o.Starts) {
		rest, err := d.start(o, group)
		left.Starts = append(left.Starts, rest...)
		failed = append(failed, err)
	}
	for _, s := range o.Stops {
		if s.Drain && !ripe[state.TaskKey(d.cluster, s.Owner, s.ID)] {
			left.Stops = append(left.Stops, s)
			continue
		}
		done, err := d.stop(s)
		if !done {
			left.Stops = append(left.Stops, s)
		}
		failed = append(failed, err)
	}
	left.Targets, err = d.targets(o.Targets, d.now.Sub(o.CreatedAt) > cutOff)
	left.Publish = d.publish(o.Publish)
	return errors.Join(append(failed, err, d.settle(o, &left))...)
}

// items is how much the row has to be done.
func items(o *state.Outbox) int {
	return len(o.Starts) + len(o.Stops) + len(o.Targets) + len(o.Publish)
}

// settle deletes the row, or writes what is left of it. Another environment that did so first is as good.
func (d *drainer) settle(o, left *state.Outbox) error {
	d.progress = d.progress || items(left) < items(o)
	if items(left) == 0 {
		key := state.KeyOf(o)
		_, err := d.State.Write(d.ctx, state.Write{Delete: &key})
		return cluster.Wrap(err, "deleting the row")
	}
	if d.wait == 0 {
		d.again(time.Second)
	}
	settling := d.wait > time.Second
	if !settling && items(left) == items(o) {
		return nil
	}
	if settling {
		left.NotBefore = d.now.Add(d.wait)
	}
	left.Rev++
	_, err := d.State.Write(d.ctx, state.Write{Put: left})
	return cluster.Wrap(state.IgnoreConflict(err), "writing the rest of the row")
}

// startGroups are the starts that one call can take together.
func startGroups(starts []state.StartItem) [][]state.StartItem {
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

func (d *drainer) key(o *state.Outbox, s state.StartItem) state.Key {
	id := cmp.Or(s.ID, cluster.TaskID(o.Batch, s.Instance))
	return state.TaskKey(d.cluster, o.Owner, id)
}

// start claims the tasks of one call and starts those it could claim. It returns what is still to do.
func (d *drainer) start(o *state.Outbox, group []state.StartItem) (left []state.StartItem, err error) {
	if !d.token() {
		return group, nil
	}
	var claimed []*cluster.Task
	var items []state.StartItem
	if !d.protect(group) {
		d.tokens++ // not used
		d.again(time.Second)
		return group, nil
	}
	for _, s := range group {
		t, done, err := d.claim(o, s)
		switch {
		case err != nil || !done:
			left = append(left, s)
		case t != nil:
			claimed, items = append(claimed, t), append(items, s)
		}
		if err != nil {
			handler.Logger(d.Log).Error("claiming a task", "cluster", d.cluster, "instance", s.Instance, "error", err)
			d.again(time.Second)
		}
	}
	if len(claimed) == 0 {
		d.tokens++ // not used
		return left, nil
	}
	if err := d.call(o, claimed); err != nil {
		return append(left, items...), err
	}
	return left, nil
}

// claim takes the right to start a task. A nil task with done says that there is nothing to start any more; done false
// that its last attempt is in doubt and has to settle.
func (d *drainer) claim(o *state.Outbox, s state.StartItem) (t *cluster.Task, done bool, err error) {
	key := d.key(o, s)
	attempt := d.refused[key] + 1
	for range state.MaxRaces {
		row, err := d.State.Write(d.ctx, state.Write{Claim: &state.Claim{Task: key, Attempt: attempt, At: d.Clock.Now()}})
		var c *state.Conflict
		if err == nil {
			delete(d.refused, key)
			t, _ := row.(*cluster.Task)
			return t, true, nil
		}
		if !errors.As(err, &c) {
			return nil, false, fmt.Errorf("claiming task %s: %w", key.Sort, err)
		}
		old, ok := c.Row.(*cluster.Task)
		if !ok || old == nil || old.Desired != cluster.TaskRunning || old.Last != "" {
			delete(d.refused, key)
			return nil, true, nil
		}
		if old.Attempt >= attempt {
			settled, err := d.doubt(old)
			if err != nil || !settled {
				return nil, false, err
			}
		}
		attempt = old.Attempt + 1
	}
	return nil, false, fmt.Errorf("claiming task %s: lost %d races", key.Sort, state.MaxRaces)
}

// call is one StartTask. The tasks it starts will report themselves; those that ECS refused are written off.
func (d *drainer) call(o *state.Outbox, claimed []*cluster.Task) error {
	c := cluster.StartCall{
		Cluster: d.cluster, TaskDefinition: o.TaskDefinition, StartedBy: o.Batch, Overrides: claimed[0].Overrides, Network: o.Network, Launch: o.Launch,
	}
	for _, t := range claimed {
		c.Instances = append(c.Instances, t.Instance)
	}
	answer, err := d.ECS.StartTask(d.ctx, c)
	if err != nil {
		return d.callFailed(claimed, err)
	}
	d.Figures.Add(handler.TasksStarted, len(claimed)-len(answer.Failures))
	d.Figures.Add(handler.TasksRefused, len(answer.Failures))
	reasons := map[string]string{}
	for _, f := range answer.Failures {
		reasons[cluster.LastPart(f.ARN)] = f.Reason
	}
	for _, t := range claimed {
		reason, refused := reasons[t.Instance]
		if !refused {
			continue
		}
		// First: ECS knows something of the instance that its row does not say. Where that stays so, the service does not
		// try it again at once.
		if err := d.observer().RecheckAt(d.ctx, d.cluster, t.Instance, d.now); err != nil {
			return err
		}
		// The instance could not take it: that says nothing of the revision (S7).
		if err := d.writeOff(t, cluster.StopRefused, cluster.StartFailed+reason); err != nil {
			return err
		}
	}
	return nil
}

// callFailed sorts out a StartTask that gave no answer. What may have been carried out has to settle. What ECS surely
// did not carry out is tried again: soon when throttled, in a while when it is Berth's own fault (no permission). Only
// a refusal of this very start, which would be refused again, ends its tasks.
func (d *drainer) callFailed(claimed []*cluster.Task, err error) error {
	switch code := cluster.ErrorCode(err); {
	case errors.Is(err, cluster.ErrAmbiguous) || code == cluster.CodeServer:
		d.again(d.Settings.Settle)
	case code == cluster.CodeThrottling:
		d.retry(claimed, time.Second)
	case code == cluster.CodeClient || code == cluster.CodeInvalidParameter || code == cluster.CodeClusterNotFound:
		d.Figures.Add(handler.TasksRefused, len(claimed))
		for _, t := range claimed {
			if err := d.writeOff(t, cluster.StopFailedToStart, cluster.StartFailed+err.Error()); err != nil {
				return err
			}
		}
		return nil
	default:
		d.retry(claimed, denied)
	}
	return fmt.Errorf("starting tasks: %w", err)
}

// denied is how long to wait after a call that Berth may not make.
const denied = 30 * time.Second

// retry has tasks started again that ECS surely did not start: their attempts need not settle.
func (d *drainer) retry(claimed []*cluster.Task, wait time.Duration) {
	if d.refused == nil {
		d.refused = map[state.Key]int32{}
	}
	for _, t := range claimed {
		d.refused[state.KeyOf(t)] = t.Attempt
	}
	d.again(wait)
}

// writeOff records a task as STOPPED that ECS refused. One that has changed meanwhile is left as it is.
func (d *drainer) writeOff(t *cluster.Task, code, reason string) error {
	_, err := d.State.Write(d.ctx, state.Write{Observe: d.ended(t, code, reason)})
	return cluster.Wrap(state.IgnoreConflict(err), "writing off task %s", t.ID)
}

// ended is a task as STOPPED of which ECS has nothing.
func (d *drainer) ended(t *cluster.Task, code, reason string) *state.Observation {
	return &state.Observation{
		Task: state.KeyOf(t), Version: t.Version + 1, Last: cluster.TaskStopped, Stopped: d.now, StopCode: code, Reason: reason,
		Expires: d.now.Add(d.Settings.KeepStopped).Unix(),
	}
}
