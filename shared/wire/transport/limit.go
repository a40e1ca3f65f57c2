package transport

import (
	"context"
	"sync/atomic"
	"time"

	"berth/shared/cluster"
)

// A Limit bounds how many operations run at once, and how many wait for one to end. Each of them
// holds memory. A nil Limit bounds nothing.
type Limit struct {
	running chan struct{}
	waiting atomic.Int64
	queue   int64
	wait    time.Duration
}

// NewLimit returns a limit of so many operations at once. As many as queue wait, each for at most
// wait; what comes beyond that is refused as ECS refuses too many calls, which SDKs repeat.
func NewLimit(running, queue int, wait time.Duration) *Limit {
	return &Limit{running: make(chan struct{}, running), queue: int64(queue), wait: wait}
}

// begin waits until the operation may run. Its caller must call end if there is no error.
func (l *Limit) begin(ctx context.Context) error {
	if l == nil {
		return nil
	}
	select {
	case l.running <- struct{}{}:
		return nil
	default:
	}
	if l.waiting.Add(1) > l.queue {
		l.waiting.Add(-1)
		return cluster.Errorf(cluster.CodeThrottling, "Rate exceeded")
	}
	defer l.waiting.Add(-1)
	over := time.NewTimer(l.wait)
	defer over.Stop()
	select {
	case l.running <- struct{}{}:
		return nil
	case <-over.C:
		return cluster.Errorf(cluster.CodeThrottling, "Rate exceeded")
	case <-ctx.Done():
		return ctx.Err() // the caller has left
	}
}

func (l *Limit) end() {
	if l != nil {
		<-l.running
	}
}
