package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"berth/shared/state"
)

// RuntimeOptions say what a runtime connects, and how it executes.
type RuntimeOptions struct {
	// Functions create an execution environment of each function that has event sources, by the
	// last part of its CodeUri. The environment's name differs from all others, also across
	// restarts.
	Functions map[string]func(environment string) Function
	// Stream is the state's stream. It may be nil if no function reads one.
	Stream Stream
	// Execute runs one invocation; nil runs it at once. A simulator may run it as a coroutine that
	// ends in a later step. run executes the handler, whose context is cancelled at the function's
	// time-out. done must be called once, on the loop: with false after run has returned, with true
	// if run never started or was abandoned.
	Execute func(function string, run func(ctx context.Context), done func(crashed bool))
	// Parallel runs the calls that a function makes at the same time; nil runs one after the other. The
	// runtime itself makes none: the maker of the functions passes it on.
	Parallel func(ctx context.Context, n int, do func(ctx context.Context, i int))
	Faults   Faults
	Log      *slog.Logger // nil logs nothing
}

// Runtime connects the handlers to queues, stream, schedules and event bus, as the wiring says,
// with the semantics of the real services. Everything happens on its loop. What is in queues is
// lost with it; the stream's records are the store's and survive.
type Runtime struct {
	loop    *Loop
	wiring  *Wiring
	id      string
	execute func(function string, run func(ctx context.Context), done func(crashed bool))
	faults  Faults
	log     *slog.Logger
	stream  Stream

	functions map[string]*function
	queues    map[string]*queue
	streams   []*streamSource
	schedules []*schedule
	events    EventCounters
	running   bool // started and not stopped
	stopped   bool
	incoming  atomic.Int64 // messages, events and commits on their way to the loop
	committed committedRecords
}

// committedRecords are the records that no consumer has yet, in the order of their commits. In
// virtual time records go to the loop one commit at a time.
type committedRecords struct {
	mu      sync.Mutex
	records []state.Record
}

func (c *committedRecords) add(records []state.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.records = append(c.records, records...)
}

func (c *committedRecords) take() []state.Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.records
	c.records = nil
	return taken
}

