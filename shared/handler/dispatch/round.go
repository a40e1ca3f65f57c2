package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/state"
)

// A round is one pass over one cluster's outbox: what it may still use, and what it learned about
// when to come back.
type round struct {
	*Handler
	cluster string
	now     time.Time // when the round began

	tokens        int                      // leased and not yet used
	tokensWanted  int                      // calls that the rest of the round may need
	bucketEmpty   bool                     // no more tokens are to be had in this round
	balancerCalls int                      // calls of Elastic Load Balancing and Cloud Map so far
	delays        map[string]time.Duration // deregistration delays, by target group

	progress   bool          // something was done
	nextRound  time.Duration // how long until another round is needed; 0: none is
	rowRetryIn time.Duration // the same for the row at hand
}

// drain carries out the cluster's outbox rows, oldest first, while there are tokens. Each row ends
// deleted, or reduced to what is still to do, together with a due row for the next round.
// idleRounds counts the rounds before this one that did nothing.
func (h *Handler) drain(ctx context.Context, name string, idleRounds int) error {
	r := &round{Handler: h, cluster: name, now: h.Clock.Now()}
	page := state.Prefix(name, state.PrefixOutbox)
	page.Limit = firstPage
	var failed []error
	for !r.bucketEmpty {
		rows, err := h.State.List(ctx, page)
		if err != nil {
			return fmt.Errorf("listing the outbox: %w", err)
		}
		failed = append(failed, carryOutRows(ctx, r, rows))
		if len(rows) < page.Limit {
			break
		}
		page.Limit = min(2*page.Limit, lastPage)
		page.From = state.KeyOf(rows[len(rows)-1]).Sort + "\x00"
	}
	if r.nextRound > 0 {
		if idleRounds++; r.progress {
			idleRounds = 0
		}
		h.Figures.SetMax(handler.IdleRounds, float64(idleRounds))
		if idleRounds > 0 && idleRounds%100 == 0 {
			handler.Logger(h.Log).Warn("the outbox keeps turning without progress", "cluster", name, "generation",
				idleRounds)
		}
		failed = append(failed, h.scheduleDrain(ctx, name, r.nextRound, idleRounds))
	}
	return errors.Join(failed...)
}

// carryOutRows carries out the rows that may be acted on now. The failure of one row does not hold
// up the others.
func carryOutRows(ctx context.Context, r *round, rows []state.Row) error {
	for _, row := range rows {
		o, ok := row.(*state.Outbox)
		if !ok {
			continue
		}
		r.Figures.SetMax(handler.OutboxAge, r.now.Sub(waitingSince(o)).Seconds())
		if !r.now.Before(o.NotBefore) {
			r.tokensWanted += countCalls(o)
		}
	}
	var failed []error
	for _, row := range rows {
		o, ok := row.(*state.Outbox)
		if !ok {
			continue
		}
		if wait := o.NotBefore.Sub(r.now); wait > 0 {
			r.retryIn(wait)
			continue
		}
		failed = append(failed, cluster.Wrap(carryOutRow(ctx, r, o), "outbox row %s", o.ID))
	}
	return errors.Join(failed...)
}

// carryOutRow carries out one outbox row and records what is left of it.
func carryOutRow(ctx context.Context, r *round, o *state.Outbox) error {
	left := *o
	left.Starts, left.Stops, left.Targets, left.Publish = nil, nil, nil, nil
	r.rowRetryIn = 0
	drained, err := drainStops(ctx, r, o)
	failed := []error{err}
	for _, group := range groupStarts(o.Starts) {
		rest, err := startGroup(ctx, r, o, group)
		left.Starts = append(left.Starts, rest...)
		failed = append(failed, err)
	}
	for _, s := range o.Stops {
		if s.Drain && !drained[state.TaskKey(r.cluster, s.Owner, s.ID)] {
			left.Stops = append(left.Stops, s)
			continue
		}
		done, err := stopTask(ctx, r, s)
		if !done {
			left.Stops = append(left.Stops, s)
		}
		failed = append(failed, err)
	}
	left.Targets, err = updateRegistrations(ctx, r, o.Targets, r.now.Sub(o.CreatedAt) > registrationLease)
	left.Publish = publishEvents(ctx, r, o.Publish)
	return errors.Join(append(failed, err, finishRow(ctx, r, o, &left))...)
}

