package embedded

import (
	"context"
	"sync"
	"time"
)

// Loop is one agenda of callbacks, run one at a time in order of time, and of arrival where times
// are equal. All handlers of the embedded tier run on it. In real time [Loop.Run] waits for what
// comes next; in virtual time [Loop.Step] jumps to it. Methods may be called from any goroutine.
type Loop struct {
	// Pick, where set, chooses which of n callbacks that are due at the same instant runs next (0
	// to n-1). It must be set before the loop is used.
	Pick func(n int) int

	mu     sync.Mutex
	start  time.Time
	real   bool
	now    time.Duration // since start, of the callback that runs
	seq    uint64
	ready  []*Timer // due, in order, from head on
	head   int
	live   int // ready and not stopped
	future agenda
	wake   chan struct{}
}

// Timer is a callback on the agenda.
type Timer struct {
	loop *Loop
	at   time.Duration
	seq  uint64
	f    func()
	slot int // position in the agenda, or one of the below
}

const (
	slotReady = -1 - iota
	slotDone
)

// NewVirtualLoop is a loop whose clock stands at start until it is stepped.
func NewVirtualLoop(start time.Time) *Loop {
	return &Loop{start: start.UTC(), wake: make(chan struct{}, 1)}
}

// NewRealLoop is a loop that keeps the time of day.
func NewRealLoop() *Loop {
	return &Loop{start: time.Now(), real: true, wake: make(chan struct{}, 1)}
}

// IsVirtual reports whether time passes only by stepping.
func (l *Loop) IsVirtual() bool { return !l.real }

// Now is the time, in UTC.
func (l *Loop) Now() time.Time {
	if l.real {
		return time.Now().UTC()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.start.Add(l.now)
}

// Post runs f as soon as everything that is already due has run.
func (l *Loop) Post(f func()) { l.After(0, f) }

// After runs f once, d from now; a negative d counts as none.
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
	if l.real {
		l.wakeUp()
	}
	return t
}

// Stop takes the callback off the agenda; false if it has run or was stopped before.
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

// Step runs the next callback of a virtual loop, moving the clock to its time; false when there is
// none.
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

// RunUntil steps a virtual loop through everything due at t or earlier, and leaves the clock at t.
func (l *Loop) RunUntil(t time.Time) {
	for next, ok := l.NextAt(); ok && !next.After(t); next, ok = l.NextAt() {
		l.Step()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = max(l.now, t.Sub(l.start))
}

// Run runs callbacks as they become due until ctx is done; a virtual loop also returns when there
// are none left.
func (l *Loop) Run(ctx context.Context) {
	if !l.real {
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

// Do runs f on the loop and returns when it has run. It fails, f run or not, when ctx is done
// first. A callback of the loop itself must not call it.
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

// Sleep waits until d has passed on the loop's clock. A callback of the loop itself must not call
// it.
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

// NextAt is when the next callback is due, and false when the agenda is empty.
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

// IsIdle reports whether the agenda is empty.
func (l *Loop) IsIdle() bool {
	_, busy := l.NextAt()
	return !busy
}

func (l *Loop) virtualElapsed() time.Duration {
	if l.real {
		return time.Since(l.start)
	}
	return l.now
}

// collectPosted makes ready what is due, in order.
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

// takeNextCallback removes the callback that runs next from those ready.
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

// compactReady gives back the room of callbacks that have run.
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

func (l *Loop) timeToNextCallback() time.Duration {
	if len(l.future) == 0 {
		return time.Hour
	}
	return max(0, l.future[0].at-l.virtualElapsed())
}

func (l *Loop) wakeUp() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}
