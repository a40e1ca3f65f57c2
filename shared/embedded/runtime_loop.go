package embedded

import (
	"context"
	"time"
)

// runOnLoop runs f on the loop, unless the runtime has been stopped by then. Until f has run the
// runtime is not idle. It is how everything from outside comes in.
func (r *Runtime) runOnLoop(f func()) {
	r.incoming.Add(1)
	r.loop.Post(func() {
		r.incoming.Add(-1)
		if !r.stopped {
			f()
		}
	})
}

// scheduleAfter runs f on the loop after d, unless the runtime has been stopped by then.
func (r *Runtime) scheduleAfter(d time.Duration, f func()) *Timer {
	return r.loop.After(d, func() {
		if !r.stopped {
			f()
		}
	})
}

// executeInline runs an invocation within the callback that starts it: handlers take no time on a
// virtual clock.
func executeInline(_ string, run func(ctx context.Context), done func(crashed bool)) {
	run(context.Background())
	done(false)
}

// localARN returns the ARN of something that exists only in this process.
func localARN(service, resource string) string {
	return "arn:aws:" + service + ":" + localRegion + ":" + localAccount + ":" + resource
}
