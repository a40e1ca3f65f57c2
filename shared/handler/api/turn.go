package api

import (
	"context"
	"slices"
	"sync"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
)

// turns are those of the calls of this process that move the placement version of a cluster, per
// cluster, in the order in which they came. On AWS a process has one call at a time, and none waits.
type turns struct {
	mu    sync.Mutex
	calls map[string][]*turn
	held  map[string]int // decisions in progress, see [Handler.HoldCallers]
}

// A turn is that of one call, from its wait to its end.
type turn struct {
	among       *turns
	clusterName string
	passes      bool // it has begun, or has waited for a decision: it waits for no other
}

// HoldCallers makes calls that change the cluster wait until release is called: placement decides in
// this process, and a call that moves the placement version meanwhile makes it read the whole cluster
// again. A call waits for one decision at most, so that those that follow each other at once do not
// keep it waiting: the next decision waits for it, for maxYield at most.
func (h *Handler) HoldCallers(ctx context.Context, clock handler.Clock, clusterName string) (release func()) {
	t := h.turns
	for n := 0; !t.holdUnlessPassed(clusterName, n == maxYield); n++ {
		_ = clock.Sleep(ctx, yieldPause) // the decision ends with ctx
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.held[clusterName]--; t.held[clusterName] == 0 {
			delete(t.held, clusterName)
		}
		for _, waiting := range t.calls[clusterName] {
			waiting.passes = true
		}
	}
}

// A decision waits for calls as often as maxYield, for yieldPause each time.
const (
	maxYield   = 50
	yieldPause = time.Millisecond
)

// holdUnlessPassed holds callers, unless a call has begun or has already waited for a decision.
func (t *turns) holdUnlessPassed(clusterName string, anyway bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !anyway && slices.ContainsFunc(t.calls[clusterName], func(c *turn) bool { return c.passes }) {
		return false
	}
	t.held[clusterName]++
	return true
}

// runNext calls f when the calls before it have ended. If they have not until the given time, it is a
// ThrottlingException.
func (t *turns) runNext(
	ctx context.Context, clock handler.Clock, clusterName string, until time.Time, f func() error,
) error {
	next := &turn{among: t, clusterName: clusterName}
	defer next.end()
	if err := next.wait(ctx, clock, until); err != nil {
		return err
	}
	return f()
}

// How often a call looks whether its turn has come: the more are ahead of it, the more seldom.
const (
	lookPerCallAhead = time.Millisecond
	longestLook      = 50 * time.Millisecond
)

// wait returns when the calls that came before this one have ended, and so has the decision in
// progress. If they have not at the given
// time, it is a ThrottlingException.
func (t *turn) wait(ctx context.Context, clock handler.Clock, until time.Time) error {
	for {
		ahead := t.countAhead()
		switch {
		case ahead == 0:
			return nil
		case !clock.Now().Before(until):
			return cluster.Errorf(cluster.CodeThrottling, "Rate exceeded")
		}
		if err := clock.Sleep(ctx, min(time.Duration(ahead)*lookPerCallAhead, longestLook)); err != nil {
			return err
		}
	}
}

// countAhead returns how many calls and decisions are ahead of this one, which comes last if it is
// new.
func (t *turn) countAhead() int {
	t.among.mu.Lock()
	defer t.among.mu.Unlock()
	calls := t.among.calls[t.clusterName]
	n := slices.Index(calls, t)
	if n < 0 {
		n = len(calls)
		t.among.calls[t.clusterName] = append(calls, t)
	}
	if !t.passes {
		n += t.among.held[t.clusterName]
	}
	t.passes = t.passes || n == 0
	return n
}

// end lets the next call have its turn.
func (t *turn) end() {
	t.among.mu.Lock()
	defer t.among.mu.Unlock()
	left := slices.DeleteFunc(t.among.calls[t.clusterName], func(o *turn) bool { return o == t })
	if len(left) == 0 {
		delete(t.among.calls, t.clusterName)
		return
	}
	t.among.calls[t.clusterName] = left
}
