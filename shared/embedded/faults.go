package embedded

import "time"

// Faults are hooks by which a simulator makes the runtime misbehave as the real services may. A nil
// hook injects nothing. Hooks are called on the loop, so that one seeded source of randomness makes
// a run repeatable. The numbers are those of the simulator's list of faults; crashes (20) and
// time-outs (21) belong to [RuntimeOptions.Execute].
type Faults struct {
	// Send is asked for every message that is put into a queue: message duplicated (1), delayed
	// (3), lost (4).
	Send func(queue string) SendFault
	// Shuffle may reorder the n messages of which a queue's next batch is taken: messages reordered
	// (2).
	Shuffle func(queue string, n int, swap func(i, j int))
	// Split returns how many (1 to n) of the n messages or records of a batch to deliver now; the
	// others follow: batch split (6). The source is the name of the queue, or of the function for a
	// stream.
	Split func(source string, n int) int
	// Redeliver, when true, loses the acknowledgement of one message: message duplicated (1).
	Redeliver func(queue string) bool
	// Stream is asked before every delivery of records: batch duplicated (1), stream stalled (7).
	Stream func(function string) StreamFault
	// Event, when true, drops an event before any rule sees it: event never sent (9), event dropped
	// after retries (10).
	Event func(event []byte) bool
	// Schedule, when true, skips one tick: tick never sent (9).
	Schedule func(function, name string) bool
	// Environment chooses which of the n idle environments (0 to n-1, the one idle longest first)
	// runs the next invocation, or -1 for a new one: cold cache, stale warm cache (23).
	Environment func(function string, n int) int
}

// SendFault is what happens to one message on its way into a queue.
type SendFault struct {
	Drop   bool
	Copies int // more than the one
	Delay  time.Duration
}

// StreamFault is what happens to one delivery of records.
type StreamFault struct {
	Stall time.Duration // before the delivery
	Again bool          // the acknowledgement is lost: after success the same batch is delivered once more
}

func (f *Faults) sendFault(queue string) SendFault {
	if f.Send == nil {
		return SendFault{}
	}
	return f.Send(queue)
}

func (f *Faults) splitBatch(source string, n int) int {
	if f.Split == nil || n < 2 {
		return n
	}
	return min(max(f.Split(source, n), 1), n)
}

func (f *Faults) shouldRedeliver(queue string) bool { return f.Redeliver != nil && f.Redeliver(queue) }

func (f *Faults) streamFault(function string) StreamFault {
	if f.Stream == nil {
		return StreamFault{}
	}
	return f.Stream(function)
}

func (f *Faults) shouldDropEvent(event []byte) bool { return f.Event != nil && f.Event(event) }

func (f *Faults) shouldSkipSchedule(function, name string) bool {
	return f.Schedule != nil && f.Schedule(function, name)
}

// pickEnvironment returns which of n idle environments to use, or -1 for a new one. Without a fault
// it is the one used last, as in Lambda, so that a quiet function keeps one warm environment.
func (f *Faults) pickEnvironment(function string, n int) int {
	if f.Environment == nil || n == 0 {
		return n - 1
	}
	return min(max(f.Environment(function, n), -1), n-1)
}
