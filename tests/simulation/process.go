package simulation

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"berth/shared/cluster"
	"berth/tests/simulation/coverage"
)

// errProcessDied is the answer of every port once the process has died. The code after it still
// runs, but reaches nothing.
var errProcessDied = errors.New("the process has died")

// A process is one invocation of a function, or one caller together with the API function that
// serves it. It runs as a coroutine: at every call of a port it may be suspended while others run,
// or die.
type process struct {
	world    *World
	name     string
	kind     processKind
	dead     bool
	hadFault bool // a fault has struck it
	// abandoned means that the runtime has given up the invocation, which continues all the same.
	abandoned       bool
	beganAt         time.Time
	writes          int
	yield           func(time.Duration) bool
	reportAbandoned func()
	// skew is the error of the process's clock.
	skew time.Duration
}

// A processKind decides which faults may strike a process, and what it may do.
type processKind int

const (
	functionProcess processKind = iota
	clientProcess
	// malformedClient sends requests that must change nothing.
	malformedClient
)

type processKey struct{}

// processOf returns the process that makes the call, or nil for a call of the simulation itself.
func processOf(ctx context.Context) *process {
	p, _ := ctx.Value(processKey{}).(*process)
	return p
}

// spawn starts f as a coroutine. done is called when f has ended in whatever way, or was abandoned.
//
// Only one coroutine runs at a time, and it runs until its next port call: the code under test
// needs no changes, and the order of steps follows from the seed alone. A suspended process resumes
// by the virtual clock, so what happens between two of its calls is what can happen in AWS between
// them.
func (w *World) spawn(name string, m processKind, f func(ctx context.Context), done func(crashed bool)) {
	p := &process{world: w, name: name, kind: m, beganAt: w.Loop.Now(), reportAbandoned: func() { done(true) }}
	if w.faults.strikes(ClockSkew) {
		p.skew = w.faults.drawUpTo(ClockSkew, 120) - time.Minute
	}
	routine := takeCoroutine()
	routine.work = func(yield func(time.Duration) bool) {
		p.yield = yield
		f(context.WithValue(context.Background(), processKey{}, p))
	}
	var resume func()
	resume = func() {
		outer := w.current
		w.current = p
		wait, _ := routine.next()
		w.current = outer
		if routine.work != nil {
			w.Loop.After(wait, resume)
			return
		}
		returnCoroutine(routine)
		w.runningByName[name]--
		done(p.dead)
	}
	if w.runningByName[name]++; m == functionProcess && w.runningByName[name] > 1 {
		w.cover(coverage.Concurrent)
	}
	resume()
}

// A coroutine executes one process after the other. It is used again because its stack has grown by
// then: growing a new one for each process took a twentieth of a run's time.
type coroutine struct {
	next func() (wait time.Duration, more bool)
	work func(yield func(time.Duration) bool) // nil once it has ended
}

// idleCoroutines have ended their work. Runs that go on at the same time share them.
var idleCoroutines struct {
	sync.Mutex
	list []*coroutine
}

// takeCoroutine returns a coroutine without work.
func takeCoroutine() *coroutine {
	idle := &idleCoroutines
	idle.Lock()
	defer idle.Unlock()
	if n := len(idle.list); n > 0 {
		c := idle.list[n-1]
		idle.list = idle.list[:n-1]
		return c
	}
	c := &coroutine{}
	c.next, _ = iter.Pull(func(yield func(time.Duration) bool) {
		for {
			c.work(yield)
			c.work = nil
			if !yield(0) {
				return
			}
		}
	})
	return c
}

func returnCoroutine(c *coroutine) {
	idleCoroutines.Lock()
	defer idleCoroutines.Unlock()
	idleCoroutines.list = append(idleCoroutines.list, c)
}

// asSimulation marks calls as those of the simulation itself, which suffer no faults, until the
// function it returns is called: "defer w.asSimulation()()".
func (w *World) asSimulation() (end func()) {
	process := w.current
	w.current = nil
	return func() { w.current = process }
}

// interrupt is called at every port call, before and after its effect. Other processes may run
// here, or the process dies. Because both sides of a call are covered, a function can die after
// StartTask has taken effect and before it records the answer.
func (p *process) interrupt() error {
	if p == nil {
		return nil
	}
	c := p.world.faults
	if c.strikes(ClockJump) {
		p.skew = c.drawUpTo(ClockJump, 2*int(clockJump/time.Second)) - clockJump
		p.world.logf("the clock of %s jumps, and is off by %s", p.name, p.skew)
	}
	switch {
	case p.dead:
		return errProcessDied
	case c.strikes(Crash):
		return p.die("dies")
	case p.kind == functionProcess && c.strikes(Hang):
		p.world.logf("%s hangs", p.name)
		return p.suspend(functionTimeout + c.drawUpTo(Hang, 60))
	case p.kind == functionProcess && !p.abandoned && c.strikes(AbandonInvocation):
		p.world.logf("%s is abandoned and continues", p.name)
		p.abandoned = true
		p.reportAbandoned()
		return p.suspend(c.drawUpTo(AbandonInvocation, 3+52*c.drawBelow(AbandonInvocation, 2)))
	case c.strikes(Suspend):
		return p.suspend(c.drawUpTo(Suspend, 2))
	}
	return nil
}

// die ends the process: none of its calls reaches a port any more.
func (p *process) die(how string) error {
	p.dead, p.hadFault = true, true
	p.world.logf("%s %s", p.name, how)
	if p.kind != functionProcess {
		p.world.cover(coverage.CrashAPI)
	}
	return errProcessDied
}

// revive begins a caller's next attempt, after the API function died under the previous one.
func (p *process) revive() { p.dead, p.writes = false, 0 }

// suspend lets others run for a time.
func (p *process) suspend(d time.Duration) error {
	if p.dead || !p.yield(d) {
		p.dead = true
		return errProcessDied
	}
	return nil
}

// functionTimeout is how long an invocation may take, by the template.
const functionTimeout = time.Minute

// callContext returns the context for calls of the process. An abandoned invocation is not told
// that it was given up, but its own deadline holds: after it, clients of AWS send nothing.
func (p *process) callContext(ctx context.Context) context.Context {
	if p == nil || !p.abandoned {
		return ctx
	}
	ctx = context.WithoutCancel(ctx)
	if p.world.Loop.Now().Sub(p.beganAt) < functionTimeout {
		return ctx
	}
	over, end := context.WithCancel(ctx)
	end()
	return over
}

// clockJump is how far a clock that jumps is off at most.
const clockJump = time.Hour

// clock is the time as processes see it, with their skew.
type clock struct{ world *World }

// Now returns the time, with the skew of the process that runs.
func (c clock) Now() time.Time {
	now := c.world.Loop.Now()
	if p := c.world.current; p != nil {
		now = now.Add(p.skew)
	}
	return now
}

// Sleep suspends the calling process.
func (c clock) Sleep(ctx context.Context, d time.Duration) error {
	if p := processOf(ctx); p != nil {
		return p.suspend(d)
	}
	return cluster.ErrAmbiguous
}
