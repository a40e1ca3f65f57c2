package dispatch

import (
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

// drainOutbox carries out the cluster's outbox rows while there are tokens. Each row ends deleted,
// or reduced to what is still to do, and a due row starts the next round if one is needed.
// idleRounds counts the rounds before this one that did nothing.
//
// It reports whether nothing is left to do, or another round is scheduled that will do it. That may be so
// with an error: a call that is throttled is one, and is scheduled again.
func (h *Handler) drainOutbox(ctx context.Context, name string, idleRounds int) (settled bool, err error) {
	r := &round{Handler: h, State: state.NewFeed(h.State, h.Clock), cluster: name, now: h.Clock.Now()}
	rows, err := h.readOutbox(ctx, name, r.now)
	if err != nil {
		return false, fmt.Errorf("listing the outbox: %w", err)
	}
	failed := []error{carryOutRows(ctx, r, rows), r.State.Flush(ctx)}
	if r.nextRound > 0 {
		if idleRounds++; r.progress {
			idleRounds = 0
		}
		h.Telemetry.SetMax(handler.IdleRounds, float64(idleRounds))
		if idleRounds > 0 && idleRounds%100 == 0 {
			handler.Logger(h.Log).Warn("rounds over the outbox make no progress", "cluster", name, "generation",
				idleRounds)
		}
		unscheduled := h.scheduleDrain(ctx, name, r.nextRound, idleRounds)
		return unscheduled == nil, errors.Join(append(failed, unscheduled)...)
	}
	err = errors.Join(failed...)
	return err == nil, err
}

// firstPage and lastPage bound how many outbox rows are read at once. The first page is small,
// because a few large rows may use up all calls and the rest would be read for nothing. Pages
// double from there.
const firstPage, lastPage = 2, 1024

// maxStarts is how many starts that may be carried out now a round looks at; the oldest of them
// share the calls. Of stops it looks at as many as a full bucket has calls for: to read more of
// them, round after round, would cost more than their rotation is worth.
const maxStarts = 20_000

// readOutbox reads a cluster's outbox, oldest rows first. Rows with starts sort before those that
// have only stops; once it has enough starts it continues at the stops, so that neither hides the
// other.
func (h *Handler) readOutbox(ctx context.Context, name string, now time.Time) (rows []*state.Outbox, err error) {
	next := state.Prefix(name, state.PrefixOutbox)
	next.Limit = firstPage
	firstStop := state.PrefixOutbox + state.OutboxStops
	for starts, stops := 0, 0; starts < maxStarts && float64(stops) < h.Settings.StartBurst; {
		page, err := state.ListRows[*state.Outbox](ctx, h.State, next, "outbox rows")
		if err != nil {
			return nil, err
		}
		for _, o := range page {
			switch {
			case retryWait(o, now, h.Settings.Settle) > 0:
			case state.KeyOf(o).Sort < firstStop:
				starts += countItems(o)
			default:
				stops += countItems(o)
			}
		}
		rows = append(rows, page...)
		if len(page) < next.Limit {
			break
		}
		next.From = state.KeyOf(page[len(page)-1]).Sort + "\x00"
		next.Limit = min(2*next.Limit, lastPage)
		if starts >= maxStarts && next.From < firstStop {
			next.From, next.Limit, starts = firstStop, firstPage, 0
		}
	}
	return rows, nil
}

// carryOutRows carries out the rows that may be acted on now. The failure of one row does not hold
// up the others.
func carryOutRows(ctx context.Context, r *round, rows []*state.Outbox) error {
	for _, o := range rows {
		// Measured before anything is done, so that a round that fails counts too.
		r.Telemetry.SetMax(handler.OutboxAge, r.now.Sub(waitingSince(o)).Seconds())
		if retryWait(o, r.now, r.Settings.Settle) > 0 {
			continue
		}
		d := quota.Demand{Owner: ownerOf(o), Since: waitingSince(o), Deadline: o.Deadline}
		d.Calls = countStartCalls(o)
		r.addDemand(quota.Starts, o.ID, d)
		d.Calls = countStopCalls(o)
		r.addDemand(quota.Stops, o.ID, d)
	}
	var failed []error
	for _, o := range rows {
		if wait := retryWait(o, r.now, r.Settings.Settle); wait > 0 {
			r.retryIn(wait)
			continue
		}
		r.row = o.ID
		failed = append(failed, cluster.Wrap(carryOutRow(ctx, r, o), "outbox row %s", o.ID))
	}
	return errors.Join(failed...)
}

// ownerOf returns the owner of a row's tasks. A row of stops may have tasks of several; it counts
// for the first.
func ownerOf(o *state.Outbox) string {
	if o.Owner == "" && len(o.Stops) > 0 {
		return o.Stops[0].Owner
	}
	return o.Owner
}

// carryOutRow carries out one outbox row and writes what is left of it.
//
// Stops that drain are deregistered first, so that their connections drain while the rest of the
// row is carried out. Starts come before other stops: replacements of unhealthy tasks start first
// (S6). Registrations and events take no tokens, and come last.
func carryOutRow(ctx context.Context, r *round, o *state.Outbox) error {
	left := *o
	left.Starts, left.Stops, left.Targets, left.Publish = nil, nil, nil, nil
	r.rowRetryIn = 0
	drained, err := drainStops(ctx, r, o)
	failed := []error{err}
	left.Starts, err = startTasks(ctx, r, o)
	failed = append(failed, err)
	left.Stops, err = stopTasks(ctx, r, o, drained)
	failed = append(failed, err)
	begun := cluster.RemainingWait(o.CreatedAt.Add(registrationLease), r.now, registrationLease) == 0
	left.Targets, err = updateRegistrations(ctx, r, o.Targets, begun)
	left.Publish = publishEvents(ctx, r, o.Publish)
	return errors.Join(append(failed, err, finishRow(ctx, r, o, &left))...)
}

// finishRow deletes the row, or writes what is left of it. Losing that write to another environment
// is harmless: that one has done the same work.
//
// A row of which nothing was done is written only if it has to wait for something to settle,
// because each write would invoke this function again.
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

// retryWait returns how long a row still waits until it is tried again. A start waits longest for its
// outcome to settle, a stop for connections to drain.
func retryWait(o *state.Outbox, now time.Time, settle time.Duration) time.Duration {
	longest := max(settle, accessDeniedDelay)
	if slices.ContainsFunc(o.Stops, func(s state.StopItem) bool { return s.Drain }) {
		longest = maxDeregistrationDelay
	}
	return cluster.RemainingWait(o.NotBefore, now, longest)
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

// countStopCalls returns how many calls of StopTask the row needs. Stops that drain first need none
// until they have waited; few of them come due at once.
func countStopCalls(o *state.Outbox) (n int) {
	for _, s := range o.Stops {
		if !s.Drain || !o.NotBefore.IsZero() {
			n++
		}
	}
	return n
}

// countStartCalls returns how many calls of StartTask the row needs: ten shared starts make one
// call, a start with overrides of its own one.
func countStartCalls(o *state.Outbox) int {
	shared, n := 0, 0
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

// scheduleDrain writes the due row that starts the next round of a cluster. idleRounds is its
// generation: how many rounds in a row did nothing.
func (h *Handler) scheduleDrain(ctx context.Context, name string, wait time.Duration, idleRounds int) error {
	now := h.Clock.Now()
	due := state.NewDue(name, state.DueOutbox, "", now.Add(wait+time.Second-1).Truncate(time.Second), now)
	due.Generation = idleRounds
	_, err := h.State.Write(ctx, state.Write{Put: due, Any: true})
	return cluster.Wrap(err, "scheduling the next round of cluster %s", name)
}