// NewRuntime connects what the wiring describes. It is an error if a function with event sources
// has no entry in Functions, or an entry no function: both are typing errors. It listens to the
// stream from here on; nothing is delivered before [Runtime.Start].
func NewRuntime(loop *Loop, w *Wiring, o RuntimeOptions) (*Runtime, error) {
	r := &Runtime{
		loop: loop, wiring: w, id: strconv.FormatInt(loop.Now().UnixNano(), 36), execute: o.Execute, faults: o.Faults,
		log: o.Log, stream: o.Stream, functions: map[string]*function{}, queues: map[string]*queue{},
	}
	if r.execute == nil {
		r.execute = executeInline
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	for name := range o.Functions {
		if w.Functions[name] == nil {
			return nil, fmt.Errorf("connecting function %q: the template has no function with that folder", name)
		}
	}
	r.createQueues()
	for _, name := range slices.Sorted(maps.Keys(w.Functions)) {
		if err := r.connectFunction(w.Functions[name], o.Functions[name]); err != nil {
			return nil, err
		}
	}
	if r.stream != nil {
		r.listenToStore()
	}
	return r, nil
}

// listenToStore adds the records that the consumers have not acknowledged, and then every new one.
func (r *Runtime) listenToStore() {
	for _, s := range r.streams {
		s.addRecords(r.stream.PendingRecords(s.function.wiring.Name))
	}
	r.stream.OnRecords(func(records []state.Record) {
		if r.loop.speed == 0 {
			r.runOnLoop(func() { r.addRecords(records) })
			return
		}
		r.committed.add(records)
		r.runOnLoop(r.addCommitted)
	})
}

func (r *Runtime) addRecords(records []state.Record) {
	for _, s := range r.streams {
		s.addRecords(records)
	}
}

// addCommitted gives the records of all commits so far to the consumers.
func (r *Runtime) addCommitted() {
	if records := r.committed.take(); len(records) > 0 {
		r.addRecords(records)
	}
}

// createQueues creates all queues before it connects dead-letter queues, which may be any of them.
func (r *Runtime) createQueues() {
	for name, w := range r.wiring.Queues {
		r.queues[name] = &queue{runtime: r, wiring: w}
	}
	for _, q := range r.queues {
		q.deadLetters = r.queues[q.wiring.DeadLetters]
	}
}

// connectFunction connects a function to its event sources. One without any is not the runtime's to
// call: the API is served over HTTP.
func (r *Runtime) connectFunction(w *FunctionWiring, create func(environment string) Function) error {
	if len(w.Queues)+len(w.Streams)+len(w.Schedules) == 0 {
		return nil
	}
	if create == nil {
		return fmt.Errorf("connecting function %q: it has event sources and no handler", w.Name)
	}
	if len(w.Streams) > 0 && r.stream == nil {
		return fmt.Errorf("connecting function %q: there is no stream to read", w.Name)
	}
	f := &function{runtime: r, wiring: w, create: create}
	f.count.Messages, f.count.Schedules = map[string]int{}, map[string]int{}
	r.functions[w.Name] = f
	for i := range w.Queues {
		newQueueSource(f, &w.Queues[i])
	}
	for i := range w.Streams {
		r.streams = append(r.streams, newStreamSource(f, &w.Streams[i], r.stream))
	}
	for i := range w.Schedules {
		r.schedules = append(r.schedules, &schedule{function: f, wiring: &w.Schedules[i]})
	}
	return nil
}

// expireEvery is how often rows past their time are deleted.
const expireEvery = 5 * time.Minute

// Start begins to deliver. Schedules tick for the first time after one period.
func (r *Runtime) Start() {
	r.running = true
	for _, q := range r.queues {
		if q.source != nil {
			q.source.deliverWhenReady()
		}
	}
	for _, s := range r.streams {
		s.deliverWhenReady()
	}
	for _, s := range r.schedules {
		s.startTicking()
	}
	if r.stream != nil {
		r.scheduleAfter(expireEvery, r.expireStoreRows)
	}
}

func (r *Runtime) expireStoreRows() {
	r.stream.ExpireRows(r.loop.Now())
	r.scheduleAfter(expireEvery, r.expireStoreRows)
}

// Stop ends all deliveries at once, as the death of the process would: results of running
// invocations no longer count. It must be called on the loop, or while the loop does not run.
func (r *Runtime) Stop() { r.running, r.stopped = false, true }

// Queue returns the queue with the name, its logical id in the template. If there is none, sending
// fails.
func (r *Runtime) Queue(name string) Queue { return Queue{queue: r.queues[name], name: name} }

// TickSchedule invokes the function for a schedule now, besides its regular ticks. It is an error
// if the function has no event sources. It may be called from any goroutine.
func (r *Runtime) TickSchedule(function, schedule string) error {
	f := r.functions[function]
	if f == nil {
		return fmt.Errorf("invoking function %q: it has no event sources", function)
	}
	r.runOnLoop(func() { f.runSchedule(tick{name: schedule, at: r.loop.Now()}) })
	return nil
}

// Counters are what the runtime has counted since it was created. Invocations (without those of
// schedules) and QueueRequests are the sums that the cost of a task is computed from.
type Counters struct {
	Functions     map[string]FunctionCounters
	Queues        map[string]QueueCounters
	Events        EventCounters
	Invocations   int
	QueueRequests int
}

// Counters returns a copy of the counters. Like IsIdle and VisibleMessages it must be called on the
// loop, or while the loop does not run.
func (r *Runtime) Counters() Counters {
	c := Counters{Functions: map[string]FunctionCounters{}, Queues: map[string]QueueCounters{}, Events: r.events}
	for name, f := range r.functions {
		count := f.count
		count.Messages, count.Schedules = maps.Clone(count.Messages), maps.Clone(count.Schedules)
		c.Functions[name] = count
		c.Invocations += count.Invocations
		for _, n := range count.Schedules {
			c.Invocations -= n
		}
	}
	for name, q := range r.queues {
		c.Queues[name] = q.count
		c.QueueRequests += q.count.BilledRequests()
	}
	return c
}

// IsIdle reports whether nothing runs and nothing waits to be delivered. Delayed messages, dead
// letters and the ticks to come do not count: a simulation has settled when only time is left.
func (r *Runtime) IsIdle() bool {
	if r.incoming.Load() > 0 {
		return false
	}
	for _, f := range r.functions {
		if f.running > 0 {
			return false
		}
	}
	for _, q := range r.queues {
		if q.source != nil && q.count.Visible+q.count.InFlight > 0 {
			return false
		}
	}
	return !slices.ContainsFunc(r.streams, func(s *streamSource) bool { return len(s.records) > 0 })
}

// VisibleMessages returns the messages that a queue would deliver now: of a dead-letter queue, all
// that it has.
func (r *Runtime) VisibleMessages(name string) []state.Message {
	var out []state.Message
	if q := r.queues[name]; q != nil {
		for _, m := range q.ready {
			out = append(out, state.Message{ID: m.id, Body: m.body, Receives: m.receives})
		}
	}
	return out
}

// DeadLetters returns the queues that no function reads, as far as they have messages: those that a
// function has failed on, or that could not be delivered.
func (r *Runtime) DeadLetters() (out []DeadLetters) {
	for _, name := range slices.Sorted(maps.Keys(r.queues)) {
		if q := r.queues[name]; q.source == nil && len(q.ready) > 0 {
			out = append(out, DeadLetters{Queue: name, Messages: len(q.ready), Since: q.ready[0].queuedAt})
		}
	}
	return out
}

// DeadLetters are the messages of a dead-letter queue, and when the oldest of them came there.
type DeadLetters struct {
	Queue    string
	Messages int
	Since    time.Time
}

const (
	localRegion  = "local"
	localAccount = "000000000000"
)

var _ interface {
	Now() time.Time
	Sleep(ctx context.Context, d time.Duration) error
} = (*Loop)(nil)

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
