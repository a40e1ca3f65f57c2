package embedded

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"berth/shared/state"
)

// Limits and prices of SQS (SQS quotas: messages; SQS pricing) and of Lambda's payload.
const (
	maxDelay   = 900 * time.Second
	maxMessage = 1 << 20
	// billedChunk is how many bytes count as one request.
	billedChunk = 64 << 10
	// receiveBatch is how many messages one ReceiveMessage or DeleteMessageBatch handles.
	receiveBatch = 10
	// maxPayload is how many bytes of messages one invocation gets.
	maxPayload = 6 << 20
)

// QueueCounters counts a queue's messages, and the requests that SQS would bill for them. Polls of
// an empty queue are not counted.
type QueueCounters struct {
	Sends     int // requests, by functions
	RuleSends int // requests, by EventBridge
	Receives  int // requests
	Deletes   int // requests

	Messages     int // ever put into the queue
	Delivered    int // deliveries
	Deleted      int
	DeadLettered int
	Delayed      int // now
	Visible      int // now
	InFlight     int // now
}

// BilledRequests returns how many requests SQS would bill.
func (c QueueCounters) BilledRequests() int { return c.Sends + c.RuleSends + c.Receives + c.Deletes }

// Queue sends to one standard queue in memory. It may be used from any goroutine.
type Queue struct {
	queue *queue // nil where the template has none
	name  string
}

// Send puts a message into the queue, to be delivered after the delay, or after the queue's own if
// it is 0. It is an error if the delay is above 900 s, the body is empty or above 1 MiB, or the
// template has no such queue.
func (q Queue) Send(_ context.Context, body []byte, delay time.Duration) error {
	switch {
	case q.queue == nil:
		return fmt.Errorf("sending to queue %q: the template has no such queue", q.name)
	case delay < 0 || delay > maxDelay:
		return fmt.Errorf("sending to queue %s: the delay %s must be from 0 to %s", q.name, delay, maxDelay)
	case len(body) == 0 || len(body) > maxMessage:
		return fmt.Errorf("sending to queue %s: the message has %d bytes, and must have 1 to %d", q.name, len(body),
			maxMessage)
	}
	q.queue.runtime.runOnLoop(func() {
		q.queue.count.Sends += billedRequests(len(body))
		q.queue.sendMessage(body, delay)
	})
	return nil
}

// queue is a standard queue: at least once, in no promised order.
type queue struct {
	runtime     *Runtime
	wiring      *QueueWiring
	deadLetters *queue       // nil if the queue has none
	source      *queueSource // nil if no function reads it
	ready       []*message   // visible, in order of arrival
	count       QueueCounters
	next        int // the number of the last message
}

// message is one message, in whichever queue it is.
type message struct {
	id       string
	body     []byte
	receives int
	inFlight bool
	queuedAt time.Time // when it came into the queue that has it
}

// sendMessage enqueues a message that the queue has accepted, as often and as late as the faults
// say.
func (q *queue) sendMessage(body []byte, delay time.Duration) {
	fault := q.runtime.faults.sendFault(q.wiring.Name)
	if fault.Drop {
		return
	}
	if delay == 0 {
		delay = q.wiring.Delay
	}
	for range 1 + fault.Copies {
		q.next++
		q.enqueueMessage(&message{id: q.wiring.Name + "-" + strconv.Itoa(q.next), body: body}, delay+fault.Delay)
	}
}

// enqueueMessage puts a message into the queue: one that was sent, or one that another queue gave
// up.
func (q *queue) enqueueMessage(m *message, delay time.Duration) {
	q.count.Messages++
	m.queuedAt = q.runtime.loop.Now()
	if delay <= 0 {
		q.makeVisible(m)
		return
	}
	q.count.Delayed++
	q.runtime.scheduleAfter(delay, func() {
		q.count.Delayed--
		q.makeVisible(m)
	})
}

