package embedded

import (
	"context"
	"errors"
	"slices"
	"time"

	"berth/shared/state"
)

// Stream is the state's stream of changes, as [Store] implements it. Records come in the order in
// which they were committed. A consumer is a function's name.
type Stream interface {
	// OnRecords makes the stream call f, from any goroutine, with the records of each commit in
	// order.
	OnRecords(f func([]state.Record))
	// PendingRecords returns the records that the consumer has not acknowledged, oldest first.
	PendingRecords(consumer string) []state.Record
	// AckRecords records that the consumer needs nothing up to and including the record with the
	// sequence again.
	AckRecords(consumer, sequence string)
	// ExpireRows deletes the rows that have expired by now and returns how many there were.
	ExpireRows(now time.Time) int
}

// How long a failed batch of records waits before it is tried again. The time doubles with each
// try.
const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 10 * time.Second
)

// streamSource delivers the stream to a function as one shard: in order, one batch at a time. A
// batch that fails holds up what comes after it until it is handled or given up (Lambda, DynamoDB
// event source mapping).
type streamSource struct {
	gate
	function *function
	wiring   *StreamSource
	stream   Stream

	records []streamed // not acknowledged, oldest first
	// parts are the batches that the head of records was cut into. What follows them has not been
	// tried yet.
	parts    []part
	inFlight int  // records at the head that are being delivered
	backoff  bool // the shard waits after a failure
	skipped  int  // filtered records since the last acknowledgement
}

// ackEvery is after how many filtered records one is acknowledged by itself. Without it a function
// whose filter matches nothing would keep all records of the file for ever; more often it would
// cost writes.
const ackEvery = 256

// streamed is a record that passed the filter. Its upTo is the sequence of the last record before
// the next one that passed: the filtered ones in between are acknowledged with it.
type streamed struct {
	state.Record
	arrived time.Time
	upTo    string
}

// part is a number of records that are delivered together, and how often they failed.
type part struct {
	n        int
	failures int
	again    bool // handled, and delivered once more because of a fault
}

func newStreamSource(f *function, w *StreamSource, stream Stream) *streamSource {
	s := &streamSource{function: f, wiring: w, stream: stream}
	s.gate = gate{
		runtime: f.runtime, wiring: &w.Batching, deliver: s.deliverPart,
		waiting: func() int { return len(s.records) - s.inFlight },
		free:    func() bool { return s.inFlight == 0 && !s.backoff },
	}
	return s
}

// addRecords adds the records that pass the filter, in order.
func (s *streamSource) addRecords(records []state.Record) {
	now := s.runtime.loop.Now()
	for i := range records {
		r := &records[i]
		if s.wiring.PassesFilters(r) {
			s.records = append(s.records, streamed{*r, now, r.Sequence})
		} else if n := len(s.records); n > 0 {
			s.records[n-1].upTo = r.Sequence
		} else if s.skipped++; s.skipped >= ackEvery {
			s.skipped = 0
			s.stream.AckRecords(s.function.wiring.Name, r.Sequence)
		}
	}
	s.deliverWhenReady()
}

// deliverPart delivers the next batch, now or after a stall. While it stalls its records count as
// in flight, so that nothing overtakes them.
//
// In real time a batch has what is committed by now, not what was when it became due: a decision
// that does not know of a commit loses a race to it. In virtual time records come as late as they
// would from DynamoDB, so that simulations meet such races.
func (s *streamSource) deliverPart() {
	if s.runtime.loop.speed > 0 {
		s.runtime.addCommitted()
	}
	s.discardExpired()
	if len(s.records) == 0 {
		return
	}
	fault := s.runtime.faults.streamFault(s.function.wiring.Name)
	p := s.currentPart()
	s.inFlight = p.n
	s.parts[0].again = fault.Again && !p.again
	if fault.Stall > 0 {
		s.runtime.scheduleAfter(fault.Stall, func() { s.invokeHandler(p.n) })
		return
	}
	s.invokeHandler(p.n)
}

