package simulation

import (
	"context"
	"errors"
	"iter"
	"time"

	"berth/shared/cluster"
)

// errCrashed is what every port answers once its process has died: the code after it runs, but reaches nothing.
var errCrashed = errors.New("the process has died")

// process is one invocation of a function, or one client with the API function that serves it, run as a coroutine: at
// every call of a port it may be set aside while others run, or die.
type process struct {
	world *World
	name  string
	mode  mode
	dead  bool
	hurt  bool // a fault struck it
	// twin goes on although the runtime has given it up.
	twin    bool
	writes  int
	yield   func(time.Duration) bool
	abandon func()
	// skew is how far the process's clock is off.
	skew time.Duration
}

// mode says what may befall a process, and what it may do.
type mode int

const (
	function mode = iota
	client
	// vandal is a client whose requests must change nothing.
	vandal
)

type processKey struct{}

func processOf(ctx context.Context) *process {
	p, _ := ctx.Value(processKey{}).(*process)
	return p
}

// spawn runs f as a coroutine of the world, from now. done is called when it has ended, whichever way, or was given up.
func (w *World) spawn(name string, m mode, f func(ctx context.Context), done func(crashed bool)) {
	p := &process{world: w, name: name, mode: m, abandon: func() { done(true) }}
	if w.chaos.hit(Skew) {
		p.skew = w.chaos.upTo(Skew, 120) - time.Minute
	}
	next, stop := iter.Pull(func(yield func(time.Duration) bool) {
		p.yield = yield
		f(context.WithValue(context.Background(), processKey{}, p))
	})
	var resume func()
	resume = func() {
		outer := w.running
		w.running = p
		wait, more := next()
		w.running = outer
		if more {
			w.Loop.After(wait, resume)
			return
		}
		stop()
		w.alive[name]--
		done(p.dead)
	}
	if w.alive[name]++; m == function && w.alive[name] > 1 {
		w.mark(MarkConcurrent)
	}
	resume()
}

// pause is called at every port call, before and after its effect: others may run meanwhile, or the process dies here.
func (p *process) pause() error {
	if p == nil {
		return nil
	}
	c := p.world.chaos
	switch {
	case p.dead:
		return errCrashed
	case c.hit(Crash):
		return p.die("dies")
	case p.mode == function && c.hit(Hang):
		p.world.note("%s hangs", p.name)
		return p.sleep(time.Minute + c.upTo(Hang, 60))
	case p.mode == function && !p.twin && c.hit(Twin):
		p.world.note("%s is given up and goes on", p.name)
		p.twin = true
		p.abandon()
		return p.sleep(c.upTo(Twin, 3+52*c.below(Twin, 2)))
	case c.hit(Aside):
		return p.sleep(c.upTo(Aside, 2))
	}
	return nil
}

// die ends the process: nothing reaches a port any more.
func (p *process) die(how string) error {
	p.dead, p.hurt = true, true
	p.world.note("%s %s", p.name, how)
	if p.mode != function {
		p.world.mark(MarkCrashAPI)
	}
	return errCrashed
}

// revive starts a client's next try, after the API function under its last one died.
func (p *process) revive() { p.dead, p.writes = false, 0 }

// sleep sets the process aside.
func (p *process) sleep(d time.Duration) error {
	if p.dead || !p.yield(d) {
		p.dead = true
		return errCrashed
	}
	return nil
}

// reach is the context with which the process's calls reach their target: what the runtime has given up goes on as if
// nobody had told it.
func (p *process) reach(ctx context.Context) context.Context {
	if p != nil && p.twin {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// clock is the time as processes see it, off by their skew.
type clock struct{ world *World }

// Now is a Clock's Now, off by the skew of the process that runs.
func (c clock) Now() time.Time {
	now := c.world.Loop.Now()
	if p := c.world.running; p != nil {
		now = now.Add(p.skew)
	}
	return now
}

// Sleep sets the calling process aside.
func (c clock) Sleep(ctx context.Context, d time.Duration) error {
	if p := processOf(ctx); p != nil {
		return p.sleep(d)
	}
	return cluster.ErrAmbiguous
}