// finishRow deletes the row, or writes what is left of it. Losing that write to another environment
// is fine: it did the same work.
func finishRow(ctx context.Context, r *round, o, left *state.Outbox) error {
	r.progress = r.progress || countItems(left) < countItems(o)
	if countItems(left) == 0 {
		key := state.KeyOf(o)
		_, err := r.State.Write(ctx, state.Write{Delete: &key})
		return cluster.Wrap(err, "deleting the row")
	}
	if r.rowRetryIn == 0 {
		r.retryIn(time.Second)
	}
	settling := r.rowRetryIn > time.Second
	if !settling && countItems(left) == countItems(o) {
		return nil
	}
	if settling {
		left.NotBefore = r.now.Add(r.rowRetryIn)
	}
	left.Rev++
	_, err := r.State.Write(ctx, state.Write{Put: left})
	return cluster.Wrap(state.IgnoreConflict(err), "writing the rest of the row")
}

// retryIn asks for another round after wait, or sooner if one was asked for sooner.
func (r *round) retryIn(wait time.Duration) {
	if r.nextRound == 0 || wait < r.nextRound {
		r.nextRound = wait
	}
	if r.rowRetryIn == 0 || wait < r.rowRetryIn {
		r.rowRetryIn = wait
	}
}

// isOutOfTime reports whether the invocation is about to end.
func (r *round) isOutOfTime(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ok && end.Sub(r.Clock.Now()) < handler.Reserve
}

// takeToken takes the token of one StartTask or StopTask. False means that the bucket is empty and
// the rest has to wait.
func (r *round) takeToken(ctx context.Context) bool {
	if r.isOutOfTime(ctx) {
		r.bucketEmpty, r.tokens = true, 0
	}
	if r.tokens == 0 && !r.bucketEmpty {
		got, err := r.leaseTokens(ctx, max(1, r.tokensWanted))
		if err != nil {
			handler.Logger(r.Log).Error("leasing tokens", "cluster", r.cluster, "error", err)
		}
		r.tokens, r.bucketEmpty = got, got == 0
	}
	if r.tokens == 0 {
		r.retryIn(time.Second)
		return false
	}
	r.tokens--
	r.tokensWanted--
	return true
}

// returnToken gives back a token that was taken and not used.
func (r *round) returnToken() { r.tokens++ }

// takeBalancerCall counts one call of Elastic Load Balancing or Cloud Map. False means that the
// rest has to wait.
func (r *round) takeBalancerCall(ctx context.Context) bool {
	if r.balancerCalls >= maxBalancerCalls || r.isOutOfTime(ctx) {
		r.retryIn(time.Second)
		return false
	}
	r.balancerCalls++
	return true
}

// waitingSince returns since when the row has waited for Berth. While connections drain, it does
// not wait for Berth.
func waitingSince(o *state.Outbox) time.Time {
	draining := len(o.Stops) > 0 && len(o.Starts)+len(o.Targets)+len(o.Publish) == 0 &&
		!slices.ContainsFunc(o.Stops, func(s state.StopItem) bool { return !s.Drain })
	if draining && o.NotBefore.After(o.CreatedAt) {
		return o.NotBefore
	}
	return o.CreatedAt
}

// countCalls returns how many calls that take a token the row needs: ten shared starts make one
// call, a start with overrides of its own one, a stop one. Stops that drain first need none until
// they have waited; few of them come due at once.
func countCalls(o *state.Outbox) int {
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

// countItems returns how many things the row asks for.
func countItems(o *state.Outbox) int {
	return len(o.Starts) + len(o.Stops) + len(o.Targets) + len(o.Publish)
}
