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

// process is one invocation of a function, or one client, run as a coroutine: at every call of a port it may be set
// aside while others run, or die.
type process struct {
	world *World
	name  string
	mode  mode
	dead  bool
	yield func(time.Duration) bool
	// skew is how far the process's clock is off.
	skew time.Duration
}

// mode says what may befall a process.
type mode int

const (
	function mode = iota
	client
)

type processKey struct{}

func processOf(ctx context.Context) *process {
	p, _ := ctx.Value(processKey{}).(*process)
	return p
}

// spawn runs f as a coroutine of the world, from now. done is called when it has ended, whichever way.
func (w *World) spawn(name string, m mode, f func(ctx context.Context), done func(crashed bool)) {
	p := &process{world: w, name: name, mode: m, skew: w.chaos.skew()}
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
		done(p.dead)
	}
	resume()
}

// pause is called at every port call, before and after its effect: others may run meanwhile, or the process dies here.
func (p *process) pause() error {
	if p == nil {
		return nil
	}
	if p.dead {
		return errCrashed
	}
	if p.mode == function && p.world.chaos.crash(p.name) {
		p.dead = true
		p.world.note("%s dies", p.name)
		return errCrashed
	}
	if wait, ok := p.world.chaos.aside(); ok {
		return p.sleep(wait)
	}
	return nil
}

// sleep sets the process aside.
func (p *process) sleep(d time.Duration) error {
	if p.dead || !p.yield(d) {
		p.dead = true
		return errCrashed
	}
	return nil
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