// makeVisible makes a message visible, and lets the queue's function see whether a batch is due.
func (q *queue) makeVisible(m *message) {
	q.count.Visible++
	q.ready = append(q.ready, m)
	if q.source != nil {
		q.source.deliverWhenReady()
	}
}

// delivery is a batch of messages received together. They are invisible to others until the
// visibility time-out. A message that is received again meanwhile belongs to the newer delivery.
type delivery struct {
	queue    *queue
	taken    []*message
	messages []state.Message // the same, as the function gets them
	open     int             // neither deleted nor visible again
	timer    *Timer
}

// receiveMessages takes up to n visible messages, fewer if they are too large for one invocation.
func (q *queue) receiveMessages(n int) *delivery {
	faults := &q.runtime.faults
	if faults.Shuffle != nil {
		faults.Shuffle(q.wiring.Name, len(q.ready), func(i, j int) { q.ready[i], q.ready[j] = q.ready[j], q.ready[i] })
	}
	d := &delivery{queue: q}
	bytes := 0
	for _, m := range q.ready[:faults.splitBatch(q.wiring.Name, min(n, len(q.ready)))] {
		if bytes += len(m.body); bytes > maxPayload && d.open > 0 {
			break
		}
		m.receives++
		m.inFlight = true
		d.open++
		d.taken = append(d.taken, m)
		d.messages = append(d.messages, state.Message{ID: m.id, Body: m.body, Receives: m.receives})
	}
	clear(q.ready[:d.open])
	q.ready = q.ready[d.open:]
	d.timer = q.runtime.scheduleAfter(q.wiring.Visibility, d.returnUnhandled)
	d.countRequests()
	return d
}

// countRequests counts the receive: ten messages a request, or 64 KiB.
func (d *delivery) countRequests() {
	c := &d.queue.count
	c.Visible -= d.open
	c.InFlight += d.open
	c.Delivered += d.open
	for i := 0; i < d.open; i += receiveBatch {
		bytes := 0
		for _, m := range d.taken[i:min(i+receiveBatch, d.open)] {
			bytes += len(m.body)
		}
		c.Receives += billedRequests(bytes)
	}
}

// deleteHandled deletes the messages for which keep is false. A message that has become visible
// again meanwhile stays, because its receipt handle is no longer valid.
func (d *delivery) deleteHandled(keep func(id string) bool) {
	deleted := 0
	for i, m := range d.taken {
		if keep(m.id) {
			continue
		}
		deleted++
		if !d.isStillInFlight(i) || d.queue.runtime.faults.shouldRedeliver(d.queue.wiring.Name) {
			continue
		}
		m.inFlight = false
		d.open--
		d.queue.count.Deleted++
		d.queue.count.InFlight--
	}
	d.queue.count.Deletes += (deleted + receiveBatch - 1) / receiveBatch
	if d.open == 0 {
		d.timer.Stop()
	}
}

// isStillInFlight reports whether the i-th message is still invisible because of this delivery.
// Each receive counts up, so that a later delivery of the same message differs.
func (d *delivery) isStillInFlight(i int) bool {
	return d.taken[i].inFlight && d.taken[i].receives == d.messages[i].Receives
}

// returnUnhandled runs at the visibility time-out. It makes the messages that were not deleted
// visible again, or moves them to the dead-letter queue after their last receive. SQS moves them at
// the next receive, which comes at once here.
func (d *delivery) returnUnhandled() {
	q := d.queue
	for i, m := range d.taken {
		if !d.isStillInFlight(i) {
			continue
		}
		m.inFlight = false
		d.open--
		q.count.InFlight--
		if q.deadLetters != nil && m.receives >= q.wiring.MaxReceives {
			q.count.DeadLettered++
			q.deadLetters.enqueueMessage(m, 0)
			continue
		}
		q.makeVisible(m)
	}
}

// billedRequests returns how many requests one of so many bytes is billed as. Example: 65 KiB are
// 2.
func billedRequests(bytes int) int { return max(1, (bytes+billedChunk-1)/billedChunk) }
