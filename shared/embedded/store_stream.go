package embedded

import (
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"berth/shared/state"
)

// recordLog is what a durable store keeps of its stream: the records that not every consumer has
// acknowledged. It is guarded by Store.mu.
type recordLog struct {
	kept      bool // there are consumers; it never changes
	records   []state.Record
	consumers map[string]uint64 // the last acknowledged record of each
	moved     bool              // an acknowledgement is not in the file yet
}

// newRecordLog returns a log that keeps records only if there are consumers. New consumers begin
// with the oldest record kept.
func newRecordLog(consumers []string) recordLog {
	s := recordLog{kept: len(consumers) > 0, consumers: map[string]uint64{}}
	for _, name := range consumers {
		s.consumers[name] = 0
	}
	return s
}

func (s *recordLog) appendRecords(records []state.Record) {
	if s.kept {
		s.records = append(s.records, records...)
	}
}

// lowestAcknowledged returns the last record that no consumer needs any more.
func (s *recordLog) lowestAcknowledged() uint64 {
	least := uint64(math.MaxUint64)
	for _, position := range s.consumers {
		least = min(least, position)
	}
	return least
}

// trimAcknowledged drops the records that all consumers have acknowledged.
func (s *recordLog) trimAcknowledged() {
	n := s.countUpTo(s.lowestAcknowledged())
	clear(s.records[:n])
	s.records = s.records[n:]
}

// countUpTo returns how many of the records have a sequence of at most position.
func (s *recordLog) countUpTo(position uint64) int {
	return sort.Search(len(s.records), func(i int) bool { return parseSequence(s.records[i].Sequence) > position })
}

// OnRecords makes the store call f with the stream records of every group of changes, in order,
// once the group is durable and before its writers return. f must be quick, must not write to the
// store, and must not change the records. It is set before the first write.
func (s *Store) OnRecords(f func([]state.Record)) {
	s.committing.Lock()
	defer s.committing.Unlock()
	s.onRecords = f
}

// PendingRecords returns the records that a consumer has not acknowledged, including those of
// before a restart, in order. There are none in an ephemeral store, nor for a consumer that the
// store was not opened with.
func (s *Store) PendingRecords(consumer string) []state.Record {
	s.mu.RLock()
	defer s.mu.RUnlock()
	position, ok := s.stream.consumers[consumer]
	if !ok {
		return nil
	}
	return slices.Clone(s.stream.records[s.stream.countUpTo(position):])
}

// AckRecords records that a consumer needs no record up to sequence any more. It becomes durable
// with the next change or with Close, so that an acknowledgement costs no sync; after a crash some
// records come again. An unknown consumer or sequence changes nothing.
func (s *Store) AckRecords(consumer, sequence string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to := min(parseSequence(sequence), s.sequence)
	if position, ok := s.stream.consumers[consumer]; ok && to > position {
		s.stream.consumers[consumer] = to
		s.stream.moved = true
		s.stream.trimAcknowledged()
	}
}

// sequenceDigits is enough for 64 bits.
const sequenceDigits = 20

// formatSequence pads the number with zeros, so that sequences sort as text.
func formatSequence(n uint64) string {
	digits := strconv.FormatUint(n, 10)
	return strings.Repeat("0", sequenceDigits-len(digits)) + digits
}

// parseSequence returns 0 for what is no sequence.
func parseSequence(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// newRecords returns the group's changes as stream records. sealRows has numbered them.
func (g *commitGroup) newRecords() []state.Record {
	out := make([]state.Record, len(g.changes))
	for i, c := range g.changes {
		n := g.sequence - uint64(len(g.changes)-1-i) //nolint:gosec // not negative
		out[i] = newStreamRecord(n, c)
	}
	return out
}

// newStreamRecord copies the new row, which the store still holds. No other reader has the old one
// any more.
func newStreamRecord(n uint64, c rowChange) state.Record {
	r := state.Record{Sequence: formatSequence(n), Key: c.changedKey(), Old: c.old.rowOrNil(), New: c.new.copyOrNil()}
	switch {
	case c.old == nil:
		r.Op = state.Insert
	case c.new == nil:
		r.Op = state.Remove
	default:
		r.Op = state.Modify
	}
	return r
}
