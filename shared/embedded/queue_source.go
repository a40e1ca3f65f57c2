package embedded

import (
	"context"
	"errors"

	"berth/shared/state"
)

// gate decides when the next batch of an event source is delivered: when a whole one has gathered,
// or when the batching window since the first message has passed, provided that the source may
// deliver at all. Queues and streams differ only in the functions below.
type gate struct {
	runtime *Runtime
	wiring  *Batching
	waiting func() int  // messages or records that wait
	free    func() bool // whether another batch may be delivered now
	deliver func()

	posted bool   // deliverPosted is on the loop
	over   bool   // the window has passed
	window *Timer // nil if no window has begun
}

// deliverWhenReady delivers a batch if one is due, in a callback of its own, so that one batch is
// one step of the loop. It is called whenever something has changed that may make one due, and may
// be called too often.
func (g *gate) deliverWhenReady() {
	n := g.waiting()
	switch {
	case n == 0 || g.posted || !g.runtime.running:
	case n < g.wiring.BatchSize && !g.over && g.wiring.Window > 0:
		if g.window == nil {
			g.window = g.runtime.loop.After(g.wiring.Window, func() {
				g.window, g.over = nil, true
				g.deliverWhenReady()
			})
		}
	case g.free():
		g.posted = true
		g.runtime.loop.Post(g.deliverPosted)
	}
}

// deliverPosted delivers a batch, unless things have changed since it was posted.
func (g *gate) deliverPosted() {
	g.posted = false
	if !g.runtime.running || g.waiting() == 0 || !g.free() {
		return
	}
	g.over = false
	if g.window != nil {
		g.window.Stop()
		g.window = nil
	}
	g.deliver()
	g.deliverWhenReady()
}

// queueSource delivers a queue's messages to a function, as an event source mapping of Lambda.
type queueSource struct {
	gate
	queue    *queue
	function *function
	wiring   *QueueSource
	running  int
}

// newQueueSource connects a function to a queue, which tells it of every visible message.
func newQueueSource(f *function, w *QueueSource) *queueSource {
	s := &queueSource{queue: f.runtime.queues[w.Queue], function: f, wiring: w}
	s.gate = gate{
		runtime: f.runtime, wiring: &w.Batching, deliver: s.deliverBatch,
		waiting: func() int { return len(s.queue.ready) }, free: func() bool { return s.running < w.Concurrency },
	}
	s.queue.source = s
	return s
}

// deliverBatch receives a batch and invokes the function. After an error of the handler nothing is
// deleted: the messages come back after the visibility time-out.
func (s *queueSource) deliverBatch() {
	d := s.queue.receiveMessages(s.wiring.BatchSize)
	s.running++
	s.function.count.Messages[s.wiring.Queue] += len(d.messages)
	var retry []string
	call := func(ctx context.Context, f Function) error {
		if f.Messages == nil {
			return errors.New("the function handles no messages")
		}
		retry = f.Messages(ctx, d.messages)
		return nil
	}
	s.function.startInvocation(call, func(err error) {
		s.running--
		if err == nil {
			s.settleDelivery(d, retry)
		}
		s.deliverWhenReady()
	})
}

// settleDelivery deletes the messages that were handled. If the function names a message that it
// was not given, all come back, as after an error (Lambda, reporting batch item failures). Without
// ReportBatchItemFailures the whole batch counts as handled.
func (s *queueSource) settleDelivery(d *delivery, retry []string) {
	if !s.wiring.Partial {
		retry = nil
	}
	failed := make(map[string]bool, len(retry))
	for _, id := range retry {
		failed[id] = true
	}
	if countNamedMessages(d.messages, failed) < len(failed) {
		s.function.runtime.log.Error("the function reported messages that were not in its batch",
			"function", s.function.wiring.Name, "queue", s.wiring.Queue)
		return
	}
	d.deleteHandled(func(id string) bool { return failed[id] })
}

// countNamedMessages returns how many of the messages are among the ids.
func countNamedMessages(messages []state.Message, ids map[string]bool) int {
	n := 0
	for _, m := range messages {
		if ids[m.ID] {
			n++
		}
	}
	return n
}
