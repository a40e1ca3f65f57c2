package embedded

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"sync"

	"berth/shared/state"
)

// Function is one execution environment of a function: its handlers, with what they keep between
// invocations. Handlers that the function's event sources do not call may be nil.
type Function struct {
	// Messages handles a batch of a queue and returns the ids of the messages to deliver again.
	Messages func(ctx context.Context, messages []state.Message) (retry []string)
	// Records handles a batch of the state's stream. It returns the sequence of the first record to
	// deliver again, "" for none. After an error the whole batch is delivered again.
	Records func(ctx context.Context, records []state.Record) (retryFrom string, err error)
	// Schedule handles a tick of the schedule with the name.
	Schedule func(ctx context.Context, name string) error
}

var (
	errCrashed  = errors.New("the execution environment crashed")
	errTimedOut = errors.New("the invocation timed out")
)

// FunctionCounters counts what a function was invoked for. Messages and Records count deliveries,
// repeated ones too.
type FunctionCounters struct {
	Invocations int
	ColdStarts  int
	Errors      int // all invocations that failed, the next three included
	Panics      int
	TimeOuts    int
	Crashes     int
	Messages    map[string]int // by queue
	Records     int
	Discarded   int            // records given up after their retries
	Schedules   map[string]int // by name
}

// function is a function with its execution environments.
type function struct {
	runtime *Runtime
	wiring  *FunctionWiring
	create  func(environment string) Function
	idle    []*environment // the one used last at the end
	running int            // invocations
	count   FunctionCounters
}

// environment is one running copy of a function, which handles one invocation at a time.
type environment struct {
	id string
	Function
}

// invocation is one run of a handler. After a time-out the handler may go on for a while, as code
// that ignores its context does; its result no longer counts.
type invocation struct {
	function *function
	env      *environment
	call     func(ctx context.Context, f Function) error
	finish   func(err error)
	timeout  *Timer
	err      error
	panicked bool

	mu     sync.Mutex // run may be in a goroutine of its own
	cancel context.CancelFunc
	ended  bool // changed on the loop only
}

// startInvocation runs call in an environment that is idle or new, and finish on the loop when the
// outcome is known: an error of the handler, a panic, a crash, a time-out, or nil.
func (f *function) startInvocation(call func(ctx context.Context, f Function) error, finish func(err error)) {
	f.count.Invocations++
	f.running++
	inv := &invocation{function: f, env: f.acquireEnvironment(), call: call, finish: finish}
	f.runtime.execute(f.wiring.Name, inv.runHandler, inv.settleExecution)
	if !inv.ended {
		inv.timeout = f.runtime.loop.After(f.wiring.Timeout, func() {
			f.count.TimeOuts++
			inv.endInvocation(errTimedOut)
		})
	}
}

// acquireEnvironment takes an idle environment or creates one, which is a cold start. Its name has
// the time at which the runtime was created, so that it is new after a restart, too.
func (f *function) acquireEnvironment() *environment {
	i := f.runtime.faults.pickEnvironment(f.wiring.Name, len(f.idle))
	if i < 0 {
		f.count.ColdStarts++
		id := f.wiring.Name + "-" + f.runtime.id + "-" + strconv.Itoa(f.count.ColdStarts)
		return &environment{id: id, Function: f.create(id)}
	}
	env := f.idle[i]
	f.idle = append(f.idle[:i], f.idle[i+1:]...)
	return env
}

// runHandler runs the handler with a context that markEnded cancels. It may be too late already:
// the hook that executes may start it after the time-out.
func (i *invocation) runHandler(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	i.mu.Lock()
	i.cancel = cancel
	if i.ended {
		cancel()
	}
	i.mu.Unlock()
	defer i.recoverPanic()
	i.err = i.call(ctx, i.env.Function)
}

// markEnded makes the invocation's result count no longer, and cancels the context of what still
// runs.
func (i *invocation) markEnded() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ended = true
	if i.cancel != nil {
		i.cancel()
	}
}

// recoverPanic turns a handler's panic into an error, as Lambda's runtime does.
func (i *invocation) recoverPanic() {
	p := recover()
	if p == nil {
		return
	}
	i.panicked = true
	i.err = fmt.Errorf("panic: %v", p)
	i.function.runtime.log.Error("handler panicked", "function", i.function.wiring.Name, "environment", i.env.id,
		"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
}

// settleExecution is called by the hook that executes: on the loop, once, when the handler has
// returned or will not go on.
func (i *invocation) settleExecution(crashed bool) {
	if i.ended {
		return
	}
	switch {
	case crashed:
		i.function.count.Crashes++
		i.endInvocation(errCrashed)
	default:
		if i.panicked {
			i.function.count.Panics++
		}
		i.endInvocation(i.err)
	}
}

// endInvocation settles the outcome. After a crash, a time-out or a panic the environment is not
// used again: what it keeps may be wrong.
func (i *invocation) endInvocation(err error) {
	i.markEnded()
	f := i.function
	f.running--
	if i.timeout != nil {
		i.timeout.Stop()
	}
	if !errors.Is(err, errCrashed) && !errors.Is(err, errTimedOut) && !i.panicked {
		f.idle = append(f.idle, i.env)
	}
	if err != nil {
		f.count.Errors++
		f.runtime.log.Error("invocation failed", "function", f.wiring.Name, "environment", i.env.id, "error", err)
	}
	if !f.runtime.stopped {
		i.finish(err)
	}
}
