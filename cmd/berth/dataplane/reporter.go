package dataplane

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"berth/shared/awsapi/eventbus"
)

// reporter sends the fleet's events to EventBridge in their order. The fleet does not wait for it.
// What EventBridge does not accept is sent again until it does. The fleet's file does not contain
// events, so those that were not sent when the process ends are lost.
type reporter struct {
	bus *eventbus.Bus
	log *slog.Logger

	mu      sync.Mutex
	waiting [][]byte
	busy    bool
	more    chan struct{} // has an element if something waits
	empty   *sync.Cond    // with mu: signals that nothing waits and nothing is being sent
}

func newReporter(bus *eventbus.Bus, log *slog.Logger) *reporter {
	r := &reporter{bus: bus, log: log, more: make(chan struct{}, 1)}
	r.empty = sync.NewCond(&r.mu)
	return r
}

func (r *reporter) enqueueEvent(event []byte) {
	r.mu.Lock()
	r.waiting = append(r.waiting, event)
	r.mu.Unlock()
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// runSender sends events until ctx ends, with growing pauses after failures.
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

// sendPending sends what waits, and reports whether some of it must be sent again.
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

// waitUntilSent waits until everything has been sent, but no longer than d.
func (r *reporter) waitUntilSent(d time.Duration) {
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
