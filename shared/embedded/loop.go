package embedded

import (
	"context"
	"sync"
	"time"
)

// Loop runs callbacks one at a time, in order of time, and of arrival where times are equal. All
// handlers of the embedded tier run on it. In real time [Loop.Run] waits for the next one; in
// virtual time [Loop.Step] jumps to it, so that a week of timers takes seconds. Methods may be
// called from any goroutine.
type Loop struct {
	// Pick chooses which of n callbacks that are due at the same instant runs next (0 to n-1); nil
	// runs them in order. A simulator shuffles them with it, because real events have no such
	// order. It must be set before the loop is used.
	Pick func(n int) int

	mu     sync.Mutex
	start  time.Time
	speed  float64       // of a real loop's clock; 0 if the loop is virtual
	now    time.Duration // since start, of the callback that runs
	seq    uint64
	ready  []*Timer // due, in order, from head on; stopped ones among them
	head   int
	live   int           // ready and not stopped
	future agenda        // not due yet
	wake   chan struct{} // tells Run of a new callback
}

// Timer is a callback on the agenda.
type Timer struct {
	loop *Loop
	at   time.Duration
	seq  uint64
	f    func()
	slot int // position in the agenda, or one of the below
}

// The slots of timers that have left the agenda: due, or run and stopped.
const (
	slotReady = -1 - iota
	slotDone
)

// NewVirtualLoop returns a loop whose clock stays at start until it is stepped.
func NewVirtualLoop(start time.Time) *Loop {
	return &Loop{start: start.UTC(), wake: make(chan struct{}, 1)}
}

// NewRealLoop returns a loop whose clock is the machine's.
func NewRealLoop() *Loop { return NewFastLoop(1) }

// NewFastLoop returns a loop whose clock starts at the machine's and runs so many times as fast.
func NewFastLoop(speed float64) *Loop {
	return &Loop{start: time.Now(), speed: speed, wake: make(chan struct{}, 1)}
}

// Now returns the loop's time, in UTC.
func (l *Loop) Now() time.Time {
	switch l.speed {
	case 0:
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.start.Add(l.now)
	case 1:
		return time.Now().UTC()
	}
	return l.start.Add(l.virtualElapsed()).UTC()
}

// Post runs f as soon as everything that is already due has run.
func (l *Loop) Post(f func()) { l.After(0, f) }

// After runs f once, d from now, or as soon as possible if d is not positive.
func (l *Loop) After(d time.Duration, f func()) *Timer {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	t := &Timer{loop: l, seq: l.seq, f: f}
	if d <= 0 {
		l.makeReady(t)
	} else {
		t.at = l.virtualElapsed() + d
		l.future.insertTimer(t)
	}
	if l.speed > 0 {
		l.wakeUp()
	}
	return t
}

// Stop prevents the callback. It reports false if the callback has run or was stopped before.
func (t *Timer) Stop() bool {
	l := t.loop
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case t.slot >= 0:
		l.future.removeSlot(t.slot)
	case t.slot == slotReady:
		l.live--
	default:
		return false
	}
	t.slot, t.f = slotDone, nil
	return true
}

// Step runs the next callback of a virtual loop, after moving the clock to its time. It reports
// false if there is none.
func (l *Loop) Step() bool {
	l.mu.Lock()
	if l.live == 0 && len(l.future) > 0 {
		l.now = l.future[0].at
	}
	l.collectPosted()
	f := l.takeNextCallback()
	l.mu.Unlock()
	if f == nil {
		return false
	}
	f()
	return true
}

