package dataplane

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"berth/shared/awsapi/eventbus"
)

// reporter sends the fleet's events to EventBridge in their order, without the fleet waiting for
// it. What EventBridge does not take is tried again until it does: the fleet's file keeps no
// events, so a process that ends loses those it could not send, as ECS may lose some.
type reporter struct {
	bus *eventbus.Bus
	log *slog.Logger

	mu      sync.Mutex
	waiting [][]byte
	busy    bool
	more    chan struct{} // holds one where something waits
	empty   *sync.Cond    // of mu: nothing waits and nothing is being sent
}

func newReporter(bus *eventbus.Bus, log *slog.Logger) *reporter {
	r := &reporter{bus: bus, log: log, more: make(chan struct{}, 1)}
	r.empty = sync.NewCond(&r.mu)
	return r
}

func (r *reporter) enqueue(event []byte) {
	r.mu.Lock()
	r.waiting = append(r.waiting, event)
	r.mu.Unlock()
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// runSender sends until ctx ends.
func (r *reporter) runSender(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.more:
		}
		for pause := firstPause; r.sendPending(ctx); pause = min(2*pause, maxPause) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
		}
	}
}

const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
)

// sendPending sends what waits, and reports whether some of it has to be sent again.
func (r *reporter) sendPending(ctx context.Context) (again bool) {
	r.mu.Lock()
	batch := r.waiting
	r.waiting, r.busy = nil, true
	r.mu.Unlock()
	left, err := r.bus.PutEvents(ctx, batch)
	if err != nil && ctx.Err() == nil {
		r.log.Error("reporting to EventBridge", "events", len(batch), "left", len(left), "error", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting, r.busy = append(left, r.waiting...), false
	if len(r.waiting) == 0 {
		r.empty.Broadcast()
	}
	return len(left) > 0
}

// drainFor waits until all is sent, for at most d.
func (r *reporter) drainFor(d time.Duration) {
	late := false
	timer := time.AfterFunc(d, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		late = true
		r.empty.Broadcast()
	})
	defer timer.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for !late && (r.busy || len(r.waiting) > 0) {
		r.empty.Wait()
	}
}
