package simulation

import (
	"context"
	"errors"
	"iter"
	"time"

	"berth/shared/cluster"
	"berth/tests/simulation/coverage"
)

// errProcessDied is what every port answers once its process has died: the code after it runs, but reaches nothing.
var errProcessDied = errors.New("the process has died")

// process is one invocation of a function, or one client with the API function that serves it, run as a coroutine: at
// every call of a port it may be set aside while others run, or die.
type process struct {
	world    *World
	name     string
	kind     processKind
	dead     bool
	hadFault bool // a fault struck it
	// abandoned goes on although the runtime has given it up.
	abandoned       bool
	writes          int
	yield           func(time.Duration) bool
	reportAbandoned func()
	// skew is how far the process's clock is off.
	skew time.Duration
}

// processKind says what may befall a process, and what it may do.
type processKind int

const (
	functionProcess processKind = iota
	clientProcess
	// malformedClient is a client whose requests must change nothing.
	malformedClient
)

type processKey struct{}

func processOf(ctx context.Context) *process {
	p, _ := ctx.Value(processKey{}).(*process)
	return p
}

// spawn runs f as a coroutine of the world, from now. done is called when it has ended, whichever way, or was given up.
func (w *World) spawn(name string, m processKind, f func(ctx context.Context), done func(crashed bool)) {
	p := &process{world: w, name: name, kind: m, reportAbandoned: func() { done(true) }}
	if w.faults.strikes(ClockSkew) {
		p.skew = w.faults.drawUpTo(ClockSkew, 120) - time.Minute
	}
	next, stop := iter.Pull(func(yield func(time.Duration) bool) {
		p.yield = yield
		f(context.WithValue(context.Background(), processKey{}, p))
	})
	var resume func()
	resume = func() {
		outer := w.current
		w.current = p
		wait, more := next()
		w.current = outer
		if more {
			w.Loop.After(wait, resume)
			return
		}
		stop()
		w.runningByName[name]--
		done(p.dead)
	}
	if w.runningByName[name]++; m == functionProcess && w.runningByName[name] > 1 {
		w.cover(coverage.Concurrent)
	}
	resume()
}

// interrupt is called at every port call, before and after its effect: others may run meanwhile, or the process dies here.
func (p *process) interrupt() error {
	if p == nil {
		return nil
	}
	c := p.world.faults
	switch {
	case p.dead:
		return errProcessDied
	case c.strikes(Crash):
		return p.die("dies")
	case p.kind == functionProcess && c.strikes(Hang):
		p.world.logf("%s hangs", p.name)
		return p.suspend(time.Minute + c.drawUpTo(Hang, 60))
	case p.kind == functionProcess && !p.abandoned && c.strikes(AbandonInvocation):
		p.world.logf("%s is given up and goes on", p.name)
		p.abandoned = true
		p.reportAbandoned()
		return p.suspend(c.drawUpTo(AbandonInvocation, 3+52*c.drawBelow(AbandonInvocation, 2)))
	case c.strikes(Suspend):
		return p.suspend(c.drawUpTo(Suspend, 2))
	}
	return nil
}

// die ends the process: nothing reaches a port any more.
func (p *process) die(how string) error {
	p.dead, p.hadFault = true, true
	p.world.logf("%s %s", p.name, how)
	if p.kind != functionProcess {
		p.world.cover(coverage.CrashAPI)
	}
	return errProcessDied
}

// revive starts a client's next try, after the API function under its last one died.
func (p *process) revive() { p.dead, p.writes = false, 0 }

// suspend sets the process aside.
func (p *process) suspend(d time.Duration) error {
	if p.dead || !p.yield(d) {
		p.dead = true
		return errProcessDied
	}
	return nil
}

// callContext is the context with which the process's calls reach their target: what the runtime has given up goes on as if
// nobody had told it.
func (p *process) callContext(ctx context.Context) context.Context {
	if p != nil && p.abandoned {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// clock is the time as processes see it, off by their skew.
type clock struct{ world *World }

// Now is a Clock's Now, off by the skew of the process that runs.
func (c clock) Now() time.Time {
	now := c.world.Loop.Now()
	if p := c.world.current; p != nil {
		now = now.Add(p.skew)
	}
	return now
}

// Sleep sets the calling process aside.
func (c clock) Sleep(ctx context.Context, d time.Duration) error {
	if p := processOf(ctx); p != nil {
		return p.suspend(d)
	}
	return cluster.ErrAmbiguous
}