// RunUntil steps a virtual loop through everything that is due by t, and leaves the clock at t.
func (l *Loop) RunUntil(t time.Time) {
	for next, ok := l.NextAt(); ok && !next.After(t); next, ok = l.NextAt() {
		l.Step()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = max(l.now, t.Sub(l.start))
}

// Run runs callbacks as they become due until ctx is done. On a virtual loop it also returns when
// none are left.
func (l *Loop) Run(ctx context.Context) {
	if l.speed == 0 {
		for ctx.Err() == nil && l.Step() {
			continue
		}
		return
	}
	idle := time.NewTimer(time.Hour)
	defer idle.Stop()
	for ctx.Err() == nil {
		l.mu.Lock()
		l.collectPosted()
		f, wait := l.takeNextCallback(), l.timeToNextCallback()
		l.mu.Unlock()
		if f != nil {
			f()
			continue
		}
		idle.Reset(wait)
		select {
		case <-ctx.Done():
		case <-l.wake:
		case <-idle.C:
		}
	}
}

// Do runs f on the loop and returns when it has run. It returns the context's error if ctx is done
// first; f may still run then. A callback of the loop must not call it, because it would wait for
// itself.
func (l *Loop) Do(ctx context.Context, f func()) error {
	done := make(chan struct{})
	l.Post(func() {
		defer close(done)
		f()
	})
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Sleep waits until d has passed on the loop's clock, or ctx is done. A callback of the loop must
// not call it.
func (l *Loop) Sleep(ctx context.Context, d time.Duration) error {
	done := make(chan struct{})
	t := l.After(d, func() { close(done) })
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		t.Stop()
		return ctx.Err()
	}
}

// CallbackClock is the clock of functions, which run as callbacks of the loop.
type CallbackClock struct{ *Loop }

// Sleep keeps the loop waiting, until d has passed on its clock or ctx is done. In virtual time it
// returns at once, because nothing else could run meanwhile.
func (c CallbackClock) Sleep(ctx context.Context, d time.Duration) error {
	if c.speed == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(time.Duration(float64(d) / c.speed))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// NextAt returns when the next callback is due, and false if there is none.
func (l *Loop) NextAt() (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.live > 0:
		return l.start.Add(l.virtualElapsed()), true
	case len(l.future) > 0:
		return l.start.Add(l.future[0].at), true
	}
	return time.Time{}, false
}

// IsIdle reports whether no callback is left.
func (l *Loop) IsIdle() bool {
	_, busy := l.NextAt()
	return !busy
}

// virtualElapsed returns the time since start on the loop's clock: the monotonic time of the
// machine, times the speed, or that of the callback that runs.
func (l *Loop) virtualElapsed() time.Duration {
	if l.speed > 0 {
		return time.Duration(float64(time.Since(l.start)) * l.speed)
	}
	return l.now
}

// collectPosted makes the timers ready that are due by now, in order.
func (l *Loop) collectPosted() {
	now := l.virtualElapsed()
	for len(l.future) > 0 && l.future[0].at <= now {
		t := l.future[0]
		l.future.removeSlot(0)
		l.makeReady(t)
	}
}

func (l *Loop) makeReady(t *Timer) {
	t.slot = slotReady
	l.ready = append(l.ready, t)
	l.live++
}

// takeNextCallback removes the callback that runs next from those ready, or returns nil. The
// callback that Pick prefers changes places with the first one.
func (l *Loop) takeNextCallback() func() {
	for l.head < len(l.ready) {
		i := l.head
		if n := len(l.ready) - i; l.Pick != nil && n > 1 {
			i += l.Pick(n)
		}
		t := l.ready[i]
		l.ready[i] = l.ready[l.head]
		l.ready[l.head] = nil
		l.head++
		l.compactReady()
		if t.slot == slotReady {
			l.live--
			f := t.f
			t.slot, t.f = slotDone, nil
			return f
		}
	}
	return nil
}

// compactReady reuses the room of callbacks that have run, once they are most of the slice.
func (l *Loop) compactReady() {
	switch {
	case l.head == len(l.ready):
		l.ready, l.head = l.ready[:0], 0
	case l.head > 1024 && 2*l.head > len(l.ready):
		n := copy(l.ready, l.ready[l.head:])
		clear(l.ready[n:])
		l.ready, l.head = l.ready[:n], 0
	}
}

// timeToNextCallback returns how long to wait by the machine's clock, an hour if nothing is due:
// wake ends the wait earlier.
func (l *Loop) timeToNextCallback() time.Duration {
	if len(l.future) == 0 {
		return time.Hour
	}
	return max(0, time.Duration(float64(l.future[0].at-l.virtualElapsed())/l.speed))
}

// wakeUp never blocks. One pending wake-up is enough, because Run looks at everything.
func (l *Loop) wakeUp() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}
