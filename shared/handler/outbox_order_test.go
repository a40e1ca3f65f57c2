package handler_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"berth/shared/cluster"
	"berth/shared/state"
)

// Registrations and events depend on no placement version, so their outbox rows hinder nobody while
// dispatch is behind.
func TestPlacement_OutboxWhileDispatchIsBehind(t *testing.T) {
	begin := func(t *testing.T, n int) *world {
		w := newWorld(t)
		w.instances("i", 20, 8192, 16384)
		w.ecs.frozen = true
		w.behind(n, nil)
		w.dispatchAsleep = true
		return w
	}
	runs := func(w *world) {
		for _, id := range w.ecs.live() {
			w.ecs.report(id, func(t *cluster.ECSTask) { t.Last, t.Started = cluster.TaskRunning, w.clock.now })
		}
	}
	t.Run("OneTaskAfterTheOther", func(t *testing.T) {
		w := begin(t, 2)
		for _, id := range w.ecs.live() {
			w.ecs.report(id, func(t *cluster.ECSTask) { t.Last, t.Started = cluster.TaskRunning, w.clock.now })
			w.pump()
		}
		wantCount(t, "registrations", w.targets(), 2)
		wantCount(t, "outbox items", w.items(), 2)
	})
	t.Run("MoreThanOneCommitTakes", func(t *testing.T) {
		w := begin(t, 150)
		w.placementAsleep = true
		runs(w)
		w.pump()
		w.placementAsleep = false
		w.pump()
		wantCount(t, "registrations", w.targets(), 150)
		wantCount(t, "outbox items", w.items(), 150)
	})
	t.Run("EndedBeforeTheyWereMade", func(t *testing.T) {
		w := begin(t, 2)
		runs(w)
		w.pump()
		for _, id := range w.ecs.live() {
			w.ecs.report(id, func(t *cluster.ECSTask) { t.Last, t.Stopped = cluster.TaskStopped, w.clock.now })
			w.pump()
		}
		wantCount(t, "outbox items", w.items(), 4)
	})
	t.Run("BeforeStartsAndStops", func(t *testing.T) {
		w := begin(t, 2)
		w.scale("web", 4)
		w.pump()
		runs(w)
		w.pump()
		var order []bool
		for _, o := range w.outbox() {
			beside := len(o.Starts)+len(o.Stops) == 0
			want(t, "id "+o.ID+" comes first", strings.HasPrefix(o.ID, state.OutboxFirst), beside)
			order = append(order, beside)
		}
		wantCount(t, "rows", order, 2)
		want(t, "registrations first", order[0], true)
	})
}

// The due row of an outbox goes once a drain has succeeded.
func TestDispatch_DueRowOfAnOutbox(t *testing.T) {
	drained := func(t *testing.T) (*world, *outboxReads) {
		w := newLostOutbox(t)
		w.putDueOutbox()
		reads := &outboxReads{Store: w.store}
		w.dispatch.State = reads
		return w, reads
	}
	wake := []byte(`{"cluster":"prod"}`)
	t.Run("StaysUntilADrainSucceeds", func(t *testing.T) {
		w, reads := drained(t)
		reads.before = func() error { return errStore }
		want(t, "again", fmt.Sprint(w.dispatch.HandleMessages(ctx, messages(wake))), "[m0]")
		wantCount(t, "due rows after a failure", w.dues(), 1)
		reads.before = nil
		want(t, "again", fmt.Sprint(w.dispatch.HandleMessages(ctx, messages(wake))), "[]")
		wantCount(t, "due rows", w.dues(), 0)
		w.pump()
		w.agree(t, 1)
	})
	t.Run("StaysIfItIsWrittenAnew", func(t *testing.T) {
		w, reads := drained(t)
		reads.before = func() error {
			w.putDueOutbox()
			return nil
		}
		want(t, "again", fmt.Sprint(w.dispatch.HandleMessages(ctx, messages(wake))), "[]")
		wantCount(t, "due rows", w.dues(), 1)
	})
}

// putDueOutbox makes the outbox due now.
func (w *world) putDueOutbox() {
	w.t.Helper()
	due := state.NewDue(prod, state.DueOutbox, "", w.clock.now, w.clock.now)
	if _, err := w.store.Write(ctx, state.Write{Put: due, Any: true}); err != nil {
		w.t.Fatal(err)
	}
}

// outboxReads is a store in which something happens before the outbox is read.
type outboxReads struct {
	state.Store
	before func() error
}

func (s *outboxReads) List(ctx context.Context, r state.Range) ([]state.Row, error) {
	if strings.HasPrefix(r.From, state.PrefixOutbox) && s.before != nil {
		if err := s.before(); err != nil {
			return nil, err
		}
	}
	return s.Store.List(ctx, r)
}
