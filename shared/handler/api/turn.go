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
}

// A turn is that of one call, from its wait to its end.
type turn struct {
	among       *turns
	clusterName string
}

// How often a call looks whether its turn has come: the more are ahead of it, the more seldom.
const (
	lookPerCallAhead = time.Millisecond
	longestLook      = 50 * time.Millisecond
)

// wait returns when the calls that came before this one have ended. If they have not at the given
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

// countAhead returns how many calls are ahead of this one, which comes last if it is new.
func (t *turn) countAhead() int {
	t.among.mu.Lock()
	defer t.among.mu.Unlock()
	calls := t.among.calls[t.clusterName]
	n := slices.Index(calls, t)
	if n < 0 {
		n = len(calls)
		t.among.calls[t.clusterName] = append(calls, t)
	}
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