// currentPart returns the next batch: what is left of one that failed, or a new one.
func (s *streamSource) currentPart() part {
	if len(s.parts) == 0 {
		n := min(s.wiring.BatchSize, len(s.records))
		s.parts = append(s.parts, part{n: s.runtime.faults.splitBatch(s.function.wiring.Name, n)})
	}
	return s.parts[0]
}

// invokeHandler delivers the first n records.
func (s *streamSource) invokeHandler(n int) {
	batch := make([]state.Record, n)
	for i := range batch {
		batch[i] = s.records[i].Record
	}
	s.function.count.Records += n
	var from string
	call := func(ctx context.Context, f Function) (err error) {
		if f.Records == nil {
			return errors.New("the function handles no records")
		}
		from, err = f.Records(ctx, batch)
		return err
	}
	s.function.startInvocation(call, func(err error) {
		s.inFlight = 0
		if err != nil {
			s.handleFailure(0)
		} else {
			s.settleInvocation(from)
		}
		s.over = s.over || len(s.parts) > 0 // the rest of a batch does not wait for a full one
		s.deliverWhenReady()
	})
}

// settleInvocation advances past the records that were handled: those before the one that the
// function names. Naming a record that was not in the batch fails the whole batch. Without
// ReportBatchItemFailures all are handled, also those that the function names.
func (s *streamSource) settleInvocation(from string) {
	p := s.parts[0]
	if from == "" || !s.wiring.Partial {
		s.handleSuccess(p)
		return
	}
	s.handleFailure(max(0, slices.IndexFunc(s.records[:p.n], func(r streamed) bool { return r.Sequence == from })))
}

// handleFailure decides how the batch is tried again after its first records were handled. With
// bisecting a batch of 8 that fails becomes two of 4, so that one bad record ends up alone.
func (s *streamSource) handleFailure(handled int) {
	n := s.parts[0].n
	s.advancePosition(handled)
	switch {
	case handled > 0 && s.wiring.Bisect:
		s.parts[0].failures = 0 // cut at the record named, which is no retry
	case handled > 0:
		s.parts[0].failures = 1
	case s.wiring.Bisect && n > 1:
		s.parts = append([]part{{n: n / 2}, {n: n - n/2}}, s.parts[1:]...)
	default:
		s.parts[0].failures++
	}
	if failures := s.parts[0].failures; s.wiring.Retries >= 0 && failures > s.wiring.Retries {
		s.discardRecords(s.parts[0].n, "RetryAttemptsExhausted")
	} else {
		s.backOffShard(failures)
	}
}

// handleSuccess advances, unless a fault has lost the acknowledgement.
func (s *streamSource) handleSuccess(p part) {
	if p.again {
		s.parts[0].failures = 0
		return
	}
	s.advancePosition(p.n)
}

// advancePosition acknowledges and drops the first n records, which lie in the first part.
func (s *streamSource) advancePosition(n int) {
	if n == 0 {
		return
	}
	s.stream.AckRecords(s.function.wiring.Name, s.records[n-1].upTo)
	s.skipped = 0
	clear(s.records[:n])
	s.records = s.records[n:]
	if len(s.parts) == 0 {
		return
	}
	if s.parts[0].n -= n; s.parts[0].n <= 0 {
		s.parts = s.parts[1:]
	}
}

// backOffShard delays the whole shard before the next try, because records must stay in order.
func (s *streamSource) backOffShard(failures int) {
	s.backoff = true
	d := min(firstBackoff<<min(failures, 10), lastBackoff)
	s.runtime.scheduleAfter(d, func() {
		s.backoff = false
		s.deliverWhenReady()
	})
}

// discardExpired gives up the records at the head that are too old, part by part.
func (s *streamSource) discardExpired() {
	if s.wiring.MaxAge == 0 {
		return
	}
	oldest := s.runtime.loop.Now().Add(-s.wiring.MaxAge)
	n := slices.IndexFunc(s.records, func(r streamed) bool { return !r.arrived.Before(oldest) })
	if n < 0 {
		n = len(s.records)
	}
	for n > 0 {
		some := n
		if len(s.parts) > 0 {
			some = min(n, s.parts[0].n)
		}
		s.discardRecords(some, "RecordAgeExceeded")
		n -= some
	}
}
